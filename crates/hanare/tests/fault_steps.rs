//! A coherent fault, interrupted at each of its steps: its program is killed there, or held while others go on.
//!
//! The program is traced, so the product has no hook for this. A step is a stop before or after a system call, or one instruction; how
//! many there are is found out by going on until the fault is over.
//!
//! Every instruction of every kind of fault, and every system call of what is no fault: `cargo test -p hanare --test fault_steps -- --ignored --nocapture
//! every_instruction`, where `STEPS_ONLY=TEXT` picks the kinds whose name holds a text.

#[path = "support/actor.rs"]
mod actor;
#[path = "support/apart.rs"]
mod apart;
mod support;
#[path = "support/traced.rs"]
mod traced;

use actor::{Act, Actor, DOING, DONE, WORD, WORDS};
use apart::{Apart, until};
use hanare::{Consistency, CreateOptions, NodeId, Placement, Pool, SharedMapping};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use traced::{Stop, Traced};

const PAGE: u64 = 4096;
/// Pages of a region, each used by one run; the first is the one that nobody ever wants.
const PAGES: u64 = 12_000;
/// Where the pages lie, where another program is that uses them, where the interrupted one is, and one that nobody else is at.
const HOME: usize = 1;
const OTHER: usize = 2;
const NEAR: usize = 3;
const LONE: usize = 0;
/// How soon others have to have what they want.
const SOON: Duration = Duration::from_secs(10);
/// What is waited for an answer.
const BOUND_MS: u64 = 10_000;
/// Stops at system calls from one interruption of what has hundreds of them to the next.
const CALLS: u64 = 5;
/// Instructions of a fault at which it is interrupted, unless it is at all.
const INSTRUCTIONS: u64 = 60;

/// What a word of a page is before anybody stores to it, and what others and the program make of [`WORD`].
fn base(page: u64, at: u64) -> u64 {
    1 << 60 | page << 16 | at
}
fn theirs(page: u64) -> u64 {
    base(page, WORD) | 1 << 61
}
fn mine(page: u64) -> u64 {
    base(page, WORD) | 1 << 62
}

/// A page after an interruption: what [`WORD`] may hold.
#[derive(Clone, Debug)]
struct Expected {
    page: u64,
    values: Vec<u64>,
}

/// One kind of fault, or of what else a program does with a mapping.
struct Kind {
    name: &'static str,
    host: usize,
    /// Pages that a run uses.
    span: u64,
    /// Brings them into the state that it begins with, and says what they hold.
    prepare: fn(&Scene, &mut Actor, u64) -> Vec<Expected>,
    /// What is interrupted, and the page that it stores to.
    act: fn(u64) -> (Act, Option<u64>),
    /// Whether it is short enough for its instructions to be counted.
    is_short: bool,
}

fn as_made(page: u64) -> Expected {
    Expected { page, values: vec![base(page, WORD)] }
}

fn by_others(page: u64) -> Expected {
    Expected { page, values: vec![theirs(page)] }
}

fn by_it(page: u64) -> Expected {
    Expected { page, values: vec![mine(page)] }
}

const STREAM: u64 = 15;

/// Two pages of the window that comes next are owned elsewhere, and one more is shared.
fn stir_window(scene: &Scene, page: u64) -> Vec<Expected> {
    let (at_other, at_home) = (scene.observer(OTHER), scene.observer(HOME));
    for owned in [page + STREAM + 2, page + STREAM + 7] {
        store(at_other, owned, WORD, theirs(owned));
    }
    load(at_home, page + STREAM + 3, WORD);
    load(at_other, page + STREAM + 3, WORD);
    let is_stirred = |at: u64| [STREAM + 2, STREAM + 7].contains(&(at - page));
    (page + STREAM..page + 32).map(|at| if is_stirred(at) { by_others(at) } else { as_made(at) }).collect()
}

