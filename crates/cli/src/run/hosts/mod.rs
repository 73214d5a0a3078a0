//! `hanare run --hosts`: a node and ranks on each of several hosts, reached by ssh.
//!
//! ```text
//! hanare run (guard) -- hanare run (launcher) -+- ssh a -- ... -- hanare __host (guard) -- hanare __host (deputy) -+- hanare node
//!                                              |                                                                 +- rank 0 ...
//!                                              +- ssh b -- ...
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`list`] | the hosts as the user writes them, and which ranks each gets |
//! | [`call`] | one host as the launcher sees it |
//! | [`deputy`] | the other side |
//!
//! The launcher decides, as it does for ranks of its own host; deputies do what they are told, and end with the connection. The
//! pool's key is drawn by the launcher and goes through ssh; no file with a name and no command line ever holds it.

pub mod call;
pub mod deputy;
pub mod list;

use super::children::{self, End};
use super::guard;
use super::job::Crew;
use super::link::{self, Frame, Kind, Setup, Work};
use super::signals::Event;
use super::verdict::{LostNode, RankLocation};
use anyhow::{Context, Result, bail, ensure};
use call::{Call, Phase, Step};
use hanare_protocol::id::Rank;
use list::List;
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time for a host to reply, and then for its node to be ready.
const READY_MAX: Duration = Duration::from_secs(40);
/// Time for the last words of ranks that have ended.
const OVER_MAX: Duration = Duration::from_secs(15);
/// Time for a host to end in good order.
const END_MAX: Duration = Duration::from_secs(8);
/// Bytes of standard input in one piece; the next leaves when rank 0 has taken it.
const INPUT_LEN_MAX: usize = 32 << 10;

/// Variables of this host that mean nothing, or something else, on another.
const OWN_VARIABLES: &[&str] = &[
    "HANARE_NODE",
    "HANARE_TENANT",
    "HANARE_RANK",
    "HANARE_RANKS",
    "HANARE_JOB",
    "HANARE_KEY",
    "HANARE_ADVERTISE",
    "HANARE_STATE",
    "HANARE_SSH",
    "HANARE_LAUNCHER",
];

/// Plan of a job on the hosts.
pub struct Plan {
    /// The hosts.
    pub list: List,
    /// Bytes that each node lends.
    pub memory: u64,
    /// Number of ranks.
    pub ranks: u32,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Variables of the nodes and ranks beside the settings of this process.
    pub variables: Vec<(String, String)>,
}

/// The hosts of a launch; dropping them ends what runs there.
pub struct Hosts<'a> {
    calls: Vec<Call>,
    blocks: Vec<Range<u32>>,
    plan: &'a Plan,
    events: &'a Receiver<Event>,
    guard: Pid,
    /// A word for each piece of input that was taken.
    credits: Option<Receiver<()>>,
    /// Nodes that ended before they were told to; at most one for each host.
    lost_nodes: Vec<LostNode>,
}

/// The program's words as text: that is what can be sent.
pub fn words(program: &[OsString]) -> Result<Vec<String>> {
    let word = |word: &OsString| word.clone().into_string().ok().with_context(|| format!("'{}' is not UTF-8", word.display()));
    program.iter().map(word).collect()
}

