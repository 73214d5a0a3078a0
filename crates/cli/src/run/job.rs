//! One job: its ranks from start to end.
//!
//! ```text
//!          all ranks end well
//! running ----------------------------------------> over
//!    |  a rank fails            TERM_AFTER      KILL_AFTER
//!    +------------> failed ----------> told to end ----------> killed --> over
//! ```

use super::children::{self, End};
use super::guard;
use super::nodes::Nodes;
use super::output::Output;
use super::rank::Program;
use super::signals::Event;
use super::teller::Teller;
use anyhow::{Context, Result, bail};
use hanare_protocol::id::{JobId, JobRank, Rank};
use rustix::process::{Pid, Signal};
use std::io::IsTerminal;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How long the other ranks have to report what the failed one means to them, before they are told to end.
const TERM_AFTER: Duration = Duration::from_millis(500);
/// How long after that they have to end by themselves.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// What a job is to be.
pub struct Plan {
    /// What each rank runs.
    pub program: Program,
    /// How many ranks there are.
    pub ranks: u32,
    /// The sockets of the nodes, on which the ranks are placed round robin.
    pub sockets: Vec<String>,
    /// Takes the lines of the ranks' standard output instead of the terminal.
    pub lines: Option<Sender<Vec<u8>>>,
}

/// What the launcher needs around a job.
pub struct Surroundings<'a> {
    /// Signals and ends of children.
    pub events: &'a Receiver<Event>,
    /// The process that must stay alive for the job to go on.
    pub guard: Pid,
    /// The nodes that were started for it.
    pub nodes: &'a mut Nodes,
}

/// A rank that ended badly.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Which.
    pub rank: Rank,
    /// How.
    pub end: End,
}

struct RankProcess {
    pid: Pid,
    end: Option<End>,
}

/// A job that runs.
struct Job {
    id: JobId,
    program: String,
    ranks: Vec<RankProcess>,
    output: Output,
    teller: Teller,
    first_failure: Option<Failure>,
    /// The same until it is told.
    unnamed: Option<Failure>,
    /// When the next step towards the end is due, and which signal it sends.
    due: Option<(Instant, Signal)>,
}

/// Runs a job to its end. `None` where every rank ended well.
pub fn run(plan: &Plan, around: &mut Surroundings<'_>) -> Result<Option<Failure>> {
    let mut job = Job {
        id: JobId(rand::random()),
        program: plan.program.name(),
        ranks: Vec::new(),
        output: Output::new(),
        teller: Teller::start(&plan.sockets[0])?,
        first_failure: None,
        unnamed: None,
        due: None,
    };
    let result = job.start(plan).and_then(|()| job.watch(around));
    if result.is_err() {
        job.signal(Signal::KILL);
    }
    // What the ranks left running would hold their output open.
    for (pid, end) in children::sweep(&around.nodes.pids()) {
        around.nodes.on_end(pid, end);
    }
    result.map(|()| job.finish())
}

impl Job {
    fn start(&mut self, plan: &Plan) -> Result<()> {
        for number in 0..plan.ranks {
            let who = JobRank { job: self.id, rank: Rank(number), ranks: plan.ranks };
            let mut command = plan.program.command(who, &plan.sockets[number as usize % plan.sockets.len()]);
            // One rank alone keeps the terminal as its own: nothing can tear its lines.
            if plan.ranks > 1 || plan.lines.is_some() {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
            let mut child = command.spawn().with_context(|| format!("cannot start rank {number}"))?;
            self.ranks.push(RankProcess { pid: children::pid_of(&child), end: None });
            let prefix = |terminal: bool| if terminal { format!("[{number}] ") } else { String::new() };
            match (child.stdout.take(), &plan.lines) {
                (Some(stdout), Some(lines)) => self.output.lines(stdout, lines.clone())?,
                (Some(stdout), None) => self.output.stdout(stdout, prefix(std::io::stdout().is_terminal()))?,
                (None, _) => {}
            }
            if let Some(stderr) = child.stderr.take() {
                self.output.stderr(stderr, prefix(std::io::stderr().is_terminal()))?;
            }
        }
        Ok(())
    }

    fn watch(&mut self, around: &mut Surroundings<'_>) -> Result<()> {
        while self.ranks.iter().any(|rank| rank.end.is_none()) {
            let wait = self.due.map_or(Duration::MAX, |(at, _)| at.saturating_duration_since(Instant::now()));
            match around.events.recv_timeout(wait) {
                Ok(Event::ChildEnded) => {
                    for (pid, end) in std::iter::from_fn(children::reap) {
                        if !self.on_end(pid, end) {
                            around.nodes.on_end(pid, end);
                        }
                    }
                }
                Ok(Event::Signal { .. }) if !guard::is_guarded(around.guard) => {
                    bail!("the launch was killed; its ranks and nodes were ended")
                }
                Ok(Event::Signal { signal, from_terminal: false }) => self.signal(signal),
                Ok(Event::Signal { from_terminal: true, .. }) => {}
                Err(RecvTimeoutError::Timeout) => self.on_due(),
                Err(RecvTimeoutError::Disconnected) => bail!("signals cannot be caught any more"),
            }
        }
        Ok(())
    }

    /// Notes a rank's end; `false` where `pid` is no rank of ours.
    fn on_end(&mut self, pid: Pid, end: End) -> bool {
        let Some(number) = self.ranks.iter().position(|rank| rank.pid == pid && rank.end.is_none()) else { return false };
        self.ranks[number].end = Some(end);
        let rank = Rank(number as u32);
        self.teller.tell(self.id, rank, end.to_string());
        if end != End::Exited(0) && self.first_failure.is_none() {
            self.first_failure = Some(Failure { rank, end });
            self.unnamed = self.first_failure;
            self.due = Some((Instant::now() + TERM_AFTER, Signal::TERM));
        }
        true
    }

    fn on_due(&mut self) {
        let Some((_, signal)) = self.due.take() else { return };
        self.signal(signal);
        if signal == Signal::TERM {
            self.name_failure();
            // A stopped rank takes its TERM only when it goes on.
            self.signal(Signal::CONT);
            self.due = Some((Instant::now() + KILL_AFTER, Signal::KILL));
        }
    }

    fn signal(&self, signal: Signal) {
        self.ranks.iter().filter(|rank| rank.end.is_none()).for_each(|rank| children::send(rank.pid, signal));
    }

    /// Names the rank that failed, once, and after what it said itself.
    fn name_failure(&mut self) {
        if let Some(Failure { rank, end }) = self.unnamed.take() {
            eprintln!("hanare: {rank} of {} ({}) failed: {end}", self.ranks.len(), self.program);
        }
    }

    fn finish(mut self) -> Option<Failure> {
        self.output.drain();
        self.name_failure();
        self.teller.finish();
        self.first_failure
    }
}
