//! Faults of a round, by dice.

use crate::apart::Apart;
use crate::processes::Dice;
use hanare::{DrainStatus, DrainWish, Pool};
use hanare_protocol::id::NodeId;
use std::collections::BTreeSet;

/// One fault, for so many milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The node's process is killed, and another life of it begins.
    Kill { node: usize },
    /// The same, and that life is of today's build.
    Upgrade { node: usize },
    /// The same, with all programs of that host.
    KillHost { node: usize },
    /// The node's process stands still.
    Stop { node: usize },
    /// All packets of the host are lost.
    Cut { node: usize },
    /// Packets from one host to another are lost, or both ways.
    Deafen { from: usize, to: usize, is_both: bool },
    /// The node is drained, and the drain is ended before its bytes have left, or after. No program sees that.
    Drain { node: usize },
}

/// A fault and its length.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    pub fault: Fault,
    pub ms: u64,
    /// From the fault before, or the round's begin.
    pub after_ms: u64,
}

impl Fault {
    /// Nodes whose programs may see errors.
    pub fn nodes(self) -> Vec<usize> {
        match self {
            Fault::Kill { node }
            | Fault::KillHost { node }
            | Fault::Upgrade { node }
            | Fault::Stop { node }
            | Fault::Cut { node } => vec![node],
            Fault::Deafen { from, to, .. } => vec![from, to],
            Fault::Drain { .. } => Vec::new(),
        }
    }

    /// True if it can cost the bytes of a node: a second one must wait.
    fn is_heavy(self, ms: u64) -> bool {
        let kills = matches!(self, Fault::Kill { .. } | Fault::KillHost { .. } | Fault::Upgrade { .. });
        !matches!(self, Fault::Drain { .. }) && (kills || ms > 2_000)
    }

    pub fn begin(self, pool: &mut Apart) {
        let networks = |pool: &mut Apart, with: &dyn Fn(&crate::networks::Networks)| with(pool.networks().unwrap());
        match self {
            Fault::Kill { node } | Fault::KillHost { node } | Fault::Upgrade { node } => pool.kill(node),
            Fault::Stop { node } => pool.stop(node),
            Fault::Cut { node } => networks(pool, &|networks| networks.cut(node)),
            Fault::Deafen { from, to, is_both } => networks(pool, &|networks| {
                networks.deafen(from, to);
                if is_both {
                    networks.deafen(to, from);
                }
            }),
            Fault::Drain { node } => drop(drain(pool, node, &DrainWish::Begin { to: BTreeSet::new() })),
        }
    }

    pub fn end(self, pool: &mut Apart) {
        let networks = |pool: &mut Apart, with: &dyn Fn(&crate::networks::Networks)| with(pool.networks().unwrap());
        match self {
            Fault::Kill { node } | Fault::KillHost { node } => pool.start_again(node),
            Fault::Upgrade { node } => pool.upgrade(node),
            Fault::Stop { node } => pool.go_on(node),
            Fault::Cut { node } => networks(pool, &|networks| networks.heal(node)),
            Fault::Deafen { from, to, is_both } => networks(pool, &|networks| {
                networks.undeafen(from, to);
                if is_both {
                    networks.undeafen(to, from);
                }
            }),
            Fault::Drain { node } => {
                // The coordinator may be away just now.
                while let Err(error) = drain(pool, node, &DrainWish::Stop) {
                    println!("  the drain goes on: {error}");
                }
            }
        }
    }
}

fn drain(pool: &Apart, node: usize, wish: &DrainWish) -> hanare::Result<DrainStatus> {
    Pool::attach_to(pool.socket(0), None)?.drain(NodeId(node as u32), wish)
}

/// A killed node comes back after that time at least. A coordinator that was cut off from it refuses its name until its lease is over.
const KILLED_MS: u64 = 3_600;

/// The faults of so many rounds of a seed.
pub fn by_dice(seed: u64, rounds: std::ops::Range<u64>, nodes: usize, copies: u8, has_networks: bool) -> Vec<Vec<Timed>> {
    rounds.map(|number| round(&mut Dice::new(seed << 16 | number), nodes, copies, has_networks)).collect()
}

/// The faults of a round: as many heavy ones as the bytes bear, with light ones between.
fn round(dice: &mut Dice, nodes: usize, copies: u8, has_networks: bool) -> Vec<Timed> {
    let (mut faults, mut heavy): (Vec<Timed>, u8) = (Vec::new(), 0);
    let count = 1 + dice.below(u64::from(copies));
    while (faults.len() as u64) < count {
        let (fault, ms) = one(dice, nodes, has_networks);
        let is_taken = faults.iter().any(|other| other.fault.nodes().iter().any(|node| fault.nodes().contains(node)));
        let is_heavy = fault.is_heavy(ms);
        if is_taken || (is_heavy && heavy + 1 >= copies) {
            continue;
        }
        heavy += u8::from(is_heavy);
        // The second of two deaths comes while the first is noticed, or soon after another home was elected.
        faults.push(Timed { fault, ms, after_ms: 200 + dice.below(5_000) * (faults.len() as u64).min(1) });
    }
    faults
}

/// Faults that somebody wrote down: `AFTER_MS FAULT NODE.. MS`, with commas between, and semicolons between rounds.
pub fn named(text: &str) -> Vec<Vec<Timed>> {
    let timed = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("{text}: no number {at}"));
        let node = number(2) as usize;
        let fault = match words[1] {
            "kill" => Fault::Kill { node },
            "killhost" => Fault::KillHost { node },
            "upgrade" => Fault::Upgrade { node },
            "stop" => Fault::Stop { node },
            "drain" => Fault::Drain { node },
            "cut" => Fault::Cut { node },
            "deafen" => Fault::Deafen { from: node, to: number(3) as usize, is_both: false },
            "part" => Fault::Deafen { from: node, to: number(3) as usize, is_both: true },
            other => panic!("{other} is no fault"),
        };
        Timed { fault, after_ms: number(0), ms: number(words.len() - 1) }
    };
    text.split(';').map(|round| round.split(',').map(timed).collect()).collect()
}

fn one(dice: &mut Dice, nodes: usize, has_networks: bool) -> (Fault, u64) {
    // The coordinator's node is one of them.
    let node = if dice.one_in(6) { 0 } else { 1 + dice.below(nodes as u64 - 1) as usize };
    let ms = if dice.one_in(3) { 200 + dice.below(1_800) } else { 3_200 + dice.below(4_000) };
    let fault = match dice.below(if has_networks { 11 } else { 7 }) {
        0 | 1 => Fault::Kill { node },
        2 => Fault::KillHost { node },
        3 | 4 => Fault::Stop { node },
        5 | 6 if node > 0 => Fault::Drain { node },
        5..=8 if has_networks => Fault::Cut { node },
        5 | 6 => Fault::Stop { node },
        _ => {
            let to = (node + 1 + dice.below(nodes as u64 - 1) as usize) % nodes;
            Fault::Deafen { from: node, to, is_both: dice.one_in(2) }
        }
    };
    let is_kill = matches!(fault, Fault::Kill { .. } | Fault::KillHost { .. });
    (fault, if is_kill { ms.max(KILLED_MS) } else { ms })
}
