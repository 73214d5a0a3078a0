//! Nodes that are killed, or stopped, while a program stands at a step of a coherent fault: it gets its page or the documented end, in
//! time, and nobody ever sees zeros, or old bytes for newer ones.
//!
//! Every step with every node: `cargo test -p hanare --test all -- --ignored --nocapture every_step`.

use crate::actor;
use crate::scene;
use crate::traced;

use actor::{Act, WORD, WORDS};
use hanare::{Error, SharedMapping};
use hanare_testkit::paced;
use scene::{
    Begun, By, Expected, HOME, KINDS, Kind, LONE, NEAR, OTHER, Scene, advance, base, begin, is_permitted, mine, within_paced,
};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use traced::Traced;

/// What the interrupted program waits for an answer: above the time after which a silent node is lost.
const BOUND_MS: u64 = 6_000;
/// How long a fault may take on an idle machine: a node that is killed is known to be at once, one that is silent is
/// waited for, by observers as long as anybody does by default.
const TIMES: [(Harm, Duration); 2] = [(Harm::Killed, Duration::from_secs(10)), (Harm::Stopped, Duration::from_secs(30))];
/// Cases at a time: most of the time of one is waiting.
const CASES: usize = 12;
/// Steps from one case of a kind and node to the next, unless all are played.
const EVERY: u64 = 11;
/// A page that nobody uses.
const UNUSED: u64 = 99;
/// Steps of a fault, more than there are.
const STEPS: u64 = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Killed,
    Stopped,
}

/// One interruption.
#[derive(Clone, Copy)]
struct Case {
    kind: &'static Kind,
    victim: usize,
    harm: Harm,
    step: u64,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { kind, victim, harm, step } = self;
        let who = ["the coordinator", "the home", "the other", "its own node"][*victim];
        write!(f, "{}, {who} {harm:?} at stop {step}", kind.name)
    }
}

impl Case {
    /// Says whether the fault was over before the step.
    fn play(&self) -> bool {
        let Case { kind, victim, harm, step } = *self;
        let mut scene = Scene::of(100);
        let page = scene.pages(kind);
        let mut actor = scene.actor_within(kind, BOUND_MS);
        let expected = (kind.prepare)(&scene, &mut actor, page);
        let (act, stores) = (kind.act)(page);
        let mut traced = Traced::take(actor.thread).unwrap();
        actor.tell(act);
        let is_over = advance(&mut traced, &actor, By::Calls, step);
        match harm {
            Harm::Killed => scene.apart.kill(victim),
            Harm::Stopped => scene.apart.stop(victim),
        }
        let begun = Instant::now();
        traced.let_go();
        let done = actor.done();
        let took = begun.elapsed();
        assert!(took < self.time() || took < paced(self.time()), "{self:?}: the fault took {took:?}");
        match done {
            Some(seen) => {
                if let Act::Read(page) = act {
                    let held = expected.iter().find(|expected| expected.page == page).unwrap();
                    assert!(held.values.contains(&seen), "{self:?}: it saw {seen:#x}, not {held:x?}");
                }
            }
            None => {
                let (status, complaints) = (actor.end(), actor.complaints());
                assert_eq!(status.signal(), Some(libc::SIGBUS), "{self:?}: {status}: {complaints}");
                let by_home = format!("its home, node {HOME}, cannot give it");
                // What its own node's end means is no fault of the home's.
                let here = "this host cannot have it (this host's node has ended";
                let said = |why: &str| complaints.contains(&format!("region 'steps', offset {}: {why}", expected[0].page * 4096));
                assert!(said(&by_home) || victim == NEAR && said(here), "{self:?}: {complaints}");
            }
        }
        let mut looked = Vec::new();
        for Expected { page, mut values } in expected {
            if Some(page) == stores {
                values.push(mine(page));
            }
            looked.extend(self.look(&scene, page, values));
        }
        // A page that nobody but its home has.
        looked.extend(self.look(&scene, UNUSED, vec![base(UNUSED, WORD)]));
        looked.into_iter().for_each(|looked| self.judge(looked));
        is_over
    }

