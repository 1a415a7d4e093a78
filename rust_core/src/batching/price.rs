//! What device time is worth: what a request offers for it, and what batches earned with it.

/// Memory of what batches earned: a batch this far back counts for 1/e.
const MEMORY_BATCHES: f64 = 16.0;
const NS_PER_S: f64 = 1e9;

/// Value for a second of device time.
///
/// Value is the request's weight, times its class's, times `units^alpha`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// What serving the request earns, its share of a full batch's fixed cost included.
    pub offered_per_s: f64,
    /// What the last batches earned; 0 before the first.
    pub earned_per_s: f64,
}

/// What batches earned of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Earnings {
    value: f64,
    device_ns: f64,
}

impl Earnings {
    /// Counts a batch.
    pub fn add(&mut self, value: f64, device_ns: f64) {
        let kept = (-1.0 / MEMORY_BATCHES).exp();
        self.value = kept * self.value + value;
        self.device_ns = kept * self.device_ns + device_ns;
    }

    /// Value for a second of device time; 0 before the first batch.
    #[must_use]
    pub fn per_s(&self) -> f64 {
        if self.device_ns > 0.0 {
            NS_PER_S * self.value / self.device_ns
        } else {
            0.0
        }
    }
}

/// What a request of `value` offers for a second of the `device_ns` that it takes.
#[must_use]
pub fn offered_per_s(value: f64, device_ns: f64) -> f64 {
    NS_PER_S * value / device_ns.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::{offered_per_s, Earnings};

    #[test]
    fn what_was_earned_is_value_over_device_time() {
        let mut earnings = Earnings::default();
        assert!(earnings.per_s().abs() < f64::EPSILON);
        earnings.add(12.0, 30e6);
        assert!((earnings.per_s() - 400.0).abs() < 1e-9);
        for _ in 0..400 {
            earnings.add(3.0, 30e6);
        }
        assert!((earnings.per_s() - 100.0).abs() < 1e-6);
    }

    #[test]
    fn an_offer_is_value_over_its_part_of_a_batch() {
        assert!((offered_per_s(4.0, 2e6) - 2000.0).abs() < 1e-9);
    }
}
