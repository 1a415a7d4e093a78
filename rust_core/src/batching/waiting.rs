//! What waits in the shadows: one sorted list for all of them.

use std::cmp::Ordering;

use super::index::Order;
use super::shadow::{Arrival, ALL_SHADOWS};

/// Requests remembered; beyond it the lowest key is forgotten.
pub const MAX_WAITING: usize = 2048;
/// Requests side by side in memory; one bit of a mask for each.
const CHUNK: usize = 64;
/// Neighbours with no more than this between them become one.
const MERGE: usize = CHUNK / 4 * 3;

/// A request that waits, as a shadow's batch sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// Its deadline.
    pub deadline_ns: i64,
    /// Its work.
    pub units: u64,
    /// Its rows.
    pub rows: u64,
    /// When it came.
    pub at_ns: i64,
    /// What serving it in time counts.
    pub weight: f64,
    /// Its key relative to an average one, when it came.
    pub relative_key: f64,
}

/// Where a request belongs, or is: good until the next insert or sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    chunk: usize,
    at: usize,
}

/// Recent arrivals in key order, and in which shadows each still waits.
///
/// Chunks of up to 64 keep an insert in the middle from moving the rest. For each shadow a chunk has
/// a mask of who waits in it, so that a batch finds its candidates without a look at the others.
#[derive(Clone, Debug)]
#[allow(clippy::vec_box)] // they are split, merged and passed back: 4 KiB that shall not move
pub struct WaitingList {
    chunks: Vec<Box<Chunk>>,
    /// First order of each chunk, apart, so that the search stays within few cache lines.
    heads: Vec<Order>,
    len: usize,
    /// The shadow that is asked for how much is ahead.
    counted: usize,
    spare: Vec<Box<Chunk>>,
}

#[derive(Clone, Debug)]
struct Chunk {
    len: usize,
    orders: [Order; CHUNK],
    masks: [u64; ALL_SHADOWS],
    /// Units that wait in the counted shadow.
    counted_units: u64,
    waiting: [Waiting; CHUNK],
}

#[derive(Default)]
struct Ahead {
    requests: u32,
    units: u64,
}

impl Ahead {
    fn add(&mut self, requests: u32, units: u64) {
        self.requests += requests;
        self.units = self.units.saturating_add(units);
    }
}

