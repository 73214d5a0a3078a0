//! The process of the locks' home: drives the home that nodes run, and tells the judge what crosses the home's border.

use super::frames::{LEN, LOCK_COUNT};
use super::{Defect, EntryWorld, Event};
use crate::check::Check;
use crate::served::{HomeInput, ServedHome, request};
use hanare_home::{Bytes, Input, LockTerms, SyncOutput, Vector, Waiter};
use hanare_protocol::Result as Outcome;
use hanare_protocol::entry::{Condition, DataGrant, Stores};
use hanare_protocol::lock::Mode;
use hanare_protocol::wire::carried::ExtentAddress;
use hanare_protocol::wire::sync::{SyncAddress, SyncAnswer, SyncRequest};
use std::collections::BTreeMap;

/// A life of the home's process.
#[derive(Debug)]
pub(super) struct EntryService {
    pub served: ServedHome<Vector>,
    /// Requests for locks without an answer: the lock, the number of the taking, and how it is taken.
    asked: BTreeMap<Waiter, (usize, u64, Mode)>,
    /// Locks that programs have, by the link and number of the taking.
    taken: BTreeMap<(u64, u64), (usize, Mode)>,
}

impl EntryService {
    pub fn is_at_rest(&self) -> bool {
        self.served.counts().lock_waits == 0
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
        let terms = LockTerms { is_home: true, was_home: life > 1, was_lender: false };
        let (asked, taken) = Default::default();
        self.home = Some(EntryService { served: ServedHome::new(life, terms), asked, taken });
        Ok(())
    }

    /// The regions' bytes at their homes.
    pub(super) fn base(&self) -> [u8; LEN] {
        let mut base = [0; LEN];
        self.region.read(0, &mut base).expect("vectors are there");
        base
    }

    /// A byte reaches its region's home.
    pub(super) fn put(&mut self, at: usize, byte: u8) {
        self.region.write(at as u64, &[byte]).expect("vectors are there");
    }

    fn tell(&mut self, input: HomeInput) -> Vec<SyncOutput> {
        let EntryWorld { course, home, memory, .. } = self;
        home.as_mut().map_or_else(Vec::new, |home| home.served.handle(course.now_ms, input, memory))
    }

    /// A request arrives.
    pub(super) fn on_request(&mut self, link: u64, seq: u64, asks: SyncRequest) -> Check {
        let Some(program) = self.links.receiving(link, self.now_ms, true).copied() else {
            self.count("messages lost with their connection");
            return Ok(());
        };
        self.note(format!("link {link}: {asks:?}"));
        let (waiter, before) = (Waiter { link, seq }, self.base());
        if let SyncRequest::Lock { address: SyncAddress::Name(name), mode, number, .. } = &asks {
            self.home.as_mut().expect("its links are open").asked.insert(waiter, (lock_of(name), *number, *mode));
        }
        let outputs = self.tell(request(waiter, program, asks.clone()));
        let own = outputs.iter().find_map(|output| match output {
            SyncOutput::Answer(to, outcome) if *to == waiter => Some(outcome.clone()),
            _ => None,
        });
        match &asks {
            SyncRequest::Release { places, .. } => self.spoil(places, &before),
            SyncRequest::Lock { .. } if own.is_none() => self.count("waits for locks"),
            _ => {}
        }
        self.on_begun(link, &asks, own.as_ref())?;
        self.take(outputs)
    }

