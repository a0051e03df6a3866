//! A longer way between client and server: what comes in is delivered later, each way.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// What a connection is carried by.
pub(crate) trait Link: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

/// The connection as it is, or behind so much delay each way.
pub(crate) fn link(stream: TcpStream, delay: Duration) -> Box<dyn Link> {
    if delay.is_zero() { Box::new(stream) } else { Box::new(delayed(stream, delay)) }
}

fn delayed(stream: TcpStream, delay: Duration) -> DuplexStream {
    let (near, far) = duplex(256 * 1024);
    let (read, write) = stream.into_split();
    let (from, to) = tokio::io::split(far);
    tokio::spawn(carry(read, to, delay));
    tokio::spawn(carry(from, write, delay));
    near
}

/// Copies to the end, which it hands on; everything takes so long, and much may be on its way.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin + Send + 'static,
    delay: Duration,
) {
    let (sender, mut queue) = mpsc::channel::<(Instant, BytesMut)>(1024);
    tokio::spawn(async move {
        while let Some((due, bytes)) = queue.recv().await {
            sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
    loop {
        let mut bytes = BytesMut::with_capacity(64 * 1024);
        match from.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if sender.send((Instant::now() + delay, bytes)).await.is_err() {
            return;
        }
    }
}
