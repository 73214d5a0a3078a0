//! Messages with a head and a body over real nodes: matched by rank, context and tag in their order, bodies from wherever they lie, and a
//! dead party is named.

use crate::{holder, relay, support};

use hanare::{
    Body, CreateOptions, Dim, Envelope, Error, Group, LastingBody, Mailbox, Message, NodeId, Placement, Pool, Region, Shape,
    Strided,
};
use hanare::{Subarray, Wanted};
use relay::{Mode, nodes_beside_relay};
use std::time::{Duration, Instant};
use support::{TestPool, pattern};

const SOON: Option<Duration> = Some(Duration::from_secs(20));
const RECEIVE_LEN: u64 = 1 << 20;

/// A mailbox of each rank of a job over nodes.
fn mailboxes(pool: &TestPool, ranks: u32) -> (Vec<Pool>, Vec<Mailbox>) {
    let ranks = pool.job(ranks);
    let open = |pool: &Pool| pool.job_group().mailbox(RECEIVE_LEN).unwrap();
    let boxes = std::thread::scope(|scope| {
        let opening: Vec<_> = ranks.iter().map(|rank| scope.spawn(move || open(rank))).collect();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect()
    });
    (ranks, boxes)
}

fn from(from: u32, tag: u32) -> Wanted {
    Wanted { from: Some(from), context: 0, tag: Some(tag) }
}

const ANY: Wanted = Wanted { from: None, context: 0, tag: None };

