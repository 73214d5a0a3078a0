//! Fuzz targets of a node that has clients and peers: clients' requests to share regions, and page messages of other nodes.

use super::{HomeInput, NodeHome, NodePages, RegionRequest};
use crate::extents::Extents;
use hanare_home::{Input, LockTerms, PageInput, PageTerms, Pages};
use hanare_memory::file::Huge;
use hanare_memory::{Lender, LenderOptions};
use hanare_protocol::id::{ClientId, Epoch, Gid, Grant, Incarnation, NodeId};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Consistency;
use hanare_protocol::page::membership::Over;
use hanare_protocol::wire::control::{self, RegionView, ReportedExtent};
use hanare_protocol::wire::page::{Frame, NodeMessage, PageRequest, encode_frame};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

const GID: Gid = Gid(1);
const LEN: u64 = 8 * PAGE_LEN;
const ME: NodeId = NodeId(0);
const OTHER: NodeId = NodeId(1);

/// Number of the other node's connection.
const PLACE: u64 = 5;

/// Stand in seeds for grants that nobody knows ahead.
const WRITES: Grant = Grant([1; 16]);
const READS: Grant = Grant([2; 16]);

thread_local! {
    static LENDER: Arc<Lender> = {
        let options = LenderOptions { bytes: 8 << 20, slab_len: Some(1 << 20), huge: Huge::Never, ahead: 0, ..LenderOptions::default() };
        Arc::new(Lender::new(&options).expect("memory"))
    };
    /// Count of drawn numbers: the first is 0.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

fn grants(grants: &mut [Grant], held: &ReportedExtent) {
    for grant in grants {
        *grant = match *grant {
            WRITES => held.write,
            READS => held.read,
            other => other,
        };
    }
}

/// Small numbers stand for those that a home or a host has drawn.
fn drawn(number: &mut u64) {
    if *number < 8 {
        *number %= DRAWN.get().max(1);
    }
}

fn with_known(held: &ReportedExtent, mut message: NodeMessage) -> NodeMessage {
    match &mut message {
        NodeMessage::Join(join) | NodeMessage::JoinFollowing(join) => grants(&mut join.grants, held),
        NodeMessage::Leave { share }
        | NodeMessage::Forgot { share }
        | NodeMessage::NotShared { share }
        | NodeMessage::Flush { share, .. }
        | NodeMessage::ToHome { share, .. } => drawn(share),
        NodeMessage::Joined { key, .. }
        | NodeMessage::Left { key }
        | NodeMessage::Flushed { key, .. }
        | NodeMessage::Introduce { key, .. }
        | NodeMessage::ToHost { key, .. }
        | NodeMessage::HostGone { key } => drawn(key),
        NodeMessage::Returned { key, share, .. } => {
            drawn(key);
            drawn(share);
        }
    }
    message
}

/// Each message is behind a byte that says what it is, and two that give its length.
pub(crate) fn pages(bytes: &[u8]) {
    let lender = LENDER.with(Arc::clone);
    let extents = Arc::new(Extents::new(lender));
    extents.renew_grants(ME).expect("random bytes");
    let held = extents.make(GID, &[LEN], false).expect("memory")[0];
    DRAWN.set(0);
    let memory = NodePages { extents: extents.clone(), draw: || Ok(DRAWN.replace(DRAWN.get() + 1)) };
    let (address, life, answer) = ("127.0.0.1:1".to_owned(), Incarnation(1), Duration::from_secs(1));
    let terms = PageTerms { address, life, answer, frames_max: 4 };
    let mut home = NodeHome::new(LockTerms::default(), 1, Pages::new(terms, memory));
    let tell = |home: &mut NodeHome, now, input: HomeInput<'_>| home.handle(now, input, &*extents);
    let mut now = Duration::ZERO;
    tell(&mut home, now, PageInput::Identity { node: ME, epoch: Epoch(1) }.into());
    let hail = encode_frame(&Frame::Hail { node: OTHER, life: Incarnation(7), address: "there".to_owned(), channel: 1 }, None);
    tell(&mut home, now, PageInput::Frames { place: PLACE, frames: &[hail] }.into());
    let (mut rest, mut number) = (bytes, 0);
    while let Some(([what, low, high], more)) = rest.split_first_chunk() {
        let (message, more) = more.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(more.len()));
        rest = more;
        now += Duration::from_micros(100);
        match what % 8 {
            0..=3 => {
                let mut page = [0; PAGE_LEN as usize];
                page[..message.len().min(64)].copy_from_slice(&message[..message.len().min(64)]);
                if let Ok(read) = control::decode(message) {
                    let read = with_known(&held, read);
                    let page = read.has_bytes().then_some(&page[..]);
                    number += 1;
                    let frames = [encode_frame(&Frame::Message(number, read), page)];
                    tell(&mut home, now, PageInput::Frames { place: PLACE, frames: &frames }.into());
                }
            }
            4 | 5 => {
                if let Ok(mut view) = control::decode::<RegionView>(message) {
                    grants(&mut view.grants, &held);
                    let consistency = if what % 8 == 4 { Consistency::Coherent } else { Consistency::Explicit };
                    let client = ClientId(u64::from(what / 8));
                    let request = RegionRequest::Share { view: Box::new(view), consistency, uid: 1000, follows: what & 16 != 0 };
                    tell(&mut home, now, PageInput::Request { client, request }.into());
                }
            }
            6 => tell(&mut home, now, PageInput::Frames { place: PLACE, frames: &[message.to_vec()] }.into()),
            _ => match message.first_chunk().map(PageRequest::decode) {
                Some(Ok(request)) => {
                    let share = DRAWN.get().saturating_sub(1);
                    tell(&mut home, now, PageInput::PageRequests { session: 9, seq: 1, share, requests: &[request] }.into());
                }
                _ => tell(&mut home, now, PageInput::ClientGone(ClientId(u64::from(what / 8))).into()),
            },
        }
        home.turn(now);
        while home.poll(&*extents).is_some() {}
    }
    now += Duration::from_secs(1);
    tell(&mut home, now, Input::Tick);
    tell(&mut home, now, PageInput::NodeLost { node: OTHER, over: Over::All }.into());
    tell(&mut home, now, PageInput::Stop { keeps: bytes.len().is_multiple_of(2) }.into());
    while home.poll(&*extents).is_some() {}
    drop(home);
    extents.free(&[held.slot]);
}

