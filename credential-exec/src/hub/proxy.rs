//! How a connection to the hub's address comes about: directly, or through the proxy that the
//! cluster entry names, or through the one of the environment by the rules of Go's
//! `http.ProxyFromEnvironment`, so that kubectl and we take the same way.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpStream;
use tower_service::Service;

use super::kubeconfig::Cluster;
use crate::env::Env;
use crate::error::{Error, Kind, Result};

/// A proxy. Shows itself without its password.
#[derive(Clone)]
pub(super) struct Proxy {
    kind: Scheme,
    address: Uri,
    login: Option<(String, SecretString)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    Socks5,
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Socks5 => "socks5",
        };
        write!(f, "{scheme}://{}", self.address.authority().map_or("", |authority| authority.as_str()))
    }
}

/// The proxy on the way to `target`, if any. A cluster's own `proxy-url` is always used.
pub(super) fn proxy_for(cluster: &Cluster, target: &Uri, env: &Env) -> Result<Option<Proxy>> {
    if let Some(url) = &cluster.proxy_url {
        let unusable = || Error::new(Kind::Usage, "the proxy-url of the hub's cluster entry is not usable");
        return parse(url.expose_secret())
            .ok_or_else(unusable)?
            .map(Some)
            .map_err(|scheme| not_a_proxy("the proxy-url", &scheme));
    }
    let either = |upper: &str, lower: &str| env.var(upper).or_else(|| env.var(lower));
    let (name, url) = match target.scheme_str() {
        Some("https") => ("HTTPS_PROXY", either("HTTPS_PROXY", "https_proxy")),
        _ => {
            ("HTTP_PROXY", either("HTTP_PROXY", "http_proxy").filter(|_| env.os("REQUEST_METHOD").is_none()))
        }
    };
    let Some(url) = url else { return Ok(None) };
    let host = target.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = target.port_u16().unwrap_or(if target.scheme_str() == Some("http") { 80 } else { 443 });
    let exempt = either("NO_PROXY", "no_proxy").unwrap_or_default();
    if goes_direct(host, port, &exempt) {
        return Ok(None);
    }
    parse(&url).transpose().map_err(|scheme| not_a_proxy(name, &scheme))
}

fn not_a_proxy(what: &str, scheme: &str) -> Error {
    Error::new(Kind::Usage, format!("{what} has the scheme {scheme:?}"))
        .remedy("proxies are http, https, socks5 or socks5h")
}

/// `None`: not an address (Go then takes none). `Some(Err)`: a scheme that is no proxy's.
fn parse(url: &str) -> Option<Result<Proxy, String>> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Uri = url.parse().ok()?;
    let (kind, dialled, default_port) = match uri.scheme_str()? {
        "http" => (Scheme::Http, "http", 80),
        "https" => (Scheme::Https, "https", 443),
        "socks5" | "socks5h" => (Scheme::Socks5, "http", 1080),
        other => return Some(Err(other.to_owned())),
    };
    let authority = uri.authority()?.as_str();
    let login = authority.rsplit_once('@').map(|(login, _)| {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let plain = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        (plain(user), SecretString::from(plain(password)))
    });
    let port = uri.port_u16().unwrap_or(default_port);
    let address = format!("{dialled}://{}:{port}/", uri.host()?).parse().ok()?;
    Some(Ok(Proxy { kind, address, login }))
}

/// Go's `useProxy`, the other way round.
fn goes_direct(host: &str, port: u16, exempt: &str) -> bool {
    let host = host.trim().to_ascii_lowercase();
    let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    exempt.split(',').any(|entry| {
        let entry = entry.trim().to_ascii_lowercase();
        if entry == "*" {
            return true;
        }
        if let Ok(net) = entry.parse::<IpNet>() {
            return ip.is_some_and(|ip| net.contains(&ip));
        }
        let (name, wanted) = split_port(&entry);
        if wanted.is_some_and(|wanted| wanted != port.to_string()) {
            return false;
        }
        if let Ok(listed) = name.parse::<IpAddr>() {
            return ip == Some(listed.to_canonical());
        }
        let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
        match name.strip_prefix('.') {
            _ if name.is_empty() => false,
            Some(_) => host.ends_with(name),
            None => host == name || host.strip_suffix(name).is_some_and(|left| left.ends_with('.')),
        }
    })
}

/// `host:port` and `[v6]:port` taken apart; a bare IPv6 address has no port.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    if let Some(rest) = entry.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => (entry, None),
        };
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (entry, None),
    }
}

/// A TCP connection, inside TLS where the proxy itself speaks TLS.
pub(super) type Wire = MaybeHttpsStream<TokioIo<TcpStream>>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Dials the hub's address, through the proxy if there is one.
#[derive(Clone)]
pub(super) struct Dialer {
    tcp: HttpConnector,
    proxy: Option<Proxy>,
    proxy_tls: Arc<rustls::ClientConfig>,
}

