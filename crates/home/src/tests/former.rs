//! Homes that another node may have followed: they give nobody a lock at their bytes.

use super::*;
use hanare_protocol::Result;
use hanare_protocol::id::Rights;

/// Memory of a node whose lease as home is over.
struct LeaseOver<'a>(&'a Vectors);

impl Memory for LeaseOver<'_> {
    type Extent = Vector;

    fn open(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Vector> {
        self.0.open(slot, grant, need)
    }

    fn find(&self, gid: Gid, slot: Slot) -> Option<Vector> {
        self.0.find(gid, slot)
    }

    fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.0.has(gid, slot)
    }

    fn answers(&self, _gid: Gid, _slot: Slot) -> bool {
        false
    }
}

fn lock_at_byte(number: u64) -> SyncRequest {
    let address = SyncAddress::Byte { slot: Slot(0), grant: Grant::default(), offset: 64 };
    let (mode, lease) = (Mode::Exclusive, LeaseWish::default());
    SyncRequest::Lock { address, mode, number, thread: number, bound_ms: None, known: None, lease }
}

#[test]
fn who_waits_at_a_home_whose_lease_is_over_gets_no_lock() {
    let mut driven = Driven::new();
    assert_eq!(driven.ask(1, 1, lock_at_byte(1)), [(1, 1, true)]);
    assert_eq!(driven.ask(2, 1, lock_at_byte(1)), []);
    assert_eq!(driven.ask(3, 1, lock_at_byte(1)), []);
    let (now, memory) = (Duration::ZERO, LeaseOver(&driven.memory));
    driven.home.handle(now, Input::LinkGone { link: 1 }, &memory);
    let told: Vec<SyncOutput> = std::iter::from_fn(|| driven.home.poll(&memory)).filter_map(sync).collect();
    assert_eq!(answers(&told), [(2, 1, false), (3, 1, false)]);
    let refused = |output: &SyncOutput| matches!(output, SyncOutput::Answer(_, Err(Error::GrantRefused { .. })));
    assert!(told.iter().all(refused), "{told:?}");
    // The home of before goes on. The first to come hears of the holder that died.
    let (waiter, from) = (Waiter { link: 4, seq: 1 }, (ClientId(4), User { uid: 7, gid: 7 }));
    let told = driven.handle(Input::Request { waiter, from, request: lock_at_byte(1) });
    assert!(matches!(&told[..], [SyncOutput::Answer(_, Ok(SyncAnswer::Granted { abandoned: true, .. }))]), "{told:?}");
}

#[test]
fn a_home_that_an_election_overtakes_says_so_and_forgets_its_locks_until_it_is_home_again() {
    let mut driven = Driven::new();
    let extent = CopiedExtent { gid: Gid(1), index: 0 };
    let set = |term| HolderSet { term: Term(term), home: NodeId(1), copies: BTreeSet::new() };
    driven.handle(Input::Pages(PageInput::Identity { node: NodeId(1), epoch: Epoch(1) }));
    let first = HolderSet { copies: [NodeId(2)].into(), ..set(1) };
    driven.handle(CopyInput::Made { extent, set: first, order: 7, slot: Slot(0) }.into());
    assert_eq!(driven.ask(1, 1, lock_at_byte(1)), [(1, 1, true)]);
    assert_eq!(driven.ask(2, 1, lock_at_byte(1)), []);
    let freeze = CopyInput::Holder { extent, nodes: Vec::new(), message: ToHolder::Freeze { term: Term(2) } };
    driven.home.handle(Duration::ZERO, freeze.into(), &driven.memory);
    let (mut said, mut told) = (Vec::new(), Vec::new());
    while let Some(output) = driven.home.poll(&driven.memory) {
        match output {
            Output::Copies(CopyOutput::Say { message, .. }) => said.push(message),
            output => told.extend(sync(output)),
        }
    }
    assert_eq!(said, [FromHolder::Released { term: Term(1), leaves_doubt: true }]);
    assert!(driven.home.is_overtaken(extent));
    assert_eq!(answers(&told), [(2, 1, false)], "nobody gets a lock here");
    assert_eq!(driven.ask(1, 2, SyncRequest::Unlock { number: 1 }), [(1, 2, false)], "its holder hears that it is lost");
    // The copy is lost, and the coordinator lets the home go on.
    let message = ToHolder::Set(set(3));
    driven.handle(CopyInput::Holder { extent, nodes: Vec::new(), message }.into());
    assert!(!driven.home.is_overtaken(extent));
    let (waiter, from) = (Waiter { link: 3, seq: 1 }, (ClientId(3), User { uid: 7, gid: 7 }));
    let told = driven.handle(Input::Request { waiter, from, request: lock_at_byte(1) });
    assert!(matches!(&told[..], [SyncOutput::Answer(_, Ok(SyncAnswer::Granted { abandoned: true, .. }))]), "{told:?}");
}
