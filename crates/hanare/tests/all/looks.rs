//! What a program sees of the pool: pages that go to and fro, locks with who has them and who waits, programs; and that another user sees none
//! of it.

use crate::support::TestPool;
use hanare::{Consistency, CreateOptions, NodeId, PageRun, Placement, Pool, Region, Seen, SharedMapping};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const OTHER: u32 = 65_534;

/// What every node tells, by number.
fn look(pool: &Pool, regions: &[&Region], cells: u32) -> Vec<Seen> {
    pool.status().unwrap().nodes.iter().map(|node| pool.look(node, regions, cells).unwrap()).collect()
}

/// Attaches as another user, which is a thread's own and ends with it.
fn attach_as_another(socket: &str) -> Pool {
    let socket = socket.to_owned();
    let attach = move || {
        let (user, group) = (rustix::process::Uid::from_raw(OTHER), rustix::process::Gid::from_raw(OTHER));
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        Pool::attach_to(&socket, None).unwrap()
    };
    std::thread::spawn(attach).join().unwrap()
}

/// A region on node 0, and its coherent mappings by two hosts, which store to one page by turns.
fn ping_pong(clients: &[Pool], name: &str, page: u64, rounds: u64) -> (Region, Vec<SharedMapping>) {
    let options = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
    let region = clients[0].create(name, 64 * PAGE, &options).unwrap();
    let maps: Vec<SharedMapping> =
        clients[1..3].iter().map(|client| client.open(name).unwrap().map(Consistency::Coherent).unwrap()).collect();
    for _ in 0..rounds {
        for (at, map) in maps.iter().enumerate() {
            map.word(page * PAGE + 8 * at as u64).unwrap().fetch_add(1, SeqCst);
        }
    }
    (region, maps)
}

#[test]
fn a_page_that_two_hosts_write_by_turns_is_told_with_its_nodes_also_after_they_unmapped_it() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let (region, maps) = ping_pong(&clients, "shared", 12, 50);
    // One host alone uses page 40, and both read page 50.
    for _ in 0..50 {
        maps[0].word(40 * PAGE).unwrap().fetch_add(1, SeqCst);
    }
    assert!(maps.iter().all(|map| map.word(50 * PAGE).unwrap().load(SeqCst) == 0));
    let told = |cells| look(&clients[0], &[&region], cells);
    let seen = told(16);
    let [stat] = &seen[0].pages[..] else { panic!("{:?}", seen[0].pages) };
    let [PageRun { first: 12, count: 1, returns, micros, nodes }] = &stat.contended[..] else { panic!("{:?}", stat.contended) };
    // The first access of each host returns to nobody.
    assert_eq!((*returns, *micros > 0, &nodes[..]), (97, true, &[NodeId(1), NodeId(2)][..]));
    assert_eq!((stat.name.as_str(), stat.hosts), ("shared", 2));
    // 64 pages in 16 cells.
    assert_eq!(seen[0].map.iter().map(|returns| u64::from(*returns)).collect::<Vec<_>>()[3], 97);
    assert_eq!((seen[0].map.len(), seen[0].map.iter().sum::<u32>()), (16, 97));
    // Its hosts know what happened there, and not which pages it happened to.
    assert!(seen[1..].iter().all(|seen| seen.pages[0].faults > 0 && seen.pages[0].contended.is_empty() && seen.map.is_empty()));
    let runs = stat.contended.clone();
    drop(maps);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let stat = told(0).swap_remove(0).pages.swap_remove(0);
        assert_eq!(stat.contended, runs);
        if stat.hosts == 0 {
            break;
        }
        assert!(Instant::now() < until, "a host does not leave");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_has_a_lock_and_who_waits_are_named_as_the_programs_are() {
    let pool = TestPool::start(2, 16 << 20);
    let ranks = pool.job(2);
    let held = ranks[1].lock("ledger").unwrap();
    let waits = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| ranks[0].lock("ledger").unwrap().unlock().unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        let seen = loop {
            let seen = look(&ranks[0], &[], 0);
            if seen[0].locks.iter().any(|lock| !lock.waiters.is_empty()) || Instant::now() > until {
                break seen;
            }
        };
        held.unlock().unwrap();
        waiter.join().unwrap();
        seen
    });
    let [lock] = &waits[0].locks[..] else { panic!("{:?}", waits[0].locks) };
    assert_eq!((lock.name.as_str(), lock.counts, waits[0].lock_count), ("ledger", (1, 1), 1));
    assert_eq!((&lock.holders[..], &lock.waiters[..]), (&[ranks[1].client()][..], &[ranks[0].client()][..]));
    let programs: Vec<_> = waits.iter().flat_map(|seen| &seen.programs).collect();
    for (number, rank) in ranks.iter().enumerate() {
        let found = programs.iter().find(|program| program.client == rank.client()).unwrap();
        assert_eq!((found.process, found.job.unwrap().rank.0), (std::process::id(), number as u32));
    }
    assert_eq!(look(&ranks[0], &[], 0)[0].locks, [], "it was given back");
}

#[test]
fn another_user_is_told_of_pages_that_it_may_read_alone() {
    if !rustix::process::geteuid().is_root() {
        return hanare_testkit::unable("only root may attach as another user");
    }
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let (_region, _maps) = ping_pong(&clients, "secret", 12, 50);
    let _held = clients[0].lock("ledger").unwrap();
    let other = attach_as_another(pool.nodes[0].socket());
    let open = ping_pong(&clients, "public", 7, 50);
    let mode = hanare::Changes { mode: Some(0o644), ..hanare::Changes::default() };
    clients[0].alter("public", &mode).unwrap();
    let public = other.open("public").unwrap();
    for seen in look(&other, &[&public], 0) {
        assert_eq!((seen.locks, seen.lock_count), (vec![], 0));
        assert!(seen.programs.iter().all(|program| program.user == OTHER), "{:?}", seen.programs);
        assert!(seen.pages.iter().all(|stat| stat.gid == public.gid()), "{:?}", seen.pages);
    }
    let stats = look(&other, &[&public], 0).swap_remove(0).pages;
    assert_eq!(stats.iter().filter(|stat| !stat.contended.is_empty()).count(), 1, "{stats:?}");
    assert_eq!(other.page_stats().unwrap(), []);
    drop(open);
}
