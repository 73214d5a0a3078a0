//! A launcher's deputy on another host: it starts that host's node and ranks, and leaves nothing behind when the launcher goes.
//!
//! ```text
//! greeted --Setup--> lending --Work--> working --all ranks end--> lending
//!    |                  |                 |
//!    +------------------+-----------------+-- End, the launcher's or the guard's end, a signal --> ended
//! ```
//!
//! Its guard (the same as a launcher's) cleans up when the deputy itself is killed. It reads orders from its standard input, which
//! ends with the ssh connection, and speaks on its standard output.

use crate::run::children::{self, End};
use crate::run::frame_writer::FrameWriter;
use crate::run::guard;
use crate::run::link::{Frame, Kind, Setup, Work, greeting};
use crate::run::nodes::{self, Nodes};
use crate::run::rank::Program;
use crate::run::ranks::{Ranks, Sink};
use crate::run::signals::{self, Event};
use anyhow::{Context, Result, bail, ensure};
use hanare_protocol::id::{JobId, JobRank, Rank};
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::io::Write;
use std::net::IpAddr;
use std::process::ChildStdin;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The first argument of a deputy's process.
pub const DEPUTY: &str = "__host";

/// Time for the last words.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);

/// State of a deputy.
struct Deputy {
    writer: FrameWriter,
    /// Receiver of its ranks' events.
    events: Sender<Event>,
    setup: Option<Setup>,
    nodes: Nodes,
    ranks: Option<Ranks>,
    /// Takes what is meant for rank 0.
    input: Option<Sender<Vec<u8>>>,
}

/// Serves the launcher that holds the other end of standard input and output.
pub fn serve(guard: Pid) -> Result<i32> {
    let (sender, events) = signals::catch_with()?;
    guard::enter(guard)?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", greeting()).and_then(|()| stdout.flush()).context("nobody listens to this host's deputy")?;
    let (writer, ended) = FrameWriter::open(stdout)?;
    let own_events = sender.clone();
    std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let frame = Frame::read(&mut stdin).ok().flatten();
            let is_end = frame.is_none();
            if sender.send(Event::Said { from: 0, frame }).is_err() || is_end {
                return;
            }
        }
    })?;
    let mut deputy = Deputy { writer, events: own_events, setup: None, nodes: Nodes::default(), ranks: None, input: None };
    loop {
        match deputy.on_event(events.recv()?) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                deputy.writer.send(Frame::new(Kind::Refused, 0, format!("{error:#}").into_bytes()));
                break;
            }
        }
    }
    drop(deputy);
    let _ = ended.recv_timeout(LAST_WORDS_MAX);
    Ok(0)
}

impl Deputy {
    /// Does what an event asks for; `false` at the end.
    fn on_event(&mut self, event: Event) -> Result<bool> {
        match event {
            Event::Said { frame: Some(frame), .. } => return self.on_order(&frame),
            Event::Said { frame: None, .. } => return Ok(false),
            Event::ChildEnded => self.on_children(),
            Event::Aborted { rank, status } => self.writer.send(Frame::of(Kind::Aborted, rank.0, &status)),
            // To a deputy itself, or the kernel's word that its guard is gone.
            Event::Signal { signal: Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT, .. } => return Ok(false),
            Event::Signal { .. } => {}
        }
        Ok(true)
    }

    fn on_order(&mut self, frame: &Frame) -> Result<bool> {
        match frame.kind {
            Kind::Setup => {
                let setup = frame.value()?;
                let address = self.lend(&setup)?;
                self.setup = Some(setup);
                self.writer.send(Frame::new(Kind::Ready, 0, address.into_bytes()));
            }
            Kind::Work => self.work(&frame.value()?)?,
            Kind::Signal | Kind::Typed => {
                let signal = Signal::from_named_raw(frame.number as i32).context("no signal has that number")?;
                match &self.ranks {
                    Some(ranks) if frame.kind == Kind::Typed => ranks.signal_groups(signal),
                    Some(ranks) => ranks.signal(signal),
                    None => {}
                }
            }
            Kind::Input => {
                // Rank 0 may have closed its input; the launcher goes on reading all the same.
                let _ = self.input.as_ref().map(|input| input.send(frame.body.clone()));
            }
            Kind::Closed => self.writer.close(frame.number),
            Kind::End => return Ok(false),
            other => bail!("{other:?} is no order"),
        }
        Ok(true)
    }

