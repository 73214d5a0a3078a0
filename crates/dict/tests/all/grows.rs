//! The table made anew: what a program leaves that ends in the middle of it, and what no memory does to it.

use crate::nodes::{PLACES, TestPool};
use hanare::{CreateOptions, Element, Error, Modify, Operator, Placement, Pool, Strided};
use hanare_dict::{Dict, Key, Options, kind};

fn fill(dict: &Dict, count: i64, len: usize) {
    for number in 0..count {
        dict.set(&Key::number(number), kind::PLAIN, &vec![number as u8; len]).unwrap();
    }
}

fn assert_filled(dict: &Dict, count: i64, len: usize) {
    for number in 0..count {
        assert_eq!(dict.get(&Key::number(number)).unwrap().unwrap().1, vec![number as u8; len]);
    }
}

/// Does to a dictionary what a program does that makes its table anew, up to the copying, and no more: as if it was killed there.
fn begin_and_end(pool: &Pool, name: &str) -> u64 {
    let root = pool.open(name).unwrap();
    let word = root.read_word(0).unwrap();
    let begun = (word & 0xff_ffff) + 1;
    assert_eq!(root.compare_and_swap_word(0, word, word + 1).unwrap(), word);
    let attributes = [("hanare.dict.part", root.gid().0.to_string().into_bytes())].into_iter().collect();
    pool.create(&format!("{name}.t{begun}"), 4096, &CreateOptions { attributes, ..CreateOptions::default() }).unwrap();
    let words = pool.open(&format!("{name}.t{}", word >> 44)).unwrap();
    let all = Strided { offset: 0, block: 8, count: words.len() / 8, stride: 8 };
    words.update(all, Modify { operator: Operator::Or, element: Element::U64 }, &(1u64 << 63).to_le_bytes()).unwrap();
    begun
}

#[test]
fn a_program_that_was_killed_with_words_frozen_holds_nobody_up() {
    let nodes = TestPool::start(2, 32 << 20);
    let pool = nodes.client(0);
    for placement in PLACES {
        let name = placement.to_string();
        let options = Options { placement, buckets: 8, memory: 1 << 20, ..Options::default() };
        let dict = Dict::open(&pool, &name, &options).unwrap();
        fill(&dict, 20, 2000);
        let begun = begin_and_end(&pool, &name);
        assert_filled(&dict, 20, 2000);
        assert_eq!(dict.len().unwrap(), 20, "readers go on");
        dict.set(&Key::text("after"), kind::PLAIN, b"a").unwrap();
        assert_filled(&Dict::open(&pool, &name, &options).unwrap(), 20, 2000);
        assert_eq!(dict.get(&Key::text("after")).unwrap(), Some((kind::PLAIN, b"a".to_vec())));
        let left = pool.list().unwrap().into_iter().any(|region| region.name == format!("{name}.t{begun}"));
        assert!(!left, "what it made is gone");
        dict.destroy().unwrap();
    }
}

#[test]
fn memory_that_a_killed_program_took_comes_back() {
    let nodes = TestPool::start(2, 64 << 20);
    let pool = nodes.client(0);
    for placement in PLACES {
        let name = placement.to_string();
        let options = Options { placement, buckets: 8, memory: 1 << 20, ..Options::default() };
        let dict = Dict::open(&pool, &name, &options).unwrap();
        fill(&dict, 20, 2000);
        assert_eq!((dict.stat().unwrap().unlinked, dict.sweep().unwrap()), (0, 0));
        // A crowded bucket makes the table grow during the first fill, for one seed in fifty: its number is the root's.
        let take = |heaps: char, count: usize| {
            let word = pool.open(&name).unwrap().read_word(0).unwrap();
            let number = if heaps == 't' { word >> 44 } else { word >> 24 & 0xf_ffff };
            let heap = pool.open(&format!("{name}.{heaps}{number}.0")).unwrap();
            for _ in 0..count {
                heap.heap().allocate(10_000, 1).unwrap();
            }
        };
        take('v', 40);
        take('t', 10);
        let before = dict.stat().unwrap();
        assert!(before.unlinked >= 500_000);
        assert_eq!(dict.sweep().unwrap(), before.unlinked);
        let after = dict.stat().unwrap();
        assert_eq!((after.unlinked, after.linked), (0, before.linked));
        assert_filled(&dict, 20, 2000);
        // By itself, before a further heap is made.
        take('v', 90);
        let capacity = dict.stat().unwrap().capacity;
        fill(&dict, 20, 10_000);
        let stat = dict.stat().unwrap();
        assert!(stat.unlinked == 0 && stat.capacity <= capacity + (1 << 20), "{stat:?} after {capacity}");
        assert_filled(&dict, 20, 10_000);
        dict.destroy().unwrap();
    }
}

#[test]
fn a_table_that_cannot_grow_serves_on() {
    let nodes = TestPool::start(1, 32 << 20);
    let pool = nodes.client(0);
    let options = Options { buckets: 1, memory: 4 << 20, ..Options::default() };
    let dict = Dict::open(&pool, "small", &options).unwrap();
    fill(&dict, 4, 30);
    dict.set(&Key::text("long"), kind::PLAIN, &[1; 3000]).unwrap();
    let taken =
        pool.create("taken", 20 << 20, &CreateOptions { placement: Placement::Local, ..CreateOptions::default() }).unwrap();
    fill(&dict, 40, 30);
    assert_filled(&dict, 40, 30);
    assert_eq!(dict.stat().unwrap().buckets, 1);
    pool.open("small.v0.0").unwrap().heap().allocate(10_000, 1).unwrap();
    assert!(matches!(dict.sweep(), Err(Error::PoolFull { .. })));
    assert_filled(&dict, 40, 30);
    dict.set(&Key::text("after"), kind::PLAIN, b"a").unwrap();
    assert_eq!(dict.len().unwrap(), 42);
    drop(taken);
    pool.remove("taken").unwrap();
    assert!(dict.sweep().unwrap() > 0 && dict.stat().unwrap().unlinked == 0);
    fill(&dict, 200, 30);
    assert!(dict.stat().unwrap().buckets > 1);
    assert_filled(&dict, 200, 30);
}
