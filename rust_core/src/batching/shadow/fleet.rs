//! The fleet that shadows run on: the real one, or a part of it.

use crate::batch::Limits;
use crate::batching::cost::BatchCost;

/// What the shadow devices are like.
#[derive(Clone, Debug)]
pub struct ShadowFleet {
    /// Cost at speed 1.
    pub cost: BatchCost,
    /// Limits of one batch.
    pub limits: Limits,
    /// Speeds, fastest first; 1 to `MAX_DEVICES` of them.
    pub speeds: Vec<f64>,
    /// How many of them count as fast.
    pub num_fast: usize,
    /// Share of the arrivals that it gets, as it is this share of the fleet; in (0, 1].
    pub share: f64,
    /// Largest request that fits into the quantum, where others have to wait for that reason; else
    /// the largest number.
    pub fit_units: u64,
}

impl ShadowFleet {
    /// Sum of the speeds of the whole fleet that it stands for.
    #[must_use]
    pub fn total_speed(&self) -> f64 {
        self.speeds.iter().sum::<f64>() / self.share
    }

    /// Replicas of the whole fleet.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a number of replicas
    pub fn replicas(&self) -> usize {
        ((self.speeds.len() as f64 / self.share).round() as usize).max(1)
    }
}
