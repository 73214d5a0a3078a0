//! The product's page rules beside the paper's arbiter, on the same hardware.
use super::cases::{Case, measure};
use crate::outcome::{Outcome, Table};
use crate::papers::euphoria::cluster::{Block, Op};
use crate::papers::euphoria::product::{self, Ran};
use crate::parameters::Parameters;
use crate::topology::Kind;

/// The access of a case, by node 0, under the product's rules: its answer is the last, because who makes the block dirty does so before.
fn case(parameters: &Parameters, case: Case) -> Ran {
    let block = Block::of(if case.is_own { 0 } else { 1 }, 5);
    let dirty = if case.is_dirty { vec![Op::Write(block), Op::Signal(0)] } else { vec![Op::Signal(0)] };
    product::run(parameters, Kind::Switch, vec![vec![Op::Await(0), Op::Read(block)], Vec::new(), dirty])
}

/// Accesses, and clusters of up to 1,024 nodes.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let columns = [("burst read", ""), ("paper's arbiter", "us"), ("product's rules", "us")];
    let mut table = Table::new("One access under each protocol, lines up, ICC hit", &columns);
    for (is_own, is_dirty) in [(false, false), (true, true), (false, true)] {
        let one = Case { is_own, is_dirty, ..Case::BEST };
        let paper = measure(parameters, one).response().as_us();
        let ran = self::case(parameters, one);
        let answer = ran.answers.last().map_or(f64::NAN, |answer| answer.as_us());
        table.row(vec![one.name().into(), paper.into(), answer.into()]);
    }
    outcome.tables.push(table);
    let columns = [("nodes", "count"), ("switch", "us"), ("fat tree", "us"), ("torus", "us")];
    let mut table = Table::new("Every node reads a block of the node half-way round; until the last has it", &columns);
    for nodes in [4_usize, 16, 64, 256, 1024] {
        let all = |kind| {
            let programs = (0..nodes).map(|node| vec![Op::Read(Block::of((node + nodes / 2) % nodes, 1))]).collect();
            product::run(parameters, kind, programs).end.as_us()
        };
        table.row(vec![(nodes as u64).into(), all(Kind::Switch).into(), all(Kind::FatTree).into(), all(Kind::Torus).into()]);
    }
    outcome.tables.push(table);
    outcome.note(
        "The product's directory is at each block's home, and hosts send the block to each other. Which letters are sent is decided by the product's own code; the paper's packets give them their time. Its nodes are joined by one bus of wavelengths; trees and tori of its lines are an extension.",
    );
    outcome
}
