//! How fast each replica is, relative to the pool's cost.

const STEP: f64 = 0.05;
/// While a replica is new, a step covers this share of what is left to learn.
const FIRST_STEP: f64 = 0.5;
const BOUNDS: (f64, f64) = (0.02, 50.0);

/// Learned speeds of the replicas of one pool; their mean logarithm is kept at zero.
#[derive(Clone, Debug, Default)]
pub struct SpeedTable {
    logs: Vec<f64>,
    seen: Vec<u32>,
}

impl SpeedTable {
    /// Speeds of `num` replicas, all 1 until something is learned.
    #[must_use]
    pub fn new(num: usize) -> Self {
        Self { logs: vec![0.0; num], seen: vec![0; num] }
    }

    /// Speed of a replica.
    #[must_use]
    pub fn speed(&self, replica: usize) -> f64 {
        self.logs.get(replica).map_or(1.0, |log| log.exp())
    }

    /// Learns from a batch: predicted over actual time, both on this replica.
    pub fn observe(&mut self, replica: usize, ratio: f64) {
        if self.logs.len() < 2 || ratio <= 0.0 || !ratio.is_finite() {
            return;
        }
        self.seen[replica] = self.seen[replica].saturating_add(1);
        let off = ratio.ln().abs() > 0.25f64.ln_1p();
        let first = FIRST_STEP / f64::from(self.seen[replica]);
        let step = if off { FIRST_STEP } else { STEP.max(first) };
        let bounds = (BOUNDS.0.ln(), BOUNDS.1.ln());
        self.logs[replica] = (self.logs[replica] + step * ratio.ln()).clamp(bounds.0, bounds.1);
        let mean = self.logs.iter().sum::<f64>() / self.logs.len() as f64;
        for log in &mut self.logs {
            *log -= mean;
        }
    }
}
