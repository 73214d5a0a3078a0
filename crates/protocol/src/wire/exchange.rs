//! Messages on a data link beside vector commands: what a client asks, and what its node replies. One place encodes a kind of
//! message, and one decodes it; both sides only pass the values on.
//!
//! ```text
//! client ── Query: a head, and a body that is decoded whole ────────> node
//!        <────────────────── Reply: a head, and a body likewise ──
//! ```
//!
//! The bytes of [commands](super::command) and of their results are no part of the values here. They go to and from their places as they
//! come. The same holds for pages behind the records of a grant: see [`granted_head`].
//!
//! A further kind of message is a variant here, a number and limit in [`super::head`], and its receiver's action.

use super::Malformed;
use super::backing::{ABOUT_BACKING, Backing};
use super::control;
use super::face::{ABOUT_FACES, FaceCounts, ProgramFace};
use super::head::{Head, Kind};
use super::look::{Look, Seen};
use super::page::{GRANTED_LEN, PAGE_REQUEST_LEN, PageRequest, Settled};
use super::sync::{SyncAnswer, SyncRequest};
use crate::error::{Error, Happened};
use crate::id::Gid;
use crate::limits::PAGE_LEN;
use serde::{Deserialize, Serialize};

/// The outcome that a client asks for after a connection has broken. The connection ends at the node where it has not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The connection's name.
    pub connection: u128,
    /// The request's number on it.
    pub seq: u64,
}

/// A message of a client that is no vector command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// A sign of life is asked for; answered by [`Reply::Pong`].
    Ping,
    /// The client's name for this connection. Not answered.
    Name(u128),
    /// Asks what became of a request; answered by [`Reply::Told`].
    Ask(Question),
    /// Asks for something that clients share; answered by [`Reply::Synced`], perhaps much later.
    Sync(SyncRequest),
    /// A thread wants pages of the share of that number; answered by as many [`super::page::Granted`], see [`granted_head`].
    Pages(u64, Vec<PageRequest>),
    /// A thread has installed grants of that share. Not answered.
    Settled(u64, Vec<Settled>),
    /// Frames of that region are more than the host's limit. Not answered.
    Crowded(Gid),
    /// A thread does not know what became of the requests of so many slots from the first on. Its node goes on in their names. Not
    /// answered.
    TakeOver {
        /// The region.
        gid: Gid,
        /// The first slot.
        first: u16,
        /// Their number.
        count: u16,
    },
    /// Asks what the node has and did; answered by [`Reply::Seen`].
    Look(Look),
    /// Asks for the memory behind the node's extents; answered by [`Reply::Backing`]. Since version 28.
    Backing(Look),
    /// Tells the face by which the program uses the pool. Not answered. Since version 28.
    Face(ProgramFace),
    /// Asks for the node's counts by face; answered by [`Reply::Faces`]. Since version 28.
    Faces,
}

impl Query {
    /// True for kinds of message that are queries, whose bodies are taken in whole.
    pub fn is_of(kind: Kind) -> bool {
        use Kind::*;
        matches!(kind, Ping | Name | Ask | Sync | Pages | Settled | Crowded | TakeOver | Look | Face)
    }

    /// The kind of [`Reply`] that answers it beside a refusal, if one does.
    pub fn reply_kind(&self) -> Option<Kind> {
        match self {
            Query::Ping => Some(Kind::Pong),
            Query::Ask(_) => Some(Kind::Told),
            Query::Sync(_) => Some(Kind::Synced),
            Query::Pages(..) => Some(Kind::Granted),
            Query::Look(_) | Query::Backing(_) | Query::Faces => Some(Kind::Seen),
            Query::Name(_) | Query::Settled(..) | Query::Crowded(_) | Query::TakeOver { .. } | Query::Face(_) => None,
        }
    }

    /// True if it must not be carried out twice.
    pub fn is_once(&self) -> bool {
        matches!(self, Query::Sync(request) if request.is_once())
    }

