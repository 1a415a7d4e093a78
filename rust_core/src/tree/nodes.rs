//! Nodes of an ordered tree: short sorted runs of keys, side by side in flat arrays.
use std::ops::Range;

/// Most entries of a node. Its keys are a few cache lines that are read at once.
pub(super) const FANOUT: usize = 32;

/// A number of entries and their units.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub entries: u64,
    pub units: u64,
}

impl Load {
    pub(super) fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.units += other.units;
    }

    pub(super) fn less(self, other: Self) -> Self {
        Self { entries: self.entries - other.entries, units: self.units - other.units }
    }
}

/// Nodes of up to `FANOUT` entries; node `n` has the places from `n * FANOUT`.
///
/// Keys, items and loads are apart, since a search reads the keys of a node and one load.
#[derive(Debug, Clone)]
pub(super) struct Nodes<K, T> {
    keys: Vec<K>,
    items: Vec<T>,
    /// Of the entries up to this one of the node, itself included.
    loads: Vec<Load>,
    lens: Vec<u32>,
    free: Vec<u32>,
}

impl<K: Ord + Copy, T: Copy> Nodes<K, T> {
    pub(super) fn new() -> Self {
        let (keys, items, loads) = (Vec::new(), Vec::new(), Vec::new());
        Self { keys, items, loads, lens: Vec::new(), free: Vec::new() }
    }

    /// An empty node. The arguments only fill its memory.
    #[allow(clippy::cast_possible_truncation)] // bounded by the slab's 2^24 slots
    pub(super) fn create(&mut self, key: K, item: T) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let places = self.keys.len() + FANOUT;
            self.keys.resize(places, key);
            self.items.resize(places, item);
            self.loads.resize(places, Load::default());
            self.lens.push(0);
            (self.lens.len() - 1) as u32
        })
    }

    pub(super) fn discard(&mut self, node: u32) {
        self.lens[node as usize] = 0;
        self.free.push(node);
    }

    /// Entries of a node; 0 for one that was never there.
    pub(super) fn len(&self, node: u32) -> usize {
        self.lens.get(node as usize).map_or(0, |&len| len as usize)
    }

    fn places(&self, node: u32) -> Range<usize> {
        let first = node as usize * FANOUT;
        first..first + self.len(node)
    }

    pub(super) fn keys(&self, node: u32) -> &[K] {
        &self.keys[self.places(node)]
    }

    pub(super) fn item(&self, node: u32, at: usize) -> T {
        self.items[node as usize * FANOUT + at]
    }

    pub(super) fn entry(&self, node: u32, at: usize) -> Option<(K, T)> {
        self.keys(node).get(at).map(|&key| (key, self.item(node, at)))
    }

    /// What the first `count` entries of a node hold.
    pub(super) fn load_of(&self, node: u32, count: usize) -> Load {
        let last = count.checked_sub(1);
        last.map_or(Load::default(), |last| self.loads[node as usize * FANOUT + last])
    }

    pub(super) fn total(&self, node: u32) -> Load {
        self.load_of(node, self.len(node))
    }

    /// Entries of a node that come before the one where `rank` others have gone before.
    pub(super) fn before_rank(&self, node: u32, rank: u64) -> usize {
        self.loads[self.places(node)].partition_point(|load| load.entries <= rank)
    }

    /// Adds to an entry, and takes from it.
    pub(super) fn change(&mut self, node: u32, at: usize, added: Load, taken: Load) {
        let from = node as usize * FANOUT + at;
        let to = self.places(node).end;
        for load in &mut self.loads[from..to] {
            load.add(added);
            *load = load.less(taken);
        }
    }

    /// Lowers the key by which a node's first entry is found.
    pub(super) fn lower_first(&mut self, node: u32, key: K) {
        let first = &mut self.keys[node as usize * FANOUT];
        *first = key.min(*first);
    }

    /// Adds an entry at its place. A full node is split first: returns its new right half.
    pub(super) fn insert(&mut self, node: u32, key: K, item: T, load: Load) -> Option<u32> {
        let at = self.keys(node).partition_point(|other| *other < key);
        if self.len(node) < FANOUT {
            self.insert_at(node, at, key, item, load);
            return None;
        }
        let right = self.split(node, key, item);
        let half = self.len(node);
        if at <= half {
            self.insert_at(node, at, key, item, load);
        } else {
            self.insert_at(right, at - half, key, item, load);
        }
        Some(right)
    }

    fn insert_at(&mut self, node: u32, at: usize, key: K, item: T, load: Load) {
        let before = self.load_of(node, at);
        let Range { start, end } = self.places(node);
        let place = start + at;
        self.keys.copy_within(place..end, place + 1);
        self.items.copy_within(place..end, place + 1);
        self.loads.copy_within(place..end, place + 1);
        self.keys[place] = key;
        self.items[place] = item;
        self.loads[place] = before;
        self.lens[node as usize] += 1;
        self.change(node, at, load, Load::default());
    }

    /// Takes an entry out; returns what it held.
    pub(super) fn remove_at(&mut self, node: u32, at: usize) -> Load {
        let load = self.load_of(node, at + 1).less(self.load_of(node, at));
        self.change(node, at, Load::default(), load);
        let Range { start, end } = self.places(node);
        let next = start + at + 1;
        self.keys.copy_within(next..end, next - 1);
        self.items.copy_within(next..end, next - 1);
        self.loads.copy_within(next..end, next - 1);
        self.lens[node as usize] -= 1;
        load
    }

    #[allow(clippy::cast_possible_truncation)] // at most FANOUT
    fn split(&mut self, node: u32, key: K, item: T) -> u32 {
        let right = self.create(key, item);
        let half = self.len(node) / 2;
        let left = self.load_of(node, half);
        let Range { start, end } = self.places(node);
        self.copy(start + half..end, right as usize * FANOUT);
        self.lens[node as usize] = half as u32;
        self.lens[right as usize] = (end - start - half) as u32;
        self.change(right, 0, Load::default(), left);
        right
    }

    /// Moves all entries of a node to the end of its left neighbour, which has room for them.
    #[allow(clippy::cast_possible_truncation)] // at most FANOUT
    pub(super) fn append(&mut self, left: u32, right: u32) {
        let (held, moved) = (self.len(left), self.places(right));
        let before = self.total(left);
        self.lens[left as usize] += moved.len() as u32;
        self.copy(moved, left as usize * FANOUT + held);
        self.change(left, held, before, Load::default());
        self.discard(right);
    }

    fn copy(&mut self, from: Range<usize>, to: usize) {
        self.keys.copy_within(from.clone(), to);
        self.items.copy_within(from.clone(), to);
        self.loads.copy_within(from, to);
    }
}
