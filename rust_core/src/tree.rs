//! An ordered map with sums: the structure behind queues, medians and work-ahead questions.
mod nodes;

use nodes::{Load, Nodes, FANOUT};

/// A node with fewer entries joins a neighbour that has room for them.
const LEAST: usize = FANOUT / 4;
/// Two neighbours hold at least `LEAST` entries, so that a level has at least four times as many
/// nodes as the one above it, and 2^26 entries stay within 14.
const MAX_HEIGHT: usize = 16;

/// A B+ tree in flat arrays, with counts and sums of units below each entry.
///
/// Keys are unique. Insert, remove and all questions are O(log n), worst case; memory is reused.
/// A search reads one node a level, and each node is a few cache lines that do not wait for each
/// other: with 100,000 entries that is four levels where a binary tree has seventeen.
///
/// Source: Bayer and `McCreight`, "Organization and maintenance of large ordered indexes", Acta
/// Informatica 1, 1972; leaves alone hold entries, as in Comer, "The ubiquitous B-tree", 1979.
#[derive(Debug, Clone)]
pub struct OrderTree<K, V> {
    leaves: Nodes<K, V>,
    /// Each entry is a node of the level below, and a key that is not above its first one.
    inner: Nodes<K, u32>,
    root: u32,
    /// Levels above the leaves.
    height: usize,
}

impl<K: Ord + Copy, V: Copy> Default for OrderTree<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Copy, V: Copy> OrderTree<K, V> {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self { leaves: Nodes::new(), inner: Nodes::new(), root: 0, height: 0 }
    }

    /// Entries.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // they are in memory
    pub fn len(&self) -> usize {
        self.total(self.height, self.root).entries as usize
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Units over all entries.
    #[must_use]
    pub fn total_units(&self) -> u64 {
        self.total(self.height, self.root).units
    }

    /// Adds an entry; `key` must not be there yet.
    pub fn insert(&mut self, key: K, units: u64, value: V) {
        if self.is_empty() {
            self.root = self.leaves.create(key, value);
        }
        let (left, level) = (self.root, self.height);
        let Some(right) = self.insert_below(level, left, key, units, value) else { return };
        self.root = self.inner.create(key, left);
        self.height += 1;
        for child in [left, right] {
            let (first, load) = (self.first_key(level, child), self.total(level, child));
            self.inner.insert(self.root, first, child, load);
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (value, _) = self.remove_below(self.height, self.root, key)?;
        while self.height > 0 && self.inner.len(self.root) == 1 {
            self.inner.discard(self.root);
            self.root = self.inner.item(self.root, 0);
            self.height -= 1;
        }
        if self.is_empty() {
            self.leaves.discard(self.root);
        }
        Some(value)
    }

    /// Smallest key.
    #[must_use]
    pub fn first(&self) -> Option<(K, V)> {
        let mut node = self.root;
        for _ in 0..self.height {
            node = self.inner.item(node, 0);
        }
        self.leaves.entry(node, 0)
    }

    /// Largest key.
    #[must_use]
    pub fn last(&self) -> Option<(K, V)> {
        let mut node = self.root;
        for _ in 0..self.height {
            node = self.inner.item(node, self.inner.len(node) - 1);
        }
        self.leaves.entry(node, self.leaves.len(node).checked_sub(1)?)
    }

    /// The entry with `rank` entries before it.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // a rank within a leaf
    pub fn select(&self, rank: usize) -> Option<(K, V)> {
        if rank >= self.len() {
            return None;
        }
        let (mut node, mut rank) = (self.root, rank as u64);
        for _ in 0..self.height {
            let at = self.inner.before_rank(node, rank);
            rank -= self.inner.load_of(node, at).entries;
            node = self.inner.item(node, at);
        }
        self.leaves.entry(node, rank as usize)
    }

    /// Entries and units for which `before` holds; it must hold for a prefix of the order.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // no more than there are entries
    pub fn prefix(&self, before: impl Fn(&K) -> bool) -> (usize, u64) {
        let (mut node, mut load) = (self.root, Load::default());
        for _ in 0..self.height {
            let Some(at) = count(self.inner.keys(node), &before).checked_sub(1) else {
                return (load.entries as usize, load.units);
            };
            load.add(self.inner.load_of(node, at));
            node = self.inner.item(node, at);
        }
        load.add(self.leaves.load_of(node, count(self.leaves.keys(node), &before)));
        (load.entries as usize, load.units)
    }

    /// Entries in order, from the first key >= `start`.
    #[must_use]
    pub fn iter_from(&self, start: &K) -> Iter<'_, K, V> {
        let mut iter = Iter { tree: self, path: [(0, 0); MAX_HEIGHT], leaf: self.root, at: 0 };
        for level in 0..self.height {
            let at = self.child_at(iter.leaf, start);
            iter.path[level] = (iter.leaf, at);
            iter.leaf = self.inner.item(iter.leaf, at);
        }
        iter.at = self.leaves.keys(iter.leaf).partition_point(|key| key < start);
        iter
    }

    fn total(&self, level: usize, node: u32) -> Load {
        if level == 0 {
            self.leaves.total(node)
        } else {
            self.inner.total(node)
        }
    }

    fn len_of(&self, level: usize, node: u32) -> usize {
        if level == 0 {
            self.leaves.len(node)
        } else {
            self.inner.len(node)
        }
    }

    fn first_key(&self, level: usize, node: u32) -> K {
        if level == 0 {
            self.leaves.keys(node)[0]
        } else {
            self.inner.keys(node)[0]
        }
    }

    /// Place of the child of an inner node that has a key, if any has.
    fn child_at(&self, node: u32, key: &K) -> usize {
        self.inner.keys(node).partition_point(|first| first <= key).saturating_sub(1)
    }

    /// Returns the right half of `node` if it had to be split.
    fn insert_below(
        &mut self,
        level: usize,
        node: u32,
        key: K,
        units: u64,
        value: V,
    ) -> Option<u32> {
        let one = Load { entries: 1, units };
        if level == 0 {
            return self.leaves.insert(node, key, value, one);
        }
        let at = self.child_at(node, &key);
        self.inner.lower_first(node, key);
        let child = self.inner.item(node, at);
        let Some(right) = self.insert_below(level - 1, child, key, units, value) else {
            self.inner.change(node, at, one, Load::default());
            return None;
        };
        let (first, load) = (self.first_key(level - 1, right), self.total(level - 1, right));
        self.inner.change(node, at, one, load);
        self.inner.insert(node, first, right, load)
    }

    fn remove_below(&mut self, level: usize, node: u32, key: &K) -> Option<(V, Load)> {
        if level == 0 {
            let at = self.leaves.keys(node).binary_search(key).ok()?;
            let value = self.leaves.item(node, at);
            return Some((value, self.leaves.remove_at(node, at)));
        }
        let at = self.child_at(node, key);
        let child = self.inner.item(node, at);
        let (value, load) = self.remove_below(level - 1, child, key)?;
        self.inner.change(node, at, Load::default(), load);
        if self.len_of(level - 1, child) < LEAST {
            self.mend(level - 1, node, at);
        }
        Some((value, load))
    }

    /// Joins the child at a place, of `level`, with a neighbour that has room for it. An empty one
    /// finds room with any.
    fn mend(&mut self, level: usize, node: u32, at: usize) {
        for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if left + 1 >= self.inner.len(node) {
                continue;
            }
            let [a, b] = [left, left + 1].map(|at| self.inner.item(node, at));
            if self.len_of(level, a) + self.len_of(level, b) > FANOUT {
                continue;
            }
            if level == 0 {
                self.leaves.append(a, b);
            } else {
                self.inner.append(a, b);
            }
            let load = self.inner.remove_at(node, left + 1);
            self.inner.change(node, left, load, Load::default());
            return;
        }
        let child = self.inner.item(node, at);
        if self.len_of(level, child) == 0 {
            self.inner.remove_at(node, at);
            if level == 0 {
                self.leaves.discard(child);
            } else {
                self.inner.discard(child);
            }
        }
    }
}

