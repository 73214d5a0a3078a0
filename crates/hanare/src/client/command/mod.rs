//! A vector command as a value: the operation, the bytes of a region, and the caller's memory.
//!
//! ```text
//! Command ── sound ──> Sound ──┬── at_once: the region is one window of this program
//!                              └── draft: its parts on this host are done, the others wait in Drafts ── post ──> Tickets
//! ```
//!
//! Every face makes this one value: calls of a region or a pool, batches, the C library. A blocking command is started and waited
//! for; a batch is many commands.
//!
//! Safety: `'b` says how long the caller's memory and index lists are good. The safe makers borrow them. The maker of a command
//! from windows promises the same.

mod batch;
mod calls;
mod completion;
mod copy;
mod draft;
mod signal;
mod started;
mod what;

pub use batch::Batch;
pub use completion::Completion;
pub use signal::Signal;

use super::drafts::{Drafts, Tickets};
use super::region::{InReach, Region};
use super::repetition::Repetition;
use super::rounds;
use hanare_protocol::Result;
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::shape::Shape;
use started::{StartedCommands, StartedDrafts};
use std::ops::Deref;
use std::time::Duration;
use what::What;

/// An update of each element of a shape. Operands have one element's bytes for all, or one for each in order.
///
/// **Source**: [RF §3] atomic primitives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modify {
    /// The operation.
    pub operator: Operator,
    /// The kind of elements: of 32 or 64 bits; bitwise operations take whole numbers.
    pub element: Element,
}

/// A vector command that was not run yet.
///
/// A command borrows the caller's memory and index lists for `'b`, and holds its regions by `R`. Nothing is checked, sent or written
/// before it is run, or added to a [`Batch`].
#[must_use = "a command does nothing before it is run or added to a batch"]
pub struct Command<'b, R = &'b Region> {
    region: R,
    shape: Shape<'b>,
    what: What<'b, R>,
}

/// Commands under way. Dropping it waits for their end.
struct Started<'b> {
    /// Commands on regions that stay where they are.
    fixed: Option<Box<StartedCommands<'b>>>,
    /// Commands on regions with copies.
    moving: Option<Box<StartedCommands<'b>>>,
}

impl<'b> Started<'b> {
    fn all(&self) -> impl Iterator<Item = &StartedCommands<'b>> {
        self.fixed.iter().chain(&self.moving).map(|commands| &**commands)
    }

    /// True if all requests have their answers.
    fn are_done(&self) -> bool {
        self.all().all(StartedCommands::are_done)
    }

    /// Sleeps until something of it has come, for `bound` at most.
    fn nap(&self, bound: Duration) {
        if let Some(commands) = self.all().find(|commands| !commands.are_done()) {
            commands.nap(bound);
        }
    }

    /// Waits for their end. **Errors**: as for the blocking calls.
    fn finish(&mut self) -> Result<()> {
        let fixed = self.fixed.as_mut().map_or(Ok(()), |commands| commands.finish());
        let moved = self.moving.as_mut().map_or(Ok(()), |commands| commands.finish());
        fixed.and(moved)
    }

    /// Waits for the answers of all requests.
    fn settle(&mut self) {
        (self.fixed, self.moving) = (None, None);
    }
}

impl<'b, R: Deref<Target = Region>> Command<'b, R> {
    /// The region; of a copy, that which is read.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Refuses a command that the call would refuse before it moves a byte. No node is asked.
    ///
    /// **Cost**: a look at each index of a list. **Errors**: those of the call.
    pub fn check(&self) -> Result<()> {
        self.by_ref().sound().map(drop)
    }

    /// Runs it and returns when it is done. A node that was restarted refuses the old grants. Then the command is tried again with its
    /// grants of today.
    ///
    /// **Errors**: those of the call.
    pub fn run(self) -> Result<()> {
        if let Some(here) = self.here() {
            return self.by_ref().sound()?.at_once(*here);
        }
        let refresh = |error: &_| {
            let can_help = self.region.refresh_after(error)?;
            Ok(if let What::CopyTo { to, .. } = &self.what { to.refresh_after(error)? || can_help } else { can_help })
        };
        // SAFETY: the memory is good as long as the command, and all is waited for before this returns.
        unsafe { rounds::run(|| self.repetition(), refresh, |drafts| self.by_ref().draft(drafts)) }
    }

    fn repetition(&self) -> Repetition {
        let (is_once, moves) = (self.what.is_once(), self.moves());
        let call = if moves && self.what.writes() { self.region.shared.calls.begin() } else { None };
        Repetition { is_once, moves, call }
    }

    /// True if its bytes have copies: another node may become their home.
    fn moves(&self) -> bool {
        let target = if let What::CopyTo { to, .. } = &self.what { to.copies() } else { 1 };
        self.region.copies().max(target) > 1
    }

    /// Begins it; its parts on this host are done when this returns.
    ///
    /// # Safety
    /// The memory stays good until [`Started::finish`] has returned, or that was dropped.
    unsafe fn start(self) -> Result<Started<'b>> {
        let moves = self.moves();
        let mut drafts = StartedDrafts::new(&self.region.shared, moves);
        if let Err(error) = drafts.add(self) {
            return Err(drafts.refuse(error));
        }
        // SAFETY: promised by the caller.
        let started = Some(Box::new(unsafe { drafts.post(Tickets::to_keep()) }));
        Ok(if moves { Started { fixed: None, moving: started } } else { Started { fixed: started, moving: None } })
    }

    /// Its requests, and what is done when they are answered; its parts on this host are done.
    ///
    /// Windows and borrowed index lists are used until the tickets were waited for: whoever posts the drafts vouches.
    fn draft(self, drafts: &mut Drafts<'b>) -> Result<()> {
        self.region.refresh_if_refused()?;
        if let What::CopyTo { to, .. } = &self.what {
            to.refresh_if_refused()?;
        }
        self.sound()?.draft(drafts)
    }

    /// All bytes of the region, where they are one window of this program. None on a timeline, which has every command in it.
    fn here(&self) -> Option<InReach<'_>> {
        match self.what {
            What::CopyTo { .. } => None,
            _ if crate::trace::current().is_some() => None,
            _ => self.region.mapped_whole(),
        }
    }

    /// The same command, to run beside or after this one, for faces that keep commands and run them as often as asked.
    ///
    /// # Safety
    /// The memory is good until both were run for the last time. Two that run at once write into the same buffers: whoever runs them has
    /// allowed that.
    pub unsafe fn again(&self) -> Command<'b, &Region> {
        Command { region: &self.region, shape: self.shape.clone(), what: self.what.again(Clone::clone) }
    }

    /// The same command, which borrows this one's index lists.
    fn by_ref(&self) -> Command<'_, &Region> {
        Command { region: &self.region, shape: self.shape.by_ref(), what: self.what.again(Shape::by_ref) }
    }
}
