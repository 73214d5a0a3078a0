//! Many programs at a time, and programs that are killed.

use crate::nodes::{PLACES, TestPool, dict_of_the_test};
use hanare::Placement;
use hanare_dict::{Dict, Key, Options, kind};
use std::collections::BTreeSet;
use std::time::Duration;

const TURNS: u32 = 60;

fn key(program: u64, turn: u32) -> Key<'static> {
    Key::text(&format!("{program} {turn}"))
}

pub fn counts() {
    let Some((pool, dict)) = dict_of_the_test() else { return };
    let program = pool.client().0;
    for turn in 0..TURNS {
        dict.set(&key(program, turn), kind::PLAIN, &turn.to_le_bytes()).unwrap();
        dict.set(&Key::text("both"), kind::PLAIN, &vec![program as u8; [10, 3000][turn as usize % 2]]).unwrap();
        let (_, both) = dict.get(&Key::text("both")).unwrap().unwrap();
        assert!(both.iter().all(|byte| *byte == both[0]) && [10, 3000].contains(&both.len()), "a value is one writer's, whole");
        assert_eq!(dict.get(&key(program, turn)).unwrap().unwrap().1, turn.to_le_bytes());
        if turn % 3 == 0 {
            assert!(dict.remove(&key(program, turn)).unwrap());
        }
    }
}

fn together(placement: Placement, buckets: u64) {
    let nodes = TestPool::start(2, 32 << 20);
    let pool = nodes.client(0);
    let options = Options { placement, buckets, memory: 1 << 20, ..Options::default() };
    let dict = Dict::open(&pool, "counts", &options).unwrap();
    dict.set(&Key::text("still"), kind::PLAIN, &[7; 5000]).unwrap();
    let mut programs: Vec<_> = (0..4).map(|number| nodes.program(number % 2, "programs::counts", &dict)).collect();
    while !programs.iter_mut().all(|program| program.has_ended()) {
        assert_eq!(dict.get(&Key::text("still")).unwrap().unwrap().1, [7; 5000]);
        let keys: Vec<Vec<u8>> = dict.keys().map(Result::unwrap).collect();
        let once: BTreeSet<&Vec<u8>> = keys.iter().collect();
        assert!(once.len() == keys.len() && once.contains(&b"sstill".to_vec()), "each key comes once while the table grows");
    }
    programs.into_iter().for_each(|program| program.join());
    assert_eq!(dict.len().unwrap(), 4 * TURNS as usize * 2 / 3 + 2);
    assert!(dict.stat().unwrap().buckets > buckets, "it grew meanwhile");
}

#[test]
fn many_programs_write_at_a_time_and_the_table_grows_under_them() {
    for placement in PLACES {
        together(placement, 1);
        together(placement, 16);
    }
}

pub fn writes() {
    let Some((_pool, dict)) = dict_of_the_test() else { return };
    for turn in 0u64.. {
        dict.set(&Key::text("key"), kind::PLAIN, &vec![turn as u8; 4000]).unwrap();
        dict.set(&Key::number((turn % 7) as i64), kind::PLAIN, &turn.to_le_bytes()).unwrap();
    }
}

pub fn grows() {
    let Some((_pool, dict)) = dict_of_the_test() else { return };
    for turn in 0.. {
        dict.set(&Key::text("key"), kind::PLAIN, &vec![turn as u8; 4000]).unwrap();
        dict.set(&key(0, turn), kind::PLAIN, &[turn as u8; 30]).unwrap();
    }
}

pub fn sweeps() {
    let Some((_pool, dict)) = dict_of_the_test() else { return };
    for turn in 0.. {
        dict.set(&Key::text("key"), kind::PLAIN, &vec![turn as u8; 4000]).unwrap();
        // Blocks that this program keeps are not swept: another dictionary's handle has them.
        let other = Dict::open(&_pool, dict.name(), &Options::default()).unwrap();
        dict.set(&key(0, turn % 20), kind::PLAIN, &vec![turn as u8; 2000 + turn as usize % 1000]).unwrap();
        other.sweep().unwrap();
    }
}

/// Kills programs at any moment: values are old ones or new ones, writers go on, and what was taken comes back.
fn killed(placement: Placement, program: &str, rounds: u64) {
    let nodes = TestPool::start(2, 64 << 20);
    let pool = nodes.client(0);
    let options = Options { placement, buckets: 2, memory: 1 << 20, ..Options::default() };
    let dict = Dict::open(&pool, "killed", &options).unwrap();
    dict.set(&Key::text("key"), kind::PLAIN, b"").unwrap();
    dict.set(&Key::text("still"), kind::PLAIN, &[7; 5000]).unwrap();
    let mut keys = 0;
    for round in 0..rounds {
        let running = nodes.program(1, program, &dict);
        let before = dict.get(&Key::text("key")).unwrap().unwrap().1;
        while dict.get(&Key::text("key")).unwrap().unwrap().1 == before {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(round * 7919 % 60_000));
        running.kill();
        let (_, value) = dict.get(&Key::text("key")).unwrap().unwrap();
        assert!(value.len() == 4000 && value.iter().all(|byte| *byte == value[0]));
        assert_eq!(dict.get(&Key::text("still")).unwrap().unwrap().1, [7; 5000]);
        let now = dict.keys().map(Result::unwrap).collect::<BTreeSet<_>>().len();
        assert!(now >= keys, "no key is lost: {now} of {keys}");
        keys = now;
        dict.set(&Key::text("after"), kind::PLAIN, b"a").unwrap();
        assert!(dict.remove(&Key::text("after")).unwrap());
    }
    let all = |dict: &Dict| -> BTreeSet<(Vec<u8>, Vec<u8>)> {
        let value = |key: &Vec<u8>| dict.get(&Key::from_coded(key)).unwrap().unwrap().1;
        dict.keys().map(|key| key.map(|key| (key.clone(), value(&key))).unwrap()).collect()
    };
    let whole = all(&dict);
    let linked = dict.stat().unwrap().linked;
    dict.sweep().unwrap();
    let stat = dict.stat().unwrap();
    assert_eq!((stat.unlinked, stat.linked), (0, linked));
    assert_eq!(all(&dict), whole);
    let is_table = |name: &str| name.contains(".t") && name.matches('.').count() == 1;
    // A region that a killed program asked for may come after the sweep.
    let are_gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        dict.sweep().unwrap();
        pool.list().unwrap().iter().filter(|region| is_table(&region.name)).count() == 1
    });
    assert!(are_gone, "the tables of before are gone");
}

#[test]
fn a_killed_writer_leaves_old_values_or_new_ones() {
    PLACES.iter().for_each(|placement| killed(*placement, "programs::writes", 6));
}

#[test]
fn a_program_killed_while_the_table_grows_leaves_all_keys() {
    PLACES.iter().for_each(|placement| killed(*placement, "programs::grows", 8));
}

#[test]
fn a_program_killed_while_it_sweeps_leaves_all_values() {
    PLACES.iter().for_each(|placement| killed(*placement, "programs::sweeps", 8));
}
