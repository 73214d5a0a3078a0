//! Fuzz targets: any bytes are a value that survives the wire, or refused; and what passes breaks no state machine.
#![allow(missing_docs, reason = "a target's name says what it feeds")]
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]

use crate::collective::header::{HEADER_LEN, PartHeader};
use crate::coordinator::{self, Coordinator, Peer};
use crate::error::Error;
use crate::id::Incarnation;
use crate::limits::STAGE_LEN;
use crate::member::{self, Member};
use crate::message::header::{BodyLocation, BodyRoom, FRONT_LEN, Front};
use crate::message::part::{BodyPart, decode_outcome};
use crate::message::{Matching, Posted, Wanted};
use crate::placement::Layout;
use crate::queue::layout::{LINE_LEN, QueueForm};
use crate::versions::{NEWEST, Versions};
use crate::wire::command::{COMMAND_LEN, Command};
use crate::wire::control::{self, Answer, FromNode, Request, ToNode};
use crate::wire::copies::{CopyFrame, ToCopy};
use crate::wire::exchange::{Query, Reply};
use crate::wire::greeting::{HELLO_LEN, Hello};
use crate::wire::head::{HEAD_LEN, Head};
use crate::wire::main_memory::Call;
use crate::wire::page::{self, GRANTED_LEN, Granted, PAGE_REQUEST_LEN, PageRequest, Settled};
use crate::wire::queue::{self, APPEND_FRONT_LEN, AppendFront};
use crate::wire::range_frame::RangeFrame;
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
    ("headers", headers),
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
        assert!(again == hello || hello.versions.spoken_with(Versions::BUILD).is_none());
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
    survives::<CopyFrame>(bytes);
    if let Ok(CopyFrame::ToCopy(_, ToCopy::Write { entry, .. })) = control::decode(bytes)
        && entry.check(1 << 20).is_ok()
    {
        assert!(entry.len_bytes() <= STAGE_LEN as u64);
    }
    let range = match control::decode(bytes) {
        Ok(CopyFrame::ToCopy(extent, ToCopy::Range { term, range, bytes })) => Some((extent, term, range, bytes)),
        _ => None,
    };
    assert_eq!(RangeFrame::read(bytes).map(|frame| (frame.extent, frame.term, frame.range, frame.bytes.to_vec())), range);
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

/// The first line of an array of queues, and behind it an append. What passes lies inside, and has the form's lengths.
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
pub fn headers(bytes: &[u8]) {
    let Some((count, bytes)) = bytes.split_first() else { return };
    let count = u32::from(*count) + 1;
    if let Some(Ok(header)) = bytes.first_chunk::<HEADER_LEN>().map(|bytes| PartHeader::decode(bytes, count)) {
        assert!(header.from < count && header.part < count && bytes.starts_with(&header.encode()));
    }
    const ROOM: BodyRoom = BodyRoom { heap_len: 1 << 16, ring_len: 1 << 12 };
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
            BodyLocation::Heap(at) => assert!(at + front.body_len <= ROOM.heap_len),
            BodyLocation::Ring(place) => assert!(place.at + front.body_len <= ROOM.ring_len),
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

/// A client's or node's word on a region. A layout that passes the check breaks nothing that is made of it.
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
    machine.connected(0, NEWEST);
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
mod tests;
