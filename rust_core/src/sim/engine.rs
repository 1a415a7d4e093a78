//! The event loop: arrivals, completions, clients that give up, replicas that change.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::trace::Trace;
use crate::rng::Rng;

/// A device and what it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Fixed time of a batch at speed 1.
    pub intercept_ns: f64,
    /// Time of a unit at speed 1.
    pub slope_ns: f64,
    /// Durations vary evenly within this ratio either way.
    pub noise: f64,
    /// Requests, rows and units of one batch; 0 for no limit.
    pub max_requests: u64,
    /// Rows of one batch.
    pub max_rows: u64,
    /// Units of one batch.
    pub max_units: u64,
}

/// From an instant on, a replica has another speed; 0 takes it away once its batch is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedChange {
    /// When.
    pub at_ns: i64,
    /// Which replica.
    pub replica: usize,
    /// New speed.
    pub speed: f64,
}

/// A fleet to simulate.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The device at speed 1.
    pub device: Device,
    /// Speeds at the start, one a replica.
    pub speeds: Vec<f64>,
    /// Changes, in order of time.
    pub changes: Vec<SpeedChange>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// Still there when the simulation ended.
    #[default]
    Unfinished = 0,
    /// Answered by its deadline.
    OnTime = 1,
    /// Executed, but answered too late.
    Late = 2,
    /// Refused on arrival.
    Refused = 3,
    /// Taken off the queue without an answer.
    Dropped = 4,
    /// The client gave up first.
    Cancelled = 5,
}

/// End of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// What became of it.
    pub fate: Fate,
    /// When.
    pub at_ns: i64,
    /// Size of its batch; 0 if it was in none.
    pub batch: u32,
}

/// A whole simulation's result.
#[derive(Clone, Debug, Default)]
pub struct SimResult {
    /// One a request of the trace.
    pub endings: Vec<Ending>,
    /// Batches that ran.
    pub batches: u64,
    /// Device time spent, over all replicas.
    pub busy_ns: f64,
    /// When the last event was.
    pub ended_at_ns: i64,
}

/// A batch chosen by a policy.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    /// Where it runs.
    pub replica: usize,
}

/// A scheduler in the simulator.
pub trait SimPolicy {
    /// A request arrives; false refuses it.
    fn arrive(&mut self, now_ns: i64, id: u32, state: &FleetState) -> bool;
    /// The client of a queued request gave up.
    fn cancel(&mut self, now_ns: i64, id: u32);
    /// Forms a batch for one of the free replicas; ids go to `members`.
    fn form(&mut self, now_ns: i64, state: &FleetState, members: &mut Vec<u32>)
        -> Option<Dispatch>;
    /// A batch ended.
    fn complete(&mut self, now_ns: i64, replica: usize, units: u64, took_ns: f64);
    /// Gives up requests of its own accord.
    fn expire(&mut self, now_ns: i64, dropped: &mut Vec<u32>);
    /// Next instant at which it wants to be asked although nothing happens.
    fn wake_at_ns(&self, now_ns: i64) -> Option<i64>;
}

/// What a policy may know of the fleet.
#[derive(Clone, Debug)]
pub struct FleetState {
    /// True for replicas that could start a batch now.
    pub free: Vec<bool>,
    /// When a busy replica was started; for those that predict its end.
    pub started_at_ns: Vec<i64>,
    /// False for replicas that were taken away.
    pub present: Vec<bool>,
}

struct Running {
    members: Vec<u32>,
    units: u64,
    took_ns: f64,
}

/// Runs a policy over a trace.
pub struct Engine<'a, P: SimPolicy> {
    trace: &'a Trace,
    fleet: &'a Fleet,
    policy: P,
    noise: Rng,
    speeds: Vec<f64>,
    state: FleetState,
    running: Vec<Running>,
    completions: BinaryHeap<Reverse<(i64, usize)>>,
    quits: BinaryHeap<Reverse<(i64, u32)>>,
    result: SimResult,
    members: Vec<u32>,
    next_row: usize,
    next_change: usize,
}

impl<'a, P: SimPolicy> Engine<'a, P> {
    /// Sets a simulation up; `seed` drives the devices' noise.
    pub fn new(trace: &'a Trace, fleet: &'a Fleet, policy: P, seed: u64) -> Self {
        let num = fleet.speeds.len();
        Self {
            trace,
            fleet,
            policy,
            noise: Rng::new(seed),
            speeds: fleet.speeds.clone(),
            state: FleetState {
                free: vec![true; num],
                started_at_ns: vec![0; num],
                present: vec![true; num],
            },
            running: (0..num)
                .map(|_| Running { members: Vec::new(), units: 0, took_ns: 0.0 })
                .collect(),
            completions: BinaryHeap::new(),
            quits: BinaryHeap::new(),
            result: SimResult {
                endings: vec![Ending::default(); trace.rows.len()],
                ..SimResult::default()
            },
            members: Vec::new(),
            next_row: 0,
            next_change: 0,
        }
    }

