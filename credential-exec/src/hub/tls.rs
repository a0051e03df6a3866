//! Whom we trust: rustls with the trust rules that kubectl's users know. webpki decides first; a
//! server certificate that is itself configured as an anchor is accepted as Go accepts it, after
//! the same name, validity and purpose checks. The handshake's signature is verified always.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::kubeconfig::Cluster;
use crate::error::{Error, Kind, Result};

/// Whom a server's certificate must come from.
#[derive(Clone)]
pub enum Anchors {
    /// The roots of this machine.
    System,
    /// These certificates alone: authorities, or the server's own.
    Bundle(Vec<CertificateDer<'static>>),
    /// Anybody: `insecure-skip-tls-verify`.
    Unverified,
}

impl Anchors {
    /// What a kubeconfig's cluster entry asks for.
    pub fn of(cluster: &Cluster) -> Result<Self> {
        if cluster.insecure_skip_tls_verify {
            return Ok(Self::Unverified);
        }
        match cluster.ca_bundle()? {
            Some(pem) => Self::from_pem(&pem),
            None => Ok(Self::System),
        }
    }

    /// The certificates of a PEM bundle. Undecodable ones are skipped as Go does; none left is
    /// an error.
    pub fn from_pem(pem: &[u8]) -> Result<Self> {
        let usable: Vec<_> = CertificateDer::pem_slice_iter(pem)
            .filter_map(|section| section.ok())
            .filter(|der| X509Certificate::from_der(der).is_ok())
            .collect();
        if usable.is_empty() {
            return Err(Error::new(Kind::Usage, "the certificate authority holds no usable PEM certificate"));
        }
        Ok(Self::Bundle(usable))
    }
}

/// A client certificate with its key. Cannot be printed.
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

impl ClientCertificate {
    /// Reads a chain and its key from PEM.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self> {
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(chain).filter_map(|section| section.ok()).collect();
        if chain.is_empty() {
            return Err(Error::new(Kind::Usage, "the client certificate holds no PEM certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| Error::new(Kind::Usage, "the client key holds no unencrypted PEM private key"))?;
        Ok(Self { chain, key })
    }
}

/// A TLS configuration that trusts these anchors and shows this certificate.
pub fn config(anchors: &Anchors, client: Option<ClientCertificate>) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match anchors {
        Anchors::System => {
            Arc::new(Verifier::new(rustls_native_certs::load_native_certs().certs, &provider)?)
        }
        Anchors::Bundle(certificates) => Arc::new(Verifier::new(certificates.clone(), &provider)?),
        Anchors::Unverified => Arc::new(AcceptAny(provider.clone())),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Kind::Failed, format!("TLS cannot be set up: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match client {
        None => Ok(builder.with_no_client_auth()),
        Some(ClientCertificate { chain, key }) => builder.with_client_auth_cert(chain, key).map_err(|error| {
            let cause = match error {
                rustls::Error::InconsistentKeys(_) => "the client certificate and the client key do not belong together",
                _ => "the client certificate's key is of a kind that is not supported (RSA, P-256, P-384 and Ed25519 are)",
            };
            Error::new(Kind::Usage, cause)
        }),
    }
}

#[derive(Debug)]
struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    anchors: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(anchors: Vec<CertificateDer<'static>>, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(anchors.iter().cloned());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|_| {
            Error::new(Kind::Usage, "there is no certificate authority to trust").remedy(
                "give the cluster entry a certificate-authority, or install this machine's root certificates",
            )
        })?;
        Ok(Self { webpki, anchors })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.webpki.verify_server_cert(leaf, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(error))
                if concerns_the_issuer(&error) && self.anchors.contains(leaf) =>
            {
                verify_anchor_itself(leaf, name, now)
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Whether webpki's objection says nothing about a certificate that is trusted as it stands:
/// it found no issuer, could not check the issuer's signature, or met an authority as a leaf
/// (which rustls reports as `Other`).
fn concerns_the_issuer(error: &CertificateError) -> bool {
    matches!(
        error,
        CertificateError::UnknownIssuer
            | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
            | CertificateError::Other(_)
    )
}

fn verify_anchor_itself(
    leaf: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, rustls::Error> {
    rustls::client::verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let validity = certificate.validity();
    let seconds = i64::try_from(now.as_secs()).map_err(|_| CertificateError::Expired)?;
    if seconds < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if seconds > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    let purposes = certificate.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    if purposes.is_some_and(|purposes| !purposes.value.any && !purposes.value.server_auth) {
        return Err(CertificateError::InvalidPurpose.into());
    }
    Ok(ServerCertVerified::assertion())
}

/// The verifier of `insecure-skip-tls-verify`.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            leaf,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            leaf,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a server's certificate was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateFailure {
    /// Its time is over, or an authority's above it.
    Expired,
    /// Its time has not come; or this machine's clock is wrong.
    NotYetValid,
    /// It belongs to another name.
    WrongName,
    /// Nobody we trust signed it: another server, or the certificate changed.
    UnknownIssuer,
    /// It must not be used by a server.
    WrongPurpose,
    /// It uses cryptography that is not supported, such as P-521.
    Unsupported,
    /// It cannot be used for another reason.
    Other,
}

/// What a TLS error says about the server's certificate, if it is about that.
pub fn certificate_failure(error: &rustls::Error) -> Option<CertificateFailure> {
    use CertificateFailure as F;
    let rustls::Error::InvalidCertificate(error) = error else { return None };
    Some(match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => F::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => F::NotYetValid,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => F::WrongName,
        CertificateError::UnknownIssuer | CertificateError::BadSignature => F::UnknownIssuer,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => F::WrongPurpose,
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => F::Unsupported,
        _ => F::Other,
    })
}

/// A TLS failure towards `server` in words.
pub(super) fn explain(error: &rustls::Error, server: &str, ca_given: bool) -> Error {
    use CertificateFailure as F;
    let of = format!("the certificate of {server}");
    let (cause, remedy) = match certificate_failure(error) {
        Some(F::Expired) => (format!("{of} has expired"), "it must be renewed there"),
        Some(F::NotYetValid) => (format!("{of} is not valid yet"), "check this machine's clock"),
        Some(F::WrongName) => {
            (format!("{of} is not valid for that name{}", names(error)), "check server and tls-server-name")
        }
        Some(F::UnknownIssuer) if ca_given => (
            format!("{of} is not signed by the CA given"),
            "the certificate changed, or another server answers: renew the certificate-authority of that cluster entry",
        ),
        Some(F::UnknownIssuer) => (
            format!("{of} is not signed by a CA that this machine trusts"),
            "set the certificate-authority of that cluster entry",
        ),
        Some(F::WrongPurpose) => {
            (format!("{of} is not meant for a server"), "its extended key usage must allow serverAuth")
        }
        Some(F::Unsupported) => (
            format!(
                "{of} is signed with an algorithm that is not supported (P-521, SHA-1 or an RSA key that is too short)"
            ),
            "use RSA, P-256, P-384 or Ed25519 there",
        ),
        Some(F::Other) => (format!("{of} cannot be used: {error}"), ""),
        None => match error {
            rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure) => (
                format!("{server} and this program share no TLS algorithm (a P-521 key there is one reason)"),
                "use RSA, P-256, P-384 or Ed25519 there",
            ),
            rustls::Error::AlertReceived(alert) => (
                format!("{server} refused the TLS connection: {alert:?}"),
                "check the hub user's client certificate",
            ),
            rustls::Error::InvalidMessage(_) => {
                (format!("{server} does not speak TLS"), "check the port of the server")
            }
            _ => (format!("no TLS connection to {server}: {error}"), ""),
        },
    };
    Error::new(Kind::Unreachable, cause).remedy(remedy)
}

fn names(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })
            if !presented.is_empty() =>
        {
            format!(", but for {}", presented.join(", "))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};

    use super::super::client::{Client, Options};
    use super::super::testing::{Chain, authority, hub, leaf, ok, pem, self_signed, serve, server_params};
    use super::*;
    use crate::env::Env;

    async fn dial(chain: &Chain, trusted: &[&CertificateDer<'static>], host: &str) -> Result<()> {
        let server = serve(chain, ok).await;
        let hub = hub(format!("https://{host}:{}", server.port), Some(&pem(trusted.iter().copied())));
        let client = Client::connect(&hub, &Env::of([("X", "")]), Options::default()).await?;
        client.get("/version", None).await.map(drop)
    }

    async fn refusal(chain: &Chain, trusted: &[&CertificateDer<'static>], host: &str) -> String {
        dial(chain, trusted, host).await.unwrap_err().cause
    }

    fn params() -> CertificateParams {
        server_params(&["localhost", "127.0.0.1"])
    }

    fn self_issued(is_ca: IsCa) -> CertificateParams {
        let mut params = params();
        params.is_ca = is_ca;
        params
    }

    #[tokio::test]
    async fn every_shape_in_which_a_server_publishes_its_own_certificate_is_accepted() {
        let signer = authority();
        for host in ["localhost", "127.0.0.1"] {
            let alone = leaf(params(), &signer);
            dial(&alone, &[signer.der()], host).await.expect("proper chain");
            dial(&alone, &[&alone.certificates[0], signer.der()], host)
                .await
                .expect("leaf followed by its signer");
            dial(&alone, &[&alone.certificates[0]], host).await.expect("lone leaf of a private CA");
            let mut full = leaf(params(), &signer);
            full.certificates.push(signer.der().clone());
            dial(&full, &[&full.certificates[0]], host).await.expect("lone leaf, server sends the chain");
            for is_ca in [IsCa::Ca(BasicConstraints::Unconstrained), IsCa::ExplicitNoCa, IsCa::NoCa] {
                let own = self_signed(self_issued(is_ca));
                dial(&own, &[&own.certificates[0]], host)
                    .await
                    .unwrap_or_else(|e| panic!("self-signed {is_ca:?}: {e}"));
            }
        }
    }

    #[tokio::test]
    async fn a_renewed_leaf_of_the_same_signer_stays_accepted() {
        let signer = authority();
        let (old, new) = (leaf(params(), &signer), leaf(params(), &signer));
        dial(&new, &[&old.certificates[0], signer.der()], "localhost").await.unwrap();
        let cause = refusal(&new, &[&old.certificates[0]], "localhost").await;
        assert!(cause.contains("is not signed by the CA given"), "{cause}");
    }

    #[tokio::test]
    async fn another_certificate_of_the_same_name_is_refused() {
        let signer = authority();
        let real = leaf(params(), &signer);
        for forged in [
            leaf(params(), &authority()),
            self_signed(params()),
            self_signed(self_issued(IsCa::Ca(BasicConstraints::Unconstrained))),
        ] {
            for trusted in
                [vec![signer.der()], vec![&real.certificates[0], signer.der()], vec![&real.certificates[0]]]
            {
                dial(&forged, &trusted, "localhost").await.unwrap_err();
            }
        }
    }

    #[tokio::test]
    async fn a_stolen_certificate_without_its_key_is_refused() {
        let own = self_signed(self_issued(IsCa::Ca(BasicConstraints::Unconstrained)));
        let stolen = Chain { certificates: own.certificates.clone(), key: KeyPair::generate().unwrap() };
        let cause = refusal(&stolen, &[&own.certificates[0]], "localhost").await;
        assert!(cause.starts_with("the certificate of"), "{cause}");
    }

    #[tokio::test]
    async fn an_expired_a_future_and_a_client_certificate_are_refused_even_as_their_own_anchor() {
        let signer = authority();
        let shapes: [fn(CertificateParams) -> CertificateParams; 3] = [
            |mut p| {
                (p.not_before, p.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
                p
            },
            |mut p| {
                (p.not_before, p.not_after) = (date_time_ymd(2100, 1, 1), date_time_ymd(2101, 1, 1));
                p
            },
            |mut p| {
                p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                p
            },
        ];
        for (shape, said) in
            shapes.into_iter().zip(["has expired", "not valid yet", "not meant for a server"])
        {
            let mut chains = vec![leaf(shape(params()), &signer)];
            for is_ca in [IsCa::Ca(BasicConstraints::Unconstrained), IsCa::ExplicitNoCa] {
                chains.push(self_signed(shape(self_issued(is_ca))));
            }
            for chain in chains {
                for trusted in [vec![&chain.certificates[0]], vec![&chain.certificates[0], signer.der()]] {
                    let cause = refusal(&chain, &trusted, "localhost").await;
                    assert!(cause.contains(said), "{cause}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_wrong_host_or_address_is_refused_even_as_its_own_anchor() {
        let signer = authority();
        for (names, host) in
            [(["example.test", "127.0.0.2"], "localhost"), (["localhost", "127.0.0.2"], "127.0.0.1")]
        {
            let mut own = server_params(&names);
            own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            for chain in [leaf(server_params(&names), &signer), self_signed(own)] {
                let cause = refusal(&chain, &[&chain.certificates[0], signer.der()], host).await;
                assert!(cause.contains("not valid for that name"), "{cause}");
            }
        }
    }

    #[tokio::test]
    async fn tls_server_name_is_the_name_that_is_verified() {
        let signer = authority();
        let chain = leaf(server_params(&["cluster-proxy-addon-user.open-cluster-management-addon"]), &signer);
        let server = serve(&chain, ok).await;
        let mut hub = hub(format!("https://127.0.0.1:{}", server.port), Some(&pem([signer.der()])));
        let env = Env::of([("X", "")]);
        let client = Client::connect(&hub, &env, Options::default()).await.unwrap();
        client.get("/", None).await.unwrap_err();
        hub.cluster.tls_server_name =
            Some("cluster-proxy-addon-user.open-cluster-management-addon".to_owned());
        let client = Client::connect(&hub, &env, Options::default()).await.unwrap();
        client.get("/", None).await.unwrap();
    }

    #[tokio::test]
    async fn only_a_hub_that_says_so_is_not_verified() {
        let chain = self_signed(server_params(&["example.test"]));
        let server = serve(&chain, ok).await;
        let mut hub = hub(format!("https://127.0.0.1:{}", server.port), None);
        hub.cluster.insecure_skip_tls_verify = true;
        let client = Client::connect(&hub, &Env::of([("X", "")]), Options::default()).await.unwrap();
        client.get("/", None).await.unwrap();
    }

    #[test]
    fn undecodable_certificates_of_a_bundle_are_skipped_unless_none_is_left() {
        let signer = authority();
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let Ok(Anchors::Bundle(kept)) =
            Anchors::from_pem(format!("{junk}text\n{}{junk}", pem([signer.der()])).as_bytes())
        else {
            panic!("no bundle");
        };
        assert_eq!(kept, [signer.der().clone()]);
        for unusable in ["", "not pem", junk] {
            assert!(Anchors::from_pem(unusable.as_bytes()).is_err(), "{unusable:?}");
        }
    }

    #[test]
    fn a_handshake_without_a_common_algorithm_names_p_521() {
        let error = rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure);
        assert!(explain(&error, "https://hub", true).cause.contains("P-521"));
    }

    #[test]
    fn a_client_certificate_and_a_foreign_key_do_not_belong_together() {
        let (one, other) = (self_signed(params()), self_signed(params()));
        let chain = pem(&one.certificates);
        let pair =
            ClientCertificate::from_pem(chain.as_bytes(), other.key.serialize_pem().as_bytes()).unwrap();
        let error = config(&Anchors::Unverified, Some(pair)).unwrap_err();
        assert!(error.cause.contains("do not belong together"), "{error}");
        let pair = ClientCertificate::from_pem(chain.as_bytes(), one.key.serialize_pem().as_bytes()).unwrap();
        config(&Anchors::Unverified, Some(pair)).unwrap();
    }
}
