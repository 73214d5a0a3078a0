//! The page words of a region on one host: what state each page is in there, in memory that the region's clients and their
//! node share.
//!
//! It is the host's half of the page directory ([`hanare_protocol::page::Copies`]) where threads of many processes and the
//! node meet: the thread that faults fetches and maps the page itself, and the node takes pages away while it may be at it.
//!
//! ```text
//!            Claim              Fill              Filled                      ClaimWrite
//!   Absent ---------> Fetching ------> Filling ------------> Shared ------------------------> Upgrading
//!     ^ | ^                                                   |  ^                             |    |
//!     | | |                                               Take|  |Keep                     Take|    |
//!     | | |                                                   v  |                             v    |
//!     | | +------- Drop ------------------------- TakingShared   |                   TakingUpgrade  |
//!     | |                                                        |                         |        |
//!     | |   ClaimWrite                                           |              Drop       |        |
//!     | +---------------> FetchingWrite <------------------------|-------------------------+        |
//!     |                        | Fill                            |                                  | GrantWrite
//!     |                        v                                 |                                  |
//!     |                   FillingWrite                           |                                  |
//!     |                        | Filled                          |                                  |
//!     |                        v      Take                       |                                  |
//!     |                      Owned -------> TakingOwned ---------+                                  |
//!     |                        ^                 |                                                  |
//!     |                        +-----------------|--------------------------------------------------+
//!     +--------- Drop ---------------------------+
//! ```
//!
//! (`Fail` leads back from what was claimed, `Unfill` and `FailFill` from what was being filled; a grant without bytes, `GrantRead` or `GrantWrite`, leads from `Fetching…` straight to `Shared` or `Owned`; see [`word::TABLE`].)
//!
//! # A fault, in a client's signal handler
//!
//! ```text
//! loop {
//!     match words.fault(page, seat, access)? {
//!         Fault::Map(_)      => { map it (below); words.leave(page, seat)?; return }
//!         Fault::Fetch { .. } | Fault::Upgrade { .. } => {
//!             send Want, for an upgrade with the version that is here;
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
//!   [`Fill::Void`] and [`Granted::Void`] say that it was overtaken by an invalidation: ask again, firmly.
//! - [`PageWords::grant`] for writing is called when all acknowledgements have come, not before.
//! - A request that is refused: [`PageWords::fail`]; the threads that waited ask for themselves.
//! - Whoever changes a word that [`Changed::wakes`] says somebody is parked on wakes them (a shared futex on the word's low
//!   half).
//!
//! # Taking a page, in the node
//!
//! 1. *Mark it*: [`PageWords::invalidate`] for an invalidation, [`PageWords::take_owned`] for a forward or a recall,
//!    [`PageWords::take_to_evict`] to make room. Where no copy is here, that is all: acknowledge, or drop the message.
//! 2. *Wait for those who map it*: [`PageWords::is_clear`], again and again; meanwhile other pages go on. A thread that died
//!    ([`PageWords::bury`]) is not waited for; one that is stopped is, up to the bound after which its process is given up as
//!    a whole.
//! 3. *Write-protect* the page in all clients, *read* its bytes through the service mapping if they are to go somewhere, and,
//!    unless a copy stays, *punch* it out of the file. Nobody but the node touches the frame from the mark on: reading a
//!    punched page plants zeros.
//! 4. *Publish*: [`PageWords::drop_taken`] or [`PageWords::keep_taken`]; then send what is to be sent.
//!
//! Between 1 and 4 the message counts as one that has not yet arrived.
//!
//! # Death
//!
//! A seat says which page its thread is at, before the thread touches the page's word, until after it left it. A client that
//! died at any step leaves a claim, a count, or both; [`PageWords::bury`], once the node knows (pidfd) that the client is
//! dead, clears the seat and says which claim is left. The node punches a frame that was being filled ([`PageWords::unfill`]), and goes
//! on with the request in the dead seat's name, which nobody gets until then. A count that is left too high costs a look at all seats at
//! the next taking, and is mended by it. (After 2,047 deaths at one page that was never taken meanwhile, threads that touch it wait until
//! it is: the node evicts it.)
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
//! Nothing read here is trusted further than that: versions and claimers are compared, never used as places, but for a seat's
//! page, which is checked.

