//! The first batch policy: earliest deadline first, judged again at dispatch.
use crate::batch::{BatchPolicy, BatchReason, Formed, Item, Lane, Limits, Site};
use crate::check::to_ns;
use crate::cost::Affine;
use crate::tree::OrderTree;

/// Requests that one lane's walk may pass over before the batch closes.
const MAX_MISFITS: u32 = 32;
/// A bulk lane that got nothing for so long leads the next batch it may lead, ns.
const BULK_PATIENCE_NS: i64 = 1_000_000_000;
/// The bulk lane leads at most one batch in so many.
const BULK_TURN: u32 = 8;

type Key = (i64, u64);

#[derive(Debug, Clone, Copy)]
struct Queued {
    slot: u32,
    item: Item,
}

/// Earliest deadline first, with two lanes.
///
/// The interactive lane goes first and bulk work fills what is left. Bound both ways: while bulk
/// work waits, it leads a batch as soon as it had none for 1 s and the last 7 were not its own.
#[derive(Debug)]
pub struct EdfPolicy {
    interactive: OrderTree<Key, Queued>,
    bulk: OrderTree<Key, Queued>,
    /// Largest request since the lanes were last empty; bounds what "surely in time" means.
    largest_units: u64,
    bulk_waits_since_ns: i64,
    batches_since_bulk_led: u32,
    chosen: Vec<(Lane, Key)>,
}

impl Default for EdfPolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// A batch in the making.
struct Draft<'a> {
    site: &'a Site,
    requests: u64,
    rows: u64,
    units: u64,
    max_requests: u64,
    deadline_ns: i64,
    /// Why the first request that could have run was left out.
    left_out: Option<BatchReason>,
    too_large: Option<(u64, u64)>,
}

impl<'a> Draft<'a> {
    fn new(site: &'a Site) -> Self {
        let max_requests = site.limits.requests;
        Self {
            site,
            requests: 0,
            rows: 0,
            units: 0,
            max_requests,
            deadline_ns: i64::MAX,
            left_out: None,
            too_large: None,
        }
    }

    fn is_full(&self) -> bool {
        self.requests >= self.max_requests
    }

    /// Adds the request, or says why it cannot join.
    fn add(&mut self, item: &Item) -> Result<(), BatchReason> {
        let limits = &self.site.limits;
        let (rows, units) = (self.rows + item.rows, self.units + item.units);
        let deadline_ns = self.deadline_ns.min(item.deadline_ns);
        if self.requests + 1 > self.max_requests.min(item.max_companions) {
            return Err(BatchReason::MaxRequests);
        }
        if rows > limits.rows {
            return Err(BatchReason::MaxRows);
        }
        if units > limits.units {
            return Err(BatchReason::MaxUnits);
        }
        if self.site.judged_end_ns(units) > deadline_ns {
            return Err(BatchReason::Deadline);
        }
        (self.rows, self.units, self.deadline_ns) = (rows, units, deadline_ns);
        self.requests += 1;
        self.max_requests = self.max_requests.min(item.max_companions);
        Ok(())
    }

    /// Offers a request that runs in time alone; false if it stays queued.
    fn offer(&mut self, item: &Item) -> bool {
        let Err(reason) = self.add(item) else { return true };
        let limits = &self.site.limits;
        if item.rows > limits.rows || item.units > limits.units {
            self.too_large.get_or_insert((item.rows, item.units));
        } else {
            self.left_out.get_or_insert(reason);
        }
        false
    }

    fn reason(&self) -> BatchReason {
        match self.left_out {
            None => BatchReason::QueueEmptied,
            Some(BatchReason::MaxRows | BatchReason::MaxUnits) if self.requests == 1 => {
                BatchReason::Oversized
            }
            Some(reason) => reason,
        }
    }
}

