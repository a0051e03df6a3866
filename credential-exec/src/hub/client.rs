//! The transport of both binaries: requests to one hub, with its prefix, identity, trust and
//! proxy. [`Client::get`] is one GET with a deadline; as a service the client carries kube's
//! requests, watches and upgrades. A failure says what happened in words.

use std::error::Error as StdError;
use std::fmt;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, UPGRADE,
    USER_AGENT,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tower_service::Service;

use super::identity::{self, Mode};
use super::kubeconfig::Hub;
use super::proxy::{Dialer, proxy_for};
use super::tls::{self, Anchors};
use crate::env::Env;
use crate::error::{Error, Kind, Result};

type BoxError = Box<dyn StdError + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, BoxError>;

const TRIES: u32 = 4;
const LARGEST_ANSWER: usize = 256 << 20;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long one [`Client::get`], or the head of one answer to a service's request, may take.
    pub deadline: Duration,
    /// Whether a person waits.
    pub mode: Mode,
    /// What we call ourselves.
    pub user_agent: String,
    /// Variables for the hub's exec plugin, on top of its own.
    pub extra_env: Vec<(String, String)>,
    /// Whether [`Client::get`] asks for compressed answers, unless the cluster entry forbids it.
    pub gzip: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            mode: Mode::Foreground,
            user_agent: concat!("kubectl-inventory/", env!("CARGO_PKG_VERSION")).to_owned(),
            extra_env: Vec::new(),
            gzip: true,
        }
    }
}

/// A client of one hub. Clones share connections and identity.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    http: legacy::Client<HttpsConnector<Dialer>, Body>,
    connector: HttpsConnector<Dialer>,
    base: Uri,
    server: String,
    through: String,
    ca_given: bool,
    headers: HeaderMap,
    deadline: Duration,
    gzip: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.0.server).finish_non_exhaustive()
    }
}

impl Client {
    /// Resolves the hub's identity, once. Dials when first used.
    pub async fn connect(hub: &Hub, env: &Env, options: Options) -> Result<Self> {
        let base: Uri = hub.server().parse().map_err(|_| {
            Error::new(
                Kind::Usage,
                format!("the server {:?} of context {:?} is not an address", hub.server(), hub.context),
            )
        })?;
        let proxy = proxy_for(&hub.cluster, &base, env)?;
        let anchors =
            Anchors::of(&hub.cluster).map_err(|e| e.context(format_args!("context {:?}", hub.context)))?;
        let identity = identity::resolve(hub, env, options.mode, &options.extra_env).await?;

        let proxy_tls = tls::config(&anchors, None)?;
        let mut hub_tls = tls::config(&anchors, identity.certificate)?;
        hub_tls.alpn_protocols = vec![b"http/1.1".to_vec()];

        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_str(&options.user_agent).map_err(|_| {
            Error::new(Kind::Usage, "the user agent holds characters that no request can carry")
        })?;
        headers.insert(USER_AGENT, agent);
        headers.extend(identity.authorization.map(|value| (AUTHORIZATION, value)));
        for (name, value) in identity.impersonation {
            headers.append(name, value);
        }

        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        tcp.set_connect_timeout(Some(options.deadline));
        let through = proxy.as_ref().map_or(String::new(), |proxy| format!(" through the proxy {proxy}"));
        let dialer = Dialer::new(tcp, proxy, Arc::new(proxy_tls));
        let https = match &hub.cluster.tls_server_name {
            Some(name) => {
                let name = ServerName::try_from(name.clone()).map_err(|_| {
                    Error::new(Kind::Usage, format!("the tls-server-name {name:?} is not a name"))
                })?;
                HttpsConnector::new(dialer, hub_tls, false, Arc::new(FixedServerNameResolver::new(name)))
            }
            None => HttpsConnector::from((dialer, hub_tls)),
        };
        let http =
            legacy::Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(https.clone());
        Ok(Self(Arc::new(Inner {
            http,
            connector: https,
            base,
            server: hub.server().to_owned(),
            through,
            ca_given: matches!(anchors, Anchors::Bundle(_)),
            headers,
            deadline: options.deadline,
            gzip: options.gzip && !hub.cluster.disable_compression,
        })))
    }

