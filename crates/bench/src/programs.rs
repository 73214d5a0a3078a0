//! The papers' programs of `apps/`, each in main memory, by threads, on mapped memory and by MPI. The file has the contestants, and the
//! rows that their medians give. A turn runs a program anew and takes the figures of the JSON line that it prints.

use crate::Options;
use crate::compare::{Part, beside, with_parts};
use crate::nodes::Nodes;
use crate::peers::mpi::Mpi;
use crate::peers::program::{self, Compiled};
use crate::report::{Better, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use std::path::Path;

/// Ranks on nodes of their own, and threads, that are compared with one.
const RANKS: u32 = 2;

/// Ranks that share the CPUs of a small machine.
const RANKS_MANY: u32 = 4;

/// The ways of sharing, as the programs call them.
const MODES: [&str; 2] = ["coherent", "explicit"];

/// A program, how large a run is, and what it is to reach.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its folder in `apps/`: the programs are `NAME-plain`, `NAME-threads` and `NAME-mapped`.
    pub name: &'static str,
    /// The size of a run as words of the command line; of a short run.
    pub size: &'static [&'static str],
    /// See `size`.
    pub size_quick: &'static [&'static str],
    /// Bytes that each node lends.
    pub memory: &'static str,
    /// The source of its version for MPI among the peers, where there is one.
    pub mpi: Option<&'static str>,
    /// Goal for one rank on mapped memory, beside main memory.
    pub goal_alone: Option<f64>,
    /// Goal for ranks on nodes of their own: a part of the threads' speed-up.
    pub goal_speed_up: Option<f64>,
    /// Goal for many ranks on few CPUs, beside fewer.
    pub goal_many: Option<f64>,
}

/// Medians of all ways in which a program ran.
#[derive(Clone, Debug)]
pub struct Medians {
    /// A run's name in rows.
    case: String,
    /// Ranks and threads that are compared with one, and many.
    ranks: (u32, u32),
    /// In main memory by one.
    pub plain: f64,
    threads: Outcome,
    alone: [Outcome; 2],
    few: [Outcome; 2],
    many: Outcome,
    mpi: Vec<Outcome>,
}

impl Medians {
    /// The time of one rank on one node: coherent is mode 0, explicit 1.
    pub fn alone(&self, mode: usize) -> Result<f64> {
        seconds(&self.alone[mode])
    }

    /// The time of several ranks on nodes of their own: coherent is mode 0, explicit 1.
    pub fn few(&self, mode: usize) -> Result<f64> {
        seconds(&self.few[mode])
    }
}

