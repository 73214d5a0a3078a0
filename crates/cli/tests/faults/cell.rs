//! One cell of the matrix: clients run commands, a victim is hit in the midst of them, and everybody else must come out right.

use super::cluster::{Cluster, answer_ms};
use super::kind::{Kind, SHIFTS, bytes, word, words};
use super::runner::{Record, Runner};
use crate::pool::{paced, signal, wait_until};
use hanare::{CreateOptions, Error, NodeId, Placement, Pool, Region};
use std::time::{Duration, Instant};

/// Who is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The clients that run the commands.
    Client,
    /// A node that holds the memory they are on; of copies, the target.
    Holder,
    /// The node that a copy's bytes come from.
    Source,
    /// The coordinator. Of two nodes it holds the memory too.
    Coordinator,
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT before anybody gives up.
    Pause,
    /// SIGSTOP, and SIGCONT when everybody has given up and the lease has ended.
    Stop,
    /// SIGSTOP; the regions are removed and others made in their place; SIGCONT.
    Replace,
}

#[derive(Clone, Debug)]
pub struct Cell {
    pub victim: Victim,
    pub mode: Mode,
    pub nodes: usize,
    pub kinds: Vec<Kind>,
    /// Bytes of each region: a power of two.
    pub len: u64,
}

/// Who is where.
struct Roles {
    /// The node whose host the clients are on.
    client: usize,
    region: Placement,
    from: Placement,
    /// The node that is hit, if it is a node.
    node: Option<usize>,
    /// A node that is not, to look from.
    observer: usize,
}

/// The longest that a survivor waits.
fn survivor_bound() -> Duration {
    Duration::from_millis(answer_ms()) + paced(Duration::from_secs(5))
}

/// How soon a killed peer is reported.
fn death_bound() -> Duration {
    paced(Duration::from_secs(5))
}

/// The round that marks words of regions made in place of others: no client gets there.
const REPLACED: u64 = 0xffff_0000;

/// Numbers that follow from a seed.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `bound`. SplitMix64.
    pub fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// Waits for a time below `bound`.
    pub fn wait(&mut self, bound: Duration) {
        std::thread::sleep(Duration::from_micros(self.roll(bound.as_micros() as u64 + 1)));
    }
}

impl Cell {
    fn roles(&self) -> Roles {
        let on = |node| Placement::Node(NodeId(node));
        let spread = Placement::Interleave(1 << 16);
        let roles = |client, region, from, node, observer| Roles { client, region, from, node, observer };
        match (self.victim, self.nodes) {
            (Victim::Client, 2) => roles(0, on(1), on(0), None, 0),
            (Victim::Client, _) => roles(0, spread, on(1), None, 1),
            (Victim::Holder, 2) => roles(0, on(1), on(0), Some(1), 0),
            (Victim::Holder, _) => roles(0, spread, on(1), Some(2), 1),
            (Victim::Source, 2) => roles(0, on(0), on(1), Some(1), 0),
            (Victim::Source, _) => roles(0, on(2), on(1), Some(1), 0),
            (Victim::Coordinator, 2) => roles(1, on(0), on(1), Some(0), 1),
            (Victim::Coordinator, _) => roles(1, on(2), on(1), Some(0), 2),
        }
    }

    /// Whether the victim's memory is used, so that commands fail while it is away.
    fn is_touched(&self) -> bool {
        match self.victim {
            Victim::Holder | Victim::Source => true,
            Victim::Coordinator => self.nodes == 2,
            Victim::Client => false,
        }
    }

    /// Plays the cell. The cluster is as before when it returns.
    pub fn play(&self, cluster: &mut Cluster, dice: &mut Dice) {
        assert_eq!(cluster.nodes.len(), self.nodes);
        cluster.look_at_levels();
        let begun = Instant::now();
        let seed = dice.0;
        let roles = self.roles();
        let observer = cluster.client(roles.observer);
        let table: Vec<Regions> = self.kinds.iter().map(|kind| Regions::make(&observer, *kind, self.len, &roles)).collect();
        let socket = &cluster.nodes[roles.client].socket;
        let runners: Vec<Runner> = self.kinds.iter().map(|kind| Runner::start(*kind, socket)).collect();
        runners.iter().for_each(|runner| runner.wait_for_rounds(2));
        let mut stage = Stage { cell: self, roles, cluster, observer, table, runners, dice };
        stage.hit();
        stage.finish();
        eprintln!("{self} seed {seed}: {:.1} s", begun.elapsed().as_secs_f32());
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cell { victim, mode, nodes, kinds, .. } = self;
        match kinds[..] {
            [kind] => write!(f, "{nodes} nodes, {victim:?} {mode:?}, {kind:?}"),
            _ => write!(f, "{nodes} nodes, {victim:?} {mode:?}, {} kinds", kinds.len()),
        }
    }
}

