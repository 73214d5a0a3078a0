//! Hellos of keepers: who is of the same edition, and who is behind.

use super::links::{COMPLAIN_MS, Keepers, QUIET, Way};
use super::message::{KeeperHello, Said};
use super::store::Identity;
use std::cmp::Ordering;

impl Keepers {
    /// Another keeper has connected, and says who it is. **Errors**: why the link ends.
    pub(super) fn answer_hello(&mut self, now_ms: u64, key: u64, hello: &KeeperHello) -> std::result::Result<(), String> {
        let answer = self.meet(now_ms, hello);
        let number = self.identity().list.number_of(hello.disk).filter(|_| matches!(answer, Said::Met));
        let Some(link) = self.links.get_mut(&key) else { return Ok(()) };
        link.send(&answer)?;
        if let Said::Refused(reason) = answer {
            return Err(format!("it was refused: {reason}"));
        }
        if let Some(number) = number {
            let way = Way::From(Some(number));
            // The keeper's connection before this one is over: what it still says there is not heard.
            self.links.values_mut().filter(|link| link.way == way).for_each(|link| link.way = Way::From(None));
            self.links.entry(key).and_modify(|link| link.way = way);
            self.engine.lock().reconnected(number);
        }
        Ok(())
    }

    /// A keeper that this one has connected to answers its hello.
    pub(super) fn hear_answer(&mut self, now_ms: u64, key: u64, address: &str, said: Said) -> std::result::Result<(), String> {
        match said {
            Said::Met => {
                let number = self.identity().list.number_at(address);
                if let (Some(link), Some(number)) = (self.links.get_mut(&key), number) {
                    link.way = Way::To { address: address.to_owned(), number: Some(number) };
                    self.engine.lock().reconnected(number);
                }
                Ok(())
            }
            Said::Later { disk } => {
                let seat = self.identity().list.seats.into_values().find(|seat| seat.address == address);
                if seat.is_some_and(|seat| seat.disk.is_some_and(|known| known != disk)) {
                    self.pause(now_ms, address);
                    return Err("its file is another than the one that keepers know".to_owned());
                }
                Err(QUIET)
            }
            Said::Base(base) => {
                if self.engine.lock().enter(*base) {
                    self.renew();
                }
                Err(QUIET)
            }
            Said::Refused(reason) => {
                self.pause(now_ms, address);
                Err(format!("it refuses this keeper: {reason}"))
            }
            _ => Err("it said what does not belong there".to_owned()),
        }
    }

    fn pause(&mut self, now_ms: u64, address: &str) {
        self.others.entry(address.to_owned()).and_modify(|other| {
            other.dial_at_ms = now_ms.saturating_add(COMPLAIN_MS);
            other.is_ahead = false;
        });
    }

    /// Judges who connected. Returns the answer.
    fn meet(&mut self, now_ms: u64, hello: &KeeperHello) -> Said {
        let identity = self.identity();
        let later = Said::Later { disk: identity.own };
        match hello.list.edition.cmp(&identity.held()) {
            Ordering::Greater => {
                let concerns = identity.holds || hello.list.number_of(identity.own).is_some();
                if concerns && hello.list.is_sound() && hello.address != self.address {
                    self.fetch_from(&hello.address);
                }
                later
            }
            Ordering::Less => self.help(&identity, hello).unwrap_or(later),
            Ordering::Equal if identity.holds => match identity.list.number_of(hello.disk) {
                Some(number) if identity.list == hello.list && identity.number().is_some_and(|me| me != number) => Said::Met,
                _ => Said::Refused("it knows other keepers, or is none".to_owned()),
            },
            Ordering::Equal => match self.refuse_founder(now_ms, &identity, hello) {
                Some(reason) => Said::Refused(reason),
                None => later,
            },
        }
    }

    /// Answers a caller that is behind: by the base, where it is a keeper or was one.
    fn help(&self, identity: &Identity, hello: &KeeperHello) -> Option<Said> {
        let list = &identity.list;
        if hello.list.edition > 0 || list.number_of(hello.disk).is_some() {
            return self.store.lock().base().map(|base| Said::Base(Box::new(base)));
        }
        match list.number_at(&hello.address).and_then(|number| list.seats.get(&number)) {
            // The caller gets the place when it has joined the pool.
            Some(seat) if seat.disk.is_none() => None,
            Some(_) => Some(Said::Refused(
                "its file is another than the one that keepers know; give it its file back (HANARE_STATE), or use `hanare keeper \
                 replace` if that is lost"
                    .to_owned(),
            )),
            None => Some(Said::Refused(format!(
                "the keepers are {} today; `hanare keeper add {}` makes it one",
                list.addresses().join(", "),
                hello.address
            ))),
        }
    }
}
