//! The keys of one control plane: its authority, its server, its kubelets, its administrator, its accounts.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// All PEM.
pub(super) struct Certificates {
    pub(super) ca_pem: String,
    pub(super) server_pem: String,
    pub(super) server_key_pem: String,
    pub(super) kubelet_pem: String,
    pub(super) kubelet_key_pem: String,
    pub(super) admin_pem: String,
    pub(super) admin_key_pem: String,
    pub(super) accounts_public_pem: String,
    pub(super) accounts_key_pem: String,
    /// Something that no other control plane has.
    pub(super) serial: String,
}

impl Certificates {
    pub(super) fn new(name: &str) -> Self {
        let mut params = named(&[], &format!("{name} authority"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, key()).expect("a certificate authority");

        let mut server = named(&["127.0.0.1", "localhost", "kubernetes.default.svc"], "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (server, server_key) = signed(server, &ca);

        let mut kubelet = named(&["127.0.0.1"], "kubelet");
        kubelet.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (kubelet, kubelet_key) = signed(kubelet, &ca);

        let mut admin = named(&[], "admin");
        admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (admin, admin_key) = signed(admin, &ca);

        let accounts = key();
        Self {
            ca_pem: ca.pem(),
            server_pem: server.pem(),
            server_key_pem: server_key.serialize_pem(),
            kubelet_pem: kubelet.pem(),
            kubelet_key_pem: kubelet_key.serialize_pem(),
            admin_pem: admin.pem(),
            admin_key_pem: admin_key.serialize_pem(),
            accounts_public_pem: accounts.public_key_pem(),
            serial: accounts.public_key_raw()[1..13].iter().map(|byte| format!("{byte:02x}")).collect(),
            accounts_key_pem: accounts.serialize_pem(),
        }
    }
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
