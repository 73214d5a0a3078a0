//! A client process as the driver sees it: what it said so far.

use super::client::{MARK, TASK};
use super::cluster::answer_ms;
use super::kind::Kind;
use super::ledger::Ledger;
use hanare::Happened;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What came of a round.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub round: u64,
    /// How long the client waited for it.
    pub took: Duration,
    /// When the driver heard of it.
    pub heard: Instant,
    pub failure: Option<Failure>,
}

/// How it failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub happened: Happened,
    pub variant: String,
    pub text: String,
}

/// All that a client said.
#[derive(Default)]
pub struct Record {
    pub is_ready: bool,
    pub has_ended: bool,
    /// The last round that was begun.
    pub begun: u64,
    pub outcomes: Vec<Outcome>,
    pub wrong: Option<String>,
}

impl Record {
    /// What may be in memory.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        for outcome in &self.outcomes {
            let happened = outcome.failure.as_ref().map_or(Happened::Yes, |failure| failure.happened);
            ledger.note(outcome.round, happened);
        }
        if self.outcomes.last().map_or(0, |last| last.round) < self.begun {
            ledger.note(self.begun, Happened::Unknown);
        }
        ledger
    }

    pub fn failures(&self) -> impl Iterator<Item = (&Outcome, &Failure)> {
        self.outcomes.iter().filter_map(|outcome| Some((outcome, outcome.failure.as_ref()?)))
    }

    fn take(&mut self, line: &str) {
        let mut words = line.splitn(6, ' ');
        let mut next = || words.next().unwrap_or_default();
        match next() {
            "ready" => self.is_ready = true,
            "begin" => self.begun = next().parse().unwrap(),
            kind @ ("ok" | "err") => {
                let round = next().parse().unwrap();
                let took = Duration::from_micros(next().parse().unwrap());
                let failure = (kind == "err").then(|| Failure {
                    happened: match next() {
                        "No" => Happened::No,
                        "Yes" => Happened::Yes,
                        _ => Happened::Unknown,
                    },
                    variant: next().to_owned(),
                    text: next().to_owned(),
                });
                self.outcomes.push(Outcome { round, took, heard: Instant::now(), failure });
            }
            "wrong" => self.wrong = self.wrong.take().or_else(|| Some(line.to_owned())),
            "end" => self.has_ended = true,
            other => panic!("a client said '{other}'"),
        }
    }
}

/// A client process.
pub struct Runner {
    pub kind: Kind,
    pub process: Child,
    record: Arc<Mutex<Record>>,
}

impl Runner {
    /// Starts one on the host of the node with that socket.
    pub fn start(kind: Kind, socket: &str) -> Runner {
        let mut command = crate::pool::clean(std::env::current_exe().unwrap());
        command.args(hanare_testkit::words("the_client_process")).arg("--test-threads=1");
        command.env(TASK, format!("{socket} {kind:?}")).env("HANARE_ANSWER_MS", answer_ms().to_string());
        let mut process = start(&mut command);
        let record = Arc::new(Mutex::new(Record::default()));
        let (told, mut out) = (record.clone(), BufReader::new(process.stdout.take().unwrap()));
        std::thread::spawn(move || {
            let mut line = String::new();
            // A line that was cut off by a kill was not said.
            while out.read_line(&mut line).is_ok_and(|len| len > 0) && line.ends_with('\n') {
                if let Some(said) = line.trim_end().strip_prefix(MARK) {
                    told.lock().unwrap_or_else(PoisonError::into_inner).take(said);
                }
                line.clear();
            }
        });
        Runner { kind, process, record }
    }

    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until what it said is as wanted.
    #[track_caller]
    pub fn wait(&self, what: &str, mut is_so: impl FnMut(&Record) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.record()) {
            let record = self.record();
            let ends = (record.begun, record.outcomes.last());
            assert!(begun.elapsed() < crate::pool::BOUND, "{:?} never: {what}; last {ends:?}", self.kind);
            drop(record);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until it has done so many more rounds.
    #[track_caller]
    pub fn wait_for_rounds(&self, more: usize) {
        let done = |record: &Record| record.outcomes.iter().filter(|outcome| outcome.failure.is_none()).count();
        let before = done(&self.record());
        self.wait("goes on", |record| done(record) >= before + more);
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Has it end after the round that it is in.
    pub fn tell_to_stop(&mut self) {
        drop(self.process.stdin.take());
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait_for_end(&mut self) {
        self.wait("ends", |record| record.has_ended);
        assert!(self.process.wait().unwrap().success(), "{:?}", self.kind);
    }
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the test runs itself")
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
