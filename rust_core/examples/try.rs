use headway_core::sim::{engine::*, headway::*, workload::*};
use headway_core::batching::settings::PolicySettings;
fn main() {
    let args: Vec<f64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let seeds = args.first().copied().unwrap_or(2.0) as u64;
    let fixed = args.get(1).copied().unwrap_or(0.0);
    let alpha = args.get(2).copied().unwrap_or(0.5);
    let device = Device { intercept_ns: 18e6, slope_ns: 22e3, noise: 0.08, max_requests: 32, max_rows: 0, max_units: 16384 };
    let fleet = Fleet { device, speeds: vec![1.0], changes: vec![] };
    for rate in [40.0, 90.0, 150.0, 200.0, 220.0, 260.0, 320.0, 400.0, 600.0] {
        let start = std::time::Instant::now();
        let (mut good, mut urgent, mut relaxed, mut top, mut n) = (0.0, 0.0, 0.0, 0.0, 0);
        for seed in 0..seeds {
            let trace = Workload::reference(rate, 120_000_000_000).draw(10001 + seed);
            n += trace.rows.len();
            let settings = PolicySettings { alpha, fixed_quantum_ns: fixed * 1e6, ..Default::default() };
            let policy = HeadwayPolicy::new(&trace, settings, &device, 1, (20e6, 20e3), false, seed);
            let (result, _p) = Engine::new(&trace, &fleet, policy, seed + 7).run();
            let q = trace.units_quantile(0.9);
            let mut c = [[0.0; 2]; 3];
            for (row, end) in trace.rows.iter().zip(&result.endings) {
                let ok = f64::from(end.fate == Fate::OnTime);
                c[row.class as usize][0] += ok; c[row.class as usize][1] += 1.0;
                if row.units >= q { c[2][0] += ok; c[2][1] += 1.0; }
            }
            good += (c[0][0] + c[1][0]) / 120.0; urgent += c[0][0] / c[0][1]; relaxed += c[1][0] / c[1][1]; top += c[2][0] / c[2][1];
            if std::env::var("SHOW").is_ok() {
                for (q, s) in _p.policy().learner().scores() { println!("   {:.1} {:.1}: {:.1}", q.fast_ns / 1e6, q.slow_ns / 1e6, s); }
                println!("   chosen {:?}", _p.policy().quanta());
            }
        }
        let k = seeds as f64;
        println!("{rate}: {:.1}  u {:.3} r {:.3} top {:.3}   {:.0}k req/s", good / k, urgent / k, relaxed / k, top / k, n as f64 / start.elapsed().as_secs_f64() / 1e3);
    }
}
