//! Ranks that run on this host: their processes, what they say, and the word to the pool when they end.

use super::children::{self, End};
use super::end_reporter::EndReporter;
use super::frame_writer::FrameWriter;
use super::output::Output;
use super::rank::{self, Program};
use super::signals::Event;
use anyhow::{Context, Result};
use hanare::last_word::LastWords;
use hanare_protocol::id::{JobId, JobRank, Rank};
use rustix::process::{Pid, Signal};
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::Sender;

/// Destination of ranks' output.
#[derive(Clone)]
pub enum Sink {
    /// The process's own output. A rank that is alone keeps it as its own: nothing can tear its lines.
    Own {
        /// True if it is.
        alone: bool,
    },
    /// Standard output, line by line, to whoever reads it here; the rest to this process's own.
    Lines(Sender<Vec<u8>>),
    /// The launcher on another host, who has the standard input too.
    Launcher(FrameWriter),
}

struct RankProcess {
    rank: Rank,
    pid: Pid,
    end: Option<End>,
}

/// The ranks of one job on this host.
pub struct Ranks {
    job: JobId,
    sink: Sink,
    ranks: Vec<RankProcess>,
    output: Output,
    reporter: EndReporter,
    /// Tells ranks where to end the job.
    last_words: (&'static str, String),
}

impl Ranks {
    /// No ranks yet; `socket` is that of a node of the pool. A rank that ends the whole job becomes an event.
    pub fn new(job: JobId, socket: &str, sink: Sink, events: Sender<Event>) -> Result<Ranks> {
        let words = LastWords::listen(job).context("cannot listen for the ranks")?;
        let last_words = words.variable();
        std::thread::Builder::new()
            .name("last-words".to_owned())
            .spawn(move || words.hear(|rank, status| events.send(Event::Aborted { rank, status }).is_ok()))?;
        Ok(Ranks { job, sink, ranks: Vec::new(), output: Output::new(), reporter: EndReporter::start(socket)?, last_words })
    }

    /// Starts one, attached to the node at `socket`, with further variables. Returns its standard input where that is the launcher's.
    pub fn start(
        &mut self,
        program: &Program,
        who: JobRank,
        socket: &str,
        variables: &[(String, String)],
    ) -> Result<Option<ChildStdin>> {
        let mut command = program.command(who, socket);
        command.env(self.last_words.0, &self.last_words.1);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let given = variables.iter().rfind(|(name, _)| name == rank::LIBRARY_PATH).map(|(_, value)| value.as_str());
        command.envs(rank::library_path(given).map(|folders| (rank::LIBRARY_PATH, folders)));
        if !matches!(self.sink, Sink::Own { alone: true }) {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        if matches!(self.sink, Sink::Launcher(_)) {
            // The terminal's signals to its foreground group reach this group by word.
            command.process_group(0);
            // Our own input is the launcher's voice.
            if who.rank.0 == 0 {
                command.stdin(Stdio::piped());
            }
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {}", who.rank))?;
        self.ranks.push(RankProcess { rank: who.rank, pid: children::pid_of(&child), end: None });
        self.listen(who.rank, &mut child)?;
        Ok(child.stdin.take())
    }

    fn listen(&mut self, rank: Rank, child: &mut Child) -> Result<()> {
        if let Some(stdout) = child.stdout.take() {
            match &self.sink {
                Sink::Own { .. } => self.output.stdout(stdout, prefix(rank, std::io::stdout().is_terminal()))?,
                Sink::Lines(lines) => self.output.lines(stdout, lines.clone())?,
                Sink::Launcher(writer) => self.output.pass_on(stdout, writer.output(rank))?,
            }
        }
        if let Some(stderr) = child.stderr.take() {
            match &self.sink {
                Sink::Own { .. } | Sink::Lines(_) => {
                    self.output.stderr(stderr, prefix(rank, std::io::stderr().is_terminal()))?;
                }
                Sink::Launcher(writer) => self.output.pass_on(stderr, writer.errors(rank))?,
            }
        }
        Ok(())
    }

    /// Notes the end of a process, and tells the pool; which rank's it was, if it was one of ours.
    pub fn on_end(&mut self, pid: Pid, end: End) -> Option<Rank> {
        let process = self.ranks.iter_mut().find(|process| process.pid == pid && process.end.is_none())?;
        process.end = Some(end);
        self.reporter.report(self.job, process.rank, end);
        Some(process.rank)
    }

    /// True if all that were started have ended.
    pub fn have_ended(&self) -> bool {
        self.ranks.iter().all(|process| process.end.is_some())
    }

    /// Sends a signal to those that live.
    pub fn signal(&self, signal: Signal) {
        self.ranks.iter().filter(|process| process.end.is_none()).for_each(|process| children::send(process.pid, signal));
    }

    /// Sends a signal to those that live and to what they have started, as a terminal does. Each must be a group of its own.
    pub fn signal_groups(&self, signal: Signal) {
        for process in self.ranks.iter().filter(|process| process.end.is_none()) {
            let _ = rustix::process::kill_process_group(process.pid, signal);
        }
    }

    /// Waits, within bounds, until what they said is out and the pool knows of their ends.
    pub fn finish(&mut self) {
        self.output.drain();
        self.reporter.finish();
    }
}

/// Text before a rank's lines.
pub fn prefix(rank: Rank, is_terminal: bool) -> String {
    if is_terminal { format!("[{}] ", rank.0) } else { String::new() }
}
