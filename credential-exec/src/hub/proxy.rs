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
        return parse(url.expose_secret()).ok_or_else(unusable)?.map(Some).map_err(|scheme| not_a_proxy("the proxy-url", &scheme));
    }
    let either = |upper: &str, lower: &str| env.var(upper).or_else(|| env.var(lower));
    let (name, url) = match target.scheme_str() {
        Some("https") => ("HTTPS_PROXY", either("HTTPS_PROXY", "https_proxy")),
        _ => ("HTTP_PROXY", either("HTTP_PROXY", "http_proxy").filter(|_| env.os("REQUEST_METHOD").is_none())),
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
    Error::new(Kind::Usage, format!("{what} has the scheme {scheme:?}")).remedy("proxies are http, https, socks5 or socks5h")
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
    pub(super) fn new(tcp: HttpConnector, proxy: Option<Proxy>, proxy_tls: Arc<rustls::ClientConfig>) -> Self {
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
