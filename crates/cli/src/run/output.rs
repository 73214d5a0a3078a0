//! Output of ranks: whole lines, with the rank before each where a person reads them.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A line longer than this is written in parts of this length.
const LINE_LEN_MAX: u64 = 1 << 20;

/// Time to wait for output that is still on its way after the last rank has ended.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Copies lines from `from` to `to`, each in one write so that lines of several ranks never tear, until either side ends.
///
/// Copies output. With a `prefix` each line begins with it and ends with a newline; without one the bytes pass as they are.
fn copy_lines(from: impl Read, mut to: impl FnMut(&[u8]) -> std::io::Result<()>, prefix: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(from);
    let mut line = Vec::from(prefix);
    loop {
        line.truncate(prefix.len());
        if reader.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if !prefix.is_empty() && line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        to(&line)?;
    }
}

/// Writes a line, or part of one, to standard output at once.
pub fn write_stdout(line: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line)?;
    stdout.flush()
}

/// The same to standard error.
pub fn write_stderr(line: &[u8]) -> std::io::Result<()> {
    std::io::stderr().lock().write_all(line)
}

/// The threads that copy the ranks' output.
pub struct Output {
    ended: Sender<()>,
    ends: Receiver<()>,
    running: usize,
}

impl Output {
    /// No output yet.
    pub fn new() -> Output {
        let (ended, ends) = channel();
        Output { ended, ends, running: 0 }
    }

    /// Copies a rank's standard output.
    pub fn stdout(&mut self, from: impl Read + Send + 'static, prefix: String) -> std::io::Result<()> {
        self.copy(from, prefix, write_stdout)
    }

    /// Copies a rank's standard error output.
    pub fn stderr(&mut self, from: impl Read + Send + 'static, prefix: String) -> std::io::Result<()> {
        self.copy(from, prefix, write_stderr)
    }

    /// Hands a rank's standard output to whoever reads the lines.
    pub fn lines(&mut self, from: impl Read + Send + 'static, to: Sender<Vec<u8>>) -> std::io::Result<()> {
        self.copy(from, String::new(), move |line| to.send(line.to_vec()).map_err(std::io::Error::other))
    }

    /// Hands what a rank says to whoever passes it on to a launcher on another host.
    pub fn pass_on(
        &mut self,
        from: impl Read + Send + 'static,
        to: impl FnMut(&[u8]) -> std::io::Result<()> + Send + 'static,
    ) -> std::io::Result<()> {
        self.copy(from, String::new(), to)
    }

    fn copy(
        &mut self,
        from: impl Read + Send + 'static,
        prefix: String,
        to: impl FnMut(&[u8]) -> std::io::Result<()> + Send + 'static,
    ) -> std::io::Result<()> {
        let ended = self.ended.clone();
        std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            // Dropping `from` tells the rank, as a pipe would, that our own output is closed.
            let _ = copy_lines(from, to, &prefix);
            let _ = ended.send(());
        })?;
        self.running += 1;
        Ok(())
    }

    /// Waits until everything that was written is out, or whoever still holds a pipe has had its time.
    pub fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN_MAX;
        while self.running > 0 {
            match self.ends.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(()) => self.running -= 1,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &[u8], prefix: &str) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        copy_lines(
            text,
            |line| {
                lines.push(line.to_vec());
                Ok(())
            },
            prefix,
        )
        .unwrap();
        lines
    }

    #[test]
    fn each_line_is_one_write_with_its_rank() {
        assert_eq!(copied(b"a\nbc\n\nd", "[3] "), [&b"[3] a\n"[..], b"[3] bc\n", b"[3] \n", b"[3] d\n"]);
    }

    #[test]
    fn without_a_prefix_the_bytes_pass_as_they_are() {
        assert_eq!(copied(b"a\n\xff\0\nend", "").concat(), b"a\n\xff\0\nend");
    }

    #[test]
    fn a_line_without_end_does_not_eat_the_memory() {
        let text = vec![b'x'; LINE_LEN_MAX as usize * 2 + 5];
        let lines = copied(&text, "");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines.concat(), text);
    }
}
