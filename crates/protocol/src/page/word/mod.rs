//! A page's word: its 64 bits, its states, and every transition between them.
//!
//! ```text
//! bits 0..4    state
//! bits 4..13   installers: threads that are mapping the page at this moment
//! bit  13      expected: it was written the time before, too
//! bit  14      written: a thread of this host may have stored to it since it came or was flushed. Where nothing is, it had when it went
//! bit  15      somebody is parked until the word changes
//! bits 16..32  claimer: the thread slot that fetches the page, in `Fetching…`, `Filling…`, `Upgrading` and `TakingUpgrade`
//! bits 32..64  version of the bytes here; where nothing is, the minimum version: the newest that is known not to be good
//! ```
//!
//! A word of zeros is a page that was never here. The rules in `steps` give the next word for each event of a page. They are pure
//! functions. The shared memory of a host applies them by compare-exchange, the explorer and the simulator to plain numbers.
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
//!     |                      Owned <------> TakingOwned ---------+                                  |
//!     |                        ^ Flushed         |                                                  |
//!     |                        +-----------------|--------------------------------------------------+
//!     +--------- Drop ---------------------------+
//! ```
//!
//! (`Fail` leads back from a claim, `Unfill` and `FailFill` from a filling. A grant without bytes, `GrantRead` or `GrantWrite`, leads
//! from `Fetching…` straight to `Shared` or `Owned`; see [`TABLE`].)

mod steps;

pub use steps::{Change, Changed, Fault, Fill, Installed, Invalidated, TakeOutcome};

use super::message::{Access, Version};
use crate::error::Corrupt;
use crate::table::{self, Row};

/// The states of a page word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// No copy is here.
    Absent = 0,
    /// The claimer fetches a copy.
    Fetching = 1,
    /// A copy is here, and may be mapped for reading.
    Shared = 2,
    /// The same, and the claimer has asked to write.
    Upgrading = 3,
    /// The page is here, and may be mapped for writing.
    Owned = 4,
    /// The node takes a copy from the programs.
    TakingShared = 5,
    /// The same, and the claimer's request goes on.
    TakingUpgrade = 6,
    /// The node takes an owned page from the programs.
    TakingOwned = 7,
    /// The claimer fetches the page to write.
    FetchingWrite = 8,
    /// A copy was granted, and is being put into the frame in the claimer's name.
    Filling = 9,
    /// The same, to write.
    FillingWrite = 10,
}

/// An event of a page word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A thread will fetch a copy.
    Claim,
    /// A thread will ask for the page to write.
    ClaimWrite,
    /// A grant is good, and its bytes are going into the frame.
    Fill,
    /// The bytes are in the frame.
    Filled,
    /// The bytes are not in the frame, which is a hole again; the claim stays.
    Unfill,
    /// The same, and the request has failed.
    FailFill,
    /// The grant to read is here.
    GrantRead,
    /// The grant to write is here.
    GrantWrite,
    /// The request failed.
    Fail,
    /// A thread begins to map the page.
    Enter,
    /// The thread has mapped it.
    Leave,
    /// A version is not good any more, and no copy is here.
    RaiseFloor,
    /// The node begins to take the page.
    Take,
    /// The node has taken it, and nothing stays here.
    Drop,
    /// The node has taken it, and a copy stays.
    Keep,
    /// The node has read it for a flush, and it stays.
    Flushed,
}

use State::{
    Absent, Fetching, FetchingWrite, Filling, FillingWrite, Owned, Shared, TakingOwned, TakingShared, TakingUpgrade, Upgrading,
};