impl<'a> Hosts<'a> {
    /// Reaches all hosts and starts a node on each, the first of them the coordinator.
    ///
    /// **Errors**: what the first host that cannot be used says, with its name; nothing is left on the others.
    pub fn start(plan: &'a Plan, events: &'a Receiver<Event>, sender: &Sender<Event>, guard: Pid) -> Result<Hosts<'a>> {
        let blocks = plan.list.blocks(plan.ranks)?;
        let (credit, credits) = channel();
        let mut hosts = Hosts { calls: Vec::new(), blocks, plan, events, guard, credits: Some(credits), lost_nodes: Vec::new() };
        for (number, host) in plan.list.hosts.iter().enumerate() {
            hosts.calls.push(Call::start(number, &host.name, sender.clone(), credit.clone())?);
        }
        let count = hosts.calls.len();
        hosts.await_phase(0..count, Phase::Greeted)?;
        let key = hanare::node::draw_key()?;
        let setup = |number: usize, join: Option<String>| -> Result<Setup> {
            let folder = std::env::current_dir().context("cannot tell the working folder")?;
            let folder = folder.into_os_string().into_string().ok().context("the working folder's name is not UTF-8")?;
            let (host, memory, key) = (plan.list.hosts[number].name.clone(), plan.memory, key.clone());
            Ok(Setup { host, number, memory, join, key, folder, variables: variables(plan) })
        };
        hosts.order(0, Step::Setup, &Frame::of(Kind::Setup, 0, &setup(0, None)?))?;
        hosts.await_phase(0..1, Phase::Ready)?;
        let coordinator = hosts.calls[0].address.clone();
        for number in 1..count {
            hosts.order(number, Step::Setup, &Frame::of(Kind::Setup, 0, &setup(number, coordinator.clone())?))?;
        }
        hosts.await_phase(1..count, Phase::Ready)?;
        Ok(hosts)
    }

    fn order(&mut self, number: usize, step: Step, frame: &Frame) -> Result<()> {
        self.calls[number].step(step)?;
        self.calls[number].say(frame);
        Ok(())
    }

    /// Waits until these hosts have come so far.
    fn await_phase(&mut self, which: Range<usize>, phase: Phase) -> Result<()> {
        let deadline = Instant::now() + READY_MAX;
        while let Some(late) = self.calls[which.clone()].iter().find(|call| call.phase() != phase) {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Said { from, frame: Some(frame) }) => drop(self.hear(from, &frame)?),
                Ok(Event::Said { from, frame: None }) => {
                    let reason = call::await_reason(&mut self.calls, from);
                    bail!("host {}: {reason}", self.calls[from].name)
                }
                Ok(Event::ChildEnded) => self.reap(),
                Ok(Event::Signal { .. }) if !guard::is_guarded(self.guard) => bail!("the launch was killed"),
                Ok(Event::Signal { signal: Signal::INT | Signal::TERM | Signal::HUP | Signal::QUIT, .. }) => {
                    bail!("told to end before all hosts were ready")
                }
                Ok(Event::Signal { .. } | Event::Aborted { .. }) => {}
                Err(RecvTimeoutError::Timeout) => bail!("host {} was not ready within {READY_MAX:?}", late.name),
                Err(RecvTimeoutError::Disconnected) => bail!("signals cannot be caught any more"),
            }
        }
        Ok(())
    }

    /// Takes in what a host says; the rank that ended.
    fn hear(&mut self, from: usize, frame: &Frame) -> Result<Option<(Rank, End)>> {
        let is_alone = self.calls.len() == 1;
        let call = &mut self.calls[from];
        match frame.kind {
            Kind::Greeting => {
                let (ours, theirs) = (link::greeting(), frame.text());
                ensure!(
                    ours == theirs,
                    "host {} has hanare {}, this one is {}; install the same build on both",
                    call.name,
                    link::version_of(&theirs),
                    link::version_of(&ours)
                );
                call.step(Step::Greet)?;
            }
            Kind::Ready => {
                call.step(Step::Ready)?;
                call.address = Some(frame.text());
                self.check_addresses(is_alone)?;
            }
            Kind::Refused => bail!("host {}: {}", call.name, frame.text()),
            Kind::Ended => {
                call.step(Step::Ended)?;
                let rank = Rank(frame.number);
                ensure!(call.living.remove(&rank), "host {} says that {rank} ended, which is none of its own", call.name);
                return Ok(Some((rank, frame.end()?)));
            }
            Kind::Over => call.step(Step::Over)?,
            Kind::NodeEnded => {
                let (host, end) = (call.name.clone(), frame.end()?);
                // A host speaks of its own node alone, and once.
                if self.lost_nodes.iter().all(|lost| lost.number != from as u32) {
                    self.lost_nodes.push(LostNode { number: from as u32, host, end, at: Instant::now() });
                }
            }
            other => bail!("host {} says {other:?}, which is an order; it runs another build", call.name),
        }
        Ok(None)
    }

    /// Refuses a pool some of whose nodes listen where the others cannot reach them.
    fn check_addresses(&self, is_alone: bool) -> Result<()> {
        let is_loopback = |call: &&Call| {
            let address = call.address.as_ref().and_then(|address| address.parse::<SocketAddr>().ok());
            address.is_some_and(|address| address.ip().is_loopback())
        };
        let ready = || self.calls.iter().filter(|call| call.address.is_some());
        match ready().find(is_loopback) {
            Some(call) if !is_alone && !ready().all(|call| is_loopback(&call)) => {
                bail!("host {} is reached by loopback, where other hosts cannot reach it; give its name or address", call.name)
            }
            _ => Ok(()),
        }
    }

    fn reap(&mut self) {
        for (pid, end) in std::iter::from_fn(children::reap) {
            self.calls.iter_mut().for_each(|call| call.on_child(pid, end));
        }
    }

    /// The link to a host has ended; its ranks that lived.
    fn on_lost(&mut self, from: usize) -> Vec<(Rank, End)> {
        if self.calls[from].phase() == Phase::Gone {
            return Vec::new();
        }
        let reason = call::await_reason(&mut self.calls, from);
        let call = &mut self.calls[from];
        let _ = call.step(Step::Close);
        eprintln!("hanare: host {} is lost ({reason}); regions with extents there cannot be used any more", call.name);
        std::mem::take(&mut call.living).into_iter().map(|rank| (rank, End::Lost)).collect()
    }

    /// Takes in what happens until something is so, within a bound; says whether it is.
    fn settle(&mut self, bound: Duration, is_so: impl Fn(&[Call]) -> bool) -> bool {
        let deadline = Instant::now() + bound;
        while !is_so(&self.calls) {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Said { from, frame: Some(frame) }) => drop(self.hear(from, &frame)),
                Ok(Event::Said { from, frame: None }) => drop(self.calls[from].step(Step::Close)),
                Ok(Event::ChildEnded) => self.reap(),
                // The launch ends anyway.
                Ok(Event::Signal { .. } | Event::Aborted { .. }) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

impl Crew for Hosts<'_> {
    fn start(&mut self) -> Result<()> {
        let job: u128 = rand::random();
        for (number, block) in self.blocks.clone().into_iter().enumerate().filter(|(_, block)| !block.is_empty()) {
            let program = self.plan.program.clone();
            let work = Work { job, ranks: self.plan.ranks, first: block.start, count: block.len() as u32, program };
            self.calls[number].living = block.map(Rank).collect();
            self.order(number, Step::Work, &Frame::of(Kind::Work, 0, &work))?;
        }
        // Rank 0 is on the first host.
        let (voice, credits) = (self.calls[0].voice(), self.credits.take().context("the job was started")?);
        std::thread::Builder::new().name("input".to_owned()).spawn(move || pass_input(&voice, &credits))?;
        Ok(())
    }

    fn signal(&self, signal: Signal, from_terminal: bool) {
        let kind = if from_terminal { Kind::Typed } else { Kind::Signal };
        for call in self.calls.iter().filter(|call| !call.living.is_empty()) {
            call.say(&Frame::new(kind, signal.as_raw() as u32, Vec::new()));
        }
    }

    fn on_child(&mut self, pid: Pid, end: End) -> Option<(Rank, End)> {
        self.calls.iter_mut().for_each(|call| call.on_child(pid, end));
        None
    }

    fn on_said(&mut self, from: usize, frame: Option<Frame>) -> Result<Vec<(Rank, End)>> {
        match frame {
            Some(frame) => Ok(self.hear(from, &frame)?.into_iter().collect()),
            None => Ok(self.on_lost(from)),
        }
    }

    fn finish(&mut self) {
        self.settle(OVER_MAX, |calls| calls.iter().all(|call| call.phase() != Phase::Working));
    }

    fn place(&self, rank: Rank) -> RankLocation {
        let host = self.blocks.iter().position(|block| block.contains(&rank.0)).unwrap_or_default();
        RankLocation { node: Some(host as u32), host: self.calls[host].name.clone() }
    }

    fn lost_nodes(&self) -> Vec<LostNode> {
        self.lost_nodes.clone()
    }
}

