//! Grants that come twice because the thread that asked is dead.

use super::*;
use hanare_protocol::id::Slot;
use hanare_protocol::page::Version;
use hanare_protocol::place::{Extent, Span};

const SEAT: u16 = 300;

/// A region of one page at home elsewhere, and no room for frames.
fn host() -> Host {
    let extents = vec![Extent { node: NodeId(1), slot: Slot(0), len: PAGE_LEN }];
    let layout = Layout { spans: vec![Span { len: PAGE_LEN, chunk: PAGE_LEN, extents }] };
    let door = HomeDoor {
        node: NodeId(1),
        address: String::new(),
        key: 1,
        share: Some(1),
        me: HostId(1),
        peers: BTreeMap::new(),
        is_lost: false,
        memory: None,
    };
    Host::new((Gid(1), "a".to_owned()), Consistency::Coherent, layout, vec![door], 0).unwrap()
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
    let mut says = Vec::new();
    host.on_message(0, Page(0), message, Some(Box::new([byte; PAGE_LEN as usize])), &mut says).unwrap();
    says.len()
}

fn state(host: &Host) -> State {
    host.pages.as_ref().unwrap().words.look(0).state().unwrap()
}

fn evict(host: &mut Host) {
    let mut says = Vec::new();
    host.on_crowded(&mut says);
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
