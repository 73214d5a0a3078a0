//! The rules of a page word: each event's effect on the word, and its result for the thread or node that does it.
//!
//! Every rule looks at nothing but the word. So a side that applies it by compare-exchange applies it again if another side was faster.
//! Crate
//! `ring`, which applies the rules to shared memory, describes the order of threads' and the node's steps.

use super::{Event, PageWord, State};
use crate::error::Corrupt;
use crate::page::message::{Access, Version};

/// A rule's effect on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<T> {
    /// The word after it; the same where nothing changes.
    pub word: PageWord,
    /// The rule's result.
    pub value: T,
}

/// A word was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "somebody may have to be woken"]
pub struct Changed {
    /// True if a thread is parked on it.
    pub wakes: bool,
}

impl Changed {
    /// From one word to another.
    pub fn between(old: PageWord, new: PageWord) -> Changed {
        Changed { wakes: old.is_parked() && !new.is_parked() }
    }
}

/// The next step of a thread that faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Map the page for that access at once, and leave.
    Map(Access),
    /// Fetch it: the claim is this slot's. Grants up to the floor are void.
    Fetch {
        /// The newest version that is known not to be good.
        floor: Version,
        /// The access to ask for: to write where the page is migratory, whatever the thread does.
        access: Access,
    },
    /// Ask to write the copy that is here.
    Upgrade {
        /// Its version.
        has: Version,
    },
    /// Another fetches it, or the node takes it: wait until the word is another than this.
    Wait(PageWord),
}

/// Permission to put granted bytes into the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Put them there, then [`PageWord::filled`]; or [`PageWord::fail_fill`].
    Go,
    /// The copy that is here, and that is to be written, has them: [`PageWord::grant`].
    Has,
    /// An invalidation overtook the grant: the claim stays, ask again.
    Void,
    /// The claim is not this slot's (any longer), or not of that kind, or another reply is being put there.
    Gone,
}

/// Result of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The page may be mapped.
    Here(Changed),
    /// An invalidation overtook it: the claim stays, ask again.
    Void,
    /// The claim is not (or no longer) this slot's, or not of that kind: the grant is of no use.
    Gone,
}

/// Result of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidated {
    /// No copy that it concerns is here: acknowledge.
    Nothing,
    /// The page is marked: take it, publish with [`PageWord::drop_taken`], acknowledge.
    Take,
    /// The page is being taken for something else, or filled: try again when that is done.
    Later,
}

/// Result of a forward or a recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The page is marked: take it, and publish.
    Take,
    /// The page is not owned here in that version. The floor says why. From the asked version on, the page was passed on (a recall is
    /// answered with `Missing`). Below it, the page was evicted and is on its way home (nothing is answered).
    Elsewhere {
        /// The newest version that is known not to be good here.
        floor: Version,
    },
    /// The page is being taken for something else: try again when that is done.
    Later,
}

impl PageWord {
    fn becomes<T>(self, word: PageWord, value: T) -> Result<Change<T>, Corrupt> {
        Ok(Change { word, value })
    }

    fn stays<T>(self, value: T) -> Result<Change<T>, Corrupt> {
        Ok(Change { word: self, value })
    }

    /// A thread touches a page that is not mapped for it that way. The claim, where it makes one, is the slot's.
    ///
    /// A page that comes for writing, to a thread that reads, is not yet written. It is mapped for reading, so that the first store is
    /// seen. A guess that was wrong is forgotten with the page.
    // FEATURE: EU-F12 EU-F17
    pub fn fault(self, slot: u16, access: Access) -> Result<Change<Fault>, Corrupt> {
        let (word, fault) = match self.state()? {
            _ if self.may_map(access) => (self.entered(access), Fault::Map(access)),
            State::Absent => {
                let asks = if self.is_migratory() { Access::Write } else { access };
                let event = if asks == Access::Write { Event::ClaimWrite } else { Event::Claim };
                (self.after(event).map(|word| word.begun(access)), Fault::Fetch { floor: self.version(), access: asks })
            }
            State::Shared => {
                (self.after(Event::ClaimWrite).map(|word| word.with_written(true)), Fault::Upgrade { has: self.version() })
            }
            _ => (None, Fault::Wait(self)),
        };
        match (word, fault) {
            (Some(word), Fault::Map(_)) => self.becomes(word, fault),
            (Some(word), _) => self.becomes(word.with_claimer(slot), fault),
            (None, _) => self.stays(Fault::Wait(self)),
        }
    }

