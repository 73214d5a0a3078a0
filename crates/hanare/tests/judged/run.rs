//! A pool, its programs and its faults, from beginning to end.

use super::client::{CHUNK, FOLDER, NAME, REGION, ROUND, ROUNDS, SEED, SOCKET, THREADS, WORDS};
use super::faults::{Fault, Timed};
use super::history::{Noted, history, read};
use super::verdict::judge;
use crate::apart::Apart;
use crate::networks::Networks;
use crate::processes::now;
use hanare::{CreateOptions, Placement};
use hanare_testkit::Patience;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Threads of each host's program.
const THREAD_COUNT: u64 = 3;
/// Time in which the region must have all its copies again, and programs must end.
const BOUND: Duration = Duration::from_secs(60);

/// What is run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Of the programs' dice.
    pub seed: u64,
    pub nodes: usize,
    pub copies: u8,
    /// True if the nodes begin as the release before.
    pub begins_old: bool,
    /// The faults of each round.
    pub rounds: Vec<Vec<Timed>>,
}

/// A host's program.
struct Program {
    child: Child,
}

impl Program {
    fn start(pool: &Apart, case: &Case, name: (usize, u64), folder: &Path, round: u64) -> Program {
        let mut command = pool.command(name.0);
        command.args(hanare_testkit::words("client_process"));
        command.env(SOCKET, pool.socket(name.0)).env(FOLDER, folder).env(NAME, format!("{}.{}", name.0, name.1));
        command.env(SEED, case.seed.to_string()).env(THREADS, THREAD_COUNT.to_string()).env(ROUND, round.to_string());
        Program { child: command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap() }
    }

