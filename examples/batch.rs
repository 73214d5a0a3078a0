//! Many small commands as one message to each node: two rows of counters, added to as one batch.
//!
//! `hanare run --nodes 2 cargo run -q -p hanare --example batch`

use hanare::{CreateOptions, Element, Modify, Operator, Placement, Pool, Range, Result, Strided};

const BINS: u64 = 64;
const PAGE: u64 = 4096;
const ADD: Modify = Modify { element: Element::U64, operator: Operator::Add };

/// What the head of the file says.
pub fn main() -> Result<()> {
    let pool = Pool::attach()?;
    let options = CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() };
    // A row of bins on each of two pages, which lie on different nodes.
    let bins = pool.create_or_attach("example-bins", 2 * PAGE, &options)?;

    let counts: Vec<[u8; 8]> = (1..=BINS).map(u64::to_le_bytes).collect();
    // 128 updates, one message each way for each node; each element changes in one step.
    pool.batch(|batch| {
        for (bin, count) in (0..).zip(&counts) {
            for row in 0..2 {
                batch.update(&bins, Strided::contiguous(row * PAGE + bin * 8, 8), ADD, count)?;
            }
        }
        Ok(())
    })?;
    pool.barrier()?;
    if pool.rank() == 0 {
        let all = bins.reduce(Strided::contiguous(0, 2 * PAGE), Element::U64, Range::all(Element::U64))?;
        println!("sum {}", all.sum());
    }
    Ok(())
}
