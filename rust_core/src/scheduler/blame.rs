//! Whose fault a failed batch was: the replica's, or that of one request in it.
//!
//! A failed batch counts as one failure of its replica at once. Its members are executed again
//! elsewhere, and how they end tells the rest: if all that were tried again were answered, each of
//! them counts; if one fails wherever it goes, that one was poison and the failure is taken back.
use super::{Dispatch, Request, Scheduler};

/// A failed batch, while members of it are live.
#[derive(Debug)]
pub(super) struct Case {
    replica: u64,
    live: u32,
    answered: u32,
    /// Whether a failure of the replica was counted for it.
    is_counted: bool,
    is_poisoned: bool,
}

impl Scheduler {
    /// Opens the case of a failed batch; returns the failures to count against its replica now.
    pub(super) fn open_case(&mut self, id: u64, dispatch: &Dispatch) -> u32 {
        let mut live = 0;
        let mut poison = Vec::new();
        for &ticket in &dispatch.members {
            let Some(slot) = self.live.slot(ticket) else { continue };
            let Some(request) = self.live.at_mut(slot) else { continue };
            request.failed_on = dispatch.replica;
            let cases = self.cases_of.entry(slot).or_default();
            if request.attempts >= self.max_attempts {
                poison.extend_from_slice(cases);
            }
            cases.push(id);
            live += 1;
        }
        // Failed elsewhere and here, and out of attempts: this one fails wherever it goes.
        let other = |id: &u64| self.cases.get(id).is_some_and(|c| c.replica != dispatch.replica);
        let is_poisoned = poison.iter().any(other);
        if is_poisoned {
            for id in poison {
                if let Some(case) = self.cases.get_mut(&id) {
                    case.is_poisoned = true;
                }
            }
        }
        if live > 0 {
            let (replica, is_counted) = (dispatch.replica, !is_poisoned);
            self.cases.insert(id, Case { replica, live, answered: 0, is_counted, is_poisoned });
        }
        u32::from(!is_poisoned)
    }

    /// A request that failed before was answered now.
    pub(super) fn credit(&mut self, slot: u32) {
        if !self.live.at(slot).is_some_and(Request::has_failed) {
            return;
        }
        for id in self.cases_of.get(&slot).into_iter().flatten() {
            if let Some(case) = self.cases.get_mut(id) {
                case.answered += 1;
            }
        }
    }

    /// A request ended; the last one of a case closes it.
    pub(super) fn close_cases(&mut self, slot: u32) {
        for id in self.cases_of.remove(&slot).unwrap_or_default() {
            let Some(case) = self.cases.get_mut(&id) else { continue };
            case.live -= 1;
            if case.live > 0 {
                continue;
            }
            let Some(case) = self.cases.remove(&id) else { continue };
            let slot = self.replicas.slot(case.replica);
            let Some(replica) = slot.and_then(|slot| self.replicas.at_mut(slot)) else { continue };
            if !case.is_poisoned {
                replica.breaker.blame(case.answered.saturating_sub(1));
            } else if case.is_counted {
                replica.breaker.forgive();
            }
            if let Some(slot) = slot {
                self.judge_breaker(slot);
            }
        }
    }

    /// Shuts a replica out if it failed too often and the fleet can do without it.
    pub(super) fn judge_breaker(&mut self, slot: u32) {
        let Some(replica) = self.replicas.at(slot) else { return };
        let Some(pool) = self.pools.slot(replica.pool) else { return };
        let is_tripped = replica.breaker.is_tripped();
        let ejected = self.pools.at(pool).map_or(0, |pool| pool.num_ejected);
        if !is_tripped || ejected >= self.most_ejected(pool) {
            return;
        }
        if let Some(replica) = self.replicas.at_mut(slot) {
            replica.breaker.open(self.now_ns, &mut self.rng);
        }
        self.recount(slot);
    }
}
