//! Shared regions at one node, without another: frames of other nodes are written here.

mod copied;

use super::vectors::{PageVectors, VectorFrames};
use super::*;
use crate::memory::{Bytes, Need, Recall};
use crate::{Home, Input, LockTerms, Output, SyncOutput, Vector, Vectors, Waiter};
use hanare_protocol::id::{Grant, Incarnation, Rights, Slot, User};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::host::HostMemory;
use hanare_protocol::page::word::{Fault, Fill};
use hanare_protocol::page::{Access, Consistency, Hosts, Page, Ticket, ToHome, ToHost, Version};
use hanare_protocol::placement::{Extent, Layout, Span};
use hanare_protocol::versions::NEWEST;
use hanare_protocol::wire::control::{Answer, Made, NodeAddress, RegionView};
use hanare_protocol::wire::page::{Frame, Join, Joined, NodeMessage, encode_frame};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest, Wait, WaitedWord, Word};

const GID: Gid = Gid(1);
const ME: NodeId = NodeId(0);
const OTHER: NodeId = NodeId(1);
const NOW: Duration = Duration::from_secs(1);
/// The connection of the other node.
const PLACE: u64 = 5;

/// The other node's host will map the region, and calls itself so.
fn join(key: u64) -> NodeMessage {
    let extents = vec![Extent { node: ME, slot: Slot(0), len: PAGE_LEN }];
    NodeMessage::Join(Join {
        gid: GID,
        name: "a".to_owned(),
        layout: Layout { spans: vec![Span { len: PAGE_LEN, chunk: PAGE_LEN, extents }] },
        grants: vec![Grant::default()],
        consistency: Consistency::Coherent,
        node: OTHER,
        epoch: Epoch(1),
        readers: None,
        address: "there".to_owned(),
        key,
    })
}

/// A node that has joined its pool, and that the other node has a connection to.
fn pages() -> Pages<PageVectors> {
    let mut pages = Pages::new(PageTerms { answer: Duration::from_secs(10), ..PageTerms::default() }, PageVectors::default());
    pages.handle(NOW, PageInput::Identity { node: ME, epoch: Epoch(1) });
    let hail = encode_frame(&Frame::Hail { node: OTHER, life: Incarnation(7), address: "there".to_owned(), channel: 1 }, None);
    pages.handle(NOW, PageInput::Frames { place: PLACE, frames: &[hail] });
    pages
}

fn hear(pages: &mut Pages<PageVectors>, first: u64, messages: impl IntoIterator<Item = NodeMessage>) {
    let numbered = (first..).zip(messages);
    let frames: Vec<Vec<u8>> = numbered.map(|(number, message)| encode_frame(&Frame::Message(number, message), None)).collect();
    pages.handle(NOW, PageInput::Frames { place: PLACE, frames: &frames });
}

fn need() -> Need {
    Need { gid: GID, slot: Slot(0), access: Access::Write, pages: vec![0] }
}

fn recall(pages: &mut Pages<PageVectors>, link: u64) -> Recall {
    pages.recall(NOW, Asker::Link(link), need()).unwrap()
}

