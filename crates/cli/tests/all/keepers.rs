//! Three keepers, in processes of their own: the coordinator is killed and stopped under creates and attaches, and the list changes.

use crate::pool;

use hanare::{CreateOptions, Error, Placement, Pool};
use hanare_protocol::id::{JobId, JobRank, Rank};
use pool::{Build, command, run};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const LEN: u64 = 4096;
/// Time for what must happen, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// A node of the pool, whose process may be another than before.
pub struct Node {
    address: String,
    pub socket: String,
    name: String,
    memory: &'static str,
    build: Build,
    process: Option<Child>,
}

impl Node {
    pub fn address(&self) -> &str {
        &self.address
    }
}

pub struct Keepers {
    state: tempfile::TempDir,
    pub nodes: Vec<Node>,
}

impl Keepers {
    /// Three keepers that have begun.
    pub fn start() -> Keepers {
        Keepers::start_by(None, ["64M"; 3], Build::Today)
    }

    /// The same, of the release before.
    pub fn start_of(build: Build) -> Keepers {
        Keepers::start_by(None, ["64M"; 3], build)
    }

    /// The same, with that name of this host in their addresses, and what each lends.
    fn start_by(name: Option<&str>, memory: [&'static str; 3], build: Build) -> Keepers {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let test = COUNT.fetch_add(1, Ordering::Relaxed);
        // The ports are the same in all lives, so they are chosen here.
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |listener: &TcpListener| match name {
            Some(name) => format!("{name}:{}", listener.local_addr().unwrap().port()),
            None => hanare_testkit::free_address().to_string(),
        };
        let node = |(at, listener): (usize, &TcpListener)| Node {
            address: address(listener),
            socket: format!("@hanare-keepers-{}-{test}-{at}", std::process::id()),
            name: format!("k{at}"),
            memory: memory[at],
            build,
            process: None,
        };
        let nodes = listeners.iter().enumerate().map(node).collect();
        drop(listeners);
        let mut keepers = Keepers { state: tempfile::tempdir().unwrap(), nodes };
        let started: Vec<Command> = (0..3).map(|at| keepers.command(at)).collect();
        let mut processes: Vec<Child> = started.into_iter().map(|mut command| command.spawn().unwrap()).collect();
        processes.iter_mut().for_each(await_ready);
        keepers.nodes.iter_mut().zip(processes).for_each(|(node, process)| node.process = Some(process));
        keepers
    }

    fn command(&self, at: usize) -> Command {
        let Node { address, socket, name, memory, build, .. } = &self.nodes[at];
        // Nodes that came later are told the first list, too.
        let list = self.nodes.iter().take(3).map(|node| node.address.as_str()).collect::<Vec<_>>().join(",");
        let mut command = build.command(&[
            "node",
            "--json",
            "--memory",
            memory,
            "--listen",
            address,
            "--name",
            name,
            "--socket",
            socket,
            "--keepers",
            &list,
        ]);
        command.env("HANARE_KEY", pool::key()).env("HANARE_STATE", self.state.path());
        command.env("HANARE_LOG", std::env::var("KEEPERS_LOG").unwrap_or_else(|_| "off".to_owned())).stdout(Stdio::piped());
        command
    }

    /// Starts a keeper again.
    fn restart(&mut self, at: usize) {
        let mut process = self.command(at).spawn().unwrap();
        await_ready(&mut process);
        self.nodes[at].process = Some(process);
    }

    pub fn client(&self, at: usize) -> Pool {
        Pool::attach_to(&self.nodes[at].socket, None).unwrap()
    }

    /// The keeper that leads, as that node sees it.
    fn leader_seen_by(&self, at: usize) -> Option<usize> {
        let keepers = self.client(at).own_status().unwrap().keepers;
        let leader = keepers.into_iter().find(|keeper| keeper.leads)?;
        self.nodes.iter().position(|node| node.address == leader.address)
    }

    /// The keeper that leads, once all have said so for a while: the first leader may soon be another.
    pub fn leader(&self) -> usize {
        let (mut last, mut looks) = (None, 0);
        until("one leads", || {
            let seen = self.leader_seen_by(0).filter(|leader| (1..3).all(|at| self.leader_seen_by(at) == Some(*leader)));
            looks = if seen.is_some() && seen == last { looks + 1 } else { 0 };
            last = seen;
            seen.filter(|_| looks > 40)
        })
    }

    /// Ends a keeper in good order, and starts it again with today's build.
    pub fn upgrade(&mut self, at: usize) {
        self.signal(at, Signal::TERM);
        self.nodes[at].process.take().unwrap().wait().unwrap();
        self.nodes[at].build = Build::Today;
        self.restart(at);
    }

    pub fn kill(&mut self, at: usize) {
        let mut process = self.nodes[at].process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn signal(&self, at: usize, signal: Signal) {
        let process = self.nodes[at].process.as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }
}

impl Drop for Keepers {
    fn drop(&mut self) {
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn await_ready(process: &mut Child) {
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("address"), "{line}");
}

#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Creates regions at the node of that socket, one after another, until it is told to stop. Returns their names and the longest time of one.
fn create(socket: &str, stop: &AtomicBool, made: &AtomicU32) -> (Vec<String>, Duration) {
    let (mut names, mut longest) = (Vec::new(), Duration::ZERO);
    let pool = Pool::attach_to(socket, None).unwrap();
    let number = pool.node().0;
    let options = CreateOptions { placement: format!("node={number}").parse().unwrap(), ..CreateOptions::default() };
    while !stop.load(Ordering::Relaxed) {
        let (name, begun) = (format!("r.{number}.{}", names.len()), Instant::now());
        let region = pool.create(&name, LEN, &options).unwrap();
        region.put(0, name.as_bytes()).unwrap();
        longest = longest.max(begun.elapsed());
        names.push(name);
        made.fetch_add(1, Ordering::Relaxed);
        // A program attaches, and sees what was answered.
        let other = Pool::attach_to(socket, None).unwrap();
        assert_eq!(other.open(names.last().unwrap()).unwrap().len(), LEN);
    }
    (names, longest)
}

/// Waits until each program has made some more regions.
fn go_on(made: &[AtomicU32]) {
    let before: Vec<u32> = made.iter().map(|made| made.load(Ordering::Relaxed)).collect();
    until("creates go on", || {
        made.iter().zip(&before).all(|(made, before)| made.load(Ordering::Relaxed) > before + 5).then_some(())
    });
}

/// Ends the creates when it is dropped, also where the test fails.
pub struct Stopper<'a>(pub &'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Creates go on at two keepers and at a node that is none, while something happens to the third keeper, the coordinator. Every region that
/// was answered is there afterwards.
fn loses(lose: impl FnOnce(&mut Keepers, usize), back: impl FnOnce(&mut Keepers, usize)) {
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    let no_keeper = pool::Node::start(Some(keepers.nodes[leader].address()), &[]);
    let mut sockets: Vec<String> = others.iter().map(|at| keepers.nodes[*at].socket.clone()).collect();
    sockets.push(no_keeper.socket.clone());
    let pools: Vec<Pool> = others.iter().map(|at| keepers.client(*at)).collect();
    let (stop, counts) = (AtomicBool::new(false), [0; 3].map(AtomicU32::new));
    let made = std::thread::scope(|scope| {
        let works: Vec<_> =
            sockets.iter().zip(&counts).map(|(socket, made)| scope.spawn(|| create(socket, &stop, made))).collect();
        let stopper = Stopper(&stop);
        go_on(&counts);
        lose(&mut keepers, leader);
        let next = until("another leads", || keepers.leader_seen_by(others[0]).filter(|next| *next != leader));
        assert!(others.contains(&next));
        go_on(&counts);
        drop(stopper);
        works.into_iter().map(|work| work.join().unwrap()).collect::<Vec<_>>()
    });
    for ((names, longest), who) in made.iter().zip(["a keeper", "a keeper", "a node that is none"]) {
        eprintln!("{} regions by {who}, the longest create took {longest:?}", names.len());
    }
    back(&mut keepers, leader);
    let names: BTreeSet<String> = made.into_iter().flat_map(|(names, _)| names).collect();
    let listed: BTreeSet<String> = pools[0].list().unwrap().into_iter().map(|region| region.name).collect();
    assert!(listed.is_superset(&names), "{:?} are not listed", names.difference(&listed).collect::<Vec<_>>());
    // No two regions have the same bytes.
    for name in &names {
        let mut bytes = vec![0; name.len()];
        pools[1].open(name).unwrap().get(0, &mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), *name);
    }
    let told = run(command(&["keeper", "ls"]).env("HANARE_NODE", &keepers.nodes[others[0]].socket));
    assert!(told.status.success() && String::from_utf8_lossy(&told.stdout).contains("coordinator"), "{told:?}");
}

#[test]
fn when_the_coordinator_is_killed_another_keeper_goes_on_and_no_answered_region_is_missed() {
    loses(Keepers::kill, Keepers::restart);
}

#[test]
fn when_the_coordinator_stands_still_another_keeper_goes_on_and_the_first_is_none_when_it_wakes() {
    let lose = |keepers: &mut Keepers, leader| keepers.signal(leader, Signal::STOP);
    let back = |keepers: &mut Keepers, leader: usize| {
        keepers.signal(leader, Signal::CONT);
        until("it follows", || keepers.leader_seen_by(leader).filter(|next| *next != leader));
        until("it is a member", || keepers.client(leader).status().ok());
    };
    loses(lose, back);
}

#[test]
fn a_keeper_that_does_not_lead_is_missed_by_nobody() {
    // Keepers may be listed by names: each still knows itself.
    let mut keepers = Keepers::start_by(Some("localhost"), ["64M"; 3], Build::Today);
    let leader = keepers.leader();
    let other = (leader + 1) % 3;
    let socket = keepers.nodes[leader].socket.clone();
    let (stop, counts) = (AtomicBool::new(false), [AtomicU32::new(0)]);
    let (names, longest) = std::thread::scope(|scope| {
        let work = scope.spawn(|| create(&socket, &stop, &counts[0]));
        let stopper = Stopper(&stop);
        go_on(&counts);
        keepers.kill(other);
        go_on(&counts);
        drop(stopper);
        work.join().unwrap()
    });
    eprintln!("{} regions, the longest create took {longest:?}", names.len());
}

#[test]
fn a_keeper_may_lend_nothing_and_its_programs_have_regions_elsewhere() {
    let mut keepers = Keepers::start_by(None, ["64M", "64M", "0"], Build::Today);
    keepers.leader();
    let pool = keepers.client(2);
    let witness = pool.node();
    for (placement, copies) in [("local", 1), ("interleave=4096", 1), ("local", 2)] {
        let options = CreateOptions { placement: placement.parse().unwrap(), copies, ..CreateOptions::default() };
        let region = pool.create(&format!("{placement}.{copies}"), 8 * LEN, &options).unwrap();
        region.put(0, b"elsewhere").unwrap();
        assert!(region.layout().extents().all(|extent| extent.node != witness), "{placement}");
    }
    let options = CreateOptions { copies: 3, ..CreateOptions::default() };
    let refused = pool.create("three", LEN, &options).map(drop).unwrap_err();
    assert!(refused.to_string().contains("2 that lend memory"), "{refused}");
    let there = CreateOptions { placement: Placement::Node(witness), ..CreateOptions::default() };
    assert!(matches!(pool.create("there", LEN, &there).map(drop), Err(Error::PoolFull { .. })));
    // It votes: names go on without one of the others, and bytes with copies stay.
    keepers.kill(0);
    until("creates go on", || pool.create("after", LEN, &CreateOptions::default()).ok());
    let mut bytes = [0; 9];
    pool.open("local.2").unwrap().get(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"elsewhere");
}

#[test]
fn without_a_majority_creates_are_refused_in_time_and_go_on_when_a_keeper_is_back() {
    let mut keepers = Keepers::start();
    let alone = keepers.client(0);
    alone.create("before", LEN, &CreateOptions::default()).unwrap();
    keepers.kill(1);
    keepers.kill(2);
    let begun = Instant::now();
    let refused = alone.create("without", LEN, &CreateOptions::default()).map(drop).unwrap_err();
    assert!(matches!(refused, Error::NoCoordinator { .. } | Error::Timeout { .. }), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    keepers.restart(1);
    until("creates go on", || alone.create("after", LEN, &CreateOptions::default()).ok());
    until("all are listed", || alone.open("before").ok());
}

impl Keepers {
    fn file(&self, at: usize) -> PathBuf {
        self.state.path().join(format!("keeper-{}.redb", self.nodes[at].name))
    }

    /// Starts a node more, which is no keeper. Returns its place.
    fn join(&mut self) -> usize {
        let at = self.nodes.len();
        let (address, socket) = (hanare_testkit::free_address().to_string(), format!("{}-{at}", self.nodes[0].socket));
        self.nodes.push(Node { address, socket, name: format!("k{at}"), memory: "64M", build: Build::Today, process: None });
        self.restart(at);
        at
    }

    /// `hanare keeper WHAT ADDRESS`, by a program of another node's host.
    fn change(&self, what: &str, address: &str, by: usize) -> Result<(), String> {
        let told = run(command(&["keeper", what, address]).env("HANARE_NODE", &self.nodes[by].socket));
        if told.status.success() { Ok(()) } else { Err(told.stderr) }
    }

    fn replace(&self, at: usize, by: usize) -> Result<(), String> {
        self.change("replace", &self.nodes[at].address, by)
    }

    /// A region is made by a program of that node's host, once that is possible.
    fn create(&self, at: usize, name: &str) {
        let pool = self.client(at);
        until(&format!("{name} is created"), || match pool.create(name, LEN, &CreateOptions::default()) {
            Ok(_) | Err(Error::NameTaken { .. }) => Some(()),
            Err(_) => None,
        });
    }

    fn names(&self, at: usize) -> BTreeSet<String> {
        self.client(at).list().unwrap().into_iter().map(|region| region.name).collect()
    }

    /// The addresses of the keepers, as that node knows them.
    fn listed(&self, at: usize) -> BTreeSet<String> {
        self.client(at).own_status().unwrap().keepers.into_iter().map(|keeper| keeper.address).collect()
    }

    fn addresses(&self, all: &[usize]) -> BTreeSet<String> {
        all.iter().map(|at| self.nodes[*at].address.clone()).collect()
    }

    fn reaches(&self, at: usize, other: usize) -> bool {
        let keepers = self.client(at).own_status().unwrap().keepers;
        keepers.iter().any(|keeper| keeper.address == self.nodes[other].address && keeper.is_reached == Some(true))
    }
}

#[test]
fn a_keeper_whose_disk_is_lost_takes_part_with_another_one_and_the_old_one_never_again() {
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let [lost, third] = [1, 2].map(|step| (leader + step) % 3);
    let create = |keepers: &Keepers, name: &str| keepers.create(leader, name);
    create(&keepers, "before");
    let refused = keepers.replace(lost, third).unwrap_err();
    assert!(refused.contains("it answers"), "{refused}");
    let refused = keepers.replace(leader, third).unwrap_err();
    assert!(refused.contains("it answers"), "{refused}");
    keepers.kill(lost);
    let old = keepers.state.path().join("old");
    std::fs::rename(keepers.file(lost), &old).unwrap();
    // An empty disk alone is refused.
    let mut process = keepers.command(lost).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(!keepers.reaches(leader, lost));
    process.kill().unwrap();
    process.wait().unwrap();
    until("its place is free", || keepers.replace(lost, third).ok());
    // Its place may have been freed for a disk that never came: the next one has it.
    std::fs::remove_file(keepers.file(lost)).unwrap();
    keepers.replace(lost, leader).unwrap();
    create(&keepers, "meanwhile");
    keepers.restart(lost);
    until("it takes part", || keepers.reaches(leader, lost).then_some(()));

    // The new disk is one of the two that are left.
    keepers.kill(third);
    create(&keepers, "with a new disk");
    keepers.kill(leader);
    keepers.restart(third);
    keepers.create(lost, "after");
    let names = ["after".to_owned(), "before".to_owned(), "meanwhile".to_owned(), "with a new disk".to_owned()];
    let listed = keepers.names(lost);
    assert!(listed.is_superset(&names.into()), "{listed:?}");

    keepers.restart(leader);
    keepers.kill(lost);
    std::fs::rename(&old, keepers.file(lost)).unwrap();
    let mut process = keepers.command(lost).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(!keepers.reaches(third, lost) && !keepers.reaches(leader, lost), "the lost disk is back");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_keeper_is_added_and_the_one_that_leads_is_removed_while_names_go_on() {
    let mut keepers = Keepers::start();
    let first = keepers.leader();
    let others = [1, 2].map(|step| (first + step) % 3);
    let refused = keepers.change("add", "127.0.0.1:1", first).unwrap_err();
    assert!(refused.contains("no node of this pool"), "{refused}");
    let fourth = keepers.join();
    let address = keepers.nodes[fourth].address.clone();
    assert_eq!(keepers.listed(fourth), keepers.addresses(&[0, 1, 2]));
    until("it is added", || keepers.change("add", &address, fourth).ok());
    keepers.change("add", &address, fourth).unwrap();
    until("it takes part", || keepers.reaches(others[0], fourth).then_some(()));
    assert_eq!(keepers.listed(others[1]), keepers.addresses(&[0, 1, 2, fourth]));
    keepers.create(fourth, "of four");

    let rest = [others[0], others[1], fourth];
    let socket = keepers.nodes[others[0]].socket.clone();
    let (stop, counts) = (AtomicBool::new(false), [AtomicU32::new(0)]);
    let first_address = keepers.nodes[first].address.clone();
    let (names, longest) = std::thread::scope(|scope| {
        let work = scope.spawn(|| create(&socket, &stop, &counts[0]));
        let stopper = Stopper(&stop);
        go_on(&counts);
        keepers.change("remove", &first_address, others[1]).unwrap();
        go_on(&counts);
        drop(stopper);
        work.join().unwrap()
    });
    eprintln!("{} regions, the longest create took {longest:?}", names.len());
    assert_eq!(keepers.listed(others[0]), keepers.addresses(&rest));
    let leader = |keepers: &Keepers, by: usize| keepers.leader_seen_by(by).filter(|leader| rest.contains(leader));
    let next = until("another leads", || leader(&keepers, others[0]));
    // The removed one is an ordinary node, which knows the keepers of today after its next start, too.
    keepers.create(first, "of an ordinary node");
    keepers.kill(first);
    keepers.restart(first);
    keepers.create(first, "of its next life");
    until("it knows them", || (keepers.listed(first) == keepers.addresses(&rest)).then_some(()));

    keepers.kill(next);
    let left = rest.into_iter().find(|at| *at != next).unwrap();
    keepers.create(left, "of two");
    keepers.create(first, "of one more");
    let all: BTreeSet<String> =
        ["of four", "of an ordinary node", "of its next life", "of two", "of one more"].map(str::to_owned).into();
    let listed = keepers.names(left);
    assert!(listed.is_superset(&all) && listed.is_superset(&names.into_iter().collect()), "{listed:?}");
}

#[test]
fn a_keeper_that_was_away_or_is_new_gets_what_is_longer_than_a_message() {
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let [away, third] = [1, 2].map(|step| (leader + step) % 3);
    keepers.kill(away);
    let pool = keepers.client(leader);
    let attributes = [("text".to_owned(), "a".repeat(4_000))].into_iter().collect();
    let options = CreateOptions { attributes, ..CreateOptions::default() };
    // Some pieces of messages, and more than one.
    let names: BTreeSet<String> = (0..150).map(|number| format!("long.{number}")).collect();
    for name in &names {
        until("it is created", || match pool.create(name, LEN, &options) {
            Ok(_) | Err(Error::NameTaken { .. }) => Some(()),
            Err(_) => None,
        });
    }
    keepers.restart(away);
    until("it takes part", || keepers.reaches(leader, away).then_some(()));
    let fourth = keepers.join();
    let address = keepers.nodes[fourth].address.clone();
    until("it is added", || keepers.change("add", &address, fourth).ok());
    until("it takes part", || keepers.reaches(fourth, away).then_some(()));
    keepers.kill(third);
    keepers.create(away, "after");
    assert!(keepers.names(fourth).is_superset(&names));
}

/// Puts numbers into a word, one after another, until it is told to stop. Returns the last one and the longest time of a put.
fn count(socket: &str, word: u64, stop: &AtomicBool, puts: &AtomicU32) -> (u64, Duration) {
    let region = Pool::attach_to(socket, None).unwrap().open("counted").unwrap();
    let (mut number, mut longest) = (0u64, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        number += 1;
        region
            .put(word * 8, &number.to_le_bytes())
            .unwrap_or_else(|error| panic!("put {number} of word {word}, after {:?}: {error}", begun.elapsed()));
        longest = longest.max(begun.elapsed());
        puts.fetch_add(1, Ordering::Relaxed);
    }
    (number, longest)
}

/// The coordinator's node is also home of bytes with copies. Programs at the two others put there while something happens to it.
fn loses_home_and_coordinator(lose: impl FnOnce(&mut Keepers, usize)) {
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let sockets = [1, 2].map(|step| keepers.nodes[(leader + step) % 3].socket.clone());
    let home = keepers.client(leader).node();
    let options = CreateOptions { placement: Placement::Node(home), copies: 2, ..CreateOptions::default() };
    let region = keepers.client((leader + 1) % 3).create("counted", LEN, &options).unwrap();
    let (stop, counts) = (AtomicBool::new(false), [AtomicU32::new(0), AtomicU32::new(0)]);
    let counted = std::thread::scope(|scope| {
        let works = (0..).zip(sockets.iter().zip(&counts));
        let works = works.map(|(word, (socket, puts))| {
            scope.spawn({
                let stop = &stop;
                move || count(socket, word, stop, puts)
            })
        });
        let works: Vec<_> = works.collect();
        let stopper = Stopper(&stop);
        go_on(&counts);
        lose(&mut keepers, leader);
        go_on(&counts);
        drop(stopper);
        works.into_iter().map(|work| work.join().unwrap()).collect::<Vec<_>>()
    });
    for (word, (number, longest)) in (0..).zip(counted) {
        eprintln!("{number} puts, the longest took {longest:?}");
        let mut bytes = [0; 8];
        region.get(word * 8, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), number);
    }
}

#[test]
fn a_killed_node_that_was_coordinator_and_home_costs_no_answered_byte_and_no_error() {
    loses_home_and_coordinator(Keepers::kill);
}

#[test]
fn a_stopped_node_that_was_coordinator_and_home_costs_no_answered_byte_and_no_error() {
    loses_home_and_coordinator(|keepers, leader| keepers.signal(leader, Signal::STOP));
}

/// Takes the lock as soon as it can be had. Returns whether it was abandoned.
#[track_caller]
fn take(pool: &Pool) -> (hanare::LockGuard, bool) {
    let guard = pool.lock_within("counter", PATIENCE).unwrap();
    let was_abandoned = guard.was_abandoned();
    (guard, was_abandoned)
}

#[test]
fn a_lock_at_a_name_is_given_by_one_home_at_a_time() {
    let keepers = Keepers::start();
    let leader = keepers.leader();
    let [one, other] = [1, 2].map(|step| keepers.client((leader + step) % 3));
    let at_leader = keepers.client(leader);
    take(&one).0.unlock().unwrap();
    let (held, _) = take(&at_leader);
    assert!(one.try_lock("counter").unwrap().is_none(), "it is held");
    if keepers.leader_seen_by((leader + 1) % 3) != Some(leader) {
        // On a loaded machine another leads by now, and is the home. The holder is alive, and nobody else would get the lock.
        return a_lock_at_a_name_is_given_by_one_home_at_a_time();
    }
    keepers.signal(leader, Signal::STOP);
    // The home stands still with the lock. The next one gives it, and says that somebody may be at work with it.
    let (guard, was_abandoned) = take(&one);
    assert!(was_abandoned);
    assert!(other.try_lock("counter").unwrap().is_none(), "one has it");
    keepers.signal(leader, Signal::CONT);
    until("it follows", || keepers.leader_seen_by(leader).filter(|next| *next != leader));
    drop(held);
    // The former home gives it to nobody, also not to programs that know no other home.
    until("the former home is asked", || match at_leader.try_lock("counter") {
        Ok(None) => Some(()),
        Ok(Some(_)) => panic!("two have the lock"),
        Err(_) => None,
    });
    guard.unlock().unwrap();
    let (guard, was_abandoned) = take(&at_leader);
    assert!(!was_abandoned, "its holder gave it back");
    drop(guard);
}

#[test]
fn barriers_of_a_job_go_on_when_the_coordinator_is_killed() {
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let sockets = [1, 2].map(|step| keepers.nodes[(leader + step) % 3].socket.clone());
    std::thread::scope(|scope| {
        let ranks = (0..).zip(&sockets).map(|(rank, socket)| {
            scope.spawn(move || {
                let who = JobRank { job: JobId(77), rank: Rank(rank), ranks: 2 };
                let pool = Pool::attach_to(socket, Some(who)).unwrap();
                for barrier in 0..300 {
                    pool.barrier().unwrap_or_else(|error| panic!("rank {rank}, barrier {barrier}: {error}"));
                    std::thread::sleep(Duration::from_millis(4));
                }
            })
        });
        let ranks: Vec<_> = ranks.collect();
        std::thread::sleep(Duration::from_millis(400));
        keepers.kill(leader);
        ranks.into_iter().for_each(|rank| rank.join().unwrap());
    });
}
