//! Three engines with their files, over connections that break, while keepers are killed and stand still.

use super::engine::{Engine, Rule, TICK_MS};
use super::message::Said;
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

/// A pass of a keeper's coordinator.
enum Pass {
    /// It wrote that mark.
    Mark(u64),
    /// It wrote nothing; the last reign that had begun then.
    Nothing(Option<Reign>),
}

/// A keeper: its engine while it lives, and the passes of its coordinator that may not be told yet.
struct Keeper {
    disk: Disk,
    /// The name of its disk.
    name: u128,
    /// Disks of others that it takes for lost, as its file has it.
    lost: BTreeSet<u128>,
    /// The disks of the others, as its file has them.
    known: BTreeMap<u64, u128>,
    engine: Option<Engine>,
    is_stopped: bool,
    reign: Option<Reign>,
    waiting: VecDeque<(BatchNumber, Pass)>,
}

struct Pool {
    keepers: BTreeMap<u64, Keeper>,
    /// Messages under way, in order, by receiver and sender.
    links: BTreeMap<(u64, u64), VecDeque<Said>>,
    now_ms: u64,
    chance: u64,
    /// Marks that were appended, and those of them that somebody was told of.
    marks: u64,
    answered: BTreeSet<u64>,
    /// Passes without a mark that were told.
    looks: u64,
    reigns: BTreeSet<Reign>,
    /// A keeper whose disk was lost, and the name of that disk, until it is replaced.
    lost: Option<(u64, u128)>,
}

fn marks_of(records: &[Record]) -> BTreeSet<u64> {
    records.iter().map(|record| if let Record::GidsReserved { below } = record { *below } else { 0 }).collect()
}