    /// One GET below the server's own path, its answer whole and unpacked. 429 and 503 that name
    /// a time are tried again within the deadline; any other status is an answer.
    pub async fn get(&self, path_and_query: &str, accept: Option<&str>) -> Result<Answer> {
        let path: PathAndQuery = path_and_query.parse().map_err(|_| {
            Error::new(Kind::Failed, format!("{path_and_query:?} is not a path that can be asked for"))
        })?;
        let until = Instant::now() + self.0.deadline;
        let mut tries = 0;
        loop {
            tries += 1;
            let left = until.saturating_duration_since(Instant::now());
            let (answer, pause) = tokio::time::timeout(left, self.once(Method::GET, &path, accept, None))
                .await
                .map_err(|_| self.too_slow())??;
            match pause {
                Some(pause) if tries < TRIES && Instant::now() + pause < until => {
                    tokio::time::sleep(pause).await
                }
                _ => return Ok(answer),
            }
        }
    }

    /// One POST of JSON below the server's own path, for what the API answers without keeping it (reviews).
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post(&self, path: &'static str, body: Vec<u8>) -> Result<Answer> {
        let path = PathAndQuery::from_static(path);
        let asked = self.once(Method::POST, &path, None, Some(body));
        let answer = tokio::time::timeout(self.0.deadline, asked).await.map_err(|_| self.too_slow())?;
        answer.map(|(answer, _)| answer)
    }

    /// Asks for `protocol` in the place of HTTP (the `Upgrade` header), with these headers besides: what
    /// the server says first, and the bytes from then on; or the answer of a server that does not switch.
    ///
    /// # Errors
    /// A hub that cannot be reached, or is silent for longer than the deadline.
    pub async fn upgrade(
        &self,
        method: Method,
        path_and_query: &str,
        protocol: &str,
        headers: &[(&str, &str)],
    ) -> Result<Upgrade> {
        let mut request = Request::builder().method(method).uri(path_and_query);
        request = request.header(CONNECTION, "Upgrade").header(UPGRADE, protocol);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = request
            .body(body)
            .map_err(|error| Error::new(Kind::Failed, format!("no such request: {error}")))?;
        let switch = async {
            let mut response = self.send(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let (head, body) = response.into_parts();
                let body = Limited::new(body, 1 << 20).collect().await.map_err(|_| self.broke_off())?;
                let answer = Answer::new(head.status, body.to_bytes(), self.0.server.clone());
                return Ok(Upgrade::Refused(answer));
            }
            let headers = std::mem::take(response.headers_mut());
            let io = hyper::upgrade::on(response).await.map_err(|_| self.broke_off())?;
            Ok(Upgrade::Switched(headers, TokioIo::new(io)))
        };
        tokio::time::timeout(self.0.deadline, switch).await.map_err(|_| self.too_slow())?
    }