/// Keys of a node for which `before` holds. All are asked: their cache lines then arrive together,
/// where a bisection waits for one after the other.
fn count<K>(keys: &[K], before: &impl Fn(&K) -> bool) -> usize {
    keys.iter().map(|key| usize::from(before(key))).sum()
}

/// Entries in order. Holds its path in place, so that walking allocates nothing.
#[derive(Debug)]
pub struct Iter<'a, K, V> {
    tree: &'a OrderTree<K, V>,
    /// Inner nodes from the root down, and the place in each.
    path: [(u32, usize); MAX_HEIGHT],
    leaf: u32,
    at: usize,
}

impl<K: Ord + Copy, V: Copy> Iter<'_, K, V> {
    /// Goes on to the next leaf; None after the last.
    fn turn(&mut self) -> Option<()> {
        let height = self.tree.height;
        let inner = &self.tree.inner;
        let can_go_on = |&(node, at): &(u32, usize)| at + 1 < inner.len(node);
        let level = self.path[..height].iter().rposition(can_go_on)?;
        self.path[level].1 += 1;
        for level in level..height {
            let (node, at) = self.path[level];
            let child = inner.item(node, at);
            if level + 1 < height {
                self.path[level + 1] = (child, 0);
            } else {
                self.leaf = child;
            }
        }
        self.at = 0;
        Some(())
    }
}

impl<K: Ord + Copy, V: Copy> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        if self.at >= self.tree.leaves.len(self.leaf) {
            self.turn()?;
        }
        let entry = self.tree.leaves.entry(self.leaf, self.at)?;
        self.at += 1;
        Some(entry)
    }
}
