//! Registration: rare calls that change what there is.
use crate::batching::settings::PolicySettings;
use crate::check;
use crate::cost::Affine;
use crate::error::CoreError;
use crate::limiter::GradientLimiter;
use crate::slab::MAX_SLOTS;
use crate::tenants::{TenantTable, TenantTerms};

use super::limits::{AdmissionSettings, Condition, ReplicaLimits};
use super::pool::Pool;
use super::replica::Replica;
use super::{signed, Model, Scheduler};

/// How far the shares of a split may add up beside 1.
const SHARE_TOLERANCE: f64 = 1e-6;

impl Scheduler {
    /// Adds a tenant with a quota alone; `inf` for no limit.
    ///
    /// # Errors
    /// As `register_tenant`.
    pub fn add_tenant(
        &mut self,
        now_ns: i64,
        units_per_s: f64,
        burst_units: f64,
    ) -> Result<i64, CoreError> {
        self.register_tenant(now_ns, TenantTerms::quota(units_per_s, burst_units))
    }

    /// Adds a tenant with a full token bucket. A full table forgets an idle tenant for it.
    ///
    /// # Errors
    /// Terms out of range, or a table full of tenants that are not idle.
    pub fn register_tenant(&mut self, now_ns: i64, terms: TenantTerms) -> Result<i64, CoreError> {
        let now_ns = self.advance(now_ns)?;
        let terms = check_terms(terms)?;
        self.tenants.add(now_ns, terms).map(signed).ok_or(CoreError::TenantsFull)
    }

    /// Bounds the tenants that have a state of their own. Before the first one is added.
    ///
    /// # Errors
    /// Out of range, or tenants that are there already.
    pub fn limit_tenants(&mut self, max_tenants: i64) -> Result<(), CoreError> {
        let expected = "from 1 to 2**24";
        let bound = check::count("max_tenants", max_tenants, 1, check::MAX_LIVE, expected)?;
        if !self.tenants.is_empty() {
            let expected = "set before the first tenant is added";
            return Err(CoreError::argument("max_tenants", max_tenants, expected));
        }
        self.tenants = TenantTable::new(usize::try_from(bound).unwrap_or(MAX_SLOTS));
        Ok(())
    }

    /// Sets how long device time counts toward a tenant's share.
    ///
    /// # Errors
    /// Below 1 ns or above 2^62.
    pub fn set_fair_share(&mut self, memory_ns: i64) -> Result<(), CoreError> {
        let memory_ns = check::duration("memory_ns", memory_ns, 1)?;
        self.tenants.set_memory(memory_ns as f64);
        Ok(())
    }

    /// Sets how many requests a pool may have in hand; the limit learned so far stays.
    ///
    /// # Errors
    /// An unknown pool or a setting out of range.
    pub fn set_admission(
        &mut self,
        pool: i64,
        settings: &AdmissionSettings,
    ) -> Result<(), CoreError> {
        let slot = self.pool_slot(pool)?;
        settings.check()?;
        if let Some(pool) = self.pools.at_mut(slot) {
            pool.reserved = settings.reserved;
            match &mut pool.limiter {
                Some(limiter) => limiter.configure(&settings.limit),
                none => *none = Some(GradientLimiter::new(&settings.limit)),
            }
        }
        Ok(())
    }

    /// Tenants that have a state of their own, and those that asked for something of late.
    #[must_use]
    pub fn num_tenants(&self) -> (usize, usize) {
        (self.tenants.len(), self.tenants.num_active())
    }

    /// Changes what a tenant may have; what its bucket holds stays, up to the new burst.
    ///
    /// # Errors
    /// An unknown tenant, or terms out of range.
    pub fn set_tenant(
        &mut self,
        now_ns: i64,
        tenant: i64,
        terms: TenantTerms,
    ) -> Result<(), CoreError> {
        let now_ns = self.advance(now_ns)?;
        let terms = check_terms(terms)?;
        let slot = self.tenant_slot(tenant)?;
        self.tenants.set_terms(now_ns, slot, &terms);
        Ok(())
    }

