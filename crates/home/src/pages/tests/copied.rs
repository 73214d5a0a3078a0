//! A home of pages whose bytes have copies, and a host of such a home. Tests say what the copies have.

use super::*;
use hanare_protocol::copies::{MappingHost, PageChange, PageTable};
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};

const SLOT: Slot = Slot(0);
const KEY: u64 = 77;
/// Pages of the region: more than one write has.
const PAGES: u64 = 200;

fn follows(key: u64) -> NodeMessage {
    let NodeMessage::Join(mut join) = join(key) else { unreachable!() };
    join.readers = (key == 78).then_some(1);
    join.layout = Layout { spans: vec![Span { len: PAGES * PAGE_LEN, chunk: 0, extents: vec![extent(ME)] }] };
    NodeMessage::JoinFollowing(join)
}

fn extent(node: NodeId) -> Extent {
    Extent { node, slot: SLOT, len: PAGES * PAGE_LEN }
}

/// The next write to the copies.
fn next(pages: &mut Pages<PageVectors>) -> Option<(u64, ExtentWrite)> {
    pages.next_write().map(|WriteOfPages { gid, slot, number, write }| {
        assert_eq!((gid, slot, write.check(PAGES * PAGE_LEN)), (GID, SLOT, Ok(())));
        (number, write)
    })
}

/// All copies have all writes. Returns those.
fn written(pages: &mut Pages<PageVectors>) -> Vec<ExtentWrite> {
    let mut all = Vec::new();
    while let Some((number, write)) = next(pages) {
        all.push((number, write));
    }
    all.iter().for_each(|(number, _)| pages.on_written(GID, *number, Ok(())));
    all.into_iter().map(|(_, write)| write).collect()
}

/// A home with hosts of the other node, by those keys. Returns the share of each.
fn home(keys: &[u64]) -> (Pages<PageVectors>, Vec<u64>) {
    let mut pages = pages();
    pages.memory.set_copied(GID, (SLOT, true));
    hear(&mut pages, 1, keys.iter().map(|key| follows(*key)));
    while !written(&mut pages).is_empty() {}
    let share = |key: &u64| {
        let host = pages.homes[&GID].shares().into_iter().find(|(_, host)| pages.homes[&GID].key_of(*host) == Some(*key));
        host.unwrap().0
    };
    let shares = keys.iter().map(share).collect();
    (pages, shares)
}

/// The answer of a home to a request of a page to write.
fn wants(pages: &mut Pages<PageVectors>, (share, page, number): (u64, u64, u32), access: Access) -> Outcome {
    let ticket = Ticket { slot: 9, number };
    let request = PageRequest { page, ticket, access, has: None, firm: false, tries: false };
    pages.handle(NOW, PageInput::PageRequests { session: share, seq: 1, share, requests: &[request] });
    let granted = std::iter::from_fn(|| pages.poll()).find_map(|output| match output {
        PageOutput::Grant { reply, .. } => reply.answers().next().map(|(granted, _)| granted.outcome),
        _ => None,
    });
    granted.unwrap()
}

/// A host gets a page to write, and says so.
fn owns(pages: &mut Pages<PageVectors>, share: u64, page: u64) {
    assert_eq!(wants(pages, (share, page, page as u32 + 1), Access::Write), Outcome::Write);
    let settled = Settled { page, ticket: Ticket { slot: 9, number: page as u32 + 1 }, version: Version(2) };
    pages.handle(NOW, PageInput::Settled { session: share, share, settled: &[settled] });
}

/// A message with a page comes from the other node.
fn brings(pages: &mut Pages<PageVectors>, number: u64, (share, page, message): (u64, u64, ToHome), letter: u8) {
    let frame = Frame::Message(number, NodeMessage::ToHome { share, page: Page(page), message });
    let bytes = encode_frame(&frame, Some(&[letter; PAGE_LEN as usize]));
    pages.handle(NOW, PageInput::Frames { place: PLACE, frames: &[bytes] });
}

fn back(version: u32, keeps: bool) -> ToHome {
    ToHome::WriteBack { version: Version(version), keeps }
}