/// The regions of one kind, as the observer holds them.
struct Regions {
    kind: Kind,
    region: Region,
    from: Option<Region>,
}

impl Regions {
    fn make(pool: &Pool, kind: Kind, len: u64, roles: &Roles) -> Regions {
        let (name, from) = kind.names();
        let words = len / 8;
        let region = filled(pool, &name, roles.region, (0..words).map(|i| kind.initial(words, i)));
        let from = kind.copies().then(|| filled(pool, &from, roles.from, (0..words + SHIFTS).map(|i| word(0, i))));
        Regions { kind, region, from }
    }

    fn all(&self) -> impl Iterator<Item = &Region> {
        std::iter::once(&self.region).chain(&self.from)
    }
}

fn filled(pool: &Pool, name: &str, placement: Placement, words: impl Iterator<Item = u64>) -> Region {
    let bytes = bytes(words);
    let options = CreateOptions { placement, ..CreateOptions::default() };
    let begun = Instant::now();
    loop {
        match pool.create(name, bytes.len() as u64, &options) {
            Ok(region) => {
                region.put(0, &bytes).unwrap();
                return region;
            }
            // A node that was stopped may not be back yet.
            Err(Error::NodeLost { .. } | Error::NameTaken { .. } | Error::Timeout { .. } | Error::BadPlacement { .. })
                if begun.elapsed() < survivor_bound() + death_bound() =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("'{name}' cannot be made: {error}"),
        }
    }
}

/// A cell being played.
struct Stage<'a> {
    cell: &'a Cell,
    roles: Roles,
    cluster: &'a mut Cluster,
    observer: Pool,
    table: Vec<Regions>,
    runners: Vec<Runner>,
    dice: &'a mut Dice,
}

