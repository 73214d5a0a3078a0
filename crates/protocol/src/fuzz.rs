//! Fuzz targets: any bytes are a value that survives the wire, or refused; and what passes breaks no state machine.
#![allow(missing_docs, reason = "a target's name says what it feeds")]
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]

use crate::collective::header::{NOTE_LEN, PartHeader};
use crate::coordinator::{self, Coordinator, Peer};
use crate::error::Error;
use crate::id::Incarnation;
use crate::member::{self, Member};
use crate::message::header::{BodyLocation, BodyRoom, FRONT_LEN, Front};
use crate::message::part::{BodyPart, decode_outcome};
use crate::message::{Matching, Posted, Wanted};
use crate::placement::Layout;
use crate::queue::layout::{LINE_LEN, QueueForm};
use crate::wire::VERSION;
use crate::wire::command::{COMMAND_LEN, Command};
use crate::wire::control::{self, Answer, FromNode, Request, ToNode};
use crate::wire::exchange::{Query, Reply};
use crate::wire::greeting::{HELLO_LEN, Hello};
use crate::wire::head::{HEAD_LEN, Head};
use crate::wire::main_memory::Call;
use crate::wire::page::{self, GRANTED_LEN, Granted, PAGE_REQUEST_LEN, PageRequest, Settled};
use crate::wire::queue::{self, APPEND_FRONT_LEN, AppendFront};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// A target's name, and what tries its input.
type FuzzTarget = (&'static str, fn(&[u8]));

/// All of them, by name.
pub const TARGETS: &[FuzzTarget] = &[
    ("head", head),
    ("exchange", exchange),
    ("hello", hello),
    ("command", command),
    ("control", control),
    ("layout", layout),
    ("queues", queues),
    ("notes", notes),
    ("records", records),
    ("coordinator", coordinator),
    ("member", member),
    ("main_memory", main_memory),
];

pub fn head(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk::<HEAD_LEN>() else { return };
    if let Ok(head) = Head::decode(bytes) {
        assert_eq!(head.encode(), *bytes);
    }
}

/// A call of an unchanged program to the keeper of its memory.
pub fn main_memory(bytes: &[u8]) {
    if let Ok(call) = Call::decode(bytes) {
        assert_eq!(Call::decode(&call.encode()), Ok(call));
    }
}

/// A message of a data link: its head, and its body. Both sides read it as theirs.
pub fn exchange(bytes: &[u8]) {
    let Some((head, body)) = bytes.split_first_chunk::<HEAD_LEN>() else { return };
    let Ok(head) = Head::decode(head) else { return };
    if let Ok(query) = Query::decode(&head, body) {
        let (again, bytes) = query.encode(head.seq);
        assert_eq!(Query::decode(&again, &bytes), Ok(query));
    }
    if let Ok(reply) = Reply::decode(&head, body) {
        let (again, bytes) = reply.encode(head.seq);
        assert_eq!(Reply::decode(&again, &bytes), Ok(reply));
    }
}

pub fn hello(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk::<HELLO_LEN>() else { return };
    if let Ok(hello) = Hello::decode(bytes) {
        let again = Hello::decode(&hello.encode()).expect("what was read can be said");
        assert!(again == hello || hello.version != VERSION);
    }
}

pub fn command(bytes: &[u8]) {
    let Some((bytes, rest)) = bytes.split_first_chunk::<COMMAND_LEN>() else { return };
    let limit = rest.first_chunk().map_or(1 << 20, |limit| u64::from_le_bytes(*limit));
    if let Ok(command) = Command::decode(bytes) {
        assert_eq!(command.encode(), *bytes);
        let list: Vec<u64> = rest
            .get(8..)
            .unwrap_or_default()
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
            .collect();
        if let Ok(shape) = command.shape(&list)
            && let Ok(shape) = shape.check("region", limit)
        {
            let is_inside = |(offset, len): (u64, u64)| offset.checked_add(len).is_some_and(|end| end <= limit);
            assert!(shape.range().is_none_or(is_inside), "{:?} of {limit}", shape.range());
            let _ = command.op.check("region", &shape);
        }
    }
}

fn survives<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(value) = control::decode::<T>(bytes) {
        assert_eq!(control::decode(&control::encode(&value)), Ok(value));
    }
}

pub fn control(bytes: &[u8]) {
    survives::<Request>(bytes);
    survives::<Result<Answer, Error>>(bytes);
    survives::<FromNode>(bytes);
    survives::<ToNode>(bytes);
    survives::<coordinator::Record>(bytes);
    if let Ok((frame, page)) = page::decode_frame(bytes) {
        assert_eq!(page::decode_frame(&page::encode_frame(&frame, Some(page))), Ok((frame, page)));
    }
}

