//! The locks' home: locks and the data bound to them, driven as the node's process drives them.

use super::frames::LOCK_COUNT;
use super::{Defect, EntryWorld};
use crate::check::Check;
use hanare_protocol::Result as Outcome;
use hanare_protocol::entry::{BoundData, Condition, Stamp, Stores};
use hanare_protocol::lock::{Claim, Claimant, Claimed, Locks, Mode};
use hanare_protocol::wire::sync::{Site, SyncAnswer, SyncRequest};
use std::collections::BTreeMap;

/// All programs are of one user.
const USER: u32 = 7;

/// What the home's process knows.
#[derive(Debug)]
pub(super) struct Home {
    pub life: u64,
    locks: Locks,
    data: BoundData,
    /// Those that wait for a lock: their request, the lock, and the version that they know.
    waiting: BTreeMap<Claimant, (u64, String, Option<Stamp>)>,
}

impl Home {
    pub fn is_at_rest(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// A lock's name.
pub(super) fn name_of(lock: usize) -> String {
    ["a", "b", "c"][lock].to_owned()
}

fn lock_of(name: &str) -> usize {
    (0..LOCK_COUNT).find(|lock| name_of(*lock) == name).expect("one of them")
}

impl EntryWorld {
    pub(super) fn on_home_begins(&mut self) -> Check {
        if self.home.is_some() {
            return Ok(());
        }
        self.home_lives += 1;
        let life = self.home_lives;
        self.note(format!("life {life} of the home begins"));
        let locks = if life == 1 { Locks::new() } else { Locks::after_another_life() };
        self.home = Some(Home { life, locks, data: BoundData::new(life), waiting: BTreeMap::new() });
        Ok(())
    }

    /// A request arrives.
    pub(super) fn on_request(&mut self, link: u64, seq: u64, request: SyncRequest) -> Check {
        if !self.is_open_at_home(link) {
            self.count("messages lost with their connection");
            return Ok(());
        }
        self.note(format!("link {link}: {request:?}"));
        match self.begin(link, seq, request)? {
            Ok(None) => {}
            Ok(Some(answer)) => self.send_program(link, seq, Ok(answer)),
            Err(error) => self.send_program(link, seq, Err(error)),
        }
        self.settle()
    }

    /// Does what is asked; `None` where the answer follows.
    fn begin(&mut self, link: u64, seq: u64, request: SyncRequest) -> Result<Outcome<Option<SyncAnswer>>, String> {
        let puts_half = self.has(Defect::PutHalf);
        let EntryWorld { home, truth, drafts, base, .. } = self;
        let home = home.as_mut().expect("its connections are open");
        let who = |number| Claimant { link, number };
        let held = |home: &Home, number| {
            let held = home.locks.held(who(number)).map(|(name, mode)| (lock_of(name), mode));
            held.ok_or_else(|| format!("link {link} has not got what it took by {number}"))
        };
        Ok(match request {
            SyncRequest::Lock { site: Site::Name(name), mode, number, thread, known, .. } => {
                match home.locks.on_lock(&name, Claim { who: who(number), thread, mode }, true) {
                    Ok(Claimed::Granted { abandoned }) => Ok(Some(self.grant(&name, known, abandoned)?)),
                    Ok(_) => {
                        home.waiting.insert(who(number), (seq, name, known));
                        self.count("waits for locks");
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            }
            SyncRequest::Publish { number, publication } => {
                let (lock, _) = held(home, number)?;
                let has_bytes = matches!(publication.changes, Stores::Bytes(..));
                let is = drafts.remove(&(link, number)).ok_or("a release of nobody")?;
                home.data.on_publish(&home.locks, who(number), USER, publication).map(|stamp| {
                    truth.on_published(lock, link, has_bytes, is);
                    Some(SyncAnswer::Published { stamp })
                })
            }
            SyncRequest::Release { number, publication, places, .. } => {
                let (lock, _) = held(home, number)?;
                let is = drafts.remove(&(link, number)).ok_or("a release of nobody")?;
                let puts: Vec<(u64, u8)> = places
                    .iter()
                    .zip(publication.changes.pieces())
                    .map(|(place, (_, bytes))| (place.offset, bytes[0]))
                    .take(if puts_half { places.len() / 2 } else { places.len() })
                    .collect();
                home.data.on_publish(&home.locks, who(number), USER, publication).and_then(|stamp| {
                    puts.into_iter().for_each(|(at, byte)| base[at as usize] = byte);
                    home.data.on_unlock(&home.locks, who(number));
                    truth.on_published(lock, link, true, is);
                    truth.on_given_back(lock);
                    home.locks.on_unlock(who(number)).map(|()| Some(SyncAnswer::Released(stamp, false)))
                })
            }
            SyncRequest::Redone { number } => {
                let (lock, _) = held(home, number)?;
                truth.on_redone(lock);
                home.data.on_redone(&home.locks, who(number)).map(|()| Some(SyncAnswer::Done))
            }
            SyncRequest::Unlock { number } => {
                let (lock, mode) = held(home, number)?;
                home.data.on_unlock(&home.locks, who(number));
                if mode == Mode::Exclusive {
                    truth.on_given_back(lock);
                }
                home.locks.on_unlock(who(number)).map(|()| Some(SyncAnswer::Done))
            }
            other => return Err(format!("nobody asks for {other:?}")),
        })
    }

    fn grant(&mut self, name: &str, known: Option<Stamp>, abandoned: bool) -> Result<SyncAnswer, String> {
        let home = self.home.as_mut().expect("it grants");
        let data = home.data.on_grant(name, known, USER);
        self.count(if abandoned { "grants of abandoned locks" } else { "grants" });
        if let Some(grant) = &data {
            self.count(match &grant.changes {
                Stores::All => "grants with all",
                Stores::Ranges(_) => "grants with places",
                Stores::Bytes(ranges, _) if ranges.is_empty() => "grants with nothing more",
                Stores::Bytes(..) => "grants with bytes",
            });
            match &grant.condition {
                Condition::Whole => {}
                Condition::Redo(_) => self.count("releases redone"),
                Condition::Torn => self.count("torn releases"),
            }
        }
        Ok(SyncAnswer::Granted { abandoned, lent: false, data })
    }

    /// Those who waited get their locks.
    fn settle(&mut self) -> Check {
        while let Some(grant) = self.home.as_mut().and_then(|home| home.locks.poll()) {
            let home = self.home.as_mut().expect("just seen");
            let waited = home.waiting.remove(&grant.who).ok_or_else(|| format!("{grant:?} to one that does not wait"))?;
            let (seq, name, known) = waited;
            let answer = self.grant(&name, known, grant.abandoned)?;
            self.send_program(grant.who.link, seq, Ok(answer));
        }
        Ok(())
    }

    /// A connection ended for the home.
    pub(super) fn on_link_gone(&mut self, link: u64) -> Check {
        self.truth.on_link_gone(link);
        self.drafts.retain(|(of, _), _| *of != link);
        let dies_quietly = self.has(Defect::DieQuietly);
        let Some(home) = self.home.as_mut() else { return Ok(()) };
        home.waiting.retain(|who, _| who.link != link);
        if !dies_quietly {
            home.data.on_link_gone(link);
        }
        home.locks.on_link_gone(link);
        self.settle()
    }
}
