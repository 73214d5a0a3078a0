//! Engines with their files, over connections that break. Keepers are killed and stand still, disks are lost, and an operator changes the list.
//!
//! `KEEPERS_SEEDS=1..1000` has the random tests run for these seeds.

use super::engine::{Engine, Rule, TICK_MS};
use super::message::Said;
use super::store::{Base, SharedStore, Store};
use hanare_protocol::coordinator::{BatchNumber, History, Record, Reign};
use hanare_protocol::keeper_list::{KeeperList, ListedKeeper};
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// Keepers at first.
const COUNT: u64 = 3;

/// Hosts, most of which are no keepers at first.
const HOSTS: u64 = 6;

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

fn address(host: u64) -> String {
    format!("k{host}")
}

/// The host at a seat's address.
fn host_at(seat: &ListedKeeper) -> u64 {
    seat.address[1..].parse().unwrap()
}

/// The first list: the numbers of keepers are those of their hosts.
fn first_list() -> KeeperList {
    let seat = |host: u64| (host, ListedKeeper { address: address(host), disk: Some(host.into()) });
    KeeperList { edition: 1, seats: (1..=COUNT).map(seat).collect() }
}

/// A pass of a keeper's coordinator.
enum Pass {
    /// It wrote that mark.
    Mark(u64),
    /// It wrote nothing; the last reign that had begun then.
    Nothing(Option<Reign>),
}

/// A host: its engine while it lives, and the passes of its coordinator that may not be told yet.
struct Host {
    disk: Disk,
    /// The name of its disk. Names of one host's disks are equal modulo 100.
    name: u128,
    engine: Option<Engine>,
    store: Option<SharedStore>,
    is_stopped: bool,
    reign: Option<Reign>,
    waiting: VecDeque<(BatchNumber, Pass)>,
}

/// A message under way, by the edition and the disk of its sender.
struct Packet {
    edition: u32,
    name: u128,
    said: Said,
}

struct Pool {
    hosts: BTreeMap<u64, Host>,
    /// Messages under way, in order, by receiver and sender.
    links: BTreeMap<(u64, u64), VecDeque<Packet>>,
    seed: u64,
    now_ms: u64,
    chance: u64,
    /// Marks that were appended, and those of them that somebody was told of.
    marks: u64,
    answered: BTreeSet<u64>,
    /// Passes without a mark that were told.
    looks: u64,
    reigns: BTreeSet<Reign>,
    /// The marks that the last leader knew when it began.
    known: Vec<u64>,
    /// The newest list.
    list: KeeperList,
    /// The next list that an operator asks for, and all that it asked for so far.
    wish: Option<KeeperList>,
    wishes: Vec<KeeperList>,
    /// Disks that are lost.
    lost: BTreeSet<u128>,
}

fn marks_of(records: &[Record]) -> Vec<u64> {
    records.iter().filter_map(|record| if let Record::GidsReserved { below } = record { Some(*below) } else { None }).collect()
}

/// The seeds of a random test.
fn seeds() -> Range<u64> {
    let told = std::env::var("KEEPERS_SEEDS").unwrap_or_default();
    let range = told.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    range.unwrap_or(1..7)
}

impl Pool {
    fn new(seed: u64) -> Pool {
        let host = |number| {
            let (waiting, reign, engine, store) = Default::default();
            (number, Host { disk: Disk::new(), name: u128::from(number), engine, store, is_stopped: false, reign, waiting })
        };
        let (links, answered, reigns, known, wish, wishes, lost) = Default::default();
        let hosts = (1..=HOSTS).map(host).collect();
        let (list, chance) = (first_list(), seed | 1);
        let mut pool = Pool {
            hosts,
            links,
            seed: 0,
            now_ms: 0,
            chance,
            marks: 0,
            answered,
            looks: 0,
            reigns,
            known,
            list,
            wish,
            wishes,
            lost,
        };
        (1..=HOSTS).for_each(|number| pool.start(number));
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
        let host = self.hosts.get_mut(&number).unwrap();
        let mut store = Store::open(&host.disk.path(), &KeeperList::default(), host.name).unwrap();
        if number <= COUNT && store.identity().lives == 1 && host.name < 100 {
            assert!(store.enter(Base::begin(first_list(), History::default())));
        }
        let store = SharedStore::new(store);
        (host.engine, host.store) = (Some(Engine::new(store.clone(), now_ms)), Some(store));
        (host.reign, host.is_stopped) = (None, false);
        host.waiting.clear();
        self.cut_all(number);
    }