impl Drop for Hosts<'_> {
    fn drop(&mut self) {
        // The coordinator last: the others leave in good order while it answers.
        let coordinator = self.calls.len().min(1);
        for which in [coordinator..self.calls.len(), 0..coordinator] {
            self.calls[which.clone()].iter().for_each(Call::hang_up);
            if !self.settle(END_MAX, |calls| calls[which.clone()].iter().all(Call::is_reaped)) {
                self.calls[which.clone()].iter().for_each(Call::kill);
                self.settle(END_MAX, |calls| calls[which.clone()].iter().all(Call::is_reaped));
            }
        }
    }
}

/// The settings of this launch that the others share.
fn variables(plan: &Plan) -> Vec<(String, String)> {
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let settings = variables.filter(|(name, _)| name.starts_with("HANARE_") && !OWN_VARIABLES.contains(&name.as_str()));
    settings.chain(plan.variables.iter().cloned()).collect()
}

/// Reads standard input for rank 0, a piece at a time.
fn pass_input(voice: &call::Voice, credits: &Receiver<()>) {
    let mut stdin = std::io::stdin().lock();
    let mut piece = vec![0; INPUT_LEN_MAX];
    // A terminal whose foreground we are not would stop us.
    let mut is_open = !is_in_background();
    while is_open {
        let len = stdin.read(&mut piece).unwrap_or(0);
        call::say(voice, &Frame::new(Kind::Input, 0, piece[..len].to_vec()));
        is_open = len > 0 && credits.recv().is_ok();
    }
}

/// True if standard input is a terminal that belongs to another process group.
fn is_in_background() -> bool {
    use std::io::IsTerminal;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    // After the name: state, parent, group, session, terminal, the terminal's foreground group.
    std::io::stdin().is_terminal() && fields.get(2) != fields.get(5)
}
