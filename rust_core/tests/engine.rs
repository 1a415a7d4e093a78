//! The step scheduler, as the worker's engine sees it.
use headway_core::engine::cost::{Execution, Purpose};
use headway_core::engine::frame::{Frame, Outcome, Share};
use headway_core::engine::lane::LaneSpec;
use headway_core::engine::selector::{Pause, Reason};
use headway_core::engine::settings::{CostSettings, PriceSettings};
use headway_core::engine::{Catalogue, Graph, Settings, StepScheduler};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

fn graph(prefill_tokens: u32, decode_rows: u32, width: u32) -> Graph {
    Graph {
        name: format!("p{prefill_tokens}-d{decode_rows}-w{width}"),
        prefill_tokens,
        prompt_rows: u32::from(prefill_tokens > 0),
        decode_rows,
        width,
        feedback: false,
    }
}

fn cold(graphs: &[Graph], settings: Settings) -> StepScheduler {
    let catalogue = Catalogue::new(graphs.to_vec()).expect("a good catalogue");
    StepScheduler::new(catalogue, settings).expect("good settings")
}

fn measured(graphs: &[(Graph, i64)], settings: Settings) -> StepScheduler {
    let all: Vec<Graph> = graphs.iter().map(|(graph, _)| graph.clone()).collect();
    let mut scheduler = cold(&all, settings);
    for (index, &(_, device_ns)) in graphs.iter().enumerate() {
        let execution = Execution {
            purpose: Purpose::Ordinary,
            device_ns: Some(device_ns),
            wall_ns: device_ns,
            drained: false,
            feedback: false,
            completed_at_ns: 0,
        };
        scheduler.observe(index, &execution).expect("a graph of the catalogue");
    }
    scheduler
}

fn settings(prices: PriceSettings) -> Settings {
    Settings { prices, ..Settings::default() }
}

/// Completes `frame` with one token a decode row, and one for each prompt that ends in it.
fn complete(scheduler: &mut StepScheduler, frame: &Frame, now_ns: i64, device_ns: Option<i64>) {
    let outcomes: Vec<Outcome> = frame
        .step
        .lanes
        .iter()
        .map(|&(lane, share)| {
            let left = scheduler.service(lane).map_or(0, |service| service.prompt_left);
            let tokens = match share {
                Share::Row(_) => 1,
                Share::Prompt(tokens) => u32::from(tokens == left),
            };
            Outcome { lane, tokens, ended: false }
        })
        .collect();
    scheduler.complete(frame.id, now_ns, device_ns, &outcomes).expect("the oldest frame");
}

fn dispatch(scheduler: &mut StepScheduler, now_ns: i64) -> Frame {
    scheduler.dispatch(now_ns).expect("a step").clone()
}

#[test]
fn without_lanes_there_is_nothing_to_do() {
    let mut scheduler = cold(&[graph(0, 1, 1)], Settings::default());
    assert_eq!(scheduler.dispatch(0).err(), Some(Pause::Idle));
}

#[test]
fn lanes_that_no_graph_can_take_are_named() {
    let mut scheduler = cold(&[graph(0, 1, 1)], Settings::default());
    scheduler.admit(0, LaneSpec::new(10, 4)).expect("a free lane");
    assert_eq!(scheduler.dispatch(0).err(), Some(Pause::NoGraph));
}

