//! Frames: 31 bits of stream or type, 8 of flags, 24 of length, then the payload.

use std::io;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// As much as one data frame carries at most when the server sends it.
pub(crate) const CHUNK: usize = 32 * 1024;

const HEAD: usize = 8;
const FIN: u8 = 1;
const CONTROL: u32 = 1 << 31;
const VERSION: u32 = CONTROL | 3 << 16;
const SYN_STREAM: u32 = VERSION | 1;
const SYN_REPLY: u32 = VERSION | 2;
const RST_STREAM: u32 = VERSION | 3;
const PING: u32 = VERSION | 6;
const GOAWAY: u32 = VERSION | 7;

/// Why a stream is reset.
#[derive(Clone, Copy)]
pub(crate) enum Reason {
    Protocol = 1,
    Cancel = 5,
}

/// What a client sends.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    /// A new stream; the headers are still compressed.
    Open {
        id: u32,
        fin: bool,
        headers: Bytes,
    },
    Data {
        id: u32,
        fin: bool,
        bytes: Bytes,
    },
    Reset {
        id: u32,
    },
    Ping(u32),
    GoAway,
    /// Settings, window updates, headers: nothing that a port-forward needs.
    Other,
}

/// Takes the first frame off the bytes that came; `None` where it is not all there.
pub(crate) fn take(buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
    let Some(mut head) = buffer.get(..HEAD) else { return Ok(None) };
    let (kind, rest) = (head.get_u32(), head.get_u32());
    let (flags, length) = ((rest >> 24) as u8, (rest & 0x00ff_ffff) as usize);
    if buffer.len() < HEAD + length {
        buffer.reserve(HEAD + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(HEAD);
    let mut payload = buffer.split_to(length).freeze();
    let fin = flags & FIN != 0;
    let word = |payload: &mut Bytes| payload.try_get_u32().map_err(io::Error::other);
    Ok(Some(match kind {
        SYN_STREAM => {
            let id = word(&mut payload)?;
            // The parent stream, the priority and a slot: not used here.
            if payload.len() < 6 {
                return Err(io::Error::other("a SYN_STREAM that is too short"));
            }
            payload.advance(6);
            Frame::Open { id, fin, headers: payload }
        }
        RST_STREAM => Frame::Reset { id: word(&mut payload)? },
        PING => Frame::Ping(word(&mut payload)?),
        GOAWAY => Frame::GoAway,
        kind if kind & CONTROL != 0 && kind & 0xffff_0000 != VERSION => {
            return Err(io::Error::other("a frame of another version"));
        }
        kind if kind & CONTROL != 0 => Frame::Other,
        id => Frame::Data { id, fin, bytes: payload },
    }))
}

/// Accepts a stream.
pub(crate) fn reply(id: u32, headers: &[u8]) -> Bytes {
    let mut frame = head(SYN_REPLY, false, 4 + headers.len());
    frame.put_u32(id);
    frame.put_slice(headers);
    frame.freeze()
}

/// Bytes of a stream, and with `fin` its end.
pub(crate) fn data(id: u32, fin: bool, bytes: &[u8]) -> Bytes {
    let mut frame = head(id, fin, bytes.len());
    frame.put_slice(bytes);
    frame.freeze()
}

/// Ends a stream both ways.
pub(crate) fn reset(id: u32, reason: Reason) -> Bytes {
    let mut frame = head(RST_STREAM, false, 8);
    frame.put_u32(id);
    frame.put_u32(reason as u32);
    frame.freeze()
}

/// Answers a ping.
pub(crate) fn ping(id: u32) -> Bytes {
    let mut frame = head(PING, false, 4);
    frame.put_u32(id);
    frame.freeze()
}

fn head(kind: u32, fin: bool, length: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEAD + length);
    frame.put_u32(kind);
    frame.put_u32(u32::from(fin) << 24 | length as u32);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_whole_however_they_come() {
        let all = [&data(3, false, b"abc")[..], &data(3, true, b""), &ping(1), &reset(5, Reason::Cancel)];
        let mut buffer = BytesMut::new();
        let mut seen = Vec::new();
        for byte in all.concat() {
            buffer.put_u8(byte);
            seen.extend(take(&mut buffer).unwrap());
        }
        let data = |fin, bytes: &'static [u8]| Frame::Data { id: 3, fin, bytes: bytes.into() };
        assert_eq!(seen, [data(false, b"abc"), data(true, b""), Frame::Ping(1), Frame::Reset { id: 5 }]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn another_version_is_refused() {
        let mut buffer = BytesMut::from(&[0x80, 2, 0, 1, 0, 0, 0, 0][..]);
        assert!(take(&mut buffer).is_err());
    }
}
