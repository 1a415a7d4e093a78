//! What operators can set. Everything else is learned.
use crate::error::CoreError;

/// Settings of the batch rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicySettings {
    /// Value of a request is `weight * units^alpha`. 0: every answer counts the same; 1: every
    /// unit does. In [0, 1]; above 0.7 goodput collapses under overload. Default 0.5.
    pub alpha: f64,
    /// Share of device time kept for the largest tenth of requests while they wait. In [0, 0.5].
    pub large_share: f64,
    /// Share of device time that the bulk lane gets while interactive work waits: both the least
    /// and, as long as interactive work fills the batches, the most. In [0, 0.5]. Default 0.05.
    pub bulk_share: f64,
    /// Factors on the weight: critical, standard, sheddable. Default 4, 1, 0.25.
    pub priority_weights: [f64; 3],
    /// Refuse on arrival what will not be served. Default true.
    pub shed_early: bool,
    /// A quantum in nanoseconds that replaces the learned one; for experiments. 0: learned.
    pub fixed_quantum_ns: f64,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            alpha: 0.5,
            large_share: 0.0,
            bulk_share: 0.05,
            priority_weights: [4.0, 1.0, 0.25],
            shed_early: true,
            fixed_quantum_ns: 0.0,
        }
    }
}

impl PolicySettings {
    /// Checks every bound.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn check(&self) -> Result<(), CoreError> {
        let ratios = [
            ("alpha", self.alpha, 1.0, "from 0 to 1"),
            ("large_share", self.large_share, 0.5, "from 0 to 0.5"),
            ("bulk_share", self.bulk_share, 0.5, "from 0 to 0.5"),
        ];
        for (name, value, most, expected) in ratios {
            if !(0.0..=most).contains(&value) {
                return Err(CoreError::argument(name, value, expected));
            }
        }
        if self.priority_weights.iter().any(|weight| !(*weight > 0.0 && *weight <= 1e6)) {
            let given = format!("{:?}", self.priority_weights);
            let expected = "three numbers above 0 and at most 1e6";
            return Err(CoreError::argument("priority_weights", given, expected));
        }
        if !(self.fixed_quantum_ns >= 0.0 && self.fixed_quantum_ns <= 1e15) {
            let expected = "0 (learned) to 1e15";
            return Err(CoreError::argument("fixed_quantum_ns", self.fixed_quantum_ns, expected));
        }
        Ok(())
    }
}
