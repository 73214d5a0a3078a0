//! A keeper's connections to the others: each connects to each, and speaks on its own connection alone. So nobody has to give way when two
//! connect at the same moment.
//!
//! A keeper that connects names its edition of the list. If it is behind, the answer is the base of the later edition. If its caller has a later
//! edition, a keeper connects to that caller. All connections are made anew when an edition begins.

use super::engine::{Engine, Rule, SharedEngine, TICK_MS};
use super::founders::Founders;
use super::message::{KeeperHello, Said};
use super::pieces::{ReceivedPieces, SentPieces, send_all};
use super::store::{Identity, SharedStore, Store};
use super::{can_read, check};
use crate::control_link::ControlLink;
use crate::notice_queue::NoticeQueue;
use crate::notices::ToControl;
use crate::proving;
use hanare_fabric::tcp::{self, Greeted, Keys};
use hanare_protocol::Result;
use hanare_protocol::keeper_list::{KeeperList, KnownKeepers, ListedKeeper};
use hanare_protocol::limits::{KEEPER_TRIED_COUNT_MAX, KEEPER_UNKNOWN_COUNT_MAX};
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
pub(super) const COMPLAIN_MS: u64 = 10_000;

/// Time between ticks of the engine after a connection with its leader has ended, and where an edition begins.
const HURRIED_TICK_MS: u64 = 10;

/// The number of those ticks.
const HURRIED_TICKS: u32 = 60;

/// The end of a link that nobody needs to hear of.
pub(super) const QUIET: String = String::new();

/// The direction of a link, and the keeper at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The keeper here connected, and speaks, once the other has met it under that number.
    To { address: String, number: Option<u64> },
    /// The other keeper connected, and speaks. Its hello has its number.
    From(Option<u64>),
}

impl Way {
    fn number(&self) -> Option<u64> {
        match self {
            Way::To { number, .. } | Way::From(number) => *number,
        }
    }
}

pub(crate) struct KeeperLink {
    pub link: ControlLink,
    pub interest: EventFlags,
    pub(super) way: Way,
    sent: SentPieces,
    received: ReceivedPieces,
}

impl KeeperLink {
    fn new(greeted: Greeted, way: Way) -> KeeperLink {
        let link = ControlLink::new(Box::new(greeted.link));
        let (sent, received) = Default::default();
        KeeperLink { link, interest: EventFlags::IN, way, sent, received }
    }

    pub(super) fn send(&mut self, said: &Said) -> std::result::Result<(), String> {
        let now = self.sent.send(said)?;
        send_all(&mut self.link, now).map_err(|error| error.to_string())
    }
}

/// A keeper that this one connects to.
#[derive(Default)]
pub(super) struct Other {
    is_dialing: bool,
    pub(super) dial_at_ms: u64,
    /// True if it has a later edition. Then it is asked for the base, whether it is in the list here or not.
    pub(super) is_ahead: bool,
}

/// A node that is a keeper, or can be one.
pub(crate) struct Keepers {
    /// Its own address.
    pub(super) address: String,
    pub(super) store: SharedStore,
    pub(super) engine: SharedEngine,
    pub(super) founders: Founders,
    pub(super) others: BTreeMap<String, Other>,
    pub(super) links: HashMap<u64, KeeperLink>,
    keys: Keys,
    notices: Arc<NoticeQueue<ToControl>>,
    tick_at_ms: u64,
    /// Short ticks that are left, because a connection with the leader has ended.
    hurried: u32,
    pub(super) complain_at_ms: u64,
    /// An edition has begun: links of the one before are over.
    is_renewed: bool,
    /// The list has changed since it was told last.
    has_news: bool,
}

impl Keepers {
    /// The node at `address`, where an operator named those keepers; its file is at `path`.
    ///
    /// **Errors**: [`hanare_protocol::Error::BadSetting`] for a keeper whose pool knows it by another address, and for a number of keepers that cannot begin;
    /// those of [`Store::open`].
    pub fn open(
        named: &[String],
        address: &str,
        path: &Path,
        keys: Keys,
        notices: Arc<NoticeQueue<ToControl>>,
    ) -> Result<Keepers> {
        let fresh = u128::from_le_bytes(hanare_memory::random::bytes()?);
        let store = Store::open(path, &KeeperList::named(named), fresh)?;
        check(store.identity(), named, address)?;
        let store = SharedStore::new(store);
        let (founders, others, links) = Default::default();
        let mut keepers = Keepers {
            address: address.to_owned(),
            engine: SharedEngine::new(Engine::new(store.clone(), 0)),
            store,
            founders,
            others,
            links,
            keys,
            notices,
            tick_at_ms: 0,
            hurried: 0,
            complain_at_ms: COMPLAIN_MS,
            is_renewed: false,
            has_news: false,
        };
        keepers.aim();
        Ok(keepers)
    }

