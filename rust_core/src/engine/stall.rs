//! Waits beyond the allowed gap, summed over all streams in O(log streams) a graph.
use super::view::Stream;

/// Sums over the streams with the largest overshoots, `o`: prices `p`, prices times gap `s`.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    p: f64,
    po: f64,
    poo: f64,
    s: f64,
    so: f64,
}

/// Integrals over the time beyond the allowed gap. A lump for crossing it would reward long graphs.
pub struct Stalls {
    overshoots_s: Vec<f64>,
    sums: Vec<Sums>,
    already: Sums,
}

impl Stalls {
    /// Of these streams, for times up to `longest_s`.
    #[must_use]
    pub fn new(streams: &[Stream], longest_s: f64) -> Self {
        let mut terms: Vec<(f64, f64, f64)> = streams
            .iter()
            .filter(|stream| stream.stall_price > 0.0 && stream.overshoot_s + longest_s > 0.0)
            .map(|stream| (stream.overshoot_s, stream.stall_price, stream.gap_s))
            .collect();
        terms.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let mut sum = Sums::default();
        let mut sums = Vec::with_capacity(terms.len() + 1);
        sums.push(sum);
        for &(o, p, gap_s) in &terms {
            sum.p += p;
            sum.po += p * o;
            sum.poo += p * o * o;
            sum.s += p * gap_s;
            sum.so += p * gap_s * o;
            sums.push(sum);
        }
        let overshoots_s: Vec<f64> = terms.iter().map(|term| term.0).collect();
        let already = sums[overshoots_s.partition_point(|&o| o > 0.0)];
        Self { overshoots_s, sums, already }
    }

    /// Whether any stream is beyond its allowed gap after `time_s`.
    #[must_use]
    pub fn any(&self, time_s: f64) -> bool {
        self.overshoots_s.first().is_some_and(|&most| most + time_s > 0.0)
    }

    /// What would be worth ending after `time_s`: `Σ p × gap × (o + T)⁺`.
    #[must_use]
    pub fn ended(&self, time_s: f64) -> f64 {
        let sums = self.beyond(time_s);
        sums.so + sums.s * time_s
    }

    /// What grows during `time_s` as if no stream were served: the integral over the step, and
    /// what is left to wait behind it, `Σ p × (∫ (o + u)⁺ du + gap × ((o + T)⁺ − o⁺))`.
    #[must_use]
    pub fn grown(&self, time_s: f64) -> f64 {
        let sums = self.beyond(time_s);
        let square = sums.poo + 2.0 * sums.po * time_s + sums.p * time_s * time_s;
        (square - self.already.poo) / 2.0 + self.ended(time_s) - self.already.so
    }

    fn beyond(&self, time_s: f64) -> Sums {
        self.sums[self.overshoots_s.partition_point(|&o| o + time_s > 0.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::{Stalls, Stream};

    #[test]
    fn the_sums_equal_the_terms() {
        let streams: Vec<Stream> = [(-0.30, 5.0), (-0.02, 7.0), (0.0, 2.0), (0.04, 3.0)]
            .iter()
            .enumerate()
            .map(|(lane, &(overshoot_s, stall_price))| Stream {
                lane,
                token_value: 1.0,
                fair_value: 0.0,
                delivery_value: 0.0,
                age_price: 0.0,
                stall_price,
                gap_s: 0.01,
                age_s: 0.0,
                overshoot_s,
            })
            .collect();
        let stalls = Stalls::new(&streams, 1.0);
        for time_s in [0.0, 0.01, 0.1, 1.0] {
            let sum = |term: &dyn Fn(&Stream, f64) -> f64| -> f64 {
                streams.iter().map(|s| term(s, (s.overshoot_s + time_s).max(0.0))).sum()
            };
            let ended = sum(&|s, after| s.stall_price * s.gap_s * after);
            let grown = sum(&|s, after| {
                let before = s.overshoot_s.max(0.0);
                s.stall_price
                    * ((after * after - before * before) / 2.0 + s.gap_s * (after - before))
            });
            assert!((stalls.ended(time_s) - ended).abs() < 1e-12);
            assert!((stalls.grown(time_s) - grown).abs() < 1e-12);
        }
        assert!(
            !Stalls::new(&streams[..1], 1.0).any(0.29) && Stalls::new(&streams[..1], 1.0).any(0.31)
        );
    }
}
