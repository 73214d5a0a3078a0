//! Library that `hanare run --main-memory` loads into an unchanged program: its large allocations and mappings come from an arena whose
//! pages the keeper, another process, brings and takes.
//!
//! | file | holds |
//! |---|---|
//! | [`calls`] | the functions that stand before those of the C library |
//! | [`arena`] | which addresses of the arena are taken |
//! | [`keeper`] | the connection; forks |
//! | [`hand`] | the thread that takes pages out |
//! | [`next`] | the functions behind those of [`calls`] |
//! | [`lock`] | a lock that a child of fork can open |
//!
//! No function here allocates, or calls one of the C library that does: it may run inside malloc. Memory comes by system calls.
//! A program that the keeper does not admit goes on with memory of this host, after one line.
//!
//! Safety invariants of this crate:
//!
//! 1. The functions of [`calls`] have the C library's signatures and contracts; what they do not serve goes to the next function.
//! 2. The arena is one private anonymous range, reserved once and given back never. Pages of it belong to whoever took their blocks.
//! 3. Tables of the arena are zeroed mappings of their full length, which live as long as the program.

mod arena;
mod calls;
mod hand;
mod keeper;
mod lock;
mod next;

/// Runs when the library is loaded, before the program's own code.
extern "C" fn begin() {
    keeper::begin();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Writes one line to standard error.
fn say(parts: &[&str]) {
    for part in ["hanare: "].iter().chain(parts).chain(&["\n"]) {
        // Standard error may be closed; then nothing is said.
        let _ = rustix::io::write(rustix::stdio::stderr(), part.as_bytes());
    }
}
