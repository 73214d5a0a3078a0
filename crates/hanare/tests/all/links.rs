//! Messages and parts that go from program to program: by which way, and once and in order when links break, or nobody reads them.

use crate::{holder, relay, support};

use hanare::node::Node;
use hanare::{Body, Error, Group, Mailbox, Operator, Overflow, Pool, QueueForm, Unit, Wanted};
use hanare_fabric::tcp::{self, Caller, Hellos};
use hanare_protocol::id::User;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::greeting::{Role, Sealing};
use relay::{Mode, Relay, nodes_beside_relay};
use std::time::{Duration, Instant};
use support::{TestPool, pattern};

const SOON: Option<Duration> = Some(Duration::from_secs(20));
const RECEIVE_LEN: u64 = 1 << 20;
const FORM: QueueForm = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 2, ports: 2, overflow: Overflow::Wait };

/// Messages after which a port of a group has a link.
const WARM: u64 = 40;

/// What each of the parties makes of its group.
fn opened<T: Send>(groups: &[Group], open: impl Fn(&Group) -> T + Sync) -> Vec<T> {
    let open = &open;
    std::thread::scope(|scope| {
        let opening: Vec<_> = groups.iter().map(|group| scope.spawn(move || open(group))).collect();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect()
    })
}

fn jobs(pool: &TestPool, ranks: u32) -> Vec<Group> {
    pool.job(ranks).iter().map(Pool::job_group).collect()
}

/// Appends that programs of other hosts had a node do.
fn appends(pool: &TestPool, node: usize) -> u64 {
    let seen = pool.client(node).node_counts().unwrap();
    let is_meant = |kind: &str, from: &str| kind == "append" && from == "OtherHost";
    let commands = seen.commands.iter();
    commands.filter(|command| is_meant(&command.kind, &format!("{:?}", command.from))).map(|command| command.count).sum()
}

fn number(k: u64) -> Body<'static> {
    // Of each kind: none, with the head, behind it.
    let len = [0, 100, 5000, 20_000][k as usize % 4];
    Body::Bytes(pattern(len, k).leak())
}

/// Receives message `k` of the other, and checks it.
fn receive(mailbox: &Mailbox, from: u32, k: u64) {
    let message = mailbox.receive(Wanted { from: Some(from), context: 0, tag: None }, SOON).unwrap();
    let mut body = vec![0; message.len() as usize];
    message.read(0, &mut body).unwrap();
    assert_eq!((message.envelope().tag, message.head()), (k as u32, &k.to_le_bytes()[..]), "message {k}");
    assert!(body == pattern([0, 100, 5000, 20_000][k as usize % 4], k), "body {k}");
}

fn send(mailbox: &Mailbox, to: u32, k: u64) {
    mailbox.send(to, 0, k as u32, &k.to_le_bytes(), number(k)).unwrap();
}

/// Two that answer each other, from `first` on.
fn play(boxes: &[Mailbox], first: u64, count: u64) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for k in first..first + count {
                receive(&boxes[1], 0, k);
                send(&boxes[1], 0, k);
            }
        });
        for k in first..first + count {
            send(&boxes[0], 1, k);
            receive(&boxes[0], 1, k);
        }
    });
}

#[test]
fn messages_pass_no_node_once_their_parties_have_links() {
    let pool = TestPool::start(2, 64 << 20);
    let boxes = opened(&jobs(&pool, 2), |group| group.mailbox(RECEIVE_LEN).unwrap());
    play(&boxes, 0, WARM);
    let before = [0, 1].map(|node| appends(&pool, node));
    assert!(before.iter().all(|count| *count > 0), "the first go by the nodes: {before:?}");
    play(&boxes, WARM, 100);
    assert_eq!([0, 1].map(|node| appends(&pool, node)), before);
}

#[test]
fn parts_of_vectors_pass_no_node_once_their_parties_have_links() {
    let pool = TestPool::start(2, 64 << 20);
    // Two parties on each host: some exchange through shared memory at the same time.
    let groups = jobs(&pool, 4);
    let reduce = |len: usize, count: u64| {
        let sums = opened(&groups, |group| {
            let mut values: Vec<u64> = vec![0; len];
            for k in 0..count {
                (0..).zip(&mut values).for_each(|(at, value)| *value = at + k + u64::from(group.number()));
                group.all_reduce(Operator::Add, &mut values).unwrap();
                assert!((0..).zip(&values).all(|(at, value)| *value == 4 * (at + k) + 6), "operation {k}");
            }
        });
        drop(sums);
    };
    reduce(1, WARM);
    let before = [0, 1].map(|node| appends(&pool, node));
    reduce(1, 60);
    // Several pieces, each longer than what a socket takes at once.
    reduce(100_000, 5);
    assert_eq!([0, 1].map(|node| appends(&pool, node)), before);
}