pub mod word;

#[cfg(test)]
mod tests;

use crate::layout::{LINE_LEN, WORD_LEN};
use crate::spsc::Corrupt;
use crate::words::Exchange;
use hanare_protocol::page::{Access, Version};
use word::{Event, State, Word};

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

/// What a seat says of a thread at a page.
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

/// What a thread that faults is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Map the page for that access at once, and leave.
    Map(Access),
    /// Fetch it: the claim is this seat's. Grants up to the floor are void.
    Fetch {
        /// The newest version that is known not to be good.
        floor: Version,
    },
    /// Ask to write the copy that is here.
    Upgrade {
        /// Its version.
        has: Version,
    },
    /// Another fetches it, or the node takes it: wait until the word is another than this.
    Wait(Word),
}

/// Whether granted bytes may be put into the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Put them there, then [`PageWords::filled`]; or [`PageWords::fail_fill`].
    Go,
    /// The copy that is here, and that is to be written, has them: [`PageWords::grant`].
    Has,
    /// An invalidation overtook the grant: the claim stays, ask again.
    Void,
    /// The claim is not (or no longer) this seat's, or not of that kind, or another answer is being put there.
    Gone,
}

/// What became of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The page may be mapped.
    Here(Changed),
    /// An invalidation overtook it: the claim stays, ask again.
    Void,
    /// The claim is not (or no longer) this seat's, or not of that kind: the grant is of no use.
    Gone,
}

/// What an invalidation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidated {
    /// No copy that it concerns is here: acknowledge.
    Nothing,
    /// The page is marked: take it, publish with [`PageWords::drop_taken`], acknowledge.
    Take,
    /// The page is being taken for something else, or filled: try again when that is done.
    Later,
}

/// What a forward or a recall found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The page is marked: take it, and publish.
    Take,
    /// The page is not owned here in that version. The floor says why: from the asked version on, the page was passed on (a
    /// recall is answered with `Missing`); below it, the page was evicted and is on its way home (nothing is answered).
    Elsewhere {
        /// The newest version that is known not to be good here.
        floor: Version,
    },
    /// The page is being taken for something else: try again when that is done.
    Later,
}

/// A word was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "somebody may have to be woken"]
pub struct Changed {
    /// Whether somebody is parked on it.
    pub wakes: bool,
}