    /// The judge hears what a request did at once, before it hears what others are told.
    fn on_begun(&mut self, link: u64, asks: &SyncRequest, own: Option<&Outcome<SyncAnswer>>) -> Check {
        let EntryWorld { home, truth, drafts, .. } = self;
        let (SyncRequest::Publish { number, .. }
        | SyncRequest::Release { number, .. }
        | SyncRequest::Redone { number }
        | SyncRequest::Unlock { number }) = asks
        else {
            return Ok(());
        };
        let home = home.as_mut().expect("its links are open");
        let taken = home.taken.get(&(link, *number)).copied();
        let (lock, mode) = taken.ok_or_else(|| format!("link {link} has not got what it took by {number}"))?;
        let mut draft = || drafts.remove(&(link, *number)).ok_or("a release of nobody");
        match (asks, own) {
            (SyncRequest::Publish { publication, .. }, Some(Ok(_))) => {
                truth.on_published(lock, link, matches!(publication.changes, Stores::Bytes(..)), draft()?);
            }
            (SyncRequest::Release { .. }, Some(Ok(_))) => {
                truth.on_published(lock, link, true, draft()?);
                truth.on_given_back(lock);
                home.taken.remove(&(link, *number));
            }
            (SyncRequest::Redone { .. }, Some(Ok(_))) => truth.on_redone(lock),
            (SyncRequest::Unlock { .. }, Some(Ok(_))) => {
                if mode == Mode::Exclusive {
                    truth.on_given_back(lock);
                }
                home.taken.remove(&(link, *number));
            }
            // The program says what is wrong with it.
            _ => {}
        }
        Ok(())
    }

    /// Takes back what a release put: half of it, or all of it until the release has been answered.
    fn spoil(&mut self, places: &[ExtentAddress], before: &[u8; LEN]) {
        let (half, late) = (self.has(Defect::PutHalf), self.has(Defect::AnswerBeforePut));
        let kept = if half { places.len() / 2 } else { 0 };
        let after = self.base();
        for at in places.iter().skip(kept).map(|place| place.offset as usize).filter(|_| half || late) {
            self.put(at, before[at]);
            if late {
                self.at(5, Event::Put { at, byte: after[at] });
            }
        }
    }

    /// Does what the home orders.
    fn take(&mut self, outputs: Vec<SyncOutput>) -> Check {
        for output in outputs {
            let SyncOutput::Answer(waiter, outcome) = output else {
                return Err(format!("nothing is lent, and {output:?} comes"));
            };
            let home = self.home.as_mut().expect("it answers");
            if let Some((lock, number, mode)) = home.asked.remove(&waiter) {
                let Ok(SyncAnswer::Granted { abandoned, data, .. }) = &outcome else {
                    return Err(format!("{waiter:?} asks for lock {lock}, and is answered {outcome:?}"));
                };
                home.taken.insert((waiter.link, number), (lock, mode));
                self.count(if *abandoned { "grants of abandoned locks" } else { "grants" });
                self.count_data(data.as_deref());
            }
            self.send_program(waiter.link, waiter.seq, outcome);
        }
        let (now_ms, home) = (self.now_ms, self.home.as_mut());
        let tick = home.and_then(|home| Some((home.served.life, home.served.next_tick(now_ms)?)));
        if let Some((life, after)) = tick {
            self.at(after, Event::Tick { life });
        }
        Ok(())
    }

    fn count_data(&mut self, data: Option<&DataGrant>) {
        let Some(grant) = data else { return };
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

    /// The home's deadline has come.
    pub(super) fn on_tick(&mut self, life: u64) -> Check {
        if self.home.as_ref().is_none_or(|home| home.served.life != life) {
            return Ok(());
        }
        let outputs = self.tell(Input::Tick);
        self.take(outputs)
    }

    /// A connection ended for the home.
    pub(super) fn on_link_gone(&mut self, link: u64) -> Check {
        self.truth.on_link_gone(link);
        self.drafts.retain(|(of, _), _| *of != link);
        let dies_quietly = self.has(Defect::DieQuietly);
        let Some(home) = self.home.as_mut() else { return Ok(()) };
        home.asked.retain(|waiter, _| waiter.link != link);
        let numbers: Vec<u64> = home.taken.keys().filter(|(of, _)| *of == link).map(|(_, number)| *number).collect();
        home.taken.retain(|(of, _), _| *of != link);
        let mut outputs = Vec::new();
        for number in numbers.into_iter().filter(|_| dies_quietly) {
            let waiter = Waiter { link, seq: u64::MAX - number };
            outputs.extend(self.tell(request(waiter, 0, SyncRequest::Unlock { number })));
        }
        outputs.retain(|output| !matches!(output, SyncOutput::Answer(waiter, _) if waiter.link == link));
        outputs.extend(self.tell(Input::LinkGone { link }));
        self.take(outputs)
    }
}