#[test]
fn a_receiver_that_does_not_read_gets_all_in_order_when_it_does() {
    let pool = TestPool::start(2, 64 << 20);
    let boxes = opened(&jobs(&pool, 2), |group| group.mailbox(RECEIVE_LEN).unwrap());
    play(&boxes, 0, WARM);
    let begun = Instant::now();
    // Heads alone: bodies would fill the receive memory.
    (0..500u64).for_each(|k| boxes[0].send(1, 1, k as u32, &k.to_le_bytes(), Body::Bytes(&[])).unwrap());
    boxes[0].settle().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "a send does not wait for its receiver");
    for k in 0..500u64 {
        let message = boxes[1].receive(Wanted { from: Some(0), context: 1, tag: None }, SOON).unwrap();
        assert_eq!((message.envelope().tag, message.head()), (k as u32, &k.to_le_bytes()[..]));
    }
    play(&boxes, WARM, WARM);
}

/// Two parties with links, the second's node behind a relay.
fn linked_beside_relay() -> ([Node; 2], [Pool; 2], Vec<Mailbox>, Relay) {
    let (first, second, relay) = nodes_beside_relay();
    let pools = [&first, &second].map(|node| Pool::attach_to(node.socket(), None).unwrap());
    let groups: Vec<Group> = std::thread::scope(|scope| {
        // The first joins before the second, so that their numbers are known.
        let first = scope.spawn(|| pools[0].group("g", 2).unwrap()).join().unwrap();
        vec![first, pools[1].group("g", 2).unwrap()]
    });
    let boxes = opened(&groups, |group| group.mailbox(RECEIVE_LEN).unwrap());
    play(&boxes, 0, WARM);
    ([first, second], pools, boxes, relay)
}

/// Each connection of the sender to the receiver's node breaks, that of the link among them.
#[test]
fn messages_whose_links_break_arrive_once_and_in_order() {
    let (_nodes, _pools, boxes, relay) = linked_beside_relay();
    let mut next = WARM;
    for round in 0..20u64 {
        std::thread::scope(|scope| {
            scope.spawn(|| (next..next + 30).for_each(|k| receive(&boxes[1], 0, k)));
            for k in next..next + 30 {
                if k - next == round {
                    relay.set(if round % 2 == 0 { Mode::LoseRequest } else { Mode::LoseAnswer });
                }
                send(&boxes[0], 1, k);
            }
            boxes[0].settle().unwrap();
        });
        next += 30;
    }
    relay.set(Mode::Pass);
    assert!(boxes[1].probe(Wanted { from: None, context: 0, tag: None }).unwrap().is_none(), "each came once");
    play(&boxes, next, WARM);
}

/// A host between the two acknowledges what it loses. The sender makes no call behind its last one.
#[test]
fn messages_that_are_lost_behind_their_acknowledgement_are_sent_again_before_they_are_settled() {
    let (_nodes, _pools, boxes, relay) = linked_beside_relay();
    for first in [WARM, WARM + 5] {
        relay.set(Mode::LoseLate);
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| (first..first + 5).for_each(|k| receive(&boxes[1], 0, k)));
            (first..first + 5).for_each(|k| send(&boxes[0], 1, k));
            boxes[0].settle().unwrap();
            receiving.join().unwrap();
        });
    }
}

#[test]
fn what_was_sent_before_a_party_left_is_received() {
    let pool = TestPool::start(2, 64 << 20);
    let mut boxes = opened(&jobs(&pool, 2), |group| group.mailbox(RECEIVE_LEN).unwrap());
    play(&boxes, 0, WARM);
    let sender = boxes.remove(0);
    (0..30u64).for_each(|k| sender.send(1, 1, k as u32, &k.to_le_bytes(), Body::Bytes(&pattern(100, k))).unwrap());
    drop(sender);
    for k in 0..30u64 {
        let message = boxes[0].receive(Wanted { from: Some(0), context: 1, tag: None }, SOON).unwrap();
        assert_eq!(message.head(), &k.to_le_bytes()[..]);
    }
}

