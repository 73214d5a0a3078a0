//! The matrix product of the drivers paper's figure 4, from `.npy` files to a `.npy` file.
//!
//! ```text
//! A.npy B.npy --load--> regions A, B on node 0 --+-- rank 0 on node 0 --+--> region C --save--> C.npy --check
//!                                                +-- rank 1 on node 1 --+
//! ```
//!
//! Beside it stands a plain program in main memory, with the same loops over the same kind of pages, as one process and as two. The
//! order of the loops is the one that walks all matrices along their rows. The paper's own order is measured by `hanare bench matmul`.

use crate::print::{self, Column};
use crate::progress::Step;
use crate::region;
use crate::region::npy;
use crate::run::nodes::Nodes;
use crate::run::rank::Program;
use crate::run::{guard, job, signals};
use crate::size;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hanare::Array;
use hanare::{CreateOptions, Placement, Pool};
use hanare_protocol::limits::PAGE_LEN;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::process::Pid;
use serde_json::json;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The order of the loops, in main memory and in the pool.
const ORDER: &str = "ikj";

/// Largest matrix: three of them and their copies must fit the machine.
const N_MAX: u64 = 8192;

/// What to multiply, and where.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rows and columns of the matrices.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(2..=N_MAX))]
    n: u64,
    /// Folder for A.npy, B.npy and the product C.npy.
    #[arg(long, value_name = "DIR", default_value = "out/matmul")]
    dir: PathBuf,
    /// The program that multiplies: `make apps` builds it.
    #[arg(long, value_name = "FILE", default_value = "out/apps/distributed")]
    program: PathBuf,
    /// The same loops in main memory, beside which the program stands: `make apps` builds it.
    #[arg(long, value_name = "FILE", default_value = "out/apps/plain")]
    plain: PathBuf,
    /// Seed of the random matrices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a run of the program said of itself.
#[derive(Clone, Copy, Debug)]
struct Run {
    ranks: u32,
    product: Duration,
    whole: Duration,
    bytes_moved: u64,
    messages: u64,
}

/// Where a region lies.
struct Lies {
    name: &'static str,
    len: u64,
    nodes: Vec<(u32, u64)>,
}

/// Refuses, before anything is written, what cannot be done.
pub fn check(options: &Options) -> Result<()> {
    for (program, word) in [(&options.program, "--program"), (&options.plain, "--plain")] {
        ensure!(program.is_file(), "{} is not there; `make apps` builds it (or give {word})", program.display());
    }
    Ok(())
}

/// Does the whole of it and prints the table.
pub fn run(options: &Options, guard: Pid) -> Result<i32> {
    let (own_events, events) = signals::catch_with()?;
    guard::enter(guard)?;
    let n = options.n;
    let matrix_len = n * n * 8;
    let file = |name: &str| options.dir.join(format!("{name}.npy"));
    write_matrices(options, &file("A"), &file("B"))?;

    let step = Step::start("starting a pool of two nodes");
    let mut nodes = Nodes::start(2, (matrix_len * 5 + (64 << 20)).next_multiple_of(64 << 20))?;
    let sockets = nodes.sockets();
    let pool = Pool::attach_to(&sockets[0], None)?;
    drop(step);

    let place = CreateOptions::default();
    region::load(&pool, &file("A"), "A", &place)?;
    region::load(&pool, &file("B"), "B", &place)?;
    // Each node holds the rows that its rank makes.
    let halves = Placement::Interleave((matrix_len / 2).next_power_of_two().max(PAGE_LEN));
    let product = pool.create("C", matrix_len, &CreateOptions { placement: halves, ..place.clone() })?;
    pool.create("C1", matrix_len, &place)?;
    let pages = if pool.status()?.nodes.iter().any(|node| node.memory.page > PAGE_LEN) { "huge" } else { "4k" };

    let mut multiply = |ranks: u32, into: &str| -> Result<Run> {
        let _step =
            Step::start(&format!("multiplying {n} x {n} on {ranks} rank{}", if ranks > 1 { "s, one a node" } else { "" }));
        let number = n.to_string();
        let words: Vec<OsString> = [options.program.as_os_str()]
            .into_iter()
            .chain([&number, "--loaded", "--order", ORDER, "--c", into].map(OsStr::new))
            .map(OsStr::to_owned)
            .collect();
        let (sender, lines) = channel();
        let plan = job::Plan {
            program: Program::find(&words)?,
            ranks,
            sockets: sockets.clone(),
            variables: Vec::new(),
            lines: Some(sender),
        };
        let mut around = job::Surroundings { events: &events, sender: &own_events, guard, nodes: &mut nodes };
        if let Some(job::Failure { rank, end }) = job::run(&plan, &mut around)? {
            bail!("the product on {ranks} ranks was not made: {rank} ended with {end}");
        }
        drop(plan);
        read_run(&lines.iter().map(|line| String::from_utf8_lossy(&line).into_owned()).collect::<String>())
    };
    // The one-rank product goes elsewhere, so that nothing of it can pass for the work of two.
    let runs = [multiply(1, "C1")?, multiply(2, "C")?];
    let plain = [multiply_plainly(options, pages, 1)?, multiply_plainly(options, pages, 2)?];

    region::save(&product, &file("C"), Some(&square(n)))?;
    let lies = ["A", "B", "C"].map(|name| {
        let stat = pool.stat(name)?;
        Ok(Lies { name, len: stat.len, nodes: stat.nodes.iter().map(|(node, bytes)| (node.0, *bytes)).collect() })
    });
    let lies = lies.into_iter().collect::<Result<Vec<_>>>()?;
    drop(nodes);

    let worst = compare(n as usize, &file("A"), &file("B"), &file("C"))?;
    // Each element adds n products of numbers below 1 in the same order, so that only fused operations may differ.
    let bound = n as f64 * f64::EPSILON;
    report(options, &plain, &runs, worst, &lies)?;
    ensure!(worst <= bound, "the product is wrong: an element differs by {worst:e} from the sequential one, more than {bound:e}");
    Ok(0)
}

