//! A node whose programs and neighbours say what they like of shared regions.

use super::frames::NodeFrames;
use super::memory::HomeMemory;
use super::*;
use crate::persistence::Keeper;
use hanare_home::{
    Home, HostFrames, LockTerms, Output, PageInput, PageOutput, PageTerms, Pages, SLOTS, Vector, Vectors, WireOutput,
};
use hanare_memory::Mapping;
use hanare_memory::file::Huge;
use hanare_memory::frames::Run;
use hanare_memory::{Lender, LenderOptions};
use hanare_protocol::id::{ClientId, Epoch, Incarnation, User};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::membership::Over;
use hanare_protocol::page::{Access, Consistency, HostId, Page, Ticket, ToHome, Version};
use hanare_protocol::placement::{Extent, Layout, Span};
use hanare_protocol::versions::NEWEST;
use hanare_protocol::wire::control::{FilePart, Made, NodeAddress, RegionView};
use hanare_protocol::wire::page::{
    Frame, Granted, Join, Joined, NodeMessage, Outcome, PageRequest, Settled, decode_frame, encode_frame,
};
use hanare_ring::page_word::{LOSS_SLOT, PageWords, page_words_len, slot};
use hanare_ring::words::Shared;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ELSEWHERE: NodeId = NodeId(1);

fn extents() -> Arc<Extents> {
    let options =
        LenderOptions { bytes: 8 << 20, slab_len: Some(1 << 20), huge: Huge::Never, ahead: 0, ..LenderOptions::default() };
    Arc::new(Extents::new(Arc::new(Lender::new(&options).unwrap())))
}

/// Time passes nowhere here.
const NOW: Duration = Duration::from_secs(1);

/// The home of a node whose locks and words reach no memory.
type TestHome = Home<NodePages, Vector>;

fn tell<'a>(regions: &mut TestHome, input: impl Into<HomeInput<'a>>) {
    regions.handle(NOW, input.into(), &Vectors::default());
}

fn poll(regions: &mut TestHome) -> Option<PageOutput<NodePages>> {
    match regions.poll(&Vectors::default())? {
        Output::Pages(output) => Some(output),
        Output::Sync(output) => unreachable!("nobody asks for {output:?}"),
        Output::Copies(output) => unreachable!("nothing has copies: {output:?}"),
    }
}

/// A node that draws this number alone.
const KEY: u64 = 44;

fn regions() -> TestHome {
    regions_on(extents())
}

fn regions_on(extents: Arc<Extents>) -> TestHome {
    let terms = PageTerms { address: "here".to_owned(), life: Incarnation(1), answer: Duration::from_secs(1), frames_max: 64 };
    let mut regions = Home::new(LockTerms::default(), 1, Pages::new(terms, NodePages { extents, draw: || Ok(KEY) }));
    tell(&mut regions, PageInput::Identity { node: NodeId(0), epoch: Epoch(1) });
    regions
}

