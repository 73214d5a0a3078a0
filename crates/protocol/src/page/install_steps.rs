//! Steps by which a thread takes in the reply to its request for a page, and when the home hears of it.
//!
//! ```text
//!             bytes            Go            Put             Here
//!  answer --+-------> Claimed ----> Putting ----> Publishing ----+
//!           |            |  |          | NoMemory      | Gone    |
//!           |        Has |  |          v               |         v
//!           +-------> Granting ------------- Here -----|--> Acknowledging ----> Mapping ----> Over
//!           | no bytes   |  | Void     Undoing         |         ^                 ^
//!           |            v  v             |            |         |                 |
//!           +---------> GivingUp ---------+------------|---------+                 |
//!             refused                                  +----> Breaking ------------+
//! ```
//!
//! - Bytes go into the frame only while the word says that this thread fills it. The page is said to be here only when all are there.
//! - A claim that a void grant leaves open is given up before the home hears of the grant. The home may grant the page again at once.
//! - The home hears of a grant that waits for that, whether the page is here or was given up. The page is mapped afterwards, because what the
//!   home does next finds the page by its word.
//! - A claim may be gone when its grant comes: the thread's node has taken the home for lost, or has taken the claim over. Whether the page is
//!   here is known to the node alone. So the home hears nothing of the grant but the end of the connection, and asks the node.
//!
//! The driver does what [`InstallSteps::act`] says to word, frame and home, and says how that went. Threads of programs do so inside a signal
//! handler; `explore` has its threads do the same, killed at each step. `install_steps.txt` is the table as text.

use super::word::{Fill, Installed};
use crate::table::{self, Row};

/// A thread's phase in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// A grant has come with bytes.
    Claimed,
    /// The frame is this thread's to fill.
    Putting,
    /// The bytes are in the frame.
    Publishing,
    /// The bytes could not be put there.
    Undoing,
    /// A grant has come for bytes that are here.
    Granting,
    /// The claim is open, and nothing comes of it.
    GivingUp,
    /// The home waits to hear of the grant.
    Acknowledging,
    /// The home waits to hear of the grant, whose claim is gone.
    Breaking,
    /// The page may be mapped, as far as its word lets it.
    Mapping,
    /// No step is left.
    Over,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The frame is this thread's to fill.
    Go,
    /// The bytes are here already.
    Has,
    /// An invalidation was faster.
    Void,
    /// The claim is another's, or closed.
    Gone,
    /// The bytes are in the frame.
    Put,
    /// There is no memory for them.
    NoMemory,
    /// The page is here.
    Here,
    /// The claim is closed.
    GaveUp,
    /// The home was told, or does not wait.
    Acknowledged,
    /// The connection to the home has ended, or the home does not wait.
    Broken,
    /// The page was mapped, or cannot be.
    Mapped,
}

/// The transitions.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Go, from: &[Phase::Claimed], to: Phase::Putting },
    Row { event: Event::Has, from: &[Phase::Claimed], to: Phase::Granting },
    Row { event: Event::Void, from: &[Phase::Claimed, Phase::Granting], to: Phase::GivingUp },
    Row { event: Event::Gone, from: &[Phase::Claimed, Phase::Granting, Phase::Publishing], to: Phase::Breaking },
    Row { event: Event::Put, from: &[Phase::Putting], to: Phase::Publishing },
    Row { event: Event::NoMemory, from: &[Phase::Putting], to: Phase::Undoing },
    Row { event: Event::Here, from: &[Phase::Publishing, Phase::Granting], to: Phase::Acknowledging },
    Row { event: Event::GaveUp, from: &[Phase::GivingUp, Phase::Undoing], to: Phase::Acknowledging },
    Row { event: Event::Acknowledged, from: &[Phase::Acknowledging], to: Phase::Mapping },
    Row { event: Event::Broken, from: &[Phase::Breaking], to: Phase::Mapping },
    Row { event: Event::Mapped, from: &[Phase::Mapping], to: Phase::Over },
];

/// Result of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Look at the word again: the page is here, or another's.
    Again,
    /// An invalidation overtook the grant: the next request is one that nothing overtakes.
    Overtaken,
    /// The node gets the page.
    Later,
    /// The newest bytes are gone.
    Lost,
}

