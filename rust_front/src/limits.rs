//! What connections, calls and messages may cost, and what is counted of them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::status::Status;

/// Bounds of a port.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at once; further ones are closed as soon as they are accepted.
    pub max_connections: usize,
    /// Calls open at once on one connection.
    pub max_concurrent_streams: u32,
    /// Size of a call's headers, as HTTP/2 counts it.
    pub max_metadata_bytes: u32,
    /// Size of a request, unpacked.
    pub max_message_bytes: usize,
    /// From a call's beginning to the end of its message.
    pub max_message_time: Duration,
    /// Bytes of an answer that wait in the connection before its writer does.
    pub write_buffer_bytes: usize,
    /// Time without anything heard until a connection is pinged.
    pub keepalive: Duration,
    /// Time for the answer to a ping, and for a new connection's first words.
    pub keepalive_timeout: Duration,
    /// Time without a call until a connection is closed.
    pub max_idle: Duration,
    /// Age at which a connection is asked to go.
    pub max_age: Option<Duration>,
    /// Time that its calls have then.
    pub max_age_grace: Duration,
}

/// Answers that the port gives by itself, as its host wants them worded.
#[derive(Clone, Debug)]
pub struct Refusals {
    /// The message did not come whole in time.
    pub overdue: Status,
    /// The call ended before its message.
    pub no_message: Status,
}

/// What a port has counted since it was bound.
#[derive(Debug, Default)]
pub struct Counts {
    open: AtomicUsize,
    refused: AtomicU64,
    silent: AtomicU64,
    idle: AtomicU64,
    overdue: AtomicU64,
}

impl Counts {
    /// Connections that are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections closed at once, since there were too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Connections dropped for not answering: the handshake, or a ping.
    #[must_use]
    pub fn silent(&self) -> u64 {
        self.silent.load(Ordering::Relaxed)
    }

    /// Connections closed for having had no call.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.idle.load(Ordering::Relaxed)
    }

    /// Calls ended because their message did not come whole in time.
    #[must_use]
    pub fn overdue(&self) -> u64 {
        self.overdue.load(Ordering::Relaxed)
    }

    /// Counts a connection in; false if there are `most` already.
    pub(crate) fn enter(&self, most: usize) -> bool {
        let entered = self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
            (open < most).then_some(open + 1)
        });
        if entered.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        entered.is_ok()
    }

    pub(crate) fn leave(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn count_silent(&self) {
        self.silent.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_idle(&self) {
        self.idle.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_overdue(&self) {
        self.overdue.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The defaults of `headway.limits`.
    pub(crate) fn limits() -> Limits {
        Limits {
            max_connections: 20_000,
            max_concurrent_streams: 4096,
            max_metadata_bytes: 16_384,
            max_message_bytes: 64 << 20,
            max_message_time: Duration::from_secs(60),
            write_buffer_bytes: 65_536,
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(10),
            max_idle: Duration::from_secs(900),
            max_age: None,
            max_age_grace: Duration::from_secs(60),
        }
    }

    #[test]
    fn no_more_than_the_most_enter() {
        let counts = Counts::default();
        assert!(counts.enter(2) && counts.enter(2));
        assert!(!counts.enter(2));
        counts.leave();
        assert!(counts.enter(2));
        assert_eq!((counts.open(), counts.refused()), (2, 1));
    }
}
