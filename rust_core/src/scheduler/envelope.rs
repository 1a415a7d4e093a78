//! What any replica of a pool could take in one batch.
use std::collections::BTreeMap;

use crate::batch::Limits;

/// The limits of a pool's replicas, reduced to those that no other exceeds.
///
/// Asking is O(log shapes); a change costs O(distinct shapes), of which a fleet has few.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    shapes: BTreeMap<(u64, u64, u64), usize>,
    /// (rows, units), rows rising and units falling.
    frontier: Vec<(u64, u64)>,
    largest: Option<Limits>,
}

impl Envelope {
    pub(super) fn add(&mut self, limits: &Limits) {
        *self.shapes.entry(shape(limits)).or_insert(0) += 1;
        self.rebuild();
    }

    pub(super) fn remove(&mut self, limits: &Limits) {
        if let Some(count) = self.shapes.get_mut(&shape(limits)) {
            *count -= 1;
            if *count == 0 {
                self.shapes.remove(&shape(limits));
            }
        }
        self.rebuild();
    }

    /// None if some replica takes it; else (needed, available), in rows or units.
    pub(super) fn excess(&self, rows: u64, units: u64) -> Option<(u64, u64)> {
        let wide_enough = self.frontier.partition_point(|&(limit, _)| limit < rows);
        match self.frontier.get(wide_enough) {
            None => Some((rows, self.largest.map_or(0, |largest| largest.rows))),
            Some(&(_, limit)) if units > limit => Some((units, limit)),
            Some(_) => None,
        }
    }

    /// The largest limit of each kind over all replicas; no limits without replicas.
    pub(super) fn largest(&self) -> Limits {
        const NONE: Limits = Limits { requests: u64::MAX, rows: u64::MAX, units: u64::MAX };
        self.largest.unwrap_or(NONE)
    }

    fn rebuild(&mut self) {
        self.frontier.clear();
        self.largest = None;
        for &(rows, units, requests) in self.shapes.keys().rev() {
            let largest = self.largest.get_or_insert(Limits { requests, rows, units });
            largest.requests = largest.requests.max(requests);
            largest.units = largest.units.max(units);
            if self.frontier.last().is_none_or(|&(_, best)| units > best) {
                self.frontier.push((rows, units));
            }
        }
        self.frontier.reverse();
    }
}

fn shape(limits: &Limits) -> (u64, u64, u64) {
    (limits.rows, limits.units, limits.requests)
}
