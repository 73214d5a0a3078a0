//! The object as its driver sees it.

mod former;
mod ports;
mod stores;

use super::*;
use hanare_protocol::Error;
use hanare_protocol::copies::{HolderSet, Term};
use hanare_protocol::entry::{BoundShape, Publication, Stores};
use hanare_protocol::heap::{HeapCall, HeapWish};
use hanare_protocol::id::{ClientId, Epoch, Gid, Grant, JobId, JobRank, NodeId, Rank, Slot, User};
use hanare_protocol::lock::{Claimant, Recalled};
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::copies::{CopiedExtent, FromHolder, ToHolder};
use hanare_protocol::wire::sync::{Arrival, LeaseWish, Mode, Party, SyncAddress, SyncAnswer, SyncRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A home, its memory and its clock in milliseconds.
struct Driven {
    home: Home<PageVectors, Vector>,
    memory: Vectors,
    now_ms: u64,
}

impl Driven {
    fn new() -> Driven {
        let terms = LockTerms { is_home: true, ..LockTerms::default() };
        let pages = Pages::new(PageTerms::default(), PageVectors::default());
        Driven { home: Home::new(terms, 1, pages), memory: Vectors::of(Gid(1), 4096).0, now_ms: 0 }
    }

    fn handle(&mut self, input: Input<'_, PageVectors>) -> Vec<SyncOutput> {
        self.home.handle(Duration::from_millis(self.now_ms), input, &self.memory);
        std::iter::from_fn(|| self.home.poll(&self.memory)).filter_map(sync).collect()
    }

    /// What each answered request is told: its link, and whether that is no error.
    fn ask(&mut self, link: u64, seq: u64, request: SyncRequest) -> Vec<(u64, u64, bool)> {
        let from = (ClientId(link), User { uid: 7, gid: 7 });
        let outputs = self.handle(Input::Request { waiter: Waiter { link, seq }, from, request });
        answers(&outputs)
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.home.deadline().map(|at| at.as_millis() as u64)
    }
}

/// An output, where no host maps a region. That of copies is for others.
fn sync(output: Output<PageVectors>) -> Option<SyncOutput> {
    match output {
        Output::Sync(output) => Some(output),
        Output::Copies(_) => None,
        Output::Pages(_) => unreachable!("shared regions have no part in it"),
    }
}

fn answers(outputs: &[SyncOutput]) -> Vec<(u64, u64, bool)> {
    let answer = |output: &SyncOutput| match output {
        SyncOutput::Answer(waiter, outcome) => Some((waiter.link, waiter.seq, outcome.is_ok())),
        _ => None,
    };
    outputs.iter().filter_map(answer).collect()
}

fn lock(number: u64, bound_ms: Option<u64>, lease: LeaseWish) -> SyncRequest {
    let address = SyncAddress::Name("a".to_owned());
    SyncRequest::Lock { address, mode: Mode::Exclusive, number, thread: number, bound_ms, known: None, lease }
}

#[test]
fn a_wait_ends_at_its_deadline_and_not_before() {
    let mut driven = Driven::new();
    let lease = LeaseWish::default();
    assert_eq!(driven.ask(1, 1, lock(1, None, lease)), [(1, 1, true)]);
    assert_eq!(driven.deadline_ms(), None);
    driven.now_ms = 5;
    assert_eq!(driven.ask(2, 1, lock(1, Some(20), lease)), []);
    assert_eq!(driven.deadline_ms(), Some(25));
    driven.now_ms = 24;
    assert!(driven.handle(Input::Tick).is_empty());
    driven.now_ms = 25;
    let told = driven.handle(Input::Tick);
    assert!(matches!(&told[..], [SyncOutput::Answer(Waiter { link: 2, seq: 1 }, Err(Error::NotInTime { after_ms: 20, .. }))]));
    assert_eq!((driven.deadline_ms(), driven.home.counts().lock_waits), (None, 0));
}

#[test]
fn who_gets_a_lock_by_the_end_of_another_s_wait_is_told_so_though_its_own_wait_ends_too() {
    let mut driven = Driven::new();
    let shared = |number, bound_ms| SyncRequest::Lock {
        address: SyncAddress::Name("a".to_owned()),
        mode: Mode::Shared,
        number,
        thread: number,
        bound_ms,
        known: None,
        lease: LeaseWish::default(),
    };
    driven.ask(1, 1, shared(1, None));
    driven.ask(2, 1, lock(1, Some(20), LeaseWish::default()));
    driven.ask(3, 1, shared(1, Some(20)));
    driven.now_ms = 20;
    let told = driven.handle(Input::Tick);
    assert_eq!(answers(&told), [(2, 1, false), (3, 1, true)]);
}

#[test]
fn outputs_come_in_the_order_of_their_causes() {
    let mut driven = Driven::new();
    let lease = LeaseWish::default();
    driven.ask(1, 1, lock(1, None, lease));
    driven.ask(2, 1, lock(1, None, lease));
    driven.ask(3, 1, lock(1, None, lease));
    // Who gives up is answered, both its wait and its withdrawal; the next in the queue is not it.
    assert_eq!(driven.ask(2, 2, SyncRequest::Withdraw { number: 1 }), [(2, 1, false), (2, 2, true)]);
    assert_eq!(driven.ask(1, 2, SyncRequest::Unlock { number: 1 }), [(3, 1, true), (1, 2, true)]);
}

#[test]
fn a_link_that_ended_is_answered_nothing_and_its_locks_go_to_others() {
    let mut driven = Driven::new();
    let lease = LeaseWish::default();
    driven.ask(1, 1, lock(1, None, lease));
    driven.ask(1, 2, lock(2, Some(50), lease));
    driven.ask(2, 1, lock(1, None, lease));
    let told = driven.handle(Input::LinkGone { link: 1 });
    assert_eq!(answers(&told), [(2, 1, true)]);
    assert!(matches!(&told[..], [SyncOutput::Answer(_, Ok(SyncAnswer::Granted { abandoned: true, .. }))]));
    assert_eq!(driven.deadline_ms(), None, "its wait has no deadline any more");
}

#[test]
fn a_lease_without_an_answer_is_lost_before_another_gets_the_lock() {
    let mut driven = Driven::new();
    let keeps = LeaseWish { keeps: true, returns: None };
    driven.ask(1, 1, lock(1, None, keeps));
    assert_eq!(driven.home.counts().leases, 1);
    let from = (ClientId(2), User { uid: 7, gid: 7 });
    let waiter = Waiter { link: 2, seq: 1 };
    let told = driven.handle(Input::Request { waiter, from, request: lock(1, None, LeaseWish::default()) });
    assert!(matches!(&told[..], [SyncOutput::Recall { client: ClientId(1), number: 1 }]));
    let mut repeated = 0;
    let told = loop {
        driven.now_ms = driven.deadline_ms().expect("it asks again");
        let told = driven.handle(Input::Tick);
        match &told[..] {
            [SyncOutput::Recall { .. }] => repeated += 1,
            _ => break told,
        }
    };
    let lost = Claimant { link: 1, number: 1 };
    assert!(matches!(told[0], SyncOutput::LeaseLost(who) if who == lost) && answers(&told) == [(2, 1, true)], "{told:?}");
    assert!(repeated > 0 && driven.home.counts().leases == 0);
    let late = Input::LeaseAnswer { client: ClientId(1), number: 1, recalled: Recalled::Held };
    assert!(driven.handle(late).is_empty(), "a late answer changes nothing");
}

/// A node that had a copy and follows the home of its extent: `stopped` where that one was not lost. The outcomes of two takings of a lock there.
fn first_takers(stopped: bool) -> [bool; 2] {
    let mut driven = Driven::new();
    let extent = CopiedExtent { gid: Gid(1), index: 0 };
    let set = |term: u64, home: u32, copy: u32| HolderSet { term: Term(term), home: NodeId(home), copies: [NodeId(copy)].into() };
    let holder = |message| CopyInput::Holder { extent, nodes: Vec::new(), message };
    driven.handle(Input::Pages(PageInput::Identity { node: NodeId(1), epoch: Epoch(1) }));
    driven.handle(CopyInput::Made { extent, set: set(1, 0, 1), order: 7, slot: Slot(0) }.into());
    driven.handle(holder(ToHolder::Freeze { term: Term(2) }).into());
    let alone = HolderSet { copies: BTreeSet::new(), ..set(2, 1, 0) };
    for _ in 0..2 {
        // The coordinator says it again, over a new connection.
        driven.handle(holder(ToHolder::Elect { set: alone.clone(), has: BTreeMap::new(), stopped }).into());
    }
    let address = SyncAddress::Byte { slot: Slot(0), grant: Grant::default(), offset: 64 };
    [1, 2].map(|number| {
        let lease = LeaseWish::default();
        let (mode, thread) = (Mode::Exclusive, number);
        let lock = SyncRequest::Lock { address: address.clone(), mode, number, thread, bound_ms: None, known: None, lease };
        let (waiter, from) = (Waiter { link: 1, seq: number }, (ClientId(1), User { uid: 7, gid: 7 }));
        let told = driven.handle(Input::Request { waiter, from, request: lock });
        driven.ask(1, 9, SyncRequest::Unlock { number });
        match &told[..] {
            [SyncOutput::Answer(_, Ok(SyncAnswer::Granted { abandoned, .. }))] => *abandoned,
            _ => panic!("it is not taken: {told:?}"),
        }
    })
}

#[test]
fn a_home_that_follows_a_lost_one_tells_the_first_to_take_a_lock_at_its_bytes() {
    assert_eq!(first_takers(false), [true, false]);
    assert_eq!(first_takers(true), [false, false]);
}

/// Programs take a lock at a home with copies, and one `ends`: dies, or gives it back. Then the home stops for another. Returns whether the home
/// leaves a doubt.
fn stops_after(ends: impl FnOnce(&mut Driven)) -> bool {
    let mut driven = Driven::new();
    let extent = CopiedExtent { gid: Gid(1), index: 0 };
    let set = HolderSet { term: Term(1), home: NodeId(1), copies: [NodeId(2)].into() };
    driven.handle(Input::Pages(PageInput::Identity { node: NodeId(1), epoch: Epoch(1) }));
    driven.handle(CopyInput::Made { extent, set: set.clone(), order: 7, slot: Slot(0) }.into());
    let address = SyncAddress::Byte { slot: Slot(0), grant: Grant::default(), offset: 64 };
    let (mode, lease) = (Mode::Exclusive, LeaseWish::default());
    let lock = SyncRequest::Lock { address, mode, number: 1, thread: 1, bound_ms: None, known: None, lease };
    assert_eq!(driven.ask(1, 1, lock), [(1, 1, true)]);
    ends(&mut driven);
    let release = CopyInput::Holder { extent, nodes: Vec::new(), message: ToHolder::Release(set) };
    driven.home.handle(Duration::ZERO, release.into(), &driven.memory);
    let said = std::iter::from_fn(|| driven.home.poll(&driven.memory)).find_map(|output| match output {
        Output::Copies(CopyOutput::Say { message: FromHolder::Released { leaves_doubt, .. }, .. }) => Some(leaves_doubt),
        _ => None,
    });
    said.expect("nobody has a lock there, so it stops")
}

#[test]
fn a_home_that_stops_says_that_a_holder_died_or_that_something_is_bound() {
    let unlock = SyncRequest::Unlock { number: 1 };
    assert!(!stops_after(|driven| assert_eq!(driven.ask(1, 2, unlock.clone()), [(1, 2, true)])));
    assert!(stops_after(|driven| drop(driven.handle(Input::LinkGone { link: 1 }))));
    let binding = Some(vec![BoundShape { gid: Gid(1), shape: Strided::contiguous(0, 8) }]);
    let publish = SyncRequest::Publish { number: 1, publication: Publication { changes: Stores::NONE, binding } };
    assert!(stops_after(|driven| {
        assert_eq!(driven.ask(1, 2, publish), [(1, 2, true)]);
        assert_eq!(driven.ask(1, 3, unlock.clone()), [(1, 3, true)]);
    }));
}

#[test]
fn a_heap_s_table_goes_with_its_extent_and_so_does_its_user_s_charge() {
    let mut driven = Driven::new();
    let (slot, grant) = (Slot(0), Grant::default());
    let call = HeapCall { region_len: 4096, wishes: vec![HeapWish::Allocate { len: 100, align: 8 }] };
    let allocate = || SyncRequest::Heap { slot, grant, call: call.clone(), once: None };
    assert_eq!(driven.ask(1, 1, allocate()), [(1, 1, true)]);
    driven.memory = Vectors::default();
    driven.handle(Input::Freed);
    driven.memory = Vectors::of(Gid(2), 4096).0;
    let length = SyncRequest::BlockLen { slot, grant, offset: 0 };
    assert_eq!(driven.ask(1, 2, length), [(1, 2, false)], "another region's heap has no block yet");
    assert_eq!(driven.ask(1, 3, allocate()), [(1, 3, true)]);
}

#[test]
fn a_home_that_another_follows_gives_nobody_what_the_next_one_gives() {
    let mut driven = Driven::new();
    let (me, lease) = (NodeId(3), LeaseWish::default());
    let who = JobRank { job: JobId(5), rank: Rank(0), ranks: 2 };
    let arrive = |generation| SyncRequest::Arrive(Party::Rank(Arrival { who, generation }), None);
    driven.ask(1, 1, lock(1, None, lease));
    driven.ask(2, 1, lock(1, None, lease));
    driven.ask(3, 1, arrive(0));
    driven.ask(4, 1, SyncRequest::AwaitDeath { job: JobId(5) });
    let told = driven.handle(Input::PoolHome(me, false));
    assert_eq!(answers(&told), [(2, 1, false), (3, 1, false), (4, 1, false)]);
    // The holder gives its lock back, and nobody gets it.
    assert_eq!(driven.ask(1, 2, SyncRequest::Unlock { number: 1 }), [(1, 2, true)]);
    for refused in [lock(9, None, lease), arrive(4), SyncRequest::AwaitDeath { job: JobId(5) }] {
        let from = (ClientId(2), User { uid: 7, gid: 7 });
        let told = driven.handle(Input::Request { waiter: Waiter { link: 2, seq: 9 }, from, request: refused });
        assert!(matches!(&told[..], [SyncOutput::Answer(_, Err(Error::NoCoordinator { .. }))]), "{told:?}");
    }
    // Home again, it knows nothing of its time before.
    assert!(driven.handle(Input::PoolHome(me, true)).is_empty());
    let told = driven.handle(Input::Request {
        waiter: Waiter { link: 5, seq: 1 },
        from: (ClientId(5), User { uid: 8, gid: 8 }),
        request: lock(1, None, lease),
    });
    assert!(matches!(&told[..], [SyncOutput::Answer(_, Ok(SyncAnswer::Granted { abandoned: true, .. }))]), "{told:?}");
    let who = JobRank { rank: Rank(1), ..who };
    let other = SyncRequest::Arrive(Party::Rank(Arrival { who, generation: 4 }), None);
    assert_eq!((driven.ask(6, 1, arrive(4)), driven.ask(7, 1, other)), (vec![], vec![(6, 1, true), (7, 1, true)]));
}

#[test]
fn a_rank_that_is_gone_is_so_at_the_next_home_though_its_coordinator_tells_before() {
    let mut driven = Driven::new();
    let (me, job) = (NodeId(3), JobId(5));
    driven.handle(Input::PoolHome(me, false));
    let reason = "killed by signal 9".to_owned();
    driven.handle(Input::RankGone { job, rank: Rank(0), ranks: Some(2), reason, died: true });
    driven.handle(Input::PoolHome(me, true));
    let who = JobRank { job, rank: Rank(1), ranks: 2 };
    assert_eq!(driven.ask(1, 1, SyncRequest::Arrive(Party::Rank(Arrival { who, generation: 4 }), None)), [(1, 1, false)]);
    assert_eq!(driven.ask(2, 1, SyncRequest::AwaitDeath { job }), [(2, 1, false)]);
}

#[test]
fn a_home_that_is_one_again_gives_out_what_programs_have_from_its_time_before() {
    let mut driven = Driven::new();
    let me = NodeId(3);
    driven.ask(1, 1, lock(1, None, LeaseWish::default()));
    driven.handle(Input::PoolHome(me, false));
    driven.handle(Input::PoolHome(me, true));
    // Another home may have given it out meanwhile.
    let from = (ClientId(2), User { uid: 7, gid: 7 });
    let request = lock(1, None, LeaseWish::default());
    let told = driven.handle(Input::Request { waiter: Waiter { link: 2, seq: 1 }, from, request });
    assert!(matches!(&told[..], [SyncOutput::Answer(_, Ok(SyncAnswer::Granted { abandoned: true, .. }))]), "{told:?}");
    assert_eq!(driven.ask(1, 2, SyncRequest::Unlock { number: 1 }), [(1, 2, false)], "its holder hears that it is lost");
    assert_eq!(driven.ask(2, 2, SyncRequest::Unlock { number: 1 }), [(2, 2, true)]);
}

#[test]
fn a_node_that_is_home_of_an_extent_again_gives_out_what_programs_have_there_from_its_time_before() {
    let mut driven = Driven::new();
    let extent = CopiedExtent { gid: Gid(1), index: 0 };
    let address = SyncAddress::Byte { slot: Slot(0), grant: Grant::default(), offset: 64 };
    let lease = LeaseWish::default();
    let take = |number| SyncRequest::Lock {
        address: address.clone(),
        mode: Mode::Exclusive,
        number,
        thread: number,
        bound_ms: None,
        known: None,
        lease,
    };
    let set = |term, home, copy| HolderSet { term: Term(term), home: NodeId(home), copies: [NodeId(copy)].into() };
    let holder = |message| CopyInput::Holder { extent, nodes: Vec::new(), message };
    driven.handle(Input::Pages(PageInput::Identity { node: NodeId(1), epoch: Epoch(1) }));
    driven.handle(CopyInput::Made { extent, set: set(1, 1, 2), order: 7, slot: Slot(0) }.into());
    assert_eq!(driven.ask(1, 1, take(1)), [(1, 1, true)]);
    // The same slot has a copy of the extent, and that follows the next home.
    driven.handle(CopyInput::Made { extent, set: set(2, 2, 1), order: 8, slot: Slot(0) }.into());
    driven.handle(holder(ToHolder::Freeze { term: Term(3) }).into());
    let alone = HolderSet { copies: BTreeSet::new(), ..set(3, 1, 2) };
    driven.handle(holder(ToHolder::Elect { set: alone, has: BTreeMap::new(), stopped: false }).into());
    assert_eq!(driven.ask(2, 1, take(2)), [(2, 1, true)]);
    assert_eq!(driven.ask(1, 2, SyncRequest::Unlock { number: 1 }), [(1, 2, false)]);
}
