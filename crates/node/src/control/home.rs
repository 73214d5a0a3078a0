//! The link to the coordinator, where that is another node: connected in a thread, again and again.

use crate::control_link::ControlLink;
use crate::notice_queue::NoticeQueue;
use crate::notices::ToControl;
use crate::proving;
use hanare_fabric::tcp::{self, Keys};
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::{Error, Result};
use rustix::event::epoll::EventFlags;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time from a failure to the next try.
const AGAIN_MS: u64 = 300;

pub(crate) struct CoordinatorLink {
    address: String,
    keys: Keys,
    bound: Duration,
    notices: Arc<NoticeQueue<ToControl>>,
    pub link: Option<ControlLink>,
    pub interest: EventFlags,
    is_dialing: bool,
    dial_at_ms: u64,
}

impl CoordinatorLink {
    pub fn new(address: String, keys: Keys, bound: Duration, notices: Arc<NoticeQueue<ToControl>>) -> CoordinatorLink {
        CoordinatorLink { address, keys, bound, notices, link: None, interest: EventFlags::IN, is_dialing: false, dial_at_ms: 0 }
    }

    pub fn address(&self) -> &str {
        &self.address
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

    /// A try ended.
    pub fn dialed(&mut self, now_ms: u64, outcome: Result<tcp::Greeted>) -> Result<(), Error> {
        self.is_dialing = false;
        match outcome {
            Ok(greeted) => {
                self.link = Some(ControlLink::new(Box::new(greeted.link)));
                self.interest = EventFlags::IN;
                Ok(())
            }
            Err(error) => {
                self.dial_at_ms = now_ms + AGAIN_MS;
                Err(error)
            }
        }
    }

    /// The link ended.
    pub fn lost(&mut self, now_ms: u64) -> Option<ControlLink> {
        self.dial_at_ms = now_ms + AGAIN_MS;
        self.link.take()
    }

    pub fn next_deadline(&self) -> Option<u64> {
        (self.link.is_none() && !self.is_dialing).then_some(self.dial_at_ms)
    }
}
