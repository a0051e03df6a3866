//! One connection over the hub to one Pod, which carries the streams of many local connections: a new
//! one pays no handshake and no round trip.
//!
//! What comes for a stream waits in the stream's own room. A stream whose reader takes nothing fills its
//! room and then stops the whole connection; such a carrier takes no new streams, so that only those
//! suffer that were there before. The room is larger than what an HTTP/2 client allows to come unread
//! (4 MiB a stream in Go's), so this is met by bulk transfers alone.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, spawn_local};

use super::backend::Backend;
use super::link::{Reader, Writer};
use super::spdy::{self, Decoder, Encoder, Frame, HEAD};

/// Tells the time of day, which unlike a monotonic clock goes on while this machine sleeps.
pub type Clock = Rc<dyn Fn() -> SystemTime>;

/// How many bytes may wait for one stream's reader.
const ROOM: usize = 8 << 20;

/// How many frames may wait to be sent.
const WAITING: usize = 32;

/// After this long without a word the server is asked for one.
const SILENCE: Duration = Duration::from_secs(10);

/// A carrier that has been silent for longer must speak before a new stream is put on it: this machine
/// may have slept meanwhile, and the connection be long gone.
const DOUBT: Duration = Duration::from_secs(15);

/// How long the server may take to speak when asked.
const ANSWER: Duration = Duration::from_secs(3);

/// A connection to a Pod. Clones are the same one; with the last clone and stream it closes.
#[derive(Clone)]
pub struct Carrier(Rc<Handle>);

struct Handle {
    inner: Rc<Inner>,
    tasks: [AbortHandle; 3],
}

impl Drop for Handle {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

struct Inner {
    backend: Backend,
    clock: Clock,
    out: mpsc::Sender<Bytes>,
    streams: RefCell<Streams>,
    /// Why it can carry nothing more, once it cannot.
    end: watch::Sender<Option<String>>,
    /// Whether it takes no new streams any more.
    leaving: Cell<bool>,
    /// Whether the reader waits for room in a stream.
    stalled: Cell<bool>,
    heard_at: Cell<SystemTime>,
    heard: Notify,
}

#[derive(Default)]
struct Streams {
    encoder: Encoder,
    opened: u32,
    data: HashMap<u32, Waiting>,
}

struct Waiting {
    events: mpsc::UnboundedSender<Event>,
    room: Arc<Semaphore>,
}

/// What comes on a stream.
#[derive(Debug)]
pub enum Event {
    /// Bytes; see [`Inbound::taken`].
    Data(Bytes),
    /// The other side sends no more.
    End,
    /// The stream is broken, and why if that was said.
    Broken(String),
}

/// The half of a stream that sends. The stream is reset when this is dropped before both ends are reached.
pub struct Outbound {
    carrier: Carrier,
    stream: u32,
    finished: Cell<bool>,
}

/// The half of a stream that receives.
pub struct Inbound {
    events: mpsc::UnboundedReceiver<Event>,
    room: Arc<Semaphore>,
}

impl Carrier {
    /// Takes a connection to a Pod into use.
    pub fn new(reader: Reader, writer: Writer, backend: Backend, clock: Clock) -> Self {
        let (out, frames) = mpsc::channel(WAITING);
        let inner = Rc::new(Inner {
            backend,
            out,
            streams: RefCell::default(),
            end: watch::Sender::new(None),
            leaving: Cell::new(false),
            stalled: Cell::new(false),
            heard_at: Cell::new(clock()),
            heard: Notify::new(),
            clock,
        });
        let ending = |inner: &Rc<Inner>| {
            let inner = inner.clone();
            move |reason: String| inner.end(reason)
        };
        let (after_read, after_write) = (ending(&inner), ending(&inner));
        let reading = inner.clone();
        let tasks = [
            spawn_local(async move { after_read(reading.read(reader).await) }).abort_handle(),
            spawn_local(async move { after_write(write(writer, frames).await) }).abort_handle(),
            spawn_local(watch_over(inner.clone())).abort_handle(),
        ];
        Self(Rc::new(Handle { inner, tasks }))
    }

    /// The Pod.
    pub fn pod(&self) -> &str {
        &self.0.inner.backend.pod
    }

