//! Three engines with their files, over connections that break, while keepers are killed and stand still.

use super::engine::{Engine, KeeperMessage, Rule, TICK_MS};
use super::store::{SharedStore, Store};
use hanare_protocol::coordinator::{BatchNumber, Record, Reign};
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

const COUNT: u64 = 3;

/// A file in memory.
struct Disk(OwnedFd);

impl Disk {
    fn new() -> Disk {
        Disk(memfd_create("keeper", MemfdFlags::CLOEXEC).unwrap())
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

fn list() -> Vec<String> {
    (1..=COUNT).map(|number| format!("k{number}")).collect()
}

/// A keeper: its engine while it lives, and the marks that its coordinator has appended and that are not decided yet.
struct Keeper {
    disk: Disk,
    engine: Option<Engine>,
    is_stopped: bool,
    reign: Option<Reign>,
    waiting: VecDeque<(BatchNumber, u64)>,
}

struct Pool {
    keepers: BTreeMap<u64, Keeper>,
    /// Messages under way, in order, by receiver and sender.
    links: BTreeMap<(u64, u64), VecDeque<KeeperMessage>>,
    now_ms: u64,
    chance: u64,
    /// Marks that were appended, and those of them that somebody was told of.
    marks: u64,
    answered: BTreeSet<u64>,
    reigns: BTreeSet<Reign>,
}

fn marks_of(records: &[Record]) -> BTreeSet<u64> {
    records.iter().map(|record| if let Record::GidsReserved { below } = record { *below } else { 0 }).collect()
}

impl Pool {
    fn new(seed: u64) -> Pool {
        let keeper = |number| {
            let (waiting, reign) = (VecDeque::new(), None);
            (number, Keeper { disk: Disk::new(), engine: None, is_stopped: false, reign, waiting })
        };
        let (links, answered, reigns) = Default::default();
        let keepers = (1..=COUNT).map(keeper).collect();
        let mut pool = Pool { keepers, links, now_ms: 0, chance: seed | 1, marks: 0, answered, reigns };
        (1..=COUNT).for_each(|number| pool.start(number));
        pool
    }

    fn chance(&mut self, one_of: u64) -> bool {
        self.draw(one_of) == 0
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % below
    }

    fn start(&mut self, number: u64) {
        let now_ms = self.now_ms;
        let keeper = self.keepers.get_mut(&number).unwrap();
        let store = Store::open(&keeper.disk.path(), &list(), number.into()).unwrap();
        keeper.engine = Some(Engine::new(SharedStore::new(store), number, COUNT, now_ms));
        (keeper.reign, keeper.is_stopped) = (None, false);
        keeper.waiting.clear();
        for other in 1..=COUNT {
            self.cut(number, other);
            self.cut(other, number);
        }
    }

    fn kill(&mut self, number: u64) {
        let keeper = self.keepers.get_mut(&number).unwrap();
        (keeper.engine, keeper.reign) = (None, None);
    }

    /// A connection breaks, and is made anew.
    fn cut(&mut self, to: u64, from: u64) {
        self.links.remove(&(to, from));
        for (one, other) in [(to, from), (from, to)] {
            if let Some(engine) = self.keepers.get_mut(&one).and_then(|keeper| keeper.engine.as_mut()) {
                engine.reconnected(other);
            }
        }
    }

    /// A keeper's turn, as the control thread gives it.
    fn turn(&mut self, number: u64) {
        let Some(keeper) = self.keepers.get_mut(&number).filter(|keeper| !keeper.is_stopped) else { return };
        let Some(engine) = &mut keeper.engine else { return };
        let rule = engine.rule();
        let reign = if let Rule::Reigns(reign) = rule { Some(reign) } else { None };
        if reign != keeper.reign {
            (keeper.reign, keeper.waiting) = (reign, VecDeque::new());
            if let Some(reign) = reign {
                assert!(self.reigns.insert(reign), "a reign begins once");
                assert!(marks_of(engine.records()).is_superset(&self.answered), "a leader knows all that was answered");
            }
        }
        if keeper.reign.is_some() && keeper.waiting.len() < 5 {
            self.marks += 1;
            keeper.waiting.push_back((engine.append(vec![Record::GidsReserved { below: self.marks }], false), self.marks));
        }
        let messages = engine.take_messages();
        engine.read_decided();
        let committed = engine.committed();
        while let Some((_, mark)) = keeper.waiting.pop_front_if(|(batch, _)| *batch <= committed) {
            self.answered.insert(mark);
        }
        for message in messages {
            let to = message.get_receiver();
            if self.keepers[&to].engine.is_some() {
                self.links.entry((to, number)).or_default().push_back(message);
            }
        }
    }

    fn deliver(&mut self, to: u64, from: u64) {
        let Some(keeper) = self.keepers.get_mut(&to).filter(|keeper| !keeper.is_stopped) else { return };
        let Some(engine) = &mut keeper.engine else { return };
        if let Some(message) = self.links.get_mut(&(to, from)).and_then(VecDeque::pop_front) {
            assert!(engine.receive(from, message));
        }
    }

    /// Some milliseconds pass.
    fn step(&mut self) {
        self.now_ms += TICK_MS;
        for number in 1..=COUNT {
            let keeper = self.keepers.get_mut(&number).unwrap();
            if let Some(engine) = keeper.engine.as_mut().filter(|_| !keeper.is_stopped) {
                engine.tick(self.now_ms);
            }
            self.turn(number);
        }
        for _ in 0..self.draw(60) {
            let (to, from) = (self.draw(COUNT) + 1, self.draw(COUNT) + 1);
            self.deliver(to, from);
            self.turn(to);
        }
    }

    fn run(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        while self.now_ms < until {
            self.step();
        }
    }

    fn leader(&self) -> Option<u64> {
        self.keepers.iter().find(|(_, keeper)| keeper.reign.is_some() && !keeper.is_stopped).map(|(number, _)| *number)
    }
}

#[test]
fn what_was_answered_is_known_to_each_later_leader_whoever_dies_or_stands_still() {
    for seed in 1..=6 {
        let mut pool = Pool::new(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        for _ in 0..600 {
            pool.step();
            let number = pool.draw(COUNT) + 1;
            if pool.chance(40) {
                pool.kill(number);
            }
            if pool.chance(30) {
                let other = pool.draw(COUNT) + 1;
                pool.cut(number, other);
            }
            if pool.chance(60) {
                pool.keepers.get_mut(&number).unwrap().is_stopped = true;
            }
            if pool.chance(10) {
                match pool.keepers[&number].engine {
                    None => pool.start(number),
                    Some(_) => pool.keepers.get_mut(&number).unwrap().is_stopped = false,
                }
            }
        }
        for number in 1..=COUNT {
            match pool.keepers[&number].engine {
                None => pool.start(number),
                Some(_) => pool.keepers.get_mut(&number).unwrap().is_stopped = false,
            }
        }
        let before = pool.answered.len();
        pool.run(10_000);
        assert!(pool.leader().is_some() && pool.answered.len() > before + 100, "seed {seed}: naming goes on");
        assert!(pool.reigns.len() > 3 && before > 100, "seed {seed}: {} reigns, {before} answered", pool.reigns.len());
    }
}

#[test]
fn a_leader_that_dies_or_stands_still_is_followed_within_two_seconds() {
    for stops in [false, true] {
        let mut pool = Pool::new(7);
        pool.run(3_000);
        let leader = pool.leader().expect("one leads");
        match stops {
            true => pool.keepers.get_mut(&leader).unwrap().is_stopped = true,
            false => pool.kill(leader),
        }
        let answered = pool.answered.len();
        pool.run(2_000);
        assert!(pool.leader().is_some_and(|next| next != leader), "stops: {stops}");
        assert!(pool.answered.len() > answered);
        pool.keepers.get_mut(&leader).unwrap().is_stopped = false;
        pool.run(2_000);
        assert!(stops != pool.keepers[&leader].engine.is_none() && pool.keepers[&leader].reign.is_none(), "it leads no more");
    }
}

#[test]
fn without_a_majority_nothing_is_answered_and_the_reign_ends() {
    let mut pool = Pool::new(9);
    pool.run(3_000);
    let leader = pool.leader().expect("one leads");
    (1..=COUNT).filter(|number| *number != leader).for_each(|number| pool.kill(number));
    pool.run(200);
    let answered = pool.answered.clone();
    pool.run(4_000);
    assert_eq!((pool.answered == answered, pool.leader()), (true, None));
    let back = leader % COUNT + 1;
    pool.start(back);
    pool.run(4_000);
    assert!(pool.leader().is_some() && pool.answered.len() > answered.len(), "it goes on when one is back");
}

#[test]
fn a_keeper_that_was_away_for_long_gets_a_snapshot() {
    let mut pool = Pool::new(11);
    pool.run(3_000);
    let leader = pool.leader().expect("one leads");
    let away = leader % COUNT + 1;
    pool.kill(away);
    while pool.answered.len() < 3_000 {
        pool.step();
    }
    pool.start(away);
    pool.run(3_000);
    let known = marks_of(pool.keepers[&away].engine.as_ref().unwrap().records());
    assert!(known.len() > 2_990, "{} of {}", known.len(), pool.answered.len());
}

#[test]
fn a_file_belongs_to_the_keepers_that_wrote_it_and_damage_is_refused() {
    let disk = Disk::new();
    drop(Store::open(&disk.path(), &list(), 1).unwrap());
    let others = ["k1", "k2", "k9"].map(str::to_owned);
    let refused = Store::open(&disk.path(), &others, 2).unwrap_err();
    assert!(refused.to_string().contains("k1,k2,k3"), "{refused}");
    assert_eq!(Store::open(&disk.path(), &list(), 3).unwrap().disks().own, 1, "its name stays");
}

#[test]
fn three_keepers_or_five_are_named() {
    let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(super::sorted(&names("c,a,b")).unwrap(), ["a", "b", "c"]);
    for bad in ["a", "a,b", "a,b,b", "a,b,c,d", "a,b,c,d,d"] {
        assert!(super::sorted(&names(bad)).is_err(), "{bad}");
    }
}