pub fn records(bytes: &[u8]) {
    if let Some(bytes) = bytes.first_chunk::<PAGE_REQUEST_LEN>() {
        assert!(
            PageRequest::decode(bytes).is_ok_and(|request| request.encode() == *bytes) || PageRequest::decode(bytes).is_err()
        );
        assert!(Settled::decode(bytes).is_ok_and(|settled| settled.encode() == *bytes) || Settled::decode(bytes).is_err());
    }
    if let Some(bytes) = bytes.first_chunk::<GRANTED_LEN>() {
        assert!(Granted::decode(bytes).is_ok_and(|granted| granted.encode() == *bytes) || Granted::decode(bytes).is_err());
    }
}

/// The first line of an array of queues, and behind it an append: what passes lies inside, and is of the form's lengths.
pub fn queues(bytes: &[u8]) {
    let Some((line, append)) = bytes.split_first_chunk::<{ LINE_LEN as usize }>() else { return };
    let Ok((form, count)) = QueueForm::decode(line) else { return };
    assert_eq!(form.encode(count), *line);
    let len = form.array_len(count).expect("what was decoded fits the limits");
    assert!(form.queue_at(count, count - 1) + form.bytes_at(form.ports - 1) + form.lane_len() <= len);
    let Ok((front, rest)) = AppendFront::decode(append) else { return };
    assert_eq!(front.encode(), append[..APPEND_FRONT_LEN]);
    let units = queue::units(rest, &form).unwrap_or_default();
    assert!(units.iter().all(|unit| form.check_unit("q", unit.len() as u64).is_ok()));
}

/// Messages of a group's parties to each other's queues: parts of vectors, and messages. A byte says how many parties there are.
pub fn notes(bytes: &[u8]) {
    let Some((count, bytes)) = bytes.split_first() else { return };
    let count = u32::from(*count) + 1;
    if let Some(Ok(note)) = bytes.first_chunk::<NOTE_LEN>().map(|bytes| PartHeader::decode(bytes, count)) {
        assert!(note.from < count && note.part < count && bytes.starts_with(&note.encode()));
    }
    const ROOM: BodyRoom = BodyRoom { heap_len: 1 << 16, strip_len: 1 << 12 };
    let (mut matching, mut sender) = (Matching::default(), None);
    for (turn, (_, message)) in messages(bytes).take(64).enumerate() {
        let front = message.first_chunk().map(|bytes| Front::decode(bytes, message.len(), (sender, count), ROOM));
        let Some(Ok((front, head_at))) = front else { continue };
        assert!(front.envelope.from < count);
        if head_at == FRONT_LEN {
            assert!(front.header_len() == message.len() && message.starts_with(&front.encode()));
            sender = Some(front.envelope.from);
        } else {
            let end = head_at + front.head_len;
            let again = front.encode_short(&message[head_at..end]).expect("it was short");
            assert_eq!((sender, &again[..end]), (Some(front.envelope.from), &message[..end]));
        }
        match front.body {
            BodyLocation::Landed(at) => assert!(at + front.body_len <= ROOM.heap_len),
            BodyLocation::Strip(place) => assert!(place.at + front.body_len <= ROOM.strip_len),
            BodyLocation::Part(_) => assert!(front.body_len <= ROOM.heap_len),
            BodyLocation::Here | BodyLocation::Fetched(_) => {}
        }
        let behind = message.get(head_at + front.head_len..).and_then(|rest| rest.get(..front.behind_len()));
        let _ = behind.map(|bytes| (BodyPart::decode(bytes).map(|part| part.shape()), decode_outcome(bytes)));
        let want = Wanted { from: (turn % 2 == 0).then_some(front.envelope.from), context: front.envelope.context, tag: None };
        let posted = turn % 3 > 0 && matches!(matching.on_post(want), Posted::Waits(_));
        assert!(matching.on_arrival(front.envelope, ()).is_some() || !posted, "a message that fits is taken");
    }
}

/// A client's or node's word on a region: a layout that passes the check breaks nothing that is made of it.
pub fn layout(bytes: &[u8]) {
    let Ok(layout) = control::decode::<Layout>(bytes) else { return };
    if layout.check().is_err() {
        return;
    }
    let len = layout.len();
    for at in [0, len / 2, len - 1] {
        let _ = layout.period(at);
        for piece in layout.pieces(at, (len - at).min(1 << 16)).take(64) {
            let held = layout.extents().nth(piece.extent).expect("a piece lies on an extent").len;
            assert!(piece.offset + piece.len <= held, "{} bytes at {} of {held}", piece.len, piece.offset);
        }
    }
}

