//! Lanes beside naive models, on random histories.
#![allow(
    clippy::cast_possible_wrap, // small numbers throughout
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
mod support;

use std::collections::BTreeMap;

use headway_core::lanes::{Expected, LaneEnds, LaneShares, ReplicaSpeeds, Waiting};
use proptest::prelude::*;

use support::cases;

const WEIGHTS: [f64; 4] = [1.0, 1.0, 3.0, 0.25];

/// One thing that happens to the outputs of a model version.
#[derive(Debug, Clone)]
enum Step {
    Push { tenant: u64, class: usize, deadline_ns: i64 },
    Begin { cost: u32 },
    GiveBack { which: usize },
    Withdraw { which: usize },
    End { which: usize, used: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4u64, 0..3usize, 0..50i64)
            .prop_map(|(tenant, class, deadline_ns)| Step::Push { tenant, class, deadline_ns }),
        5 => (0..100u32).prop_map(|cost| Step::Begin { cost }),
        1 => (0..8usize).prop_map(|which| Step::GiveBack { which }),
        1 => (0..8usize).prop_map(|which| Step::Withdraw { which }),
        3 => (0..8usize, 0..200u32).prop_map(|(which, used)| Step::End { which, used }),
    ]
}

/// The rule, by scans: nothing is indexed, and no tenant is forgotten while anything is in hand.
#[derive(Default)]
struct Naive {
    waiting: Vec<Waiting>,
    writing: Vec<(Waiting, f64)>,
    tags: BTreeMap<u64, f64>,
    virtual_time: f64,
}

impl Naive {
    fn tag(&self, tenant: u64) -> f64 {
        self.tags.get(&tenant).copied().unwrap_or(0.0)
    }

    fn in_hand(&self, tenant: u64) -> u64 {
        let waiting = self.waiting.iter().filter(|output| output.tenant == tenant).count();
        let begun = self.writing.iter().filter(|output| output.0.tenant == tenant).count();
        (waiting + begun) as u64
    }

    fn crowding(&self, tenant: u64) -> f64 {
        self.in_hand(tenant) as f64 / WEIGHTS[tenant as usize]
    }

    fn first(&self) -> Option<Waiting> {
        let mut order = self.waiting.clone();
        order.sort_by(|one, two| {
            let tags = self.tag(one.tenant).total_cmp(&self.tag(two.tenant));
            let tenants = tags.then(one.tenant.cmp(&two.tenant));
            let within = (one.deadline_ns, one.id).cmp(&(two.deadline_ns, two.id));
            one.class.cmp(&two.class).then(tenants).then(within)
        });
        order.first().copied()
    }

    fn victim(&self, class: usize, tenant: u64) -> Option<Waiting> {
        let mine = (self.in_hand(tenant) + 1) as f64 / WEIGHTS[tenant as usize];
        let key = |output: &Waiting| (self.crowding(output.tenant), output.tenant);
        let mut better: Vec<Waiting> = self.waiting.clone();
        better.retain(|output| {
            output.class > class || (output.class == class && key(output).0 > mine + 1e-6)
        });
        better.into_iter().max_by(|one, two| {
            let crowding = key(one).0.total_cmp(&key(two).0).then(one.tenant.cmp(&two.tenant));
            let within = (one.deadline_ns, one.id).cmp(&(two.deadline_ns, two.id));
            one.class.cmp(&two.class).then(crowding).then(within)
        })
    }

    fn over(&self, tenant: u64) -> f64 {
        let active = (0..4).filter(|&other| self.in_hand(other) > 0);
        let weight: f64 = active.map(|other| WEIGHTS[other as usize]).sum();
        let all = self.waiting.len() + self.writing.len();
        if self.in_hand(tenant) == 0 {
            return 0.0;
        }
        self.in_hand(tenant) as f64 / all as f64 * weight / WEIGHTS[tenant as usize]
    }

    fn rest(&mut self) {
        if self.waiting.is_empty() && self.writing.is_empty() {
            self.tags.clear();
            self.virtual_time = 0.0;
        }
    }
}

