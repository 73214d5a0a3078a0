//! The link to the coordinator, where that is another node: connected in a thread, again and again.
//!
//! In a pool with keepers any of them may be the coordinator. One that is not names the one that is.

use crate::control_link::ControlLink;
use crate::notice_queue::NoticeQueue;
use crate::notices::ToControl;
use crate::proving;
use hanare_fabric::tcp::{self, Keys};
use hanare_protocol::limits::KEEPER_ADDRESS_LEN_MAX;
use hanare_protocol::wire::control::ToNode;
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::{Error, Result};
use rustix::event::epoll::EventFlags;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time from a failure to the next try.
const AGAIN_MS: u64 = 300;

/// Time from a keeper's word on another to the try.
const GO_ON_MS: u64 = 30;

/// Time without a word of a keeper after which a node that is no member tries the next.
const SILENT_MS: u64 = 1_000;

/// Time for a keeper to greet: another may lead while it stands still.
const KEEPER_BOUND: Duration = Duration::from_secs(1);

/// Time without a word of the coordinator after which a member asks another keeper who leads. A renewal has waited for two thirds of it.
const DOUBT_MS: u64 = 750;

/// Time for that keeper to greet and to answer. One that leads itself says nothing.
const WORD_BOUND: Duration = Duration::from_millis(400);

pub(crate) struct CoordinatorLink {
    /// The coordinator's address, or those of all keepers.
    addresses: Vec<String>,
    has_keepers: bool,
    /// True if a keeper that does not lead has named another one.
    was_sent_on: bool,
    /// The one to go to.
    address: String,
    keys: Keys,
    bound: Duration,
    notices: Arc<NoticeQueue<ToControl>>,
    pub link: Option<ControlLink>,
    pub interest: EventFlags,
    is_dialing: bool,
    dial_at_ms: u64,
    /// When the other end was heard last.
    heard_ms: u64,
    /// The keeper that was asked last who leads.
    asked: String,
    is_asking: bool,
    ask_at_ms: u64,
}

impl CoordinatorLink {
    /// A link that is not there yet, to one of the addresses: those of keepers, or that of the one coordinator.
    pub fn new(
        (addresses, has_keepers): (Vec<String>, bool),
        keys: Keys,
        bound: Duration,
        notices: Arc<NoticeQueue<ToControl>>,
    ) -> CoordinatorLink {
        let address = addresses.first().cloned().unwrap_or_default();
        let bound = if has_keepers { bound.min(KEEPER_BOUND) } else { bound };
        let (link, interest, is_dialing, dial_at_ms, heard_ms) = (None, EventFlags::IN, false, 0, 0);
        CoordinatorLink {
            addresses,
            has_keepers,
            was_sent_on: false,
            address,
            keys,
            bound,
            notices,
            link,
            interest,
            is_dialing,
            dial_at_ms,
            heard_ms,
            asked: String::new(),
            is_asking: false,
            ask_at_ms: 0,
        }
    }

