//! One connection: its frames, and the streams that the client opened on it.

use std::collections::HashMap;
use std::io;

use bytes::{Bytes, BytesMut};
use tokio::sync::{mpsc, oneshot};

use super::frame::{self, Frame, Reason};
use super::headers::{Headers, Reader, Writer};
use crate::wire::{Receiver, Sender};

/// Frames of one stream that wait before the whole connection waits: there is no flow control.
const QUEUE: usize = 16;

/// A stream that the client opened.
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) headers: Headers,
    /// What comes; ends when the client ends its side.
    pub(crate) input: mpsc::Receiver<Bytes>,
    /// Resolves when the client reset the stream or the connection ended.
    pub(crate) gone: oneshot::Receiver<()>,
    pub(crate) output: Output,
}

/// The way back.
#[derive(Clone)]
pub(crate) struct Output {
    id: u32,
    frames: mpsc::Sender<Bytes>,
}

impl Output {
    /// Waits until there is room; false when the connection has ended.
    pub(crate) async fn send(&self, bytes: &[u8]) -> bool {
        self.frames.send(frame::data(self.id, false, bytes)).await.is_ok()
    }

    /// Ends the server's side.
    pub(crate) async fn finish(&self) {
        let _ = self.frames.send(frame::data(self.id, true, b"")).await;
    }

    /// Ends both sides.
    pub(crate) async fn reset(&self) {
        let _ = self.frames.send(frame::reset(self.id, Reason::Cancel)).await;
    }
}

/// What the connection keeps of a stream. Dropping it is a reset.
struct Entry {
    input: Option<mpsc::Sender<Bytes>>,
    alive: oneshot::Sender<()>,
}

/// Serves until the client goes or `close` resolves. `accept` gives back a stream that it does not take.
pub(crate) async fn serve(
    (receiver, sender): (Receiver, Sender),
    accept: impl FnMut(Stream) -> Option<Stream>,
    close: impl Future,
) -> io::Result<()> {
    let (frames, queue) = mpsc::channel(QUEUE);
    tokio::select! {
        ended = read(receiver, frames, accept) => ended,
        ended = sender.send_all(queue, close) => ended,
    }
}

async fn read(
    mut receiver: Receiver,
    frames: mpsc::Sender<Bytes>,
    mut accept: impl FnMut(Stream) -> Option<Stream>,
) -> io::Result<()> {
    let (mut inflate, mut deflate) = (Reader::new(), Writer::new());
    let mut streams: HashMap<u32, Entry> = HashMap::new();
    let (mut buffer, mut next) = (BytesMut::new(), 1);
    let write = async |frame| frames.send(frame).await.map_err(io::Error::other);
    loop {
        let Some(frame) = frame::take(&mut buffer)? else {
            if !receiver.receive(&mut buffer).await? {
                return Ok(());
            }
            continue;
        };
        match frame {
            Frame::Open { id, fin, headers } => {
                let headers = inflate.read(&headers)?;
                if id < next {
                    write(frame::reset(id, Reason::Protocol)).await?;
                    continue;
                }
                next = id + 2;
                let (sender, input) = mpsc::channel(QUEUE);
                let (alive, gone) = oneshot::channel();
                let output = Output { id, frames: frames.clone() };
                write(frame::reply(id, &deflate.empty()?)).await?;
                streams.retain(|_, entry| !entry.alive.is_closed());
                streams.insert(id, Entry { input: (!fin).then_some(sender), alive });
                if let Some(refused) = accept(Stream { id, headers, input, gone, output }) {
                    streams.remove(&id);
                    refused.output.reset().await;
                }
            }
            Frame::Data { id, fin, bytes } => {
                let Some(entry) = streams.get_mut(&id) else { continue };
                if let Some(input) = entry.input.as_ref().filter(|_| !bytes.is_empty()) {
                    // Nobody reads any more: what comes is dropped.
                    let _ = input.send(bytes).await;
                }
                if fin {
                    entry.input = None;
                }
            }
            Frame::Reset { id } => drop(streams.remove(&id)),
            // Even ones answer the server's own, which sends none.
            Frame::Ping(id) if id % 2 == 1 => write(frame::ping(id)).await?,
            Frame::GoAway => return Ok(()),
            Frame::Ping(_) | Frame::Other => {}
        }
    }
}
