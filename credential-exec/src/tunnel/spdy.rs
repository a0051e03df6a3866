//! SPDY/3.1 as far as Kubernetes' port-forward speaks it: the frames that a client writes, and those that
//! it reads. Pure.
//!
//! A header block is a zlib stream that goes on from frame to frame. Ours holds stored blocks only, which
//! every inflater reads; of the server's we need nothing, so it is skipped.
//! Source: the SPDY/3.1 draft, and `github.com/moby/spdystream` for what servers accept.

use std::io::{Error, ErrorKind, Result};

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The length of a data frame's head.
pub const HEAD: usize = 8;

const VERSION: u16 = 3;
const CONTROL: u8 = 0x80;
const FIN: u8 = 1;
const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const CANCEL: u32 = 5;

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A piece of a stream's data; `last` ends the server's half of the stream.
    Data {
        /// The stream.
        stream: u32,
        /// The piece; it may be empty when it is the last.
        bytes: Bytes,
        /// Whether the server sends no more on this stream.
        last: bool,
    },
    /// The stream is no more.
    Reset {
        /// The stream.
        stream: u32,
    },
    /// To be sent back as it is, unless it is the echo of ours.
    Ping {
        /// Odd for a client's pings.
        id: u32,
    },
    /// The server wants no new streams.
    GoAway,
}

/// Writes a client's frames, in the order in which they are to be sent.
#[derive(Debug, Default)]
pub struct Encoder {
    begun: bool,
}

impl Encoder {
    /// Opens a stream with these headers; `finished` where we send nothing on it.
    pub fn open(&mut self, stream: u32, headers: &[(&str, &str)], finished: bool) -> Bytes {
        let mut text = BytesMut::new();
        let count = u32::try_from(headers.len()).unwrap_or(0);
        text.put_u32(count);
        for word in headers.iter().flat_map(|(name, value)| [name, value]) {
            text.put_u32(u32::try_from(word.len()).unwrap_or(0));
            text.put_slice(word.as_bytes());
        }
        let mut payload = BytesMut::new();
        payload.put_u32(stream);
        payload.put_u32(0);
        payload.put_u16(0);
        if !std::mem::replace(&mut self.begun, true) {
            payload.put_slice(&[0x78, 0x01]);
        }
        // The empty block after it makes an inflater give out what it holds.
        for block in [&text[..], &[]] {
            let length = u16::try_from(block.len()).unwrap_or(0);
            payload.put_u8(0);
            payload.put_u16_le(length);
            payload.put_u16_le(!length);
            payload.put_slice(block);
        }
        control(SYN_STREAM, if finished { FIN } else { 0 }, &payload)
    }
}

/// The head of a data frame of this length; see [`HEAD`].
pub fn data_head(stream: u32, length: usize) -> [u8; HEAD] {
    let length = u32::try_from(length).unwrap_or(0).to_be_bytes();
    let id = stream.to_be_bytes();
    [id[0], id[1], id[2], id[3], 0, length[1], length[2], length[3]]
}

/// Ends our half of a stream.
pub fn finish(stream: u32) -> Bytes {
    let mut head = data_head(stream, 0);
    head[4] = FIN;
    Bytes::copy_from_slice(&head)
}

/// Ends both halves of a stream at once.
pub fn reset(stream: u32) -> Bytes {
    let mut payload = BytesMut::new();
    payload.put_u32(stream);
    payload.put_u32(CANCEL);
    control(RST_STREAM, 0, &payload)
}

/// A ping; odd numbers are ours.
pub fn ping(id: u32) -> Bytes {
    control(PING, 0, &id.to_be_bytes())
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD + payload.len());
    frame.put_u16(u16::from(CONTROL) << 8 | VERSION);
    frame.put_u16(kind);
    frame.put_u32(u32::from(flags) << 24 | u32::try_from(payload.len()).unwrap_or(0));
    frame.put_slice(payload);
    frame.freeze()
}

/// Reads a server's frames out of bytes that come in pieces of any size. A data frame is given out in the
/// pieces in which it comes, so that nothing large is held.
#[derive(Debug, Default)]
pub struct Decoder {
    held: BytesMut,
    /// What is left of the data frame that is being read.
    data: Option<(u32, usize, bool)>,
}