    fn tell(&mut self, order: &str) {
        // One that is killed hears nothing.
        let _ = writeln!(self.child.stdin.as_mut().unwrap(), "{order}");
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end, for the bound at most. Returns whether it has ended.
    fn end(&mut self) -> bool {
        let mut patience = Patience::new(BOUND);
        while self.child.try_wait().unwrap().is_none() {
            if patience.is_over() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A fault as it was: from its begin until the region had its copies again.
struct Past {
    fault: Fault,
    begin: u64,
    end: u64,
    /// When it was over itself.
    over: u64,
}

/// Pool, programs and past of a case.
struct Run<'r> {
    case: &'r Case,
    folder: &'r Path,
    pool: Apart,
    programs: Vec<Option<Program>>,
    lives: Vec<u64>,
    past: Vec<Past>,
    troubles: Vec<String>,
}

/// Runs a case. **Errors**: what was wrong.
pub fn run(case: &Case, has_networks: bool) -> Result<String, String> {
    assert!((case.rounds.len() as u64) < ROUNDS);
    let networks = has_networks.then(|| Networks::new(case.nodes).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let pool = Apart::start_kept_on(networks, case.nodes, case.begins_old);
    let options = CreateOptions { placement: Placement::Interleave(CHUNK), copies: case.copies, ..CreateOptions::default() };
    pool.client(0).create(REGION, WORDS * CHUNK, &options).unwrap();
    let (programs, lives) = ((0..case.nodes).map(|_| None).collect(), vec![0; case.nodes]);
    let mut run = Run { case, folder: folder.path(), pool, programs, lives, past: Vec::new(), troubles: Vec::new() };
    (0..case.nodes).for_each(|node| run.begin_program(node, 0));
    run.play();
    let told = run.verdict();
    if !run.troubles.is_empty() {
        let troubles = run.troubles.join("\n");
        drop(run);
        return Err(format!(
            "seed {}, {} copies, notes in {}:\n{troubles}\n{told}",
            case.seed,
            case.copies,
            folder.keep().display()
        ));
    }
    Ok(told)
}

impl Run<'_> {
    fn begin_program(&mut self, node: usize, round: u64) {
        let name = (node, self.lives[node]);
        self.lives[node] += 1;
        self.programs[node] = Some(Program::start(&self.pool, self.case, name, self.folder, round));
    }

    fn play(&mut self) {
        for (number, faults) in (0..).zip(&self.case.rounds) {
            self.programs.iter_mut().flatten().for_each(|program| program.tell(&format!("round {number}")));
            std::thread::sleep(Duration::from_millis(300));
            println!("round {number}: {faults:?}");
            self.disturb(faults, number);
            if !self.is_whole_again() {
                return;
            }
            let end = now();
            self.past.iter_mut().filter(|past| past.end == u64::MAX).for_each(|past| past.end = end);
            std::thread::sleep(Duration::from_millis(700));
        }
    }

    /// Has the faults begin and end, each at its time.
    fn disturb(&mut self, faults: &[Timed], round: u64) {
        let (begun, mut at) = (Instant::now(), Duration::ZERO);
        let mut steps = Vec::new();
        for timed in faults {
            at += Duration::from_millis(timed.after_ms);
            steps.push((at, timed.fault, true));
            steps.push((at + Duration::from_millis(timed.ms), timed.fault, false));
        }
        // A coordinator that stands still ends no drain, so the other faults end before.
        let is_drains_end = |fault: Fault, is_begin: bool| matches!(fault, Fault::Drain { .. }) && !is_begin;
        let last = steps.iter().filter(|(_, fault, is_begin)| !is_drains_end(*fault, *is_begin)).map(|(at, ..)| *at).max();
        for (at, fault, is_begin) in &mut steps {
            if is_drains_end(*fault, *is_begin) {
                *at = (*at).max(last.unwrap_or_default() + Duration::from_millis(1));
            }
        }
        steps.sort_by_key(|(at, ..)| *at);
        for (at, fault, is_begin) in steps {
            std::thread::sleep(at.saturating_sub(begun.elapsed()));
            if is_begin {
                self.past.push(Past { fault, begin: now(), end: u64::MAX, over: u64::MAX });
                fault.begin(&mut self.pool);
                if let Fault::KillHost { node } = fault {
                    self.programs[node].as_mut().unwrap().kill();
                }
            } else {
                fault.end(&mut self.pool);
                let over = now();
                self.past.iter_mut().rfind(|past| past.fault == fault).unwrap().over = over;
                if let Fault::KillHost { node } = fault {
                    self.begin_program(node, round);
                }
            }
        }
    }

    /// Waits until all nodes are members and the region has all its copies.
    fn is_whole_again(&mut self) -> bool {
        let (begun, mut patience) = (Instant::now(), Patience::new(BOUND));
        let look = |pool: &Apart| -> Result<(), String> {
            let program = hanare::Pool::attach_to(pool.socket(0), None).map_err(|error| error.to_string())?;
            let status = program.status().map_err(|error| error.to_string())?;
            let stat = program.stat(REGION).map_err(|error| error.to_string())?;
            let alive = status.nodes.iter().filter(|node| node.alive).count();
            let is_whole = stat.whole_copies == stat.copies && stat.lost.is_none() && alive == self.case.nodes;
            if is_whole { Ok(()) } else { Err(format!("{alive} nodes, {stat:?}")) }
        };
        loop {
            let Err(why) = look(&self.pool) else {
                println!("  whole after {:?}", begun.elapsed());
                return true;
            };
            if patience.is_over() {
                self.troubles.push(format!("not whole within {BOUND:?}: {why}"));
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends the programs and judges what they wrote down.
    fn verdict(&mut self) -> String {
        self.programs.iter_mut().flatten().for_each(|program| program.tell("end"));
        for (node, program) in self.programs.iter_mut().enumerate() {
            if !program.as_mut().unwrap().end() {
                self.troubles.push(format!("the program of node {node} hangs"));
            }
        }
        let calls = read(self.folder);
        self.look_at_errors(&calls);
        let file = self.folder.join("history");
        std::fs::write(&file, history(&calls)).unwrap();
        let verdict = judge(&file).unwrap_or_else(|bad| {
            self.troubles.push(bad);
            String::new()
        });
        format!("{} faults; {}{verdict}", self.past.len(), self.longest(&calls))
    }

    /// Errors that a program should not see: any, but for programs of a host with a fault.
    fn look_at_errors(&mut self, calls: &[Noted]) {
        let mut kinds: BTreeMap<(String, bool), (u64, &Noted)> = BTreeMap::new();
        for call in calls {
            let Some((happened, error)) = &call.error else { continue };
            let end = call.end.unwrap();
            let meets = |past: &&Past| past.begin <= end && call.begin <= past.end;
            let is_allowed = self.past.iter().filter(meets).any(|past| past.fault.nodes().contains(&call.node()));
            let kind = if call.is_update {
                "update"
            } else if call.is_read {
                "get"
            } else {
                "put"
            };
            let digits: String = error.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
            let entry = kinds.entry((format!("{kind}, {happened}: {digits}"), is_allowed)).or_insert((0, call));
            entry.0 += 1;
        }
        for ((kind, is_allowed), (count, call)) in kinds {
            let told = format!("{count} x {kind} (first: node {}, {call:?})", call.node());
            match is_allowed {
                true => println!("  {count} x {kind}"),
                false => self.troubles.push(told),
            }
        }
    }

    /// The longest answered call of programs whose host had no fault meanwhile.
    fn longest(&self, calls: &[Noted]) -> String {
        let is_apart = |call: &&Noted| {
            let meets = |past: &Past| past.begin <= call.end.unwrap_or(u64::MAX) && call.begin <= past.end;
            !self.past.iter().any(|past| meets(past) && past.fault.nodes().contains(&call.node()))
        };
        let took = |call: &Noted| call.end.map_or(0, |end| end - call.begin);
        let Some(longest) = calls.iter().filter(is_apart).max_by_key(|call| took(call)) else { return String::new() };
        let before = self.past.iter().rfind(|past| past.begin < longest.begin + took(longest));
        let since = before.map_or(0.0, |past| (longest.begin as f64 - past.begin as f64) / 1e9);
        let fault = before.map(|past| past.fault);
        format!("the longest call took {:.2} s, from {since:.2} s after {fault:?}; ", took(longest) as f64 / 1e9)
    }
}