#[test]
fn a_host_is_let_in_when_all_holders_know_it() {
    let mut pages = pages();
    pages.memory.set_copied(GID, (SLOT, true));
    hear(&mut pages, 1, [follows(KEY)]);
    assert!(pages.shares.is_empty(), "they do not know it");
    let writes = written(&mut pages);
    let [ExtentWrite { call: Some(ExtentCall::Hosts(PageChange::Joins(host))), .. }] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!((host.key, host.node, host.process), (KEY, OTHER, Incarnation(7)));
    assert!(pages.shares.contains_key(&host.share), "by the membership that they know");
    let share = host.share;
    hear(&mut pages, 2, [NodeMessage::Leave { share }]);
    let writes = written(&mut pages);
    assert!(
        matches!(&writes[..], [ExtentWrite { call: Some(ExtentCall::Hosts(PageChange::Leaves { key: KEY })), .. }]),
        "{writes:?}"
    );
    assert!(pages.homes.is_empty() || pages.homes[&GID].is_done_with());
}

#[test]
fn a_program_of_an_older_release_and_a_region_in_parts_are_refused() {
    for several in [false, true] {
        let mut pages = pages();
        pages.memory.set_copied(GID, (SLOT, true));
        let NodeMessage::JoinFollowing(mut join) = follows(KEY) else { unreachable!() };
        if several {
            join.layout.spans.push(Span {
                len: PAGE_LEN,
                chunk: 0,
                extents: vec![Extent { node: ME, slot: Slot(1), len: PAGE_LEN }],
            });
            join.grants.push(Grant::default());
        }
        let message = if several { NodeMessage::JoinFollowing(join) } else { NodeMessage::Join(join) };
        hear(&mut pages, 1, [message]);
        pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
        let said = said(&mut pages);
        assert!(matches!(&said[..], [NodeMessage::Joined { key: KEY, result: Err(Error::BadUse { .. }) }]), "{said:?}");
        assert!(next(&mut pages).is_none());
    }
}

#[test]
fn a_page_that_came_home_is_given_on_when_all_holders_have_it() {
    let (mut pages, shares) = home(&[KEY, 78]);
    owns(&mut pages, shares[0], 3);
    assert_eq!(wants(&mut pages, (shares[1], 3, 50), Access::Read), Outcome::Later);
    brings(&mut pages, 10, (shares[0], 3, back(2, true)), b'a');
    let (number, write) = next(&mut pages).unwrap();
    assert_eq!((write.page(), &write.operand[..3]), (Some((Page(3), Version(2))), &b"aaa"[..]));
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    let is_grant = |message: &NodeMessage| matches!(message, NodeMessage::ToHost { key: 78, message: ToHost::Grant { .. }, .. });
    assert!(!said(&mut pages).iter().any(is_grant));
    pages.on_written(GID, number, Ok(()));
    assert!(said(&mut pages).iter().any(is_grant));
}

#[test]
fn the_last_release_counts_where_an_owner_is_lost_and_its_write_ends_first() {
    let (mut pages, shares) = home(&[KEY, 78]);
    owns(&mut pages, shares[0], 3);
    owns(&mut pages, shares[0], 4);
    brings(&mut pages, 10, (shares[0], 3, back(2, false)), b'a');
    let (number, _) = next(&mut pages).unwrap();
    let host = pages.shares[&shares[0]].1;
    let mut outgoing = pages.outbox();
    assert!(pages.homes.get_mut(&GID).unwrap().leave(host, true, &mut outgoing).is_none(), "its write is under way");
    assert_eq!(wants(&mut pages, (shares[1], 4, 50), Access::Read), Outcome::Later);
    pages.on_written(GID, number, Ok(()));
    assert!(!pages.shares.contains_key(&shares[0]));
    assert_eq!(wants(&mut pages, (shares[1], 3, 51), Access::Read), Outcome::Read);
    assert!(pages.homes[&GID].lost().is_empty());
}

#[test]
fn a_flush_is_answered_when_all_holders_have_it_and_what_came_before() {
    let (mut pages, shares) = home(&[KEY]);
    let share = shares[0];
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    let answer = |pages: &mut Pages<PageVectors>| {
        let is_that = |message: &NodeMessage| matches!(message, NodeMessage::Flushed { key: KEY, result: Ok(()), .. });
        said(pages).iter().any(is_that)
    };
    hear(&mut pages, 10, [NodeMessage::Flush { share, number: 1, count: 0 }]);
    assert!(answer(&mut pages), "nothing is under way");

    [5, 6, 9].iter().for_each(|page| owns(&mut pages, share, *page));
    brings(&mut pages, 11, (share, 9, back(2, false)), b'z');
    for (number, page) in [(12, 5), (13, 6)] {
        brings(&mut pages, number, (share, page, ToHome::Store { version: Version(2), flush: 2 }), b'b');
    }
    hear(&mut pages, 14, [NodeMessage::Flush { share, number: 2, count: 2 }]);
    let (first, _) = next(&mut pages).unwrap();
    let (second, write) = next(&mut pages).unwrap();
    assert_eq!((&write.ranges[..], &write.call, next(&mut pages)), (&[(5 * PAGE_LEN, 2 * PAGE_LEN)][..], &None, None));
    pages.on_written(GID, second, Ok(()));
    assert!(!answer(&mut pages), "the page that came home before is under way");
    pages.on_written(GID, first, Ok(()));
    assert!(answer(&mut pages));
}