    fn kill(&mut self, number: u64) {
        let host = self.hosts.get_mut(&number).unwrap();
        (host.engine, host.store, host.reign) = (None, None, None);
    }

    /// All that were killed live, and those that stand still go on.
    fn start_all(&mut self) {
        for number in 1..=HOSTS {
            match self.hosts[&number].engine {
                None => self.start(number),
                Some(_) => self.hosts.get_mut(&number).unwrap().is_stopped = false,
            }
        }
    }

    /// The edition whose base a host has.
    fn held(&self, number: u64) -> u32 {
        self.hosts[&number].store.as_ref().map_or(0, |store| store.lock().identity().held())
    }

    /// True if a disk more may be lost: none of the newest list is, and a majority of it is left that has begun it.
    fn may_lose(&self, number: u64) -> bool {
        let numbers: Vec<u64> = self.list.seats.values().filter(|seat| seat.disk.is_some()).map(host_at).collect();
        let is_lost = self.list.seats.values().any(|seat| seat.disk.is_some_and(|disk| self.lost.contains(&disk)));
        let name = self.hosts[&number].name;
        let comes = self.wishes.iter().filter(|next| next.edition > self.list.edition);
        if comes.into_iter().any(|next| !self.has_majority(next, Some(name))) {
            return false;
        }
        let left = numbers.iter().filter(|host| **host != number && self.held(**host) == self.list.edition).count();
        !is_lost && left > numbers.len() / 2
    }

    /// True if a majority of a list has its disks, where that one is lost, too.
    fn has_majority(&self, list: &KeeperList, lost: Option<u128>) -> bool {
        let is_there = |disk: &u128| !self.lost.contains(disk) && Some(*disk) != lost;
        let there = list.seats.values().filter_map(|seat| seat.disk).filter(is_there).count();
        there > list.numbers().count() / 2
    }

    /// The host's disk is lost with it. It begins again with an empty one.
    fn lose_disk(&mut self, number: u64) {
        self.kill(number);
        let host = self.hosts.get_mut(&number).unwrap();
        self.lost.insert(host.name);
        (host.disk, host.name) = (Disk::new(), host.name + 100);
        self.start(number);
    }

    /// An operator asks for another list.
    fn change(&mut self) {
        let mut next = KeeperList { edition: self.list.edition + 1, seats: self.list.seats.clone() };
        let host = self.draw(HOSTS) + 1;
        let name = self.hosts[&host].name;
        let number = next.number_at(&address(host));
        match number.and_then(|number| next.seats.get_mut(&number)) {
            // A lost disk leaves its seat, or the seat gets the next one.
            Some(seat) if seat.disk.is_some_and(|disk| self.lost.contains(&disk)) => seat.disk = None,
            Some(seat) if seat.disk.is_none() => seat.disk = Some(name),
            Some(_) => drop(next.seats.remove(&number.unwrap())),
            None => {
                let free = (1..).find(|number| !next.seats.contains_key(number)).unwrap();
                next.seats.insert(free, ListedKeeper { address: address(host), disk: Some(name) });
            }
        }
        if next.is_sound() && self.has_majority(&next, None) {
            self.wishes.push(next.clone());
            self.wish = Some(next);
        }
    }

    /// A connection breaks, and is made anew.
    fn cut(&mut self, to: u64, from: u64) {
        self.links.remove(&(to, from));
        for (one, other) in [(to, from), (from, to)] {
            let name = self.hosts[&other].name;
            let Some(host) = self.hosts.get_mut(&one) else { continue };
            if let (Some(engine), Some(store)) = (&mut host.engine, &host.store) {
                let number = store.lock().identity().list.number_of(name);
                number.into_iter().for_each(|number| engine.reconnected(number));
            }
        }
    }

    fn cut_all(&mut self, number: u64) {
        for other in (1..=HOSTS).filter(|other| *other != number) {
            self.cut(number, other);
            self.cut(other, number);
        }
    }

