//! Machines that turn bytes into calls of the core: bytes a fuzzer chose, or a random test.
//!
//! They panic where the core does, where it answers with a number that is none, and where its
//! counts do not add up in the end.

use headway_core::bucket::TokenBucket;
use headway_core::cost::{Affine, CostModel};
use headway_core::edf::EdfQueue;
use headway_core::ewma::PeakEwma;
use headway_core::histogram::QuantileHistogram;
use headway_core::lanes::Expected;
use headway_core::scheduler::{
    BatchOutcome, Condition, Offer, OutputOffer, OutputReport, ReplicaLimits, Report, Scheduler,
};

/// Takes numbers off some bytes; zeros once they are used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Small numbers, and now and then an extreme.
    fn int(&mut self) -> i64 {
        match self.byte() {
            250 => i64::MAX,
            251 => i64::MIN,
            252 => -1,
            253 => 1 << 62,
            254 => 1 << 31,
            255 => i64::from(u32::MAX),
            small => i64::from(small) * i64::from(self.byte()),
        }
    }

    fn real(&mut self) -> f64 {
        match self.byte() {
            248 => f64::NAN,
            249 => f64::INFINITY,
            250 => f64::NEG_INFINITY,
            251 => f64::MIN_POSITIVE,
            252 => f64::MAX,
            253 => -1.0,
            254 => 1e-300,
            255 => 0.0,
            small => f64::from(small) * 10f64.powi(i32::from(self.byte() % 20)),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Any calls of a scheduler; what is refused is refused with an error.
///
/// # Panics
/// If something live is left once everything has expired.
pub fn scheduler(data: &[u8]) {
    let mut bytes = Bytes(data);
    let Ok(mut core) = Scheduler::new(7, 64, 3) else { return };
    let model = core.add_model(1);
    let mut now_ns: i64 = 0;
    let mut batches: Vec<i64> = Vec::new();
    let mut outputs: Vec<i64> = Vec::new();
    while !bytes.is_empty() {
        now_ns = now_ns.saturating_add(i64::from(bytes.byte()) * 1_000_000).min(1 << 55);
        if bytes.byte() % 4 == 0 {
            call_for_output(&mut core, &mut bytes, now_ns, &mut outputs);
        } else {
            call(&mut core, &mut bytes, model, now_ns, &mut batches);
        }
    }
    for output in outputs {
        let _ = core.end_output(now_ns, output, &OutputReport::default());
    }
    assert_eq!(core.num_outputs(), 0, "outputs are left over");
    // Everything has a deadline, and expires by then; what runs is lost with its session.
    for batch in batches {
        let _ = core.complete(now_ns, batch, &Report::bare(BatchOutcome::Lost));
    }
    let _ = core.expire(1 << 62);
    assert_eq!(core.num_live(), 0, "requests are left over");
}

fn call(core: &mut Scheduler, bytes: &mut Bytes, model: i64, now_ns: i64, batches: &mut Vec<i64>) {
    match bytes.byte() % 11 {
        0 => drop(core.add_tenant(now_ns, bytes.real(), bytes.real())),
        1 => {
            let prior = Affine { fixed_ns: bytes.real(), unit_ns: bytes.real() };
            drop(core.add_pool(bytes.int(), bytes.int(), prior));
        }
        2 => drop(core.add_replica(now_ns, bytes.int(), &limits(bytes))),
        3 => {
            let condition = match bytes.byte() % 3 {
                0 => Condition::Ready,
                1 => Condition::Connecting,
                _ => Condition::Draining,
            };
            drop(core.set_replica_condition(now_ns, bytes.int(), condition));
        }
        4 => {
            drop(core.set_split(model, &[bytes.int(), bytes.int()], &[bytes.real(), bytes.real()]));
        }
        5 | 6 => drop(core.offer(now_ns, &offer(bytes, model, now_ns))),
        7 => {
            if let Ok(Some(batch)) = core.form_batch(now_ns, bytes.int()) {
                batches.push(i64::try_from(batch.id).unwrap_or(i64::MAX));
            }
        }
        8 => {
            let known = if batches.is_empty() {
                bytes.int()
            } else {
                batches.swap_remove(usize::from(bytes.byte()) % batches.len())
            };
            drop(core.complete(now_ns, known, &report(bytes)));
        }
        9 => drop(core.cancel(now_ns, bytes.int())),
        _ => drop(core.expire(now_ns)),
    }
}

fn call_for_output(core: &mut Scheduler, bytes: &mut Bytes, now_ns: i64, outputs: &mut Vec<i64>) {
    let known = |bytes: &mut Bytes, outputs: &[i64]| match outputs.len() {
        0 => bytes.int(),
        count => outputs[usize::from(bytes.byte()) % count],
    };
    match bytes.byte() % 6 {
        0 | 1 => {
            let offer = OutputOffer {
                tenant: bytes.int(),
                pool: bytes.int(),
                units: bytes.int(),
                deadline_ns: now_ns.saturating_add(bytes.int()),
                priority: i64::from(bytes.byte() % 5),
                lanes: bytes.int(),
                is_open: bytes.byte() & 1 == 0,
                service_ns: bytes.int(),
            };
            if let Ok(Ok(admission)) = core.admit_output(now_ns, &offer) {
                outputs.push(i64::try_from(admission.ticket).unwrap_or(i64::MAX));
            }
        }
        2 => {
            let expected = Expected { hold_ns: bytes.int(), longest_ns: bytes.int() };
            let next = core.next_output(bytes.int()).ok().flatten();
            let next = next.and_then(|ticket| i64::try_from(ticket).ok());
            drop(core.begin_output(now_ns, next.unwrap_or(-1), expected, bytes.real()));
        }
        3 => {
            let ticket = known(bytes, outputs);
            core.return_output(ticket);
        }
        4 => drop(core.waiting_outputs(now_ns, bytes.int())),
        _ => {
            let (ticket, used_units) = (known(bytes, outputs), bytes.int());
            let (measured_ns, planned_ns) = (bytes.int(), bytes.int());
            let report = OutputReport { used_units, measured_ns, planned_ns };
            drop(core.end_output(now_ns, ticket, &report));
        }
    }
}

fn limits(bytes: &mut Bytes) -> ReplicaLimits {
    ReplicaLimits {
        max_outstanding: bytes.int(),
        max_requests: bytes.int(),
        max_rows: bytes.int(),
        max_units: bytes.int(),
    }
}

fn offer(bytes: &mut Bytes, model: i64, now_ns: i64) -> Offer {
    Offer {
        tenant: bytes.int(),
        model,
        pool: bytes.int(),
        key_hash: u64::from(bytes.byte()),
        units: bytes.int(),
        rows: bytes.int(),
        deadline_ns: now_ns.saturating_add(bytes.int().saturating_mul(1_000_000)),
        priority: i64::from(bytes.byte() % 5),
        lane: i64::from(bytes.byte() % 4),
        weight: bytes.real(),
    }
}

fn report<'a>(bytes: &mut Bytes) -> Report<'a> {
    let outcome = match bytes.byte() % 4 {
        0 => BatchOutcome::Ok,
        1 => BatchOutcome::Busy,
        2 => BatchOutcome::Failed,
        _ => BatchOutcome::Lost,
    };
    Report {
        device_ns: bytes.int(),
        units: bytes.int(),
        retry_after_ns: bytes.int(),
        failed: bytes.int(),
        ..Report::bare(outcome)
    }
}

/// The parts of the core by themselves.
///
/// # Panics
/// If one answers with a number that is none, or loses count.
pub fn parts(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut cost = CostModel::new(Affine { fixed_ns: 1e6, unit_ns: 1e3 });
    let mut bucket = TokenBucket::new(0, 1e3, 1e4);
    let mut histogram = QuantileHistogram::new();
    let mut latency = PeakEwma::new(0, 1_000_000_000);
    let mut queue = EdfQueue::new();
    let (mut now_ns, mut queued) = (0i64, 0usize);
    while !bytes.is_empty() {
        now_ns = now_ns.saturating_add(i64::from(bytes.byte())).min(1 << 55);
        let units = bytes.int().unsigned_abs().clamp(1, 1 << 40);
        cost.observe(units, bytes.real().clamp(-1.0, 1e18));
        assert!(cost.predict_ns(units) >= 0, "a batch takes less than no time");
        let _ = bucket.take(now_ns, units);
        assert!(bucket.available(now_ns).is_finite(), "a quota that is no number");
        histogram.record(units, 1);
        // Quantiles are at most 1/64 too high.
        let most = histogram.max() + histogram.max() / 64 + 1;
        assert!(histogram.quantile(0.5) <= most, "a median above the most");
        latency.observe(now_ns, bytes.int().clamp(0, 1 << 40));
        assert!(latency.value_ns(now_ns, 1e6).is_finite(), "a latency that is no number");
        let ticket = u64::from(bytes.byte());
        if queue.push(ticket, bytes.int(), units).is_ok() {
            queued += 1;
        } else if queue.remove(ticket) {
            queued -= 1;
        }
        assert_eq!(queue.len(), queued, "the queue lost count");
    }
}