impl Dialer {
    /// `proxy_tls` is used towards an https proxy only; as in kubectl, it trusts what the hub's
    /// entry trusts.
    pub(super) fn new(
        tcp: HttpConnector,
        proxy: Option<Proxy>,
        proxy_tls: Arc<rustls::ClientConfig>,
    ) -> Self {
        Self { tcp, proxy, proxy_tls }
    }

    async fn dial(mut self, target: Uri) -> Result<Wire, BoxError> {
        let Some(Proxy { kind, address, login }) = self.proxy else {
            return Ok(MaybeHttpsStream::Http(self.tcp.call(target).await?));
        };
        match kind {
            Scheme::Socks5 => {
                let mut socks = SocksV5::new(address, self.tcp);
                if let Some((user, password)) = login {
                    socks = socks.with_auth(user, password.expose_secret().to_owned());
                }
                Ok(MaybeHttpsStream::Http(socks.call(target).await?))
            }
            Scheme::Http => {
                let mut tunnel = Tunnel::new(address, self.tcp);
                if let Some(header) = login.as_ref().and_then(basic) {
                    tunnel = tunnel.with_auth(header);
                }
                Ok(MaybeHttpsStream::Http(tunnel.call(target).await?))
            }
            Scheme::Https => {
                let mut tunnel = Tunnel::new(address, HttpsConnector::from((self.tcp, self.proxy_tls)));
                if let Some(header) = login.as_ref().and_then(basic) {
                    tunnel = tunnel.with_auth(header);
                }
                Ok(tunnel.call(target).await?)
            }
        }
    }
}

fn basic((user, password): &(String, SecretString)) -> Option<HeaderValue> {
    let pair = STANDARD.encode(format!("{user}:{}", password.expose_secret()));
    HeaderValue::from_str(&format!("Basic {pair}")).ok()
}

impl Service<Uri> for Dialer {
    type Response = Wire;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Wire, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        Box::pin(self.clone().dial(target))
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::{Client, Options};
    use super::super::testing::{authority, hub, leaf, ok, pem, serve, serve_plain, server_params};
    use super::*;

    fn through(url: &str, env: &[(&str, &str)]) -> Option<String> {
        let proxy =
            proxy_for(&Cluster::default(), &url.parse().unwrap(), &Env::of(env.iter().copied())).unwrap();
        proxy.map(|proxy| proxy.to_string())
    }

    #[test]
    fn no_proxy_means_what_it_means_to_kubectl() {
        let table = [
            ("hub.example.com", 443, "", false),
            ("hub.example.com", 443, "*", true),
            ("hub.example.com", 443, "other.com, *", true),
            ("hub.example.com", 443, ",, ,", false),
            ("hub.example.com", 443, "hub.example.com", true),
            ("HUB.example.com", 443, "Hub.Example.com", true),
            ("hub.example.com", 443, "example.com", true),
            ("example.com", 443, "example.com", true),
            ("notexample.com", 443, "example.com", false),
            ("hub.example.com", 443, ".example.com", true),
            ("example.com", 443, ".example.com", false),
            ("hub.example.com", 443, "*.example.com", true),
            ("example.com", 443, "*.example.com", false),
            ("hub.example.com", 443, "example.com:443", true),
            ("hub.example.com", 6443, "example.com:443", false),
            ("hub.example.com", 443, ":443", false),
            ("10.1.2.3", 443, "10.0.0.0/8", true),
            ("11.1.2.3", 443, "10.0.0.0/8", false),
            ("10.1.2.3", 443, "10.1.2.3", true),
            ("10.1.2.3", 6443, "10.1.2.3:443", false),
            ("10.1.2.3", 443, "2.3", true),
            ("fd00::1", 443, "fd00::/8", true),
            ("fd00::1", 443, "[fd00::1]:443", true),
            ("fd00::1", 6443, "[fd00::1]:443", false),
            ("fd00::1", 443, "fd00::1", true),
            ("hub", 443, "10.0.0.0/8", false),
            ("localhost", 443, "", true),
            ("127.0.0.9", 443, "", true),
            ("::1", 443, "", true),
        ];
        for (host, port, exempt, direct) in table {
            assert_eq!(goes_direct(host, port, exempt), direct, "{host}:{port} with {exempt:?}");
        }
    }

