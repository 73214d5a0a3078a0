//! What loom tries: a module a machine.

#[path = "../ordered/mod.rs"]
mod ordered;

mod lanes;
mod orders;
mod pages;
mod revoke;
