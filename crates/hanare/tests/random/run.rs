//! The nodes and programs of a seed, from beginning to end.

use super::log::{Log, Op, What, read};
use super::oracle::History;
use super::plan::{PAGE, Plan, REGION};
use crate::processes::{Dice, Nodes, Process, now};
use hanare::{Consistency, CreateOptions, Pool, Region};
use hanare_testkit::Patience;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The actor that is a program.
const PROGRAM: &str = "program_process";
/// How long a program may take.
const BOUND: Duration = Duration::from_secs(90);

/// Runs a seed, and says what was wrong.
pub fn run(seed: u64, mode: Consistency) -> Result<(), String> {
    let plan = Plan::new(seed, mode);
    let nodes = Nodes::start(plan.nodes, plan.frames.filter(|_| mode == Consistency::Coherent));
    let pool = Pool::attach_to(&nodes.sockets[0], None).unwrap();
    let options = CreateOptions { placement: plan.placement, ..CreateOptions::default() };
    let region = pool.create(REGION, plan.len(), &options).unwrap();
    let pin = plan.is_pinned.then(|| region.map(mode).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        std::thread::scope(|scope| {
            let keepers: Vec<_> = (0..plan.slots.len())
                .map(|slot| {
                    let (plan, nodes, folder) = (&plan, &nodes, folder.path());
                    scope.spawn(move || keep(plan, nodes, folder, slot))
                })
                .collect();
            if plan.stops {
                scope.spawn(|| stop_nodes(&plan, &nodes, &is_over));
            }
            let ends: Vec<_> = keepers.into_iter().map(|keeper| keeper.join()).collect();
            is_over.store(true, SeqCst);
            ends.into_iter().for_each(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        });
        look_at_the_end(&plan, &region, folder.path());
        drop(pin);
    }));
    let log = |hand| read(&plan.log_of(folder.path(), hand));
    let history = History {
        plan: &plan,
        hands: (0..plan.hands.len()).map(log).collect(),
        end: read(&folder.path().join("end")),
        homes: homes(&region),
    };
    let verdict = match outcome {
        Ok(()) => history.check(),
        Err(panic) => Err(format!("{}; {}", said(&*panic), under_way(&history))),
    };
    verdict.map_err(|what| {
        let kept = folder.keep();
        format!("seed {seed}, {plan}, logs in {}: {what}", kept.display())
    })
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "it panicked".to_owned())
}

/// What was being done when it ended.
fn under_way(history: &History) -> String {
    let lasts = history.hands.iter().enumerate().filter_map(|(hand, log)| Some((hand, log.last()?)));
    lasts.filter(|(_, op)| !op.has_ended()).map(|(hand, op)| format!("\nhand {hand}: {op}")).collect()
}

fn homes(region: &Region) -> Vec<usize> {
    let layout = region.layout();
    let of = |page: u64| layout.pieces(page * PAGE, 1).next().and_then(|piece| layout.extents().nth(piece.extent));
    (0..region.len().div_ceil(PAGE)).map(|page| of(page).unwrap().node.0 as usize).collect()
}

/// Starts the programs of a slot one after another, each when the one before was killed.
fn keep(plan: &Plan, nodes: &Nodes, folder: &Path, slot: usize) {
    let mut dice = Dice::new(plan.seed << 8 | slot as u64);
    let place = &plan.slots[slot];
    for life in 0..place.lives {
        let mode = if plan.mode == Consistency::Coherent { "coherent" } else { "explicit" };
        let mut variables = vec![
            ("TEST_SEED", plan.seed.to_string()),
            ("TEST_MODE", mode.to_owned()),
            ("TEST_SLOT", slot.to_string()),
            ("TEST_LIFE", life.to_string()),
            ("TEST_FOLDER", folder.to_str().unwrap().to_owned()),
            ("TEST_SOCKET", nodes.sockets[place.node].clone()),
        ];
        variables.extend(plan.frames.map(|frames| ("HANARE_FRAMES", frames.to_string())));
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (mut program, _) = Process::start(PROGRAM, &variables);
        let who = format!("the program of slot {slot}, life {life}");
        if place.lives == 1 || life + 1 == place.lives && dice.one_in(2) {
            program.join(BOUND, &who);
            continue;
        }
        // Some are killed before they have mapped anything, most when they have done something.
        let lines = dice.below(400);
        let has_begun =
            || std::fs::metadata(plan.log_of(folder, plan.hands_of(slot, life)[0])).is_ok_and(|log| log.len() > lines * 80);
        let mut patience = Patience::new(BOUND);
        while program.ended().is_none() && (lines > 3 && !has_begun()) {
            assert!(!patience.is_over(), "{who} has not come far within {BOUND:?}");
            std::thread::sleep(Duration::from_micros(200));
        }
        let until = now() + dice.below(2_000_000);
        while now() < until {
            std::hint::spin_loop();
        }
        match program.ended() {
            Some(status) => assert!(status.success(), "{who} ended with {status}"),
            None => program.kill(),
        }
    }
}

/// Stops nodes now and then, for less than would make them lost.
fn stop_nodes(plan: &Plan, nodes: &Nodes, is_over: &AtomicBool) {
    let mut dice = Dice::new(plan.seed ^ 0x5709);
    while !is_over.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(20 + dice.below(200)));
        nodes.processes[dice.below(plan.nodes as u64) as usize].pause(Duration::from_millis(5 + dice.below(300)));
    }
}

/// What is there when all have ended.
fn look_at_the_end(plan: &Plan, region: &Region, folder: &Path) {
    let mut log = Log::create(&folder.join("end"));
    let mut look = |what, at, len| {
        log.note(Op::on_range(what, at, len, 0), || {
            let mut bytes = vec![0; len as usize];
            region.get(at, &mut bytes).unwrap();
            (u64::from_le_bytes(*bytes.first_chunk().unwrap()), bytes)
        });
    };
    look(What::Get, 0, plan.hot);
    plan.registers().into_iter().for_each(|at| look(What::RegisterGet, at, 8));
    plan.counters().into_iter().for_each(|at| look(What::CountGet, at, 8));
}