    fn time(&self) -> Duration {
        TIMES.iter().find(|(harm, _)| *harm == self.harm).unwrap().1
    }

    /// Survivors look at a page that holds one of these values.
    fn look(&self, scene: &Scene, page: u64, values: Vec<u64>) -> Vec<Looked> {
        let survivors = scene.observers.iter().filter(|(host, _)| *host != self.victim);
        let look = |(host, mapping): &(usize, Arc<SharedMapping>)| {
            let (host, mapping, values) = (*host, mapping.clone(), values.clone());
            let seen = begin(move || {
                let mut bytes = [0; 8];
                mapping.read((page * WORDS + WORD) * 8, &mut bytes).map(|()| u64::from_le_bytes(bytes))
            });
            Looked { host, page, values, seen }
        };
        survivors.map(look).collect()
    }

    /// They find what it holds, or are told that they cannot.
    fn judge(&self, Looked { host, page, values, seen }: Looked) {
        let seen = within_paced(&seen, self.time());
        let seen = seen.unwrap_or_else(|| panic!("{self:?}: {host} finds nothing out about page {page}")).unwrap();
        match seen {
            Ok(seen) => assert!(values.contains(&seen), "{self:?}: {host} sees {seen:#x} on page {page}, not {values:x?}"),
            Err(error) => {
                let is_told = matches!(error, Error::NodeLost { .. } | Error::PageLost { .. });
                let may_be = self.victim == HOME || (page != UNUSED && [OTHER, NEAR].contains(&self.victim));
                assert!(is_told && may_be, "{self:?}: {host}, page {page}: {error}");
            }
        }
    }
}

/// What a survivor found.
struct Looked {
    host: usize,
    page: u64,
    values: Vec<u64>,
    seen: Begun<Result<u64, Error>>,
}

/// Plays all cases, some at a time, and says which failed.
fn play(cases: &[Case]) {
    if !is_permitted() {
        return;
    }
    let (next, failed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..CASES {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Relaxed) as usize) {
                    if std::panic::catch_unwind(|| case.play()).is_err() {
                        failed.lock().unwrap().push(*case);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:#?}");
}

fn cases(harm: Harm, every: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.is_short && kind.host == NEAR && kind.span == 1) {
        for victim in [HOME, OTHER, NEAR] {
            // Others at each kind and victim, so that all steps have their turn.
            let first = cases.len() as u64 % every;
            cases.extend((first..STEPS).step_by(every as usize).map(|step| Case { kind, victim, harm, step }));
        }
    }
    cases
}

#[test]
fn a_program_whose_node_is_killed_while_it_waits_does_not_wait_out_its_bound() {
    // Another host's page comes by way of the program's own node.
    let kind = KINDS.iter().find(|kind| kind.name == "a write to a page that another host owns").unwrap();
    play(&(6..11).map(|step| Case { kind, victim: NEAR, harm: Harm::Killed, step }).collect::<Vec<_>>());
}

#[test]
fn nodes_are_killed_at_steps_of_a_fault() {
    play(&cases(Harm::Killed, EVERY));
}

#[test]
fn nodes_are_stopped_at_steps_of_a_fault() {
    play(&cases(Harm::Stopped, EVERY));
}

#[test]
fn the_coordinator_is_no_part_of_a_fault() {
    let kind = KINDS.iter().find(|kind| kind.name == "a write to a page that another host owns").unwrap();
    play(&[Harm::Killed, Harm::Stopped].map(|harm| Case { kind, victim: LONE, harm, step: 4 }));
}

#[test]
#[ignore = "it takes half an hour"]
fn every_step() {
    play(&cases(Harm::Killed, 1));
    play(&cases(Harm::Stopped, 1));
}
