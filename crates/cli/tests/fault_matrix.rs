//! The fault matrix: clients, nodes and the coordinator are killed and stopped in the midst of every kind of command, on two and three nodes.
//!
//! Every survivor gets its data or a typed error in time; what survives is what the outcomes allow, and the error's word on whether the
//! command happened is true; a stopped process that goes on does no harm; nothing leaks.
//!
//! A failure prints the seed; `FAULT_SEED=N` plays it again. The whole product, one kind of command in each cell:
//! `cargo test -p hanare-cli --test fault_matrix -- --ignored --nocapture every_cell`, where `FAULT_ONLY=TEXT` picks the cells whose name
//! holds a text and `FAULT_TIMES=N` plays each N times.

mod faults;
mod pool;

hanare_testkit::actors![the_client_process,];

use faults::cell::{Cell, Dice, Mode, Victim};
use faults::cluster::{Cluster, NEWS};
use faults::kind::Kind;
use hanare::{CreateOptions, Error, NodeId, Placement, Strided};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The process that the others hit, or that survives them; started by the tests, and nothing by itself.
fn the_client_process() {
    if let Ok(task) = std::env::var(faults::client::TASK) {
        faults::client::run(&task);
    }
}

fn dice() -> Dice {
    let of_now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let seed = std::env::var("FAULT_SEED").map_or_else(|_| of_now(), |seed| seed.parse().expect("FAULT_SEED is a number"));
    eprintln!("FAULT_SEED={seed}");
    Dice(seed)
}

/// All kinds at once on one victim, so that it is in the midst of all of them.
fn play(victim: Victim, plan: &[(usize, &[Mode])]) {
    let mut dice = dice();
    let kinds = |kind: &Kind| victim != Victim::Source || kind.copies();
    for (nodes, modes) in plan {
        let mut cluster = Cluster::start(*nodes);
        for mode in *modes {
            let kinds = Kind::ALL.into_iter().filter(kinds).collect();
            Cell { victim, mode: *mode, nodes: *nodes, kinds, len: 1 << 20 }.play(&mut cluster, &mut dice);
        }
        cluster.wait_for_levels(NEWS);
    }
}

#[test]
fn clients_in_the_midst_of_every_command() {
    play(Victim::Client, &[(2, &[Mode::Pause, Mode::Replace]), (3, &[Mode::Kill, Mode::Stop])]);
}

// FEATURE: D3-F11 D3-F13 D3-F15 RF-F4
#[test]
fn the_node_that_holds_the_memory_of_every_command() {
    play(Victim::Holder, &[(2, &[Mode::Pause, Mode::Replace]), (3, &[Mode::Stop, Mode::Kill])]);
}

// FEATURE: D3-F11 D3-F12
#[test]
fn the_source_of_copies() {
    play(Victim::Source, &[(2, &[Mode::Kill, Mode::Stop]), (3, &[Mode::Kill, Mode::Pause, Mode::Stop])]);
}

#[test]
fn the_coordinator_in_the_midst_of_every_command() {
    play(Victim::Coordinator, &[(2, &[Mode::Stop, Mode::Kill]), (3, &[Mode::Pause, Mode::Stop, Mode::Kill])]);
}

#[test]
fn memory_that_dies_with_the_coordinator_is_reported_in_time_at_the_usual_bound() {
    let mut cluster = Cluster::with_bound(2, hanare_protocol::limits::ANSWER_MS);
    let pool = cluster.client(1);
    let on = |node| CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() };
    let (there, here) = (pool.create("there", 1 << 20, &on(0)).unwrap(), pool.create("here", 1 << 20, &on(1)).unwrap());
    let whole = Strided::contiguous(0, 1 << 20);
    pool.copy(&there, whole, &here, whole).unwrap();
    there.put(0, &[1; 100]).unwrap();
    cluster.kill(0);
    let calls: [&dyn Fn() -> Result<(), Error>; 3] =
        [&|| there.get(0, &mut [0; 8]), &|| there.put(0, &[0; 8]), &|| pool.copy(&there, whole, &here, whole)];
    for call in calls {
        let begun = Instant::now();
        let error = call().unwrap_err();
        assert!(matches!(error, Error::NodeLost { .. }), "{error}");
        assert!(begun.elapsed() < pool::paced(Duration::from_secs(5)), "reported after {:?}", begun.elapsed());
    }
}

#[test]
#[ignore = "it takes a quarter of an hour"]
fn every_cell() {
    let mut dice = dice();
    let only = std::env::var("FAULT_ONLY").unwrap_or_default();
    let times = std::env::var("FAULT_TIMES").map_or(1, |times| times.parse().expect("FAULT_TIMES is a number"));
    for nodes in [2, 3] {
        let mut cluster = None;
        for cell in cells(nodes).filter(|cell| cell.to_string().contains(&only)) {
            let cluster = cluster.get_or_insert_with(|| Cluster::start(nodes));
            (0..times).for_each(|_| cell.play(cluster, &mut dice));
        }
        cluster.iter().for_each(|cluster| cluster.wait_for_levels(NEWS));
    }
}

fn cells(nodes: usize) -> impl Iterator<Item = Cell> {
    let victims = [Victim::Client, Victim::Holder, Victim::Source, Victim::Coordinator];
    let modes = [Mode::Kill, Mode::Pause, Mode::Stop, Mode::Replace];
    let hits = victims.into_iter().flat_map(move |victim| modes.map(move |mode| (victim, mode)));
    let all = hits.flat_map(|hit| Kind::ALL.map(move |kind| (hit, kind)));
    // Without the coordinator no region can be replaced.
    let can_be = |hit: &(Victim, Mode)| *hit != (Victim::Coordinator, Mode::Replace);
    all.filter(move |(hit, kind)| can_be(hit) && (hit.0 != Victim::Source || kind.copies()))
        .map(move |((victim, mode), kind)| Cell { victim, mode, nodes, kinds: vec![kind], len: 4 << 20 })
}
