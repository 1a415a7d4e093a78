//! Requests in deadline order, with order statistics.
use std::collections::HashMap;

use crate::check::MAX_LIVE;
use crate::error::CoreError;
use crate::tree::OrderTree;

/// Requests by (deadline, ticket). All operations O(log n); at most 2^24 requests.
#[derive(Debug, Default)]
pub struct EdfQueue {
    order: OrderTree<(i64, u64), ()>,
    deadlines: HashMap<u64, i64>,
}

impl EdfQueue {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The ticket is queued already, or the queue is at its bound.
    pub fn push(&mut self, ticket: u64, deadline_ns: i64, units: u64) -> Result<(), CoreError> {
        if self.deadlines.contains_key(&ticket) {
            return Err(CoreError::argument("ticket", ticket, "one that is not queued yet"));
        }
        if i64::try_from(self.len()).is_ok_and(|len| len >= MAX_LIVE) {
            return Err(CoreError::argument("ticket", ticket, "among the first 2**24 queued"));
        }
        self.deadlines.insert(ticket, deadline_ns);
        self.order.insert((deadline_ns, ticket), units, ());
        Ok(())
    }

    /// Takes a request out; false if it is not queued.
    pub fn remove(&mut self, ticket: u64) -> bool {
        let Some(deadline_ns) = self.deadlines.remove(&ticket) else { return false };
        self.order.remove(&(deadline_ns, ticket)).is_some()
    }

    /// (ticket, deadline) of the earliest.
    #[must_use]
    pub fn peek(&self) -> Option<(u64, i64)> {
        self.order.first().map(|((deadline_ns, ticket), ())| (ticket, deadline_ns))
    }

    /// Takes the earliest out.
    pub fn pop(&mut self) -> Option<u64> {
        let (ticket, _) = self.peek()?;
        self.remove(ticket).then_some(ticket)
    }

    /// Requests with a deadline at or before `deadline_ns`, and their units.
    #[must_use]
    pub fn before(&self, deadline_ns: i64) -> (usize, u64) {
        self.order.prefix(|key| key.0 <= deadline_ns)
    }

    /// Units of all.
    #[must_use]
    pub fn total_units(&self) -> u64 {
        self.order.total_units()
    }

    /// Requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True without requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