impl EdfPolicy {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self {
            interactive: OrderTree::new(),
            bulk: OrderTree::new(),
            largest_units: 0,
            bulk_waits_since_ns: 0,
            batches_since_bulk_led: BULK_TURN,
            chosen: Vec::new(),
        }
    }

    fn lane(&self, lane: Lane) -> &OrderTree<Key, Queued> {
        match lane {
            Lane::Interactive => &self.interactive,
            Lane::Bulk => &self.bulk,
        }
    }

    fn lane_mut(&mut self, lane: Lane) -> &mut OrderTree<Key, Queued> {
        match lane {
            Lane::Interactive => &mut self.interactive,
            Lane::Bulk => &mut self.bulk,
        }
    }

    fn bulk_leads(&self, now_ns: i64) -> bool {
        !self.bulk.is_empty()
            && self.batches_since_bulk_led >= BULK_TURN - 1
            && now_ns.saturating_sub(self.bulk_waits_since_ns) >= BULK_PATIENCE_NS
    }

    /// Fills the draft from one lane. Requests that are surely late are stepped over in one go;
    /// if the walk meets only misfits, it starts again where all are surely in time.
    fn fill(&mut self, lane: Lane, draft: &mut Draft<'_>) {
        let before = draft.requests;
        let exhausted = self.walk(lane, draft, draft.site.judged_end_ns(1));
        if !exhausted && draft.requests == before {
            let most = self.largest_units.min(draft.site.limits.units);
            self.walk(lane, draft, draft.site.judged_end_ns(draft.units.saturating_add(most)));
        }
    }

    /// Returns true if it saw every request from `start_ns` on.
    fn walk(&mut self, lane: Lane, draft: &mut Draft<'_>, start_ns: i64) -> bool {
        let mut chosen = std::mem::take(&mut self.chosen);
        let mut misfits = 0;
        let mut exhausted = true;
        for (key, queued) in self.lane(lane).iter_from(&(start_ns, 0)) {
            if draft.is_full() {
                draft.left_out.get_or_insert(BatchReason::MaxRequests);
                exhausted = false;
                break;
            }
            if draft.site.is_feasible(&queued.item) && draft.offer(&queued.item) {
                chosen.push((lane, key));
                continue;
            }
            misfits += 1;
            if misfits > MAX_MISFITS {
                exhausted = false;
                break;
            }
        }
        self.chosen = chosen;
        exhausted
    }

    /// Moves the chosen requests from the lanes to `out`.
    fn take_chosen(&mut self, now_ns: i64, out: &mut Vec<u32>) {
        let mut chosen = std::mem::take(&mut self.chosen);
        for (lane, key) in chosen.drain(..) {
            if let Some(queued) = self.lane_mut(lane).remove(&key) {
                out.push(queued.slot);
            }
            if lane == Lane::Bulk {
                self.bulk_waits_since_ns = now_ns;
            }
        }
        self.chosen = chosen;
    }
}

impl BatchPolicy for EdfPolicy {
    fn insert(&mut self, now_ns: i64, slot: u32, item: &Item) {
        if self.interactive.is_empty() && self.bulk.is_empty() {
            self.largest_units = 0;
        }
        if item.lane == Lane::Bulk && self.bulk.is_empty() {
            self.bulk_waits_since_ns = now_ns;
        }
        self.largest_units = self.largest_units.max(item.units);
        let key = (item.deadline_ns, item.order);
        self.lane_mut(item.lane).insert(key, item.units, Queued { slot, item: *item });
    }

    fn remove(&mut self, _slot: u32, item: &Item) {
        self.lane_mut(item.lane).remove(&(item.deadline_ns, item.order));
    }

    fn form(&mut self, site: &Site, out: &mut Vec<u32>) -> Formed {
        let mut draft = Draft::new(site);
        let bulk_leads = self.bulk_leads(site.now_ns);
        let lanes = if bulk_leads {
            [Lane::Bulk, Lane::Interactive]
        } else {
            [Lane::Interactive, Lane::Bulk]
        };
        for lane in lanes {
            self.fill(lane, &mut draft);
        }
        if draft.requests == 0 {
            return Formed::Nothing { too_large: draft.too_large };
        }
        self.take_chosen(site.now_ns, out);
        self.batches_since_bulk_led =
            if bulk_leads { 0 } else { self.batches_since_bulk_led.saturating_add(1) };
        let predicted_ns = to_ns(site.expected.at(draft.units).round());
        Formed::Batch { reason: draft.reason(), predicted_ns }
    }

    fn probe(&mut self, site: &Site) -> Option<u32> {
        for lane in [Lane::Interactive, Lane::Bulk] {
            let Some((key, queued)) = self.lane(lane).last() else { continue };
            let fits =
                queued.item.rows <= site.limits.rows && queued.item.units <= site.limits.units;
            if fits && queued.item.deadline_ns > site.now_ns {
                self.lane_mut(lane).remove(&key);
                return Some(queued.slot);
            }
        }
        None
    }

    fn work_ns(&self, now_ns: i64, cost: &Affine, limits: &Limits) -> f64 {
        let hopeless_ns = now_ns.saturating_add(to_ns(cost.at(1)));
        let (mut requests, mut units) = (0, 0);
        for lane in [&self.interactive, &self.bulk] {
            let (late, late_units) = lane.prefix(|key| key.0 < hopeless_ns);
            requests += (lane.len() - late) as u64;
            units += lane.total_units() - late_units;
        }
        let batches = requests.div_ceil(limits.requests).max(units.div_ceil(limits.units));
        cost.fixed_ns * batches as f64 + cost.unit_ns * units as f64
    }
}
