//! Himeno's benchmark on mapped memory gives the bits of the sequential run, and the sequential run is right.

use crate::stage;

use stage::{SHARINGS, Stage, each_app, threads_app, value};

/// Points of size XS.
const XS: [usize; 3] = [32, 32, 64];

/// The sum of squares of the last of `sweeps` sweeps, from the equation with its constants put in (a = 1, 1, 1, 1/6;
/// b = 0; c = 1; the source 0), in double precision.
fn gosa(sweeps: usize) -> f64 {
    let [ni, nj, nk] = XS;
    let at = |i: usize, j: usize, k: usize| (i * nj + j) * nk + k;
    let mut pressure: Vec<f64> = (0..ni * nj * nk).map(|k| ((k / (nj * nk)) as f64 / (ni - 2) as f64).powi(2)).collect();
    let mut gosa = 0.0;
    for _ in 0..sweeps {
        let mut next = pressure.clone();
        gosa = 0.0;
        for i in 1..ni - 2 {
            for j in 1..nj - 2 {
                for k in 1..nk - 2 {
                    let around = pressure[at(i + 1, j, k)] + pressure[at(i - 1, j, k)] + pressure[at(i, j + 1, k)];
                    let around = around + pressure[at(i, j - 1, k)] + pressure[at(i, j, k + 1)] + pressure[at(i, j, k - 1)];
                    let change = around / 6.0 - pressure[at(i, j, k)];
                    gosa += change * change;
                    next[at(i, j, k)] += 0.8 * change;
                }
            }
        }
        pressure = next;
    }
    gosa
}

fn assert_right(line: &str, ranks: usize, sweeps: usize) {
    assert_eq!((value(line, "ranks"), value(line, "wrong")), (ranks.to_string().as_str(), "0"), "{line}");
    assert_eq!(value(line, "gosa"), value(line, "gosa_sequential"), "{line}");
    let (found, right) = (value(line, "gosa").parse::<f64>().unwrap(), gosa(sweeps));
    assert!((found / right - 1.0).abs() < 1e-3, "{found} is not about {right}: {line}");
}

// FEATURE: D2-F21 D2-F4
#[test]
fn ranks_on_mapped_memory_find_what_one_finds() {
    each_app("himeno/mapped", &[], |program| {
        for (nodes, ranks, mode) in SHARINGS {
            let arguments = ["XS", "--sweeps", "5", "--mode", mode, "--check"];
            assert_right(&Stage::of(nodes).pass(program, &arguments, ranks)[0], ranks, 5);
        }
    });
}

// FEATURE: D2-F21
#[test]
fn one_and_threads_in_main_memory_are_right_too() {
    let stage = Stage::of(1);
    each_app("himeno/plain", &[], |program| assert_right(&stage.pass(program, &["XS", "--check"], 1)[0], 1, 20));
    let Some(threads) = threads_app("himeno/threads") else { return };
    let line = &stage.pass(&threads, &["XS", "--sweeps", "3", "--threads", "3", "--check"], 1)[0];
    assert_right(line, 3, 3);
}
