#[path = "mixes.rs"] #[allow(dead_code)] mod mixes;
use headway_core::sim::{engine::*, headway::*, workload::*};
use headway_core::batching::settings::PolicySettings;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let (w, d) = mixes::mix(&a[0], 60);
    let cap = mixes::capacity(&w, &d);
    let load: f64 = a[1].parse().unwrap();
    for secs in [2, 5, 10, 20, 40, 60] {
        let w = Workload { rates: vec![(0, load * cap)], duration_ns: secs * 1_000_000_000, ..w.clone() };
        let t = w.draw(61);
        let fleet = Fleet { device: d, speeds: vec![1.0], changes: vec![] };
        let p = HeadwayPolicy::new(&t, PolicySettings { shed_early: true, ..Default::default() }, &d, 1, (d.intercept_ns*1.2, d.slope_ns*0.8), false, 1);
        let (r, p) = Engine::new(&t, &fleet, p, 8).run();
        let ok = r.endings.iter().filter(|e| e.fate == Fate::OnTime).count();
        println!("{secs}s on time {:.3} chosen {:?}", ok as f64 / t.rows.len() as f64, p.policy().quanta());
        for (q, s) in p.policy().learner().scores() { print!(" {:.0}:{:.0}", q.fast_ns / 1e6, s); }
        println!();
    }
}
