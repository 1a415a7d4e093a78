//! Questions that change nothing.
use crate::check::to_ns;
use crate::error::CoreError;
use crate::limiter::GradientLimiter;

use super::pool::{Pool, PROBE_INTERVAL_NS};
use super::replica::Replica;
use super::stats::{PoolStats, ReplicaStats};
use super::{signed, Scheduler};

impl Scheduler {
    /// Pool of a live ticket; -1 if it is not live.
    #[must_use]
    pub fn pool_of(&self, ticket: i64) -> i64 {
        let slot = u64::try_from(ticket).ok().and_then(|key| self.live.slot(key));
        slot.and_then(|slot| self.live.at(slot)).map_or(-1, |request| signed(request.pool))
    }

    /// Requests queued and executing.
    #[must_use]
    pub fn num_live(&self) -> usize {
        self.live.len()
    }

    /// Batches executing.
    #[must_use]
    pub fn num_executing(&self) -> usize {
        self.dispatches.len()
    }

    /// Next instant at which `expire` or `form_batch` could have something to do by the passing
    /// of time alone. O(pools).
    #[must_use]
    pub fn next_event_ns(&self) -> Option<i64> {
        let deadline = self.deadlines.peek().map(|due| due.0);
        let pools = self.pools.iter().filter(|(_, pool)| pool.queued.requests > 0);
        let hopeless_ns = |pool: &Pool| pool.policy.next_hopeless_ns(self.now_ns);
        let awaited = pools.flat_map(|(_, pool)| {
            let opens_ns = pool.open.first().map(|open| open.0);
            [rest_ends_ns(pool), opens_ns, probe_due_ns(pool), hopeless_ns(pool)]
        });
        let looks = self.pools.iter().flat_map(|(_, pool)| looks_ns(pool, self.now_ns));
        let awaited = awaited.chain(looks);
        // What is not in the future was possible already at the last call.
        let awaited = awaited.flatten().filter(|&at_ns| at_ns > self.now_ns).min();
        deadline.into_iter().chain(awaited).min()
    }

    /// When `form_batch` should be asked again for what is queued; None if another call must come
    /// first. O(log n).
    ///
    /// # Errors
    /// An unknown pool.
    pub fn look_at_ns(&self, pool: i64) -> Result<Option<i64>, CoreError> {
        Ok(self.pool_at(pool)?.next_pipe_ns(self.now_ns))
    }

    /// Time in which the fleet would serve all that is queued and executing in a pool.
    ///
    /// # Errors
    /// An unknown pool.
    pub fn drain_ns(&self, pool: i64) -> Result<i64, CoreError> {
        Ok(self.pool_at(pool)?.drain_ns(self.now_ns))
    }

    /// A pool at a glance.
    ///
    /// # Errors
    /// An unknown pool.
    pub fn pool_stats(&self, pool: i64) -> Result<PoolStats, CoreError> {
        let pool = self.pool_at(pool)?;
        let fit = pool.cost.expected();
        Ok(PoolStats {
            queued_requests: pool.queued.requests,
            queued_units: pool.queued.units,
            queued_rows: pool.queued.rows,
            executing_batches: pool.executing_batches,
            executing_requests: pool.executing_requests,
            free_slots: pool.free_slots,
            ready_replicas: pool.ready_replicas,
            cost_intercept_ns: fit.fixed_ns,
            cost_slope_ns: fit.unit_ns,
            cost_residual_ratio: pool.cost.residual_ratio(),
            cost_observations: pool.cost.observations(),
            drain_ns: pool.drain_ns(self.now_ns),
            quantum_ns: pool.policy.quantum_ns(),
            ejected_replicas: pool.num_ejected,
            retry_tokens: pool.retries.tokens(),
            retries_refused: pool.retries.refused(),
            hedges_sent: pool.hedges.counts().0,
            hedges_won: pool.hedges.counts().1,
            hedge_device_ns: pool.hedges.spent_ns(),
            limit: pool.limiter.as_ref().map_or(0, GradientLimiter::limit),
            limit_gradient: pool.limiter.as_ref().map_or(1.0, GradientLimiter::gradient),
            inflight: pool.classes.inflight,
            displaced: pool.classes.displaced,
        })
    }

    /// A replica at a glance.
    ///
    /// # Errors
    /// An unknown replica.
    pub fn replica_stats(&self, replica: i64) -> Result<ReplicaStats, CoreError> {
        let unknown = CoreError::UnknownHandle { kind: "replica", handle: replica };
        let slot = self.replica_slot(replica)?;
        let replica = self.replicas.at(slot).ok_or(unknown)?;
        Ok(ReplicaStats {
            pool: replica.pool,
            condition: replica.condition,
            outstanding_batches: replica.outstanding.len(),
            latency_ns: to_ns(self.latency_ns(replica)),
            speed: replica.speed.value(),
            completed_batches: replica.completed_batches,
            failed_batches: replica.failed_batches,
            busy_answers: replica.busy_answers,
            breaker: replica.breaker.state(),
            open_until_ns: replica.breaker.open_until_ns().unwrap_or(0),
            recent_outcomes: replica.breaker.outcomes().len(),
            recent_failures: replica.breaker.outcomes().failures(),
            handoff_ns: replica.handoff_ns,
        })
    }

    fn latency_ns(&self, replica: &Replica) -> f64 {
        if replica.latency.level_ns().is_none() {
            return 0.0;
        }
        let pool = self.pools.slot(replica.pool).and_then(|slot| self.pools.at(slot));
        let median_ns = pool.map_or(0.0, Pool::median_latency_ns);
        replica.latency.value_ns(self.now_ns, median_ns / replica.speed.value()).round()
    }

    fn pool_at(&self, pool: i64) -> Result<&Pool, CoreError> {
        let unknown = CoreError::UnknownHandle { kind: "pool", handle: pool };
        self.pools.at(self.pool_slot(pool)?).ok_or(unknown)
    }
}

/// When a replica is about to be free, and when the next batch is late enough for a copy.
fn looks_ns(pool: &Pool, now_ns: i64) -> [Option<i64>; 2] {
    let pipe_ns = pool.next_pipe_ns(now_ns);
    let late_ns = pool.hedge_due.range((now_ns.saturating_add(1), 0)..).next().map(|due| due.0);
    [pipe_ns, late_ns]
}

fn rest_ends_ns(pool: &Pool) -> Option<i64> {
    pool.resting.first().map(|rest| rest.0)
}

fn probe_due_ns(pool: &Pool) -> Option<i64> {
    let can_run = pool.executing_batches == 0 && !pool.eligible.is_empty();
    let last_run_ns = pool.last_run_ns.filter(|_| can_run)?;
    Some(last_run_ns.saturating_add(PROBE_INTERVAL_NS))
}
