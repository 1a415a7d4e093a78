//! How long do the scheduler's decisions take without Python around them?
//!
//! Question: the cost of `offer`, `form_batch`, `complete`, of a slack, a charge, a graph's cost and
//! of choosing a replica, as the queue and the fleet grow; the difference to `bench/micro` is the
//! border's.
//! Workload: a queue of 10, 1,000 and 100,000 requests of 50 to 250 units whose deadlines fall
//! anywhere in an hour, one every 2.5 ms, one and a half times what the device can do, so that each
//! is judged and all shadows are at work; batches of 32; fleets of 10, 1,000 and 10,000 replicas;
//! 1,000, 100,000 and 1,000,000 tenants.
//! Command: cargo bench -p headway-core --no-default-features --bench decisions
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BatchSize, BenchmarkId, Criterion};
use headway_core::cost::{Affine, CostModel};
use headway_core::edf::EdfQueue;
use headway_core::median::RecentMedian;
use headway_core::p2c::EligibleIndex;
use headway_core::rng::Rng;
use headway_core::scheduler::{
    Batch, BatchOutcome, Condition, Offer, ReplicaLimits, Report, Scheduler,
};

const QUEUED: [u32; 3] = [10, 1_000, 100_000];
const TENANTS: [u64; 3] = [1_000, 100_000, 1_000_000];
const SECOND: i64 = 1_000_000_000;
const GAP_NS: i64 = 2_500_000;

struct Fleet {
    core: Scheduler,
    draws: Rng,
    now_ns: i64,
    queued: u32,
}

impl Fleet {
    fn new(queued: u32) -> Self {
        let prior = Affine { fixed_ns: 18e6, unit_ns: 22e3 };
        let mut core = Scheduler::new(1, 1 << 18, 3).expect("in range");
        core.add_tenant(0, f64::INFINITY, f64::INFINITY).expect("in range");
        core.add_model(7);
        core.add_pool(1 << 20, 1 << 40, prior).expect("in range");
        core.set_split(0, &[0], &[1.0]).expect("known");
        let limits = ReplicaLimits {
            max_outstanding: 1_000,
            max_requests: 32,
            max_rows: 0,
            max_units: 16_384,
        };
        core.add_replica(0, 0, &limits).expect("known");
        core.set_replica_condition(0, 0, Condition::Ready).expect("known");
        let mut fleet = Self { core, draws: Rng::new(2), now_ns: 0, queued };
        fleet.fill();
        fleet
    }

    #[allow(clippy::cast_possible_wrap)] // small draws
    fn offer_one(&mut self) -> Option<i64> {
        self.now_ns += GAP_NS;
        let slack_ns = 1_000 * SECOND + self.draws.below(3_600 * SECOND as u64) as i64;
        let deadline_ns = self.now_ns + slack_ns;
        let offer = Offer {
            tenant: 0,
            model: 0,
            pool: -1,
            key_hash: 5,
            units: 50 + self.draws.below(200) as i64,
            rows: 1,
            deadline_ns,
            priority: 2,
            lane: 1,
            weight: 1.0,
        };
        self.core.offer(self.now_ns, &offer).expect("valid").ok().map(|ticket| ticket as i64)
    }

    fn form(&mut self) -> Batch {
        self.core.form_batch(self.now_ns, 0).expect("known").expect("there is work")
    }

    #[allow(clippy::cast_possible_wrap)] // small numbers
    fn complete(&mut self, batch: &Batch) {
        let bare = Report::bare(BatchOutcome::Ok);
        let report = Report { device_ns: 80_000_000, units: batch.units as i64, ..bare };
        self.core.complete(self.now_ns, batch.id as i64, &report).expect("known");
    }

    fn settle(&mut self, batch: &Batch) {
        self.complete(batch);
        self.fill();
    }

    /// Offers until as many are queued as should be: some are refused, and some expire.
    fn fill(&mut self) {
        while self.core.pool_stats(0).expect("known").queued_requests < u64::from(self.queued) {
            self.offer_one();
        }
    }
}

/// 32 at a time; between them the admitted are cancelled again, and a batch is served.
fn offer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("offer");
    for queued in QUEUED {
        let mut fleet = Fleet::new(queued);
        let mut tickets = Vec::new();
        group.bench_function(BenchmarkId::from_parameter(queued), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut spent = Duration::ZERO;
                for round in 0..rounds {
                    let began = Instant::now();
                    tickets.extend(fleet.offer_one());
                    spent += began.elapsed();
                    if round % 32 == 31 {
                        for ticket in tickets.drain(..) {
                            let _ = fleet.core.cancel(fleet.now_ns, ticket);
                        }
                        let batch = fleet.form();
                        fleet.settle(&batch);
                    }
                }
                spent
            });
        });
    }
    group.finish();
}

