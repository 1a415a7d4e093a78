#[path = "mixes.rs"] #[allow(dead_code)] mod mixes;
use headway_core::sim::{engine::*, workload::*};
use headway_core::batching::settings::PolicySettings;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let get = |name: &str, or: f64| args.iter().find_map(|a| a.strip_prefix(&format!("{name}=")).map(|v| v.parse().unwrap())).unwrap_or(or);
    let seeds = get("seeds", 2.0) as u64;
    let settings = PolicySettings { alpha: get("alpha", 0.5), fixed_quantum_ns: get("q", 0.0) * 1e6, shed_early: get("shed", 1.0) > 0.0, large_share: get("floor", PolicySettings::default().large_share), ..Default::default() };
    let k = get("k", 1.0) as usize;
    let rates: Vec<f64> = if get("few", 0.0) > 0.0 { vec![200.0, 260.0, 600.0] } else if get("rate", 0.0) > 0.0 { vec![get("rate", 0.0)] } else if k == 3 { vec![120.0, 270.0, 450.0, 600.0, 780.0, 960.0] } else { vec![40.0, 90.0, 150.0, 200.0, 220.0, 260.0, 320.0, 400.0, 600.0] };
    let device = mixes::dev(18.0, 0.022);
    let speeds = if k == 3 { vec![1.0, 1.0, 0.6] } else { vec![1.0; k] };
    let fleet = Fleet { device, speeds, changes: vec![] };
    for rate in rates {
        let start = std::time::Instant::now();
        let (mut good, mut urgent, mut relaxed, mut top, mut n, mut early, mut unserved) = (0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0);
        for seed in 0..seeds {
            let trace = Workload::reference(rate, 120_000_000_000).draw(10001 + seed);
            n += trace.rows.len();
            let (result, p) = Engine::new(&trace, &fleet, mixes::policy(&trace, &device, k, settings, seed), seed + 7).run();
            if std::env::var("SHOW").is_ok() { println!("{:?}", p.stats()); }
            let q = trace.units_quantile(0.9);
            let mut c = [[0.0; 2]; 3];
            for (row, end) in trace.rows.iter().zip(&result.endings) {
                let ok = f64::from(end.fate == Fate::OnTime);
                if ok == 0.0 { unserved += 1.0; early += f64::from(end.at_ns <= row.at_ns + 10_000_000); }
                c[row.class as usize][0] += ok; c[row.class as usize][1] += 1.0;
                if row.units >= q { c[2][0] += ok; c[2][1] += 1.0; }
            }
            good += (c[0][0] + c[1][0]) / 120.0; urgent += c[0][0] / c[0][1]; relaxed += c[1][0] / c[1][1]; top += c[2][0] / c[2][1];
        }
        let k = seeds as f64;
        println!("{rate}: {:.1} of {:.1} u {:.3} r {:.3} top {:.3} early {:.3}  {:.0}k req/s", good / k, n as f64 / k / 120.0, urgent / k, relaxed / k, top / k, early / unserved, n as f64 / start.elapsed().as_secs_f64() / 1e3);
    }
}
