//! The `hanare` command: words in, one line out for every refusal.
//!
//! | module | does |
//! |---|---|
//! | [`arguments`] | the one definition of the command's words |
//! | [`run`] | programs as ranks of a job |
//! | [`node`], [`prometheus`] | the node, and its metrics |
//! | [`queue`] | queues, and pipes through them |
//! | [`region`], [`status`], [`info`] | what there is |
//! | [`drain`], [`rebalance`], [`scrub`] | bytes that move, and copies that are compared |
//! | [`top`], [`look`], [`faces`] | what happens, live; what nodes tell who looks; and by which face programs came |
//! | [`mod@mount`], [`nbd`] | the pool as files, a region as a disk |
//! | [`serve`], [`loopback`] | a store for clients of Redis; the users behind connections on loopback |
//! | [`store`] | stores, and how full they are |
//! | [`mod@log`] | what a long-running command says |
//! | [`doctor`] | what is wrong, and what to type |
//! | [`keeper`] | the nodes that hold the coordinator's journal together |
//! | [`key`] | the file that lets hosts into one pool |
//! | [`tenant`] | users of the pool whom no host knows |
//! | [`demo`] | the pool at work |
//! | [`forward`] | benches, models, the report and the simulator, which other crates hold |
//! | [`models`] | how the program with the models is asked |
//! | [`mod@trace`] | where the time of a job went |
//! | [`what_if`] | the words of predictions, and what they are calibrated with |
//! | [`manual`] | completions and man pages |
//! | [`mod@print`], [`progress`], [`size`], [`users`] | how things are shown and read |
#![forbid(unsafe_code)]

mod arguments;
mod backing;
mod demo;
mod doctor;
mod drain;
mod fabric;
mod faces;
mod forward;
#[cfg(test)]
mod fuzz;
mod info;
mod journal;
mod keeper;
mod key;
mod lines;
mod log;
mod look;
mod loopback;
mod manual;
mod models;
mod mount;
mod nbd;
mod node;
mod notify;
mod print;
mod progress;
mod prometheus;
mod queue;
mod queue_form;
mod rate_limit;
mod rebalance;
mod region;
mod run;
mod scrub;
mod serve;
mod size;
mod status;
mod store;
mod tenant;
mod top;
mod trace;
mod users;
mod what_if;

use anyhow::{Context, Result};
use arguments::{Arguments, Command};
use clap::Parser;
use hanare::face::{ProgramFace, use_as};
use run::hosts::deputy;
use run::{guard, rank};
use rustix::process::Pid;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    match start(std::env::args_os().collect()) {
        Ok(status) => ExitCode::from(status as u8),
        Err(error) => {
            // The error is one line, whatever it holds.
            let text = format!("{error:#}");
            eprintln!("hanare: {}", text.lines().map(str::trim).collect::<Vec<_>>().join(" "));
            ExitCode::FAILURE
        }
    }
}

/// Takes the words apart: those of a launch's own processes begin with two underscores and stand in no manual.
fn start(words: Vec<OsString>) -> Result<i32> {
    match &words[..] {
        [_, mark, launcher, program @ ..] if mark == rank::BECOME => rank::become_program(launcher, program).map(|()| 0),
        [_, mark, launcher, words @ ..] if mark == demo::PROGRAM => demo::play(launcher, words).map(|()| 0),
        [_, mark] if mark == deputy::DEPUTY => guard::stand_guard(words[1..].iter().cloned()),
        [own, mark, guard, rest @ ..] if mark == guard::INNER => {
            let guard = guard.to_str().and_then(|text| Pid::from_raw(text.parse().ok()?)).context("not started by a launch")?;
            if rest.first().is_some_and(|word| word == deputy::DEPUTY) {
                return deputy::serve(guard);
            }
            guarded(Arguments::parse_from([own].into_iter().chain(rest)).command, guard)
        }
        _ => outer(arguments::read(&words).command, &words),
    }
}

/// The face by which a process of that command uses the pool.
fn face_of(command: &Command) -> ProgramFace {
    match command {
        Command::Mount(_) => ProgramFace::Files,
        Command::Nbd(_) => ProgramFace::Blocks,
        Command::Serve(_) => ProgramFace::Redis,
        Command::Run(options) if options.main_memory.is_some() => ProgramFace::MainMemory,
        _ => ProgramFace::Command,
    }
}

/// Work of a launch's inner process.
fn guarded(command: Command, guard: Pid) -> Result<i32> {
    use_as(face_of(&command));
    match command {
        Command::Run(options) => run::run(&options, guard),
        Command::Demo(options) => demo::run(&options, guard),
        _ => anyhow::bail!("not a command that starts a job"),
    }
}

/// Tells of variables that look like settings and are none: most likely one was misspelt, and has no effect.
fn warn_of_unknown_settings() {
    for (name, near) in hanare::settings::unknown() {
        let meant = near.map(|near| format!(", {near} is")).unwrap_or_default();
        eprintln!("hanare: {name} is no setting{meant}; `hanare info` lists all");
    }
}

fn outer(command: Command, words: &[OsString]) -> Result<i32> {
    use_as(face_of(&command));
    // A node of a launch has the variables of its launcher, which told already.
    if !matches!(&command, Command::Node(options) if options.embedded_in.is_some()) {
        warn_of_unknown_settings();
    }
    let rest = words[1..].iter().cloned();
    match command {
        Command::Run(options) => {
            fabric::settle(options.fabric.as_deref(), options.plain)?;
            run::check(&options)?;
            let status = guard::stand_guard(rest);
            if options.main_memory.is_some() {
                run::main_memory::clean_up();
            }
            return status;
        }
        Command::Demo(_) => return guard::stand_guard(rest),
        Command::Node(options) => return node::run(&options),
        Command::Mount(options) => return mount::run(&options),
        Command::Nbd(options) => return nbd::run(&options),
        Command::Serve(options) => serve::run(&options)?,
        Command::Sim(options) => return forward::sim(&options),
        Command::Status { json, watch } => status::run(json, watch)?,
        Command::Top(options) => top::run(&options)?,
        Command::Trace(options) => trace::run(&options)?,
        Command::Region(command) => region::run(&command)?,
        Command::Rebalance(options) => return rebalance::run(&options),
        Command::Scrub(options) => return scrub::run(&options),
        Command::Queue(command) => queue::run(&command)?,
        Command::Key(command) => key::run(command)?,
        Command::Journal(command) => journal::run(&command)?,
        Command::Keeper(command) => keeper::run(&command)?,
        Command::Tenant(command) => tenant::run(&command)?,
        Command::Store(command) => store::run(&command)?,
        Command::Bench(options) => forward::bench(&options)?,
        Command::Info { json } => info::run(json)?,
        Command::Doctor { json } => return doctor::run(json),
        Command::Model(options) => return forward::model(&options),
        Command::WhatIf(options) => return what_if::run(&options),
        Command::Report(options) => return forward::report(&options),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { dir } => manual::pages(&dir)?,
    }
    Ok(0)
}
