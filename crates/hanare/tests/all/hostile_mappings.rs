//! Programs that lie when they share a region: forged grants, false layouts, rights they do not have. Nobody gets in, and the node
//! lives.

use crate::intruder;
use crate::support;

use hanare::{Consistency, CreateOptions, Error, Pool};
use hanare_protocol::id::{Epoch, Gid, NodeId, Rights, Slot, User};
use hanare_protocol::placement::{Extent, Layout, Span};
use hanare_protocol::wire::control::{Answer, Existing, Made, NodeAddress, RegionView, Request};
use intruder::{Intruder, forged};
use std::os::unix::fs::FileExt;
use support::TestPool;

const LEN: u64 = 64 * 4096;

fn create(client: &Pool, name: &str, mode: u32) -> hanare::Region {
    client.create(name, LEN, &CreateOptions { mode, ..CreateOptions::default() }).unwrap()
}

/// What an honest program would have been told of a region of one extent, with no grant.
fn guessed(pool: &TestPool, gid: Gid) -> RegionView {
    let node = NodeId(0);
    let extents = vec![Extent { node, slot: Slot(0), len: LEN }];
    RegionView {
        copies: 1,
        owner: User { uid: 0, gid: 0 },
        mode: 0o600,
        name: "guessed".to_owned(),
        gid,
        rights: Rights::Write,
        layout: Layout { spans: vec![Span { len: LEN, chunk: LEN, extents }] },
        grants: vec![hanare_protocol::id::Grant([0; 16])],
        nodes: vec![NodeAddress { node, epoch: Epoch(1), address: pool.nodes[0].address().to_owned() }],
        attributes: Default::default(),
        made: Made::Found,
    }
}

fn share(intruder: &mut Intruder, view: &RegionView, consistency: Consistency) -> Result<Answer, Error> {
    let (answer, fds) = intruder.ask_with_fds(&Request::Share { view: view.clone(), consistency });
    assert!(answer.is_ok() || fds.is_empty(), "a refusal brings no descriptors");
    answer
}

/// Something untrue of a region.
type Lie = Box<dyn Fn(&mut RegionView)>;

#[test]
fn a_forged_grant_shares_nothing() {
    let pool = TestPool::start(1, 16 << 20);
    let owner = pool.client(0);
    let region = create(&owner, "secret", 0o600);
    region.put(0, b"OWNER").unwrap();
    let mut intruder = Intruder::attach(pool.nodes[0].socket());
    let view = guessed(&pool, region.gid());
    for rights in [Rights::Read, Rights::Write] {
        for consistency in [Consistency::Explicit, Consistency::Coherent] {
            let answer = share(&mut intruder, &forged(&view, rights), consistency);
            assert!(matches!(answer, Err(Error::GrantRefused { .. })), "before anybody maps it: {answer:?}");
        }
    }
    let mapping = owner.open("secret").unwrap().map(Consistency::Coherent).unwrap();
    let unknown = guessed(&pool, Gid(77));
    let mut other_layout = view.clone();
    let extents = vec![Extent { len: 2 * LEN, ..view.layout.spans[0].extents[0] }];
    other_layout.layout.spans[0] = Span { len: 2 * LEN, chunk: 2 * LEN, extents };
    for rights in [Rights::Read, Rights::Write] {
        for consistency in [Consistency::Coherent, Consistency::Explicit, Consistency::Entry] {
            for view in [&view, &unknown, &other_layout] {
                let answer = share(&mut intruder, &forged(view, rights), consistency);
                let Err(error @ Error::GrantRefused { .. }) = answer else { panic!("while its owner maps it: {answer:?}") };
                let same = Error::GrantRefused { gid: view.gid, node: NodeId(0) };
                assert_eq!(error.to_string(), same.to_string(), "nothing says that a region is mapped");
            }
        }
    }
    let error = pool.client(0).open("secret").unwrap().map(Consistency::Explicit).map(drop).unwrap_err();
    assert!(error.to_string().contains("map it coherent"), "who has the rights is told: {error}");
    // Names are told once the node knows who may see them.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let name = loop {
        let name = owner.page_stats().unwrap()[0].name.clone();
        if !name.is_empty() || std::time::Instant::now() > until {
            break name;
        }
    };
    assert_eq!(name, "secret");
    let mut back = [0; 5];
    mapping.read(0, &mut back).unwrap();
    assert_eq!(&back, b"OWNER");
}

