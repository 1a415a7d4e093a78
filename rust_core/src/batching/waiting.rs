//! What waits in the shadows: one sorted list for all of them.

use super::index::Order;
use super::shadow::Arrival;

/// Requests remembered; beyond it the lowest key is forgotten.
pub const MAX_WAITING: usize = 2048;

/// Recent arrivals in key order, with a bit for each shadow in which the arrival still waits.
///
/// The order, the bits and the sizes stand in lists of their own: an arrival is inserted in the
/// middle, and a shadow's batch reads the top.
#[derive(Clone, Debug, Default)]
pub struct WaitingList {
    orders: Vec<Order>,
    shadows: Vec<u32>,
    units: Vec<u32>,
    places: Vec<u16>,
    arrivals: Vec<Arrival>,
    free: Vec<u16>,
}

impl WaitingList {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// True if none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// Where an arrival belongs: behind those with the same order.
    #[must_use]
    pub fn rank(&self, order: Order) -> usize {
        self.orders.partition_point(|other| *other <= order)
    }

    /// Puts an arrival at its rank, for the shadows whose bits are set. O(waiting), by a move of
    /// some 20 bytes for each behind it.
    #[allow(clippy::cast_possible_truncation)] // at most MAX_WAITING places
    pub fn insert(&mut self, rank: usize, arrival: Arrival, shadows: u32) {
        if self.len() >= MAX_WAITING {
            if rank == self.len() {
                return;
            }
            self.remove_last();
        }
        let place = self.free.pop().unwrap_or(self.arrivals.len() as u16);
        match self.arrivals.get_mut(usize::from(place)) {
            Some(slot) => *slot = arrival,
            None => self.arrivals.push(arrival),
        }
        self.orders.insert(rank, arrival.order);
        self.shadows.insert(rank, shadows);
        self.units.insert(rank, u32::try_from(arrival.units).unwrap_or(u32::MAX));
        self.places.insert(rank, place);
    }

    fn remove_last(&mut self) {
        self.free.extend(self.places.pop());
        self.orders.pop();
        self.shadows.pop();
        self.units.pop();
    }

    /// The arrival at a rank.
    #[must_use]
    pub fn at(&self, rank: usize) -> &Arrival {
        &self.arrivals[usize::from(self.places[rank])]
    }

    /// Those that wait in a shadow, best first, with their ranks.
    pub fn of_shadow(&self, bit: u32) -> impl Iterator<Item = (usize, &Arrival)> {
        let bits = self.shadows.iter().enumerate();
        bits.filter(move |(_, shadows)| *shadows & bit != 0).map(|(rank, _)| (rank, self.at(rank)))
    }

    /// Requests and units that wait in a shadow above a rank. O(rank).
    #[must_use]
    pub fn ahead(&self, rank: usize, bit: u32) -> (f64, f64) {
        let (mut requests, mut units) = (0_u64, 0_u64);
        for (shadows, size) in self.shadows[..rank].iter().zip(&self.units[..rank]) {
            let is_there = u64::from(*shadows & bit != 0);
            requests += is_there;
            units += is_there * u64::from(*size);
        }
        (requests as f64, units as f64)
    }

    /// The one at a rank no longer waits in a shadow.
    pub fn leave(&mut self, rank: usize, bit: u32) {
        self.shadows[rank] &= !bit;
    }

    /// Drops those that wait nowhere any more, or that `keep` refuses; `unused` are the bits that
    /// belong to no shadow.
    pub fn sweep(&mut self, unused: u32, keep: impl Fn(&Arrival) -> bool) {
        let mut kept = 0;
        for rank in 0..self.len() {
            let (shadows, place) = (self.shadows[rank], self.places[rank]);
            if shadows == unused || !keep(&self.arrivals[usize::from(place)]) {
                self.free.push(place);
                continue;
            }
            self.orders[kept] = self.orders[rank];
            self.shadows[kept] = shadows;
            self.units[kept] = self.units[rank];
            self.places[kept] = place;
            kept += 1;
        }
        self.orders.truncate(kept);
        self.shadows.truncate(kept);
        self.units.truncate(kept);
        self.places.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Order, WaitingList, MAX_WAITING};
    use proptest::prelude::*;

    fn arrival(key: f64, units: u64) -> Arrival {
        Arrival {
            at_ns: 0,
            order: Order::of(key),
            deadline_ns: 1,
            units,
            rows: 1,
            weight: 1.0,
            relative_key: key,
            since_ns: 0,
            tau_ns: 1.0,
        }
    }

    fn insert(list: &mut WaitingList, key: f64, units: u64, shadows: u32) {
        let arrival = arrival(key, units);
        list.insert(list.rank(arrival.order), arrival, shadows);
    }

    #[test]
    fn a_full_list_forgets_the_lowest_key() {
        let mut list = WaitingList::default();
        for at in 0..MAX_WAITING {
            insert(&mut list, at as f64, 1, 1);
        }
        insert(&mut list, -1.0, 1, 1);
        insert(&mut list, 0.5, 1, 1);
        assert_eq!(list.len(), MAX_WAITING);
        assert!((list.at(MAX_WAITING - 1).relative_key - 0.5).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn is_a_sorted_list_with_a_bit_for_each_shadow(
            steps in proptest::collection::vec((0..40_i32, 1..500_u64, 0..8_u32, 0..3_u8), 1..200)
        ) {
            let mut list = WaitingList::default();
            let mut naive: Vec<(i32, u64, u32)> = Vec::new();
            for (key, units, shadows, step) in steps {
                match step {
                    0 | 1 => {
                        insert(&mut list, f64::from(key), units, shadows);
                        let at = naive.partition_point(|other| other.0 >= key);
                        naive.insert(at, (key, units, shadows));
                    }
                    _ if units % 2 == 0 && !naive.is_empty() => {
                        let rank = usize::try_from(key).unwrap_or(0) % naive.len();
                        list.leave(rank, 2);
                        naive[rank].2 &= !2;
                    }
                    _ => {
                        list.sweep(0, |arrival| arrival.units != units);
                        naive.retain(|other| other.2 != 0 && other.1 != units);
                    }
                }
                prop_assert_eq!(list.len(), naive.len());
                for bit in [1_u32, 2, 4] {
                    let seen: Vec<_> = list.of_shadow(bit).map(|(rank, _)| rank).collect();
                    let wanted: Vec<_> =
                        (0..naive.len()).filter(|rank| naive[*rank].2 & bit != 0).collect();
                    prop_assert_eq!(&seen, &wanted);
                    let half = naive.len() / 2;
                    let units: u64 = wanted.iter().filter(|r| **r < half).map(|r| naive[*r].1).sum();
                    let requests = wanted.iter().filter(|rank| **rank < half).count();
                    prop_assert_eq!(list.ahead(half, bit), (requests as f64, units as f64));
                }
            }
        }
    }
}