    /// Its head, by that number, and its body.
    pub fn encode(&self, seq: u64) -> (Head, Vec<u8>) {
        match self {
            Query::Ping => (Head::new(Kind::Ping, seq), Vec::new()),
            Query::Name(name) => (name_head(*name), Vec::new()),
            Query::Ask(question) => with_value(Kind::Ask, seq, question),
            Query::Sync(request) => with_value(Kind::Sync, seq, request),
            Query::Pages(share, requests) => {
                (page_requests_head(seq, *share, requests.len()), requests.iter().flat_map(PageRequest::encode).collect())
            }
            Query::Settled(share, settled) => {
                (settled_head(*share, settled.len()), settled.iter().flat_map(Settled::encode).collect())
            }
            Query::Crowded(gid) => (crowded_head(*gid), Vec::new()),
            Query::TakeOver { gid, first, count } => (take_over_head(*gid, *first, *count), Vec::new()),
            Query::Look(look) => with_value(Kind::Look, seq, look),
            Query::Backing(look) => about(ABOUT_BACKING, with_value(Kind::Look, seq, look)),
            Query::Face(face) => (face_head(*face), Vec::new()),
            Query::Faces => about(ABOUT_FACES, (Head::new(Kind::Look, seq), Vec::new())),
        }
    }

    /// Reads a query whose body is here. **Errors**: also for what is none.
    pub fn decode(head: &Head, body: &[u8]) -> Result<Query, Malformed> {
        Ok(match head.kind {
            Kind::Ping => Query::Ping,
            Kind::Name => Query::Name(u128::from(head.seq) << 64 | u128::from(head.detail)),
            Kind::Ask => Query::Ask(control::decode(body)?),
            Kind::Sync => Query::Sync(control::decode(body)?),
            Kind::Pages => Query::Pages(head.detail, records(head, body, PageRequest::decode)?),
            Kind::Settled => Query::Settled(head.detail, records(head, body, Settled::decode)?),
            Kind::Crowded => Query::Crowded(Gid(head.detail)),
            Kind::TakeOver => Query::TakeOver { gid: Gid(head.detail), first: slot(head.seq)?, count: slot(head.count.into())? },
            Kind::Look if head.detail == ABOUT_BACKING => Query::Backing(control::decode(body)?),
            Kind::Look if head.detail == ABOUT_FACES => match body {
                [] => Query::Faces,
                _ => return Err(Malformed("bytes behind a question that has none")),
            },
            Kind::Look => Query::Look(control::decode(body)?),
            Kind::Face => Query::Face(ProgramFace::told(head.detail)),
            _ => return Err(Malformed("a message that only nodes send")),
        })
    }
}

/// A message of a node on a data link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Commands are done; the body is their results, which are where they belong already.
    Done,
    /// A request was refused.
    Refused(Error),
    /// A sign of life while the answer to a request takes its time.
    Working,
    /// To [`Query::Ping`]: with the node's clock.
    Pong {
        /// Nanoseconds since 1970.
        unix_ns: u64,
    },
    /// To [`Query::Ask`].
    Told(Happened),
    /// To [`Query::Sync`].
    Synced(SyncAnswer),
    /// To [`Query::Look`].
    Seen(Box<Seen>),
    /// To [`Query::Backing`].
    Backing(Box<Backing>),
    /// To [`Query::Faces`].
    Faces(Box<FaceCounts>),
}

impl Reply {
    /// Its head, by the number of the request, and its body. That of [`Reply::Done`] is one without results.
    pub fn encode(&self, seq: u64) -> (Head, Vec<u8>) {
        match self {
            Reply::Done => (Head::new(Kind::Done, seq), Vec::new()),
            Reply::Refused(error) => with_value(Kind::Refused, seq, error),
            Reply::Working => (Head::new(Kind::Working, seq), Vec::new()),
            Reply::Pong { unix_ns } => (Head { detail: *unix_ns, ..Head::new(Kind::Pong, seq) }, Vec::new()),
            Reply::Told(happened) => with_value(Kind::Told, seq, happened),
            Reply::Synced(answer) => with_value(Kind::Synced, seq, answer),
            Reply::Seen(seen) => with_value(Kind::Seen, seq, seen),
            Reply::Backing(backing) => about(ABOUT_BACKING, with_value(Kind::Seen, seq, backing)),
            Reply::Faces(counts) => about(ABOUT_FACES, with_value(Kind::Seen, seq, counts)),
        }
    }

    /// Reads a reply; `body` is not looked at where it is results. **Errors**: also for what is none.
    pub fn decode(head: &Head, body: &[u8]) -> Result<Reply, Malformed> {
        Ok(match head.kind {
            Kind::Done => Reply::Done,
            Kind::Refused => Reply::Refused(control::decode(body)?),
            Kind::Working => Reply::Working,
            Kind::Pong => Reply::Pong { unix_ns: head.detail },
            Kind::Told => Reply::Told(control::decode(body)?),
            Kind::Synced => Reply::Synced(control::decode(body)?),
            Kind::Seen if head.detail == ABOUT_BACKING => Reply::Backing(control::decode(body)?),
            Kind::Seen if head.detail == ABOUT_FACES => Reply::Faces(control::decode(body)?),
            Kind::Seen => Reply::Seen(control::decode(body)?),
            _ => return Err(Malformed("a message that only clients send")),
        })
    }
}

