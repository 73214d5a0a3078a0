//! A fuzz target: requests for what clients share, by several users on several connections. Meanwhile one of them writes anywhere into a
//! queue's memory.

use crate::extents::Extents;
use crate::pages::{NodeHome, NodePages};
use hanare_home::{Input, LockTerms, PageInput, PageTerms, Pages, Waiter};
use hanare_memory::file::Huge;
use hanare_memory::{Lender, LenderOptions};
use hanare_protocol::id::{ClientId, Epoch, Gid, Grant, Incarnation, NodeId, Rights, User};
use hanare_protocol::limits::{FAR_RECALL_MS, REPEAT_MS};
use hanare_protocol::queue::{Overflow, QueueForm, Unit};
use hanare_protocol::wire::control;
use hanare_protocol::wire::sync::SyncRequest;
use std::sync::Arc;
use std::time::Duration;

const LEN: u64 = 64 << 10;
const FORM: QueueForm = QueueForm { unit: Unit::Records { len_max: 40 }, depth: 3, ports: 2, overflow: Overflow::Spill };
const COUNT: u64 = 3;

/// Stands in inputs for the grant that nobody knows ahead.
const WRITES: Grant = Grant([1; 16]);

thread_local! {
    static LENDER: Arc<Lender> = {
        let options = LenderOptions { bytes: 8 << 20, slab_len: Some(1 << 20), huge: Huge::Never, ahead: 0, ..LenderOptions::default() };
        Arc::new(Lender::new(&options).expect("memory"))
    };
}

fn with_grant(mut request: SyncRequest, write: Grant) -> SyncRequest {
    match &mut request {
        SyncRequest::Wait { words, .. } => {
            words.iter_mut().filter(|word| word.grant == WRITES).for_each(|word| word.grant = write);
        }
        SyncRequest::Heap { grant, .. }
        | SyncRequest::BlockLen { grant, .. }
        | SyncRequest::Compare { grant, .. }
        | SyncRequest::Store { grant, .. }
            if *grant == WRITES =>
        {
            *grant = write
        }
        SyncRequest::Queue(at, _) if at.grant == WRITES => at.grant = write,
        SyncRequest::Release { places, .. } => {
            places.iter_mut().filter(|place| place.grant == WRITES).for_each(|place| place.grant = write);
        }
        SyncRequest::Arrive(_, Some(carried)) => {
            let wants = carried.wants.iter_mut().map(|want| &mut want.at);
            let all = carried.puts.iter_mut().map(|put| &mut put.at).chain(wants);
            all.filter(|place| place.grant == WRITES).for_each(|place| place.grant = write);
        }
        _ => {}
    }
    request
}

/// Each message is behind a byte that says what it is and whose, and two that give its length.
pub(crate) fn sharing(bytes: &[u8]) {
    let extents = Arc::new(Extents::new(LENDER.with(Arc::clone)));
    extents.renew_grants(NodeId(0)).expect("random bytes");
    let made = extents.make(Gid(1), &[LEN], false).expect("memory")[0];
    let held = extents.hold(made.slot, made.write, Rights::Write).expect("it was just made");
    held.reach().window().slice(0, 64).write_from(&FORM.encode(COUNT)).expect("memory");
    let (address, life, answer) = ("127.0.0.1:1".to_owned(), Incarnation(1), Duration::from_secs(1));
    let terms = PageTerms { address, life, answer, frames_max: 4 };
    let pages = Pages::new(terms, NodePages::new(extents.clone()));
    let mut home = NodeHome::new(LockTerms { is_home: false, was_home: false, was_lender: false }, 1, pages);
    let memory = &*extents;
    home.handle(Duration::ZERO, PageInput::Identity { node: NodeId(0), epoch: Epoch(1) }.into(), memory);
    let (mut rest, mut seq) = (bytes, 0);
    while let Some(([what, low, high], more)) = rest.split_first_chunk() {
        let (message, more) = more.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(more.len()));
        (rest, seq) = (more, seq + 1);
        let (link, now) = (u64::from(what >> 3 & 7), Duration::from_millis(seq));
        let user = User { uid: 1000 + u32::from(what >> 3 & 1), gid: 7 };
        match what & 7 {
            0..=3 => {
                if let Ok(request) = control::decode::<SyncRequest>(message) {
                    let request = with_grant(request, made.write);
                    let input = Input::Request { waiter: Waiter { link, seq }, from: (ClientId(link), user), request };
                    home.handle(now, input, memory);
                }
            }
            4 => home.handle(now, Input::LinkGone { link }, memory),
            5 => {
                let _ = held.append(0, u32::from(what >> 6), message);
            }
            6 => scribble(&held, message),
            _ => home.handle(now, Input::Changed, memory),
        }
        while home.poll(memory).is_some() {}
    }
    let now = Duration::from_millis(seq + 1);
    home.handle(now, Input::Tick, memory);
    (0..8).for_each(|link| home.handle(now, Input::LinkGone { link }, memory));
    while home.poll(memory).is_some() {}
    // Leases of programs that are gone are asked for until no node can have them any more.
    home.handle(now + Duration::from_millis(FAR_RECALL_MS + REPEAT_MS), Input::Tick, memory);
    while home.poll(memory).is_some() {}
    assert!(home.deadline().is_none(), "nobody waits any more");
    drop((home, held));
    extents.free(&[made.slot]);
}