#[test]
fn a_cold_start_measures_the_smallest_graphs_that_fit_first() {
    let graphs = [graph(256, 0, 1), graph(64, 0, 1), graph(4_096, 0, 1), graph(64, 4, 1)];
    let mut scheduler = cold(&graphs, Settings::default());
    scheduler.admit(0, LaneSpec::new(1_000, 4)).expect("a free lane");
    let mut order = Vec::new();
    for step in 0..4 {
        let frame = dispatch(&mut scheduler, step * SECOND);
        assert_eq!(scheduler.dispatch(step * SECOND).err(), Some(Pause::AwaitingFeedback));
        order.push((frame.step.choice.graph, frame.step.choice.reason));
        complete(&mut scheduler, &frame, step * SECOND + 9 * MS, Some(9 * MS));
    }
    // 4096 fits what 256 cannot take; nobody decodes for the mixed graph.
    assert_eq!(order[0], (1, Reason::Bootstrap));
    assert_eq!(order[1], (0, Reason::Bootstrap));
    assert_eq!(order[2], (2, Reason::Bootstrap));
    assert_eq!(order[3], (3, Reason::Bootstrap)); // no other graph decodes
}

#[test]
fn a_graph_that_never_gives_a_time_does_not_block_the_rest() {
    let mut scheduler = cold(&[graph(0, 1, 1), graph(0, 2, 1)], Settings::default());
    for _ in 0..2 {
        scheduler.admit(0, LaneSpec::new(0, 1_000)).expect("a free lane");
    }
    let mut reasons = Vec::new();
    for step in 0..20 {
        let frame = dispatch(&mut scheduler, step * SECOND);
        let device_ns = if frame.step.choice.graph == 0 { Some(0) } else { Some(5 * MS) };
        reasons.push((frame.step.choice.graph, frame.step.choice.reason));
        complete(&mut scheduler, &frame, step * SECOND + 5 * MS, device_ns);
    }
    let bootstraps = reasons.iter().filter(|(_, reason)| *reason == Reason::Bootstrap).count();
    assert_eq!(bootstraps, 3 + 1);
    assert_eq!(scheduler.table().cost_s()[0], None);
    assert!(reasons[4..].iter().all(|&(graph, _)| graph == 1));
}

#[test]
fn a_stale_graph_that_leaves_a_stream_out_is_measured_once_in_ten_lifetimes() {
    let graphs = [(graph(0, 2, 1), 10 * MS), (graph(0, 1, 1), 9 * MS)];
    let costs = CostSettings { lifetime_ns: 3 * SECOND, ..CostSettings::default() };
    let mut scheduler = measured(&graphs, Settings { costs, ..Settings::default() });
    for _ in 0..2 {
        scheduler.admit(0, LaneSpec::new(0, 1_000_000)).expect("a free lane");
    }
    let mut probes = Vec::new();
    let mut now_ns = 0;
    for _ in 0..4_000 {
        let frame = dispatch(&mut scheduler, now_ns);
        now_ns += 10 * MS;
        if frame.step.choice.reason == Reason::Refresh {
            assert_eq!(frame.step.choice.graph, 1);
            probes.push(now_ns);
        }
        complete(&mut scheduler, &frame, now_ns, Some(10 * MS));
        let (ordinary, spent, last) = scheduler.ledger().totals_ns();
        assert!(spent * 49 <= ordinary + last * 49);
    }
    assert_eq!(probes.len(), 1, "{probes:?}"); // of 40 s, although the allowance is full far sooner
    assert!((30 * SECOND..31 * SECOND).contains(&probes[0]));
}

#[test]
fn a_thousand_random_workdays_keep_the_allowance_bound() {
    let graphs = [(graph(0, 2, 1), 10 * MS), (graph(0, 1, 1), 9 * MS), (graph(64, 2, 1), 15 * MS)];
    let costs = CostSettings { lifetime_ns: SECOND, probe_share: 0.1, ..CostSettings::default() };
    let mut scheduler = measured(&graphs, Settings { costs, ..Settings::default() });
    let mut state = 0x9e37_79b9_u64;
    let mut now_ns = 0;
    let mut num_probes = 0;
    for day in 0..1_000 {
        let mut lane = LaneSpec::new(100, 60);
        lane.arrived_at_ns = now_ns;
        scheduler.admit(now_ns, lane).expect("a free lane");
        while scheduler.num_lanes() > 0 {
            let frame = dispatch(&mut scheduler, now_ns);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(day + 1);
            let took_ns = (state >> 33).cast_signed() % (40 * MS) + 1;
            now_ns += took_ns;
            num_probes += i32::from(frame.step.choice.reason == Reason::Refresh);
            let device_ns = if state.is_multiple_of(7) { None } else { Some(took_ns) };
            complete(&mut scheduler, &frame, now_ns, device_ns);
            let (ordinary, spent, last) = scheduler.ledger().totals_ns();
            assert!(spent * 9 <= ordinary + last * 9, "{spent} {ordinary} {last}");
        }
        assert_eq!(scheduler.dispatch(now_ns).err(), Some(Pause::Idle));
        assert!(scheduler.ledger().credit_ns() <= 0);
    }
    assert!(num_probes > 100, "{num_probes}");
}

