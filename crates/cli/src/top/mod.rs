//! `hanare top`: what happens in the pool, live on a terminal, or once as text or JSON.
//!
//! | file | holds |
//! |---|---|
//! | [`sample`] | what all nodes tell at one moment |
//! | [`sheet`] | a table that is sorted and filtered |
//! | [`sheets`] | nodes, regions, programs, locks, pages to and fro and faces as such tables |
//! | [`value`] | a sample as JSON |
//! | [`view`] | what is on the screen, and what keys do to it |
//! | [`draw`] | the screen |

mod draw;
mod sample;
mod sheet;
mod sheets;
mod value;
mod view;

use crate::print;
use anyhow::{Context, Result, bail};
use clap::Args;
use hanare::{Gid, Pool};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use sample::Sample;
use serde_json::json;
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use view::View;

/// Longest time between a key, or a sample, and the screen that shows it.
const LOOK: Duration = Duration::from_millis(50);

/// What is watched, and how it is shown.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Print what there is, once.
    #[arg(long)]
    pub once: bool,
    /// Print JSON: an object on a line, each time.
    #[arg(long)]
    pub json: bool,
    /// Seconds between two looks at the pool.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub every: u64,
    /// Look into a region: how often its pages went to and fro.
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
}

/// Shows the pool that this host's node belongs to.
pub fn run(options: &Options) -> Result<()> {
    let pool = Pool::attach_alone()?;
    let into = options.region.as_ref().map(|name| pool.stat(name).map(|stat| stat.gid)).transpose()?;
    let every = Duration::from_secs(options.every);
    match (options.once, options.json) {
        (true, true) => print::json(&value::of(&Sample::take(&pool, into)?)),
        (true, false) => {
            print_once(&Sample::take(&pool, into)?);
            Ok(())
        }
        (false, true) => loop {
            match Sample::take(&pool, into) {
                Ok(sample) => print::json(&value::of(&sample))?,
                Err(error) => print::json(&json!({ "error": format!("{error:#}") }))?,
            }
            std::thread::sleep(every);
        },
        (false, false) if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() => {
            bail!("`hanare top` draws on a terminal; elsewhere give --once, or --json")
        }
        (false, false) => live(pool, into, every),
    }
}

/// Prints all tables one below the other.
fn print_once(sample: &Sample) {
    for (kind, sheet) in sheets::Topic::ALL.map(|kind| (kind, sheets::of(kind, sample, None))) {
        print::line(&format!("{}:", kind.title()));
        print::table(&sheet.columns(), sheet.texts());
        print::line("");
    }
}

/// Watches the pool until a key ends it.
fn live(pool: Pool, into: Option<Gid>, every: Duration) -> Result<()> {
    let (wishes, wanted) = channel();
    let (found, samples) = channel();
    std::thread::Builder::new().name("top".to_owned()).spawn(move || look(&pool, into, every, &wanted, &found))?;
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let outcome = watch(&mut terminal, &mut View::new(into), &wishes, &samples);
    ratatui::restore();
    outcome
}

/// Looks at the pool again and again, and at once where another region is to be looked into.
fn look(pool: &Pool, mut into: Option<Gid>, every: Duration, wanted: &Receiver<Option<Gid>>, found: &Sender<Result<Sample>>) {
    while found.send(Sample::take(pool, into)).is_ok() {
        match wanted.recv_timeout(every) {
            Ok(wish) => into = wish,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn watch(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    wishes: &Sender<Option<Gid>>,
    samples: &Receiver<Result<Sample>>,
) -> Result<()> {
    let mut into = view.focus();
    while !view.is_over() {
        terminal.draw(|frame| draw::draw(frame, view))?;
        if event::poll(LOOK)?
            && let Event::Key(key) = event::read()?
        {
            view.on_key(key);
        }
        if view.focus() != into {
            into = view.focus();
            wishes.send(into)?;
        }
        for sample in samples.try_iter() {
            view.on_sample(sample);
        }
    }
    Ok(())
}
