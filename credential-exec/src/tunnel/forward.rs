//! One local connection, joined to a stream of the carrier: bytes both ways, each half ended by itself.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::carrier::{Event, Inbound, Outbound};

/// The most that is read from a local connection at once, in bytes.
const PIECE: usize = 64 << 10;

/// How long a connection with one half ended may be silent on the other: while an answer is awaited, and
/// when the last word was the cluster's. A program that just ends looks like one that ends its half.
const LINGER: Duration = Duration::from_secs(60);
const ANSWERED: Duration = Duration::from_secs(2);

/// How much went where.
#[derive(Default)]
pub struct Traffic {
    /// Bytes to the cluster.
    pub sent: Cell<u64>,
    /// Bytes from the cluster.
    pub received: Cell<u64>,
}

/// What was sent on a connection before anything came back: a Pod that is no more can be replaced by
/// another one, which is told the same.
#[derive(Default)]
pub struct Opening {
    sent: RefCell<BytesMut>,
    /// Whether something came back, or too much was sent to keep.
    over: Cell<bool>,
}

impl Opening {
    /// Whether it can be told to another Pod.
    pub fn can_be_repeated(&self) -> bool {
        !self.over.get()
    }

    fn keep(&self, bytes: &[u8]) {
        let mut sent = self.sent.borrow_mut();
        if self.over.get() || sent.len() + bytes.len() > PIECE {
            self.end(&mut sent);
        } else {
            sent.extend_from_slice(bytes);
        }
    }

    fn end(&self, sent: &mut BytesMut) {
        self.over.set(true);
        *sent = BytesMut::new();
    }
}

/// Copies until both halves have ended, after repeating what an earlier try left.
///
/// # Errors
/// Why it broke, in words; empty when the local side just went away.
pub async fn run(
    local: &mut TcpStream,
    outbound: Outbound,
    mut inbound: Inbound,
    opening: &Opening,
    traffic: &Traffic,
) -> Result<(), String> {
    let gone = |_: std::io::Error| String::new();
    let repeated = opening.sent.borrow().clone();
    if !repeated.is_empty() {
        let mut frame = Outbound::frame(repeated.len());
        frame.extend_from_slice(&repeated);
        outbound.send(frame).await.map_err(|error| error.to_string())?;
    }
    let (reader, mut writer) = local.split();
    let (moved, answered, half_ended) = (Cell::new(0), Cell::new(true), Notify::new());
    let upload = async {
        loop {
            reader.readable().await.map_err(gone)?;
            let mut frame = Outbound::frame(PIECE);
            match reader.try_read_buf(&mut frame) {
                Ok(0) => break,
                Ok(read) => {
                    add(&traffic.sent, read);
                    add(&moved, read);
                    answered.set(false);
                    opening.keep(Outbound::content(&frame));
                    outbound.send(frame).await.map_err(|error| error.to_string())?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(gone(error)),
            }
        }
        half_ended.notify_one();
        outbound.finish().await.map_err(|error| error.to_string())
    };
    let download = async {
        loop {
            match inbound.next().await {
                Event::Data(bytes) => {
                    if opening.can_be_repeated() {
                        opening.end(&mut opening.sent.borrow_mut());
                    }
                    writer.write_all(&bytes).await.map_err(gone)?;
                    add(&traffic.received, bytes.len());
                    add(&moved, bytes.len());
                    answered.set(true);
                    inbound.taken(bytes.len());
                }
                Event::End => break,
                Event::Broken(why) if why.is_empty() => {
                    return Err("its connection to the hub ended".to_owned());
                }
                Event::Broken(why) => return Err(why),
            }
        }
        half_ended.notify_one();
        writer.shutdown().await.map_err(gone)
    };
    let linger = async {
        half_ended.notified().await;
        let mut before = None;
        while before != Some(moved.get()) {
            before = Some(moved.get());
            tokio::time::sleep(if answered.get() { ANSWERED } else { LINGER }).await;
        }
    };
    tokio::select! {
        result = async { tokio::try_join!(upload, download) } => result.map(|_| ()),
        () = linger => Err(String::new()),
    }
}

fn add(counter: &Cell<u64>, bytes: usize) {
    counter.set(counter.get() + bytes as u64);
}