fn body(message: &Message) -> Vec<u8> {
    let mut bytes = vec![0; message.len() as usize];
    message.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn long_bodies_that_are_dropped_cost_no_message_for_their_place() {
    for nodes in [1, 2] {
        let pool = TestPool::start(nodes, 64 << 20);
        let (ranks, boxes) = mailboxes(&pool, 2);
        let pass = |k: u64| {
            boxes[0].send(1, 0, 5, b"", Body::Bytes(&pattern(100_000, k))).unwrap();
            let message = boxes[1].receive(from(0, 5), SOON).unwrap();
            assert!(body(&message) == pattern(100_000, k));
        };
        // What is opened at the first use, and once round the ring.
        (0..10).for_each(pass);
        let before = [0, 1].map(|rank: usize| ranks[rank].traffic().messages_sent);
        (10..110).for_each(pass);
        let sent = [0, 1].map(|rank: usize| ranks[rank].traffic().messages_sent - before[rank]);
        // A look at the other's queue now and then is none of ours. Between hosts: the body, its note, and a look each few bodies.
        let most = if nodes == 1 { [10, 10] } else { [240, 10] };
        assert!(sent[0] <= most[0] && sent[1] <= most[1], "{sent:?} messages of {nodes} nodes");
    }
}

#[test]
fn long_bodies_that_are_kept_and_dropped_in_any_order_stay_whole() {
    for nodes in [1, 2] {
        let pool = TestPool::start(nodes, 64 << 20);
        let (_ranks, boxes) = mailboxes(&pool, 2);
        let mut kept: Vec<(Message, u64)> = Vec::new();
        let (mut turn, mut was_full) = (1u64, false);
        for k in 0..600u64 {
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let len = 4097 + (turn >> 33) as usize % 60_000;
            match boxes[0].send(1, 0, 5, b"", Body::Bytes(&pattern(len, k))) {
                Ok(()) => kept.push((boxes[1].receive(from(0, 5), SOON).unwrap(), k)),
                // Ring and heap are full: all but a few go, in no order.
                Err(Error::HeapFull { .. }) => {
                    was_full = true;
                    while kept.len() > 5 {
                        let (message, k) = kept.swap_remove((turn >> 40) as usize % kept.len());
                        assert!(body(&message) == pattern(message.len() as usize, k), "message {k}");
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(was_full && kept.iter().all(|(message, k)| body(message) == pattern(message.len() as usize, *k)));
        // All of the heap can be had again.
        drop(kept);
        boxes[0].send(1, 0, 5, b"", Body::Bytes(&vec![7; RECEIVE_LEN as usize / 4 * 3])).unwrap();
    }
}

// FEATURE: D3-F4 D3-F5 D3-F7 D3-F8
#[test]
fn heads_and_bodies_of_any_length_arrive_in_order_from_this_host_and_another() {
    let pool = TestPool::start(2, 64 << 20);
    let (_ranks, boxes) = mailboxes(&pool, 4);
    let len = |k: u64| [0, 1, 100, 4096, 4097, 200_000][k as usize % 6];
    std::thread::scope(|scope| {
        for sender in 1..4u32 {
            let sending = &boxes[sender as usize];
            scope.spawn(move || {
                for k in 0..60u64 {
                    let head = pattern(k as usize % 49, k);
                    // The receive memory may be full just now.
                    while let Err(error) = sending.send(0, 0, sender, &head, Body::Bytes(&pattern(len(k), k))) {
                        assert!(matches!(error, Error::HeapFull { .. }), "{error}");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        let mut next = [0u64; 4];
        for _ in 0..180 {
            let message = boxes[0].receive(ANY, SOON).unwrap();
            let Envelope { from, tag, .. } = message.envelope();
            let k = next[from as usize];
            assert_eq!((tag, message.head()), (from, &pattern(k as usize % 49, k)[..]), "head {k} of {from}");
            assert_eq!(body(&message), pattern(len(k), k), "body {k} of {from}");
            assert_eq!(message.place().is_some(), len(k) > 4096, "a long one is handed over where it landed");
            next[from as usize] += 1;
        }
        assert_eq!(next, [0, 60, 60, 60]);
    });
}

// FEATURE: D3-F3
#[test]
fn heads_alone_keep_their_envelopes_whatever_context_and_tag() {
    let pool = TestPool::start(2, 64 << 20);
    let (_ranks, boxes) = mailboxes(&pool, 4);
    // A context of many bits does not fit a short note; neither does a body.
    let contexts = [0, 1, (1 << 25) - 1, 1 << 25, u32::MAX];
    let body_of = |k: u64| if k.is_multiple_of(13) { b"b".as_slice() } else { b"" };
    let message =
        |sender: u32, k: u64| (contexts[k as usize % 5], u32::MAX - k as u32, pattern(k as usize % 49, k + u64::from(sender)));
    // By turns: each lane tells its own sender.
    for k in 0..150 {
        for sender in 0..4u32 {
            let (context, tag, head) = message(sender, k);
            boxes[sender as usize].send(0, context, tag, &head, Body::Bytes(body_of(k))).unwrap();
        }
    }
    for k in 0..150 {
        for from in [2, 0, 3, 1] {
            let (context, tag, head) = message(from, k);
            let wanted = Wanted { from: Some(from), context, tag: None };
            let received = boxes[0].receive(wanted, SOON).unwrap();
            assert_eq!(received.envelope(), Envelope { from, context, tag }, "message {k}");
            assert_eq!((received.head(), &body(&received)[..]), (&head[..], body_of(k)), "message {k} of {from}");
        }
    }
}

// FEATURE: D3-F9 D3-F25
#[test]
fn a_part_of_a_region_is_sent_by_the_node_that_holds_it() {
    let pool = TestPool::start(3, 64 << 20);
    let (ranks, boxes) = mailboxes(&pool, 2);
    for node in 0..3 {
        let options = CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() };
        let region = ranks[0].create(&format!("r{node}"), 1 << 20, &options).unwrap();
        let bytes = pattern(1 << 20, node.into());
        region.put(0, &bytes).unwrap();
        ranks[0].flush().unwrap();
        let shape = Strided { offset: 100, block: 24, count: 5000, stride: 200 };
        let before = ranks[0].traffic();
        boxes[0].send(1, 7, 9, b"strided", Body::Part(&region, shape.into())).unwrap();
        let after = ranks[0].traffic();
        assert!(after.bytes_sent - before.bytes_sent < 4000, "its processor touches none of the bytes");
        assert!(after.bytes_received - before.bytes_received < 4000, "{before:?} {after:?}");
        let message = boxes[1].receive(Wanted { from: Some(0), context: 7, tag: Some(9) }, SOON).unwrap();
        let wanted: Vec<u8> = (0..5000).flat_map(|k| bytes[100 + 200 * k..][..24].to_vec()).collect();
        assert_eq!((message.head(), body(&message)), (&b"strided"[..], wanted), "from node {node}");
        let (region, offset) = message.place().unwrap();
        assert!(region.is_local());
        let mut first = [0; 24];
        region.get(offset, &mut first).unwrap();
        assert_eq!(first, bytes[100..124]);
    }
}

// FEATURE: D3-F25
#[test]
fn a_face_of_a_4d_array_is_gathered_on_one_node_and_scattered_on_another() {
    const SIDE: u64 = 8;
    let pool = TestPool::start(2, 64 << 20);
    let (ranks, boxes) = mailboxes(&pool, 2);
    let arrays: Vec<Region> = (0..2u32)
        .map(|rank| {
            let options = CreateOptions { placement: Placement::Node(NodeId(rank)), ..CreateOptions::default() };
            let array = ranks[rank as usize].create(&format!("a{rank}"), SIDE.pow(4) * 8, &options).unwrap();
            let values: Vec<u64> = (0..SIDE.pow(4)).map(|place| u64::from(rank) << 32 | place).collect();
            array.put_values(0, &values).unwrap();
            array
        })
        .collect();
    // All places whose coordinate in dimension `across` is `at`.
    let face = |across: usize, at: u64| {
        let strides = [SIDE.pow(3) * 8, SIDE.pow(2) * 8, SIDE * 8, 8];
        let kept = (0..4).filter(|dim| *dim != across);
        let dims: Vec<Dim> = kept.map(|dim| Dim { count: SIDE, stride: strides[dim] as i64 }).collect();
        Subarray::new(at * strides[across], 8, &dims).unwrap()
    };
    for across in 0..4 {
        boxes[0].send(1, 0, across as u32, b"face", Body::Part(&arrays[0], face(across, SIDE - 1).into())).unwrap();
        let message = boxes[1].receive(from(0, across as u32), SOON).unwrap();
        let halo = ranks[1].open("a1").unwrap();
        message.scatter(&halo, face(across, 0)).unwrap();
        let (mut sent, mut seen) = (vec![0u8; 4096], vec![0u8; 4096]);
        arrays[0].get_shape(face(across, SIDE - 1), &mut sent).unwrap();
        halo.get_shape(face(across, 0), &mut seen).unwrap();
        assert_eq!(sent, seen, "across dimension {across}");
        let mut beside = [0u64];
        halo.get_values((SIDE.pow(4) - 1) * 8, &mut beside).unwrap();
        assert_eq!(beside, [1 << 32 | (SIDE.pow(4) - 1)], "nothing else was written");
    }
}

// FEATURE: D3-F9
#[test]
fn sends_that_are_begun_arrive_in_their_order_and_are_told_of_once() {
    let pool = TestPool::start(2, 64 << 20);
    let (ranks, boxes) = mailboxes(&pool, 2);
    let region = ranks[0].create("r", 200_000, &CreateOptions::default()).unwrap();
    region.put(0, &pattern(200_000, 7)).unwrap();
    let start = |tag, body| boxes[0].start_send(1, 0, tag, &[tag as u8], body).unwrap();
    let bytes = |len: usize, seed| LastingBody::Bytes(pattern(len, seed).into());
    let mut under_way = vec![start(0, bytes(300_000, 0)), start(1, bytes(10, 1))];
    under_way.push(start(2, LastingBody::Part(&region, Shape::contiguous(0, 200_000))));
    under_way.push(start(3, LastingBody::Bytes((&[5; 6000][..]).into())));
    // A send at once does not pass those that were begun.
    boxes[0].send(1, 0, 4, &[4], Body::Bytes(&[])).unwrap();
    let bodies = [pattern(300_000, 0), pattern(10, 1), pattern(200_000, 7), vec![5; 6000], Vec::new()];
    for (tag, wanted) in bodies.into_iter().enumerate() {
        let message = boxes[1].receive(ANY, SOON).unwrap();
        assert_eq!((message.envelope().tag, message.head()), (tag as u32, &[tag as u8][..]));
        assert_eq!(body(&message), wanted, "body {tag}");
    }
    while !under_way.is_empty() {
        let (index, outcome) = boxes[0].wait_any_sent(&under_way, SOON).unwrap();
        outcome.unwrap();
        let told = under_way.swap_remove(index);
        assert!(matches!(boxes[0].test_sent(told), Err(Error::BadGroup { .. })), "it was told of");
    }
}

/// The sender's connection to the receiver's node breaks before the node has a message, or before the sender has its answer.
#[test]
fn messages_whose_connection_breaks_arrive_once_and_whole() {
    let (first, second, relay) = nodes_beside_relay();
    let pools = [&first, &second].map(|node| Pool::attach_to(node.socket(), None).unwrap());
    let open = |pool: &Pool| {
        let group = pool.group("g", 2).unwrap();
        (group.number(), group.mailbox(RECEIVE_LEN).unwrap())
    };
    let [(me, sender), (to, receiver)] = std::thread::scope(|scope| {
        pools.each_ref().map(|pool| scope.spawn(move || open(pool))).map(|opening| opening.join().unwrap())
    });
    let bodies = |round: u64| [40_000, 100, 70_000, 5000].map(|len| pattern(len, round * 7 + len as u64));
    for round in 0..24 {
        let mode = if round % 2 == 0 { Mode::LoseRequest } else { Mode::LoseAnswer };
        let mut begun = Vec::new();
        for (tag, body) in bodies(round).iter().enumerate() {
            if tag as u64 == round / 2 % 4 {
                relay.set(mode);
            }
            if round % 3 == 0 {
                sender.send(to, 0, tag as u32, b"", Body::Bytes(body)).unwrap();
            } else {
                begun.push(sender.start_send(to, 0, tag as u32, b"", LastingBody::Bytes(body.clone().into())).unwrap());
            }
        }
        begun.into_iter().for_each(|send| sender.wait_sent(send, SOON).unwrap());
        sender.settle().unwrap();
        for (tag, wanted) in bodies(round).into_iter().enumerate() {
            let message = receiver.receive(Wanted { from: Some(me), context: 0, tag: None }, SOON).unwrap();
            assert_eq!(message.envelope().tag, tag as u32, "round {round}");
            assert!(body(&message) == wanted, "body {tag} of round {round}");
        }
    }
    assert!(receiver.probe(ANY).unwrap().is_none(), "each came once");
}

#[test]
fn a_begun_send_that_cannot_be_is_refused_or_told_of() {
    let pool = TestPool::start(2, 64 << 20);
    let (ranks, mut boxes) = mailboxes(&pool, 2);
    let region = ranks[0].create("r", 8192, &CreateOptions::default()).unwrap();
    let bytes = |len: usize| LastingBody::Bytes(vec![1; len].into());
    let start = |to, head: &[u8], body| boxes[0].start_send(to, 0, 0, head, body);
    assert!(matches!(start(2, b"", bytes(0)), Err(Error::BadGroup { .. })));
    assert!(matches!(start(1, &[0; 49], bytes(0)), Err(Error::LimitReached { limit: 48, .. })));
    assert!(matches!(start(1, b"", bytes(RECEIVE_LEN as usize + 1)), Err(Error::LimitReached { limit: RECEIVE_LEN, .. })));
    let beyond = LastingBody::Part(&region, Shape::contiguous(8000, 200));
    assert!(matches!(start(1, b"", beyond), Err(Error::OutOfRange { .. })));
    let first = start(1, b"a", bytes(600_000)).unwrap();
    assert!(matches!(start(1, b"b", bytes(600_000)), Err(Error::HeapFull { .. })), "the first has its place");
    boxes[0].wait_sent(first, SOON).unwrap();
    drop(boxes.pop());
    let late = boxes[0].start_send(1, 0, 0, b"c", bytes(3));
    let outcome = late.and_then(|send| boxes[0].wait_sent(send, SOON));
    // It may have been seen to be there just before.
    std::thread::sleep(Duration::from_millis(250));
    let again = boxes[0].start_send(1, 0, 0, b"d", bytes(3)).and_then(|send| boxes[0].wait_sent(send, SOON));
    assert!(matches!(again, Err(Error::RankGone { .. })), "{outcome:?} {again:?}");
}

// FEATURE: D3-F14
#[test]
fn receives_match_by_rank_context_and_tag_and_can_be_waited_for_together() {
    let pool = TestPool::start(2, 64 << 20);
    let (_ranks, boxes) = mailboxes(&pool, 3);
    let send = |who: usize, context, tag, word: &[u8]| boxes[who].send(0, context, tag, word, Body::Bytes(&[])).unwrap();
    let me = &boxes[0];
    assert!(me.probe(ANY).unwrap().is_none());
    let (later, any) = (me.post(from(2, 5)).unwrap(), me.post(ANY).unwrap());
    assert!(me.test(later).unwrap().is_none());
    send(1, 1, 5, b"another context");
    send(1, 0, 5, b"first");
    send(2, 0, 5, b"second");
    send(2, 0, 5, b"third");
    assert_eq!(me.wait(any, SOON).unwrap().head(), b"first");
    assert_eq!(me.wait(later, SOON).unwrap().head(), b"second");
    let wants = [from(1, 5), ANY, Wanted { from: Some(1), context: 1, tag: None }];
    let posted = wants.map(|want| me.post(want).unwrap());
    let (index, message) = me.wait_any(&posted, SOON).unwrap();
    assert!(matches!((index, message.head()), (1, b"third") | (2, b"another context")), "{index}: {message:?}");
    assert!(me.cancel(posted[0]).unwrap());
    assert!(matches!(me.test(posted[0]), Err(Error::BadGroup { .. })), "it was taken back");
    assert!(matches!(me.wait(posted[index], SOON), Err(Error::BadGroup { .. })), "it had its message");
    let other = me.wait(posted[3 - index], SOON).unwrap();
    assert_eq!(other.head().len() + message.head().len(), b"thirdanother context".len());
    // To oneself; and what nobody wants yet is seen by a probe.
    me.send(0, 0, 8, b"own", Body::Bytes(b"body")).unwrap();
    assert_eq!(me.probe(from(0, 8)).unwrap(), Some((Envelope { from: 0, context: 0, tag: 8 }, 3, 4)));
    assert_eq!(body(&me.receive(from(0, 8), SOON).unwrap()), b"body");
    assert!(matches!(me.receive(from(1, 1), Some(Duration::from_millis(5))), Err(Error::NotInTime { .. })));
}

// FEATURE: D3-F8
#[test]
fn heads_beyond_the_receivers_ring_overflow_in_order() {
    let pool = TestPool::start(2, 64 << 20);
    let (_ranks, boxes) = mailboxes(&pool, 3);
    for sender in [1, 2] {
        for k in 0..500u32 {
            boxes[sender].send(0, 0, k % 2, &k.to_le_bytes(), Body::Bytes(&[7; 50])).unwrap();
        }
    }
    for sender in [1, 2] {
        for k in (0..500u32).filter(|k| k % 2 == 1).chain((0..500).filter(|k| k % 2 == 0)) {
            let message = boxes[0].receive(from(sender, k % 2), SOON).unwrap();
            assert_eq!(message.head(), k.to_le_bytes());
        }
    }
}

#[test]
fn bad_use_gets_its_own_error() {
    let pool = TestPool::start(1, 64 << 20);
    let (ranks, boxes) = mailboxes(&pool, 2);
    let region = ranks[0].create("r", 8192, &CreateOptions::default()).unwrap();
    let send = |to, head: &[u8], body| boxes[0].send(to, 0, 0, head, body);
    assert!(matches!(send(2, b"", Body::Bytes(&[])), Err(Error::BadGroup { .. })));
    assert!(matches!(send(1, &[0; 49], Body::Bytes(&[])), Err(Error::LimitReached { limit: 48, .. })));
    let long = vec![0; RECEIVE_LEN as usize + 1];
    assert!(matches!(send(1, b"", Body::Bytes(&long)), Err(Error::LimitReached { limit: RECEIVE_LEN, .. })));
    assert!(matches!(send(1, b"", Body::Part(&region, Shape::contiguous(8000, 200))), Err(Error::OutOfRange { .. })));
    let body = vec![1; 600_000];
    send(1, b"a", Body::Bytes(&body)).unwrap();
    assert!(matches!(send(1, b"b", Body::Bytes(&body)), Err(Error::HeapFull { .. })));
    let first = boxes[1].receive(ANY, SOON).unwrap();
    assert!(matches!(first.read(600_000, &mut [0]), Err(Error::OutOfRange { .. })));
    drop(first);
    send(1, b"b", Body::Bytes(&body)).unwrap();
    assert!(matches!(boxes[0].post(Wanted { from: Some(9), context: 0, tag: None }), Err(Error::BadGroup { .. })));
}

/// A party that sends one message, and is killed.
pub fn sends_and_dies() {
    let pool = Pool::attach().unwrap();
    let group = pool.group("g", 3).unwrap();
    let mailbox = group.mailbox(RECEIVE_LEN).unwrap();
    mailbox.send(0, 0, 1, b"last words", Body::Bytes(&pattern(50_000, 3))).unwrap();
    mailbox.settle().unwrap();
    holder::wait_for_death();
}

// FEATURE: D3-F7
#[test]
fn a_party_that_is_killed_is_named_and_what_it_sent_counts() {
    let pool = TestPool::start(2, 64 << 20);
    let clients = [pool.client(0), pool.client(1)];
    let groups: Vec<Group> = clients.iter().map(|client| client.group("g", 3).unwrap()).collect();
    let socket = pool.nodes[1].socket().to_owned();
    let starting = std::thread::spawn(move || holder::start(concat!(module_path!(), "::sends_and_dies"), &socket));
    let boxes: Vec<Mailbox> = std::thread::scope(|scope| {
        let opening: Vec<_> = groups.iter().map(|group| scope.spawn(|| group.mailbox(RECEIVE_LEN).unwrap())).collect();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect()
    });
    holder::kill(starting.join().unwrap());
    let begun = Instant::now();
    let words = boxes[0].receive(from(2, 1), SOON).unwrap();
    assert_eq!((words.head(), body(&words)), (&b"last words"[..], pattern(50_000, 3)));
    for mailbox in &boxes {
        for want in [from(2, 1), ANY] {
            let outcome = mailbox.receive(want, SOON);
            assert!(matches!(outcome, Err(Error::PartyGone { .. })), "{want:?}: {outcome:?}");
        }
        std::thread::sleep(Duration::from_millis(250));
        let outcome = mailbox.send(2, 0, 0, b"", Body::Bytes(&[]));
        assert!(matches!(outcome, Err(Error::PartyGone { .. })), "{outcome:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "it was known within the bound");
    // The others go on.
    boxes[1].send(0, 0, 4, b"on", Body::Bytes(&[])).unwrap();
    assert_eq!(boxes[0].receive(from(1, 4), SOON).unwrap().head(), b"on");
}

fn named(pool: &TestPool, parties: u32) -> Vec<Group> {
    (0..parties).map(|party| pool.client(party as usize % 2).group("g", parties).unwrap()).collect()
}

/// All at once.
fn opened(groups: &[Group], receive_lens: &[u64]) -> Vec<Result<Mailbox, Error>> {
    std::thread::scope(|scope| {
        let opening: Vec<_> = groups.iter().zip(receive_lens).map(|(group, len)| scope.spawn(|| group.mailbox(*len))).collect();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect()
    })
}

#[test]
fn a_message_that_another_thread_has_matched_goes_to_who_takes_its_receive_back() {
    let pool = TestPool::start(2, 64 << 20);
    let boxes: Vec<Mailbox> = opened(&named(&pool, 2), &[RECEIVE_LEN; 2]).into_iter().map(Result::unwrap).collect();
    let receive = boxes[0].post(from(1, 7)).unwrap();
    assert!(boxes[0].take_back(receive).unwrap().is_none());
    let receive = boxes[0].post(from(1, 7)).unwrap();
    boxes[1].send(0, 0, 7, b"for one", Body::Bytes(&[])).unwrap();
    boxes[1].send(0, 0, 8, b"for another", Body::Bytes(&[])).unwrap();
    // As another thread that waits for its own does.
    assert_eq!(boxes[0].receive(from(1, 8), SOON).unwrap().head(), b"for another");
    assert_eq!(boxes[0].take_back(receive).unwrap().unwrap().head(), b"for one");
    assert!(matches!(boxes[0].take_back(receive), Err(Error::BadGroup { .. })));
}

#[test]
fn who_waits_for_anybody_is_told_when_nobody_is_left() {
    let pool = TestPool::start(2, 64 << 20);
    let mut boxes: Vec<Mailbox> = opened(&named(&pool, 3), &[RECEIVE_LEN; 3]).into_iter().map(Result::unwrap).collect();
    drop(boxes.pop());
    let outcome = boxes[0].receive(ANY, Some(Duration::from_secs(2)));
    assert!(matches!(outcome, Err(Error::NotInTime { .. })), "one may send still: {outcome:?}");
    boxes[1].send(0, 0, 1, b"the last", Body::Bytes(&[])).unwrap();
    drop(boxes.pop());
    assert_eq!(boxes[0].receive(ANY, SOON).unwrap().head(), b"the last");
    let outcome = boxes[0].receive(ANY, SOON);
    assert!(matches!(outcome, Err(Error::PartyGone { .. })), "{outcome:?}");
}

/// A party that sends nothing, and is killed.
pub fn dies_without_a_word() {
    let pool = Pool::attach().unwrap();
    let group = pool.group("g", 2).unwrap();
    let _mailbox = group.mailbox(RECEIVE_LEN).unwrap();
    holder::wait_for_death();
}

#[test]
fn who_waits_for_anybody_is_told_of_one_that_died_without_a_word() {
    let pool = TestPool::start(2, 64 << 20);
    let (client, socket) = (pool.client(0), pool.nodes[1].socket().to_owned());
    let group = client.group("g", 2).unwrap();
    let starting = std::thread::spawn(move || holder::start(concat!(module_path!(), "::dies_without_a_word"), &socket));
    let mailbox = group.mailbox(RECEIVE_LEN).unwrap();
    holder::kill(starting.join().unwrap());
    let outcome = mailbox.receive(ANY, SOON);
    assert!(matches!(outcome, Err(Error::PartyGone { .. })), "{outcome:?}");
}

#[test]
fn programs_that_were_started_alone_are_groups_of_their_own() {
    let pool = TestPool::start(1, 64 << 20);
    let alone = [pool.client(0), pool.client(0)].map(|client| client.job_group());
    let boxes = alone.each_ref().map(|group| group.mailbox(RECEIVE_LEN).unwrap());
    for (mailbox, seed) in boxes.iter().zip([1, 2]) {
        let bytes = pattern(50_000, seed);
        mailbox.send(0, 0, 1, b"own", Body::Bytes(&bytes)).unwrap();
        assert_eq!(body(&mailbox.receive(ANY, SOON).unwrap()), bytes);
    }
    let [first, second] = boxes;
    drop(second);
    first.send(0, 0, 1, b"still", Body::Bytes(&pattern(50_000, 3))).unwrap();
    assert_eq!(first.receive(ANY, SOON).unwrap().head(), b"still");
}

#[test]
fn where_one_party_cannot_open_its_mailbox_none_does_and_all_may_try_again() {
    let pool = TestPool::start(2, 64 << 20);
    let groups = named(&pool, 3);
    for fails in 0..3 {
        let mut lens = [RECEIVE_LEN; 3];
        lens[fails] = 1 << 40;
        for (party, outcome) in opened(&groups, &lens).into_iter().enumerate() {
            match (outcome, party == fails) {
                (Err(Error::BadGroup { reason, .. }), false) => assert!(reason.contains(&format!("party {fails} ")), "{reason}"),
                (Err(_), true) => {}
                (outcome, _) => panic!("party {party} of {fails}: {outcome:?}"),
            }
        }
    }
    let boxes: Vec<Mailbox> = opened(&groups, &[RECEIVE_LEN; 3]).into_iter().map(Result::unwrap).collect();
    boxes[2].send(1, 0, 1, b"all", Body::Bytes(&[])).unwrap();
    assert_eq!(boxes[1].receive(ANY, SOON).unwrap().head(), b"all");
}
