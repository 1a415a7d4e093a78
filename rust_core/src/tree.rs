//! An ordered map with sums: the structure behind queues, medians and work-ahead questions.

const NIL: u32 = u32::MAX;
/// Balance parameters, the only integer pair proven for all trees.
///
/// Source: Hirai and Yamamoto, "Balancing weight-balanced trees", JFP 21(3), 2011.
const DELTA: u64 = 3;
const GAMMA: u64 = 2;
/// A subtree holds at most 3/4 of its parent, so 2^26 entries stay within 64 levels.
const MAX_HEIGHT: usize = 64;

#[derive(Debug, Clone)]
struct Node<K, V> {
    key: K,
    value: V,
    units: u64,
    total: u64,
    count: u32,
    left: u32,
    right: u32,
}

/// A weight-balanced search tree in an arena, with counts and sums of units in each subtree.
///
/// Keys are unique. Insert, remove and all questions are O(log n), worst case; memory is reused.
#[derive(Debug, Clone)]
pub struct OrderTree<K, V> {
    nodes: Vec<Node<K, V>>,
    free: Vec<u32>,
    root: u32,
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
        Self { nodes: Vec::new(), free: Vec::new(), root: NIL }
    }

    /// Entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count(self.root) as usize
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// Units over all entries.
    #[must_use]
    pub fn total_units(&self) -> u64 {
        self.total(self.root)
    }

    /// Adds an entry; `key` must not be there yet.
    #[allow(clippy::cast_possible_truncation)] // bounded by the slab's 2^24 slots
    pub fn insert(&mut self, key: K, units: u64, value: V) {
        let node = Node { key, value, units, total: units, count: 1, left: NIL, right: NIL };
        let id = if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            id
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        self.root = self.insert_below(self.root, id);
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (root, removed) = self.remove_below(self.root, key);
        self.root = root;
        (removed != NIL).then(|| {
            self.free.push(removed);
            self.nodes[removed as usize].value
        })
    }

    /// Smallest key.
    #[must_use]
    pub fn first(&self) -> Option<(K, V)> {
        self.outermost(|node| node.left)
    }

    /// Largest key.
    #[must_use]
    pub fn last(&self) -> Option<(K, V)> {
        self.outermost(|node| node.right)
    }

    /// The entry with `rank` entries before it.
    #[must_use]
    pub fn select(&self, rank: usize) -> Option<(K, V)> {
        let (mut at, mut rank) = (self.root, rank);
        while let Some(node) = self.nodes.get(at as usize) {
            let before = self.count(node.left) as usize;
            if rank == before {
                return Some((node.key, node.value));
            }
            if rank < before {
                at = node.left;
            } else {
                rank -= before + 1;
                at = node.right;
            }
        }
        None
    }

    /// Entries and units for which `before` holds; it must hold for a prefix of the order.
    #[must_use]
    pub fn prefix(&self, before: impl Fn(&K) -> bool) -> (usize, u64) {
        let (mut at, mut count, mut units) = (self.root, 0, 0);
        while let Some(node) = self.nodes.get(at as usize) {
            if before(&node.key) {
                count += self.count(node.left) as usize + 1;
                units += self.total(node.left) + node.units;
                at = node.right;
            } else {
                at = node.left;
            }
        }
        (count, units)
    }

    /// Entries in order, from the first key >= `start`.
    #[must_use]
    pub fn iter_from(&self, start: &K) -> Iter<'_, K, V> {
        let mut iter = Iter { tree: self, path: [NIL; MAX_HEIGHT], depth: 0 };
        let mut at = self.root;
        while let Some(node) = self.nodes.get(at as usize) {
            if node.key < *start {
                at = node.right;
            } else {
                iter.push(at);
                at = node.left;
            }
        }
        iter
    }

    fn outermost(&self, next: impl Fn(&Node<K, V>) -> u32) -> Option<(K, V)> {
        let mut found = self.nodes.get(self.root as usize)?;
        while let Some(node) = self.nodes.get(next(found) as usize) {
            found = node;
        }
        Some((found.key, found.value))
    }

    fn count(&self, at: u32) -> u32 {
        self.nodes.get(at as usize).map_or(0, |node| node.count)
    }

    fn total(&self, at: u32) -> u64 {
        self.nodes.get(at as usize).map_or(0, |node| node.total)
    }

    fn weight(&self, at: u32) -> u64 {
        u64::from(self.count(at)) + 1
    }

    fn children(&self, at: u32) -> (u32, u32) {
        let node = &self.nodes[at as usize];
        (node.left, node.right)
    }

    fn insert_below(&mut self, at: u32, new: u32) -> u32 {
        if at == NIL {
            return new;
        }
        let (left, right) = self.children(at);
        if self.nodes[new as usize].key < self.nodes[at as usize].key {
            self.nodes[at as usize].left = self.insert_below(left, new);
        } else {
            self.nodes[at as usize].right = self.insert_below(right, new);
        }
        self.balance(at)
    }

    /// Returns the new root and the node taken out.
    fn remove_below(&mut self, at: u32, key: &K) -> (u32, u32) {
        let Some(node) = self.nodes.get(at as usize) else { return (NIL, NIL) };
        let (left, right) = (node.left, node.right);
        let removed = match key.cmp(&node.key) {
            std::cmp::Ordering::Equal => return (self.join(left, right), at),
            std::cmp::Ordering::Less => {
                let (child, removed) = self.remove_below(left, key);
                self.nodes[at as usize].left = child;
                removed
            }
            std::cmp::Ordering::Greater => {
                let (child, removed) = self.remove_below(right, key);
                self.nodes[at as usize].right = child;
                removed
            }
        };
        (self.balance(at), removed)
    }

    /// One tree of two neighbours; the heavier one gives the root.
    fn join(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL || right == NIL {
            return if left == NIL { right } else { left };
        }
        let root = if self.count(left) > self.count(right) {
            let (rest, last) = self.split_last(left);
            self.nodes[last as usize].left = rest;
            self.nodes[last as usize].right = right;
            last
        } else {
            let (rest, first) = self.split_first(right);
            self.nodes[first as usize].left = left;
            self.nodes[first as usize].right = rest;
            first
        };
        self.balance(root)
    }

    fn split_first(&mut self, at: u32) -> (u32, u32) {
        let (left, right) = self.children(at);
        if left == NIL {
            return (right, at);
        }
        let (rest, first) = self.split_first(left);
        self.nodes[at as usize].left = rest;
        (self.balance(at), first)
    }

    fn split_last(&mut self, at: u32) -> (u32, u32) {
        let (left, right) = self.children(at);
        if right == NIL {
            return (left, at);
        }
        let (rest, last) = self.split_last(right);
        self.nodes[at as usize].right = rest;
        (self.balance(at), last)
    }

    /// Restores the balance and the sums of `at`, whose children are in order.
    fn balance(&mut self, at: u32) -> u32 {
        let (left, right) = self.children(at);
        if DELTA * self.weight(left) < self.weight(right) {
            let (inner, outer) = self.children(right);
            if self.weight(inner) >= GAMMA * self.weight(outer) {
                self.nodes[at as usize].right = self.rotate_right(right);
            }
            return self.rotate_left(at);
        }
        if DELTA * self.weight(right) < self.weight(left) {
            let (outer, inner) = self.children(left);
            if self.weight(inner) >= GAMMA * self.weight(outer) {
                self.nodes[at as usize].left = self.rotate_left(left);
            }
            return self.rotate_right(at);
        }
        self.sum(at);
        at
    }

    fn rotate_left(&mut self, at: u32) -> u32 {
        let (_, up) = self.children(at);
        self.nodes[at as usize].right = self.children(up).0;
        self.nodes[up as usize].left = at;
        self.sum(at);
        self.sum(up);
        up
    }

    fn rotate_right(&mut self, at: u32) -> u32 {
        let (up, _) = self.children(at);
        self.nodes[at as usize].left = self.children(up).1;
        self.nodes[up as usize].right = at;
        self.sum(at);
        self.sum(up);
        up
    }

    fn sum(&mut self, at: u32) {
        let (left, right) = self.children(at);
        let count = self.count(left) + self.count(right) + 1;
        let total = self.total(left) + self.total(right);
        let node = &mut self.nodes[at as usize];
        node.count = count;
        node.total = total + node.units;
    }
}

/// Entries in order. Holds its path in place, so that walking allocates nothing.
#[derive(Debug)]
pub struct Iter<'a, K, V> {
    tree: &'a OrderTree<K, V>,
    path: [u32; MAX_HEIGHT],
    depth: usize,
}

impl<K: Ord + Copy, V: Copy> Iter<'_, K, V> {
    fn push(&mut self, at: u32) {
        if let Some(place) = self.path.get_mut(self.depth) {
            *place = at;
            self.depth += 1;
        }
    }

    fn descend(&mut self, from: u32) {
        let mut at = from;
        while let Some(node) = self.tree.nodes.get(at as usize) {
            self.push(at);
            at = node.left;
        }
    }
}

impl<K: Ord + Copy, V: Copy> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.depth = self.depth.checked_sub(1)?;
        let node = self.tree.nodes.get(self.path[self.depth] as usize)?;
        self.descend(node.right);
        Some((node.key, node.value))
    }
}
