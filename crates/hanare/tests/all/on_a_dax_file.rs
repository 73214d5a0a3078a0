//! A node that lends a file in place of main memory: programs of its own host and of others reach it by commands, and have no pointers.

use crate::support;

use hanare::node::{Node, NodeOptions, Source};
use hanare::{Body, Consistency, CreateOptions, Error, Operator, Overflow, Placement, QueueForm, Unit, Wanted};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use support::{TestPool, on, options, pattern};

const LEN: u64 = 32 << 20;
const PAGE: u64 = 4096;
const SOON: Option<Duration> = Some(Duration::from_secs(20));

/// Node 0 lends a file, which goes with the result; node 1 lends memory.
fn start() -> (TestPool, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(LEN).unwrap();
    file.as_file().set_permissions(PermissionsExt::from_mode(0o600)).unwrap();
    let source = Source::Dax(file.path().to_owned());
    let first = Node::start(NodeOptions { source, ..options(LEN) }).unwrap();
    let join = Some(first.address().to_owned());
    let second = Node::start(NodeOptions { join, ..options(LEN) }).unwrap();
    (TestPool { nodes: vec![first, second] }, file)
}

#[test]
fn commands_reach_it_from_its_host_and_from_others() {
    let (pool, _file) = start();
    for client in [pool.client(0), pool.client(1)] {
        // A small one that is used often, one of a grain, and one of several slabs.
        for len in [100, 64 << 10, 5 << 20] {
            let region = client.create("r", len, &on(0)).unwrap();
            for round in 0..100u64 {
                let bytes = pattern(len.min(5000) as usize, round);
                region.put(len - bytes.len() as u64, &bytes).unwrap();
                let mut back = vec![0; bytes.len()];
                region.get(len - bytes.len() as u64, &mut back).unwrap();
                assert!(back == bytes, "round {round} of {len}");
            }
            if len > 100 {
                let before = region.fetch_word(8, Operator::Add, 5).unwrap();
                assert_eq!(region.fetch_word(8, Operator::Add, 0).unwrap(), before.wrapping_add(5));
            }
            let error = region.map_local().err().expect("no pointer is given out");
            assert!(matches!(&error, Error::BadUse { .. }), "{error}");
            client.remove("r").unwrap();
        }
    }
}

#[test]
fn explicit_and_entry_mappings_bring_its_pages_and_coherent_ones_are_refused() {
    let (pool, _file) = start();
    let (near, far) = (pool.client(0), pool.client(1));
    for consistency in [Consistency::Explicit, Consistency::Entry] {
        near.create("m", 8 * PAGE, &on(0)).unwrap();
        let [here, there] = [&near, &far].map(|client| client.open("m").unwrap().map(consistency).unwrap());
        here.write(10, b"stored here").unwrap();
        here.flush(0, 8 * PAGE).unwrap();
        there.update(0, 8 * PAGE).unwrap();
        let mut seen = [0; 11];
        there.read(10, &mut seen).unwrap();
        assert_eq!(&seen, b"stored here");
        there.write(5 * PAGE, b"and there").unwrap();
        there.flush(0, 8 * PAGE).unwrap();
        here.update(0, 8 * PAGE).unwrap();
        let mut seen = [0; 9];
        here.read(5 * PAGE, &mut seen).unwrap();
        assert_eq!(&seen, b"and there");
        drop((here, there));
        near.remove("m").unwrap();
    }
    near.create("c", 8 * PAGE, &on(0)).unwrap();
    for client in [&near, &far] {
        let refused =
            client.open("c").unwrap().map(Consistency::Coherent).err().expect("its pages are not taken out of mappings");
        assert!(refused.to_string().contains("explicit or entry"), "{refused}");
    }
    // It is as before.
    near.open("c").unwrap().put(0, b"x").unwrap();
}

#[test]
fn queues_locks_heaps_and_messages_work_over_it() {
    let (pool, _file) = start();
    let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 8, ports: 1, overflow: Overflow::Wait };
    for (number, (writer, reader)) in [(0, 0), (1, 0), (0, 1)].into_iter().enumerate() {
        let queue = pool.client(writer).create_queue(&format!("q{number}"), &form, &on(0)).unwrap();
        let mut reader = pool.client(reader).open_queue(&format!("q{number}")).unwrap().reader().unwrap();
        let mut writer = queue.writer().unwrap();
        for k in 0..100u8 {
            writer.send(&[k; 16]).unwrap();
            let mut unit = Vec::new();
            reader.receive(&mut unit, SOON).unwrap();
            assert_eq!(unit, [k; 16]);
        }
    }
    let client = pool.client(0);
    client.lock("l").unwrap().unlock().unwrap();

    let ranks = pool.job(2);
    let boxes = std::thread::scope(|scope| {
        let opening = ranks.iter().map(|rank| scope.spawn(|| rank.job_group().mailbox(1 << 20).unwrap())).collect::<Vec<_>>();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect::<Vec<_>>()
    });
    for (from, to) in [(0, 1), (1, 0)] {
        for len in [0, 100, 100_000] {
            boxes[from].send(to, 0, 5, b"head", Body::Bytes(&pattern(len, 3))).unwrap();
            let message = boxes[to as usize].receive(Wanted { from: Some(from as u32), context: 0, tag: Some(5) }, SOON).unwrap();
            let mut bytes = vec![0; message.len() as usize];
            message.read(0, &mut bytes).unwrap();
            assert!(bytes == pattern(len, 3), "{len} bytes from {from}");
        }
    }
}

#[test]
fn regions_move_between_a_file_and_memory() {
    let (pool, _file) = start();
    let client = pool.client(1);
    let region = client
        .create(
            "r",
            1 << 20,
            &CreateOptions { placement: Placement::Node(hanare::NodeId(0)), copies: 2, ..CreateOptions::default() },
        )
        .unwrap();
    region.put(5, b"both have it").unwrap();
    let told = client.backing(&client.status().unwrap().nodes[0], &[&region]).unwrap().unwrap();
    assert_eq!((told.kind, told.all.len, told.regions.len()), (hanare::BackingKind::DiskFile, 1 << 20, 1));
    let told = client.backing(&client.status().unwrap().nodes[1], &[]).unwrap().unwrap();
    assert_eq!((told.kind, told.regions), (hanare::BackingKind::Memory, Vec::new()), "nobody showed a grant");
}
