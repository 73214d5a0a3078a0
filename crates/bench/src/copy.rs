//! Bytes from one node to another, neither of which is the client's. A copy goes from node to node, beside a get and a put through the
//! client. Contiguous, strided and indexed on both sides. And Euphoria's table 4: copies by loads and stores on mapped memory, between own
//! memory and another node's.
//!
// FEATURE: D3-F11 D3-F12

use crate::Options;
use crate::compare::{baseline, bytes, compare, compare_rates, own};
use crate::nodes::Nodes;
use crate::peers::program;
use crate::report::{Better, Claim, Report, Row};
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, Random, take_turns, time_step};
use anyhow::{Context, Result, ensure};
use hanare::{Indexed, Placement, Pool, Region, Shape, Strided};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::path::Path;
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "copy";

/// Bytes moved.
const LEN: u64 = 64 << 20;
const LEN_QUICK: u64 = 8 << 20;

/// Bytes of a block of the shapes that have some, a cache line.
const BLOCK_LEN: u64 = 64;

/// Blocks that are not moved for each one that is, plus that one.
const SPREAD: u64 = 2;

/// Bytes of a piece where the client passes them on in pieces: its buffer stays in its cache.
const PIECE_LEN: u64 = 1 << 20;

/// Memory that each node lends beyond a region.
const MEMORY_TO_SPARE: u64 = 128 << 20;

/// Goal for a copy's speed beside passing the bytes through the client.
const GOAL: f64 = 1.6;

/// Copies of 4 KiB in each placement of Euphoria's table 4. SOURCE: [Euphoria, Table 4]
const TABLE4_COPIES: &str = "1000";
const TABLE4_COPIES_QUICK: &str = "50";

/// Memory that each node lends to the program that makes them.
const TABLE4_MEMORY: &str = "96M";

/// The placements, as that program and as rows call them.
const PLACEMENTS: [(&str, &str); 4] = [
    ("own-to-own", "own memory to own"),
    ("own-to-other", "own memory to another node's"),
    ("other-to-own", "another node's memory to own"),
    ("other-to-other", "another node's memory to another node's"),
];

const KINDS: [&str; 3] = ["contiguous", "strided", "indexed"];

/// Source and destination of a copy.
struct Ends<'a> {
    pool: &'a Pool,
    len: u64,
    from: Region,
    to: Region,
    /// Blocks of the source and of the target, in the order in which they are paired.
    lists: [Vec<u32>; 2],
}

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { LEN_QUICK } else { LEN };
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(3), SPREAD * len + MEMORY_TO_SPARE)?;
    let pool = nodes.attach(0)?;
    let ends = Ends::new(&pool, len)?;
    let table4 = options.apps.join("table4");
    let mut contestants = vec![Contestant::ours("hanare", || ends.turn(options))];
    if table4.is_file() {
        contestants.push(Contestant::ours("table4", || turn_of_table4(options, &table4)));
    } else {
        progress(&format!("no rows of Euphoria's table 4: {} is not there; `make apps` builds it", table4.display()));
    }
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let mut report = Report::new(NAME);
    for kind in KINDS {
        report.rows.extend(rows(kind, len, &outcomes[0])?);
    }
    if let Some(table4) = outcomes.get(1) {
        push_table4(&mut report, table4)?;
    }
    Ok(report)
}

/// A turn of `apps/table4` by two ranks on nodes of their own: the ns of a copy and the paper's, for each placement.
fn turn_of_table4(options: &Options, table4: &Path) -> Result<Figures> {
    let copies = if options.quick { TABLE4_COPIES_QUICK } else { TABLE4_COPIES };
    let launch = ["run", "--nodes", "2", "-n", "2", "--memory", TABLE4_MEMORY, "--"].map(str::to_owned);
    let words = [table4.display().to_string(), copies.to_owned(), "--json".to_owned()];
    figures_of_table4(&program::run(&options.command, &[&launch[..], &words].concat(), &[])?)
}

/// The figures of the lines of JSON that it printed.
fn figures_of_table4(text: &str) -> Result<Figures> {
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(&line[line.find('{')?..]).ok()).collect();
    let mut figures = Figures::new();
    for (variant, _) in PLACEMENTS {
        let line = lines.iter().find(|line| line["variant"] == variant);
        let line = line.with_context(|| format!("table4 printed no line for '{variant}'"))?;
        let number = |key: &str| line[key].as_f64().with_context(|| format!("table4 printed no '{key}' for '{variant}'"));
        // SOURCE: [Euphoria, Table 4]: its seconds are for 1000 copies.
        let (ours, paper) = (number("seconds")? * 1e9 / number("copies")?, number("paper_s")? * 1e9 / 1000.0);
        figures.extend([(variant.to_owned(), ours), (format!("{variant}_paper"), paper)]);
    }
    Ok(figures)
}