    /// Runs until nothing is left to happen.
    pub fn run(mut self) -> (SimResult, P) {
        while let Some(now_ns) = self.next_event() {
            self.result.ended_at_ns = now_ns;
            self.change(now_ns);
            self.complete(now_ns);
            self.quit(now_ns);
            self.arrive(now_ns);
            self.expire(now_ns);
            self.dispatch(now_ns);
        }
        (self.result, self.policy)
    }

    fn next_event(&self) -> Option<i64> {
        let now_ns = self.result.ended_at_ns;
        let arrival = self.trace.rows.get(self.next_row).map(|row| row.at_ns);
        let completion = self.completions.peek().map(|Reverse((at_ns, _))| *at_ns);
        let quit = self.quits.peek().map(|Reverse((at_ns, _))| *at_ns);
        let work = [arrival, completion, quit].into_iter().flatten().min();
        let wake = self.policy.wake_at_ns(now_ns).map(|at_ns| at_ns.max(now_ns + 1));
        let change = self.fleet.changes.get(self.next_change).map(|change| change.at_ns);
        let next = [work, wake].into_iter().flatten().min()?;
        Some(change.map_or(next, |at_ns| at_ns.min(next)).max(now_ns))
    }

    fn change(&mut self, now_ns: i64) {
        while let Some(change) = self.fleet.changes.get(self.next_change) {
            if change.at_ns > now_ns {
                break;
            }
            self.next_change += 1;
            self.state.present[change.replica] = change.speed > 0.0;
            if change.speed > 0.0 {
                self.speeds[change.replica] = change.speed;
            }
        }
    }

    fn complete(&mut self, now_ns: i64) {
        while let Some(Reverse((at_ns, replica))) = self.completions.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            self.completions.pop();
            let batch = &mut self.running[replica];
            for id in batch.members.drain(..) {
                let row = &self.trace.rows[id as usize];
                let ending = &mut self.result.endings[id as usize];
                if ending.fate == Fate::Cancelled {
                    continue;
                }
                let on_time = now_ns <= row.at_ns + row.deadline_ns;
                ending.fate = if on_time { Fate::OnTime } else { Fate::Late };
                ending.at_ns = now_ns;
            }
            self.state.free[replica] = true;
            self.policy.complete(now_ns, replica, batch.units, batch.took_ns);
        }
    }

    fn quit(&mut self, now_ns: i64) {
        while let Some(Reverse((at_ns, id))) = self.quits.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            self.quits.pop();
            let ending = &mut self.result.endings[id as usize];
            if ending.fate == Fate::Unfinished {
                ending.fate = Fate::Cancelled;
                ending.at_ns = now_ns;
                if ending.batch == 0 {
                    self.policy.cancel(now_ns, id);
                }
            }
        }
    }

    fn arrive(&mut self, now_ns: i64) {
        while let Some(row) = self.trace.rows.get(self.next_row) {
            if row.at_ns > now_ns {
                break;
            }
            #[allow(clippy::cast_possible_truncation)]
            let id = self.next_row as u32;
            self.next_row += 1;
            if !self.policy.arrive(now_ns, id, &self.state) {
                self.result.endings[id as usize] =
                    Ending { fate: Fate::Refused, at_ns: now_ns, batch: 0 };
            } else if row.cancel_after_ns != i64::MAX {
                self.quits.push(Reverse((row.at_ns + row.cancel_after_ns, id)));
            }
        }
    }

    fn expire(&mut self, now_ns: i64) {
        self.members.clear();
        self.policy.expire(now_ns, &mut self.members);
        for id in &self.members {
            self.result.endings[*id as usize] =
                Ending { fate: Fate::Dropped, at_ns: now_ns, batch: 0 };
        }
    }

    fn dispatch(&mut self, now_ns: i64) {
        loop {
            self.members.clear();
            if !self.state.free.iter().zip(&self.state.present).any(|(free, here)| *free && *here) {
                return;
            }
            let formed = self.policy.form(now_ns, &self.state, &mut self.members);
            let Some(Dispatch { replica }) = formed else { return };
            self.start(now_ns, replica);
        }
    }

    fn start(&mut self, now_ns: i64, replica: usize) {
        let device = &self.fleet.device;
        let wobble = 1.0 + device.noise * (2.0 * self.noise.uniform() - 1.0);
        let batch = &mut self.running[replica];
        batch.members.clear();
        batch.members.extend_from_slice(&self.members);
        batch.units = batch.members.iter().map(|id| self.trace.rows[*id as usize].units).sum();
        batch.took_ns = (device.intercept_ns + device.slope_ns * batch.units as f64) * wobble
            / self.speeds[replica];
        for id in &batch.members {
            self.result.endings[*id as usize].batch =
                u32::try_from(batch.members.len()).unwrap_or(u32::MAX);
        }
        self.state.free[replica] = false;
        self.state.started_at_ns[replica] = now_ns;
        self.result.batches += 1;
        self.result.busy_ns += batch.took_ns;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let took_ns = (batch.took_ns as i64).max(1);
        self.completions.push(Reverse((now_ns + took_ns, replica)));
    }
}
