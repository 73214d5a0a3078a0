//! What was answered stays: nothing of a command that was given up, or whose program was killed, is carried out after a later command of
//! anybody was answered.
//!
//! Nodes and programs are processes. Where packets are to be lost each host has a network namespace of its own, on a bridge: a host that
//! leaves the bridge loses all packets without a sign, as behind a switch that fails.

#[path = "support/networks.rs"]
mod networks;

hanare_testkit::actors![client_process, node_process,];

use hanare::node::{Node, NodeOptions};
use hanare::{Consistency, CreateOptions, NodeId, Operator, Placement, Pool, Region, SharedMapping};
use networks::Networks;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes of each region: several TCP segments, so that a part of a put can come before the rest.
const REGION_LEN: u64 = 256 << 10;
/// Bytes of the region whose puts take so long that a program is stopped in one.
const LONG_LEN: u64 = 32 << 20;
/// How long a client of these tests waits for an answer.
const BOUND: Duration = Duration::from_millis(1000);
/// How long packets are lost, or a node is stopped: longer than the bound.
const AWAY: Duration = Duration::from_millis(2200);
/// How long a ghost is waited for: two retransmissions of the kernel after the cut.
const WATCH: Duration = Duration::from_millis(4500);

/// A process of the test that takes orders by lines and answers each.
struct Process {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(mut command: Command, test: &str, variables: &[(&str, String)]) -> Process {
        command.args(hanare_testkit::words(test)).envs(variables.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Process { child, orders, answers }
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    fn hear(&mut self) -> String {
        let said = self.answers.find_map(|line| line.ok()?.split_once("says ").map(|(_, said)| said.to_owned()));
        said.expect("a process that answers")
    }

    fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        self.hear()
    }

    /// Stops it, and waits until all of its threads have stopped.
    fn stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
        let folder = format!("/proc/{}/task", self.child.id());
        let is_stopped = |stat: &str| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
        let stat = |thread: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok();
        while !std::fs::read_dir(&folder).unwrap().filter_map(stat).all(|stat| is_stopped(&stat)) {
            std::thread::yield_now();
        }
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that is stopped is killed all the same.
        self.kill();
    }
}

/// Three nodes, each on a host of its own where there are networks; regions lie on the second, sources of copies on the third.
struct Stage {
    nodes: Vec<Process>,
    networks: Option<Networks>,
    folder: TempDir,
    fabric: &'static str,
}

