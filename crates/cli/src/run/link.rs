//! Messages of a launcher and its deputy on another host: frames on the deputy's input and output.
//!
//! A frame is its kind (1 byte), a number (4) and the length of its body (4), little-endian, then the body. The deputy's first
//! words are a line, [`greeting`]: what a shell's start-up files print before it is skipped.

use super::children::End;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// Longest body: a line of output, or the words of a program.
const BODY_LEN_MAX: usize = 8 << 20;
/// Most that is skipped before the greeting.
const NOISE_LEN_MAX: u64 = 1 << 20;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To the deputy: start a node ([`Setup`]).
    Setup = 1,
    /// To the deputy: start ranks ([`Work`]).
    Work,
    /// To the deputy: send the ranks the signal of this number.
    Signal,
    /// To the deputy: the same to their process groups, because it was typed at the terminal.
    Typed,
    /// To the deputy: bytes for the standard input of rank 0; none at its end.
    Input,
    /// To the deputy: nobody reads the ranks' output (1) or error output (2) any more.
    Closed,
    /// To the deputy: end.
    End,
    /// From the deputy: its greeting.
    Greeting,
    /// From the deputy: its node is ready at this address.
    Ready,
    /// From the deputy: what was asked cannot be done, for this reason.
    Refused,
    /// From the deputy: a line of standard output of the rank of this number.
    Output,
    /// From the deputy: the same of standard error.
    Errors,
    /// From the deputy: the input was taken; more may come.
    Took,
    /// From the deputy: the rank of this number has ended so ([`End`]).
    Ended,
    /// From the deputy: all of its ranks have ended, and all they said was sent.
    Over,
    /// From the deputy: the rank of this number ends the whole job with this status (`i32`).
    Aborted,
    /// From the deputy: its node has ended so ([`End`]), and nobody had told it to.
    NodeEnded,
}

const KINDS: &[Kind] = &[
    Kind::Setup,
    Kind::Work,
    Kind::Signal,
    Kind::Typed,
    Kind::Input,
    Kind::Closed,
    Kind::End,
    Kind::Greeting,
    Kind::Ready,
    Kind::Refused,
    Kind::Output,
    Kind::Errors,
    Kind::Took,
    Kind::Ended,
    Kind::Over,
    Kind::Aborted,
    Kind::NodeEnded,
];

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its kind.
    pub kind: Kind,
    /// A rank, a signal or a stream, where it speaks of one.
    pub number: u32,
    /// The rest.
    pub body: Vec<u8>,
}

/// The node that a deputy starts, and what is common to it and the ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The host as the user named it.
    pub host: String,
    /// Its place in the list.
    pub number: usize,
    /// Bytes to lend.
    pub memory: u64,
    /// The coordinator's address; none for the coordinator.
    pub join: Option<String>,
    /// The pool's key, as its file has it.
    pub key: String,
    /// The folder to work in.
    pub folder: String,
    /// Variables to set.
    pub variables: Vec<(String, String)>,
}

/// The ranks that a deputy starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// The job's number.
    pub job: u128,
    /// Number of its ranks on all hosts.
    pub ranks: u32,
    /// The first of those here.
    pub first: u32,
    /// Number of ranks here.
    pub count: u32,
    /// The program and its arguments.
    pub program: Vec<String>,
}

impl Frame {
    /// A frame of bytes.
    pub fn new(kind: Kind, number: u32, body: Vec<u8>) -> Frame {
        Frame { kind, number, body }
    }

    /// A frame that holds a value.
    pub fn of(kind: Kind, number: u32, value: &impl Serialize) -> Frame {
        Frame::new(kind, number, serde_json::to_vec(value).expect("plain values have a text"))
    }

    /// The value that it holds.
    pub fn value<'frame, T: Deserialize<'frame>>(&'frame self) -> Result<T> {
        serde_json::from_slice(&self.body).context("a frame makes no sense")
    }

    /// The text that it holds.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The end of a rank, or of a node.
    pub fn end(&self) -> Result<End> {
        self.value()
    }

    /// Writes it; a buffer between is the caller's to flush.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut head = [self.kind as u8, 0, 0, 0, 0, 0, 0, 0, 0];
        head[1..5].copy_from_slice(&self.number.to_le_bytes());
        head[5..].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        to.write_all(&head)?;
        to.write_all(&self.body)
    }

    /// Reads the next; `None` where the other side has ended between two.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
        let mut head = [0; 9];
        match from.read(&mut head[..1])? {
            0 => return Ok(None),
            _ => from.read_exact(&mut head[1..])?,
        }
        let number = u32::from_le_bytes(head[1..5].try_into().expect("four bytes"));
        let len = u32::from_le_bytes(head[5..].try_into().expect("four bytes")) as usize;
        let kind = KINDS.iter().find(|kind| **kind as u8 == head[0]).filter(|_| len <= BODY_LEN_MAX);
        let kind = *kind.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        Ok(Some(Frame { kind, number, body }))
    }
}

/// A deputy's first line: both sides must be of one build.
pub fn greeting() -> String {
    format!("{MARK}{} wire {}", env!("CARGO_PKG_VERSION"), hanare_protocol::versions::NEWEST)
}

const MARK: &str = "hanare-host ";

/// Reads up to the greeting and returns it; `None` where the other side ends without one.
pub fn read_greeting(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut noise = from.take(NOISE_LEN_MAX);
    let mut line = Vec::new();
    while noise.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if let Some(at) = text.find(MARK) {
            return Ok(Some(text[at..].trim_end().to_owned()));
        }
        line.clear();
    }
    Ok(None)
}

/// A greeting as a person reads it.
pub fn version_of(greeting: &str) -> &str {
    greeting.strip_prefix(MARK).unwrap_or(greeting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_was_not_is_refused() {
        let mut bytes = Vec::new();
        for (index, kind) in KINDS.iter().enumerate() {
            Frame::new(*kind, index as u32, vec![7; index]).write(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        for (index, kind) in KINDS.iter().enumerate() {
            assert_eq!(Frame::read(&mut rest).unwrap(), Some(Frame::new(*kind, index as u32, vec![7; index])));
        }
        assert_eq!(Frame::read(&mut rest).unwrap(), None);
        assert!(Frame::read(&mut &[99u8, 0, 0, 0, 0, 0, 0, 0, 0][..]).is_err(), "a kind that is none");
        assert!(Frame::read(&mut &[1u8, 0, 0, 0, 0, 255, 255, 255, 255][..]).is_err(), "a body of 4 GiB");
        assert!(Frame::read(&mut &bytes[..4]).is_err(), "half a head");
    }

    #[test]
    fn an_end_passes_unchanged() {
        for end in [End::Exited(3), End::Killed(9), End::Lost] {
            assert_eq!(Frame::of(Kind::Ended, 0, &end).end().unwrap(), end);
        }
    }

    #[test]
    fn a_greeting_is_found_after_what_a_shell_prints() {
        let text = format!("Welcome!\n\nno newline {}\nrest", greeting());
        let mut from = text.as_bytes();
        assert_eq!(read_greeting(&mut from).unwrap(), Some(greeting()));
        assert_eq!(from, b"rest");
        assert_eq!(read_greeting(&mut "nothing of it\n".as_bytes()).unwrap(), None);
    }
}
