//! The nodes and programs of a seed, from beginning to end.

use super::plan::{Plan, Slot};
use super::program::OVER;
use super::{judge, plan};
use crate::processes::{Dice, Nodes, Process};
use hanare::{CreateOptions, NodeId, Placement, Pool};
use hanare_testkit::Patience;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// The actor that is a program.
const PROGRAM: &str = "program_process";
/// How long a program may take.
const BOUND: Duration = Duration::from_secs(90);
/// No node has died.
const NONE: usize = usize::MAX;

struct Stage<'s> {
    plan: &'s Plan,
    folder: &'s Path,
    sockets: Vec<String>,
    nodes: Mutex<Vec<Option<Process>>>,
    dead: AtomicUsize,
    is_over: AtomicBool,
}

/// Runs a seed, and says what was wrong.
pub fn run(seed: u64, copies: u8) -> Result<(), String> {
    let plan = Plan::of(seed, copies);
    let Nodes { processes, sockets } = Nodes::start(plan.nodes, None);
    let pool = Pool::attach_to(&sockets[0], None).unwrap();
    for (k, array) in plan.arrays.iter().enumerate() {
        let placement = Placement::Node(NodeId(array.node as u32));
        let options = CreateOptions { placement, copies, ..CreateOptions::default() };
        pool.create_queues(&format!("array{k}"), array.count, &array.form, &options).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let nodes = Mutex::new(processes.into_iter().map(Some).collect());
    let (dead, is_over) = (AtomicUsize::new(NONE), AtomicBool::new(false));
    let stage = Stage { plan: &plan, folder: folder.path(), sockets, nodes, dead, is_over };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stage.play()));
    let dead = stage.dead.load(SeqCst);
    let verdict = match outcome {
        Ok(()) => judge::check(&plan, folder.path(), |array| stage.is_lost_with(plan.arrays[array].node, dead)),
        Err(panic) => Err(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it panicked".to_owned())),
    };
    verdict.map_err(|what| format!("seed {seed}, {plan}, logs in {}: {what}", folder.keep().display()))
}

