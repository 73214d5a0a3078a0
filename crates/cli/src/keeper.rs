//! `hanare keeper`: the nodes that hold the coordinator's journal together.

use crate::print::{self, Column};
use anyhow::Result;
use clap::Subcommand;
use hanare::Pool;
use hanare_protocol::wire::control::KeeperStatus;
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
        Command::Replace { address } => {
            Pool::attach_alone()?.replace_keeper(address)?;
            print::line(&format!("the place of {address} is free: start that keeper with an empty HANARE_STATE"));
            return Ok(());
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
