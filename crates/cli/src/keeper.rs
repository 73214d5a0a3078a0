//! `hanare keeper`: the nodes that hold the coordinator's journal together.

use crate::node::with_port;
use crate::print::{self, Column};
use anyhow::Result;
use clap::Subcommand;
use hanare::Pool;
use hanare_protocol::wire::control::{KeeperChange, KeeperStatus};
use serde_json::{Value, json};

/// An action on keepers.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List them as this host's node sees them: which one is the coordinator, and which are out of reach
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a node of the pool a keeper: one that was started with `--keepers` and `--listen`
    Add {
        /// The node's address, as in `hanare status`
        address: String,
    },
    /// Have a keeper be none any more
    Remove {
        /// The keeper's address, as in the list of keepers
        address: String,
    },
    /// Give a keeper's place to another disk, because its disk is lost and its process has ended
    Replace {
        /// The keeper's address, as in the list of keepers
        address: String,
    },
}

const COLUMNS: [Column; 2] = [Column::Text("ADDRESS"), Column::Text("STATE")];

/// Runs the command.
pub fn run(command: &Command) -> Result<()> {
    let as_json = match command {
        Command::Ls { json } => json,
        Command::Add { address } => return change(address, KeeperChange::Add, "is a keeper"),
        Command::Remove { address } => return change(address, KeeperChange::Remove, "is no keeper any more"),
        Command::Replace { address } => {
            let done = "has its place for another disk: start that keeper with an empty HANARE_STATE";
            return change(address, KeeperChange::Replace, done);
        }
    };
    let keepers = Pool::attach_alone()?.own_status()?.keepers;
    if *as_json {
        return print::json(&json!({ "keepers": keepers.iter().map(value).collect::<Vec<_>>() }));
    }
    if keepers.is_empty() {
        print::line(
            "one node keeps this pool's names; `hanare node --keepers A,B,C` makes a pool that goes on without one of three",
        );
        return Ok(());
    }
    print::table(&COLUMNS, keepers.iter().map(|keeper| vec![keeper.address.clone(), state(keeper).to_owned()]).collect());
    Ok(())
}

fn change(address: &str, change: KeeperChange, done: &str) -> Result<()> {
    let address = with_port(address);
    Pool::attach_alone()?.change_keepers(&address, change)?;
    print::line(&format!("{address} {done}"));
    Ok(())
}

fn state(keeper: &KeeperStatus) -> &'static str {
    match (keeper.leads, keeper.is_reached) {
        (true, _) => "coordinator",
        (false, Some(true)) => "reached",
        (false, Some(false)) => "out of reach",
        (false, None) => "-",
    }
}

fn value(keeper: &KeeperStatus) -> Value {
    json!({ "address": keeper.address, "coordinator": keeper.leads, "reached": keeper.is_reached })
}