impl WaitingList {
    /// An empty list; `ahead` counts what waits in the shadow `counted`.
    #[must_use]
    pub fn new(counted: usize) -> Self {
        Self { chunks: Vec::new(), heads: Vec::new(), len: 0, counted, spare: Vec::new() }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where an arrival belongs: behind those with the same order. O(log waiting).
    #[must_use]
    pub fn place(&self, order: Order) -> Place {
        let chunk = self.heads.partition_point(|head| *head <= order).saturating_sub(1);
        let at = self.chunks.get(chunk).map_or(0, |chunk| chunk.place(order));
        Place { chunk, at }
    }

    /// Puts an arrival at its place: in all shadows, or in all `but` one. O(64), and O(chunks) once
    /// in 32 times.
    pub fn insert(&mut self, mut place: Place, arrival: &Arrival, but: Option<usize>) {
        if self.len >= MAX_WAITING {
            if place.chunk + 1 == self.chunks.len() && place.at == self.chunks[place.chunk].len {
                return;
            }
            self.remove_last();
        }
        if self.chunks.is_empty() {
            self.chunks.push(self.spare.pop().unwrap_or_default());
            self.heads.push(arrival.order);
        }
        if self.chunks[place.chunk].len == CHUNK {
            place = self.split(place);
        }
        self.chunks[place.chunk].insert(place.at, arrival, but, self.counted);
        self.heads[place.chunk] = self.chunks[place.chunk].orders[0];
        self.len += 1;
    }

    fn remove_last(&mut self) {
        let Some(last) = self.chunks.last_mut() else { return };
        last.remove(last.len - 1, self.counted);
        self.len -= 1;
        if last.len == 0 {
            self.heads.pop();
            self.spare.extend(self.chunks.pop());
        }
    }

    /// Makes two of a full chunk; returns where `place` is now.
    fn split(&mut self, place: Place) -> Place {
        let mut upper = self.spare.pop().unwrap_or_default();
        self.chunks[place.chunk].move_upper_half(&mut upper, self.counted);
        let half = self.chunks[place.chunk].len;
        self.heads.insert(place.chunk + 1, upper.orders[0]);
        self.chunks.insert(place.chunk + 1, upper);
        if place.at > half {
            Place { chunk: place.chunk + 1, at: place.at - half }
        } else {
            place
        }
    }

    /// The request that a handle of `of_shadow` stands for.
    #[must_use]
    pub fn at(&self, handle: u32) -> &Waiting {
        let (chunk, at) = unpack(handle);
        &self.chunks[chunk].waiting[at]
    }

    /// Those that wait in a shadow, best first, with handles that are good until the next insert or
    /// sweep.
    pub fn of_shadow(&self, shadow: usize) -> impl Iterator<Item = (u32, &Waiting)> {
        self.chunks.iter().enumerate().flat_map(move |(number, chunk)| {
            bits(chunk.masks[shadow]).map(move |at| (pack(number, at), &chunk.waiting[at]))
        })
    }

    /// Requests and units in the counted shadow that go before one of so many units at a place: those
    /// above it, but whatever exceeds `fit_units` after all that does not. O(chunks) if nothing does,
    /// else O(waiting).
    #[must_use]
    pub fn ahead(&self, place: Place, units: u64, fit_units: u64) -> (f64, f64) {
        let mut ahead = Ahead::default();
        let is_long = units > fit_units;
        for (number, chunk) in self.chunks.iter().enumerate() {
            let waiting = chunk.masks[self.counted];
            let above = match number.cmp(&place.chunk) {
                Ordering::Less => waiting,
                Ordering::Equal => waiting & below_bit(place.at),
                Ordering::Greater if is_long => 0,
                Ordering::Greater => break,
            };
            if fit_units < u64::MAX {
                for at in bits(if is_long { waiting } else { above }) {
                    let units = chunk.waiting[at].units;
                    let is_above = above >> at & 1 == 1;
                    if units <= fit_units || (is_long && is_above) {
                        ahead.add(1, units);
                    }
                }
            } else if above == waiting {
                ahead.add(waiting.count_ones(), chunk.counted_units);
            } else {
                ahead.add(above.count_ones(), chunk.units_of(above));
            }
        }
        (f64::from(ahead.requests), ahead.units as f64)
    }

    /// One no longer waits in a shadow.
    pub fn leave(&mut self, handle: u32, shadow: usize) {
        let (chunk, at) = unpack(handle);
        self.chunks[chunk].leave(at, shadow, self.counted);
    }

    /// Drops those that wait nowhere any more, or that `keep` refuses. O(waiting).
    pub fn sweep(&mut self, keep: impl Fn(&Waiting) -> bool) {
        let mut kept = 0;
        self.len = 0;
        for number in 0..self.chunks.len() {
            self.chunks[number].retain(self.counted, &keep);
            let len = self.chunks[number].len;
            self.len += len;
            if kept > 0 && self.chunks[kept - 1].len + len <= MERGE {
                let (before, from) = self.chunks.split_at_mut(number);
                before[kept - 1].append(&from[0]);
            } else if len > 0 {
                self.chunks.swap(kept, number);
                self.heads[kept] = self.chunks[kept].orders[0];
                kept += 1;
            }
        }
        self.heads.truncate(kept);
        for mut dropped in self.chunks.drain(kept..) {
            dropped.clear();
            self.spare.push(dropped);
        }
    }
}

impl Default for Chunk {
    fn default() -> Self {
        Self {
            len: 0,
            orders: [Order::of(0.0); CHUNK],
            masks: [0; ALL_SHADOWS],
            counted_units: 0,
            waiting: [Waiting::default(); CHUNK],
        }
    }
}

impl Chunk {
    fn place(&self, order: Order) -> usize {
        self.orders[..self.len].partition_point(|other| *other <= order)
    }