#[test]
fn parts_of_a_long_flush_count_together_or_one_by_one_where_a_holder_does_not_know_them() {
    for is_known in [true, false] {
        let (mut pages, shares) = home(&[KEY]);
        let share = shares[0];
        for page in 0..150 {
            owns(&mut pages, share, page);
        }
        for page in 0..150 {
            brings(&mut pages, 10 + page, (share, page, ToHome::Store { version: Version(2), flush: 7 }), b'b');
        }
        hear(&mut pages, 300, [NodeMessage::Flush { share, number: 7, count: 150 }]);
        let parts: Vec<(u64, ExtentWrite)> = std::iter::from_fn(|| next(&mut pages)).collect();
        let ends: Vec<bool> =
            parts.iter().map(|(_, part)| matches!(part.call, Some(ExtentCall::Store { is_last: true }))).collect();
        assert_eq!(ends, [false, false, true]);
        assert_eq!(parts.iter().map(|(_, part)| part.len_bytes()).sum::<u64>(), 150 * PAGE_LEN);
        let outcome = || if is_known { Ok(()) } else { Err(Error::TooOld { peer: "a".to_owned(), speaks: 27, needs: 28 }) };
        parts.iter().for_each(|(number, _)| pages.on_written(GID, *number, outcome()));
        pages.tick(NOW + LOOK_PAUSE);
        let again = written(&mut pages);
        assert_eq!(again.len(), if is_known { 0 } else { 3 });
        assert!(again.iter().all(|part| part.call.is_none()));
        pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
        assert!(said(&mut pages).iter().any(|message| matches!(message, NodeMessage::Flushed { number: 7, result: Ok(()), .. })));
    }
}

#[test]
fn writes_that_are_refused_go_again_in_their_order() {
    let (mut pages, shares) = home(&[KEY]);
    [1, 2].iter().for_each(|page| owns(&mut pages, shares[0], *page));
    brings(&mut pages, 10, (shares[0], 1, back(2, false)), b'a');
    let (first, _) = next(&mut pages).unwrap();
    pages.on_written(GID, first, Err(Error::GrantRefused { gid: GID, node: ME }));
    brings(&mut pages, 11, (shares[0], 2, back(2, false)), b'b');
    assert!(next(&mut pages).is_none(), "it waits behind the first");
    pages.memory.set_copied(GID, (SLOT, false));
    pages.tick(NOW + LOOK_PAUSE);
    assert!(next(&mut pages).is_none(), "another node may be home");
    pages.memory.set_copied(GID, (SLOT, true));
    pages.tick(NOW + 2 * LOOK_PAUSE);
    assert_eq!(written(&mut pages).iter().map(|write| write.operand[0]).collect::<Vec<u8>>(), b"ab");
}

#[test]
fn nothing_is_granted_while_another_node_may_be_home() {
    let (mut pages, shares) = home(&[KEY, 78]);
    owns(&mut pages, shares[0], 3);
    assert_eq!(wants(&mut pages, (shares[1], 3, 50), Access::Read), Outcome::Later);
    brings(&mut pages, 10, (shares[0], 3, back(2, true)), b'a');
    pages.memory.set_copied(GID, (SLOT, false));
    assert_eq!(wants(&mut pages, (shares[1], 9, 51), Access::Read), Outcome::NotNow);
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    written(&mut pages);
    let is_grant = |message: &NodeMessage| matches!(message, NodeMessage::ToHost { message: ToHost::Grant { .. }, .. });
    assert!(!said(&mut pages).iter().any(is_grant));
    pages.memory.set_copied(GID, (SLOT, true));
    pages.tick(NOW + LOOK_PAUSE);
    assert!(said(&mut pages).iter().any(is_grant));
}

