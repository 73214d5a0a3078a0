//! The page words of a region on one host. They are the state of each page there, in memory that the region's clients and their node share.
//!
//! Threads of many processes and the node meet at a page word. A thread that faults fetches and maps the page itself, and the node may
//! take the page away meanwhile. The rules of a word are those of [`hanare_protocol::page::word`]; here compare-exchange applies them.
//! Beside the words lie the slots of threads, with their present pages and their counts.
//!
//! # A fault, in a client's signal handler
//!
//! ```text
//! loop {
//!     match words.fault(page, slot, access)? {
//!         Fault::Map(_)      => { map it (below); words.leave(page, slot)?; return }
//!         Fault::Fetch { .. } | Fault::Upgrade { .. } => {
//!             send a request, for an upgrade with the version that is here;
//!             on a grant with bytes: words.fill(page, slot, version, access)?, write them into the frame,
//!             words.filled(page, slot, version)?; on one without: words.grant(page, slot, version, access)?
//!         }
//!         Fault::Wait(seen)  => { pause, yield; then words.doze(page, seen) and park on the word's low half }
//!     }
//! }
//! ```
//!
//! - *Mapping*: `UFFDIO_CONTINUE`, for [`Access::Read`] always with `MODE_WP` (a page that is not mapped cannot be
//!   write-protected later). For [`Access::Write`] also remove a write-protection that the thread's own process has. Map only between
//!   [`Fault::Map`] and [`PageWords::leave`]: as long as the thread is counted, nobody takes the page. Before and after, the mapped page
//!   may be one that was removed. The count and the state are one word, so a thread is counted only while the state lets it map.
//! - *Filling*: between [`PageWords::fill`] and [`PageWords::filled`] the frame is the filler's alone. The grant counts from the former on.
//!   An invalidation waits until the page is here, and no other answer is put into the frame.
//! - A grant may also come to the node (from the page's owner). The node then does the same in the claimer's name. [`Fill::Void`] and
//!   [`Installed::Void`] say that it was overtaken by an invalidation: ask again, firmly.
//! - [`PageWords::grant`] for writing is called when all acknowledgements have come, not before.
//! - After a refusal: [`PageWords::fail`]; the threads that waited ask for themselves.
//! - [`Changed::wakes`] tells the caller that somebody is parked on the word. The caller wakes them (a shared futex on the word's low
//!   half).
//!
//! # Taking a page, in the node
//!
//! 1. *Mark it*: [`PageWord::invalidate`] for an invalidation, [`PageWord::take_owned`] for a forward or a recall,
//!    [`PageWord::take_to_evict`] to make room. Where no copy is here, that is all: acknowledge, or drop the message.
//! 2. *Wait for threads that map it*: [`PageWords::is_clear`], again and again; meanwhile other pages go on. The node does not wait for a
//!    dead thread ([`PageWords::end_slot`]). It waits for a stopped thread up to a deadline, and then gives up the whole process.
//! 3. *Write-protect* the page in all clients, *read* its bytes through the service mapping if they are to go somewhere, and,
//!    unless a copy stays, *punch* it out of the file. Nobody but the node touches the frame from the mark on: reading a
//!    punched page plants zeros.
//! 4. *Publish*: [`PageWord::drop_taken`] or [`PageWord::keep_taken`]; then send what is to be sent.
//!
//! Between 1 and 4 the message counts as one that has not yet arrived.
//!
//! # Death
//!
//! A slot says which page its thread is at, from before the thread touches the page's word until after it left it. A client that died at
//! any step leaves a claim, a count, or both. Once the node knows (pidfd) that the client is dead, [`PageWords::end_slot`] clears the
//! slot and returns the claim that is left. The node punches a frame that was being filled ([`PageWord::unfill`]), and goes on with the
//! request in the dead slot's name. Nobody else gets the slot until then. A count that is too high costs a look at all slots at the next
//! taking, which mends it. (After 511 deaths at one page that was never taken meanwhile, threads that touch the page wait until the node
//! evicts it.)
//!
//! # Costs
//!
//! A fault on a page that is here: two exchanges of the page's word, two stores to a line of the thread's own. Taking: two
//! exchanges; and a scan of the slots only while somebody maps the page, or died there. 8 bytes a page (for 1 GiB: 2 MiB), a
//! line a slot. No system calls.
//!
//! # What may fail
//!
//! [`Corrupt`]: a client wrote nonsense into the words. The region is of no more use on this host; nothing else is touched. Versions and
//! claimers are compared, never used as indices. A slot's page is an index, and is checked.

