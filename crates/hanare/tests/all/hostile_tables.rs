//! A user that would fill what all programs of a pool share: locks, groups, barriers, words waited for, tables of heaps; one that reads no
//! answer; one that scribbles over a queue. Others have their share.

use crate::processes::Dice;
use crate::raw_link::{Raw, packed};
use crate::support;

use hanare::{CreateOptions, Error, Overflow, Pool, QueueForm, Region, Unit};
use hanare_protocol::entry::{BoundRange, BoundShape, Publication, Stamp, Stores};
use hanare_protocol::heap::{Heap, HeapCall, HeapWish};
use hanare_protocol::id::{ClientId, Gid, JobId, JobRank, NodeId, PartyName, Rank};
use hanare_protocol::limits::{
    JOB_COUNT_MAX, LINK_ARRIVAL_COUNT_MAX, LINK_CLAIM_COUNT_MAX, LINK_GRANT_LEN_MAX, LINK_WORD_COUNT_MAX, RANK_COUNT_MAX,
    RELEASE_LEN_MAX, USER_BOUND_LOCK_COUNT_MAX, USER_CLAIM_COUNT_MAX, USER_HEAP_LEN_MAX, USER_JOB_COUNT_MAX,
    USER_PLACE_COUNT_MAX, USER_WORD_COUNT_MAX, WORD_WAIT_COUNT_MAX,
};
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::control::{self, Answer, RegionView, Request, Which};
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::wire::look::Look;
use hanare_protocol::wire::sync::{
    Arrival, LeaseWish, Mode, Party, SyncAddress, SyncAnswer, SyncRequest, Wait, WaitedWord, Word,
};
use std::io::Write;
use std::time::{Duration, Instant};
use support::TestPool;

/// The user that would have all, and another.
const CROWD: u32 = 1;
const OTHER: u32 = 2;

fn is_limit(answer: &Result<SyncAnswer, Error>, limit: usize) -> bool {
    matches!(answer, Err(Error::LimitReached { limit: reached, .. }) if *reached == limit as u64)
}

/// Asks many times on one connection, and reads each answer.
fn ask_all(raw: &mut Raw, requests: impl Iterator<Item = SyncRequest>) -> Result<SyncAnswer, Error> {
    let (mut last, all) = (Ok(SyncAnswer::Done), requests.collect::<Vec<_>>());
    for some in all.chunks(1024) {
        assert!(raw.push(&some.iter().flat_map(packed).collect::<Vec<u8>>()));
        for _ in some {
            last = match raw.answer() {
                (Head { kind: Kind::Refused, .. }, body) => Err(control::decode(&body).unwrap()),
                (_, body) => Ok(control::decode(&body).unwrap()),
            };
        }
    }
    last
}

/// Grants of a region of the test's own user, which the library keeps to itself.
fn view(pool: &TestPool, name: &str) -> RegionView {
    let mut node = crate::intruder::Intruder::connect_as_we_are(pool.nodes[0].socket());
    node.region(&Request::Open { which: Which::Name(name.to_owned()), rights: Some(hanare::Rights::Write) })
}

