//! A loopback server for this module's tests: TLS or plain, canned answers, a request log.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::kubeconfig::{Cluster, Hub, User};

/// What a connection is answered: bytes, chosen by the request's head and its number from 0.
pub type Answers = fn(head: &str, number: usize) -> Vec<u8>;

/// A running server; stops when dropped.
pub struct Server {
    pub port: u16,
    log: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// The heads of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// A certificate chain with the leaf's key.
pub struct Chain {
    pub certificates: Vec<CertificateDer<'static>>,
    pub key: KeyPair,
}

/// Serves TLS with this chain, even with a key that is not the leaf's.
pub async fn serve(chain: &Chain, answers: Answers) -> Server {
    let key = PrivateKeyDer::try_from(chain.key.serialize_der()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let pair = rustls::sign::CertifiedKey::new(chain.certificates.clone(), key);
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(pair)));
    start(Some(tokio_rustls::TlsAcceptor::from(Arc::new(config))), answers).await
}

/// Serves without TLS.
pub async fn serve_plain(answers: Answers) -> Server {
    start(None, answers).await
}

async fn start(tls: Option<tokio_rustls::TlsAcceptor>, answers: Answers) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let task = tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (tls, seen) = (tls.clone(), seen.clone());
            tokio::spawn(async move {
                match tls {
                    None => answer(tcp, &seen, answers).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(tcp).await {
                            answer(stream, &seen, answers).await;
                        }
                    }
                }
            });
        }
    });
    Server { port, log, task }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Mutex<Vec<String>>,
    answers: Answers,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(head.clone());
        seen.len() - 1
    };
    let _ = stream.write_all(&answers(&head, number)).await;
    let _ = stream.shutdown().await;
}

/// An HTTP answer with this status line, these header lines and this body.
pub fn http(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len())
            .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// An empty JSON object.
pub fn ok(_: &str, _: usize) -> Vec<u8> {
    http("200 OK", "", b"{}")
}

/// A certificate authority.
pub fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "signer");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server's parameters for these names.
pub fn server_params(names: &[&str]) -> CertificateParams {
    let mut params =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "server");
    params
}

/// A leaf of this authority, without it in the chain.
pub fn leaf(params: CertificateParams, signer: &CertifiedIssuer<'_, KeyPair>) -> Chain {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, signer).unwrap();
    Chain { certificates: vec![certificate.der().clone()], key }
}

/// A self-signed server certificate.
pub fn self_signed(params: CertificateParams) -> Chain {
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Chain { certificates: vec![certificate.der().clone()], key }
}

/// PEM of these certificates.
pub fn pem<'a>(certificates: impl IntoIterator<Item = &'a CertificateDer<'static>>) -> String {
    let section = |der: &CertificateDer<'static>| {
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der))
    };
    certificates.into_iter().map(section).collect()
}

/// A hub at this address that trusts this PEM bundle.
pub fn hub(server: impl Into<String>, bundle: Option<&str>) -> Hub {
    Hub {
        context: "hub".to_owned(),
        namespace: None,
        cluster: Cluster {
            server: server.into(),
            certificate_authority_data: bundle.map(|pem| STANDARD.encode(pem)),
            ..Cluster::default()
        },
        user: User::default(),
        files: Vec::new(),
    }
}
