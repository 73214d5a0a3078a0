//! Bodies that their receivers fetch from where they lie, from the heads' arrival on: what is fetched when, how much of it, and what becomes of
//! it where nobody receives it, or its source is gone.

use crate::support::{TestPool, on, pattern};

use hanare::{
    Body, Error, Group, Indexed, LastingBody, Mailbox, MailboxOptions, Message, Pool, Region, SendId, Shape, Strided, Subarray,
    Wanted,
};
use std::time::{Duration, Instant};

const SOON: Option<Duration> = Some(Duration::from_secs(20));
const RECEIVE_LEN: u64 = 1 << 20;
/// Of these the receive memory holds one.
const LARGE: usize = 600_000;
const ANY: Wanted = Wanted { from: None, context: 0, tag: None };

fn opened(groups: &[Group]) -> Vec<Mailbox> {
    let options = MailboxOptions { receive_len: RECEIVE_LEN, fetch_parts: true, ..MailboxOptions::default() };
    std::thread::scope(|scope| {
        let opening: Vec<_> = groups.iter().map(|group| scope.spawn(|| group.mailbox_with(&options).unwrap())).collect();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect()
    })
}

fn mailboxes(pool: &TestPool, ranks: u32) -> (Vec<Pool>, Vec<Mailbox>) {
    let ranks = pool.job(ranks);
    let groups: Vec<Group> = ranks.iter().map(Pool::job_group).collect();
    let boxes = opened(&groups);
    (ranks, boxes)
}

/// A region on a node, full of a pattern.
fn region(pool: &Pool, node: u32, name: &str, len: usize) -> (Region, Vec<u8>) {
    let (region, bytes) = (pool.create(name, len as u64, &on(node)).unwrap(), pattern(len, node.into()));
    region.put(0, &bytes).unwrap();
    (region, bytes)
}

fn whole(region: &Region) -> Shape<'static> {
    Shape::contiguous(0, region.len())
}

fn body(message: &Message) -> Vec<u8> {
    let mut bytes = vec![0; message.len() as usize];
    message.read(0, &mut bytes).unwrap();
    bytes
}

fn start(sender: &Mailbox, tag: u32, region: &Region) -> SendId {
    sender.start_send(1, 0, tag, b"head", LastingBody::Part(region, whole(region))).unwrap()
}

/// Has the receiver look for messages, and receive none, until the sender hears that the body was fetched.
fn look_until_sent(sender: &Mailbox, send: SendId, receiver: &Mailbox) {
    let begun = Instant::now();
    while !sender.test_sent(send).unwrap() {
        assert!(begun.elapsed() < SOON.unwrap(), "nobody fetched it");
        receiver.probe(ANY).unwrap();
    }
}

/// What was fetched before the receive is what is received, though the region is gone by then.
// FEATURE: D3-F10
#[test]
fn a_body_is_fetched_when_its_head_arrives_and_not_when_it_is_received() {
    let pool = TestPool::start(3, 64 << 20);
    let (ranks, boxes) = mailboxes(&pool, 2);
    for node in 0..3 {
        let (source, bytes) = region(&ranks[0], node, &format!("r{node}"), LARGE);
        let before = ranks[0].traffic();
        let send = start(&boxes[0], 7, &source);
        let sent = ranks[0].traffic().bytes_sent - before.bytes_sent;
        assert!(sent < 1000, "the head alone: {sent} bytes");
        assert!(!boxes[0].test_sent(send).unwrap(), "nobody has looked for it");
        look_until_sent(&boxes[0], send, &boxes[1]);
        source.put(0, &vec![0; LARGE]).unwrap();
        drop(source);
        ranks[0].remove(&format!("r{node}")).unwrap();
        let before = ranks[1].traffic();
        let message = boxes[1].receive(ANY, SOON).unwrap();
        let after = ranks[1].traffic();
        assert_eq!(after.messages_sent, before.messages_sent, "the receive asks for nothing");
        assert!(after.bytes_received - before.bytes_received < 1000, "and nothing comes for it");
        assert_eq!((message.head(), body(&message)), (&b"head"[..], bytes), "from node {node}");
        assert!(message.place().is_some_and(|(region, _)| region.is_local()));
    }
}

