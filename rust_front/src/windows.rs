//! How much may be on its way, or wait unread, on one side of a connection.

use crate::limits::Limits;

/// What a client may send on one call before it is read: 20 MB/s at 50 ms of round trip.
const REQUESTS_BYTES: u32 = 1 << 20;
/// The least window: an answer would pass in ever more pieces, and with none not at all.
const LEAST_BYTES: u32 = 1 << 10;
/// What a connection begins with, whatever is asked for.
const LEAST_CONNECTION_BYTES: u32 = (1 << 16) - 1;
/// HTTP/2's largest.
const LARGEST_BYTES: u32 = (1 << 31) - 1;

/// Windows of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Of one call.
    pub(crate) stream: u32,
    /// Of all. As large as they are together, so that what nobody reads keeps none of the others.
    pub(crate) connection: u32,
}

impl Windows {
    /// Of what clients send.
    pub(crate) fn of_requests(limits: &Limits) -> Self {
        Self::new(REQUESTS_BYTES, limits)
    }

    /// Of what the server behind sends.
    pub(crate) fn of_answers(limits: &Limits) -> Self {
        let wanted = u32::try_from(limits.write_buffer_bytes).unwrap_or(LARGEST_BYTES);
        Self::new(wanted.clamp(LEAST_BYTES, LARGEST_BYTES), limits)
    }

    fn new(stream: u32, limits: &Limits) -> Self {
        let together = stream.saturating_mul(limits.max_concurrent_streams);
        let connection = together.clamp(LEAST_CONNECTION_BYTES.max(stream), LARGEST_BYTES);
        Self { stream, connection }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tests::limits;

    fn of_answers(write_buffer_bytes: usize, max_concurrent_streams: u32) -> (u32, u32) {
        let limits = Limits { max_concurrent_streams, write_buffer_bytes, ..limits() };
        let windows = Windows::of_answers(&limits);
        (windows.stream, windows.connection)
    }

    #[test]
    fn those_of_answers_follow_the_limits_within_what_http_2_has() {
        let largest = (1 << 31) - 1;
        assert_eq!(of_answers(65_536, 4096), (65_536, 256 << 20));
        assert_eq!(of_answers(1024, 4096), (1024, 4 << 20));
        assert_eq!(of_answers(0, 1), (1024, 65_535));
        assert_eq!(of_answers(64 << 20, 4096), (64 << 20, largest));
        assert_eq!(of_answers(usize::MAX, 1), (largest, largest));
        assert_eq!(of_answers(65_536, 0), (65_536, 65_536));
    }

    #[test]
    fn that_of_a_connections_requests_has_room_for_all_its_calls() {
        let of_requests = |max_concurrent_streams| {
            Windows::of_requests(&Limits { max_concurrent_streams, ..limits() }).connection
        };
        assert_eq!(of_requests(100), 100 << 20);
        assert_eq!(of_requests(2047), 2047 << 20);
        assert_eq!(of_requests(4096), (1 << 31) - 1);
        assert_eq!(of_requests(0), 1 << 20);
    }
}
