use super::{Arrival, Order, WaitingList, MAX_WAITING};
use proptest::prelude::*;

const COUNTED: usize = 17;

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

fn insert(list: &mut WaitingList, key: f64, units: u64, but: Option<usize>) {
    let arrival = arrival(key, units);
    list.insert(list.place(arrival.order), &arrival, but);
}

fn keys(list: &WaitingList, shadow: usize) -> Vec<f64> {
    list.of_shadow(shadow).map(|(_, waiting)| waiting.relative_key).collect()
}

#[test]
fn a_full_list_forgets_the_lowest_key() {
    let mut list = WaitingList::new(COUNTED);
    for at in 0..MAX_WAITING {
        insert(&mut list, at as f64, 1, None);
    }
    insert(&mut list, -1.0, 1, None);
    insert(&mut list, 0.5, 1, None);
    assert_eq!(list.len(), MAX_WAITING);
    let keys = keys(&list, 0);
    assert_eq!(keys.len(), MAX_WAITING);
    assert_eq!(&keys[MAX_WAITING - 2..], &[1.0, 0.5]);
}

#[test]
fn chunks_that_have_emptied_are_used_again() {
    let mut list = WaitingList::new(COUNTED);
    for round in 0..50 {
        for at in 0..MAX_WAITING {
            insert(&mut list, (at * 7919 % MAX_WAITING) as f64, 1, None);
        }
        list.sweep(|waiting| waiting.relative_key < f64::from(round));
    }
    // 48 below 48 were left, 49 came, and a full list forgot the lowest 48.
    assert_eq!(list.len(), 49);
    assert!(list.chunks.len() + list.spare.len() <= 2 * MAX_WAITING / super::MERGE + 64);
}

#[derive(Clone, Debug)]
enum Step {
    Insert { key: i32, units: u64, but: Option<usize> },
    Leave { nth: usize, shadow: usize },
    Sweep { units: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..40, 1..500_u64, proptest::option::of(0..18_usize))
            .prop_map(|(key, units, but)| Step::Insert { key, units, but }),
        6 => (0..1_000_usize, 0..18_usize).prop_map(|(nth, shadow)| Step::Leave { nth, shadow }),
        1 => (1..500_u64).prop_map(|units| Step::Sweep { units }),
    ];
    proptest::collection::vec(step, 1..600)
}

/// A key, its units, and in which of 18 shadows it waits.
type Naive = Vec<(i32, u64, u32)>;

/// What exceeds 250 units goes after all that does not.
fn check_by_size(list: &WaitingList, naive: &Naive, key: i32) -> Result<(), TestCaseError> {
    let place = list.place(Order::of(f64::from(key)));
    for own in [250, 251] {
        let is_before = |at: &&(i32, u64, u32)| {
            let is_above = at.0 >= key;
            let is_first =
                if own > 250 { at.1 <= 250 || is_above } else { at.1 <= 250 && is_above };
            is_first && at.2 >> COUNTED & 1 == 1
        };
        let before = naive.iter().filter(is_before);
        let (requests, units) = before.fold((0, 0), |(n, sum), at| (n + 1, sum + at.1));
        prop_assert_eq!(list.ahead(place, own, 250), (f64::from(requests), units as f64));
    }
    Ok(())
}

fn check(list: &WaitingList, naive: &Naive) -> Result<(), TestCaseError> {
    prop_assert_eq!(list.len(), naive.len());
    for shadow in [0, 3, COUNTED] {
        let there = |at: &&(i32, u64, u32)| at.2 >> shadow & 1 == 1;
        let seen: Vec<_> = list
            .of_shadow(shadow)
            .map(|(handle, waiting)| (waiting.relative_key, list.at(handle).units))
            .collect();
        let wanted: Vec<_> = naive.iter().filter(there).map(|at| (f64::from(at.0), at.1)).collect();
        prop_assert_eq!(seen, wanted);
    }
    for key in [-1, 7, 20, 41] {
        let above = naive.iter().filter(|at| at.0 >= key && at.2 >> COUNTED & 1 == 1);
        let (requests, units) = above.fold((0, 0), |(n, sum), at| (n + 1, sum + at.1));
        let place = list.place(Order::of(f64::from(key)));
        prop_assert_eq!(list.ahead(place, 1, u64::MAX), (f64::from(requests), units as f64));
        check_by_size(list, naive, key)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn is_a_sorted_list_for_each_shadow(steps in steps()) {
        let mut list = WaitingList::new(COUNTED);
        let mut naive: Naive = Vec::new();
        for step in steps {
            match step {
                Step::Insert { key, units, but } => {
                    insert(&mut list, f64::from(key), units, but);
                    let at = naive.partition_point(|other| other.0 >= key);
                    let all = (1 << 18) - 1;
                    naive.insert(at, (key, units, but.map_or(all, |but| all & !(1 << but))));
                }
                Step::Leave { nth, shadow } => {
                    let mut there = naive.iter_mut().filter(|at| at.2 >> shadow & 1 == 1);
                    let handle = list.of_shadow(shadow).nth(nth % 97).map(|(handle, _)| handle);
                    if let (Some(handle), Some(at)) = (handle, there.nth(nth % 97)) {
                        list.leave(handle, shadow);
                        at.2 &= !(1 << shadow);
                    }
                }
                Step::Sweep { units } => {
                    list.sweep(|waiting| waiting.units % 7 != units % 7);
                    naive.retain(|at| at.2 != 0 && at.1 % 7 != units % 7);
                }
            }
            check(&list, &naive)?;
        }
    }
}
