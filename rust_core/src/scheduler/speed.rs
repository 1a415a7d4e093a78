//! How fast one replica is beside the pool's cost model.

/// A replica follows its residuals by at least this share a batch.
const MIN_GAIN: f64 = 0.1;
/// Pull toward speed 1 a batch, which pins the scale that fit and speeds share.
const LEAK: f64 = 0.001;
/// Batches until a speed is taken for known.
const SETTLED_SAMPLES: u32 = 5;
/// Largest speed, and its inverse the smallest.
const MAX_SPEED: f64 = 64.0;

/// A speed factor: at first the mean, later the moving average of ln(predicted/actual).
#[derive(Debug, Clone, Default)]
pub(super) struct Speed {
    log: f64,
    samples: u32,
}

impl Speed {
    /// Relative to the pool's cost model; 1 before anything is learned.
    pub(super) fn value(&self) -> f64 {
        self.log.exp()
    }

    /// True once its residuals may tell of the whole pool; those of a new replica tell of itself.
    pub(super) fn is_settled(&self) -> bool {
        self.samples >= SETTLED_SAMPLES
    }

    /// Learns from ln(predicted/actual), less what the whole pool has in common.
    pub(super) fn learn(&mut self, residual_log: f64) {
        self.samples = self.samples.saturating_add(1);
        let gain = MIN_GAIN.max(1.0 / f64::from(self.samples));
        let most = MAX_SPEED.ln();
        self.log = (self.log * (1.0 - LEAK) + gain * residual_log).clamp(-most, most);
    }

    /// The speed in steps of 2^-16, so that sums of speeds are exact and speeds have an order.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within [2^10, 2^22]
    pub(super) fn steps(&self) -> u32 {
        (self.value() * STEPS).round() as u32
    }
}

/// Steps of a speed of 1.
pub(super) const STEPS: f64 = 65536.0;