    /// Counts a thread if the page may be mapped as it is; claims nothing. The value is true if it was counted.
    pub fn enter(self, access: Access) -> Result<Change<bool>, Corrupt> {
        self.state()?;
        match self.entered(access).filter(|_| self.may_map(access)) {
            Some(word) => self.becomes(word, true),
            None => self.stays(false),
        }
    }

    /// A thread has mapped the page.
    pub fn leave(self) -> Result<Change<()>, Corrupt> {
        let word = self.left().ok_or(Corrupt("a page left that nobody maps"))?;
        self.becomes(word, ())
    }

    /// The grant for the request of `slot` is here with bytes, for writing with all acknowledgements. From [`Fill::Go`] on nobody
    /// else touches the frame, and the grant is good.
    pub fn fill(self, slot: u16, version: Version, access: Access) -> Result<Change<Fill>, Corrupt> {
        match (self.state()?, access) {
            _ if self.claimer() != slot => self.stays(Fill::Gone),
            (State::Fetching, Access::Read) if !version.is_after(self.floor()) => self.stays(Fill::Void),
            (State::Fetching, Access::Read) | (State::FetchingWrite, Access::Write) => {
                self.becomes(self.after(Event::Fill).expect("just seen"), Fill::Go)
            }
            (State::Upgrading, Access::Write) => self.stays(Fill::Has),
            _ => self.stays(Fill::Gone),
        }
    }

    /// The bytes of `version` are in the frame. [`Installed::Gone`] where the fill was undone meanwhile.
    pub fn filled(self, slot: u16, version: Version) -> Result<Change<Installed>, Corrupt> {
        self.state()?;
        match self.after(Event::Filled).filter(|_| self.claimer() == slot) {
            Some(word) => self.installed(word.with_version(version)),
            None => self.stays(Installed::Gone),
        }
    }

    fn installed(self, word: PageWord) -> Result<Change<Installed>, Corrupt> {
        self.becomes(word, Installed::Here(Changed::between(self, word)))
    }

    /// Makes a dead thread's half-filled frame a hole again. Its claim stays, and no thread is woken.
    pub fn unfill(self, slot: u16) -> Result<Change<()>, Corrupt> {
        let word = self.after(Event::Unfill).filter(|_| self.claimer() == slot);
        self.becomes(word.ok_or(Corrupt("a page emptied that was not being filled"))?, ())
    }

    /// The filler could not put the bytes into the frame, which is a hole: its request has failed.
    pub fn fail_fill(self, slot: u16) -> Result<Change<()>, Corrupt> {
        let word = self.after(Event::FailFill).filter(|_| self.claimer() == slot);
        self.becomes(word.ok_or(Corrupt("a fill failed that was not begun"))?, ())
    }

    /// The grant for the request of `slot` is here, for writing with all acknowledgements. The frame has the bytes already.
    pub fn grant(self, slot: u16, version: Version, access: Access) -> Result<Change<Installed>, Corrupt> {
        let event = match (self.state()?, access) {
            _ if self.claimer() != slot => return self.stays(Installed::Gone),
            (State::Fetching, Access::Read) if !version.is_after(self.floor()) => return self.stays(Installed::Void),
            (State::Fetching, Access::Read) => Event::GrantRead,
            (State::FetchingWrite | State::Upgrading, Access::Write) => Event::GrantWrite,
            _ => return self.stays(Installed::Gone),
        };
        self.installed(self.after(event).expect("just seen").with_version(version))
    }

    /// The request of `slot` failed: nobody fetches the page any more. A copy that was to be written stays. `None`, and nothing is
    /// changed, where it is over already, or its answer is being put into the frame.
    pub fn fail(self, slot: u16) -> Result<Change<Option<Changed>>, Corrupt> {
        self.state()?;
        match self.after(Event::Fail).filter(|_| self.claimer() == slot) {
            Some(word) => self.becomes(word, Some(Changed::between(self, word))),
            None => self.stays(None),
        }
    }

