//! `headway._core.StepScheduler`: one crossing a decision, one a completion.
use super::lock::Lock;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::engine::cost::{Execution, Purpose};
use crate::engine::frame::{Outcome, Share};
use crate::engine::lane::LaneSpec;
use crate::engine::selector;
use crate::engine::settings::{CostSettings, PriceSettings, Settings};
use crate::engine::{self, Catalogue, Graph};
use crate::error::CoreError;

/// Why a step was chosen.
#[pyclass(frozen, eq, hash, module = "headway._core", rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepReason {
    BestScore = 1,
    LonePrompt = 2,
    PassedOver = 3,
    Bootstrap = 4,
    Refresh = 5,
}

impl From<selector::Reason> for StepReason {
    fn from(reason: selector::Reason) -> Self {
        use selector::Reason as Core;
        match reason {
            Core::BestScore => Self::BestScore,
            Core::LonePrompt => Self::LonePrompt,
            Core::PassedOver => Self::PassedOver,
            Core::Bootstrap => Self::Bootstrap,
            Core::Refresh => Self::Refresh,
        }
    }
}

/// Why there is no step.
#[pyclass(frozen, eq, hash, module = "headway._core", rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepPause {
    Idle = 1,
    QueueFull = 2,
    AwaitingFeedback = 3,
    NoGraph = 4,
}

impl From<selector::Pause> for StepPause {
    fn from(pause: selector::Pause) -> Self {
        use selector::Pause as Core;
        match pause {
            Core::Idle => Self::Idle,
            Core::QueueFull => Self::QueueFull,
            Core::AwaitingFeedback => Self::AwaitingFeedback,
            Core::NoGraph => Self::NoGraph,
        }
    }
}

/// A prepared graph.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct StepGraph {
    name: String,
    prefill_tokens: u32,
    prompt_rows: u32,
    decode_rows: u32,
    width: u32,
    feedback: bool,
}

#[pymethods]
impl StepGraph {
    #[new]
    #[pyo3(signature = (*, name, prefill_tokens=0, prompt_rows=None, decode_rows=0, width=1, feedback=false))]
    fn new(
        name: String,
        prefill_tokens: u32,
        prompt_rows: Option<u32>,
        decode_rows: u32,
        width: u32,
        feedback: bool,
    ) -> Self {
        let prompt_rows = prompt_rows.unwrap_or(u32::from(prefill_tokens > 0));
        Self { name, prefill_tokens, prompt_rows, decode_rows, width, feedback }
    }
}

impl StepGraph {
    fn graph(&self) -> Graph {
        Graph {
            name: self.name.clone(),
            prefill_tokens: self.prefill_tokens,
            prompt_rows: self.prompt_rows,
            decode_rows: self.decode_rows,
            width: self.width,
            feedback: self.feedback,
        }
    }
}

