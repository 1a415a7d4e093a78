#[path = "mixes.rs"] #[allow(dead_code)] mod mixes;
use headway_core::sim::{engine::*, workload::*};
use headway_core::batching::settings::PolicySettings;
fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let list: Vec<&str> = if names.is_empty() { mixes::MIXES.to_vec() } else { names.iter().map(String::as_str).collect() };
    for name in list {
        let (w, d) = mixes::mix(name, 60);
        let cap = mixes::capacity(&w, &d);
        let mut line = format!("{name:>9}");
        for load in [0.6, 0.9, 1.2, 1.5, 2.0, 3.0] {
            let w = Workload { rates: vec![(0, load * cap)], ..w.clone() };
            let (mut early, mut unserved, mut good, mut base, mut refused, mut wrong) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
            for seed in [51, 52] {
                let t = w.draw(seed);
                let fleet = Fleet { device: d, speeds: vec![1.0], changes: vec![] };
                let go = |shed: bool| Engine::new(&t, &fleet, mixes::policy(&t, &d, 1, PolicySettings { shed_early: shed, ..Default::default() }, seed), 8).run().0;
                let (a, b) = (go(true), go(false));
                for ((row, x), y) in t.rows.iter().zip(&a.endings).zip(&b.endings) {
                    if row.at_ns < 10_000_000_000 { continue; }
                    let ok = x.fate == Fate::OnTime;
                    good += f64::from(ok); base += f64::from(y.fate == Fate::OnTime);
                    unserved += f64::from(!ok);
                    if x.fate == Fate::Refused { refused += 1.0; wrong += f64::from(y.fate == Fate::OnTime); }
                    if !ok && x.at_ns <= row.at_ns + 10_000_000 { early += 1.0; }
                }
            }
            line += &format!(" | {:.3} {:.3} {:.4} {:.2}", unserved / (unserved + good), early / unserved, good / base, wrong / f64::max(refused, 1.0));
        }
        println!("{line}");
    }
}
