//! Who is given the next lane: by class, then by tenants' shares of lane time.
use std::collections::{BTreeMap, BTreeSet};

use crate::tree::OrderTree;

use super::Rank;

const CLASSES: usize = 3;
/// Tenants without outputs that are remembered for what they had; those with least go first.
const MAX_IDLE: usize = 4096;
/// How fast the usual cost of an output follows those that ended.
const COST_GAIN: f64 = 0.1;
/// Two tenants' outputs in hand over weight count as equal within this ratio: floats are rounded.
const ROUNDING: f64 = 1e-9;

/// An output that waits for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Key of its tenant.
    pub tenant: u64,
    /// 0 critical, 1 standard, 2 sheddable.
    pub class: usize,
    /// Its deadline; within a class of a tenant the earliest goes first.
    pub deadline_ns: i64,
    /// Its name, unique.
    pub id: u64,
}

/// One tenant's outputs.
#[derive(Debug)]
struct Flow {
    weight: f64,
    /// Lane time it had or was charged for, over its weight, in virtual time.
    tag: f64,
    waiting: [OrderTree<(i64, u64), ()>; CLASSES],
    writing: u64,
}

impl Flow {
    fn num_waiting(&self) -> u64 {
        self.waiting.iter().map(|class| class.len() as u64).sum()
    }

    fn in_hand(&self) -> u64 {
        self.num_waiting() + self.writing
    }

    fn crowding(&self) -> f64 {
        self.in_hand() as f64 / self.weight
    }
}

/// The outputs of one model version that wait, and what their tenants had of its lanes.
///
/// Lanes go to the higher class; within a class to the tenant with the least lane time over its
/// weight; within a tenant to the earliest deadline. A tenant is charged the expected lane time of
/// an output when that begins, and the difference when it ends; one that had nothing waiting
/// begins at the virtual time, so that having been away earns no credit. Every call is O(log n).
///
/// Source: start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) for a server of several
/// places, as in Jin, Chase, Kaur, "Interposed proportional sharing for a storage service
/// utility", SIGMETRICS 2004, section 4 (SFQ(D)); there costs are known, here they are settled.
#[derive(Debug)]
pub struct LaneShares {
    flows: BTreeMap<u64, Flow>,
    /// Tenants with something waiting in a class, by tag.
    order: [BTreeSet<(Rank, u64)>; CLASSES],
    /// The same tenants, by outputs in hand over weight.
    crowded: [BTreeSet<(Rank, u64)>; CLASSES],
    /// The weights of those.
    waiting_weight: [f64; CLASSES],
    waiting: [u64; CLASSES],
    /// Tenants with nothing in hand, by tag.
    idle: BTreeSet<(Rank, u64)>,
    /// Tag of the last output that began.
    virtual_time: f64,
    in_hand: u64,
    /// Weights of the tenants with something in hand.
    active_weight: f64,
    usual_cost: f64,
}

impl Default for LaneShares {
    fn default() -> Self {
        Self {
            flows: BTreeMap::new(),
            order: Default::default(),
            crowded: Default::default(),
            waiting_weight: [0.0; CLASSES],
            waiting: [0; CLASSES],
            idle: BTreeSet::new(),
            virtual_time: 0.0,
            in_hand: 0,
            active_weight: 0.0,
            usual_cost: 0.0,
        }
    }
}

impl LaneShares {
    /// Outputs that wait.
    #[must_use]
    pub fn num_waiting(&self) -> u64 {
        self.waiting.iter().sum()
    }

    /// Outputs that wait or are written.
    #[must_use]
    pub fn in_hand(&self) -> u64 {
        self.in_hand
    }

    /// Tenants that it remembers: those with outputs in hand, and at most 4096 others.
    #[must_use]
    pub fn num_tenants(&self) -> usize {
        self.flows.len()
    }

    /// An output begins to wait; its tenant's `weight`, > 0, is in force from here on.
    pub fn push(&mut self, output: &Waiting, weight: f64) {
        let (at, class) = (self.virtual_time, output.class);
        self.in_hand += 1;
        self.waiting[class] += 1;
        self.change(output.tenant, |flow| {
            flow.weight = weight;
            if flow.num_waiting() == 0 {
                flow.tag = flow.tag.max(at);
            }
            flow.waiting[class].insert((output.deadline_ns, output.id), 1, ());
        });
    }

