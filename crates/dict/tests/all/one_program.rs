//! Calls of one program, against an ordered map; and values that are read in place.

use crate::nodes::{PLACES, TestPool};
use hanare::{CreateOptions, Error};
use hanare_dict::{Dict, Key, Options, kind};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u8, usize),
    Get(u8),
    Remove(u8),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lengths = prop_oneof![0usize..40, 1000usize..1100, Just(3000usize), Just(70_000usize)];
    let step = prop_oneof![
        6 => (0u8..40, any::<u8>(), lengths).prop_map(|(key, byte, len)| Step::Set(key, byte, len)),
        3 => (0u8..40).prop_map(Step::Get),
        2 => (0u8..40).prop_map(Step::Remove),
        1 => Just(Step::Sweep),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Keys of each kind.
fn key(number: u8) -> Key<'static> {
    match number % 3 {
        0 => Key::number(number.into()),
        1 => Key::text(&format!("text {number}")),
        _ => Key::bytes(&[number; 3]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn steps_do_what_they_do_to_a_map(steps in steps()) {
        let nodes = TestPool::start(2, 24 << 20);
        for placement in PLACES {
            let pools = [nodes.client(0), nodes.client(1)];
            let options = Options { placement, buckets: 2, memory: 64 << 10, ..Options::default() };
            let dicts = pools.each_ref().map(|pool| Dict::open(pool, &format!("{placement}"), &options).unwrap());
            let mut model: BTreeMap<Vec<u8>, (u8, Vec<u8>)> = BTreeMap::new();
            for (turn, step) in steps.iter().enumerate() {
                let dict = &dicts[turn % 2];
                match *step {
                    Step::Set(number, byte, len) => {
                        let (first, second) = (vec![byte; len / 3], vec![!byte; len - len / 3]);
                        dict.set_parts(&key(number), byte % 5, &[&first, &second]).unwrap();
                        model.insert(key(number).coded().to_vec(), (byte % 5, [first, second].concat()));
                    }
                    Step::Get(number) => {
                        let wanted = model.get(key(number).coded());
                        prop_assert_eq!(dict.get(&key(number)).unwrap(), wanted.cloned());
                        prop_assert_eq!(dict.contains(&key(number)).unwrap(), wanted.is_some());
                        let mut into = [0; 50];
                        let told = dict.get_into(&key(number), &mut into).unwrap();
                        prop_assert_eq!(told.map(|told| (told.kind, told.len)), wanted.map(|(kind, bytes)| (*kind, bytes.len())));
                        if let Some((_, bytes)) = wanted.filter(|(_, bytes)| bytes.len() <= into.len()) {
                            prop_assert_eq!(&into[..bytes.len()], &bytes[..]);
                        }
                    }
                    Step::Remove(number) => {
                        prop_assert_eq!(dict.remove(&key(number)).unwrap(), model.remove(key(number).coded()).is_some());
                    }
                    Step::Sweep => drop(dict.sweep().unwrap()),
                }
            }
            for dict in &dicts {
                let mut keys: Vec<Vec<u8>> = dict.keys().map(Result::unwrap).collect();
                keys.sort();
                prop_assert_eq!(keys, model.keys().cloned().collect::<Vec<_>>());
                prop_assert_eq!((dict.len().unwrap(), dict.is_empty().unwrap()), (model.len(), model.is_empty()));
            }
            dicts[1].clear().unwrap();
            prop_assert!(dicts[0].is_empty().unwrap());
            dicts[1].give_back();
            prop_assert_eq!(dicts[0].stat().unwrap().unlinked, 0);
            dicts[0].destroy().unwrap();
            prop_assert!(pools[0].list().unwrap().is_empty());
        }
    }
}

#[test]
fn regions_and_options_that_make_no_dictionary_are_refused() {
    let nodes = TestPool::start(1, 64 << 20);
    let pool = nodes.client(0);
    pool.create("region", 64, &CreateOptions::default()).unwrap();
    assert!(matches!(Dict::open(&pool, "region", &Options::default()), Err(Error::BadUse { .. })));
    for (buckets, memory) in [(0, 4096), (1, 4095)] {
        let options = Options { buckets, memory, ..Options::default() };
        assert!(matches!(Dict::open(&pool, "dict", &options), Err(Error::BadSetting { .. })));
    }
    let dict = Dict::open(&pool, "dict", &Options::default()).unwrap();
    dict.set(&Key::text("key"), kind::JSON, b"1").unwrap();
    dict.destroy().unwrap();
    assert!(Dict::open(&pool, "dict", &Options::default()).unwrap().is_empty().unwrap(), "another of that name");
}

#[test]
fn a_value_that_is_held_stays_as_it_is_whoever_replaces_it() {
    const LEN: usize = 1 << 18;
    let nodes = TestPool::start(2, 64 << 20);
    let (here, beside) = (nodes.client(0), nodes.client(0));
    let dict = Dict::open(&here, "held", &Options { memory: 4 << 20, ..Options::default() }).unwrap();
    let other = Dict::open(&beside, "held", &Options::default()).unwrap();
    let key = Key::text("key");
    dict.set(&key, kind::PLAIN, &vec![1; LEN]).unwrap();
    assert!(dict.hold(&key, |kind| kind == kind::ARRAY).unwrap().is_none(), "it is of another kind");
    let hold = dict.hold(&key, |kind| kind == kind::PLAIN).unwrap().unwrap();
    for turn in 2..30 {
        [&dict, &other][turn % 2].set(&key, kind::PLAIN, &vec![turn as u8; LEN]).unwrap();
    }
    let is_as_it_was = || {
        let mut bytes = vec![0; LEN - 7];
        hold.read(7, &mut bytes).unwrap();
        bytes.iter().all(|byte| *byte == 1)
    };
    assert!(is_as_it_was() && hold.len() == LEN && hold.kind() == kind::PLAIN);
    assert!(matches!(hold.read(LEN, &mut [0]), Err(Error::OutOfRange { .. })));
    assert_eq!(dict.get(&key).unwrap().unwrap().1, vec![29; LEN]);
    // What others swept and took, too.
    other.sweep().unwrap();
    other.set(&Key::text("other"), kind::PLAIN, &vec![7; 2 * LEN]).unwrap();
    assert!(is_as_it_was());
    let far = Dict::open(&nodes.client(1), "held", &Options::default()).unwrap();
    assert!(far.hold(&key, |_| true).unwrap().is_none(), "it is another host's");
    dict.set(&Key::text("short"), kind::PLAIN, b"short").unwrap();
    assert!(dict.hold(&Key::text("short"), |_| true).unwrap().is_none());
    drop(hold);
    dict.set(&key, kind::PLAIN, b"").unwrap();
    other.set(&key, kind::PLAIN, b"").unwrap();
    drop((other, far));
    dict.sweep().unwrap();
    assert_eq!(dict.stat().unwrap().unlinked, 0);
}