/// Every transition of a page word.
pub const TABLE: &[Row<State, Event>] = &[
    Row { event: Event::Claim, from: &[Absent], to: Fetching },
    Row { event: Event::ClaimWrite, from: &[Absent], to: FetchingWrite },
    Row { event: Event::ClaimWrite, from: &[Shared], to: Upgrading },
    Row { event: Event::Fill, from: &[Fetching], to: Filling },
    Row { event: Event::Fill, from: &[FetchingWrite], to: FillingWrite },
    Row { event: Event::Unfill, from: &[Filling], to: Fetching },
    Row { event: Event::Unfill, from: &[FillingWrite], to: FetchingWrite },
    Row { event: Event::Filled, from: &[Filling], to: Shared },
    Row { event: Event::Filled, from: &[FillingWrite], to: Owned },
    Row { event: Event::FailFill, from: &[Filling, FillingWrite], to: Absent },
    Row { event: Event::GrantRead, from: &[Fetching], to: Shared },
    Row { event: Event::GrantWrite, from: &[FetchingWrite, Upgrading], to: Owned },
    Row { event: Event::Fail, from: &[Fetching, FetchingWrite], to: Absent },
    Row { event: Event::Fail, from: &[Upgrading], to: Shared },
    Row { event: Event::Fail, from: &[TakingUpgrade], to: TakingShared },
    Row { event: Event::Enter, from: &[Shared], to: Shared },
    Row { event: Event::Enter, from: &[Upgrading], to: Upgrading },
    Row { event: Event::Enter, from: &[Owned], to: Owned },
    Row { event: Event::Leave, from: &[Shared], to: Shared },
    Row { event: Event::Leave, from: &[Upgrading], to: Upgrading },
    Row { event: Event::Leave, from: &[Owned], to: Owned },
    Row { event: Event::Leave, from: &[TakingShared], to: TakingShared },
    Row { event: Event::Leave, from: &[TakingUpgrade], to: TakingUpgrade },
    Row { event: Event::Leave, from: &[TakingOwned], to: TakingOwned },
    Row { event: Event::RaiseFloor, from: &[Absent], to: Absent },
    Row { event: Event::RaiseFloor, from: &[Fetching], to: Fetching },
    Row { event: Event::RaiseFloor, from: &[FetchingWrite], to: FetchingWrite },
    Row { event: Event::Take, from: &[Shared], to: TakingShared },
    Row { event: Event::Take, from: &[Upgrading], to: TakingUpgrade },
    Row { event: Event::Take, from: &[Owned], to: TakingOwned },
    Row { event: Event::Drop, from: &[TakingShared, TakingOwned], to: Absent },
    Row { event: Event::Drop, from: &[TakingUpgrade], to: FetchingWrite },
    Row { event: Event::Keep, from: &[TakingOwned], to: Shared },
    Row { event: Event::Flushed, from: &[TakingOwned], to: Owned },
];

/// Most threads that can be mapping one page at a time; one more waits.
pub const INSTALLER_COUNT_MAX: u16 = (1 << 9) - 1;

const STATE_MASK: u64 = 0xf;
const INSTALLERS_SHIFT: u32 = 4;
const EXPECTED: u64 = 1 << 13;
const WRITTEN: u64 = 1 << 14;
const PARKED: u64 = 1 << 15;
const CLAIMER_SHIFT: u32 = 16;
const VERSION_SHIFT: u32 = 32;

/// The value of a page word, as it was read. It is input, because any client of the region may write to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageWord(pub u64);

impl PageWord {
    /// A page that was never here.
    pub const NEVER: PageWord = PageWord(0);

    /// Its state.
    ///
    /// **Errors**: [`Corrupt`] for a number that is none.
    pub fn state(self) -> Result<State, Corrupt> {
        const STATES: [State; 11] = [
            Absent,
            Fetching,
            Shared,
            Upgrading,
            Owned,
            TakingShared,
            TakingUpgrade,
            TakingOwned,
            FetchingWrite,
            Filling,
            FillingWrite,
        ];
        STATES.get((self.0 & STATE_MASK) as usize).copied().ok_or(Corrupt("a page word in no state"))
    }

    /// Number of threads that are mapping it, with those that died while they did.
    pub fn installers(self) -> u16 {
        (self.0 >> INSTALLERS_SHIFT) as u16 & INSTALLER_COUNT_MAX
    }

    /// The slot that fetches it.
    pub fn claimer(self) -> u16 {
        (self.0 >> CLAIMER_SHIFT) as u16
    }

    /// The version of what is here, or the floor.
    pub fn version(self) -> Version {
        Version((self.0 >> VERSION_SHIFT) as u32)
    }

    /// True if its claimer waits for a reply.
    pub fn is_asked_for(self) -> bool {
        matches!(self.state(), Ok(Fetching | FetchingWrite | Upgrading | TakingUpgrade))
    }

    /// True if granted bytes are being put into its frame.
    pub fn is_being_filled(self) -> bool {
        matches!(self.state(), Ok(Filling | FillingWrite))
    }

    /// True if its claimer waits for it, or fills its frame.
    pub fn is_claimed(self) -> bool {
        self.is_asked_for() || self.is_being_filled()
    }

    /// True if a thread of this host may have stored to it since it came, or was flushed. Without a page here, since its last coming.
    pub fn is_written(self) -> bool {
        self.0 & WRITTEN != 0
    }

    /// True for an absent page that was written both of the last times it was here. Such a page is *migratory*: its next reader is
    /// expected to write it, and asks to write at once.
    ///
    /// **Source**: as directories of cache lines find them (Stenström, Brorsson and Sandberg 1993), here by the host itself.
    pub fn is_migratory(self) -> bool {
        self.is_written() && self.0 & EXPECTED != 0
    }