impl Decoder {
    /// Takes what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next frame, if all of it (of a data frame: some of it) is there.
    ///
    /// # Errors
    /// `InvalidData` for what is not SPDY/3.
    pub fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some((stream, left, fin)) = self.data {
                let take = left.min(self.held.len());
                if take == 0 && left > 0 {
                    return Ok(None);
                }
                let bytes = self.held.split_to(take).freeze();
                self.data = (left > take).then_some((stream, left - take, fin));
                return Ok(Some(Frame::Data { stream, bytes, last: fin && left == take }));
            }
            if self.held.len() < HEAD {
                return Ok(None);
            }
            let length = u32::from_be_bytes([0, self.held[5], self.held[6], self.held[7]]) as usize;
            let flags = self.held[4];
            if self.held[0] & CONTROL == 0 {
                let stream = self.held.get_u32();
                self.held.advance(4);
                if length > 0 || flags & FIN != 0 {
                    self.data = Some((stream, length, flags & FIN != 0));
                }
                continue;
            }
            if u16::from_be_bytes([self.held[0] & !CONTROL, self.held[1]]) != VERSION {
                return Err(Error::new(ErrorKind::InvalidData, "the hub does not answer in SPDY/3"));
            }
            if self.held.len() < HEAD + length {
                return Ok(None);
            }
            let kind = u16::from_be_bytes([self.held[2], self.held[3]]);
            self.held.advance(HEAD);
            let mut payload = self.held.split_to(length);
            if length < 4 {
                return Err(Error::new(ErrorKind::InvalidData, "the hub sends a frame that is too short"));
            }
            // A stream's reply and what else may come (settings, headers, windows) change nothing for us.
            match kind {
                RST_STREAM => return Ok(Some(Frame::Reset { stream: payload.get_u32() })),
                PING => return Ok(Some(Frame::Ping { id: payload.get_u32() })),
                GOAWAY => return Ok(Some(Frame::GoAway)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Decompress, FlushDecompress};
    use proptest::prelude::*;

    #[test]
    fn header_blocks_are_one_zlib_stream_that_is_readable_frame_by_frame() {
        let mut encoder = Encoder::default();
        let mut inflater = Decompress::new(true);
        for (stream, value) in [(1, "error"), (3, "data"), (5, "")] {
            let frame = encoder.open(stream, &[("streamtype", value)], stream == 1);
            assert_eq!(&frame[..4], [0x80, 3, 0, 1]);
            assert_eq!(frame[4], u8::from(stream == 1));
            assert_eq!(frame.len() - HEAD, usize::from(u16::from_be_bytes([frame[6], frame[7]])));
            assert_eq!(frame[8..12], stream.to_be_bytes());
            let mut text = Vec::with_capacity(1024);
            inflater.decompress_vec(&frame[18..], &mut text, FlushDecompress::Sync).unwrap();
            let mut expected = vec![0, 0, 0, 1, 0, 0, 0, 10];
            expected.extend_from_slice(b"streamtype");
            expected.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
            expected.extend_from_slice(value.as_bytes());
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_data_frame_of_another_size_than_it_says_is_given_out_as_it_comes() {
        let mut decoder = Decoder::default();
        decoder.push(&data_head(7, 5));
        assert_eq!(decoder.next().unwrap(), None);
        decoder.push(b"abc");
        let data = |bytes: &'static [u8], last| Some(Frame::Data { stream: 7, bytes: bytes.into(), last });
        assert_eq!(decoder.next().unwrap(), data(b"abc", false));
        decoder.push(b"de");
        decoder.push(&finish(7));
        assert_eq!(decoder.next().unwrap(), data(b"de", false));
        assert_eq!(decoder.next().unwrap(), data(b"", true));
        assert_eq!(decoder.next().unwrap(), None);
    }

    #[test]
    fn what_is_not_spdy_is_an_error() {
        for text in
            [&b"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01"[..], b"\x80\x03\x00\x06\x00\x00\x00\x00"]
        {
            let mut decoder = Decoder::default();
            decoder.push(text);
            assert!(decoder.next().is_err(), "{text:?}");
        }
    }

    fn sample() -> (Vec<u8>, Vec<Frame>) {
        let mut wire = Vec::new();
        // A reply, settings and a window update: read over.
        for kind in [2, 4, 9] {
            wire.extend_from_slice(&control(kind, 0, &[0, 0, 0, 1, 9, 9, 9]));
        }
        wire.extend_from_slice(&ping(3));
        wire.extend_from_slice(&data_head(1, 4));
        wire.extend_from_slice(b"abcd");
        wire.extend_from_slice(&finish(1));
        wire.extend_from_slice(&reset(9));
        wire.extend_from_slice(&control(GOAWAY, 0, &[0; 8]));
        let frames = vec![
            Frame::Ping { id: 3 },
            Frame::Data { stream: 1, bytes: Bytes::from_static(b"abcd"), last: false },
            Frame::Data { stream: 1, bytes: Bytes::new(), last: true },
            Frame::Reset { stream: 9 },
            Frame::GoAway,
        ];
        (wire, frames)
    }

    proptest! {
        #[test]
        fn frames_are_the_same_however_the_bytes_are_cut(cuts in prop::collection::vec(1usize..20, 0..60)) {
            let (wire, expected) = sample();
            let mut decoder = Decoder::default();
            let mut frames: Vec<Frame> = Vec::new();
            let mut rest = &wire[..];
            let mut cuts = cuts.into_iter();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
                rest = after;
                decoder.push(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    match (frames.last_mut(), frame) {
                        (Some(Frame::Data { stream, bytes, last: false }), Frame::Data { stream: s, bytes: more, last: false }) if *stream == s => {
                            *bytes = [&bytes[..], &more[..]].concat().into();
                        }
                        (_, frame) => frames.push(frame),
                    }
                }
            }
            prop_assert_eq!(frames, expected);
        }
    }
}
