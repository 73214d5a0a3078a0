//! A host as its launcher sees it: the ssh process, its messages, and the reason of its end.
//!
//! ```text
//! Calling --Greet--> Greeted --Setup--> Lending --Ready--> Ready --Work--> Working --Over--> Ready
//!    |                  |                  |                 |           Ended (stays)
//!    +------------------+------------------+-----------------+--------------+------ Close --> Gone
//! ```

use super::deputy::DEPUTY;
use crate::run::children::{self, End};
use crate::run::link::{self, Frame, Kind};
use crate::run::output::{write_stderr, write_stdout};
use crate::run::ranks::prefix;
use crate::run::signals::Event;
use anyhow::{Context, Result, bail};
use hanare_protocol::id::Rank;
use hanare_protocol::table::{self, Row};
use rustix::process::{Pid, Signal};
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Program to run when `HANARE_SSH` is not set.
const SSH: &str = "ssh";
/// Options: ssh never asks, has no terminal, and finds out within seconds that a host has gone.
const SSH_OPTIONS: &[&str] = &["-T", "-x", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"];

/// Time for ssh to tell why the link ended.
const REASON_MAX: Duration = Duration::from_secs(2);
/// Lines of ssh's own that are kept until the host is up.
const LINES_MAX: usize = 16;

/// Phase of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// ssh connects.
    Calling,
    /// The deputy is there, of the same build.
    Greeted,
    /// The host starts its node.
    Lending,
    /// Its node is a member of the pool.
    Ready,
    /// Its ranks run, or what they said is on its way.
    Working,
    /// The link has ended.
    Gone,
}

/// An event of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The host greets.
    Greet,
    /// We ask for a node.
    Setup,
    /// The node is ready.
    Ready,
    /// We ask for ranks.
    Work,
    /// A rank has ended.
    Ended,
    /// All ranks have ended, and all they said is here.
    Over,
    /// The link ends.
    Close,
}

/// Every transition of a host.
pub const TABLE: &[Row<Phase, Step>] = &[
    Row { event: Step::Greet, from: &[Phase::Calling], to: Phase::Greeted },
    Row { event: Step::Setup, from: &[Phase::Greeted], to: Phase::Lending },
    Row { event: Step::Ready, from: &[Phase::Lending], to: Phase::Ready },
    Row { event: Step::Work, from: &[Phase::Ready], to: Phase::Working },
    Row { event: Step::Ended, from: &[Phase::Working], to: Phase::Working },
    Row { event: Step::Over, from: &[Phase::Working], to: Phase::Ready },
    Row {
        event: Step::Close,
        from: &[Phase::Calling, Phase::Greeted, Phase::Lending, Phase::Ready, Phase::Working],
        to: Phase::Gone,
    },
];

/// Our end of a deputy's standard input; `None` when we have nothing more to say.
pub type Voice = Arc<Mutex<Option<ChildStdin>>>;

/// The call of one host.
pub struct Call {
    /// The user's name for it.
    pub name: String,
    phase: Phase,
    /// Address of its node.
    pub address: Option<String>,
    /// Its ranks that have not ended.
    pub living: BTreeSet<Rank>,
    voice: Voice,
    pid: Pid,
    exit: Option<End>,
    errors: Arc<Errors>,
    errors_thread: JoinHandle<()>,
}

/// Own output of ssh and the other side's processes.
#[derive(Default)]
struct Errors {
    /// True if the lines are shown as they come; before that the last of them are kept.
    is_up: AtomicBool,
    kept: Mutex<VecDeque<String>>,
}

