//! Programs that stay for a whole bench. Each turn is a line to them, and figures up to a full stop from them. What is dear to set up (a
//! gigabyte of table, an MPI job) is set up once.

use super::program::figures;
use crate::turns::Figures;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time for one turn, the first with its setting up.
const TURN_MAX: Duration = Duration::from_secs(60);

/// Time for a program to end when its input does.
const END_MAX: Duration = Duration::from_secs(3);

/// Time for the thread that reads a program's errors to come to their end, once the program has ended.
const LAST_LINE_PATIENCE: Duration = Duration::from_secs(3);

/// The line that ends a turn's figures.
const END_OF_TURN: &str = ".";

/// A program that takes turns; dropping it ends it.
pub struct Session {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Receiver<String>,
}

impl Session {
    /// Starts a program with these words and variables.
    pub fn start(program: &Path, words: &[String], variables: &[(&str, &str)]) -> Result<Session> {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.args(words).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{name} is not installed"))?;
        let stdin = child.stdin.take();
        let lines = read_lines(child.stdout.take().context("its output is a pipe")?);
        let complaints = read_lines(child.stderr.take().context("its errors are a pipe")?);
        Ok(Session { name, child, stdin, lines, complaints })
    }

    /// Lets it take a turn and returns its figures.
    pub fn turn(&mut self) -> Result<Figures> {
        let stdin = self.stdin.as_mut().context("it has ended")?;
        if stdin.write_all(b"go\n").and_then(|()| stdin.flush()).is_err() {
            return Err(self.ended());
        }
        let deadline = Instant::now() + TURN_MAX;
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.trim() == END_OF_TURN => return figures(&text),
                Ok(line) => text.extend([line.as_str(), "\n"]),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) => {
                    self.end();
                    bail!("{} was not done within {TURN_MAX:?}", self.name);
                }
            }
        }
    }

    /// Waits for the first line that `read` takes for its figures; what it prints before and after is nobody's.
    pub fn wait_for(&mut self, read: fn(&str) -> Option<Result<Figures>>) -> Result<Figures> {
        let deadline = Instant::now() + TURN_MAX;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match read(&line) {
                    Some(figures) => return figures,
                    None => continue,
                },
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) => {
                    self.end();
                    bail!("{} was not done within {TURN_MAX:?}", self.name);
                }
            }
        }
    }

    /// Its last line on its way out: launchers add notes of their own behind it.
    fn ended(&mut self) -> anyhow::Error {
        self.end();
        let deadline = Instant::now() + LAST_LINE_PATIENCE;
        let next = || self.complaints.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
        let said: Vec<String> = std::iter::from_fn(next).collect();
        let line = said.iter().find(|line| line.to_lowercase().contains("error")).or(said.last());
        anyhow::anyhow!("{} ended: {}", self.name, line.map_or("it says nothing", |line| line.trim()))
    }

    /// Ends it: in good order, then by a signal that a launcher passes on, then at once.
    fn end(&mut self) {
        self.stdin = None;
        for signal in [None, Some(rustix::process::Signal::TERM)] {
            if let Some(signal) = signal {
                let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal);
            }
            let deadline = Instant::now() + END_MAX;
            while Instant::now() < deadline {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(std::io::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Session {
        Session::start(Path::new("/bin/sh"), &["-c".to_owned(), script.to_owned()], &[]).unwrap()
    }

    #[test]
    fn every_turn_has_its_own_figures() {
        let mut session = shell("k=0; while read line; do k=$((k+1)); echo \"a_$k 2.5\"; echo .; done");
        assert_eq!(session.turn().unwrap(), Figures::from([("a_1".to_owned(), 2.5)]));
        assert_eq!(session.turn().unwrap(), Figures::from([("a_2".to_owned(), 2.5)]));
    }

    #[test]
    fn a_line_is_waited_for_and_one_that_never_comes_is_an_error() {
        let read = |line: &str| Some(Ok(Figures::from([("x".to_owned(), line.strip_prefix("x=")?.parse().ok()?)])));
        let figures = shell("echo before; echo x=3; exec sleep 600").wait_for(read).unwrap();
        assert_eq!(figures, Figures::from([("x".to_owned(), 3.0)]));
        assert!(shell("echo before; echo nothing >&2").wait_for(read).unwrap_err().to_string().contains("nothing"));
    }

    #[test]
    fn one_that_ends_is_named_with_its_reason() {
        let mut session = shell("read line; echo 'error: broken' >&2; echo note >&2; exit 3");
        let reason = session.turn().unwrap_err().to_string();
        assert!(reason.contains("sh ended: error: broken"), "{reason}");
        assert!(session.turn().is_err());
    }

    #[test]
    fn it_ends_when_it_is_dropped_even_if_it_would_not() {
        let mut session = shell("trap '' TERM; read line; echo 'a 1'; echo .; exec sleep 600");
        session.turn().unwrap();
        let pid = rustix::process::Pid::from_child(&session.child);
        drop(session);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
