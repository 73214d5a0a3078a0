//! The `hanare` command.
#![forbid(unsafe_code)]

fn main() {}