#[test]
fn the_second_frame_is_chosen_with_the_first_ones_service_projected() {
    let graphs = [(graph(64, 0, 1), 4 * MS), (graph(0, 1, 1), 10 * MS)];
    let mut scheduler = measured(&graphs, Settings::default());
    let lane = scheduler.admit(0, LaneSpec::new(100, 8)).expect("a free lane");
    let first = dispatch(&mut scheduler, 0);
    assert_eq!(first.step.lanes, [(lane, Share::Prompt(64))]);
    let second = dispatch(&mut scheduler, 0);
    assert_eq!(second.step.lanes, [(lane, Share::Prompt(36))]);
    assert_eq!(scheduler.dispatch(0).err(), Some(Pause::QueueFull));
    assert_eq!(scheduler.service(lane).map(|service| service.prompt_left), Some(100));
    complete(&mut scheduler, &first, 4 * MS, Some(4 * MS));
    assert_eq!(scheduler.service(lane).map(|service| service.prompt_left), Some(36));
    let third = dispatch(&mut scheduler, 4 * MS);
    assert_eq!(third.step.lanes, [(lane, Share::Row(1.0))]);
}

#[test]
fn nothing_is_submitted_behind_a_step_whose_outcome_is_needed() {
    let graphs = [(graph(0, 2, 1), 10 * MS)];
    let mut scheduler = measured(&graphs, Settings::default());
    scheduler.admit(0, LaneSpec { feedback: true, ..LaneSpec::new(0, 100) }).expect("a free lane");
    let frame = dispatch(&mut scheduler, 0);
    assert!(frame.step.feedback);
    assert_eq!(scheduler.dispatch(0).err(), Some(Pause::AwaitingFeedback));
    complete(&mut scheduler, &frame, 12 * MS, Some(10 * MS));
    // Drained, and it waits for feedback: the 2 ms between are its cost, too.
    assert_eq!(scheduler.table().costs()[0].cost_ns(), Some(10 * MS + MS)); // half of 2 executions
    assert!(scheduler.dispatch(12 * MS).is_ok());
}

#[test]
fn a_lane_in_its_last_token_is_not_submitted_twice() {
    let graphs = [(graph(0, 2, 1), 10 * MS)];
    let mut scheduler = measured(&graphs, Settings::default());
    scheduler.admit(0, LaneSpec::new(0, 1)).expect("a free lane");
    let frame = dispatch(&mut scheduler, 0);
    assert_eq!(scheduler.dispatch(0).err(), Some(Pause::Idle));
    complete(&mut scheduler, &frame, 10 * MS, Some(10 * MS));
    assert_eq!(scheduler.num_lanes(), 0);
}

