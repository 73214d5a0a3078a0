//! Nodes that are processes, a region that is mapped on three of them, and kinds of faults that a program of theirs can have.
#![allow(dead_code)]

use crate::actor::{Act, Actor, DOING, DONE, WORD, WORDS};
use crate::apart::{Apart, until};
use crate::traced::{Stop, Traced};
use hanare::{Consistency, CreateOptions, NodeId, Placement, Pool, SharedMapping};
use hanare_testkit::paced;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

pub const PAGE: u64 = 4096;
/// Pages of a region, each used by one run; the first is the one that nobody ever wants.
pub const PAGES: u64 = 12_000;
/// Where the pages lie, where another program is that uses them, where the interrupted one is, and one that nobody else is at.
pub const HOME: usize = 1;
pub const OTHER: usize = 2;
pub const NEAR: usize = 3;
pub const LONE: usize = 0;
/// How soon others have to have what they want.
pub const SOON: Duration = Duration::from_secs(10);
/// What is waited for an answer.
pub const BOUND_MS: u64 = 10_000;
/// What a word of a page is before anybody stores to it, and what others and the program make of [`WORD`].
pub fn base(page: u64, at: u64) -> u64 {
    1 << 60 | page << 16 | at
}
pub fn theirs(page: u64) -> u64 {
    base(page, WORD) | 1 << 61
}
pub fn mine(page: u64) -> u64 {
    base(page, WORD) | 1 << 62
}

/// A page after an interruption: what [`WORD`] may hold.
#[derive(Clone, Debug)]
pub struct Expected {
    pub page: u64,
    pub values: Vec<u64>,
}

/// One kind of fault, or of what else a program does with a mapping.
pub struct Kind {
    pub name: &'static str,
    pub host: usize,
    /// Pages that a run uses.
    pub span: u64,
    /// Brings them into the state that it begins with, and says what they hold.
    pub prepare: fn(&Scene, &mut Actor, u64) -> Vec<Expected>,
    /// What is interrupted, and the page that it stores to.
    pub act: fn(u64) -> (Act, Option<u64>),
    /// Whether it is short enough for its instructions to be counted.
    pub is_short: bool,
}

pub fn as_made(page: u64) -> Expected {
    Expected { page, values: vec![base(page, WORD)] }
}

pub fn by_others(page: u64) -> Expected {
    Expected { page, values: vec![theirs(page)] }
}

pub fn by_it(page: u64) -> Expected {
    Expected { page, values: vec![mine(page)] }
}

pub const STREAM: u64 = 15;

/// Two pages of the window that comes next are owned elsewhere, and one more is shared.
pub fn stir_window(scene: &Scene, page: u64) -> Vec<Expected> {
    let (at_other, at_home) = (scene.observer(OTHER), scene.observer(HOME));
    for owned in [page + STREAM + 2, page + STREAM + 7] {
        store(at_other, owned, WORD, theirs(owned));
    }
    load(at_home, page + STREAM + 3, WORD);
    load(at_other, page + STREAM + 3, WORD);
    let is_stirred = |at: u64| [STREAM + 2, STREAM + 7].contains(&(at - page));
    (page + STREAM..page + 32).map(|at| if is_stirred(at) { by_others(at) } else { as_made(at) }).collect()
}

