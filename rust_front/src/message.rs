//! One message of a call, read off its body within bounds.

use std::future::poll_fn;
use std::io::Read;

use bytes::{Buf, Bytes, BytesMut};
use flate2::read::{GzDecoder, ZlibDecoder};
use h2::RecvStream;
use http::HeaderMap;

use crate::status::{Status, INTERNAL, RESOURCE_EXHAUSTED, UNIMPLEMENTED};

pub(crate) const PREFIX_BYTES: usize = 5;
/// What a call may say its messages are packed with.
pub(crate) const ENCODINGS: &str = "identity, deflate, gzip";

/// How a call packs its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Deflate,
    Gzip,
}

impl Encoding {
    /// As the call's headers say.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Box<Status>> {
        match headers.get("grpc-encoding").map(http::HeaderValue::as_bytes) {
            None | Some(b"identity") => Ok(Self::Identity),
            Some(b"deflate") => Ok(Self::Deflate),
            Some(b"gzip") => Ok(Self::Gzip),
            Some(other) => Err(Box::new(Status::new(
                UNIMPLEMENTED,
                format!(
                    "messages cannot be packed with {}; use one of: {ENCODINGS}",
                    String::from_utf8_lossy(other)
                ),
            ))),
        }
    }
}

/// Why there is no message.
#[derive(Debug)]
pub(crate) enum Missing {
    /// The call ended before it, or within it.
    Ended,
    /// The client reset the call, or its connection is gone.
    Gone,
    /// It is refused.
    Refused(Box<Status>),
}

impl Missing {
    fn refused(code: u32, message: impl Into<String>) -> Self {
        Self::Refused(Box::new(Status::new(code, message)))
    }
}

/// Reads one message of at most `most` bytes; what may follow it is left unread.
///
/// Bytes that are taken are acknowledged at once, so that a message larger than the window comes.
pub(crate) async fn read_one(
    body: &mut RecvStream,
    most: usize,
    encoding: Encoding,
) -> Result<Bytes, Missing> {
    let mut held = BytesMut::new();
    loop {
        let chunk = match poll_fn(|context| body.poll_data(context)).await {
            Some(Ok(chunk)) => chunk,
            Some(Err(_)) => return Err(Missing::Gone),
            None => return Err(Missing::Ended),
        };
        let _ = body.flow_control().release_capacity(chunk.len());
        if held.is_empty() {
            // Nearly always the whole message comes at once: no copy then.
            if let Some((packed, size)) = prefix(&chunk, most)? {
                if chunk.len() >= PREFIX_BYTES + size {
                    let message = chunk.slice(PREFIX_BYTES..PREFIX_BYTES + size);
                    return unpacked(message, packed, most, encoding);
                }
            }
        }
        held.extend_from_slice(&chunk);
        if let Some((packed, size)) = prefix(&held, most)? {
            if held.len() >= PREFIX_BYTES + size {
                held.advance(PREFIX_BYTES);
                return unpacked(held.split_to(size).freeze(), packed, most, encoding);
            }
        }
    }
}

/// Flag and length, once they have come.
fn prefix(data: &[u8], most: usize) -> Result<Option<(bool, usize)>, Missing> {
    let Some(&[flag, a, b, c, d]) = data.first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    if flag > 1 {
        let odd = format!("a message has the flag {flag}; 0 and 1 are known");
        return Err(Missing::refused(INTERNAL, odd));
    }
    let size = u32::from_be_bytes([a, b, c, d]) as usize;
    if size > most {
        return Err(too_large(size, most));
    }
    Ok(Some((flag == 1, size)))
}

/// In the words of grpc's core, which clients read the numbers from.
fn too_large(size: usize, most: usize) -> Missing {
    Missing::refused(
        RESOURCE_EXHAUSTED,
        format!("SERVER: Received message larger than max ({size} vs. {most})"),
    )
}

fn unpacked(
    message: Bytes,
    packed: bool,
    most: usize,
    encoding: Encoding,
) -> Result<Bytes, Missing> {
    if !packed {
        return Ok(message);
    }
    match encoding {
        Encoding::Identity => Err(Missing::refused(
            INTERNAL,
            "a message is packed, but the call does not say with what (grpc-encoding)",
        )),
        Encoding::Deflate => inflated(ZlibDecoder::new(&message[..]), most),
        Encoding::Gzip => inflated(GzDecoder::new(&message[..]), most),
    }
}

fn inflated(packed: impl Read, most: usize) -> Result<Bytes, Missing> {
    let mut whole = Vec::new();
    let read = packed.take(most as u64 + 1).read_to_end(&mut whole);
    if read.is_err() {
        let odd = "a message cannot be unpacked";
        return Err(Missing::refused(INTERNAL, odd));
    }
    if whole.len() > most {
        return Err(too_large(whole.len(), most));
    }
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{write::GzEncoder, Compression};

    use super::*;

    #[test]
    fn a_prefix_is_judged_once_it_is_whole() {
        assert!(matches!(prefix(&[0, 0, 0, 0], 10), Ok(None)));
        assert!(matches!(prefix(&[1, 0, 0, 0, 10], 10), Ok(Some((true, 10)))));
        for (flag, size) in [(0, 11), (2, 1), (255, 1)] {
            assert!(matches!(prefix(&[flag, 0, 0, 0, size], 10), Err(Missing::Refused(_))));
        }
    }

    #[test]
    fn what_unpacks_beyond_the_bound_is_refused_without_being_unpacked() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(&vec![0; 1 << 20]);
        let packed = Bytes::from(encoder.finish().unwrap_or_default());
        assert!(written.is_ok() && packed.len() < 2000);
        let refused = unpacked(packed.clone(), true, 1000, Encoding::Gzip);
        assert!(matches!(refused, Err(Missing::Refused(status)) if status.code == 8));
        let whole = unpacked(packed, true, 1 << 20, Encoding::Gzip);
        assert!(whole.is_ok_and(|whole| whole.len() == 1 << 20));
    }
}
