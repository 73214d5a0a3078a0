//! A node that stood still for so long that it was taken for lost, and goes on: as one that has copies and owns pages of others, and
//! as a home. Programs use pages meanwhile; nobody sees old bytes after newer ones, what is lost is told, and fresh mappings work.

use crate::actor;
use crate::apart;
use crate::scene;

use actor::{WORD, WORDS};
use apart::until;
use hanare::{Consistency, Error, NodeId, SharedMapping};
use scene::{HOME, NEAR, OTHER, Scene, base, begin, ended, store, theirs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Pages that are used in one way each: shared by all, owned by the node that stands still, owned by another, used by nobody.
const SHARED: u64 = 1;
const OWNED: u64 = 2;
const OWNED_ELSEWHERE: u64 = 3;
const UNUSED: [u64; 3] = [5, 6, 7];
/// The first of eight whose numbers grow.
const GROWING: u64 = 40;

fn read(mapping: &SharedMapping, page: u64) -> Result<u64, Error> {
    let mut bytes = [0; 8];
    mapping.read((page * WORDS + WORD) * 8, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn is_loss(error: &Error) -> bool {
    matches!(error, Error::NodeLost { .. } | Error::PageLost { .. })
}

/// The pages as they are before `still` stands still.
fn scene(still: usize, elsewhere: usize) -> Scene {
    let scene = Scene::of(64);
    scene.share(SHARED);
    store(scene.observer(still), OWNED, WORD, theirs(OWNED));
    store(scene.observer(elsewhere), OWNED_ELSEWHERE, WORD, theirs(OWNED_ELSEWHERE));
    scene
}

impl Scene {
    fn is_member(&self, node: usize) -> bool {
        let status = self.pools[0].status().unwrap();
        status.nodes.iter().any(|known| known.node == NodeId(node as u32) && known.alive)
    }

    /// The node stands still until all others know that it is lost.
    fn hold_until_lost(&self, node: usize) {
        self.apart.stop(node);
        until("its lease ends", || !self.is_member(node));
    }

    /// It goes on, and is a member again.
    fn go_on(&self, node: usize) {
        self.apart.go_on(node);
        until("it is a member again", || self.is_member(node));
    }

    /// A host's program unmaps the region and maps it again.
    fn map_anew(&mut self, host: usize) {
        self.observers.retain(|(at, _)| *at != host);
        let mapping = self.pools[host].open("steps").unwrap().map(Consistency::Coherent).unwrap();
        self.observers.push((host, Arc::new(mapping)));
    }

    /// Programs of all hosts see each other's stores to a page.
    fn goes_round(&self, page: u64) {
        for turn in 0..3 {
            for (host, mapping) in &self.observers {
                let value = base(page, turn * 10 + *host as u64);
                store(mapping, page, WORD, value);
                for (other, mapping) in &self.observers {
                    assert_eq!(read(mapping, page).unwrap(), value, "stored on {host}, loaded on {other}");
                }
            }
        }
    }
}

#[test]
fn a_host_of_others_pages() {
    let mut scene = scene(OTHER, NEAR);
    scene.hold_until_lost(OTHER);
    // What it had a copy of can be written, and what it owned is lost: nobody sees what was there before.
    store(scene.observer(NEAR), SHARED, WORD, 77);
    assert_eq!(read(scene.observer(HOME), SHARED).unwrap(), 77);
    let told = read(scene.observer(NEAR), OWNED).unwrap_err();
    assert!(is_loss(&told), "{told}");
    // Its own programs have what they had.
    assert_eq!(read(scene.observer(OTHER), OWNED).unwrap(), theirs(OWNED));
    scene.go_on(OTHER);
    // Until its pages go, and then never again.
    until("its programs are told", || match read(scene.observer(OTHER), SHARED) {
        Ok(seen) => {
            assert_eq!(seen, base(SHARED, WORD));
            false
        }
        Err(told) => is_loss(&told),
    });
    assert!(read(scene.observer(OTHER), OWNED_ELSEWHERE).is_err_and(|told| is_loss(&told)));
    // The others go on, and it takes part again once it maps the region anew.
    store(scene.observer(NEAR), SHARED, WORD, 78);
    scene.map_anew(OTHER);
    assert_eq!(read(scene.observer(OTHER), SHARED).unwrap(), 78);
    assert_eq!(read(scene.observer(OTHER), OWNED_ELSEWHERE).unwrap(), theirs(OWNED_ELSEWHERE));
    let told = read(scene.observer(OTHER), OWNED).unwrap_err();
    assert!(is_loss(&told), "{told}");
    UNUSED.iter().for_each(|page| scene.goes_round(*page));
}

#[test]
fn a_host_of_others_pages_again_and_again() {
    let mut scene = Scene::of(64);
    for round in 0..3 {
        let page = 10 + round;
        store(scene.observer(OTHER), 20 + round, WORD, 1);
        scene.goes_round(page);
        scene.hold_until_lost(OTHER);
        store(scene.observer(NEAR), page, WORD, 99);
        scene.go_on(OTHER);
        until("its programs are told", || read(scene.observer(OTHER), page).is_err());
        scene.map_anew(OTHER);
        assert_eq!(read(scene.observer(OTHER), page).unwrap(), 99);
        assert!(read(scene.observer(NEAR), 20 + round).is_err_and(|told| is_loss(&told)));
        // As many letters as go between nodes in one piece, and more.
        (30..60).for_each(|page| scene.goes_round(page));
    }
}

/// Reads numbers that only grow, until it is told to end, or that they are lost; `seen` is what was seen of each page.
fn watch(mapping: &SharedMapping, seen: &mut [u64], is_over: &AtomicBool) -> Result<u64, Error> {
    let mut rounds = 0;
    while !is_over.load(Relaxed) {
        for (page, seen) in (GROWING..).zip(&mut *seen) {
            let found = read(mapping, page)?;
            assert!(found >= *seen, "page {page} went back from {:#x} to {found:#x}", *seen);
            *seen = found;
        }
        rounds += 1;
    }
    Ok(rounds)
}

#[test]
fn programs_go_on_while_a_host_stands_still_and_when_it_comes_back() {
    let mut scene = Scene::of(64);
    let is_over = Arc::new(AtomicBool::new(false));
    let [home, near, other] =
        [HOME, NEAR, OTHER].map(|host| scene.observers.iter().find(|(at, _)| *at == host).unwrap().1.clone());
    // One writer a host, each of every other page.
    let writers: Vec<_> = [(home.clone(), 0), (near.clone(), 1)]
        .into_iter()
        .map(|(mapping, first)| {
            let is_over = is_over.clone();
            begin(move || {
                let mut round = 0;
                while !is_over.load(Relaxed) {
                    round += 1;
                    (GROWING + first..GROWING + 8)
                        .step_by(2)
                        .for_each(|page| store(&mapping, page, WORD, base(page, WORD) + round));
                }
                round
            })
        })
        .collect();
    let watchers: Vec<_> = [home, near]
        .into_iter()
        .map(|mapping| {
            let is_over = is_over.clone();
            begin(move || watch(&mapping, &mut [0; 8], &is_over).unwrap())
        })
        .collect();
    let still = {
        let is_over = is_over.clone();
        begin(move || {
            let mut seen = [0; 8];
            // It may go on with what it has, until it is told.
            (watch(&other, &mut seen, &is_over), seen)
        })
    };
    std::thread::sleep(Duration::from_millis(200));
    scene.hold_until_lost(OTHER);
    scene.go_on(OTHER);
    let (told, mut seen) = still.recv_timeout(Duration::from_secs(30)).expect("it is told that its pages went").unwrap();
    assert!(told.is_err_and(|told| is_loss(&told)));
    scene.map_anew(OTHER);
    let again = scene.observers.last().unwrap().1.clone();
    let watched = {
        let is_over = is_over.clone();
        begin(move || watch(&again, &mut seen, &is_over).unwrap())
    };
    std::thread::sleep(Duration::from_millis(500));
    is_over.store(true, Relaxed);
    for worked in writers.into_iter().chain(watchers).chain([watched]) {
        assert!(ended("programs that go on", worked) > 0);
    }
}

#[test]
fn a_home() {
    let mut scene = scene(HOME, NEAR);
    scene.hold_until_lost(HOME);
    // What is elsewhere stays readable; the rest cannot be had.
    for host in [OTHER, NEAR] {
        assert_eq!(read(scene.observer(host), SHARED).unwrap(), base(SHARED, WORD));
        let told = read(scene.observer(host), UNUSED[0]).unwrap_err();
        assert!(is_loss(&told), "{told}");
    }
    assert_eq!(read(scene.observer(NEAR), OWNED_ELSEWHERE).unwrap(), theirs(OWNED_ELSEWHERE));
    scene.go_on(HOME);
    std::thread::sleep(Duration::from_millis(500));
    // Its bytes are there again, for those who map it anew; whatever else they do, nobody shows zeros.
    for host in [HOME, OTHER, NEAR] {
        scene.observers.retain(|(at, _)| *at != host);
    }
    [HOME, OTHER, NEAR].into_iter().for_each(|host| scene.map_anew(host));
    for host in [HOME, OTHER, NEAR] {
        assert_eq!(read(scene.observer(host), SHARED).unwrap(), base(SHARED, WORD));
        assert_eq!(read(scene.observer(host), OWNED).unwrap(), theirs(OWNED), "it had it itself");
        assert_eq!(read(scene.observer(host), OWNED_ELSEWHERE).unwrap(), theirs(OWNED_ELSEWHERE), "its owner sent it home");
    }
    (UNUSED[1]..30).for_each(|page| scene.goes_round(page));
    assert!(scene.pools[HOME].open("steps").unwrap().map_local().is_err(), "not beside the pages");
}

#[test]
fn a_home_whose_programs_keep_their_mapping_while_others_map_it_anew() {
    let mut scene = scene(HOME, NEAR);
    scene.hold_until_lost(HOME);
    scene.go_on(HOME);
    until("its own programs are told", || read(scene.observer(HOME), UNUSED[0]).is_err());
    scene.observers.retain(|(at, _)| *at != OTHER && *at != NEAR);
    let kept = scene.observers.pop().unwrap();
    scene.map_anew(OTHER);
    scene.map_anew(NEAR);
    (6..12).for_each(|page| scene.goes_round(page));
    // The old mapping ends, and those that are there are still asked for every page.
    drop(kept);
    assert!(scene.pools[HOME].open("steps").unwrap().map_local().is_err(), "not beside the pages");
    let region = scene.pools[HOME].open("steps").unwrap();
    store(scene.observer(NEAR), 40, WORD, 1234);
    let mut bytes = [0; 8];
    region.get((40 * WORDS + WORD) * 8, &mut bytes).unwrap();
    assert_eq!(u64::from_le_bytes(bytes), 1234, "a get on the home's own host sees what another owns");
}
