//! `hanare demo`: the pool at work, in a minute and with nothing but this binary; a program on three times its memory;
//! and the papers' product, from files to files.

mod matmul;
mod memory;
mod part;
mod tour;

use anyhow::Result;
use clap::{Args, Subcommand};
pub use part::{PROGRAM, play};
use rustix::process::Pid;

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
    /// Multiply two matrices on two nodes: files, regions, a C program on two ranks, and the product checked
    Matmul(matmul::Options),
    /// Sort three times the memory that is allowed, by GNU sort as it is: with a swap file, and with the pool of a second node
    Memory(memory::Options),
}

/// Refuses, before any process is started, what cannot be done.
pub fn check(options: &Options) -> Result<()> {
    match &options.command {
        None | Some(Command::Memory(_)) => Ok(()),
        Some(Command::Matmul(options)) => matmul::check(options),
    }
}

/// Does it in the inner process of a launch.
pub fn run(options: &Options, guard: Pid) -> Result<i32> {
    match &options.command {
        None => tour::run(&options.tour, guard),
        Some(Command::Matmul(options)) => matmul::run(options, guard),
        Some(Command::Memory(options)) => memory::run(options, guard),
    }
}
