//! A connection that breaks under an update: the error says whether the update happened.
//!
//! Between client and node stands a relay that can lose the requests, or the answers, before it cuts the connection.

use crate::relay;

use crate::processes::Dice;
use crate::support::options;
use hanare::node::{Node, NodeOptions};
use hanare::{Consistency, CreateOptions, Element, Error, Happened, JobId, JobRank, Modify, NodeId, Operator, Placement};
use hanare::{Overflow, Pool, QueueForm, Rank, Strided, Unit};
use relay::{Mode, Relay, nodes_beside_relay};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// What an error of a broken connection says.
fn happened(error: Error) -> Happened {
    match error {
        Error::Broken { happened, .. } => happened,
        other => panic!("{other}"),
    }
}

#[test]
fn the_error_says_whether_the_update_happened() {
    let (first, second, relay) = nodes_beside_relay();
    let pool = Pool::attach_to(first.socket(), None).unwrap();
    let placement = Placement::Node(NodeId(1));
    let region = pool.create("words", 4096, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
    let near = Pool::attach_to(second.socket(), None).unwrap().open("words").unwrap();
    let word = || {
        let mut word = [0; 8];
        near.get(0, &mut word).unwrap();
        u64::from_le_bytes(word)
    };

    assert_eq!(region.fetch_word(0, Operator::Add, 1).unwrap(), 0);
    relay.set(Mode::LoseAnswer);
    let error = region.fetch_word(0, Operator::Add, 1).unwrap_err();
    assert!(!error.may_retry());
    assert_eq!((happened(error), word()), (Happened::Yes, 2));

    assert_eq!(region.fetch_word(0, Operator::Add, 1).unwrap(), 2, "the next one goes over a fresh connection");
    relay.set(Mode::LoseRequest);
    let error = region.fetch_word(0, Operator::Add, 1).unwrap_err();
    assert!(error.may_retry());
    assert_eq!((happened(error), word()), (Happened::No, 3));

    // One operand for many elements is applied after the message has arrived, yet it is known to have happened.
    let modify = Modify { operator: Operator::Add, element: Element::U64 };
    region.update(Strided::contiguous(0, 4096), modify, &1u64.to_le_bytes()).unwrap();
    relay.set(Mode::LoseAnswer);
    let error = region.update(Strided::contiguous(0, 4096), modify, &1u64.to_le_bytes()).unwrap_err();
    assert_eq!((happened(error), word()), (Happened::Yes, 5));

    region.fetch_word(0, Operator::Add, 1).unwrap();
    relay.set(Mode::Dead);
    let error = region.fetch_word(0, Operator::Add, 1).unwrap_err();
    assert_eq!(happened(error), Happened::Unknown, "a node that cannot be asked");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(word(), 6);
}

#[test]
fn of_a_command_in_parts_the_error_speaks_for_the_whole() {
    let (first, second, relay) = nodes_beside_relay();
    let pool = Pool::attach_to(first.socket(), None).unwrap();
    let options = CreateOptions { placement: Placement::Interleave(65536), ..CreateOptions::default() };
    let region = pool.create("words", 2 << 16, &options).unwrap();
    let near = Pool::attach_to(second.socket(), None).unwrap().open("words").unwrap();
    // The word on the client's host, and the one behind the relay.
    let begins_here = region.layout().extents().next().unwrap().node == NodeId(0);
    let places = if begins_here { [0, 65536] } else { [65536, 0] };
    let words = || places.map(|at| near.fetch_word(at, Operator::Or, 0).unwrap());
    let whole = Strided::contiguous(0, 2 << 16);
    let modify = Modify { operator: Operator::Add, element: Element::U64 };
    let update = || region.update(whole, modify, &1u64.to_le_bytes());

    update().unwrap();
    assert_eq!(words(), [1, 1]);
    relay.set(Mode::LoseRequest);
    let error = update().unwrap_err();
    assert!(!error.may_retry(), "one half is done: {error}");
    assert_eq!((happened(error), words()), (Happened::Unknown, [2, 1]));

    relay.set(Mode::LoseAnswer);
    assert_eq!((happened(update().unwrap_err()), words()), (Happened::Yes, [3, 2]));

    relay.set(Mode::LoseRequest);
    let error = pool.batch(|batch| batch.update(&region, whole, modify, &[1, 0, 0, 0, 0, 0, 0, 0])).unwrap_err();
    assert_eq!((happened(error), words()), (Happened::Unknown, [4, 2]));
}

#[test]
fn a_refused_message_holds_no_memory_and_the_next_one_asks_for_new_grants() {
    let (first, second, _relay) = nodes_beside_relay();
    let pool = Pool::attach_to(first.socket(), None).unwrap();
    let there = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let [kept, gone] = ["kept", "gone"].map(|name| pool.create(name, 1 << 20, &there).unwrap());
    let other = Pool::attach_to(second.socket(), None).unwrap();
    other.remove("gone").unwrap();
    let put_both = || {
        pool.batch(|batch| {
            batch.put(&kept, 0, &[1; 8])?;
            batch.put(&gone, 0, &[1; 8])
        })
    };
    // Once by a refused message, and once before one is sent.
    for _ in 0..2 {
        let error = put_both().unwrap_err();
        assert!(matches!(&error, Error::UnknownRegion { name } if name == "gone"), "{error}");
        assert_eq!(error.happened(), Happened::No);
    }
    // A node tells of its memory once a second.
    let used = || other.status().unwrap().nodes[1].memory.used;
    wait_until("the region is counted", || used() > 0);
    other.remove("kept").unwrap();
    wait_until("the refused message does not hold the region's memory", || used() == 0);
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Each page is asked for by the thread that touches it, over a connection of its own.
#[test]
fn a_mapping_goes_on_over_other_connections_where_one_breaks_and_its_home_lives() {
    let (first, _second, relay) = nodes_beside_relay();
    let pool = Pool::attach_to(first.socket(), None).unwrap();
    let placement = Placement::Node(NodeId(1));
    let kinds =
        [("coherent", Consistency::Coherent, 1), ("explicit", Consistency::Explicit, 1), ("copied", Consistency::Coherent, 2)];
    for (name, consistency, copies) in kinds {
        let region = pool.create(name, 64 * 4096, &CreateOptions { placement, copies, ..CreateOptions::default() }).unwrap();
        for page in 0..64_u64 {
            region.put(page * 4096, &page.to_le_bytes()).unwrap();
        }
        let mapping = region.map(consistency).unwrap();
        for page in 0..48_u64 {
            // Backwards, so that no stream brings pages ahead.
            let at = (63 - page) * 4096;
            relay.set([Mode::Pass, Mode::LoseRequest, Mode::LoseAnswer][page as usize % 3]);
            let mut bytes = [0; 8];
            mapping.read(at, &mut bytes).unwrap_or_else(|error| panic!("{name}, page {}: {error}", 63 - page));
            assert_eq!(u64::from_le_bytes(bytes), 63 - page, "{name}");
            if page % 2 == 0 {
                relay.set([Mode::LoseAnswer, Mode::LoseRequest][page as usize / 2 % 2]);
                mapping.write(at, &(page + 100).to_le_bytes()).unwrap_or_else(|error| panic!("{name}, page {page}: {error}"));
            }
        }
        relay.set(Mode::Pass);
        mapping.flush(0, 64 * 4096).unwrap();
        drop(mapping);
        for page in 0..48_u64 {
            let wanted = if page % 2 == 0 { page + 100 } else { 63 - page };
            let mut bytes = [0; 8];
            region.get((63 - page) * 4096, &mut bytes).unwrap();
            assert_eq!(u64::from_le_bytes(bytes), wanted, "{name}");
        }
    }
}

#[test]
fn a_node_that_goes_while_it_is_greeted_is_lost_and_not_missing_on_this_host() {
    let (first, _second, relay) = nodes_beside_relay();
    let pool = Pool::attach_to(first.socket(), None).unwrap();
    let placement = Placement::Node(NodeId(1));
    let region = pool.create("a", 1 << 20, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
    relay.set(Mode::CutGreeted);
    for error in [region.put(0, &[1; 8]).unwrap_err(), region.get(0, &mut [0; 8]).unwrap_err()] {
        assert!(matches!(error, Error::NodeLost { node: NodeId(1), .. }), "{error}");
    }
}

#[test]
fn a_put_over_several_nodes_under_which_its_region_is_removed_says_so() {
    let (first, second, _relay) = nodes_beside_relay();
    let (near, far) = (Pool::attach_to(first.socket(), None).unwrap(), Pool::attach_to(second.socket(), None).unwrap());
    let placement = Placement::Interleave(4096);
    for round in 0..20 {
        let region = near.create("short-lived", 1 << 20, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
        let bytes = vec![round; 1 << 20];
        std::thread::scope(|scope| {
            let puts = scope.spawn(|| {
                loop {
                    match region.put(0, &bytes) {
                        Ok(()) => {}
                        Err(error) => break error,
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(u64::from(round)));
            far.remove("short-lived").unwrap();
            let error = puts.join().unwrap();
            assert!(matches!(error, Error::UnknownRegion { .. }), "round {round}: {error}");
        });
    }
}

/// Random steps of a writer that waits for few answers, over connections that break between them: the reader gets what a plain list has.
#[test]
fn units_that_nobody_waited_for_are_read_once_and_in_order_whatever_becomes_of_their_connections() {
    let (first, second, relay) = nodes_beside_relay();
    let (pool, near) = (Pool::attach_to(first.socket(), None).unwrap(), Pool::attach_to(second.socket(), None).unwrap());
    let on = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    for (seed, overflow) in [Overflow::Wait, Overflow::Spill, Overflow::Refuse, Overflow::Spill].into_iter().enumerate() {
        let (mut dice, name) = (Dice::new(seed as u64), format!("q{seed}"));
        let unit = if seed % 2 == 0 { Unit::Records { len_max: 100 } } else { Unit::Blocks { len: 24 } };
        let queue = pool.create_queue(&name, &QueueForm { unit, depth: 60, ports: 2, overflow }, &on).unwrap();
        let bytes = |number: u64| {
            let mut bytes = vec![number as u8; if seed % 2 == 0 { 8 + number as usize * 13 % 92 } else { 24 }];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            bytes
        };
        let (mut writer, mut reader) = (queue.writer().unwrap(), near.open_queue(&name).unwrap().reader().unwrap());
        let (mut sent, mut read, mut unit) = (0, 0, Vec::new());
        for _ in 0..400 {
            match dice.below(8) {
                0 => writer.publish().unwrap(),
                1..=3 => writer.publish_started().unwrap(),
                4 if dice.one_in(8) => relay.set(if dice.one_in(2) { Mode::LoseRequest } else { Mode::LoseAnswer }),
                5 if read < sent => {
                    // A reader that finds all read and the writer's connection gone would take it for dead.
                    writer.publish().unwrap();
                    reader.receive(&mut unit, Some(Duration::from_secs(20))).unwrap();
                    assert_eq!(unit, bytes(read), "{overflow:?}, unit {read} of {sent}");
                    read += 1;
                }
                _ if writer.try_claim(bytes(sent).len()).unwrap() => {
                    writer.fill(0, &bytes(sent));
                    writer.keep();
                    sent += 1;
                    // What is claimed meanwhile stays claimed.
                    if dice.one_in(4) && writer.try_claim(bytes(sent).len()).unwrap() {
                        writer.fill(0, &bytes(sent));
                        writer.publish_started().unwrap();
                        writer.keep();
                        sent += 1;
                    }
                }
                _ => {}
            }
        }
        relay.set(Mode::Pass);
        writer.publish().unwrap();
        assert_eq!(writer.appended(), sent, "each counts once");
        while read < sent {
            reader.receive(&mut unit, Some(Duration::from_secs(20))).unwrap();
            assert_eq!(unit, bytes(read), "{overflow:?}, unit {read} of {sent} at the end");
            read += 1;
        }
        assert!(sent > 40 && reader.try_see().unwrap().is_none());
        writer.close().unwrap();
    }
}

/// A pool whose home clients reach through a relay, and a node that reaches it itself.
fn home_behind_relay() -> (Node, Node, Relay) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = hanare_testkit::free_address();
    let advertise = Some(listener.local_addr().unwrap().to_string());
    let home = Node::start(NodeOptions { advertise, listen: own.to_string(), ..options(16 << 20) }).unwrap();
    let near = Node::start(NodeOptions { join: Some(own.to_string()), ..options(16 << 20) }).unwrap();
    (home, near, Relay::start(listener, own))
}

fn ranks(nodes: &[&Node]) -> Vec<Pool> {
    let (job, ranks) = (JobId(u128::from(std::process::id())), nodes.len() as u32);
    let attach =
        |(rank, node): (u32, &&Node)| Pool::attach_to(node.socket(), Some(JobRank { job, rank: Rank(rank), ranks })).unwrap();
    (0..).zip(nodes).map(attach).collect()
}

#[test]
fn a_barrier_goes_on_over_another_connection() {
    let (_home, near, relay) = home_behind_relay();
    let ranks = ranks(&[&near, &near]);
    for mode in [Mode::Pass, Mode::LoseRequest, Mode::LoseAnswer, Mode::LoseRequest, Mode::Pass] {
        relay.set(mode);
        std::thread::scope(|scope| {
            let arriving: Vec<_> = ranks.iter().map(|rank| scope.spawn(|| rank.barrier())).collect();
            arriving.into_iter().for_each(|arriving| arriving.join().unwrap().unwrap());
        });
    }
    relay.set(Mode::Dead);
    assert!(
        matches!(ranks[0].barrier(), Err(Error::NodeLost { .. } | Error::Timeout { .. })),
        "a home that cannot be reached is lost"
    );
}
