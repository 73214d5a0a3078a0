//! Commands that were started, or are in a batch. They run again, as blocking commands do, where a node refuses their grants. So they do where
//! another node becomes the home of their bytes.

use super::{Command, What};
use crate::client::attachment::Shared;
use crate::client::drafts::{Drafts, Tickets};
use crate::client::region::Region;
use crate::client::repetition::Repetition;
use crate::client::rounds::{CallRound, CallRounds};
use hanare_memory::Window;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::shape::Shape;
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A region by its number: the caller's handle may be gone when it is wanted again.
#[derive(Clone)]
struct RegionKey {
    shared: Arc<Shared>,
    gid: Gid,
    rights: Rights,
    name: Arc<str>,
}

impl RegionKey {
    fn of(region: &Region) -> RegionKey {
        let (shared, gid, rights, name) = (region.shared.clone(), region.gid(), region.rights(), region.shared_name());
        RegionKey { shared, gid, rights, name }
    }

    fn open(&self) -> Result<Region> {
        Region::new(self.shared.clone(), Region::view_of(&self.shared, (self.gid, &self.name), self.rights)?)
    }
}

/// A command that can be run again. The caller's memory and index lists are good for `'b`.
struct RepeatableCommand<'b> {
    region: RegionKey,
    shape: Shape<'b>,
    what: What<'b, RegionKey>,
    /// Memory of its own that its windows show.
    #[expect(dead_code, reason = "it is held, and seen through windows alone")]
    own: Vec<u8>,
}

impl<'b> RepeatableCommand<'b> {
    fn of<R: Deref<Target = Region>>(command: &Command<'b, R>) -> RepeatableCommand<'b> {
        let mut own = Vec::new();
        let mut what = command.what.map(Clone::clone, |region| RegionKey::of(region));
        if let What::CompareAndSwap { expected, new, .. } = &mut what {
            // The caller lends these two for the first round alone.
            own = vec![0; expected.len() + new.len()];
            let (first, second) = own.split_at_mut(expected.len());
            // Memory that the caller lends is there.
            let _ = (expected.read_into(first), new.read_into(second));
            // SAFETY: the heap memory stays where it is while its owner moves, and it is only read.
            let both = unsafe { Window::of(&own) };
            (*expected, *new) = (both.slice(0, expected.len()), both.slice(expected.len(), new.len()));
        }
        RepeatableCommand { region: RegionKey::of(&command.region), shape: command.shape.clone(), what, own }
    }

    fn keys(&self) -> impl Iterator<Item = &RegionKey> {
        let target = if let What::CopyTo { to, .. } = &self.what { Some(to) } else { None };
        std::iter::once(&self.region).chain(target)
    }

    /// The region that it writes.
    fn written(&self) -> Option<&RegionKey> {
        self.keys().last().filter(|_| self.what.writes())
    }

    fn draft<'c>(&'c self, regions: &BTreeMap<Gid, Region>, drafts: &mut Drafts<'c>) -> Result<()> {
        let region = |key: &RegionKey| &regions[&key.gid];
        let (shape, what) = (self.shape.by_ref(), self.what.map(Shape::by_ref, region));
        Command { region: region(&self.region), shape, what }.draft(drafts)
    }
}

/// Drafts of commands that can be run again.
pub(super) struct StartedDrafts<'b> {
    rounds: CallRounds,
    drafts: Drafts<'b>,
    commands: Vec<RepeatableCommand<'b>>,
}

impl<'b> StartedDrafts<'b> {
    /// Drafts without a command. Those of regions that may have other homes (`moves`) are one numbered call.
    pub fn new(shared: &Shared, moves: bool) -> StartedDrafts<'b> {
        let call = if moves { shared.calls.begin() } else { None };
        let mut rounds = CallRounds::new(Repetition { is_once: false, moves, call });
        let drafts = rounds.drafts();
        StartedDrafts { rounds, drafts, commands: Vec::new() }
    }

    /// Adds a command. **Errors**: those of its call. The drafts are to be refused then.
    pub fn add<R: Deref<Target = Region>>(&mut self, command: Command<'b, R>) -> Result<()> {
        let is_once = command.what.is_once();
        let done_here = command.what.writes().then(|| command.region.here());
        // Done under the look that found the bytes here: a second one may find them elsewhere, and then the command has to be repeatable.
        if let Some(here) = command.here() {
            self.rounds.settle(done_here, is_once);
            return command.by_ref().sound()?.at_once(*here);
        }
        let (repeatable, before) = (RepeatableCommand::of(&command), self.drafts.mark());
        command.draft(&mut self.drafts)?;
        // All of it was here.
        if self.drafts.settle(before)? {
            self.rounds.settle(done_here, is_once);
            return Ok(());
        }
        self.rounds.add(is_once);
        self.commands.push(repeatable);
        Ok(())
    }

    /// Drops them before anything is sent, because of that error.
    pub fn refuse(self, error: Error) -> Error {
        self.rounds.admit(self.drafts.refuse(error))
    }

    /// Sends them.
    ///
    /// # Safety
    /// The memory stays good, and that of results unused by others, until [`StartedCommands::finish`] returned or it was dropped.
    pub unsafe fn post(self, tickets: Tickets<'b>) -> StartedCommands<'b> {
        let StartedDrafts { rounds, drafts, commands } = self;
        // SAFETY: promised by the caller.
        let round = unsafe { CallRound::begin(drafts, tickets, |_| Ok(())) };
        StartedCommands { rounds, round: Some(round), commands }
    }
}

