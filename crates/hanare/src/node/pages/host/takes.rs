//! Pages that are being taken from programs: for other hosts, or to make room.

use super::messages::acknowledge;
use super::*;

/// Most pages that are taken at once: as many as are asked for at once.
const RUN_COUNT_MAX: u64 = 64;

/// In which way a page is taken. Neighbours that are taken in the same way are taken together, with one shoot-down for all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Manner {
    home: usize,
    stays: Stays,
    wants_bytes: bool,
}

impl Take {
    fn manner(&self) -> Result<Manner, Corrupt> {
        let (stays, wants_bytes) = match &self.why {
            Why::Invalidate { .. } => (Stays::Nothing, false),
            Why::Forward { access, .. } => (if *access == Access::Read { Stays::Copy } else { Stays::Nothing }, true),
            Why::Recall { keeps, .. } => (if *keeps { Stays::Copy } else { Stays::Nothing }, true),
            Why::Evict { was } => (Stays::Nothing, was.state()? == State::Owned),
        };
        Ok(Manner { home: self.home, stays, wants_bytes })
    }
}

impl Host {
    /// A page that is marked is to be taken: by the next [`Host::turn`], with its neighbours.
    pub(super) fn begin_take(&mut self, home: usize, page: u64, why: Why) {
        if let Some(pages) = &mut self.pages {
            pages.takes.insert(page, Take { home, why });
        }
    }

