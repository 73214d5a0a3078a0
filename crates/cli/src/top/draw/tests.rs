use super::*;
use crate::faces::FaceSum;
use crate::top::sample::{LockSample, NodeSample, ProgramSample, RegionSample, RunSample, Traffic};
use hanare::{
    ClientId, Epoch, Gid, JobId, JobRank, LockStat, Memory, NodeId, NodeStatus, PageRun, Placement, ProgramFace, ProgramStat,
    Rank, RegionStat,
};
use hanare_protocol::lock::Mode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};

fn node(number: u32, faults: u64) -> NodeSample {
    let memory = Memory { lent: 4 << 30, used: 3 << 20, page: 4096, clients: 2, ..Memory::default() };
    let (name, address, alive, stays) = (format!("host-{number}"), "a:1".to_owned(), number < 2, Vec::new());
    let status =
        NodeStatus { node: NodeId(number), name, address, epoch: Epoch(1), alive, drains: false, memory, leaving: 0, stays };
    let traffic = Traffic { faults, hops: faults / 2, ..Traffic::default() };
    NodeSample { status, answers: number < 2, commands: faults * 10, bytes: faults << 20, refused: 0, traffic }
}

fn sample(at: Instant, faults: u64) -> Sample {
    let stat = |name: &str, gid| RegionStat {
        name: name.to_owned(),
        gid: Gid(gid),
        len: 4096 * 1024,
        placement: Placement::Local,
        nodes: vec![(NodeId(0), 4096)],
        copies: 1,
        whole_copies: 1,
        owner: 1000,
        mode: 0o600,
        lost: None,
        attributes: hanare::Attributes::default(),
    };
    let region = |name: &str, gid, returns| {
        let traffic = Traffic { faults, ..Traffic::default() };
        RegionSample { stat: stat(name, gid), programs: 2, hosts: 2, frames: 7, traffic, returns }
    };
    let run = PageRun { first: 12, count: 79, returns: 40_000 + faults, micros: 3_100_000, nodes: vec![NodeId(0), NodeId(1)] };
    let program = |rank: u32| {
        let job = Some(JobRank { job: JobId(0xabc << 100), rank: Rank(rank), ranks: 2 });
        let stat = ProgramStat { client: ClientId(rank.into()), process: 100 + rank, user: 1000, job };
        ProgramSample { node: NodeId(rank), stat }
    };
    let lock = LockStat {
        name: "ledger".to_owned(),
        mode: Mode::Exclusive,
        holders: vec![ClientId(0)],
        waiters: vec![ClientId(1)],
        counts: (1, 3),
    };
    let mut cells = vec![0; 1024];
    (12..91).for_each(|cell| cells[cell] = 500 + cell as u64);
    Sample {
        at,
        nodes: (0..3).map(|number| node(number, faults)).collect(),
        regions: vec![region("alpha", 1, 40_000), region("beta", 2, 0)],
        programs: vec![program(0), program(1)],
        locks: vec![LockSample { stat: lock, holders: vec!["rank 0".to_owned()], waiters: vec!["rank 1".to_owned()] }],
        lock_count: 1,
        runs: vec![RunSample { gid: Gid(1), region: "alpha".to_owned(), home: NodeId(0), run }],
        map: Some(RegionMap { region: "alpha".to_owned(), pages_each: 1, cells }),
        faces: [(ProgramFace::Files, FaceSum { commands: faults * 10, bytes: faults << 20, micros: faults * 25, refused: 1 })]
            .into(),
    }
}

/// A screen of two samples that lie 2 seconds apart.
fn view() -> View {
    let begun = Instant::now();
    let mut view = View::new(None);
    view.on_sample(Ok(sample(begun, 0)));
    view.on_sample(Ok(sample(begun + Duration::from_secs(2), 6_000)));
    view
}

fn screen(view: &View) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, view)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..24).map(line).collect()
}

fn press(view: &mut View, codes: &[KeyCode]) {
    codes.iter().for_each(|code| view.on_key(KeyEvent::new(*code, KeyModifiers::NONE)));
}

