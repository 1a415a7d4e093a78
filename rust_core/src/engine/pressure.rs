//! How waiting and deadlines raise a price.
use super::settings::PriceSettings;

/// Times of one request at the instant of the decision, s.
#[derive(Debug, Clone, Copy)]
pub struct Urgency {
    /// Since its arrival.
    pub waited_s: f64,
    /// Device time for its whole prompt and some decode steps: what it may fairly wait for.
    pub own_s: f64,
    /// `(device time needed, time left, allowance)` for its first token.
    pub first_token: Option<(f64, f64, f64)>,
    /// The same for its last token.
    pub completion: Option<(f64, f64, f64)>,
}

/// Pressure on a prompt: by its deadlines, or else by how long it has waited. In [1, cap].
#[must_use]
pub fn prompt_pressure(urgency: &Urgency, prices: &PriceSettings) -> f64 {
    let waited = if urgency.own_s > 0.0 { urgency.waited_s / urgency.own_s } else { 0.0 };
    let pressure = match (urgency.first_token, urgency.completion) {
        (None, None) => 1.0 + prices.wait_pressure * waited,
        (first_token, completion) => barrier(first_token, prices).max(barrier(completion, prices)),
    };
    pressure.min(prices.pressure_cap)
}

/// Pressure on a stream: by its completion deadline. In [1, cap].
#[must_use]
pub fn stream_pressure(completion: Option<(f64, f64, f64)>, prices: &PriceSettings) -> f64 {
    barrier(completion, prices).min(prices.pressure_cap)
}

/// Rises without bound as the slack of a feasible deadline vanishes; 1 where it cannot be met any
/// more, and slowly up again once it has passed, so that late work is not left for good.
fn barrier(deadline: Option<(f64, f64, f64)>, prices: &PriceSettings) -> f64 {
    let Some((needed_s, left_s, allowance_s)) = deadline else { return 1.0 };
    if left_s <= 0.0 {
        return 1.0 + prices.late_pressure * -left_s / allowance_s.max(1e-9);
    }
    let used = needed_s / left_s;
    if used < 1.0 {
        1.0 + prices.deadline_pressure * used / (1.0 - used)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::{prompt_pressure, PriceSettings, Urgency};

    #[test]
    fn pressure_by_case() {
        let prices = PriceSettings::default();
        let idle = Urgency { waited_s: 0.0, own_s: 2.0, first_token: None, completion: None };
        let due =
            |needed_s, left_s| Urgency { first_token: Some((needed_s, left_s, 10.0)), ..idle };
        let cases = [
            ("fresh", idle, 1.0),
            ("waited twice its own time", Urgency { waited_s: 4.0, ..idle }, 2.0),
            ("waited for ever", Urgency { waited_s: 1e9, ..idle }, 8.0),
            ("half of the slack used", due(1.0, 2.0), 3.0),
            ("hardly feasible", due(1.999, 2.0), 8.0),
            ("infeasible", due(3.0, 2.0), 1.0),
            ("late by its allowance", due(3.0, -10.0), 1.1),
        ];
        for (name, urgency, expected) in cases {
            let pressure = prompt_pressure(&urgency, &prices);
            assert!((pressure - expected).abs() < 1e-9, "{name}: {pressure}");
        }
    }
}
