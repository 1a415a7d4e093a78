//! What goes into a batch.

use super::ValuePolicy;
use crate::batch::{Formed, Lane, Site};
use crate::batching::cost::BatchCost;
use crate::batching::gather::{gather, put_low_first, OpenTo, Place};
use crate::batching::queue::NUM_LOW;
use crate::batching::select::{choose, hasty_allowed, Candidate, Choice};
use crate::check::to_ns;

impl ValuePolicy {
    /// Chooses a batch for a replica and takes its members off the queue.
    pub(super) fn form_batch(&mut self, site: &Site, out: &mut Vec<u32>) -> Formed {
        self.learn(site.now_ns);
        let place = self.place(site);
        let Some(choice) = self.choose(&place) else {
            let limits = &site.limits;
            let too_large = |candidate: &&Candidate| {
                candidate.rows > limits.rows || candidate.units > limits.units
            };
            let misfit = self.candidates.iter().find(too_large);
            return Formed::Nothing { too_large: misfit.map(|misfit| (misfit.rows, misfit.units)) };
        };
        self.settle(&place, choice.predicted_ns);
        let terms = self.shed_terms(self.mix.mean_deadline_ns());
        let usual_ns = self.taken.iter().map(|at| terms.usual_ns(self.candidates[*at].units)).sum();
        let scale = self.shedder.batch_formed(choice.predicted_ns * site.speed, usual_ns);
        for at in &self.taken {
            let Some(queued) = self.queue.remove(self.candidates[*at].handle) else { continue };
            if queued.item.lane == Lane::Interactive {
                let work_ns = scale * terms.usual_ns(queued.item.units);
                self.shedder.executed(queued.relative_key, work_ns, queued.is_long);
            }
            out.push(queued.slot);
        }
        Formed::Batch { reason: choice.reason, predicted_ns: to_ns(choice.predicted_ns) }
    }

    /// Chooses among the interactive lane and what the floors owe; the bulk lane fills the batch
    /// only if that leaves nobody behind who waits for an answer.
    fn choose(&mut self, place: &Place) -> Option<Choice> {
        let terms = place.terms();
        let owed_ns = self.floors_low.map(|floor| floor.owed_ns());
        let mut choice = None;
        for open_to in [OpenTo::Interactive, OpenTo::Both] {
            let floors = [&self.floor_large, &self.floor_bulk];
            gather(&self.queue, place, floors, open_to, &mut self.candidates);
            put_low_first(&self.queue, place, owed_ns, &mut self.candidates);
            choice = choose(&self.candidates, &terms, &mut self.taken);
            if self.queue.bulk.is_empty() || (choice.is_some() && self.leaves_interactive()) {
                break;
            }
        }
        choice
    }

    /// True if somebody who waits for an answer could have been in this batch, and is not.
    fn leaves_interactive(&self) -> bool {
        let is_interactive = |at: usize| {
            let queued = self.queue.get(self.candidates[at].handle);
            queued.is_some_and(|queued| queued.item.lane == Lane::Interactive)
        };
        let taken = self.taken.iter().filter(|at| is_interactive(**at)).count();
        (0..self.candidates.len()).filter(|at| is_interactive(*at)).nth(taken).is_some()
    }

    /// Accounts for the chosen batch: what it earned, and with all floors.
    fn settle(&mut self, place: &Place, predicted_ns: f64) {
        let (mut large_ns, mut bulk_ns, mut low_ns, mut room_ns) = (0.0, 0.0, [0.0; NUM_LOW], 0.0);
        let mut value = 0.0;
        for at in &self.taken {
            let Some(queued) = self.queue.get(self.candidates[*at].handle) else { continue };
            let run_ns = place.cost.share_ns(queued.item.units);
            room_ns += run_ns;
            value += self.value(&queued.item);
            if let Some(rank) = queued.low {
                low_ns[rank] += run_ns;
            }
            if queued.is_large {
                large_ns += run_ns;
            }
            if queued.item.lane == Lane::Bulk {
                bulk_ns += run_ns;
            }
        }
        self.earnings.add(value, predicted_ns);
        let left_behind = (self.taken.len() as u64) < self.queue.total().requests;
        self.floor_large.settle(large_ns, room_ns, left_behind && !self.queue.large.is_empty());
        self.floor_bulk.settle(bulk_ns, room_ns, left_behind && !self.queue.bulk.is_empty());
        if !self.leaves_interactive() {
            // What nobody else wanted is not held against it.
            self.floor_bulk.forgive();
        }
        for (rank, floor) in self.floors_low.iter_mut().enumerate() {
            let waiting = left_behind && !self.queue.low[rank].is_empty();
            floor.settle(low_ns[rank], room_ns, waiting);
        }
    }

    fn place(&self, site: &Site) -> Place {
        let cost = BatchCost::new(&site.expected, &site.judged).with_margin(self.fleet.cost.margin);
        Place {
            ready_ns: site.ready_ns,
            cost,
            limits: site.limits,
            quantum_ns: self.quantum_for(site.speed),
            least_ratio: self.quanta().least_ratio,
            most_hasty: hasty_allowed(self.fleet.replicas()),
        }
    }
}
