//! Lanes, costs and the frames in flight: the state behind the decisions.
use std::collections::{BTreeMap, VecDeque};

use super::catalogue::Catalogue;
use super::cost::{Execution, Purpose};
use super::cost_table::CostTable;
use super::frame::{cost_ns, expected_work, take, Frame, Outcome, Share, Step};
use super::lane::{check_acceptance, yields, Lane, LaneSpec, Service, Work};
use super::ledger::Ledger;
use super::score::Cohort;
use super::selector::{self, Candidate, Choice, Context, Pause};
use super::settings::Settings;
use super::view::LaneView;
use crate::error::CoreError;

/// Schedules the steps of one device. Deterministic; every instant is an argument.
#[derive(Debug, Clone)]
pub struct StepScheduler {
    settings: Settings,
    table: CostTable,
    ledger: Ledger,
    lanes: BTreeMap<u32, Lane>,
    frames: VecDeque<Frame>,
    next_lane: u32,
    next_frame: u64,
    completed_at_ns: i64,
}

impl StepScheduler {
    /// Most frames in flight.
    pub const MAX_FRAMES: usize = 2;

    /// Nothing measured, no lanes.
    ///
    /// # Errors
    /// Names a setting out of range.
    pub fn new(catalogue: Catalogue, settings: Settings) -> Result<Self, CoreError> {
        settings.check()?;
        Ok(Self {
            table: CostTable::new(catalogue, settings.costs),
            ledger: Ledger::new(settings.costs.probe_share, settings.costs.credit_cap_ns),
            settings,
            lanes: BTreeMap::new(),
            frames: VecDeque::with_capacity(Self::MAX_FRAMES),
            next_lane: 0,
            next_frame: 0,
            completed_at_ns: i64::MIN,
        })
    }

    /// Takes a request in and returns its handle.
    ///
    /// # Errors
    /// Names a field out of range; `max_lanes` when all lanes are taken.
    pub fn admit(&mut self, now_ns: i64, spec: LaneSpec) -> Result<u32, CoreError> {
        spec.check()?;
        if self.lanes.len() >= self.settings.max_lanes {
            let expected = "above the lanes in use; wait for one to leave";
            return Err(CoreError::argument("max_lanes", self.settings.max_lanes, expected));
        }
        self.table.expect_prompt(spec.prompt_tokens);
        let decode_time_s = self.table.normalizers().decode_time_s(self.num_streams());
        let lane = Lane::new(spec, now_ns, self.lanes.len(), decode_time_s);
        let handle = self.next_lane;
        self.next_lane += 1;
        self.lanes.insert(handle, lane);
        Ok(handle)
    }

    /// Takes a lane out of the next step; it is gone once no frame in flight has it.
    ///
    /// # Errors
    /// A handle that stands for nothing.
    pub fn cancel(&mut self, lane: u32) -> Result<(), CoreError> {
        self.lane_mut(lane)?.leaving = true;
        self.drop_leaving();
        Ok(())
    }

    /// Leaves a lane out of the next steps, or lets it go on; its wait meanwhile has no price.
    ///
    /// # Errors
    /// A handle that stands for nothing.
    pub fn hold(&mut self, lane: u32, held: bool) -> Result<(), CoreError> {
        let completed_at_ns = self.completed_at_ns;
        let lane = self.lane_mut(lane)?;
        if lane.held && !held {
            let service = &mut lane.service;
            service.published_at_ns = service.published_at_ns.max(completed_at_ns);
            service.served_at_ns = service.served_at_ns.max(completed_at_ns);
        }
        lane.held = held;
        Ok(())
    }

    /// Replaces what is known of a lane's acceptance.
    ///
    /// # Errors
    /// A handle that stands for nothing, or a probability outside [0, 1].
    pub fn set_acceptance(&mut self, lane: u32, acceptance: &[f64]) -> Result<(), CoreError> {
        check_acceptance(acceptance)?;
        self.lane_mut(lane)?.yields = yields(acceptance);
        Ok(())
    }

