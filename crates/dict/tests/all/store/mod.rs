//! Stores: calls against a map, keys that leave, programs that are killed, nodes that are slow or lost.

mod batches;
mod calls;
mod leaves;
pub mod programs;
mod slow;
mod watch;

use hanare::Pool;
use hanare_dict::{Key, Store, StoreOptions};

/// Options of a small store.
fn small() -> StoreOptions {
    StoreOptions { bytes: 1 << 20, entries: Some(256), ..StoreOptions::default() }
}

/// Bytes that say which key they are of.
fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(len.max(8), (number ^ number >> 8) as u8);
    bytes
}

fn key(number: u64) -> Key<'static> {
    Key::number(number as i64)
}

/// Whether a key is there, without a use of it.
fn is_there(store: &Store, number: u64) -> bool {
    store.times(&key(number)).unwrap().is_some()
}

/// A store of the test; the program that opens it first makes it.
fn open(pool: &Pool, options: &StoreOptions) -> Store {
    Store::open(pool, "store", options).unwrap()
}