impl Program {
    /// Lets all ways take turns.
    pub fn measure(&self, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Medians> {
        let plain = options.apps.join(format!("{}-plain", self.name));
        ensure!(plain.is_file(), "{} is not there; `make apps` builds it", plain.display());
        let pages = Nodes::start(options, 1, 64 << 20)?.pages()?;
        let compiled = Compiled::new(options)?;
        let few = options.ranks.unwrap_or(RANKS);
        let many = RANKS_MANY.max(few);
        let mut contestants = vec![
            Contestant::ours("main memory", self.in_memory(options, "plain", pages, 1)),
            Contestant::peer(&format!("OpenMP, {few} threads"), self.threads(options, pages, few)),
        ];
        for ranks in [1, few] {
            for mode in MODES {
                let name = format!("ranks: {ranks}, {mode}");
                contestants.push(Contestant::ours(&name, self.mapped(options, pages, ranks, mode)));
            }
        }
        let name = format!("ranks: {many}, {}", MODES[0]);
        contestants.push(Contestant::ours(&name, self.mapped(options, pages, many, MODES[0])));
        if let Some(source) = self.mpi {
            let words = self.words(options, &["--pages", pages]);
            contestants.extend(Mpi::ALL.map(|mpi| mpi.job(2, &compiled, source, &words, figures_of)));
        }
        let outcomes = take_turns(options.rounds(), contestants, progress)?;
        let mut outcomes = outcomes.into_iter();
        let mut next = || outcomes.next().context("every contestant has an outcome");
        Ok(Medians {
            case: self.case(options),
            ranks: (few, many),
            plain: seconds(&next()?)?,
            threads: next()?,
            alone: [next()?, next()?],
            few: [next()?, next()?],
            many: next()?,
            mpi: outcomes.collect(),
        })
    }

    fn case(&self, options: &Options) -> String {
        let size = if options.quick { self.size_quick } else { self.size };
        format!("{} {}", self.name, size.first().copied().unwrap_or_default())
    }

    /// The words of a turn.
    fn words(&self, options: &Options, more: &[&str]) -> Vec<String> {
        let size = if options.quick { self.size_quick } else { self.size };
        size.iter().chain(more).chain(&["--json"]).map(|word| (*word).to_owned()).collect()
    }

    /// A turn in main memory, by one or by threads.
    fn in_memory<'a>(&self, options: &'a Options, kind: &str, pages: &str, threads: u32) -> impl FnMut() -> Result<Figures> + 'a {
        let program = options.apps.join(format!("{}-{kind}", self.name));
        let mut words = Checked::new(self.words(options, &["--pages", pages, "--threads", &threads.to_string()]));
        move || figures(&program::run(&program, &words.next(), &[])?)
    }

    fn threads<'a>(&self, options: &'a Options, pages: &str, threads: u32) -> Result<impl FnMut() -> Result<Figures> + 'a> {
        let program = options.apps.join(format!("{}-threads", self.name));
        ensure!(program.is_file(), "{} is not there: the compiler has no OpenMP", program.display());
        Ok(self.in_memory(options, "threads", pages, threads))
    }

    /// A turn by ranks on mapped memory, each on a node of its own where nothing else was asked for.
    fn mapped<'a>(&self, options: &'a Options, pages: &str, ranks: u32, mode: &str) -> impl FnMut() -> Result<Figures> + 'a {
        let program = options.apps.join(format!("{}-mapped", self.name)).display().to_string();
        let nodes = if ranks == 1 { 1 } else { options.nodes.unwrap_or(ranks) };
        let (nodes, ranks) = (nodes.to_string(), ranks.to_string());
        let launch = ["run", "--nodes", &nodes, "-n", &ranks, "--memory", self.memory, "--", &program].map(str::to_owned);
        let mut words = Checked::new(self.words(options, &["--pages", pages, "--mode", mode]));
        move || figures(&program::run(Path::new(&options.command), &[launch.to_vec(), words.next()].concat(), &[])?)
    }

    /// The rows of all medians.
    pub fn rows(&self, was: &Medians, report: &mut Report) -> Result<()> {
        let (few, many) = was.ranks;
        let time = |what: &str, outcome: &Outcome| -> Result<Row> {
            Ok(Row::alone(format!("{}: {what}", was.case), seconds(outcome)?, "s", Better::Lower))
        };
        report.rows.push(Row::alone(format!("{}: main memory", was.case), was.plain, "s", Better::Lower));
        for (outcome, mode) in was.alone.iter().zip(MODES) {
            let row = time(&format!("1 node, {mode}"), outcome)?;
            report.rows.extend(with_parts(vec![row.beside("main memory", was.plain, self.goal_alone)], outcome, "", &PARTS)?);
        }
        let threads = was.threads.median(SECONDS).map(|threads| was.plain / threads);
        for (outcome, mode) in was.few.iter().zip(MODES) {
            let case = format!("{}: speed-up of {few} ranks, {mode}", was.case);
            let speed_up = Row::alone(case, was.plain / seconds(outcome)?, "x", Better::Higher);
            let mut rows = vec![beside(speed_up, &was.threads.name, threads, self.goal_speed_up)];
            for mpi in &was.mpi {
                let row = time(&format!("{few} ranks, {mode}"), outcome)?;
                rows.push(beside(row, &mpi.name, mpi.median(SECONDS), Some(1.0)));
            }
            report.rows.extend(with_parts(rows, outcome, "", &PARTS)?);
        }
        let row = time(&format!("{many} ranks, {}", MODES[0]), &was.many)?;
        let fewer = format!("hanare, {few} ranks (own baseline)");
        let row = row.beside(fewer, seconds(&was.few[0])?, self.goal_many);
        report.rows.extend(with_parts(vec![row], &was.many, "", &PARTS)?);
        Ok(())
    }
}

/// Words that ask the first time for a check against the sequential run, which a program makes when timed.
pub struct Checked {
    words: Vec<String>,
    is_first: bool,
}

impl Checked {
    /// To be given so many times.
    pub fn new(words: Vec<String>) -> Checked {
        Checked { words, is_first: true }
    }

    /// Arguments of the next turn.
    #[expect(clippy::should_implement_trait, reason = "they never end")]
    pub fn next(&mut self) -> Vec<String> {
        let check = std::mem::take(&mut self.is_first).then(|| "--check".to_owned());
        self.words.iter().cloned().chain(check).collect()
    }
}

/// The whole time of a run, as the programs call it.
const SECONDS: &str = "seconds";

/// Parts of the time, in the programs' words and in rows; the mean of all ranks. The last are the bytes of all ranks.
const PARTS: [Part; 4] = [
    Part { key: "compute_s", name: "computing", unit: "s", scale: 1.0 },
    Part { key: "fault_s", name: "in faults", unit: "s", scale: 1.0 },
    Part { key: "wait_s", name: "waiting", unit: "s", scale: 1.0 },
    Part { key: "bytes", name: "moved", unit: "MB", scale: 1e-6 },
];