impl Stage<'_> {
    fn hit(&mut self) {
        if (self.cell.mode, self.roles.node) == (Mode::Replace, None) {
            // Nodes tell what they hold once a second.
            wait_until("all regions are counted", || self.used() >= self.len());
        }
        self.aim();
        match (self.cell.mode, self.roles.node) {
            (Mode::Kill, None) => self.kill_clients(),
            (Mode::Kill, Some(node)) => self.kill_node(node),
            (Mode::Pause, _) => self.pause(),
            (Mode::Stop, None) => self.stop_clients(),
            (Mode::Stop, Some(node)) => self.stop_node(node),
            (Mode::Replace, None) => self.replace_under_clients(),
            (Mode::Replace, Some(_)) => self.replace_under_node(),
        }
    }

    /// Waits for a moment in the midst of commands: of one kind, in the midst of one command.
    fn aim(&mut self) {
        let [runner] = &self.runners[..] else { return self.dice.wait(Duration::from_millis(30)) };
        let usual = runner.record().outcomes.last().expect("it has done two").took;
        let begun = runner.record().begun;
        let (start, bound) = (Instant::now(), survivor_bound());
        while runner.record().begun == begun && start.elapsed() < bound {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.dice.wait(usual);
    }

    /// Sends a signal to the victim, or to all of them.
    fn signal(&self, name: &str) {
        match self.roles.node {
            Some(node) => signal(name, self.cluster.nodes[node].pid()),
            None => self.runners.iter().for_each(|runner| signal(name, runner.process.id())),
        }
    }

    fn kill_clients(&mut self) {
        let mut left: Vec<usize> = (0..self.runners.len()).collect();
        while !left.is_empty() {
            let next = left.swap_remove(self.dice.roll(left.len() as u64) as usize);
            self.runners[next].kill();
            self.dice.wait(Duration::from_millis(10));
        }
        self.assert_no_failures();
        self.assert_others_go_on();
    }

    fn kill_node(&mut self, node: usize) {
        self.cluster.kill(node);
        let struck = Instant::now();
        if node == 0 {
            let error = self.observer.open(self.table[0].region.name()).unwrap_err();
            assert!(matches!(error, Error::NoCoordinator { .. } | Error::Timeout { .. }), "{error}");
        } else {
            wait_until("the node is known to be lost", || !self.observer.status().unwrap().nodes[node].alive);
            assert!(struck.elapsed() < death_bound(), "the pool reported it after {:?}", struck.elapsed());
        }
        if self.cell.is_touched() {
            for runner in &self.runners {
                runner.wait("fails", |record| record.failures().next().is_some());
                let record = runner.record();
                let reported = record.failures().next().unwrap().0.heard;
                let after = reported.saturating_duration_since(struck);
                assert!(after < death_bound(), "{:?}: the death was reported after {after:?}", runner.kind);
            }
            self.assert_failures(&["NodeLost", "RegionLost", "Broken", "NoCoordinator"]);
        } else {
            self.go_on();
            self.assert_no_failures();
        }
        if node == 0 {
            self.cluster.restart(0);
            wait_until("names are known again", || {
                matches!(self.observer.open(self.table[0].region.name()), Ok(_) | Err(Error::RegionLost { .. }))
            });
            if !self.cell.is_touched() {
                self.go_on();
                self.assert_no_failures();
            }
        }
    }

    fn pause(&mut self) {
        self.signal("STOP");
        self.dice.wait(Duration::from_millis(400));
        self.signal("CONT");
        self.go_on();
        self.assert_no_failures();
    }

    fn stop_clients(&mut self) {
        self.signal("STOP");
        self.assert_others_go_on();
        self.dice.wait(Duration::from_millis(1000));
        self.signal("CONT");
        self.go_on();
        self.assert_no_failures();
    }

    fn stop_node(&mut self, node: usize) {
        let epoch = self.observer.status().unwrap().nodes[node].epoch;
        self.stop_until_given_up(node);
        self.signal("CONT");
        self.go_on();
        let status = self.observer.status().unwrap();
        if node != 0 {
            assert!(status.nodes[node].epoch > epoch, "a node that was reported lost gets a new epoch: {status:?}");
        }
        if self.cell.is_touched() {
            self.assert_failures(&["Timeout", "NodeLost", "Broken", "GrantRefused", "NoCoordinator"]);
        } else {
            // Nodes that thought themselves lost meanwhile make their grants anew, more than once on a busy machine; a batch is not repeated.
            self.assert_failures(&["NodeLost", "Broken", "GrantRefused"]);
        }
    }

    fn stop_until_given_up(&mut self, node: usize) {
        self.signal("STOP");
        let struck = Instant::now();
        if self.cell.is_touched() {
            self.runners.iter().for_each(|runner| runner.wait("fails", |record| record.failures().next().is_some()));
        } else {
            self.go_on();
            self.assert_no_failures();
        }
        match node {
            // Others' leases end in its eyes while it is stopped.
            0 => std::thread::sleep(Duration::from_millis(3500).saturating_sub(struck.elapsed())),
            _ => wait_until("its lease ends", || !self.observer.status().unwrap().nodes[node].alive),
        }
    }

    fn replace_under_clients(&mut self) {
        self.signal("STOP");
        let used = self.used();
        self.remove_all();
        self.replace();
        self.signal("CONT");
        self.wait_for_refusals(&["UnknownRegion", "GrantRefused", "Broken"]);
        wait_until("the memory that stopped clients wrote to is given back", || self.used() == used);
    }

    fn replace_under_node(&mut self) {
        let node = self.roles.node.expect("a node is hit");
        self.stop_until_given_up(node);
        self.remove_all();
        self.signal("CONT");
        self.replace();
        self.wait_for_refusals(&["UnknownRegion", "GrantRefused", "Broken", "Timeout", "NodeLost", "NoCoordinator"]);
    }

    fn remove_all(&mut self) {
        for region in self.table.iter().flat_map(Regions::all) {
            remove(&self.observer, region.name());
        }
    }

    /// Makes regions of the same names and places, with words that none of the clients knows.
    fn replace(&mut self) {
        let (observer, roles) = (&self.observer, &self.roles);
        for regions in &mut self.table {
            let replaced = |region: &Region| (0..region.len() / 8).map(|i| word(REPLACED, i));
            regions.region = filled(observer, regions.region.name(), roles.region, replaced(&regions.region));
            regions.from = regions.from.as_ref().map(|from| filled(observer, from.name(), roles.from, replaced(from)));
        }
    }

    /// Waits until every client was refused thrice.
    fn wait_for_refusals(&self, variants: &[&str]) {
        for runner in &self.runners {
            let refused = |record: &Record| record.failures().filter(|(_, failure)| failure.variant == "UnknownRegion").count();
            runner.wait("is refused", |record| refused(record) >= 3);
        }
        self.assert_failures(variants);
    }

    /// Waits until every client has done two more rounds.
    #[track_caller]
    fn go_on(&self) {
        self.runners.iter().for_each(|runner| runner.wait_for_rounds(2));
    }

    /// Bytes of all regions.
    fn len(&self) -> u64 {
        self.table.iter().flat_map(Regions::all).map(Region::len).sum()
    }

    /// Bytes in extents on all nodes: which node has one chunk more than others changes.
    fn used(&self) -> u64 {
        self.observer.status().unwrap().nodes.iter().map(|node| node.memory.used).sum()
    }

    /// Whether somebody who has nothing to do with it is held up.
    fn assert_others_go_on(&self) {
        let begun = Instant::now();
        let bytes = bytes((0..1 << 13).map(|i| word(1, i)));
        let region = filled(&self.observer, "other", self.roles.region, words(&bytes));
        let mut back = vec![0; bytes.len()];
        region.get(0, &mut back).unwrap();
        assert!(back == bytes);
        remove(&self.observer, "other");
        assert!(begun.elapsed() < survivor_bound(), "{:?}", begun.elapsed());
    }

    #[track_caller]
    fn assert_no_failures(&self) {
        for runner in &self.runners {
            let record = runner.record();
            let first = record.failures().next();
            assert!(first.is_none(), "{:?}: {:?}", runner.kind, first.unwrap());
        }
    }

    #[track_caller]
    fn assert_failures(&self, variants: &[&str]) {
        for runner in &self.runners {
            let record = runner.record();
            let odd = record.failures().find(|(_, failure)| !variants.contains(&failure.variant.as_str()));
            assert!(odd.is_none(), "{:?}: {:?}", runner.kind, odd.unwrap());
        }
    }

    /// Ends the clients, looks at what is left, and brings everything back to what it was.
    fn finish(mut self) {
        let killed = self.cell.mode == Mode::Kill;
        if self.roles.node.is_some() || !killed {
            self.runners.iter_mut().for_each(Runner::tell_to_stop);
            self.runners.iter_mut().for_each(Runner::wait_for_end);
        }
        for runner in &self.runners {
            let record = runner.record();
            assert_eq!(record.wrong, None, "{:?}", runner.kind);
            // A stopped client's own clock went on.
            let is_bounded = self.cell.victim != Victim::Client;
            let bound = survivor_bound();
            let slow = record.outcomes.iter().find(|outcome| is_bounded && outcome.took > bound);
            assert!(slow.is_none(), "{:?}: {slow:?}", runner.kind);
        }
        self.assert_contents();
        let Stage { cluster, observer, table, runners, roles, .. } = self;
        drop(runners);
        if killed && let Some(node @ 1..) = roles.node {
            cluster.restart(node);
        }
        let names: Vec<String> = table.iter().flat_map(Regions::all).map(|region| region.name().to_owned()).collect();
        drop((table, observer));
        let observer = cluster.client(roles.observer);
        wait_until("all nodes are members", || observer.status().is_ok_and(|status| status.nodes.iter().all(|node| node.alive)));
        names.iter().for_each(|name| remove(&observer, name));
        drop(observer);
        cluster.wait_for_levels(Duration::ZERO);
    }

    /// Every word that survived is one that the clients' outcomes allow.
    fn assert_contents(&self) {
        let is_replaced = self.cell.mode == Mode::Replace;
        let gone = self.roles.node.filter(|_| self.cell.mode == Mode::Kill);
        for (regions, runner) in self.table.iter().zip(&self.runners) {
            let (kind, ledger, count) = (regions.kind, runner.record().ledger(), regions.region.len() / 8);
            for (i, found) in surviving(&regions.region, gone) {
                let is_right = if is_replaced { found == word(REPLACED, i) } else { kind.allows(&ledger, count, i, found) };
                assert!(is_right, "{kind:?}: word {i} of {count} is {found:#x}; {ledger:?}; {:?}", last_words(&runner.record()));
            }
            for (i, found) in regions.from.iter().flat_map(|from| surviving(from, gone)) {
                assert_eq!(found, word(if is_replaced { REPLACED } else { 0 }, i), "{kind:?}: word {i} of the source");
            }
        }
    }
}

