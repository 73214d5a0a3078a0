//! One reader of many queues: of several arrays, of queues of other hosts, by waiting and by an event descriptor.

use crate::{holder, support};

use hanare::{CreateOptions, Error, Overflow, Pool, QueueForm, QueueSet, Trust, Unit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;
use support::{TestPool, on};

const SOON: Option<Duration> = Some(Duration::from_secs(20));

const FORM: QueueForm = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 4, ports: 1, overflow: Overflow::Wait };

/// Sixteen bytes that tell their number, and whether they are whole.
pub(crate) fn block(number: u64) -> [u8; 16] {
    let mut block = [0; 16];
    block[..8].copy_from_slice(&number.to_le_bytes());
    block[8..].copy_from_slice(&(!number).to_le_bytes());
    block
}

fn take(set: &mut QueueSet, unread: hanare::Unread) -> u64 {
    let mut bytes = [0; 16];
    set.read(&unread, 0, &mut bytes);
    set.free(&unread).unwrap();
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(bytes, block(number), "a block is whole");
    number
}

/// Whether a descriptor is readable, now or within the bound of a test.
fn is_readable(event: &impl AsFd, waits: bool) -> bool {
    let bound = Timespec { tv_sec: if waits { 20 } else { 0 }, tv_nsec: 0 };
    poll(&mut [PollFd::new(event, PollFlags::IN)], Some(&bound)).unwrap() == 1
}

/// Each queue's numbers come in order, each once, until all have come.
struct Judge(BTreeMap<(usize, u64), u64>);

impl Judge {
    fn see(&mut self, source: usize, queue: u64, number: u64) {
        let next = self.0.entry((source, queue)).or_default();
        assert_eq!(number, *next, "queue {queue} of source {source}");
        *next += 1;
    }
}

/// A reader of many takes all that a lane holds, looks for more, and frees only then: what was spilled behind comes, though
/// nobody puts the queue on the board any more.
#[test]
fn what_is_spilled_behind_units_that_are_held_comes_when_they_are_freed() {
    const SPILLS: QueueForm = QueueForm { overflow: Overflow::Spill, ..FORM };
    const ALL: u64 = 23;
    for node in [0, 1] {
        let pool = TestPool::start(2, 64 << 20);
        let client = pool.client(0);
        let queues = client.create_queues("q", 3, &SPILLS, &on(node)).unwrap();
        let mut set = queues.set().unwrap();
        let writing = pool.client(1);
        let mut writer = writing.open_queues("q", 0).unwrap().queue(2).unwrap().writer().unwrap();
        (0..ALL).for_each(|number| writer.send(&block(number)).unwrap());
        let mut next = 0;
        while next < ALL {
            let mut held = vec![set.see(SOON).unwrap()];
            while let Some(unread) = set.try_see().unwrap() {
                held.push(unread);
            }
            for unread in held {
                assert_eq!(take(&mut set, unread), next);
                next += 1;
            }
        }
        assert!(set.try_see().unwrap().is_none());
    }
}

/// Writers of three hosts send into arrays and a single queue of three hosts, whose one reader is on the first.
// FEATURE: VQ-F14 VQ-F15
#[test]
fn one_reader_waits_for_arrays_and_queues_of_several_hosts() {
    const EACH: u64 = 100;
    for by_event in [false, true] {
        let pool = TestPool::start(3, 64 << 20);
        let client = pool.client(0);
        let arrays = [0, 1, 2].map(|node| client.create_queues(&format!("a{node}"), 5000, &FORM, &on(node)).unwrap());
        let single = client.create_queue("single", &FORM, &on(1)).unwrap();
        let mut set = QueueSet::new();
        for (number, queues) in arrays.iter().enumerate() {
            assert_eq!(set.add(queues).unwrap(), number);
        }
        assert_eq!(set.add_queue(&single).unwrap(), 3);
        assert!(set.try_see().unwrap().is_none());
        let places: Vec<(usize, u64, String)> = (0..3)
            .flat_map(|a| [3, 64, 4999].map(|queue| (a, queue, format!("a{a}"))))
            .chain([(3, 0, "single".to_owned())])
            .collect();
        let sending: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(k, (_, queue, name))| {
                let queue = pool.client(k % 3).open_queues(name, 0).unwrap().queue(*queue).unwrap();
                std::thread::spawn(move || {
                    let mut writer = queue.writer().unwrap();
                    for number in 0..EACH {
                        writer.send(&block(number)).unwrap();
                        if number % 40 == 39 {
                            std::thread::sleep(Duration::from_millis(20));
                        }
                    }
                })
            })
            .collect();
        let event = set.event().unwrap();
        let mut judge = Judge(BTreeMap::new());
        for _ in 0..EACH * places.len() as u64 {
            let unread = match by_event {
                false => set.see(SOON).unwrap(),
                true => loop {
                    if let Some(unread) = set.try_see().unwrap() {
                        break unread;
                    }
                    set.arm().unwrap();
                    assert!(is_readable(&event, true), "something is to come: {:?}", judge.0);
                },
            };
            let number = take(&mut set, unread);
            judge.see(unread.source(), unread.queue(), number);
        }
        sending.into_iter().for_each(|sending| sending.join().unwrap());
        let wanted: BTreeMap<_, _> = places.iter().map(|(source, queue, _)| ((*source, *queue), EACH)).collect();
        assert_eq!(judge.0, wanted);
        assert!(set.try_see().unwrap().is_none());
        set.close().unwrap();
    }
}

