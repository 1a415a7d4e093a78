use super::{Shedder, Standing, Terms};
use crate::batch::Outlook;
use crate::batching::bars::{Bar, Bars};
use crate::batching::cost::BatchCost;

const MS: f64 = 1e6;

/// 18 ms + 0.022 ms a unit, quantum 58 ms, 32 requests a batch, tau 666 ms, no margin.
fn terms() -> Terms {
    Terms {
        cost: BatchCost { intercept_ns: 18.0 * MS, slope_ns: 0.022 * MS, margin: 1.0, spread: 0.0 },
        quantum_ns: 58.0 * MS,
        max_requests: 32.0,
        mean_units: 180.0,
        tau_ns: 666.0 * MS,
        least_ratio: 1.0,
    }
}

fn standing(slack_ms: f64, ahead: (f64, f64)) -> Standing {
    let (at_ns, since_ns) = (4_000_000_000, 3_984_000_000);
    Standing { at_ns, since_ns, slack_ns: slack_ms * MS, units: 100, relative_key: 0.0, ahead }
}

fn outlook(free_in_ms: f64) -> Outlook {
    Outlook { free_in_ns: free_in_ms * MS, speed: 1.0, num_replicas: 1 }
}

/// A shedder whose device took 58 ms for each batch, under `load`.
fn loaded(load: f64) -> Shedder {
    let mut shedder = Shedder::default();
    shedder.batch_took(58.0 * MS);
    for at in 0..4_000 {
        shedder.arrive(at * 1_000_000, load * MS, 666.0 * MS);
    }
    shedder
}

#[test]
fn room_is_that_of_the_boundaries_before_the_last_chance() {
    let shedder = Shedder { batch_ns: 58.0 * MS, ..Shedder::default() };
    let room_ms = |slack_ms, free_in_ms| {
        shedder
            .prospect(
                &standing(slack_ms, (0.0, 0.0)),
                &outlook(free_in_ms),
                &terms(),
                &Bars::default(),
            )
            .room_ns
            / MS
    };
    // Boundaries at 20, 78, 136: the one at 78 leaves 122 ms for a batch of 58.
    assert!((room_ms(200.0, 20.0) - 3.0 * 58.0).abs() < 1e-6);
    assert!((room_ms(190.0, 20.0) - 2.5 * 58.0).abs() < 1e-6); // that at 136 leaves 54: cut to 46
    assert!((room_ms(180.0, 20.0) - 2.0 * 58.0).abs() < 1e-6);
    assert!(room_ms(60.0, 20.0).abs() < 1e-6);
}

#[test]
fn what_has_no_room_is_refused_and_what_has_plenty_is_not() {
    let shedder = loaded(2.0);
    let refuses = |slack_ms, ahead| {
        let standing = standing(slack_ms, ahead);
        shedder.refusal(&standing, &outlook(20.0), &terms(), &Bars::default()).is_some()
    };
    assert!(refuses(60.0, (0.0, 0.0)));
    assert!(!refuses(500.0, (0.0, 0.0)));
    // 40,000 units are 880 ms of work and more than 20 batches.
    assert!(refuses(500.0, (200.0, 40_000.0)));
}

#[test]
fn nothing_is_refused_below_full_load() {
    let shedder = loaded(0.9);
    let standing = standing(60.0, (0.0, 0.0));
    let refusal = shedder.refusal(&standing, &outlook(20.0), &terms(), &Bars::default());
    assert_eq!(refusal, None);
}

/// Batches every 58 ms until the arrival comes, each with this bar.
fn barred(relative_key: f64) -> Bars {
    let mut bars = Bars::default();
    for at in (0..68_i64).rev() {
        let at_ns = 4_000_000_000 - at * 58_000_000;
        let log_gap = 16e6_f64.ln();
        bars.record(at_ns, &Bar { relative_key, units: 100 }, log_gap, 666.0 * MS, 1);
    }
    bars
}