    /// Whether a new stream may be put on it: not closed, not leaving, not held up, and heard of lately.
    pub async fn is_fit(&self) -> bool {
        let inner = &self.0.inner;
        if inner.end.borrow().is_some() || inner.leaving.get() || inner.stalled.get() {
            return false;
        }
        if inner.silent_for() > DOUBT && !inner.answers(ANSWER).await {
            inner.end("it was silent when asked for a word".to_owned());
            return false;
        }
        true
    }

    /// Puts no new streams on it: its Pod takes none. A hub may keep the connection to a Pod that is gone.
    pub fn give_up(&self) {
        self.0.inner.leaving.set(true);
    }

    /// Waits for its end and says why.
    pub fn ended(&self) -> impl Future<Output = String> + use<> {
        let mut end = self.0.inner.end.subscribe();
        async move {
            match end.wait_for(Option::is_some).await {
                Ok(reason) => reason.clone().unwrap_or_default(),
                Err(_) => "it is not needed any more".to_owned(),
            }
        }
    }

    /// Opens a stream. Nothing is waited for: what is sent follows at once.
    ///
    /// # Errors
    /// Why the carrier is no more.
    pub async fn open(&self) -> Result<(Outbound, Inbound), String> {
        let inner = &self.0.inner;
        let closed = || inner.end.borrow().clone().unwrap_or_else(|| "it is closed".to_owned());
        let mut places = inner.out.reserve_many(2).await.map_err(|_| closed())?;
        if inner.end.borrow().is_some() {
            return Err(closed());
        }
        let mut streams = inner.streams.borrow_mut();
        let number = streams.opened;
        streams.opened += 1;
        // A client's streams have odd numbers; each forward is a pair of them.
        let (errors, stream) = (number * 4 + 1, number * 4 + 3);
        let (port, request) = (inner.backend.port.to_string(), number.to_string());
        for (id, kind, finished) in [(errors, "error", true), (stream, "data", false)] {
            let headers = [("port", port.as_str()), ("requestid", &request), ("streamtype", kind)];
            let frame = streams.encoder.open(id, &headers, finished);
            if let Some(place) = places.next() {
                place.send(frame);
            }
        }
        let (sender, events) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(ROOM));
        streams.data.insert(stream, Waiting { events: sender, room: room.clone() });
        let outbound = Outbound { carrier: self.clone(), stream, finished: Cell::new(false) };
        Ok((outbound, Inbound { events, room }))
    }
}

impl Outbound {
    /// Room for the head of a frame, to be followed by at most 16 MiB of data.
    pub fn frame(capacity: usize) -> BytesMut {
        let mut frame = BytesMut::with_capacity(HEAD + capacity);
        frame.extend_from_slice(&[0; HEAD]);
        frame
    }

    /// What follows the head in such a frame.
    pub fn content(frame: &[u8]) -> &[u8] {
        &frame[HEAD..]
    }

    /// Sends what follows the head in a [`Outbound::frame`], waiting while too much waits already.
    ///
    /// # Errors
    /// The carrier is no more.
    pub async fn send(&self, mut frame: BytesMut) -> io::Result<()> {
        let length = frame.len() - HEAD;
        frame[..HEAD].copy_from_slice(&spdy::data_head(self.stream, length));
        self.put(frame.freeze()).await
    }

    /// Says that nothing more is sent.
    ///
    /// # Errors
    /// The carrier is no more.
    pub async fn finish(&self) -> io::Result<()> {
        self.finished.set(true);
        self.put(spdy::finish(self.stream)).await
    }

    async fn put(&self, frame: Bytes) -> io::Result<()> {
        let out = &self.carrier.0.inner.out;
        out.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        let inner = &self.carrier.0.inner;
        let open = inner.streams.borrow_mut().data.remove(&self.stream).is_some();
        if !open && self.finished.get() {
            return;
        }
        let reset = spdy::reset(self.stream);
        if let Err(mpsc::error::TrySendError::Full(reset)) = inner.out.try_send(reset) {
            let out = inner.out.clone();
            spawn_local(async move { out.send(reset).await });
        }
    }
}

