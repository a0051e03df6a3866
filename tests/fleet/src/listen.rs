//! From a TCP connection to an answer: TLS, HTTP by ALPN, sign-in, faults, rules, the log.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, RETRY_AFTER, USER_AGENT, WARNING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::answer::{Answer, Body};
use crate::auth::User;
use crate::certs::Signer;
use crate::faults::{Fault, Plan};
use crate::gateway::{self, Vouched};
use crate::link::link;
use crate::portforward;
use crate::request::{Authorization, Logged, Request};
use crate::routes::{Outcome, route};
use crate::server::{Current, Inner};

/// Serves until the server stops.
pub(crate) fn spawn(
    runtime: &Handle,
    listener: TcpListener,
    inner: Arc<Inner>,
    ca: Option<&Signer>,
) -> io::Result<()> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let config = match ca {
        None => config.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca.der.clone()).map_err(io::Error::other)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(
                verifier.allow_unauthenticated().build().map_err(io::Error::other)?,
            )
        }
    };
    let mut config = config.with_cert_resolver(Arc::new(Current(inner.clone())));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    runtime.spawn(async move {
        let mut stopped = inner.stopped();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            if let Ok((stream, _)) = accepted {
                let (inner, acceptor, mut stopped) = (inner.clone(), acceptor.clone(), stopped.clone());
                let mut hang_up = inner.hang_ups();
                tokio::spawn(async move {
                    tokio::select! {
                        () = connection(inner, acceptor, stream) => {}
                        _ = hang_up.changed() => {}
                        _ = stopped.wait_for(|stop| *stop) => {}
                    }
                });
            }
        }
    });
    Ok(())
}

/// What one connection is.
struct Peer {
    alpn: String,
    certificate: Option<Vec<u8>>,
    hang_up: Notify,
}

async fn connection(inner: Arc<Inner>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    if inner.muted().wait_for(|mute| !*mute).await.is_err() {
        return;
    }
    let _ = inner.hangs().wait_for(|hang| !*hang).await;
    let stream = link(stream, inner.link_delay());
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let tls = stream.get_ref().1;
    let peer = Arc::new(Peer {
        alpn: tls
            .alpn_protocol()
            .map_or("http/1.1".into(), |alpn| String::from_utf8_lossy(alpn).into_owned()),
        certificate: tls.peer_certificates().and_then(|chain| chain.first()).map(|leaf| leaf.to_vec()),
        hang_up: Notify::new(),
    });
    let service = {
        let peer = peer.clone();
        service_fn(move |request| {
            let (inner, peer) = (inner.clone(), peer.clone());
            async move {
                let mut hangs = inner.hangs();
                let response = if inner.relays() {
                    relay(inner, peer, request).await
                } else {
                    answer(inner, peer, request).await
                };
                let _ = hangs.wait_for(|hang| !*hang).await;
                Ok::<_, Infallible>(response)
            }
        })
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    tokio::select! {
        _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service) => {}
        () = peer.hang_up.notified() => {}
    }
}

/// What a request is, but for who sends it.
fn read(parts: &Parts) -> Request {
    let mut request =
        Request::new(parts.method.as_str(), parts.uri.path(), parts.uri.query().unwrap_or_default());
    request.user_agent = header(parts, USER_AGENT.as_str());
    request.impersonate = header(parts, "impersonate-user");
    request
}

