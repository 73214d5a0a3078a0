//! Grants sent twice because the requesting thread died, and messages on a page while its frame is filled.

use super::*;
use crate::pages::vectors::{PageVectors, VectorFrames};
use hanare_protocol::id::{Epoch, Slot};
use hanare_protocol::page::membership::Life;
use hanare_protocol::page::word::{Fault, Fill, Installed};
use hanare_protocol::page::{Access, HostMemory, Hosts, Ticket, ToHome, Version};
use hanare_protocol::placement::{Extent, Span};

const SLOT: u16 = 300;

type Host = PageHost<VectorFrames>;

/// A region of one page at home elsewhere, and no room for frames.
fn host() -> Host {
    let extents = vec![Extent { node: NodeId(1), slot: Slot(0), len: PAGE_LEN }];
    let layout = Layout { spans: vec![Span { len: PAGE_LEN, chunk: PAGE_LEN, extents }] };
    let route = HomeRoute::new(NodeId(1), String::new(), 1);
    let sharing = Sharing::new([Life { epoch: Epoch(1), process: None }], 1_000);
    let mut host = PageHost::new((Gid(1), "a".to_owned()), Consistency::Coherent, layout, (vec![route], sharing), (0, false));
    host.set_home(0, HostId(1), None);
    host.begin(&mut PageVectors::default()).unwrap();
    host
}

/// The words and frames, as programs have them.
fn frames(host: &Host) -> VectorFrames {
    host.pages.as_ref().unwrap().frames.clone()
}

fn claim(host: &Host, access: Access) -> Ticket {
    let mut words = frames(host);
    assert!(matches!(words.fault(Page(0), SLOT, access), Ok(Fault::Fetch { .. })));
    Ticket { slot: SLOT, number: words.next_number(SLOT, words.number(SLOT)).expect("nobody else asks") }
}

/// The host's reply to a grant, as the number of its messages.
fn grant(host: &mut Host, ticket: Ticket, version: u32, access: Access, byte: u8) -> usize {
    let firm = access == Access::Write;
    let message = ToHost::Grant { ticket, version: Version(version), access, has_bytes: true, awaits: Hosts::NONE, firm };
    let mut outputs = Vec::new();
    host.on_message((0, Page(0)), message, Some(Box::new([byte; PAGE_LEN as usize])), 0, &mut outputs).unwrap();
    outputs.len()
}

fn state(host: &Host) -> State {
    frames(host).look(Page(0)).state().unwrap()
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
    let slot = host.admit(client).unwrap().slot_first;
    let mut words = frames(host);
    assert!(matches!(words.fault(Page(0), slot, access), Ok(Fault::Fetch { .. })));
    assert_eq!(words.change(Page(0), |word| word.fill(slot, Version(version), access)), Ok(Fill::Go));
    words.begin_fill(Page(0), (slot, Version(version)), Some(Box::new([7; PAGE_LEN as usize])));
    (client, Ticket { slot, number: words.number(slot) })
}

fn fill_to_the_end(host: &Host, ticket: Ticket) {
    assert!(matches!(frames(host).end_fill(Page(0), ticket.slot), Ok(Some(Installed::Here(_)))));
}

#[test]
fn an_invalidation_waits_for_the_thread_that_fills_the_frame() {
    let mut host = host();
    let (_, ticket) = filling(&mut host, Access::Read, 2);
    let mut outputs = Vec::new();
    host.on_message((0, Page(0)), ToHost::Invalidate { version: Version(2), tell: None }, None, 0, &mut outputs).unwrap();
    assert!(!host.turn(&mut outputs) && outputs.is_empty() && host.is_taking(), "the page may be seen when it is acknowledged");
    fill_to_the_end(&host, ticket);
    while host.turn(&mut outputs) {}
    assert!(matches!(outputs[..], [HostOutput::Home { message: ToHome::Ack { version: Version(2) }, .. }]));
    assert_eq!((state(&host), host.is_taking()), (State::Absent, false));
    assert_eq!(frames(&host).present_count(), 0, "nothing of it stays in the frame");
}

#[test]
fn a_frame_that_a_dead_thread_was_filling_is_a_hole_and_its_page_is_asked_for_again() {
    for access in [Access::Read, Access::Write] {
        let mut host = host();
        let (client, ticket) = filling(&mut host, access, 2);
        let mut outputs = Vec::new();
        host.part(client, &mut outputs);
        assert!(matches!(outputs[..], [HostOutput::Home { message: ToHome::Request { .. }, .. }]));
        let words = frames(&host);
        assert_eq!(words.present_count(), 0);
        assert!(words.look(Page(0)).is_asked_for() && words.look(Page(0)).claimer() == ticket.slot);
        assert_eq!((grant(&mut host, ticket, 3, access, 1), host.is_taking()), (usize::from(access == Access::Write), false));
    }
}

#[test]
fn a_grant_to_write_that_comes_twice_is_not_given_back_while_its_thread_fills_the_frame() {
    let mut host = host();
    let (_, ticket) = filling(&mut host, Access::Write, 2);
    assert_eq!((grant(&mut host, ticket, 2, Access::Write, 1), state(&host)), (0, State::FillingWrite));
    fill_to_the_end(&host, ticket);
    let mut outputs = Vec::new();
    while host.turn(&mut outputs) {}
    assert!(matches!(outputs[..], [HostOutput::Home { message: ToHome::Done { version: Version(2), .. }, .. }]));
    assert_eq!(state(&host), State::Owned);
    assert_eq!(frames(&host).frame(Page(0)).unwrap()[..], [7; PAGE_LEN as usize], "what the thread put there");
}

#[test]
fn a_node_that_ends_takes_what_its_programs_are_filling_home_when_it_is_there() {
    let mut host = host();
    let (_, ticket) = filling(&mut host, Access::Write, 2);
    let mut outputs = Vec::new();
    host.part_all(&mut outputs);
    assert!(!host.empty(None, &mut outputs) && outputs.is_empty(), "the program lives, and goes on");
    fill_to_the_end(&host, ticket);
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
    fill_to_the_end(&host, ticket);
    let theirs = host.admit(ClientId(2)).unwrap().files.expect("it is coherent");
    assert_eq!((theirs.losses(), host.unsaved(&[])), (0, None));
    host.give_up(&Corrupt("a state that there is not"));
    assert!(host.is_lost() && host.is_given_up());
    assert_eq!(theirs.losses(), 1);
    assert_eq!(host.unsaved(&[]), Some(NodeId(1)), "who unmaps it is told");
    assert_eq!(theirs.present_count(), 0, "a store goes nowhere unseen");
}
