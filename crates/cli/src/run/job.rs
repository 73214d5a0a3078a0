//! A job: its ranks from start to end, on any host.
//!
//! ```text
//!          all ranks end well
//! running ----------------------------------------> over
//!    |  a rank fails            TERM_AFTER      KILL_AFTER
//!    +------------> failed ----------> told to end ----------> killed --> over
//! ```

use super::children::{self, End};
use super::guard;
use super::link::Frame;
use super::nodes::{self, Nodes};
use super::rank::Program;
use super::ranks::{Ranks, Sink};
use super::signals::Event;
use super::verdict::{LostNode, RankEnd, RankLocation, Verdict};
use anyhow::{Result, bail};
use hanare::Pool;
use hanare_protocol::id::{JobId, JobRank, Rank};
use rustix::process::{Pid, Signal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Time after the first failure to look for others. A rank that a signal ended is blamed before those that it failed: its memory is given
/// back before its end is told, so theirs may come first.
const LOOK_FOR: Duration = Duration::from_millis(100);
/// Time for the other ranks to report what the failed one means to them, before they are told to end.
const TERM_AFTER: Duration = Duration::from_millis(500);
/// Time after that for them to end by themselves.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// The same where a node of the launch is lost: a rank that waits for a page of it takes no signal before the page's own bound is over.
const KILL_AFTER_LOSS: Duration = Duration::from_secs(1);

/// Plan of a job on this host.
pub struct Plan {
    /// Program of each rank.
    pub program: Program,
    /// Number of ranks.
    pub ranks: u32,
    /// The sockets of the nodes, on which the ranks are placed round robin.
    pub sockets: Vec<String>,
    /// Variables of the ranks beside those of this process.
    pub variables: Vec<(String, String)>,
    /// Takes the lines of the ranks' standard output instead of the terminal.
    pub lines: Option<Sender<Vec<u8>>>,
}

/// Surroundings of a job on this host.
pub struct Surroundings<'a> {
    /// Signals and ends of children.
    pub events: &'a Receiver<Event>,
    /// Receiver of their other events.
    pub sender: &'a Sender<Event>,
    /// The process that must stay alive for the job to go on.
    pub guard: Pid,
    /// The nodes that were started for it.
    pub nodes: &'a mut Nodes,
}

/// A rank that ended badly.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The rank.
    pub rank: Rank,
    /// How.
    pub end: End,
}

/// Runner of a job's ranks.
pub trait Crew {
    /// Starts them all.
    fn start(&mut self) -> Result<()>;
    /// Sends a signal to those that live. One from the terminal has reached those of this host already.
    fn signal(&self, signal: Signal, from_terminal: bool);
    /// A child of this process ended; the rank that ended with it.
    fn on_child(&mut self, pid: Pid, end: End) -> Option<(Rank, End)>;
    /// The deputy on another host said something, or is gone; the ranks that ended.
    fn on_said(&mut self, from: usize, frame: Option<Frame>) -> Result<Vec<(Rank, End)>>;
    /// Ends what the ranks left running, and waits until what they said is out.
    fn finish(&mut self);
    /// Location of a rank.
    fn place(&self, rank: Rank) -> RankLocation;
    /// The nodes that ended before they were told to.
    fn lost_nodes(&self) -> Vec<LostNode>;
}

/// The ranks of a job on this host.
struct Here<'a> {
    plan: &'a Plan,
    job: JobId,
    ranks: Ranks,
    nodes: &'a mut Nodes,
}

impl Crew for Here<'_> {
    fn start(&mut self) -> Result<()> {
        for number in 0..self.plan.ranks {
            let who = JobRank { job: self.job, rank: Rank(number), ranks: self.plan.ranks };
            let socket = &self.plan.sockets[number as usize % self.plan.sockets.len()];
            self.ranks.start(&self.plan.program, who, socket, &self.plan.variables)?;
        }
        Ok(())
    }

    fn signal(&self, signal: Signal, from_terminal: bool) {
        if !from_terminal {
            self.ranks.signal(signal);
        }
    }

    fn on_child(&mut self, pid: Pid, end: End) -> Option<(Rank, End)> {
        let rank = self.ranks.on_end(pid, end);
        if rank.is_none() {
            self.nodes.on_end(pid, end);
        }
        rank.map(|rank| (rank, end))
    }

    fn on_said(&mut self, _: usize, _: Option<Frame>) -> Result<Vec<(Rank, End)>> {
        Ok(Vec::new())
    }

    fn finish(&mut self) {
        // Processes that the ranks left running would hold their output open.
        for (pid, end) in children::sweep(&self.nodes.pids()) {
            self.on_child(pid, end);
        }
        self.ranks.finish();
    }

    fn place(&self, rank: Rank) -> RankLocation {
        let socket = rank.0 as usize % self.plan.sockets.len();
        // The launch's own nodes have its numbers; one that was there before tells its number.
        let node = match self.nodes.sockets().is_empty() {
            false => Some(socket as u32),
            true => Pool::attach_as(&self.plan.sockets[socket], None, None).ok().map(|pool| pool.node().0),
        };
        RankLocation { node, host: nodes::own_host() }
    }

    fn lost_nodes(&self) -> Vec<LostNode> {
        self.nodes.lost().to_vec()
    }
}