/// A descriptor says nothing before something comes, whoever writes and wherever the queue is, and is silent again when it is armed.
#[test]
fn an_event_descriptor_tells_of_each_unit_that_comes_after_it_was_armed() {
    let pool = TestPool::start(2, 32 << 20);
    for (writer, home) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let name = format!("q{writer}{home}");
        let queue = pool.client(0).create_queue(&name, &FORM, &on(home)).unwrap();
        let mut reader = queue.reader().unwrap();
        let event = reader.event().unwrap();
        let mut writer = pool.client(writer).open_queue(&name).unwrap().writer().unwrap();
        for number in 0..10 {
            reader.arm().unwrap();
            assert!(!is_readable(&event, false), "nothing came");
            writer.send(&block(number)).unwrap();
            assert!(is_readable(&event, true));
            // What came before it was armed is told at once.
            reader.arm().unwrap();
            assert!(is_readable(&event, false));
            let unread = reader.try_see().unwrap().expect("it was told");
            let mut bytes = [0; 16];
            reader.read(&unread, 0, &mut bytes);
            assert_eq!(bytes, block(number));
            reader.free(&unread).unwrap();
            assert!(reader.try_see().unwrap().is_none());
        }
        writer.close().unwrap();
        reader.close().unwrap();
    }
}

/// While a reader finds units by looking, its descriptor stays as it is: nobody is woken, and no call is made.
#[test]
fn a_reader_that_is_awake_is_not_told() {
    let pool = TestPool::start(1, 32 << 20);
    let queue = pool.client(0).create_queue("q", &FORM, &on(0)).unwrap();
    let mut reader = queue.reader().unwrap();
    let event = reader.event().unwrap();
    let mut writer = queue.writer().unwrap();
    reader.arm().unwrap();
    writer.send(&block(0)).unwrap();
    assert!(is_readable(&event, true));
    let unread = reader.try_see().unwrap().unwrap();
    reader.free(&unread).unwrap();
    // As an event loop would, but without arming: the descriptor is read by us alone.
    let mut word = [0; 8];
    rustix::io::read(&event, &mut word).unwrap();
    for number in 1..1000 {
        writer.send(&block(number)).unwrap();
        let unread = reader.try_see().unwrap().unwrap();
        reader.free(&unread).unwrap();
    }
    assert!(!is_readable(&event, false));
}