/// Another client knows the number of a port, or makes one up.
#[test]
fn a_connection_for_no_lane_of_its_own_is_closed() {
    let pool = TestPool::start(2, 64 << 20);
    let queue = pool.client(1).create_queue("q", &FORM, &hanare::CreateOptions::default()).unwrap();
    let _reader = queue.reader().unwrap();
    let keys = support::keys();
    for client in [0, 1, 77] {
        let caller = Caller {
            role: Role::Link,
            from: 5,
            client,
            user: User { uid: 0, gid: 0 },
            sealing: Sealing::Auto,
            versions: Versions::BUILD,
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        let secret = |hellos: &Hellos| Ok(keys.secret(hellos).unwrap());
        let greeted = tcp::connect(pool.nodes[1].address(), caller, &secret, deadline).unwrap();
        let mut channel = greeted.link.into_channel();
        let ended = loop {
            match channel.receive_slice(&mut [0; 8]) {
                Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                ended => break ended,
            }
        };
        assert!(matches!(ended, Ok(0) | Err(rustix::io::Errno::CONNRESET)), "client {client}: {ended:?}");
    }
}

/// A party that has a link, sends some messages that nobody reads yet, and is killed.
pub fn sends_by_a_link_and_dies() {
    let mailbox = Pool::attach().unwrap().group("g", 2).unwrap().mailbox(RECEIVE_LEN).unwrap();
    // Fewer than may be under way before their reader is given up.
    (0..WARM).for_each(|k| mailbox.send(0, 0, k as u32, &k.to_le_bytes(), Body::Bytes(&[])).unwrap());
    mailbox.settle().unwrap();
    holder::wait_for_death();
}

/// A party that answers some messages, and is killed.
pub fn reads_by_a_link_and_dies() {
    let mailbox = Pool::attach().unwrap().group("g", 2).unwrap().mailbox(RECEIVE_LEN).unwrap();
    (0..WARM).for_each(|k| receive(&mailbox, 0, k));
    holder::wait_for_death();
}

/// The mailbox of this program, and the killed party's process, when that has done its part.
fn beside(party: &'static str, meanwhile: impl Fn(&Mailbox) + Sync) -> (TestPool, Mailbox) {
    let pool = TestPool::start(2, 64 << 20);
    let group = pool.client(0).group("g", 2).unwrap();
    let socket = pool.nodes[1].socket().to_owned();
    let starting = std::thread::spawn(move || holder::start(&format!("{}::{party}", module_path!()), &socket));
    let mailbox = group.mailbox(RECEIVE_LEN).unwrap();
    meanwhile(&mailbox);
    holder::kill(starting.join().unwrap());
    (pool, mailbox)
}

#[test]
fn what_a_killed_party_sent_by_its_link_counts() {
    let (_pool, mailbox) = beside("sends_by_a_link_and_dies", |_| {});
    for k in 0..WARM {
        let message = mailbox.receive(Wanted { from: Some(1), context: 0, tag: None }, SOON).unwrap();
        assert_eq!((message.envelope().tag, message.head()), (k as u32, &k.to_le_bytes()[..]));
    }
    let outcome = mailbox.receive(Wanted { from: Some(1), context: 0, tag: None }, SOON);
    assert!(matches!(outcome, Err(Error::PartyGone { .. })), "{outcome:?}");
}

#[test]
fn who_sends_by_a_link_to_a_killed_party_is_told() {
    let (_pool, mailbox) = beside("reads_by_a_link_and_dies", |mailbox| (0..WARM).for_each(|k| send(mailbox, 1, k)));
    let begun = Instant::now();
    let outcome = loop {
        let outcome = mailbox.send(1, 0, 0, b"", Body::Bytes(&[]));
        if outcome.is_err() || begun.elapsed() > Duration::from_secs(20) {
            break outcome;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(matches!(outcome, Err(Error::PartyGone { .. })), "{outcome:?}");
}

#[test]
fn links_are_sealed_where_their_bytes_leave_the_host() {
    let those = [
        "messages_pass_no_node_once_their_parties_have_links",
        "parts_of_vectors_pass_no_node_once_their_parties_have_links",
        "messages_whose_links_break_arrive_once_and_in_order",
        "messages_that_are_lost_behind_their_acknowledgement_are_sent_again_before_they_are_settled",
    ];
    support::once_more_sealed(module_path!(), &those);
}