mod counts;
#[cfg(test)]
mod tests;

pub use counts::{LOSS_SLOT, slot};

use crate::layout::{LINE_LEN, WORD_LEN};
use crate::words::Exchange;
use hanare_protocol::Corrupt;
use hanare_protocol::page::word::{Change, Changed, Fault, Fill, Installed, PageWord};
use hanare_protocol::page::{Access, Version};

/// Words from one slot to the next: a line each, so that threads do not disturb each other.
const SLOT_WORDS: usize = LINE_LEN / WORD_LEN;

/// In a slot: its thread is mapping the page, or about to be counted for it. Without it, the thread has claimed the page.
///
/// A slot holds 0, or a page's position plus 1 with or without this.
const MAPS: u64 = 1 << 63;

/// Behind a slot's first word: the number of its last request.
const NUMBER: usize = 1;

/// Counts that a slot has room for behind that.
pub const COUNT_COUNT: usize = SLOT_WORDS - 2;

/// A slot's value for a thread at a page.
const fn place(page: u64) -> u64 {
    page + 1
}

/// The words of a region's pages on one host, and the slots of the threads that may fault on them.
///
/// ```text
/// word 0                      slot 0, slot 1 ...      a line each: where it is, its last request's number
/// word 8 x slots              page 0, page 1 ...      a word each
/// ```
///
/// Each thread that can fault has a slot of its own, and is at one page at a time. The node has some for itself. The numbers of slots and
/// pages are given by the node over its socket, not read from the memory.
#[derive(Clone, Debug)]
pub struct PageWords<W> {
    words: W,
    slots: u16,
    pages: u64,
}

/// Memory that the words of `pages` pages and `slots` slots take, in bytes.
pub const fn page_words_len(pages: u64, slots: u16) -> u64 {
    pages * WORD_LEN as u64 + slots as u64 * LINE_LEN as u64
}

impl<W: Exchange> PageWords<W> {
    /// The words of `pages` pages and `slots` slots. Their memory was all zero when the region was first mapped on the host.
    pub fn new(words: W, pages: u64, slots: u16) -> PageWords<W> {
        let len = page_words_len(pages, slots) / WORD_LEN as u64;
        assert!(words.count() as u64 >= len, "the words of all pages and slots fit their memory");
        PageWords { words, slots, pages }
    }

    /// The memory.
    pub fn memory(&self) -> &W {
        &self.words
    }

    /// The value of a page's word; for waiting and looking, never for deciding.
    pub fn look(&self, page: u64) -> PageWord {
        PageWord(self.words.load(self.at(page)))
    }

    /// Index of a page's word among the memory's words. Waiters park on its low half.
    pub fn at(&self, page: u64) -> usize {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        usize::from(self.slots) * SLOT_WORDS + page as usize
    }

    fn slot_at(&self, slot: u16) -> usize {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        usize::from(slot) * SLOT_WORDS
    }

    /// Changes a word by a rule, again when another was faster. A rule's refusal changes nothing.
    ///
    /// **Cost**: one exchange; none where the rule leaves the word as it is.
    pub fn change<T>(&self, page: u64, rule: impl Fn(PageWord) -> Result<Change<T>, Corrupt>) -> Result<(Changed, T), Corrupt> {
        let at = self.at(page);
        let mut old = PageWord(self.words.load(at));
        loop {
            let Change { word, value } = rule(old)?;
            if word == old {
                return Ok((Changed { wakes: false }, value));
            }
            match self.words.compare_exchange(at, old.0, word.0) {
                Ok(_) => return Ok((Changed::between(old, word), value)),
                Err(now) => old = PageWord(now),
            }
        }
    }

