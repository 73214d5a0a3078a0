//! A keeper's connections to the others: each connects to each, and speaks on its own connection alone. So nobody has to give way when two
//! connect at the same moment.

use super::engine::{Engine, Rule, SharedEngine, TICK_MS};
use super::message::{KeeperHello, Said};
use super::store::{SharedStore, Store};
use crate::control_link::ControlLink;
use crate::notice_queue::NoticeQueue;
use crate::notices::ToControl;
use crate::proving;
use hanare_fabric::tcp::{self, Greeted, Keys};
use hanare_protocol::Result;
use hanare_protocol::coordinator::{KeeperDisk, KeeperDisks};
use hanare_protocol::limits::KEEPER_UNKNOWN_COUNT_MAX;
use hanare_protocol::wire::control::KeeperStatus;
use hanare_protocol::wire::greeting::Role;
use rustix::event::epoll::EventFlags;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time from a failed try to reach a keeper to the next.
const AGAIN_MS: u64 = 200;

/// Time that a keeper has to greet. One that stands still is tried again meanwhile by nobody else.
const GREET: Duration = Duration::from_secs(2);

/// Time between lines of the log on keepers that are not there.
const COMPLAIN_MS: u64 = 10_000;

/// Time between ticks of the engine after a connection with its leader has ended.
const HURRIED_TICK_MS: u64 = 10;

/// The number of those ticks.
const HURRIED_TICKS: u32 = 60;

/// The direction of a link, and the keeper at its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The keeper here connected, and speaks.
    To(u64),
    /// The other keeper connected, and speaks. Its hello has its number.
    From(Option<u64>),
}

pub(crate) struct KeeperLink {
    pub link: ControlLink,
    pub interest: EventFlags,
    way: Way,
}

/// A keeper that this one connects to.
struct Other {
    address: String,
    is_dialing: bool,
    dial_at_ms: u64,
}

/// The keeper of a node.
pub(crate) struct Keepers {
    me: u64,
    store: SharedStore,
    /// Present once the names of all disks are known.
    engine: Option<SharedEngine>,
    /// The others that have written this disk's name down.
    met_by: BTreeSet<u64>,
    others: BTreeMap<u64, Other>,
    links: HashMap<u64, KeeperLink>,
    keys: Keys,
    notices: Arc<NoticeQueue<ToControl>>,
    tick_at_ms: u64,
    /// Short ticks that are left, because a connection with the leader has ended.
    hurried: u32,
    complain_at_ms: u64,
}

impl Keepers {
    /// The keeper at `address` among those of the sorted list; its file is at `path`.
    ///
    /// **Errors**: those of [`Store::open`].
    pub fn open(
        list: &[String],
        address: &str,
        path: &Path,
        keys: Keys,
        notices: Arc<NoticeQueue<ToControl>>,
    ) -> Result<Keepers> {
        let numbered = || (1..).zip(list);
        let me = numbered().find(|(_, keeper)| *keeper == address).map_or(0, |(number, _)| number);
        let store = SharedStore::new(Store::open(path, list, u128::from_le_bytes(hanare_memory::random::bytes()?))?);
        let other =
            |(number, address): (u64, &String)| (number, Other { address: address.clone(), is_dialing: false, dial_at_ms: 0 });
        let others = numbered().filter(|(number, _)| *number != me).map(other).collect();
        let mut keepers = Keepers {
            me,
            store,
            engine: None,
            met_by: BTreeSet::new(),
            others,
            links: HashMap::new(),
            keys,
            notices,
            tick_at_ms: 0,
            hurried: 0,
            complain_at_ms: COMPLAIN_MS,
        };
        keepers.begin(0);
        Ok(keepers)
    }

    /// Begins to take part, where all keepers are known, or were so once.
    fn begin(&mut self, now_ms: u64) {
        let count = self.others.len() as u64 + 1;
        let mut store = self.store.lock();
        let disks = store.disks();
        // Another disk may have the place of one that nobody else knows.
        let is_known = disks.has_begun || [disks.others.len(), self.met_by.len()] == [self.others.len(); 2];
        if self.engine.is_none() && is_known && !disks.lost.contains(&disks.own) {
            store.note_begun();
            drop(store);
            self.engine = Some(SharedEngine::new(Engine::new(self.store.clone(), self.me, count, now_ms)));
        }
    }

