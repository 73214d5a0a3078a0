//! Programs that were written for threads, as ranks by the macros of `hanare_parmacs.h`. They run on nodes of their own, beside themselves
//! as threads of one process.

use crate::Options;
use crate::compare::{Part, beside, own, with_parts};
use crate::peers::program;
use crate::programs::{Checked, figures};
use crate::report::{Better, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Result, ensure};
use std::path::Path;

/// The bench's name.
pub const NAME: &str = "ported";

/// Ranks on nodes of their own, and threads.
const PROCESSES: u32 = 2;

/// A program of `apps/` in two forms: `NAME` is ranks, `NAME-threads` threads.
struct Ported {
    name: &'static str,
    /// The size of a run as words of the command line; of a short run.
    size: &'static [&'static str],
    size_quick: &'static [&'static str],
    /// Goal for the ranks' part of the threads' speed-up.
    goal: f64,
}

const PROGRAMS: [Ported; 4] = [
    Ported { name: "kmeans", size: &["524288", "--rounds", "40"], size_quick: &["2000", "--rounds", "3"], goal: 0.8 },
    Ported {
        name: "hashtable",
        size: &["33554432"],
        size_quick: &["20000", "--keys", "1000", "--parts", "8", "--batch", "500"],
        goal: 0.5,
    },
    Ported { name: "nbody", size: &["65536", "--steps", "6"], size_quick: &["500", "--steps", "2"], goal: 0.6 },
    // Pages' worst case: within ten times the threads' time.
    Ported { name: "columns", size: &["256", "--sweeps", "1000"], size_quick: &["16", "--sweeps", "5"], goal: 0.1 },
];

/// The time of a run, as the programs call it.
const SECONDS: &str = "seconds";

/// Parts of the ranks' time. Faults are part of computing, because a program for threads does not know them.
const PARTS: [Part; 3] = [
    Part { key: "compute_s", name: "computing, with faults", unit: "s", scale: 1.0 },
    Part { key: "wait_s", name: "waiting", unit: "s", scale: 1.0 },
    Part { key: "bytes", name: "moved", unit: "MB", scale: 1e-6 },
];

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let mut report = Report::new(NAME);
    for ported in &PROGRAMS {
        let outcomes = ported.measure(options, progress)?;
        report.rows.extend(ported.rows(options, &outcomes)?);
    }
    Ok(report)
}

impl Ported {
    fn case(&self, options: &Options) -> String {
        format!("{} {}", self.name, self.words(options)[0])
    }

    fn words(&self, options: &Options) -> &'static [&'static str] {
        if options.quick { self.size_quick } else { self.size }
    }

    /// The words of a turn.
    fn turn_words(&self, options: &Options, processes: u32) -> Checked {
        let words = self.words(options).iter().map(|word| (*word).to_owned());
        Checked::new(words.chain(["--json".to_owned(), "--processes".to_owned(), processes.to_string()]).collect())
    }

    /// Measures in turn one thread, threads, and ranks.
    fn measure(&self, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Outcome>> {
        let processes = options.ranks.unwrap_or(PROCESSES);
        let threads = options.apps.join(format!("{}-threads", self.name));
        ensure!(threads.is_file(), "{} is not there; `make apps` builds it", threads.display());
        let by_threads = |processes: u32| {
            let (program, mut words) = (threads.clone(), self.turn_words(options, processes));
            move || -> Result<Figures> { figures(&program::run(&program, &words.next(), &[])?) }
        };
        let (nodes, ranks) = (options.nodes.unwrap_or(processes).to_string(), processes.to_string());
        let program = options.apps.join(self.name).display().to_string();
        let launch = ["run", "--nodes", &nodes, "-n", &ranks, "--memory", "256M", "--", &program].map(str::to_owned);
        let mut words = self.turn_words(options, processes);
        let by_ranks =
            move || figures(&program::run(Path::new(&options.command), &[launch.to_vec(), words.next()].concat(), &[])?);
        let contestants = vec![
            Contestant::ours(&format!("{}: 1 thread", self.name), by_threads(1)),
            Contestant::ours(&format!("POSIX threads: {processes}"), by_threads(processes)),
            Contestant::ours(&format!("{}: ranks: {processes}", self.name), by_ranks),
        ];
        take_turns(options.rounds(), contestants, progress)
    }

    /// The rows: the time of one, and what part of the threads' speed-up the ranks have.
    fn rows(&self, options: &Options, outcomes: &[Outcome]) -> Result<Vec<Row>> {
        let [one, threads, ranks] = outcomes else { anyhow::bail!("every contestant has an outcome") };
        let (case, processes) = (self.case(options), options.ranks.unwrap_or(PROCESSES));
        let plain = own(&case, one, SECONDS)?;
        let speed_up = |outcome: &Outcome| own(&case, outcome, SECONDS).map(|seconds| plain / seconds);
        let row = Row::alone(format!("{case}: speed-up of {processes} ranks"), speed_up(ranks)?, "x", Better::Higher);
        let row = beside(row, &threads.name, Ok(speed_up(threads)?), Some(self.goal));
        let mut rows = vec![Row::alone(format!("{case}: 1 thread"), plain, "s", Better::Lower)];
        rows.extend(with_parts(vec![row], ranks, "", &PARTS)?);
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, seconds: f64) -> Outcome {
        let figures = [("seconds", seconds), ("compute_s", 0.75), ("wait_s", 0.25), ("bytes", 3e6)];
        let medians = Ok(figures.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        Outcome { name: name.to_owned(), medians }
    }

    #[test]
    fn a_row_is_the_part_of_the_threads_speed_up_and_a_missed_goal_is_explained() {
        let rows = |ranks: f64| {
            let outcomes = [outcome("one", 2.0), outcome("POSIX threads: 2", 1.0), outcome("ranks", ranks)];
            PROGRAMS[0].rows(&Options::here(), &outcomes).unwrap()
        };
        let met = rows(1.25);
        assert_eq!(met.len(), 2);
        let beside = met[1].beside.as_ref().unwrap();
        assert_eq!((met[1].value, beside.peer_value, beside.ratio, beside.met), (1.6, Some(2.0), Some(0.8), Some(true)));
        let missed = rows(2.0);
        assert_eq!(missed[1].beside.as_ref().unwrap().met, Some(false));
        assert_eq!(missed[2..].iter().map(|row| row.value).collect::<Vec<_>>(), [0.75, 0.25, 3.0]);
    }
}
