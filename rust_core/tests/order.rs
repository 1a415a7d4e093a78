//! The ordered structures against plain ones, step by step on random histories.
mod support;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use headway_core::deadline::Deadlines;
use headway_core::edf::EdfQueue;
use headway_core::rng::Rng;
use headway_core::slab::Slab;
use headway_core::tree::OrderTree;
use proptest::prelude::*;

use support::cases;

#[derive(Debug, Clone)]
enum Step {
    Push { ticket: u64, deadline: i64, units: u64 },
    Remove { ticket: u64 },
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..40u64, -50..50i64, 0..1_000u64)
            .prop_map(|(ticket, deadline, units)| Step::Push { ticket, deadline, units }),
        2 => (0..40u64).prop_map(|ticket| Step::Remove { ticket }),
        1 => Just(Step::Pop),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(cases(256, 20_240_511))]

    #[test]
    fn edf_queue_equals_a_sorted_vector(steps in steps(), asked in prop::collection::vec(-60..60i64, 4)) {
        let mut queue = EdfQueue::new();
        let mut model: Vec<(i64, u64, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Push { ticket, deadline, units } => {
                    let is_new = model.iter().all(|entry| entry.1 != ticket);
                    prop_assert_eq!(queue.push(ticket, deadline, units).is_ok(), is_new);
                    if is_new {
                        model.push((deadline, ticket, units));
                        model.sort_unstable();
                    }
                }
                Step::Remove { ticket } => {
                    let before = model.len();
                    model.retain(|entry| entry.1 != ticket);
                    prop_assert_eq!(queue.remove(ticket), model.len() < before);
                }
                Step::Pop => {
                    let first = (!model.is_empty()).then(|| model.remove(0).1);
                    prop_assert_eq!(queue.pop(), first);
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.peek(), model.first().map(|entry| (entry.1, entry.0)));
            prop_assert_eq!(queue.total_units(), model.iter().map(|entry| entry.2).sum::<u64>());
            for &deadline in &asked {
                let before = model.iter().filter(|entry| entry.0 <= deadline);
                let expected = before.fold((0, 0), |(n, units), entry| (n + 1, units + entry.2));
                prop_assert_eq!(queue.before(deadline), expected);
            }
        }
    }

    #[test]
    fn tree_equals_a_sorted_map(keys in prop::collection::vec((0..200u32, any::<bool>()), 0..400)) {
        let mut tree = OrderTree::new();
        let mut model = BTreeMap::new();
        for (key, add) in keys {
            if add {
                if model.insert(key, u64::from(key) * 3).is_none() {
                    tree.insert(key, u64::from(key), u64::from(key) * 3);
                }
            } else {
                prop_assert_eq!(tree.remove(&key), model.remove(&key));
            }
            prop_assert_eq!(tree.len(), model.len());
            prop_assert_eq!(tree.first(), model.first_key_value().map(|(k, v)| (*k, *v)));
            prop_assert_eq!(tree.last(), model.last_key_value().map(|(k, v)| (*k, *v)));
            let from: Vec<_> = tree.iter_from(&(key / 2)).collect();
            let expected: Vec<_> = model.range(key / 2..).map(|(k, v)| (*k, *v)).collect();
            prop_assert_eq!(from, expected);
            let rank = key as usize % 7;
            prop_assert_eq!(tree.select(rank), model.iter().nth(rank).map(|(k, v)| (*k, *v)));
        }
    }

    #[test]
    fn deadline_heap_equals_a_sorted_set(steps in prop::collection::vec((0..30u32, 0..50i64, any::<bool>()), 0..200)) {
        let mut heap = Deadlines::new();
        let mut model: BTreeSet<(i64, u64, u32)> = BTreeSet::new();
        for (order, (slot, deadline, add)) in (0u64..).zip(steps) {
            let held = model.iter().find(|due| due.2 == slot).copied();
            if let Some(due) = held.filter(|_| !add) {
                model.remove(&due);
            } else if held.is_none() && add {
                heap.push(slot, deadline, order);
                model.insert((deadline, order, slot));
            }
            if !add {
                heap.remove(slot);
            }
            prop_assert_eq!(heap.len(), model.len());
            prop_assert_eq!(heap.peek(), model.first().map(|due| (due.0, due.2)));
        }
    }

    #[test]
    fn a_stale_key_finds_nothing(steps in prop::collection::vec(any::<Option<u8>>(), 0..200)) {
        let mut slab = Slab::new(20, 1);
        let mut live: Vec<(u64, u8)> = Vec::new();
        let mut dead: Vec<u64> = Vec::new();
        for step in steps {
            if let Some(value) = step {
                let key = slab.insert(value);
                prop_assert_eq!(key.is_some(), live.len() < 20);
                live.extend(key.map(|key| (key, value)));
            } else if let Some((key, value)) = live.pop() {
                prop_assert_eq!(slab.slot(key).and_then(|slot| slab.take(slot)), Some(value));
                dead.push(key);
            }
            prop_assert_eq!(slab.len(), live.len());
            for &(key, value) in &live {
                let slot = slab.slot(key);
                prop_assert_eq!(slot.and_then(|slot| slab.at(slot)), Some(&value));
                prop_assert_eq!(slot.and_then(|slot| slab.key(slot)), Some(key));
            }
            prop_assert!(dead.iter().all(|&key| key > 0 && slab.slot(key).is_none()));
        }
    }
}