    /// The host's turn, as the control thread gives it.
    fn turn(&mut self, number: u64) {
        let Some(host) = self.hosts.get_mut(&number).filter(|host| !host.is_stopped) else { return };
        let Some(engine) = &mut host.engine else { return };
        let rule = engine.rule();
        let reign = if let Rule::Reigns(reign) = rule { Some(reign) } else { None };
        if reign != host.reign {
            (host.reign, host.waiting) = (reign, VecDeque::new());
            if let Some(reign) = reign {
                let (seed, marks) = (self.seed, marks_of(engine.records()));
                let is_late = self.reigns.last().is_some_and(|last| *last > reign);
                assert!(self.reigns.insert(reign), "seed {seed}: {reign:?} begins once");
                assert!(marks.is_sorted_by(|one, next| one < next), "seed {seed}: marks are in order");
                if is_late {
                    // A deposed leader hears late that its first batch was decided.
                    assert!(self.known.starts_with(&marks), "seed {seed}: a deposed leader knows nothing else");
                } else {
                    let all = marks.iter().copied().collect();
                    assert!(marks.starts_with(&self.known), "seed {seed}: a leader knows all that the one before did");
                    assert!(self.answered.is_subset(&all), "seed {seed}: a leader knows all that was answered");
                    self.known = marks;
                }
            }
        }
        let last = self.reigns.last().copied();
        if host.reign.is_some() && host.waiting.len() < 10 {
            self.marks += 1;
            let edition = host.reign.map_or(0, |reign| reign.edition);
            let wish = self.wish.take_if(|wish| wish.edition == edition + 1);
            let change = wish.map(|list| Record::Keepers { list, by: None });
            let records = [Record::GidsReserved { below: self.marks }].into_iter().chain(change).collect();
            host.waiting.push_back((engine.append(records, false), Pass::Mark(self.marks)));
            host.waiting.push_back((engine.append(Vec::new(), false), Pass::Nothing(last)));
        }
        let edition = engine.edition();
        let messages = engine.take_messages();
        engine.read_decided();
        let committed = engine.committed();
        let asked = engine.ask_round();
        while let Some((_, pass)) = host.waiting.pop_front_if(|(batch, _)| *batch <= committed) {
            match pass {
                Pass::Mark(mark) => {
                    assert!(
                        host.reign >= last || self.known.contains(&mark),
                        "seed {}: the leader of today does not know {mark}",
                        self.seed
                    );
                    self.answered.insert(mark);
                }
                Pass::Nothing(last) => {
                    assert!(host.reign >= last, "seed {}: another led already when this was decided", self.seed);
                    self.looks += 1;
                }
            }
        }
        let list = host.store.as_ref().unwrap().lock().identity().list.clone();
        for message in messages {
            let to = host_at(&list.seats[&message.get_receiver()]);
            self.say(to, number, edition, Said::Engine(Box::new(message)));
        }
        for seat in list.seats.values().filter(|seat| seat.disk.is_some() && host_at(seat) != number) {
            asked.into_iter().for_each(|asked| self.say(host_at(seat), number, edition, Said::Round(asked)));
        }
        let engine = self.hosts.get_mut(&number).unwrap().engine.as_mut().unwrap();
        if engine.enter_next() {
            self.has_entered(number);
        }
    }

    /// A host has begun an edition.
    fn has_entered(&mut self, number: u64) {
        let list = self.hosts[&number].store.as_ref().unwrap().lock().identity().list.clone();
        if list.edition > self.list.edition {
            self.list = list;
        }
        // The host connects again. Messages to others may still come.
        for other in (1..=HOSTS).filter(|other| *other != number) {
            self.links.remove(&(number, other));
        }
    }

    fn say(&mut self, to: u64, from: u64, edition: u32, said: Said) {
        if self.hosts[&to].engine.is_some() {
            let name = self.hosts[&from].name;
            self.links.entry((to, from)).or_default().push_back(Packet { edition, name, said });
        }
    }

    fn deliver(&mut self, to: u64, from: u64) {
        let Some(host) = self.hosts.get_mut(&to).filter(|host| !host.is_stopped) else { return };
        let (Some(engine), Some(store)) = (&mut host.engine, &host.store) else { return };
        let Some(packet) = self.links.get_mut(&(to, from)).and_then(VecDeque::pop_front) else { return };
        self.links.retain(|_, link| !link.is_empty());
        let identity = store.lock().identity().clone();
        if let Said::Base(base) = packet.said {
            if engine.enter(*base) {
                self.has_entered(to);
            }
            return;
        }
        let number = identity.list.number_of(packet.name).filter(|_| packet.edition == identity.held());
        let Some(number) = number.filter(|_| engine.takes_part()) else { return };
        match packet.said {
            Said::Engine(message) => assert!(engine.receive(number, *message)),
            Said::Round(asked) if engine.answer_round(number, asked) => {
                self.say(from, to, packet.edition, Said::NoOther(asked));
            }
            Said::NoOther(asked) => engine.on_no_other(number, asked),
            _ => {}
        }
    }

