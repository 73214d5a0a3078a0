//! `hanare region`: named ranges of pool memory.

mod copy;
mod listing;
pub mod npy;

use crate::{backing, look, print, size};
use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use hanare::{Array, Changes, CreateOptions, PageRun, PlacementWish, Pool, RegionStat, User};
use hanare_protocol::limits::{COPY_COUNT_MAX, PAGE_RUN_COUNT_MAX};

pub use copy::{CopyOptions, load, save};
pub use listing::run_value;

/// Creates, lists, describes, resizes, removes and copies regions.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Create a region.
    Create(CreateArguments),
    /// List the regions.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Describe one region.
    Stat {
        /// The region.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a region longer.
    Resize {
        /// The region.
        name: String,
        /// Its length from now on.
        #[arg(value_parser = size::parse_some)]
        size: u64,
    },
    /// Change what is kept with a region: name, mode, owner, the array that it holds, attributes.
    Set(SetArguments),
    /// Remove regions; programs that have one mapped keep their mapping.
    Rm {
        /// The regions.
        #[arg(required_unless_present = "lost", value_name = "NAME")]
        names: Vec<String>,
        /// Remove all regions of this user whose bytes went with their node, and print their names.
        #[arg(long, conflicts_with = "names")]
        lost: bool,
    },
    /// Copy between regions, .npy files and raw files.
    Cp(CopyOptions),
}

/// What is to change of a region.
#[derive(Args, Clone, Debug)]
pub struct SetArguments {
    /// The region.
    pub name: String,
    /// Its name from now on.
    #[arg(long = "name", value_name = "NAME")]
    pub to: Option<String>,
    /// Who may read and write it, as a file's mode.
    #[arg(long, value_parser = mode)]
    pub mode: Option<u32>,
    /// Whose it is: a user's and a group's number. Only root gives it to another user.
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    pub owner: Option<User>,
    /// The array that it holds: element type and shape, as '<f8 1024x3', with F behind it where the first axis varies fastest; or 'none'.
    #[arg(long, value_name = "ARRAY", value_parser = array)]
    pub array: Option<ArrayWish>,
    /// An attribute that programs agree on.
    #[arg(long, value_name = "NAME=VALUE", value_parser = attribute)]
    pub attribute: Vec<(String, String)>,
    /// Take an attribute away.
    #[arg(long, value_name = "NAME")]
    pub drop: Vec<String>,
    /// copies=N: nodes that hold each of its bytes from now on, 1 to 3.
    #[arg(value_name = "copies=N", value_parser = copies)]
    pub copies: Option<u8>,
}

/// The array that a region is to hold from now on, if any.
#[derive(Clone, Debug)]
pub struct ArrayWish(Option<Array>);

impl SetArguments {
    fn changes(&self) -> Changes {
        let mut attributes = self.array.as_ref().map_or_else(Default::default, |wish| Array::changes(wish.0.as_ref()));
        attributes.extend(self.attribute.iter().map(|(name, value)| (name.clone(), Some(value.clone().into_bytes()))));
        attributes.extend(self.drop.iter().map(|name| (name.clone(), None)));
        Changes { name: self.to.clone(), owner: self.owner, mode: self.mode, copies: self.copies, attributes }
    }
}

/// What a new region is to be.
#[derive(Args, Clone, Debug)]
pub struct CreateArguments {
    /// Its name: up to 255 bytes, as a file's.
    pub name: String,
    /// Its length: bytes, or 64K, 2GiB ...
    #[arg(value_parser = size::parse_some)]
    pub size: u64,
    #[command(flatten)]
    pub place: PlacementArguments,
}

/// Where a new region goes, and who may use it.
#[derive(Args, Clone, Debug)]
pub struct PlacementArguments {
    /// Where its bytes go: local, node=K, interleave=CHUNK over all nodes, nodes=K,L-M:CHUNK over those, or near: to the host that uses them most.
    #[arg(long, value_name = "PLACE", default_value = "local", value_parser = place)]
    pub place: PlacementWish,
    /// Nodes that hold each of its bytes, 1 to 3: from 2 on no answered write is lost with a node.
    #[arg(long, value_name = "N", default_value = "1", value_parser = size::copies())]
    pub copies: u8,
    /// Who may read and write it, as a file's mode.
    #[arg(long, default_value = "0600", value_parser = mode)]
    pub mode: u32,
}

impl PlacementArguments {
    /// In the words of the library.
    pub fn options(&self) -> CreateOptions {
        CreateOptions { copies: self.copies, mode: self.mode, ..CreateOptions::default() }.at(self.place)
    }
}

fn place(text: &str) -> Result<PlacementWish, String> {
    text.parse().map_err(|error: hanare::Error| error.to_string())
}

fn owner(text: &str) -> Result<User, String> {
    let numbers = text.split_once(':').and_then(|(uid, gid)| Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? }));
    numbers.ok_or_else(|| "write the numbers of a user and a group, as in 1000:1000 (`id` tells them)".to_owned())
}