static KINDS: [Kind; 13] = [
    Kind {
        name: "a read of a page at its home",
        host: NEAR,
        span: 1,
        prepare: |_, _, page| vec![as_made(page)],
        act: |page| (Act::Read(page), None),
        is_short: true,
    },
    Kind {
        name: "a write to a page at its home",
        host: NEAR,
        span: 1,
        prepare: |_, _, page| vec![as_made(page)],
        act: |page| (Act::Write(page, mine(page)), Some(page)),
        is_short: true,
    },
    Kind {
        name: "a read of a page that another host owns",
        host: NEAR,
        span: 1,
        prepare: |scene, _, page| {
            store(scene.observer(OTHER), page, WORD, theirs(page));
            vec![by_others(page)]
        },
        act: |page| (Act::Read(page), None),
        is_short: true,
    },
    Kind {
        name: "a write to a page that another host owns",
        host: NEAR,
        span: 1,
        prepare: |scene, _, page| {
            store(scene.observer(OTHER), page, WORD, theirs(page));
            vec![by_others(page)]
        },
        act: |page| (Act::Write(page, mine(page)), Some(page)),
        is_short: true,
    },
    Kind {
        name: "a write to a page that others share",
        host: NEAR,
        span: 1,
        prepare: |scene, actor, page| {
            scene.share(page);
            actor.act(Act::Read(page));
            vec![as_made(page)]
        },
        act: |page| (Act::Write(page, mine(page)), Some(page)),
        is_short: true,
    },
    Kind {
        name: "a write at home to a page that others share",
        host: HOME,
        span: 1,
        prepare: |scene, actor, page| {
            actor.act(Act::Read(page));
            scene.share(page);
            vec![as_made(page)]
        },
        act: |page| (Act::Write(page, mine(page)), Some(page)),
        is_short: true,
    },
    Kind {
        name: "a read at home of a page that another host owns",
        host: HOME,
        span: 1,
        prepare: |scene, _, page| {
            store(scene.observer(OTHER), page, WORD, theirs(page));
            vec![by_others(page)]
        },
        act: |page| (Act::Read(page), None),
        is_short: true,
    },
    Kind {
        name: "a write at home to a page that another host owns",
        host: HOME,
        span: 1,
        prepare: |scene, _, page| {
            store(scene.observer(OTHER), page, WORD, theirs(page));
            vec![by_others(page)]
        },
        act: |page| (Act::Write(page, mine(page)), Some(page)),
        is_short: true,
    },
    Kind {
        name: "a write to a page that this host owns",
        host: NEAR,
        span: 1,
        prepare: |scene, _, page| {
            store(scene.observer(NEAR), page, WORD, theirs(page));
            vec![by_others(page)]
        },
        act: |page| (Act::Write(page, mine(page)), Some(page)),
        is_short: true,
    },
    Kind {
        name: "a stream of reads",
        host: NEAR,
        span: 32,
        prepare: |scene, actor, page| {
            actor.act(Act::ReadOn(page, STREAM));
            let read = (page..page + STREAM).map(as_made);
            read.chain(stir_window(scene, page)).collect()
        },
        act: |page| (Act::Read(page + STREAM), None),
        is_short: true,
    },
    Kind {
        name: "a stream of writes",
        host: NEAR,
        span: 32,
        prepare: |scene, actor, page| {
            for page in page..page + STREAM {
                actor.act(Act::Write(page, mine(page)));
            }
            let written = (page..page + STREAM).map(by_it);
            written.chain(stir_window(scene, page)).collect()
        },
        act: |page| (Act::Write(page + STREAM, mine(page + STREAM)), Some(page + STREAM)),
        is_short: true,
    },
    Kind {
        name: "the making of a mapping",
        host: LONE,
        span: 1,
        prepare: |scene, actor, page| {
            actor.act(Act::Unmap);
            store(scene.observer(OTHER), page, WORD, theirs(page));
            vec![by_others(page)]
        },
        act: |_| (Act::Map, None),
        is_short: false,
    },
    Kind {
        name: "the end of a mapping",
        host: LONE,
        span: 3,
        prepare: |scene, actor, page| {
            actor.act(Act::Map);
            store(scene.observer(OTHER), page + 2, WORD, theirs(page + 2));
            actor.act(Act::Write(page, mine(page)));
            actor.act(Act::ReadOn(page + 1, 2));
            vec![by_it(page), as_made(page + 1), by_others(page + 2)]
        },
        act: |_| (Act::Unmap, None),
        is_short: false,
    },
];

/// What a program is let go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Calls,
    Instructions,
}