impl Pool {
    fn new(seed: u64) -> Pool {
        let keeper = |number| {
            let (waiting, reign, lost, known) = Default::default();
            let name = u128::from(number);
            (number, Keeper { disk: Disk::new(), name, lost, known, engine: None, is_stopped: false, reign, waiting })
        };
        let (links, answered, reigns, lost) = Default::default();
        let keepers = (1..=COUNT).map(keeper).collect();
        let mut pool = Pool { keepers, links, now_ms: 0, chance: seed | 1, marks: 0, answered, looks: 0, reigns, lost };
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
        let store = Store::open(&keeper.disk.path(), &list(), keeper.name).unwrap();
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

    /// The keeper's disk is lost with it. It begins again with an empty one.
    fn lose_disk(&mut self, number: u64) {
        self.kill(number);
        let keeper = self.keepers.get_mut(&number).unwrap();
        self.lost = Some((number, keeper.name));
        // Names of one keeper's disks are equal modulo 100.
        (keeper.disk, keeper.name) = (Disk::new(), keeper.name + 100);
        (keeper.lost, keeper.known) = Default::default();
        self.start(number);
    }

    /// An operator has said that a disk is lost. Returns the record for a leader that hears nothing of its keeper.
    fn replacing(&mut self, leader: u64) -> Option<Record> {
        let (number, disk) = self.lost?;
        let engine = self.keepers[&leader].engine.as_ref()?;
        let is_new = number != leader && !engine.hears(number) && !engine.lost_disks().contains(&disk);
        (is_new && self.chance(20)).then_some(Record::DiskReplaced { disk })
    }

    /// True if all keepers have read that the lost disk is replaced. A keeper that has not is not heard by the next disk's keeper as its leader.
    fn is_replaced(&self) -> bool {
        let Some((_, disk)) = self.lost else { return true };
        self.keepers.values().all(|keeper| keeper.lost.contains(&disk))
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
        let replacing = if rule == Rule::None { None } else { self.replacing(number) };
        let keeper = self.keepers.get_mut(&number).unwrap();
        let Some(engine) = &mut keeper.engine else { return };
        if keeper.reign.is_some() && keeper.waiting.len() < 10 {
            self.marks += 1;
            let records = [Record::GidsReserved { below: self.marks }].into_iter().chain(replacing).collect();
            keeper.waiting.push_back((engine.append(records, false), Pass::Mark(self.marks)));
            let last = self.reigns.last().copied();
            keeper.waiting.push_back((engine.append(Vec::new(), false), Pass::Nothing(last)));
        }
        let messages = engine.take_messages();
        engine.read_decided();
        let free: Vec<u64> = engine.lost_disks().difference(&keeper.lost).map(|disk| (disk % 100) as u64).collect();
        keeper.lost.extend(engine.lost_disks());
        let committed = engine.committed();
        let asked = engine.ask_round();
        while let Some((_, pass)) = keeper.waiting.pop_front_if(|(batch, _)| *batch <= committed) {
            match pass {
                Pass::Mark(mark) => drop(self.answered.insert(mark)),
                Pass::Nothing(last) => {
                    assert!(keeper.reign >= last, "another led already when this was decided");
                    self.looks += 1;
                }
            }
        }
        // The keeper with the next disk was refused until now, and connects again.
        for other in free.into_iter().filter(|other| *other != number) {
            self.cut(number, other);
            self.cut(other, number);
        }
        for message in messages {
            self.say(message.get_receiver(), number, Said::Engine(Box::new(message)));
        }
        for other in (1..=COUNT).filter(|other| *other != number) {
            asked.into_iter().for_each(|asked| self.say(other, number, Said::Round(asked)));
        }
    }

    fn say(&mut self, to: u64, from: u64, said: Said) {
        if self.keepers[&to].engine.is_some() {
            self.links.entry((to, from)).or_default().push_back(said);
        }
    }

    fn deliver(&mut self, to: u64, from: u64) {
        let name = self.keepers[&from].name;
        let Some(keeper) = self.keepers.get_mut(&to).filter(|keeper| !keeper.is_stopped) else { return };
        let Some(engine) = &mut keeper.engine else { return };
        // A keeper takes the first disk that it meets, and another one where that is lost, as it knows.
        let known = keeper.known.entry(from).or_insert(name);
        if keeper.lost.contains(known) {
            *known = name;
        }
        let is_known = *known == name;
        match self.links.get_mut(&(to, from)).and_then(VecDeque::pop_front).filter(|_| is_known) {
            Some(Said::Engine(message)) => assert!(engine.receive(from, *message)),
            Some(Said::Round(asked)) => {
                if engine.answer_round(from, asked) {
                    self.say(from, to, Said::NoOther(asked));
                }
            }
            Some(Said::NoOther(asked)) => engine.on_no_other(from, asked),
            Some(Said::Hello(_) | Said::Met | Said::Refused(_)) | None => {}
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
        assert!(pool.looks > 100, "seed {seed}: {} passes without records", pool.looks);
    }
}

#[test]
fn a_lost_disk_costs_nothing_that_was_answered_whoever_dies_meanwhile() {
    let mut replaced = 0;
    for seed in 1..=6 {
        let mut pool = Pool::new(0x2545_f491_4f6c_dd1du64.wrapping_mul(seed));
        pool.run(3_000);
        for _ in 0..1500 {
            pool.step();
            let number = pool.draw(COUNT) + 1;
            if pool.chance(30) && pool.is_replaced() {
                pool.kill(number);
            }
            if pool.chance(10) && pool.keepers[&number].engine.is_none() {
                pool.start(number);
            }
            if pool.chance(50) && pool.is_replaced() {
                replaced += 1;
                pool.lose_disk(number);
            }
        }
        let before = pool.answered.len();
        (1..=COUNT)
            .filter(|number| pool.keepers[number].engine.is_none())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|number| pool.start(number));
        pool.run(10_000);
        assert!(pool.leader().is_some() && pool.answered.len() > before + 100, "seed {seed}: naming goes on");
        assert!(pool.is_replaced(), "seed {seed}");
    }
    assert!(replaced > 30, "{replaced} disks were lost");
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
