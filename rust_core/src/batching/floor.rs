//! A share of device time kept for a group, by a deficit counter.

/// The counter stays within this many batches, so that neither side saves up for long.
const MAX_BATCHES: f64 = 8.0;

/// What a group is owed.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    share: f64,
    owed_ns: f64,
}

impl Floor {
    /// A floor at `share` of device time, in [0, 1]; 0 for none.
    #[must_use]
    pub fn new(share: f64) -> Self {
        Self { share, owed_ns: 0.0 }
    }

    /// Device time owed now; never negative.
    #[must_use]
    pub fn owed_ns(&self) -> f64 {
        if self.share > 0.0 {
            self.owed_ns.max(0.0)
        } else {
            0.0
        }
    }

    /// Lets go of what the group had beyond its share.
    pub fn forgive(&mut self) {
        self.owed_ns = self.owed_ns.max(0.0);
    }

    /// Accounts for a batch with `room_ns` for members, of which the group got `used_ns`.
    ///
    /// The group earns only from batches that left some of it waiting.
    pub fn settle(&mut self, used_ns: f64, room_ns: f64, waiting: bool) {
        let earned_ns = if waiting { self.share * room_ns } else { 0.0 };
        let most_ns = MAX_BATCHES * room_ns;
        self.owed_ns = (self.owed_ns + earned_ns - used_ns).clamp(-most_ns, most_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::Floor;

    #[test]
    fn earns_its_share_and_pays_for_what_it_gets() {
        let mut floor = Floor::new(0.25);
        floor.settle(0.0, 40.0, true);
        floor.settle(0.0, 40.0, false);
        assert!((floor.owed_ns() - 10.0).abs() < 1e-9);
        floor.settle(30.0, 40.0, true);
        assert!(floor.owed_ns().abs() < 1e-9);
    }

    #[test]
    fn is_bounded_both_ways() {
        let mut floor = Floor::new(0.5);
        for _ in 0..100 {
            floor.settle(0.0, 10.0, true);
        }
        assert!((floor.owed_ns() - 80.0).abs() < 1e-9);
        for _ in 0..100 {
            floor.settle(10.0, 10.0, true);
        }
        for _ in 0..17 {
            floor.settle(0.0, 10.0, true);
        }
        assert!((floor.owed_ns() - 5.0).abs() < 1e-9);
    }
}
