//! What a seed plays.

use crate::processes::Dice;
use hanare::{Overflow, QueueForm, Unit};
use std::path::{Path, PathBuf};

/// Bytes of a unit that say what it is.
pub const FRONT_LEN: usize = 24;

/// An array of queues and its reader.
pub struct ArrayPlan {
    pub form: QueueForm,
    pub count: u64,
    pub node: usize,
    pub reader: Slot,
    pub reads: Reads,
}

/// How an array is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    Port,
    Event,
    Set,
    SetEvent,
}

/// A place for programs, one after another.
pub struct Slot {
    pub node: usize,
    pub lives: usize,
}

pub struct WriterPlan {
    pub slot: Slot,
    pub array: usize,
    pub queue: u64,
    /// Units of each life.
    pub units: u64,
    /// Most that are committed together.
    pub batch: u64,
}

pub struct Plan {
    pub seed: u64,
    /// Nodes that hold each array.
    pub copies: u8,
    pub nodes: usize,
    pub arrays: Vec<ArrayPlan>,
    pub writers: Vec<WriterPlan>,
    pub stops: bool,
    /// A node that is killed, never that of the names.
    pub dies: Option<usize>,
}

impl Plan {
    /// The same for queues with copies where there are several. A home of an array dies then, unless it is that of the names.
    pub fn of(seed: u64, copies: u8) -> Plan {
        let mut plan = Plan { copies, ..Plan::new(seed) };
        if copies > 1 {
            plan.nodes = plan.nodes.max(copies as usize + 1);
            let homes = plan.arrays.iter_mut().map(|array| {
                // What is spilled has no copies.
                if array.form.overflow == Overflow::Spill {
                    array.form.overflow = Overflow::Wait;
                }
                array.node
            });
            plan.dies = homes.filter(|node| *node > 0).last();
        }
        plan
    }

    pub fn new(seed: u64) -> Plan {
        let mut dice = Dice::new(seed);
        let nodes = 2 + dice.below(2) as usize;
        let arrays: Vec<ArrayPlan> = (0..1 + dice.below(2)).map(|_| array(&mut dice, nodes)).collect();
        let writer = |k: usize, dice: &mut Dice| {
            let array = k % arrays.len();
            WriterPlan {
                slot: slot(dice, nodes),
                array,
                queue: dice.below(arrays[array].count),
                units: 100 + dice.below(400),
                batch: 1 + dice.below(4),
            }
        };
        let writers = (0..2 + dice.below(3) as usize).map(|k| writer(k, &mut dice)).collect();
        let (stops, dies) = (dice.one_in(3), dice.one_in(3).then(|| 1 + dice.below(nodes as u64 - 1) as usize));
        Plan { seed, copies: 1, nodes, arrays, writers, stops, dies }
    }

    pub fn log_of_writer(&self, folder: &Path, slot: usize, life: usize) -> PathBuf {
        folder.join(format!("writer-{slot}-{life}"))
    }

    pub fn log_of_reader(&self, folder: &Path, array: usize) -> PathBuf {
        folder.join(format!("reader-{array}"))
    }
}

fn slot(dice: &mut Dice, nodes: usize) -> Slot {
    Slot { node: dice.below(nodes as u64) as usize, lives: 1 + dice.below(3) as usize }
}

fn array(dice: &mut Dice, nodes: usize) -> ArrayPlan {
    let len = [24, 64, 200][dice.below(3) as usize];
    let unit = if dice.one_in(2) { Unit::Blocks { len } } else { Unit::Records { len_max: len } };
    let overflow = [Overflow::Refuse, Overflow::Wait, Overflow::Spill][dice.below(3) as usize];
    // Each writer of the seed may come to each queue, and a dead one's lane is not free at once.
    let form = QueueForm { unit, depth: 2 + dice.below(30) as u32, ports: 8, overflow };
    let count = 1 + dice.below(3);
    let reads = match dice.below(4) {
        0 if count == 1 => Reads::Port,
        1 if count == 1 => Reads::Event,
        2 => Reads::SetEvent,
        _ => Reads::Set,
    };
    ArrayPlan { form, count, node: dice.below(nodes as u64) as usize, reader: slot(dice, nodes), reads }
}

/// A unit of a writer's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stream {
    pub queue: u64,
    pub slot: u64,
    pub life: u64,
}

/// The bytes of a unit: what it is, and a pattern.
pub fn unit(form: &QueueForm, slot: usize, life: usize, number: u64) -> Vec<u8> {
    let len = match form.unit {
        Unit::Blocks { len } => len as usize,
        Unit::Records { len_max } => FRONT_LEN + (number * 7919) as usize % (len_max as usize - FRONT_LEN + 1),
    };
    let mut bytes: Vec<u8> = (0..len).map(|at| (number as usize * 31 + at * 7 + slot) as u8).collect();
    for (at, word) in [slot as u64, life as u64, number].into_iter().enumerate() {
        bytes[8 * at..][..8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
