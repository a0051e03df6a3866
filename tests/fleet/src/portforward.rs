//! `pods/portforward`: the upgrade, either as a WebSocket that carries SPDY or to SPDY itself, and
//! the pairs of streams, each a connection to a port of the Pod.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::OnUpgrade;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::answer::Answer;
use crate::key::Key;
use crate::request::Request;
use crate::routes::Outcome;
use crate::server::Inner;
use crate::spdy::{self, CHUNK, Stream};
use crate::wire;

const PROTOCOL: &str = "portforward.k8s.io";
const TUNNELLED: &str = "SPDY/3.1+";
const SPDY: &str = "SPDY/3.1";

/// As long as a container runtime waits for the client once the program in the Pod has hung up.
const GRACE: Duration = Duration::from_secs(1);

/// Answers the request, and serves the connection when it becomes one.
pub(crate) fn answer(
    inner: &Arc<Inner>,
    request: &Request,
    headers: &HeaderMap,
    upgrade: Option<OnUpgrade>,
) -> Outcome {
    let header = |name: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(",")
    };
    let pod = match Pod::find(inner, &request.key) {
        Some(pod) => pod,
        None => return Outcome::Whole(Answer::about(404, "NotFound", &request.key, "not found")),
    };
    let Some(upgrade) = upgrade.filter(|_| header("connection").to_lowercase().contains("upgrade")) else {
        return Outcome::Whole(Answer::failure(400, "BadRequest", "Upgrade request required"));
    };
    let websocket = header("upgrade").eq_ignore_ascii_case("websocket");
    let shake = if websocket { websocket_handshake(&header) } else { spdy_handshake(&header) };
    let extra = match shake {
        Ok(extra) => extra,
        Err(answer) => return Outcome::Whole(answer),
    };
    let inner = inner.clone();
    // Before the answer leaves: who has read it may have the hub hang up at once.
    let (mut stopped, mut hang_up) = (inner.stopped(), inner.hang_ups());
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let ends = wire::split(upgraded, websocket, inner.hangs()).await;
        tokio::select! {
            _ = pod.serve(ends) => {}
            _ = stopped.wait_for(|stop| *stop) => {}
            _ = hang_up.changed() => {}
        }
    });
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let to = if websocket { "websocket" } else { SPDY };
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(to));
    response.headers_mut().extend(extra);
    Outcome::Stream(response)
}

type Shake = Result<Vec<(HeaderName, HeaderValue)>, Answer>;

fn spdy_handshake(header: &dyn Fn(&str) -> String) -> Shake {
    let name = HeaderName::from_static("x-stream-protocol-version");
    let offered = header(name.as_str());
    if offered.is_empty() {
        return Err(Answer::text(
            400,
            "unable to upgrade: header X-Stream-Protocol-Version does not exist in request\n",
        ));
    }
    if !header("upgrade").to_lowercase().contains("spdy/3.1") {
        return Err(Answer::text(400, "unable to upgrade: missing upgrade headers in request\n"));
    }
    if !words(&offered).any(|protocol| protocol == PROTOCOL) {
        return Err(unknown(&offered));
    }
    Ok(vec![(name, HeaderValue::from_static(PROTOCOL))])
}

fn websocket_handshake(header: &dyn Fn(&str) -> String) -> Shake {
    let offered = header(SEC_WEBSOCKET_PROTOCOL.as_str());
    let tunnelled: Vec<&str> = words(&offered)
        .filter_map(|protocol| protocol.strip_prefix(TUNNELLED))
        .filter(|protocol| protocol.ends_with(".k8s.io"))
        .collect();
    // Without one of them the kubelet answers, which knows an older form only.
    if tunnelled.is_empty() {
        return Err(old_server());
    }
    if !tunnelled.contains(&PROTOCOL) {
        return Err(unknown(&tunnelled.join(" ")));
    }
    let key = header("sec-websocket-key");
    if key.is_empty() || header("sec-websocket-version") != "13" {
        return Err(Answer::text(400, "Bad Request\n"));
    }
    let magic = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, magic.as_bytes()));
    let value = |text: String| HeaderValue::try_from(text).map_err(|_| Answer::text(400, "Bad Request\n"));
    Ok(vec![
        (SEC_WEBSOCKET_ACCEPT, value(accept)?),
        (SEC_WEBSOCKET_PROTOCOL, value(format!("{TUNNELLED}{PROTOCOL}"))?),
    ])
}

/// What a server before Kubernetes 1.30 says to the WebSocket form.
pub(crate) fn old_server() -> Answer {
    Answer::text(400, OLD_SERVER)
}

pub(crate) const OLD_SERVER: &str = "query parameter \"port\" is required";

