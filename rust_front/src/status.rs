//! How a call ends: a gRPC status with its trailers, and how both look on the wire.

use std::fmt::Write as _;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

pub(crate) const DEADLINE_EXCEEDED: u32 = 4;
pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
pub(crate) const UNIMPLEMENTED: u32 = 12;
pub(crate) const INTERNAL: u32 = 13;
pub(crate) const UNAVAILABLE: u32 = 14;

/// A call's end.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Number of the gRPC status; 0 is OK.
    pub code: u32,
    /// What the caller is told.
    pub message: String,
    /// Trailers beside the two.
    pub trailers: HeaderMap,
}

impl Status {
    /// A status without further trailers.
    #[must_use]
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), trailers: HeaderMap::new() }
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(UNAVAILABLE, "Server is shutting down")
    }

    pub(crate) fn deadline_exceeded() -> Self {
        Self::new(DEADLINE_EXCEEDED, "Deadline Exceeded")
    }

    /// All trailers of the call.
    pub(crate) fn into_trailers(self) -> HeaderMap {
        let mut trailers = self.trailers;
        let code = match self.code {
            0 => HeaderValue::from_static("0"),
            code => HeaderValue::from(code),
        };
        trailers.insert(GRPC_STATUS, code);
        if !self.message.is_empty() {
            if let Ok(message) = HeaderValue::from_str(&percent_encoded(&self.message)) {
                trailers.insert(GRPC_MESSAGE, message);
            }
        }
        trailers
    }
}

/// As the gRPC protocol wants messages: printable ASCII but for "%", the rest by bytes.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A call's time from `grpc-timeout`; `None` without one, or where it is none.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(GRPC_TIMEOUT)?.as_bytes();
    let (unit, digits) = value.split_last()?;
    // The protocol allows eight digits, and neither signs nor spaces.
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let amount = digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(amount * 3600),
        b'M' => Duration::from_secs(amount * 60),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout_of(value: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(GRPC_TIMEOUT, HeaderValue::from_static(value));
        timeout(&headers)
    }

    #[test]
    fn timeouts_have_six_units_and_eight_digits() {
        assert_eq!(timeout_of("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(timeout_of("3M"), Some(Duration::from_secs(180)));
        assert_eq!(timeout_of("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(timeout_of("250m"), Some(Duration::from_millis(250)));
        assert_eq!(timeout_of("7u"), Some(Duration::from_micros(7)));
        assert_eq!(timeout_of("0n"), Some(Duration::ZERO));
        for odd in ["", "S", "1", "-1S", "+1S", "1.5S", "nanS", "123456789S", "1x"] {
            assert_eq!(timeout_of(odd), None, "{odd}");
        }
    }

    #[test]
    fn messages_are_encoded_by_bytes() {
        let trailers = Status::new(3, "50% of \u{2026}\n").into_trailers();
        assert_eq!(trailers[GRPC_MESSAGE], "50%25 of %E2%80%A6%0A");
        assert_eq!(trailers[GRPC_STATUS], "3");
        assert_eq!(Status::default().into_trailers().len(), 1);
    }
}
