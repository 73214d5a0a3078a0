//! The product's page rules beside the paper's arbiter, on the same hardware.
use super::cases::{Case, measure};
use super::{copy, sort};
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

/// One copy of table 4 under the product's rules, with what it sent for each block: seconds for all copies, messages, blocks.
fn copied(parameters: &Parameters, places: [bool; 2]) -> (f64, [f64; 2]) {
    let (simulated, times) = (parameters.count("copy.simulated"), parameters.count("copy.times"));
    let ran = product::run(parameters, Kind::Switch, vec![copy::program(parameters, places, 0, simulated), Vec::new()]);
    let blocks = (simulated * (parameters.bytes("copy.size") / parameters.bytes("cache.block"))) as f64;
    (ran.end.as_s() * times as f64 / simulated as f64, [ran.messages, ran.blocks].map(|count| count as f64 / blocks))
}

fn copies(parameters: &Parameters) -> Table {
    let columns = [
        ("from, to", ""),
        ("paper's arbiter", "s"),
        ("product's rules", "s"),
        ("messages", "per block"),
        ("blocks moved", "per block"),
    ];
    let mut table = Table::new("1000 copies of 4 KB (table 4) under each protocol", &columns);
    for ((source, target, name, _), paper) in copy::PLACES.iter().zip(*copy::seconds(parameters)) {
        let (seconds, [messages, blocks]) = copied(parameters, [*source, *target]);
        table.row(vec![(*name).into(), paper.into(), seconds.into(), messages.into(), blocks.into()]);
    }
    table
}

/// The quicksort of two nodes under the product's rules.
fn sorted(parameters: &Parameters) -> Ran {
    let ([here, there], _) = sort::programs(parameters);
    product::run(parameters, Kind::Switch, vec![here, there])
}

fn quicksort(parameters: &Parameters) -> Table {
    let columns = [
        ("keys", "count"),
        ("one processor", "ms"),
        ("two nodes: paper's arbiter", "ms"),
        ("product's rules", "ms"),
        ("messages", "per key"),
        ("blocks moved", "per key"),
    ];
    let mut table = Table::new("Quicksort in one node's memory under each protocol", &columns);
    let keys = parameters.get("sort.keys");
    let ((one, paper), ran) = (sort::milliseconds(parameters), sorted(parameters));
    let a_key = |count: u64| count as f64 / keys;
    let product = ran.end.as_s() * 1e3;
    table.row(vec![keys.into(), one.into(), paper.into(), product.into(), a_key(ran.messages).into(), a_key(ran.blocks).into()]);
    table
}

/// Accesses, table 4, quicksort, and clusters of up to 1,024 nodes.
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
    outcome.tables.extend([table, copies(parameters), quicksort(parameters)]);
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
        "Times of the two columns are no verdict on either protocol: with the paper's arbiter every access waits for arbitration in software, and its caches cast dirty blocks out; under the product's rules nobody arbitrates, lines stay up and caches have no limit.",
    );
    outcome.note(
        "The product's directory is at each block's home, and hosts send the block to each other. Which letters are sent is decided by the product's own code; the paper's packets give them their time. Its nodes are joined by one bus of wavelengths; trees and tori of its lines are an extension.",
    );
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::euphoria::parameters;

    /// A read is answered by its home in two messages, a write of what nobody has in three: as the product's own tests assert.
    #[test]
    fn copies_send_what_the_products_rules_say() {
        let of = |source, target| copied(&parameters(), [source, target]);
        assert_eq!(of(false, false).1, [0.0, 0.0]);
        assert_eq!(of(true, false).1, [2.0, 1.0]);
        assert_eq!(of(false, true).1, [3.0, 1.0]);
        assert_eq!(of(true, true).1, [5.0, 2.0]);
        let seconds = [of(false, false).0, of(true, false).0, of(false, true).0, of(true, true).0];
        assert!(0.0 < seconds[0] && seconds[0] < seconds[1].min(seconds[2]), "{seconds:?}");
        assert!(seconds[3] > seconds[1].max(seconds[2]), "{seconds:?}");
    }
    /// Each node takes blocks at the border between the parts from the other. The second node takes all of its own once.
    #[test]
    fn a_quicksort_ends_whatever_its_size_and_moves_each_block_at_least_once() {
        for keys in [64.0, 1024.0, 4096.0] {
            let sort = parameters().with("sort.keys", keys);
            let (_, share) = sort::programs(&sort);
            let ran = sorted(&sort);
            let blocks = keys / 8.0 * share;
            assert!(ran.blocks as f64 >= blocks - 1.0 && ran.messages > ran.blocks, "{keys}: {ran:?}, {blocks} blocks");
        }
    }
}
