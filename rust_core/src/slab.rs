//! Slots that are used again, with keys that are not: a stale key finds nothing.

const SLOT_BITS: u32 = 24;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
/// Keys stay within an `i64`: 39 bits count how often a slot was used.
const GENERATION_MASK: u64 = (1 << (63 - SLOT_BITS)) - 1;
/// Most entries of a slab.
pub const MAX_SLOTS: usize = 1 << SLOT_BITS;

/// Slot of a key, stale or not.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // masked to 24 bits
pub fn slot_of(key: u64) -> u32 {
    (key & SLOT_MASK) as u32
}

#[derive(Debug)]
struct Entry<T> {
    generation: u64,
    value: Option<T>,
}

/// A bounded arena addressed by generation-checked keys. All operations O(1).
///
/// A key is `generation << 24 | slot`. Slots are reused last in, first out; a key repeats only
/// after 2^39 uses of one slot.
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    capacity: usize,
    first_generation: u64,
}

impl<T> Slab<T> {
    /// At most `capacity` entries (itself at most 2^24). Memory grows with use.
    ///
    /// With `first_generation` 0, the first keys are 0, 1, 2, ...; with 1, no key is 0.
    #[must_use]
    pub fn new(capacity: usize, first_generation: u64) -> Self {
        let capacity = capacity.min(MAX_SLOTS);
        Self { entries: Vec::new(), free: Vec::new(), capacity, first_generation }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True at capacity.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Stores a value; None at capacity.
    #[allow(clippy::cast_possible_truncation)] // slots fit 24 bits
    pub fn insert(&mut self, value: T) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let slot = self.free.pop().unwrap_or(self.entries.len() as u32);
        if let Some(entry) = self.entries.get_mut(slot as usize) {
            entry.value = Some(value);
        } else {
            let generation = self.first_generation;
            self.entries.push(Entry { generation, value: Some(value) });
        }
        self.key(slot)
    }

    /// Slot of a live key.
    #[must_use]
    pub fn slot(&self, key: u64) -> Option<u32> {
        let slot = slot_of(key);
        let entry = self.entries.get(slot as usize)?;
        let live = entry.value.is_some() && entry.generation == key >> SLOT_BITS;
        live.then_some(slot)
    }

    /// Key of a slot in use.
    #[must_use]
    pub fn key(&self, slot: u32) -> Option<u64> {
        let entry = self.entries.get(slot as usize)?;
        entry.value.as_ref()?;
        Some(entry.generation << SLOT_BITS | u64::from(slot))
    }

    /// Value of a slot in use.
    #[must_use]
    pub fn at(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)?.value.as_ref()
    }

    /// Value of a slot in use, to change.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.value.as_mut()
    }

    /// Takes the value out of a slot; its key is stale from here on.
    pub fn take(&mut self, slot: u32) -> Option<T> {
        let entry = self.entries.get_mut(slot as usize)?;
        let value = entry.value.take()?;
        entry.generation = (entry.generation + 1) & GENERATION_MASK;
        self.free.push(slot);
        Some(value)
    }

    /// Slots in use and their values, by slot, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let entries = (0u32..).zip(&mut self.entries);
        entries.filter_map(|(slot, entry)| Some((slot, entry.value.as_mut()?)))
    }

    /// Slots in use and their values, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.entries).filter_map(|(slot, entry)| Some((slot, entry.value.as_ref()?)))
    }
}
