use super::{Item, Lane, Order, Priority, Queue, Queued};
use proptest::prelude::*;

fn queued(slot: u32, key: i32, units: u64, lane: Lane) -> Queued {
    let item = Item {
        units,
        rows: 1,
        deadline_ns: 1_000,
        arrived_ns: 0,
        order: u64::from(slot),
        weight: 1.0,
        priority: Priority::Standard,
        lane,
        max_companions: u64::MAX,
    };
    Queued {
        slot,
        item,
        order: Order::of(f64::from(key)),
        relative_key: 0.0,
        last_start_ns: 900,
        epoch: 0,
        is_large: false,
        is_long: lane == Lane::Interactive && units > 250,
        low: None,
    }
}

proptest! {
    /// What exceeds 250 units goes after all that does not, whatever the keys.
    #[test]
    fn long_ones_go_last(
        requests in prop::collection::vec((-20..20_i32, 1..500_u64, any::<bool>(), any::<bool>()), 0..80),
        key in -21..21_i32,
    ) {
        let mut queue = Queue::default();
        let mut there = Vec::new();
        for (slot, (key, units, is_bulk, leaves)) in (0_u32..).zip(requests) {
            let lane = if is_bulk { Lane::Bulk } else { Lane::Interactive };
            queue.insert(queued(slot, key, units, lane));
            if leaves {
                queue.remove_slot(slot);
            } else if !is_bulk {
                there.push((key, units));
            }
        }
        for is_long in [false, true] {
            let ahead = queue.ahead(Order::of(f64::from(key)), is_long);
            let goes_first = |other: &&(i32, u64)| match (is_long, other.1 > 250) {
                (false, true) => false,
                (true, false) => true,
                _ => other.0 > key,
            };
            let first = there.iter().filter(goes_first);
            let wanted = first.fold((0, 0), |(n, units), other| (n + 1, units + other.1));
            prop_assert_eq!((ahead.requests, ahead.units), wanted);
        }
    }
}