fn seconds(outcome: &Outcome) -> Result<f64> {
    outcome.median(SECONDS).map_err(|reason| anyhow!("{}: {reason}", outcome.name))
}

/// The figures of the JSON line that a program printed.
///
/// **Errors**: that there is none, or that it says that the result is wrong.
pub fn figures(text: &str) -> Result<Figures> {
    text.lines().find_map(figures_of).context("it printed no line of JSON")?
}

/// The figures of a line of JSON, which a launcher may have given a prefix; `None` for another line.
pub fn figures_of(line: &str) -> Option<Result<Figures>> {
    let object: Value = serde_json::from_str(&line[line.find('{')?..]).ok()?;
    let numbers = object.as_object()?.iter().filter_map(|(key, value)| Some((key.clone(), value.as_f64()?)));
    let all: Figures = numbers.collect();
    if all.get("ok") == Some(&0.0) {
        return Some(Err(anyhow!("its result is wrong: {line}")));
    }
    // A check's result is printed in some turns only.
    let is_part = |key: &str| key == SECONDS || PARTS.iter().any(|part| part.key == key);
    Some(Ok(all.into_iter().filter(|(key, _)| is_part(key)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Program = Program {
        name: "lu",
        size: &["2048"],
        size_quick: &["64"],
        memory: "1M",
        mpi: Some("mpi_lu"),
        goal_alone: Some(0.97),
        goal_speed_up: Some(0.9),
        goal_many: Some(0.8),
    };

    fn outcome(name: &str, seconds: f64) -> Outcome {
        let figures = [("seconds", seconds), ("compute_s", 1.0), ("fault_s", 0.25), ("wait_s", 0.5), ("bytes", 3e6)];
        let medians = Ok(figures.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        Outcome { name: name.to_owned(), medians }
    }

    fn medians() -> Medians {
        Medians {
            case: "lu 2048".to_owned(),
            ranks: (2, 4),
            plain: 2.0,
            threads: outcome("OpenMP, 2 threads", 1.0),
            alone: [outcome("a", 2.0), outcome("b", 4.0)],
            few: [outcome("c", 1.25), outcome("d", 1.0)],
            many: outcome("e", 1.25),
            mpi: vec![outcome("Open MPI 4", 1.5), Outcome { name: "MPICH".to_owned(), medians: Err("no mpirun".to_owned()) }],
        }
    }

    #[test]
    fn rows_follow_from_the_medians_and_parts_are_told_where_a_goal_is_missed() {
        let mut report = Report::new("lu");
        PROGRAM.rows(&medians(), &mut report).unwrap();
        let row = |case: &str| report.rows.iter().find(|row| row.case == format!("lu 2048: {case}")).unwrap();
        let ratio = |case: &str| row(case).beside.as_ref().unwrap().ratio;
        assert_eq!((ratio("1 node, coherent"), ratio("1 node, explicit")), (Some(1.0), Some(0.5)));
        assert_eq!((ratio("speed-up of 2 ranks, coherent"), ratio("speed-up of 2 ranks, explicit")), (Some(0.8), Some(1.0)));
        assert_eq!((ratio("2 ranks, coherent"), ratio("4 ranks, coherent")), (Some(1.2), Some(1.0)));
        let told: Vec<_> = report.rows.iter().filter(|row| row.case.ends_with(": moved")).map(|row| row.case.as_str()).collect();
        assert_eq!(told, ["lu 2048: 1 node, explicit: moved", "lu 2048: 2 ranks, coherent: moved"]);
        assert_eq!((row("1 node, explicit: in faults").value, row("1 node, explicit: moved").value), (0.25, 3.0));
        assert!(
            report.rows.iter().any(|row| row.beside.as_ref().is_some_and(|beside| beside.peer.contains("MPICH (missing: no")))
        );
    }

    #[test]
    fn the_line_of_json_is_found_behind_a_prefix() {
        let text = "starting {\n[0] {\"program\": \"lu\", \"n\": 4, \"seconds\": 0.5, \"wait_s\": 0.1, \"max_difference\": 0}\n";
        let found = figures(text).unwrap();
        assert_eq!(found, Figures::from([("seconds".to_owned(), 0.5), ("wait_s".to_owned(), 0.1)]));
        assert!(figures("nothing").is_err());
        let wrong = figures("{\"seconds\": 1, \"wrong\": 3, \"ok\": 0}").unwrap_err();
        assert!(wrong.to_string().contains("\"wrong\": 3"), "{wrong}");
    }

    #[test]
    fn the_first_turn_is_checked() {
        let mut words = Checked::new(vec!["8".to_owned()]);
        assert_eq!((words.next(), words.next()), (vec!["8".to_owned(), "--check".to_owned()], vec!["8".to_owned()]));
    }
}