    /// A host that is behind asks another one for its base, which comes some time later.
    fn help(&mut self, to: u64, from: u64) {
        let (behind, ahead) = (self.held(to), self.held(from));
        let (Some(_), Some(store)) = (&self.hosts[&to].engine, &self.hosts[&from].store) else { return };
        let is_meant = behind > 0 || store.lock().identity().list.number_of(self.hosts[&to].name).is_some();
        let is_under_way = self.links.get(&(to, from)).is_some_and(|link| link.iter().any(|it| matches!(it.said, Said::Base(_))));
        if behind >= ahead || !is_meant || is_under_way || self.hosts[&from].is_stopped {
            return;
        }
        let base = store.lock().base().unwrap();
        self.say(to, from, ahead, Said::Base(Box::new(base)));
    }

    /// Some milliseconds pass.
    fn step(&mut self) {
        self.now_ms += TICK_MS;
        for number in 1..=HOSTS {
            let host = self.hosts.get_mut(&number).unwrap();
            if let Some(engine) = host.engine.as_mut().filter(|_| !host.is_stopped) {
                engine.tick(self.now_ms);
            }
            self.turn(number);
        }
        for _ in 0..3 {
            let (to, from) = (self.any(), self.any());
            self.help(to, from);
        }
        let queued: usize = self.links.values().map(VecDeque::len).sum();
        for _ in 0..self.draw(20 + queued as u64) {
            let count = self.links.len() as u64;
            let at = if count == 0 { break } else { self.draw(count) };
            let (to, from) = *self.links.keys().nth(at as usize).unwrap();
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
        self.hosts.iter().find(|(_, host)| host.reign.is_some() && !host.is_stopped).map(|(number, _)| *number)
    }

    /// A host at random.
    fn any(&mut self) -> u64 {
        self.draw(HOSTS) + 1
    }

    /// The keepers' hosts.
    fn keepers(&self) -> Vec<u64> {
        self.list.seats.values().map(host_at).collect()
    }

    /// Naming goes on when all live.
    fn goes_on(&mut self, seed: u64) {
        self.start_all();
        let before = self.answered.len();
        self.run(10_000);
        let state = |number: &u64| (*number, self.held(*number), self.hosts[number].name);
        let goes_on = self.leader().is_some() && self.answered.len() > before + 100;
        let hosts: Vec<_> = self.hosts.keys().map(state).collect();
        assert!(goes_on, "seed {seed}: naming goes on, {before} to {}: {:?} {hosts:?}", self.answered.len(), self.list);
    }
}

fn seeded(base: u64) -> impl Iterator<Item = (u64, Pool)> {
    seeds().map(move |seed| (seed, Pool { seed, ..Pool::new(base.wrapping_mul(seed)) }))
}

#[test]
fn what_was_answered_is_known_to_each_later_leader_whoever_dies_or_stands_still() {
    let (mut reigns, mut answered, mut looks) = (0, 0, 0);
    for (seed, mut pool) in seeded(0x9e37_79b9_7f4a_7c15) {
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
                pool.hosts.get_mut(&number).unwrap().is_stopped = true;
            }
            if pool.chance(10) {
                match pool.hosts[&number].engine {
                    None => pool.start(number),
                    Some(_) => pool.hosts.get_mut(&number).unwrap().is_stopped = false,
                }
            }
        }
        answered += pool.answered.len();
        pool.goes_on(seed);
        (reigns, looks) = (reigns + pool.reigns.len(), looks + pool.looks as usize);
    }
    let count = seeds().count();
    assert!(reigns > 3 * count && answered > 100 * count, "{reigns} reigns, {answered} answered");
    assert!(looks > 100 * count, "{looks} passes without records");
}

#[test]
fn a_changed_list_costs_nothing_that_was_answered_whoever_dies_meanwhile() {
    let (mut editions, mut lost) = (0, 0);
    for (seed, mut pool) in seeded(0x2545_f491_4f6c_dd1d) {
        pool.run(3_000);
        for _ in 0..1_200 {
            pool.step();
            let number = pool.any();
            if pool.chance(30) {
                pool.kill(number);
            }
            if pool.chance(30) {
                let other = pool.any();
                pool.cut(number, other);
            }
            if pool.chance(80) {
                pool.hosts.get_mut(&number).unwrap().is_stopped = true;
            }
            let number = pool.any();
            match pool.hosts[&number].engine.is_some() {
                false if pool.chance(6) => pool.start(number),
                true if pool.chance(10) => pool.hosts.get_mut(&number).unwrap().is_stopped = false,
                _ => {}
            }
            if pool.chance(15) {
                pool.change();
            }
            if pool.chance(60) && pool.may_lose(number) {
                lost += 1;
                pool.lose_disk(number);
            }
        }
        pool.goes_on(seed);
        editions += pool.list.edition;
        let keepers = pool.keepers();
        assert!(pool.leader().is_some_and(|leader| keepers.contains(&leader)), "seed {seed}: a keeper leads");
    }
    let count = seeds().count() as u32;
    assert!(editions > 5 * count && lost > count, "{editions} editions, {lost} disks were lost");
}