impl Inbound {
    /// What comes next. After an end nothing does.
    pub async fn next(&mut self) -> Event {
        self.events.recv().await.unwrap_or_else(|| Event::Broken(String::new()))
    }

    /// Says that this much data was passed on, so that more may come.
    pub fn taken(&self, bytes: usize) {
        self.room.add_permits(bytes);
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.room.close();
    }
}

impl Inner {
    fn silent_for(&self) -> Duration {
        // A clock set back is no silence.
        (self.clock)().duration_since(self.heard_at.get()).unwrap_or_default()
    }

    /// Asks the server for a word.
    async fn answers(&self, limit: Duration) -> bool {
        let heard = self.heard.notified();
        tokio::time::timeout(limit, async {
            let sent = self.out.send(spdy::ping(1)).await;
            heard.await;
            sent.is_ok()
        })
        .await
        .unwrap_or(false)
    }

    fn end(&self, reason: String) {
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            if first {
                *end = Some(reason);
            }
            first
        });
        self.streams.borrow_mut().data.clear();
    }

    async fn read(&self, mut reader: Reader) -> String {
        let mut decoder = Decoder::default();
        loop {
            match reader.next().await {
                Ok(Some(bytes)) => decoder.push(&bytes),
                Ok(None) => return "the hub closed the connection".to_owned(),
                Err(error) => return format!("the connection to the hub broke: {error}"),
            }
            self.heard_at.set((self.clock)());
            self.heard.notify_waiters();
            loop {
                match decoder.next() {
                    Ok(Some(frame)) => self.take(frame).await,
                    Ok(None) => break,
                    Err(error) => return error.to_string(),
                }
            }
        }
    }

    async fn take(&self, frame: Frame) {
        match frame {
            Frame::Data { stream, bytes, last } if stream % 4 == 3 => {
                let found =
                    self.streams.borrow().data.get(&stream).map(|to| (to.events.clone(), to.room.clone()));
                let Some((events, room)) = found else { return };
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                if room.available_permits() < bytes.len() {
                    self.stalled.set(true);
                }
                let permits = room.acquire_many(length).await;
                self.stalled.set(false);
                let Ok(permits) = permits else { return };
                permits.forget();
                if !bytes.is_empty() {
                    let _ = events.send(Event::Data(bytes));
                }
                if last {
                    let _ = events.send(Event::End);
                    self.streams.borrow_mut().data.remove(&stream);
                }
            }
            // What stands on the error stream says why the Pod's port could not be reached.
            Frame::Data { stream, bytes, .. } => {
                if !bytes.is_empty()
                    && let Some(to) = self.streams.borrow_mut().data.remove(&(stream + 2))
                {
                    let _ = to.events.send(Event::Broken(String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
            Frame::Reset { stream } => {
                if let Some(to) = self.streams.borrow_mut().data.remove(&stream) {
                    let _ = to.events.send(Event::Broken("the hub reset it".to_owned()));
                }
            }
            Frame::Ping { id } if id % 2 == 0 => {
                let _ = self.out.send(spdy::ping(id)).await;
            }
            Frame::Ping { .. } => {}
            Frame::GoAway => self.leaving.set(true),
        }
    }
}

async fn write(mut writer: Writer, mut frames: mpsc::Receiver<Bytes>) -> String {
    let mut batch = Vec::with_capacity(WAITING);
    while frames.recv_many(&mut batch, WAITING).await > 0 {
        if let Err(error) = writer.send(&mut batch).await {
            return format!("the connection to the hub broke: {error}");
        }
    }
    "it is not needed any more".to_owned()
}

/// Notices a server that is silent for good, which TCP alone would not.
async fn watch_over(inner: Rc<Inner>) {
    loop {
        tokio::time::sleep(SILENCE).await;
        // While the reader itself waits, silence says nothing.
        if inner.silent_for() < SILENCE || inner.stalled.get() {
            continue;
        }
        if !inner.answers(ANSWER).await && !inner.stalled.get() {
            inner.end("the hub or the Pod does not answer any more".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::task::LocalSet;

    /// A carrier over pipes, the server's end of them, and its clock.
    fn carrier() -> (Carrier, DuplexStream, Rc<Cell<SystemTime>>) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(ours);
        let time = Rc::new(Cell::new(SystemTime::UNIX_EPOCH));
        let reading = time.clone();
        let carrier = Carrier::new(
            Reader::Plain(Box::new(reader), BytesMut::new()),
            Writer::Plain(Box::new(writer)),
            Backend { pod: "pod".into(), port: 9092 },
            Rc::new(move || reading.get()),
        );
        (carrier, theirs, time)
    }

    async fn on<F: Future>(test: F) -> F::Output {
        LocalSet::new().run_until(test).await
    }

    fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
        [&spdy::data_head(stream, bytes.len()), bytes].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_sleep_of_the_machine_the_server_must_speak_before_it_is_used() {
        on(async {
            let (carrier, mut server, time) = carrier();
            assert!(carrier.is_fit().await, "just made");
            time.set(time.get() + Duration::from_secs(3600));
            let asked = async {
                let mut ping = [0; 12];
                server.read_exact(&mut ping).await.unwrap();
                assert_eq!(ping, *spdy::ping(1));
                server.write_all(&ping).await.unwrap();
            };
            assert!(tokio::join!(carrier.is_fit(), asked).0, "it spoke");
            time.set(time.get() + Duration::from_secs(3600));
            assert!(!carrier.is_fit().await, "it is gone");
            assert!(carrier.ended().await.contains("silent"));
            assert!(carrier.open().await.is_err());
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_silent_for_good_is_noticed_without_being_used() {
        on(async {
            let (carrier, _server, time) = carrier();
            let (_outbound, mut inbound) = carrier.open().await.unwrap();
            time.set(time.get() + Duration::from_secs(11));
            assert!(carrier.ended().await.contains("does not answer"));
            assert!(matches!(inbound.next().await, Event::Broken(why) if why.is_empty()));
        })
        .await;
    }

    #[tokio::test]
    async fn a_stream_that_nobody_reads_stops_its_carrier_and_sends_new_ones_elsewhere() {
        on(async {
            let (carrier, mut server, _time) = carrier();
            let (outbound, inbound) = carrier.open().await.unwrap();
            let piece = data(3, &vec![7; 1 << 20]);
            for _ in 0..=(ROOM >> 20) {
                server.write_all(&piece).await.unwrap();
            }
            while carrier.is_fit().await {
                tokio::task::yield_now().await;
            }
            drop((outbound, inbound));
            while !carrier.is_fit().await {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    #[tokio::test]
    async fn what_stands_on_the_error_stream_breaks_its_stream_alone() {
        on(async {
            let (carrier, mut server, _time) = carrier();
            let (_one, mut first) = carrier.open().await.unwrap();
            let (_two, mut second) = carrier.open().await.unwrap();
            server.write_all(&data(1, b"connection refused")).await.unwrap();
            server.write_all(&data(7, b"hello")).await.unwrap();
            server.write_all(&spdy::finish(7)).await.unwrap();
            assert!(matches!(first.next().await, Event::Broken(why) if why == "connection refused"));
            assert!(matches!(second.next().await, Event::Data(bytes) if bytes == "hello"));
            assert!(matches!(second.next().await, Event::End));
        })
        .await;
    }

    #[tokio::test]
    async fn a_stream_that_is_dropped_is_reset_unless_both_ends_were_reached() {
        on(async {
            let (carrier, mut server, _time) = carrier();
            let (first, _first) = carrier.open().await.unwrap();
            let (second, mut events) = carrier.open().await.unwrap();
            second.finish().await.unwrap();
            server.write_all(&spdy::finish(7)).await.unwrap();
            assert!(matches!(events.next().await, Event::End));
            drop((first, second, events, carrier.clone()));
            let mut sent = Vec::new();
            let reset = spdy::reset(3);
            while !sent.ends_with(&reset) {
                let mut piece = [0; 1024];
                let read = server.read(&mut piece).await.unwrap();
                sent.extend_from_slice(&piece[..read]);
            }
            let resets = sent.windows(4).filter(|head| *head == [0x80, 3, 0, 3]).count();
            assert_eq!(resets, 1);
            assert_eq!((&reset[8..12]).get_u32(), 3);
        })
        .await;
    }
}
