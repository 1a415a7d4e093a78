//! Metadata between HTTP/2's headers and a host's pairs of name and value.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::DecodePaddingMode;
use base64::{alphabet, Engine as _};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// A value: text, or the bytes of a name that ends with `-bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of an ordinary name.
    Text(String),
    /// Of a name that ends with `-bin`.
    Bytes(Bytes),
}

// Written without padding, as gRPC's own libraries do; read with and without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
const TRANSPORT: [&str; 3] = ["grpc-timeout", "grpc-encoding", "grpc-accept-encoding"];

/// What a host sees of a call's headers; what belongs to the transport is left out.
pub fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, Value)> {
    headers
        .iter()
        .filter(|(name, _)| {
            *name != CONTENT_TYPE && *name != TE && !TRANSPORT.contains(&name.as_str())
        })
        .filter_map(|(name, value)| Some((name.as_str(), read(name, value)?)))
}

fn read(name: &HeaderName, value: &HeaderValue) -> Option<Value> {
    if name.as_str().ends_with("-bin") {
        let bytes = BASE64.decode(value.as_bytes()).ok()?;
        return Some(Value::Bytes(bytes.into()));
    }
    Some(Value::Text(String::from_utf8_lossy(value.as_bytes()).into_owned()))
}

/// Headers of a host's pairs.
///
/// # Errors
///
/// A name or value that headers cannot carry, said in words.
pub fn from_pairs<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("metadata cannot have the name {name:?}"))?;
        let value = if name.ends_with("-bin") {
            HeaderValue::from_maybe_shared(Bytes::from(BASE64.encode(value)))
        } else {
            HeaderValue::from_bytes(value)
        };
        let value = value.map_err(|_| format!("metadata cannot have the value given to {name}"))?;
        headers.append(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_values_survive_with_and_without_padding() {
        let written = from_pairs([("a-bin", &b"\x00\xff!"[..]), ("b", &b"text"[..])]);
        let mut headers = written.unwrap_or_default();
        assert_eq!(headers["a-bin"], "AP8h");
        headers.insert("c-bin", HeaderValue::from_static("YQ=="));
        headers.insert("d-bin", HeaderValue::from_static("YQ"));
        headers.insert("e-bin", HeaderValue::from_static("no base64"));
        headers.insert("grpc-timeout", HeaderValue::from_static("1S"));
        let found: Vec<_> = pairs(&headers).collect();
        assert_eq!(
            found,
            [
                ("a-bin", Value::Bytes(Bytes::from_static(b"\x00\xff!"))),
                ("b", Value::Text("text".into())),
                ("c-bin", Value::Bytes(Bytes::from_static(b"a"))),
                ("d-bin", Value::Bytes(Bytes::from_static(b"a"))),
            ]
        );
    }

    #[test]
    fn what_headers_cannot_carry_is_told() {
        assert!(from_pairs([("two words", &b""[..])]).is_err());
        assert!(from_pairs([("name", &b"two\nlines"[..])]).is_err());
    }
}