    #[test]
    fn the_environment_names_the_proxy_as_go_reads_it() {
        let https = "https://hub:6443";
        assert_eq!(through(https, &[]), None);
        assert_eq!(through(https, &[("ALL_PROXY", "http://p:1")]), None);
        assert_eq!(through(https, &[("HTTP_PROXY", "http://p:1")]), None);
        assert_eq!(through(https, &[("HTTPS_PROXY", "p:3128")]).as_deref(), Some("http://p:3128"));
        assert_eq!(
            through(https, &[("HTTPS_PROXY", ""), ("https_proxy", "p")]).as_deref(),
            Some("http://p:80")
        );
        assert_eq!(through(https, &[("HTTPS_PROXY", "https://a:b%40c@p")]).as_deref(), Some("https://p:443"));
        assert_eq!(through(https, &[("HTTPS_PROXY", "socks5h://p")]).as_deref(), Some("socks5://p:1080"));
        assert_eq!(through(https, &[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "hub")]), None);
        assert_eq!(through("https://127.0.0.1:6443", &[("HTTPS_PROXY", "p:1")]), None);
        assert_eq!(through("https://[::1]:6443", &[("HTTPS_PROXY", "p:1")]), None);
        assert_eq!(through("http://hub", &[("HTTP_PROXY", "p:1"), ("REQUEST_METHOD", "GET")]), None);
    }

    #[test]
    fn a_cluster_s_own_proxy_is_used_whatever_the_environment_says() {
        let env = Env::of([("HTTPS_PROXY", "http://other:1"), ("NO_PROXY", "*")]);
        let mut cluster = Cluster { proxy_url: Some("socks5://u:p%20w@proxy".into()), ..Cluster::default() };
        let proxy = proxy_for(&cluster, &"https://127.0.0.1".parse().unwrap(), &env).unwrap().unwrap();
        assert_eq!(proxy.to_string(), "socks5://proxy:1080");
        let (user, password) = proxy.login.unwrap();
        assert_eq!((user.as_str(), password.expose_secret()), ("u", "p w"));
        cluster.proxy_url = Some("socks4://u:hush@proxy".into());
        let error = proxy_for(&cluster, &"https://hub".parse().unwrap(), &env).err().unwrap();
        assert!(error.cause.contains("socks4") && !error.one_line().contains("hush"), "{error}");
    }

    #[tokio::test]
    async fn an_http_proxy_is_asked_to_connect_with_its_own_credentials_only() {
        let proxy = serve_plain(|_, _| b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n".to_vec()).await;
        let mut hub = hub("https://hub.test:6443", None);
        hub.cluster.insecure_skip_tls_verify = true;
        hub.cluster.proxy_url = Some(format!("http://me:hush@127.0.0.1:{}", proxy.port).into());
        hub.user.token = Some("secret-token".into());
        let client = Client::connect(&hub, &Env::of([("X", "")]), Options::default()).await.unwrap();
        let error = client.get("/", None).await.unwrap_err();
        assert_eq!(error.kind, Kind::Unreachable);
        assert!(
            error.cause.contains(&format!("through the proxy http://127.0.0.1:{}", proxy.port)),
            "{error}"
        );
        assert!(
            error.cause.contains("proxy authorization required") && !error.one_line().contains("hush"),
            "{error}"
        );
        let asked = proxy.requests().remove(0);
        assert!(asked.starts_with("CONNECT hub.test:6443 HTTP/1.1\r\n"), "{asked}");
        assert!(
            asked.contains("Proxy-Authorization: Basic bWU6aHVzaA==") && !asked.contains("secret-token"),
            "{asked}"
        );
    }

    #[tokio::test]
    async fn an_https_proxy_is_dialled_with_tls_and_trusted_as_the_hub_is() {
        let signer = authority();
        let chain = leaf(server_params(&["127.0.0.1"]), &signer);
        let proxy = serve(&chain, |_, _| b"HTTP/1.1 502 Bad Gateway\r\n\r\n".to_vec()).await;
        let mut hub = hub("https://hub.test", Some(&pem([signer.der()])));
        hub.cluster.proxy_url = Some(format!("https://127.0.0.1:{}", proxy.port).into());
        let client = Client::connect(&hub, &Env::of([("X", "")]), Options::default()).await.unwrap();
        client.get("/", None).await.unwrap_err();
        assert!(proxy.requests()[0].starts_with("CONNECT hub.test:443 "));
    }

    #[tokio::test]
    async fn a_loopback_hub_is_reached_past_the_proxy_of_the_environment() {
        let signer = authority();
        let server = serve(&leaf(server_params(&["localhost"]), &signer), ok).await;
        let hub = hub(format!("https://localhost:{}", server.port), Some(&pem([signer.der()])));
        let env = Env::of([("HTTPS_PROXY", "http://127.0.0.1:1")]);
        Client::connect(&hub, &env, Options::default()).await.unwrap().get("/", None).await.unwrap();
    }
}