    /// Decides about a touch of a page that is not mapped for `access`. The thread's request has the slot's [`PageWords::number`], which no
    /// request had before. A successor of a dead thread cannot tell whether the thread asked, and asks with the same number.
    ///
    /// **Cost**: one store to the slot, and an exchange of its number if the page is claimed; one exchange of the page's word. For
    /// [`Fault::Wait`] only a read.
    // FEATURE: EU-F12 EU-F17
    pub fn fault(&self, page: u64, slot: u16, access: Access) -> Result<Fault, Corrupt> {
        let at = self.at(page);
        let mut old = PageWord(self.words.load(at));
        loop {
            let change = old.fault(slot, access).inspect_err(|_| self.clear_slot(slot))?;
            let says = match change.value {
                Fault::Wait(_) => {
                    self.clear_slot(slot);
                    return Ok(change.value);
                }
                Fault::Map(_) => place(page) | MAPS,
                Fault::Fetch { .. } | Fault::Upgrade { .. } => place(page),
            };
            // ORDERING: released by the exchange: a side that finds the count or the claim in the word finds the slot that made it.
            self.words.store(self.slot_at(slot), says);
            // The node may give the slot a number at the same time.
            while says & MAPS == 0 && self.next_number(slot, self.number(slot)).is_none() {}
            match self.words.compare_exchange(at, old.0, change.word.0) {
                Ok(_) => return Ok(change.value),
                Err(now) => old = PageWord(now),
            }
        }
    }

    /// [`PageWords::fault`] for an untouched page: counts the thread if the page may be mapped as it is, and claims nothing. Returns true
    /// if the thread was counted; then it maps the page at once, and leaves.
    pub fn enter(&self, page: u64, slot: u16, access: Access) -> Result<bool, Corrupt> {
        let at = self.at(page);
        let mut old = PageWord(self.words.load(at));
        loop {
            let change = old.enter(access)?;
            if !change.value {
                self.clear_slot(slot);
                return Ok(false);
            }
            // ORDERING: as in `fault`.
            self.words.store(self.slot_at(slot), place(page) | MAPS);
            match self.words.compare_exchange(at, old.0, change.word.0) {
                Ok(_) => return Ok(true),
                Err(now) => old = PageWord(now),
            }
        }
    }

    /// A number for another request of the slot, if its last one has the number `last` still. The slot's thread and the node may both
    /// ask for one, and each gets one of its own.
    ///
    /// **Cost**: an exchange of the slot's number.
    pub fn next_number(&self, slot: u16, last: u32) -> Option<u32> {
        let (at, number) = (self.slot_at(slot) + NUMBER, last.wrapping_add(1).max(1));
        let seen = self.words.load(at);
        let is_last = seen as u32 == last && self.words.compare_exchange(at, seen, u64::from(number)).is_ok();
        is_last.then_some(number)
    }

    /// Adds to one of a slot's counts, below [`COUNT_COUNT`]. Only the slot's thread changes them; they stay when it dies.
    pub fn count(&self, slot: u16, which: usize, more: u64) {
        assert!(which < COUNT_COUNT, "count {which} of {COUNT_COUNT}");
        let at = self.slot_at(slot) + NUMBER + 1 + which;
        self.words.store(at, self.words.load(at).wrapping_add(more));
    }

    /// The sum of one of the counts over some slots.
    pub fn counted(&self, slots: std::ops::Range<u16>, which: usize) -> u64 {
        assert!(which < COUNT_COUNT, "count {which} of {COUNT_COUNT}");
        slots.map(|slot| self.words.load(self.slot_at(slot) + NUMBER + 1 + which)).fold(0, u64::wrapping_add)
    }

    /// The number of the slot's last request.
    pub fn number(&self, slot: u16) -> u32 {
        self.words.load(self.slot_at(slot) + NUMBER) as u32
    }

    /// A thread has mapped the page.
    ///
    /// **Cost**: one exchange, one store.
    pub fn leave(&self, page: u64, slot: u16) -> Result<Changed, Corrupt> {
        let left = self.change(page, PageWord::leave);
        // ORDERING: after the count: a slot that is clear is counted no more.
        self.clear_slot(slot);
        left.map(|(changed, ())| changed)
    }