fn table(keys: &[u64]) -> PageTable {
    let mut table = PageTable::default();
    for key in keys {
        let (address, process) = ("there".to_owned(), Incarnation(7));
        let (share, rights) = (key + 1000, Rights::Write);
        let host = MappingHost { key: *key, share, node: OTHER, epoch: Epoch(1), process, address, readers: None, rights };
        table.change(&PageChange::Joins(host));
    }
    table.note(Page(3), Version(5));
    table
}

#[test]
fn the_next_home_gets_the_newest_pages_of_all_hosts_before_anybody_joins() {
    let mut pages = pages();
    pages.memory.set_copied(GID, (SLOT, true));
    pages.begin_home((GID, SLOT), PAGES * PAGE_LEN, &table(&[KEY, 78]));
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    let asked: Vec<u64> = said(&mut pages)
        .iter()
        .filter_map(|message| if let NodeMessage::Returned { key, takes: true, .. } = message { Some(*key) } else { None })
        .collect();
    assert_eq!(asked, [KEY, 78]);
    for (number, (share, page, version)) in
        [(1077, 3, 4), (1077, 3, 5), (1078, 3, 6), (1077, 3, 5), (1078, 9, 1)].iter().enumerate()
    {
        brings(&mut pages, 1 + number as u64, (*share, *page, back(*version, false)), *version as u8);
    }
    hear(&mut pages, 10, [NodeMessage::Leave { share: 1077 }, follows(99)]);
    assert_eq!(
        written(&mut pages).iter().map(|write| write.operand[0]).collect::<Vec<u8>>(),
        [6, 1],
        "no older ones, and none that it has"
    );
    let left = |pages: &mut Pages<PageVectors>, key: u64| said(pages).contains(&NodeMessage::Left { key });
    assert!(left(&mut pages, KEY) && pages.homes[&GID].is_returning());
    hear(&mut pages, 12, [NodeMessage::Leave { share: 1078 }]);
    let writes = written(&mut pages);
    assert!(matches!(&writes[..], [ExtentWrite { call: Some(ExtentCall::Hosts(PageChange::Begins)), .. }]), "{writes:?}");
    pages.tick(NOW + LOOK_PAUSE);
    while !written(&mut pages).is_empty() {}
    assert!(!pages.homes[&GID].is_returning() && pages.homes[&GID].knows(99), "who waited is let in");
}

#[test]
fn the_next_home_does_not_wait_for_hosts_that_are_lost() {
    let mut pages = pages();
    pages.memory.set_copied(GID, (SLOT, true));
    pages.handle(NOW, PageInput::NodeLost { node: OTHER, over: Over::UpTo(Epoch(1)) });
    pages.begin_home((GID, SLOT), PAGES * PAGE_LEN, &table(&[KEY]));
    let writes = written(&mut pages);
    assert!(matches!(&writes[..], [ExtentWrite { call: Some(ExtentCall::Hosts(PageChange::Begins)), .. }]), "{writes:?}");
    assert!(pages.homes.is_empty());
}

#[test]
fn a_home_that_is_none_any_more_refuses_commands_that_wait_for_pages() {
    let (mut pages, shares) = home(&[KEY]);
    owns(&mut pages, shares[0], 0);
    let Recall::Waits(face) = recall(&mut pages, 1) else { panic!("the host has it") };
    pages.end_home(GID, false);
    let is_told =
        |output| matches!(output, PageOutput::Recalled { face: of, outcome: Err(Error::GrantRefused { .. }), .. } if of == face);
    assert!(std::iter::from_fn(|| pages.poll()).any(is_told));
    assert_eq!(wants(&mut pages, (shares[0], 1, 90), Access::Read), Outcome::NotShared);
}

/// A program maps a region with copies whose home is the other node, and owns its page.
fn mapped() -> (Pages<PageVectors>, u64, u16, VectorFrames) {
    let mut pages = pages();
    let said = share_as(&mut pages, (Consistency::Coherent, true), NEWEST);
    let Some(NodeMessage::JoinFollowing(Join { key, .. })) = said.first() else { panic!("{said:?}") };
    let (slot, mut frames) = let_in(&mut pages, *key);
    let page = Page(0);
    frames.fault(page, slot, Access::Write).unwrap();
    frames.change(page, |word| word.fill(slot, Version(5), Access::Write)).unwrap();
    frames.begin_fill(page, (slot, Version(5)), Some([1; PAGE_LEN as usize].into()));
    frames.end_fill(page, slot).unwrap();
    store(&mut frames, slot, 2);
    (pages, *key, slot, frames)
}

