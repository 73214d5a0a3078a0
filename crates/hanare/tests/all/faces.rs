//! Nodes count commands by the face that sent them, and no program adds a face.

use crate::raw_link::Raw;
use crate::support::{TestPool, on};

use hanare::{Consistency, CreateOptions, Pool, ProgramFace, Shape};
use hanare_protocol::id::{Grant, Slot};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::control::NodeCounts;
use hanare_protocol::wire::exchange::{Query, Reply, face_head};
use hanare_protocol::wire::face::ABOUT_FACES;
use hanare_protocol::wire::head::{HEAD_LEN, Head, Kind};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// A node's counts by face.
fn counts(pool: &Pool, node: usize) -> BTreeMap<ProgramFace, NodeCounts> {
    let told = pool.face_counts(&pool.status().unwrap().nodes[node]).unwrap().expect("it is of this build");
    told.faces.into_iter().map(|(face, counts)| (ProgramFace::of(face.into()), counts)).collect()
}

/// Commands of a kind, and their bytes.
fn done(counts: &NodeCounts, kind: &str) -> (u64, u64) {
    let of = counts.commands.iter().filter(|command| command.kind == kind);
    of.fold((0, 0), |(count, bytes), command| (count + command.count, bytes + command.bytes))
}

#[test]
fn each_link_of_a_program_tells_its_face_and_a_node_is_one_of_its_own() {
    let pool = TestPool::start(2, 64 << 20);
    let (here, there) = (pool.client(0), pool.client(1));
    // Small ones are reached by commands from the own host, too.
    let small = here.create("small", 1000, &on(0)).unwrap();
    small.put(0, &[7; 10]).unwrap();
    there.open("small").unwrap().put(0, &[7; 100]).unwrap();
    let large = here.create("large", 1 << 20, &on(0)).unwrap();
    // Threads that flush speak on connections of their own.
    let mapping = there.open("large").unwrap().map(Consistency::Explicit).unwrap();
    mapping.write(4096, &[5; 8]).unwrap();
    mapping.flush(0, 1 << 20).unwrap();
    // A node fetches for a copy.
    let target = here.create("target", 1 << 20, &on(1)).unwrap();
    here.copy(&large, Shape::contiguous(0, 4096), &target, Shape::contiguous(0, 4096)).unwrap();
    let home = counts(&here, 0);
    assert_eq!(home.keys().copied().collect::<Vec<_>>(), [ProgramFace::Node, ProgramFace::Rust], "{home:?}");
    // Two puts, and the word that was flushed.
    assert_eq!(done(&home[&ProgramFace::Rust], "put"), (3, 118), "{home:?}");
    assert_eq!(done(&home[&ProgramFace::Node], "get").1, 4096);
    // Both counts tell the same.
    let all = here.node_counts().unwrap();
    let sum = |counts: &NodeCounts| counts.commands.iter().map(|command| command.bytes).sum::<u64>();
    assert_eq!(sum(&all), home.values().map(sum).sum::<u64>());
}

#[test]
fn parts_of_a_flush_to_copies_count_as_puts() {
    let pool = TestPool::start(2, 64 << 20);
    let program = pool.client(0);
    let region = program.create("copied", 1 << 20, &CreateOptions { copies: 2, ..on(1) }).unwrap();
    let mapping = region.map(Consistency::Explicit).unwrap();
    mapping.write(0, &[5; 200_000]).unwrap();
    mapping.flush(0, 1 << 20).unwrap();
    // A part has as many whole pages as 128 KiB.
    assert_eq!(done(&counts(&program, 1)[&ProgramFace::Rust], "put"), (2, 200_000));
}

#[test]
fn no_number_and_no_repetition_adds_a_face_or_ends_a_node() {
    let pool = TestPool::start(1, 64 << 20);
    let client = pool.client(0);
    let mut raw = Raw::connect(pool.nodes[0].address());
    let forged = |raw: &mut Raw| {
        let command = Command::new(Op::Get, 0, Slot(0), Grant([7; 16]), &Shape::contiguous(0, 8)).encode();
        let head = Head { count: 1, body_len: command.len() as u64, ..Head::new(Kind::Commands, 5) };
        raw.0.write_all(&[&head.encode()[..], &command].concat()).unwrap();
        assert_eq!(raw.answer().0.kind, Kind::Refused);
    };
    let tell = |raw: &mut Raw, number: u64| {
        raw.0.write_all(&Head { detail: number, ..face_head(ProgramFace::C) }.encode()).unwrap();
        forged(raw);
    };
    let refused = || {
        let counts = counts(&client, 0);
        let of = |counts: &NodeCounts| counts.refused.iter().map(|(_, count)| count).sum::<u64>();
        counts.iter().map(|(face, counts)| (*face, of(counts))).filter(|(_, count)| *count > 0).collect::<Vec<_>>()
    };
    forged(&mut raw);
    assert_eq!(refused(), [(ProgramFace::Unknown, 1)], "it did not tell");
    for number in [u64::MAX, ProgramFace::COUNT as u64, ProgramFace::Node.number().into(), 0] {
        tell(&mut raw, number);
    }
    assert_eq!(refused(), [(ProgramFace::Unknown, 1), (ProgramFace::Other, 4)]);
    // Again and again, each time another.
    let many = (0..20_000).flat_map(|number| Head { detail: number, ..face_head(ProgramFace::C) }.encode());
    raw.0.set_write_timeout(None).unwrap();
    raw.0.write_all(&many.collect::<Vec<u8>>()).unwrap();
    tell(&mut raw, ProgramFace::Redis.number().into());
    assert_eq!(refused(), [(ProgramFace::Unknown, 1), (ProgramFace::Other, 4), (ProgramFace::Redis, 1)]);

    // A question with bytes behind it is refused, and one without is answered.
    let head = Head { body_len: 3, detail: ABOUT_FACES, ..Head::new(Kind::Look, 5) };
    raw.0.write_all(&[&head.encode()[..], &[1; 3]].concat()).unwrap();
    assert_eq!(raw.answer().0.kind, Kind::Refused);
    let (head, _) = Query::Faces.encode(6);
    raw.0.write_all(&head.encode()).unwrap();
    let (head, body) = raw.answer();
    let Ok(Reply::Faces(told)) = Reply::decode(&head, &body) else { panic!("{head:?}") };
    assert!(told.faces.iter().all(|(face, _)| usize::from(*face) < ProgramFace::COUNT));
    raw.assert_alive();
    // A telling has no body.
    raw.0.write_all(&Head { body_len: 1, ..face_head(ProgramFace::C) }.encode()).unwrap();
    assert_eq!(raw.0.read(&mut [0; HEAD_LEN]).unwrap_or(0), 0);
    client.create("still", 64, &on(0)).unwrap().put(0, &[1]).unwrap();
}
