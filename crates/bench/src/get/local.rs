//! One host: get and put through the mapped extent, beside MPI on a shared window and a bare memcpy.

use super::{SIZES, bytes, compare, rounds_of};
use crate::Options;
use crate::peers::program::{self, Compiled};
use crate::report::Row;
use crate::turns::{Contestant, Figures, take_turns};
use anyhow::{Context, Result};
use hanare::{CreateOptions, Pool, Region};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Operations of 8 B in one measurement.
const ROUNDS: usize = 200_000;

pub fn rows(options: &Options, pool: &Pool, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>> {
    let rounds = if options.quick { ROUNDS / 100 } else { ROUNDS };
    let region = pool.create("bench-local", SIZES[2] as u64, &CreateOptions::default())?;
    let compiled = Compiled::new(options)?;
    let contestants = vec![
        Contestant::ours("hanare", || ours(&region, rounds)),
        Contestant::peer(&mpi_name(), mpi(&compiled, rounds)),
        Contestant::peer("memcpy", Ok(|| memcpy(rounds))),
    ];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    pool.remove("bench-local")?;
    let [ours, mpi, memcpy] = &outcomes[..] else { unreachable!("there are three contestants") };
    let mut rows = Vec::new();
    for size in SIZES {
        for what in ["get", "put"] {
            let (case, key) = (format!("{what} {}, same host", bytes(size)), format!("{what}_{size}"));
            rows.push(compare(case.clone(), ours, &key, mpi, &key, Some(1.0))?);
            // A call that checks its range cannot be as short as a move of 8 bytes: only the large one has a goal.
            let goal = (size == SIZES[2]).then_some(0.9);
            rows.push(compare(case, ours, &key, memcpy, &key, goal)?);
        }
    }
    Ok(rows)
}

/// The mean time of an operation, in ns, after a tenth as many to warm up.
fn time(count: usize, mut operation: impl FnMut() -> hanare::Result<()>) -> Result<f64> {
    for _ in 0..count / 10 {
        operation()?;
    }
    let start = Instant::now();
    for _ in 0..count {
        operation()?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

fn ours(region: &Region, rounds: usize) -> Result<Figures> {
    let mut buffer = vec![7; SIZES[2]];
    let mut figures = Figures::new();
    for size in SIZES {
        let count = rounds_of(size, rounds);
        let buffer = &mut buffer[..size];
        figures.insert(format!("get_{size}"), time(count, || region.get(0, std::hint::black_box(&mut *buffer)))?);
        figures.insert(format!("put_{size}"), time(count, || region.put(0, std::hint::black_box(&*buffer)))?);
    }
    Ok(figures)
}

/// A copy between two buffers of this process.
fn memcpy(rounds: usize) -> Result<Figures> {
    let (mut near, mut far) = (vec![7u8; SIZES[2]], vec![8u8; SIZES[2]]);
    let mut figures = Figures::new();
    for size in SIZES {
        let count = rounds_of(size, rounds);
        let copy = |from: &[u8], to: &mut [u8]| {
            std::hint::black_box(to).copy_from_slice(std::hint::black_box(from));
            Ok(())
        };
        figures.insert(format!("get_{size}"), time(count, || copy(&far[..size], &mut near[..size]))?);
        figures.insert(format!("put_{size}"), time(count, || copy(&near[..size], &mut far[..size]))?);
    }
    Ok(figures)
}

fn mpi_name() -> String {
    let output = Command::new("mpirun").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let first = String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned();
    match first.split_whitespace().last() {
        Some(version) if first.contains("Open MPI") => format!("Open MPI {version}"),
        _ => "Open MPI".to_owned(),
    }
}

fn mpi(compiled: &Compiled, rounds: usize) -> Result<impl FnMut() -> Result<Figures> + use<>> {
    let program = compiled.build("mpicc", "mpi_window", &[])?;
    let program = program.to_str().context("the folder's name is no text")?.to_owned();
    Ok(move || {
        // Two ranks, wherever there is room; as root only because the user is.
        let arguments = ["--oversubscribe", "-n", "2", &program, &rounds.to_string()];
        let variables = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
        program::figures(&program::run(Path::new("mpirun"), &arguments, &variables)?)
    })
}