    /// Whether pages are being taken, or waited for to be filled.
    pub fn is_taking(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| !pages.takes.is_empty() || !pages.filling.is_empty())
    }

    /// Hears what waited for pages that are filled by now; takes those marked pages that nobody maps at this moment, then what waited
    /// for that. Returns whether there were any.
    pub fn turn(&mut self, says: &mut Vec<Say>) -> bool {
        let filled = self.hear_of_filled(says);
        let Some(pages) = &self.pages else { return false };
        let clear: Vec<u64> = pages.takes.keys().copied().filter(|page| pages.words.is_clear(*page)).collect();
        let taken = self.take_all(&clear, says);
        let has_heard = matches!(filled, Ok(true));
        if let Err(corrupt) = filled.and(taken) {
            self.give_up(&corrupt);
        }
        has_heard || !clear.is_empty()
    }

    /// What was said about pages while threads were filling their frames. Returns whether some are filled by now.
    fn hear_of_filled(&mut self, says: &mut Vec<Say>) -> Result<bool, Corrupt> {
        let Some(pages) = self.pages.as_mut().filter(|pages| !pages.filling.is_empty()) else { return Ok(false) };
        let words = &pages.words;
        let filled: Vec<u64> = pages.filling.extract_if(.., |page| !words.look(*page).is_being_filled()).collect();
        filled.iter().try_for_each(|page| self.act_on_waiting(*page, says))?;
        Ok(!filled.is_empty())
    }

    /// Takes pages, ascending, that nobody maps.
    fn take_all(&mut self, clear: &[u64], says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let mut rest = clear;
        while let Some((&first, _)) = rest.split_first() {
            let Some(pages) = &mut self.pages else { return Ok(()) };
            let manner = |page: u64| pages.takes.get(&page).map(Take::manner).transpose();
            let Some(of_first) = manner(first)? else { return Err(Corrupt("a page that is taken by nobody is being taken")) };
            let mut run = Run::one(first);
            while let Some(&next) = rest.get(run.count as usize)
                && next == first + run.count
                && run.count < RUN_COUNT_MAX
                && manner(next)? == Some(of_first)
            {
                run.count += 1;
            }
            self.take_run(run, of_first, says)?;
            rest = &rest[run.count as usize..];
        }
        clear.iter().try_for_each(|page| self.act_on_waiting(*page, says))
    }

    /// What was said about a page while it was being taken, or filled.
    fn act_on_waiting(&mut self, page: u64, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        while let Some(pages) = &mut self.pages
            && !pages.is_held(page)
        {
            let Some((home, message, bytes)) = pages.waiting.get_mut(&page).and_then(VecDeque::pop_front) else {
                pages.waiting.remove(&page);
                break;
            };
            self.act(home, Page(page), message, bytes, says)?;
        }
        Ok(())
    }

    fn take_run(&mut self, run: Run, manner: Manner, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let Manner { home, stays, wants_bytes } = manner;
        let memory = self.homes[home].memory.clone();
        let clients: Vec<&ClientFrames> =
            self.clients.iter().filter_map(|client| client.frames.as_ref()).chain(&self.parted).collect();
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let bytes = pages.take(run, memory.as_deref(), &clients, wants_bytes, stays);
        let mut bytes = bytes.into_iter().flatten();
        for page in run.first..run.first + run.count {
            self.publish(page, bytes.next(), says)?;
        }
        Ok(())
    }

    /// A page has been taken: says so in its word, and to whom it was taken for.
    fn publish(&mut self, page: u64, bytes: Option<PageBytes>, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let Some(Take { home, why }) = pages.takes.remove(&page) else { return Ok(()) };
        let me = self.homes[home].me;
        let changed = match &why {
            Why::Invalidate { version, .. } => pages.words.drop_taken(page, *version)?,
            Why::Forward { era, access: Access::Write, .. } | Why::Recall { era, keeps: false } => {
                pages.words.drop_taken(page, *era)?
            }
            Why::Evict { was } => pages.words.drop_taken(page, was.version().prev())?,
            Why::Forward { .. } | Why::Recall { .. } => pages.words.keep_taken(page)?,
        };
        pages.wake(page, changed);
        let page = Page(page);
        match why {
            Why::Invalidate { version, tell } => {
                pages.counters.invalidated += 1;
                says.push(acknowledge(home, page, me, version, tell));
            }
            Why::Forward { era, to, ticket, access } => {
                pages.counters.forwarded += 1;
                let version = if access == Access::Write { era.next() } else { era };
                let firm = access == Access::Write;
                let message = ToHost::Grant { ticket, version, access, has_bytes: true, awaits: Hosts::NONE, firm };
                says.push(Say::Host { home, to, page, message, bytes: bytes.clone() });
                if access == Access::Read {
                    says.push(Say::Home { home, page, message: ToHome::WriteBack { version: era, keeps: true }, bytes });
                }
            }
            Why::Recall { era, keeps } => {
                pages.counters.recalled += 1;
                says.push(Say::Home { home, page, message: ToHome::WriteBack { version: era, keeps }, bytes });
            }
            Why::Evict { was } => {
                pages.counters.evicted += 1;
                if was.state()? == State::Owned {
                    let message = ToHome::WriteBack { version: was.version(), keeps: false };
                    says.push(Say::Home { home, page, message, bytes });
                }
            }
        }
        Ok(())
    }

    /// More frames are filled than there may be: some pages from elsewhere go.
    // FEATURE: D2-F4
    pub fn on_crowded(&mut self, says: &mut Vec<Say>) {
        let Some(pages) = &mut self.pages else { return };
        let present = pages.frames.present_count().unwrap_or(0);
        let Some(excess) = present.checked_sub(pages.frames_max).filter(|excess| *excess > 0) else { return };
        let wanted = (excess as usize + EVICT_COUNT / 2).max(EVICT_COUNT);
        let (count, mut found) = (pages.count(), Vec::new());
        for _ in 0..count.max(SWEEP_COUNT) {
            let page = pages.hand % count;
            pages.hand = page + 1;
            if matches!(pages.words.look(page).state(), Ok(State::Shared | State::Owned)) {
                found.push(page);
            }
            if found.len() >= wanted {
                break;
            }
        }
        found.into_iter().for_each(|page| self.evict(page, false));
        self.turn(says);
    }

    /// Lets go of a page; one of this node's own memory only where `all` go.
    pub(super) fn evict(&mut self, page: u64, all: bool) {
        let home = self.home_of_page(page);
        if self.homes[home].memory.is_some() && !all {
            return;
        }
        let Some(pages) = &mut self.pages else { return };
        if pages.takes.contains_key(&page) {
            return;
        }
        match pages.words.take_to_evict(page) {
            Ok(Some(was)) => self.begin_take(home, page, Why::Evict { was }),
            Ok(None) => {}
            Err(corrupt) => self.give_up(&corrupt),
        }
    }

    /// Lets go of all pages, or of those of one home. Returns whether all are home, or on their way.
    pub fn empty(&mut self, of: Option<usize>, says: &mut Vec<Say>) -> bool {
        let Some(pages) = &self.pages else { return true };
        let is_here = |page: &u64| pages.words.look(*page) != Word::NEVER;
        let is_meant = |page: &u64| of.is_none_or(|home| self.home_of_page(*page) == home);
        let here: Vec<u64> = (0..pages.count()).filter(is_here).filter(is_meant).collect();
        for page in &here {
            if !matches!(self.pages.as_ref().map(|pages| pages.words.look(*page).state()), Some(Ok(State::Absent))) {
                self.evict(*page, true);
            }
        }
        self.turn(says);
        let Some(pages) = &self.pages else { return true };
        !here.iter().any(|page| !matches!(pages.words.look(*page).state(), Ok(State::Absent) | Err(_)))
    }
}
