//! Grants that come twice because the thread that asked is dead, and what is said about a page while its frame is being filled.

use super::*;
use hanare_memory::frames::Run;
use hanare_protocol::id::{Epoch, Rights, Slot};
use hanare_protocol::page::share::Life;
use hanare_protocol::page::word::{Fault, Fill, Installed};
use hanare_protocol::page::{Access, Hosts, Ticket, ToHome, Version};
use hanare_protocol::place::{Extent, Span};
use hanare_protocol::wire::control::FilePart;
use hanare_ring::page_word::page_words_len;

const SEAT: u16 = 300;

/// A region of one page at home elsewhere, and no room for frames.
fn host() -> Host {
    let extents = vec![Extent { node: NodeId(1), slot: Slot(0), len: PAGE_LEN }];
    let layout = Layout { spans: vec![Span { len: PAGE_LEN, chunk: PAGE_LEN, extents }] };
    let door = HomeDoor {
        node: NodeId(1),
        address: String::new(),
        key: 1,
        me: HostId(1),
        peers: BTreeMap::new(),
        unsent: Vec::new(),
        memory: None,
    };
    let sharing = Sharing::new([Life { epoch: Epoch(1), process: None }], 1_000);
    let mut host = Host::new((Gid(1), "a".to_owned()), Consistency::Coherent, layout, (vec![door], sharing), 0);
    host.begin().unwrap();
    host
}

fn claim(host: &Host, access: Access) -> Ticket {
    let words = &host.pages.as_ref().unwrap().words;
    assert!(matches!(words.fault(0, SEAT, access), Ok(Fault::Fetch { .. })));
    Ticket { seat: SEAT, number: words.next_number(SEAT) }
}

/// What the host says to a grant.
fn grant(host: &mut Host, ticket: Ticket, version: u32, access: Access, byte: u8) -> usize {
    let firm = access == Access::Write;
    let message = ToHost::Grant { ticket, version: Version(version), access, has_bytes: true, awaits: Hosts::NONE, firm };
    let mut outputs = Vec::new();
    host.on_message((0, Page(0)), message, Some(Box::new([byte; PAGE_LEN as usize])), 0, &mut outputs).unwrap();
    outputs.len()
}

fn state(host: &Host) -> State {
    host.pages.as_ref().unwrap().words.look(0).state().unwrap()
}

fn evict(host: &mut Host) {
    let mut outputs = Vec::new();
    host.on_crowded(&mut outputs);
    assert_eq!(state(host), State::Absent);
}

#[test]
fn a_page_that_was_let_go_of_is_not_owned_again_by_the_same_grant() {
    let mut host = host();
    let ticket = claim(&host, Access::Write);
    assert_eq!((grant(&mut host, ticket, 2, Access::Write, 1), state(&host)), (1, State::Owned));
    evict(&mut host);
    assert_eq!((grant(&mut host, ticket, 2, Access::Write, 1), state(&host)), (0, State::Absent));
    // Nor while a living thread asks for it anew; what that is granted is newer.
    let ticket = claim(&host, Access::Write);
    assert_eq!((grant(&mut host, ticket, 2, Access::Write, 1), state(&host)), (0, State::FetchingWrite));
    assert_eq!((grant(&mut host, ticket, 3, Access::Write, 2), state(&host)), (1, State::Owned));
}

/// A thread of a program has claimed the page, was given it, and puts it into the frame.
fn filling(host: &mut Host, access: Access, version: u32) -> (ClientId, Ticket) {
    let client = ClientId(1);
    let seat = host.admit(client, "r".to_owned()).unwrap().seat_first;
    let words = &host.pages.as_ref().unwrap().words;
    assert!(matches!(words.fault(0, seat, access), Ok(Fault::Fetch { .. })));
    assert_eq!(words.fill(0, seat, Version(version), access), Ok(Fill::Go));
    (client, Ticket { seat, number: words.number(seat) })
}

fn fill_to_the_end(host: &Host, ticket: Ticket, version: u32) {
    let pages = host.pages.as_ref().unwrap();
    pages.frames.fill(Run::one(0), &[7; PAGE_LEN as usize]).unwrap();
    assert!(matches!(pages.words.filled(0, ticket.seat, Version(version)), Ok(Installed::Here(_))));
}

