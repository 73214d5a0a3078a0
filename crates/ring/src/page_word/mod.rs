//! The page words of a region on one host: what state each page is in there, in memory that the region's clients and their
//! node share.
//!
//! Threads of many processes and the node meet at a page word. A thread that faults fetches and maps the page itself, and the node may
//! take the page away meanwhile. The rules of a word are those of [`hanare_protocol::page::word`]; here compare-exchange applies them.
//! Beside the words lie the slots of threads, with their present pages and their counts.
//!
//! # A fault, in a client's signal handler
//!
//! ```text
//! loop {
//!     match words.fault(page, seat, access)? {
//!         Fault::Map(_)      => { map it (below); words.leave(page, seat)?; return }
//!         Fault::Fetch { .. } | Fault::Upgrade { .. } => {
//!             send a request, for an upgrade with the version that is here;
//!             on a grant with bytes: words.fill(page, seat, version, access)?, write them into the frame,
//!             words.filled(page, seat, version)?; on one without: words.grant(page, seat, version, access)?
//!         }
//!         Fault::Wait(seen)  => { pause, yield; then words.doze(page, seen) and park on the word's low half }
//!     }
//! }
//! ```
//!
//! - *Mapping*: `UFFDIO_CONTINUE`, for [`Access::Read`] always with `MODE_WP` (a page that is not mapped cannot be
//!   write-protected later); for [`Access::Write`] also take a write-protection off
//!   that the thread's own process has. Only between [`Fault::Map`] and [`PageWords::leave`]: as long as the thread is
//!   counted, nobody takes the page; before and after, what is mapped may be a page that was removed. The count and the state
//!   are one word, so a thread is counted only while the state lets it map.
//! - *Filling*: between [`PageWords::fill`] and [`PageWords::filled`] the frame is the filler's alone. The grant counts from the
//!   former on: an invalidation waits until the page is here, and no other answer is put into the frame. So on a kernel that maps
//!   a page as soon as it is in the file, what a thread sees there was granted.
//! - A grant may as well come to the node (from the page's owner): it then does the same in the claimer's name.
//!   [`Fill::Void`] and [`Installed::Void`] say that it was overtaken by an invalidation: ask again, firmly.
//! - [`PageWords::grant`] for writing is called when all acknowledgements have come, not before.
//! - A request that is refused: [`PageWords::fail`]; the threads that waited ask for themselves.
//! - Whoever changes a word that [`Changed::wakes`] says somebody is parked on wakes them (a shared futex on the word's low
//!   half).
//!
//! # Taking a page, in the node
//!
//! 1. *Mark it*: [`PageWord::invalidate`] for an invalidation, [`PageWord::take_owned`] for a forward or a recall,
//!    [`PageWord::take_to_evict`] to make room. Where no copy is here, that is all: acknowledge, or drop the message.
//! 2. *Wait for those who map it*: [`PageWords::is_clear`], again and again; meanwhile other pages go on. A thread that died
//!    ([`PageWords::end_seat`]) is not waited for; one that is stopped is, up to the bound after which its process is given up as
//!    a whole.
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
//! any step leaves a claim, a count, or both. Once the node knows (pidfd) that the client is dead, [`PageWords::end_seat`] clears the
//! slot and says which claim is left. The node punches a frame that was being filled ([`PageWord::unfill`]), and goes on with the request
//! in the dead slot's name, which nobody gets until then. A count that is left too high costs a look at all slots at the next taking,
//! which mends it. (After 511 deaths at one page that was never taken meanwhile, threads that touch it wait until it is: the node evicts
//! it.)
//!
//! # Costs
//!
//! A fault on a page that is here: two exchanges of the page's word, two stores to a line of the thread's own. Taking: two
//! exchanges; and a scan of the seats only while somebody maps the page, or died there. 8 bytes a page (for 1 GiB: 2 MiB), a
//! line a seat. No system calls.
//!
//! # What may fail
//!
//! [`Corrupt`]: a client wrote nonsense into the words. The region is of no more use on this host; nothing else is touched.
//! Words are trusted no further than that: versions and claimers are compared, never used as indices, except a slot's page, which is
//! checked.

mod counts;
#[cfg(test)]
mod tests;

pub use counts::{LOSS_SEAT, seat};

use crate::layout::{LINE_LEN, WORD_LEN};
use crate::words::Exchange;
use hanare_protocol::Corrupt;
use hanare_protocol::page::word::{Change, Changed, Fault, Fill, Installed, PageWord};
use hanare_protocol::page::{Access, Version};

/// Words from one seat to the next: a line each, so that threads do not disturb each other.
const SEAT_WORDS: usize = LINE_LEN / WORD_LEN;

