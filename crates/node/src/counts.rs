//! A node's counts of others' commands: number, bytes, time, and refusals, by the face that sent them.
//!
//! Programs of its own host reach mapped bytes without it; those accesses are not counted.

use hanare_protocol::Error;
use hanare_protocol::tenant::is_tenant;
use hanare_protocol::wire::command::{OP_KINDS, Op};
use hanare_protocol::wire::control::{BUCKETS_US, CommandCount, CommandOrigin, NodeCounts};
use hanare_protocol::wire::face::{FaceCounts, ProgramFace};
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
        self.watch_since(op, from, bytes, Instant::now())
    }

    /// The same of one that began then.
    pub fn watch_since(self: &Arc<Counts>, op: &Op, from: CommandOrigin, bytes: u64, begun: Instant) -> Timing {
        Timing { counts: self.clone(), kind: op.kind(), from, bytes, begun }
    }

    /// A command was refused.
    pub fn refused(&self, error: &Error) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(name(error)).or_default() += 1;
    }

    /// All of them, as sums over `all`.
    pub fn read(all: &[&Counts]) -> NodeCounts {
        let command = |from: CommandOrigin, kind: usize| {
            let kinds = || all.iter().map(move |counts| &counts.kinds[from as usize][kind]);
            let sum = |of: &dyn Fn(&Kind) -> &AtomicU64| kinds().map(|kind| of(kind).load(Ordering::Relaxed)).sum();
            CommandCount {
                kind: OP_KINDS[kind].to_owned(),
                from,
                count: sum(&|kind| &kind.count),
                bytes: sum(&|kind| &kind.bytes),
                micros: sum(&|kind| &kind.micros),
                buckets: (0..BUCKETS_US.len()).map(|at| sum(&|kind| &kind.buckets[at])).collect(),
            }
        };
        let mut refused: BTreeMap<&'static str, u64> = BTreeMap::new();
        for counts in all {
            let own = counts.refused.lock().unwrap_or_else(PoisonError::into_inner);
            own.iter().for_each(|(name, count)| *refused.entry(name).or_default() += count);
        }
        NodeCounts {
            commands: ORIGINS.iter().flat_map(|from| (0..OP_KINDS.len()).map(|kind| command(*from, kind))).collect(),
            refused: refused.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        }
    }
}

/// The counts of commands of some users, for each face by its number.
#[derive(Clone, Default)]
pub(crate) struct CountsByFace(Arc<[Arc<Counts>; ProgramFace::COUNT]>);

impl CountsByFace {
    /// The counts of a face.
    pub fn of(&self, face: ProgramFace) -> Arc<Counts> {
        self.0[face as usize].clone()
    }
}

/// The counts of a node: tenants' commands stand apart, because other users are not told of them.
#[derive(Default)]
pub(crate) struct AllCounts {
    users: CountsByFace,
    tenants: CountsByFace,
}

impl AllCounts {
    /// The counts of a user's commands.
    pub fn of(&self, uid: u32) -> CountsByFace {
        if is_tenant(uid) { self.tenants.clone() } else { self.users.clone() }
    }

    /// The part that a user is told: all for an operator, nothing for a tenant.
    fn told_to(&self, uid: u32, is_operator: bool) -> Vec<&CountsByFace> {
        match (is_operator, is_tenant(uid)) {
            (true, _) => vec![&self.users, &self.tenants],
            (false, false) => vec![&self.users],
            (false, true) => Vec::new(),
        }
    }

    /// Sums of the part that a user is told.
    pub fn read_by(&self, uid: u32, is_operator: bool) -> NodeCounts {
        let told = self.told_to(uid, is_operator);
        Counts::read(&told.iter().flat_map(|told| told.0.iter().map(Arc::as_ref)).collect::<Vec<_>>())
    }