/// The same product in main memory.
fn multiply_plainly(options: &Options, pages: &str, processes: u32) -> Result<Run> {
    let _step = Step::start(&format!("the same in main memory, processes: {processes}"));
    let mut command = Command::new(&options.plain);
    command.arg(options.n.to_string()).args(["--order", ORDER, "--pages", pages, "--processes", &processes.to_string()]);
    let output = command.output().with_context(|| format!("cannot run {}", options.plain.display()))?;
    ensure!(output.status.success(), "{} failed: {}", options.plain.display(), String::from_utf8_lossy(&output.stderr).trim());
    read_run(&String::from_utf8_lossy(&output.stdout))
}

fn square(n: u64) -> Array {
    Array::new("<f8", &[n, n])
}

fn write_matrices(options: &Options, a: &Path, b: &Path) -> Result<()> {
    let _step = Step::start(&format!("writing two {n} x {n} matrices into {}", options.dir.display(), n = options.n));
    std::fs::create_dir_all(&options.dir).with_context(|| format!("cannot make {}", options.dir.display()))?;
    let mut random = Pcg64Mcg::seed_from_u64(options.seed);
    for path in [a, b] {
        let failed = || format!("cannot write {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(failed)?);
        npy::write(&square(options.n), &mut file).with_context(failed)?;
        for _ in 0..options.n * options.n {
            file.write_all(&random.random_range(-1.0..1.0f64).to_le_bytes()).with_context(failed)?;
        }
        file.flush().with_context(failed)?;
    }
    Ok(())
}

/// Reads what the ranks printed: a line of rank 0 with times, and one of each rank with its traffic.
fn read_run(text: &str) -> Result<Run> {
    let mut run = Run { ranks: 0, product: Duration::ZERO, whole: Duration::ZERO, bytes_moved: 0, messages: 0 };
    for line in text.lines().filter(|line| line.starts_with("matmul")) {
        let words: HashMap<&str, &str> = line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        let number = |key: &str| words.get(key).and_then(|value| value.parse::<f64>().ok());
        if let (Some(ranks), Some(product), Some(whole)) = (number("ranks"), number("product_s"), number("whole_s")) {
            (run.ranks, run.product, run.whole) =
                (ranks as u32, Duration::from_secs_f64(product), Duration::from_secs_f64(whole));
        }
        run.bytes_moved += number("bytes_sent").unwrap_or(0.0) as u64 + number("bytes_received").unwrap_or(0.0) as u64;
        run.messages += number("messages_sent").unwrap_or(0.0) as u64;
    }
    ensure!(run.ranks > 0, "the program said nothing of its time: '{}'", text.trim());
    Ok(run)
}

fn read_matrix(path: &Path, n: usize) -> Result<Vec<f64>> {
    let failed = || format!("cannot read {}", path.display());
    let mut file = BufReader::new(File::open(path).with_context(failed)?);
    ensure!(
        npy::read(&mut file).with_context(failed)? == square(n as u64),
        "{} is no {n} x {n} matrix of doubles",
        path.display()
    );
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(failed)?;
    ensure!(bytes.len() == n * n * 8, "{} has {} bytes of elements", path.display(), bytes.len());
    Ok(bytes.chunks_exact(8).map(|eight| f64::from_le_bytes(eight.try_into().expect("8 bytes"))).collect())
}

/// The largest difference of an element of C from the plain sequential product.
fn compare(n: usize, a: &Path, b: &Path, c: &Path) -> Result<f64> {
    let _step = Step::start("checking against the plain sequential product");
    let (a, b, c) = (read_matrix(a, n)?, read_matrix(b, n)?, read_matrix(c, n)?);
    let right = multiply(n, &a, &b);
    let worst = right.iter().zip(&c).map(|(right, c)| (right - c).abs());
    // A NaN is never below the bound, and `max` would lose it.
    Ok(worst.fold(0.0, |worst: f64, difference| if difference.is_nan() { f64::INFINITY } else { worst.max(difference) }))
}

/// The plain product, the terms of each element added in order.
fn multiply(n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = vec![0.0; n * n];
    for (row, c) in a.chunks_exact(n).zip(c.chunks_exact_mut(n)) {
        for (factor, b) in row.iter().zip(b.chunks_exact(n)) {
            c.iter_mut().zip(b).for_each(|(c, b)| *c += factor * b);
        }
    }
    c
}

fn report(options: &Options, plain: &[Run; 2], runs: &[Run; 2], worst: f64, lies: &[Lies]) -> Result<()> {
    let alone = plain[0].product.as_secs_f64();
    let speed_up = |run: &Run| alone / run.product.as_secs_f64();
    if options.json {
        let row = |run: &Run| {
            json!({
                "ranks": run.ranks, "product_s": run.product.as_secs_f64(), "whole_s": run.whole.as_secs_f64(),
                "speed_up": speed_up(run), "bytes_moved": run.bytes_moved, "messages": run.messages,
            })
        };
        let regions = lies.iter().map(|region| json!({ "name": region.name, "size": region.len, "nodes": region.nodes }));
        return print::json(&json!({
            "n": options.n, "order": ORDER, "plain": plain.iter().map(row).collect::<Vec<_>>(),
            "runs": runs.iter().map(row).collect::<Vec<_>>(), "worst_difference": worst,
            "regions": regions.collect::<Vec<_>>(), "product": options.dir.join("C.npy"),
        }));
    }
    use Column::{Number, Text};
    let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
    let row = |name: String, run: &Run, traffic: [String; 3]| {
        [vec![name, seconds(run.product), format!("{:.2}", speed_up(run))], traffic.to_vec()].concat()
    };
    let in_memory = plain.iter().map(|run| {
        let name = format!("plain C, {} process{}", run.ranks, if run.ranks > 1 { "es" } else { "" });
        row(name, run, ["", "", ""].map(str::to_owned))
    });
    let in_pool = runs.iter().map(|run| {
        let name = format!("pool, {} rank{}", run.ranks, if run.ranks > 1 { "s on 2 nodes" } else { "" });
        row(name, run, [seconds(run.whole), size::show(run.bytes_moved), run.messages.to_string()])
    });
    let columns = [
        Text("PROGRAM"),
        Number("PRODUCT"),
        Number("SPEED-UP"),
        Number("WITH LOADING"),
        Number("BYTES MOVED"),
        Number("MESSAGES"),
    ];
    print::table(&columns, in_memory.chain(in_pool).collect());
    print::line("");
    let rows = lies.iter().map(|region| {
        let nodes = region.nodes.iter().map(|(node, bytes)| format!("node {node}: {}", size::show(*bytes)));
        vec![region.name.to_owned(), size::show(region.len), nodes.collect::<Vec<_>>().join(", ")]
    });
    print::table(&[Text("REGION"), Number("SIZE"), Text("LIES ON")], rows.collect());
    let verdict = if worst == 0.0 {
        "every element is that of".to_owned()
    } else {
        format!("no element differs by more than {worst:.1e} from")
    };
    let product = options.dir.join("C.npy");
    print::line(&format!("\n{} holds the product: {verdict} the plain sequential product", product.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_product_is_the_definition() {
        assert_eq!(multiply(2, &[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]), [19.0, 22.0, 43.0, 50.0]);
    }

    #[test]
    fn a_run_is_read_from_the_lines_of_all_ranks() {
        let text = "matmul-traffic rank=1 bytes_sent=10 bytes_received=20 messages_sent=3\n\
            matmul variant=distributed n=8 ranks=2 order=ijk product_s=0.5 whole_s=0.75 bytes_sent=1 bytes_received=2 messages_sent=4\n";
        let run = read_run(text).unwrap();
        assert_eq!((run.ranks, run.bytes_moved, run.messages), (2, 33, 7));
        assert_eq!((run.product, run.whole), (Duration::from_millis(500), Duration::from_millis(750)));
        assert!(read_run("killed\n").is_err());
    }
}