impl Call {
    /// Begins to connect to the host of this number; its words come as events, `credit` when it took input.
    pub fn start(number: usize, name: &str, events: Sender<Event>, credit: Sender<()>) -> Result<Call> {
        let words = std::env::var("HANARE_SSH").ok().filter(|text| !text.trim().is_empty()).unwrap_or_else(|| SSH.to_owned());
        let mut words = words.split_whitespace();
        let program = words.next().expect("it is not blank");
        let mut command = Command::new(program);
        command.args(words).args(SSH_OPTIONS).arg(name).arg(remote_line());
        // Its own process group: what is typed at the terminal is meant for the ranks, and reaches them by our words.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run '{program}' to reach host {name}"))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = (stdout.context("a pipe")?, stderr.context("a pipe")?);
        let voice = Arc::new(Mutex::new(stdin));
        let answer = voice.clone();
        std::thread::Builder::new().name("host".to_owned()).spawn(move || {
            // Whatever is wrong with what it says, the link is of no more use.
            let _ = hear(number, stdout, &events, &credit, &answer);
            let _ = events.send(Event::Said { from: number, frame: None });
        })?;
        let errors = Arc::new(Errors::default());
        let (kept, shown) = (errors.clone(), name.to_owned());
        let errors_thread =
            std::thread::Builder::new().name("host-errors".to_owned()).spawn(move || kept.read(stderr, &shown))?;
        Ok(Call {
            name: name.to_owned(),
            phase: Phase::Calling,
            address: None,
            living: BTreeSet::new(),
            voice,
            pid: children::pid_of(&child),
            exit: None,
            errors,
            errors_thread,
        })
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Goes on, if the table lets it.
    pub fn step(&mut self, step: Step) -> Result<()> {
        match table::next(TABLE, self.phase, step) {
            Some(phase) => self.phase = phase,
            None => bail!("host {} says {step:?} while it is {:?}; it runs another build", self.name, self.phase),
        }
        if step == Step::Ready {
            self.errors.is_up.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Says something; a host that is gone is told of by its own event.
    pub fn say(&self, frame: &Frame) {
        say(&self.voice, frame);
    }

    /// Voice for others.
    pub fn voice(&self) -> Voice {
        self.voice.clone()
    }

    /// Asks it to end: the end of its input is the word for it.
    pub fn hang_up(&self) {
        self.say(&Frame::new(Kind::End, 0, Vec::new()));
        *lock(&self.voice) = None;
        if self.phase == Phase::Calling {
            self.kill();
        }
    }

    /// Ends the ssh process.
    pub fn kill(&self) {
        if self.exit.is_none() {
            children::send(self.pid, Signal::KILL);
        }
    }

    /// Takes note of a child's end, if it is that of this host's ssh.
    pub fn on_child(&mut self, pid: Pid, end: End) {
        if pid == self.pid {
            self.exit = Some(end);
        }
    }

    /// True if none of its processes is left on this host.
    pub fn is_reaped(&self) -> bool {
        self.exit.is_some()
    }

    /// True if all is known that will be of why the link ended.
    fn is_told(&self) -> bool {
        self.exit.is_some() && self.errors_thread.is_finished()
    }

    /// Why the link ended, in one line.
    pub fn reason(&self) -> String {
        let kept = self.errors.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let said = kept.iter().rev().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned());
        let said = |otherwise: &str| said.clone().unwrap_or_else(|| otherwise.to_owned());
        match (self.phase, self.exit) {
            // Status 255 is ssh's own.
            (Phase::Calling, Some(End::Exited(255))) => format!("ssh cannot reach it: {}", said("the connection was closed")),
            (_, Some(End::Exited(255))) => format!("the connection broke: {}", said("ssh does not say why")),
            (Phase::Calling, Some(End::Exited(126 | 127))) => {
                format!("no hanare there ({}); install the same build in its PATH", said("not found"))
            }
            (_, None) => said("it closed the connection"),
            (_, Some(end)) => format!("its deputy ended ({end}): {}", said("it said nothing")),
        }
    }
}

/// Waits, within a bound, until it is known why a host's link ended.
pub fn await_reason(calls: &mut [Call], which: usize) -> String {
    let deadline = Instant::now() + REASON_MAX;
    while !calls[which].is_told() && Instant::now() < deadline {
        match children::reap() {
            Some((pid, end)) => calls.iter_mut().for_each(|call| call.on_child(pid, end)),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    calls[which].reason()
}

/// Says something into a voice.
pub fn say(voice: &Voice, frame: &Frame) {
    if let Some(stdin) = &mut *lock(voice) {
        let _ = frame.write(stdin);
    }
}

fn lock(voice: &Voice) -> std::sync::MutexGuard<'_, Option<ChildStdin>> {
    voice.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Line for the other host's shell: this very file where it is there too, else the `hanare` of its PATH.
fn remote_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@,".contains(c);
    let own = std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
    match own.filter(|path| path.chars().all(plain)) {
        // Whatever shell the user has there, these words mean the same to it.
        Some(path) => format!("exec sh -c 'h={path}; test -x $h || h=hanare; exec $h {DEPUTY}'"),
        None => format!("exec hanare {DEPUTY}"),
    }
}

/// Hears a deputy out: shows what its ranks print and makes events of the rest.
fn hear(number: usize, stdout: ChildStdout, events: &Sender<Event>, credit: &Sender<()>, voice: &Voice) -> io::Result<()> {
    let mut from = BufReader::new(stdout);
    let Some(greeting) = link::read_greeting(&mut from)? else { return Ok(()) };
    let event = |frame| events.send(Event::Said { from: number, frame: Some(frame) }).map_err(io::Error::other);
    event(Frame::new(Kind::Greeting, 0, greeting.into_bytes()))?;
    let (shows_stdout, shows_stderr) = (io::stdout().is_terminal(), io::stderr().is_terminal());
    while let Some(frame) = Frame::read(&mut from)? {
        match frame.kind {
            // Ranks learn, as by a pipe, that our own output is closed.
            Kind::Output if write_stdout(&line(&frame, shows_stdout)).is_err() => {
                say(voice, &Frame::new(Kind::Closed, 1, Vec::new()))
            }
            Kind::Errors if write_stderr(&line(&frame, shows_stderr)).is_err() => {
                say(voice, &Frame::new(Kind::Closed, 2, Vec::new()))
            }
            Kind::Output | Kind::Errors => {}
            Kind::Took => credit.send(()).unwrap_or_default(),
            Kind::Aborted => {
                let status = frame.value().map_err(io::Error::other)?;
                events.send(Event::Aborted { rank: Rank(frame.number), status }).map_err(io::Error::other)?;
            }
            _ => event(frame)?,
        }
    }
    Ok(())
}

/// A rank's line as it is shown.
fn line(frame: &Frame, is_terminal: bool) -> Vec<u8> {
    let mut line = prefix(Rank(frame.number), is_terminal).into_bytes();
    line.extend_from_slice(&frame.body);
    if is_terminal && line.last() != Some(&b'\n') {
        line.push(b'\n');
    }
    line
}

impl Errors {
    fn read(&self, from: ChildStderr, name: &str) {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if self.is_up.load(Ordering::Relaxed) {
                eprintln!("hanare: host {name}: {}", line.strip_prefix("hanare: ").unwrap_or(&line));
            }
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(line);
            if kept.len() > LINES_MAX {
                kept.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_this() {
        let expected = "\
Greet          Calling                            -> Greeted
Setup          Greeted                            -> Lending
Ready          Lending                            -> Ready
Work           Ready                              -> Working
Ended          Working                            -> Working
Over           Working                            -> Ready
Close          Calling, Greeted, Lending, Ready, Working -> Gone
";
        assert_eq!(table::print(TABLE), expected);
        assert_eq!(table::contradiction(TABLE), None);
    }

    #[test]
    fn a_line_is_shown_as_one_of_a_local_rank_is() {
        let frame = Frame::new(Kind::Output, 3, b"x".to_vec());
        assert_eq!(line(&frame, true), b"[3] x\n");
        assert_eq!(line(&frame, false), b"x");
    }
}
