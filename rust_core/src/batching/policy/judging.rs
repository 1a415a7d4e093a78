//! Which arrivals are refused, and what the shadows make of them.

use super::ValuePolicy;
use crate::batch::{Item, Lane, Outlook, Shed};
use crate::batching::index::Order;
use crate::batching::shadow::Arrival;
use crate::batching::shed::{self, Standing};

impl ValuePolicy {
    /// Judges an arrival: counts it, shows it to the shadows, and refuses it if it will not be served.
    pub(super) fn judge_arrival(
        &mut self,
        now_ns: i64,
        item: &Item,
        outlook: &Outlook,
    ) -> Option<Shed> {
        let clock = self.pass_time(now_ns);
        self.record(now_ns, item);
        if item.lane == Lane::Bulk {
            return None;
        }
        let shape = self.shape_now();
        let key = self.key(now_ns, item, &shape, &clock);
        let order = Order::of(key);
        let terms = self.shed_terms(shape.tau_ns());
        self.shedder.arrive(now_ns, terms.least_ns(item.units), shape.tau_ns());
        self.fleet.fit_units = terms.fit_units();
        let ahead = self.queue.ahead(order, item.units > self.fleet.fit_units);
        let standing = Standing {
            at_ns: now_ns,
            since_ns: self.learner.since_ns(),
            slack_ns: item.deadline_ns.saturating_sub(now_ns) as f64,
            units: item.units,
            relative_key: clock.relative(key),
            ahead: (ahead.requests as f64, ahead.units as f64),
        };
        let is_idle = self.queue.interactive.is_empty() && outlook.free_in_ns <= 0.0;
        let is_judged = self.settings.shed_early && !is_idle && !self.is_doubtful(now_ns);
        let refused = is_judged
            .then(|| self.shedder.refusal(&standing, outlook, &terms, self.learner.bars()))
            .flatten()
            .filter(|prospect| !self.floor_serves(item, prospect.room_ns));
        if refused.is_some() {
            self.shedder.tell();
        }
        let arrival = Arrival {
            at_ns: now_ns,
            order,
            deadline_ns: item.deadline_ns,
            units: item.units,
            rows: item.rows,
            weight: self.weight(item),
            relative_key: standing.relative_key,
            since_ns: standing.since_ns,
            tau_ns: terms.tau_ns,
        };
        self.feed_shadows(arrival, &terms);
        refused.map(|prospect| Shed {
            clear_ns: prospect.clear_ns,
            room_ns: prospect.room_ns,
            odds: self.shedder.odds(&prospect),
        })
    }

    pub(super) fn shed_terms(&self, tau_ns: f64) -> shed::Terms {
        shed::Terms {
            cost: self.fleet.cost,
            quantum_ns: self.quantum_for(self.fleet.speeds[0]),
            max_requests: self.max_requests(),
            mean_units: self.mix.mean_units(),
            tau_ns,
            least_ratio: self.quanta().least_ratio,
        }
    }

    /// True if the floor for the largest will have time for it, whatever its key.
    fn floor_serves(&self, item: &Item, room_ns: f64) -> bool {
        let units = self.queue.large.total().units + item.units;
        item.units as f64 >= self.large_units
            && self.fleet.cost.slope_ns * units as f64 <= self.settings.large_share * room_ns
    }

    /// Passes an arrival on to the shadows; of a fleet larger than theirs, only a share.
    fn feed_shadows(&mut self, arrival: Arrival, terms: &shed::Terms) {
        self.shadow_credit += self.fleet.share;
        if self.shadow_credit < 1.0 {
            return;
        }
        self.shadow_credit -= 1.0;
        let shedder = &self.shedder;
        self.learner.arrive(arrival, &self.fleet, |standing, outlook, bars| {
            shedder.refusal(standing, outlook, terms, bars).is_some()
        });
    }

    /// Lets the shadows catch up, and the shedder learn from them.
    pub(super) fn learn(&mut self, now_ns: i64) {
        let terms = self.shed_terms(self.mix.mean_deadline_ns());
        let shedder = &self.shedder;
        let served =
            self.learner.advance(now_ns, &self.mix, &self.fleet, |standing, outlook, bars| {
                shedder.refusal(standing, outlook, &terms, bars).is_some()
            });
        if let Some((arrivals, with, without)) = served {
            self.shedder.adjust(arrivals, with, without, self.fleet.total_speed());
        }
    }
}