/// Words, each behind two bytes of its place.
fn scribble(held: &crate::extent::NodeExtent, message: &[u8]) {
    for one in message.chunks_exact(10) {
        let at = usize::from(u16::from_le_bytes([one[0], one[1]])) & !7;
        held.reach().window().slice(at, 8).write_from(&one[2..]).expect("memory");
    }
}

/// Inputs that [`sharing`] begins with.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    use hanare_protocol::heap::{HeapCall, HeapWish};
    use hanare_protocol::id::{JobId, JobRank, PartyName, Rank, Slot};
    use hanare_protocol::wire::sync::{Arrival, LeaseWish, Mode, Party, SyncAddress, Wait, WaitedWord, Word};
    let (name, slot, grant) = ("a".to_owned(), Slot(0), WRITES);
    let lock = |number, mode| SyncRequest::Lock {
        address: SyncAddress::Name(name.clone()),
        mode,
        number,
        thread: number,
        bound_ms: Some(0),
        known: None,
        lease: LeaseWish { keeps: true, returns: Some(0) },
    };
    let client = PartyName { client: ClientId(1), rank: None, process: 1, node: NodeId(0) };
    let join = |number| SyncRequest::Join { address: SyncAddress::Name(name.clone()), parties: 2, number, client };
    let who = |rank| JobRank { job: JobId(1), rank: Rank(rank), ranks: 2 };
    let arrive = |rank| SyncRequest::Arrive(Party::Rank(Arrival { who: who(rank), generation: 0 }), None);
    let carried = carried();
    let word = |offset, until| WaitedWord { slot, grant, offset, until };
    let wait = SyncRequest::Wait { words: vec![word(8, Wait::NotEqual(Word::U64(1)))], bound_ms: Some(1) };
    let either = vec![word(LEN - 8, Wait::Equal(Word::U32(1))), word(6, Wait::Less(Word::I16(0)))];
    let never = SyncRequest::Wait { words: either, bound_ms: None };
    let call =
        HeapCall { region_len: LEN, wishes: vec![HeapWish::Allocate { len: 100, align: 64 }, HeapWish::Free { offset: 64 }] };
    let allocate = SyncRequest::Heap { slot, grant, call, once: None };
    vec![
        [
            ask(1, &lock(1, Mode::Exclusive)),
            ask(3, &lock(2, Mode::Shared)),
            ask(2, &lock(3, Mode::Shared)),
            ask(1, &SyncRequest::Permit { name: name.clone(), mode: 0o666 }),
            ask(1, &SyncRequest::Unlock { number: 1 }),
            ask(3, &SyncRequest::Withdraw { number: 2 }),
            pack(3 << 3 | 4, Vec::new()),
        ]
        .concat(),
        [
            ask(1, &join(1)),
            ask(3, &join(1)),
            ask(1, &SyncRequest::Arrive(Party::Place(1), None)),
            ask(3, &SyncRequest::Arrive(Party::Place(1), None)),
            ask(3, &SyncRequest::Leave { number: 1 }),
        ]
        .concat(),
        [ask(1, &join(1)), ask(3, &join(1)), ask(1, &carried[0]), ask(3, &carried[0]), ask(1, &carried[1]), ask(2, &carried[2])]
            .concat(),
        [ask(1, &lock(1, Mode::Exclusive)), ask(1, &carried[3])].concat(),
        [ask(1, &arrive(0)), ask(2, &SyncRequest::AwaitDeath { job: JobId(1) }), ask(3, &arrive(1)), ask(1, &arrive(0))].concat(),
        [ask(1, &wait), ask(2, &never), pack(7, Vec::new()), ask(1, &allocate)].concat(),
        queue_seed(),
    ]
}