fn form_and_complete(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("form_batch, complete and 32 offers");
    for queued in QUEUED {
        let mut fleet = Fleet::new(queued);
        group.bench_function(BenchmarkId::from_parameter(queued), |bencher| {
            bencher.iter(|| {
                let batch = fleet.form();
                fleet.settle(&batch);
            });
        });
    }
    group.finish();
}

/// `complete` alone, after as many have come as the batch took, so that its members are not warm.
fn complete(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("complete");
    for queued in QUEUED {
        let mut fleet = Fleet::new(queued);
        group.bench_function(BenchmarkId::from_parameter(queued), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut spent = Duration::ZERO;
                for _ in 0..rounds {
                    let batch = fleet.form();
                    fleet.fill();
                    let began = Instant::now();
                    fleet.complete(&batch);
                    spent += began.elapsed();
                }
                spent
            });
        });
    }
    group.finish();
}

/// `form_batch` alone.
fn form_batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("form_batch");
    for queued in QUEUED {
        let mut fleet = Fleet::new(queued);
        group.bench_function(BenchmarkId::from_parameter(queued), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut spent = Duration::ZERO;
                for _ in 0..rounds {
                    let began = Instant::now();
                    let batch = fleet.form();
                    spent += began.elapsed();
                    fleet.settle(&batch);
                }
                spent
            });
        });
    }
    group.finish();
}

fn pick(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pick");
    for replicas in [10u32, 1_000, 10_000] {
        let mut index = EligibleIndex::new();
        (0..replicas).for_each(|slot| index.insert(slot));
        let mut rng = Rng::new(3);
        group.bench_function(BenchmarkId::from_parameter(replicas), |bencher| {
            bencher.iter_batched(
                || (),
                |()| index.pick(&mut rng, |slot| f64::from(black_box(slot))),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// Work ahead of a deadline, and what that takes at a quantile of the cost.
#[allow(clippy::cast_possible_wrap)] // small draws
fn slack(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slack");
    for queued in QUEUED {
        let mut draws = Rng::new(4);
        let mut queue = EdfQueue::new();
        for ticket in 0..u64::from(queued) {
            let deadline_ns = draws.below(3_600 * SECOND as u64) as i64;
            let _ = queue.push(ticket, deadline_ns, 50 + draws.below(200));
        }
        let mut cost = CostModel::new(Affine { fixed_ns: 18e6, unit_ns: 22e3 });
        for units in 1_000..1_064_u64 {
            cost.observe(units, 18e6 + 22e3 * units as f64 + (units % 7) as f64 * 1e5);
        }
        group.bench_function(BenchmarkId::from_parameter(queued), |bencher| {
            bencher.iter(|| {
                let deadline_ns = draws.below(3_600 * SECOND as u64) as i64;
                let (_, ahead) = queue.before(deadline_ns);
                deadline_ns - cost.quantile_ns(ahead + 100, 2.0 / 3.0)
            });
        });
    }
    group.finish();
}

/// A charge that succeeds, of tenants at random.
#[allow(clippy::cast_possible_wrap)] // small draws
fn charge(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("charge");
    for tenants in TENANTS {
        let mut draws = Rng::new(5);
        let mut core = Scheduler::new(1, 1 << 10, 3).expect("in range");
        for _ in 0..tenants {
            core.add_tenant(0, 1e6, 1e15).expect("there is room");
        }
        group.bench_function(BenchmarkId::from_parameter(tenants), |bencher| {
            bencher.iter(|| core.charge(0, draws.below(tenants) as i64, 100));
        });
    }
    group.finish();
    bare_read(criterion);
}

/// What `charge` grows by that is the machine's: a read of a cache line for each tenant.
#[allow(clippy::cast_possible_truncation)] // small draws
fn bare_read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bare read");
    for tenants in TENANTS {
        let mut draws = Rng::new(5);
        let lines = vec![[1u64; 8]; tenants as usize];
        group.bench_function(BenchmarkId::from_parameter(tenants), |bencher| {
            bencher.iter(|| lines[draws.below(tenants) as usize][0]);
        });
    }
    group.finish();
}

/// One device time more, and the median of the last nine.
#[allow(clippy::cast_possible_wrap)] // small draws
fn graph_cost(criterion: &mut Criterion) {
    let (mut draws, mut recent) = (Rng::new(6), RecentMedian::new());
    criterion.bench_function("graph-cost median", |bencher| {
        bencher.iter(|| {
            recent.push(8_000_000 + draws.below(4_000_000) as i64);
            recent.value()
        });
    });
}

fn nothing(criterion: &mut Criterion) {
    let fleet = Fleet::new(10);
    criterion.bench_function("null call", |bencher| {
        bencher.iter(|| black_box(&fleet.core).num_executing());
    });
}

criterion_group!(
    benches,
    nothing,
    offer,
    form_batch,
    complete,
    form_and_complete,
    pick,
    slack,
    charge,
    graph_cost
);
criterion_main!(benches);