    pub fn engine(&self) -> Option<&SharedEngine> {
        self.engine.as_ref()
    }

    pub fn links(&mut self) -> impl Iterator<Item = (u64, &mut KeeperLink)> {
        self.links.iter_mut().map(|(key, link)| (*key, link))
    }

    pub fn has_link(&self, key: u64) -> bool {
        self.links.contains_key(&key)
    }

    /// Address of the keeper that leads, as far as this one knows.
    pub fn leader(&self) -> Option<String> {
        let leader = self.engine.as_ref()?.lock().leader()?;
        self.others.get(&leader).map(|other| other.address.clone())
    }

    /// The keepers, to look at.
    pub fn status(&self) -> Vec<KeeperStatus> {
        let engine = self.engine.as_ref().map(SharedEngine::lock);
        let leader = engine.as_ref().and_then(|engine| engine.leader());
        let store = self.store.lock();
        let disks = store.disks();
        let keeper = |(number, address): (u64, &String)| KeeperStatus {
            address: address.clone(),
            is_reached: Some(number == self.me || engine.as_ref().is_some_and(|engine| engine.hears(number))),
            leads: leader == Some(number),
        };
        (1..).zip(&disks.keepers).map(keeper).collect()
    }

    /// The keepers' disks, for a coordinator here.
    pub fn disks(&self) -> KeeperDisks {
        let engine = self.engine.as_ref().map(SharedEngine::lock);
        let store = self.store.lock();
        let disks = store.disks();
        let keeper = |(number, address): (u64, &String)| {
            let is_own = number == self.me;
            let disk = if is_own { Some(disks.own) } else { disks.others.get(&number).copied() };
            let is_reached = is_own || engine.as_ref().is_some_and(|engine| engine.hears(number));
            (address.clone(), KeeperDisk { disk, is_reached })
        };
        (1..).zip(&disks.keepers).map(keeper).collect()
    }

    /// Time passes: ticks, and tries to reach the others. Returns true for a tick.
    pub fn tick(&mut self, now_ms: u64) -> bool {
        let is_due = now_ms >= self.tick_at_ms;
        if is_due {
            let pause_ms = if self.hurried > 0 { HURRIED_TICK_MS } else { TICK_MS };
            self.hurried = self.hurried.saturating_sub(1);
            self.tick_at_ms = now_ms.saturating_add(pause_ms);
            if let Some(engine) = &self.engine {
                engine.lock().tick(now_ms);
            }
        }
        let missing: Vec<u64> = self.others.keys().copied().filter(|number| self.key_to(*number).is_none()).collect();
        for number in &missing {
            self.dial(now_ms, *number);
        }
        if self.engine.is_none() && now_ms >= self.complain_at_ms {
            self.complain_at_ms = now_ms.saturating_add(COMPLAIN_MS);
            let known = &self.met_by;
            let unknown: Vec<&str> = self
                .others
                .iter()
                .filter(|(number, _)| !known.contains(number))
                .map(|(_, other)| other.address.as_str())
                .collect();
            if !unknown.is_empty() {
                tracing::warn!("this keeper waits for {}: at their first start all must be there", unknown.join(", "));
            }
        }
        is_due
    }

    pub fn next_deadline(&self) -> u64 {
        self.tick_at_ms
    }

    fn key_to(&self, number: u64) -> Option<u64> {
        self.links.iter().find(|(_, link)| link.way == Way::To(number)).map(|(key, _)| *key)
    }

    fn dial(&mut self, now_ms: u64, number: u64) {
        let Some(other) = self.others.get_mut(&number).filter(|other| !other.is_dialing && now_ms >= other.dial_at_ms) else {
            return;
        };
        let (address, keys, notices, me) = (other.address.clone(), self.keys.clone(), self.notices.clone(), self.me);
        let dial = move || {
            let greeted = tcp::connect(&address, keys.caller(Role::Keeper, me), &proving(&keys), Instant::now() + GREET);
            notices.send(ToControl::KeeperDialed(number, greeted));
        };
        match std::thread::Builder::new().name("hanare-dial".to_owned()).spawn(dial) {
            Ok(_) => other.is_dialing = true,
            Err(_) => other.dial_at_ms = now_ms.saturating_add(AGAIN_MS),
        }
    }