/// In a seat: its thread is mapping the page, or about to be counted for it. Without it, the thread has claimed the page.
///
/// A seat holds 0, or a page's position plus 1 with or without this.
const MAPS: u64 = 1 << 63;

/// Behind a seat's first word: the number of its last request.
const NUMBER: usize = 1;

/// Counts that a seat has room for behind that.
pub const COUNT_COUNT: usize = SEAT_WORDS - 2;

/// A slot's value for a thread at a page.
const fn place(page: u64) -> u64 {
    page + 1
}

/// The words of a region's pages on one host, and the seats of the threads that may fault on them.
///
/// ```text
/// word 0                      seat 0, seat 1 ...      a line each: where it is, its last request's number
/// word 8 x seats              page 0, page 1 ...      a word each
/// ```
///
/// Each thread that can fault has a seat of its own, and is at one page at a time; the node has some for itself. The numbers
/// of seats and pages are given by the node over its socket, not read from the memory.
#[derive(Clone, Debug)]
pub struct PageWords<W> {
    words: W,
    seats: u16,
    pages: u64,
}

/// Memory that the words of `pages` pages and `seats` seats take, in bytes.
pub const fn page_words_len(pages: u64, seats: u16) -> u64 {
    pages * WORD_LEN as u64 + seats as u64 * LINE_LEN as u64
}

impl<W: Exchange> PageWords<W> {
    /// The words of `pages` pages and `seats` seats, in memory that was all zero when the region was first mapped on the host.
    pub fn new(words: W, pages: u64, seats: u16) -> PageWords<W> {
        let len = page_words_len(pages, seats) / WORD_LEN as u64;
        assert!(words.count() as u64 >= len, "the words of all pages and seats fit their memory");
        PageWords { words, seats, pages }
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
        usize::from(self.seats) * SEAT_WORDS + page as usize
    }

