//! The bytes of an upgraded connection: as they are, or in the binary messages of a WebSocket.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

type Raw = TokioIo<Upgraded>;
type Socket = WebSocketStream<Raw>;

/// Where bytes come from.
pub(crate) struct Receiver {
    from: Source,
    hang: watch::Receiver<bool>,
}

/// Where they go.
pub(crate) struct Sender {
    to: Target,
    hang: watch::Receiver<bool>,
}

enum Source {
    Plain(ReadHalf<Raw>),
    Socket(SplitStream<Socket>),
}

enum Target {
    Plain(WriteHalf<Raw>),
    Socket(SplitSink<Socket, Message>),
}

/// Both ways of a connection. Nothing moves while `hang` says so.
pub(crate) async fn split(
    upgraded: Upgraded,
    websocket: bool,
    hang: watch::Receiver<bool>,
) -> (Receiver, Sender) {
    let raw = TokioIo::new(upgraded);
    let (from, to) = if websocket {
        let (to, from) = WebSocketStream::from_raw_socket(raw, Role::Server, None).await.split();
        (Source::Socket(from), Target::Socket(to))
    } else {
        let (from, to) = tokio::io::split(raw);
        (Source::Plain(from), Target::Plain(to))
    };
    (Receiver { from, hang: hang.clone() }, Sender { to, hang })
}

impl Receiver {
    /// Waits for more bytes; false when there will be none.
    pub(crate) async fn receive(&mut self, buffer: &mut BytesMut) -> io::Result<bool> {
        let more = match &mut self.from {
            Source::Plain(read) => {
                buffer.reserve(64 * 1024);
                read.read_buf(buffer).await? > 0
            }
            Source::Socket(socket) => match socket.next().await {
                // A frame may span messages and a message frames: only the bytes count.
                Some(Ok(Message::Binary(bytes))) => {
                    buffer.extend_from_slice(&bytes);
                    true
                }
                Some(Ok(Message::Text(_))) => return Err(io::Error::other("a text message")),
                Some(Ok(Message::Close(_))) | None => false,
                Some(Ok(_)) => true,
                Some(Err(error)) => return Err(io::Error::other(error)),
            },
        };
        let _ = self.hang.wait_for(|hang| !*hang).await;
        Ok(more)
    }
}

impl Sender {
    /// Sends what is queued, until the other end is gone or `close` resolves, which is said to it.
    pub(crate) async fn send_all(
        mut self,
        mut queue: mpsc::Receiver<Bytes>,
        close: impl Future,
    ) -> io::Result<()> {
        let (mut frames, mut close) = (Vec::new(), std::pin::pin!(close));
        loop {
            let count = tokio::select! {
                _ = &mut close => break,
                count = queue.recv_many(&mut frames, 16) => count,
            };
            if count == 0 {
                break;
            }
            let _ = self.hang.wait_for(|hang| !*hang).await;
            for frame in frames.drain(..) {
                match &mut self.to {
                    Target::Plain(write) => write.write_all(&frame).await?,
                    Target::Socket(socket) => {
                        socket.feed(Message::Binary(frame)).await.map_err(io::Error::other)?;
                    }
                }
            }
            match &mut self.to {
                Target::Plain(write) => write.flush().await?,
                Target::Socket(socket) => socket.flush().await.map_err(io::Error::other)?,
            }
        }
        match &mut self.to {
            Target::Plain(write) => write.shutdown().await,
            Target::Socket(socket) => socket.close().await.map_err(io::Error::other),
        }
    }
}
