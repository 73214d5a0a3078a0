//! Programs that ask without pause, never read, pile up descriptors or fill the journal's disk, and a peer that floods the
//! coordinator: others are served meanwhile.

use crate::apart::Apart;
use crate::intruder;
use crate::support;

use hanare::node::{Node, NodeOptions};
use hanare::{CreateOptions, Error, Placement, Pool};
use hanare_protocol::limits::REQUEST_LEN_MAX;
use hanare_protocol::wire::control::{self, Existing, FromNode, Request};
use hanare_protocol::wire::head::{Head, Kind};
use intruder::{Intruder, frame};
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::TestPool;

fn assert_served(client: &Pool) {
    for _ in 0..20 {
        client.status().unwrap();
    }
}

#[test]
fn a_program_that_asks_without_pause_holds_nobody_up() {
    let pool = TestPool::start(2, 16 << 20);
    let clients = [pool.client(0), pool.client(1)];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for request in [Request::Status, Request::Release { gid: hanare_protocol::id::Gid(1), keeps: false }] {
            for node in &pool.nodes {
                let (mut asking, is_over, request) = (Intruder::attach(node.socket()), &is_over, frame(&request).repeat(64));
                let mut reading = asking.0.try_clone().unwrap();
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) && asking.0.write_all(&request).is_ok() {}
                    let _ = asking.0.shutdown(std::net::Shutdown::Both);
                });
                scope.spawn(move || while reading.read(&mut [0; 1 << 16]).is_ok_and(|len| len > 0) {});
            }
        }
        let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let until = Instant::now() + Duration::from_secs(4);
            while Instant::now() < until {
                clients.iter().for_each(assert_served);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        assert!(served.is_ok(), "others are answered");
    });
    assert!(clients[0].status().unwrap().nodes.iter().all(|node| node.alive), "no lease is lost");
}

#[test]
fn answers_that_nobody_reads_do_not_pile_up() {
    let pool = Apart::start(1);
    let client = pool.client(0);
    for number in 0..200 {
        client
            .create(&format!("{number}-{}", "x".repeat(200)), 1, &CreateOptions { mode: 0o644, ..CreateOptions::default() })
            .unwrap();
    }
    let before = pool.resident(0);
    let mut intruder = Intruder::attach(pool.socket(0));
    intruder.0.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let requests = frame(&Request::List { after: String::new() }).repeat(100);
    let mut sent = 0;
    let ended = loop {
        match intruder.0.write(&requests) {
            Ok(len) => sent += len,
            Err(error) => break error,
        }
        assert!(sent < 64 << 20, "the node takes requests without end");
    };
    assert_eq!(ended.kind(), ErrorKind::WouldBlock);
    assert_served(&client);
    let more = pool.resident(0).saturating_sub(before);
    assert!(more < 128 << 20, "{} MiB more", more >> 20);
}

#[test]
fn descriptors_and_frames_beyond_the_limits_end_the_connection() {
    let pool = Apart::start(1);
    let client = pool.client(0);
    let before = pool.descriptors(0);
    let attacks: [&dyn Fn(&mut Intruder); 3] = [
        &|intruder| drop(intruder.0.write_all(&[8, 0, 0, 0, 0, 0, 0, 1])),
        &|intruder| drop(intruder.0.write_all(&(REQUEST_LEN_MAX as u64 + 1).to_le_bytes())),
        &|intruder| {
            let _ = intruder.0.write_all(&[0xff, 0, 0, 0, 1, 0, 0, 0]);
            while intruder.send_with_fds(&[0], 128) {}
        },
    ];
    for attack in attacks {
        let mut intruder = Intruder::attach(pool.socket(0));
        attack(&mut intruder);
        assert!(intruder.is_cut_off());
        assert_served(&client);
    }
    let after = pool.descriptors(0);
    assert!(after < before + 100, "{before} before, {after} after");
}

#[test]
fn a_peer_that_floods_the_coordinator_leaves_it_hearing_and_small() {
    let pool = Apart::start(2);
    let clients = [pool.client(0), pool.client(1)];
    let before = pool.resident(0);
    let mut stream = support::control_link(pool.address(0));
    let body = control::encode(&FromNode::Leave { keeps: false });
    let head = Head { body_len: body.len() as u64, ..Head::new(Kind::Control, 0) };
    let flood = [&head.encode()[..], &body].concat().repeat(1000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It is cut off when it has left enough answers unread.
        scope.spawn(|| {
            let mut is_open = true;
            while is_open && !is_over.load(Ordering::Relaxed) {
                is_open = stream.write_all(&flood).is_ok();
            }
        });
        let until = Instant::now() + Duration::from_secs(4);
        let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while Instant::now() < until {
                clients.iter().for_each(assert_served);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        assert!(served.is_ok(), "others are answered");
    });
    assert!(clients[0].status().unwrap().nodes.iter().all(|node| node.alive), "no lease is lost");
    let more = pool.resident(0).saturating_sub(before);
    assert!(more < 256 << 20, "{} MiB more", more >> 20);
}