fn store(frames: &mut VectorFrames, slot: u16, value: u8) {
    assert_eq!(frames.fault(Page(0), slot, Access::Write), Ok(Fault::Map(Access::Write)));
    frames.store(Page(0), [value; PAGE_LEN as usize].into());
    frames.change(Page(0), |word| word.leave()).unwrap();
    frames.clear_slot(slot);
}

fn flush(pages: &mut Pages<PageVectors>) {
    pages.handle(NOW, PageInput::Request { client: CLIENT, request: RegionRequest::Flush { gid: GID } });
}

/// The program's answers, and the messages to a connection.
fn outputs(pages: &mut Pages<PageVectors>, to: u64) -> (Vec<Result<Answer>>, Vec<NodeMessage>) {
    let (mut answers, mut said) = (Vec::new(), Vec::new());
    while let Some(output) = pages.poll() {
        match output {
            PageOutput::Reply { result, .. } => answers.push(result),
            PageOutput::Wire(WireOutput::Send { place, frame }) if place == to => {
                if let Frame::Message(_, message) = decode_frame(&frame.into_bytes()).unwrap().0 {
                    said.push(message);
                }
            }
            _ => {}
        }
    }
    (answers, said)
}

#[test]
fn a_flush_sends_what_was_stored_and_is_answered_by_the_home() {
    let (mut pages, key, slot, mut frames) = mapped();
    flush(&mut pages);
    let (answers, said) = outputs(&mut pages, TO);
    let store_ = ToHome::Store { version: Version(5), flush: 1 };
    assert_eq!(
        said,
        [NodeMessage::ToHome { share: 5, page: Page(0), message: store_ }, NodeMessage::Flush { share: 5, number: 1, count: 1 },]
    );
    assert!(answers.is_empty());
    // A second program asks meanwhile: it shares the next one.
    store(&mut frames, slot, 3);
    flush(&mut pages);
    assert_eq!(outputs(&mut pages, TO).1, []);
    hear(&mut pages, 20, [NodeMessage::Flushed { key, number: 1, result: Ok(()) }]);
    let (answers, said) = outputs(&mut pages, TO);
    assert_eq!((answers, said.len()), (vec![Ok(Answer::Ok)], 2));
    hear(&mut pages, 21, [NodeMessage::Flushed { key, number: 2, result: Ok(()) }]);
    assert_eq!(outputs(&mut pages, TO).0, [Ok(Answer::Ok)]);
    flush(&mut pages);
    assert_eq!(outputs(&mut pages, TO), (vec![Ok(Answer::Ok)], vec![]), "nothing was stored");
}

/// The home is lost while a flush is under way. A page was sent that it had not shown to its copies. Another node becomes home.
#[test]
fn the_next_home_gets_all_and_the_program_goes_on() {
    const THIRD: NodeId = NodeId(7);
    let (mut pages, key, slot, frames) = mapped();
    flush(&mut pages);
    outputs(&mut pages, TO);
    pages.handle(NOW, PageInput::NodeLost { node: OTHER, over: Over::UpTo(Epoch(1)) });
    let (answers, _) = outputs(&mut pages, TO);
    assert!(matches!(&answers[..], [Err(Error::NodeLost { node: OTHER, .. })]), "it is to ask again: {answers:?}");
    assert!(frames.look(Page(0)).may_map(Access::Write), "pages stay usable");

    let hail = Frame::Hail { node: THIRD, life: Incarnation(2), address: "far".to_owned(), channel: 1 };
    let returned = NodeMessage::Returned { key, share: 5, address: "far".to_owned(), takes: true };
    let frames_of = [hail, Frame::Message(1, returned)].map(|frame| encode_frame(&frame, None));
    pages.handle(NOW, PageInput::Frames { place: 20, frames: &frames_of });
    pages.handle(NOW, PageInput::Dialed { node: THIRD, place: Some(21), spoken: NEWEST });
    let (answers, said) = outputs(&mut pages, 21);
    let wrote = NodeMessage::ToHome { share: 5, page: Page(0), message: back(5, false) };
    assert_eq!((answers.len(), said), (0, vec![wrote, NodeMessage::Leave { share: 5 }]));
    flush(&mut pages);
    assert!(matches!(&outputs(&mut pages, 21).0[..], [Err(Error::NodeLost { .. })]), "the next home may not have all");

    // The program says where the region is today, and keeps its slots.
    let NodeMessage::JoinFollowing(asked) = follows(1) else { unreachable!() };
    let mut layout = asked.layout;
    layout.extents_mut().for_each(|extent| (extent.node, extent.len) = (THIRD, PAGE_LEN));
    (layout.spans[0].len, layout.spans[0].chunk) = (PAGE_LEN, PAGE_LEN);
    let nodes = vec![NodeAddress { node: THIRD, epoch: Epoch(3), address: "far".to_owned() }];
    say_where(&mut pages, layout, nodes);
    let (_, said) = outputs(&mut pages, 21);
    let [NodeMessage::JoinFollowing(Join { key: next_key, .. })] = &said[..] else { panic!("{said:?}") };
    let next_key = *next_key;
    assert_ne!(next_key, key);
    let joined = NodeMessage::Joined { key: next_key, result: Ok(Joined { share: 6, ..JOINED }) };
    pages.handle(NOW, PageInput::Frames { place: 20, frames: &[encode_frame(&Frame::Message(3, joined), None)] });
    let shared = std::iter::from_fn(|| pages.poll()).find_map(|output| match output {
        PageOutput::Reply { result: Ok(Answer::Shared(view)), .. } => Some((view.slot_first, view.homes[0].share)),
        _ => None,
    });
    assert_eq!(shared, Some((slot, 6)));
    flush(&mut pages);
    let (_, said) = outputs(&mut pages, 21);
    let [NodeMessage::Flush { share: 6, number, count: 0 }] = said[..] else { panic!("{said:?}") };
    let flushed = Frame::Message(4, NodeMessage::Flushed { key: next_key, number, result: Ok(()) });
    pages.handle(NOW, PageInput::Frames { place: 20, frames: &[encode_frame(&flushed, None)] });
    assert_eq!(outputs(&mut pages, 21).0, [Ok(Answer::Ok)]);
}

