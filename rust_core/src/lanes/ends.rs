//! When lanes fall free: the outputs that are written, by when each is expected to end.
use std::collections::HashMap;

use crate::tree::OrderTree;

/// How fast the usual time of an output in its lane follows those that ended.
const HOLD_GAIN: f64 = 0.1;
/// One that outlasts even its budget is looked at again after this part of its expected time.
const RETRY_PART: i64 = 8;

/// How long an output is expected to hold its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Expected time, ns, >= 1.
    pub hold_ns: i64,
    /// Time in which its whole budget is written, ns, >= `hold_ns`.
    pub longest_ns: i64,
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    ends_at_ns: i64,
    hold_ns: i64,
    longest_at_ns: i64,
}

/// Outputs under way in their expected order of ending. Calls are O(log n), amortised.
///
/// One that is overdue is taken for one that has just begun, up to its budget: lengths are close
/// to geometric, and of those the rest does not depend on what is written.
#[derive(Debug, Default)]
pub struct LaneEnds {
    order: OrderTree<(i64, u64), ()>,
    lanes: HashMap<u64, Lane>,
    /// 0 before one has ended.
    usual_hold_ns: f64,
    /// Expected times of those under way, added up.
    hold_sum_ns: f64,
}

impl LaneEnds {
    /// Outputs under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// True without outputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// An output that is not among them begins.
    pub fn begin(&mut self, now_ns: i64, id: u64, expected: Expected) {
        let hold_ns = expected.hold_ns.max(1);
        let ends_at_ns = now_ns.saturating_add(hold_ns);
        let longest_at_ns = now_ns.saturating_add(expected.longest_ns.max(hold_ns));
        self.hold_sum_ns += hold_ns as f64;
        self.lanes.insert(id, Lane { ends_at_ns, hold_ns, longest_at_ns });
        self.order.insert((ends_at_ns, id), 0, ());
    }

    /// An output leaves its lane; nothing is learned.
    pub fn remove(&mut self, id: u64) {
        if let Some(lane) = self.lanes.remove(&id) {
            self.order.remove(&(lane.ends_at_ns, id));
            self.hold_sum_ns -= lane.hold_ns as f64;
        }
        if self.lanes.is_empty() {
            self.hold_sum_ns = 0.0; // no rounding either
        }
    }

    /// Learns how long an output held its lane.
    pub fn learn(&mut self, held_ns: i64) {
        let gain = if self.usual_hold_ns > 0.0 { HOLD_GAIN } else { 1.0 };
        self.usual_hold_ns += gain * (held_ns as f64 - self.usual_hold_ns);
    }

    /// Time until `place` + 1 lanes have fallen free; beyond those under way each takes the usual
    /// time more, or before one has ended what they are expected to. 0 while nothing is under way.
    #[allow(clippy::cast_possible_truncation)] // saturates
    pub fn wait_ns(&mut self, now_ns: i64, place: u64) -> i64 {
        self.put_off(now_ns);
        let Some(rounds) = place.checked_div(self.len() as u64) else { return 0 };
        let index = usize::try_from(place % self.len() as u64).unwrap_or(0);
        let ends_at_ns = self.order.select(index).map_or(now_ns, |((at_ns, _), ())| at_ns);
        let expected_ns = self.hold_sum_ns / self.len() as f64;
        let hold_ns = if self.usual_hold_ns > 0.0 { self.usual_hold_ns } else { expected_ns };
        let more_ns = rounds as f64 * hold_ns;
        ends_at_ns.saturating_sub(now_ns).saturating_add(more_ns as i64)
    }

    /// Expects those anew that should have ended. Each is put off by at least an eighth of its
    /// expected time, so at most so many times as it is late.
    fn put_off(&mut self, now_ns: i64) {
        while let Some(((at_ns, id), ())) = self.order.first() {
            if at_ns > now_ns {
                return;
            }
            self.order.remove(&(at_ns, id));
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            let soonest_ns = now_ns.saturating_add(lane.hold_ns / RETRY_PART + 1);
            let again_ns = now_ns.saturating_add(lane.hold_ns).min(lane.longest_at_ns);
            lane.ends_at_ns = again_ns.max(soonest_ns);
            self.order.insert((lane.ends_at_ns, id), 0, ());
        }
    }
}
