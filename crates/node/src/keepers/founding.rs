//! The first edition of the list of keepers: who begins it, and with which records.
//!
//! The named keepers have to be there. The first of them begins with an empty log. But a keeper that brings the journal of a coordinator that was alone
//! begins itself, with those records. It says so by its disk in the list of its hello, which has no disks otherwise.

use super::founders::Founder;
use super::links::{COMPLAIN_MS, Keepers};
use super::message::KeeperHello;
use super::store::{Base, Identity};
use crate::journal::Journal;
use crate::options::FormerJournal;
use hanare_protocol::coordinator::History;
use hanare_protocol::keeper_list::KeeperList;
use hanare_protocol::{Error, Result};
use std::path::Path;

/// Time in which all keepers have said hello, at their first start.
const FOUND_MS: u64 = 3_000;

impl Keepers {
    /// The log of the keepers begins with the journal of a coordinator that was alone, if that is wanted. Once it has begun, nothing is done here.
    ///
    /// **Errors**: [`Error::BadSetting`] for a node that is none of the named keepers, and where there is no such journal. The same where there
    /// is one that nobody wants: an empty pool would not know the regions whose bytes nodes have kept. Those of [`Journal::open`].
    pub fn bring(&mut self, FormerJournal { path, is_wanted }: &FormerJournal) -> Result<()> {
        let refuse = |reason: &str| {
            let (key, value) = ("--from-journal".to_owned(), path.display().to_string());
            Err(Error::BadSetting { key, value, reason: reason.to_owned() })
        };
        let identity = self.identity();
        if identity.list.edition > 0 {
            return Ok(());
        }
        if !is_wanted {
            return self.refuse_beside(&identity, path);
        }
        if !self.is_founder(&identity) {
            return refuse("this node is no keeper: --keepers does not name its address");
        }
        if !path.exists() {
            return refuse("there is no journal: name the file, or begin without one");
        }
        let (journal, records) = Journal::open(path)?;
        if records.is_empty() {
            return refuse("no coordinator has written it: begin without one");
        }
        self.founders.brought = Some((journal, records));
        Ok(())
    }

    /// Refuses an empty log beside the journal of a coordinator that was alone.
    fn refuse_beside(&self, identity: &Identity, path: &Path) -> Result<()> {
        if !self.is_founder(identity) || !path.exists() {
            return Ok(());
        }
        let reason = format!(
            "{} is the journal of a pool with one coordinator: say --from-journal, or move it away for an empty pool",
            path.display()
        );
        Err(Error::BadSetting { key: "--keepers".to_owned(), value: identity.list.addresses().join(","), reason })
    }

    /// The list in this node's hello, while no edition has begun.
    pub(super) fn founding_list(&self, identity: &Identity) -> KeeperList {
        let mut list = identity.list.clone();
        if self.founders.brought.is_some() {
            list.seats.values_mut().filter(|seat| seat.address == self.address).for_each(|seat| seat.disk = Some(identity.own));
        }
        list
    }

    /// Begins the first edition, if that is this keeper's part and it knows all others.
    pub(super) fn found(&mut self, now_ms: u64) {
        let identity = self.identity();
        if !self.is_founder(&identity) {
            return;
        }
        self.founders.known.retain(|_, founder| now_ms.saturating_sub(founder.at_ms) < FOUND_MS);
        let mut list = KeeperList { edition: 1, ..identity.list };
        for (number, seat) in &mut list.seats {
            let is_own = seat.address == self.address;
            seat.disk = if is_own { Some(identity.own) } else { self.founders.known.get(number).map(|founder| founder.disk) };
        }
        let missing: Vec<&str> =
            list.seats.values().filter(|seat| seat.disk.is_none()).map(|seat| seat.address.as_str()).collect();
        let begins = match self.founders.known.values().any(|founder| founder.brings) {
            true => false,
            false => self.founders.brought.is_some() || list.number_at(&self.address) == Some(1),
        };
        if begins && missing.is_empty() {
            self.begin_first(list);
        } else if now_ms >= self.complain_at_ms {
            self.complain_at_ms = now_ms.saturating_add(COMPLAIN_MS);
            match begins {
                true => tracing::warn!("this keeper waits for {}: at their first start all must be there", missing.join(", ")),
                false => tracing::warn!("this keeper waits for the others: at their first start all must be there"),
            }
        }
    }

    /// Begins the first edition. A journal is not used again: its coordinator would be a second one.
    fn begin_first(&mut self, list: KeeperList) {
        let history = match &self.founders.brought {
            Some((_, records)) => History::of_records(records.clone()),
            None => History::default(),
        };
        if !self.engine.lock().enter(Base::begin(list, history)) {
            return;
        }
        if let Some((journal, _)) = self.founders.brought.take() {
            let retired = self.store.lock().flush().and_then(|()| journal.retire());
            match retired {
                Ok(path) => {
                    tracing::warn!("the keepers have this node's journal from here on; {} is not used again", path.display())
                }
                Err(error) => tracing::error!("{error}; move that journal away: no coordinator may begin with it again"),
            }
        }
        self.renew();
    }

    /// A keeper says hello at its first start. Returns why it is refused, if it is.
    pub(super) fn refuse_founder(&mut self, now_ms: u64, identity: &Identity, hello: &KeeperHello) -> Option<String> {
        if hello.list.seats.is_empty() || !self.is_founder(identity) {
            return None;
        }
        let mut theirs = hello.list.clone();
        let brought = theirs.seats.values_mut().filter(|seat| seat.address == hello.address).find_map(|seat| seat.disk.take());
        if theirs != identity.list {
            let (theirs, ours) = (theirs.addresses().join(","), identity.list.addresses().join(","));
            return Some(format!("it was started with --keepers {theirs}, and this one with {ours}; start all with the same"));
        }
        let Some(number) = theirs.number_at(&hello.address).filter(|_| hello.address != self.address) else {
            return Some(format!("there is no other keeper at {}", hello.address));
        };
        let brings = brought.is_some_and(|disk| disk == hello.disk);
        let other_brings = |(other, founder): (&u64, &Founder)| *other != number && founder.brings;
        if brings && (self.founders.brought.is_some() || self.founders.known.iter().any(other_brings)) {
            return Some("another keeper brings a journal, too; start one of both without --from-journal".to_owned());
        }
        self.founders.known.insert(number, Founder { disk: hello.disk, at_ms: now_ms, brings });
        None
    }
}