#[test]
fn sorted_insertions_stay_shallow_and_in_order() {
    // A walk holds its path in 64 places; sorted input is the worst for an unbalanced tree.
    let mut tree = OrderTree::new();
    for key in 0..200_000u32 {
        tree.insert(key, 1, ());
    }
    for key in (0..200_000).step_by(2) {
        assert!(tree.remove(&key).is_some());
    }
    let keys: Vec<u32> = tree.iter_from(&0).map(|(key, ())| key).collect();
    assert_eq!(keys.len(), 100_000);
    assert!(keys.iter().zip(0..).all(|(&key, at)| key == 2 * at + 1));
    assert_eq!(tree.prefix(|&key| key < 1_000), (500, 500));
}

/// Grows to some ten thousand entries and shrinks to none, in random order: nodes of every level
/// are split, joined and emptied.
#[test]
fn a_tree_that_grows_and_shrinks_equals_a_sorted_map() {
    let (mut tree, mut model) = (OrderTree::new(), BTreeMap::new());
    let mut draws = Rng::new(11);
    for step in 0..80_000u64 {
        let key = (draws.below(400), draws.below(50));
        // Three in four are added at first, one in eight at last.
        if draws.below(40_000) < 40_000u64.saturating_sub(step).max(5_000) {
            if let Entry::Vacant(place) = model.entry(key) {
                place.insert((step, key.0));
                tree.insert(key, step, key.0);
            }
        } else {
            assert_eq!(tree.remove(&key), model.remove(&key).map(|(_, value)| value));
            let next = model.range(key..).next().map(|(&key, _)| key);
            if let Some(key) = next {
                assert_eq!(tree.remove(&key), model.remove(&key).map(|(_, value)| value));
            }
        }
        assert_eq!(tree.len(), model.len());
        if step % 499 == 0 {
            assert_same(&tree, &model, key);
        }
    }
    while let Some((key, (_, value))) = model.pop_first() {
        assert_eq!(tree.remove(&key), Some(value));
        if model.len() % 251 == 0 {
            assert_same(&tree, &model, key);
        }
    }
    assert_eq!((tree.first(), tree.is_empty()), (None, true));
}

type Key = (u64, u64);

fn assert_same(tree: &OrderTree<Key, u64>, model: &BTreeMap<Key, (u64, u64)>, key: Key) {
    let entries = |from: Key| model.range(from..).map(|(&key, &(_, value))| (key, value));
    assert!(tree.iter_from(&key).eq(entries(key)));
    assert!(tree.iter_from(&(0, 0)).eq(entries((0, 0))));
    assert_eq!(tree.last(), entries((0, 0)).next_back());
    let ahead = || model.range(..key).map(|(_, &(units, _))| units);
    assert_eq!(tree.prefix(|other| *other < key), (ahead().count(), ahead().sum()));
    assert_eq!(tree.prefix(|_| false), (0, 0));
    assert_eq!(tree.total_units(), model.values().map(|&(units, _)| units).sum::<u64>());
    for rank in [0, model.len() / 3, model.len()] {
        assert_eq!(tree.select(rank), entries((0, 0)).nth(rank));
    }
}

#[test]
fn slab_keys_start_where_they_are_told() {
    let mut handles = Slab::new(2, 0);
    assert_eq!(handles.insert('a'), Some(0));
    assert_eq!(handles.insert('b'), Some(1));
    assert_eq!(handles.insert('c'), None);
    assert_eq!(handles.take(0), Some('a'));
    assert_eq!(handles.insert('d'), Some(1 << 24));
    assert_eq!(Slab::new(1, 1).insert(()), Some(1 << 24));
}