fn take<T>(list: &mut Vec<T>, which: usize) -> Option<T> {
    let count = list.len();
    (count > 0).then(|| list.remove(which % count))
}

fn apply(step: &Step, id: u64, core: &mut LaneShares, model: &mut Naive) {
    match *step {
        Step::Push { tenant, class, deadline_ns } => {
            let output = Waiting { tenant, class, deadline_ns, id };
            core.push(&output, WEIGHTS[tenant as usize]);
            if !model.waiting.iter().any(|other| other.tenant == tenant) {
                let tag = model.tag(tenant).max(model.virtual_time);
                model.tags.insert(tenant, tag);
            }
            model.waiting.push(output);
        }
        Step::Begin { cost } => {
            let Some(output) = model.first() else { return };
            core.begin(&output, f64::from(cost));
            model.waiting.retain(|other| *other != output);
            model.virtual_time = model.virtual_time.max(model.tag(output.tenant));
            let weight = WEIGHTS[output.tenant as usize];
            *model.tags.entry(output.tenant).or_default() += f64::from(cost) / weight;
            model.writing.push((output, f64::from(cost)));
        }
        Step::GiveBack { which } => {
            let Some((output, cost)) = take(&mut model.writing, which) else { return };
            core.give_back(&output, cost);
            *model.tags.entry(output.tenant).or_default() -= cost / WEIGHTS[output.tenant as usize];
            model.waiting.push(output);
        }
        Step::Withdraw { which } => {
            let Some(output) = take(&mut model.waiting, which) else { return };
            core.withdraw(&output);
        }
        Step::End { which, used } => {
            let Some((output, cost)) = take(&mut model.writing, which) else { return };
            core.end(output.tenant, cost, f64::from(used));
            let weight = WEIGHTS[output.tenant as usize];
            *model.tags.entry(output.tenant).or_default() += (f64::from(used) - cost) / weight;
        }
    }
    model.rest();
}

/// Lane time of two tenants that always wait, on `lanes` lanes, over their weights.
fn served(lanes: usize, weights: [f64; 2], costs: &[u32]) -> [f64; 2] {
    let mut core = LaneShares::default();
    let (mut id, mut now, mut drawn) = (0, 0, costs.iter().cycle());
    let (mut busy, mut had): (Vec<(u64, u64, f64)>, [f64; 2]) = (Vec::new(), [0.0; 2]);
    let mut waiting = BTreeMap::new();
    for _ in 0..400 {
        for tenant in [0, 1] {
            while waiting.values().filter(|output: &&Waiting| output.tenant == tenant).count() < 2 {
                id += 1;
                let output = Waiting { tenant, class: 1, deadline_ns: 0, id };
                core.push(&output, weights[tenant as usize]);
                waiting.insert(id, output);
            }
        }
        while busy.len() < lanes {
            let Some(output) = core.first().and_then(|first| waiting.remove(&first)) else { break };
            let cost = f64::from(*drawn.next().unwrap_or(&1));
            core.begin(&output, cost);
            busy.push((now + cost as u64, output.tenant, cost));
            had[output.tenant as usize] += cost / weights[output.tenant as usize];
            if waiting.len() < 3 {
                break; // both must wait at every choice
            }
        }
        if busy.len() == lanes {
            busy.sort_unstable_by(|one, two| two.0.cmp(&one.0).then(two.1.cmp(&one.1)));
            if let Some((at, tenant, cost)) = busy.pop() {
                now = at;
                core.end(tenant, cost, cost);
            }
        }
    }
    had
}