    /// Connects and shakes hands, and asks nothing: whether the server is there and is the one trusted.
    ///
    /// # Errors
    /// Whether it is another server that is there, or none.
    pub async fn handshake(&self) -> Result<(), NoHandshake> {
        let connect = self.0.connector.clone().call(self.0.base.clone());
        match tokio::time::timeout(self.0.deadline, connect).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                let words = self.not_connected(&*error);
                Err(match find::<rustls::Error>(&*error) {
                    Some(rustls::Error::InvalidCertificate(_)) => NoHandshake::Untrusted(words),
                    _ => NoHandshake::Failed(words),
                })
            }
            Err(_) => Err(NoHandshake::Failed(self.too_slow())),
        }
    }

    /// This client as a service for `kube::Client::new`: identity and prefix are added, bodies
    /// stream, and the deadline holds for the answer's head alone.
    pub fn service(&self) -> Self {
        self.clone()
    }

    async fn once(
        &self,
        method: Method,
        path: &PathAndQuery,
        accept: Option<&str>,
        body: Option<Vec<u8>>,
    ) -> Result<(Answer, Option<Duration>)> {
        let mut request = Request::builder().method(method).uri(path.as_str());
        request = request.header(ACCEPT, accept.unwrap_or("application/json"));
        if self.0.gzip {
            request = request.header(ACCEPT_ENCODING, "gzip");
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::from(body.unwrap_or_default()).map_err(|never| match never {}).boxed_unsync();
        let request = request
            .body(body)
            .map_err(|error| Error::new(Kind::Failed, format!("no such request: {error}")))?;
        let (head, body) = self.send(request).await?.into_parts();
        let packed = head.headers.get(CONTENT_ENCODING).is_some_and(|value| value == "gzip");
        let body = Limited::new(body, LARGEST_ANSWER);
        let body = if packed {
            unpacked(body).await.ok_or_else(|| self.broke_off())?
        } else {
            body.collect().await.map_err(|_| self.broke_off())?.to_bytes()
        };
        let answer = Answer::new(head.status, body, self.0.server.clone());
        Ok((answer, retry_after(head.status, &head.headers)))
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>> {
        let inner = &self.0;
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let full = format!("{}{path}", inner.base.path().trim_end_matches('/'));
        let uri = Uri::builder()
            .scheme(inner.base.scheme_str().unwrap_or("https"))
            .authority(inner.base.authority().map_or("", |authority| authority.as_str()))
            .path_and_query(full)
            .build()
            .map_err(|error| Error::new(Kind::Failed, format!("no such request: {error}")))?;
        *request.uri_mut() = uri;
        for name in inner.headers.keys() {
            request.headers_mut().remove(name);
        }
        for (name, value) in &inner.headers {
            request.headers_mut().append(name, value.clone());
        }
        inner.http.request(request).await.map_err(|error| self.unreachable(&error))
    }

    fn not_connected(&self, error: &(dyn StdError + 'static)) -> Error {
        let Inner { server, through, ca_given, .. } = &*self.0;
        if let Some(tls) = find::<rustls::Error>(error) {
            return tls::explain(tls, server, *ca_given);
        }
        Error::new(Kind::Unreachable, format!("{server} cannot be reached{through}: {}", deepest(error)))
            .remedy("check the address, the network and the proxy")
    }

    fn unreachable(&self, error: &legacy::Error) -> Error {
        if error.is_connect() || find::<rustls::Error>(error).is_some() {
            return self.not_connected(error);
        }
        let server = &self.0.server;
        Error::new(
            Kind::Unreachable,
            format!("{server} closed the connection without an answer: {}", deepest(error)),
        )
    }

    pub(crate) fn too_slow(&self) -> Error {
        let Inner { server, through, deadline, .. } = &*self.0;
        Error::new(
            Kind::Unreachable,
            format!("no answer from {server}{through} within {} s", deadline.as_secs_f32()),
        )
        .remedy("check the network, or allow more time")
    }

    fn broke_off(&self) -> Error {
        broke_off(&self.0.server)
    }
}

impl<B> Service<Request<B>> for Client
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Incoming>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let client = self.clone();
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        Box::pin(async move {
            let answer = tokio::time::timeout(client.0.deadline, client.send(request)).await;
            answer.map_err(|_| client.too_slow())?
        })
    }
}

/// Why hands were not shaken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoHandshake {
    /// The server's certificate is not one to trust.
    Untrusted(Error),
    /// Anything else.
    Failed(Error),
}

/// What a server does when asked for another protocol.
pub enum Upgrade {
    /// It speaks the other protocol from here on; what it said when it switched.
    Switched(HeaderMap, TokioIo<hyper::upgrade::Upgraded>),
    /// It answers as if nothing had been asked for, or refuses.
    Refused(Answer),
}

