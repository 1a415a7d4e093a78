//! The scheduler.
use pyo3::prelude::*;

use super::argument::{Int, Real, Word};
use super::batch::Batch;
use super::ended::Ended;
use super::enums::{BatchOutcome, ReplicaCondition};
use super::given;
use super::lock::Lock;
use super::stats::{PoolStats, ReplicaStats};
use super::verdict::{Answer, Decision};
use crate::cost::Affine;
use crate::lanes::Expected;
use crate::limiter::LimiterSettings;
use crate::scheduler::{self, AdmissionSettings, OutputOffer, OutputReport, Report, Resilience};
use crate::tenants::TenantTerms;

/// The queues, replicas and quotas of one gateway.
#[pyclass(frozen, module = "headway._core")]
pub struct Scheduler(Lock<scheduler::Scheduler>);

#[pymethods]
impl Scheduler {
    #[new]
    #[pyo3(
        signature = (
            *, seed, max_live = Int(65_536), max_attempts = Int(3), max_tenants = Int(1_048_576)
        ),
        text_signature = "(*, seed, max_live=65536, max_attempts=3, max_tenants=1048576)"
    )]
    fn new(seed: Word, max_live: Int, max_attempts: Int, max_tenants: Int) -> PyResult<Self> {
        let seed = seed.get("seed")?;
        let mut core = scheduler::Scheduler::new(seed, max_live.0, max_attempts.0)?;
        core.limit_tenants(max_tenants.0)?;
        Ok(Self(Lock::new(core)))
    }

    #[allow(clippy::too_many_arguments)] // the contract's keywords
    #[pyo3(
        signature = (
            now_ns, *, units_per_s, burst_units, largest_units = None, weight = Real(1.0),
            max_queued_requests = Int(0), max_queued_units = Int(0)
        ),
        text_signature = "($self, now_ns, *, units_per_s, burst_units, largest_units=None, \
                          weight=1.0, max_queued_requests=0, max_queued_units=0)"
    )]
    fn add_tenant(
        &self,
        now_ns: Int,
        units_per_s: Real,
        burst_units: Real,
        largest_units: Option<Real>,
        weight: Real,
        max_queued_requests: Int,
        max_queued_units: Int,
    ) -> PyResult<i64> {
        let quota = TenantTerms::quota(units_per_s.0, burst_units.0);
        let queue = [max_queued_requests, max_queued_units];
        let terms = given::terms(quota, largest_units, weight, queue)?;
        Ok(self.0.hold().register_tenant(now_ns.0, terms)?)
    }

    #[allow(clippy::too_many_arguments)] // the contract's keywords
    #[pyo3(
        signature = (
            now_ns, tenant, *, units_per_s, burst_units, largest_units = None,
            weight = Real(1.0), max_queued_requests = Int(0), max_queued_units = Int(0)
        ),
        text_signature = "($self, now_ns, tenant, *, units_per_s, burst_units, \
                          largest_units=None, weight=1.0, max_queued_requests=0, \
                          max_queued_units=0)"
    )]
    fn set_tenant_quota(
        &self,
        now_ns: Int,
        tenant: Int,
        units_per_s: Real,
        burst_units: Real,
        largest_units: Option<Real>,
        weight: Real,
        max_queued_requests: Int,
        max_queued_units: Int,
    ) -> PyResult<()> {
        let quota = TenantTerms::quota(units_per_s.0, burst_units.0);
        let queue = [max_queued_requests, max_queued_units];
        let terms = given::terms(quota, largest_units, weight, queue)?;
        Ok(self.0.hold().set_tenant(now_ns.0, tenant.0, terms)?)
    }

    #[pyo3(signature = (*, memory_ns))]
    fn set_fair_share(&self, memory_ns: Int) -> PyResult<()> {
        Ok(self.0.hold().set_fair_share(memory_ns.0)?)
    }

    #[pyo3(signature = (
        pool, *, limit_initial, limit_min, limit_max, reserved_critical = Real(0.0),
        reserved_standard = Real(0.0)
    ), text_signature = "($self, pool, *, limit_initial, limit_min, limit_max, \
                         reserved_critical=0.0, reserved_standard=0.0)")]
    fn set_admission(
        &self,
        pool: Int,
        limit_initial: Int,
        limit_min: Int,
        limit_max: Int,
        reserved_critical: Real,
        reserved_standard: Real,
    ) -> PyResult<()> {
        let settings = AdmissionSettings {
            limit: LimiterSettings { initial: limit_initial.0, min: limit_min.0, max: limit_max.0 },
            reserved: [reserved_critical.0, reserved_standard.0],
        };
        Ok(self.0.hold().set_admission(pool.0, &settings)?)
    }

    fn num_tenants(&self) -> (usize, usize) {
        self.0.hold().num_tenants()
    }

    fn charge(&self, now_ns: Int, tenant: Int, units: Int) -> PyResult<i64> {
        Ok(self.0.hold().charge(now_ns.0, tenant.0, units.0)?)
    }

    fn refund(&self, now_ns: Int, tenant: Int, units: Int) -> PyResult<()> {
        Ok(self.0.hold().refund(now_ns.0, tenant.0, units.0)?)
    }

    #[pyo3(signature = (*, salt))]
    fn add_model(&self, salt: Word) -> PyResult<i64> {
        let salt = salt.get("salt")?;
        Ok(self.0.hold().add_model(salt))
    }

    #[allow(clippy::needless_pass_by_value)] // PyO3 hands sequences over by value
    fn set_split(&self, model: Int, pools: Vec<Int>, shares: Vec<Real>) -> PyResult<()> {
        let pools: Vec<i64> = pools.iter().map(|pool| pool.0).collect();
        let shares: Vec<f64> = shares.iter().map(|share| share.0).collect();
        Ok(self.0.hold().set_split(model.0, &pools, &shares)?)
    }

    #[pyo3(signature = (
        *, max_queued_requests, max_queued_units, prior_intercept_ns, prior_slope_ns
    ))]
    fn add_pool(
        &self,
        max_queued_requests: Int,
        max_queued_units: Int,
        prior_intercept_ns: Real,
        prior_slope_ns: Real,
    ) -> PyResult<i64> {
        let prior = Affine { fixed_ns: prior_intercept_ns.0, unit_ns: prior_slope_ns.0 };
        Ok(self.0.hold().add_pool(max_queued_requests.0, max_queued_units.0, prior)?)
    }

    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // the contract's keywords
    #[pyo3(
        signature = (
            pool, *, alpha = Real(0.5), large_share = Real(0.0), bulk_share = Real(0.05),
            priority_weights = vec![4.0, 1.0, 0.25],
            shed_early = true
        ),
        text_signature = "($self, pool, *, alpha=0.5, large_share=0.0, bulk_share=0.05, \
                          priority_weights=(4.0, 1.0, 0.25), shed_early=True)"
    )]
    fn set_policy(
        &self,
        pool: Int,
        alpha: Real,
        large_share: Real,
        bulk_share: Real,
        priority_weights: Vec<f64>,
        shed_early: bool,
    ) -> PyResult<()> {
        let settings = super::sim::settings(
            alpha.0,
            large_share.0,
            bulk_share.0,
            &priority_weights,
            shed_early,
            0.0,
        )?;
        Ok(self.0.hold().set_policy(pool.0, &settings)?)
    }

    #[pyo3(
        signature = (
            *, max_ejected_share = Real(0.5), retry_share = Real(0.1), hedge_share = Real(0.0),
            pipelined = false
        ),
        text_signature = "($self, *, max_ejected_share=0.5, retry_share=0.1, hedge_share=0.0, \
                          pipelined=False)"
    )]
    fn set_resilience(
        &self,
        max_ejected_share: Real,
        retry_share: Real,
        hedge_share: Real,
        pipelined: bool,
    ) -> PyResult<()> {
        let settings = Resilience {
            max_ejected_share: max_ejected_share.0,
            retry_share: retry_share.0,
            hedge_share: hedge_share.0,
            is_pipelined: pipelined,
        };
        Ok(self.0.hold().set_resilience(&settings)?)
    }

    fn remove_pool(&self, now_ns: Int, pool: Int) -> PyResult<Vec<u64>> {
        Ok(self.0.hold().remove_pool(now_ns.0, pool.0)?)
    }

    #[allow(clippy::too_many_arguments)] // the contract's keyword-only limits
    #[pyo3(signature = (now_ns, pool, *, max_outstanding, max_requests, max_rows, max_units))]
    fn add_replica(
        &self,
        now_ns: Int,
        pool: Int,
        max_outstanding: Int,
        max_requests: Int,
        max_rows: Int,
        max_units: Int,
    ) -> PyResult<i64> {
        let limits = given::limits(max_outstanding, max_requests, max_rows, max_units);
        Ok(self.0.hold().add_replica(now_ns.0, pool.0, &limits)?)
    }

    #[pyo3(signature = (replica, *, max_outstanding, max_requests, max_rows, max_units))]
    fn set_replica_limits(
        &self,
        replica: Int,
        max_outstanding: Int,
        max_requests: Int,
        max_rows: Int,
        max_units: Int,
    ) -> PyResult<()> {
        let limits = given::limits(max_outstanding, max_requests, max_rows, max_units);
        Ok(self.0.hold().set_replica_limits(replica.0, &limits)?)
    }

    fn set_replica_condition(
        &self,
        now_ns: Int,
        replica: Int,
        condition: ReplicaCondition,
    ) -> PyResult<()> {
        Ok(self.0.hold().set_replica_condition(now_ns.0, replica.0, condition.into())?)
    }

    fn end_rest(&self, now_ns: Int, replica: Int, free_in_ns: Int) -> PyResult<()> {
        Ok(self.0.hold().end_rest(now_ns.0, replica.0, free_in_ns.0)?)
    }

    fn remove_replica(&self, now_ns: Int, replica: Int) -> PyResult<Vec<u64>> {
        Ok(self.0.hold().remove_replica(now_ns.0, replica.0)?)
    }

    #[allow(clippy::too_many_arguments)] // one crossing of the border a request
    fn offer(
        &self,
        now_ns: Int,
        tenant: Int,
        model: Int,
        pool: Int,
        key_hash: Word,
        units: Int,
        rows: Int,
        deadline_ns: Int,
        priority: Int,
        lane: Int,
        weight: Real,
    ) -> PyResult<Answer> {
        let key_hash = key_hash.get("key_hash")?;
        let place = [tenant, model, pool];
        let offer =
            given::offer(place, key_hash, [units, rows], deadline_ns, [priority, lane], weight);
        Ok(match self.0.hold().offer(now_ns.0, &offer)? {
            Ok(ticket) => Answer::Ticket(ticket),
            Err(verdict) => Answer::Verdict(verdict.into()),
        })
    }

    #[allow(clippy::too_many_arguments)] // one crossing of the border a request
    fn admit(
        &self,
        now_ns: Int,
        tenant: Int,
        model: Int,
        pool: Int,
        key_hash: Word,
        units: Int,
        rows: Int,
        deadline_ns: Int,
        priority: Int,
        lane: Int,
        weight: Real,
    ) -> PyResult<Decision> {
        let key_hash = key_hash.get("key_hash")?;
        let place = [tenant, model, pool];
        let offer =
            given::offer(place, key_hash, [units, rows], deadline_ns, [priority, lane], weight);
        Ok(match self.0.hold().admit(now_ns.0, &offer)? {
            Ok(admission) => Decision::Admission(admission.into()),
            Err(verdict) => Decision::Verdict(verdict.into()),
        })
    }

    #[allow(clippy::too_many_arguments)] // one crossing of the border an output
    fn admit_output(
        &self,
        now_ns: Int,
        tenant: Int,
        pool: Int,
        units: Int,
        deadline_ns: Int,
        priority: Int,
        lanes: Int,
        is_open: bool,
        service_ns: Int,
    ) -> PyResult<Decision> {
        let offer = OutputOffer {
            tenant: tenant.0,
            pool: pool.0,
            units: units.0,
            deadline_ns: deadline_ns.0,
            priority: priority.0,
            lanes: lanes.0,
            is_open,
            service_ns: service_ns.0,
        };
        Ok(match self.0.hold().admit_output(now_ns.0, &offer)? {
            Ok(admission) => Decision::Admission(admission.into()),
            Err(verdict) => Decision::Verdict(verdict.into()),
        })
    }

    fn next_output(&self, pool: Int) -> PyResult<Option<u64>> {
        Ok(self.0.hold().next_output(pool.0)?)
    }

    fn begin_output(
        &self,
        now_ns: Int,
        ticket: Int,
        hold_ns: Int,
        longest_ns: Int,
        size: Real,
    ) -> PyResult<bool> {
        let expected = Expected { hold_ns: hold_ns.0, longest_ns: longest_ns.0 };
        Ok(self.0.hold().begin_output(now_ns.0, ticket.0, expected, size.0)?)
    }

    fn return_output(&self, ticket: Int) -> bool {
        self.0.hold().return_output(ticket.0)
    }

    #[pyo3(
        signature = (
            now_ns, ticket, used_units = Int(0), measured_ns = Int(0), planned_ns = Int(0)
        ),
        text_signature = "($self, now_ns, ticket, used_units=0, measured_ns=0, planned_ns=0)"
    )]
    fn end_output(
        &self,
        now_ns: Int,
        ticket: Int,
        used_units: Int,
        measured_ns: Int,
        planned_ns: Int,
    ) -> PyResult<bool> {
        let report = OutputReport {
            used_units: used_units.0,
            measured_ns: measured_ns.0,
            planned_ns: planned_ns.0,
        };
        Ok(self.0.hold().end_output(now_ns.0, ticket.0, &report)?)
    }

    fn waiting_outputs(&self, now_ns: Int, pool: Int) -> PyResult<(u64, i64)> {
        Ok(self.0.hold().waiting_outputs(now_ns.0, pool.0)?)
    }

    fn num_outputs(&self) -> usize {
        self.0.hold().num_outputs()
    }

    fn pool_of(&self, ticket: Int) -> i64 {
        self.0.hold().pool_of(ticket.0)
    }

    fn form_batch(&self, now_ns: Int, pool: Int) -> PyResult<Option<Batch>> {
        Ok(self.0.hold().form_batch(now_ns.0, pool.0)?.map(Batch::from))
    }

    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // as the contract has it
    #[pyo3(
        signature = (
            now_ns, batch, outcome, device_ns = Int(0), units = Int(0), retry_after_ns = Int(0),
            retry = Vec::new(), failed = Int(0), used = Vec::new(), invalid = Int(0)
        ),
        text_signature = "($self, now_ns, batch, outcome, device_ns=0, units=0, \
                          retry_after_ns=0, retry=(), failed=0, used=(), invalid=0)"
    )]
    fn complete(
        &self,
        now_ns: Int,
        batch: Int,
        outcome: BatchOutcome,
        device_ns: Int,
        units: Int,
        retry_after_ns: Int,
        retry: Vec<Int>,
        failed: Int,
        used: Vec<(Int, Int)>,
        invalid: Int,
    ) -> PyResult<Vec<u64>> {
        let mut used: Vec<(u64, u64)> = used.iter().filter_map(given::natural).collect();
        used.sort_unstable();
        let retry: Vec<u64> = retry.iter().filter_map(|t| u64::try_from(t.0).ok()).collect();
        let report = Report {
            outcome: outcome.into(),
            device_ns: device_ns.0,
            units: units.0,
            retry_after_ns: retry_after_ns.0,
            retry: &retry,
            failed: failed.0,
            used: &used,
            invalid: invalid.0,
        };
        Ok(self.0.hold().complete(now_ns.0, batch.0, &report)?)
    }

    fn cancel(&self, now_ns: Int, ticket: Int) -> PyResult<Option<Ended>> {
        Ok(self.0.hold().cancel(now_ns.0, ticket.0)?.map(Ended::from))
    }

    fn expire(&self, now_ns: Int) -> PyResult<Vec<Ended>> {
        Ok(self.0.hold().expire(now_ns.0)?.into_iter().map(Ended::from).collect())
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.0.hold().next_event_ns()
    }

    fn look_at_ns(&self, pool: Int) -> PyResult<Option<i64>> {
        Ok(self.0.hold().look_at_ns(pool.0)?)
    }

    fn drain_ns(&self, pool: Int) -> PyResult<i64> {
        Ok(self.0.hold().drain_ns(pool.0)?)
    }

    fn pool_stats(&self, pool: Int) -> PyResult<PoolStats> {
        Ok(self.0.hold().pool_stats(pool.0)?.into())
    }

    fn replica_stats(&self, replica: Int) -> PyResult<ReplicaStats> {
        Ok(self.0.hold().replica_stats(replica.0)?.into())
    }

    fn num_live(&self) -> usize {
        self.0.hold().num_live()
    }

    fn num_executing(&self) -> usize {
        self.0.hold().num_executing()
    }
}