proptest! {
    #![proptest_config(cases(300, 20_261_130))]

    #[test]
    fn who_begins_and_who_gives_way_is_as_scans_say(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let (mut core, mut model) = (LaneShares::default(), Naive::default());
        for (id, step) in steps.iter().enumerate() {
            apply(step, id as u64, &mut core, &mut model);
            prop_assert_eq!(core.first(), model.first().map(|output| output.id));
            prop_assert_eq!(core.num_waiting(), model.waiting.len() as u64);
            let in_hand = model.waiting.len() + model.writing.len();
            prop_assert_eq!(core.in_hand(), in_hand as u64);
            for tenant in 0..4 {
                prop_assert!((core.over(tenant) - model.over(tenant)).abs() < 1e-6);
                for class in 0..3 {
                    let victim = core.victim(class, tenant, WEIGHTS[tenant as usize]);
                    prop_assert_eq!(victim, model.victim(class, tenant));
                }
            }
            prop_assert!(in_hand > 0 || core.num_tenants() == 0);
        }
    }

    /// The bound of SFQ(D): (D + 1) (largest cost / one weight + largest cost / the other).
    #[test]
    fn two_that_always_wait_are_apart_by_no_more_than_theory_allows(
        lanes in 1..9usize,
        weights in (0..4usize, 0..4usize),
        costs in prop::collection::vec(1..50u32, 1..30),
    ) {
        let weights = [WEIGHTS[weights.0], WEIGHTS[weights.1]];
        let [one, two] = served(lanes, weights, &costs);
        let largest = f64::from(*costs.iter().max().unwrap_or(&1));
        let bound = (lanes + 1) as f64 * (largest / weights[0] + largest / weights[1]);
        prop_assert!((one - two).abs() <= bound, "{one} and {two}, bound {bound}");
    }

    /// Each tenant may be one output further than its part of the rounds.
    #[test]
    fn as_many_begin_before_an_arrival_as_was_said(
        queued in prop::collection::vec((0..4u64, 0..3usize, 0..50i64), 0..60),
        arrival in (0..4u64, 0..3usize, 0..50i64),
    ) {
        let mut core = LaneShares::default();
        let mut all = BTreeMap::new();
        for (id, &(tenant, class, deadline_ns)) in (0..).zip(&queued) {
            let output = Waiting { tenant, class, deadline_ns, id };
            core.push(&output, WEIGHTS[tenant as usize]);
            all.insert(id, output);
        }
        let (tenant, class, deadline_ns) = arrival;
        let weight = WEIGHTS[tenant as usize];
        let last = Waiting { tenant, class, deadline_ns, id: 1_000 };
        let said = core.ahead(&last, weight);
        core.push(&last, weight);
        all.insert(last.id, last);
        let mut begun = 0;
        while let Some(id) = core.first().filter(|&id| id != last.id) {
            core.begin(&all[&id], 1.0);
            begun += 1;
        }
        prop_assert!(begun <= said + 3, "{begun} began before it, {said} were said");
        let tenants: std::collections::BTreeSet<u64> = queued.iter().map(|each| each.0).collect();
        if tenants.iter().all(|&other| other == tenant) {
            prop_assert_eq!(begun, said);
        }
    }

    #[test]
    fn lanes_fall_free_in_the_order_of_a_sorted_list(
        steps in prop::collection::vec((0..5u8, 1..100i64, 1..300i64, 0..12u64), 1..150),
    ) {
        let (mut core, mut now, mut usual) = (LaneEnds::default(), 0, 0.0);
        // By id: begin of the wait, expected end, hold, end of the budget.
        let mut model: BTreeMap<u64, (i64, i64, i64)> = BTreeMap::new();
        for (id, &(kind, hold_ns, more_ns, place)) in (0..).zip(&steps) {
            match kind {
                0..=1 => {
                    let longest_ns = hold_ns.max(more_ns);
                    core.begin(now, id, Expected { hold_ns, longest_ns });
                    model.insert(id, (now + hold_ns, hold_ns, now + longest_ns));
                }
                2 => {
                    core.remove(place);
                    model.remove(&place);
                }
                3 => {
                    core.learn(hold_ns);
                    let gain = if usual > 0.0 { 0.1 } else { 1.0 };
                    usual += gain * (hold_ns as f64 - usual);
                }
                _ => now += hold_ns,
            }
            for lane in model.values_mut().filter(|lane| lane.0 <= now) {
                lane.0 = (now + lane.1).min(lane.2).max(now + lane.1 / 8 + 1);
            }
            let mut ends: Vec<i64> = model.values().map(|lane| lane.0 - now).collect();
            ends.sort_unstable();
            let count = ends.len() as u64;
            let mean = model.values().map(|lane| lane.1 as f64).sum::<f64>() / count as f64;
            let each = if usual > 0.0 { usual } else { mean };
            let expected = (count > 0).then(|| {
                ends[(place % count) as usize] + ((place / count) as f64 * each) as i64
            });
            prop_assert_eq!(core.wait_ns(now, place), expected.unwrap_or(0));
            prop_assert_eq!(core.len(), model.len());
        }
    }

    #[test]
    fn the_quickest_replica_is_the_one_that_a_scan_finds(
        changes in prop::collection::vec((0..12u64, 0..1_000u64, 1..1_000_000u32, 0..5u8), 1..60),
        question in (1..400u32, 0..500u32, 0..200u32),
    ) {
        let (mut core, mut fleet) = (ReplicaSpeeds::default(), BTreeMap::new());
        let (scale, silent_ns) = (f64::from(question.0) / 100.0, f64::from(question.1));
        let num_gaps = f64::from(question.2) / 1_000.0;
        for (replica, wait_ns, gap_ns, kind) in changes {
            if kind == 0 {
                core.remove(replica);
                fleet.remove(&replica);
            } else {
                // A fifth of them says nothing of its wait.
                let wait_ns = if kind == 1 { 0 } else { wait_ns };
                core.set(replica, wait_ns, f64::from(gap_ns));
                fleet.insert(replica, (wait_ns, f64::from(gap_ns)));
            }
            let times = fleet.values().map(|&(wait_ns, gap_ns)| {
                let first_ns = if wait_ns > 0 { scale * wait_ns as f64 } else { silent_ns };
                first_ns + num_gaps * gap_ns
            });
            let least = times.fold(f64::INFINITY, f64::min);
            let found = core.quickest(scale, silent_ns, num_gaps);
            prop_assert_eq!(found.is_some(), !fleet.is_empty());
            let Some(found) = found else { continue };
            let (wait_ns, gap_ns) = fleet[&found.replica];
            let first_ns = if wait_ns > 0 { scale * wait_ns as f64 } else { silent_ns };
            prop_assert_eq!((found.first_ns, found.rest_ns), (first_ns, num_gaps * gap_ns));
            let total = found.first_ns + found.rest_ns;
            prop_assert!(found.bound_ns <= least + 1e-6 && least <= total + 1e-6);
            prop_assert!(total - found.bound_ns <= (2f64.powf(1.0 / 16.0) - 1.0) * total + 1e-6);
        }
    }
}