/// The last outcomes, for a failure's message.
fn last_words(record: &Record) -> Vec<String> {
    let show = |outcome: &super::runner::Outcome| match &outcome.failure {
        None => format!("{} ok", outcome.round),
        Some(failure) => format!("{} {:?} {} {}", outcome.round, failure.happened, failure.variant, failure.text),
    };
    let first = record.outcomes.iter().position(|outcome| outcome.failure.is_some()).unwrap_or(0);
    record.outcomes[first.saturating_sub(2)..].iter().take(12).map(show).collect()
}

/// The words of a region that do not lie on a node that is gone, with their positions.
fn surviving(region: &Region, gone: Option<usize>) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for piece in region.layout().pieces(0, region.len()) {
        let node = region.layout().extents().nth(piece.extent).expect("a piece is of an extent").node;
        if gone.is_some_and(|gone| node == NodeId(gone as u32)) {
            continue;
        }
        let mut bytes = vec![0; piece.len as usize];
        region.get(piece.at, &mut bytes).unwrap();
        all.extend((piece.at / 8..).zip(words(&bytes)));
    }
    all
}

fn remove(pool: &Pool, name: &str) {
    let begun = Instant::now();
    loop {
        match pool.remove(name) {
            Ok(()) | Err(Error::UnknownRegion { .. }) => return,
            Err(error) if begun.elapsed() > survivor_bound() => panic!("'{name}' cannot be removed: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
