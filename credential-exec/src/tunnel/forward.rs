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

    /// Whether something was said, and nothing came back.
    fn is_unanswered(&self) -> bool {
        !self.over.get() && !self.sent.borrow().is_empty()
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
    let asks_no_more = Cell::new(false);
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
        asks_no_more.set(true);
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
                Event::End if opening.is_unanswered() && !asks_no_more.get() => {
                    return Err("it was closed without an answer".to_owned());
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::SystemTime;

    use tokio::io::{AsyncReadExt as _, DuplexStream};
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;
    use crate::tunnel::backend::Backend;
    use crate::tunnel::carrier::Carrier;
    use crate::tunnel::link::{Reader, Writer};
    use crate::tunnel::spdy;

    fn carrier(pod: &str) -> (Carrier, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(ours);
        let carrier = Carrier::new(
            Reader::Plain(Box::new(reader), BytesMut::new()),
            Writer::Plain(Box::new(writer)),
            Backend { pod: pod.into(), port: 9092 },
            Rc::new(|| SystemTime::UNIX_EPOCH),
        );
        (carrier, theirs)
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (there, here) = tokio::join!(TcpStream::connect(address), listener.accept());
        (there.unwrap(), here.unwrap().0)
    }

    /// Reads until these bytes went over the pipe.
    async fn until_sent(server: &mut DuplexStream, wanted: &[u8]) {
        let mut sent = Vec::new();
        while !sent.windows(wanted.len()).any(|bytes| bytes == wanted) {
            let mut piece = [0; 4096];
            let read = server.read(&mut piece).await.unwrap();
            assert_ne!(read, 0);
            sent.extend_from_slice(&piece[..read]);
        }
    }

    #[tokio::test]
    async fn an_answer_of_megabytes_comes_after_the_question_has_ended() {
        const ANSWER: usize = 5 << 20;
        let test = async {
            let (carrier, mut server) = carrier("pod");
            let (outbound, inbound) = carrier.open().await.unwrap();
            let (mut program, mut local) = pair().await;
            let (opening, traffic) = (Opening::default(), Traffic::default());
            let forwarded = run(&mut local, outbound, inbound, &opening, &traffic);
            let asked = async {
                program.write_all(b"question").await.unwrap();
                program.shutdown().await.unwrap();
                let mut answer = Vec::new();
                program.read_to_end(&mut answer).await.unwrap();
                answer.len()
            };
            let answered = async {
                until_sent(&mut server, &[b"question", &spdy::finish(3)[..]].concat()).await;
                for _ in 0..5 {
                    server.write_all(&spdy::data_head(3, ANSWER / 5)).await.unwrap();
                    server.write_all(&vec![7; ANSWER / 5]).await.unwrap();
                }
                server.write_all(&spdy::finish(3)).await.unwrap();
            };
            let (forwarded, read, ()) = tokio::join!(forwarded, asked, answered);
            assert_eq!((forwarded, read), (Ok(()), ANSWER));
            assert_eq!((traffic.sent.get(), traffic.received.get()), (8, ANSWER as u64));
            assert!(!opening.can_be_repeated());
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn what_a_gone_pod_never_answered_is_told_to_the_next_one() {
        let test = async {
            let (mut program, mut local) = pair().await;
            let (opening, traffic) = (Opening::default(), Traffic::default());
            program.write_all(b"hello").await.unwrap();

            let (gone, mut server) = carrier("gone");
            let (outbound, inbound) = gone.open().await.unwrap();
            let breaks = async {
                until_sent(&mut server, b"hello").await;
                server.write_all(&[&spdy::data_head(1, 4)[..], b"gone"].concat()).await.unwrap();
            };
            let (broke, ()) = tokio::join!(run(&mut local, outbound, inbound, &opening, &traffic), breaks);
            assert_eq!(broke, Err("gone".to_owned()));
            assert!(opening.can_be_repeated());

            let (next, mut server) = carrier("next");
            let (outbound, inbound) = next.open().await.unwrap();
            let answers = async {
                until_sent(&mut server, b"hello").await;
                server.write_all(&[&spdy::data_head(3, 2)[..], b"hi"].concat()).await.unwrap();
                let mut answer = [0; 2];
                program.read_exact(&mut answer).await.unwrap();
                server.write_all(&[&spdy::data_head(1, 4)[..], b"gone"].concat()).await.unwrap();
            };
            let (broke, ()) = tokio::join!(run(&mut local, outbound, inbound, &opening, &traffic), answers);
            assert_eq!(broke, Err("gone".to_owned()));
            assert!(!opening.can_be_repeated(), "what was answered must not be said twice");
        };
        LocalSet::new().run_until(test).await;
    }
}