/// Nodes with a region on [`HOME`] that programs of this process have mapped on three of them.
struct Scene {
    apart: Apart,
    pools: Vec<Pool>,
    observers: Vec<(usize, Arc<SharedMapping>)>,
    next: u64,
}

impl Scene {
    fn new() -> Scene {
        let apart = Apart::start(4);
        let pools: Vec<Pool> = (0..4).map(|node| apart.client(node)).collect();
        let options = CreateOptions { placement: Placement::Node(NodeId(HOME as u32)), ..CreateOptions::default() };
        let region = pools[LONE].create("steps", PAGES * PAGE, &options).unwrap();
        for first in (0..PAGES).step_by(100) {
            let words = (first..(first + 100).min(PAGES)).flat_map(|page| (0..WORDS).map(move |at| base(page, at)));
            region.put(first * PAGE, &words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()).unwrap();
        }
        drop(region);
        let map = |host: usize| (host, Arc::new(pools[host].open("steps").unwrap().map(Consistency::Coherent).unwrap()));
        let observers = [HOME, OTHER, NEAR].map(map).into_iter().collect();
        Scene { apart, pools, observers, next: 1 }
    }

    fn observer(&self, host: usize) -> &SharedMapping {
        &self.observers.iter().find(|(at, _)| *at == host).unwrap().1
    }

    /// All observers have a copy of a page.
    fn share(&self, page: u64) {
        for (_, mapping) in &self.observers {
            load(mapping, page, WORD);
        }
    }

    fn actor(&self, kind: &Kind) -> Actor {
        let mut actor = Actor::start(self.apart.socket(kind.host), "steps", BOUND_MS);
        if kind.is_short {
            actor.act(Act::Map);
        }
        actor
    }

    fn pages(&mut self, kind: &Kind) -> u64 {
        // One between them, or a stream of faults would go on.
        self.next += kind.span + 1;
        assert!(self.next <= PAGES, "{}: more steps than there are pages for", kind.name);
        self.next - kind.span
    }

    /// Kills a program at a step. Says whether it was through before.
    fn kill_at(&mut self, kind: &Kind, by: By, step: u64) -> bool {
        let page = self.pages(kind);
        let mut actor = self.actor(kind);
        let mut expected = (kind.prepare)(self, &mut actor, page);
        let (act, stores) = (kind.act)(page);
        let mut traced = Traced::take(actor.thread).unwrap();
        actor.tell(act);
        let is_over = advance(&mut traced, &actor, by, step);
        actor.strike();
        traced.bury(actor.id());
        actor.end();
        if let Some(stored) = expected.iter_mut().find(|expected| Some(expected.page) == stores) {
            stored.values.push(mine(stored.page));
        }
        self.check(expected, &format!("{}, killed at {by:?} {step}", kind.name));
        is_over
    }