    /// True if a thread must be woken when it changes.
    pub fn is_parked(self) -> bool {
        self.0 & PARKED != 0
    }

    /// True if the page may be mapped for `access` as it is.
    pub fn may_map(self, access: Access) -> bool {
        match self.state() {
            Ok(Owned) => true,
            Ok(Shared | Upgrading) => access == Access::Read,
            _ => false,
        }
    }

    /// The newest version that is known not to be good here.
    pub fn floor(self) -> Version {
        match self.state() {
            Ok(Absent | Fetching | FetchingWrite | Filling | FillingWrite) | Err(_) => self.version(),
            Ok(_) => self.version().prev(),
        }
    }

    /// The word after an event, or `None` where the table does not allow it.
    ///
    /// The claimer stays where the next state has one; the installers stay until a taken page is published. Where the event ends a wait,
    /// the mark of parked threads goes, and they are to be woken.
    fn after(self, event: Event) -> Option<PageWord> {
        let to = table::next(TABLE, self.state().ok()?, event)?;
        let is_end = matches!(
            event,
            Event::GrantRead
                | Event::GrantWrite
                | Event::Filled
                | Event::Fail
                | Event::FailFill
                | Event::Leave
                | Event::Drop
                | Event::Keep
                | Event::Flushed
        );
        let kept = if is_end { !STATE_MASK & !PARKED } else { !STATE_MASK };
        Some(PageWord(self.0 & kept | to as u64))
    }

    fn with_version(self, version: Version) -> PageWord {
        PageWord(self.0 & ((1 << VERSION_SHIFT) - 1) | u64::from(version.0) << VERSION_SHIFT)
    }

    fn with_claimer(self, slot: u16) -> PageWord {
        PageWord(self.0 & !(0xffff << CLAIMER_SHIFT) | u64::from(slot) << CLAIMER_SHIFT)
    }

    fn with_written(self, is_written: bool) -> PageWord {
        PageWord((self.0 & !WRITTEN) | (u64::from(is_written) * WRITTEN))
    }

    /// Claimed from nothing for that access. The mark "written" of the last time becomes the mark "expected".
    fn begun(self, access: Access) -> PageWord {
        let expected = u64::from(self.is_written()) * EXPECTED;
        PageWord(self.0 & !EXPECTED | expected).with_written(access == Access::Write).with_installers(0)
    }

    fn with_installers(self, count: u16) -> PageWord {
        PageWord(self.0 & !(u64::from(INSTALLER_COUNT_MAX) << INSTALLERS_SHIFT) | u64::from(count) << INSTALLERS_SHIFT)
    }

    /// The word with the mark that a thread is parked until it changes.
    pub fn parked(self) -> PageWord {
        PageWord(self.0 | PARKED)
    }

    /// Adds a thread that maps the page for that access; the others are not disturbed.
    fn entered(self, access: Access) -> Option<PageWord> {
        let word = self.after(Event::Enter).filter(|_| self.installers() < INSTALLER_COUNT_MAX)?;
        let is_written = self.is_written() || access == Access::Write;
        Some(word.with_installers(self.installers() + 1).with_written(is_written))
    }

    /// Removes one thread.
    fn left(self) -> Option<PageWord> {
        Some(self.after(Event::Leave)?.with_installers(self.installers().checked_sub(1)?))
    }
}

impl std::fmt::Debug for PageWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (installers, parked) = (self.installers(), if self.is_parked() { ", parked" } else { "" });
        let written = if self.is_written() { ", written" } else { "" };
        match self.state() {
            Ok(state) => {
                write!(f, "{state:?} v{} of slot {}, {installers} installers{written}{parked}", self.version().0, self.claimer())
            }
            Err(_) => write!(f, "corrupt {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_this() {
        assert_eq!(table::contradiction(TABLE), None);
        assert_eq!(table::print(TABLE), include_str!("table.txt"));
    }

    #[test]
    fn a_word_is_what_is_put_into_it() {
        let word = PageWord::NEVER.with_version(Version(u32::MAX)).with_claimer(u16::MAX).with_installers(INSTALLER_COUNT_MAX);
        assert_eq!((word.version(), word.claimer()), (Version(u32::MAX), u16::MAX));
        assert_eq!((word.installers(), word.is_parked(), word.is_written()), (INSTALLER_COUNT_MAX, false, false));
        assert_eq!(word.with_written(true).with_written(false), word);
        assert_eq!(word.state(), Ok(State::Absent));
        let parked = word.parked().with_version(Version(0)).with_claimer(0).with_installers(0);
        assert_eq!(parked, PageWord::NEVER.parked());
    }
}