fn array(text: &str) -> Result<ArrayWish, String> {
    if text == "none" {
        return Ok(ArrayWish(None));
    }
    let mut words = text.split_whitespace();
    let (descr, shape, order) = (words.next().unwrap_or_default(), words.next(), words.next());
    let shape = shape.filter(|_| matches!(order, None | Some("F")) && words.next().is_none());
    let shape = npy::parse_shape(shape.ok_or("write element type and shape, as in '<f8 1024x3'")?)?;
    Ok(ArrayWish(Some(Array { descr: npy::parse_dtype(descr)?, fortran_order: order.is_some(), shape })))
}

fn attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn copies(text: &str) -> Result<u8, String> {
    let number = text.strip_prefix("copies=").and_then(|number| number.parse().ok());
    number
        .filter(|copies| (1..=COPY_COUNT_MAX).contains(copies))
        .ok_or_else(|| format!("write copies=N, from 1 to {COPY_COUNT_MAX}"))
}

fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o666 == 0 => Ok(mode),
        _ => Err("write the bits for reading and writing in octal, as in 0600 or 0644".to_owned()),
    }
}

/// Does what was asked.
pub fn run(command: &Command) -> Result<()> {
    let pool = Pool::attach_alone()?;
    match command {
        Command::Create(new) => {
            pool.create(&new.name, new.size, &new.place.options())?;
        }
        Command::Ls { json } => listing::list(&pool.list()?, *json)?,
        Command::Stat { name, json } => {
            let (region, pages) = (pool.stat(name)?, pool.page_stats()?);
            // The pages' homes know of moves to and fro.
            let runs = to_and_fro(&pool, &region)?;
            // A user without the right to read the region is not told of its content.
            let queues = pool.open_queues(name, 0).ok();
            let memory = behind(&pool, &region)?;
            let about = listing::About {
                region: &region,
                pages: pages.iter().find(|stat| stat.gid == region.gid),
                runs: &runs,
                queues: queues.as_ref(),
                memory: &memory,
            };
            listing::describe(&about, *json)?;
        }
        Command::Resize { name, size } => {
            pool.resize(name, *size)?;
        }
        Command::Set(set) => {
            let changes = set.changes();
            ensure!(
                changes != Changes::default(),
                "nothing is to change: give --name, --mode, --owner, --array, --attribute, --drop or copies=N"
            );
            pool.alter(&set.name, &changes)?;
        }
        Command::Rm { lost: true, .. } => remove_lost(&pool)?,
        Command::Rm { names, .. } => names.iter().try_for_each(|name| pool.remove(name))?,
        Command::Cp(options) => copy::run(&pool, options)?,
    }
    Ok(())
}

/// The pages of a region that went to and fro most, at all homes of it.
fn to_and_fro(pool: &Pool, region: &RegionStat) -> Result<Vec<PageRun>> {
    let opened = look::open(pool, std::slice::from_ref(region));
    let seen = look::at_nodes(pool, &pool.status()?.nodes, &opened.iter().collect::<Vec<_>>(), 0);
    let stats = seen.into_iter().flatten().flat_map(|seen| seen.pages).filter(|stat| stat.gid == region.gid);
    let mut runs: Vec<PageRun> = stats.flat_map(|stat| stat.contended).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.returns));
    runs.truncate(PAGE_RUN_COUNT_MAX);
    Ok(runs)
}

/// The memory of a region on each node that holds bytes of it. Users who may not read it are told of the nodes' kinds of memory alone.
fn behind(pool: &Pool, region: &RegionStat) -> Result<Vec<backing::ToldMemory>> {
    let opened = look::open(pool, std::slice::from_ref(region)).pop();
    let holds = |node: &hanare::NodeStatus| node.alive && region.nodes.iter().any(|(holder, _)| *holder == node.node);
    let nodes: Vec<_> = pool.status()?.nodes.into_iter().filter(holds).collect();
    Ok(backing::at_nodes(pool, &nodes, Some(region.gid), opened.as_ref()))
}

/// Removes what this user has of regions whose bytes are gone.
fn remove_lost(pool: &Pool) -> Result<()> {
    let user = pool.user().uid;
    for region in pool.list()?.iter().filter(|region| region.lost.is_some() && (user == 0 || region.owner == user)) {
        pool.remove(&region.name)?;
        print::line(&region.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_only_bits_for_reading_and_writing() {
        assert_eq!(mode("0644"), Ok(0o644));
        assert_eq!(mode("600"), Ok(0o600));
        assert!(mode("0755").is_err() && mode("8").is_err() && mode("").is_err());
    }

    #[test]
    fn an_array_is_written_as_listings_show_it() {
        for text in ["<f8 1024x3", "|u1 7", "<i4 2x3 F"] {
            assert_eq!(array(text).unwrap().0.unwrap().to_string(), text);
        }
        assert!(array("none").unwrap().0.is_none());
        assert!(array("<f8").is_err() && array("<f8 3 C").is_err() && array("<f8 3 F F").is_err() && array("O 3").is_err());
        assert!(
            copies("copies=3") == Ok(3) && copies("3").is_err() && copies("copies=4").is_err() && copies("copies=0").is_err()
        );
        assert!(owner("1000").is_err() && owner("a:1").is_err() && attribute("x").is_err());
    }
}
