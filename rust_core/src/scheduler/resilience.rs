//! What a scheduler may do about replicas that fail, stall or are about to be free.
use crate::check;
use crate::error::CoreError;

use super::Scheduler;

/// Settings of breakers, retries, hedges and pipelined dispatch, for all pools.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resilience {
    /// Most of a pool's ready replicas that may be shut out at once; never the last one.
    pub max_ejected_share: f64,
    /// Retries earned by each request.
    pub retry_share: f64,
    /// Device time for second copies, as a share of all; 0 for none.
    pub hedge_share: f64,
    /// Whether a replica gets its next batch just before it is free.
    pub is_pipelined: bool,
}

impl Default for Resilience {
    fn default() -> Self {
        Self { max_ejected_share: 0.5, retry_share: 0.1, hedge_share: 0.0, is_pipelined: false }
    }
}

impl Scheduler {
    /// Sets what may be done about replicas that fail, stall or are about to be free.
    ///
    /// # Errors
    /// A share outside 0 to 1.
    pub fn set_resilience(&mut self, settings: &Resilience) -> Result<(), CoreError> {
        check::ratio("max_ejected_share", settings.max_ejected_share)?;
        check::ratio("retry_share", settings.retry_share)?;
        check::ratio("hedge_share", settings.hedge_share)?;
        self.resilience = *settings;
        let slots: Vec<u32> = self.replicas.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            if let Some(replica) = self.replicas.at_mut(slot) {
                replica.is_pipelined = settings.is_pipelined;
            }
            self.recount(slot);
        }
        Ok(())
    }

    /// Replicas of a pool that may be shut out now. O(1).
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a part of a count
    pub(super) fn most_ejected(&self, pool: u32) -> u64 {
        let ready = self.pools.at(pool).map_or(0, |pool| pool.ready_replicas);
        let share = (self.resilience.max_ejected_share * ready as f64).floor() as u64;
        share.min(ready.saturating_sub(1))
    }

    /// Lets replicas in again that a shrunken fleet cannot do without, the next to return first.
    pub(super) fn readmit(&mut self, now_ns: i64, pool: u32) {
        while self.pools.at(pool).is_some_and(|p| p.num_ejected > 0)
            && self.pools.at(pool).map_or(0, |p| p.num_ejected) > self.most_ejected(pool)
        {
            let next = self.pools.at(pool).and_then(|pool| {
                let waiting = pool.open.first().map(|&(_, slot)| slot);
                pool.probing.first().copied().or(waiting)
            });
            let Some(slot) = next else { break };
            if let Some(replica) = self.replicas.at_mut(slot) {
                replica.breaker.close(now_ns);
            }
            self.recount(slot);
        }
    }
}