    /// The next step, without taking it.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn select(&self, now_ns: i64) -> Result<Step, Pause> {
        if self.frames.len() >= Self::MAX_FRAMES {
            return Err(Pause::QueueFull);
        }
        let in_flight = || self.frames.iter().map(|frame| &frame.step);
        if in_flight().any(|step| step.feedback || step.choice.cost_s.is_none()) {
            return Err(Pause::AwaitingFeedback);
        }
        let start_ns = self.next_start_ns(now_ns);
        let busy: Vec<usize> = in_flight().map(|step| step.choice.graph).collect();
        let probing = |step: &Step| step.choice.purpose() == Purpose::Refresh;
        let may_probe = self.ledger.can_probe() && !in_flight().any(probing);
        let context = Context { start_ns, may_probe, busy: &busy };
        let views = self.views(start_ns);
        let choice = selector::select(&views, &self.table, &self.settings.prices, &context)?;
        Ok(self.step(choice, &views))
    }

    /// Scores of all measured graphs at this instant, for a trace.
    #[must_use]
    pub fn candidates(&self, now_ns: i64) -> Vec<Candidate> {
        let start_ns = self.next_start_ns(now_ns);
        let views = self.views(start_ns);
        selector::candidates(&views, &self.table, &self.settings.prices, start_ns)
    }

    /// Chooses the next step and puts it in flight.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn dispatch(&mut self, now_ns: i64) -> Result<&Frame, Pause> {
        let step = self.select(now_ns).inspect_err(|pause| {
            if *pause == Pause::Idle && self.frames.is_empty() {
                self.ledger.idle();
            }
        })?;
        self.table.attempt(step.choice.graph, now_ns);
        let drained = self.frames.is_empty();
        let id = self.next_frame;
        self.next_frame += 1;
        self.frames.push_back(Frame { id, step, submitted_at_ns: now_ns, drained });
        Ok(&self.frames[self.frames.len() - 1])
    }

    /// Takes in the completion of the oldest frame in flight. `device_ns` None is indeterminate.
    ///
    /// Lanes of the frame without an outcome published nothing.
    ///
    /// # Errors
    /// Another frame than the oldest, a lane that was not in it, or more tokens than it had room
    /// for; nothing has changed then.
    pub fn complete(
        &mut self,
        frame: u64,
        now_ns: i64,
        device_ns: Option<i64>,
        outcomes: &[Outcome],
    ) -> Result<(), CoreError> {
        let oldest = self.frames.front().map(|front| front.id);
        if oldest != Some(frame) {
            return Err(CoreError::argument("frame", frame, "the oldest frame in flight"));
        }
        self.check_outcomes(&self.frames[0], outcomes)?;
        let Some(frame) = self.frames.pop_front() else { return Ok(()) };
        let started_at_ns = frame.submitted_at_ns.max(self.completed_at_ns);
        let occupied_ns = (now_ns - started_at_ns).max(0);
        self.account(&frame, now_ns, occupied_ns, device_ns);
        self.serve(&frame, now_ns, occupied_ns, outcomes);
        self.completed_at_ns = now_ns;
        self.drop_leaving();
        Ok(())
    }

    /// Records an execution that was not scheduled here: a warm-up or an acceptance probe.
    ///
    /// # Errors
    /// A graph outside the catalogue.
    pub fn observe(&mut self, graph: usize, execution: &Execution) -> Result<(), CoreError> {
        if graph >= self.table.graphs().len() {
            return Err(CoreError::argument("graph", graph, "an index in the catalogue"));
        }
        self.table.observe(graph, execution);
        Ok(())
    }

    /// Makes the prefill plan exact for prompts up to `tokens`.
    pub fn expect_prompt(&mut self, tokens: u32) {
        self.table.expect_prompt(tokens);
    }

    /// Costs and what follows from them.
    #[must_use]
    pub fn table(&self) -> &CostTable {
        &self.table
    }

    /// The exploration allowance.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Service of a lane, without what is in flight.
    #[must_use]
    pub fn service(&self, lane: u32) -> Option<&Service> {
        self.lanes.get(&lane).map(|lane| &lane.service)
    }

    /// Lanes taken.
    #[must_use]
    pub fn num_lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Frames in flight.
    #[must_use]
    pub fn num_frames(&self) -> usize {
        self.frames.len()
    }

    fn lane_mut(&mut self, lane: u32) -> Result<&mut Lane, CoreError> {
        self.lanes
            .get_mut(&lane)
            .ok_or(CoreError::UnknownHandle { kind: "lane", handle: lane.into() })
    }

    fn num_streams(&self) -> usize {
        self.lanes.values().filter(|lane| lane.service.prompt_left == 0).count()
    }

    /// When each frame in flight is expected to end, given when the device was last seen to be.
    fn ends_ns(&self) -> Vec<i64> {
        let mut end_ns = self.completed_at_ns;
        let mut ends = Vec::with_capacity(self.frames.len());
        for frame in &self.frames {
            end_ns = end_ns.max(frame.submitted_at_ns) + cost_ns(frame.step.choice.cost_s);
            ends.push(end_ns);
        }
        ends
    }

    fn next_start_ns(&self, now_ns: i64) -> i64 {
        self.ends_ns().last().map_or(now_ns, |&end_ns| end_ns.max(now_ns))
    }

    /// Runnable lanes with the expected service of the frames in flight projected into copies.
    fn views(&self, start_ns: i64) -> Vec<LaneView<'_>> {
        let ends_ns = self.ends_ns();
        let mut views: Vec<LaneView<'_>> = self
            .lanes
            .iter()
            .filter(|(_, lane)| !lane.leaving && !lane.held)
            .map(|(&id, lane)| LaneView {
                id,
                spec: &lane.spec,
                yields: &lane.yields,
                service: lane.service,
            })
            .collect();
        for (frame, end_ns) in self.frames.iter().zip(ends_ns) {
            let occupied_ns = cost_ns(frame.step.choice.cost_s);
            let prices = &self.settings.prices;
            let elapsed = frame.elapsed(end_ns.min(start_ns), occupied_ns, prices.memory_steps);
            let mut lanes = frame.lanes_by_handle();
            for view in &mut views {
                let work = expected_work(take(&mut lanes, view.id));
                view.service.advance(work, &elapsed, prices);
            }
        }
        views.retain(|view| view.service.generated < view.spec.output_limit);
        views
    }

    fn step(&self, choice: Choice, views: &[LaneView<'_>]) -> Step {
        let graph = &self.table.graphs()[choice.graph];
        let Cohort { prompts, streams } = &choice.cohort;
        let prompts = prompts.iter().map(|&(view, tokens)| (view, Share::Prompt(tokens)));
        let expected = |view: usize| Share::Row(views[view].expected_tokens(graph.width));
        let lanes: Vec<(usize, Share)> =
            prompts.chain(streams.iter().map(|&view| (view, expected(view)))).collect();
        let num_streams = views.iter().filter(|view| view.service.prompt_left == 0).count();
        Step {
            feedback: graph.feedback || lanes.iter().any(|&(view, _)| views[view].spec.feedback),
            lanes: lanes.iter().map(|&(view, share)| (views[view].id, share)).collect(),
            choice,
            decode_time_s: self.table.normalizers().decode_time_s(num_streams),
            prefill_rate: self.table.normalizers().prefill_rate,
        }
    }

    fn check_outcomes(&self, frame: &Frame, outcomes: &[Outcome]) -> Result<(), CoreError> {
        let width = self.table.graphs()[frame.step.choice.graph].width;
        for outcome in outcomes {
            let share = frame.step.lanes.iter().find(|(lane, _)| *lane == outcome.lane);
            let most = match share {
                None => {
                    return Err(CoreError::UnknownHandle {
                        kind: "lane",
                        handle: outcome.lane.into(),
                    })
                }
                Some((_, Share::Row(_))) => width,
                Some((_, Share::Prompt(_))) => 1,
            };
            if outcome.tokens > most {
                let expected = "at most the verification width, and 1 after a prompt";
                return Err(CoreError::argument("tokens", outcome.tokens, expected));
            }
        }
        Ok(())
    }

    fn account(&mut self, frame: &Frame, now_ns: i64, occupied_ns: i64, device_ns: Option<i64>) {
        let execution = Execution {
            purpose: frame.step.choice.purpose(),
            device_ns,
            wall_ns: occupied_ns,
            drained: frame.drained,
            feedback: frame.step.feedback,
            completed_at_ns: now_ns,
        };
        let valid = self.table.observe(frame.step.choice.graph, &execution);
        match frame.step.choice.purpose() {
            Purpose::Refresh => self.ledger.pay(device_ns.unwrap_or(0).max(occupied_ns)),
            // A device may report a graph's time when full, which is more than was spent.
            Purpose::Ordinary if valid => {
                self.ledger.earn(device_ns.unwrap_or(0).min(occupied_ns));
            }
            _ => {}
        }
    }

    fn serve(&mut self, frame: &Frame, now_ns: i64, occupied_ns: i64, outcomes: &[Outcome]) {
        let prices = &self.settings.prices;
        let elapsed = frame.elapsed(now_ns, occupied_ns, prices.memory_steps);
        let mut shares = frame.lanes_by_handle();
        let mut outcomes = outcomes.to_vec();
        outcomes.sort_unstable_by_key(|outcome| outcome.lane);
        let mut outcomes = outcomes.into_iter().peekable();
        for (&handle, lane) in &mut self.lanes {
            if lane.admitted_at_ns > frame.submitted_at_ns {
                continue;
            }
            let share = take(&mut shares, handle);
            let outcome = outcomes.next_if(|outcome| outcome.lane == handle);
            let tokens = outcome.map_or(0, |outcome| outcome.tokens);
            let work = match share {
                None => Work::None,
                Some(Share::Prompt(prompt_tokens)) => Work::Prompt(prompt_tokens),
                Some(Share::Row(_)) => Work::Decode(tokens),
            };
            lane.service.advance(work, &elapsed, prices);
            let ended = outcome.is_some_and(|outcome| outcome.ended);
            lane.leaving |= ended || lane.service.generated >= lane.spec.output_limit;
        }
    }

    fn drop_leaving(&mut self) {
        let frames = &self.frames;
        let in_flight = |handle: u32| {
            frames.iter().any(|frame| frame.step.lanes.iter().any(|&(lane, _)| lane == handle))
        };
        self.lanes.retain(|&handle, lane| !lane.leaving || in_flight(handle));
    }
}
