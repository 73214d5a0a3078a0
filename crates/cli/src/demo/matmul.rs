//! The matrix product of the drivers paper's figure 4, from `.npy` files to a `.npy` file.
//!
//! ```text
//! A.npy B.npy --load--> regions A, B on node 0 --+-- rank 0 on node 0 --+--> region C --save--> C.npy --check
//!                                                +-- rank 1 on node 1 --+
//! ```
//!
//! The ranks are this binary once more, so that the demonstration needs no other file. Beside them stands the same product by one
//! process in main memory, whose result is also the check. `hanare bench matmul` measures the paper's variants, which are in C.

use super::PROGRAM;
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
use rustix::process::{Pid, getpid};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A rank's order; its rows and the product's region follow.
pub const MULTIPLY: &str = "multiply";

/// Rows of the product that are made together: so many times fewer passes over B.
const ROWS: usize = 4;

/// Largest matrix: three of them and their copies must fit the machine.
const N_MAX: u64 = 8192;

/// Size and location of a product.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rows and columns of the matrices.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(2..=N_MAX))]
    n: u64,
    /// Folder for A.npy, B.npy and the product C.npy.
    #[arg(long, value_name = "DIR", default_value = "out/matmul")]
    dir: PathBuf,
    /// Seed of the random matrices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reports of a run's ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    ranks: u32,
    product: Duration,
    whole: Duration,
    bytes_moved: u64,
    messages: u64,
}

/// Location of a region.
struct Lies {
    name: &'static str,
    len: u64,
    nodes: Vec<(u32, u64)>,
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
    let mut multiply = |ranks: u32, into: &str| -> Result<Run> {
        let _step =
            Step::start(&format!("multiplying {n} x {n} on {ranks} rank{}", if ranks > 1 { "s, one a node" } else { "" }));
        let own = std::env::current_exe().context("this command's own file is not known")?.into_os_string();
        let words = [own, PROGRAM.into(), getpid().to_string().into(), MULTIPLY.into(), n.to_string().into(), into.into()];
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
        read_run(&lines.iter().map(|line| String::from_utf8_lossy(&line).into_owned()).collect::<Vec<_>>())
    };
    // The one-rank product goes elsewhere, so that nothing of it can pass for the work of two.
    let runs = [multiply(1, "C1")?, multiply(2, "C")?];

    region::save(&product, &file("C"), Some(&square(n)))?;
    let lies = ["A", "B", "C"].map(|name| {
        let stat = pool.stat(name)?;
        Ok(Lies { name, len: stat.len, nodes: stat.nodes.iter().map(|(node, bytes)| (node.0, *bytes)).collect() })
    });
    let lies = lies.into_iter().collect::<Result<Vec<_>>>()?;
    drop(nodes);

