//! Calls that wait for their host's answer, and the queue by which the host hears of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};

use crate::status::Status;

/// Messages of a stream that may wait for its reader.
const READ_AHEAD: usize = 1;

/// What a host hears.
#[derive(Debug)]
pub enum Event {
    /// A call with its message.
    Call {
        /// Names the call in answers.
        id: u64,
        /// Index of the method among those that were added.
        method: u32,
        /// The message, unpacked.
        payload: Bytes,
        /// All headers that came.
        headers: HeaderMap,
        /// As gRPC writes it: `ipv4:10.0.0.1:4242`.
        peer: Arc<str>,
        /// The end of its time.
        deadline: Option<Instant>,
    },
    /// Its client has left, or its time is up; an answer would reach nobody.
    Cancelled {
        /// As it was given.
        id: u64,
    },
    /// The port is closed; nothing follows.
    Closed,
}

/// What became of a message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Taken.
    Taken,
    /// The reader is behind; try again later.
    Full,
    /// The call is over.
    Over,
}

/// The one answer to a call.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Framed message; `None` if there is none.
    pub(crate) message: Option<Bytes>,
    pub(crate) initial: HeaderMap,
    pub(crate) end: Status,
}

/// A piece of a stream.
#[derive(Debug)]
pub(crate) enum Piece {
    Initial(HeaderMap),
    Message(Bytes),
    End(Status),
}

/// The reading side of a stream of answers.
#[derive(Debug)]
pub(crate) struct Pieces {
    receiver: mpsc::UnboundedReceiver<Piece>,
    waiting: Arc<AtomicUsize>,
}

impl Pieces {
    /// The next piece; `None` once the writer is gone.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        let piece = self.receiver.recv().await;
        if matches!(piece, Some(Piece::Message(_))) {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        piece
    }
}

#[derive(Debug)]
struct Writer {
    // Not bounded by itself: `waiting` bounds the messages, and a stream has one beginning and end.
    sender: mpsc::UnboundedSender<Piece>,
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Waiting {
    One(oneshot::Sender<Reply>),
    Many(Writer),
}

/// Calls by number.
#[derive(Debug)]
pub(crate) struct Table {
    waiting: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    events: Sender<Event>,
    closed: AtomicBool,
}

/// Takes a call out of the table when it is dropped, and tells the host if it had no answer yet.
#[derive(Debug)]
pub(crate) struct Entered {
    table: Arc<Table>,
    id: u64,
}

impl Entered {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let unanswered = self.table.lock().remove(&self.id).is_some();
        if unanswered {
            self.table.tell(Event::Cancelled { id: self.id });
        }
    }
}

impl Table {
    pub(crate) fn new() -> (Arc<Self>, Receiver<Event>) {
        // Bounded by the calls that may be open: connections times streams.
        let (events, receiver) = channel();
        let table = Self {
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            events,
            closed: AtomicBool::new(false),
        };
        (Arc::new(table), receiver)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        // No code panics while it holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, event: Event) {
        // Without a host there is nobody to tell.
        let _ = self.events.send(event);
    }

    fn enter(self: &Arc<Self>, waiting: Waiting) -> Option<Entered> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut table = self.lock();
        if self.closed.load(Ordering::Acquire) {
            return None;
        }
        table.insert(id, waiting);
        drop(table);
        let table = self.clone();
        Some(Entered { table, id })
    }

    /// Enters a call with one answer; `None` once closed.
    pub(crate) fn enter_one(self: &Arc<Self>) -> Option<(Entered, oneshot::Receiver<Reply>)> {
        let (sender, receiver) = oneshot::channel();
        Some((self.enter(Waiting::One(sender))?, receiver))
    }

    /// Enters a call with many answers; `None` once closed.
    pub(crate) fn enter_many(self: &Arc<Self>) -> Option<(Entered, Pieces)> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let pieces = Pieces { receiver, waiting: waiting.clone() };
        Some((self.enter(Waiting::Many(Writer { sender, waiting }))?, pieces))
    }

    /// Ends a call of either kind; false if it is over.
    pub(crate) fn end(
        &self,
        id: u64,
        message: Option<Bytes>,
        initial: HeaderMap,
        end: Status,
    ) -> bool {
        match self.lock().remove(&id) {
            None => false,
            Some(Waiting::One(sender)) => sender.send(Reply { message, initial, end }).is_ok(),
            Some(Waiting::Many(writer)) => writer.sender.send(Piece::End(end)).is_ok(),
        }
    }

    /// Hands on a stream's initial metadata; false if the call is over or is no stream.
    pub(crate) fn begin(&self, id: u64, initial: HeaderMap) -> bool {
        match self.lock().get(&id) {
            Some(Waiting::Many(writer)) => writer.sender.send(Piece::Initial(initial)).is_ok(),
            _ => false,
        }
    }

    /// Hands on a framed message of a stream, unless its reader is behind.
    pub(crate) fn send(&self, id: u64, message: impl FnOnce() -> Bytes) -> Sent {
        let table = self.lock();
        let Some(Waiting::Many(writer)) = table.get(&id) else {
            return Sent::Over;
        };
        if writer.waiting.load(Ordering::Acquire) >= READ_AHEAD {
            return Sent::Full;
        }
        writer.waiting.fetch_add(1, Ordering::AcqRel);
        match writer.sender.send(Piece::Message(message())) {
            Ok(()) => Sent::Taken,
            Err(_) => Sent::Over,
        }
    }

    /// Ends every call as unavailable, and takes none from here on.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let left: Vec<_> = table.drain().collect();
        drop(table);
        for (_, waiting) in left {
            let end = Status::shutting_down();
            match waiting {
                Waiting::One(sender) => {
                    drop(sender.send(Reply { message: None, initial: HeaderMap::new(), end }));
                }
                Waiting::Many(writer) => drop(writer.sender.send(Piece::End(end))),
            }
        }
        self.tell(Event::Closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_takes_one_message_ahead_and_its_end_at_any_time() {
        let (table, _events) = Table::new();
        let (entered, mut pieces) = table.enter_many().expect("open");
        let send = |table: &Table| table.send(entered.id(), || Bytes::from_static(b"x"));
        assert_eq!(send(&table), Sent::Taken);
        assert_eq!(send(&table), Sent::Full);
        assert!(matches!(pieces.receiver.try_recv(), Ok(Piece::Message(_))));
        pieces.waiting.fetch_sub(1, Ordering::AcqRel);
        assert_eq!(send(&table), Sent::Taken);
        assert!(table.end(entered.id(), None, HeaderMap::new(), Status::default()));
        assert_eq!(send(&table), Sent::Over);
    }

    #[test]
    fn a_host_hears_of_calls_that_left_without_an_answer_only() {
        let (table, events) = Table::new();
        let (answered, _reply) = table.enter_one().expect("open");
        let (left, _) = table.enter_one().expect("open");
        let left_id = left.id();
        assert!(table.end(answered.id(), None, HeaderMap::new(), Status::default()));
        drop((answered, left));
        table.close();
        assert!(table.enter_one().is_none());
        assert!(matches!(events.recv(), Ok(Event::Cancelled { id }) if id == left_id));
        assert!(matches!(events.recv(), Ok(Event::Closed)));
    }
}