/// What a dead seat leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estate {
    /// Nothing that anybody waits for.
    Nothing,
    /// A page that it was fetching, filling, or asking to write: the node goes on in the seat's name.
    Claim {
        /// The page.
        page: u64,
    },
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
    pub fn look(&self, page: u64) -> Word {
        Word(self.words.load(self.at(page)))
    }

    /// Where a page's word lies: its position among the memory's words. Its low half is what those who wait park on.
    pub fn at(&self, page: u64) -> usize {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        usize::from(self.seats) * SEAT_WORDS + page as usize
    }

    fn seat_at(&self, seat: u16) -> usize {
        assert!(seat < self.seats, "seat {seat} of {}", self.seats);
        usize::from(seat) * SEAT_WORDS
    }

    /// Changes a word by a rule, again when another was faster. `Err` is a rule's refusal and changes nothing.
    fn change<T, R>(&self, page: u64, rule: impl Fn(Word) -> Result<(Word, T), R>) -> Result<(Changed, T), R> {
        let at = self.at(page);
        let mut old = Word(self.words.load(at));
        loop {
            let (new, value) = rule(old)?;
            match self.words.compare_exchange(at, old.0, new.0) {
                Ok(_) => return Ok((Changed { wakes: old.is_parked() && !new.is_parked() }, value)),
                Err(now) => old = Word(now),
            }
        }
    }

    /// A thread touches a page that is not mapped for it that way. What it is to ask for has the seat's [`PageWords::number`], which
    /// no request had before: whoever goes on for a thread that died cannot tell whether it asked, and asks in the same words.
    ///
    /// **Cost**: one store to the seat, two where the page is claimed, one exchange of the page's word; for [`Fault::Wait`] only a
    /// read.
    // FEATURE: EU-F12 EU-F17
    pub fn fault(&self, page: u64, seat: u16, access: Access) -> Result<Fault, Corrupt> {
        let at = self.at(page);
        let mut old = Word(self.words.load(at));
        loop {
            let (new, fault) = match old.state() {
                Err(corrupt) => {
                    self.clear_seat(seat);
                    return Err(corrupt);
                }
                Ok(_) if old.may_map(access) => (old.enter(), Fault::Map(access)),
                Ok(State::Absent) => {
                    let event = if access == Access::Write { Event::ClaimWrite } else { Event::Claim };
                    (old.after(event), Fault::Fetch { floor: old.version() })
                }
                Ok(State::Shared) => (old.after(Event::ClaimWrite), Fault::Upgrade { has: old.version() }),
                Ok(_) => (None, Fault::Wait(old)),
            };
            let Some(new) = new else {
                self.clear_seat(seat);
                return Ok(Fault::Wait(old));
            };
            let is_map = matches!(fault, Fault::Map(_));
            let new = match fault {
                Fault::Fetch { .. } => new.with_installers(0).with_claimer(seat),
                Fault::Upgrade { .. } => new.with_claimer(seat),
                _ => new,
            };
            // ORDERING: released by the exchange: who finds the count or the claim in the word finds the seat that made it.
            self.words.store(self.seat_at(seat), place(page) | if is_map { MAPS } else { 0 });
            if !is_map {
                self.next_number(seat);
            }
            match self.words.compare_exchange(at, old.0, new.0) {
                Ok(_) => return Ok(fault),
                Err(now) => old = Word(now),
            }
        }
    }

    /// As [`PageWords::fault`] for a page that was not touched: counts the thread if the page may be mapped as it is, and
    /// claims nothing. Says whether it did; then the thread maps the page at once, and leaves.
    pub fn enter(&self, page: u64, seat: u16, access: Access) -> Result<bool, Corrupt> {
        let at = self.at(page);
        let mut old = Word(self.words.load(at));
        loop {
            old.state()?;
            let Some(new) = old.enter().filter(|_| old.may_map(access)) else {
                self.clear_seat(seat);
                return Ok(false);
            };
            // ORDERING: as in `fault`.
            self.words.store(self.seat_at(seat), place(page) | MAPS);
            match self.words.compare_exchange(at, old.0, new.0) {
                Ok(_) => return Ok(true),
                Err(now) => old = Word(now),
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
        let left = self.change(page, |word| word.leave().map(|word| (word, ())).ok_or(Corrupt("a page left that nobody maps")));
        // ORDERING: after the count: a seat that is clear is counted no more.
        self.clear_seat(seat);
        left.map(|(changed, ())| changed)
    }

    /// The grant for the request of `seat` is here with bytes, for writing with all acknowledgements. From [`Fill::Go`] on nobody
    /// else touches the frame, and the grant is good.
    ///
    /// **Cost**: one exchange.
    pub fn fill(&self, page: u64, seat: u16, version: Version, access: Access) -> Result<Fill, Corrupt> {
        let begun = self.change(page, |word| {
            let state = word.state().map_err(Err)?;
            match (state, access) {
                _ if word.claimer() != seat => Err(Ok(Fill::Gone)),
                (State::Fetching, Access::Read) if !version.is_after(word.floor()) => Err(Ok(Fill::Void)),
                (State::Fetching, Access::Read) | (State::FetchingWrite, Access::Write) => {
                    Ok((word.after(Event::Fill).expect("just seen"), ()))
                }
                (State::Upgrading, Access::Write) => Err(Ok(Fill::Has)),
                _ => Err(Ok(Fill::Gone)),
            }
        });
        begun.map_or_else(|refused| refused, |_| Ok(Fill::Go))
    }

    /// The bytes of `version` are in the frame. [`Granted::Gone`] where the fill was undone meanwhile.
    pub fn filled(&self, page: u64, seat: u16, version: Version) -> Result<Granted, Corrupt> {
        let filled = self.change(page, |word| {
            word.state().map_err(Err)?;
            let filled = word.after(Event::Filled).filter(|_| word.claimer() == seat);
            filled.map(|word| (word.with_version(version), ())).ok_or(Ok(Granted::Gone))
        });
        filled.map_or_else(|refused| refused, |(changed, ())| Ok(Granted::Here(changed)))
    }

    /// What a dead thread was filling is a hole again; its claim stays. Nobody is woken by it.
    pub fn unfill(&self, page: u64, seat: u16) -> Result<(), Corrupt> {
        let emptied = self.change(page, |word| {
            let emptied = word.after(Event::Unfill).filter(|_| word.claimer() == seat);
            emptied.map(|word| (word, ())).ok_or(Corrupt("a page emptied that was not being filled"))
        });
        emptied.map(|_| ())
    }

    /// The filler could not put the bytes into the frame, which is a hole: its request has failed.
    pub fn fail_fill(&self, page: u64, seat: u16) -> Result<Changed, Corrupt> {
        let failed = self.change(page, |word| {
            let failed = word.after(Event::FailFill).filter(|_| word.claimer() == seat);
            failed.map(|word| (word, ())).ok_or(Corrupt("a fill failed that was not begun"))
        });
        self.clear_seat(seat);
        failed.map(|(changed, ())| changed)
    }

    /// The grant for the request of `seat` is here, for writing with all acknowledgements, and the frame has the bytes already.
    pub fn grant(&self, page: u64, seat: u16, version: Version, access: Access) -> Result<Granted, Corrupt> {
        let granted = self.change(page, |word| {
            let state = word.state().map_err(Err)?;
            let event = match (state, access) {
                _ if word.claimer() != seat => return Err(Ok(Granted::Gone)),
                (State::Fetching, Access::Read) if !version.is_after(word.floor()) => return Err(Ok(Granted::Void)),
                (State::Fetching, Access::Read) => Event::GrantRead,
                (State::FetchingWrite | State::Upgrading, Access::Write) => Event::GrantWrite,
                _ => return Err(Ok(Granted::Gone)),
            };
            Ok((word.after(event).expect("just seen").with_version(version), ()))
        });
        match granted {
            Ok((changed, ())) => Ok(Granted::Here(changed)),
            Err(refused) => refused,
        }
    }

    /// The request of `seat` failed: nobody fetches the page any more. A copy that was to be written stays. `None`, and nothing is
    /// changed, where it is over already, or its answer is being put into the frame.
    pub fn fail(&self, page: u64, seat: u16) -> Result<Option<Changed>, Corrupt> {
        let failed = self.change(page, |word| {
            word.state().map_err(Err)?;
            let failed = word.after(Event::Fail).filter(|_| word.claimer() == seat);
            failed.map(|word| (word, ())).ok_or(Ok(None))
        });
        match failed {
            Ok((changed, ())) => {
                self.clear_seat(seat);
                Ok(Some(changed))
            }
            Err(refused) => refused,
        }
    }

    /// Before parking: marks the word that was seen, so that who changes it wakes. `None` if it has changed: look again. Else
    /// the value of the word's low half to park on.
    pub fn doze(&self, page: u64, seen: Word) -> Option<u32> {
        let parked = seen.parked();
        let marked = self.words.compare_exchange(self.at(page), seen.0, parked.0);
        (marked.is_ok() || marked == Err(parked.0)).then_some(parked.0 as u32)
    }

    /// Copies up to `version` are no longer good.
    ///
    /// **Cost**: one exchange; none where the floor is there already.
    // FEATURE: EU-F13
    pub fn invalidate(&self, page: u64, version: Version) -> Result<Invalidated, Corrupt> {
        let outcome = self.change(page, |word| {
            let state = word.state().map_err(Err)?;
            match state {
                State::Absent | State::Fetching | State::FetchingWrite => {
                    let floor = word.version().newest(version);
                    let raised = word.after(Event::RaiseFloor).expect("it has a floor").with_version(floor);
                    if raised == word { Err(Ok(Invalidated::Nothing)) } else { Ok((raised, Invalidated::Nothing)) }
                }
                State::Shared | State::Upgrading if word.version().is_after(version) => Err(Ok(Invalidated::Nothing)),
                State::Shared | State::Upgrading => {
                    Ok((word.after(Event::Take).expect("a copy can be taken"), Invalidated::Take))
                }
                State::TakingShared | State::TakingUpgrade | State::TakingOwned | State::Filling => Err(Ok(Invalidated::Later)),
                // Nothing was granted to write before all older copies had gone.
                State::FillingWrite => Err(Ok(Invalidated::Nothing)),
                // One of long ago, for the home's own host, which is gone.
                State::Owned if word.version().is_after(version.next()) => Err(Ok(Invalidated::Nothing)),
                State::Owned => Err(Err(Corrupt("an owned page that its home takes for a copy"))),
            }
        });
        outcome.map_or_else(|refused| refused, |(_, done)| Ok(done))
    }

    /// A forward or a recall of what is owned here since `era`.
    // FEATURE: EU-F13
    pub fn take_owned(&self, page: u64, era: Version) -> Result<Taken, Corrupt> {
        let outcome = self.change(page, |word| {
            let state = word.state().map_err(Err)?;
            match state {
                State::Owned if word.version() == era => Ok((word.after(Event::Take).expect("it can be taken"), Taken::Take)),
                State::TakingShared | State::TakingUpgrade | State::TakingOwned => Err(Ok(Taken::Later)),
                _ => Err(Ok(Taken::Elsewhere { floor: word.floor() })),
            }
        });
        outcome.map_or_else(|refused| refused, |(_, done)| Ok(done))
    }

    /// Marks a page to be evicted, and returns the word that it had; `None` if it is not here or something else is under way
    /// for it.
    pub fn take_to_evict(&self, page: u64) -> Result<Option<Word>, Corrupt> {
        let outcome = self.change(page, |word| match word.state().map_err(Err)? {
            State::Shared | State::Owned => Ok((word.after(Event::Take).expect("it can be taken"), word)),
            _ => Err(Ok(None)),
        });
        outcome.map_or_else(|refused| refused, |(_, word)| Ok(Some(word)))
    }

    /// Whether a marked page is mapped by nobody at this moment, so that it can be taken. Once so, it stays so until published.
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

    /// A marked page has been taken: nothing is here any more, and versions up to `floor` are not good. For an invalidation
    /// that is its version; for a page that was given away or recalled, the version it had; for one that was evicted, the
    /// version before.
    pub fn drop_taken(&self, page: u64, floor: Version) -> Result<Changed, Corrupt> {
        self.publish(page, Event::Drop, |word| word.with_version(floor))
    }

    /// A marked page has been write-protected and read: a copy stays.
    pub fn keep_taken(&self, page: u64) -> Result<Changed, Corrupt> {
        self.publish(page, Event::Keep, |word| word)
    }

    fn publish(&self, page: u64, event: Event, rule: impl Fn(Word) -> Word) -> Result<Changed, Corrupt> {
        let published = self.change(page, |word| {
            let word = word.after(event).ok_or(Corrupt("a page published that was not taken"))?;
            // Nobody maps it: counts that are left are those of the dead.
            Ok((rule(word).with_installers(0), ()))
        });
        published.map(|(changed, ())| changed)
    }

    /// The thread of a seat is dead: nobody waits for it any more. Returns the claim that it leaves.
    pub fn bury(&self, seat: u16) -> Result<Estate, Corrupt> {
        let said = self.words.swap(self.seat_at(seat), 0) & !MAPS;
        let Some(page) = said.checked_sub(1).filter(|page| *page < self.pages) else { return Ok(Estate::Nothing) };
        let word = self.look(page);
        word.state()?;
        Ok(if word.is_claimed() && word.claimer() == seat { Estate::Claim { page } } else { Estate::Nothing })
    }

    /// A page is as if it had never been here, whatever was under way: its host was taken for lost, and the page was taken from
    /// all programs. Who waits for it looks again.
    pub fn forget(&self, page: u64) {
        self.words.swap(self.at(page), Word::NEVER.0);
    }

    /// Number of pages.
    pub fn page_count(&self) -> u64 {
        self.pages
    }

    fn clear_seat(&self, seat: u16) {
        self.words.store(self.seat_at(seat), 0);
    }
}
