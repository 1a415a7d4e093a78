//! From which prospects on an arrival is refused, learned for short and for long deadlines apart.

/// Lines at whole powers of two of slack over the mean relative deadline: 1/64 to 8.
const LINES: usize = 10;
const FIRST_POWER: f64 = -6.0;
/// Where they begin, and their bounds, in standard deviations.
const FIRST_LINE: f64 = -1.0;
const BOUNDS: (f64, f64) = (-3.0, 2.0);
/// Share of those on the line that should be served. Far above a half: the place of one that is
/// refused is taken by the next, but one that dies in the queue was not told.
const SERVED_SHARE: f64 = 0.92;
/// How near to the line an arrival's fate moves it, and by how much at most.
const NEAR: f64 = 0.75;
const STEP: f64 = 0.25;
/// A canary that is served moves the line up by so much, and is drawn from so far beyond it.
const CANARY_STEP: f64 = 0.1;
const CANARY_REACH: f64 = 4.0;

/// An arrival's prospects where they decide over its refusal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Work beyond what can be done before its last chance, in standard deviations.
    pub excess: f64,
    /// Logarithm to base 2 of its slack over the mean relative deadline.
    pub place: f64,
    /// Served although it should have been refused, to see whether the line is right.
    pub is_canary: bool,
}

/// The line between admitted and refused, by slack.
#[derive(Clone, Debug)]
pub struct Line {
    lines: [f64; LINES],
}

impl Default for Line {
    fn default() -> Self {
        Self { lines: [FIRST_LINE; LINES] }
    }
}

impl Line {
    /// Excess from which arrivals with such a slack are refused.
    #[must_use]
    pub fn at(&self, place: f64) -> f64 {
        let (at, part) = between(place);
        self.lines[at] * (1.0 - part) + self.lines[at + 1] * part
    }

    /// True if a would-be refusal can show that the line is too strict.
    #[must_use]
    pub fn is_telling(&self, judged: &Judged) -> bool {
        judged.excess < self.at(judged.place) + CANARY_REACH
    }

    /// Takes in what became of an arrival that was queued. Of a canary, which is expected to fail,
    /// only success counts: it brings back a line that has come to refuse all.
    pub fn learn(&mut self, judged: &Judged, is_served: bool) {
        let step = if judged.is_canary {
            CANARY_STEP * f64::from(u8::from(is_served))
        } else {
            let off = (judged.excess - self.at(judged.place)).abs() / NEAR;
            STEP * (1.0 - off).max(0.0) * (f64::from(u8::from(is_served)) - SERVED_SHARE)
        };
        let (at, part) = between(judged.place);
        for (line, share) in self.lines[at..=at + 1].iter_mut().zip([1.0 - part, part]) {
            *line = (*line + step * share).clamp(BOUNDS.0, BOUNDS.1);
        }
    }
}

/// The line at or below a place, and how far it is on the way to the next.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to LINES - 2
fn between(place: f64) -> (usize, f64) {
    let at = (place - FIRST_POWER).clamp(0.0, LINES as f64 - 1.001);
    (at as usize, at.fract())
}

#[cfg(test)]
mod tests {
    use super::{Judged, Line, FIRST_LINE, LINES, SERVED_SHARE};

    fn fates(line: &mut Line, place: f64, served_below: f64) {
        // Excesses spread evenly over what the line admits; served with a chance that falls from
        // 1 to 0 within one standard deviation around `served_below`.
        for at in 0..40_000_u32 {
            let excess = f64::from(at * 7_919 % 10_007) / 10_007.0 * 12.0 - 6.0;
            if excess <= line.at(place) {
                let chance = (served_below + 0.5 - excess).clamp(0.0, 1.0);
                let is_served = f64::from(at * 104_729 % 9_973) / 9_973.0 < chance;
                line.learn(&Judged { excess, place, is_canary: false }, is_served);
            }
        }
    }

    #[test]
    fn goes_to_where_nearly_all_are_served() {
        for served_below in [-2.0, 0.0, 2.0] {
            let mut line = Line::default();
            fates(&mut line, 0.0, served_below);
            // The chance is 0.92 at 0.42 below; those just inside the line are served more often
            // than those on it, so that it settles a little beyond.
            let wanted = served_below + 0.5 - SERVED_SHARE;
            assert!((line.at(0.0) - wanted).abs() < 0.5, "{} {wanted}", line.at(0.0));
        }
    }

    #[test]
    fn short_and_long_deadlines_do_not_move_each_other() {
        let mut line = Line::default();
        fates(&mut line, -4.0, 2.0);
        assert!(line.at(-4.0) > 1.0);
        assert!((line.at(0.0) - FIRST_LINE).abs() < 1e-9);
    }

    #[test]
    fn a_fate_far_from_the_line_says_nothing() {
        let mut line = Line::default();
        let far = Judged { excess: FIRST_LINE - 2.0, place: 0.0, is_canary: false };
        line.learn(&far, false);
        assert!((line.at(0.0) - FIRST_LINE).abs() < 1e-9);
    }

    #[test]
    fn canaries_bring_back_a_line_that_refuses_all() {
        let mut line = Line { lines: [-3.0; LINES] };
        let canary = Judged { excess: 0.0, place: 0.0, is_canary: true };
        assert!(line.is_telling(&canary));
        line.learn(&canary, false);
        assert!((line.at(0.0) + 3.0).abs() < 1e-9);
        for _ in 0..20 {
            line.learn(&canary, true);
        }
        assert!((line.at(0.0) + 1.0).abs() < 1e-9);
        assert!(!line.is_telling(&Judged { excess: 50.0, ..canary }));
    }

    #[test]
    fn places_beyond_all_lines_are_those_at_the_ends() {
        let line = Line::default();
        assert!((line.at(-100.0) - FIRST_LINE).abs() < 1e-9);
        assert!((line.at(100.0) - FIRST_LINE).abs() < 1e-9);
    }
}