/// A program's request to share a remote region.
fn share(len: u64) -> RegionRequest {
    let extents = vec![Extent { node: ELSEWHERE, slot: Slot(0), len }];
    let view = RegionView {
        copies: 1,
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
    RegionRequest::Share { view: Box::new(view), consistency: Consistency::Coherent, uid: 1, follows: false }
}

fn map(regions: &mut TestHome, client: u64) {
    tell(regions, PageInput::Request { client: ClientId(client), request: share(4 * PAGE_LEN) });
}

/// The home elsewhere lets the host in, by the share 5, over a connection of its node.
fn let_in(regions: &mut TestHome) {
    let joined = Joined { host: HostId(1), share: 5, rights: Rights::Write, epoch: Epoch(1) };
    let frames = [
        encode_frame(&Frame::Hail { node: ELSEWHERE, life: Incarnation(2), address: "there".to_owned(), channel: 1 }, None),
        frame(1, NodeMessage::Joined { key: KEY, result: Ok(joined) }, None),
    ];
    tell(regions, PageInput::Frames { place: FROM, frames: &frames });
}

fn refusals(regions: &mut TestHome) -> usize {
    std::iter::from_fn(|| poll(regions)).filter(|output| matches!(output, PageOutput::Reply { result: Err(_), .. })).count()
}

/// More programs than a stack has levels wait for their turn, and none of them may map the region.
#[test]
fn programs_that_are_refused_in_a_row_are_no_levels_of_the_stack() {
    const COUNT: u64 = 10_000;
    let run = || {
        let mut regions = regions();
        map(&mut regions, 0);
        let_in(&mut regions);
        (1..=COUNT).for_each(|client| map(&mut regions, client));
        assert_eq!(refusals(&mut regions), 0, "they wait for the one that is asked for");
        // The first program has copies that the home's next life knows nothing of.
        tell(&mut regions, PageInput::NodeLost { node: ELSEWHERE, over: Over::All });
        refusals(&mut regions)
    };
    let refused = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
    assert_eq!(refused as u64, COUNT);
}

/// A node elsewhere wants to map a region that lies here.
fn join(len: u64, (slot, grant): (Slot, Grant)) -> Join {
    let extents = vec![Extent { node: NodeId(0), slot, len }];
    Join {
        gid: Gid(1),
        name: "a".to_owned(),
        layout: Layout { spans: vec![Span { len, chunk: len, extents }] },
        grants: vec![grant],
        consistency: Consistency::Coherent,
        node: ELSEWHERE,
        epoch: Epoch(1),
        readers: None,
        address: "there".to_owned(),
        key: 1,
    }
}

/// A thread's link keeps the last reply until it grants anew: long after its host has left the region.
#[test]
fn a_reply_keeps_nobody_from_the_memory_of_a_region_that_was_left() {
    const LEN: u64 = 256 * PAGE_LEN;
    let extents = extents();
    let held = extents.make(Gid(1), &[LEN], false).unwrap()[0];
    let mut regions = regions_on(extents.clone());
    let hail =
        encode_frame(&Frame::Hail { node: ELSEWHERE, life: Incarnation(2), address: "there".to_owned(), channel: 1 }, None);
    hear(&mut regions, &[hail, frame(1, NodeMessage::Join(join(LEN, (held.slot, held.write))), None)]);
    let files = || extents.files((held.slot, held.write), ClientId(1), true).map(drop);
    assert!(files().is_err(), "it is mapped");
    // A node that draws one number alone gives it to its first share, too.
    let ticket = Ticket { slot: 1, number: 1 };
    let request = PageRequest { page: 0, ticket, access: Access::Read, has: None, firm: false, tries: false };
    tell(&mut regions, PageInput::PageRequests { session: 9, seq: 1, share: KEY, requests: &[request] });
    let granted = std::iter::from_fn(|| poll(&mut regions)).find_map(|output| match output {
        PageOutput::Grant { reply, .. } => Some(SealedReply::new(reply)),
        _ => None,
    });
    let reply = granted.unwrap();
    assert_eq!(reply.pages.len(), 1, "the page lies in the extent");
    hear(&mut regions, &[frame(2, NodeMessage::Leave { share: KEY }, None)]);
    files().unwrap();
    drop(reply);
}

/// A page is a hole while it is taken out of mappings. Who writes extents down meanwhile does not see that.
#[test]
fn pages_that_are_taken_out_of_mappings_are_written_down_as_they_are() {
    const LEN: u64 = 256 * PAGE_LEN;
    let (extents, folder) = (extents(), tempfile::tempdir().unwrap());
    let held = extents.make(Gid(1), &[LEN], false).unwrap()[0];
    let bytes = vec![7; LEN as usize];
    extents.describe()[0].1.reach().window().write_from(&bytes).unwrap();
    let memory = HomeMemory::open(&join(LEN, (held.slot, held.write)), NodeId(0), &extents).unwrap();
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

/// A host that has joined a home elsewhere, over those connections.
fn joined() -> TestHome {
    let mut regions = regions();
    map(&mut regions, 0);
    tell(&mut regions, PageInput::Dialed { node: ELSEWHERE, place: Some(TO), spoken: NEWEST });
    let_in(&mut regions);
    while poll(&mut regions).is_some() {}
    regions
}

fn hear(regions: &mut TestHome, frames: &[Vec<u8>]) {
    tell(regions, PageInput::Frames { place: FROM, frames });
}

/// The messages that leave, and whether a connection or a thread's link is closed.
fn done(regions: &mut TestHome) -> (Vec<NodeMessage>, bool) {
    let (mut said, mut closes) = (Vec::new(), false);
    while let Some(output) = poll(regions) {
        match output {
            PageOutput::Wire(WireOutput::Send { place: TO, frame }) => {
                if let Frame::Message(_, message) = decode_frame(&frame.into_bytes()).unwrap().0 {
                    said.push(message);
                }
            }
            PageOutput::Wire(WireOutput::Close { .. }) | PageOutput::End { .. } => closes = true,
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
    hear(&mut regions, &[frame(2, late(98), Some(&page)), frame(3, late(99), Some(&page))]);
    let not_shared = |share| NodeMessage::NotShared { share };
    assert_eq!(done(&mut regions), (vec![not_shared(98), not_shared(99)], false));

    let ticket = Ticket { slot: 1, number: 1 };
    let request = PageRequest { page: 0, ticket, access: Access::Read, has: None, firm: false, tries: false };
    tell(&mut regions, PageInput::PageRequests { session: 9, seq: 1, share: 99, requests: &[request, request] });
    let Some(PageOutput::Grant { session: 9, seq: 1, reply }) = poll(&mut regions) else { panic!("the thread is told") };
    let reply = SealedReply::new(reply);
    let record = Granted::without(Outcome::NotShared).encode();
    assert_eq!((reply.count, reply.records, reply.pages.len()), (2, [record, record].concat(), 0));
    let settled = [Settled { page: 0, ticket, version: Version(1) }];
    tell(&mut regions, PageInput::Settled { session: 9, share: 99, settled: &settled });
    assert_eq!(done(&mut regions), (Vec::new(), false));

    hear(&mut regions, &[vec![0xff; 40]]);
    assert_eq!(done(&mut regions), (Vec::new(), true), "what is malformed ends its connection");
}

#[test]
fn a_host_that_its_home_does_not_know_drops_what_it_has_and_says_so() {
    let mut regions = joined();
    hear(&mut regions, &[frame(2, NodeMessage::NotShared { share: 6 }, None)]);
    assert_eq!(done(&mut regions), (Vec::new(), false), "that share was another's");
    hear(&mut regions, &[frame(3, NodeMessage::NotShared { share: 5 }, None)]);
    assert_eq!(done(&mut regions), (vec![NodeMessage::Forgot { share: 5 }], false));
    hear(&mut regions, &[frame(4, NodeMessage::NotShared { share: 5 }, None)]);
    assert_eq!(done(&mut regions), (Vec::new(), false), "it was told before");
}

#[test]
fn programs_hear_of_lost_stores_in_their_own_mapping() {
    let extents = vec![Extent { node: ELSEWHERE, slot: Slot(0), len: PAGE_LEN }];
    let layout = Layout { spans: vec![Span { len: PAGE_LEN, chunk: PAGE_LEN, extents }] };
    let terms = FrameTerms { name: "r", layout: &layout, home_of: &[0], home_count: 1, slots: SLOTS };
    let frames = NodeFrames::new(terms).unwrap();
    let [words_file, _frames] = <[OwnedFd; 2]>::try_from(frames.files().unwrap().1).unwrap();
    let len = page_words_len(1, SLOTS).next_multiple_of(PAGE_LEN);
    let mut memory = Mapping::reserve(len).unwrap();
    memory.map_file(0, words_file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write).unwrap();
    // SAFETY: used while the mapping is there.
    let words = PageWords::new(Shared::new(unsafe { memory.window() }), 1, SLOTS);
    assert_eq!(words.counted(LOSS_SLOT..LOSS_SLOT + 1, slot::LOST), 0);
    frames.tell_loss();
    assert_eq!(words.counted(LOSS_SLOT..LOSS_SLOT + 1, slot::LOST), 1);
}
