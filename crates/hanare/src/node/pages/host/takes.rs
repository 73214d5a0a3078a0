//! Pages that are being taken from programs: for other hosts, or to make room.

use super::messages::acknowledge;
use super::*;

impl Host {
    pub(super) fn begin_take(&mut self, home: usize, page: u64, why: Why, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        pages.takes.insert(page, Take { home, why });
        self.go_on_taking(page, says)
    }

    /// Whether pages are being taken that somebody maps at this moment.
    pub fn is_taking(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| !pages.takes.is_empty())
    }

    /// Goes on with what waited. Returns whether anything moved.
    pub fn turn(&mut self, says: &mut Vec<Say>) -> bool {
        let Some(pages) = &self.pages else { return false };
        let taking: Vec<u64> = pages.takes.keys().copied().collect();
        let before = says.len();
        for page in taking {
            if let Err(corrupt) = self.go_on_taking(page, says) {
                self.give_up(&corrupt);
            }
        }
        says.len() > before
    }

    /// Takes a page, if nobody maps it at this moment; then what waited for that.
    pub(super) fn go_on_taking(&mut self, page: u64, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        if !pages.words.is_clear(page) {
            return Ok(());
        }
        let Some(take) = pages.takes.remove(&page) else { return Ok(()) };
        self.take_now(page, take, says)?;
        while let Some(pages) = &mut self.pages
            && !pages.takes.contains_key(&page)
        {
            let Some((home, message, bytes)) = pages.waiting.get_mut(&page).and_then(VecDeque::pop_front) else {
                pages.waiting.remove(&page);
                break;
            };
            self.act(home, Page(page), message, bytes, says)?;
        }
        Ok(())
    }

    pub(super) fn take_now(&mut self, page: u64, take: Take, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let Take { home, why } = take;
        let me = self.homes[home].me;
        let memory = self.homes[home].memory.clone();
        let clients: Vec<&ClientFrames> =
            self.clients.iter().filter_map(|client| client.frames.as_ref()).chain(&self.parted).collect();
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let (stays, wants_bytes) = match &why {
            Why::Invalidate { .. } => (Stays::Nothing, false),
            Why::Forward { access, .. } => (if *access == Access::Read { Stays::Copy } else { Stays::Nothing }, true),
            Why::Recall { keeps, .. } => (if *keeps { Stays::Copy } else { Stays::Nothing }, true),
            Why::Evict { was } => (Stays::Nothing, was.state()? == State::Owned),
        };
        let bytes = pages.take(page, memory.as_deref(), &clients, wants_bytes, stays);
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
        for page in found {
            self.evict(page, false, says);
        }
    }

    /// Lets go of a page; one of this node's own memory only where `all` go.
    pub(super) fn evict(&mut self, page: u64, all: bool, says: &mut Vec<Say>) {
        let home = self.home_of_page(page);
        if self.homes[home].memory.is_some() && !all {
            return;
        }
        let Some(pages) = &mut self.pages else { return };
        if pages.takes.contains_key(&page) {
            return;
        }
        let taken = match pages.words.take_to_evict(page) {
            Ok(Some(was)) => self.begin_take(home, page, Why::Evict { was }, says),
            Ok(None) => Ok(()),
            Err(corrupt) => Err(corrupt),
        };
        if let Err(corrupt) = taken {
            self.give_up(&corrupt);
        }
    }

    /// Lets go of all pages, for the last client has gone. Returns whether all are home, or on their way.
    pub fn empty(&mut self, says: &mut Vec<Say>) -> bool {
        let Some(pages) = &self.pages else { return true };
        let is_here = |page: &u64| pages.words.look(*page) != Word::NEVER;
        let here: Vec<u64> = (0..pages.count()).filter(is_here).collect();
        for page in here {
            if !matches!(self.pages.as_ref().map(|pages| pages.words.look(page).state()), Some(Ok(State::Absent))) {
                self.evict(page, true, says);
            }
        }
        let Some(pages) = &self.pages else { return true };
        let is_open = |page: u64| !matches!(pages.words.look(page).state(), Ok(State::Absent) | Err(_));
        !(0..pages.count()).any(is_open)
    }
}