/// A line's words.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn nodes_stand_on_a_screen_of_80_by_24() {
    let lines = screen(&view());
    assert_eq!(lines[0], "hanare top: 2 of 3 nodes, 2 regions, 2 programs, 1 locks held");
    assert!(lines[1].starts_with(" 1 nodes  2 regions  3 programs  4 locks  5 to and fro  6 faces"), "{lines:#?}");
    let heads = ["NODE", "NAME", "STATE", "LENT", "USED", "PROGRAMS", "COMMANDS/S", "BYTES/S", "FAULTS/S", "HOPS/S"];
    assert_eq!(words(&lines[2]), heads, "whole: {lines:#?}");
    assert_eq!(words(&lines[3]), ["0", "host-0", "alive", "4.0G", "3.0M", "2", "30K", "2.9G", "3.0K", "1.5K"]);
    assert_eq!(words(&lines[5])[2], "lost");
    assert!(lines[23].contains("q quit"), "{lines:#?}");
}

#[test]
fn every_table_fits_and_shows_its_rows() {
    let mut view = view();
    for (key, row, parts) in [
        ('2', 3, vec!["alpha", "4.0M", "2", "2", "7", "3.0K", "0", "0", "40K"]),
        ('3', 4, vec!["rank", "1", "1", "101", "1000", "1", "of", "2", "0000abc00000"]),
        ('4', 3, vec!["ledger", "alone", "rank", "0", "3", "rank", "1", "and", "2", "more"]),
        ('5', 3, vec!["alpha", "pages", "12-90", "46K", "3.0K", "3.1", "s", "0,1", "0"]),
        ('6', 3, vec!["files", "60K", "5.9G", "30K", "2.9G", "2.5", "1"]),
    ] {
        press(&mut view, &[KeyCode::Char(key)]);
        let lines = screen(&view);
        assert_eq!(words(&lines[row]), parts, "table {key}: {lines:#?}");
    }
}

#[test]
fn rows_are_sorted_filtered_and_looked_into() {
    let mut view = view();
    // Sorted by name, the other way round.
    press(&mut view, &[KeyCode::Char('2'), KeyCode::Char('s'), KeyCode::Char('r')]);
    assert_eq!([3, 4].map(|line| words(&screen(&view)[line])[0].to_owned()), ["beta", "alpha"]);
    press(&mut view, &[KeyCode::Char('/'), KeyCode::Char('L'), KeyCode::Char('p'), KeyCode::Enter]);
    let lines = screen(&view);
    assert!(lines[1].ends_with("/Lp") && lines[4].is_empty() && words(&lines[3])[0] == "alpha", "{lines:#?}");
    press(&mut view, &[KeyCode::Enter]);
    assert_eq!(view.focus(), Some(Gid(1)));
    let lines = screen(&view);
    assert_eq!(lines[2], "region 'alpha': a page a cell, at most 590 returns in one");
    // Page 12 is the 13th of the first 64.
    let cells = |line: usize| lines[line].chars().skip(12).collect::<String>();
    assert!(cells(3).starts_with(&"·".repeat(12)) && !cells(3)["·".repeat(12).len()..].contains('·'), "{lines:#?}");
    assert_eq!(cells(5), "·".repeat(64));
    assert!(lines[19].starts_with("pages 12-90 went to and fro 46,000 times between nodes 0 and 1"), "{lines:#?}");
    press(&mut view, &[KeyCode::Esc]);
    assert_eq!(view.focus(), None);
    // A job: its programs alone.
    press(&mut view, &[KeyCode::Char('3'), KeyCode::Down, KeyCode::Enter]);
    assert_eq!((view.filter.as_str(), view.row), ("0000abc00000", 0));
    press(&mut view, &[KeyCode::Char('q')]);
    assert!(view.is_over());
}

#[test]
fn a_pool_that_does_not_answer_is_told_and_what_was_known_stays() {
    let mut view = view();
    view.on_sample(Err(anyhow::anyhow!("the coordinator does not answer")));
    let lines = screen(&view);
    assert_eq!(lines[0], "the coordinator does not answer");
    assert_eq!(words(&lines[3])[1], "host-0");
    assert!(screen(&View::new(None))[2].starts_with("looking at the pool"));
}