    /// The output that begins next.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        (0..CLASSES).find_map(|class| {
            let tenant = self.order[class].first()?.1;
            self.flows.get(&tenant)?.waiting[class].first().map(|((_, id), ())| id)
        })
    }

    /// A waiting output leaves without having begun.
    pub fn withdraw(&mut self, output: &Waiting) {
        self.in_hand -= 1;
        self.waiting[output.class] -= 1;
        self.change(output.tenant, |flow| take(flow, output));
        self.forget();
    }

    /// A waiting output gets a lane; `cost` is the lane time expected of it, >= 0.
    pub fn begin(&mut self, output: &Waiting, cost: f64) {
        self.waiting[output.class] -= 1;
        let tag = self.flows.get(&output.tenant).map_or(0.0, |flow| flow.tag);
        self.virtual_time = self.virtual_time.max(tag);
        self.change(output.tenant, |flow| {
            take(flow, output);
            flow.tag += cost / flow.weight;
            flow.writing += 1;
        });
        self.forget();
    }

    /// An output that began waits again, by no fault of its tenant: its charge is given back.
    pub fn give_back(&mut self, output: &Waiting, cost: f64) {
        self.waiting[output.class] += 1;
        self.change(output.tenant, |flow| {
            flow.tag -= cost / flow.weight;
            flow.writing -= 1;
            flow.waiting[output.class].insert((output.deadline_ns, output.id), 1, ());
        });
    }

    /// An output that began with a charge of `cost` has ended and used `used`, both lane time.
    pub fn end(&mut self, tenant: u64, cost: f64, used: f64) {
        self.in_hand -= 1;
        let gain = if self.usual_cost > 0.0 { COST_GAIN } else { 1.0 };
        self.usual_cost += gain * (used - self.usual_cost);
        self.change(tenant, |flow| {
            flow.tag += (used - cost) / flow.weight;
            flow.writing -= 1;
        });
        self.forget();
    }

    /// The waiting output that gives way to an arrival: of a lower class, the lowest first, or, in
    /// the arrival's own class, of a tenant that has more in hand over its weight even after the
    /// exchange. Of the tenant with most in hand; its latest deadline.
    #[must_use]
    pub fn victim(&self, class: usize, tenant: u64, weight: f64) -> Option<Waiting> {
        let lower = (class + 1..CLASSES).rev().find_map(|lower| self.last_of(lower, 0.0));
        let mine = self.flows.get(&tenant).map_or(0, Flow::in_hand);
        let with_it = (mine + 1) as f64 / weight;
        lower.or_else(|| self.last_of(class, with_it * (1.0 + ROUNDING)))
    }

    /// Outputs that would begin before an arrival, if outputs cost alike and none comes later.
    ///
    /// By the time that its tenant has begun k outputs, another has begun at most k times as many
    /// as their weights are apart.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count, clamped
    pub fn ahead(&self, output: &Waiting, weight: f64) -> u64 {
        let (flow, class) = (self.flows.get(&output.tenant), output.class);
        let higher: u64 = self.waiting[..class].iter().sum();
        let own_class = flow.map(|flow| &flow.waiting[class]);
        let at = (output.deadline_ns, output.id);
        let before = own_class.map_or(0, |own| own.prefix(|key| *key < at).0);
        let own = own_class.map_or(0, OrderTree::len);
        let others = self.waiting[class] - own as u64;
        let own_weight = flow.filter(|_| own > 0).map_or(0.0, |flow| flow.weight);
        let their_weight = (self.waiting_weight[class] - own_weight).max(0.0);
        let lead = flow.map_or(0.0, |flow| flow.tag - self.virtual_time).max(0.0) * weight;
        let debt = if self.usual_cost > 0.0 { lead / self.usual_cost } else { 0.0 };
        let theirs = ((before as f64 + 1.0 + debt) * their_weight / weight).ceil();
        higher + before as u64 + others.min(theirs as u64)
    }

    /// What a tenant has in hand over its share of all that is in hand; 1 for exactly that.
    #[must_use]
    pub fn over(&self, tenant: u64) -> f64 {
        let Some(flow) = self.flows.get(&tenant).filter(|flow| flow.in_hand() > 0) else {
            return 0.0;
        };
        (flow.in_hand() as f64 / self.in_hand as f64) * (self.active_weight / flow.weight)
    }

    /// The last waiting output of a class, of the tenant that has most in hand, above `least`.
    fn last_of(&self, class: usize, least: f64) -> Option<Waiting> {
        let (crowding, tenant) = *self.crowded[class].last()?;
        if crowding.0 <= least {
            return None;
        }
        let (deadline_ns, id) = self.flows.get(&tenant)?.waiting[class].last()?.0;
        Some(Waiting { tenant, class, deadline_ns, id })
    }

    /// Changes a tenant, and puts it where it then belongs.
    fn change(&mut self, tenant: u64, change: impl FnOnce(&mut Flow)) {
        self.unlink(tenant);
        let flow = self.flows.entry(tenant).or_insert_with(|| Flow {
            weight: 1.0,
            tag: 0.0,
            waiting: Default::default(),
            writing: 0,
        });
        change(flow);
        self.link(tenant);
    }

    fn link(&mut self, tenant: u64) {
        let Some(flow) = self.flows.get(&tenant) else { return };
        let tag = (Rank(flow.tag), tenant);
        if flow.in_hand() == 0 {
            self.idle.insert(tag);
            return;
        }
        self.active_weight += flow.weight;
        for (class, waiting) in flow.waiting.iter().enumerate() {
            if !waiting.is_empty() {
                self.order[class].insert(tag);
                self.crowded[class].insert((Rank(flow.crowding()), tenant));
                self.waiting_weight[class] += flow.weight;
            }
        }
    }

    fn unlink(&mut self, tenant: u64) {
        let Some(flow) = self.flows.get(&tenant) else { return };
        let tag = (Rank(flow.tag), tenant);
        if flow.in_hand() == 0 {
            self.idle.remove(&tag);
            return;
        }
        self.active_weight -= flow.weight;
        for (class, waiting) in flow.waiting.iter().enumerate() {
            if !waiting.is_empty() {
                self.order[class].remove(&tag);
                self.crowded[class].remove(&(Rank(flow.crowding()), tenant));
                self.waiting_weight[class] -= flow.weight;
            }
            if self.order[class].is_empty() {
                self.waiting_weight[class] = 0.0; // no rounding either
            }
        }
    }

    /// Forgets tenants that would begin anew at the virtual time as well. With nothing in hand
    /// nobody is owed anything, and time begins anew too.
    fn forget(&mut self) {
        if self.in_hand == 0 {
            self.flows.clear();
            self.idle.clear();
            (self.virtual_time, self.active_weight) = (0.0, 0.0);
        }
        while let Some(&(tag, tenant)) = self.idle.first() {
            if tag.0 > self.virtual_time && self.idle.len() <= MAX_IDLE {
                return;
            }
            self.idle.remove(&(tag, tenant));
            self.flows.remove(&tenant);
        }
    }
}

fn take(flow: &mut Flow, output: &Waiting) {
    flow.waiting[output.class].remove(&(output.deadline_ns, output.id));
}