/// Each placement beside the paper's machine and beside the first, where nothing crosses; and what the paper claims of them.
fn push_table4(report: &mut Report, table4: &Outcome) -> Result<()> {
    let near = baseline(table4, PLACEMENTS[0].1);
    let paper = Outcome { name: "Euphoria, its table 4 (paper)".to_owned(), ..table4.clone() };
    for (at, (variant, what)) in PLACEMENTS.iter().enumerate() {
        let case = format!("4 KiB by loads and stores, 2 nodes, tcp: {what}");
        report.rows.push(compare(case.clone(), table4, variant, &paper, &format!("{variant}_paper"), None)?);
        if at > 0 {
            report.rows.push(compare(case, table4, variant, &near, PLACEMENTS[0].0, None)?);
        }
    }
    let times = PLACEMENTS.map(|(variant, _)| own(variant, table4, variant));
    let [own_own, own_other, other_own, other_other] = times;
    let (own_own, own_other, other_own, other_other) = (own_own?, own_other?, other_own?, other_other?);
    // "<<" is at least twice: the least of those gaps in the paper.
    let is_in_order = own_own * 2.0 <= other_own && other_own < own_other && own_other * 2.0 <= other_other;
    report.claims.push(Claim::new("EU-C10", other_other / own_own, is_in_order));
    let more = other_other / own_other.max(other_own);
    report.claims.push(Claim::new("EU-C11", more, more > 2.0));
    Ok(())
}

fn rows(kind: &str, len: u64, ours: &Outcome) -> Result<Vec<Row>> {
    let case = format!("copy {} {kind}, node to node, tcp", bytes(len));
    let key = format!("copy_{kind}");
    let mut rows = Vec::new();
    for (way, what) in
        [("pieces", "get then put by the client, 1 MiB at a time"), ("whole", "get then put by the client, at once")]
    {
        let peer = Outcome { name: format!("{what} (own baseline)"), ..ours.clone() };
        let amount = (len as f64, "GB/s");
        rows.push(compare_rates(case.clone(), amount, (ours, &key), (&peer, &format!("{way}_{kind}")), Some(GOAL))?);
    }
    let share = ours.median(&format!("cpu_{kind}")).map_err(|reason| anyhow::anyhow!("{case}: {reason}"))?;
    rows.push(Row::alone(format!("{case}: the client's CPU time"), share * 100.0, "% of one CPU", Better::Lower));
    Ok(rows)
}