#[test]
fn no_user_has_all_locks_nor_all_groups() {
    let pool = TestPool::start(1, 16 << 20);
    let address = pool.nodes[0].address();
    let share = |number| SyncRequest::Lock {
        address: SyncAddress::Name("crowd".to_owned()),
        mode: Mode::Shared,
        number,
        thread: number,
        bound_ms: Some(0),
        known: None,
        lease: LeaseWish::default(),
    };
    let join = |number| SyncRequest::Join {
        address: SyncAddress::Name("crowd".to_owned()),
        parties: RANK_COUNT_MAX,
        number,
        client: PartyName { client: ClientId(1), rank: None, process: 1, node: NodeId(0) },
    };
    type Taking<'a> = &'a dyn Fn(u64) -> SyncRequest;
    let tables: [(Taking<'_>, usize); 2] = [(&share, USER_CLAIM_COUNT_MAX), (&join, USER_PLACE_COUNT_MAX)];
    for (request, most) in tables {
        let mut crowd = Vec::new();
        for _ in 0..most / LINK_CLAIM_COUNT_MAX {
            let mut raw = Raw::connect_as(address, CROWD);
            assert!(ask_all(&mut raw, (0..LINK_CLAIM_COUNT_MAX as u64).map(request)).is_ok());
            crowd.push(raw);
        }
        let mut one_more = Raw::connect_as(address, CROWD);
        let refused = one_more.ask(&request(0));
        assert!(is_limit(&refused, most), "{refused:?}");
        let mut other = Raw::connect_as(address, OTHER);
        let own = match request(1) {
            SyncRequest::Lock { mode, number, thread, bound_ms, known, lease, .. } => {
                SyncRequest::Lock { address: SyncAddress::Name("other".to_owned()), mode, number, thread, bound_ms, known, lease }
            }
            SyncRequest::Join { parties, number, client, .. } => {
                SyncRequest::Join { address: SyncAddress::Name("other".to_owned()), parties, number, client }
            }
            request => request,
        };
        assert!(other.ask(&own).is_ok());
        // With its connections goes what a user has.
        drop(crowd);
        let until = Instant::now() + Duration::from_secs(20);
        while one_more.ask(&request(0)).is_err() {
            assert!(Instant::now() < until, "what was taken does not come back");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn lock(name: &str, number: u64, mode: Mode, known: Option<Stamp>) -> SyncRequest {
    SyncRequest::Lock {
        address: SyncAddress::Name(name.to_owned()),
        mode,
        number,
        thread: number,
        bound_ms: None,
        known,
        lease: LeaseWish::default(),
    }
}

/// A release of so many bytes, which are bound to the lock from then on.
fn release(number: u64, len: u64) -> SyncRequest {
    let binding = Some(vec![BoundShape { gid: Gid(1), shape: Strided::contiguous(0, len) }]);
    let changes = Stores::Bytes(vec![BoundRange { gid: Gid(1), offset: 0, len }], vec![7; len as usize]);
    SyncRequest::Publish { number, publication: Publication { changes, binding } }
}

/// Takes a lock, changes what is bound to it, and gives it back.
fn bind(raw: &mut Raw, name: &str, number: u64, len: u64) -> Result<Stamp, Error> {
    assert!(raw.ask(&lock(name, number, Mode::Exclusive, None)).is_ok());
    let published = raw.ask(&release(number, len));
    assert!(raw.ask(&SyncRequest::Unlock { number }).is_ok());
    published.map(|answer| match answer {
        SyncAnswer::Published { stamp } => stamp,
        other => panic!("{other:?}"),
    })
}

#[test]
fn no_user_has_all_locks_with_data() {
    let pool = TestPool::start(1, 16 << 20);
    let address = pool.nodes[0].address();
    let mut crowd = Raw::connect_as(address, CROWD);
    for number in 0..USER_BOUND_LOCK_COUNT_MAX as u64 {
        bind(&mut crowd, &format!("crowd{number}"), number, 8).unwrap();
    }
    let refused = bind(&mut crowd, "one more", 1 << 20, 8);
    assert!(is_limit(&refused.map(|_| SyncAnswer::Done), USER_BOUND_LOCK_COUNT_MAX));
    bind(&mut Raw::connect_as(address, OTHER), "other", 0, 8).unwrap();
    bind(&mut crowd, "crowd0", 1 << 21, 8).unwrap();
}

/// How many wait for a lock, as its node says.
fn waiting_for(pool: &TestPool, name: &str) -> u64 {
    let mut raw = Raw::connect_as(pool.nodes[0].address(), 0);
    let (head, body) = Query::Look(Look::default()).encode(1);
    assert!(raw.push(&[&head.encode()[..], &body].concat()));
    let (head, body) = raw.answer();
    let Ok(Reply::Seen(seen)) = Reply::decode(&head, &body) else { panic!("no answer to a look") };
    seen.locks.iter().find(|lock| lock.name == name).map_or(0, |lock| lock.counts.1)
}

/// Who waits a thousand times for a lock with 256 KiB of changes gets some MiB at once, and not 250.
#[test]
fn what_comes_with_a_lock_does_not_pile_up_on_a_connection() {
    const WAITERS: u64 = 1000;
    let pool = TestPool::start(1, 16 << 20);
    let address = pool.nodes[0].address();
    let (mut holder, mut waiter) = (Raw::connect_as(address, CROWD), Raw::connect_as(address, CROWD));
    let len = RELEASE_LEN_MAX as u64;
    let known = bind(&mut holder, "long", 0, len).unwrap();
    assert!(holder.ask(&lock("long", 1, Mode::Exclusive, Some(known))).is_ok());
    let SyncRequest::Publish { number, publication } = release(1, len) else { unreachable!("it is one") };
    assert!(holder.ask(&SyncRequest::Publish { number, publication: Publication { binding: None, ..publication } }).is_ok());
    (0..WAITERS).for_each(|number| waiter.send(&lock("long", number, Mode::Shared, Some(known))));
    let until = Instant::now() + Duration::from_secs(20);
    while waiting_for(&pool, "long") < WAITERS {
        assert!(Instant::now() < until, "they do not wait");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(holder.ask(&SyncRequest::Unlock { number: 1 }).is_ok());
    let (mut received, mut with_bytes) = (0, 0);
    for _ in 0..WAITERS {
        let (_, body) = waiter.answer();
        received += body.len() as u64;
        with_bytes += u64::from(body.len() as u64 > len);
    }
    assert!(with_bytes > 0 && received <= LINK_GRANT_LEN_MAX, "{with_bytes} with their bytes, {received} bytes");
}

#[test]
fn no_user_has_all_barriers() {
    let pool = TestPool::start(1, 16 << 20);
    let address = pool.nodes[0].address();
    let arrive = |job: usize| {
        let who = JobRank { job: JobId(1 << 100 | job as u128), rank: Rank(0), ranks: 2 };
        SyncRequest::Arrive(Party::Rank(Arrival { who, generation: 0 }), None)
    };
    let mut crowd = Vec::new();
    for jobs in (0..JOB_COUNT_MAX + LINK_ARRIVAL_COUNT_MAX).collect::<Vec<_>>().chunks(LINK_ARRIVAL_COUNT_MAX) {
        let mut raw = Raw::connect_as(address, CROWD);
        jobs.iter().for_each(|job| raw.send(&arrive(*job)));
        crowd.push(raw);
    }
    let mut last = crowd.pop().unwrap();
    let refused: Error = match last.answer() {
        (Head { kind: Kind::Refused, .. }, body) => control::decode(&body).unwrap(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused, Error::LimitReached { limit, .. } if limit == USER_JOB_COUNT_MAX as u64), "{refused}");
    // Those of one connection, too.
    let refused = ask_first_refused(
        &mut crowd[0],
        (0..=1).map(|rank| {
            let who = JobRank { job: JobId(1 << 100), rank: Rank(rank), ranks: RANK_COUNT_MAX };
            SyncRequest::Arrive(Party::Rank(Arrival { who, generation: 0 }), None)
        }),
    );
    assert!(is_limit(&Err(refused), LINK_ARRIVAL_COUNT_MAX));
    // Another user's job meets, while they wait and when they are gone.
    let meet = || {
        let ranks = pool.job(2);
        std::thread::scope(|scope| ranks.iter().for_each(|rank| drop(scope.spawn(move || rank.barrier().unwrap()))));
    };
    meet();
    drop((crowd, last));
    meet();
}

/// The first refusal of some requests that are not answered otherwise.
fn ask_first_refused(raw: &mut Raw, requests: impl Iterator<Item = SyncRequest>) -> Error {
    requests.for_each(|request| raw.send(&request));
    match raw.answer() {
        (Head { kind: Kind::Refused, .. }, body) => control::decode(&body).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_user_has_all_words_that_are_waited_for() {
    let pool = TestPool::start(1, 16 << 20);
    let (address, client) = (pool.nodes[0].address(), pool.client(0));
    client.create("words", 4096, &CreateOptions::default()).unwrap();
    let view = view(&pool, "words");
    let (slot, grant) = (view.layout.extents().next().unwrap().slot, view.grants[0]);
    let word = WaitedWord { slot, grant, offset: 0, until: Wait::Equal(Word::U64(1)) };
    let wait = |bound_ms| SyncRequest::Wait { words: vec![word], bound_ms };
    let mut crowd: Vec<Raw> = (0..WORD_WAIT_COUNT_MAX / LINK_WORD_COUNT_MAX).map(|_| Raw::connect_as(address, CROWD)).collect();
    for raw in &mut crowd {
        (0..LINK_WORD_COUNT_MAX).for_each(|_| raw.send(&wait(None)));
    }
    let refused = ask_first_refused(crowd.last_mut().unwrap(), std::iter::empty());
    assert!(is_limit(&Err(refused), USER_WORD_COUNT_MAX));
    let other = Raw::connect_as(address, OTHER).ask(&wait(Some(1)));
    assert!(matches!(other, Err(Error::NotInTime { .. })), "{other:?}");
}

/// A program says how long a region is whose heap begins, and a table of 8 MiB follows.
#[test]
fn tables_of_heaps_are_not_one_user_s_to_fill_the_memory_with() {
    let pool = TestPool::start(1, 16 << 20);
    let (address, client) = (pool.nodes[0].address(), pool.client(0));
    let most = USER_HEAP_LEN_MAX / Heap::table_len(u64::MAX);
    let names: Vec<String> = (0..=most + 1).map(|number| format!("heap{number}")).collect();
    let views: Vec<RegionView> = names
        .iter()
        .map(|name| {
            client.create(name, 1, &CreateOptions::default()).unwrap();
            view(&pool, name)
        })
        .collect();
    let at = |number: usize| (views[number].layout.extents().next().unwrap().slot, views[number].grants[0]);
    let call = |number, wish| {
        let (slot, grant) = at(number);
        SyncRequest::Heap { slot, grant, call: HeapCall { region_len: u64::MAX, wishes: vec![wish] }, once: None }
    };
    let allocate = |number| call(number, HeapWish::Allocate { len: 1, align: 1 });
    let mut crowd = Raw::connect_as(address, CROWD);
    for number in 0..most as usize {
        assert!(crowd.ask(&allocate(number)).is_ok(), "{number} of {most}");
    }
    let most = most as usize;
    assert!(is_limit(&crowd.ask(&allocate(most)), USER_HEAP_LEN_MAX as usize));
    let free = call(most, HeapWish::Free { offset: 64 });
    assert!(is_limit(&crowd.ask(&free), USER_HEAP_LEN_MAX as usize), "giving back makes no table either");
    assert!(crowd.ask(&allocate(0)).is_ok(), "a heap that is there goes on");
    assert!(Raw::connect_as(address, OTHER).ask(&allocate(most)).is_ok(), "others have their own share");
    client.remove(&names[1]).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while crowd.ask(&allocate(most + 1)).is_err() {
        assert!(Instant::now() < until, "a table goes with its region");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A data link whose answers nobody reads: requests are left where they are, and others are served.
#[test]
fn answers_of_a_data_link_that_nobody_reads_do_not_pile_up() {
    let pool = TestPool::start(1, 16 << 20);
    let client = pool.client(0);
    let region = client.create("read", 4096, &CreateOptions::default()).unwrap();
    let mut raw = Raw::connect_as(pool.nodes[0].address(), CROWD);
    let refused = packed(&SyncRequest::Unlock { number: 7 }).repeat(1000);
    let mut sent = 0;
    while raw.0.write(&refused).is_ok_and(|len| len > 0) {
        sent += refused.len();
        assert!(sent < 256 << 20, "the node takes requests without end");
    }
    region.get(0, &mut [0; 8]).unwrap();
    assert!(!client.lock("free").unwrap().was_abandoned());
}

/// A program that may write a queue's region writes anywhere into it while others use the queue: those end with an error or go on, in time,
/// and the node serves others.
#[test]
fn who_scribbles_over_a_queue_spoils_that_queue_alone() {
    let seed = u64::from(std::process::id()) << 7 | 1;
    println!("seed {seed}");
    let mut dice = Dice::new(seed);
    let pool = TestPool::start(2, 16 << 20);
    let near = pool.client(0);
    let region = near.create("untouched", 64 << 10, &CreateOptions::default()).unwrap();
    let placement = hanare::Placement::Node(NodeId(0));
    let form = QueueForm { unit: Unit::Records { len_max: 64 }, depth: 4, ports: 2, overflow: Overflow::Spill };
    let bound = Some(Duration::from_millis(20));
    for round in 0..40 {
        let name = format!("queue{round}");
        let options = CreateOptions { placement, ..CreateOptions::default() };
        let queues = near.create_queues(&name, 3, &form, &options).unwrap();
        let user = pool.client(round % 2);
        let queue = user.open_queues(&name, 0).unwrap().queue(1).unwrap();
        let (Ok(mut writer), Ok(mut reader)) = (queue.writer(), queue.reader()) else { panic!("a fresh queue") };
        let scribbled = near.open(&name).unwrap();
        for _ in 0..20 {
            let sent = writer.send_within(&[7; 40], bound);
            scribble(&scribbled, form.array_len(3).unwrap(), &mut dice);
            let received = reader.receive(&mut Vec::new(), bound);
            let _ = (sent, received, queue.stat());
        }
        drop((writer, reader, queue, queues));
        region.put(0, &[round as u8; 4096]).unwrap();
        assert!(!near.lock("beside").unwrap().was_abandoned());
        near.remove(&name).unwrap();
    }
    assert!(near.status().unwrap().nodes.iter().all(|node| node.alive));
}

/// Stores some words somewhere: noise, small numbers, edges.
fn scribble(region: &Region, len: u64, dice: &mut Dice) {
    for _ in 0..4 {
        let word = match dice.below(4) {
            0 => dice.next(),
            1 => dice.below(64),
            2 => u64::MAX - dice.below(8),
            _ => 1 << dice.below(64),
        };
        let at = dice.below(len / 8) * 8;
        region.put(at, &word.to_le_bytes()).unwrap();
    }
}

/// A program that claims names as fast as it can: others still have theirs, and begin new ones.
#[test]
fn who_claims_every_name_has_its_share_of_names() {
    let pool = TestPool::start(1, 16 << 20);
    let client: Pool = pool.client(0);
    drop(client.lock("kept").unwrap());
    let mut crowd = Raw::connect_as(pool.nodes[0].address(), CROWD);
    let permit = |number: u64| SyncRequest::Permit { name: format!("name{number}"), mode: 0o600 };
    let names = 2 * hanare_protocol::limits::USER_NAME_COUNT_MAX as u64;
    assert!(ask_all(&mut crowd, (0..names).map(permit)).is_ok(), "its own oldest ones make way");
    assert!(!client.lock("kept").unwrap().was_abandoned());
    assert!(!client.lock("begun after").unwrap().was_abandoned());
    let stolen = crowd.ask(&SyncRequest::Permit { name: "kept".to_owned(), mode: 0o666 });
    assert!(matches!(stolen, Err(Error::NoPermission { .. })), "{stolen:?}");
    assert!(matches!(node_answers(&pool), Answer::Status(_)));
}

fn node_answers(pool: &TestPool) -> Answer {
    crate::intruder::Intruder::attach(pool.nodes[0].socket()).ask(&Request::Status).unwrap()
}