#[test]
fn parts_of_any_shape_arrive_whole_and_in_order_between_all_parties() {
    const LEN: usize = 200_000;
    let pool = TestPool::start(2, 64 << 20);
    let (ranks, boxes) = mailboxes(&pool, 3);
    let (source, bytes) = region(&ranks[0], 1, "r", LEN);
    let dims = [hanare::Dim { count: 50, stride: 2000 }, hanare::Dim { count: 10, stride: -16 }];
    let (few, many): (Vec<u32>, Vec<u32>) = ((0..900).collect(), (0..10_000).collect());
    let shapes: Vec<Shape<'_>> = vec![
        Shape::contiguous(0, 0),
        Shape::contiguous(5, 4096),
        Shape::contiguous(5, 100_000),
        Strided { offset: 3, block: 24, count: 5000, stride: 40 }.into(),
        Subarray::new(1000, 16, &dims).unwrap().into(),
        Indexed::elements(0, 16, &few[..]).into(),
        Indexed::elements(0, 16, &many[..]).into(),
    ];
    std::thread::scope(|scope| {
        for sender in [0, 2] {
            let (sending, source, shapes) = (&boxes[sender], ranks[sender].open("r").unwrap(), &shapes);
            scope.spawn(move || {
                for (k, shape) in (0u32..).zip(shapes) {
                    sending.send(1, 0, k, &[sender as u8], Body::Part(&source, shape.by_ref())).unwrap();
                    sending.send(1, 0, k, &[sender as u8], Body::Bytes(&[k as u8])).unwrap();
                }
                sending.settle().unwrap();
            });
        }
        for sender in [0, 2] {
            for (k, shape) in (0u32..).zip(&shapes) {
                let mut wanted = vec![0; shape.by_ref().check("r", LEN as u64).unwrap().len() as usize];
                source.get_shape(shape.by_ref(), &mut wanted).unwrap();
                let want = Wanted { from: Some(sender), context: 0, tag: None };
                let [part, short] = [0; 2].map(|_| boxes[1].receive(want, SOON).unwrap());
                assert_eq!((part.envelope().tag, body(&part)), (k, wanted), "part {k} of {sender}");
                assert_eq!((short.envelope().tag, body(&short)), (k, vec![k as u8]), "it did not pass the part");
            }
        }
    });
    drop((boxes, bytes));
}

#[test]
fn what_nobody_receives_fills_the_receive_memory_at_most() {
    let pool = TestPool::start(2, 64 << 20);
    let (ranks, boxes) = mailboxes(&pool, 2);
    let (source, bytes) = region(&ranks[0], 0, "r", LARGE);
    let sends: Vec<SendId> = (0..5).map(|tag| start(&boxes[0], tag, &source)).collect();
    look_until_sent(&boxes[0], sends[0], &boxes[1]);
    for _ in 0..100 {
        boxes[1].probe(ANY).unwrap();
    }
    for send in &sends[1..] {
        assert!(!boxes[0].test_sent(*send).unwrap(), "there is room for one");
    }
    // Whoever receives one while there is no room has it in memory of its own.
    let next = |receiver: &Mailbox, tag| {
        let message = receiver.receive(Wanted { tag: Some(tag), ..ANY }, SOON).unwrap();
        assert_eq!(body(&message), bytes);
        message
    };
    let first = next(&boxes[1], 0);
    assert!(first.place().is_some() && next(&boxes[1], 1).place().is_none());
    drop(first);
    look_until_sent(&boxes[0], sends[2], &boxes[1]);
    assert!(!boxes[0].test_sent(sends[3]).unwrap());
    assert!(next(&boxes[1], 4).place().is_none(), "the third has the receive memory");
    assert!(next(&boxes[1], 2).place().is_some());
    assert!(next(&boxes[1], 3).place().is_some());
    for send in [sends[1], sends[3], sends[4]] {
        boxes[0].wait_sent(send, SOON).unwrap();
    }
}

