//! One simulation from its description.

use super::engine::{Engine, Fleet, SimPolicy, SimResult};
use super::headway::{HeadwayPolicy, HeadwaySetup};
use super::rival::{Rival, RivalPolicy};
use super::trace::Trace;
use crate::error::CoreError;
use crate::scheduler::PoolStats;

/// Which scheduler is simulated.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Headway's own.
    Headway(HeadwaySetup),
    /// One to compare with.
    Rival(Rival),
}

/// Runs a scheduler over a trace; `seed` drives the devices' noise.
///
/// Returns what became of the requests and, for Headway, the pool at the end.
///
/// # Errors
/// A setup out of the scheduler's bounds.
pub fn simulate(
    trace: &Trace,
    fleet: &Fleet,
    choice: &Choice,
    seed: u64,
) -> Result<(SimResult, Option<PoolStats>), CoreError> {
    match choice {
        Choice::Headway(setup) => {
            let policy = HeadwayPolicy::new(trace, &fleet.device, fleet.speeds.len(), setup)?;
            let (result, policy) = run(trace, fleet, policy, seed);
            Ok((result, policy.stats()))
        }
        Choice::Rival(rival) => {
            let policy = RivalPolicy::new(trace, &fleet.device, *rival);
            Ok((run(trace, fleet, policy, seed).0, None))
        }
    }
}

fn run<P: SimPolicy>(trace: &Trace, fleet: &Fleet, policy: P, seed: u64) -> (SimResult, P) {
    Engine::new(trace, fleet, policy, seed).run()
}