    pub(super) fn identity(&self) -> Identity {
        self.store.lock().identity().clone()
    }

    /// True if this node waits for the others at their first start.
    pub(super) fn is_founder(&self, identity: &Identity) -> bool {
        identity.list.edition == 0 && identity.list.number_at(&self.address).is_some()
    }

    /// True if this node is a keeper, or waits to be one.
    pub fn is_keeper(&self) -> bool {
        self.engine.lock().takes_part() || self.is_founder(&self.identity())
    }

    /// Finds whom to connect to.
    fn aim(&mut self) {
        let identity = self.identity();
        let is_founder = self.is_founder(&identity);
        let speaks = is_founder || identity.number().is_some();
        let seats = identity.list.seats.into_values().filter(|seat| speaks && (is_founder || seat.disk.is_some()));
        let wanted: BTreeSet<String> = seats.map(|seat| seat.address).filter(|address| *address != self.address).collect();
        self.others.retain(|address, other| other.is_ahead || wanted.contains(address));
        for address in wanted {
            self.others.entry(address).or_default();
        }
    }

    /// An edition has begun here.
    pub(super) fn renew(&mut self) {
        let identity = self.identity();
        let (edition, list) = (identity.list.edition, identity.list.addresses().join(", "));
        match identity.number() {
            Some(_) => tracing::warn!("the keepers are {list} from here on (edition {edition})"),
            None => tracing::warn!("the keepers are {list} from here on (edition {edition}): this node is none any more"),
        }
        self.others.clear();
        self.founders = Founders::default();
        self.aim();
        (self.is_renewed, self.has_news) = (true, true);
        (self.hurried, self.tick_at_ms) = (HURRIED_TICKS, 0);
    }

    /// Connects to a node that has a later edition.
    pub(super) fn fetch_from(&mut self, address: &str) {
        if self.others.len() >= KEEPER_TRIED_COUNT_MAX && !self.others.contains_key(address) {
            return;
        }
        let other = self.others.entry(address.to_owned()).or_default();
        if !std::mem::replace(&mut other.is_ahead, true) {
            other.dial_at_ms = 0;
        }
    }

    pub fn engine(&self) -> &SharedEngine {
        &self.engine
    }

    pub fn links(&mut self) -> impl Iterator<Item = (u64, &mut KeeperLink)> {
        self.links.iter_mut().map(|(key, link)| (*key, link))
    }

    pub fn has_link(&self, key: u64) -> bool {
        self.links.contains_key(&key)
    }

    /// Address of the keeper that leads, as far as this one knows.
    pub fn leader(&self) -> Option<String> {
        let leader = self.engine.lock().leader()?;
        let identity = self.identity();
        let seat = identity.list.seats.get(&leader).filter(|seat| seat.address != self.address)?;
        Some(seat.address.clone())
    }

    /// The keepers, to look at, where this node is one.
    pub fn status(&self) -> Option<Vec<KeeperStatus>> {
        let identity = self.identity();
        if !self.is_keeper() {
            return None;
        }
        let (engine, me) = (self.engine.lock(), identity.number());
        let leader = engine.leader();
        let keeper = |(number, seat): (&u64, &ListedKeeper)| KeeperStatus {
            is_reached: Some(seat.address == self.address || engine.hears(*number)),
            leads: leader == Some(*number) && me.is_some(),
            address: seat.address.clone(),
        };
        Some(identity.list.seats.iter().map(keeper).collect())
    }

    /// The keepers, for a coordinator here.
    pub fn known(&self) -> KnownKeepers {
        let identity = self.identity();
        let Some(me) = identity.number() else { return KnownKeepers::default() };
        let engine = self.engine.lock();
        let reached = identity.list.numbers().filter(|number| *number == me || engine.hears(*number)).collect();
        KnownKeepers { list: identity.list, reached }
    }

    /// The address of this node.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The name of this node's disk.
    pub fn disk(&self) -> u128 {
        self.store.lock().identity().own
    }

    /// The addresses of the other keepers, as this node knows them.
    pub fn addresses(&self) -> Vec<String> {
        self.identity().list.addresses().into_iter().filter(|address| *address != self.address).collect()
    }

    /// The same, where it has changed since the last call.
    pub fn take_news(&mut self) -> Option<Vec<String>> {
        std::mem::take(&mut self.has_news).then(|| self.addresses())
    }