#[test]
fn what_was_fetched_for_a_receive_that_is_taken_back_is_freed() {
    let pool = TestPool::start(2, 64 << 20);
    let (ranks, boxes) = mailboxes(&pool, 2);
    let (source, bytes) = region(&ranks[0], 0, "r", LARGE);
    for round in 0..4 {
        let receive = boxes[1].post(ANY).unwrap();
        assert!(boxes[1].test(receive).unwrap().is_none());
        let send = start(&boxes[0], round, &source);
        if round % 2 == 0 {
            look_until_sent(&boxes[0], send, &boxes[1]);
        } else {
            boxes[1].probe(ANY).unwrap();
        }
        // Its head has come, or comes for the next.
        if !boxes[1].cancel(receive).unwrap() {
            drop(boxes[1].take_back(receive).unwrap().expect("its head had come"));
        } else {
            drop(boxes[1].receive(ANY, SOON).unwrap());
        }
        // The receive memory has room for one.
        start(&boxes[0], 10, &source);
        let message = boxes[1].receive(Wanted { tag: Some(10), ..ANY }, SOON).unwrap();
        assert!(message.place().is_some(), "round {round}: what was fetched before was freed");
        assert_eq!(body(&message), bytes);
    }
}

#[test]
fn a_mailbox_that_goes_leaves_nothing_of_what_nobody_received_and_its_senders_are_told() {
    let pool = TestPool::start(2, 64 << 20);
    let (ranks, mut boxes) = mailboxes(&pool, 2);
    let (source, _) = region(&ranks[0], 0, "r", LARGE);
    let sends = [start(&boxes[0], 0, &source), start(&boxes[0], 1, &source)];
    look_until_sent(&boxes[0], sends[0], &boxes[1]);
    drop(boxes.pop());
    let outcome = boxes[0].wait_sent(sends[1], SOON);
    assert!(matches!(outcome, Err(Error::RankGone { .. })), "{outcome:?}");
    boxes[0].settle().unwrap();
    drop(boxes);
    let left: Vec<String> = ranks[0].list().unwrap().into_iter().map(|region| region.name).collect();
    assert_eq!(left, ["r"], "the receive memory is gone");
}

#[test]
fn a_source_that_is_gone_is_told_at_the_receive_and_to_the_sender() {
    let mut pool = TestPool::start(3, 64 << 20);
    let groups: Vec<Group> = [0, 1].map(|node| pool.client(node).group("g", 2).unwrap()).into();
    let boxes = opened(&groups);
    let client = pool.client(0);
    let (there, _) = region(&client, 2, "there", LARGE);
    let (here, bytes) = region(&client, 0, "here", LARGE);
    let fetched = start(&boxes[0], 0, &there);
    look_until_sent(&boxes[0], fetched, &boxes[1]);
    let (lost, whole) = (start(&boxes[0], 1, &there), start(&boxes[0], 2, &here));
    drop(pool.nodes.pop());
    // What was fetched before is there, and what comes from elsewhere is not held up.
    drop(boxes[1].receive(Wanted { tag: Some(0), ..ANY }, SOON).unwrap());
    assert_eq!(body(&boxes[1].receive(Wanted { tag: Some(2), ..ANY }, SOON).unwrap()), bytes);
    let is_lost = |outcome: &Error| matches!(outcome, Error::NodeLost { .. } | Error::RegionLost { .. });
    let outcome = boxes[1].receive(Wanted { tag: Some(1), ..ANY }, SOON);
    assert!(outcome.as_ref().is_err_and(is_lost), "{outcome:?}");
    boxes[0].wait_sent(whole, SOON).unwrap();
    let outcome = boxes[0].wait_sent(lost, SOON);
    assert!(outcome.as_ref().is_err_and(is_lost), "{outcome:?}");
    // The receive is over, and the others go on.
    boxes[0].send(1, 0, 3, b"on", Body::Bytes(&[])).unwrap();
    assert_eq!(boxes[1].receive(ANY, SOON).unwrap().head(), b"on");
    // A region that was removed, before its part was fetched.
    let removed = start(&boxes[0], 4, &here);
    client.remove("here").unwrap();
    let outcome = boxes[1].receive(ANY, SOON);
    assert!(matches!(outcome, Err(Error::UnknownRegion { .. })), "{outcome:?}");
    assert!(boxes[0].wait_sent(removed, SOON).is_err());
}