#[test]
fn the_bars_of_the_past_decide_whatever_is_ahead() {
    let shedder = loaded(2.0);
    let refuses = |bar, units, ahead| {
        let standing = Standing { units, ..standing(500.0, ahead) };
        shedder.refusal(&standing, &outlook(20.0), &terms(), &barred(bar)).is_some()
    };
    let crowd = (200.0, 40_000.0);
    // Its last chance comes after some 400 ms, when it has aged by 0.6.
    assert!(!refuses(0.5, 16, crowd));
    assert!(refuses(0.8, 16, crowd));
    // 1,000 units are more than half a batch: what is ahead counts.
    assert!(refuses(0.5, 1_000, crowd));
}

#[test]
fn ample_room_is_a_chance_whatever_the_bars_were() {
    let shedder = loaded(2.0);
    let refuses = |ahead| {
        let standing = Standing { units: 16, ..standing(500.0, ahead) };
        shedder.refusal(&standing, &outlook(20.0), &terms(), &barred(5.0)).is_some()
    };
    // Eight batches of 58 ms, of which three quarters count: 348 ms.
    assert!(!refuses((40.0, 6_000.0))); // 192 ms
    assert!(refuses((80.0, 14_000.0))); // 447 ms
}

#[test]
fn early_answers_that_cost_too_much_get_rarer() {
    let mut shedder = loaded(2.0);
    // Nothing ahead, but more units than half a batch: the work decides, by a chance of about a half.
    let large = Standing { units: 1_000, ..standing(165.0, (35.0, 2_700.0)) };
    let prospect = shedder.prospect(&large, &outlook(20.0), &terms(), &Bars::default());
    assert!((0.3..0.65).contains(&prospect.chance), "{prospect:?}");
    let refuses = |shedder: &Shedder| {
        shedder.refusal(&large, &outlook(20.0), &terms(), &Bars::default()).is_some()
    };
    assert!(refuses(&shedder));
    for _ in 0..100 {
        shedder.tell();
        shedder.adjust(200.0, 150.0, 160.0, 1.0);
    }
    assert!(!refuses(&shedder));
}

/// 3 ms + 0.3 ms a unit: a request of 180 units takes 57 ms, about a quantum.
fn long_ones() -> Terms {
    let cost = BatchCost { intercept_ns: 3.0 * MS, slope_ns: 0.3 * MS, ..terms().cost };
    Terms { cost, ..terms() }
}

#[test]
fn who_has_a_batch_alone_is_judged_by_when_it_can_start() {
    let shedder = loaded(2.0);
    let refuses = |units, slack_ms, ahead| {
        let standing = Standing { units, ..standing(slack_ms, ahead) };
        shedder.refusal(&standing, &outlook(20.0), &long_ones(), &Bars::default()).is_some()
    };
    // Next, after 20 ms: 1,000 units take 303 ms, five usual batches.
    assert!(!refuses(1_000, 325.0, (0.0, 0.0)));
    assert!(refuses(1_000, 320.0, (0.0, 0.0)));
    // Three of 300 units before it take 279 ms, and 10 units 6: 305 ms.
    assert!(!refuses(10, 310.0, (3.0, 900.0)));
    assert!(refuses(10, 300.0, (3.0, 900.0)));
}

#[test]
fn the_load_is_doubted_less_where_few_long_requests_come() {
    let mut shedder = Shedder::default();
    for at in 0..26 {
        shedder.arrive(at * 1_000_000, 1.2 * MS, 666.0 * MS);
    }
    // 25 arrivals: 1.2 less a half of it, or less a tenth.
    let refuses = |terms| {
        let standing = standing(20.0, (0.0, 0.0));
        shedder.refusal(&standing, &outlook(20.0), &terms, &Bars::default()).is_some()
    };
    assert!(!refuses(terms()));
    assert!(refuses(long_ones()));
}
