//! Calls of one program or two, against an ordered map.

use super::{bytes_of, key, open, small};
use crate::nodes::{PLACES, TestPool};
use hanare::{Error, Pool};
use hanare_dict::{Change, Dict, Item, Key, Options, Store, StoreOptions, Told, kind};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, usize, bool),
    Get(u8),
    Remove(u8),
    Append(u8, u8),
    End(u8),
    Pin(u8),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lengths = prop_oneof![0usize..40, 1000usize..1100, Just(3000usize), Just(70_000usize)];
    let step = prop_oneof![
        6 => (0u8..30, any::<u8>(), lengths, any::<bool>()).prop_map(|(key, byte, len, ends)| Step::Put(key, byte, len, ends)),
        3 => (0u8..30).prop_map(Step::Get),
        2 => (0u8..30).prop_map(Step::Remove),
        2 => (0u8..30, any::<u8>()).prop_map(|(key, byte)| Step::Append(key, byte)),
        1 => (0u8..30).prop_map(Step::End),
        1 => (0u8..30).prop_map(Step::Pin),
        1 => Just(Step::Sweep),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The value of a key and whether it ends some day.
type Model = BTreeMap<u8, (Vec<u8>, bool)>;

fn does(store: &Store, model: &mut Model, step: Step) {
    let of = |number: u8| key(number.into());
    match step {
        Step::Put(number, byte, len, ends) => {
            store.put(&of(number), byte, &vec![byte; len], ends.then_some(HOUR)).unwrap();
            model.insert(number, (vec![byte; len], ends));
        }
        Step::Get(number) => {
            let found = store.get(&of(number)).unwrap().map(|(_, bytes)| bytes);
            assert_eq!(found, model.get(&number).map(|(bytes, _)| bytes.clone()));
            let ttl = store.ttl(&of(number)).unwrap();
            assert_eq!(ttl.map(|ttl| ttl.is_some()), model.get(&number).map(|(_, ends)| *ends));
            assert!(ttl.flatten().is_none_or(|ttl| ttl <= HOUR && ttl > HOUR / 2));
        }
        Step::Remove(number) => assert_eq!(store.remove(&of(number)).unwrap(), model.remove(&number).is_some()),
        Step::Append(number, byte) => {
            let len = store.update(&of(number), true, |found| {
                let bytes = [found.map_or(&[][..], |found| found.bytes), &[byte]].concat();
                let (len, times) = (bytes.len(), found.map(|found| found.times).unwrap_or_default());
                Ok((Change::Set { kind: 0, bytes: bytes.into(), times }, len))
            });
            let (bytes, _) = model.entry(number).or_default();
            bytes.push(byte);
            assert_eq!(len.unwrap(), bytes.len());
        }
        Step::End(number) => {
            // The end has come as soon as it is set.
            let did = store.expire(&of(number), Some(Duration::ZERO)).unwrap();
            assert_eq!(did, model.remove(&number).is_some());
            assert_eq!((store.get(&of(number)).unwrap(), store.contains(&of(number)).unwrap()), (None, false));
        }
        Step::Pin(number) => assert_eq!(store.pin(&of(number), HOUR).unwrap(), model.contains_key(&number)),
        Step::Sweep => drop(store.sweep().unwrap()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn steps_of_two_programs_are_those_of_a_map(steps in steps()) {
        let nodes = TestPool::start(2, 64 << 20);
        let pools = [nodes.client(0), nodes.client(1)];
        for placement in PLACES {
            let options = StoreOptions { bytes: 8 << 20, placement, entries: Some(20), ..small() };
            let stores = [0, 1].map(|program| open(&pools[program], &options));
            let mut model = Model::new();
            for (turn, step) in steps.iter().cloned().enumerate() {
                does(&stores[turn % 2], &mut model, step);
            }
            for store in &stores {
                let (next, mut keys) = store.scan(0, usize::MAX).unwrap();
                keys.sort();
                let mut wanted: Vec<Vec<u8>> = model.keys().map(|number| key((*number).into()).coded().to_vec()).collect();
                wanted.sort();
                prop_assert_eq!((next, keys), (0, wanted));
                prop_assert_eq!((store.len().unwrap(), store.is_empty().unwrap()), (model.len() as u64, model.is_empty()));
            }
            stores[1].clear().unwrap();
            prop_assert!(stores[0].is_empty().unwrap());
            drop(stores);
            let store = open(&pools[0], &options);
            prop_assert_eq!(store.sweep().unwrap(), 0, "nobody leaves blocks that nobody links");
            store.destroy().unwrap();
            prop_assert!(pools[0].list().unwrap().is_empty());
        }
    }
}

#[test]
fn options_and_regions_that_make_no_store_are_refused() {
    let nodes = TestPool::start(1, 64 << 20);
    let pool = nodes.client(0);
    for bytes in [0, 1000, 1 << 50] {
        assert!(matches!(Store::open(&pool, "store", &StoreOptions { bytes, ..small() }), Err(Error::BadSetting { .. })));
    }
    assert!(matches!(Store::open(&pool, "store", &StoreOptions { bytes: 1 << 30, ..small() }), Err(Error::PoolFull { .. })));
    pool.remove("store").unwrap();
    Dict::open(&pool, "dict", &Options::default()).unwrap();
    assert!(matches!(Store::open(&pool, "dict", &small()), Err(Error::BadUse { .. })));
    let store = open(&pool, &small());
    assert!(matches!(Dict::open(&pool, "store", &Options::default()), Err(Error::BadUse { .. })));
    let long = store.put(&key(1), kind::PLAIN, &vec![0; 2 << 20], None);
    assert!(matches!(long, Err(Error::LimitReached { .. })), "{long:?}");
    assert_eq!(store.get(&key(1)).unwrap(), None);
    let told = store.get_many(&[key(1)], &mut []);
    assert!(matches!(told, Err(Error::BadSetting { .. })));
}

pub fn messages(pool: &Pool, work: impl FnOnce()) -> u64 {
    let before = pool.traffic().messages_sent;
    work();
    pool.traffic().messages_sent - before
}

#[test]
fn a_batch_is_three_messages_and_a_get_one_or_two() {
    let nodes = TestPool::start(2, 64 << 20);
    let pool = nodes.client(0);
    let store = open(&pool, &StoreOptions { bytes: 16 << 20, placement: PLACES[1], entries: Some(2000), ..small() });
    let keys: Vec<Key<'_>> = (0..200).map(key).collect();
    let lengths = [10usize, 900, 5000, 40_000];
    let values: Vec<Vec<u8>> = (0..200).map(|number| bytes_of(number, lengths[number as usize % 4])).collect();
    let items: Vec<Item<'_>> = keys.iter().zip(&values).map(|(key, bytes)| Item { key, kind: kind::PLAIN, bytes }).collect();
    assert_eq!(store.put_many(&items, None).unwrap(), [true; 200]);
    let absent = key(777);
    let all: Vec<Key<'_>> = keys.iter().cloned().chain([absent.clone()]).collect();
    let mut buffers = vec![vec![0; 40_000]; 201];
    let mut into: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
    let mut told: Vec<Option<Told>> = Vec::new();
    let sent = messages(&pool, || told = store.get_many(&all, &mut into).unwrap());
    assert!(sent <= 3, "{sent} messages");
    for ((told, buffer), value) in told.iter().zip(&buffers).zip(&values) {
        assert!(told.unwrap().len == value.len() && buffer[..value.len()] == value[..]);
    }
    assert_eq!(told[200], None);
    let mut there = Vec::new();
    assert!(messages(&pool, || there = store.contains_many(&all).unwrap()) <= 2);
    assert_eq!((there.iter().filter(|there| **there).count(), there[200]), (200, false));
    assert_eq!(store.known_prefix(&[key(3), key(4), absent, key(5)]).unwrap(), 2);
    assert_eq!((store.known_prefix(&all).unwrap(), store.known_prefix(&[]).unwrap()), (200, 0));
    let mut one = [0; 40_000];
    store.get_into(&keys[0], &mut one).unwrap();
    assert_eq!(messages(&pool, || assert!(store.get_into(&keys[0], &mut one).unwrap().is_some())), 1, "a short value");
    store.get_into(&keys[3], &mut one).unwrap();
    assert_eq!(messages(&pool, || assert!(store.get_into(&keys[3], &mut one).unwrap().is_some())), 2, "a long value");
    // A value that is longer than its buffer is not read.
    let (mut short, mut other) = ([7; 100], [0; 900]);
    let told = store.get_many(&[keys[3].clone(), keys[0].clone()], &mut [&mut short, &mut other]).unwrap();
    assert!(told[0].unwrap().len == 40_000 && short == [7; 100] && told[1].unwrap().len == 10 && other[..10] == values[0]);
}

#[test]
fn a_put_elsewhere_is_three_messages_and_a_long_one_five() {
    let nodes = TestPool::start(2, 64 << 20);
    let pool = nodes.client(0);
    let store = open(&pool, &StoreOptions { bytes: 16 << 20, placement: PLACES[1], entries: Some(20_000), ..small() });
    for (first, len, most) in [(0, 100, 3), (100, 4096, 5), (200, 65_536, 5)] {
        let put = |number| store.put(&key(number), kind::PLAIN, &bytes_of(number, len), None).unwrap();
        put(first);
        // Some keys share a word with another, whose bucket makes room for both.
        let sent = messages(&pool, || (first + 1..first + 21).for_each(put));
        assert!(sent <= 20 * most + 10, "{sent} messages for 20 puts of {len} bytes");
        assert!((first..first + 21).all(|number| store.get(&key(number)).unwrap().unwrap().1 == bytes_of(number, len)));
    }
}
