//! The matrix product C = A B on a ring of processors, in the paper's four schemes.
//!
//! Processor p keeps rows of A and C; columns of B start at their owners and pass every processor once a round. A column's
//! block meets some or all of the processor's rows before the next block is looked at ([`ORDERS`]); the order is one for
//! all schemes. More processors than rows form several rings, each with a share of every row's and column's length; the
//! additions of their partial sums are not simulated.
//!
//! What is exact: every look-up of the cache, every use of a memory and a port, every block of a queue with its contexts.
//! What is abstract: the loads of a block that hits take their cycles in one piece, C's elements take a store each and no
//! memory, and code costs nothing besides loads and stores, as in the paper's superscalar.
mod plain;
mod streams;

use crate::memo::memo;
use crate::parameters::Parameters;

use super::contexts::Use;
use super::machine::Machine;

/// How columns get from processor to processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Update-protocol shared memory: double buffer in the consumer's memory, store barrier, flags.
    Cc,
    /// The same hardware and a plain program: each processor loads what it needs.
    CcPlain,
    /// Virtual queues.
    Vq,
    /// Vector registers: queues without main memory.
    Vr,
}

impl Scheme {
    /// In the order of the paper.
    pub const ALL: [Scheme; 4] = [Scheme::Cc, Scheme::CcPlain, Scheme::Vq, Scheme::Vr];

    /// The paper's name.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Cc => "CC",
            Scheme::CcPlain => "CC'",
            Scheme::Vq => "VQ",
            Scheme::Vr => "VR",
        }
    }
}

/// Loop orders by name, with the rows of A that a block of a column meets before the next block; fewer rows mean more passes
/// over the columns. All schemes run the same order.
pub const ORDERS: [(&str, usize); 4] =
    [("every row at a block", usize::MAX), ("32 rows at a block", 32), ("8 rows at a block", 8), ("one row at a time", 1)];

/// What is computed and how much of it is simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Processors.
    pub processors: usize,
    /// Rows of the matrices.
    pub order: usize,
    /// Rows of A a processor keeps.
    pub rows: usize,
    /// Processors of a ring; equal rings share the length of rows and columns.
    pub ring: usize,
    /// Rounds simulated of a pass: columns a processor brings in.
    pub rounds: usize,
    /// Passes simulated: each over some rows of A and, where there are several, over every column.
    pub passes: usize,
    /// Rows a column is used for in a pass.
    pub reuse: usize,
    /// Blocks of a row or column, in one ring.
    pub blocks: usize,
    /// Words of a block.
    pub words: usize,
}

impl Plan {
    /// The plan of a run; none where the matrix does not divide among the processors.
    pub fn new(parameters: &Parameters, processors: usize) -> Option<Plan> {
        let order = parameters.count("matrix.order") as usize;
        let ring = processors.min(order);
        let words = Machine::without_units(parameters).words as usize;
        let rings = processors / ring;
        if !order.is_multiple_of(ring) || !processors.is_multiple_of(ring) || !order.is_multiple_of(words * rings) {
            return None;
        }
        let rows = order / ring;
        let reuse = divisor(rows, ORDERS[parameters.choice("product.order")].1);
        let effort = parameters.count("product.rounds") as usize;
        // Several passes meet the same columns and rows again, so that a pass cut short would show another cache.
        let is_one_pass = reuse == rows;
        Some(Plan {
            processors,
            order,
            rows,
            ring,
            rounds: if is_one_pass { effort.min(rows) } else { rows },
            passes: effort.min(rows / reuse),
            reuse,
            blocks: order / words / rings,
            words,
        })
    }

    /// Multiply-adds of one processor in the passes and rounds simulated.
    fn work(&self) -> u64 {
        (self.passes * self.rounds * self.ring * self.reuse * self.blocks * self.words) as u64
    }
}