#[test]
fn a_tenant_that_was_alone_owes_nothing_and_one_that_was_away_is_owed_nothing() {
    let mut core = LaneShares::default();
    let output = |tenant, id| Waiting { tenant, class: 1, deadline_ns: 0, id };
    for id in 0..100 {
        core.push(&output(1, id), 1.0);
    }
    for id in 0..50 {
        core.begin(&output(1, id), 10.0);
    }
    for id in 100..150 {
        core.push(&output(2, id), 1.0);
    }
    // From here on by turns, the newcomer first.
    let mut begun = Vec::new();
    while let Some(id) = core.first().filter(|_| begun.len() < 6) {
        let tenant = if id < 100 { 1 } else { 2 };
        core.begin(&output(tenant, id), 10.0);
        begun.push(tenant);
    }
    assert_eq!(begun, [2, 1, 2, 1, 2, 1]);
}

#[test]
fn idle_tenants_are_forgotten_and_their_number_is_bounded() {
    let mut core = LaneShares::default();
    let output = |tenant, id| Waiting { tenant, class: 1, deadline_ns: 0, id };
    core.push(&output(0, 0), 1.0); // waits on, so that nothing begins anew
    for tenant in 1..10_000 {
        core.push(&output(tenant, tenant), 1.0);
        core.begin(&output(tenant, tenant), 5.0);
        core.end(tenant, 5.0, 5.0);
    }
    assert_eq!(core.num_tenants(), 4_097);
}