    /// The coordinator says who the keepers of today are.
    pub fn learn(&mut self, list: &KeeperList) {
        let identity = self.identity();
        if !list.is_sound() || list.edition <= identity.held() {
            return;
        }
        if identity.number().is_some() || list.number_of(identity.own).is_some() {
            // The base is at one of them.
            for address in list.addresses() {
                if address != self.address {
                    self.fetch_from(&address);
                }
            }
            return;
        }
        let mut store = self.store.lock();
        if store.learn(list) {
            if let Err(error) = store.flush() {
                tracing::error!("{error}; the list of keepers is not known after the next start");
            }
            self.has_news = true;
        }
    }

    /// Time passes: ticks, and tries to reach the others. Returns true for a tick.
    pub fn tick(&mut self, now_ms: u64) -> bool {
        let is_due = now_ms >= self.tick_at_ms;
        if is_due {
            let pause_ms = if self.hurried > 0 { HURRIED_TICK_MS } else { TICK_MS };
            self.hurried = self.hurried.saturating_sub(1);
            self.tick_at_ms = now_ms.saturating_add(pause_ms);
            self.engine.lock().tick(now_ms);
            self.found(now_ms);
        }
        let addresses: Vec<String> = self.others.keys().filter(|address| !self.has_link_to(address)).cloned().collect();
        for address in &addresses {
            self.dial(now_ms, address);
        }
        is_due
    }

    pub fn next_deadline(&self) -> u64 {
        self.tick_at_ms
    }

    fn key_to(&self, number: u64) -> Option<u64> {
        let is_to = |way: &Way| matches!(way, Way::To { number: Some(to), .. } if *to == number);
        self.links.iter().find(|(_, link)| is_to(&link.way)).map(|(key, _)| *key)
    }

    fn has_link_to(&self, address: &str) -> bool {
        self.links.values().any(|link| matches!(&link.way, Way::To { address: to, .. } if to == address))
    }

    fn dial(&mut self, now_ms: u64, address: &str) {
        let Some(other) = self.others.get_mut(address).filter(|other| !other.is_dialing && now_ms >= other.dial_at_ms) else {
            return;
        };
        let (address, keys, notices) = (address.to_owned(), self.keys.clone(), self.notices.clone());
        let dial = move || {
            let greeted = tcp::connect(&address, keys.caller(Role::Keeper, 0), &proving(&keys), Instant::now() + GREET);
            notices.send(ToControl::KeeperDialed(address, greeted));
        };
        match std::thread::Builder::new().name("hanare-dial".to_owned()).spawn(dial) {
            Ok(_) => other.is_dialing = true,
            Err(_) => other.dial_at_ms = now_ms.saturating_add(AGAIN_MS),
        }
    }

    /// A try to reach a keeper ended. Returns true if there is a link to watch under that key.
    pub fn dialed(&mut self, now_ms: u64, address: &str, key: u64, outcome: Result<Greeted>) -> bool {
        let Some(other) = self.others.get_mut(address) else { return false };
        other.is_dialing = false;
        other.dial_at_ms = now_ms.saturating_add(AGAIN_MS);
        let mut link = match outcome {
            Ok(greeted) if !can_read(&self.engine, &greeted) => return false,
            Ok(greeted) => KeeperLink::new(greeted, Way::To { address: address.to_owned(), number: None }),
            Err(error) => {
                tracing::debug!("keeper {address} is not there: {error}");
                return false;
            }
        };
        if link.send(&Said::Hello(self.hello())).is_err() {
            return false;
        }
        self.links.insert(key, link);
        true
    }

    fn hello(&self) -> KeeperHello {
        let identity = self.identity();
        let list = match identity.list.edition {
            0 => self.founding_list(&identity),
            _ if identity.holds => identity.list,
            _ => KeeperList::default(),
        };
        KeeperHello { address: self.address.clone(), disk: identity.own, list }
    }

    /// Another keeper has connected. Returns true if there is a link to watch under that key.
    pub fn came(&mut self, key: u64, greeted: Greeted) -> bool {
        if self.links.values().filter(|link| link.way == Way::From(None)).count() >= KEEPER_UNKNOWN_COUNT_MAX
            || !can_read(&self.engine, &greeted)
        {
            return false;
        }
        self.links.insert(key, KeeperLink::new(greeted, Way::From(None)));
        true
    }

    pub fn link(&self, key: u64) -> Option<&KeeperLink> {
        self.links.get(&key)
    }

    /// A link ended; returns it for its owner to stop watching. That of the leader tells sooner than silence does that it is gone: the engine's
    /// time runs faster for six of its rounds.
    pub fn close(&mut self, key: u64) -> Option<KeeperLink> {
        let ended = self.links.remove(&key)?;
        if ended.way.number().is_some_and(|other| self.engine.lock().is_led_by(other)) {
            (self.hurried, self.tick_at_ms) = (HURRIED_TICKS, 0);
        }
        Some(ended)
    }