/// A hub's answer, whole and unpacked.
#[derive(Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
    server: String,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Answer {
    /// An answer of `server`.
    pub fn new(status: StatusCode, body: impl Into<Bytes>, server: impl Into<String>) -> Self {
        Self { status, body: body.into(), server: server.into() }
    }

    /// The document that was asked for, or [`Answer::error`]. `what` names it in messages.
    pub fn json<T: DeserializeOwned>(&self, what: &str) -> Result<T> {
        if !self.status.is_success() {
            return Err(self.error(what));
        }
        serde_json::from_slice(&self.body).map_err(|error| match error.classify() {
            serde_json::error::Category::Eof => broke_off(&self.server).context(what),
            serde_json::error::Category::Data => Error::new(
                Kind::Failed,
                format!("{what}: {} answers in a form that this version does not know", self.server),
            ),
            _ => self.not_json().context(what),
        })
    }

    /// Whether this is the API's own word, and not that of something on the way to it.
    pub fn is_status(&self) -> bool {
        self.message().is_some()
    }

    /// What an answer without the document means.
    pub fn error(&self, what: &str) -> Error {
        let Some(message) = self.message() else {
            return match self.status {
                StatusCode::UNAUTHORIZED => self.no_login(what),
                _ => self.not_json().context(what),
            };
        };
        let server = &self.server;
        match self.status {
            StatusCode::UNAUTHORIZED => self.no_login(what),
            StatusCode::FORBIDDEN => Error::new(Kind::Refused, format!("{what}: the hub refuses: {message}"))
                .remedy("ask an administrator of the hub for this permission"),
            StatusCode::NOT_FOUND => Error::new(Kind::NotFound, format!("{what}: {message}")),
            StatusCode::TOO_MANY_REQUESTS => {
                Error::new(Kind::Unreachable, format!("{what}: {server} is overloaded: {message}"))
                    .remedy("try again later")
            }
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Error::new(Kind::Unreachable, format!("{what}: {server} answers {}: {message}", self.status))
            }
            _ => Error::new(Kind::Failed, format!("{what}: {server} answers {}: {message}", self.status)),
        }
    }

    /// The message of a Kubernetes Status.
    fn message(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Status {
            kind: String,
            #[serde(default)]
            message: String,
        }
        let status: Status = serde_json::from_slice(&self.body).ok()?;
        let message = if status.message.is_empty() { self.status.to_string() } else { status.message };
        (status.kind == "Status").then_some(message)
    }

    fn no_login(&self, what: &str) -> Error {
        Error::new(Kind::Refused, format!("{what}: the hub {} does not accept your login", self.server))
            .remedy("log in to the hub again")
    }

    fn not_json(&self) -> Error {
        let Self { status, server, .. } = self;
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(4096)]);
        let line: String = text.trim().lines().next().unwrap_or_default().trim().chars().take(200).collect();
        if line.starts_with('<') || status.is_redirection() {
            return Error::new(
                Kind::Unreachable,
                format!("a proxy or a login page answers ({status}) at {server} instead of the API"),
            )
            .remedy("check the address and the proxy");
        }
        if text.contains("proxy to anp-proxy-server failed") {
            return Error::new(
                Kind::Unreachable,
                format!("the cluster's agent is not connected to the hub's proxy: {line}"),
            )
            .remedy("check the cluster-proxy add-on of that cluster");
        }
        let said = if line.is_empty() { String::new() } else { format!(": {line}") };
        let (kind, meaning, remedy) = match *status {
            StatusCode::NOT_FOUND => (Kind::NotFound, "does not serve this", "check the hub's address"),
            StatusCode::FORBIDDEN => (Kind::Refused, "refuses", "ask the hub's administrator"),
            StatusCode::TOO_MANY_REQUESTS => (Kind::Unreachable, "is overloaded", "try again in a while"),
            status if status.is_server_error() => {
                (Kind::Unreachable, "is in trouble", "try again, then look at the hub's API server")
            }
            _ => (Kind::Unreachable, "does not answer like a Kubernetes API", "check the hub's address"),
        };
        Error::new(kind, format!("{server} {meaning} ({status}){said}")).remedy(remedy)
    }
}

fn broke_off(server: &str) -> Error {
    Error::new(Kind::Unreachable, format!("the answer of {server} broke off")).remedy("try again")
}

fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// The body, unpacked while it arrives: a hub takes its time to write a long list.
async fn unpacked(mut body: Limited<Incoming>) -> Option<Bytes> {
    let mut unpacker = MultiGzDecoder::new(Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(packed) = frame.ok()?.into_data() else { continue };
        unpacker.write_all(&packed).ok()?;
        if unpacker.get_ref().len() > LARGEST_ANSWER {
            return None;
        }
    }
    unpacker.finish().ok().map(Bytes::from)
}

