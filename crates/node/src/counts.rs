//! A node's counts of others' commands: number, bytes, time, and refusals.
//!
//! Programs of its own host reach mapped bytes without it; those accesses are not counted.

use hanare_protocol::Error;
use hanare_protocol::wire::command::{OP_KINDS, Op};
use hanare_protocol::wire::control::{BUCKETS_US, CommandCount, CommandOrigin, NodeCounts};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Origins of commands, in the order of the counts.
const ORIGINS: [CommandOrigin; 2] = [CommandOrigin::OwnHost, CommandOrigin::OtherHost];

/// The counts, which only grow.
#[derive(Default)]
pub(crate) struct Counts {
    /// For each origin.
    kinds: [[Kind; OP_KINDS.len()]; ORIGINS.len()],
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

#[derive(Default)]
struct Kind {
    count: AtomicU64,
    bytes: AtomicU64,
    micros: AtomicU64,
    buckets: [AtomicU64; BUCKETS_US.len()],
}

/// A command under way, from its admission to the end of its answer.
pub(crate) struct Timing {
    counts: Arc<Counts>,
    kind: usize,
    from: CommandOrigin,
    bytes: u64,
    begun: Instant,
}

impl Counts {
    /// A command of so many bytes was admitted.
    pub fn watch(self: &Arc<Counts>, op: &Op, from: CommandOrigin, bytes: u64) -> Timing {
        Timing { counts: self.clone(), kind: op.kind(), from, bytes, begun: Instant::now() }
    }

    /// A command was refused.
    pub fn refused(&self, error: &Error) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(name(error)).or_default() += 1;
    }

    /// All of them.
    pub fn read(&self) -> NodeCounts {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let command = |from: CommandOrigin, name: &str, kind: &Kind| CommandCount {
            kind: name.to_owned(),
            from,
            count: load(&kind.count),
            bytes: load(&kind.bytes),
            micros: load(&kind.micros),
            buckets: kind.buckets.iter().map(load).collect(),
        };
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        NodeCounts {
            commands: ORIGINS
                .iter()
                .zip(&self.kinds)
                .flat_map(|(from, kinds)| OP_KINDS.iter().zip(kinds).map(|(name, kind)| command(*from, name, kind)))
                .collect(),
            refused: refused.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        }
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        let micros = self.begun.elapsed().as_micros() as u64;
        let kind = &self.counts.kinds[self.from as usize][self.kind];
        for (number, more) in [(&kind.count, 1), (&kind.bytes, self.bytes), (&kind.micros, micros)] {
            number.fetch_add(more, Ordering::Relaxed);
        }
        if let Some(bucket) = BUCKETS_US.iter().position(|most| micros <= *most) {
            kind.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An error's kind, as metrics call it.
fn name(error: &Error) -> &'static str {
    match error {
        Error::GrantRefused { .. } => "grant_refused",
        Error::IsMapped { .. } => "is_mapped",
        Error::OutOfRange { .. } | Error::BadIndex { .. } | Error::BadDimension { .. } => "out_of_range",
        Error::BadShape { .. } | Error::BadElement { .. } => "bad_shape",
        Error::LimitReached { .. } => "limit_reached",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_counted_once_when_its_watch_ends() {
        let counts = Arc::new(Counts::default());
        let watch = counts.watch(&Op::Get, CommandOrigin::OtherHost, 4096);
        assert!(counts.read().commands.iter().all(|command| command.count == 0));
        drop(watch);
        counts.refused(&Error::IsMapped { gid: hanare_protocol::id::Gid(1) });
        let read = counts.read();
        let counted: Vec<&CommandCount> = read.commands.iter().filter(|command| command.count > 0).collect();
        let [get] = counted[..] else { panic!("{read:?}") };
        assert_eq!((get.kind.as_str(), get.from, get.count, get.bytes), ("get", CommandOrigin::OtherHost, 1, 4096));
        assert_eq!(read.refused, [("is_mapped".to_owned(), 1)]);
        assert!(get.buckets.iter().sum::<u64>() <= 1);
    }

    #[test]
    fn an_append_to_a_queue_is_counted_as_one() {
        let counts = Arc::new(Counts::default());
        drop(counts.watch(&Op::Append { lane: 0 }, CommandOrigin::OwnHost, 64));
        let counted: Vec<String> =
            counts.read().commands.into_iter().filter(|command| command.count > 0).map(|command| command.kind).collect();
        assert_eq!(counted, ["append"]);
    }
}