#[cfg(test)]
fn layout() -> hanare_protocol::placement::Layout {
    use hanare_protocol::placement::{Extent, Layout, Span};
    let extents = vec![Extent { node: ME, slot: hanare_protocol::id::Slot(0), len: LEN }];
    Layout { spans: vec![Span { len: LEN, chunk: LEN, extents }] }
}

#[cfg(test)]
fn view(grant: Grant) -> RegionView {
    use hanare_protocol::id::{Rights, User};
    use hanare_protocol::wire::control::{Made, NodeAddress};
    RegionView {
        copies: 1,
        name: "a".to_owned(),
        gid: GID,
        owner: User { uid: 1000, gid: 1000 },
        mode: 0o600,
        rights: Rights::Write,
        layout: layout(),
        grants: vec![grant],
        nodes: vec![NodeAddress { node: ME, epoch: Epoch(1), address: "127.0.0.1:1".to_owned() }],
        attributes: Default::default(),
        made: Made::Found,
    }
}

/// Inputs that [`pages`] begins with: both hosts share the region and pass pages on.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    use hanare_protocol::page::{Access, HostId, Hosts, Page, Receipt, Ticket, ToHome, ToHost, Version};
    use hanare_protocol::wire::page::Join;
    let join = |grant| {
        NodeMessage::Join(Join {
            gid: GID,
            name: "a".to_owned(),
            layout: layout(),
            grants: vec![grant],
            consistency: Consistency::Coherent,
            node: OTHER,
            epoch: Epoch(1),
            readers: None,
            address: "127.0.0.1:2".to_owned(),
            key: 77,
        })
    };
    let there = || "127.0.0.1:2".to_owned();
    let pack = |what: u8, bytes: Vec<u8>| [&[what][..], &(bytes.len() as u16).to_le_bytes(), &bytes].concat();
    let packed = |message: &NodeMessage| pack(0, control::encode(message));
    let to_home = |share, page, message| packed(&NodeMessage::ToHome { share, page: Page(page), message });
    let ticket = Ticket { slot: 1, number: 1 };
    let want = |share, page, access| to_home(share, page, ToHome::Request { ticket, access, has: None, firm: true });
    let share = pack(4 | 8, control::encode(&view(WRITES)));
    let grant =
        ToHost::Grant { ticket, version: Version(2), access: Access::Write, has_bytes: true, awaits: Hosts::NONE, firm: true };
    let record = PageRequest { page: 1, ticket, access: Access::Write, has: None, firm: false, tries: false };
    vec![
        // The program's host draws a key and its home a share; the other host gets the next one.
        [share.clone(), packed(&join(WRITES)), want(2, 0, Access::Write), want(1, 0, Access::Read)].concat(),
        [
            packed(&join(READS)),
            want(0, 1, Access::Read),
            to_home(0, 1, ToHome::WriteBack { version: Version(1), keeps: false }),
            packed(&NodeMessage::Leave { share: 0 }),
        ]
        .concat(),
        [
            share.clone(),
            packed(&NodeMessage::ToHost { key: 0, page: Page(2), message: grant }),
            packed(&NodeMessage::Introduce { key: 0, host: HostId(3), node: OTHER, address: there(), its_key: 5 }),
            packed(&NodeMessage::HostGone { key: 0 }),
            packed(&NodeMessage::Returned { key: 0, share: 1, address: there(), takes: true }),
        ]
        .concat(),
        [
            pack(5 | 8, control::encode(&view(READS))),
            pack(7, record.encode().to_vec()),
            packed(&NodeMessage::NotShared { share: 1 }),
            packed(&NodeMessage::Forgot { share: 1 }),
            packed(&NodeMessage::Left { key: 0 }),
            pack(6, encode_frame(&Frame::Heard(Receipt::default()), None)),
            pack(7 | 8, Vec::new()),
        ]
        .concat(),
    ]
}