impl Ends<'_> {
    fn new(pool: &Pool, len: u64) -> Result<Ends<'_>> {
        let far = table::far(pool)?;
        ensure!(far.len() > 1, "the pool has fewer than three nodes");
        let from = table::create(pool, "bench-from", SPREAD * len, Placement::Node(far[0]))?;
        let to = table::create(pool, "bench-to", SPREAD * len, Placement::Node(far[1]))?;
        let mut random = Random::SEED;
        let lists = [(); 2].map(|()| {
            // A shuffle of all blocks, of which the first ones are moved: none is a target twice.
            let mut all: Vec<u32> = (0..(SPREAD * len / BLOCK_LEN) as u32).collect();
            for k in 0..all.len() {
                let other = k + random.below((all.len() - k) as u64) as usize;
                all.swap(k, other);
            }
            all.truncate((len / BLOCK_LEN) as usize);
            all
        });
        Ok(Ends { pool, len, from, to, lists })
    }

    /// The bytes `at .. at + len` of one side's stream.
    fn shape(&self, kind: &str, side: usize, at: u64, len: u64) -> Shape<'_> {
        let first = at / BLOCK_LEN;
        let count = len / BLOCK_LEN;
        match kind {
            "contiguous" => Shape::contiguous(at, len),
            "strided" => {
                let stride = SPREAD * BLOCK_LEN;
                Strided { offset: first * stride, block: BLOCK_LEN, count, stride }.into()
            }
            _ => {
                let list = &self.lists[side][first as usize..(first + count) as usize];
                Indexed::elements(0, BLOCK_LEN, list).into()
            }
        }
    }

    fn turn(&self, options: &Options) -> Result<Figures> {
        let mut figures = Figures::new();
        let mut buffer = vec![0; self.len as usize];
        for kind in KINDS {
            let (mut busy, mut spent) = (0.0, 0.0);
            let ns = time_step(options.budget(), || {
                let (cpu, start) = (cpu_seconds(), Instant::now());
                let outcome =
                    self.pool.copy(&self.from, self.shape(kind, 0, 0, self.len), &self.to, self.shape(kind, 1, 0, self.len));
                busy += cpu_seconds() - cpu;
                spent += start.elapsed().as_secs_f64();
                outcome
            })?;
            figures.insert(format!("copy_{kind}"), ns);
            figures.insert(format!("cpu_{kind}"), busy / spent);
            self.check(kind, &mut buffer)?;
            for (way, piece) in [("pieces", PIECE_LEN), ("whole", self.len)] {
                let ns = time_step(options.budget(), || self.pass_on(kind, &mut buffer[..piece as usize]))?;
                figures.insert(format!("{way}_{kind}"), ns);
            }
        }
        Ok(figures)
    }

    /// Get and put by the client, a buffer at a time.
    fn pass_on(&self, kind: &str, buffer: &mut [u8]) -> hanare::Result<()> {
        let piece = buffer.len() as u64;
        (0..self.len).step_by(buffer.len()).try_for_each(|at| {
            self.from.get_shape(self.shape(kind, 0, at, piece), buffer)?;
            self.to.put_shape(self.shape(kind, 1, at, piece), buffer)
        })
    }

    /// The target has what the source has, in order.
    fn check(&self, kind: &str, buffer: &mut [u8]) -> Result<()> {
        self.to.get_shape(self.shape(kind, 1, 0, self.len), buffer)?;
        let source = self.shape(kind, 0, 0, self.len).check("bench-from", self.from.len())?;
        let block = source.shape().block();
        table::check(buffer, source.block_offsets().flat_map(|offset| offset / 8..(offset + block) / 8))
    }
}

/// CPU time of this process so far.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(seconds: [f64; 4]) -> String {
        let line = |(variant, seconds): (&str, f64)| {
            format!(
                "{{\"program\": \"table4\", \"variant\": \"{variant}\", \"copies\": 50, \"seconds\": {seconds}, \"paper_s\": 0.28}}\n"
            )
        };
        PLACEMENTS.iter().zip(seconds).map(|((variant, _), seconds)| line((variant, seconds))).collect()
    }

    fn report(seconds: [f64; 4]) -> Report {
        let medians = figures_of_table4(&format!("starting\n{}", lines(seconds))).map_err(|error| error.to_string());
        let mut report = Report::new(NAME);
        push_table4(&mut report, &Outcome { name: "table4".to_owned(), medians }).unwrap();
        report
    }

    #[test]
    fn placements_stand_beside_the_paper_and_the_nearest() {
        let report = report([1e-4, 4e-3, 3e-3, 9e-3]);
        assert_eq!(report.rows.len(), 7);
        let row = &report.rows[2];
        assert!(row.case.ends_with("own memory to another node's") && row.unit == "us", "{row:?}");
        let near = row.beside.as_ref().unwrap();
        assert_eq!((row.value, near.peer_value, near.ratio), (80.0, Some(2.0), Some(0.03)));
        assert_eq!(report.rows[1].beside.as_ref().unwrap().peer_value, Some(280.0));
        assert_eq!(report.claims, [Claim::new("EU-C10", 90.0, true), Claim::new("EU-C11", 2.25, true)]);
    }

    #[test]
    fn claims_fail_where_the_order_is_another() {
        let verdicts = |seconds| report(seconds).claims.into_iter().map(|claim| claim.verdict).collect::<Vec<_>>();
        use crate::report::Verdict::{NotReproduced, Reproduced};
        assert_eq!(verdicts([1e-4, 3e-3, 4e-3, 9e-3]), [NotReproduced, Reproduced]);
        assert_eq!(verdicts([1e-4, 4e-3, 3e-3, 7e-3]), [NotReproduced, NotReproduced]);
    }

    #[test]
    fn a_placement_that_was_not_printed_is_an_error() {
        let text = lines([1.0; 4]).replace("other-to-own", "nowhere");
        assert!(figures_of_table4(&text).unwrap_err().to_string().contains("other-to-own"));
    }
}
