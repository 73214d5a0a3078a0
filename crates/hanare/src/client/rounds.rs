//! Calls that run again where that is safe: rounds of requests, and the rule for the next one.

use super::call_numbers::NumberedCall;
use super::drafts::{CallEffect, Drafts, Tickets, admit, post_drafts};
use super::repetition::{Breaks, Refusals, Repetition};
use hanare_protocol::error::Happened;
use hanare_protocol::id::NodeId;
use hanare_protocol::{Error, Result};
use std::time::Duration;

/// Runs blocking commands that `draft` makes, in as many rounds as [`CallRounds`] allows. `refresh` asks for the grants of today, and says if
/// another round can help. `repetition` is asked again behind it: the region may have copies by then.
///
/// # Safety
/// Runs drafts. The windows that `draft` is given are valid, and unused by others where they are written, until this returns.
pub(crate) unsafe fn run<'b>(
    repetition: impl Fn() -> Repetition,
    refresh: impl Fn(&Error) -> Result<bool>,
    mut draft: impl FnMut(&mut Drafts<'b>) -> Result<()>,
) -> Result<()> {
    let mut rounds = CallRounds::new(repetition());
    loop {
        let drafts = rounds.drafts();
        // SAFETY: promised by the caller; `end` waits for all tickets, whatever the outcome.
        let round = unsafe { CallRound::begin(drafts, Tickets::default(), &mut draft) };
        if rounds.end(round, &refresh)? {
            return Ok(());
        }
        rounds.learn(&repetition)?;
    }
}

/// Rounds of a call. It runs once more where a node was lost, unless that would be twice. So it does where a silent node has the bytes no more. It
/// runs again where its grants are refused. It runs again for some time where a connection ends that the node took, or bytes have copies.
pub(crate) struct CallRounds {
    repetition: Repetition,
    has_written: bool,
    /// Commands of the call that changed memory and are done: they are in no further round.
    settled: CallEffect,
    has_settled_once: bool,
    has_refreshed: bool,
    refusals: Refusals,
    breaks: Breaks,
    /// The error for which another round begins.
    last: Option<Error>,
}

/// A round, whose requests are under way.
pub(crate) struct CallRound<'b> {
    tickets: Tickets<'b>,
    posted: Result<()>,
}

impl CallRounds {
    pub fn new(repetition: Repetition) -> CallRounds {
        let (has_written, settled, has_settled_once, has_refreshed) = Default::default();
        CallRounds {
            repetition,
            has_written,
            settled,
            has_settled_once,
            has_refreshed,
            refusals: Refusals::default(),
            breaks: Breaks::default(),
            last: None,
        }
    }

    /// Drafts for the next round: they know their call.
    pub fn drafts<'b>(&mut self) -> Drafts<'b> {
        Drafts::of_call(self.repetition.call.as_mut().map_or(0, NumberedCall::detail))
    }

    /// Adds a command, which must not be run twice if `is_once`.
    pub fn add(&mut self, is_once: bool) {
        self.repetition.is_once |= is_once;
    }

    /// A command was done at once, and is not repeated. Where it has changed memory of a node, an error of the others tells of it.
    pub fn settle(&mut self, changed: Option<NodeId>, is_once: bool) {
        if let Some(node) = changed {
            self.settled.note(node, Happened::Yes);
            self.has_settled_once |= is_once;
        }
    }

    /// The region may have got copies since the call began, or have none any more. The next round goes by what it has today. Nothing was done by one
    /// that was refused.
    ///
    /// **Errors**: that of the last round, where a part of it may be done that its home knows no more.
    pub fn learn(&mut self, repetition: impl FnOnce() -> Repetition) -> Result<()> {
        let (is_once, today) = (self.repetition.is_once, repetition());
        let forgets = self.repetition.call.is_some() && today.call.is_none();
        if forgets && is_once && self.has_written {
            return self.last.take().map_or(Ok(()), |error| Err(admit(true, error)));
        }
        if forgets || (!self.repetition.moves && today.moves) {
            self.repetition = Repetition { is_once, ..today };
        }
        Ok(())
    }

