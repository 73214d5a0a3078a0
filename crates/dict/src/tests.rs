//! Memory that no program wrote so, in regions that are a dictionary's: errors, and nothing else.

use crate::bucket::{HEAD_LEN, PLACE};
use crate::digest::checksum;
use crate::root::Root;
use crate::{Dict, Key, Options, kind};
use hanare::node::{Node, NodeOptions, new_key_file};
use hanare::{Error, Pool};

fn node(folder: &tempfile::TempDir) -> Node {
    let key = folder.path().join("pool.key");
    new_key_file(&key).unwrap();
    let socket = folder.path().join("node").to_str().unwrap().to_owned();
    Node::start(NodeOptions { key: Some(key), socket, ..NodeOptions::new(16 << 20).unwrap() }).unwrap()
}

/// Each call ends, with or without an error.
fn try_all(dict: &Dict) -> Vec<hanare::Result<()>> {
    let key = Key::text("key");
    vec![
        dict.get(&key).map(drop),
        dict.keys().try_for_each(|key| key.map(drop)),
        dict.hold(&key, |_| true).map(drop),
        dict.set(&key, kind::PLAIN, b"1"),
        dict.stat().map(drop),
    ]
}

#[test]
fn buckets_that_no_program_writes_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(&folder);
    let pool = Pool::attach_to(node.socket(), None).unwrap();
    let number = |number: u32| number.to_le_bytes().to_vec();
    let nowhere = [&[0xff; 4][..], &number(70)].concat();
    // What is written wrongly into a bucket of one entry, and where: bytes, entries, lengths, the value's place, the key.
    let wrong: [(usize, Vec<u8>); 12] = [
        (4, number(0)),
        (4, number(25)),
        (4, number(u32::MAX)),
        (8, number(2)),
        (8, number(u32::MAX)),
        (24, number(u32::MAX)),
        (24, number(200)),
        (28, number(u32::MAX)),
        (32, [&[1][..], &[0xff; 7]].concat()),
        (32, [[0xff; 4], [0; 4]].concat()),
        (32, nowhere),
        (48, b"q".to_vec()),
    ];
    for (at, bytes) in wrong {
        let options = Options { buckets: 1, memory: 1 << 20, tries: 5, ..Options::default() };
        let dict = Dict::open(&pool, "buckets", &options).unwrap();
        dict.set(&Key::text("key"), kind::PLAIN, &[b'v'; 100]).unwrap();
        let (words, heap) = (pool.open("buckets.t0").unwrap(), pool.open("buckets.t0.0").unwrap());
        let place = 64 * (words.read_word(0).unwrap() & PLACE);
        let mut bucket = vec![0; 2 * HEAD_LEN + 4 + 100];
        heap.get(place, &mut bucket).unwrap();
        assert_eq!(checksum(&bucket[4..]).to_le_bytes(), bucket[..4]);
        bucket[at..at + bytes.len()].copy_from_slice(&bytes);
        let sum = checksum(&bucket[4..]).to_le_bytes();
        bucket[..4].copy_from_slice(&sum);
        heap.put(place, &bucket).unwrap();
        try_all(&dict);
        dict.destroy().unwrap();
    }
}

#[test]
fn words_and_roots_that_no_program_writes_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(&folder);
    let pool = Pool::attach_to(node.socket(), None).unwrap();
    let options = Options { buckets: 8, memory: 1 << 20, tries: 5, ..Options::default() };
    let dict = Dict::open(&pool, "words", &options).unwrap();
    let (words, root) = (pool.open("words.t0").unwrap(), pool.open("words").unwrap());
    for word in [1, PLACE, 1 << 42 | 5, 63 << 42 | 1 << 30 | 5, 0xfff << 30 | 1, 0xfff << 30 | PLACE, 1 << 63 | 5] {
        dict.set(&Key::text("key"), kind::PLAIN, b"v").unwrap();
        words.put(0, &word.to_le_bytes().repeat(8)).unwrap();
        for (call, done) in try_all(&dict).into_iter().take(4).enumerate() {
            assert!(done.is_err(), "call {call} with word {word:x}");
        }
        words.put(0, &[0; 64]).unwrap();
    }
    // A sweep of such words fails, and has them as before.
    dict.set(&Key::text("key"), kind::PLAIN, b"v").unwrap();
    let good = (0..8).find(|number| words.read_word(8 * number).unwrap() & PLACE != 0).unwrap();
    let bad = (good + 1) % 8;
    words.put(8 * bad, &5u64.to_le_bytes()).unwrap();
    pool.open("words.t0.0").unwrap().heap().allocate(1000, 1).unwrap();
    assert!(matches!(dict.sweep(), Err(Error::Garbage { .. })));
    dict.set(&Key::text("key"), kind::PLAIN, b"w").unwrap();
    assert_eq!(words.read_word(8 * bad).unwrap(), 5);
    assert_eq!(dict.get(&Key::text("key")).unwrap(), Some((kind::PLAIN, b"w".to_vec())));
    // A root that names a table that is not there.
    root.put(0, &(7u64 << 44 | 7).to_le_bytes()).unwrap();
    words
        .update(hanare::Strided { offset: 0, block: 8, count: 8, stride: 8 }, crate::table::FREEZE, &(1u64 << 63).to_le_bytes())
        .unwrap();
    assert!(dict.get(&Key::text("key")).is_err() && dict.set(&Key::text("key"), kind::PLAIN, b"").is_err());
}

#[test]
fn a_program_that_opened_before_the_table_grew_makes_no_second_first_one() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(&folder);
    let pool = Pool::attach_to(node.socket(), None).unwrap();
    let options = Options { buckets: 1, memory: 64 << 10, ..Options::default() };
    let dict = Dict::open(&pool, "grown", &options).unwrap();
    (0..40).for_each(|number| dict.set(&Key::number(number), kind::PLAIN, b"v").unwrap());
    assert!(dict.stat().unwrap().buckets > 1);
    // It read the root, and comes to the table when that is gone.
    let late = dict.opening().table(Root::of_word(0));
    assert!(matches!(late, Err(Error::UnknownRegion { .. })));
    assert!(
        !pool.list().unwrap().into_iter().any(|region| region.name == "grown.t0"),
        "an empty table would be taken for the dictionary's"
    );
    assert_eq!(Dict::open(&pool, "grown", &options).unwrap().len().unwrap(), 40);
}