/// A put holds a page. A program waits for a word of it, and another put for the page.
#[test]
fn a_word_s_page_and_a_command_s_come_home_in_turn() {
    let mut pages = pages();
    hear(&mut pages, 1, [join(77)]);
    let (memory, extent) = Vectors::of_pages(GID, 1, pages.memory.pages(GID));
    let mut home = Home::new(LockTerms::default(), 1, pages);
    let Ok(Recall::Ready(first)) = home.recall(NOW, 1, need()) else { panic!("nobody else has the page") };
    let word = WaitedWord { slot: Slot(0), grant: Grant::default(), offset: 8, until: Wait::Equal(Word::U64(5)) };
    let request = SyncRequest::Wait { words: vec![word], bound_ms: None };
    let (waiter, from) = (Waiter { link: 3, seq: 9 }, (CLIENT, User { uid: 1, gid: 1 }));
    home.handle(NOW, Input::Request { waiter, from, request }, &memory);
    let Ok(Recall::Waits(second)) = home.recall(NOW, 2, need()) else { panic!("the first holds the page") };
    let told = |home: &mut Home<PageVectors, Vector>| {
        let outputs = std::iter::from_fn(|| home.poll(&memory));
        let told = outputs.filter_map(|output| match output {
            Output::Sync(SyncOutput::Answer(waiter, outcome)) => Some((waiter.link, outcome.ok())),
            Output::Pages(PageOutput::Recalled { link, face, outcome: Ok(()) }) if face == second => Some((link, None)),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(&mut home), [], "both wait");
    extent.write(8, &5u64.to_le_bytes()).unwrap();
    home.handle(NOW, PageInput::Release(first).into(), &memory);
    let seen = told(&mut home);
    assert!(seen.len() == 2 && seen.contains(&(3, Some(SyncAnswer::Word { index: 0, seen: 5 }))), "{seen:?}");
    assert!(seen.contains(&(2, None)), "the page is the second's");
    home.handle(NOW, PageInput::Release(second).into(), &memory);
    assert!(home.pages().recalls.is_empty(), "each stage has ended, and the word's look");
    assert!(matches!(home.recall(NOW, 4, need()), Ok(Recall::Ready(_))), "nobody holds the page any more");
}

/// A put waits for another that holds its page. The only host that maps the region leaves and comes again, or comes as one that has begun
/// anew.
#[test]
fn a_command_that_waits_for_another_is_told_though_the_directory_begins_anew() {
    for leaves in [true, false] {
        let mut pages = pages();
        hear(&mut pages, 1, [join(77)]);
        let share = *pages.shares.keys().next().unwrap();
        let Recall::Ready(first) = recall(&mut pages, 1) else { panic!("nobody else has the page") };
        let Recall::Waits(second) = recall(&mut pages, 2) else { panic!("the first holds the page") };
        let leave = leaves.then_some(NodeMessage::Leave { share });
        hear(&mut pages, 2, leave.into_iter().chain([join(78)]));
        pages.handle(NOW, PageInput::Release(first));
        let is_told = |output| matches!(output, PageOutput::Recalled { face, outcome: Ok(()), .. } if face == second);
        assert!(std::iter::from_fn(|| pages.poll()).any(is_told), "leaves: {leaves}");
        pages.handle(NOW, PageInput::Release(second));
        pages.tick(NOW + LOOK_PAUSE);
        assert_eq!(pages.shares.len(), 1, "the host is let in");
        assert!(!pages.shares.contains_key(&share));
    }
}

/// The connection to the other node.
const TO: u64 = 7;
const CLIENT: ClientId = ClientId(3);

/// A program wants to map a region whose page lies at the other node. Returns the key by which this host asks to join.
fn share(pages: &mut Pages<PageVectors>) -> u64 {
    let said = share_as(pages, (Consistency::Coherent, false), NEWEST);
    let key = said.into_iter().find_map(|message| match message {
        NodeMessage::Join(join) => Some(join.key),
        _ => None,
    });
    key.unwrap()
}

/// The same by a program that may follow the region. Returns what the other node hears, on a connection of that version.
fn share_as(pages: &mut Pages<PageVectors>, (consistency, follows): (Consistency, bool), spoken: u32) -> Vec<NodeMessage> {
    let extents = vec![Extent { node: OTHER, slot: Slot(0), len: PAGE_LEN }];
    let view = RegionView {
        copies: if follows && consistency == Consistency::Coherent { 2 } else { 1 },
        name: "a".to_owned(),
        gid: GID,
        owner: User { uid: 1, gid: 1 },
        mode: 0o600,
        rights: Rights::Write,
        layout: Layout { spans: vec![Span { len: PAGE_LEN, chunk: PAGE_LEN, extents }] },
        grants: vec![Grant::default()],
        nodes: vec![NodeAddress { node: OTHER, epoch: Epoch(1), address: "there".to_owned() }],
        attributes: Default::default(),
        made: Made::Found,
    };
    let request = RegionRequest::Share { view: Box::new(view), consistency, uid: 1, follows };
    pages.handle(NOW, PageInput::Request { client: CLIENT, request });
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken });
    said(pages)
}

/// The messages to the other node.
fn said(pages: &mut Pages<PageVectors>) -> Vec<NodeMessage> {
    let sent = std::iter::from_fn(|| pages.poll()).filter_map(|output| match output {
        PageOutput::Wire(WireOutput::Send { place: TO, frame }) => Some(frame.into_bytes()),
        _ => None,
    });
    let frames = sent.map(|bytes| decode_frame(&bytes).unwrap().0).collect::<Vec<Frame>>().into_iter();
    frames.filter_map(|frame| if let Frame::Message(_, message) = frame { Some(message) } else { None }).collect()
}

const JOINED: Joined = Joined { host: HostId(1), share: 5, rights: Rights::Write, epoch: Epoch(1) };

/// A node that was taken for lost hears that it is let in, by the key of its life before. It has made no connection since.
#[test]
fn a_home_hears_that_the_host_it_let_in_is_no_more() {
    let mut pages = pages();
    let key = share(&mut pages);
    pages.handle(NOW, PageInput::Identity { node: NodeId(9), epoch: Epoch(2) });
    hear(&mut pages, 1, [NodeMessage::Joined { key, result: Ok(JOINED) }]);
    let dials = |output: &PageOutput<PageVectors>| matches!(output, PageOutput::Wire(WireOutput::Dial { node: OTHER, address }) if address == "there");
    assert!(std::iter::from_fn(|| pages.poll()).any(|output| dials(&output)));
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    assert_eq!(said(&mut pages), [NodeMessage::Forgot { share: 5 }]);
}