/// Commands under way that can be run again. Dropping them waits for the end of their requests.
pub(super) struct StartedCommands<'b> {
    rounds: CallRounds,
    /// The first round, until it is waited for.
    round: Option<CallRound<'b>>,
    commands: Vec<RepeatableCommand<'b>>,
}

impl StartedCommands<'_> {
    /// True if their requests have their answers, good or bad.
    pub fn are_done(&self) -> bool {
        self.round.as_ref().is_none_or(CallRound::is_done)
    }

    /// Sleeps until one of their requests has its answer, for `bound` at most.
    pub fn nap(&self, bound: Duration) {
        self.round.iter().for_each(|round| round.nap(bound));
    }

    /// Waits for their end, in as many rounds as it takes. **Errors**: as for the blocking calls.
    pub fn finish(&mut self) -> Result<()> {
        let StartedCommands { rounds, round, commands } = self;
        let mut regions = BTreeMap::new();
        let Some(first) = round.take() else { return Ok(()) };
        // The handles of callers are as old as those that are refused: they ask before their next command, too.
        let had_old_grants = || commands.first().map(|command| command.region.shared.refusals.fetch_add(1, Ordering::Relaxed));
        let mut is_done = rounds.end(first, |error| {
            had_old_grants();
            reopen(commands, &mut regions, error)
        })?;
        while !is_done {
            rounds.learn(|| repetition(commands, &regions))?;
            match open(commands, &mut regions) {
                // The coordinator names the home, so it is waited for.
                Err(Error::NoCoordinator { .. } | Error::Timeout { .. }) if rounds.may_wait() => continue,
                opened => opened?,
            }
            let drafts = rounds.drafts();
            // SAFETY: as promised to `post`; `end` waits for all tickets.
            let round = unsafe {
                CallRound::begin(drafts, Tickets::default(), |drafts| {
                    commands.iter().try_for_each(|command| command.draft(&regions, drafts))
                })
            };
            is_done = rounds.end(round, |error| reopen(commands, &mut regions, error))?;
        }
        Ok(())
    }
}

/// Opens the regions of commands that are not open yet.
fn open(commands: &[RepeatableCommand<'_>], regions: &mut BTreeMap<Gid, Region>) -> Result<()> {
    for key in commands.iter().flat_map(RepeatableCommand::keys) {
        if let Entry::Vacant(place) = regions.entry(key.gid) {
            place.insert(key.open()?);
        }
    }
    Ok(())
}

/// Asks for the grants of today of the regions of commands. Returns false where their nodes are those of before, and one was silent.
fn reopen(commands: &[RepeatableCommand<'_>], regions: &mut BTreeMap<Gid, Region>, error: &Error) -> Result<bool> {
    let mut can_help = !matches!(error, Error::Timeout { .. });
    for region in regions.values() {
        can_help |= region.refresh_after(error)?;
    }
    open(commands, regions)?;
    Ok(can_help)
}

/// The way to run them again, as far as their regions are known by now. Homes of regions without copies know no numbers of calls.
fn repetition(commands: &[RepeatableCommand<'_>], regions: &BTreeMap<Gid, Region>) -> Repetition {
    let moves = regions.values().any(|region| region.copies() > 1);
    let mut written = commands.iter().filter_map(RepeatableCommand::written);
    let is_known = written.all(|key| regions.get(&key.gid).is_some_and(|region| region.copies() > 1));
    let call = commands.first().filter(|_| moves && is_known).and_then(|command| command.region.shared.calls.begin());
    Repetition { is_once: commands.iter().any(|command| command.what.is_once()), moves, call }
}
