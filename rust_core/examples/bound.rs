use headway_core::sim::{bound::*, engine::*, workload::*};
fn main() {
    let rate: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let a: Vec<u32> = std::env::args().skip(2).map(|a| a.parse().unwrap()).collect();
    let d = Device { intercept_ns: 18e6, slope_ns: 22e3, noise: 0.08, max_requests: 32, max_rows: 0, max_units: 16384 };
    let t = Workload::reference(rate, 30_000_000_000).draw(10001);
    let s = std::time::Instant::now();
    let b = clairvoyant_bound(&t, &d, &BoundEffort { search_step_ns: a[0] as i64 * 1000, search_rounds: a[1], final_step_ns: a[2] as i64 * 1000, final_rounds: a[3] });
    println!("{rate}: offered {:.1} bound {:.1}  {:.1}s", t.rows.len() as f64 / 30.0, b / 30.0, s.elapsed().as_secs_f64());
}