/// No node takes the lost home's place: programs hear that their stores are gone.
#[test]
fn a_next_home_is_not_awaited_for_ever() {
    let (mut pages, _, _, frames) = mapped();
    flush(&mut pages);
    outputs(&mut pages, TO);
    pages.handle(NOW, PageInput::NodeLost { node: OTHER, over: Over::UpTo(Epoch(1)) });
    outputs(&mut pages, TO);
    assert!(pages.deadline().is_some());
    pages.tick(NOW + Duration::from_secs(20));
    let (answers, _) = outputs(&mut pages, TO);
    assert!(answers.is_empty(), "{answers:?}");
    assert_eq!(frames.losses(), 1);
}

/// A node that was taken for lost is back, and may be home no more: it asks no host for pages.
#[test]
fn a_home_that_was_taken_for_lost_asks_nobody() {
    let (mut pages, shares) = home(&[KEY]);
    owns(&mut pages, shares[0], 3);
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    said(&mut pages);
    pages.handle(NOW, PageInput::Identity { node: NodeId(9), epoch: Epoch(2) });
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    pages.tick(NOW + Duration::from_secs(1));
    assert!(!said(&mut pages).iter().any(|message| matches!(message, NodeMessage::Returned { .. })));
    assert!(pages.homes.is_empty() && pages.shares.is_empty());
}

/// The last number up to which the other node hears that its messages have come.
fn confirmed(pages: &mut Pages<PageVectors>) -> Option<u64> {
    let outputs = std::iter::from_fn(|| pages.poll()).collect::<Vec<_>>();
    let receipts = outputs.into_iter().filter_map(|output| match output {
        PageOutput::Wire(WireOutput::Send { place: PLACE, frame }) => match decode_frame(&frame.into_bytes()).unwrap().0 {
            Frame::Heard(receipt) => Some(receipt.up_to),
            _ => None,
        },
        _ => None,
    });
    receipts.last()
}

