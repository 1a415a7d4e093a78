use headway_core::sim::{engine::*, headway::*, workload::*, trace::Trace};
use headway_core::batching::settings::PolicySettings;
pub fn class(share: f64, lo: i64, hi: i64) -> ClassMix { ClassMix { share, deadline_min_ns: lo * 1_000_000, deadline_max_ns: hi * 1_000_000, weight: 1.0, lane: 1, priority: 2 } }
pub fn dev(c0: f64, c1: f64) -> Device { Device { intercept_ns: c0 * 1e6, slope_ns: c1 * 1e6, noise: 0.08, max_requests: 32, max_rows: 0, max_units: 16384 } }
pub fn mix(name: &str, secs: i64) -> (Workload, Device) {
    let mut w = Workload::reference(100.0, secs * 1_000_000_000);
    let mut d = dev(18.0, 0.022);
    match name {
        "ref" => {}
        "300/2000" => w.classes = vec![class(0.3, 300, 300), class(0.7, 2000, 2000)],
        "single500" => w.classes = vec![class(1.0, 500, 500)],
        "single120" => w.classes = vec![class(1.0, 120, 120)],
        "three" => w.classes = vec![class(1.0, 80, 80), class(1.0, 400, 400), class(1.0, 3000, 3000)],
        "unif" => w.classes = vec![class(1.0, 100, 3000)],
        "5urgent" => w.classes = vec![class(0.05, 120, 120), class(0.95, 900, 900)],
        "60urgent" => w.classes = vec![class(0.6, 120, 120), class(0.4, 900, 900)],
        "fat" => w.log_units_spread = 1.4,
        "bursty" => { w.burst_ns = (1e9, 1e9); w.burst_off_ratio = 0.2; }
        "dev3" => d = dev(3.0, 0.3),
        "dev70" => d = dev(70.0, 0.5 / 7.0),
        _ => panic!(),
    }
    (w, d)
}
pub const MIXES: [&str; 12] = ["ref", "300/2000", "single500", "single120", "three", "unif", "5urgent", "60urgent", "fat", "bursty", "dev3", "dev70"];
pub fn capacity(w: &Workload, d: &Device) -> f64 {
    let t = Workload { rates: vec![(0, 1000.0)], ..w.clone() }.draw(5);
    let mean = t.rows.iter().map(|r| r.units as f64).sum::<f64>() / t.rows.len() as f64;
    1e9 / (d.intercept_ns / 32.0 + d.slope_ns * mean)
}
pub fn policy<'a>(trace: &'a Trace, d: &Device, k: usize, settings: PolicySettings, seed: u64) -> HeadwayPolicy<'a> {
    let setup = HeadwaySetup { settings, prior: headway_core::cost::Affine { fixed_ns: d.intercept_ns * 1.2, unit_ns: d.slope_ns * 0.8 }, is_learning: true, max_queued_requests: 1 << 20, seed };
    HeadwayPolicy::new(trace, d, k, &setup).unwrap()
}
pub fn run(trace: &Trace, d: &Device, s: PolicySettings, seed: u64, skip: i64) -> f64 {
    let fleet = Fleet { device: *d, speeds: vec![1.0], changes: vec![] };
    let p = policy(trace, d, 1, s, seed);
    let (r, _) = Engine::new(trace, &fleet, p, seed + 7).run();
    let mut ok = 0; let mut n = 0;
    for (row, e) in trace.rows.iter().zip(&r.endings) { if row.at_ns >= skip { n += 1; ok += usize::from(e.fate == Fate::OnTime); } }
    ok as f64 / n as f64
}
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let alpha: f64 = args.first().map_or(0.5, |a| a.parse().unwrap());
    let seeds: Vec<u64> = vec![61, 62];
    let (mut sum, mut n, mut min) = (0.0, 0, 9.0f64);
    for name in MIXES {
        let (w, d) = mix(name, 60);
        let cap = capacity(&w, &d);
        let mut line = format!("{name:>10} cap {cap:.0}");
        for load in [0.6, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0] {
            let w = Workload { rates: vec![(0, load * cap)], ..w.clone() };
            let traces: Vec<Trace> = seeds.iter().map(|s| w.draw(*s)).collect();
            let go = |fixed: f64| traces.iter().enumerate().map(|(i, t)| run(t, &d, PolicySettings { alpha, fixed_quantum_ns: fixed, shed_early: false, ..Default::default() }, i as u64 + 1, 5_000_000_000)).sum::<f64>() / 2.0;
            let learned = go(0.0);
            let mut best = (0.0, 0.0);
            let mut q = 1.3 * d.intercept_ns;
            let mut grid = vec![];
            while q < 1.6e9 { grid.push(q); q *= 1.09; }
            for k in [57.7e6, 144e6, 240e6, 38.5e6, 192e6] { grid.push(k); }
            for q in grid { let g = go(q); if g > best.0 { best = (g, q); } }
            line += &format!(" | {:.3} {:.4}@{:.0}", learned / best.0, best.0, best.1 / 1e6);
            sum += learned / best.0; n += 1; min = min.min(learned / best.0);
        }
        println!("{line}");
    }
    println!("mean {:.4} min {:.4}", sum / n as f64, min);
}
