//! Which replica would have an output written first.
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Classes of gaps for each doubling: within one, gaps are at most 4.4 % apart.
const STEPS_PER_OCTAVE: f64 = 16.0;

/// A replica and what bounds the time on all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quickest {
    /// Its handle.
    pub replica: u64,
    /// Time to the first unit there, ns.
    pub first_ns: f64,
    /// From there to the last, ns.
    pub rest_ns: f64,
    /// On no replica it is less, ns; the sum above is at most 4.4 % of `rest_ns` more.
    pub bound_ns: f64,
}

#[derive(Debug, Clone, Copy)]
struct Speed {
    /// 0 where the replica said nothing.
    wait_ns: u64,
    gap_ns: f64,
}

/// Replicas whose gaps are alike.
#[derive(Debug, Default)]
struct Alike {
    /// Those that said how long a first unit takes: by that.
    said: BTreeSet<(u64, u64)>,
    /// Those that did not.
    silent: BTreeSet<u64>,
}

/// Replicas by their wait for a first unit and their gap between units.
///
/// A change is O(log n). A question looks at one replica of each class of gaps: at most 16 for
/// each doubling between the shortest and the longest gap, whatever the size of the fleet.
#[derive(Debug, Default)]
pub struct ReplicaSpeeds {
    speeds: HashMap<u64, Speed>,
    classes: BTreeMap<i32, Alike>,
}

impl ReplicaSpeeds {
    /// Replicas.
    #[must_use]
    pub fn len(&self) -> usize {
        self.speeds.len()
    }

    /// True without replicas.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.speeds.is_empty()
    }

    /// Adds a replica or changes it: its wait for a first unit, 0 for unknown, and its gap, >= 1.
    pub fn set(&mut self, replica: u64, wait_ns: u64, gap_ns: f64) {
        self.remove(replica);
        let gap_ns = gap_ns.max(1.0);
        self.speeds.insert(replica, Speed { wait_ns, gap_ns });
        let alike = self.classes.entry(class_of(gap_ns)).or_default();
        if wait_ns > 0 {
            alike.said.insert((wait_ns, replica));
        } else {
            alike.silent.insert(replica);
        }
    }

    /// Takes a replica out; does nothing if it is not in.
    pub fn remove(&mut self, replica: u64) {
        let Some(speed) = self.speeds.remove(&replica) else { return };
        let class = class_of(speed.gap_ns);
        let Some(alike) = self.classes.get_mut(&class) else { return };
        alike.said.remove(&(speed.wait_ns, replica));
        alike.silent.remove(&replica);
        if alike.said.is_empty() && alike.silent.is_empty() {
            self.classes.remove(&class);
        }
    }

    /// The replica with the least time to the last unit of an output; None without replicas.
    ///
    /// The first unit takes `scale` times what a replica said, or `silent_ns` where it said
    /// nothing; `num_gaps` follow. All finite and >= 0.
    #[must_use]
    pub fn quickest(&self, scale: f64, silent_ns: f64, num_gaps: f64) -> Option<Quickest> {
        let (mut best, mut bound_ns): (Option<Quickest>, f64) = (None, f64::INFINITY);
        for (&class, alike) in &self.classes {
            let least_ns = num_gaps * least_gap(class);
            if best.is_some_and(|best| least_ns >= best.first_ns + best.rest_ns) {
                break; // gaps only grow from here on
            }
            let said = alike.said.first().map(|&(wait, replica)| (scale * wait as f64, replica));
            let silent = alike.silent.first().map(|&replica| (silent_ns, replica));
            for (first_ns, replica) in said.into_iter().chain(silent) {
                bound_ns = bound_ns.min(first_ns + least_ns);
                let gap_ns = self.speeds.get(&replica).map_or(1.0, |speed| speed.gap_ns);
                let rest_ns = num_gaps * gap_ns;
                if best.is_none_or(|best| first_ns + rest_ns < best.first_ns + best.rest_ns) {
                    best = Some(Quickest { replica, first_ns, rest_ns, bound_ns: 0.0 });
                }
            }
        }
        best.map(|best| Quickest { bound_ns: bound_ns.min(best.first_ns + best.rest_ns), ..best })
    }
}

#[allow(clippy::cast_possible_truncation)] // at most 16 * 1024
fn class_of(gap_ns: f64) -> i32 {
    (gap_ns.log2() * STEPS_PER_OCTAVE).floor() as i32
}

/// Least gap of a class, less the rounding of the logarithm.
fn least_gap(class: i32) -> f64 {
    (f64::from(class) / STEPS_PER_OCTAVE).exp2() * (1.0 - 1e-9)
}