    /// Something happened on a link. Returns whether there is more to read, or why the link ends: nothing, where nobody needs to know.
    pub fn on_event(&mut self, now_ms: u64, key: u64) -> std::result::Result<bool, String> {
        let Some(link) = self.links.get_mut(&key) else { return Ok(false) };
        let (said, ending) = link.link.receive::<Said>();
        let has_more = link.link.has_more();
        for said in said {
            // Links of an edition that is over say nothing any more.
            if self.is_renewed {
                return Err(QUIET);
            }
            self.hear(now_ms, key, said)?;
        }
        ending.map(|()| has_more).map_err(|error| error.to_string())
    }

    fn hear(&mut self, now_ms: u64, key: u64, said: Said) -> std::result::Result<(), String> {
        let Some(link) = self.links.get_mut(&key) else { return Ok(()) };
        match (link.way.clone(), said) {
            (_, Said::More) => {
                let now = link.sent.on_more()?;
                send_all(&mut link.link, now).map_err(|error| error.to_string())
            }
            (Way::To { .. } | Way::From(Some(_)), Said::Piece { bytes, is_last }) => {
                let whole = link.received.take(&bytes, is_last)?;
                link.send(&Said::More)?;
                link.way.number().into_iter().for_each(|from| self.engine.lock().heard(from));
                whole.map_or(Ok(()), |whole| self.hear(now_ms, key, whole))
            }
            (Way::From(None), Said::Hello(hello)) => self.answer_hello(now_ms, key, &hello),
            (Way::From(Some(number)), said) => self.hear_keeper(number, said),
            (Way::To { address, .. }, said) => self.hear_answer(now_ms, key, &address, said),
            _ => Err("it said what does not belong there".to_owned()),
        }
    }

    /// A keeper of the same edition speaks.
    fn hear_keeper(&mut self, number: u64, said: Said) -> std::result::Result<(), String> {
        match said {
            // The engine would answer it by what is under way.
            Said::Engine(_) if said.is_promise() && self.is_busy_to(number) => Ok(()),
            Said::Engine(message) => match self.engine.lock().receive(number, *message) {
                true => Ok(()),
                false => Err("it said what no keeper says".to_owned()),
            },
            Said::Round(asked) => {
                if self.engine.lock().answer_round(number, asked) {
                    // The other keeper asks again for an answer that does not leave.
                    let _ = self.say(number, &Said::NoOther(asked));
                }
                Ok(())
            }
            Said::NoOther(asked) => {
                self.engine.lock().on_no_other(number, asked);
                Ok(())
            }
            _ => Err("it said what does not belong there".to_owned()),
        }
    }

    fn is_busy_to(&self, number: u64) -> bool {
        self.key_to(number).and_then(|key| self.links.get(&key)).is_some_and(|link| link.sent.is_busy())
    }

    /// Sends what the engine has to say, once that is written down, and reads what is decided. Returns true if there was something.
    pub fn turn(&mut self, failed: &mut Vec<(u64, String)>) -> bool {
        let shared = self.engine.clone();
        let messages = shared.lock().take_messages();
        for message in messages {
            failed.extend(self.say(message.get_receiver(), &Said::Engine(Box::new(message))).err());
        }
        let asked = shared.lock().ask_round();
        if let Some(asked) = asked {
            let others: Vec<u64> = self
                .links
                .values()
                .filter(|link| matches!(link.way, Way::To { .. }))
                .filter_map(|link| link.way.number())
                .collect();
            failed.extend(others.into_iter().filter_map(|other| self.say(other, &Said::Round(asked)).err()));
        }
        let has_read = shared.lock().read_decided();
        if shared.lock().enter_next() {
            self.renew();
        }
        if std::mem::take(&mut self.is_renewed) {
            failed.extend(self.links.keys().map(|key| (*key, QUIET)));
            return true;
        }
        has_read
    }

    /// Its part in the pool. A reign begins or ends by this look.
    pub fn rule(&mut self) -> Rule {
        self.engine.lock().rule()
    }

    /// Sends a message where the keeper that it is for is connected. The engine takes what is lost for lost. **Errors**: the link's, with its key.
    fn say(&mut self, to: u64, said: &Said) -> std::result::Result<(), (u64, String)> {
        let Some((key, link)) = self.key_to(to).and_then(|key| Some((key, self.links.get_mut(&key)?))) else { return Ok(()) };
        link.send(said).map_err(|error| (key, error))
    }
}