/// Threads of this process.
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// A program that reads a hundred single queues of two hosts by one set, and a hundred of its own host by another.
pub fn reads_a_hundred_queues() {
    const COUNT: usize = 100;
    let pool = Pool::attach().unwrap();
    let own = pool.node().0;
    for (round, homes) in [[own, own], [own, 1 - own], [1 - own, 1 - own]].into_iter().enumerate() {
        let queues: Vec<_> =
            (0..COUNT).map(|k| pool.create_queue(&format!("q{round}-{k}"), &FORM, &on(homes[k % 2])).unwrap()).collect();
        let mut set = QueueSet::new();
        queues.iter().enumerate().for_each(|(k, queue)| assert_eq!(set.add_queue(queue).unwrap(), k));
        let mut writers: Vec<_> = queues.iter().map(|queue| queue.writer().unwrap()).collect();
        let before = thread_count();
        let late = set.see(Some(Duration::from_millis(120)));
        assert!(matches!(late, Err(Error::NotInTime { .. })), "{late:?}");
        let by_waiting = usize::from(homes[0] == own && homes[1] != own);
        assert_eq!(thread_count() - before, by_waiting, "round {round}: who waits sleeps at the bells itself, or on connections");
        let event = set.event().unwrap();
        for number in 0..3 {
            for k in (0..COUNT).map(|k| k * 37 % COUNT) {
                set.arm().unwrap();
                if number == 0 && homes == [own, own] {
                    assert!(!is_readable(&event, false), "round {round}: nothing has come");
                }
                writers[k].send(&block(number)).unwrap();
                assert!(is_readable(&event, true));
                let unread = set.see(SOON).unwrap();
                assert_eq!((unread.source(), take(&mut set, unread)), (k, number), "round {round}");
                assert!(set.try_see().unwrap().is_none());
            }
        }
        assert_eq!(thread_count() - before, usize::from(homes.contains(&own)), "round {round}: one for all of its own host's");
        // While it sleeps by itself; the program's own thread writes.
        let writing = std::thread::spawn(move || {
            for number in 3..6 {
                for k in (0..COUNT).step_by(9) {
                    writers[k].send(&block(number)).unwrap();
                    std::thread::sleep(Duration::from_micros(300 * (k as u64 % 4)));
                }
            }
            writers
        });
        let mut judge = Judge((0..COUNT).map(|k| ((k, 0), 3)).collect());
        for _ in (0..COUNT).step_by(9).flat_map(|_| 3..6) {
            let unread = set.see(SOON).unwrap();
            let number = take(&mut set, unread);
            judge.see(unread.source(), 0, number);
        }
        drop((writing.join().unwrap(), set));
    }
    holder::wait_for_death();
}

// FEATURE: VQ-F14
#[test]
fn a_set_of_a_hundred_queues_waits_with_one_thread_and_misses_nothing() {
    let pool = TestPool::start(2, 64 << 20);
    holder::kill(holder::start(concat!(module_path!(), "::reads_a_hundred_queues"), pool.nodes[0].socket()));
}

/// A program that reads an array as a set, frees some blocks, has taken others from the board, and is killed.
pub fn reads_a_set_and_dies() {
    let pool = Pool::attach().unwrap();
    let mut set = pool.open_queues("many", 0).unwrap().set().unwrap();
    let unread = set.see(SOON).unwrap();
    take(&mut set, unread);
    set.see(SOON).unwrap();
    holder::wait_for_death();
}

#[test]
fn the_successor_of_a_dead_set_finds_what_it_left() {
    let pool = TestPool::start(2, 64 << 20);
    for (dying, next) in [(0, 1), (1, 0), (1, 1)] {
        let queues = pool.client(0).create_queues("many", 10_000, &FORM, &on(0)).unwrap();
        let used = [0, 70, 9_999];
        let mut writers = used.map(|queue| queues.queue(queue).unwrap().writer().unwrap());
        for number in 0..3 {
            writers.iter_mut().for_each(|writer| writer.send(&block(number)).unwrap());
        }
        holder::kill(holder::start(concat!(module_path!(), "::reads_a_set_and_dies"), pool.nodes[dying].socket()));
        let theirs = pool.client(next).open_queues("many", 0).unwrap();
        let begun = std::time::Instant::now();
        let mut set = loop {
            match theirs.set() {
                Err(Error::SecondReader { .. }) if begun.elapsed() < Duration::from_secs(20) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                set => break set.unwrap(),
            }
        };
        let mut got = BTreeMap::<u64, Vec<u64>>::new();
        for _ in 0..8 {
            let unread = set.see(SOON).unwrap();
            let number = take(&mut set, unread);
            got.entry(unread.queue()).or_default().push(number);
        }
        // What the dead one had freed of a queue elsewhere and not told is seen again: at most what it saw.
        let all: Vec<Vec<u64>> = got.values().cloned().collect();
        assert_eq!(got.keys().copied().collect::<Vec<_>>(), used, "{all:?}");
        for numbers in all {
            assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "in order, each once: {numbers:?}");
        }
        drop((set, writers));
        pool.client(0).remove("many").unwrap();
    }
}

