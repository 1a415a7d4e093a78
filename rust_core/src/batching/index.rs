//! Requests in key order, best first, with order statistics.
//!
//! Entries live in sorted chunks of at most `CHUNK` and a Fenwick tree over the chunks holds
//! their counts and units. Insert, remove and "how much is ahead of this key" touch one chunk and
//! O(log n) nodes; a split rebuilds the tree, once in `CHUNK / 2` inserts. Nothing is O(n).

const CHUNK: usize = 128;
const MERGE: usize = CHUNK / 4;

/// Position in the order: smaller is better. Made from a key by [`Order::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order(u64);

impl Order {
    /// The order of a key: larger keys come first. NaN comes last.
    #[must_use]
    pub fn of(key: f64) -> Self {
        if key.is_nan() {
            return Self(u64::MAX);
        }
        let bits = key.to_bits();
        let ascending = if bits >> 63 == 1 { !bits } else { bits | (1 << 63) };
        Self(!ascending)
    }
}

/// One request in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Place in the order.
    pub order: Order,
    /// Handle of the request; breaks ties, so that the order is total.
    pub handle: u32,
    /// Its work.
    pub units: u64,
}

/// A number of requests and their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests.
    pub requests: u64,
    /// Work units.
    pub units: u64,
}

impl Load {
    /// Both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    /// Without a part of it.
    #[must_use]
    pub fn less(mut self, part: Self) -> Self {
        self.sub(part);
        self
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.units += other.units;
    }

    fn sub(&mut self, other: Self) {
        self.requests -= other.requests;
        self.units -= other.units;
    }

    fn of(entries: &[Entry]) -> Self {
        Self {
            requests: entries.len() as u64,
            units: entries.iter().map(|entry| entry.units).sum(),
        }
    }
}

/// Requests sorted by (order, handle).
#[derive(Clone, Debug, Default)]
pub struct KeyIndex {
    chunks: Vec<Vec<Entry>>,
    /// First entry of each chunk, apart, so that the search stays within few cache lines.
    heads: Vec<(Order, u32)>,
    loads: Vec<Load>,
    tree: Vec<Load>,
    total: Load,
    spare: Vec<Vec<Entry>>,
}

