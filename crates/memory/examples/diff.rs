//! What diffs cost, beside `memcmp` and `memcpy` of the same pages: `cargo run --release -p hanare-memory --example diff`.

use hanare_memory::diff::{Diff, PageBytes};
use std::hint::black_box;
use std::time::Instant;

/// Pages of a run: more than the first cache holds, less than the second.
const COUNT: usize = 64;

fn median_ns(mut body: impl FnMut(usize)) -> f64 {
    let mut times: Vec<f64> = (0..31)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..20 {
                (0..COUNT).for_each(&mut body);
            }
            start.elapsed().as_nanos() as f64 / (20 * COUNT) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let twins: Vec<PageBytes> = (0..COUNT).map(|page| std::array::from_fn(|at| (at * 7 + page) as u8)).collect();
    let equal = twins.clone();
    let compare = median_ns(|k| {
        black_box(black_box(&twins[k]) == black_box(&equal[k]));
    });
    let mut copies = twins.clone();
    let copy = median_ns(|k| copies[k] = *black_box(&twins[k]));
    println!("memcmp of a page {compare:.0} ns, memcpy {copy:.0} ns; below, ns a page and the ratio to memcmp");
    let kinds: [(&str, &dyn Fn(usize) -> bool); 6] = [
        ("clean", &|_| false),
        ("one byte", &|at| at == 2000),
        ("one run of 256 bytes", &|at| (1024..1280).contains(&at)),
        ("8 bytes of each 64", &|at| at % 64 < 8),
        ("every second byte", &|at| at % 2 == 0),
        ("all", &|_| true),
    ];
    for (name, is_changed) in kinds {
        let pages: Vec<PageBytes> =
            twins.iter().map(|twin| std::array::from_fn(|at| twin[at] ^ u8::from(is_changed(at)))).collect();
        let between = median_ns(|k| {
            black_box(Diff::between(black_box(&twins[k]), black_box(&pages[k])));
        });
        let diffs: Vec<Diff> = (0..COUNT).map(|k| Diff::between(&twins[k], &pages[k])).collect();
        let mut home = twins.clone();
        let put = median_ns(|k| {
            for (start, len) in black_box(&diffs[k]).runs() {
                home[k][start..start + len].copy_from_slice(&pages[k][start..start + len]);
            }
        });
        println!("{name:<22} between {between:>5.0} ({:>4.1}x)   put {put:>5.0} ({:>4.1}x)", between / compare, put / compare);
    }
}
