//! Somebody between two nodes, on every link, who reads, flips, cuts, repeats, reorders and reflects: nothing of it is read, and no byte
//! arrives that was not sent.
//!
//! All is on this host, where direct connections are plain: that these are sealed is the doing of who stands between.

use crate::between;
use crate::support;

use between::{Attack, Between};
use hanare::node::{Node, NodeOptions};
use hanare::{CreateOptions, NodeId, Placement, Pool};
use std::net::TcpListener;
use support::{options, pattern};

/// Two nodes, of which each is reached through somebody.
struct Pair {
    // Dropped in this order.
    second: Node,
    first: Node,
    between: [Between; 2],
}

fn pair() -> Pair {
    // Where a node listens is known when it runs; what it advertises must be known before.
    let start = |join: Option<String>| {
        let (listener, port) = (TcpListener::bind("127.0.0.1:0").unwrap(), hanare_testkit::free_address());
        let advertise = listener.local_addr().unwrap().to_string();
        let between = Between::start(listener, port);
        let options = NodeOptions { join, advertise: Some(advertise), listen: port.to_string(), ..options(32 << 20) };
        (Node::start(options).unwrap(), between)
    };
    let (first, before_first) = start(None);
    let (second, before_second) = start(Some(first.address().to_owned()));
    Pair { first, second, between: [before_first, before_second] }
}

const LEN: usize = 300_000;

/// A region on the second node, of a program of the first.
fn region(pair: &Pair) -> (Pool, hanare::Region) {
    let pool = Pool::attach_to(pair.first.socket(), None).unwrap();
    let placement = Placement::Node(NodeId(1));
    let region = pool.create("far", LEN as u64, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
    (pool, region)
}

#[test]
fn who_passes_all_on_reads_nothing() {
    let pair = pair();
    let (pool, region) = region(&pair);
    let text = b"a line that is easy to find".repeat(100);
    region.put(0, &text).unwrap();
    let mut back = vec![0; text.len()];
    region.get(0, &mut back).unwrap();
    assert!(back == text);
    pool.remove("far").unwrap();
    let heard: Vec<Vec<u8>> = pair.between.iter().map(Between::heard).collect();
    assert!(heard[1].len() > 2 * text.len(), "it all went through");
    for heard in heard {
        for word in [&b"easy to find"[..], b"far"] {
            assert!(!heard.windows(word.len()).any(|bytes| bytes == word), "{}", String::from_utf8_lossy(word));
        }
    }
}

#[test]
fn who_changes_anything_ends_the_connection_and_no_more() {
    let pair = pair();
    let (_pool, region) = region(&pair);
    let mut expected = pattern(LEN, 0);
    region.put(0, &expected).unwrap();
    for attack in [Attack::Flip, Attack::Cut, Attack::Repeat, Attack::Reorder, Attack::Reflect] {
        for is_answer in [false, true] {
            for round in 0..4 {
                let bytes = pattern(LEN, 1 + round);
                pair.between[1].begin(attack, is_answer);
                // The attacked connection fails, or was replaced behind the caller's back.
                if region.put(0, &bytes).is_ok() {
                    expected.clone_from(&bytes);
                } else {
                    // What was written of it is the new bytes or the old ones.
                    let mut now = vec![0; LEN];
                    while region.get(0, &mut now).is_err() {}
                    for (at, byte) in now.iter().enumerate() {
                        assert!(*byte == bytes[at] || *byte == expected[at], "{attack:?}: byte {at} is neither");
                    }
                    while region.put(0, &bytes).is_err() {}
                    expected.clone_from(&bytes);
                }
                let mut back = vec![0; LEN];
                for _ in 0..2 {
                    if region.get(0, &mut back).is_ok() {
                        assert!(back == expected, "{attack:?} of {}", if is_answer { "answers" } else { "requests" });
                    }
                }
                assert!(pair.between[1].has_struck(), "{attack:?} hit nothing");
            }
        }
    }
    drop(pair.second);
}

#[test]
fn control_links_are_attacked_in_vain() {
    let pair = pair();
    let (pool, region) = region(&pair);
    let near = Pool::attach_to(pair.second.socket(), None).unwrap();
    for (index, attack) in [Attack::Flip, Attack::Repeat, Attack::Reflect, Attack::Cut].into_iter().enumerate() {
        for is_answer in [false, true] {
            pair.between[0].begin(attack, is_answer);
            // The second node's requests go through; it joins again where its link was ended.
            let name = format!("made-{index}-{is_answer}");
            while near.create_or_attach(&name, 4096, &CreateOptions::default()).is_err() {}
            assert!(pair.between[0].has_struck(), "{attack:?} hit nothing");
        }
    }
    assert_eq!(pool.list().unwrap().len(), 9);
    region.put(0, &[1; 100]).unwrap_or_else(|error| panic!("{error}"));
}