    /// The grant for the request of `slot` is here with bytes ([`PageWord::fill`]).
    pub fn fill(&self, page: u64, slot: u16, version: Version, access: Access) -> Result<Fill, Corrupt> {
        self.change(page, |word| word.fill(slot, version, access)).map(|(_, fill)| fill)
    }

    /// The bytes of `version` are in the frame ([`PageWord::filled`]).
    pub fn filled(&self, page: u64, slot: u16, version: Version) -> Result<Installed, Corrupt> {
        self.change(page, |word| word.filled(slot, version)).map(|(_, installed)| installed)
    }

    /// The filler could not put the bytes into the frame, which is a hole: its request has failed.
    pub fn fail_fill(&self, page: u64, slot: u16) -> Result<Changed, Corrupt> {
        let failed = self.change(page, |word| word.fail_fill(slot));
        self.clear_slot(slot);
        failed.map(|(changed, ())| changed)
    }

    /// The grant for the request of `slot` is here without bytes ([`PageWord::grant`]).
    pub fn grant(&self, page: u64, slot: u16, version: Version, access: Access) -> Result<Installed, Corrupt> {
        self.change(page, |word| word.grant(slot, version, access)).map(|(_, installed)| installed)
    }

    /// The request of `slot` failed ([`PageWord::fail`]).
    pub fn fail(&self, page: u64, slot: u16) -> Result<Option<Changed>, Corrupt> {
        let (_, failed) = self.change(page, |word| word.fail(slot))?;
        if failed.is_some() {
            self.clear_slot(slot);
        }
        Ok(failed)
    }

    /// Marks the word that was seen, so that the side that changes it wakes the caller, which parks next. Returns the value of the word's
    /// low half to park on, or `None` if the word has changed: look again.
    pub fn doze(&self, page: u64, seen: PageWord) -> Option<u32> {
        let parked = seen.parked();
        let marked = self.words.compare_exchange(self.at(page), seen.0, parked.0);
        (marked.is_ok() || marked == Err(parked.0)).then_some(parked.0 as u32)
    }

    /// True if no program maps a marked page, so that it can be taken. Once true, it stays true until the page is published.
    ///
    /// **Cost**: one read; a scan of the slots, a line each, while somebody is counted.
    pub fn is_clear(&self, page: u64) -> bool {
        // ORDERING: the word first: a thread that is counted in it has marked its slot before.
        if self.look(page).installers() == 0 {
            return true;
        }
        let maps = place(page) | MAPS;
        (0..self.slots).all(|slot| self.words.load(self.slot_at(slot)) != maps)
    }

    /// The thread of a slot is dead: nobody waits for it any more. Returns the page that it was fetching, filling, or asking to write:
    /// the node goes on in the slot's name.
    pub fn end_slot(&self, slot: u16) -> Result<Option<u64>, Corrupt> {
        self.claimed(self.words.swap(self.slot_at(slot), 0), slot)
    }

    /// The page that the thread of a slot is fetching, filling, or asking to write. The thread may go on meanwhile.
    pub fn claim(&self, slot: u16) -> Result<Option<u64>, Corrupt> {
        self.claimed(self.words.load(self.slot_at(slot)), slot)
    }

    /// The page that a slot says, if its word says so, too.
    fn claimed(&self, said: u64, slot: u16) -> Result<Option<u64>, Corrupt> {
        let Some(page) = (said & !MAPS).checked_sub(1).filter(|page| *page < self.pages) else { return Ok(None) };
        let word = self.look(page);
        word.state()?;
        Ok((word.is_claimed() && word.claimer() == slot).then_some(page))
    }

    /// Sets a page's word as if the page had never been here, whatever was under way. The host was taken for lost, and the page was taken
    /// from all programs. Threads that wait for the page look again.
    pub fn forget(&self, page: u64) {
        self.words.swap(self.at(page), PageWord::NEVER.0);
    }

    /// Number of pages.
    pub fn page_count(&self) -> u64 {
        self.pages
    }

    /// The slot's thread is at no page.
    pub fn clear_slot(&self, slot: u16) {
        self.words.store(self.slot_at(slot), 0);
    }
}
