//! Steps on their way: chosen, submitted, completed.
use super::lane::{Elapsed, Work};
use super::seconds;
use super::selector::Choice;

/// Lanes of a frame by ascending handle.
pub type Lanes = std::iter::Peekable<std::vec::IntoIter<(u32, Share)>>;

/// What a lane gets in a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    /// Prompt tokens.
    Prompt(u32),
    /// Output tokens expected of a decode row.
    Row(f64),
}

/// A step with its lanes by handle.
#[derive(Debug, Clone)]
pub struct Step {
    /// The decision.
    pub choice: Choice,
    /// Lanes by handle, in the order of the graph's rows.
    pub lanes: Vec<(u32, Share)>,
    /// Whether the next step has to wait for its outcome.
    pub feedback: bool,
    /// `T_N` when it was chosen, s.
    pub decode_time_s: f64,
    /// `R_pre` when it was chosen, tokens/s.
    pub prefill_rate: f64,
}

/// A submitted step.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Ascending, never reused.
    pub id: u64,
    /// What was submitted.
    pub step: Step,
    /// When it was submitted.
    pub submitted_at_ns: i64,
    /// Whether the device was idle then.
    pub drained: bool,
}

/// What a completed frame did for one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Its handle.
    pub lane: u32,
    /// Output tokens published, the first one after the prompt included.
    pub tokens: u32,
    /// Whether the request ended with them.
    pub ended: bool,
}

impl Frame {
    /// The step as the service histories see it, if it ended at `end_ns` after `occupied_ns`.
    #[must_use]
    pub fn elapsed(&self, end_ns: i64, occupied_ns: i64, memory_steps: f64) -> Elapsed {
        let Step { decode_time_s, prefill_rate, .. } = self.step;
        Elapsed::new(end_ns, seconds(occupied_ns), decode_time_s, prefill_rate, memory_steps)
    }

    /// Its lanes by ascending handle, for `take`.
    pub fn lanes_by_handle(&self) -> Lanes {
        let mut lanes = self.step.lanes.clone();
        lanes.sort_unstable_by_key(|&(lane, _)| lane);
        lanes.into_iter().peekable()
    }
}

/// What a share is expected to do for its lane.
#[must_use]
pub fn expected_work(share: Option<Share>) -> Work {
    match share {
        None => Work::None,
        Some(Share::Prompt(tokens)) => Work::Prompt(tokens),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most the width
        Some(Share::Row(tokens)) => Work::Decode(tokens.round().max(1.0) as u32),
    }
}

/// The entry of `handle`, from entries by ascending handle; those before it have no lane any more.
pub fn take(lanes: &mut Lanes, handle: u32) -> Option<Share> {
    while lanes.next_if(|&(lane, _)| lane < handle).is_some() {}
    lanes.next_if(|&(lane, _)| lane == handle).map(|(_, share)| share)
}

/// Nanoseconds of a cost; 0 while indeterminate.
#[must_use]
pub fn cost_ns(cost_s: Option<f64>) -> i64 {
    #[allow(clippy::cast_possible_truncation)] // came from an i64
    let ns = (cost_s.unwrap_or(0.0) * 1e9).round() as i64;
    ns
}
