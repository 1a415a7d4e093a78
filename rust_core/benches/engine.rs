//! How long does a step decision take? 64 graphs, 256 lanes (224 streams, 32 prompts), one thread.
//!
//! `cargo bench --no-default-features --bench engine`; "null" is the loop without a decision.
use criterion::{criterion_group, criterion_main, Criterion};
use headway_core::engine::cost::{Execution, Purpose};
use headway_core::engine::lane::LaneSpec;
use headway_core::engine::{Catalogue, Graph, Settings, StepScheduler};
use std::hint::black_box;

const SECOND_NS: i64 = 1_000_000_000;

fn graphs() -> Vec<Graph> {
    let mut graphs = Vec::new();
    for decode_rows in [0_u32, 4, 16, 32, 64, 128, 192, 256] {
        for (prefill_tokens, width) in
            [(0, 1), (0, 2), (0, 4), (0, 8), (64, 1), (256, 1), (512, 1), (1_024, 2)]
        {
            let prefill_tokens = if decode_rows == 0 { 32 << graphs.len() } else { prefill_tokens };
            graphs.push(Graph {
                name: format!("p{prefill_tokens}-d{decode_rows}-w{width}"),
                prefill_tokens,
                prompt_rows: 8,
                decode_rows,
                width,
                feedback: false,
            });
        }
    }
    graphs
}

fn scheduler(num_lanes: u32) -> StepScheduler {
    let graphs = graphs();
    let catalogue = Catalogue::new(graphs.clone()).expect("a good catalogue");
    let mut scheduler = StepScheduler::new(catalogue, Settings::default()).expect("good settings");
    for (index, graph) in graphs.iter().enumerate() {
        let rows = i64::from(graph.decode_rows * graph.width);
        let device_ns = 8_000_000 + rows * 40_000 + i64::from(graph.prefill_tokens) * 12_000;
        let execution = Execution {
            purpose: Purpose::Ordinary,
            device_ns: Some(device_ns),
            wall_ns: device_ns,
            drained: false,
            feedback: false,
            completed_at_ns: SECOND_NS,
        };
        scheduler.observe(index, &execution).expect("a graph of the catalogue");
    }
    for lane in 0..num_lanes {
        let is_prompt = lane % 8 == 0;
        let spec = LaneSpec {
            arrived_at_ns: SECOND_NS - i64::from(lane) * 1_000_000,
            prompt_left: if is_prompt { 300 + lane } else { 0 },
            acceptance: vec![0.3 + f64::from(lane % 7) * 0.1; 7],
            ..LaneSpec::new(300 + lane, 500)
        };
        scheduler.admit(SECOND_NS - i64::from(lane % 40) * 4_000_000, spec).expect("a free lane");
    }
    scheduler
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    group.bench_function("null", |bencher| bencher.iter(|| black_box(SECOND_NS)));
    for num_lanes in [16, 64, 256] {
        let scheduler = scheduler(num_lanes);
        group.bench_function(format!("select/64 graphs x {num_lanes} lanes"), |bencher| {
            bencher.iter(|| black_box(scheduler.select(black_box(SECOND_NS))).is_ok());
        });
    }
    let mut queued = scheduler(256);
    assert!(queued.dispatch(SECOND_NS).is_ok());
    group.bench_function("select/64 graphs x 256 lanes, one frame in flight", |bencher| {
        bencher.iter(|| black_box(queued.select(black_box(SECOND_NS))).is_ok());
    });
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