    /// Holds a program at a step, until others have used other pages, and let it go on.
    fn hold_at(&mut self, kind: &Kind, actor: &mut Actor, by: By, step: u64) -> bool {
        let page = self.pages(kind);
        let what = format!("{}, held at {by:?} {step}", kind.name);
        let expected = (kind.prepare)(self, actor, page);
        let (act, stores) = (kind.act)(page);
        let mut traced = Traced::take(actor.thread).unwrap();
        actor.tell(act);
        let is_over = advance(&mut traced, actor, by, step);
        let observers = self.observers.clone();
        within(&what, move || {
            for (host, mapping) in &observers {
                let mark = base(page, *host as u64);
                store(mapping, 0, WORD, mark);
                observers.iter().for_each(|(_, other)| assert_eq!(load(other, 0, WORD), mark, "another page"));
            }
        });
        // Those who want what is held, one of them for each page: they have it when it is let go at the latest.
        let wanting: Vec<_> = (0..)
            .zip(&expected)
            .map(|(k, expected)| {
                let (page, (host, mapping)) = (expected.page, self.observers[k % 3].clone());
                begin(move || {
                    store(&mapping, page, 100, 1 + host as u64);
                    (host, page, load(&mapping, page, WORD))
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(if by == By::Calls { 5 } else { 0 }));
        traced.let_go();
        let seen = actor.done().unwrap_or_else(|| panic!("{what}: it died"));
        if let Act::Read(page) = act {
            let held = expected.iter().find(|expected| expected.page == page).unwrap();
            assert!(held.values.contains(&seen), "{what}: it saw {seen:#x}, not {held:x?}");
        }
        let mut marks = Vec::new();
        for (wanted, expected) in wanting.into_iter().zip(&expected) {
            let (host, page, seen) = ended(&what, wanted);
            let is_stored = Some(page) == stores && seen == mine(page);
            assert!(is_stored || expected.values.contains(&seen), "{what}: {host} saw {seen:#x}, not {expected:x?}");
            marks.push((page, 100, 1 + host as u64));
        }
        let after = expected.into_iter().map(|expected| match Some(expected.page) == stores {
            true => by_it(expected.page),
            false => expected,
        });
        self.check_with(after.collect(), &marks, &what);
        is_over
    }

    fn check(&self, expected: Vec<Expected>, what: &str) {
        self.check_with(expected, &[], what);
    }

    /// Every page can be read and written on every host, and holds what it may.
    fn check_with(&self, expected: Vec<Expected>, marks: &[(u64, u64, u64)], what: &str) {
        let (observers, about, marks) = (self.observers.clone(), what.to_owned(), marks.to_vec());
        within(what, move || {
            for Expected { page, values } in expected {
                let mut found = None;
                for (turn, (host, mapping)) in (0u64..).zip(&observers) {
                    let mut bytes = vec![0; PAGE as usize];
                    let read = mapping.read(page * PAGE, &mut bytes);
                    read.unwrap_or_else(|error| panic!("{about}: page {page} on {host}: {error}"));
                    for (at, bytes) in (0..).zip(bytes.as_chunks().0) {
                        let value = u64::from_le_bytes(*bytes);
                        let mark = marks.iter().find(|mark| (mark.0, mark.1) == (page, at)).map(|mark| mark.2);
                        let is_right = match at {
                            WORD => values.contains(&value) && *found.get_or_insert(value) == value,
                            200.. if at < 200 + turn => value == at,
                            _ => value == mark.unwrap_or(base(page, at)),
                        };
                        assert!(is_right, "{about}: page {page} on {host}, word {at}: {value:#x}, {values:x?}");
                    }
                    mapping.write((page * WORDS + 200 + turn) * 8, &(200 + turn).to_le_bytes()).unwrap();
                }
            }
        });
    }

    /// Until no node counts a program that is dead.
    fn wait_for_programs(&self) {
        let count = |pool: &Pool| pool.page_stats().unwrap().iter().map(|stat| stat.programs).sum::<u32>();
        until("the observers alone are left", || self.pools.iter().map(count).eq([0, 1, 1, 1]));
    }

    fn descriptors(&self) -> Vec<usize> {
        (0..4).map(|node| self.apart.descriptors(node)).collect()
    }
}

fn load(mapping: &SharedMapping, page: u64, at: u64) -> u64 {
    let mut bytes = [0; 8];
    mapping.read((page * WORDS + at) * 8, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

fn store(mapping: &SharedMapping, page: u64, at: u64, value: u64) {
    mapping.write((page * WORDS + at) * 8, &value.to_le_bytes()).unwrap();
}

type Begun<T> = std::sync::mpsc::Receiver<std::thread::Result<T>>;

fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Begun<T> {
    let (done, is_done) = channel();
    let work = std::panic::AssertUnwindSafe(work);
    std::thread::spawn(move || done.send(std::panic::catch_unwind(work)));
    is_done
}

fn ended<T>(what: &str, begun: Begun<T>) -> T {
    let result = begun.recv_timeout(SOON).unwrap_or_else(|_| panic!("{what}: others do not get what they want within {SOON:?}"));
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Others' work, which is done in time whatever became of the program.
fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    ended(what, begin(work))
}

/// Lets a program that was told to do something go on for so many steps. Says whether it was through before.
fn advance(traced: &mut Traced, actor: &Actor, by: By, steps: u64) -> bool {
    while traced.peek(actor.phase) != DOING {
        assert!(traced.next_call() != Stop::Ended);
    }
    let (mut taken, mut call, mut seen) = (0, 0, Vec::new());
    while taken < steps {
        let stop = if by == By::Calls { traced.next_call() } else { traced.step() };
        assert!(stop != Stop::Ended, "the program died of itself");
        if traced.peek(actor.phase) == DONE {
            return true;
        }
        if let Stop::Before(number) = stop {
            call = number;
        }
        // One look at what has not come yet is as good as the next.
        let is_wait = [libc::SYS_sched_yield, libc::SYS_recvfrom, libc::SYS_poll, libc::SYS_ppoll, libc::SYS_futex];
        let is_again = by == By::Calls && is_wait.contains(&(call as i64)) && seen.contains(&(call, stop));
        if !is_again {
            seen.push((call, stop));
            taken += 1;
        }
    }
    false
}

/// Whether this system lets a process trace another.
fn is_permitted() -> bool {
    let mut still = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let taken = Traced::take(still.id() as i32);
    still.kill().unwrap();
    still.wait().unwrap();
    if let Err(error) = &taken {
        eprintln!("skipped: this system does not let a program be traced: {error}");
    }
    taken.is_ok()
}

fn play(kind: &Kind, all: bool) {
    if !is_permitted() {
        return;
    }
    let mut scene = Scene::new();
    let every = if all || kind.is_short { 1 } else { CALLS };
    let mut calls = 0;
    while !scene.kill_at(kind, By::Calls, calls) {
        calls += every;
    }
    let mut actor = scene.actor(kind);
    for step in (0..=calls).step_by(every as usize) {
        scene.hold_at(kind, &mut actor, By::Calls, step);
    }
    let instructions = if kind.is_short { count_instructions(&mut scene, kind, &mut actor) } else { 0 };
    eprintln!("{}: {calls} stops at system calls, {instructions} instructions", kind.name);
    drop(actor);
    // All connections between nodes that are made once have been made.
    scene.wait_for_programs();
    let before = scene.descriptors();
    if !kind.is_short {
        for step in (0..calls).step_by(every as usize) {
            scene.kill_at(kind, By::Calls, step);
        }
    }
    let every = if all { 1 } else { instructions / INSTRUCTIONS + 1 };
    let mut actor = scene.actor(kind);
    for (turn, step) in (0..instructions).step_by(every as usize).enumerate() {
        scene.kill_at(kind, By::Instructions, step);
        if turn % 4 == 0 {
            scene.hold_at(kind, &mut actor, By::Instructions, step);
        }
        if scene.next + 3 * (kind.span + 1) > PAGES {
            scene.wait_for_programs();
            scene = Scene::new();
            actor = scene.actor(kind);
        }
    }
    drop(actor);
    scene.wait_for_programs();
    until("no node keeps a descriptor", || scene.descriptors().iter().zip(&before).all(|(now, before)| now <= before));
}

fn count_instructions(scene: &mut Scene, kind: &Kind, actor: &mut Actor) -> u64 {
    let page = scene.pages(kind);
    (kind.prepare)(scene, actor, page);
    let mut traced = Traced::take(actor.thread).unwrap();
    actor.tell((kind.act)(page).0);
    let mut count = 0;
    while !advance(&mut traced, actor, By::Instructions, 1) {
        count += 1;
    }
    traced.let_go();
    actor.done().unwrap();
    count
}

/// Each kind is a test of its name.
macro_rules! interrupt {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            let name = stringify!($name).replace('_', " ");
            play(KINDS.iter().find(|kind| kind.name == name).expect("a kind of that name"), false);
        }
    )* };
}

// FEATURE: EU-F12 EU-F13
interrupt! {
    a_read_of_a_page_at_its_home
    a_write_to_a_page_at_its_home
    a_read_of_a_page_that_another_host_owns
    a_write_to_a_page_that_another_host_owns
    a_write_to_a_page_that_others_share
    a_write_at_home_to_a_page_that_others_share
    a_read_at_home_of_a_page_that_another_host_owns
    a_write_at_home_to_a_page_that_another_host_owns
    a_write_to_a_page_that_this_host_owns
    a_stream_of_reads
    a_stream_of_writes
    the_making_of_a_mapping
    the_end_of_a_mapping
}

#[test]
#[ignore = "it takes an hour"]
fn every_instruction() {
    let only = std::env::var("STEPS_ONLY").unwrap_or_default();
    KINDS.iter().filter(|kind| kind.name.contains(&only)).for_each(|kind| play(kind, true));
}