/// The greatest divisor of `rows` that is not above `most`: passes are equal.
fn divisor(rows: usize, most: usize) -> usize {
    (1..=most.min(rows)).rev().find(|reuse| rows.is_multiple_of(*reuse)).unwrap_or(1)
}

/// What a run measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Cycles until the last processor was done.
    pub cycles: u64,
    /// Floating operations a cycle and processor, as a share of the peak of one.
    pub efficiency: f64,
    /// Hits of the processors' loads of blocks.
    pub hit_ratio: f64,
    /// Share of the processors' time in which they waited for barriers, flags and locks.
    pub synchronisation: f64,
    /// Share of the processors' time that updates and buffers took from the cache's port.
    pub disturbed: f64,
    /// Share of the time the memories were busy.
    pub memory_use: f64,
    /// Share of memory accesses that were for queues.
    pub queue_share: f64,
    /// Updates that found their block in the consumer's cache.
    pub updates_cached: f64,
    /// Blocks that went past main memory.
    pub bypassed: f64,
    /// Accesses to the context caches.
    pub contexts: Use,
    /// Events simulated.
    pub events: u64,
}

/// Runs the product in a scheme.
// FEATURE: VQ-F23 VQ-F27
pub fn run(parameters: &Parameters, scheme: Scheme, plan: &Plan) -> Measured {
    match scheme {
        Scheme::CcPlain => plain::run(&Machine::without_units(parameters), plan, parameters.choice("plain.first") == 0),
        Scheme::Cc => streams::run(&Machine::without_units(parameters), plan, scheme),
        Scheme::Vq | Scheme::Vr => streams::run(&Machine::new(parameters), plan, scheme),
    }
}

/// Runs the product on a number of processors; equal runs are made once.
pub fn run_on(parameters: &Parameters, scheme: Scheme, processors: usize) -> Option<Measured> {
    let run = |parameters: &Parameters| Plan::new(parameters, processors).map(|plan| run(parameters, scheme, &plan));
    (*memo(&format!("virtual-queue {} {processors}", scheme.name()), parameters, run)).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::virtual_queue::parameters;

    #[test]
    fn one_processor_misses_every_block_of_a() {
        let measured = run_on(&parameters(), Scheme::Vq, 1).unwrap();
        // Eight loads and a miss of nine cycles for four multiply-adds; the rest is B's blocks and C's stores.
        let expected = 8.0 / 17.0;
        assert!((measured.efficiency / expected - 1.0).abs() < 0.01, "{}", measured.efficiency);
    }

    #[test]
    fn every_scheme_is_the_same_program_on_one_processor() {
        for (order, (name, _)) in ORDERS.iter().enumerate() {
            let ordered = parameters().with("product.order", order as f64);
            let of = |scheme| run_on(&ordered, scheme, 1).unwrap().efficiency;
            let base = of(Scheme::Vr);
            assert!(Scheme::ALL.iter().all(|scheme| (of(*scheme) / base - 1.0).abs() < 0.02), "{name}");
        }
    }

    #[test]
    fn plans_need_counts_that_divide() {
        assert!(Plan::new(&parameters(), 3).is_none());
        let plan = Plan::new(&parameters(), 1024).unwrap();
        assert_eq!((plan.ring, plan.rows, plan.blocks), (256, 1, 16));
    }

    #[test]
    fn a_whole_small_product_does_all_of_the_work() {
        let small = parameters().with("matrix.order", 32.0).with("product.rounds", 256.0);
        for scheme in Scheme::ALL {
            for processors in [1, 4, 32, 64] {
                let plan = Plan::new(&small, processors).unwrap();
                let measured = run(&small, scheme, &plan);
                let total = plan.work() * processors as u64;
                assert_eq!(total, 32 * 32 * 32, "{scheme:?} on {processors}");
                assert!(measured.cycles * processors as u64 >= 2 * total, "{scheme:?} on {processors} beats the peak");
            }
        }
    }
}