    /// True if the coordinator may be asked once more for the home of bytes with copies. Pauses before that.
    pub fn may_wait(&mut self) -> bool {
        self.breaks.may_repeat_moved()
    }

    /// Ends a round. Returns false if another one is to begin, with the grants that `refresh` has asked for. It says if that can help.
    pub fn end(
        &mut self,
        CallRound { mut tickets, posted }: CallRound<'_>,
        refresh: impl FnOnce(&Error) -> Result<bool>,
    ) -> Result<bool> {
        let Repetition { is_once, moves, .. } = self.repetition;
        let may_run_again = !is_once || tickets.is_numbered;
        // Another node is home of bytes with copies soon after the lease of a silent one is over.
        tickets.patience = (moves && may_run_again).then(|| self.breaks.patience());
        let (waited, was_sent) = (tickets.wait(), posted.is_ok());
        let Err(error) = tickets.explain(posted.and(waited)) else { return Ok(true) };
        self.has_written |= tickets.may_have_written();
        self.breaks.note(&error);
        let may_repeat = match &error {
            // The next home is found when the lease of the one before is over.
            Error::GrantRefused { .. } | Error::NodeLost { .. } | Error::Timeout { .. } if moves => {
                let is_nothing_done = matches!(error, Error::GrantRefused { .. }) || !was_sent;
                (is_nothing_done || may_run_again) && self.breaks.may_repeat_moved()
            }
            // An update with this error did nothing; otherwise the error would be another.
            Error::GrantRefused { .. } => self.refusals.may_repeat(),
            Error::NodeLost { .. } if was_sent => !is_once && self.breaks.may_repeat(),
            // Bytes without copies may have moved while the handle was idle.
            Error::NodeLost { .. } | Error::Timeout { .. } if !is_once || !self.has_written => {
                !std::mem::replace(&mut self.has_refreshed, true)
            }
            _ => false,
        };
        if !may_repeat {
            // A region that was removed meanwhile has its grants refused, whatever was asked for before.
            let is_removed = |error: &Error| matches!(error, Error::GrantRefused { .. }) && self.has_written;
            return match is_removed(&error).then(|| refresh(&error)) {
                Some(Err(removed @ Error::UnknownRegion { .. })) => Err(removed),
                _ => Err(self.admit(error)),
            };
        }
        self.last = Some(error.clone());
        match refresh(&error) {
            // Bytes with copies have another home soon, whatever is known of it now.
            Ok(can_help) if can_help || moves => Ok(false),
            Ok(_) => Err(self.admit(error)),
            // A removed region has no bytes that could have changed.
            Err(Error::UnknownRegion { name }) => Err(Error::UnknownRegion { name }),
            // The coordinator names the home, so it is waited for.
            Err(Error::NoCoordinator { .. } | Error::Timeout { .. }) if moves && self.breaks.may_repeat_moved() => Ok(false),
            // The node that has the bytes is the one to name.
            Err(_) if self.has_written || (tickets.writes() && !matches!(error, Error::GrantRefused { .. })) => {
                Err(self.admit(error))
            }
            Err(later) => Err(self.admit(later)),
        }
    }

    /// The error of a part of the call as that of the whole call.
    pub fn admit(&self, error: Error) -> Error {
        let error = self.settled.explain(self.has_settled_once, error);
        admit(self.has_written || self.settled.is_known(), error)
    }
}

impl<'b> CallRound<'b> {
    /// Begins a round.
    ///
    /// # Safety
    /// See [`Drafts::post`].
    pub unsafe fn begin(
        drafts: Drafts<'b>,
        tickets: Tickets<'b>,
        draft: impl FnOnce(&mut Drafts<'b>) -> Result<()>,
    ) -> CallRound<'b> {
        let mut round = CallRound { tickets, posted: Ok(()) };
        // SAFETY: promised by the caller.
        round.posted = unsafe { post_drafts(drafts, draft, &mut round.tickets) };
        round
    }

    /// True if all replies are here.
    pub fn is_done(&self) -> bool {
        self.tickets.are_done()
    }

    /// Sleeps until one of its requests has its answer, for `bound` at most.
    pub fn nap(&self, bound: Duration) {
        self.tickets.nap(bound);
    }
}