/// A host keeps a page that it sent until all holders have it: the next home asks for it.
#[test]
fn a_page_is_not_confirmed_before_all_holders_have_it() {
    let (mut pages, shares) = home(&[KEY]);
    owns(&mut pages, shares[0], 3);
    hear(&mut pages, 2, (2..10).map(|_| NodeMessage::HostGone { key: 1 }));
    brings(&mut pages, 10, (shares[0], 3, back(2, false)), b'a');
    let mut at = 11;
    let mut hear_many = |pages: &mut Pages<PageVectors>| {
        hear(pages, at, (0..40).map(|_| NodeMessage::HostGone { key: 1 }));
        at += 40;
    };
    confirmed(&mut pages);
    hear_many(&mut pages);
    assert_eq!(confirmed(&mut pages), Some(9));
    written(&mut pages);
    hear_many(&mut pages);
    assert!(confirmed(&mut pages).is_some_and(|up_to| up_to > 50));

    owns(&mut pages, shares[0], 4);
    brings(&mut pages, at, (shares[0], 4, back(2, false)), b'b');
    let held = at;
    at += 1;
    pages.end_home(GID, false);
    let hear_more = |pages: &mut Pages<PageVectors>, from: u64| {
        hear(pages, from, (0..40).map(|_| NodeMessage::HostGone { key: 1 }));
        confirmed(pages)
    };
    assert_eq!(hear_more(&mut pages, at), Some(held - 1), "the next home asks for it");
    pages.tick(NOW + Duration::from_secs(60));
    assert!(hear_more(&mut pages, at + 40).is_some_and(|up_to| up_to > held), "and not for ever");
}

/// A write is refused, and a later one of the same host is not: both go again, so that the older bytes do not come last.
#[test]
fn what_was_written_behind_a_refused_write_goes_again_behind_it() {
    let (mut pages, shares) = home(&[KEY, 78]);
    let share = shares[0];
    (0..70).for_each(|page| owns(&mut pages, share, page));
    for page in 0..70 {
        brings(&mut pages, 10 + page, (share, page, ToHome::Store { version: Version(2), flush: 1 }), b'a');
    }
    hear(&mut pages, 100, [NodeMessage::Flush { share, number: 1, count: 70 }]);
    assert_eq!(wants(&mut pages, (shares[1], 3, 90), Access::Read), Outcome::Later);
    brings(&mut pages, 101, (share, 3, back(2, true)), b'b');
    let [(flush, _), (_, _), (later, _)] = [next(&mut pages), next(&mut pages), next(&mut pages)].map(Option::unwrap);
    let no_room = || Err(Error::LimitReached { what: "bytes".to_owned(), limit: 1 });
    (0..2).for_each(|_| pages.on_written(GID, flush, no_room()));
    pages.on_written(GID, later, Ok(()));
    pages.handle(NOW, PageInput::Dialed { node: OTHER, place: Some(TO), spoken: NEWEST });
    let is_grant = |message: &NodeMessage| matches!(message, NodeMessage::ToHost { key: 78, message: ToHost::Grant { .. }, .. });
    assert!(!said(&mut pages).iter().any(is_grant), "older bytes would come over it");
    pages.tick(NOW + LOOK_PAUSE);
    assert_eq!(written(&mut pages).iter().map(|write| write.operand[0]).collect::<Vec<u8>>(), b"aab");
    assert!(said(&mut pages).iter().any(is_grant));
}

#[test]
fn a_page_that_a_host_sends_again_and_again_is_written_once() {
    let (mut pages, shares) = home(&[KEY]);
    owns(&mut pages, shares[0], 3);
    (10..50).for_each(|number| brings(&mut pages, number, (shares[0], 3, back(2, false)), b'a'));
    assert_eq!(written(&mut pages).len(), 1);
    for number in 1..9 {
        brings(&mut pages, 100 + number, (shares[0], 3, back(2, false)), b'a');
        hear(&mut pages, 200 + number, [NodeMessage::Flush { share: shares[0], number, count: 0 }]);
    }
    assert!(next(&mut pages).is_none(), "it is not the host's any more");
}

/// A host may hear of the next home before that has. It is let in by nobody else.
#[test]
fn nobody_joins_a_node_that_may_not_be_home() {
    let mut pages = pages();
    pages.memory.set_copied(GID, (SLOT, false));
    hear(&mut pages, 1, [follows(KEY)]);
    assert!(pages.homes.is_empty() && next(&mut pages).is_none());
    pages.begin_home((GID, SLOT), PAGES * PAGE_LEN, &table(&[78]));
    assert!(pages.homes[&GID].is_returning(), "the hosts of before are asked first");
}