    /// The pool has these keepers from here on. The link that is there stays.
    pub fn set_keepers(&mut self, addresses: Vec<String>) {
        if !addresses.is_empty() {
            (self.addresses, self.has_keepers) = (addresses, true);
            self.bound = self.bound.min(KEEPER_BOUND);
        }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// All that it tries, for messages to the user.
    pub fn addresses(&self) -> String {
        self.addresses.join(", ")
    }

    /// True where several keepers may be the coordinator.
    pub fn has_keepers(&self) -> bool {
        self.has_keepers
    }

    /// The keepers' addresses, if there are any.
    pub fn keepers(&self) -> &[String] {
        if self.has_keepers { &self.addresses } else { &[] }
    }

    /// Begins to connect, if that is due.
    pub fn dial(&mut self, now_ms: u64) {
        if self.link.is_some() || self.is_dialing || now_ms < self.dial_at_ms {
            return;
        }
        let (address, keys, notices, bound) = (self.address.clone(), self.keys.clone(), self.notices.clone(), self.bound);
        let dial = move || {
            let greeted = tcp::connect(&address, keys.caller(Role::Control, 0), &proving(&keys), Instant::now() + bound);
            notices.send(ToControl::Dialed(greeted));
        };
        match std::thread::Builder::new().name("hanare-dial".to_owned()).spawn(dial) {
            Ok(_) => self.is_dialing = true,
            Err(_) => self.dial_at_ms = now_ms + AGAIN_MS,
        }
    }

    /// A try ended. Returns the version of the wire that both speak.
    pub fn dialed(&mut self, now_ms: u64, outcome: Result<tcp::Greeted>) -> Result<u32, Error> {
        self.is_dialing = false;
        match outcome {
            Ok(greeted) => {
                self.link = Some(ControlLink::new(Box::new(greeted.link)));
                (self.interest, self.heard_ms) = (EventFlags::IN, now_ms);
                Ok(greeted.spoken)
            }
            Err(error) => {
                self.try_next(now_ms);
                Err(error)
            }
        }
    }

    /// The other end has said something.
    pub fn heard(&mut self, now_ms: u64) {
        self.heard_ms = now_ms;
    }

    /// True if the other end has not said anything for long, and another may lead.
    pub fn is_silent(&self, now_ms: u64) -> bool {
        (self.has_keepers || self.was_sent_on) && self.link.is_some() && now_ms.saturating_sub(self.heard_ms) > SILENT_MS
    }

    /// When the next keeper is to be asked who leads.
    fn ask_due_ms(&self) -> Option<u64> {
        let may_ask = self.has_keepers && self.addresses.len() > 1 && self.link.is_some() && !self.is_asking;
        may_ask.then(|| self.heard_ms.saturating_add(DOUBT_MS).max(self.ask_at_ms))
    }

    /// Asks the next keeper who leads, if that is due. The link to the coordinator stays: one that is slow leads on.
    pub fn ask_another(&mut self, now_ms: u64) {
        if self.ask_due_ms().is_none_or(|due_ms| now_ms < due_ms) {
            return;
        }
        self.ask_at_ms = now_ms.saturating_add(AGAIN_MS);
        let at = self.addresses.iter().position(|address| *address == self.asked).map_or(0, |at| at + 1);
        let mut others = self.addresses[at..].iter().chain(&self.addresses[..at]);
        let Some(next) = others.find(|address| **address != self.address).cloned() else { return };
        self.asked.clone_from(&next);
        let (keys, notices) = (self.keys.clone(), self.notices.clone());
        let ask = move || notices.send(ToControl::Leads(leader_by(&next, &keys)));
        self.is_asking = std::thread::Builder::new().name("hanare-ask".to_owned()).spawn(ask).is_ok();
    }

    /// A keeper was asked who leads. Returns the address of another leader than the silent one.
    pub fn other_leader(&mut self, now_ms: u64, leader: Option<String>) -> Option<String> {
        self.is_asking = false;
        let is_silent = self.link.is_some() && now_ms.saturating_sub(self.heard_ms) > DOUBT_MS;
        leader.filter(|leader| is_silent && *leader != self.address)
    }

    /// The link ended.
    pub fn lost(&mut self, now_ms: u64) -> Option<ControlLink> {
        let link = self.link.take()?;
        self.try_next(now_ms);
        Some(link)
    }

    /// The next try goes to the next address, after a pause where all were tried.
    fn try_next(&mut self, now_ms: u64) {
        let at = self.addresses.iter().position(|address| *address == self.address).map_or(0, |at| at + 1);
        self.dial_at_ms = if at < self.addresses.len() { now_ms } else { now_ms + AGAIN_MS };
        if let Some(next) = self.addresses.get(at).or(self.addresses.first()) {
            self.address.clone_from(next);
        }
    }

    /// The next try goes there. A keeper says so, which may know a later list. A moment passes, because it may not know yet that
    /// another died.
    pub fn go_to(&mut self, now_ms: u64, address: &str) {
        if address.len() <= KEEPER_ADDRESS_LEN_MAX {
            self.was_sent_on = true;
            (self.address, self.dial_at_ms) = (address.to_owned(), now_ms + GO_ON_MS);
        }
    }

    /// When something is due: a try, or a question to another keeper where this node `asks` them.
    pub fn next_deadline(&self, asks: bool) -> Option<u64> {
        let dial = (self.link.is_none() && !self.is_dialing).then_some(self.dial_at_ms);
        dial.or_else(|| self.ask_due_ms().filter(|_| asks))
    }
}

/// The leader by the word of the keeper at an address, if that names one.
fn leader_by(address: &str, keys: &Keys) -> Option<String> {
    let until = Instant::now() + WORD_BOUND;
    let greeted = tcp::connect(address, keys.caller(Role::Control, 0), &proving(keys), until).ok()?;
    match ControlLink::new(Box::new(greeted.link)).next(until)? {
        ToNode::Elsewhere { leader } => leader,
        _ => None,
    }
}