fn header(parts: &Parts, name: &str) -> String {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

async fn answer(inner: Arc<Inner>, peer: Arc<Peer>, http: http::Request<Incoming>) -> Response<Body> {
    let (mut parts, body) = http.into_parts();
    let mut request = read(&parts);
    let (kind, user) = match parts.extensions.remove::<Vouched>() {
        Some(Vouched(user)) => (Authorization::None, Some(user)),
        None => inner.auth().identify(&parts.headers, peer.certificate.as_deref()),
    };
    let user =
        user.map(|user| if request.impersonate.is_empty() { user } else { User::new(&request.impersonate) });
    request.authorization = kind;
    request.user = user.as_ref().map(|user| user.name.clone()).unwrap_or_default();
    if let Some(server) = gateway::behind(&inner, &request)
        && user.is_some()
        && !inner.is_forbidden(&request)
    {
        gateway::pass_on(&mut parts, &request.key.name);
        let http = http::Request::from_parts(parts, body);
        let response = Box::pin(answer(server.inner.clone(), peer.clone(), http)).await;
        inner.record(logged(&request, &peer.alpn, response.status().as_u16()));
        return response;
    }
    let mut upgrade = parts.extensions.remove::<OnUpgrade>();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();

    let Plan { delay, warnings, instead } = inner.plan(&request);
    tokio::time::sleep(delay).await;
    let gzip = header(&parts, ACCEPT_ENCODING.as_str()).contains("gzip");
    let mut normal = || normal(&inner, &request, user.as_ref(), &parts.headers, &body, upgrade.take());
    let response = match &instead {
        Some(Fault::Truncated) => match normal() {
            Outcome::Whole(answer) => answer.into_truncated(),
            Outcome::Stream(response) => response,
        },
        Some(fault) => broken(fault, &inner, &peer, &request).await,
        None => match normal() {
            Outcome::Whole(answer) => answer.into_response(gzip),
            Outcome::Stream(response) => response,
        },
    };
    let response = warn(response, warnings);
    inner.record(logged(&request, &peer.alpn, response.status().as_u16()));
    response
}

/// Hands the request on to the API server of the cluster that the path begins with, in this process.
async fn relay(inner: Arc<Inner>, peer: Arc<Peer>, http: http::Request<Incoming>) -> Response<Body> {
    let (parts, body) = http.into_parts();
    let mut request = read(&parts);
    request.authorization = inner.auth().identify(&parts.headers, None).0;
    let Plan { delay, warnings, instead } = inner.plan(&request);
    tokio::time::sleep(delay).await;
    let response = match (&instead, inner.behind(&request.prefix)) {
        (Some(fault), _) => broken(fault, &inner, &peer, &request).await,
        (None, None) => {
            let text = format!("cannot get a tunnel to the cluster {:?}\n", request.prefix);
            Answer::text(400, &text).into_response(false)
        }
        (None, Some(server)) => {
            answer(server.inner.clone(), peer.clone(), http::Request::from_parts(parts, body)).await
        }
    };
    let response = warn(response, warnings);
    inner.record(logged(&request, &peer.alpn, response.status().as_u16()));
    response
}

fn warn(mut response: Response<Body>, warnings: Vec<String>) -> Response<Body> {
    for text in warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{}\"", text.replace('"', "\\\""))) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

fn normal(
    inner: &Arc<Inner>,
    request: &Request,
    user: Option<&User>,
    headers: &HeaderMap,
    body: &[u8],
    upgrade: Option<OnUpgrade>,
) -> Outcome {
    if !inner.answers_for(&request.prefix) {
        return Outcome::Whole(Answer::text(404, "404 page not found\n"));
    }
    match user {
        None => Outcome::Whole(Answer::unauthorized()),
        Some(_) if inner.is_forbidden(request) => Outcome::Whole(Answer::forbidden(request)),
        Some(_) if inner.pods_listen_at().is_some() && request.is_portforward() => {
            portforward::answer(inner, request, headers, upgrade)
        }
        Some(user) => route(inner, request, user, headers, body),
    }
}

/// What is answered instead; with the silent ones that is nothing, ever.
async fn broken(fault: &Fault, inner: &Inner, peer: &Peer, request: &Request) -> Response<Body> {
    let answer = match fault {
        Fault::Silent | Fault::Close => {
            inner.record(logged(request, &peer.alpn, 0));
            if *fault == Fault::Close {
                peer.hang_up.notify_one();
            }
            return std::future::pending().await;
        }
        Fault::Unauthorized => Answer::unauthorized(),
        Fault::Forbidden => Answer::forbidden(request),
        Fault::Gone => Answer::failure(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result.",
        ),
        Fault::TooManyRequests { .. } => {
            Answer::failure(429, "TooManyRequests", "Too many requests, please try again later.")
        }
        Fault::NotJson => {
            Answer { content_type: "application/json", ..Answer::text(200, "<html>not json</html>") }
        }
        Fault::Status(status, body) if body.trim_start().starts_with('{') => {
            Answer { content_type: "application/json", ..Answer::text(*status, body) }
        }
        Fault::Status(status, text) | Fault::PlainText(status, text) => Answer::text(*status, text),
        _ => Answer::failure(500, "InternalError", "Internal error occurred"),
    };
    let mut response = answer.into_response(false);
    if let Fault::TooManyRequests { retry_after, .. } = fault {
        response.headers_mut().insert(RETRY_AFTER, (*retry_after).into());
    }
    response
}

fn logged(request: &Request, alpn: &str, status: u16) -> Logged {
    let Request { method, path, prefix, query, user_agent, user, .. } = request.clone();
    let authorization: Authorization = request.authorization;
    Logged { method, path, prefix, query, user_agent, authorization, user, status, alpn: alpn.to_owned() }
}
