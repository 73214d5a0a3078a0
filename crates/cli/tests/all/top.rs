//! `hanare top`: what happens in the pool as JSON and as text, and the line about pages that went to and fro at the end of a job.

use crate::pool;

use hanare::{Consistency, CreateOptions, NodeId, Placement, Pool};
use pool::{Nodes, command, run, wait_until};
use serde_json::Value;
use std::sync::atomic::Ordering::SeqCst;

const PAGE: u64 = 4096;

fn on(node: u32) -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() }
}

/// The object of a list whose field has this value.
fn find<'v>(list: &'v Value, field: &str, value: impl Into<Value>) -> &'v Value {
    let value = value.into();
    list.as_array()
        .unwrap()
        .iter()
        .find(|object| object[field] == value)
        .unwrap_or_else(|| panic!("no {field} {value} in {list}"))
}

#[test]
fn a_lock_its_waiter_and_a_page_that_two_hosts_write_by_turns_are_told() {
    let nodes = Nodes::start(2);
    let clients: Vec<Pool> = nodes.nodes.iter().map(|node| Pool::attach_to(&node.socket, None).unwrap()).collect();
    clients[0].create("grid", 64 * PAGE, &on(0)).unwrap();
    let maps: Vec<_> = clients.iter().map(|client| client.open("grid").unwrap().map(Consistency::Coherent).unwrap()).collect();
    for _ in 0..500 {
        for (at, map) in maps.iter().enumerate() {
            map.word(9 * PAGE + 8 * at as u64).unwrap().fetch_add(1, SeqCst);
        }
    }
    let held = clients[0].lock("ledger").unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| clients[1].lock("ledger").unwrap().unlock().unwrap());
        let look = || nodes.hanare(&["top", "--once", "--json", "--region", "grid"]).json();
        wait_until("a waiter is told", || find(&look()["locks"], "name", "ledger")["waiting"] == 1);
        let told = look();
        let lock = find(&told["locks"], "name", "ledger");
        assert_eq!((&lock["exclusive"], &lock["held"]), (&true.into(), &1.into()));
        assert_eq!((&lock["holders"][0], &lock["waiters"][0]), (&clients[0].client().0.into(), &clients[1].client().0.into()));
        assert_eq!(find(&told["programs"], "client", clients[1].client().0)["process"], std::process::id());
        let region = find(&told["regions"], "name", "grid");
        assert_eq!((&region["programs"], &region["hosts"]), (&2.into(), &2.into()));
        assert!(region["faults"].as_u64().unwrap() >= 900 && region["hops"].as_u64().unwrap() >= 900, "{region}");
        let run = find(&told["to_and_fro"], "region", "grid");
        assert_eq!((&run["offset"], &run["bytes"], &run["home"]), (&(9 * PAGE).into(), &PAGE.into(), &0.into()));
        assert_eq!(run["nodes"], serde_json::json!([0, 1]));
        assert!(run["times"].as_u64().unwrap() >= 900 && run["seconds"].as_f64().unwrap() > 0.0, "{run}");
        let cells = told["map"]["cells"].as_array().unwrap();
        let hot: Vec<usize> = (0..cells.len()).filter(|at| cells[*at] != 0).collect();
        assert_eq!((&told["map"]["pages_each"], cells.len(), hot), (&1.into(), 64, vec![9]));
        assert_eq!(find(&told["nodes"], "node", 1)["alive"], true);
        // The same for people, and of one region.
        let text = nodes.hanare(&["top", "--once"]).done();
        assert!(text.contains("ledger") && text.contains("page 9"), "{text}");
        let text = nodes.hanare_on(1, &["region", "stat", "grid"]).done();
        assert!(text.contains("page 9 went to and fro") && text.contains("between nodes 0 and 1"), "{text}");
        held.unlock().unwrap();
        waiter.join().unwrap();
    });
}

#[test]
fn a_screen_needs_a_terminal() {
    let nodes = Nodes::start(1);
    nodes.hanare(&["top"]).refused(&["terminal", "--once"]);
    nodes.hanare(&["top", "--once", "--region", "none"]).refused(&["none"]);
}

/// Not a test: a rank of the job of the next one.
pub fn rank_that_shares_pages() {
    if std::env::var_os("HANARE_RANKS").is_none() {
        return;
    }
    let pool = Pool::attach().unwrap();
    let region = pool.create_or_attach("rows", 64 * PAGE, &on(0)).unwrap();
    let map = region.map(Consistency::Coherent).unwrap();
    pool.barrier().unwrap();
    // By turns, so that each store takes the pages from the other rank.
    let turn = map.word(0).unwrap();
    for round in 0..2000u64 {
        while turn.load(SeqCst) % 2 != u64::from(pool.rank()) {
            // The nodes' threads need the processors, too.
            std::thread::yield_now();
        }
        for page in 3..5 {
            map.word(page * PAGE).unwrap().fetch_add(round, SeqCst);
        }
        turn.fetch_add(1, SeqCst);
    }
    pool.barrier().unwrap();
}

#[test]
fn a_job_that_shares_pages_falsely_is_told_so_in_one_line() {
    let own = std::env::current_exe().unwrap();
    let rank = hanare_testkit::words("top::rank_that_shares_pages");
    let words = [&["run", "--nodes", "2", "-n", "2", "--", own.to_str().unwrap()][..], &rank].concat();
    let ended = run(&mut command(&words));
    assert!(ended.status.success(), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("to and fro")).collect();
    let [line] = &lines[..] else { panic!("{}", ended.stderr) };
    assert!(line.starts_with("hanare: page") && line.contains("of 'rows' went to and fro"), "{line}");
    assert!(line.contains("times between ranks 0 and 1: Explicit would save about "), "{line}");
}