    /// The same by face, without what is 0.
    pub fn read_faces_by(&self, uid: u32, is_operator: bool) -> FaceCounts {
        let told = self.told_to(uid, is_operator);
        let of_face = |face: ProgramFace| {
            let mut counts = Counts::read(&told.iter().map(|told| &*told.0[face as usize]).collect::<Vec<_>>());
            counts.commands.retain(|command| command.count > 0);
            let is_used = !counts.commands.is_empty() || !counts.refused.is_empty();
            is_used.then(|| (face.number(), counts))
        };
        FaceCounts { faces: ProgramFace::ALL.into_iter().filter_map(of_face).collect() }
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
        assert!(Counts::read(&[&counts]).commands.iter().all(|command| command.count == 0));
        drop(watch);
        counts.refused(&Error::IsMapped { gid: hanare_protocol::id::Gid(1) });
        let read = Counts::read(&[&counts]);
        let counted: Vec<&CommandCount> = read.commands.iter().filter(|command| command.count > 0).collect();
        let [get] = counted[..] else { panic!("{read:?}") };
        assert_eq!((get.kind.as_str(), get.from, get.count, get.bytes), ("get", CommandOrigin::OtherHost, 1, 4096));
        assert_eq!(read.refused, [("is_mapped".to_owned(), 1)]);
        assert!(get.buckets.iter().sum::<u64>() <= 1);
    }

    #[test]
    fn commands_of_tenants_are_counted_for_operators_alone() {
        let (all, tenant) = (AllCounts::default(), *hanare_protocol::tenant::TENANT_NUMBERS.start());
        let watch = |uid, face, bytes| all.of(uid).of(face).watch(&Op::Get, CommandOrigin::OwnHost, bytes);
        drop(watch(1000, ProgramFace::C, 1));
        drop(watch(tenant, ProgramFace::C, 10));
        drop(watch(tenant, ProgramFace::Files, 100));
        let bytes = |read: NodeCounts| read.commands.iter().map(|command| command.bytes).sum::<u64>();
        let told = [(0, true), (1000, true), (1000, false), (tenant, false)];
        assert_eq!(told.map(|(uid, is)| bytes(all.read_by(uid, is))), [111, 111, 1, 0]);
        let of_faces = |(uid, is)| {
            let faces = all.read_faces_by(uid, is).faces.into_iter();
            faces.map(|(face, counts)| (ProgramFace::of(face.into()), bytes(counts))).collect::<Vec<_>>()
        };
        let whole = vec![(ProgramFace::C, 11), (ProgramFace::Files, 100)];
        assert_eq!(told.map(of_faces), [whole.clone(), whole, vec![(ProgramFace::C, 1)], Vec::new()]);
    }

    #[test]
    fn a_face_is_told_of_by_what_it_did_and_what_was_refused() {
        let all = AllCounts::default();
        drop(all.of(1000).of(ProgramFace::Python).watch(&Op::Put, CommandOrigin::OtherHost, 8));
        all.of(1000).of(ProgramFace::Redis).refused(&Error::IsMapped { gid: hanare_protocol::id::Gid(1) });
        let [(python, did), (redis, refused)] = &all.read_faces_by(1000, false).faces[..] else { panic!("two faces") };
        assert_eq!((ProgramFace::of((*python).into()), did.commands.len(), did.refused.len()), (ProgramFace::Python, 1, 0));
        assert_eq!((did.commands[0].kind.as_str(), did.commands[0].count), ("put", 1));
        assert_eq!((ProgramFace::of((*redis).into()), refused.commands.len(), refused.refused.len()), (ProgramFace::Redis, 0, 1));
        assert_eq!(all.read_by(1000, false).refused, refused.refused);
    }

    #[test]
    fn an_append_to_a_queue_is_counted_as_one() {
        let counts = Arc::new(Counts::default());
        drop(counts.watch(&Op::Append { lane: 0 }, CommandOrigin::OwnHost, 64));
        let counted: Vec<String> = Counts::read(&[&counts])
            .commands
            .into_iter()
            .filter(|command| command.count > 0)
            .map(|command| command.kind)
            .collect();
        assert_eq!(counted, ["append"]);
    }
}