impl KeyIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All that is in it.
    #[must_use]
    pub fn total(&self) -> Load {
        self.total
    }

    /// True if nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total.requests == 0
    }

    /// Adds a request. The pair (order, handle) must not be there yet.
    pub fn insert(&mut self, entry: Entry) {
        if self.chunks.is_empty() {
            let chunk = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
            self.chunks.push(chunk);
            self.heads.push((entry.order, entry.handle));
            self.loads.push(Load::default());
            self.tree.push(Load::default());
        }
        let place = (entry.order, entry.handle);
        let at = self.chunk_of(place);
        let chunk = &mut self.chunks[at];
        let within = chunk.partition_point(|other| (other.order, other.handle) < place);
        chunk.insert(within, entry);
        self.heads[at] = (chunk[0].order, chunk[0].handle);
        let load = Load { requests: 1, units: entry.units };
        self.total.add(load);
        self.loads[at].add(load);
        if self.chunks[at].len() >= CHUNK {
            self.split(at);
        } else {
            self.change(at, |node| node.add(load));
        }
    }

    /// Removes a request; false if it was not there.
    pub fn remove(&mut self, order: Order, handle: u32) -> bool {
        if self.chunks.is_empty() {
            return false;
        }
        let place = (order, handle);
        let at = self.chunk_of(place);
        let chunk = &mut self.chunks[at];
        let within = chunk.partition_point(|other| (other.order, other.handle) < place);
        match chunk.get(within) {
            Some(entry) if (entry.order, entry.handle) == place => {}
            _ => return false,
        }
        let entry = chunk.remove(within);
        let load = Load { requests: 1, units: entry.units };
        self.total.sub(load);
        if let Some(first) = chunk.first() {
            self.heads[at] = (first.order, first.handle);
        }
        self.loads[at].sub(load);
        if self.chunks[at].len() >= MERGE || !self.merge(at) {
            self.change(at, |node| node.sub(load));
        }
        true
    }

    /// What stands strictly before `order`. O(log n).
    #[must_use]
    pub fn ahead_of(&self, order: Order) -> Load {
        if self.chunks.is_empty() {
            return Load::default();
        }
        let at = self.chunk_of((order, 0));
        let mut load = self.prefix(at);
        let chunk = &self.chunks[at];
        let within = chunk.partition_point(|entry| entry.order < order);
        load.add(Load::of(&chunk[..within]));
        load
    }

    /// Entries, best first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten()
    }

    /// Last chunk whose head is at or before `place`.
    fn chunk_of(&self, place: (Order, u32)) -> usize {
        self.heads.partition_point(|head| *head <= place).saturating_sub(1)
    }

    fn change(&mut self, at: usize, apply: impl Fn(&mut Load)) {
        let mut node = at;
        while node < self.tree.len() {
            apply(&mut self.tree[node]);
            node |= node + 1;
        }
    }

    /// Load of the chunks before `at`.
    fn prefix(&self, at: usize) -> Load {
        let mut load = Load::default();
        let mut end = at;
        while end > 0 {
            load.add(self.tree[end - 1]);
            end &= end - 1;
        }
        load
    }

    fn split(&mut self, at: usize) {
        let mut right = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
        right.extend(self.chunks[at].drain(CHUNK / 2..));
        let moved = Load::of(&right);
        self.loads[at].sub(moved);
        self.loads.insert(at + 1, moved);
        self.heads.insert(at + 1, (right[0].order, right[0].handle));
        self.chunks.insert(at + 1, right);
        self.rebuild();
    }

    /// Drops an empty chunk, or joins a small one with a neighbour if the two leave room to grow.
    fn merge(&mut self, at: usize) -> bool {
        if self.chunks[at].is_empty() {
            self.drop_chunk(at);
            self.rebuild();
            return true;
        }
        let left = if at + 1 < self.chunks.len() { at } else { at.saturating_sub(1) };
        let right = left + 1;
        if right >= self.chunks.len()
            || self.chunks[left].len() + self.chunks[right].len() > CHUNK - MERGE
        {
            return false;
        }
        let mut moved = std::mem::take(&mut self.chunks[right]);
        self.chunks[left].append(&mut moved);
        self.chunks[right] = moved;
        let load = self.loads[right];
        self.loads[left].add(load);
        self.drop_chunk(right);
        self.rebuild();
        true
    }

    fn drop_chunk(&mut self, at: usize) {
        self.heads.remove(at);
        self.loads.remove(at);
        let chunk = self.chunks.remove(at);
        if self.spare.len() < 16 {
            self.spare.push(chunk);
        }
    }

    fn rebuild(&mut self) {
        self.tree.clear();
        self.tree.extend_from_slice(&self.loads);
        for node in 0..self.tree.len() {
            let parent = node | (node + 1);
            if parent < self.tree.len() {
                let load = self.tree[node];
                self.tree[parent].add(load);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn larger_keys_come_first() {
        let keys = [f64::INFINITY, 3.5, 0.0, -0.5, -1e9, f64::NEG_INFINITY, f64::NAN];
        let orders: Vec<Order> = keys.iter().map(|key| Order::of(*key)).collect();
        assert!(orders.windows(2).all(|pair| pair[0] < pair[1]));
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_vector(
            steps in prop::collection::vec((any::<bool>(), 0u8..40, 1u64..100), 1..900)
        ) {
            let mut index = KeyIndex::new();
            let mut model: Vec<Entry> = Vec::new();
            for (number, (grow, key, units)) in steps.into_iter().enumerate() {
                if grow || number < 300 || model.is_empty() {
                    let entry = Entry {
                        order: Order::of(f64::from(key)),
                        handle: u32::try_from(number).unwrap_or(0),
                        units,
                    };
                    index.insert(entry);
                    model.push(entry);
                    model.sort_by_key(|entry| (entry.order, entry.handle));
                } else {
                    let gone = model.remove(usize::from(key) % model.len());
                    prop_assert!(index.remove(gone.order, gone.handle));
                    prop_assert!(!index.remove(gone.order, gone.handle));
                }
                let probe = Order::of(f64::from(key));
                let ahead: Vec<Entry> =
                    model.iter().copied().filter(|entry| entry.order < probe).collect();
                prop_assert_eq!(index.ahead_of(probe), Load::of(&ahead));
                prop_assert_eq!(index.total(), Load::of(&model));
            }
            let listed: Vec<Entry> = index.iter().copied().collect();
            prop_assert_eq!(listed, model);
        }
    }
}
