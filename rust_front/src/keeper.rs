//! When a connection is pinged, asked to go, or closed: pure decisions over its activity.

use std::time::{Duration, Instant};

use crate::limits::Limits;
use crate::watched::Activity;

/// What is to be done with a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Ping,
    /// It did not answer a ping.
    Silent,
    /// It had no call for too long.
    Idle,
    /// It is old: no new calls, and its own have until their grace ends.
    Retire,
    /// The grace is over.
    Overstayed,
}

/// The bounds of one connection in time.
#[derive(Debug)]
pub(crate) struct Keeper {
    keepalive: Duration,
    keepalive_timeout: Duration,
    max_idle: Duration,
    retires_at: Option<Instant>,
    grace: Duration,
    pinged_at: Option<Instant>,
    retired_at: Option<Instant>,
}

impl Keeper {
    /// `number`: of the connection; spreads the ends of those that came together.
    pub(crate) fn new(limits: &Limits, opened: Instant, number: u64) -> Self {
        Self {
            keepalive: limits.keepalive,
            keepalive_timeout: limits.keepalive_timeout,
            max_idle: limits.max_idle,
            retires_at: limits.max_age.map(|age| opened + spread(age, number)),
            grace: limits.max_age_grace,
            pinged_at: None,
            retired_at: None,
        }
    }

    /// What is due; to be asked again at `next`.
    pub(crate) fn due(&mut self, now: Instant, activity: &Activity) -> Due {
        if let Some(retired_at) = self.retired_at {
            if now >= retired_at + self.grace {
                return Due::Overstayed;
            }
        } else if self.retires_at.is_some_and(|at| now >= at) {
            self.retired_at = Some(now);
            return Due::Retire;
        }
        if activity.idle_since().is_some_and(|since| now >= since + self.max_idle) {
            return Due::Idle;
        }
        self.liveness(now, activity.heard())
    }

    fn liveness(&mut self, now: Instant, heard: Instant) -> Due {
        match self.pinged_at {
            // Times of hearing are rounded down to a millisecond.
            Some(pinged_at) if heard + Duration::from_millis(1) < pinged_at => {
                if now >= pinged_at + self.keepalive_timeout {
                    return Due::Silent;
                }
            }
            _ => {
                self.pinged_at = None;
                if now >= heard + self.keepalive {
                    self.pinged_at = Some(now);
                    return Due::Ping;
                }
            }
        }
        Due::Nothing
    }

    /// When something may be due next.
    pub(crate) fn next(&self, now: Instant, activity: &Activity) -> Instant {
        let alive = match self.pinged_at {
            Some(pinged_at) => pinged_at + self.keepalive_timeout,
            None => activity.heard() + self.keepalive,
        };
        let idle = activity.idle_since().unwrap_or(now) + self.max_idle;
        let age = match self.retired_at {
            Some(retired_at) => Some(retired_at + self.grace),
            None => self.retires_at,
        };
        let soonest = alive.min(idle);
        // Never at once again: what is due is done by then.
        age.map_or(soonest, |at| soonest.min(at)).max(now + Duration::from_millis(1))
    }
}

/// Within a tenth of `age`, evenly over successive numbers.
fn spread(age: Duration, number: u64) -> Duration {
    // Multiples of the golden ratio's fraction spread evenly over [0, 1).
    let mixed = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
    let share = f64::from(mixed) / f64::from(u32::MAX);
    age.mul_f64(0.9 + 0.2 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tests::limits;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_silent_peer_is_pinged_then_dropped() {
        let activity = Activity::new();
        let opened = activity.opened();
        let mut keeper = Keeper::new(&limits(), opened, 0);
        assert_eq!(keeper.due(opened + 29 * SECOND, &activity), Due::Nothing);
        assert_eq!(keeper.due(opened + 30 * SECOND, &activity), Due::Ping);
        assert_eq!(keeper.next(opened + 30 * SECOND, &activity), opened + 40 * SECOND);
        assert_eq!(keeper.due(opened + 39 * SECOND, &activity), Due::Nothing);
        assert_eq!(keeper.due(opened + 40 * SECOND, &activity), Due::Silent);
    }

    #[test]
    fn one_that_has_calls_is_not_idle() {
        let activity = Activity::new();
        let opened = activity.opened();
        let quiet = Limits { keepalive: 100_000 * SECOND, ..limits() };
        let mut keeper = Keeper::new(&quiet, opened, 0);
        let call = crate::watched::OpenCall::new(activity.clone());
        assert_eq!(keeper.due(opened + 2000 * SECOND, &activity), Due::Nothing);
        drop(call);
        assert_eq!(keeper.due(opened + 899 * SECOND, &activity), Due::Nothing);
        assert_eq!(keeper.due(opened + 901 * SECOND, &activity), Due::Idle);
    }

    #[test]
    fn an_old_one_is_asked_to_go_then_closed() {
        let activity = Activity::new();
        let opened = activity.opened();
        let aged = Limits { keepalive: 100_000 * SECOND, max_age: Some(100 * SECOND), ..limits() };
        let mut keeper = Keeper::new(&aged, opened, 0);
        assert_eq!(keeper.due(opened + 89 * SECOND, &activity), Due::Nothing);
        assert_eq!(keeper.due(opened + 90 * SECOND, &activity), Due::Retire);
        assert_eq!(keeper.due(opened + 149 * SECOND, &activity), Due::Nothing);
        assert_eq!(keeper.due(opened + 150 * SECOND, &activity), Due::Overstayed);
    }

    #[test]
    fn ends_are_spread_over_a_fifth_of_the_age() {
        let ends: Vec<_> = (0..1000).map(|n| spread(100 * SECOND, n)).collect();
        assert!(ends.iter().all(|end| (90 * SECOND..=110 * SECOND).contains(end)));
        assert!(ends.iter().any(|end| *end < 91 * SECOND));
        assert!(ends.iter().any(|end| *end > 109 * SECOND));
    }
}