pub static KINDS: [Kind; 13] = [
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
pub enum By {
    Calls,
    Instructions,
}

/// Nodes with a region on [`HOME`] that programs of this process have mapped on three of them.
pub struct Scene {
    pub apart: Apart,
    pub pools: Vec<Pool>,
    pub observers: Vec<(usize, Arc<SharedMapping>)>,
    pub next: u64,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::of(PAGES)
    }

    /// With a region of so many pages.
    pub fn of(pages: u64) -> Scene {
        let apart = Apart::start(4);
        let pools: Vec<Pool> = (0..4).map(|node| apart.client(node)).collect();
        let options = CreateOptions { placement: Placement::Node(NodeId(HOME as u32)), ..CreateOptions::default() };
        let region = pools[LONE].create("steps", pages * PAGE, &options).unwrap();
        for first in (0..pages).step_by(100) {
            let words = (first..(first + 100).min(pages)).flat_map(|page| (0..WORDS).map(move |at| base(page, at)));
            region.put(first * PAGE, &words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()).unwrap();
        }
        drop(region);
        let map = |host: usize| (host, Arc::new(pools[host].open("steps").unwrap().map(Consistency::Coherent).unwrap()));
        let observers = [HOME, OTHER, NEAR].map(map).into_iter().collect();
        Scene { apart, pools, observers, next: 1 }
    }

    pub fn observer(&self, host: usize) -> &SharedMapping {
        &self.observers.iter().find(|(at, _)| *at == host).unwrap().1
    }

    /// All observers have a copy of a page.
    pub fn share(&self, page: u64) {
        for (_, mapping) in &self.observers {
            load(mapping, page, WORD);
        }
    }

    pub fn actor(&self, kind: &Kind) -> Actor {
        self.actor_within(kind, BOUND_MS)
    }

    /// A program that waits so long for an answer.
    pub fn actor_within(&self, kind: &Kind, bound_ms: u64) -> Actor {
        let mut actor = Actor::start(self.apart.socket(kind.host), "steps", bound_ms);
        if kind.is_short {
            actor.act(Act::Map);
        }
        actor
    }

    pub fn pages(&mut self, kind: &Kind) -> u64 {
        // One between them, or a stream of faults would go on.
        self.next += kind.span + 1;
        assert!(self.next <= PAGES, "{}: more steps than there are pages for", kind.name);
        self.next - kind.span
    }

    pub fn check(&self, expected: Vec<Expected>, what: &str) {
        self.check_with(expected, &[], what);
    }

    /// Every page can be read and written on every host, and holds what it may.
    pub fn check_with(&self, expected: Vec<Expected>, marks: &[(u64, u64, u64)], what: &str) {
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
    pub fn wait_for_programs(&self) {
        let count = |pool: &Pool| pool.page_stats().unwrap().iter().map(|stat| stat.programs).sum::<u32>();
        until("the observers alone are left", || self.pools.iter().map(count).eq([0, 1, 1, 1]));
    }

    pub fn descriptors(&self) -> Vec<usize> {
        (0..4).map(|node| self.apart.descriptors(node)).collect()
    }
}

pub fn load(mapping: &SharedMapping, page: u64, at: u64) -> u64 {
    let mut bytes = [0; 8];
    mapping.read((page * WORDS + at) * 8, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

pub fn store(mapping: &SharedMapping, page: u64, at: u64, value: u64) {
    mapping.write((page * WORDS + at) * 8, &value.to_le_bytes()).unwrap();
}

pub type Begun<T> = std::sync::mpsc::Receiver<std::thread::Result<T>>;

pub fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Begun<T> {
    let (done, is_done) = channel();
    let work = std::panic::AssertUnwindSafe(work);
    std::thread::spawn(move || done.send(std::panic::catch_unwind(work)));
    is_done
}

/// What becomes of it within a bound, or within that of a busy machine.
pub fn within_paced<T>(begun: &Begun<T>, bound: Duration) -> Option<std::thread::Result<T>> {
    begun.recv_timeout(bound).or_else(|_| begun.recv_timeout(paced(bound))).ok()
}

pub fn ended<T>(what: &str, begun: Begun<T>) -> T {
    let result = within_paced(&begun, SOON).unwrap_or_else(|| panic!("{what}: others do not get what they want within {SOON:?}"));
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Others' work, which is done in time whatever became of the program.
pub fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    ended(what, begin(work))
}

/// Lets a program that was told to do something go on for so many steps. Says whether it was through before.
pub fn advance(traced: &mut Traced, actor: &Actor, by: By, steps: u64) -> bool {
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
pub fn is_permitted() -> bool {
    let mut still = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let taken = Traced::take(still.id() as i32);
    still.kill().unwrap();
    still.wait().unwrap();
    if let Err(error) = &taken {
        hanare_testkit::unable(format!("this system does not let a program be traced: {error}"));
    }
    taken.is_ok()
}
