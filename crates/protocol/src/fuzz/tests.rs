//! Seeds of the targets, and a run of each that tests have time for.

use super::*;
use crate::collective::header::PartHeaderKind;
use crate::copies::{Position, Term};
use crate::entry::{BoundRange, Publication, Stores};
use crate::id::{ClientId, Epoch, Gid, Grant, JobId, JobRank, NodeId, PartyName, Rank, Rights, Slot, User};
use crate::limits::QUEUE_READY_COUNT_MAX;
use crate::lock::Recalled;
use crate::message::Envelope;
use crate::message::header::SHORTEST_LEN;
use crate::page::{Consistency, Page, ToHome, Version};
use crate::placement::{Extent, Placement, Span};
use crate::queue::{Overflow, PortId, Unit};
use crate::shape::{Dim, Shape, Strided, Subarray};
use crate::wire::command::{Op, dims_list};
use crate::wire::control::{Memory, NodeAddress, NodeJoin, Order, RegionView, ReportedExtent};
use crate::wire::copies::{CopiedExtent, ExtentWrite};
use crate::wire::exchange::Question;
use crate::wire::face::ProgramFace;
use crate::wire::greeting::{NONCE_LEN, Role};
use crate::wire::head::Kind;
use crate::wire::page::{Frame, NodeMessage};
use crate::wire::queue::{ArrayAt, QueueRequest};
use crate::wire::sync::{SyncAddress, SyncAnswer, SyncRequest};
use hanare_fuzz::{Counting, drive};
use std::sync::Arc;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Most bytes that a parser of messages may allocate: a few times the longest input, whatever lengths stand in it.
const MOST: usize = 4 << 20;

fn a_layout() -> Layout {
    let extent = |node| Extent { node: NodeId(node), slot: Slot(node), len: 64 << 10 };
    let one = Span { len: 64 << 10, chunk: 64 << 10, extents: vec![extent(0)] };
    Layout { spans: vec![one, Span { len: 128 << 10, chunk: 4096, extents: vec![extent(1), extent(2)] }] }
}

fn view() -> RegionView {
    let address = |node| NodeAddress { node: NodeId(node), epoch: Epoch(1), address: "127.0.0.1:7411".to_owned() };
    let (name, gid) = ("a".to_owned(), Gid(1));
    RegionView {
        copies: 1,
        name,
        gid,
        owner: User { uid: 1000, gid: 1000 },
        mode: 0o600,
        rights: Rights::Write,
        layout: a_layout(),
        grants: vec![Grant([7; 16]); 3],
        nodes: (0..3).map(address).collect(),
        attributes: Default::default(),
        made: crate::wire::control::Made::Found,
    }
}

fn node_join(incarnation: u128) -> NodeJoin {
    NodeJoin {
        incarnation: Incarnation(incarnation),
        attempt: 1,
        name: format!("n{incarnation}"),
        address: "127.0.0.1:1".to_owned(),
        memory: Memory { lent: 1 << 30, ..Memory::default() },
        was: None,
        held: vec![ReportedExtent { slot: Slot(1), gid: Gid(9), len: 4096, read: Grant([1; 16]), write: Grant([2; 16]) }],
        wish: None,
        restores: None,
    }
}

fn join(incarnation: u128) -> FromNode {
    node_join(incarnation).into()
}

fn ask(request: u64, what: Request) -> FromNode {
    FromNode::Ask { request, settled: 0, user: User { uid: 1000, gid: 1000 }.into(), client: ClientId(1), what }
}

fn create(name: &str, placement: Placement) -> Request {
    Request::Create {
        copies: 1,
        name: name.to_owned(),
        len: 1 << 20,
        placement,
        mode: 0o600,
        attributes: Default::default(),
        existing: crate::wire::control::Existing::Refuse,
    }
}

fn packed<T: Serialize>(messages: &[(u8, T)]) -> Vec<u8> {
    let pack = |(who, message): &(u8, T)| {
        let bytes = control::encode(message);
        [&[*who][..], &(bytes.len() as u16).to_le_bytes(), &bytes].concat()
    };
    messages.iter().flat_map(pack).collect()
}

#[test]
fn records_of_fixed_length() {
    drive("head", &[Head::new(Kind::Commands, 1).encode().to_vec()], MOST, head);
    drive("hello", &[Hello::new(Role::Data, 1, [1; NONCE_LEN]).encode().to_vec()], MOST, hello);
    let dims = vec![Dim { count: 4, stride: 64 }, Dim { count: 2, stride: -8 }];
    let shapes = [
        Shape::Strided(Strided { offset: 8, block: 8, stride: 64, count: 16 }),
        Shape::Subarray(Subarray::new(64, 8, &dims).unwrap()),
    ];
    let seed = |shape: &Shape<'_>| {
        let bytes = Command::new(Op::Put, 1, Slot(1), Grant([1; 16]), shape).encode();
        let list = if let Shape::Subarray(shape) = shape { dims_list(shape) } else { Vec::new() };
        [&bytes[..], &(1u64 << 20).to_le_bytes(), &list].concat()
    };
    drive("command", &shapes.each_ref().map(seed), MOST, command);
    let settled = Settled { page: 1, ticket: crate::page::Ticket { slot: 1, number: 1 }, version: Version(1) };
    drive("records", &[settled.encode().to_vec(), vec![0; PAGE_REQUEST_LEN]], MOST, records);
}