    /// Adds a model with an empty split.
    pub fn add_model(&mut self, salt: u64) -> i64 {
        self.models.push(Model { salt, split: Vec::new() });
        signed(self.models.len() as u64 - 1)
    }

    /// Divides a model's unpinned traffic.
    ///
    /// # Errors
    /// Unknown handles, unequal lengths, or shares that are negative or do not add up to 1.
    pub fn set_split(
        &mut self,
        model: i64,
        pools: &[i64],
        shares: &[f64],
    ) -> Result<(), CoreError> {
        if pools.len() != shares.len() || pools.is_empty() {
            let given = format!("{} shares for {} pools", shares.len(), pools.len());
            return Err(CoreError::argument("shares", given, "one for each pool, at least one"));
        }
        let mut split = Vec::with_capacity(pools.len());
        let mut end = 0.0;
        for (&pool, &share) in pools.iter().zip(shares) {
            self.pool_slot(pool)?;
            end += check::ratio("shares", share)?;
            split.push((end, pool.unsigned_abs()));
        }
        if (end - 1.0).abs() > SHARE_TOLERANCE {
            return Err(CoreError::argument("shares", end, "a sum of 1 (within 1e-6)"));
        }
        let index = usize::try_from(model).ok().filter(|&index| index < self.models.len());
        let index = index.ok_or(CoreError::UnknownHandle { kind: "model", handle: model })?;
        self.models[index].split = split;
        Ok(())
    }

    /// Adds the queue of one model version.
    ///
    /// # Errors
    /// A bound below 1, or a prior that is negative or not finite.
    pub fn add_pool(
        &mut self,
        max_queued_requests: i64,
        max_queued_units: i64,
        prior: Affine,
    ) -> Result<i64, CoreError> {
        let expected = "from 1 to 2**62";
        let most = check::MAX_NS;
        let requests = check::count("max_queued_requests", max_queued_requests, 1, most, expected)?;
        let units = check::count("max_queued_units", max_queued_units, 1, most, expected)?;
        check::cost("prior_intercept_ns", prior.fixed_ns)?;
        check::cost("prior_slope_ns", prior.unit_ns)?;
        let key = self.pools.insert(Pool::new(prior, requests, units));
        let expected = "one of at most 2**24";
        key.map(signed).ok_or_else(|| CoreError::argument("pool", "one more", expected))
    }

    /// Sets how a pool forms its batches and what it refuses.
    ///
    /// # Errors
    /// An unknown pool or a setting out of range.
    pub fn set_policy(&mut self, pool: i64, settings: &PolicySettings) -> Result<(), CoreError> {
        let slot = self.pool_slot(pool)?;
        settings.check()?;
        if let Some(pool) = self.pools.at_mut(slot) {
            pool.policy.configure(settings);
        }
        Ok(())
    }

    /// Removes a pool and ends what was in it, outputs too; returns the tickets of the requests, in
    /// order of their slots.
    ///
    /// # Errors
    /// An unknown pool, or one that still has replicas.
    pub fn remove_pool(&mut self, now_ns: i64, pool: i64) -> Result<Vec<u64>, CoreError> {
        self.advance(now_ns)?;
        let slot = self.pool_slot(pool)?;
        let num_replicas = self.pools.at(slot).map_or(0, |pool| pool.num_replicas);
        if num_replicas > 0 {
            return Err(CoreError::PoolInUse { pool, num_replicas });
        }
        let key = pool.unsigned_abs();
        let inside = self.live.iter().filter(|(_, request)| request.pool == key);
        let slots: Vec<u32> = inside.map(|(slot, _)| slot).collect();
        let tickets = slots.iter().filter_map(|&slot| self.finish(slot)).map(|ended| ended.ticket);
        let tickets = tickets.collect();
        self.end_outputs_of(key);
        self.dispatches.retain(|_, dispatch| dispatch.pool != key);
        self.pools.take(slot);
        Ok(tickets)
    }