    fn insert(&mut self, at: usize, arrival: &Arrival, but: Option<usize>, counted: usize) {
        self.orders.copy_within(at..self.len, at + 1);
        self.waiting.copy_within(at..self.len, at + 1);
        self.orders[at] = arrival.order;
        self.waiting[at] = Waiting {
            deadline_ns: arrival.deadline_ns,
            units: arrival.units,
            rows: arrival.rows,
            at_ns: arrival.at_ns,
            weight: arrival.weight,
            relative_key: arrival.relative_key,
        };
        let below = below_bit(at);
        for mask in &mut self.masks {
            *mask = (*mask & below) | ((*mask & !below) << 1) | (1 << at);
        }
        self.len += 1;
        self.counted_units = self.counted_units.saturating_add(arrival.units);
        if let Some(shadow) = but {
            self.leave(at, shadow, counted);
        }
    }

    fn leave(&mut self, at: usize, shadow: usize, counted: usize) {
        let bit = 1 << at;
        if shadow == counted && self.masks[shadow] & bit != 0 {
            self.counted_units = self.counted_units.saturating_sub(self.waiting[at].units);
        }
        self.masks[shadow] &= !bit;
    }

    fn remove(&mut self, at: usize, counted: usize) {
        self.leave(at, counted, counted);
        self.orders.copy_within(at + 1..self.len, at);
        self.waiting.copy_within(at + 1..self.len, at);
        let below = below_bit(at);
        for mask in &mut self.masks {
            *mask = (*mask & below) | ((*mask >> 1) & !below);
        }
        self.len -= 1;
    }

    /// Drops those that wait nowhere, or that `keep` refuses.
    fn retain(&mut self, counted: usize, keep: impl Fn(&Waiting) -> bool) {
        let somewhere = self.masks.iter().fold(0, |any, mask| any | mask);
        for at in (0..self.len).rev() {
            if somewhere & (1 << at) == 0 || !keep(&self.waiting[at]) {
                self.remove(at, counted);
            }
        }
    }

    fn move_upper_half(&mut self, upper: &mut Self, counted: usize) {
        let half = self.len / 2;
        upper.len = self.len - half;
        upper.orders[..upper.len].copy_from_slice(&self.orders[half..self.len]);
        upper.waiting[..upper.len].copy_from_slice(&self.waiting[half..self.len]);
        for (own, theirs) in self.masks.iter_mut().zip(&mut upper.masks) {
            *theirs = *own >> half;
            *own &= below_bit(half);
        }
        self.len = half;
        self.counted_units = self.units_of(self.masks[counted]);
        upper.counted_units = upper.units_of(upper.masks[counted]);
    }

    /// Takes over all of one whose keys are lower.
    fn append(&mut self, lower: &Self) {
        let end = self.len + lower.len;
        self.orders[self.len..end].copy_from_slice(&lower.orders[..lower.len]);
        self.waiting[self.len..end].copy_from_slice(&lower.waiting[..lower.len]);
        for (own, theirs) in self.masks.iter_mut().zip(&lower.masks) {
            *own |= theirs << self.len;
        }
        self.counted_units = self.counted_units.saturating_add(lower.counted_units);
        self.len = end;
    }

    fn clear(&mut self) {
        (self.len, self.counted_units) = (0, 0);
        self.masks.fill(0);
    }

    fn units_of(&self, mask: u64) -> u64 {
        bits(mask).fold(0, |units, at| units.saturating_add(self.waiting[at].units))
    }
}

/// The bits below one, which is 0 to 64.
fn below_bit(at: usize) -> u64 {
    if at < CHUNK {
        (1 << at) - 1
    } else {
        u64::MAX
    }
}

/// Places of the bits that are set, lowest first.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (at < CHUNK).then_some(at)
    })
}

#[allow(clippy::cast_possible_truncation)] // fewer than 128 chunks of 64
fn pack(chunk: usize, at: usize) -> u32 {
    (chunk * CHUNK + at) as u32
}

fn unpack(handle: u32) -> (usize, usize) {
    (handle as usize / CHUNK, handle as usize % CHUNK)
}

#[cfg(test)]
mod tests;
