//! A node whose programs and neighbours say what they like of shared regions.

use super::memory::HomeMemory;
use super::*;
use crate::kept::Keeper;
use hanare_memory::file::Huge;
use hanare_memory::frames::Run;
use hanare_memory::{Lender, LenderOptions};
use hanare_protocol::id::{Grant, Rights, Slot, User};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Consistency, Page, Ticket, ToHome, Version};
use hanare_protocol::place::{Extent, Layout, Span};
use hanare_protocol::wire::control::{Made, NodeAddress, RegionView};
use hanare_protocol::wire::page::{Frame, Granted, Join, Joined, NodeMessage, Outcome, encode_frame};
use std::sync::atomic::{AtomicBool, Ordering};

const ELSEWHERE: NodeId = NodeId(1);

fn extents() -> Arc<Extents> {
    let options = LenderOptions { bytes: 8 << 20, slab_len: Some(1 << 20), huge: Huge::Never, ahead: 0, promises: None };
    Arc::new(Extents::new(Arc::new(Lender::new(&options).unwrap())))
}

fn regions() -> SharedRegions {
    let mut regions = SharedRegions::new(extents(), "here".into(), Incarnation(1), Duration::from_secs(1), (64, false));
    regions.set_identity(NodeId(0), Epoch(1));
    regions
}

/// What a program says of a region at home elsewhere.
fn share(len: u64) -> RegionRequest {
    let extents = vec![Extent { node: ELSEWHERE, slot: Slot(0), len }];
    let view = RegionView {
        name: "a".to_owned(),
        gid: Gid(1),
        owner: User { uid: 1000, gid: 1000 },
        mode: 0o600,
        rights: Rights::Write,
        layout: Layout { spans: vec![Span { len, chunk: len, extents }] },
        grants: vec![Grant([1; 16])],
        nodes: vec![NodeAddress { node: ELSEWHERE, epoch: Epoch(1), address: "there".to_owned() }],
        attributes: Default::default(),
        made: Made::Found,
    };
    RegionRequest::Share { view: Box::new(view), consistency: Consistency::Coherent, uid: 1 }
}

fn refusals(regions: &mut SharedRegions) -> usize {
    std::iter::from_fn(|| regions.poll()).filter(|action| matches!(action, Action::Reply { result: Err(_), .. })).count()
}

/// More programs than a stack has levels wait for their turn, and none of them may map the region.
#[test]
fn programs_that_are_refused_in_a_row_are_no_levels_of_the_stack() {
    const COUNT: u64 = 10_000;
    let run = || {
        let (mut regions, there) = (regions(), (ELSEWHERE, Incarnation(2)));
        regions.on_request(ClientId(0), share(4 * PAGE_LEN));
        let key = *regions.keys.keys().next().unwrap();
        regions.on_joined(key, there, Ok(Joined { host: HostId(1), share: 5, rights: Rights::Write }));
        regions.on_request(ClientId(1), share(4 * PAGE_LEN));
        for client in 2..=COUNT {
            regions.on_request(ClientId(client), share(4 * PAGE_LEN));
        }
        assert_eq!(refusals(&mut regions), 0, "they wait for the one that is asked for");
        // The first program has copies that the home's next life knows nothing of.
        regions.on_node_lost(ELSEWHERE, Over::All);
        refusals(&mut regions)
    };
    let refused = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
    assert_eq!(refused as u64, COUNT);
}

/// A page is a hole while it is taken out of mappings: who writes extents down meanwhile does not see that.
#[test]
fn pages_that_are_taken_out_of_mappings_are_written_down_as_they_are() {
    const LEN: u64 = 256 * PAGE_LEN;
    let (extents, folder) = (extents(), tempfile::tempdir().unwrap());
    let held = extents.make(Gid(1), &[LEN]).unwrap()[0];
    let bytes = vec![7; LEN as usize];
    extents.describe()[0].1.reach().window().write_from(&bytes).unwrap();
    let layout = Layout {
        spans: vec![Span { len: LEN, chunk: LEN, extents: vec![Extent { node: NodeId(0), slot: held.slot, len: LEN }] }],
    };
    let join = Join {
        gid: Gid(1),
        name: "a".to_owned(),
        layout,
        grants: vec![held.write],
        consistency: Consistency::Coherent,
        node: ELSEWHERE,
        epoch: Epoch(1),
        readers: None,
        address: "there".to_owned(),
        key: 1,
    };
    let memory = HomeMemory::open(&join, NodeId(0), &extents).unwrap();
    let keeper = Keeper::open(folder.path(), Incarnation(1), "n").unwrap();
    keeper.on_joined();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                memory.unmap(Run { first: 0, count: LEN / PAGE_LEN }).unwrap();
            }
        });
        let is_whole = |_| {
            keeper.write(&extents).unwrap();
            let after = self::extents();
            keeper.restore(&after).unwrap();
            let mut found = vec![0; LEN as usize];
            after.describe()[0].1.reach().window().read_into(&mut found).unwrap();
            found == bytes
        };
        let all = (0..20).all(is_whole);
        is_over.store(true, Ordering::Relaxed);
        assert!(all);
    });
}

