//! The best cohort and its bound against every cohort, on random streams.
use headway_core::engine::lane::{yields, LaneSpec, Service};
use headway_core::engine::score::Scorer;
use headway_core::engine::view::{LaneView, Stream};
use headway_core::engine::Graph;
use proptest::prelude::*;

fn service() -> Service {
    Service {
        prompt_left: 0,
        generated: 0,
        share: 1.0,
        delivery_share: 1.0,
        gap_s: 0.01,
        published_at_ns: 0,
        served_at_ns: 0,
    }
}

/// (token, delivery, age price, stall price, gap, age, overshoot), acceptance
type Drawn = ((f64, f64, f64, f64, f64, f64, f64), Vec<f64>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let stream = (
        0.5..4.0,
        0.0..1.0,
        0.0..500.0,
        prop_oneof![Just(0.0), 0.0..900.0],
        0.005..0.05,
        0.0..0.2,
        -0.1..0.1,
    );
    (stream, prop::collection::vec(0.0..1.0, 0..4))
}

fn row_value(stream: &Stream, tokens: f64, time_s: f64) -> f64 {
    tokens * (stream.token_value + stream.fair_value)
        + stream.delivery_value
        + stream.age_price * stream.gap_s * (stream.age_s + time_s)
        + stream.stall_price * stream.gap_s * (stream.overshoot_s + time_s).max(0.0)
}

fn waiting(stream: &Stream, time_s: f64) -> f64 {
    let before_s = stream.overshoot_s.max(0.0);
    let after_s = (stream.overshoot_s + time_s).max(0.0);
    let area = (after_s * after_s - before_s * before_s) / 2.0;
    stream.age_price * time_s * time_s / 2.0
        + stream.stall_price * (area + stream.gap_s * (after_s - before_s))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_cohort_is_the_best_of_all_and_the_bound_is_none_below(
        drawn in prop::collection::vec(drawn(), 1..8),
        decode_rows in 1_u32..8,
        width in 1_u32..5,
        time_s in 0.001..0.3,
    ) {
        let all_yields: Vec<Vec<f64>> = drawn.iter().map(|(_, chances)| yields(chances)).collect();
        let spec = LaneSpec::new(0, 5);
        let lanes: Vec<LaneView<'_>> = all_yields
            .iter()
            .zip(0..)
            .map(|(yields, id)| LaneView { id, spec: &spec, yields, service: service() })
            .collect();
        let streams: Vec<Stream> = drawn
            .iter()
            .enumerate()
            .map(|(lane, ((token, delivery, age, stall, gap_s, age_s, overshoot_s), _))| Stream {
                lane,
                token_value: *token,
                fair_value: 0.5,
                delivery_value: *delivery,
                age_price: *age,
                stall_price: *stall,
                gap_s: *gap_s,
                age_s: *age_s,
                overshoot_s: *overshoot_s,
            })
            .collect();
        let graph = Graph {
            name: "g".into(),
            prefill_tokens: 0,
            prompt_rows: 0,
            decode_rows,
            width,
            feedback: false,
        };
        let mut scorer = Scorer::new(&lanes, &streams, &[], 0.3);
        let value = scorer.value(&graph, time_s).expect("it has rows");
        let bound = scorer.bound(&graph, time_s).expect("it has rows");
        let shared: f64 = streams.iter().map(|stream| waiting(stream, time_s)).sum();
        let of = |members: &dyn Fn(usize) -> bool| -> f64 {
            let rows = streams.iter().filter(|stream| members(stream.lane)).map(|stream| {
                row_value(stream, lanes[stream.lane].expected_tokens(width), time_s)
            });
            rows.sum::<f64>() - shared
        };
        let best = (0_u32..1 << streams.len())
            .filter(|members| members.count_ones() <= decode_rows)
            .map(|members| of(&|lane| members >> lane & 1 == 1))
            .fold(f64::MIN, f64::max);
        let tolerance = 1e-9 * (1.0 + best.abs() + shared);
        prop_assert!((value - best).abs() <= tolerance, "{value} {best}");
        prop_assert!(bound >= value - tolerance, "{bound} {value}");
        let cohort = scorer.cohort(&graph, time_s);
        prop_assert!((of(&|lane| cohort.streams.contains(&lane)) - best).abs() <= tolerance);
        let parts = scorer.parts(&graph, &cohort, time_s);
        prop_assert!((parts.total() - best).abs() <= tolerance);
    }
}
