//! Header blocks: counted names and values in one zlib stream a direction, primed with a dictionary
//! that both sides know.

use std::collections::BTreeMap;
use std::io;

use bytes::Buf as _;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

/// The longest block that is read, once it is unpacked.
const LIMIT: usize = 64 * 1024;

/// Headers of one stream, names in lower case.
pub(crate) type Headers = BTreeMap<String, String>;

/// Reads the blocks of one direction.
pub(crate) struct Reader(Decompress);

impl Reader {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// Reads the next block. A client may begin its stream with or without the dictionary.
    pub(crate) fn read(&mut self, block: &[u8]) -> io::Result<Headers> {
        let mut plain = Vec::with_capacity(LIMIT);
        let start = self.0.total_in();
        while let Some(rest) = block.get((self.0.total_in() - start) as usize..).filter(|r| !r.is_empty()) {
            let before = self.0.total_in();
            match self.0.decompress_vec(rest, &mut plain, FlushDecompress::Sync) {
                Ok(_) if self.0.total_in() == before => break,
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(io::Error::other)?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        parse(&plain).ok_or_else(|| io::Error::other("a header block that cannot be read"))
    }
}

/// Writes the blocks of one direction.
pub(crate) struct Writer(Compress);

impl Writer {
    pub(crate) fn new() -> Self {
        let mut compress = Compress::new(Compression::best(), true);
        let _ = compress.set_dictionary(&dictionary());
        Self(compress)
    }

    /// A block without headers: what a port-forward's server replies.
    pub(crate) fn empty(&mut self) -> io::Result<Vec<u8>> {
        let mut block = Vec::with_capacity(256);
        self.0
            .compress_vec(&0_u32.to_be_bytes(), &mut block, FlushCompress::Sync)
            .map_err(io::Error::other)?;
        Ok(block)
    }
}

fn parse(mut plain: &[u8]) -> Option<Headers> {
    let text = |plain: &mut &[u8]| {
        let length = plain.try_get_u32().ok()? as usize;
        let (text, rest) = plain.split_at_checked(length)?;
        *plain = rest;
        String::from_utf8(text.to_vec()).ok()
    };
    let count = plain.try_get_u32().ok()?;
    (0..count).map(|_| Some((text(&mut plain)?.to_lowercase(), text(&mut plain)?))).collect()
}

/// The dictionary of SPDY/3: words behind their lengths, then a text.
fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1423);
    for word in WORDS.split('|') {
        bytes.extend_from_slice(&(word.len() as u32).to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes.extend_from_slice(TEXT.as_bytes());
    bytes
}

const WORDS: &str = "\
    options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|\
    accept-ranges|age|allow|authorization|cache-control|connection|content-base|\
    content-encoding|content-language|content-length|content-location|content-md5|\
    content-range|content-type|date|etag|expect|expires|from|host|if-match|if-modified-since|\
    if-none-match|if-range|if-unmodified-since|last-modified|location|max-forwards|pragma|\
    proxy-authenticate|proxy-authorization|range|referer|retry-after|server|te|trailer|\
    transfer-encoding|upgrade|user-agent|vary|via|warning|www-authenticate|method|get|status|\
    200 OK|version|HTTP/1.1|url|public|set-cookie|keep-alive|origin";

const TEXT: &str = "\
    100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request\
    401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented\
    503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
    Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=\
    gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum by which zlib names a dictionary: that of SPDY/3 is known.
    #[test]
    fn the_dictionary_is_that_of_the_protocol() {
        let mut inflate = Decompress::new(true);
        let block = Writer::new().empty().unwrap();
        let error = inflate.decompress_vec(&block, &mut Vec::with_capacity(64), FlushDecompress::Sync);
        assert_eq!(error.unwrap_err().needs_dictionary(), Some(0xe3c6_a7c2));
        assert_eq!(dictionary().len(), 1423);
    }

    fn block(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = (pairs.len() as u32).to_be_bytes().to_vec();
        for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend((text.len() as u32).to_be_bytes());
            plain.extend(text.as_bytes());
        }
        plain
    }

    #[test]
    fn blocks_are_read_one_after_another_with_and_without_the_dictionary() {
        for primed in [true, false] {
            let mut compress = Compress::new(Compression::best(), true);
            if primed {
                compress.set_dictionary(&dictionary()).unwrap();
            }
            let mut reader = Reader::new();
            for (kind, id) in [("error", "0"), ("data", "0"), ("error", "1")] {
                let plain = block(&[("streamtype", kind), ("port", "9092"), ("requestid", id)]);
                let mut packed = Vec::with_capacity(1024);
                compress.compress_vec(&plain, &mut packed, FlushCompress::Sync).unwrap();
                let headers = reader.read(&packed).unwrap();
                assert_eq!((&*headers["streamtype"], &*headers["requestid"], headers.len()), (kind, id, 3));
            }
        }
    }

    #[test]
    fn replies_can_be_read_back() {
        let (mut writer, mut reader) = (Writer::new(), Reader::new());
        for _ in 0..3 {
            assert_eq!(reader.read(&writer.empty().unwrap()).unwrap(), Headers::new());
        }
    }
}