    fn seat_at(&self, seat: u16) -> usize {
        assert!(seat < self.seats, "seat {seat} of {}", self.seats);
        usize::from(seat) * SEAT_WORDS
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

    /// Takes the touch of a page that is not mapped for it in that way. Its request has the slot's [`PageWords::number`], which no
    /// request had before. A successor of a dead thread cannot tell whether the thread asked, and asks in the same words.
    ///
    /// **Cost**: one store to the seat, two where the page is claimed, one exchange of the page's word; for [`Fault::Wait`] only a
    /// read.
    // FEATURE: EU-F12 EU-F17
    pub fn fault(&self, page: u64, seat: u16, access: Access) -> Result<Fault, Corrupt> {
        let at = self.at(page);
        let mut old = PageWord(self.words.load(at));
        loop {
            let change = old.fault(seat, access).inspect_err(|_| self.clear_seat(seat))?;
            let says = match change.value {
                Fault::Wait(_) => {
                    self.clear_seat(seat);
                    return Ok(change.value);
                }
                Fault::Map(_) => place(page) | MAPS,
                Fault::Fetch { .. } | Fault::Upgrade { .. } => place(page),
            };
            // ORDERING: released by the exchange: who finds the count or the claim in the word finds the seat that made it.
            self.words.store(self.seat_at(seat), says);
            if says & MAPS == 0 {
                self.next_number(seat);
            }
            match self.words.compare_exchange(at, old.0, change.word.0) {
                Ok(_) => return Ok(change.value),
                Err(now) => old = PageWord(now),
            }
        }
    }

    /// [`PageWords::fault`] for an untouched page: counts the thread if the page may be mapped as it is, and claims nothing. Returns true
    /// if it did; then the thread maps the page at once, and leaves.
    pub fn enter(&self, page: u64, seat: u16, access: Access) -> Result<bool, Corrupt> {
        let at = self.at(page);
        let mut old = PageWord(self.words.load(at));
        loop {
            let change = old.enter(access)?;
            if !change.value {
                self.clear_seat(seat);
                return Ok(false);
            }
            // ORDERING: as in `fault`.
            self.words.store(self.seat_at(seat), place(page) | MAPS);
            match self.words.compare_exchange(at, old.0, change.word.0) {
                Ok(_) => return Ok(true),
                Err(now) => old = PageWord(now),
            }
        }
    }

    /// A number for another request about the page that the seat claimed; it goes on where the seat's thread before left off.
    pub fn next_number(&self, seat: u16) -> u32 {
        let at = self.seat_at(seat) + NUMBER;
        // ORDERING: the seat's own thread alone changes it, or the node when that is dead.
        let number = (self.words.load(at) as u32).wrapping_add(1).max(1);
        self.words.store(at, u64::from(number));
        number
    }

    /// Adds to one of a seat's counts, below [`COUNT_COUNT`]; they are the seat's thread's own, and stay when it dies.
    pub fn count(&self, seat: u16, which: usize, more: u64) {
        assert!(which < COUNT_COUNT, "count {which} of {COUNT_COUNT}");
        let at = self.seat_at(seat) + NUMBER + 1 + which;
        self.words.store(at, self.words.load(at).wrapping_add(more));
    }

    /// The sum of one of the counts over some seats.
    pub fn counted(&self, seats: std::ops::Range<u16>, which: usize) -> u64 {
        assert!(which < COUNT_COUNT, "count {which} of {COUNT_COUNT}");
        seats.map(|seat| self.words.load(self.seat_at(seat) + NUMBER + 1 + which)).fold(0, u64::wrapping_add)
    }

    /// The number of the seat's last request.
    pub fn number(&self, seat: u16) -> u32 {
        self.words.load(self.seat_at(seat) + NUMBER) as u32
    }

    /// A thread has mapped the page.
    ///
    /// **Cost**: one exchange, one store.
    pub fn leave(&self, page: u64, seat: u16) -> Result<Changed, Corrupt> {
        let left = self.change(page, PageWord::leave);
        // ORDERING: after the count: a seat that is clear is counted no more.
        self.clear_seat(seat);
        left.map(|(changed, ())| changed)
    }

    /// The grant for the request of `seat` is here with bytes ([`PageWord::fill`]).
    pub fn fill(&self, page: u64, seat: u16, version: Version, access: Access) -> Result<Fill, Corrupt> {
        self.change(page, |word| word.fill(seat, version, access)).map(|(_, fill)| fill)
    }

    /// The bytes of `version` are in the frame ([`PageWord::filled`]).
    pub fn filled(&self, page: u64, seat: u16, version: Version) -> Result<Installed, Corrupt> {
        self.change(page, |word| word.filled(seat, version)).map(|(_, installed)| installed)
    }

    /// The filler could not put the bytes into the frame, which is a hole: its request has failed.
    pub fn fail_fill(&self, page: u64, seat: u16) -> Result<Changed, Corrupt> {
        let failed = self.change(page, |word| word.fail_fill(seat));
        self.clear_seat(seat);
        failed.map(|(changed, ())| changed)
    }

    /// The grant for the request of `seat` is here without bytes ([`PageWord::grant`]).
    pub fn grant(&self, page: u64, seat: u16, version: Version, access: Access) -> Result<Installed, Corrupt> {
        self.change(page, |word| word.grant(seat, version, access)).map(|(_, installed)| installed)
    }

    /// The request of `seat` failed ([`PageWord::fail`]).
    pub fn fail(&self, page: u64, seat: u16) -> Result<Option<Changed>, Corrupt> {
        let (_, failed) = self.change(page, |word| word.fail(seat))?;
        if failed.is_some() {
            self.clear_seat(seat);
        }
        Ok(failed)
    }

    /// Before parking: marks the word that was seen, so that who changes it wakes. `None` if it has changed: look again. Else
    /// the value of the word's low half to park on.
    pub fn doze(&self, page: u64, seen: PageWord) -> Option<u32> {
        let parked = seen.parked();
        let marked = self.words.compare_exchange(self.at(page), seen.0, parked.0);
        (marked.is_ok() || marked == Err(parked.0)).then_some(parked.0 as u32)
    }

    /// True if no program maps a marked page at this moment, so that it can be taken. Once so, it stays so until published.
    ///
    /// **Cost**: one read; a scan of the seats, a line each, while somebody is counted.
    pub fn is_clear(&self, page: u64) -> bool {
        // ORDERING: the word first: who is counted in it has marked its seat before.
        if self.look(page).installers() == 0 {
            return true;
        }
        let maps = place(page) | MAPS;
        (0..self.seats).all(|seat| self.words.load(self.seat_at(seat)) != maps)
    }

    /// The thread of a seat is dead: nobody waits for it any more. Returns the page that it was fetching, filling, or asking to write:
    /// the node goes on in the seat's name.
    pub fn end_seat(&self, seat: u16) -> Result<Option<u64>, Corrupt> {
        let said = self.words.swap(self.seat_at(seat), 0) & !MAPS;
        let Some(page) = said.checked_sub(1).filter(|page| *page < self.pages) else { return Ok(None) };
        let word = self.look(page);
        word.state()?;
        Ok((word.is_claimed() && word.claimer() == seat).then_some(page))
    }

    /// A page is as if it had never been here, whatever was under way: its host was taken for lost, and the page was taken from
    /// all programs. Who waits for it looks again.
    pub fn forget(&self, page: u64) {
        self.words.swap(self.at(page), PageWord::NEVER.0);
    }

    /// Number of pages.
    pub fn page_count(&self) -> u64 {
        self.pages
    }

    /// The seat's thread is at no page.
    pub fn clear_seat(&self, seat: u16) {
        self.words.store(self.seat_at(seat), 0);
    }
}
