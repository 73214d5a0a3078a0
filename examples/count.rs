//! Programs on many hosts count in one word, as threads of one program do.
//!
//! `hanare run --nodes 3 cargo run -q -p hanare --example count` prints 3000.

use hanare::{Consistency, CreateOptions, Pool, Result};
use std::sync::atomic::Ordering::SeqCst;

/// What the head of the file says.
pub fn main() -> Result<()> {
    let pool = Pool::attach()?;
    let region = pool.create_or_attach("example-count-rs", 4096, &CreateOptions::default())?;
    let mapping = region.map(Consistency::Coherent)?;
    let word = mapping.word(0)?;
    for _ in 0..1000 {
        word.fetch_add(1, SeqCst);
    }
    pool.barrier()?;
    if pool.rank() == 0 {
        println!("{}", word.load(SeqCst));
    }
    Ok(())
}