/// A queue that a port of another host has read and left is found by a set, and the other way round.
#[test]
fn a_queue_goes_from_a_port_to_a_set_and_back() {
    let pool = TestPool::start(2, 64 << 20);
    for client in [0, 1] {
        let name = format!("many{client}");
        let queues = pool.client(0).create_queues(&name, 100, &FORM, &on(0)).unwrap();
        let theirs = pool.client(client).open_queues(&name, 0).unwrap();
        let mut writer = queues.queue(42).unwrap().writer().unwrap();
        for number in 0..4 {
            if number % 2 == 0 {
                let mut port = theirs.queue(42).unwrap().reader().unwrap();
                writer.send(&block(2 * number)).unwrap();
                let unread = port.see(SOON).unwrap();
                port.free(&unread).unwrap();
                port.close().unwrap();
                writer.send(&block(2 * number + 1)).unwrap();
            } else {
                let mut set = theirs.set().unwrap();
                let unread = set.see(SOON).unwrap();
                assert_eq!((unread.queue(), take(&mut set, unread)), (42, 2 * number - 1));
                writer.send(&block(2 * number)).unwrap();
                let unread = set.see(SOON).unwrap();
                assert_eq!(take(&mut set, unread), 2 * number);
                set.close().unwrap();
            }
        }
    }
}

/// Runs `what` as another user, where this one may become it.
fn as_another<T: Send>(what: impl FnOnce() -> T + Send) -> Option<T> {
    const OTHER: u32 = 65_533;
    if !rustix::process::geteuid().is_root() {
        hanare_testkit::unable("not root, and nobody else");
        return None;
    }
    // A user is a thread's own here.
    let become_other = move || {
        let (uid, gid) = (rustix::process::Uid::from_raw(OTHER), rustix::process::Gid::from_raw(OTHER));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        what()
    };
    std::thread::scope(|scope| Some(scope.spawn(become_other).join().unwrap()))
}

/// The mode of a queue's region says who writes and who reads; looking at it takes the right to read.
// FEATURE: VQ-F3 VQ-F16
#[test]
fn another_user_does_with_a_queue_what_its_mode_lets_them() {
    let pool = TestPool::start(2, 32 << 20);
    for home in [0, 1] {
        for mode in [0o600, 0o604, 0o606] {
            let name = format!("q{home}-{mode:o}");
            let options = CreateOptions { mode, ..on(home) };
            let queue = pool.client(0).create_queue(&name, &FORM, &options).unwrap();
            queue.writer().unwrap().send(&block(1)).unwrap();
            let maker = queue.owner().uid;
            let theirs = as_another(|| {
                let client = pool.client(0);
                let queue = match client.trusting(Trust::own(&client).and_user(maker)).open_queue(&name) {
                    Err(Error::NoPermission { .. }) if mode == 0o600 => return,
                    queue => queue.unwrap(),
                };
                let untrusted = client.open_queue(&name).map(drop);
                assert!(matches!(untrusted, Err(Error::NotTrusted { owner, .. }) if owner == maker), "{untrusted:?}");
                assert_eq!(queue.stat().unwrap().blocks(queue.form()), Some(1));
                let (writer, reader, mut set) = (queue.writer(), queue.reader(), QueueSet::new());
                if mode == 0o604 {
                    let refused = |outcome: Result<(), Error>| matches!(outcome, Err(Error::BadUse { .. }));
                    assert!(refused(writer.map(drop)) && refused(reader.map(drop)) && refused(set.add_queue(&queue).map(drop)));
                    return;
                }
                let (mut writer, mut reader) = (writer.unwrap(), reader.unwrap());
                writer.send(&block(2)).unwrap();
                for _ in 0..2 {
                    let unread = reader.see(SOON).unwrap();
                    reader.free(&unread).unwrap();
                }
            });
            if theirs.is_none() {
                return;
            }
            assert!(queue.reader().is_ok() && queue.writer().is_ok(), "what was refused took nobody's place");
            assert_eq!(queue.stat().unwrap().blocks(&FORM), Some(if mode == 0o606 { 0 } else { 1 }));
        }
    }
}
