//! A connection for port-forward over the hub's API: SPDY within a WebSocket, as kubectl opens it since
//! 1.30; where the hub knows only the older way, SPDY by itself.
//!
//! Source: KEP-4006, and `k8s.io/client-go/tools/portforward`.

use std::io::{Error as IoError, ErrorKind, Result as IoResult};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::{Method, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::backend::needed_rights;
use crate::error::{Error, Kind, Result};
use crate::hub::client::{Answer, Client, Upgrade};

type Io = TokioIo<Upgraded>;

const WITHIN_WEBSOCKET: &str = "SPDY/3.1+portforward.k8s.io";
const PROTOCOL: &str = "portforward.k8s.io";
const PIECE: usize = 64 << 10;

/// The half that reads.
pub enum Reader {
    /// Within a WebSocket.
    WebSocket(SplitStream<WebSocketStream<Io>>),
    /// By itself.
    Plain(Box<dyn AsyncRead + Unpin>, BytesMut),
}

/// The half that writes.
pub enum Writer {
    /// Within a WebSocket.
    WebSocket(SplitSink<WebSocketStream<Io>, Message>),
    /// By itself.
    Plain(Box<dyn AsyncWrite + Unpin>),
}

/// Opens a connection to a Pod.
///
/// # Errors
/// [`Kind::NotFound`]: the Pod is gone. [`Kind::Refused`]: a permission is missing.
/// [`Kind::Unreachable`]: the hub, or the way to it, carries no port-forward.
pub async fn open(client: &Client, namespace: &str, pod: &str) -> Result<(Reader, Writer)> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/portforward");
    let key = generate_key();
    let headers = [
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", &key),
        ("sec-websocket-protocol", WITHIN_WEBSOCKET),
    ];
    let without_websocket = match client.upgrade(Method::GET, &path, "websocket", &headers).await? {
        Upgrade::Switched(headers, io) => {
            let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            let accepted = said("sec-websocket-accept") == Some(&derive_accept_key(key.as_bytes()));
            if accepted && said("sec-websocket-protocol") == Some(WITHIN_WEBSOCKET) {
                let config =
                    WebSocketConfig::default().write_buffer_size(0).max_write_buffer_size(usize::MAX);
                let socket = WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await;
                let (writer, reader) = socket.split();
                return Ok((Reader::WebSocket(reader), Writer::WebSocket(writer)));
            }
            "another WebSocket protocol".to_owned()
        }
        Upgrade::Refused(answer) => {
            decided(&answer, namespace)?;
            answer.status.to_string()
        }
    };
    let headers = [("x-stream-protocol-version", PROTOCOL)];
    match client.upgrade(Method::POST, &path, "SPDY/3.1", &headers).await? {
        Upgrade::Switched(_, io) => {
            let (reader, writer) = tokio::io::split(io);
            Ok((Reader::Plain(Box::new(reader), BytesMut::new()), Writer::Plain(Box::new(writer))))
        }
        Upgrade::Refused(answer) => {
            decided(&answer, namespace)?;
            let with_spdy = answer.status;
            Err(Error::new(
                Kind::Unreachable,
                format!(
                    "the hub carries no port-forward: it answers {without_websocket} to a WebSocket and {with_spdy} to SPDY"
                ),
            )
            .remedy("a proxy before the hub may strip the Upgrade header; let it pass, or publish the user-server by a route of its own (`reach:` in the config file)"))
        }
    }
}

/// What the API itself said about it; the words of anything else only mean that this way is not known.
fn decided(answer: &Answer, namespace: &str) -> Result<()> {
    let status = answer.status;
    if status != StatusCode::UNAUTHORIZED && !answer.is_status() {
        return Ok(());
    }
    let error = answer.error("port-forward");
    match status {
        StatusCode::FORBIDDEN => Err(error.remedy(needed_rights(namespace))),
        StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND => Err(error),
        _ if status.is_server_error() => Err(Error { kind: Kind::Unreachable, ..error }),
        _ => Ok(()),
    }
}

impl Reader {
    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn next(&mut self) -> IoResult<Option<Bytes>> {
        match self {
            Self::WebSocket(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Binary(bytes))) => return Ok(Some(bytes)),
                    Some(Ok(Message::Close(_))) | None => return Ok(None),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(IoError::new(ErrorKind::ConnectionReset, error)),
                }
            },
            Self::Plain(io, held) => {
                held.reserve(PIECE);
                let read = io.read_buf(held).await?;
                Ok((read > 0).then(|| held.split().freeze()))
            }
        }
    }
}

impl Writer {
    /// Sends frames, the last of them at once.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn send(&mut self, frames: &mut Vec<Bytes>) -> IoResult<()> {
        match self {
            Self::WebSocket(socket) => {
                let reset = |error| IoError::new(ErrorKind::ConnectionReset, error);
                for frame in frames.drain(..) {
                    socket.feed(Message::Binary(frame)).await.map_err(reset)?;
                }
                socket.flush().await.map_err(reset)
            }
            Self::Plain(io) => {
                for frame in frames.drain(..) {
                    io.write_all(&frame).await?;
                }
                io.flush().await
            }
        }
    }
}