/// The first error of this type among the causes, those hidden inside of I/O errors included.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn deepest(error: &dyn StdError) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        Answers, Server, authority, http, hub, leaf, ok, pem, serve, serve_plain, server_params,
    };
    use super::*;

    async fn client_of(answers: Answers, shape: impl FnOnce(&mut Hub, &mut Options)) -> (Server, Client) {
        let signer = authority();
        let server = serve(&leaf(server_params(&["127.0.0.1"]), &signer), answers).await;
        let mut hub = hub(format!("https://127.0.0.1:{}/prefix/", server.port), Some(&pem([signer.der()])));
        let mut options = Options::default();
        shape(&mut hub, &mut options);
        let client = Client::connect(&hub, &Env::of([("X", "")]), options).await.unwrap();
        (server, client)
    }

    async fn failure(answers: Answers) -> Error {
        let (_server, client) =
            client_of(answers, |_, options| options.deadline = Duration::from_millis(700)).await;
        match client.get("/x", None).await {
            Ok(answer) => answer.json::<serde_json::Value>("Secret c/s").unwrap_err(),
            Err(error) => error,
        }
    }

    fn status(code: u16, message: &str) -> Answer {
        let body = serde_json::json!({ "kind": "Status", "message": message }).to_string();
        Answer::new(StatusCode::from_u16(code).unwrap(), body, "https://hub")
    }

    #[tokio::test]
    async fn a_request_carries_prefix_identity_impersonation_and_our_name() {
        let (server, client) = client_of(ok, |hub, options| {
            hub.user.token = Some("t0ken".into());
            hub.user.as_user = Some("jane".to_owned());
            hub.user.as_groups = vec!["a".to_owned(), "b".to_owned()];
            hub.user.as_user_extra.insert("acme.com/team".to_owned(), vec!["x".to_owned()]);
            options.user_agent = "test/1".to_owned();
        })
        .await;
        client.get("/api/v1/secrets?limit=1", Some("application/x")).await.unwrap();
        let head = server.requests().remove(0);
        for line in [
            "GET /prefix/api/v1/secrets?limit=1 HTTP/1.1",
            "authorization: Bearer t0ken",
            "impersonate-user: jane",
            "impersonate-group: a",
            "impersonate-group: b",
            "impersonate-extra-acme.com%2fteam: x",
            "user-agent: test/1",
            "accept: application/x",
            "accept-encoding: gzip",
        ] {
            assert!(head.contains(line), "{line} in {head}");
        }
    }

    #[tokio::test]
    async fn a_packed_answer_is_unpacked_and_a_hub_without_compression_is_not_asked_for_one() {
        fn packed(_: &str, _: usize) -> Vec<u8> {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(b"{\"a\":1}").unwrap();
            http("200 OK", "Content-Encoding: gzip\r\n", &packer.finish().unwrap())
        }
        let (server, client) = client_of(packed, |hub, _| hub.cluster.disable_compression = true).await;
        let answer: serde_json::Value = client.get("/", None).await.unwrap().json("x").unwrap();
        assert_eq!(answer["a"], 1);
        assert!(!server.requests()[0].contains("accept-encoding"));
    }

    #[tokio::test]
    async fn a_busy_hub_that_names_a_time_is_asked_again_and_any_other_is_not() {
        fn busy(_: &str, number: usize) -> Vec<u8> {
            match number {
                0 => http("429 Too Many Requests", "Retry-After: 0\r\n", b""),
                1 => http("503 Service Unavailable", "Retry-After: 0\r\n", b""),
                _ => ok("", 0),
            }
        }
        let (server, client) = client_of(busy, |_, _| {}).await;
        assert_eq!(client.get("/", None).await.unwrap().status, 200);
        assert_eq!(server.requests().len(), 3);

        for answers in [
            (|_, _| http("503 Service Unavailable", "", b"")) as Answers,
            |_, _| http("429 Too Many Requests", "Retry-After: 3600\r\n", b""),
            |_, _| http("500 Internal Server Error", "Retry-After: 0\r\n", b""),
        ] {
            let (server, client) = client_of(answers, |_, _| {}).await;
            assert!(!client.get("/", None).await.unwrap().status.is_success());
            assert_eq!(server.requests().len(), 1);
        }
        let (server, client) =
            client_of(|_, _| http("429 Too Many Requests", "Retry-After: 0\r\n", b""), |_, _| {}).await;
        assert_eq!(client.get("/", None).await.unwrap().status, 429);
        assert_eq!(server.requests().len(), TRIES as usize);
    }

    #[tokio::test]
    async fn whatever_is_no_json_is_mapped_to_a_cause() {
        let cases: [(Answers, Kind, &str); 6] = [
            (|_, _| http("200 OK", "", b"<!DOCTYPE html><title>Log in"), Kind::Unreachable, "login page"),
            (|_, _| http("302 Found", "Location: /login\r\n", b""), Kind::Unreachable, "login page"),
            (
                |_, _| http("502 Bad Gateway", "", b"proxy to anp-proxy-server failed because x\nmore"),
                Kind::Unreachable,
                "agent is not connected",
            ),
            (
                |_, _| http("404 Not Found", "", b"404 page not found\n"),
                Kind::NotFound,
                "does not serve this",
            ),
            (|_, _| http("500 Internal", "", b"oops"), Kind::Unreachable, "oops"),
            (|_, _| http("200 OK", "", b"hello"), Kind::Unreachable, "does not answer like a Kubernetes API"),
        ];
        for (answers, kind, said) in cases {
            let error = failure(answers).await;
            assert!(
                error.kind == kind && error.cause.contains(said) && !error.cause.contains("parse"),
                "{error}"
            );
        }
        let long = Answer::new(StatusCode::BAD_REQUEST, "é".repeat(5000), "https://hub").error("x");
        assert_eq!(long.cause.matches('é').count(), 200);
    }

    #[tokio::test]
    async fn a_cut_closed_or_silent_connection_is_unreachable() {
        let cases: [(Answers, &str); 4] = [
            (|_, _| b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec(), "broke off"),
            (|_, _| http("200 OK", "", b"{\"a\": "), "broke off"),
            (|_, _| http("200 OK", "Content-Encoding: gzip\r\n", &[0x1f, 0x8b, 8, 0]), "broke off"),
            (|_, _| Vec::new(), "without an answer"),
        ];
        for (answers, said) in cases {
            let error = failure(answers).await;
            assert!(error.kind == Kind::Unreachable && error.cause.contains(said), "{error}");
        }
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut hub = hub(format!("https://{}", silent.local_addr().unwrap()), None);
        hub.cluster.insecure_skip_tls_verify = true;
        let options = Options { deadline: Duration::from_millis(200), ..Options::default() };
        let client = Client::connect(&hub, &Env::of([("X", "")]), options).await.unwrap();
        let error = client.get("/", None).await.unwrap_err();
        assert!(error.kind == Kind::Unreachable && error.cause.contains("within 0.2 s"), "{error}");
        drop(silent);
        let error = client.get("/", None).await.unwrap_err();
        assert!(error.kind == Kind::Unreachable && error.cause.contains("cannot be reached"), "{error}");
    }

    #[test]
    fn a_status_keeps_its_message_and_decides_the_exit_code() {
        let whoami = "secrets is forbidden: User \"system:serviceaccount:a:b\" cannot get resource";
        let forbidden = status(403, whoami).error("Secret c/s");
        assert!(forbidden.kind == Kind::Refused && forbidden.cause.contains(whoami), "{forbidden}");
        let login = status(401, "Unauthorized").error("x");
        assert!(login.kind == Kind::Refused && login.cause.contains("does not accept your login"), "{login}");
        assert_eq!(Answer::new(StatusCode::UNAUTHORIZED, "", "https://hub").error("x").kind, Kind::Refused);
        assert_eq!(status(404, "secrets \"s\" not found").error("x").kind, Kind::NotFound);
        assert_eq!(status(503, "").error("x").kind, Kind::Unreachable);
        assert_eq!(status(500, "").error("x").kind, Kind::Failed);
    }

    #[test]
    fn an_answer_of_another_shape_never_shows_its_content() {
        let answer = Answer::new(StatusCode::OK, "\"hush-token\"", "https://hub");
        let error = answer.json::<std::collections::BTreeMap<String, String>>("x").unwrap_err();
        assert!(!error.one_line().contains("hush"), "{error}");
        assert!(!format!("{answer:?}").contains("hush"));
    }

    #[tokio::test]
    async fn as_a_service_it_adds_prefix_and_identity_and_streams() {
        let (server, mut client) = client_of(ok, |hub, _| hub.user.token = Some("t0ken".into())).await;
        let request = Request::post("/api?watch=1")
            .header(AUTHORIZATION, "other")
            .body(http_body_util::Full::new(Bytes::from("x")))
            .unwrap();
        let answer = client.call(request).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "{}");
        let head = server.requests().remove(0);
        assert!(
            head.starts_with("POST /prefix/api?watch=1 ")
                && head.contains("Bearer t0ken")
                && !head.contains("other"),
            "{head}"
        );
    }

    #[tokio::test]
    async fn a_server_without_tls_is_said_to_be_one() {
        let server = serve_plain(|_, _| http("400 Bad Request", "", b"")).await;
        let mut hub = hub(format!("https://127.0.0.1:{}", server.port), None);
        hub.cluster.insecure_skip_tls_verify = true;
        let options = Options { deadline: Duration::from_millis(500), ..Options::default() };
        let client = Client::connect(&hub, &Env::of([("X", "")]), options).await.unwrap();
        assert_eq!(client.get("/", None).await.unwrap_err().kind, Kind::Unreachable);
    }
}
