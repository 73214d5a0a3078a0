//! `hanare store`: stores of the pool, each with its own memory as its limit.

use crate::print::{self, Column};
use crate::size;
use crate::users;
use anyhow::Result;
use clap::Subcommand;
use hanare::{Pool, Trust};
use hanare_dict::{Store, StoreStat};
use hanare_protocol::wire::control::RegionStat;
use serde_json::{Value, json};

/// An action on stores.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List stores, how much memory each has, and how much of it keys and values take. Each index is read.
    Ls {
        /// Begin of the stores' names, as 'team.' [default: all].
        #[arg(value_name = "PREFIX", default_value = "")]
        prefix: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A store as the pool lists it.
struct StoreRow {
    region: RegionStat,
    evict: &'static str,
    bytes: u64,
    /// `None` where this user may not write it, or its bytes are lost.
    counted: Option<(StoreStat, u64)>,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<()> {
    let Command::Ls { prefix, json: as_json } = command;
    // Other users' stores are only counted.
    let pool = Pool::attach_alone()?;
    let pool = pool.trusting(Trust::own(&pool).and_anyone());
    let found = pool.list()?.into_iter().filter(|region| region.name.starts_with(prefix.as_str()));
    let rows: Vec<StoreRow> = found.filter_map(|region| row(&pool, region)).collect();
    if *as_json {
        return print::json(&Value::Array(rows.iter().map(value).collect()));
    }
    use Column::{Number, Text};
    let columns = [Text("NAME"), Number("SIZE"), Number("USED"), Number("KEYS"), Text("EVICT"), Text("MODE"), Number("OWNER")];
    let cells = |row: &StoreRow| {
        let counted = |count: &dyn Fn(&(StoreStat, u64)) -> String| row.counted.as_ref().map_or("-".to_owned(), count);
        vec![
            row.region.name.clone(),
            size::show(row.bytes),
            counted(&|(stat, _)| size::show(stat.linked)),
            counted(&|(_, keys)| keys.to_string()),
            row.evict.to_owned(),
            format!("{:04o}", row.region.mode),
            users::owner(&row.region),
        ]
    };
    print::table(&columns, rows.iter().map(cells).collect());
    Ok(())
}

/// The row of a region that is a store.
fn row(pool: &Pool, region: RegionStat) -> Option<StoreRow> {
    let (evict, bytes) = Store::terms_of(&region.attributes)?;
    let counted = Store::open_made(pool, &region.name).and_then(|store| Ok((store.stat()?, store.len()?)));
    Some(StoreRow { evict: evict.name(), bytes, counted: counted.ok(), region })
}

fn value(row: &StoreRow) -> Value {
    json!({
        "name": row.region.name, "bytes": row.bytes, "evict": row.evict, "mode": row.region.mode, "owner": row.region.owner,
        "used": row.counted.as_ref().map(|(stat, _)| stat.linked), "keys": row.counted.as_ref().map(|(_, keys)| keys),
    })
}