fn frame(number: u64, message: NodeMessage, page: Option<&[u8]>) -> Vec<u8> {
    encode_frame(&Frame::Message(number, message), page)
}

/// A connection of another node, and one to it.
const FROM: u64 = 5;
const TO: u64 = 7;

/// A host that has joined a home elsewhere, by the share 5, over those connections.
fn joined() -> SharedRegions {
    let mut regions = regions();
    regions.on_request(ClientId(0), share(4 * PAGE_LEN));
    regions.dialed(ELSEWHERE, Some(TO));
    let key = *regions.keys.keys().next().unwrap();
    regions.on_joined(key, (ELSEWHERE, Incarnation(2)), Ok(Joined { host: HostId(1), share: 5, rights: Rights::Write }));
    regions.on_frames(FROM, &[encode_frame(&Frame::Hail { node: ELSEWHERE, life: Incarnation(2), channel: 1 }, None)]);
    while regions.poll().is_some() {}
    regions
}

/// The messages that leave, and whether a connection or a thread's link is closed.
fn done(regions: &mut SharedRegions) -> (Vec<NodeMessage>, bool) {
    let (mut said, mut closes) = (Vec::new(), false);
    while let Some(action) = regions.poll() {
        match action {
            Action::Send { place: TO, bytes } => {
                if let Frame::Message(_, message) = decode_frame(&bytes).unwrap().0 {
                    said.push(message);
                }
            }
            Action::Close { .. } | Action::End { .. } => closes = true,
            _ => {}
        }
    }
    (said, closes)
}

#[test]
fn late_pages_are_answered_and_their_connection_serves_on() {
    let mut regions = joined();
    let late = |share| {
        let message = ToHome::WriteBack { version: Version(1), keeps: false };
        NodeMessage::ToHome { share, page: Page(0), message }
    };
    let page = [0; PAGE_LEN as usize];
    regions.on_frames(FROM, &[frame(1, late(98), Some(&page)), frame(2, late(99), Some(&page))]);
    let not_shared = |share| NodeMessage::NotShared { share };
    assert_eq!(done(&mut regions), (vec![not_shared(98), not_shared(99)], false));

    let ticket = Ticket { seat: 1, number: 1 };
    let request = PageRequest { page: 0, ticket, access: Access::Read, has: None, firm: false, tries: false };
    regions.on_page_requests(9, 1, 99, &[request, request]);
    let Some(Action::Grant { session: 9, seq: 1, reply }) = regions.poll() else { panic!("the thread is told") };
    let record = Granted::without(Outcome::NotShared).encode();
    assert_eq!((reply.count, reply.records, reply.pages.len()), (2, [record, record].concat(), 0));
    regions.on_settled(9, 99, &[Settled { page: 0, ticket, version: Version(1) }]);
    assert_eq!(done(&mut regions), (Vec::new(), false));

    regions.on_frames(FROM, &[vec![0xff; 40]]);
    assert_eq!(done(&mut regions), (Vec::new(), true), "what is malformed ends its connection");
}

#[test]
fn a_host_that_its_home_does_not_know_drops_what_it_has_and_says_so() {
    let mut regions = joined();
    regions.on_frames(FROM, &[frame(1, NodeMessage::NotShared { share: 6 }, None)]);
    assert_eq!(done(&mut regions), (Vec::new(), false), "that share was another's");
    regions.on_frames(FROM, &[frame(2, NodeMessage::NotShared { share: 5 }, None)]);
    assert_eq!(done(&mut regions), (vec![NodeMessage::Forgot { share: 5 }], false));
    regions.on_frames(FROM, &[frame(3, NodeMessage::NotShared { share: 5 }, None)]);
    assert_eq!(done(&mut regions), (Vec::new(), false), "it was told before");
}