#[test]
fn messages_of_data_links() {
    let request = PageRequest {
        page: 1,
        ticket: crate::page::Ticket { slot: 1, number: 1 },
        access: crate::page::Access::Read,
        has: None,
        firm: false,
        tries: true,
    };
    let range = BoundRange { gid: Gid(1), offset: 2, len: 3 };
    let publication = Publication { changes: Stores::Bytes(vec![range], vec![1; 3]), binding: Some(Vec::new()) };
    let packed = |(head, body): (Head, Vec<u8>)| [&head.encode()[..], &body].concat();
    let array = ArrayAt { slot: Slot(1), grant: Grant([1; 16]), offset: 64 };
    let address = SyncAddress::Byte { slot: Slot(1), grant: Grant([1; 16]), offset: 64 };
    let party = PartyName { client: ClientId(1), rank: Some(Rank(1)), process: 2, node: NodeId(3) };
    let settled = Settled { page: 1, ticket: request.ticket, version: Version(1) };
    let seeds = [
        packed(Query::Ask(Question { connection: 1, seq: 2 }).encode(1)),
        packed(Query::Sync(SyncRequest::AwaitDeath { job: JobId(1) }).encode(1)),
        packed(Query::Sync(SyncRequest::Publish { number: 1, publication }).encode(1)),
        packed(Query::Sync(SyncRequest::Queue(array, QueueRequest::OpenReader { first: 1, count: 2, reader: 3 })).encode(1)),
        packed(Query::Sync(SyncRequest::Permit { name: "a".to_owned(), mode: 0o640 }).encode(1)),
        packed(Query::Sync(SyncRequest::Join { address, parties: 2, number: 1, client: party }).encode(1)),
        packed(Query::Name(7).encode(1)),
        packed(Query::Face(ProgramFace::C).encode(1)),
        packed(Query::Faces.encode(1)),
        packed(Query::Settled(1, vec![settled]).encode(1)),
        packed(Reply::Synced(SyncAnswer::Ready { count: 2, queues: [9; QUEUE_READY_COUNT_MAX] }).encode(1)),
        packed(Reply::Synced(SyncAnswer::Lane { lane: 1, accepted: 2 }).encode(1)),
        packed(Query::Pages(1, vec![request; 2]).encode(1)),
        packed(Reply::Refused(Error::LimitReached { what: "a".to_owned(), limit: 1 }).encode(1)),
        packed(Reply::Synced(SyncAnswer::Word { index: 0, seen: 1 }).encode(1)),
    ];
    drive("exchange", &seeds, MOST, exchange);
}

#[test]
fn queues_and_what_is_in_them() {
    let form = |unit, overflow| QueueForm { unit, depth: 4, ports: 2, overflow };
    let front = AppendFront { queue: 0, writer: PortId(1), seq: 0 }.encode();
    let records = [&front[..], &5u64.to_le_bytes(), &[7; 8], &0u64.to_le_bytes()].concat();
    let seeds = [
        [&form(Unit::Records { len_max: 40 }, Overflow::Spill).encode(3)[..], &records].concat(),
        [&form(Unit::Blocks { len: 16 }, Overflow::Wait).encode(70)[..], &front, &[7; 32]].concat(),
    ];
    drive("queues", &seeds, MOST, queues);
    let header = PartHeader { from: 1, part: 2, piece: 0, kind: PartHeaderKind::Part, operation: 3, digest: 4 };
    let envelope = Envelope { from: 1, context: 0, tag: 5 };
    let inline = Front { envelope, head_len: 2, body_len: 3, body: BodyLocation::Here };
    let long = Front { envelope, head_len: 2, body_len: 300, body: BodyLocation::Heap(64) };
    let pack = |front: &Front, rest: usize| {
        let bytes = [&front.encode()[..], &vec![7; rest]].concat();
        [&[0][..], &(bytes.len() as u16).to_le_bytes(), &bytes].concat()
    };
    let both = [pack(&inline, 5), pack(&long, 2), pack(&inline, 5)].concat();
    let part = BodyPart::new(6, Gid(7), &Shape::contiguous(8, 300)).encode().expect("a header has room for it");
    let fetched = Front { envelope, head_len: 2, body_len: 300, body: BodyLocation::Part(part.len()) };
    let bytes = [&fetched.encode()[..], &[7; 2], &part].concat();
    let filled = [&bytes[..], &vec![0; fetched.header_len() - bytes.len()]].concat();
    let fetched = [&[3, 0][..], &(filled.len() as u16).to_le_bytes(), &filled].concat();
    let empty = Front { envelope, head_len: 48, body_len: 0, body: BodyLocation::Here };
    let named = [&Front { head_len: 2, ..empty }.encode()[..], &[7; SHORTEST_LEN - FRONT_LEN]].concat();
    let short = empty.encode_short(&[7; 48]).expect("it has no body");
    let line = |bytes: &[u8]| [&[0][..], &(bytes.len() as u16).to_le_bytes(), bytes].concat();
    let short = [&[3][..], &line(&named), &line(&short)].concat();
    drive("headers", &[[&[3][..], &header.encode()].concat(), [&[3][..], &both].concat(), fetched, short], MOST, headers);
}