    let (plain, worst) = compare(n as usize, &file("A"), &file("B"), &file("C"))?;
    // Each element adds n products of numbers below 1 in the same order, so that only fused operations may differ.
    let bound = n as f64 * f64::EPSILON;
    report(options, plain, &runs, worst, &lies)?;
    ensure!(worst <= bound, "the product is wrong: an element differs by {worst:e} from the sequential one, more than {bound:e}");
    Ok(0)
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

/// A rank's work: brings its rows of A and all of B, multiplies, and writes its rows of C. Says on standard output how it went.
pub fn play(n: usize, into: &str) -> Result<Value> {
    let begun = Instant::now();
    let pool = Pool::attach()?;
    let (rank, ranks) = (pool.rank() as usize, pool.ranks() as usize);
    let (first, last) = (n * rank / ranks, n * (rank + 1) / ranks);
    let mut a = vec![0.0; (last - first) * n];
    let mut b = vec![0.0; n * n];
    let row_at = |row: usize| (row * n * size_of::<f64>()) as u64;
    pool.open("A")?.get_values(row_at(first), &mut a)?;
    pool.open("B")?.get_values(0, &mut b)?;
    // The product's time is that of all ranks together.
    pool.barrier()?;
    let middle = Instant::now();
    let c = multiply(n, &a, &b);
    pool.open(into)?.put_values(row_at(first), &c)?;
    pool.barrier()?;
    let traffic = pool.traffic();
    Ok(json!({
        "ranks": ranks, "rank": rank, "product_s": middle.elapsed().as_secs_f64(), "whole_s": begun.elapsed().as_secs_f64(),
        "bytes_moved": traffic.bytes_sent + traffic.bytes_received, "messages": traffic.messages_sent,
    }))
}

/// Reads what the ranks said: times are those of rank 0, traffic is that of all.
fn read_run(lines: &[String]) -> Result<Run> {
    let said =
        lines.iter().map(|line| serde_json::from_str::<Value>(line).with_context(|| format!("a rank said '{}'", line.trim())));
    let said = said.collect::<Result<Vec<_>>>()?;
    if let Some(error) = said.iter().find_map(|said| said["error"].as_str()) {
        bail!("{error}");
    }
    let sum = |key: &str| said.iter().filter_map(|said| said[key].as_u64()).sum();
    let first = said.iter().find(|said| said["rank"] == 0).context("rank 0 said nothing of its time")?;
    let seconds =
        |key: &str| first[key].as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).context("no time");
    Ok(Run {
        ranks: said.len() as u32,
        product: seconds("product_s")?,
        whole: seconds("whole_s")?,
        bytes_moved: sum("bytes_moved"),
        messages: sum("messages"),
    })
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

/// The time of the sequential product in main memory, and the largest difference of an element of C from it.
fn compare(n: usize, a: &Path, b: &Path, c: &Path) -> Result<(Duration, f64)> {
    let _step = Step::start("the same by one process in main memory, and the check against it");
    let (a, b, c) = (read_matrix(a, n)?, read_matrix(b, n)?, read_matrix(c, n)?);
    let begun = Instant::now();
    let right = multiply(n, &a, &b);
    let time = begun.elapsed();
    let worst = right.iter().zip(&c).map(|(right, c)| (right - c).abs());
    // A NaN is never below the bound, and `max` would lose it.
    let worst = worst.fold(0.0, |worst: f64, difference| if difference.is_nan() { f64::INFINITY } else { worst.max(difference) });
    Ok((time, worst))
}

/// The product of some rows of A with B, the terms of each element added in order.
fn multiply(n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = vec![0.0; a.len()];
    for (a, c) in a.chunks(ROWS * n).zip(c.chunks_mut(ROWS * n)) {
        for (k, b) in b.chunks_exact(n).enumerate() {
            for (row, c) in a.chunks_exact(n).zip(c.chunks_exact_mut(n)) {
                let factor = row[k];
                c.iter_mut().zip(b).for_each(|(c, b)| *c += factor * b);
            }
        }
    }
    c
}

fn report(options: &Options, plain: Duration, runs: &[Run; 2], worst: f64, lies: &[Lies]) -> Result<()> {
    let alone = plain.as_secs_f64();
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
            "n": options.n, "plain": { "product_s": alone }, "runs": runs.iter().map(row).collect::<Vec<_>>(), "worst_difference": worst,
            "regions": regions.collect::<Vec<_>>(), "product": options.dir.join("C.npy"),
        }));
    }
    use Column::{Number, Text};
    let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
    let in_memory = ["one process, main memory".to_owned(), seconds(plain), "1.00".to_owned()].to_vec();
    let in_pool = runs.iter().map(|run| {
        let name = format!("pool, {} rank{}", run.ranks, if run.ranks > 1 { "s on 2 nodes" } else { "" });
        let (product, whole) = (seconds(run.product), seconds(run.whole));
        vec![name, product, format!("{:.2}", speed_up(run)), whole, size::show(run.bytes_moved), run.messages.to_string()]
    });
    let columns = [
        Text("PROGRAM"),
        Number("PRODUCT"),
        Number("SPEED-UP"),
        Number("WITH LOADING"),
        Number("BYTES MOVED"),
        Number("MESSAGES"),
    ];
    print::table(&columns, std::iter::once(in_memory).chain(in_pool).collect());
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
        // More rows than are made together, and a part of them.
        let n = ROWS + 1;
        let a: Vec<f64> = (0..n * n).map(|k| k as f64).collect();
        let unit: Vec<f64> = (0..n * n).map(|k| f64::from(u8::from(k / n == k % n))).collect();
        assert_eq!(multiply(n, &a, &unit), a);
        assert_eq!(multiply(n, &a[n..3 * n], &unit), a[n..3 * n]);
    }

    #[test]
    fn a_run_is_read_from_the_lines_of_all_ranks() {
        let line = |rank: u32| {
            format!(r#"{{"ranks":2,"rank":{rank},"product_s":0.{rank}5,"whole_s":1.5,"bytes_moved":30,"messages":{rank}}}"#)
        };
        let run = read_run(&[line(1), line(0)]).unwrap();
        let time = Duration::from_millis;
        assert_eq!(run, Run { ranks: 2, product: time(50), whole: time(1500), bytes_moved: 60, messages: 1 });
        assert!(read_run(&["killed".to_owned()]).is_err() && read_run(&[]).is_err());
        let failed = read_run(&[line(0), r#"{"error":"no room"}"#.to_owned()]).unwrap_err();
        assert_eq!(failed.to_string(), "no room");
    }
}