/// Messages one after another, each behind a byte for its sender and two for its length.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let ([who, low, high], rest) = bytes.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (message, rest) = rest.split_at(len);
        bytes = rest;
        Some((*who, message))
    })
}

/// Nodes that say anything to their coordinator, one message after another.
pub fn coordinator(bytes: &[u8]) {
    let mut machine = Coordinator::restore(coordinator::Settings::new("home"), [], 0);
    for (turn, (who, message)) in messages(bytes).take(64).enumerate() {
        let now_ms = turn as u64 * 100;
        let peer = Peer(u64::from(who % 4));
        match control::decode::<FromNode>(message) {
            Ok(message) => machine.handle(now_ms, peer, message),
            Err(_) if who & 128 != 0 => machine.disconnected(now_ms, peer, "gone"),
            Err(_) => machine.tick(now_ms),
        }
        while machine.poll().is_some() {}
    }
    let again = Coordinator::restore(coordinator::Settings::new("home"), machine.snapshot(), 0);
    assert_eq!(again.snapshot().len(), machine.snapshot().len(), "a journal says what its coordinator knew");
}

/// A coordinator that says anything to a node.
pub fn member(bytes: &[u8]) {
    let mut machine = Member::new(member::Settings::new(Incarnation(1), "n", "127.0.0.1:1"));
    machine.connected(0);
    for (turn, (_, message)) in messages(bytes).take(64).enumerate() {
        let now_ms = turn as u64 * 100;
        match control::decode::<ToNode>(message) {
            Ok(message) => machine.handle(now_ms, message),
            Err(_) => machine.tick(now_ms),
        }
        while machine.poll().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::header::PartHeaderKind;
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
    use crate::wire::control::{Memory, NodeAddress, Order, RegionView, ReportedExtent};
    use crate::wire::exchange::Question;
    use crate::wire::greeting::{NONCE_LEN, Role};
    use crate::wire::head::Kind;
    use crate::wire::page::{Frame, NodeMessage};
    use crate::wire::queue::{ArrayAt, QueueRequest};
    use crate::wire::sync::{SyncAddress, SyncAnswer, SyncRequest};
    use hanare_fuzz::{Counting, drive};

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
        RegionView {
            name: "a".to_owned(),
            gid: Gid(1),
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

    fn join(incarnation: u128) -> FromNode {
        FromNode::Join {
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

    fn ask(request: u64, what: Request) -> FromNode {
        FromNode::Ask { request, settled: 0, user: User { uid: 1000, gid: 1000 }.into(), client: ClientId(1), what }
    }

    fn create(name: &str, placement: Placement) -> Request {
        Request::Create {
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
        let settled = Settled { page: 1, ticket: crate::page::Ticket { seat: 1, number: 1 }, version: Version(1) };
        drive("records", &[settled.encode().to_vec(), vec![0; PAGE_REQUEST_LEN]], MOST, records);
    }

    #[test]
    fn messages_of_data_links() {
        let request = PageRequest {
            page: 1,
            ticket: crate::page::Ticket { seat: 1, number: 1 },
            access: crate::page::Access::Read,
            has: None,
            firm: false,
            tries: true,
        };
        let range = BoundRange { gid: Gid(1), offset: 2, len: 3 };
        let publication = Publication { changes: Stores::Bytes(vec![range], vec![1; 3]), binding: Some(Vec::new()) };
        let packed = |(head, body): (Head, Vec<u8>)| [&head.encode()[..], &body].concat();
        let array = ArrayAt { slot: Slot(1), grant: Grant([1; 16]), offset: 64 };
        let site = SyncAddress::Byte { slot: Slot(1), grant: Grant([1; 16]), offset: 64 };
        let party = PartyName { client: ClientId(1), rank: Some(Rank(1)), process: 2, node: NodeId(3) };
        let settled = Settled { page: 1, ticket: request.ticket, version: Version(1) };
        let seeds = [
            packed(Query::Ask(Question { connection: 1, seq: 2 }).encode(1)),
            packed(Query::Sync(SyncRequest::AwaitDeath { job: JobId(1) }).encode(1)),
            packed(Query::Sync(SyncRequest::Publish { number: 1, publication }).encode(1)),
            packed(Query::Sync(SyncRequest::Queue(array, QueueRequest::OpenReader { first: 1, count: 2, reader: 3 })).encode(1)),
            packed(Query::Sync(SyncRequest::Permit { name: "a".to_owned(), mode: 0o640 }).encode(1)),
            packed(Query::Sync(SyncRequest::Join { site, parties: 2, number: 1, client: party }).encode(1)),
            packed(Query::Name(7).encode(1)),
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
        let note = PartHeader { from: 1, part: 2, piece: 0, kind: PartHeaderKind::Part, operation: 3, digest: 4 };
        let envelope = Envelope { from: 1, context: 0, tag: 5 };
        let inline = Front { envelope, head_len: 2, body_len: 3, body: BodyLocation::Here };
        let landed = Front { envelope, head_len: 2, body_len: 300, body: BodyLocation::Landed(64) };
        let pack = |front: &Front, rest: usize| {
            let bytes = [&front.encode()[..], &vec![7; rest]].concat();
            [&[0][..], &(bytes.len() as u16).to_le_bytes(), &bytes].concat()
        };
        let both = [pack(&inline, 5), pack(&landed, 2), pack(&inline, 5)].concat();
        let part = BodyPart::new(6, Gid(7), &Shape::contiguous(8, 300)).encode().expect("a note has room for it");
        let fetched = Front { envelope, head_len: 2, body_len: 300, body: BodyLocation::Part(part.len()) };
        let bytes = [&fetched.encode()[..], &[7; 2], &part].concat();
        let filled = [&bytes[..], &vec![0; fetched.header_len() - bytes.len()]].concat();
        let fetched = [&[3, 0][..], &(filled.len() as u16).to_le_bytes(), &filled].concat();
        let empty = Front { envelope, head_len: 48, body_len: 0, body: BodyLocation::Here };
        let named = [&Front { head_len: 2, ..empty }.encode()[..], &[7; SHORTEST_LEN - FRONT_LEN]].concat();
        let short = empty.encode_short(&[7; 48]).expect("it has no body");
        let line = |bytes: &[u8]| [&[0][..], &(bytes.len() as u16).to_le_bytes(), bytes].concat();
        let short = [&[3][..], &line(&named), &line(&short)].concat();
        drive("notes", &[[&[3][..], &note.encode()].concat(), [&[3][..], &both].concat(), fetched, short], MOST, notes);
    }

    #[test]
    fn control_messages() {
        let write_back = ToHome::WriteBack { version: Version(3), keeps: false };
        let message = Frame::Message(9, NodeMessage::ToHome { share: 1, page: Page(2), message: write_back });
        let seeds = [
            control::encode(&Request::Share { view: view(), consistency: Consistency::Coherent }),
            control::encode(&create("a", Placement::Local)),
            control::encode(&Request::Prove { hellos: vec![1; 128] }),
            control::encode(&join(1)),
            control::encode(&Ok::<_, Error>(Answer::Region(view()))),
            page::encode_frame(&message, Some(&[7; 4096])),
        ];
        drive("control", &seeds, MOST, control);
        drive("layout", &[control::encode(&a_layout())], MOST, layout);
    }

    #[test]
    fn calls_of_main_memory() {
        let calls =
            [Call::Hello { start: 1 << 40, len: 1 << 30 }, Call::Fork { parent: 7 }, Call::Free { start: 4096, len: 4096 }];
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
                (1, ask(1, create("b", Placement::Interleave(4096)))),
                (2, FromNode::Renew { epoch: Epoch(1), memory: Memory { lent: u64::MAX, ..Memory::default() } }),
                (2, FromNode::ClientCame { client: ClientId(3), job: who }),
                (2, FromNode::ClientGone { client: ClientId(3), job: who, reason: "killed".to_owned(), died: true }),
                (1, ask(5, Request::Reserve { used: u64::MAX, wanted: 1 })),
                (
                    2,
                    FromNode::Recalled {
                        client: ClientId::at(NodeId(1), 3),
                        number: 7,
                        recalled: Recalled::Kept,
                        home: NodeId(2),
                    },
                ),
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
            (0, order(1, Order::Make { gid: Gid(1), lens: vec![4096, 1 << 20] })),
            (0, order(2, Order::Free { slots: vec![Slot(1)] })),
            (0, ToNode::Renewed { epoch: Epoch(1) }),
            (0, ToNode::Recall { client: ClientId(3), number: u64::MAX, home: NodeId(2) }),
            (0, ToNode::Recalled { client: ClientId(3), number: u64::MAX, recalled: Recalled::Held }),
            (0, ToNode::Unknown),
        ]);
        drive("member", &[seed], MOST, member);
    }
}