fn unknown(offered: &str) -> Answer {
    let text = format!(
        "unable to upgrade: unable to negotiate protocol: client supports [{offered}], server accepts [{PROTOCOL}]\n"
    );
    Answer::text(403, &text)
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// A Pod, and the server that stands for what runs in it.
#[derive(Clone)]
struct Pod {
    inner: Arc<Inner>,
    key: Key,
    uid: Value,
    target: SocketAddr,
}

impl Pod {
    fn find(inner: &Arc<Inner>, key: &Key) -> Option<Self> {
        let target = inner.pods_listen_at()?;
        let stored = inner.with_store(|store| store.get(key))?;
        let uid = stored.value["metadata"]["uid"].clone();
        Some(Self { inner: inner.clone(), key: key.clone(), uid, target })
    }

    /// The object, while it is still this Pod.
    fn object(&self) -> Option<Value> {
        let stored = self.inner.with_store(|store| store.get(&self.key))?;
        (stored.value["metadata"]["uid"] == self.uid).then(|| stored.value.clone())
    }

    async fn deleted(&self) {
        let mut changes = self.inner.changes();
        while self.object().is_some() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Serves one upgraded connection.
    async fn serve(&self, ends: (wire::Receiver, wire::Sender)) -> io::Result<()> {
        let _open = self.inner.forwards().connection();
        let dead = watch::Sender::new(false);
        let close = async {
            self.deleted().await;
            dead.send_replace(true);
            if self.inner.forwards().linger() {
                std::future::pending().await
            }
        };
        let mut half: HashMap<String, Stream> = HashMap::new();
        let accept = |stream: Stream| {
            let Some((request, error)) = purpose(&stream) else { return Some(stream) };
            match half.remove(&request) {
                Some(other) if purpose(&other).is_some_and(|(_, of_error)| of_error != error) => {
                    let (data, errors) = if error { (other, stream) } else { (stream, other) };
                    tokio::spawn(self.clone().forward(data, errors, dead.subscribe()));
                    None
                }
                Some(other) => {
                    half.insert(request, other);
                    Some(stream)
                }
                None => {
                    half.insert(request, stream);
                    None
                }
            }
        };
        spdy::serve(ends, accept, close).await
    }

    /// One connection to a port of the Pod, until both sides have ended it.
    async fn forward(self, data: Stream, errors: Stream, mut dead: watch::Receiver<bool>) {
        let _open = self.inner.forwards().pair();
        let Stream { mut input, mut gone, output, headers, .. } = data;
        let port: u16 = headers["port"].parse().unwrap_or_default();
        let ended = tokio::select! {
            ended = self.copy(port, &mut input, &output) => ended,
            _ = dead.wait_for(|dead| *dead) => Err(self.no_sandbox()),
            _ = &mut gone => Ok(()),
        };
        match ended {
            // In this order, as a kubelet does.
            Ok(()) => {
                errors.output.finish().await;
                output.finish().await;
            }
            Err(cause) => {
                let uid = self.uid.as_str().unwrap_or_default();
                let text = format!("error forwarding port {port} to pod {uid}, uid : {cause}");
                errors.output.send(text.as_bytes()).await;
                output.reset().await;
                errors.output.reset().await;
            }
        }
    }

    async fn copy(
        &self,
        port: u16,
        input: &mut tokio::sync::mpsc::Receiver<bytes::Bytes>,
        output: &spdy::Output,
    ) -> Result<(), String> {
        let mut connection = self.connect(port).await?;
        let (mut read, mut write) = connection.split();
        let up = async {
            while let Some(bytes) = input.recv().await {
                write.write_all(&bytes).await?;
            }
            write.shutdown().await
        };
        let down = async {
            let mut chunk = vec![0; CHUNK];
            loop {
                match read.read(&mut chunk).await? {
                    0 => return Ok(()),
                    count if !output.send(&chunk[..count]).await => return Ok(()),
                    _ => {}
                }
            }
        };
        let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
        let ended: io::Result<()> = tokio::select! {
            ended = &mut down => match ended {
                Ok(()) => tokio::time::timeout(GRACE, up).await.map(|_| ()).or(Ok(())),
                failed => failed,
            },
            ended = &mut up => match ended {
                Ok(()) => down.await,
                failed => failed,
            },
        };
        ended.map_err(|error| error.to_string())
    }

    async fn connect(&self, port: u16) -> Result<TcpStream, String> {
        let Some(pod) = self.object() else { return Err(self.no_sandbox()) };
        let listens = ports(&pod).any(|(_, open)| open == port);
        let connection = if listens { TcpStream::connect(self.target).await.ok() } else { None };
        let connection = connection.ok_or_else(|| {
            format!(
                "failed to connect to localhost:{port} inside namespace {}, IPv4: dial tcp4 127.0.0.1:{port}: \
                 connect: connection refused IPv6 dial tcp6: address localhost: no suitable address",
                self.uid
            )
        })?;
        let _ = connection.set_nodelay(true);
        Ok(connection)
    }

    fn no_sandbox(&self) -> String {
        format!("failed to find sandbox {} in store: not found", self.uid)
    }
}

/// Names and numbers of a Pod's container ports.
pub(crate) fn ports(pod: &Value) -> impl Iterator<Item = (&str, u16)> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    ports.filter_map(|port| {
        let number = port["containerPort"].as_u64().and_then(|number| u16::try_from(number).ok())?;
        Some((port["name"].as_str().unwrap_or_default(), number))
    })
}

/// Which request a stream belongs to, and whether it is the one for errors. `None` where a kubelet
/// would not take it.
fn purpose(stream: &Stream) -> Option<(String, bool)> {
    let header = |name: &str| stream.headers.get(name).map(String::as_str).unwrap_or_default();
    header("port").parse::<u16>().ok().filter(|port| *port > 0)?;
    let error = match header("streamtype") {
        "error" => true,
        "data" => false,
        _ => return None,
    };
    let request = match header("requestid") {
        // Old clients: the stream for data comes right behind that for errors.
        "" if error => stream.id.to_string(),
        "" => stream.id.saturating_sub(2).to_string(),
        given => given.to_owned(),
    };
    Some((request, error))
}