/// Runs a job on this host to its end. `None` where every rank ended well.
pub fn run(plan: &Plan, around: &mut Surroundings<'_>) -> Result<Option<Failure>> {
    let job = JobId(rand::random());
    let sink = match &plan.lines {
        Some(lines) => Sink::Lines(lines.clone()),
        None => Sink::Own { alone: plan.ranks == 1 },
    };
    let ranks = Ranks::new(job, &plan.sockets[0], sink, around.sender.clone())?;
    let mut here = Here { plan, job, ranks, nodes: around.nodes };
    run_crew(&mut here, plan.ranks, &plan.program.name(), around.events, around.guard)
}

/// Runs the ranks of a crew to their end. `None` where every rank ended well.
pub fn run_crew(crew: &mut dyn Crew, ranks: u32, program: &str, events: &Receiver<Event>, guard: Pid) -> Result<Option<Failure>> {
    let mut job = Job { ranks, running: ranks, program: program.to_owned(), ..Job::default() };
    let result = crew.start().and_then(|()| job.watch(crew, events, guard));
    if result.is_err() {
        crew.signal(Signal::KILL, false);
    }
    crew.finish();
    job.name_failure();
    job.show_verdict(crew);
    result.map(|()| job.first_failure)
}

/// A job that runs.
#[derive(Default)]
struct Job {
    ranks: u32,
    /// Number of ranks that have not ended.
    running: u32,
    program: String,
    /// Ends of those that have.
    ends: Vec<RankEnd>,
    /// The failure that is blamed.
    first_failure: Option<Failure>,
    /// When the first was seen.
    first_at: Option<Instant>,
    /// True if it was told.
    is_named: bool,
    /// When the next step towards the end is due, and which signal it sends.
    due: Option<(Instant, Signal)>,
    /// The last signal of the launcher's own that all ranks were sent.
    told: Option<Signal>,
    /// True if the user had a signal sent to all ranks that asks for their end.
    is_given_up: bool,
}

impl Job {
    fn watch(&mut self, crew: &mut dyn Crew, events: &Receiver<Event>, guard: Pid) -> Result<()> {
        while self.running > 0 {
            let wait = self.due.map_or(Duration::MAX, |(at, _)| at.saturating_duration_since(Instant::now()));
            match events.recv_timeout(wait) {
                Ok(Event::ChildEnded) => {
                    let ended = std::iter::from_fn(children::reap).filter_map(|(pid, end)| crew.on_child(pid, end));
                    ended.for_each(|(rank, end)| self.on_end(rank, end));
                }
                Ok(Event::Said { from, frame }) => {
                    crew.on_said(from, frame)?.into_iter().for_each(|(rank, end)| self.on_end(rank, end));
                }
                Ok(Event::Signal { .. }) if !guard::is_guarded(guard) => {
                    bail!("the launch was killed; its ranks and nodes were ended")
                }
                Ok(Event::Signal { signal, from_terminal }) => {
                    self.is_given_up |= [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal);
                    crew.signal(signal, from_terminal);
                }
                Ok(Event::Aborted { rank, status }) => self.on_abort(rank, status),
                Err(RecvTimeoutError::Timeout) => self.on_due(crew),
                Err(RecvTimeoutError::Disconnected) => bail!("signals cannot be caught any more"),
            }
        }
        Ok(())
    }

    /// Notes a rank's end.
    fn on_end(&mut self, rank: Rank, end: End) {
        self.running -= 1;
        self.ends.push(RankEnd { rank, end, at: Instant::now(), told: self.told });
        if end == End::Exited(0) {
            return;
        }
        let first_at = *self.first_at.get_or_insert_with(Instant::now);
        match self.first_failure {
            None => {
                self.first_failure = Some(Failure { rank, end });
                self.due = Some((first_at + TERM_AFTER, Signal::TERM));
            }
            Some(Failure { end: End::Killed(_) | End::Aborted(_), .. }) => {}
            Some(_) if matches!(end, End::Killed(_)) && first_at.elapsed() <= LOOK_FOR => {
                self.first_failure = Some(Failure { rank, end });
            }
            Some(_) => {}
        }
    }

    /// Notes that a rank ends the job: all are told to end at once. It is the cause, unless another rank had failed before.
    fn on_abort(&mut self, rank: Rank, status: i32) {
        let now = Instant::now();
        if self.first_failure.is_none() {
            self.first_failure = Some(Failure { rank, end: End::Aborted(status) });
            self.first_at = Some(now);
        }
        if self.told.is_none() {
            self.due = Some((now, Signal::TERM));
        }
    }

    fn on_due(&mut self, crew: &dyn Crew) {
        let Some((_, signal)) = self.due.take() else { return };
        self.told = Some(signal);
        crew.signal(signal, false);
        if signal == Signal::TERM {
            self.name_failure();
            // A stopped rank takes its TERM only when it goes on.
            crew.signal(Signal::CONT, false);
            let left = if crew.lost_nodes().is_empty() { KILL_AFTER } else { KILL_AFTER_LOSS };
            self.due = Some((Instant::now() + left, Signal::KILL));
        }
    }