#[test]
fn who_may_read_gets_nothing_that_its_writers_look_at() {
    let pool = TestPool::start(1, 16 << 20);
    let owner = pool.client(0);
    let region = create(&owner, "public", 0o644);
    region.put(0, b"OWNER").unwrap();
    let mapping = owner.open("public").unwrap().map(Consistency::Coherent).unwrap();
    let mut back = [0; 5];
    mapping.read(0, &mut back).unwrap();

    let mut intruder = Intruder::attach(pool.nodes[0].socket());
    let view = intruder.open("public", Rights::Read);
    assert_eq!(view.rights, Rights::Read);
    // The grants to read do not open it for writing.
    let more = RegionView { rights: Rights::Write, ..view.clone() };
    let answer = share(&mut intruder, &more, Consistency::Coherent);
    assert!(matches!(answer, Err(Error::GrantRefused { .. })), "{answer:?}");

    let (answer, fds) = intruder.ask_with_fds(&Request::Share { view, consistency: Consistency::Coherent });
    let Ok(Answer::Shared(shared)) = answer else { panic!("{answer:?}") };
    assert!(shared.files.iter().all(Option::is_none), "the home's own memory is for those who may write");
    for fd in fds {
        let file = std::fs::File::from(fd);
        let len = file.metadata().unwrap().len();
        file.write_all_at(&vec![b'X'; len as usize], 0).unwrap();
    }
    mapping.read(0, &mut back).unwrap();
    assert_eq!(&back, b"OWNER");
    mapping.write(0, b"STILL").unwrap();
    mapping.read(0, &mut back).unwrap();
    assert_eq!(&back, b"STILL");
    drop(mapping);
    region.get(0, &mut back).unwrap();
    assert_eq!(&back, b"STILL");
}

#[test]
fn readers_and_writers_of_one_host_see_one_memory() {
    let pool = TestPool::start(2, 16 << 20);
    let (writer, reader) = (pool.client(0), pool.client(0));
    create(&writer, "both", 0o644);
    let written = writer.open("both").unwrap().map(Consistency::Coherent).unwrap();
    let read = reader.open_for("both", Rights::Read).unwrap().map(Consistency::Coherent).unwrap();
    let far = pool.client(1).open("both").unwrap().map(Consistency::Coherent).unwrap();
    for round in 0..50u64 {
        let at = round % 7 * 4096 + 8 * round;
        let (from, other) = if round % 2 == 0 { (&written, &far) } else { (&far, &written) };
        from.write(at, &round.to_le_bytes()).unwrap();
        for mapping in [&read, other] {
            let mut back = [0; 8];
            mapping.read(at, &mut back).unwrap();
            assert_eq!(u64::from_le_bytes(back), round);
        }
    }
}

#[test]
fn a_layout_that_lies_is_refused_and_the_node_lives() {
    let pool = TestPool::start(2, 16 << 20);
    let mut intruder = Intruder::attach(pool.nodes[0].socket());
    let placement = hanare::Placement::Local;
    let good = intruder.region(&Request::Create {
        copies: 1,
        name: "own".to_owned(),
        len: LEN,
        placement,
        mode: 0o600,
        attributes: Default::default(),
        existing: Existing::Refuse,
    });
    let lies: Vec<Lie> = vec![
        Box::new(|view| view.layout.spans.clear()),
        Box::new(|view| view.layout.spans[0].extents.clear()),
        Box::new(|view| {
            // Two extents, and no chunk.
            let extent = view.layout.spans[0].extents[0];
            view.layout.spans[0].extents.push(extent);
            view.grants.push(view.grants[0]);
        }),
        Box::new(|view| view.layout.spans[0].len = 1 << 44),
        Box::new(|view| {
            view.layout.spans[0].len = 1 << 44;
            view.layout.spans[0].extents[0].len = 1 << 44;
        }),
        Box::new(|view| {
            // A page more than there is.
            view.layout.spans[0].len += 4096;
            view.layout.spans[0].extents[0].len += 4096;
        }),
        Box::new(|view| {
            // A second span, of a node that has nothing of it.
            let mut span = view.layout.spans[0].clone();
            span.extents[0].node = NodeId(1);
            (span.len, span.extents[0].len) = (1 << 43, 1 << 43);
            view.layout.spans.push(span);
            view.grants.push(view.grants[0]);
        }),
        Box::new(|view| {
            // The same extent behind itself would be two pages at one place.
            let mut span = view.layout.spans[0].clone();
            span.extents[0].slot = Slot(u32::MAX);
            view.layout.spans.push(span);
            view.grants.push(view.grants[0]);
        }),
        Box::new(|view| view.grants.clear()),
        Box::new(|view| view.layout.spans[0].extents[0].node = NodeId(77)),
        Box::new(|view| view.name = "a\0b".to_owned()),
        Box::new(|view| view.name = "x".repeat(100_000)),
    ];
    for (number, lie) in lies.iter().enumerate() {
        for consistency in [Consistency::Coherent, Consistency::Explicit] {
            let mut view = good.clone();
            view.nodes = vec![
                NodeAddress { node: NodeId(0), epoch: Epoch(1), address: pool.nodes[0].address().to_owned() },
                NodeAddress { node: NodeId(1), epoch: Epoch(1), address: pool.nodes[1].address().to_owned() },
            ];
            lie(&mut view);
            let answer = share(&mut intruder, &view, consistency);
            assert!(answer.is_err(), "lie {number}, {consistency}: {answer:?}");
        }
    }
    assert!(share(&mut intruder, &good, Consistency::Coherent).is_ok());
    let honest = pool.client(1);
    create(&honest, "after", 0o600);
    let mapping = honest.open("after").unwrap().map(Consistency::Coherent).unwrap();
    mapping.write(0, b"alive").unwrap();
}