/// The head of [`Query::Name`].
pub fn name_head(name: u128) -> Head {
    Head { detail: name as u64, ..Head::new(Kind::Name, (name >> 64) as u64) }
}

/// The head of [`Query::Pages`], for a signal handler that writes its records itself.
pub fn page_requests_head(seq: u64, share: u64, count: usize) -> Head {
    Head { detail: share, ..with_records(Kind::Pages, seq, count, PAGE_REQUEST_LEN) }
}

/// The head of [`Query::Settled`], as [`page_requests_head`].
pub fn settled_head(share: u64, count: usize) -> Head {
    Head { detail: share, ..with_records(Kind::Settled, 0, count, PAGE_REQUEST_LEN) }
}

/// The head of [`Query::Crowded`].
pub fn crowded_head(gid: Gid) -> Head {
    Head { detail: gid.0, ..Head::new(Kind::Crowded, 0) }
}

/// The head of [`Query::TakeOver`].
pub fn take_over_head(gid: Gid, first: u16, count: u16) -> Head {
    Head { detail: gid.0, count: count.into(), ..Head::new(Kind::TakeOver, first.into()) }
}

/// The head of [`Query::Face`].
pub fn face_head(face: ProgramFace) -> Head {
    Head { detail: face.number().into(), ..Head::new(Kind::Face, 0) }
}

fn slot(number: u64) -> Result<u16, Malformed> {
    number.try_into().map_err(|_| Malformed("a slot that there is not"))
}

/// The head of the answer to [`Query::Pages`]: so many records, and `pages_len` bytes of pages behind them.
pub fn granted_head(seq: u64, count: usize, pages_len: u64) -> Head {
    let head = with_records(Kind::Granted, seq, count, GRANTED_LEN);
    Head { body_len: head.body_len.saturating_add(pages_len), ..head }
}

/// Bytes of pages behind the records, where a head answers so many wants.
pub fn granted_pages_len(head: &Head, count: usize) -> Option<u64> {
    let pages_len = head.body_len.checked_sub((count as u64).checked_mul(GRANTED_LEN as u64)?)?;
    let is_answer = head.kind == Kind::Granted && head.count as usize == count;
    (is_answer && pages_len.is_multiple_of(PAGE_LEN) && pages_len / PAGE_LEN <= count as u64).then_some(pages_len)
}

fn with_value<T: Serialize>(kind: Kind, seq: u64, value: &T) -> (Head, Vec<u8>) {
    let body = control::encode(value);
    (Head { body_len: body.len() as u64, ..Head::new(kind, seq) }, body)
}

fn about(what: u64, (head, body): (Head, Vec<u8>)) -> (Head, Vec<u8>) {
    (Head { detail: what, ..head }, body)
}

fn with_records(kind: Kind, seq: u64, count: usize, len: usize) -> Head {
    let body_len = (count as u64).saturating_mul(len as u64);
    Head { count: count as u32, body_len, ..Head::new(kind, seq) }
}

