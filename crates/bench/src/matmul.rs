//! The matrix product of the drivers paper: main memory, regions, vector loads without and with stride, and several ranks. Each stands
//! beside the same loop in plain C on the same kind of pages.
//!
//! The programs are those of `apps/matmul`; each turn runs one of them anew and takes the time that it prints.
//!
// FEATURE: D2-F19

use crate::Options;
use crate::nodes::Nodes;
use crate::peers::program;
use crate::report::{Better, Claim, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// The bench's name.
pub const NAME: &str = "matmul";

/// Rows and columns. SOURCE: [D2 Table 6]
const N: u64 = 1024;

/// Rows and columns of a short run.
const N_QUICK: u64 = 256;

/// Bytes that each node lends: three matrices and their copies, several times.
const MEMORY: &str = "256M";

/// A program and how it is run.
struct Variant {
    name: String,
    program: &'static str,
    arguments: Vec<String>,
    /// Nodes and ranks of the pool; `None` for a program in main memory.
    job: Option<(u32, u32)>,
}

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let program = options.apps.join("plain");
    ensure!(program.is_file(), "{} is not there; `make apps` builds it", program.display());
    let n = if options.quick { N_QUICK } else { N };
    let ranks = options.ranks.unwrap_or(2);
    let nodes = options.nodes.unwrap_or(ranks);
    let pages = Nodes::start(options, 1, 64 << 20)?.pages()?;
    let variants = variants(pages, nodes, ranks);
    let contestants = variants.iter().map(|variant| Contestant::ours(&variant.name, || turn(options, variant, n)));
    let outcomes = take_turns(options.rounds(), contestants.collect(), progress)?;
    let seconds = outcomes.iter().map(product).collect::<Result<Vec<_>>>()?;
    let mut report = Report::new(NAME);
    report_rows(&mut report, n, ranks, pages, &seconds);
    Ok(report)
}

fn variants(pages: &str, nodes: u32, ranks: u32) -> Vec<Variant> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let in_memory = |processes: u32| Variant {
        name: format!("plain C, processes: {processes}"),
        program: "plain",
        arguments: words(&["--pages", pages, "--processes", &processes.to_string()]),
        job: None,
    };
    let in_pool = |name: &str, program, arguments: &[&str], job| Variant {
        name: name.to_owned(),
        program,
        arguments: words(arguments),
        job: Some(job),
    };
    vec![
        in_memory(1),
        in_pool("region", "local", &[], (1, 1)),
        in_memory(ranks),
        in_pool("1 rank", "distributed", &[], (1, 1)),
        in_pool(&format!("{ranks} ranks"), "distributed", &[], (nodes, ranks)),
        in_pool("VL without stride", "vector", &["--no-stride"], (1, 1)),
        in_pool("VL with stride", "vector", &[], (1, 1)),
    ]
}

fn turn(options: &Options, variant: &Variant, n: u64) -> Result<Figures> {
    let path = options.apps.join(variant.program);
    let mut words = vec![n.to_string()];
    words.extend(variant.arguments.iter().cloned());
    let text = match variant.job {
        None => program::run(&path, &words, &[])?,
        Some((nodes, ranks)) => {
            let path = path.to_str().context("the folder's name is no text")?;
            let (nodes, ranks) = (nodes.to_string(), ranks.to_string());
            let mut all = ["run", "--nodes", &nodes, "-n", &ranks, "--memory", MEMORY, "--", path].map(str::to_owned).to_vec();
            all.append(&mut words);
            program::run(Path::new(&options.command), &all, &[("HANARE_SODIMM", "64M")])?
        }
    };
    product_s(&text).with_context(|| format!("{} did not print its time", variant.program))
}

/// The time of the product, from the line that the programs print.
fn product_s(text: &str) -> Option<Figures> {
    let line = text.lines().find_map(|line| Some(&line[line.find("matmul variant=")?..]))?;
    let seconds = line.split_whitespace().find_map(|word| word.strip_prefix("product_s="))?.parse().ok()?;
    Some(Figures::from([("product_s".to_owned(), seconds)]))
}

fn product(outcome: &Outcome) -> Result<f64> {
    outcome.median("product_s").map_err(|reason| anyhow::anyhow!("{}: {reason}", outcome.name))
}

/// Rows and claims from the medians, in the order of [`variants`].
fn report_rows(report: &mut Report, n: u64, ranks: u32, pages: &str, seconds: &[f64]) {
    let &[plain, region, plain_many, one, many, loads, strided] = seconds else { unreachable!("there are seven variants") };
    let time = |case: &str, value| Row::alone(format!("matmul {n}: {case}"), value, "s", Better::Lower);
    let kind = format!("plain C, {pages} pages");
    report.rows.push(time("main memory", plain));
    report.rows.push(time("region", region).beside(&kind, plain, Some(1.0)));
    report.rows.push(time("1 rank", one).beside(&kind, plain, None));
    report.rows.push(time(&format!("{ranks} ranks"), many).beside(format!("{kind}, {ranks} processes"), plain_many, None));
    let speed_up = Row::alone(format!("matmul {n}: speed-up of {ranks} ranks"), one / many, "x", Better::Higher);
    report.rows.push(speed_up.beside(format!("{kind}, {ranks} processes"), plain / plain_many, Some(0.97)));
    report.rows.push(time("VL without stride", loads).beside(&kind, plain, None));
    report.rows.push(time("VL with stride", strided).beside("hanare VL without stride (own baseline)", loads, None));
    // SOURCE: [D2 §6.4] about as fast as main memory; the stride command about 2.0 times faster
    report.claims.push(Claim::new("D2-C7", plain / region, plain / region >= 0.95));
    report.claims.push(Claim::new("D2-C8", loads / strided, (1.5..=2.5).contains(&(loads / strided))));
    if ranks == 2 {
        // SOURCE: [D2 §6.5(1)] about 1.99 times faster on two nodes
        report.claims.push(Claim::new("D2-C10", one / many, one / many >= 1.9));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_line_is_read_even_with_a_prefix() {
        let text = "starting\n[0] matmul variant=plain n=4 ranks=1 order=ijk product_s=0.250000 whole_s=1.0\n";
        assert_eq!(product_s(text), Some(Figures::from([("product_s".to_owned(), 0.25)])));
        assert_eq!(product_s("nothing"), None);
    }

    #[test]
    fn rows_and_claims_follow_from_the_medians() {
        let mut report = Report::new(NAME);
        report_rows(&mut report, 1024, 2, "4k", &[2.0, 2.0, 1.0, 2.0, 1.0, 8.0, 4.0]);
        let ratio = |case: &str| report.rows.iter().find(|row| row.case.ends_with(case)).unwrap().beside.clone().unwrap().ratio;
        assert_eq!((ratio(": region"), ratio("speed-up of 2 ranks"), ratio("with stride")), (Some(1.0), Some(1.0), Some(2.0)));
        let verdicts: Vec<_> = report.claims.iter().map(|claim| (claim.id, claim.value)).collect();
        assert_eq!(verdicts, [("D2-C7", 1.0), ("D2-C8", 2.0), ("D2-C10", 2.0)]);
        assert!(report.claims.iter().all(|claim| claim.verdict == crate::report::Verdict::Reproduced));
    }
}