/// A home's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The page.
    Granted {
        /// True if its bytes come along.
        has_bytes: bool,
        /// True if the home waits to hear of it.
        firm: bool,
    },
    /// Its node gets the page: the claim stays.
    Later,
    /// The newest bytes are gone.
    Lost,
    /// No grant, at this moment.
    Refused,
}

/// The thread's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// [`super::word::PageWord::fill`], then [`InstallSteps::on_fill`].
    Fill,
    /// Puts the bytes into the frame, then [`InstallSteps::on_put`].
    Put,
    /// [`super::word::PageWord::filled`], then [`InstallSteps::on_installed`].
    Publish,
    /// [`super::word::PageWord::fail_fill`], then [`InstallSteps::done`].
    Undo,
    /// [`super::word::PageWord::grant`], then [`InstallSteps::on_installed`].
    Grant,
    /// [`super::word::PageWord::fail`], then [`InstallSteps::done`].
    GiveUp,
    /// [`super::ToHome::Done`] to the home, then [`InstallSteps::done`].
    Acknowledge,
    /// Ends the connection to the home, when those that it acknowledges have left. Then [`InstallSteps::done`].
    Break,
    /// Maps the page, if the word lets the thread in, then [`InstallSteps::done`].
    Map,
    /// The steps are over.
    End(End),
}

/// The answer to one request, being taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstallSteps {
    phase: Phase,
    firm: bool,
    has_bytes: bool,
    /// True if it was granted: a refused thread maps nothing.
    is_granted: bool,
    end: End,
}

impl InstallSteps {
    /// An answer has come.
    pub fn new(ruling: Ruling) -> InstallSteps {
        let (phase, end) = match ruling {
            Ruling::Granted { has_bytes: true, .. } => (Phase::Claimed, End::Again),
            Ruling::Granted { has_bytes: false, .. } => (Phase::Granting, End::Again),
            Ruling::Later => (Phase::Over, End::Later),
            Ruling::Lost => (Phase::GivingUp, End::Lost),
            Ruling::Refused => (Phase::GivingUp, End::Again),
        };
        let (is_granted, has_bytes, firm) = match ruling {
            Ruling::Granted { has_bytes, firm } => (true, has_bytes, firm),
            Ruling::Later | Ruling::Lost | Ruling::Refused => (false, false, false),
        };
        InstallSteps { phase, firm, has_bytes, is_granted, end }
    }

    /// The next step.
    pub fn act(&self) -> Act {
        match self.phase {
            Phase::Claimed => Act::Fill,
            Phase::Putting => Act::Put,
            Phase::Publishing => Act::Publish,
            Phase::Undoing => Act::Undo,
            Phase::Granting => Act::Grant,
            Phase::GivingUp => Act::GiveUp,
            Phase::Acknowledging => Act::Acknowledge,
            Phase::Breaking => Act::Break,
            Phase::Mapping => Act::Map,
            Phase::Over => Act::End(self.end),
        }
    }

    /// The word was asked whether the frame may be filled. `is_open` if the claim is this thread's still, and waits for an answer.
    pub fn on_fill(&mut self, fill: Fill, is_open: bool) {
        match fill {
            Fill::Go => self.take(Event::Go),
            Fill::Has => self.take(Event::Has),
            Fill::Void => self.on_void(),
            Fill::Gone => self.on_gone(is_open),
        }
    }

    /// The bytes are in the frame, or there is no memory for them.
    pub fn on_put(&mut self, is_there: bool) {
        self.take(if is_there { Event::Put } else { Event::NoMemory });
    }

    /// The word was told that the page is here. `is_open` as for [`InstallSteps::on_fill`].
    pub fn on_installed(&mut self, installed: Installed, is_open: bool) {
        match installed {
            Installed::Here(_) => self.take(Event::Here),
            Installed::Void => self.on_void(),
            Installed::Gone => self.on_gone(is_open && self.has_bytes && self.phase == Phase::Granting),
        }
    }