#[test]
fn control_messages() {
    let write_back = ToHome::WriteBack { version: Version(3), keeps: false };
    let message = Frame::Message(9, NodeMessage::ToHome { share: 1, page: Page(2), message: write_back });
    let extent = CopiedExtent { gid: Gid(1), index: 0 };
    let entry = Arc::new(ExtentWrite::put(vec![(8, 8)], vec![7; 8]));
    let write = ToCopy::Write { term: Term(1), position: Position(2), stable: Position(1), entry };
    let seeds = [
        control::encode(&Request::Share { view: view(), consistency: Consistency::Coherent }),
        control::encode(&create("a", Placement::Local)),
        control::encode(&Request::Prove { hellos: vec![1; 128] }),
        control::encode(&join(1)),
        control::encode(&Ok::<_, Error>(Answer::Region(view()))),
        page::encode_frame(&message, Some(&[7; 4096])),
        control::encode(&CopyFrame::ToCopy(extent, write)),
    ];
    drive("control", &seeds, MOST, control);
    drive("layout", &[control::encode(&a_layout())], MOST, layout);
}

#[test]
fn calls_of_main_memory() {
    let calls = [Call::Hello { start: 1 << 40, len: 1 << 30 }, Call::Fork { parent: 7 }, Call::Free { start: 4096, len: 4096 }];
    drive("main_memory", &calls.map(|call| call.encode().to_vec()), MOST, main_memory);
}

#[test]
fn a_coordinator_hears_anything() {
    let who = JobRank { job: JobId(1), rank: Rank(0), ranks: 2 };
    let make = ReportedExtent { slot: Slot(2), gid: Gid(1), len: 1 << 20, read: Grant([1; 16]), write: Grant([2; 16]) };
    let seeds = [
        packed(&[
            (1, join(1)),
            (1, ask(1, create("a", Placement::Local))),
            (1, FromNode::Obeyed { order: 1, result: Ok(vec![make]) }),
            (1, ask(2, Request::Resize { name: "a".to_owned(), len: 2 << 20 })),
            (1, ask(3, Request::List { after: String::new() })),
            (1, ask(4, Request::Remove { name: "a".to_owned() })),
        ]),
        packed(&[
            (1, join(1)),
            (2, join(2)),
            (3, FromNode::JoinPersisting(node_join(3))),
            (1, ask(1, create("b", Placement::Interleave(4096)))),
            (2, FromNode::Renew { epoch: Epoch(1), memory: Memory { lent: u64::MAX, ..Memory::default() } }),
            (2, FromNode::ClientCame { client: ClientId(3), job: who }),
            (2, FromNode::ClientGone { client: ClientId(3), job: who, reason: "killed".to_owned(), died: true }),
            (1, ask(5, Request::Reserve { used: u64::MAX, wanted: 1 })),
            (2, FromNode::Recalled { client: ClientId::at(NodeId(1), 3), number: 7, recalled: Recalled::Kept, home: NodeId(2) }),
            (2, FromNode::RecallLock { client: ClientId::at(NodeId(1), 3), number: 7 }),
            (2, FromNode::Leave { keeps: false }),
        ]),
    ];
    drive("coordinator", &seeds, MOST, coordinator);
}

#[test]
fn a_node_hears_anything_of_its_coordinator() {
    let home = NodeAddress { node: NodeId(0), epoch: Epoch(1), address: "127.0.0.1:1".to_owned() };
    let welcome = ToNode::Welcome {
        incarnation: Incarnation(1),
        attempt: 1,
        node: NodeId(1),
        epoch: Epoch(1),
        lease_ms: 3000,
        keep: vec![Slot(1)],
        settled: 0,
        home,
        quota: Some(1),
    };
    let order = |order, what| ToNode::Order { order, settled: 0, epoch: Epoch(1), what };
    let seed = packed(&[
        (0, welcome),
        (0, order(1, Order::Make { gid: Gid(1), lens: vec![4096, 1 << 20], copied: None })),
        (0, order(2, Order::Free { slots: vec![Slot(1)] })),
        (0, ToNode::Renewed { epoch: Epoch(1) }),
        (0, ToNode::Recall { client: ClientId(3), number: u64::MAX, home: NodeId(2) }),
        (0, ToNode::Recalled { client: ClientId(3), number: u64::MAX, recalled: Recalled::Held }),
        (0, ToNode::Unknown),
    ]);
    drive("member", &[seed], MOST, member);
}