    /// A try to reach a keeper ended. Returns true if there is a link to watch under that key.
    pub fn dialed(&mut self, now_ms: u64, number: u64, key: u64, outcome: Result<Greeted>) -> bool {
        let Some(other) = self.others.get_mut(&number) else { return false };
        other.is_dialing = false;
        other.dial_at_ms = now_ms.saturating_add(AGAIN_MS);
        let mut link = match outcome {
            Ok(greeted) => ControlLink::new(Box::new(greeted.link)),
            Err(error) => {
                tracing::debug!("keeper {} is not there: {error}", other.address);
                return false;
            }
        };
        let hello = {
            let store = self.store.lock();
            KeeperHello { keepers: store.disks().keepers.clone(), number: self.me, disk: store.disks().own }
        };
        if link.send(&Said::Hello(hello)).is_err() {
            return false;
        }
        self.links.insert(key, KeeperLink { link, interest: EventFlags::IN, way: Way::To(number) });
        if let Some(engine) = &self.engine {
            engine.lock().reconnected(number);
        }
        true
    }

    /// Another keeper has connected. Returns true if there is a link to watch under that key.
    pub fn came(&mut self, key: u64, greeted: Greeted) -> bool {
        if self.links.values().filter(|link| link.way == Way::From(None)).count() >= KEEPER_UNKNOWN_COUNT_MAX {
            return false;
        }
        let link = ControlLink::new(Box::new(greeted.link));
        self.links.insert(key, KeeperLink { link, interest: EventFlags::IN, way: Way::From(None) });
        true
    }

    pub fn link(&self, key: u64) -> Option<&KeeperLink> {
        self.links.get(&key)
    }

    /// A link ended; returns it for its owner to stop watching. That of the leader tells sooner than silence does that it is gone: the engine's
    /// time runs faster for six of its rounds.
    pub fn close(&mut self, key: u64) -> Option<KeeperLink> {
        let ended = self.links.remove(&key)?;
        if let (Way::To(other) | Way::From(Some(other)), Some(engine)) = (ended.way, &self.engine)
            && engine.lock().is_led_by(other)
        {
            (self.hurried, self.tick_at_ms) = (HURRIED_TICKS, 0);
        }
        Some(ended)
    }

    /// Something happened on a link. Returns whether there is more to read, or why the link ends.
    pub fn on_event(&mut self, now_ms: u64, key: u64) -> std::result::Result<bool, String> {
        let Some(link) = self.links.get_mut(&key) else { return Ok(false) };
        let (said, ending) = link.link.receive::<Said>();
        let has_more = link.link.has_more();
        for said in said {
            self.hear(now_ms, key, said)?;
        }
        ending.map(|()| has_more).map_err(|error| error.to_string())
    }

    fn hear(&mut self, now_ms: u64, key: u64, said: Said) -> std::result::Result<(), String> {
        let Some(way) = self.links.get(&key).map(|link| link.way) else { return Ok(()) };
        match (way, said) {
            (Way::From(None), Said::Hello(hello)) => {
                let refused = self.meet(now_ms, &hello);
                let Some(link) = self.links.get_mut(&key) else { return Ok(()) };
                if let Err(reason) = refused {
                    let _ = link.link.send(&Said::Refused(reason.clone()));
                    return Err(format!("it was refused: {reason}"));
                }
                link.link.send(&Said::Met).map_err(|error| error.to_string())?;
                let way = Way::From(Some(hello.number));
                // The keeper's connection before this one is over: what it still says there is not heard.
                self.links.values_mut().filter(|link| link.way == way).for_each(|link| link.way = Way::From(None));
                self.links.entry(key).and_modify(|link| link.way = way);
                if let Some(engine) = &self.engine {
                    engine.lock().reconnected(hello.number);
                }
                Ok(())
            }
            (Way::From(Some(number)), Said::Engine(message)) => match &self.engine {
                Some(engine) if !engine.lock().receive(number, *message) => Err("it said what no keeper says".to_owned()),
                _ => Ok(()),
            },
            (Way::From(Some(number)), Said::Round(asked)) => {
                if self.engine.as_ref().is_some_and(|engine| engine.lock().answer_round(number, asked)) {
                    // The other keeper asks again for an answer that does not leave.
                    let _ = self.say(number, &Said::NoOther(asked));
                }
                Ok(())
            }
            (Way::From(Some(number)), Said::NoOther(asked)) => {
                self.engine.iter().for_each(|engine| engine.lock().on_no_other(number, asked));
                Ok(())
            }
            (Way::To(number), Said::Met) => {
                self.met_by.insert(number);
                self.begin(now_ms);
                Ok(())
            }
            (Way::To(number), Said::Refused(reason)) => {
                if let Some(other) = self.others.get_mut(&number) {
                    other.dial_at_ms = now_ms.saturating_add(COMPLAIN_MS);
                }
                Err(format!("it refuses this keeper: {reason}"))
            }
            _ => Err("it said what does not belong there".to_owned()),
        }
    }

