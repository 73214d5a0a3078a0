//! `hanare demo`: the pool at work, from files to files.

mod matmul;

use anyhow::Result;
use clap::Subcommand;
use rustix::process::Pid;

/// Shows the pool at work.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Multiply two matrices on two nodes: files, regions, a C program on two ranks, and the product checked
    Matmul(matmul::Options),
}

/// Refuses, before any process is started, what cannot be done.
pub fn check(command: &Command) -> Result<()> {
    match command {
        Command::Matmul(options) => matmul::check(options),
    }
}

/// Does it in the inner process of a launch.
pub fn run(command: &Command, guard: Pid) -> Result<i32> {
    match command {
        Command::Matmul(options) => matmul::run(options, guard),
    }
}