macro_rules! price_settings {
    ($($field:ident),+) => {
        /// Prices of service, in output tokens.
        #[pyclass(frozen, module = "headway._core")]
        pub struct StepPrices(PriceSettings);

        #[pymethods]
        impl StepPrices {
            #[new]
            #[pyo3(signature = (*, $($field=None,)+ plan_lone_prompt=true))]
            #[allow(clippy::too_many_arguments)] // keyword-only settings
            fn new($($field: Option<f64>,)+ plan_lone_prompt: bool) -> Self {
                let default = PriceSettings::default();
                Self(PriceSettings { $($field: $field.unwrap_or(default.$field),)+ plan_lone_prompt })
            }

            $(#[getter] fn $field(&self) -> f64 { self.0.$field })+

            #[getter]
            fn plan_lone_prompt(&self) -> bool {
                self.0.plan_lone_prompt
            }
        }
    };
}

price_settings!(
    output_value,
    prompt_weight,
    fairness,
    delivery_fairness,
    age,
    stall,
    gap_reference_share,
    gap_margin,
    retirement_value,
    wait_pressure,
    wait_steps,
    deadline_pressure,
    late_pressure,
    pressure_cap,
    patience,
    memory_steps,
    share_floor,
    gap_weight
);

/// A chosen step.
#[pyclass(frozen, get_all, module = "headway._core")]
pub struct Step {
    frame: i64,
    graph: usize,
    reason: StepReason,
    prompt_lanes: Vec<u32>,
    prompt_tokens: Vec<u32>,
    row_lanes: Vec<u32>,
    row_tokens: Vec<f64>,
    cost_ns: i64,
    score: f64,
    parts: (f64, f64, f64, f64, f64, f64),
    feedback: bool,
}

impl Step {
    fn new(frame: i64, step: &engine::frame::Step) -> Self {
        let choice = &step.choice;
        let parts = &choice.parts;
        let mut face = Self {
            frame,
            graph: choice.graph,
            reason: choice.reason.into(),
            prompt_lanes: Vec::new(),
            prompt_tokens: Vec::new(),
            row_lanes: Vec::new(),
            row_tokens: Vec::new(),
            cost_ns: nanoseconds(choice.cost_s),
            score: choice.score,
            parts: (
                parts.tokens,
                parts.fairness,
                parts.prompts,
                parts.deliveries,
                parts.stalls,
                parts.waiting,
            ),
            feedback: step.feedback,
        };
        for &(lane, share) in &step.lanes {
            match share {
                Share::Prompt(tokens) => {
                    face.prompt_lanes.push(lane);
                    face.prompt_tokens.push(tokens);
                }
                Share::Row(tokens) => {
                    face.row_lanes.push(lane);
                    face.row_tokens.push(tokens);
                }
            }
        }
        face
    }
}

/// Schedules the steps of one device.
#[pyclass(frozen, module = "headway._core")]
pub struct StepScheduler(Lock<engine::StepScheduler>);

#[pymethods]
impl StepScheduler {
    #[new]
    #[pyo3(signature = (graphs, *, prices=None, lifetime_ns=None, probe_share=None, credit_cap_ns=None, bootstrap_attempts=None, max_lanes=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // keywords, a list
    fn new(
        graphs: Vec<PyRef<'_, StepGraph>>,
        prices: Option<PyRef<'_, StepPrices>>,
        lifetime_ns: Option<i64>,
        probe_share: Option<f64>,
        credit_cap_ns: Option<i64>,
        bootstrap_attempts: Option<u32>,
        max_lanes: Option<usize>,
    ) -> PyResult<Self> {
        let default = CostSettings::default();
        let costs = CostSettings {
            lifetime_ns: lifetime_ns.unwrap_or(default.lifetime_ns),
            probe_share: probe_share.unwrap_or(default.probe_share),
            credit_cap_ns: credit_cap_ns.unwrap_or(default.credit_cap_ns),
            bootstrap_attempts: bootstrap_attempts.unwrap_or(default.bootstrap_attempts),
        };
        let settings = Settings {
            prices: prices.map_or_else(PriceSettings::default, |prices| prices.0),
            costs,
            max_lanes: max_lanes.unwrap_or(Settings::default().max_lanes),
        };
        let catalogue = Catalogue::new(graphs.iter().map(|graph| graph.graph()).collect())?;
        Ok(Self(Lock::new(engine::StepScheduler::new(catalogue, settings)?)))
    }

    #[pyo3(signature = (now_ns, *, prompt_tokens, output_limit, arrived_at_ns=None, prompt_left=None, generated=0, weight=1.0, acceptance=None, first_token_deadline_ns=None, completion_deadline_ns=None, gap_target_ns=None, expected_tokens=None, feedback=false))]
    #[allow(clippy::too_many_arguments)] // keyword-only fields of a lane
    fn admit(
        &self,
        now_ns: i64,
        prompt_tokens: u32,
        output_limit: u32,
        arrived_at_ns: Option<i64>,
        prompt_left: Option<u32>,
        generated: u32,
        weight: f64,
        acceptance: Option<Vec<f64>>,
        first_token_deadline_ns: Option<i64>,
        completion_deadline_ns: Option<i64>,
        gap_target_ns: Option<i64>,
        expected_tokens: Option<f64>,
        feedback: bool,
    ) -> PyResult<u32> {
        let spec = LaneSpec {
            arrived_at_ns: arrived_at_ns.unwrap_or(now_ns),
            prompt_tokens,
            prompt_left: prompt_left.unwrap_or(prompt_tokens),
            generated,
            output_limit,
            weight,
            acceptance: acceptance.unwrap_or_default(),
            first_token_deadline_ns,
            completion_deadline_ns,
            gap_target_ns,
            expected_tokens,
            feedback,
        };
        Ok(self.0.hold().admit(now_ns, spec)?)
    }

    fn cancel(&self, lane: u32) -> PyResult<()> {
        Ok(self.0.hold().cancel(lane)?)
    }

    fn hold(&self, lane: u32, held: bool) -> PyResult<()> {
        Ok(self.0.hold().hold(lane, held)?)
    }

    #[allow(clippy::needless_pass_by_value)] // a list crosses by value
    fn set_acceptance(&self, lane: u32, acceptance: Vec<f64>) -> PyResult<()> {
        Ok(self.0.hold().set_acceptance(lane, &acceptance)?)
    }

    fn dispatch(&self, py: Python<'_>, now_ns: i64) -> PyResult<Py<PyAny>> {
        let mut scheduler = self.0.hold();
        match scheduler.dispatch(now_ns) {
            Ok(frame) => {
                let step = Step::new(i64::try_from(frame.id).unwrap_or(-1), &frame.step);
                Ok(Py::new(py, step)?.into_any())
            }
            Err(pause) => Ok(Py::new(py, StepPause::from(pause))?.into_any()),
        }
    }

    fn select(&self, py: Python<'_>, now_ns: i64) -> PyResult<Py<PyAny>> {
        match self.0.hold().select(now_ns) {
            Ok(step) => Ok(Py::new(py, Step::new(-1, &step))?.into_any()),
            Err(pause) => Ok(Py::new(py, StepPause::from(pause))?.into_any()),
        }
    }

    /// `(graph, cost_ns, score)` of every measured graph that serves a lane.
    fn candidates(&self, now_ns: i64) -> Vec<(usize, i64, f64)> {
        let candidates = self.0.hold().candidates(now_ns);
        candidates.iter().map(|c| (c.graph, nanoseconds(Some(c.cost_s)), c.score)).collect()
    }

    #[pyo3(signature = (frame, now_ns, *, device_ns, lanes, tokens, ended))]
    #[allow(clippy::needless_pass_by_value)] // lists cross by value
    fn complete(
        &self,
        frame: u64,
        now_ns: i64,
        device_ns: Option<i64>,
        lanes: Vec<u32>,
        tokens: Vec<u32>,
        ended: Vec<bool>,
    ) -> PyResult<()> {
        if lanes.len() != tokens.len() || lanes.len() != ended.len() {
            let value = format!("{}, {} and {}", lanes.len(), tokens.len(), ended.len());
            let expected = "as long as each other (tokens and ended too)";
            return Err(CoreError::argument("lanes", value, expected).into());
        }
        let outcomes: Vec<Outcome> = lanes
            .into_iter()
            .zip(tokens)
            .zip(ended)
            .map(|((lane, tokens), ended)| Outcome { lane, tokens, ended })
            .collect();
        Ok(self.0.hold().complete(frame, now_ns, device_ns, &outcomes)?)
    }

    #[pyo3(signature = (graph, *, device_ns, wall_ns, completed_at_ns, drained=false, feedback=false, probe=false))]
    #[allow(clippy::too_many_arguments)] // keyword-only fields of an execution
    fn observe(
        &self,
        graph: usize,
        device_ns: Option<i64>,
        wall_ns: i64,
        completed_at_ns: i64,
        drained: bool,
        feedback: bool,
        probe: bool,
    ) -> PyResult<()> {
        let purpose = if probe { Purpose::AcceptanceProbe } else { Purpose::Ordinary };
        let execution =
            Execution { purpose, device_ns, wall_ns, drained, feedback, completed_at_ns };
        Ok(self.0.hold().observe(graph, &execution)?)
    }

    /// Cost of each graph, ns; 0 while indeterminate.
    fn costs_ns(&self) -> Vec<i64> {
        self.0.hold().table().cost_s().iter().map(|&cost_s| nanoseconds(cost_s)).collect()
    }

    /// H(tokens), ns.
    fn prefill_completion_ns(&self, tokens: u32) -> i64 {
        let mut scheduler = self.0.hold();
        scheduler.expect_prompt(tokens);
        nanoseconds(Some(scheduler.table().plan().completion_s(tokens)))
    }

    /// `(R_dec, R_pre)`, tokens/s.
    fn rates(&self) -> (f64, f64) {
        let scheduler = self.0.hold();
        let normalizers = scheduler.table().normalizers();
        (normalizers.decode_rate, normalizers.prefill_rate)
    }

    /// `(credit, F, E, D)` of the allowance, ns.
    fn allowance_ns(&self) -> (i64, i64, i64, i64) {
        let scheduler = self.0.hold();
        let (ordinary, probes, last) = scheduler.ledger().totals_ns();
        (scheduler.ledger().credit_ns(), ordinary, probes, last)
    }

    #[getter]
    fn num_lanes(&self) -> usize {
        self.0.hold().num_lanes()
    }

    #[getter]
    fn num_frames(&self) -> usize {
        self.0.hold().num_frames()
    }

    fn __copy__(&self) -> Self {
        Self(Lock::new(self.0.hold().clone()))
    }
}

#[allow(clippy::cast_possible_truncation)] // came from an i64
fn nanoseconds(cost_s: Option<f64>) -> i64 {
    (cost_s.unwrap_or(0.0) * 1e9).round() as i64
}