    /// Checks who connected; notes the name of its disk at the first meeting. **Errors**: why it is refused.
    fn meet(&mut self, now_ms: u64, hello: &KeeperHello) -> std::result::Result<(), String> {
        let mut store = self.store.lock();
        if hello.keepers != store.disks().keepers {
            return Err(format!(
                "it was started with --keepers {}, and this one with {}; start all with the same",
                hello.keepers.join(","),
                store.disks().keepers.join(",")
            ));
        }
        if !self.others.contains_key(&hello.number) {
            return Err(format!("there is no other keeper of number {}", hello.number));
        }
        match store.disks().others.get(&hello.number) {
            Some(disk) if *disk == hello.disk => Ok(()),
            Some(_) => Err(
                "its file is another than the one that keepers know, and it does not know what it promised; give it its file \
                 back (HANARE_STATE), or use `hanare keeper replace` if that is lost"
                    .to_owned(),
            ),
            None if store.disks().lost.contains(&hello.disk) => {
                Err("its file was replaced; remove it (HANARE_STATE/keeper-NAME.redb) and start it again".to_owned())
            }
            None => {
                store.meet(hello.number, hello.disk);
                store.flush().map_err(|error| error.to_string())?;
                drop(store);
                self.begin(now_ms);
                Ok(())
            }
        }
    }

    /// Sends what the engine has to say, once that is written down, and reads what is decided. Returns true if there was something.
    pub fn turn(&mut self, failed: &mut Vec<(u64, String)>) -> bool {
        let Some(shared) = self.engine.clone() else { return false };
        let messages = shared.lock().take_messages();
        for message in messages {
            failed.extend(self.say(message.get_receiver(), &Said::Engine(Box::new(message))).err());
        }
        let asked = shared.lock().ask_round();
        if let Some(asked) = asked {
            let others: Vec<u64> = self.others.keys().copied().collect();
            failed.extend(others.into_iter().filter_map(|other| self.say(other, &Said::Round(asked)).err()));
        }
        let has_read = shared.lock().read_decided();
        if has_read {
            self.lose_disks(&shared, failed);
        }
        has_read
    }

    /// Ends all with keepers whose disks are lost, by what was read.
    fn lose_disks(&mut self, engine: &SharedEngine, failed: &mut Vec<(u64, String)>) {
        let mut store = self.store.lock();
        let gone = store.lose(engine.lock().lost_disks());
        let is_own = store.disks().lost.contains(&store.disks().own);
        drop(store);
        let is_gone = |way: Way| matches!(way, Way::To(number) | Way::From(Some(number)) if gone.contains(&number));
        let ended = self.links.iter().filter(|(_, link)| is_gone(link.way));
        failed.extend(ended.map(|(key, _)| (*key, "its disk is lost".to_owned())));
        if is_own {
            tracing::error!(
                "another disk has this keeper's place: it takes no part any more; remove its file and start it again"
            );
            self.engine = None;
        }
    }

    /// Its part in the pool. A reign begins or ends by this look.
    pub fn rule(&mut self) -> Rule {
        self.engine.as_ref().map_or(Rule::None, |engine| engine.lock().rule())
    }

    /// Sends a message where the keeper that it is for is connected. The engine takes what is lost for lost. **Errors**: the link's, with its key.
    fn say(&mut self, to: u64, said: &Said) -> std::result::Result<(), (u64, String)> {
        let Some((key, link)) = self.key_to(to).and_then(|key| Some((key, self.links.get_mut(&key)?))) else { return Ok(()) };
        link.link.send(said).map_err(|error| (key, error.to_string()))
    }
}