/// The other node lets this host in by its key. The program gets its first slot, and the words and frames.
fn let_in(pages: &mut Pages<PageVectors>, key: u64) -> (u16, VectorFrames) {
    hear(pages, 1, [NodeMessage::Joined { key, result: Ok(JOINED) }]);
    let shared = std::iter::from_fn(|| pages.poll()).find_map(|output| match output {
        PageOutput::Reply { result: Ok(Answer::Shared(view)), files: Some(frames), .. } => Some((view.slot_first, frames)),
        _ => None,
    });
    shared.unwrap()
}

/// A program writes to its words what it likes, and says again and again that its link broke. The home confirms nothing.
#[test]
fn a_hostile_program_does_not_fill_its_node_with_requests() {
    let mut pages = pages();
    let key = share(&mut pages);
    let (slot, mut frames) = let_in(&mut pages, key);
    let mut count = 0;
    for _ in 0..2 * u32::from(SLOTS) {
        frames.forget(Page(0));
        frames.fault(Page(0), slot, Access::Write).unwrap();
        pages.handle(NOW, PageInput::TakeOver { client: CLIENT, gid: GID, slots: 0..u16::MAX });
        count += said(&mut pages).len();
    }
    assert!(count <= usize::from(SLOTS), "{count} requests are kept");
}

/// A home may have granted what a thread asked for whose link broke. The host does not leave before it knows.
#[test]
fn what_a_thread_with_a_broken_link_asked_for_is_not_left_behind() {
    let mut pages = pages();
    let key = share(&mut pages);
    let (slot, mut frames) = let_in(&mut pages, key);
    let page = Page(0);
    assert!(matches!(frames.fault(page, slot, Access::Write), Ok(Fault::Fetch { .. })));
    let ticket = Ticket { slot, number: frames.number(slot) };
    pages.handle(NOW, PageInput::TakeOver { client: ClientId(4), gid: GID, slots: slot..slot + 1 });
    assert_eq!(said(&mut pages), [], "the slot is another program's");
    pages.handle(NOW, PageInput::TakeOver { client: CLIENT, gid: GID, slots: slot..slot + 1 });
    let request = ToHome::Request { ticket, access: Access::Write, has: None, firm: false };
    assert_eq!(said(&mut pages), [NodeMessage::ToHome { share: 5, page, message: request }]);

    pages.handle(NOW, PageInput::Request { client: CLIENT, request: RegionRequest::Unshare { gid: GID } });
    pages.tick(NOW + LOOK_PAUSE);
    let leaves = |said: &[NodeMessage]| said.contains(&NodeMessage::Leave { share: 5 });
    assert!(!leaves(&said(&mut pages)), "a page of it may be on its way");
    let grant =
        ToHost::Grant { ticket, version: Version(5), access: Access::Write, has_bytes: true, awaits: Hosts::NONE, firm: false };
    let frame = Frame::Message(2, NodeMessage::ToHost { key, page, message: grant });
    pages.handle(NOW, PageInput::Frames { place: PLACE, frames: &[encode_frame(&frame, Some(&[7; PAGE_LEN as usize]))] });
    pages.tick(NOW + 2 * LOOK_PAUSE);
    let said = said(&mut pages);
    let is_home = |message: &NodeMessage| matches!(message, NodeMessage::ToHome { message: ToHome::WriteBack { .. }, .. });
    assert!(said.iter().any(is_home) && leaves(&said), "{said:?}");
}

/// A thread claims a page of a home that shares nothing with this host any more, and its link breaks. Nobody replies to what its node asks.
#[test]
fn what_is_taken_over_after_the_end_of_a_membership_fails() {
    let mut pages = pages();
    let key = share(&mut pages);
    let (slot, mut frames) = let_in(&mut pages, key);
    hear(&mut pages, 2, [NodeMessage::NotShared { share: 5 }]);
    frames.fault(Page(0), slot, Access::Write).unwrap();
    pages.handle(NOW, PageInput::TakeOver { client: CLIENT, gid: GID, slots: slot..slot + 1 });
    assert!(!frames.look(Page(0)).is_claimed());
}

