//! What Headway is compared with. Rivals know the device's true cost.

use super::engine::{Device, Dispatch, FleetState, SimPolicy};
use super::trace::Trace;

/// A rule to compare with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rival {
    /// First come, first served, one at a time.
    OneByOne,
    /// A batch when it is full or its oldest member has waited so long.
    FixedBatch {
        /// Longest wait.
        linger_ns: i64,
    },
    /// Earliest deadline first; feasibility is judged on arrival only, and a batch waits for more
    /// until its first deadline presses or it has waited so long.
    EarliestDeadline {
        /// Longest wait.
        linger_ns: i64,
        /// Kept free before a deadline.
        margin_ns: f64,
    },
    /// First come, first served, less what can no longer finish in time.
    FirstInTime,
    /// Smallest first, in batches of at most a quantum.
    ShortestFirst {
        /// Longest batch.
        quantum_ns: f64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u32,
    at_ns: i64,
    due_ns: i64,
    units: u64,
    rows: u64,
}

/// One queue for the whole fleet, under a rival's rule.
pub struct RivalPolicy<'a> {
    trace: &'a Trace,
    rival: Rival,
    device: Device,
    /// In the rule's order.
    queue: Vec<Waiting>,
    queued_units: u64,
    dropped: Vec<u32>,
    free_at_ns: f64,
}

impl<'a> RivalPolicy<'a> {
    /// A rival for devices like this one.
    #[must_use]
    pub fn new(trace: &'a Trace, device: &Device, rival: Rival) -> Self {
        Self {
            trace,
            rival,
            device: *device,
            queue: Vec::new(),
            queued_units: 0,
            dropped: Vec::new(),
            free_at_ns: 0.0,
        }
    }

    fn cost(&self, units: u64) -> f64 {
        self.device.intercept_ns + self.device.slope_ns * units as f64
    }

    /// Where a request goes in the queue.
    fn place(&self, waiting: &Waiting) -> usize {
        match self.rival {
            Rival::EarliestDeadline { .. } => {
                self.queue.partition_point(|other| other.due_ns <= waiting.due_ns)
            }
            Rival::ShortestFirst { .. } => {
                self.queue.partition_point(|other| other.units <= waiting.units)
            }
            _ => self.queue.len(),
        }
    }

    /// True if it can finish behind the running batch and all with an earlier deadline.
    fn is_feasible(&self, now_ns: i64, at: usize, waiting: &Waiting) -> bool {
        let Rival::EarliestDeadline { margin_ns, .. } = self.rival else { return true };
        let ahead: u64 = self.queue[..at].iter().map(|other| other.units).sum();
        let start_ns = self.free_at_ns.max(now_ns as f64);
        let batches = (at as f64 / self.max_requests() as f64).floor();
        let end_ns =
            start_ns + self.cost(ahead + waiting.units) + batches * self.device.intercept_ns;
        end_ns + margin_ns <= waiting.due_ns as f64
    }

    fn max_requests(&self) -> usize {
        usize::try_from(self.device.max_requests)
            .ok()
            .filter(|most| *most > 0)
            .unwrap_or(usize::MAX)
    }

    /// When the rule wants its next batch, if not at once.
    fn flush_at_ns(&self) -> i64 {
        let full = self.queue.len() >= self.max_requests();
        let oldest_ns = || self.queue.iter().map(|waiting| waiting.at_ns).min().unwrap_or(0);
        match self.rival {
            _ if full => 0,
            Rival::FixedBatch { linger_ns } => oldest_ns() + linger_ns,
            Rival::EarliestDeadline { linger_ns, margin_ns } => {
                let first_ns = self.queue.first().map_or(0, |waiting| waiting.due_ns);
                let slack_ns = self.cost(self.queued_units) + margin_ns;
                #[allow(clippy::cast_possible_truncation)] // far below 2^53
                let press_ns = (first_ns as f64 - slack_ns) as i64;
                press_ns.min(oldest_ns() + linger_ns)
            }
            _ => 0,
        }
    }