    /// Adds a replica, CONNECTING.
    ///
    /// # Errors
    /// An unknown pool or a limit out of range.
    pub fn add_replica(
        &mut self,
        now_ns: i64,
        pool: i64,
        limits: &ReplicaLimits,
    ) -> Result<i64, CoreError> {
        let now_ns = self.advance(now_ns)?;
        let pool_slot = self.pool_slot(pool)?;
        let (max_outstanding, limits) = limits.check()?;
        let mut replica = Replica::new(now_ns, pool.unsigned_abs(), max_outstanding, limits);
        replica.is_pipelined = self.resilience.is_pipelined;
        let expected = "one of at most 2**24";
        let key = self.replicas.insert(replica);
        let key = key.ok_or_else(|| CoreError::argument("replica", "one more", expected))?;
        if let Some(pool) = self.pools.at_mut(pool_slot) {
            pool.num_replicas += 1;
        }
        self.recount(self.replica_slot(signed(key))?);
        Ok(signed(key))
    }

    /// Changes a replica's limits; batches in hand keep theirs.
    ///
    /// # Errors
    /// An unknown replica or a limit out of range.
    pub fn set_replica_limits(
        &mut self,
        replica: i64,
        limits: &ReplicaLimits,
    ) -> Result<(), CoreError> {
        let slot = self.replica_slot(replica)?;
        let (max_outstanding, limits) = limits.check()?;
        if let Some(replica) = self.replicas.at_mut(slot) {
            replica.max_outstanding = max_outstanding;
            replica.limits = limits;
        }
        self.recount(slot);
        Ok(())
    }

    /// Changes what a replica may be given.
    ///
    /// # Errors
    /// An unknown replica.
    pub fn set_replica_condition(
        &mut self,
        now_ns: i64,
        replica: i64,
        condition: Condition,
    ) -> Result<(), CoreError> {
        let now_ns = self.advance(now_ns)?;
        let slot = self.replica_slot(replica)?;
        if let Some(replica) = self.replicas.at_mut(slot) {
            let pool = self.pools.slot(replica.pool).and_then(|slot| self.pools.at(slot));
            let is_busy = pool.is_some_and(|p| p.last_run_ns.is_some() && p.ready_replicas > 0);
            let joins = condition == Condition::Ready && replica.condition != Condition::Ready;
            if joins {
                replica.ramp_from_ns = is_busy.then_some(now_ns);
            }
            replica.condition = condition;
        }
        self.recount(slot);
        Ok(())
    }

    /// A replica that rests after a busy answer may be given a batch, which it begins in
    /// `free_in_ns`; out of range counts as 0. Nothing changes for one that does not rest.
    ///
    /// # Errors
    /// An unknown replica or a bad instant.
    pub fn end_rest(
        &mut self,
        now_ns: i64,
        replica: i64,
        free_in_ns: i64,
    ) -> Result<(), CoreError> {
        let now_ns = self.advance(now_ns)?;
        let slot = self.replica_slot(replica)?;
        if let Some(replica) = self.replicas.at_mut(slot) {
            replica.end_rest(now_ns, free_in_ns.max(0));
        }
        self.recount(slot);
        Ok(())
    }

    /// Removes a replica; returns the ids of batches still on it.
    ///
    /// # Errors
    /// An unknown replica.
    pub fn remove_replica(&mut self, now_ns: i64, replica: i64) -> Result<Vec<u64>, CoreError> {
        self.advance(now_ns)?;
        let slot = self.replica_slot(replica)?;
        Ok(self.uncount(slot).map_or_else(Vec::new, |replica| replica.outstanding))
    }
}

/// Weights of tenants; settings and the wire hold them to the same range.
const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-6..=1000.0;

fn check_terms(mut terms: TenantTerms) -> Result<TenantTerms, CoreError> {
    check::positive("units_per_s", terms.units_per_s)?;
    check::positive("burst_units", terms.burst_units)?;
    check::positive("largest_units", terms.largest_units)?;
    if !WEIGHTS.contains(&terms.weight) {
        return Err(CoreError::argument("weight", terms.weight, "from 1e-6 to 1000"));
    }
    terms.largest_units = terms.largest_units.max(terms.burst_units);
    Ok(terms)
}