/// A message, and a request of a session.
#[cfg(test)]
fn pack(what: u8, bytes: Vec<u8>) -> Vec<u8> {
    [&[what][..], &(bytes.len() as u16).to_le_bytes(), &bytes].concat()
}

#[cfg(test)]
fn ask(session: u8, request: &SyncRequest) -> Vec<u8> {
    pack(session << 3, control::encode(request))
}

/// Ports of a queue.
#[cfg(test)]
fn queue_seed() -> Vec<u8> {
    use hanare_protocol::id::Slot;
    use hanare_protocol::wire::queue::{AppendFront, ArrayAt, QueueRequest};
    let (slot, grant) = (Slot(0), WRITES);
    let queue = |request| SyncRequest::Queue(ArrayAt { slot, grant, offset: 0 }, request);
    let front = AppendFront { queue: 1, writer: hanare_protocol::queue::PortId(5), seq: 0 };
    let unit = [&8u64.to_le_bytes()[..], &[7; 8]].concat();
    let append = pack(5, [&front.encode()[..], &unit.repeat(5)].concat());
    [
        ask(1, &queue(QueueRequest::OpenLane { queue: 1, writer: 5 })),
        ask(2, &queue(QueueRequest::OpenReader { first: 0, count: COUNT, reader: 6 })),
        append.clone(),
        append,
        pack(6, [&[0, 1][..], &[255; 8]].concat()),
        ask(2, &queue(QueueRequest::TakeReady { reader: 6 })),
        ask(2, &queue(QueueRequest::Free { queue: 1, lane: 0, reader: 6, head: 16 })),
        ask(2, &queue(QueueRequest::Leave { queue: 1, reader: 6 })),
        ask(1, &queue(QueueRequest::ResumeLane { queue: 1, lane: 0, writer: 5 })),
        ask(2, &queue(QueueRequest::Tell { queue: 1, lane: 0, reader: 6 })),
        ask(1, &queue(QueueRequest::CloseLane { queue: 1, lane: 0, writer: 5 })),
        ask(2, &queue(QueueRequest::CloseReader { first: 0, reader: 6 })),
    ]
    .concat()
}

/// Arrivals at barriers of a group and of a job, and a release, that carry bytes.
#[cfg(test)]
fn carried() -> [SyncRequest; 4] {
    use hanare_protocol::entry::{BoundRange, BoundShape, Publication, Stores};
    use hanare_protocol::id::{JobId, JobRank, Rank, Slot};
    use hanare_protocol::shape::Strided;
    use hanare_protocol::wire::carried::{Carried, ExtentAddress, PutRuns, WantedPages};
    use hanare_protocol::wire::sync::{Arrival, Party};
    let place = |offset| ExtentAddress { slot: Slot(0), grant: WRITES, offset };
    let carried = || {
        let puts = vec![PutRuns { at: place(100), runs: vec![(0, 2), (3, 1)] }];
        let wants = vec![WantedPages { at: place(0), len: LEN, seed: [1; 16], known: vec![(0, 7)] }];
        Box::new(Carried { puts, bytes: vec![1, 2, 3], wants })
    };
    let who = |rank| JobRank { job: JobId(1), rank: Rank(rank), ranks: 2 };
    let arrive = |rank| SyncRequest::Arrive(Party::Rank(Arrival { who: who(rank), generation: 0 }), Some(carried()));
    let range = BoundRange { gid: Gid(1), offset: 8, len: 2 };
    let binding = Some(vec![BoundShape { gid: Gid(1), shape: Strided::contiguous(0, 64) }]);
    let publication = Publication { changes: Stores::Bytes(vec![range], vec![1, 2]), binding };
    let release = SyncRequest::Release { number: 1, publication, places: vec![place(8)], keeps: true };
    [SyncRequest::Arrive(Party::Place(1), Some(carried())), arrive(0), arrive(1), release]
}
