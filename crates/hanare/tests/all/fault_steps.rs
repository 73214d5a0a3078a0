//! A coherent fault, interrupted at each of its steps: its program is killed there, or held while others go on.
//!
//! The program is traced, so the product has no hook for this. A step is a stop before or after a system call, or one instruction; how
//! many there are is found out by going on until the fault is over.
//!
//! Every instruction of every kind of fault, and every system call of what is no fault: `cargo test -p hanare --test all -- --ignored --nocapture
//! every_instruction`, where `STEPS_ONLY=TEXT` picks the kinds whose name holds a text.

use crate::actor;
use crate::apart;
use crate::scene;
use crate::traced;

use actor::{Act, Actor, WORD};
use apart::until;
use scene::{By, KINDS, Kind, PAGES, Scene, advance, base, begin, by_it, ended, is_permitted, load, mine, store, within};
use std::time::Duration;
use traced::Traced;

/// Stops at system calls from one interruption of what has hundreds of them to the next.
const CALLS: u64 = 7;
/// Instructions of a fault at which it is interrupted, unless it is at all.
const INSTRUCTIONS: u64 = 40;

impl Scene {
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
    // A stream's are many, and each interruption of it has many pages to look at.
    let some = if kind.span > 1 { INSTRUCTIONS / 2 } else { INSTRUCTIONS };
    let every = if all { 1 } else { instructions / some + 1 };
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