#[test]
fn a_cancelled_lane_is_out_of_the_next_step_and_gone_with_its_frame() {
    let graphs = [(graph(0, 2, 1), 10 * MS)];
    let mut scheduler = measured(&graphs, Settings::default());
    let kept = scheduler.admit(0, LaneSpec::new(0, 100)).expect("a free lane");
    let gone = scheduler.admit(0, LaneSpec::new(0, 100)).expect("a free lane");
    let frame = dispatch(&mut scheduler, 0);
    scheduler.cancel(gone).expect("a lane");
    let next = dispatch(&mut scheduler, 0);
    assert_eq!(next.step.lanes, [(kept, Share::Row(1.0))]);
    assert_eq!(scheduler.num_lanes(), 2);
    let outcomes = [Outcome { lane: kept, tokens: 1, ended: false }];
    scheduler.complete(frame.id, 10 * MS, Some(10 * MS), &outcomes).expect("the oldest frame");
    assert_eq!(scheduler.num_lanes(), 1);
    assert!(scheduler.cancel(gone).is_err());
}

#[test]
fn a_completion_is_checked_and_changes_nothing_when_refused() {
    let graphs = [(graph(0, 2, 2), 10 * MS)];
    let mut scheduler = measured(&graphs, Settings::default());
    let lane = scheduler.admit(0, LaneSpec::new(0, 100)).expect("a free lane");
    let frame = dispatch(&mut scheduler, 0);
    let cases = [
        (frame.id + 1, lane, 1, "frame must be the oldest frame in flight, got 1"),
        (frame.id, lane + 1, 1, "no lane has the handle 1"),
        (
            frame.id,
            lane,
            3,
            "tokens must be at most the verification width, and 1 after a prompt, got 3",
        ),
    ];
    for (id, lane, tokens, message) in cases {
        let outcomes = [Outcome { lane, tokens, ended: false }];
        let error = scheduler.complete(id, MS, None, &outcomes).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(scheduler.num_frames(), 1);
    complete(&mut scheduler, &frame, 10 * MS, Some(10 * MS));
}

#[test]
fn a_long_prompt_is_not_passed_over_for_longer_than_its_patience() {
    // There is always one short prompt; shortest-first alone would starve the long one.
    let graphs = [(graph(64, 0, 1), 20 * MS)];
    let longest_wait_ms = |patience: f64| {
        let prices = PriceSettings { patience, wait_pressure: 0.0, ..PriceSettings::default() };
        let mut scheduler = measured(&graphs, settings(prices));
        let long = scheduler.admit(0, LaneSpec::new(640, 1)).expect("a free lane");
        let (mut now_ns, mut served_ns, mut longest_ns) = (0, 0, 0);
        for _ in 0..1_000 {
            if scheduler.num_lanes() < 2 {
                let short = LaneSpec { arrived_at_ns: now_ns, ..LaneSpec::new(64, 1) };
                scheduler.admit(now_ns, short).expect("a free lane");
            }
            let frame = dispatch(&mut scheduler, now_ns);
            now_ns += 20 * MS;
            if frame.step.lanes[0].0 == long {
                longest_ns = longest_ns.max(now_ns - served_ns);
                served_ns = now_ns;
            }
            complete(&mut scheduler, &frame, now_ns, Some(20 * MS));
            if scheduler.service(long).is_none() {
                return longest_ns / MS;
            }
        }
        i64::MAX
    };
    assert_eq!(longest_wait_ms(0.0), i64::MAX);
    // Its own service takes 200 ms; twice that, and the step in which it is served.
    assert_eq!(longest_wait_ms(2.0), 400 + 20);
}

#[test]
fn pipelined_rounds_keep_their_cost_through_a_late_host() {
    let graphs = [(graph(0, 4, 8), 29 * MS), (graph(0, 4, 1), 15 * MS)];
    let mut scheduler = measured(&graphs, Settings::default());
    let acceptance = vec![0.5; 7];
    for _ in 0..4 {
        let lane = LaneSpec { acceptance: acceptance.clone(), ..LaneSpec::new(0, 100_000) };
        scheduler.admit(0, lane).expect("a free lane");
    }
    let mut now_ns = 0;
    for _ in 0..20 {
        let frame = dispatch(&mut scheduler, now_ns);
        assert_eq!(frame.step.choice.graph, 1, "two tokens in 29 ms against one in 15");
        now_ns += 15 * MS;
        complete(&mut scheduler, &frame, now_ns, Some(15 * MS));
    }
    // One wide round submitted to an empty queue takes 61 ms of wall for 28.5 ms on the device.
    let late = Execution {
        purpose: Purpose::Ordinary,
        device_ns: Some(28 * MS + MS / 2),
        wall_ns: 61 * MS,
        drained: true,
        feedback: false,
        completed_at_ns: now_ns,
    };
    scheduler.observe(0, &late).expect("a graph of the catalogue");
    let cost_ns = scheduler.table().costs()[0].cost_ns().expect("measured");
    assert!((28 * MS + MS / 2..=29 * MS).contains(&cost_ns), "{cost_ns}");
}

#[test]
fn a_deadline_that_gets_near_puts_its_prompt_first() {
    let graphs = [(graph(64, 0, 1), 20 * MS), (graph(0, 1, 1), 10 * MS)];
    let mut scheduler = measured(&graphs, Settings::default());
    scheduler.admit(0, LaneSpec::new(128, 4)).expect("a free lane");
    let due = LaneSpec { first_token_deadline_ns: Some(60 * MS), ..LaneSpec::new(192, 4) };
    let urgent = scheduler.admit(0, due).expect("a free lane");
    // 60 ms of work in 60 ms cannot be met any more: the shorter prompt is first.
    assert_ne!(dispatch(&mut scheduler, 1).step.lanes[0].0, urgent);
    let mut scheduler = measured(&graphs, Settings::default());
    scheduler.admit(0, LaneSpec::new(128, 4)).expect("a free lane");
    let due = LaneSpec { first_token_deadline_ns: Some(70 * MS), ..LaneSpec::new(192, 4) };
    let urgent = scheduler.admit(0, due).expect("a free lane");
    assert_eq!(dispatch(&mut scheduler, 1).step.lanes[0].0, urgent);
}

#[test]
fn a_completion_deadline_raises_the_price_of_a_row() {
    let mut scheduler = measured(&[(graph(0, 1, 1), 10 * MS)], Settings::default());
    scheduler.admit(0, LaneSpec::new(0, 20)).expect("a free lane");
    let due = LaneSpec { completion_deadline_ns: Some(250 * MS), ..LaneSpec::new(0, 20) };
    let urgent = scheduler.admit(0, due).expect("a free lane");
    let mut now_ns = 0;
    while scheduler.service(urgent).is_some() {
        let frame = dispatch(&mut scheduler, now_ns);
        now_ns += 10 * MS;
        complete(&mut scheduler, &frame, now_ns, Some(10 * MS));
    }
    // 200 ms of work; taking turns with the other stream, it would be done after 390. The price
    // of the other's age keeps it from having the device to itself.
    assert!((200 * MS..=300 * MS).contains(&now_ns), "{now_ns}");
}

#[test]
fn a_wide_gap_target_lets_longer_prefills_in() {
    let chunks = [32, 64, 128, 256, 512]
        .map(|tokens| (graph(tokens, 8, 1), 20 * MS + i64::from(tokens) * MS / 5));
    let graphs: Vec<(Graph, i64)> = [(graph(0, 8, 1), 20 * MS)].into_iter().chain(chunks).collect();
    let taken = |gap_target_ns: Option<i64>| {
        let mut scheduler = measured(&graphs, Settings::default());
        for _ in 0..8 {
            let stream = LaneSpec { gap_target_ns, ..LaneSpec::new(0, 1_000) };
            scheduler.admit(0, stream).expect("a free lane");
        }
        scheduler.admit(0, LaneSpec::new(3_000, 4)).expect("a free lane");
        match dispatch(&mut scheduler, 0).step.lanes[0].1 {
            Share::Prompt(tokens) => tokens,
            Share::Row(_) => 0,
        }
    };
    assert!(taken(Some(400 * MS)) > taken(None), "{} {}", taken(Some(400 * MS)), taken(None));
}
