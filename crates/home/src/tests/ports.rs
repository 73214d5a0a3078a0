//! Ports of queues at a home that follows another: of which it has not heard.

use super::*;
use hanare_protocol::lock::lease::PROGRAM_LIFE;
use hanare_protocol::queue::{Overflow, PortId, QueueForm, Unit};
use hanare_protocol::wire::queue::{ArrayAt, QueueRequest};

const FORM: QueueForm = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 2, ports: 2, overflow: Overflow::Wait };
/// A writer of client 5, and a reader of client 6.
const WRITER: PortId = PortId(15);
const READER: PortId = PortId(16);

/// A node that follows the home of an extent, whose queue has a writer and a reader.
fn follower() -> Driven {
    let mut driven = Driven::new();
    let extent = CopiedExtent { gid: Gid(1), index: 0 };
    let set = |term: u64, home: u32, copies: &[u32]| HolderSet {
        term: Term(term),
        home: NodeId(home),
        copies: copies.iter().map(|node| NodeId(*node)).collect(),
    };
    let holder = |message| CopyInput::Holder { extent, nodes: Vec::new(), message };
    driven.handle(Input::Pages(PageInput::Identity { node: NodeId(1), epoch: Epoch(1) }));
    driven.handle(CopyInput::Made { extent, set: set(1, 0, &[1]), order: 7, slot: Slot(0) }.into());
    let found = driven.memory.find(Gid(1), Slot(0)).unwrap();
    found.write(0, &FORM.encode(1)).unwrap();
    let opened = found.with_queues(0, |array| {
        array.open_lane(0, WRITER, 7)?;
        array.note_client(WRITER, ClientId(5));
        array.open_reader(0, 1, READER)?;
        array.note_client(READER, ClientId(6));
        Ok(())
    });
    opened.unwrap();
    driven.handle(holder(ToHolder::Freeze { term: Term(2) }).into());
    let told = driven.handle(holder(ToHolder::Elect { set: set(2, 1, &[]), has: BTreeMap::new(), stopped: false }).into());
    assert!(told.is_empty() && driven.open_ports() == [WRITER, READER]);
    driven
}

impl Driven {
    fn open_ports(&self) -> Vec<PortId> {
        let found = self.memory.find(Gid(1), Slot(0)).unwrap();
        found.ports().iter().flat_map(|table| table.open_ports().map(|port| port.id).collect::<Vec<_>>()).collect()
    }

    /// Time passes to the next deadline. The programs whose nodes are asked.
    fn asked(&mut self) -> Vec<ClientId> {
        self.now_ms = self.deadline_ms().expect("something is due");
        let told = self.handle(Input::Tick);
        let asked = told.iter().map(|output| match output {
            SyncOutput::Recall { client, number: PROGRAM_LIFE } => *client,
            _ => panic!("{output:?}"),
        });
        asked.collect()
    }

    fn answer(&mut self, client: u64, recalled: Recalled) {
        assert!(self.handle(Input::LeaseAnswer { client: ClientId(client), number: PROGRAM_LIFE, recalled }).is_empty());
    }

    /// The reader asks on a link.
    fn free(&mut self, link: u64) {
        let at = ArrayAt { slot: Slot(0), grant: Grant::default(), offset: 0 };
        let free = QueueRequest::Free { queue: 0, lane: 0, reader: READER.0, head: 0 };
        assert_eq!(self.ask(link, 1, SyncRequest::Queue(at, free)), [(link, 1, true)]);
    }
}

#[test]
fn programs_that_live_keep_their_ports_and_others_are_told_of() {
    let mut driven = follower();
    assert_eq!(driven.asked(), [ClientId(5), ClientId(6)]);
    driven.answer(5, Recalled::Held);
    driven.answer(6, Recalled::Unknown);
    // The writer is idle, and is asked for again.
    assert_eq!(driven.asked(), [ClientId(5)]);
    assert_eq!(driven.open_ports(), [WRITER]);
    driven.answer(5, Recalled::Unknown);
    assert!(driven.asked().is_empty() && driven.open_ports().is_empty());
    driven.now_ms += 60_000;
    assert!(driven.handle(Input::Tick).is_empty() && driven.deadline_ms().is_none(), "nothing is in doubt");
}

#[test]
fn a_program_that_no_node_knows_is_gone_in_time() {
    let mut driven = follower();
    let mut asked = 0;
    while !driven.open_ports().is_empty() {
        asked += driven.asked().len();
    }
    assert!(asked >= 4, "their nodes are asked again: {asked}");
    assert!(driven.asked().is_empty());
    assert_eq!(driven.deadline_ms(), None, "nothing is in doubt");
}

#[test]
fn a_port_that_asks_something_is_gone_with_its_link() {
    let mut driven = follower();
    driven.free(4);
    assert_eq!(driven.asked(), [ClientId(5)], "the reader is here");
    driven.free(8);
    driven.handle(Input::LinkGone { link: 4 });
    assert_eq!(driven.open_ports(), [WRITER, READER], "it is on another link, too");
    driven.handle(Input::LinkGone { link: 8 });
    assert_eq!(driven.open_ports(), [WRITER]);
}

#[test]
fn a_port_that_a_home_refused_is_none_of_its_link() {
    let mut driven = follower();
    let at = ArrayAt { slot: Slot(0), grant: Grant::default(), offset: 0 };
    for reader in 100..200 {
        let open = QueueRequest::OpenReader { first: 0, count: 1, reader };
        assert_eq!(driven.ask(3, 1, SyncRequest::Queue(at, open)), [(3, 1, false)]);
    }
    assert_eq!(driven.home.port_count(3), 0);
    let open = QueueRequest::OpenLane { queue: 0, writer: 9 };
    assert_eq!(driven.ask(3, 1, SyncRequest::Queue(at, open)), [(3, 1, true)]);
    assert_eq!(driven.home.port_count(3), 1);
    let close = QueueRequest::CloseLane { queue: 0, lane: 1, writer: 9 };
    assert_eq!(driven.ask(3, 2, SyncRequest::Queue(at, close)), [(3, 2, true)]);
    assert_eq!(driven.home.port_count(3), 0);
}
