//! The keys of one control plane: its authority, its servers, its kubelets, its clients, its accounts.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// All PEM.
pub(super) struct Certificates {
    pub(super) ca_pem: String,
    pub(super) server_pem: String,
    pub(super) server_key_pem: String,
    /// What the API server shows to the API servers behind it.
    pub(super) front_proxy_pem: String,
    pub(super) front_proxy_key_pem: String,
    pub(super) kubelet_pem: String,
    pub(super) kubelet_key_pem: String,
    pub(super) admin_pem: String,
    pub(super) admin_key_pem: String,
    pub(super) accounts_public_pem: String,
    pub(super) accounts_key_pem: String,
    /// Something that no other control plane has.
    pub(super) serial: String,
    ca: CertifiedIssuer<'static, KeyPair>,
}

/// The name that the front proxy's certificate bears.
pub(super) const FRONT_PROXY: &str = "front-proxy";

impl Certificates {
    pub(super) fn new(name: &str) -> Self {
        let mut params = named(&[], &format!("{name} authority"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, key()).expect("a certificate authority");

        let (server, server_key) = server(&["127.0.0.1", "localhost", "kubernetes.default.svc"], &ca);
        let (kubelet, kubelet_key) = self::server(&["127.0.0.1"], &ca);
        let (admin, admin_key) = signed(client("admin", Some("system:masters")), &ca);
        let (front_proxy, front_proxy_key) = signed(client(FRONT_PROXY, None), &ca);
        let accounts = key();
        Self {
            ca_pem: ca.pem(),
            server_pem: server.pem(),
            server_key_pem: server_key.serialize_pem(),
            front_proxy_pem: front_proxy.pem(),
            front_proxy_key_pem: front_proxy_key.serialize_pem(),
            kubelet_pem: kubelet.pem(),
            kubelet_key_pem: kubelet_key.serialize_pem(),
            admin_pem: admin.pem(),
            admin_key_pem: admin_key.serialize_pem(),
            accounts_public_pem: accounts.public_key_pem(),
            serial: accounts.public_key_raw()[1..13].iter().map(|byte| format!("{byte:02x}")).collect(),
            accounts_key_pem: accounts.serialize_pem(),
            ca,
        }
    }

    /// A certificate for a server of these hosts, and its key.
    pub(super) fn server(&self, hosts: &[&str]) -> (String, String) {
        let (certificate, key) = server(hosts, &self.ca);
        (certificate.pem(), key.serialize_pem())
    }

    /// A certificate for a client, and its key; `ended` is the day on which it ended, where it is no longer good.
    pub(super) fn client(
        &self,
        user: &str,
        group: Option<&str>,
        ended: Option<(i32, u8, u8)>,
    ) -> (String, String) {
        let mut params = client(user, group);
        if let Some((year, month, day)) = ended {
            params.not_before = date_time_ymd(year - 1, month, day);
            params.not_after = date_time_ymd(year, month, day);
        }
        let (certificate, key) = signed(params, &self.ca);
        (certificate.pem(), key.serialize_pem())
    }
}

fn server(hosts: &[&str], ca: &CertifiedIssuer<'_, KeyPair>) -> (Certificate, KeyPair) {
    let mut params = named(hosts, hosts[0]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    signed(params, ca)
}

fn client(user: &str, group: Option<&str>) -> CertificateParams {
    let mut params = named(&[], user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn named(hosts: &[&str], name: &str) -> CertificateParams {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("hosts");
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params
}

fn signed(params: CertificateParams, ca: &CertifiedIssuer<'_, KeyPair>) -> (Certificate, KeyPair) {
    let key = key();
    (params.signed_by(&key, ca).expect("a signature"), key)
}
