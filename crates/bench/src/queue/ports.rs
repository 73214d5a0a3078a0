//! Writers and readers as processes: ours, and those of a peer whose program takes the same words.
//!
//! ```text
//! PROGRAM read WHERE QUEUE COUNT WRITERS          takes blocks, and prints from when to when, and how late they were
//! PROGRAM write WHERE QUEUE,... COUNT PACE        sends so many to each queue in turn
//! ```
//!
//! Each says `ready` when its ports are open, and begins with a line of its input. It ends its figures with a full stop.

use super::flow;
use crate::peers::session::Session;
use crate::turns::Figures;
use anyhow::{Context, Result, anyhow, bail};
use hanare::{Pool, WritePort};
use std::io::BufRead;
use std::path::PathBuf;

/// A program of ports, and where its queues are.
#[derive(Clone)]
pub struct PortProgram {
    pub path: PathBuf,
    /// Words before its own.
    pub words: Vec<String>,
    pub place: String,
}

/// A case: how many writers and readers, and what each does.
#[derive(Clone, Copy)]
pub struct Case {
    pub key: &'static str,
    pub writers: usize,
    pub readers: usize,
    /// True if each writer has a reader of its own.
    pub are_pairs: bool,
}

impl Case {
    /// The queues, by number, that a writer sends to.
    fn queues_of(&self, writer: usize) -> std::ops::Range<usize> {
        if self.are_pairs { writer..writer + 1 } else { 0..self.readers }
    }

    /// Number of a reader's writers.
    fn writers_of_reader(&self) -> usize {
        if self.are_pairs { 1 } else { self.writers }
    }

    /// The name of a queue.
    pub fn queue(&self, reader: usize) -> String {
        format!("bench-{}-{reader}", self.key)
    }
}

impl PortProgram {
    fn start(&self, words: &[String]) -> Result<Session> {
        let is_ready = |line: &str| (line.trim() == "ready").then(|| Ok(Figures::new()));
        let mut session = Session::start(&self.path, &[&self.words[..], words].concat(), &[])?;
        session.wait_for(is_ready)?;
        Ok(session)
    }

    /// Has `count` blocks go from each writer to each of its readers, one every `pace_ns` where that is not 0. The figures of each reader.
    pub fn stream(&self, case: &Case, count: u64, pace_ns: u64) -> Result<Vec<Figures>> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let from = case.writers_of_reader();
        let read = |reader: usize| {
            let (count, from) = (count * from as u64, from.to_string());
            self.start(&words(&["read", &self.place, &case.queue(reader), &count.to_string(), &from]))
        };
        let write = |writer: usize| {
            let queues: Vec<String> = case.queues_of(writer).map(|reader| case.queue(reader)).collect();
            self.start(&words(&["write", &self.place, &queues.join(","), &count.to_string(), &pace_ns.to_string()]))
        };
        let mut readers = (0..case.readers).map(read).collect::<Result<Vec<_>>>()?;
        let mut writers = (0..case.writers).map(write).collect::<Result<Vec<_>>>()?;
        std::thread::scope(|scope| {
            let reading: Vec<_> = readers.iter_mut().map(|session| scope.spawn(|| session.turn())).collect();
            let writing: Vec<_> = writers.iter_mut().map(|session| scope.spawn(|| session.turn())).collect();
            for writing in writing {
                writing.join().map_err(|_| anyhow!("a thread panicked"))?.context("a writer")?;
            }
            let join = |reading: std::thread::ScopedJoinHandle<'_, Result<Figures>>| {
                reading.join().map_err(|_| anyhow!("a thread panicked"))?.context("a reader")
            };
            reading.into_iter().map(join).collect()
        })
    }

    /// The rate of a case, in millions of blocks a second.
    pub fn rate(&self, case: &Case, count: u64) -> Result<f64> {
        let figures = self.stream(case, count, 0)?;
        let all = (0..case.writers).map(|writer| case.queues_of(writer).len() as u64).sum::<u64>();
        flow::rate(count * all, &figures)
    }
}

/// The body of our own process: the words after the bench's.
pub fn run(words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["read", socket, queue, count, writers] => {
            let mut port = Pool::attach_to(socket, None)?.open_queue(queue)?.reader()?;
            let (count, writers) = (count.parse()?, writers.parse()?);
            begin()?;
            let figures = flow::take(count, writers, |block| {
                let unread = port.see(None)?;
                port.read(&unread, 0, block);
                Ok(port.free(&unread)?)
            })?;
            figures.iter().for_each(|(key, value)| println!("{key} {value}"));
        }
        ["write", socket, queues, count, pace] => {
            let pool = Pool::attach_to(socket, None)?;
            let open = |queue: &str| Ok(pool.open_queue(queue)?.writer()?);
            let mut ports = queues.split(',').map(open).collect::<Result<Vec<WritePort>>>()?;
            let (count, pace) = (count.parse()?, pace.parse()?);
            begin()?;
            flow::send(count, pace, |_, block| Ok(ports.iter_mut().try_for_each(|port| port.send(block))?))?;
            println!("sent {count}");
        }
        _ => bail!("these are no words of a port: {words:?}"),
    }
    println!(".");
    Ok(())
}

/// Waits for the line that begins it.
fn begin() -> Result<()> {
    println!("ready");
    std::io::stdin().lock().lines().next().context("it was given up")??;
    Ok(())
}