    /// Names the rank that failed, once, and after what it said itself.
    fn name_failure(&mut self) {
        let unnamed = self.first_failure.filter(|_| !std::mem::replace(&mut self.is_named, true));
        match unnamed {
            Some(Failure { end: End::Aborted(status), .. }) if status & 0xff == 0 => {}
            Some(Failure { rank, end: End::Aborted(status) }) => {
                eprintln!("hanare: {rank} of {} ({}) ended the job with status {}", self.ranks, self.program, status & 0xff);
            }
            Some(Failure { rank, end }) => eprintln!("hanare: {rank} of {} ({}) failed: {end}", self.ranks, self.program),
            None => {}
        }
    }

    /// Shows how all ranks and the lost nodes ended, where a failure is not told by one line: there are several, and nobody ended the
    /// job on purpose.
    fn show_verdict(&mut self, crew: &dyn Crew) {
        let (Some(failure), Some(first_at)) = (self.first_failure, self.first_at) else { return };
        let nodes = crew.lost_nodes();
        let is_alone = self.ranks == 1 && nodes.is_empty();
        if is_alone || self.is_given_up || matches!(failure.end, End::Aborted(_)) {
            return;
        }
        let ranks = std::mem::take(&mut self.ends);
        let verdict = Verdict { blamed: failure.rank, first_at, ranks, nodes };
        eprintln!("{}", verdict.table(|rank| crew.place(rank)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job { ranks: 3, running: 3, ..Job::default() }
    }

    fn blamed(job: &Job) -> Option<(u32, i32)> {
        job.first_failure.map(|failure| (failure.rank.0, failure.end.status()))
    }

    #[test]
    fn a_rank_that_a_signal_ended_is_blamed_before_those_that_it_failed() {
        let mut job = job();
        job.on_end(Rank(1), End::Exited(1));
        assert_eq!(blamed(&job), Some((1, 1)));
        job.on_end(Rank(2), End::Killed(9));
        assert_eq!(blamed(&job), Some((2, 137)));
        job.on_end(Rank(0), End::Killed(7));
        assert_eq!(blamed(&job), Some((2, 137)), "the first of them");
    }

    #[test]
    fn a_rank_that_ends_the_job_is_its_status_unless_another_had_failed() {
        let mut aborted = job();
        aborted.on_abort(Rank(2), 0);
        assert_eq!((blamed(&aborted), aborted.due.map(|(_, signal)| signal)), (Some((2, 0)), Some(Signal::TERM)));
        aborted.on_end(Rank(0), End::Killed(15));
        aborted.on_end(Rank(2), End::Exited(0));
        assert_eq!(blamed(&aborted), Some((2, 0)), "the others ended because of it");
        let mut failed = job();
        failed.on_end(Rank(1), End::Killed(11));
        failed.on_abort(Rank(0), 5);
        assert_eq!(blamed(&failed), Some((1, 139)));
    }

    /// Ranks that nobody signals, and a node that is lost, or none.
    struct Nobody(Vec<LostNode>);

    impl Crew for Nobody {
        fn start(&mut self) -> Result<()> {
            Ok(())
        }

        fn signal(&self, _: Signal, _: bool) {}

        fn on_child(&mut self, _: Pid, _: End) -> Option<(Rank, End)> {
            None
        }

        fn on_said(&mut self, _: usize, _: Option<Frame>) -> Result<Vec<(Rank, End)>> {
            Ok(Vec::new())
        }

        fn finish(&mut self) {}

        fn place(&self, _: Rank) -> RankLocation {
            RankLocation { node: None, host: String::new() }
        }

        fn lost_nodes(&self) -> Vec<LostNode> {
            self.0.clone()
        }
    }

    #[test]
    fn ranks_of_a_launch_that_lost_a_node_have_less_time_to_end() {
        let lost = LostNode { number: 0, host: String::new(), end: End::Killed(9), at: Instant::now() };
        for (nodes, left) in [(Vec::new(), KILL_AFTER), (vec![lost], KILL_AFTER_LOSS)] {
            let mut job = job();
            job.on_end(Rank(1), End::Exited(1));
            let before = Instant::now();
            job.on_due(&Nobody(nodes));
            let (due, signal) = job.due.expect("those that live are killed");
            assert!(signal == Signal::KILL && due >= before + left && due <= Instant::now() + left, "{left:?}");
        }
    }

    #[test]
    fn who_ends_long_after_the_first_is_not_blamed() {
        let mut job = job();
        job.on_end(Rank(0), End::Exited(0));
        job.on_end(Rank(1), End::Exited(3));
        job.first_at = job.first_at.and_then(|at| at.checked_sub(2 * LOOK_FOR));
        job.on_end(Rank(2), End::Killed(15));
        assert_eq!(blamed(&job), Some((1, 3)), "the launcher itself ends the others then");
    }
}