/// A node that was taken for lost begins anew. A home that has not heard so grants a page to a thread; it goes when the home has.
#[test]
fn a_page_that_came_to_a_host_that_began_anew_goes_again() {
    let mut pages = pages();
    let key = share(&mut pages);
    let (slot, mut frames) = let_in(&mut pages, key);
    pages.handle(NOW, PageInput::Identity { node: ME, epoch: Epoch(2) });
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    assert!(said(&mut pages).contains(&NodeMessage::Forgot { share: 5 }));
    let (page, version) = (Page(0), Version(5));
    frames.fault(page, slot, Access::Read).unwrap();
    assert_eq!(frames.change(page, |word| word.fill(slot, version, Access::Read)), Ok(Fill::Go));
    frames.begin_fill(page, (slot, version), Some([7; PAGE_LEN as usize].into()));
    frames.end_fill(page, slot).unwrap();
    assert!(frames.look(page).may_map(Access::Read));
    hear(&mut pages, 2, [NodeMessage::NotShared { share: 5 }]);
    assert!(!frames.look(page).may_map(Access::Read));
}

/// Messages wait for a connection to another node. When it is there, another life of the node answers, which waits for them.
#[test]
fn what_is_for_the_next_life_of_a_node_is_said_again() {
    const THIRD: NodeId = NodeId(7);
    let mut pages = pages();
    let key = share(&mut pages);
    let_in(&mut pages, key);
    let introduced = NodeMessage::Introduce { key, host: HostId(2), node: THIRD, address: "far".to_owned(), its_key: 99 };
    let message = ToHost::Invalidate { version: Version(5), tell: Some(HostId(2)) };
    hear(&mut pages, 2, [introduced, NodeMessage::ToHost { key, page: Page(0), message }]);
    let hail = Frame::Hail { node: THIRD, life: Incarnation(2), address: "far".to_owned(), channel: 1 };
    let NodeMessage::Join(asked) = join(98) else { unreachable!() };
    let join = Frame::Message(1, NodeMessage::Join(Join { node: THIRD, grants: Vec::new(), ..asked }));
    pages.handle(NOW, PageInput::Frames { place: 20, frames: &[hail, join].map(|frame| encode_frame(&frame, None)) });
    let mut answer = |place, life| {
        pages.handle(NOW, PageInput::Dialed { node: THIRD, place: Some(place), spoken: NEWEST });
        let frames = [encode_frame(&Frame::Answers(Incarnation(life)), None)];
        pages.handle(NOW, PageInput::Frames { place, frames: &frames });
        let outputs: Vec<_> = std::iter::from_fn(|| pages.poll()).collect();
        pages.handle(NOW, PageInput::WireGone { place });
        let is_waited_for = |output: &&PageOutput<PageVectors>| {
            let PageOutput::Wire(WireOutput::Send { frame, .. }) = output else { return false };
            match decode_frame(&frame.clone().into_bytes()).unwrap().0 {
                Frame::Message(_, NodeMessage::ToHost { key, .. } | NodeMessage::Joined { key, .. }) => [98, 99].contains(&key),
                _ => false,
            }
        };
        outputs.iter().filter(is_waited_for).count()
    };
    assert_eq!(answer(11, 1), 2, "nobody has confirmed them");
    assert_eq!(answer(12, 2), 2, "they go to whoever answers");
    assert_eq!(answer(13, 2), 2, "and are not forgotten with the life before");
}

#[test]
fn a_home_hears_that_a_program_follows_if_it_knows_the_word() {
    for (spoken, knows) in [(NEWEST, true), (27, false)] {
        let said = share_as(&mut pages(), (Consistency::Explicit, true), spoken);
        assert!(
            matches!(said[..], [NodeMessage::JoinFollowing(_)] if knows) || matches!(said[..], [NodeMessage::Join(_)] if !knows)
        );
    }
}

#[test]
fn a_region_that_moved_is_mapped_beside_programs_that_mapped_it_before_unless_its_pages_are_passed_on() {
    const THIRD: NodeId = NodeId(7);
    for consistency in [Consistency::Explicit, Consistency::Coherent] {
        let mut pages = pages();
        let asked = |node, slot, key| {
            let NodeMessage::Join(Join { mut layout, .. }) = join(key) else { unreachable!() };
            layout.extents_mut().for_each(|extent| extent.slot = Slot(slot));
            let NodeMessage::Join(asked) = join(key) else { unreachable!() };
            let join = Join { layout, consistency, node, ..asked };
            if consistency == Consistency::Coherent { NodeMessage::Join(join) } else { NodeMessage::JoinFollowing(join) }
        };
        hear(&mut pages, 1, [asked(OTHER, 0, 77)]);
        let hail = Frame::Hail { node: THIRD, life: Incarnation(2), address: "far".to_owned(), channel: 1 };
        let frames = [hail, Frame::Message(1, asked(THIRD, 1, 98))].map(|frame| encode_frame(&frame, None));
        pages.handle(NOW, PageInput::Frames { place: 20, frames: &frames });
        let home = &pages.homes[&GID];
        assert_eq!([77, 98].map(|key| home.knows(key)), [true, consistency == Consistency::Explicit]);
    }
}
