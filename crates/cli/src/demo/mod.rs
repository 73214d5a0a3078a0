//! `hanare demo`: the pool at work, in a minute and with nothing but this binary; a program on three times its memory;
//! and the papers' product, from files to files.

mod counting;
mod matmul;
mod memory;
mod part;
mod tour;

use anyhow::Result;
use clap::{Args, Subcommand};
pub use part::play;
use rustix::process::Pid;

/// The first argument of a process of the demonstration; its second is the number of the one that started it.
pub const PROGRAM: &str = "__demo";

/// Shows the pool at work.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    tour: tour::Options,
}

/// One program, in detail.
#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Multiply two matrices on two nodes: files, regions, two ranks, and the product checked
    Matmul(matmul::Options),
    /// Sort three times the memory that is allowed, by GNU sort as it is: with a swap file, and with the pool of a second node
    Memory(memory::Options),
}

/// Does it in the inner process of a launch.
pub fn run(options: &Options, guard: Pid) -> Result<i32> {
    match &options.command {
        None => tour::run(&options.tour, guard),
        Some(Command::Matmul(options)) => matmul::run(options, guard),
        Some(Command::Memory(options)) => memory::run(options, guard),
    }
}