impl Stage<'_> {
    /// True if an array of that home goes with a node.
    fn is_lost_with(&self, home: usize, dead: usize) -> bool {
        home == dead && self.plan.copies == 1
    }

    fn play(&self) {
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..self.plan.writers.len()).map(|slot| scope.spawn(move || self.keep_writer(slot))).collect();
            let readers: Vec<_> = (0..self.plan.arrays.len()).map(|array| scope.spawn(move || self.keep_reader(array))).collect();
            scope.spawn(|| self.disturb());
            let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            std::fs::write(self.folder.join(OVER), "").unwrap();
            let ends: Vec<_> = ends.into_iter().chain(readers.into_iter().map(|reader| reader.join())).collect();
            self.is_over.store(true, SeqCst);
            ends.into_iter().for_each(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        });
    }

    fn start(&self, role: &str, slot: usize, life: usize, node: usize) -> Process {
        let (seed, slot, life) = (self.plan.seed.to_string(), slot.to_string(), life.to_string());
        let copies = self.plan.copies.to_string();
        let variables = [
            ("TEST_SEED", &*seed),
            ("TEST_COPIES", &copies),
            ("TEST_ROLE", role),
            ("TEST_SLOT", &slot),
            ("TEST_LIFE", &life),
            ("TEST_FOLDER", self.folder.to_str().unwrap()),
            ("TEST_SOCKET", &self.sockets[node]),
        ];
        Process::start(PROGRAM, &variables).0
    }

    /// Where a slot's next program lives: a node that is there.
    fn node_of(&self, slot: &Slot) -> usize {
        if self.dead.load(SeqCst) == slot.node { 0 } else { slot.node }
    }

    fn keep_writer(&self, slot: usize) {
        let own = &self.plan.writers[slot];
        for life in 0..own.slot.lives {
            let log = self.plan.log_of_writer(self.folder, slot, life);
            let is_last = life + 1 == own.slot.lives;
            let home = self.plan.arrays[own.array].node;
            self.live(("writer", slot, life), &own.slot, home, (&log, own.units * 20), is_last);
        }
    }

    fn keep_reader(&self, array: usize) {
        let own = &self.plan.arrays[array];
        let log = self.plan.log_of_reader(self.folder, array);
        for life in 0..own.reader.lives {
            let is_last = life + 1 == own.reader.lives;
            self.live(("reader", array, life), &own.reader, own.node, (&log, 20_000), is_last);
        }
    }

    /// A program, from its begin to its end, which is a good one, a murder, or the loss of its node or its queue's.
    fn live(&self, who: (&str, usize, usize), slot: &Slot, home: usize, (log, len): (&PathBuf, u64), is_last: bool) {
        let (role, number, life) = who;
        let seed = self.plan.seed << 20 | (number as u64) << 8 | (life as u64) << 1 | u64::from(role == "reader");
        let mut dice = Dice::new(seed);
        let mut node = self.node_of(slot);
        let mut program = self.start(role, number, life, node);
        let size = || std::fs::metadata(log).map_or(0, |log| log.len());
        let (until, mut patience) = (size() + dice.below(len), Patience::new(BOUND));
        let is_over = || self.folder.join(OVER).exists();
        loop {
            let dead = self.dead.load(SeqCst);
            if let Some(status) = program.ended() {
                let is_excused = node == dead || self.is_lost_with(home, dead);
                let why = std::fs::read_to_string(log).unwrap_or_default();
                assert!(status.success() || is_excused, "{who:?}: {}", why.lines().last().unwrap_or("it said nothing"));
                return;
            }
            if dead == node {
                // Its host is gone; a reader has a successor elsewhere.
                program.kill();
                if role == "writer" || self.is_lost_with(home, dead) {
                    return;
                }
                node = 0;
                program = self.start(role, number, life, node);
            }
            if !is_last && (size() >= until || role == "reader" && is_over()) {
                std::thread::sleep(Duration::from_micros(dice.below(300)));
                return program.kill();
            }
            assert!(!patience.is_over(), "{who:?} has not ended within {BOUND:?}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Stops nodes now and then, for less than would make them lost, and kills one.
    fn disturb(&self) {
        let mut dice = Dice::new(self.plan.seed ^ 0x5709);
        let mut dies_after = 1 + dice.below(6);
        while !self.is_over.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(10 + dice.below(60)));
            let mut nodes = self.nodes.lock().unwrap();
            if self.plan.stops {
                let node = dice.below(self.plan.nodes as u64) as usize;
                nodes[node].iter().for_each(|node| node.pause(Duration::from_millis(5 + dice.clone().below(100))));
            }
            dies_after = dies_after.saturating_sub(1);
            if let Some(node) = self.plan.dies.filter(|_| dies_after == 0)
                && let Some(process) = nodes[node].take()
            {
                self.dead.store(node, SeqCst);
                process.kill();
            }
        }
    }
}

/// What a seed plays, for a failure's text.
impl std::fmt::Display for plan::Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} nodes, stops {}, dies {:?}", self.nodes, self.stops, self.dies)?;
        for (k, array) in self.arrays.iter().enumerate() {
            let (form, reader) = (&array.form, &array.reader);
            write!(f, ", array {k} of {} queues on node {}, {} deep, {:?}", array.count, array.node, form.depth, form.overflow)?;
            write!(f, ", read by {:?} on node {} in {} lives", array.reads, reader.node, reader.lives)?;
        }
        self.writers.iter().enumerate().try_for_each(|(k, writer)| {
            let Slot { node, lives } = writer.slot;
            write!(f, ", writer {k} of array {} on node {node} in {lives} lives, {} at once", writer.array, writer.batch)
        })
    }
}