#[test]
fn an_invalidation_waits_for_the_thread_that_fills_the_frame() {
    let mut host = host();
    let (_, ticket) = filling(&mut host, Access::Read, 2);
    let mut outputs = Vec::new();
    host.on_message((0, Page(0)), ToHost::Invalidate { version: Version(2), tell: None }, None, 0, &mut outputs).unwrap();
    assert!(!host.turn(&mut outputs) && outputs.is_empty() && host.is_taking(), "the page may be seen when it is acknowledged");
    fill_to_the_end(&host, ticket, 2);
    while host.turn(&mut outputs) {}
    assert!(matches!(outputs[..], [HostOutput::Home { message: ToHome::Ack { version: Version(2) }, .. }]));
    assert_eq!((state(&host), host.is_taking()), (State::Absent, false));
    assert_eq!(host.pages.as_ref().unwrap().frames.present_count().unwrap(), 0, "nothing of it stays in the file");
}

#[test]
fn a_frame_that_a_dead_thread_was_filling_is_a_hole_and_its_page_is_asked_for_again() {
    for access in [Access::Read, Access::Write] {
        let mut host = host();
        let (client, ticket) = filling(&mut host, access, 2);
        host.pages.as_ref().unwrap().frames.fill(Run::one(0), &[7; PAGE_LEN as usize]).unwrap();
        let mut outputs = Vec::new();
        host.part(client, &mut outputs);
        assert!(matches!(outputs[..], [HostOutput::Home { message: ToHome::Request { .. }, .. }]));
        let pages = host.pages.as_ref().unwrap();
        assert_eq!(pages.frames.present_count().unwrap(), 0);
        assert!(pages.words.look(0).is_asked_for() && pages.words.look(0).claimer() == ticket.seat);
        assert_eq!((grant(&mut host, ticket, 3, access, 1), host.is_taking()), (usize::from(access == Access::Write), false));
    }
}

#[test]
fn a_grant_to_write_that_comes_twice_is_not_given_back_while_its_thread_fills_the_frame() {
    let mut host = host();
    let (_, ticket) = filling(&mut host, Access::Write, 2);
    assert_eq!((grant(&mut host, ticket, 2, Access::Write, 1), state(&host)), (0, State::FillingWrite));
    fill_to_the_end(&host, ticket, 2);
    let mut outputs = Vec::new();
    while host.turn(&mut outputs) {}
    assert!(matches!(outputs[..], [HostOutput::Home { message: ToHome::Done { version: Version(2), .. }, .. }]));
    assert_eq!(state(&host), State::Owned);
    let mut bytes = [0; PAGE_LEN as usize];
    host.pages.as_ref().unwrap().frames.read(Run::one(0), &mut bytes).unwrap();
    assert_eq!(bytes, [7; PAGE_LEN as usize], "what the thread put there");
}

#[test]
fn a_node_that_ends_takes_what_its_programs_are_filling_home_when_it_is_there() {
    let mut host = host();
    let (_, ticket) = filling(&mut host, Access::Write, 2);
    let mut outputs = Vec::new();
    host.part_all(&mut outputs);
    assert!(!host.empty(None, &mut outputs) && outputs.is_empty(), "the program lives, and goes on");
    fill_to_the_end(&host, ticket, 2);
    assert!(host.empty(None, &mut outputs));
    let [HostOutput::Home { message: ToHome::WriteBack { version: Version(2), keeps: false }, bytes: Some(bytes), .. }] =
        &outputs[..]
    else {
        panic!("it goes home");
    };
    assert_eq!(bytes[..], [7; PAGE_LEN as usize]);
}

#[test]
fn where_words_are_nonsense_all_programs_hear_that_stores_are_lost_and_keep_no_frame() {
    let mut host = host();
    let (_, ticket) = filling(&mut host, Access::Write, 2);
    fill_to_the_end(&host, ticket, 2);
    let others = host.admit(ClientId(2), "r".to_owned()).unwrap();
    // What the other program maps, and the frames.
    let [words_file, frames] = <[OwnedFd; 2]>::try_from(others.fds).unwrap();
    let len = page_words_len(1, SEATS).next_multiple_of(PAGE_LEN);
    let mut memory = Mapping::reserve(len).unwrap();
    memory.map_file(0, words_file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write).unwrap();
    // SAFETY: used while the mapping is there.
    let words = PageWords::new(Shared::new(unsafe { memory.window() }), 1, SEATS);
    assert_eq!((words.counted(LOSS_SEAT..LOSS_SEAT + 1, seat::LOST), host.unsaved(&[])), (0, None));
    host.give_up(&Corrupt("a state that there is not"));
    assert!(host.is_lost() && host.is_given_up());
    assert_eq!(words.counted(LOSS_SEAT..LOSS_SEAT + 1, seat::LOST), 1);
    assert_eq!(host.unsaved(&[]), Some(NodeId(1)), "who unmaps it is told");
    assert_eq!(rustix::fs::fstat(&frames).unwrap().st_blocks, 0, "a store goes nowhere unseen");
}
