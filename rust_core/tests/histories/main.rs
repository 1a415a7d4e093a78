//! The scheduler on random histories, beside a model that keeps only who is where.
//!
//! Held at every step: each ticket ends exactly once, whatever the order of cancel, expire,
//! complete and removal; limits and deadlines hold for every batch; all counts agree.
#![allow(
    clippy::cast_possible_wrap, // small numbers throughout
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
mod step;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use step::step;
use support::cases;
use world::World;

fn every() -> ProptestConfig {
    cases(400, 20_240_511)
}

proptest! {
    #![proptest_config(every())]

    #[test]
    fn every_ticket_ends_once_and_nothing_leaks(steps in prop::collection::vec(step(), 1..250)) {
        let mut world = World::new()?;
        for step in &steps {
            world.take(step)?;
            world.check_counts()?;
        }
        world.wind_down()?;
    }

    #[test]
    fn same_calls_give_same_results(steps in prop::collection::vec(step(), 1..120)) {
        let mut worlds = [World::new()?, World::new()?];
        for step in &steps {
            for world in &mut worlds {
                world.take(step)?;
            }
            let [one, two] = &worlds;
            prop_assert_eq!(&one.executing, &two.executing);
            prop_assert!(one.live.keys().eq(two.live.keys()));
        }
    }
}

/// While every batch takes what the cost model says, a queued request is ended early only if no
/// replica, were it free, could still serve it in time.
#[test]
fn nobody_is_given_up_who_could_be_served() {
    let given_up = Cell::new(0);
    let ran = TestRunner::new(every()).run(&prop::collection::vec(step(), 1..250), |steps| {
        let mut world = World::new()?;
        world.is_exact = true;
        for step in &steps {
            world.take(step)?;
        }
        given_up.set(given_up.get() + world.num_given_up);
        Ok(())
    });
    assert!(ran.is_ok(), "{ran:?}");
    assert!(given_up.get() > 100, "only {} were given up", given_up.get());
}
