//! A dictionary in the pool, for any number of programs that read and write it at a time. Rust, C and Python share one.
//!
//! ```no_run
//! use hanare_dict::{Dict, Key, Options, kind};
//!
//! let pool = hanare::Pool::attach()?;
//! let dict = Dict::open(&pool, "settings", &Options::default())?;
//! dict.set(&Key::text("mode"), kind::PLAIN, b"fast")?;
//! assert_eq!(dict.get(&Key::text("mode"))?, Some((kind::PLAIN, b"fast".to_vec())));
//! # Ok::<(), hanare::Error>(())
//! ```
//!
//! There is no server, and no lock but that of the program that makes a new table. A table of words stands in one region. Each word leads
//! to a *bucket*. A block of a heap that has all entries of the keys whose hash leads there. A writer makes a new bucket and swaps the word
//! in one step; a slower writer tries again. A reader checks that it read the bucket of the word.
//!
//! ```text
//! NAME       | root word                          numbers of the table and the values, and of those begun
//! NAME.t7    | word word word ...                 word: frozen, tag, segment, bytes of the bucket, place
//! NAME.t7.0  | heap of buckets; NAME.t7.1 ...     the next heap, twice as long, when that one is full
//! NAME.v3.0  | heap of values that are too long for a bucket; NAME.v3.1 ...
//! ```
//!
//! A program that finds the table crowded makes one of four times as many words. One command *freezes* the old words, so that later swaps
//! fail. Then the program copies the buckets, swaps the root word and removes the old table. Readers of frozen words look at the root word.
//! A sweep also copies the values to new heaps. Blocks that a killed program took and did not link go with the old heaps. A program that is
//! killed meanwhile leaves frozen words; the next writer begins again.
//!
//! | module | holds |
//! |---|---|
//! | `key`, [`kind`] | keys as bytes; the form of a value's bytes |
//! | `digest`, `bucket`, `plan` | hashes; words and buckets as bytes; a bucket that is to take another's place |
//! | `blocks`, `hold` | heaps; values that are read in place |
//! | `spare_blocks` | this process's blocks that nobody links |
//! | `table` | looking a key up in one table, and changing its entry |
//! | `root`, `opening`, `part` | the root's word and attribute; a dictionary's regions, opened and made |
//! | `dict`, `change`, `keys`, `renew` | reading; changing; all keys; new tables, sweeps, and parts that are removed |
//! | `fault` | why a step was not done |
//! | `store`, `mark`, `times` | a table of given size whose keys leave: uses of its words, ends of its entries |
//! | `waiter` | hooks of other languages around steps that wait |

#![forbid(unsafe_code)]

mod blocks;
mod bucket;
mod change;
mod dict;
mod digest;
mod fault;
#[cfg(test)]
mod fuzz;
mod hold;
mod key;
mod keys;
pub mod kind;
mod mark;
mod opening;
mod plan;
mod renew;
mod root;
mod spare_blocks;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod times;
mod waiter;

pub use blocks::{VIEWED_LEN_MIN, Writers};
pub use bucket::GRANULE;
pub use dict::{Dict, Sink, Told};
pub use hold::Hold;
pub use key::Key;
pub use keys::{Keys, Walk};
pub use mark::Evict;
pub use opening::Options;
pub use renew::DictStat;
pub use store::{Change, Found, Item, Stamp, Store, StoreOptions, StoreStat};
pub use times::{Times, now_ms};
pub use waiter::{Here, Waiter};

use fault::Fault;

/// Steps that move more bytes go through the waiter. For shorter ones the hook may cost more than the copy.
const BRIEF_LEN: usize = 64 << 10;

/// The programs of the book's page, compiled by `cargo test --doc`.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/dictionaries.md")]
    struct Dictionaries;
    #[doc = include_str!("../../../docs/store.md")]
    struct Stores;
}
