//! Server and client certificates in the shapes that OCM and its administrators publish.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// How the published CA relates to the certificate that the server shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertShape {
    /// OCM's default: the leaf followed by its signer, both published and both shown.
    #[default]
    LeafAndSigner,
    /// The leaf of a private CA; only the leaf is published.
    LoneLeaf,
    /// One self-signed certificate with CA:TRUE, used as leaf and as CA.
    SelfSignedCaTrue,
    /// One self-signed certificate with CA:FALSE.
    SelfSignedLeaf,
    /// The CA is published, the leaf is shown.
    ProperCa,
}

/// What a certificate is made from.
#[derive(Clone, Debug)]
pub struct CertSpec {
    /// Its shape.
    pub shape: CertShape,
    /// Names and addresses that it is good for.
    pub names: Vec<String>,
    /// Whether it ended yesterday.
    pub expired: bool,
    /// Whether it is good for clients only.
    pub client_only: bool,
}

impl Default for CertSpec {
    /// A valid one for the loopback and for the host that OCM publishes.
    fn default() -> Self {
        let service = "cluster-proxy-addon-user.open-cluster-management-addon";
        let names = ["127.0.0.1", "localhost", service, &format!("{service}.svc")];
        Self {
            shape: CertShape::default(),
            names: names.map(str::to_owned).into(),
            expired: false,
            client_only: false,
        }
    }
}

impl From<CertShape> for CertSpec {
    fn from(shape: CertShape) -> Self {
        Self { shape, ..Self::default() }
    }
}

/// A certificate with its key, its signer and what is published for it.
#[derive(Clone)]
pub struct Identity {
    spec: CertSpec,
    signer: Option<Signer>,
    chain: Vec<CertificateDer<'static>>,
    key_pem: String,
    leaf_pem: String,
    ca_pem: String,
}

impl Identity {
    /// A new certificate under a new signer.
    pub fn new(spec: impl Into<CertSpec>) -> Self {
        let spec = spec.into();
        let signed = !matches!(spec.shape, CertShape::SelfSignedCaTrue | CertShape::SelfSignedLeaf);
        Self::issue(spec, signed.then(|| Signer::new("fleet signer")))
    }

    /// The leaf renewed under the same signer (self-signed ones: a new one).
    pub fn renewed(&self) -> Self {
        Self::issue(self.spec.clone(), self.signer.clone())
    }

    /// The bundle to publish as CA, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The certificate that is shown, PEM.
    pub fn leaf_pem(&self) -> &str {
        &self.leaf_pem
    }

    /// The certificates that are shown: the leaf, and its signer where that is shown too. PEM.
    pub fn chain_pem(&self) -> &str {
        if self.chain.len() > 1 { &self.ca_pem } else { &self.leaf_pem }
    }

    /// The private key, PEM.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    pub(crate) fn certified_key(&self) -> CertifiedKey {
        let key = KeyPair::from_pem(&self.key_pem).expect("a key of ours");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("PKCS#8");
        let key = rustls::crypto::ring::sign::any_supported_type(&key).expect("ECDSA");
        CertifiedKey::new(self.chain.clone(), key)
    }

    fn issue(spec: CertSpec, signer: Option<Signer>) -> Self {
        let key = KeyPair::generate().expect("P-256");
        let mut params = params("fleet server", &spec.names, spec.expired, 180);
        params.extended_key_usages = vec![if spec.client_only {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        params.is_ca = match spec.shape {
            CertShape::SelfSignedCaTrue => IsCa::Ca(BasicConstraints::Unconstrained),
            _ => IsCa::ExplicitNoCa,
        };
        let leaf = match &signer {
            Some(signer) => params.signed_by(&key, &signer.issuer()),
            None => params.self_signed(&key),
        }
        .expect("a certificate");
        let mut chain = vec![leaf.der().clone()];
        let ca_pem = match (spec.shape, &signer) {
            (CertShape::ProperCa, Some(signer)) => signer.pem.clone(),
            (CertShape::LeafAndSigner, Some(signer)) => {
                chain.push(signer.der.clone());
                format!("{}{}", leaf.pem(), signer.pem)
            }
            _ => leaf.pem(),
        };
        Self { spec, signer, chain, key_pem: key.serialize_pem(), leaf_pem: leaf.pem(), ca_pem }
    }
}

/// A certificate authority.
#[derive(Clone)]
pub(crate) struct Signer {
    name: &'static str,
    key_pem: String,
    pem: String,
    pub(crate) der: CertificateDer<'static>,
}

impl Signer {
    pub(crate) fn new(name: &'static str) -> Self {
        let key = KeyPair::generate().expect("P-256");
        let ca = Self::params(name).self_signed(&key).expect("a certificate");
        Self { name, key_pem: key.serialize_pem(), pem: ca.pem(), der: ca.der().clone() }
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = params(name, &[], false, 3650);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params
    }

    fn issuer(&self) -> Issuer<'static, KeyPair> {
        Issuer::new(Self::params(self.name), KeyPair::from_pem(&self.key_pem).expect("a key of ours"))
    }

    /// A client certificate and its key.
    pub(crate) fn client(&self, user: &str) -> ClientCertificate {
        let key = KeyPair::generate().expect("P-256");
        let mut params = params(user, &[], false, 180);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = params.signed_by(&key, &self.issuer()).expect("a certificate");
        ClientCertificate { cert_pem: leaf.pem(), key_pem: key.serialize_pem(), der: leaf.der().clone() }
    }
}

/// A certificate with which a user signs in at the hub.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate, PEM.
    pub cert_pem: String,
    /// Its key, PEM.
    pub key_pem: String,
    pub(crate) der: CertificateDer<'static>,
}

fn params(name: &str, names: &[String], expired: bool, days: u64) -> CertificateParams {
    let day = |n: u64| Duration::from_secs(n * 24 * 3600);
    let now = Duration::from_secs(jiff::Timestamp::now().as_second().unsigned_abs());
    let (from, until) =
        if expired { (now - day(days + 1), now - day(1)) } else { (now - day(1), now + day(days)) };
    let mut params = CertificateParams::new(names).expect("plain names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(1970, 1, 1) + from;
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + until;
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_publishes_what_its_name_says() {
        let count = |shape: CertShape| {
            let identity = Identity::new(shape);
            (
                identity.ca_pem().matches("BEGIN CERTIFICATE").count(),
                identity.ca_pem().contains(identity.leaf_pem()),
            )
        };
        assert_eq!(count(CertShape::LeafAndSigner), (2, true));
        assert_eq!(count(CertShape::LoneLeaf), (1, true));
        assert_eq!(count(CertShape::SelfSignedCaTrue), (1, true));
        assert_eq!(count(CertShape::SelfSignedLeaf), (1, true));
        assert_eq!(count(CertShape::ProperCa), (1, false));
    }

    #[test]
    fn a_renewed_leaf_keeps_its_signer() {
        let old = Identity::new(CertShape::ProperCa);
        let new = old.renewed();
        assert_eq!(old.ca_pem(), new.ca_pem());
        assert_ne!(old.leaf_pem(), new.leaf_pem());
    }
}
