//! From a TCP connection to an answer: TLS, HTTP by ALPN, sign-in, faults, rules, the log.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, RETRY_AFTER, USER_AGENT, WARNING};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
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
                tokio::spawn(async move {
                    tokio::select! {
                        () = connection(inner, acceptor, stream) => {}
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
            async move { Ok::<_, Infallible>(answer(inner, peer, request).await) }
        })
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    tokio::select! {
        _ = builder.serve_connection(TokioIo::new(stream), service) => {}
        () = peer.hang_up.notified() => {}
    }
}

async fn answer(inner: Arc<Inner>, peer: Arc<Peer>, http: http::Request<Incoming>) -> Response<Body> {
    let (parts, body) = http.into_parts();
    let mut request =
        Request::new(parts.method.as_str(), parts.uri.path(), parts.uri.query().unwrap_or_default());
    let header =
        |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    request.user_agent = header(USER_AGENT.as_str());
    request.impersonate = header("impersonate-user");
    let (kind, user) = inner.auth().identify(&parts.headers, peer.certificate.as_deref());
    let user =
        user.map(|user| if request.impersonate.is_empty() { user } else { User::new(&request.impersonate) });
    request.authorization = kind;
    request.user = user.as_ref().map(|user| user.name.clone()).unwrap_or_default();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();

    let Plan { delay, warnings, instead } = inner.plan(&request);
    tokio::time::sleep(delay).await;
    let record = |status: u16| inner.record(logged(&request, &peer.alpn, status));
    let gzip = header(ACCEPT_ENCODING.as_str()).contains("gzip");
    let mut response = match &instead {
        Some(Fault::Silent) => {
            record(0);
            std::future::pending().await
        }
        Some(Fault::Close) => {
            record(0);
            peer.hang_up.notify_one();
            std::future::pending().await
        }
        Some(Fault::Truncated) => match normal(&inner, &request, user.as_ref(), &parts.headers, &body) {
            Outcome::Whole(answer) => answer.into_truncated(),
            Outcome::Stream(response) => response,
        },
        Some(fault) => broken(fault, &request).into_response(false),
        None => match normal(&inner, &request, user.as_ref(), &parts.headers, &body) {
            Outcome::Whole(answer) => answer.into_response(gzip),
            Outcome::Stream(response) => response,
        },
    };
    if let Some(Fault::TooManyRequests { retry_after, .. }) = instead {
        response.headers_mut().insert(RETRY_AFTER, retry_after.into());
    }
    for text in warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{}\"", text.replace('"', "\\\""))) {
            response.headers_mut().append(WARNING, value);
        }
    }
    record(response.status().as_u16());
    response
}

fn normal(
    inner: &Arc<Inner>,
    request: &Request,
    user: Option<&User>,
    headers: &HeaderMap,
    body: &[u8],
) -> Outcome {
    if !inner.answers_for(&request.prefix) {
        return Outcome::Whole(Answer::text(404, "404 page not found\n"));
    }
    match user {
        None => Outcome::Whole(Answer::unauthorized()),
        Some(_) if inner.is_forbidden(request) => Outcome::Whole(Answer::forbidden(request)),
        Some(user) => route(inner, request, user, headers, body),
    }
}

fn broken(fault: &Fault, request: &Request) -> Answer {
    match fault {
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
    }
}

fn logged(request: &Request, alpn: &str, status: u16) -> Logged {
    let Request { method, path, prefix, query, user_agent, user, .. } = request.clone();
    let authorization: Authorization = request.authorization;
    Logged { method, path, prefix, query, user_agent, authorization, user, status, alpn: alpn.to_owned() }
}