fn records<T>(
    head: &Head,
    body: &[u8],
    decode: impl Fn(&[u8; PAGE_REQUEST_LEN]) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    match body.as_chunks::<PAGE_REQUEST_LEN>() {
        (records, []) if records.len() == head.count as usize => records.iter().map(decode).collect(),
        _ => Err(Malformed("records of pages that are not as many as announced")),
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::id::JobId;
    use crate::page::{Access, Ticket, Version};
    use crate::wire::backing::{BackingKind, BackingPages, Residence};
    use crate::wire::control::NodeCounts;

    fn ticket() -> Ticket {
        Ticket { slot: 3, number: 9 }
    }

    fn queries() -> Vec<Query> {
        let request =
            PageRequest { page: 1, ticket: ticket(), access: Access::Write, has: Some(Version(4)), firm: true, tries: false };
        vec![
            Query::Ping,
            Query::Name(u128::MAX - 7),
            Query::Ask(Question { connection: 5, seq: 6 }),
            Query::Sync(SyncRequest::AwaitDeath { job: JobId(1) }),
            Query::Pages(8, vec![request, PageRequest { page: 2, ..request }]),
            Query::Settled(8, vec![Settled { page: 1, ticket: ticket(), version: Version(5) }]),
            Query::Crowded(Gid(77)),
            Query::TakeOver { gid: Gid(77), first: 12, count: 3 },
            Query::Look(Look { cells: 7, ..Look::default() }),
            Query::Backing(Look { cells: 7, ..Look::default() }),
            Query::Face(ProgramFace::Fortran),
            Query::Faces,
        ]
    }

    fn replies() -> Vec<Reply> {
        vec![
            Reply::Done,
            Reply::Refused(Error::LimitReached { what: "x".to_owned(), limit: 1 }),
            Reply::Working,
            Reply::Pong { unix_ns: 1 << 60 },
            Reply::Told(Happened::No),
            Reply::Synced(SyncAnswer::Busy),
            Reply::Seen(Box::new(Seen {
                counts: NodeCounts { commands: Vec::new(), refused: Vec::new() },
                programs: Vec::new(),
                locks: Vec::new(),
                lock_count: 3,
                pages: Vec::new(),
                map: vec![1, 2],
            })),
            Reply::Backing(Box::new(Backing {
                kind: BackingKind::DaxFile,
                pages: BackingPages::Small,
                wish: vec![1],
                all: Residence { len: 5, numa: [(0, 5)].into(), ..Residence::default() },
                regions: vec![(Gid(3), Residence::default())],
            })),
            Reply::Faces(Box::new(FaceCounts {
                faces: vec![(99, NodeCounts { commands: Vec::new(), refused: vec![("other".to_owned(), 1)] })],
            })),
        ]
    }

    #[test]
    fn queries_survive_the_wire_and_are_no_replies() {
        for query in queries() {
            let (head, body) = query.encode(3);
            assert_eq!(Head::decode(&head.encode()), Ok(head));
            assert_eq!(head.body_len, body.len() as u64);
            assert!(Query::is_of(head.kind));
            assert_eq!(Query::decode(&head, &body), Ok(query));
            assert!(Reply::decode(&head, &body).is_err());
        }
    }

    #[test]
    fn replies_survive_the_wire_and_are_no_queries() {
        for reply in replies() {
            let (head, body) = reply.encode(3);
            assert_eq!((Head::decode(&head.encode()), head.seq), (Ok(head), 3));
            assert_eq!(head.body_len, body.len() as u64);
            assert!(!Query::is_of(head.kind));
            assert_eq!(Reply::decode(&head, &body), Ok(reply));
            assert!(Query::decode(&head, &body).is_err());
        }
    }

    #[test]
    fn every_answer_is_of_the_kind_that_its_query_names() {
        let answered: Vec<Option<Kind>> = queries().iter().map(Query::reply_kind).collect();
        let kinds: Vec<Kind> = replies().iter().map(|reply| reply.encode(0).0.kind).collect();
        let answers = answered.into_iter().flatten().filter(|kind| *kind != Kind::Granted);
        assert!(answers.into_iter().all(|kind| kinds.contains(&kind)));
    }

    #[test]
    fn a_node_that_does_not_read_the_detail_takes_the_question_for_a_look() {
        let (head, body) = Query::Backing(Look::default()).encode(1);
        assert_eq!(Query::decode(&Head { detail: 0, ..head }, &body), Ok(Query::Look(Look::default())));
    }

    #[test]
    fn a_face_of_a_later_version_is_another_one() {
        let head = Head { detail: 1 << 40, ..face_head(ProgramFace::C) };
        assert_eq!(Query::decode(&head, &[]), Ok(Query::Face(ProgramFace::Other)));
    }

    #[test]
    fn records_that_are_not_as_many_as_announced_are_refused() {
        let (head, body) = queries().swap_remove(4).encode(1);
        assert!(Query::decode(&head, &body[1..]).is_err());
        assert!(Query::decode(&Head { count: 1, ..head }, &body).is_err());
    }

    #[test]
    fn pages_behind_grants_are_whole_and_no_more_than_were_wanted() {
        for (pages_len, known) in
            [(0, true), (PAGE_LEN, true), (2 * PAGE_LEN, true), (3 * PAGE_LEN, false), (PAGE_LEN - 1, false)]
        {
            let head = granted_head(1, 2, pages_len);
            assert_eq!(granted_pages_len(&head, 2), known.then_some(pages_len));
            assert_eq!(granted_pages_len(&head, 1), None);
        }
    }
}