    /// True if this host had the page in that version, granted to write, and may have let go of it since. The home sends a grant twice if
    /// its thread is dead, or if its own host had to pass the page on.
    ///
    /// At least one version lies between the minimum version of an absent page and a granted version. A copy is older than a grant.
    pub fn had_before(self, version: Version) -> Result<bool, Corrupt> {
        Ok(match self.state()? {
            State::Absent | State::Fetching | State::FetchingWrite => !version.prev().is_after(self.floor()),
            State::Shared | State::Upgrading => !version.is_after(self.version()),
            State::Owned => self.version().is_after(version),
            _ => false,
        })
    }

    /// Copies up to `version` are no longer good.
    // FEATURE: EU-F13
    pub fn invalidate(self, version: Version) -> Result<Change<Invalidated>, Corrupt> {
        match self.state()? {
            State::Absent | State::Fetching | State::FetchingWrite => {
                let floor = self.version().newest(version);
                let raised = self.after(Event::RaiseFloor).expect("it has a floor").with_version(floor);
                self.becomes(raised, Invalidated::Nothing)
            }
            State::Shared | State::Upgrading if self.version().is_after(version) => self.stays(Invalidated::Nothing),
            State::Shared | State::Upgrading => {
                self.becomes(self.after(Event::Take).expect("a copy can be taken"), Invalidated::Take)
            }
            State::TakingShared | State::TakingUpgrade | State::TakingOwned | State::Filling => self.stays(Invalidated::Later),
            // A grant to write comes after all older copies have gone.
            State::FillingWrite => self.stays(Invalidated::Nothing),
            // The message is an old one for the home's own host, which is gone.
            State::Owned if self.version().is_after(version.next()) => self.stays(Invalidated::Nothing),
            State::Owned => Err(Corrupt("an owned page that its home takes for a copy")),
        }
    }

    /// A forward or a recall of what is owned here since `era`.
    // FEATURE: EU-F13
    pub fn take_owned(self, era: Version) -> Result<Change<TakeOutcome>, Corrupt> {
        match self.state()? {
            State::Owned if self.version() == era => {
                self.becomes(self.after(Event::Take).expect("it can be taken"), TakeOutcome::Take)
            }
            State::TakingShared | State::TakingUpgrade | State::TakingOwned => self.stays(TakeOutcome::Later),
            _ => self.stays(TakeOutcome::Elsewhere { floor: self.floor() }),
        }
    }

    /// Marks a page to be evicted. The value is the word before. `None` if the page is not here or something else is under way for it.
    pub fn take_to_evict(self) -> Result<Change<Option<PageWord>>, Corrupt> {
        match self.state()? {
            State::Shared | State::Owned => self.becomes(self.after(Event::Take).expect("it can be taken"), Some(self)),
            _ => self.stays(None),
        }
    }

    /// Marks a page to be flushed, if it is owned, and was written or `all` are meant. The value is its version. `None` otherwise, or if something
    /// else is under way for it.
    pub fn take_to_flush(self, all: bool) -> Result<Change<Option<Version>>, Corrupt> {
        match self.state()? {
            State::Owned if self.is_written() || all => {
                self.becomes(self.after(Event::Take).expect("it can be taken"), Some(self.version()))
            }
            _ => self.stays(None),
        }
    }

    /// A marked page has been write-protected and read for a flush: it stays owned, and its next store is seen.
    pub fn flushed(self) -> Result<Change<()>, Corrupt> {
        self.published(Event::Flushed, |word| word.with_written(false))
    }

    /// A marked page has been taken: nothing is here any more, and versions up to `floor` are not good. After an invalidation that is its
    /// version. After the page was given away or recalled it is the version that it had. After an eviction, the version before.
    pub fn drop_taken(self, floor: Version) -> Result<Change<()>, Corrupt> {
        self.published(Event::Drop, |word| word.with_version(floor))
    }

    /// A marked page has been write-protected and read: a copy stays.
    pub fn keep_taken(self) -> Result<Change<()>, Corrupt> {
        self.published(Event::Keep, |word| word)
    }

    fn published(self, event: Event, rule: impl Fn(PageWord) -> PageWord) -> Result<Change<()>, Corrupt> {
        let word = self.after(event).ok_or(Corrupt("a page published that was not taken"))?;
        // No program maps it: counts that are left are those of the dead.
        self.becomes(rule(word).with_installers(0), ())
    }
}
