//! `hanare queue`: streams of blocks or records, and pipes across machines.

mod listing;
mod pipe;

use crate::region::PlacementArguments;
use crate::size;
use crate::users::{self, Trusted};
use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use hanare::{Error, Overflow, Pool, Queue, QueueForm, Trust, Unit};
use std::time::Duration;

/// Creates, lists, describes, fills and empties queues.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Create a queue.
    Create {
        /// Its name, which is its region's: `hanare region rm` removes it.
        name: String,
        #[command(flatten)]
        form: FormArguments,
        /// So many queues under one name; programs open them by their numbers.
        #[arg(long, default_value_t = 1, value_name = "N")]
        count: u64,
        #[command(flatten)]
        place: PlacementArguments,
    },
    /// List the queues.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Describe one queue: who uses it, and what waits in each lane.
    Stat {
        /// The queue.
        name: String,
        /// Its number, of several under one name.
        #[arg(long, default_value_t = 0, value_name = "K")]
        index: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Send standard input: as records as it comes, or cut into the queue's blocks.
    Send(SendOptions),
    /// Receive to standard output.
    Recv(RecvOptions),
}

/// What a new queue is like.
#[derive(Args, Clone, Debug)]
pub struct FormArguments {
    /// Blocks of so many bytes, 16 to 4096.
    #[arg(long, value_name = "BYTES", value_parser = size::parse_some, conflicts_with = "record")]
    pub block: Option<u64>,
    /// Records of at most so many bytes [default: 64K].
    #[arg(long, value_name = "BYTES", value_parser = size::parse_some)]
    pub record: Option<u64>,
    /// Blocks, or longest records, that wait for each writer before it overflows.
    #[arg(long, default_value_t = 16)]
    pub depth: u32,
    /// Writers at once.
    #[arg(long, default_value_t = 4)]
    pub ports: u32,
    /// What becomes of more than that.
    #[arg(long, value_enum, default_value = "wait")]
    pub overflow: OverflowChoice,
}

/// Treatment of a unit without room.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OverflowChoice {
    /// The writer is refused.
    Refuse,
    /// The writer waits.
    Wait,
    /// It goes to other memory of the pool.
    Spill,
}

impl FormArguments {
    fn form(&self) -> Result<QueueForm> {
        let overflow = match self.overflow {
            OverflowChoice::Refuse => Overflow::Refuse,
            OverflowChoice::Wait => Overflow::Wait,
            OverflowChoice::Spill => Overflow::Spill,
        };
        // A length beyond 32 bits is beyond every limit, too.
        let small = |len: u64| u32::try_from(len).unwrap_or(u32::MAX);
        let unit = match (self.block, self.record) {
            (Some(len), _) => Unit::Blocks { len: small(len) },
            (None, len_max) => Unit::Records { len_max: small(len_max.unwrap_or(64 << 10)) },
        };
        let form = QueueForm { unit, depth: self.depth, ports: self.ports, overflow };
        form.check()?;
        Ok(form)
    }
}

/// What is sent, and how.
#[derive(Args, Clone, Debug)]
pub struct SendOptions {
    /// The queue.
    pub name: String,
    /// Create it if there is none: records of up to 64 KiB.
    #[arg(long)]
    pub create: bool,
    /// A record for each line, with its end.
    #[arg(long)]
    pub lines: bool,
    /// Use a queue that another user made, too: a user's name or number, or `anyone`; may be repeated.
    #[arg(long, value_name = "USER", value_parser = users::parse_trusted)]
    pub trust: Vec<Trusted>,
    /// Do not tell the reader that this is all.
    #[arg(long)]
    pub no_end: bool,
}

/// What is received, and until when.
#[derive(Args, Clone, Debug)]
pub struct RecvOptions {
    /// The queue.
    pub name: String,
    /// Create it if there is none: records of up to 64 KiB.
    #[arg(long)]
    pub create: bool,
    /// Add a line's end to each record that has none.
    #[arg(long)]
    pub lines: bool,
    /// Use a queue that another user made, too: a user's name or number, or `anyone`; may be repeated.
    #[arg(long, value_name = "USER", value_parser = users::parse_trusted)]
    pub trust: Vec<Trusted>,
    /// Go on until so many writers have said that they sent all.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub writers: u64,
    /// End after so many units.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// End when nothing came for so long.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub within: Option<Duration>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time as 500ms, 3s or 2m".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        _ => return Err(wrong()),
    };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    ms.map(Duration::from_millis).ok_or_else(wrong)
}

/// Opens a queue of this user or of one in `trust`, or creates it where that is asked for.
fn open(pool: &Pool, name: &str, create: bool, trust: &[Trusted]) -> Result<Queue> {
    const PIPE: QueueForm =
        QueueForm { unit: Unit::Records { len_max: 64 << 10 }, depth: 16, ports: 4, overflow: Overflow::Wait };
    let pool = &pool.trusting(users::trust(Trust::own(pool), trust));
    match pool.open_queue(name) {
        Err(Error::UnknownRegion { .. }) if create => match pool.create_queue(name, &PIPE, &hanare::CreateOptions::default()) {
            // The other end of the pipe came first.
            Err(Error::NameTaken { .. }) => Ok(opened_by_other(pool, name)?),
            other => Ok(other?),
        },
        other => Ok(other?),
    }
}

/// The queue that another program is making just now.
fn opened_by_other(pool: &Pool, name: &str) -> Result<Queue> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match pool.open_queue(name) {
            Err(Error::NoQueue { .. }) => std::thread::sleep(Duration::from_millis(10)),
            other => return Ok(other?),
        }
    }
    bail!("region '{name}' is there, and no queue in it")
}

/// Does what was asked.
pub fn run(command: &Command) -> Result<()> {
    let pool = Pool::attach_alone()?;
    match command {
        Command::Create { name, form, count, place } => {
            pool.create_queues(name, *count, &form.form()?, &place.options())?;
            Ok(())
        }
        Command::Ls { json } => listing::list(&pool, *json),
        Command::Stat { name, index, json } => {
            listing::describe(&listing::whoever_made(&pool).open_queues(name, 0)?.queue(*index)?, *json)
        }
        Command::Send(options) => pipe::send(&open(&pool, &options.name, options.create, &options.trust)?, options),
        Command::Recv(options) => pipe::receive(&open(&pool, &options.name, options.create, &options.trust)?, options),
    }
}