    /// Starts this host's node; returns its address.
    fn lend(&mut self, setup: &Setup) -> Result<String> {
        ensure!(self.setup.is_none(), "the node is there already");
        std::env::set_current_dir(&setup.folder).with_context(|| format!("cannot work in {}", setup.folder))?;
        let key = nodes::UnnamedKeyFile::new(&setup.key)?;
        let listen = listening_address(std::env::var("SSH_CONNECTION").ok().as_deref());
        let (nodes, address) = Nodes::start_one(&nodes::Plan {
            number: setup.number,
            name: &setup.host,
            memory: setup.memory,
            listen: &listen,
            keepers: &[],
            join: setup.join.as_deref(),
            key: Some(key.path()),
            variables: &setup.variables,
        })?;
        self.nodes = nodes;
        Ok(address)
    }

    /// Starts this host's ranks.
    fn work(&mut self, work: &Work) -> Result<()> {
        let setup = self.setup.as_ref().context("no node is there to attach to")?;
        let words: Vec<OsString> = work.program.iter().map(OsString::from).collect();
        let program = Program::find(&words)?;
        let socket = self.nodes.sockets().swap_remove(0);
        let job = JobId(work.job);
        let ranks = self.ranks.insert(Ranks::new(job, &socket, Sink::Launcher(self.writer.clone()), self.events.clone())?);
        for number in work.first..work.first + work.count {
            let who = JobRank { job, rank: Rank(number), ranks: work.ranks };
            if let Some(stdin) = ranks.start(&program, who, &socket, &setup.variables)? {
                self.input = Some(feed(stdin, self.writer.clone())?);
            }
        }
        Ok(())
    }

    fn on_children(&mut self) {
        for (pid, end) in std::iter::from_fn(children::reap) {
            match self.ranks.as_mut().and_then(|ranks| ranks.on_end(pid, end)) {
                Some(rank) => self.writer.send(Frame::of(Kind::Ended, rank.0, &end)),
                None => self.on_node(pid, end),
            }
        }
        if self.ranks.as_ref().is_some_and(Ranks::have_ended) {
            self.sweep();
            if let Some(mut ranks) = self.ranks.take() {
                ranks.finish();
            }
            self.writer.send(Frame::new(Kind::Over, 0, Vec::new()));
        }
    }

    /// Takes note of a child's end that is no rank's; the launcher is told where its node is lost.
    fn on_node(&mut self, pid: Pid, end: End) {
        let before = self.nodes.lost().len();
        self.nodes.on_end(pid, end);
        for lost in &self.nodes.lost()[before..] {
            self.writer.send(Frame::of(Kind::NodeEnded, lost.number, &lost.end));
        }
    }

    /// Ends what the ranks left running.
    fn sweep(&mut self) {
        for (pid, end) in children::sweep(&self.nodes.pids()) {
            self.on_node(pid, end);
        }
    }
}

impl Drop for Deputy {
    fn drop(&mut self) {
        self.ranks = None;
        self.sweep();
    }
}

/// Writes to rank 0 what comes on the channel, and tells the launcher of each piece that was taken.
fn feed(mut stdin: ChildStdin, writer: FrameWriter) -> Result<Sender<Vec<u8>>> {
    let (input, pieces) = channel::<Vec<u8>>();
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        for piece in pieces {
            // An empty piece is the end.
            if piece.is_empty() || stdin.write_all(&piece).is_err() {
                return;
            }
            writer.send(Frame::new(Kind::Took, 0, Vec::new()));
        }
    })?;
    Ok(input)
}

/// Address for the node: the one by which ssh reached this host, or all of them where it does not say.
fn listening_address(ssh_connection: Option<&str>) -> String {
    let address = ssh_connection.and_then(|text| text.split(' ').nth(2)?.parse::<IpAddr>().ok());
    match address {
        Some(IpAddr::V4(address)) => format!("{address}:0"),
        Some(IpAddr::V6(address)) => format!("[{address}]:0"),
        None => "0.0.0.0:0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_listens_where_ssh_came_in() {
        assert_eq!(listening_address(Some("10.0.0.1 51000 10.0.0.7 22")), "10.0.0.7:0");
        assert_eq!(listening_address(Some("fd00::1 51000 fd00::7 22")), "[fd00::7]:0");
        assert_eq!(listening_address(Some("nonsense")), "0.0.0.0:0");
        assert_eq!(listening_address(None), "0.0.0.0:0");
    }
}