#[test]
fn a_keeper_is_added_and_the_first_removed_while_it_leads_and_another_one_dies() {
    let mut pool = Pool::new(5);
    pool.run(3_000);
    let change = |pool: &mut Pool, change: &dyn Fn(&mut KeeperList)| {
        let mut list = KeeperList { edition: pool.list.edition + 1, ..pool.list.clone() };
        change(&mut list);
        pool.wish = Some(list.clone());
        pool.run(3_000);
        assert_eq!(pool.list, list);
        assert!(pool.keepers().iter().all(|host| pool.held(*host) == list.edition), "all keepers have begun");
    };
    let fourth = ListedKeeper { address: address(4), disk: Some(4) };
    change(&mut pool, &|list| drop(list.seats.insert(4, fourth.clone())));
    let leader = pool.leader().expect("one leads");
    change(&mut pool, &|list| drop(list.seats.remove(&leader)));
    let next = pool.leader().expect("one leads");
    assert!(next != leader && pool.hosts[&leader].reign.is_none());
    pool.kill(next);
    let before = pool.answered.len();
    pool.run(3_000);
    assert!(pool.answered.len() > before + 10, "two of three are left");
    // The removed one is of no use to them.
    let third = pool.leader().unwrap();
    pool.kill(third);
    pool.run(3_000);
    let before = pool.answered.len();
    pool.run(3_000);
    assert_eq!((pool.answered.len(), pool.leader()), (before, None));
}

#[test]
fn a_leader_that_dies_or_stands_still_is_followed_within_two_seconds() {
    for stops in [false, true] {
        let mut pool = Pool::new(7);
        pool.run(3_000);
        let leader = pool.leader().expect("one leads");
        match stops {
            true => pool.hosts.get_mut(&leader).unwrap().is_stopped = true,
            false => pool.kill(leader),
        }
        let answered = pool.answered.len();
        pool.run(2_000);
        assert!(pool.leader().is_some_and(|next| next != leader), "stops: {stops}");
        assert!(pool.answered.len() > answered);
        pool.hosts.get_mut(&leader).unwrap().is_stopped = false;
        pool.run(2_000);
        assert!(stops != pool.hosts[&leader].engine.is_none() && pool.hosts[&leader].reign.is_none(), "it leads no more");
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
    let known = marks_of(pool.hosts[&away].engine.as_ref().unwrap().records());
    assert!(known.len() > 2_990, "{} of {}", known.len(), pool.answered.len());
}

#[test]
fn a_file_keeps_its_name_and_the_newest_list_and_counts_lives() {
    let disk = Disk::new();
    let mut store = Store::open(&disk.path(), &KeeperList::named(&[address(1)]), 1).unwrap();
    assert_eq!((store.identity().held(), store.identity().lives), (0, 1));
    assert!(store.enter(Base::begin(first_list(), History::default())));
    store.flush().unwrap();
    drop(store);
    let mut store = Store::open(&disk.path(), &KeeperList::named(&[address(9)]), 3).unwrap();
    assert_eq!((store.identity().own, store.identity().lives, store.identity().number()), (1, 2, Some(1)));
    assert_eq!(store.identity().list, first_list());
    assert!(!store.enter(Base::begin(first_list(), History::default())), "an edition begins once");
    let later = KeeperList { edition: 5, ..first_list() };
    assert!(!store.learn(&later), "a keeper needs the base");
    let odd = KeeperList { edition: 5, seats: BTreeMap::new() };
    assert!(!store.enter(Base::begin(odd, History::default())), "that is no list");
    assert!(!store.enter(Base { count: 0, ..Base::begin(later.clone(), History::default()) }));
    assert!(store.enter(Base::begin(later, History::default())));
}

#[test]
fn keepers_are_named_once_each() {
    let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(super::sorted(&names("c,a,b")).unwrap(), ["a", "b", "c"]);
    for bad in ["a,b,b", "a,b,c,d,e,f,g,h"] {
        assert!(super::sorted(&names(bad)).is_err(), "{bad}");
    }
}