impl Stage {
    /// `None`, having said why, where the machine does not let us make networks, or has no UCX.
    fn new(fabric: &'static str, with_networks: bool) -> Option<Stage> {
        if fabric == "ucx"
            && let Err(why) = hanare_fabric::ucx::available()
        {
            hanare_testkit::unable(why);
            return None;
        }
        let networks = match with_networks.then(|| Networks::new(3)).transpose() {
            Ok(networks) => networks,
            Err(why) => {
                hanare_testkit::unable(why);
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "a key for the tests of late commands").unwrap();
        std::fs::set_permissions(folder.path().join("key"), PermissionsExt::from_mode(0o600)).unwrap();
        let mut stage = Stage { nodes: Vec::new(), networks, folder, fabric };
        let mut join = String::new();
        for host in 0..3 {
            let listen = stage.networks.as_ref().map_or("127.0.0.1".to_owned(), |networks| networks.address(host));
            let mut variables = vec![("LATE_LISTEN", format!("{listen}:0")), ("LATE_JOIN", join.clone())];
            variables.push(("LATE_KEY", stage.folder.path().join("key").display().to_string()));
            let mut node = stage.process(host, "node_process", variables, Duration::from_secs(10));
            let address = node.hear();
            join = if host == 0 { address } else { join };
            stage.nodes.push(node);
        }
        Some(stage)
    }

    fn socket(&self, host: usize) -> PathBuf {
        self.folder.path().join(format!("{host}.sock"))
    }

    fn process(&self, host: usize, test: &str, mut variables: Vec<(&str, String)>, bound: Duration) -> Process {
        let program = std::env::current_exe().unwrap();
        let command = match &self.networks {
            None => Command::new(program),
            Some(networks) => networks.command(host, &program),
        };
        variables.push(("LATE_NAME", format!("host{host}")));
        variables.push(("LATE_SOCKET", self.socket(host).display().to_string()));
        variables.push(("HANARE_FABRIC", self.fabric.to_owned()));
        if self.networks.is_some() {
            // Namespaces of one machine share memory, and no packet of that would be lost.
            variables.push(("UCX_TLS", "tcp,self".to_owned()));
        }
        variables.push(("HANARE_ANSWER_MS", bound.as_millis().to_string()));
        Process::start(command, test, &variables)
    }

    /// A program on the first host that gives up after so long.
    fn client_within(&self, bound: Duration) -> Process {
        let mut client = self.process(0, "client_process", Vec::new(), bound);
        assert_eq!(client.hear(), "ready");
        client
    }

    fn client(&self) -> Process {
        self.client_within(BOUND)
    }

    /// A client that has put version 1. On a busy machine the first put may take longer than the bound.
    fn client_that_has_put(&self) -> Process {
        let mut client = self.client();
        insist(&mut client, "put target 1", Instant::now(), None::<fn()>);
        client
    }

    fn cut(&self, host: usize) {
        self.networks.as_ref().expect("a stage with networks").cut(host);
    }

    fn heal(&self, host: usize) {
        self.networks.as_ref().expect("a stage with networks").heal(host);
    }
}

/// Tries an order until it succeeds, and lets `at_end` happen when the time has come.
fn insist(client: &mut Process, order: &str, at: Instant, mut at_end: Option<impl FnOnce()>) -> String {
    // What heals the way happens beside the order, as it would elsewhere: the order waits meanwhile.
    loop {
        client.tell(order);
        if Instant::now() < at {
            std::thread::sleep(at - Instant::now());
        }
        if let Some(at_end) = at_end.take() {
            at_end();
        }
        let said = client.hear();
        if said.starts_with("ok") {
            return said;
        }
    }
}

/// Looks again and again, for as long as a ghost may take.
fn stays(client: &mut Process, order: &str, expected: &str) {
    let begun = Instant::now();
    while begun.elapsed() < WATCH {
        let said = client.ask(order);
        // A way that was cut may take longer than the bound once more; that is told, and no ghost.
        assert!(said == expected || said.starts_with("failed"), "{said} {:?} after {expected} was answered", begun.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(insist(client, order, Instant::now(), None::<fn()>), expected);
}

/// A put is given up, and the next of the same client is answered: (a).
fn a_put_that_was_given_up(stage: &Stage) {
    let mut client = stage.client_that_has_put();
    let cut_at = Instant::now();
    stage.cut(1);
    let given_up = client.ask("put target 2");
    assert!(given_up.starts_with("failed"), "{given_up}");
    insist(&mut client, "put target 3", cut_at + AWAY, Some(|| stage.heal(1)));
    stays(&mut client, "get target", "ok 3 to 3");
}

/// An update is given up, and the next of the same client is answered: (a').
fn an_update_that_was_given_up(stage: &Stage) {
    let mut client = stage.client();
    assert!(insist(&mut client, "add target", Instant::now(), None::<fn()>).starts_with("ok"));
    let cut_at = Instant::now();
    stage.cut(1);
    let given_up = client.ask("add target");
    assert!(given_up.starts_with("failed"), "{given_up}");
    let said = insist(&mut client, "add target", cut_at + AWAY, Some(|| stage.heal(1)));
    let now: u64 = said.strip_prefix("ok ").unwrap().parse::<u64>().unwrap() + 1;
    stays(&mut client, "word target", &format!("ok {now}"));
}

/// A program is killed in a put while packets are lost, and another one's put is answered: (b).
fn a_put_whose_program_was_killed(stage: &Stage) {
    let (mut first, mut second) = (stage.client_within(Duration::from_secs(10)), stage.client_within(Duration::from_secs(10)));
    assert_eq!(first.ask("put target 1"), "ok");
    let cut_at = Instant::now();
    stage.cut(1);
    first.tell("put target 2");
    std::thread::sleep(Duration::from_millis(300));
    first.kill();
    // The other one's first packet goes when the way is back; a dead one's would go when its kernel tries again.
    std::thread::sleep(AWAY.saturating_sub(cut_at.elapsed()));
    stage.heal(1);
    insist(&mut second, "put target 3", Instant::now(), None::<fn()>);
    stays(&mut second, "get target", "ok 3 to 3");
}

/// The connection of the program that asked for a copy is reset while the source is cut off, and its next put is answered: (c).
fn a_copy_whose_connection_was_reset(stage: &Stage) {
    let mut client = stage.client_within(Duration::from_secs(10));
    assert_eq!(client.ask("put source 2"), "ok");
    assert_eq!(client.ask("copy source target"), "ok");
    assert_eq!(client.ask("put target 1"), "ok");
    let cut_at = Instant::now();
    stage.cut(2);
    client.tell("copy source target");
    std::thread::sleep(Duration::from_millis(300));
    let networks = stage.networks.as_ref().expect("a stage with networks");
    if let Err(why) = networks.reset(0, 1) {
        hanare_testkit::unable(why);
        return;
    }
    let ended = client.hear();
    assert!(ended.starts_with("failed"), "{ended}");
    assert_eq!(client.ask("put target 3"), "ok");
    std::thread::sleep(AWAY.saturating_sub(cut_at.elapsed()));
    stage.heal(2);
    stays(&mut client, "get target", "ok 3 to 3");
}

/// The same where the memory's node was stopped meanwhile: the bytes wait in its kernel, side by side.
fn a_put_whose_program_was_killed_at_a_node_that_was_stopped(stage: &Stage) {
    let (mut first, mut second) = (stage.client_within(Duration::from_secs(10)), stage.client_within(Duration::from_secs(10)));
    assert_eq!(first.ask("put target 1"), "ok");
    assert_eq!(second.ask("get target"), "ok 1 to 1");
    stage.nodes[1].stop();
    first.tell("put target 2");
    std::thread::sleep(Duration::from_millis(300));
    first.kill();
    second.tell("put target 3");
    std::thread::sleep(Duration::from_millis(300));
    stage.nodes[1].go_on();
    assert_eq!(second.hear(), "ok");
    stays(&mut second, "get target", "ok 3 to 3");
}

/// A put is given up since the memory's node was stopped, and the next of the same client is answered.
fn a_put_that_was_given_up_at_a_node_that_was_stopped(stage: &Stage) {
    let mut client = stage.client_that_has_put();
    let stopped_at = Instant::now();
    stage.nodes[1].stop();
    let given_up = client.ask("put target 2");
    assert!(given_up.starts_with("failed"), "{given_up}");
    insist(&mut client, "put target 3", stopped_at + AWAY, Some(|| stage.nodes[1].go_on()));
    stays(&mut client, "get target", "ok 3 to 3");
}

/// The program that asked for a copy is killed while the source is stopped, and another one's put to the target is answered: (c').
fn a_copy_whose_program_was_killed(stage: &Stage) {
    let (mut first, mut second) = (stage.client_within(Duration::from_secs(10)), stage.client_within(Duration::from_secs(10)));
    assert_eq!(first.ask("put source 2"), "ok");
    assert_eq!(first.ask("put target 1"), "ok");
    assert_eq!(first.ask("copy source target"), "ok");
    assert_eq!(first.ask("put target 1"), "ok");
    stage.nodes[2].stop();
    first.tell("copy source target");
    std::thread::sleep(Duration::from_millis(300));
    first.kill();
    assert_eq!(second.ask("put target 3"), "ok");
    stage.nodes[2].go_on();
    stays(&mut second, "get target", "ok 3 to 3");
}

/// A get is given up; its buffer stays as it is when the node goes on.
fn a_get_that_was_given_up(stage: &Stage) {
    let mut client = stage.client_that_has_put();
    stage.nodes[1].stop();
    let given_up = client.ask("get-and-keep target");
    assert!(given_up.starts_with("failed"), "{given_up}");
    assert_eq!(client.ask("fill-kept 7"), "ok");
    stage.nodes[1].go_on();
    stays(&mut client, "kept", "ok 7 to 7");
}

/// A program is stopped in the midst of a put, and another host maps the region: over TCP the rest of the put is done by pages, and the map
/// waits for nobody. Over UCX the put keeps its window, and the map is refused in time.
fn a_map_beside_a_put_that_does_not_end(stage: &Stage) {
    let bound = Duration::from_secs(10);
    let mut mapper = stage.process(2, "client_process", Vec::new(), bound);
    assert_eq!(mapper.hear(), "ready");
    assert_eq!(mapper.ask("map long"), "ok");
    // One that is stopped between two puts is another test.
    let refused = (0..5).find_map(|_| {
        let mut writer = stage.client_within(bound);
        assert_eq!(writer.ask("put long 1"), "ok");
        writer.tell("put-on long");
        std::thread::sleep(Duration::from_millis(100));
        writer.stop();
        let said = mapper.ask("map long");
        writer.kill();
        // Nothing of a dead program holds the region.
        insist(&mut mapper, "map long", Instant::now(), None::<fn()>);
        (said != "ok").then_some(said)
    });
    match stage.fabric {
        "ucx" => assert!(refused.is_some_and(|said| said.contains("commands on it under way that do not end"))),
        _ => assert_eq!(refused, None),
    }
}

macro_rules! over_each_fabric {
    ($($name:ident: $networks:literal)*) => {$(
        mod $name {
            #[test]
            fn over_tcp() {
                if let Some(stage) = super::Stage::new("tcp", $networks) {
                    super::$name(&stage);
                }
            }

            #[test]
            fn over_ucx() {
                if let Some(stage) = super::Stage::new("ucx", $networks) {
                    super::$name(&stage);
                }
            }
        }
    )*};
}

over_each_fabric! {
    a_put_that_was_given_up: true
    an_update_that_was_given_up: true
    a_put_whose_program_was_killed: true
    a_copy_whose_connection_was_reset: true
    a_put_whose_program_was_killed_at_a_node_that_was_stopped: false
    a_put_that_was_given_up_at_a_node_that_was_stopped: false
    a_copy_whose_program_was_killed: false
    a_get_that_was_given_up: false
    a_map_beside_a_put_that_does_not_end: false
}

/// One line of programs: each writes the next version over the whole of one region, and is followed by another when it is killed.
struct Line<'s> {
    stage: &'s Stage,
    name: String,
    writer: Process,
    reader: Process,
    version: u64,
    /// The newest version whose put was answered.
    answered: u64,
    /// Counted updates: those that were answered, and those that may have happened.
    counted: u64,
    unknown: u64,
}

impl<'s> Line<'s> {
    fn new(stage: &'s Stage, number: u64) -> Line<'s> {
        let (writer, reader) = (stage.client_within(CHECKER_BOUND), stage.client_within(CHECKER_BOUND));
        Line { stage, name: format!("line{number}"), writer, reader, version: 0, answered: 0, counted: 0, unknown: 0 }
    }

    /// A put of the next version; every fifth program that puts is killed in the midst of it.
    fn put(&mut self, dice: u64) {
        self.version += 1;
        let order = format!("put {} {}", self.name, self.version);
        if dice.is_multiple_of(5) {
            self.writer.tell(&order);
            std::thread::sleep(Duration::from_millis(dice / 5 % 400));
            self.writer.kill();
            self.writer = self.stage.client_within(CHECKER_BOUND);
        } else if self.writer.ask(&order) == "ok" {
            self.answered = self.version;
        }
    }

    fn add(&mut self) {
        match self.writer.ask(&format!("add {}count", self.name)).starts_with("ok") {
            true => self.counted += 1,
            false => self.unknown += 1,
        }
    }

    /// No word is older than what was answered before, or newer than what was sent; a read that fails says nothing.
    fn look(&mut self) {
        let said = self.reader.ask(&format!("get {}", self.name));
        if let Some((least, greatest)) = said.strip_prefix("ok ").and_then(|span| span.split_once(" to ")) {
            let (least, greatest): (u64, u64) = (least.parse().unwrap(), greatest.parse().unwrap());
            assert!(least >= self.answered, "{}: {said} after {} was answered", self.name, self.answered);
            assert!(greatest <= self.version, "{}: {said}, and {} is the last that was sent", self.name, self.version);
        }
        let said = self.reader.ask(&format!("word {}count", self.name));
        if let Some(seen) = said.strip_prefix("ok ").map(|seen| seen.parse::<u64>().unwrap()) {
            let most = self.counted + self.unknown;
            assert!((self.counted..=most).contains(&seen), "{}: counted {seen}, not {} to {most}", self.name, self.counted);
        }
    }
}

/// How long programs of the checker wait for an answer.
const CHECKER_BOUND: Duration = Duration::from_millis(2000);

/// Packets lost, connections reset, nodes stopped and programs killed at random, for `CHECKER_MINUTES` (2): no read is older than what was
/// answered, no put comes late, counters are exact. `CHECKER_SEED` repeats the dice, not the timing.
#[test]
#[ignore = "a nightly check of some minutes"]
fn checker() {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (minutes, seed) = (number("CHECKER_MINUTES", 2), number("CHECKER_SEED", u64::from(std::process::id())));
    println!("CHECKER_SEED={seed}");
    let Some(stage) = Stage::new("tcp", true) else { return };
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let dice = |line: u64, step: u64| {
        let mut z = (seed ^ line << 32).wrapping_add((step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ z >> 27
    };
    std::thread::scope(|scope| {
        for number in 0..3 {
            let stage = &stage;
            scope.spawn(move || {
                let mut line = Line::new(stage, number);
                for step in 0.. {
                    if Instant::now() >= end {
                        break;
                    }
                    line.put(dice(number, step));
                    line.add();
                    line.look();
                }
                println!("{}: {} versions, {} counted, {} unknown", line.name, line.version, line.counted, line.unknown);
                assert!(line.answered > 0 && line.counted > 0, "{} got through at all", line.name);
            });
        }
        let networks = stage.networks.as_ref().expect("a stage with networks");
        for step in 0.. {
            std::thread::sleep(Duration::from_millis(200 + dice(9, step) % 1500));
            if Instant::now() >= end {
                break;
            }
            let time = Duration::from_millis([100, 700, 2_300][dice(10, step) as usize % 3]);
            match dice(11, step) % 3 {
                0 => {
                    stage.cut(1);
                    std::thread::sleep(time);
                    stage.heal(1);
                }
                1 => {
                    stage.nodes[1].stop();
                    std::thread::sleep(time);
                    stage.nodes[1].go_on();
                }
                _ => drop(networks.reset(0, 1)),
            }
        }
    });
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn node_process() {
    if variable("LATE_SOCKET").is_empty() {
        return;
    }
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let join = Some(variable("LATE_JOIN")).filter(|join| !join.is_empty());
    let (listen, socket) = (variable("LATE_LISTEN"), variable("LATE_SOCKET"));
    let key = Some(PathBuf::from(variable("LATE_KEY")));
    let options = NodeOptions::new(64 << 20).unwrap();
    let node = Node::start(NodeOptions { join, listen, key, name: variable("LATE_NAME"), socket, ..options }).unwrap();
    println!("\nsays {}", node.address());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

fn client_process() {
    if variable("LATE_SOCKET").is_empty() {
        return;
    }
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let pool = Pool::attach_to(&variable("LATE_SOCKET"), None).unwrap();
    let region = |name: &str, node| {
        let options = CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() };
        pool.create_or_attach(name, if name == "long" { LONG_LEN } else { REGION_LEN }, &options)
    };
    let mut regions: HashMap<String, Region> = HashMap::new();
    let mut kept = vec![0_u8; REGION_LEN as usize];
    println!("\nsays ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut opened = Ok(());
        for name in words[1..].iter().filter(|name| name.starts_with(|first: char| first.is_alphabetic())) {
            // Sources of copies lie on the third host, all else on the second.
            let node = if *name == "source" { 2 } else { 1 };
            if !regions.contains_key(*name) {
                opened = opened.and(region(name, node).map(|region| drop(regions.insert(name.to_string(), region))));
            }
        }
        if let Err(error) = opened {
            println!("\nsays failed: {error}");
            continue;
        }
        let named = |at: usize| &regions[words[at]];
        let done = match words[0] {
            "put" => put(named(1), words[2].parse().unwrap()).map(|()| String::new()),
            "put-on" => {
                let bytes = vec![2; LONG_LEN as usize];
                loop {
                    named(1).put(0, &bytes).expect("a put that is answered, or stopped");
                }
            }
            "map" => named(1).map(Consistency::Coherent).and_then(SharedMapping::unmap).map(|()| String::new()),
            "get" => get(named(1)),
            "get-and-keep" => named(1).get(0, &mut kept).map(|()| String::new()),
            "fill-kept" => {
                kept = words_of(words[1].parse().unwrap());
                Ok(String::new())
            }
            "kept" => Ok(span(&kept)),
            "add" => named(1).fetch_word(0, Operator::Add, 1).map(|old| format!(" {old}")),
            "word" => word(named(1)),
            "copy" => copy(&pool, named(1), named(2)).map(|()| String::new()),
            other => panic!("{other}"),
        };
        println!("\nsays {}", done.map_or_else(|error| format!("failed: {error}"), |said| format!("ok{said}")));
    }
    std::process::exit(0);
}

fn words_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(REGION_LEN as usize / 8)
}

fn put(region: &Region, value: u64) -> hanare::Result<()> {
    region.put(0, &words_of(value))
}

fn copy(pool: &Pool, from: &Region, to: &Region) -> hanare::Result<()> {
    let whole = || hanare::Strided::contiguous(0, REGION_LEN);
    pool.copy(from, whole(), to, whole())
}

fn get(region: &Region) -> hanare::Result<String> {
    let mut bytes = vec![0; REGION_LEN as usize];
    region.get(0, &mut bytes).map(|()| span(&bytes))
}

/// The least and the greatest word: one value, unless a put came in part.
fn span(bytes: &[u8]) -> String {
    let words = || bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    format!(" {} to {}", words().min().unwrap(), words().max().unwrap())
}

fn word(region: &Region) -> hanare::Result<String> {
    let mut word = [0; 8];
    region.get(0, &mut word).map(|()| format!(" {}", u64::from_le_bytes(word)))
}
