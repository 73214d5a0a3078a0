//! What clients write down of each call, as it happens, and the history that it becomes for the judge.
//!
//! A client's process may be killed at any moment. So each thread has a file, and the line of a call is in it before the call begins.

use crate::processes::now;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A call on one word. Fetches and gets are both reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call {
    Get,
    Fetch,
    Put(u64),
    Add(u64),
    Swap { expected: u64, new: u64 },
}

impl Call {
    /// Name and arguments for the judge.
    fn told(self) -> String {
        match self {
            Call::Get | Call::Fetch => "get - -".to_owned(),
            Call::Put(value) => format!("put {value} -"),
            Call::Add(value) => format!("add {value} -"),
            Call::Swap { expected, new } => format!("cas {expected} {new}"),
        }
    }
}

/// End of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The word before; of a put nothing.
    Done(Option<u64>),
    /// It has an effect, none, or nobody knows: what its error says of that, and the error.
    Failed(hanare::Happened, String),
}

/// A thread's file.
pub struct Notes(File);

impl Notes {
    pub fn create(folder: &Path, name: &str) -> Notes {
        Notes(File::create_new(folder.join(format!("{name}.notes"))).unwrap())
    }

    pub fn begin(&mut self, word: u64, call: Call) {
        let kind = if call == Call::Fetch { "fetch" } else { "call" };
        self.line(format_args!("{kind} {word} {} {}", call.told(), now()));
    }

    pub fn end(&mut self, end: &End) {
        let at = now();
        match end {
            End::Done(None) => self.line(format_args!("done ? {at}")),
            End::Done(Some(word)) => self.line(format_args!("done {word} {at}")),
            End::Failed(happened, error) => self.line(format_args!("{happened:?} {at} {}", error.replace('\n', " "))),
        }
    }

    /// One write, so that a killed process leaves whole lines.
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// A call as its thread wrote it down.
#[derive(Clone, Debug)]
pub struct Noted {
    /// The thread, by the name of its file: `NODE.LIFE.THREAD`.
    pub thread: String,
    pub word: u64,
    pub is_update: bool,
    pub is_read: bool,
    told: String,
    /// Nanoseconds of the machine's clock.
    pub begin: u64,
    pub end: Option<u64>,
    result: Option<u64>,
    /// Of a call that failed.
    pub error: Option<(String, String)>,
}

impl Noted {
    /// The node that the thread's program is attached to.
    pub fn node(&self) -> usize {
        self.thread.split('.').next().unwrap().parse().unwrap()
    }

    /// The judge's line, unless the call had no effect and told nothing.
    fn judged(&self, client: usize) -> Option<String> {
        let end = match self.error.as_ref().map(|(happened, _)| happened.as_str()) {
            Some("No") => return None,
            Some("Unknown") => None,
            _ => self.end,
        };
        if end.is_none() && self.is_read {
            return None;
        }
        let result = self.result.map_or("?".to_owned(), |result| result.to_string());
        let end = end.map_or("-".to_owned(), |end| end.to_string());
        Some(format!("{client} {} {} {result} {} {end}\n", self.word, self.told, self.begin))
    }
}

fn of_line(thread: &str, line: &str) -> Noted {
    let words: Vec<&str> = line.split(' ').collect();
    let [kind, word, call, a, b, begin] = words[..] else { panic!("{thread}: {line}") };
    let is_update = kind == "fetch" || call == "add" || call == "cas";
    Noted {
        thread: thread.to_owned(),
        word: word.parse().unwrap(),
        is_update,
        is_read: call == "get",
        told: format!("{call} {a} {b}"),
        begin: begin.parse().unwrap(),
        end: None,
        result: None,
        error: None,
    }
}

/// All calls of the threads that wrote into that folder.
pub fn read(folder: &Path) -> Vec<Noted> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(thread) = name.strip_suffix(".notes") else { continue };
        for line in std::fs::read_to_string(folder.join(&name)).unwrap().lines() {
            let (first, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{name}: {line}"));
            if matches!(first, "call" | "fetch") {
                all.push(of_line(thread, line));
                continue;
            }
            let call: &mut Noted = all.last_mut().unwrap();
            let (one, other) = rest.split_once(' ').unwrap();
            if first == "done" {
                (call.result, call.end) = (one.parse().ok(), Some(other.parse().unwrap()));
            } else {
                (call.end, call.error) = (Some(one.parse().unwrap()), Some((first.to_owned(), other.to_owned())));
            }
        }
    }
    all
}

/// The history as the judge reads it.
pub fn history(calls: &[Noted]) -> String {
    let mut threads: Vec<&str> = calls.iter().map(|call| call.thread.as_str()).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut text = String::new();
    for call in calls {
        let client = threads.binary_search(&call.thread.as_str()).unwrap();
        text.extend(call.judged(client));
    }
    text
}
