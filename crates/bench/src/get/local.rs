//! A single host: get and put through the mapped extent, beside MPI on a shared window and a bare memcpy.

use super::{SIZES, rounds_of};
use crate::Options;
use crate::compare::{bytes, compare};
use crate::peers::mpi::Mpi;
use crate::peers::program::{self, Compiled};
use crate::report::Row;
use crate::turns::{Contestant, Figures, median, take_turns};
use anyhow::{Context, Result};
use hanare::{CreateOptions, Pool, Region};
use std::path::Path;
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
            let (case, key) = (format!("{what} {}, same host", bytes(size as u64)), format!("{what}_{size}"));
            rows.push(compare(case.clone(), ours, &key, mpi, &key, Some(1.0))?);
            // A call that checks its range cannot be as short as a move of 8 bytes. Only the large one has a goal.
            let goal = (size == SIZES[2]).then_some(0.9);
            rows.push(compare(case, ours, &key, memcpy, &key, goal)?);
        }
    }
    Ok(rows)
}

/// Batches of a measurement whose operations are too short for a clock of their own; as in the peers' programs.
const BATCH_COUNT: usize = 20;

/// The median over batches of an operation's mean time in ns, after a tenth as many to warm up. A mean over all would
/// count every time slice that others take.
fn time(count: usize, mut operation: impl FnMut() -> hanare::Result<()>) -> Result<f64> {
    let each = (count / BATCH_COUNT).max(1);
    let mut batch = || -> Result<f64> {
        let start = Instant::now();
        for _ in 0..each {
            operation()?;
        }
        Ok(start.elapsed().as_nanos() as f64 / each as f64)
    };
    for _ in 0..BATCH_COUNT / 10 {
        batch()?;
    }
    Ok(median((0..BATCH_COUNT).map(|_| batch()).collect::<Result<_>>()?))
}

/// A buffer that begins on a page, as the peers' programs have them. The offsets of two buffers within their pages can make a copy take 25
/// times as long.
struct Aligned(Vec<u8>);

impl Aligned {
    fn new(byte: u8) -> Aligned {
        Aligned(vec![byte; SIZES[2] + 4096])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let front = self.0.as_ptr().align_offset(4096);
        &mut self.0[front..front + SIZES[2]]
    }
}

fn ours(region: &Region, rounds: usize) -> Result<Figures> {
    let mut buffer = Aligned::new(7);
    let buffer = buffer.bytes();
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
    let (mut near, mut far) = (Aligned::new(7), Aligned::new(8));
    let (near, far) = (near.bytes(), far.bytes());
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
    Mpi::Open.tools().map_or_else(|_| "Open MPI".to_owned(), |(_, _, version)| format!("Open MPI {version}"))
}

fn mpi(compiled: &Compiled, rounds: usize) -> Result<impl FnMut() -> Result<Figures> + use<>> {
    let (compiler, launcher, _) = Mpi::Open.tools()?;
    let program = compiled.build(&compiler, "mpi_window", &[])?;
    let program = program.to_str().context("the folder's name is no text")?.to_owned();
    Ok(move || {
        // Two ranks, wherever there is room; as root only because the user is.
        let arguments = ["--oversubscribe", "-n", "2", &program, &rounds.to_string()];
        let variables = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
        program::figures(&program::run(Path::new(&launcher), &arguments, &variables)?)
    })
}