    fn remove(&mut self, at: usize) -> Waiting {
        let waiting = self.queue.remove(at);
        self.queued_units -= waiting.units;
        waiting
    }

    fn drop_late(&mut self, now_ns: i64) {
        if !matches!(self.rival, Rival::FirstInTime | Rival::ShortestFirst { .. }) {
            return;
        }
        let (slope_ns, fixed_ns) = (self.device.slope_ns, self.device.intercept_ns);
        let dropped = &mut self.dropped;
        let units = &mut self.queued_units;
        self.queue.retain(|waiting| {
            let alone_ns = fixed_ns + slope_ns * waiting.units as f64;
            let keep = now_ns as f64 + alone_ns <= waiting.due_ns as f64;
            if !keep {
                dropped.push(waiting.id);
                *units -= waiting.units;
            }
            keep
        });
    }

    /// Moves the next batch's members out of the queue.
    fn take(&mut self, now_ns: i64, members: &mut Vec<u32>) -> u64 {
        let quantum_ns = match self.rival {
            Rival::ShortestFirst { quantum_ns } => quantum_ns,
            _ => f64::INFINITY,
        };
        let most = if self.rival == Rival::OneByOne { 1 } else { self.max_requests() };
        let judges = matches!(self.rival, Rival::FirstInTime | Rival::ShortestFirst { .. });
        let open = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let (mut units, mut rows, mut due_ns, mut at) = (0, 0, i64::MAX, 0);
        while at < self.queue.len() && members.len() < most {
            let next = self.queue[at];
            let end_ns = now_ns as f64 + self.cost(units + next.units);
            let fits = units + next.units <= open(self.device.max_units)
                && rows + next.rows <= open(self.device.max_rows)
                && (self.cost(units + next.units) <= quantum_ns || members.is_empty())
                && !(judges && end_ns > due_ns.min(next.due_ns) as f64);
            if !fits {
                at += 1;
                continue;
            }
            self.remove(at);
            (units, rows, due_ns) = (units + next.units, rows + next.rows, due_ns.min(next.due_ns));
            members.push(next.id);
        }
        units
    }
}

impl SimPolicy for RivalPolicy<'_> {
    fn arrive(&mut self, now_ns: i64, id: u32, _state: &FleetState) -> bool {
        let row = &self.trace.rows[id as usize];
        let waiting = Waiting {
            id,
            at_ns: now_ns,
            due_ns: row.at_ns + row.deadline_ns,
            units: row.units,
            rows: u64::from(row.rows),
        };
        let at = self.place(&waiting);
        if !self.is_feasible(now_ns, at, &waiting) {
            return false;
        }
        self.queue.insert(at, waiting);
        self.queued_units += waiting.units;
        true
    }

    fn cancel(&mut self, _now_ns: i64, id: u32) {
        if let Some(at) = self.queue.iter().position(|waiting| waiting.id == id) {
            self.remove(at);
        }
    }

    fn form(
        &mut self,
        now_ns: i64,
        state: &FleetState,
        members: &mut Vec<u32>,
    ) -> Option<Dispatch> {
        self.drop_late(now_ns);
        if self.queue.is_empty() || self.flush_at_ns() > now_ns {
            return None;
        }
        let replica = (0..state.free.len())
            .find(|replica| state.free[*replica] && state.present[*replica])?;
        let units = self.take(now_ns, members);
        self.free_at_ns = now_ns as f64 + self.cost(units);
        (!members.is_empty()).then_some(Dispatch { replica })
    }

    fn complete(&mut self, _now_ns: i64, _replica: usize, _units: u64, _took_ns: f64) {}

    fn expire(&mut self, _now_ns: i64, dropped: &mut Vec<u32>) {
        dropped.append(&mut self.dropped);
    }

    fn wake_at_ns(&self, now_ns: i64) -> Option<i64> {
        let waits = matches!(self.rival, Rival::FixedBatch { .. } | Rival::EarliestDeadline { .. });
        let idle = self.free_at_ns <= now_ns as f64;
        (waits && idle && !self.queue.is_empty()).then(|| self.flush_at_ns())
    }
}