    /// The step that was next is done.
    pub fn done(&mut self) {
        self.take(match self.phase {
            Phase::GivingUp | Phase::Undoing => Event::GaveUp,
            Phase::Acknowledging => Event::Acknowledged,
            Phase::Breaking => Event::Broken,
            _ => Event::Mapped,
        });
    }

    fn on_void(&mut self) {
        self.end = End::Overtaken;
        self.take(Event::Void);
    }

    /// An open claim is left behind if the page came in another way meanwhile, or is being taken. It counts as overtaken.
    fn on_gone(&mut self, is_open: bool) {
        if is_open { self.on_void() } else { self.take(Event::Gone) }
    }

    fn take(&mut self, event: Event) {
        self.phase = table::next(TABLE, self.phase, event).expect("what was next is done");
        // A step that no home waits for is skipped.
        if matches!(self.phase, Phase::Acknowledging | Phase::Breaking) && !self.firm {
            self.phase = Phase::Mapping;
        }
        if self.phase == Phase::Mapping && (!self.is_granted || self.end == End::Overtaken) {
            self.phase = Phase::Over;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::word::Changed;

    const HERE: Installed = Installed::Here(Changed { wakes: false });

    fn granted(has_bytes: bool, firm: bool) -> InstallSteps {
        InstallSteps::new(Ruling::Granted { has_bytes, firm })
    }

    #[test]
    fn the_table_is_that_in_the_text_and_says_one_thing() {
        assert_eq!(table::print(TABLE), include_str!("install_steps.txt"));
        assert_eq!(table::contradiction(TABLE), None);
    }

    #[test]
    fn bytes_are_put_then_said_to_be_here_then_acknowledged_then_mapped() {
        let mut install = granted(true, true);
        assert_eq!(install.act(), Act::Fill);
        install.on_fill(Fill::Go, true);
        assert_eq!(install.act(), Act::Put);
        install.on_put(true);
        assert_eq!(install.act(), Act::Publish);
        install.on_installed(HERE, false);
        for act in [Act::Acknowledge, Act::Map] {
            assert_eq!(install.act(), act);
            install.done();
        }
        assert_eq!(install.act(), Act::End(End::Again));
    }

    #[test]
    fn what_was_overtaken_is_given_up_and_acknowledged_and_not_mapped() {
        let mut install = granted(true, true);
        install.on_fill(Fill::Gone, true);
        for act in [Act::GiveUp, Act::Acknowledge] {
            assert_eq!(install.act(), act);
            install.done();
        }
        assert_eq!(install.act(), Act::End(End::Overtaken));
        let mut install = granted(false, false);
        install.on_installed(Installed::Void, true);
        assert_eq!(install.act(), Act::GiveUp);
        install.done();
        assert_eq!(install.act(), Act::End(End::Overtaken));
    }

    #[test]
    fn a_home_does_not_hear_of_a_grant_whose_claim_is_gone() {
        for (firm, act) in [(true, Act::Break), (false, Act::Map)] {
            let mut install = granted(true, firm);
            install.on_fill(Fill::Gone, false);
            assert_eq!(install.act(), act);
            let mut install = granted(false, firm);
            install.on_installed(Installed::Gone, false);
            assert_eq!(install.act(), act);
        }
        let mut install = granted(true, true);
        install.on_fill(Fill::Gone, false);
        install.done();
        assert_eq!(install.act(), Act::Map, "it may be here all the same");
    }

    #[test]
    fn who_is_refused_gives_up_and_who_waits_keeps_the_claim() {
        for (answer, end) in [(Ruling::Lost, End::Lost), (Ruling::Refused, End::Again)] {
            let mut install = InstallSteps::new(answer);
            assert_eq!(install.act(), Act::GiveUp);
            install.done();
            assert_eq!(install.act(), Act::End(end));
        }
        assert_eq!(InstallSteps::new(Ruling::Later).act(), Act::End(End::Later));
    }

    #[test]
    fn without_memory_the_fill_is_undone() {
        let mut install = granted(true, false);
        install.on_fill(Fill::Go, true);
        install.on_put(false);
        assert_eq!(install.act(), Act::Undo);
        install.done();
        assert_eq!(install.act(), Act::Map, "the word lets nobody in");
    }
}