#[test]
fn what_is_none_of_anybody_s_business_is_not_listed() {
    let pool = TestPool::start(1, 16 << 20);
    if !rustix::process::geteuid().is_root() {
        return hanare_testkit::unable("only root becomes another user");
    }
    let owner = pool.client(0);
    owner.create("private", 1, &CreateOptions { mode: 0o600, ..CreateOptions::default() }).unwrap();
    owner.create("public", 1, &CreateOptions { mode: 0o644, ..CreateOptions::default() }).unwrap();
    let mut other = Intruder::attach(pool.nodes[0].socket());
    let listed = match other.ask(&Request::List { after: String::new() }) {
        Ok(control::Answer::List { regions, .. }) => regions.into_iter().map(|region| region.name).collect::<Vec<_>>(),
        answer => panic!("{answer:?}"),
    };
    assert_eq!(listed, ["public"]);
    assert!(matches!(other.ask(&Request::Stat { name: "private".to_owned() }), Err(Error::NoPermission { .. })));
}

#[test]
fn memory_of_removed_regions_that_is_still_mapped_is_lent() {
    const LEN: u64 = 16 << 20;
    let pool = TestPool::start(1, 4 * LEN);
    let client = pool.client(0);
    let mut intruder = Intruder::attach(pool.nodes[0].socket());
    let mut files = Vec::new();
    let refused = loop {
        let name = format!("mapped{}", files.len());
        let create = Request::Create {
            copies: 1,
            name: name.clone(),
            len: LEN,
            placement: Placement::Local,
            mode: 0o600,
            attributes: Default::default(),
            existing: Existing::Refuse,
        };
        let view = match intruder.ask(&create) {
            Ok(control::Answer::Region(view)) => view,
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        };
        let slot = view.layout.extents().next().unwrap().slot;
        let (answer, fds) = intruder.ask_with_fds(&Request::Map { slot, grant: view.grants[0], pins: false });
        assert!(matches!(answer, Ok(control::Answer::Files(_))), "{answer:?}");
        intruder.ask(&Request::Remove { name }).unwrap();
        files.push(fds);
        assert!(files.len() < 20, "more than the node lends");
    };
    assert!(matches!(refused, Error::PoolFull { .. }), "{refused}");
    // With their program they are gone.
    drop((intruder, files));
    let until = Instant::now() + Duration::from_secs(20);
    while client.create("after", 3 * LEN, &CreateOptions::default()).is_err() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_disk_refuses_names_and_the_coordinator_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| std::process::Command::new(args[0]).args(&args[1..]).arg(folder.path()).status();
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=4m", "none"]).is_ok_and(|status| status.success()) {
        return hanare_testkit::unable("only root makes a small disk");
    }
    let journal = Some(folder.path().join("journal"));
    let node = Node::start(NodeOptions { journal: journal.clone(), ..support::options(16 << 20) }).unwrap();
    let client = Pool::attach_to(node.socket(), None).unwrap();
    let kept = client.create("kept", 4096, &CreateOptions::default()).unwrap();
    kept.put(0, b"bytes").unwrap();
    // Somebody's log on the same disk takes what there is but the last few pages.
    let mut log = std::fs::File::create(folder.path().join("log")).unwrap();
    while log.write_all(&[b'x'; 4096]).is_ok() {}
    let mut made = 0;
    let refused = loop {
        match client.create(&format!("{made}-{}", "n".repeat(240)), 1, &CreateOptions::default()) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 100_000);
    };
    assert!(matches!(&refused, Error::LimitReached { what, .. } if what.contains("journal")), "{refused}");
    let mut back = [0; 5];
    kept.get(0, &mut back).unwrap();
    assert_eq!(&back, b"bytes", "the coordinator's own bytes are there");
    client.open("kept").unwrap();
    client.remove("kept").unwrap();
    // With room there are names again.
    drop(log);
    std::fs::remove_file(folder.path().join("log")).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while client.create("again", 1, &CreateOptions::default()).is_err() {
        assert!(Instant::now() < until, "room is not noticed");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop((kept, client, node));
    assert!(mount(&["umount"]).unwrap().success());
}