/// A host gave all to its next home, and no program asked for a page since. That home is lost, too.
#[test]
fn a_host_without_pages_awaits_no_home() {
    const THIRD: NodeId = NodeId(7);
    let (mut pages, key, _, frames) = mapped();
    pages.handle(NOW, PageInput::NodeLost { node: OTHER, over: Over::UpTo(Epoch(1)) });
    let hail = Frame::Hail { node: THIRD, life: Incarnation(2), address: "far".to_owned(), channel: 1 };
    let returned = NodeMessage::Returned { key, share: 5, address: "far".to_owned(), takes: true };
    let frames_of = [hail, Frame::Message(1, returned)].map(|frame| encode_frame(&frame, None));
    pages.handle(NOW, PageInput::Frames { place: 20, frames: &frames_of });
    pages.handle(NOW, PageInput::NodeLost { node: THIRD, over: Over::UpTo(Epoch(9)) });
    pages.tick(NOW + Duration::from_secs(60));
    assert_eq!(frames.losses(), 0);
    let host = pages.hosts.values().next().unwrap();
    assert!(!host.sharing.is_lost(0) && !host.awaits_home(), "a program may follow it to another home");

    // The home after that one asks by the old key: it gets what the last one may not have shown to its copies.
    let hail = Frame::Hail { node: NodeId(8), life: Incarnation(2), address: "near".to_owned(), channel: 1 };
    let returned = NodeMessage::Returned { key, share: 5, address: "near".to_owned(), takes: true };
    let frames_of = [hail, Frame::Message(1, returned)].map(|frame| encode_frame(&frame, None));
    pages.handle(NOW, PageInput::Frames { place: 30, frames: &frames_of });
    pages.handle(NOW, PageInput::Dialed { node: NodeId(8), place: Some(31), spoken: NEWEST });
    let (_, said) = outputs(&mut pages, 31);
    let wrote = NodeMessage::ToHome { share: 5, page: Page(0), message: back(5, false) };
    assert_eq!(said, [wrote, NodeMessage::Leave { share: 5 }]);
}

/// A program says where the region is today.
fn say_where(pages: &mut Pages<PageVectors>, layout: Layout, nodes: Vec<NodeAddress>) {
    let owner = User { uid: 1, gid: 1 };
    let (name, grants, attributes) = ("a".to_owned(), vec![Grant::default()], Default::default());
    let (rights, made, mode, copies) = (Rights::Write, Made::Found, 0o600, 2);
    let view = Box::new(RegionView { copies, name, gid: GID, owner, mode, rights, layout, grants, nodes, attributes, made });
    let request = RegionRequest::Share { view, consistency: Consistency::Coherent, uid: 1, follows: true };
    pages.handle(NOW, PageInput::Request { client: CLIENT, request });
}

/// A program lies about the region's length when it says where that is today.
#[test]
fn a_program_that_follows_says_the_region_as_it_is() {
    let (mut pages, key, slot, mut frames) = mapped();
    hear(&mut pages, 5, [NodeMessage::Returned { key, share: 5, address: "there".to_owned(), takes: true }]);
    frames.fault(Page(0), slot, Access::Write).unwrap();
    let NodeMessage::JoinFollowing(asked) = follows(1) else { unreachable!() };
    let mut layout = asked.layout;
    layout.extents_mut().for_each(|extent| extent.node = OTHER);
    let nodes = vec![NodeAddress { node: OTHER, epoch: Epoch(3), address: "there".to_owned() }];
    say_where(&mut pages, layout, nodes);
    let (answers, _) = outputs(&mut pages, TO);
    assert!(answers.iter().any(|answer| matches!(answer, Err(Error::BadUse { .. }))), "{answers:?}");
    pages.handle(NOW, PageInput::TakeOver { client: CLIENT, gid: GID, slots: 0..u16::MAX });
}

/// A flush failed: the next one asks the home, though nothing was stored since.
#[test]
fn what_a_failed_flush_had_is_not_forgotten() {
    let (mut pages, key, ..) = mapped();
    flush(&mut pages);
    outputs(&mut pages, TO);
    hear(
        &mut pages,
        20,
        [NodeMessage::Flushed { key, number: 1, result: Err(Error::NodeLost { node: OTHER, reason: String::new() }) }],
    );
    assert!(matches!(&outputs(&mut pages, TO).0[..], [Err(_)]));
    flush(&mut pages);
    let (answers, said) = outputs(&mut pages, TO);
    let stored = ToHome::Store { version: Version(5), flush: 2 };
    let stored = NodeMessage::ToHome { share: 5, page: Page(0), message: stored };
    assert_eq!((answers.len(), said), (0, vec![stored, NodeMessage::Flush { share: 5, number: 2, count: 1 }]));
    pages.tick(NOW + Duration::from_secs(9));
    assert!(matches!(&outputs(&mut pages, TO).0[..], [Err(Error::Timeout { .. })]), "before the program's own deadline");
}
