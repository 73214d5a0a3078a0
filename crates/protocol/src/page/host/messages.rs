//! Messages of homes and other hosts on pages, and their effects.

use super::{Collecting, Host, HostMemory, HostOutput, Why, acknowledge, is_of, taken_by_nobody};
use crate::error::Corrupt;
use crate::page::hosts::{HostId, Hosts};
use crate::page::message::{Access, Page, Ticket, ToHome, ToHost, Version};
use crate::page::word::{Invalidated, State, TakeOutcome};
use std::collections::VecDeque;

impl<B: Clone> Host<B> {
    /// A message of the page's home, or of another host.
    ///
    /// **Ordering**: messages may come in any order, each once. An acknowledgement, and a grant to a dead thread, may be repeated.
    /// **Errors**: [`Corrupt`] for what the words cannot say; slots that there are not are refused before.
    // FEATURE: EU-F12 EU-F13
    pub fn on_message<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        message: ToHost,
        bytes: Option<B>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        if self.is_held(page) {
            self.waiting.entry(page).or_default().push_back((message, bytes));
            return Ok(());
        }
        if place.look(page).is_being_filled() {
            self.wait_for_fill(page, message, bytes);
            return Ok(());
        }
        self.act(place, page, message, bytes, outputs)
    }

    /// A message on a page that a thread is filling counts as not yet arrived.
    pub(super) fn wait_for_fill(&mut self, page: Page, message: ToHost, bytes: Option<B>) {
        self.filling.insert(page);
        self.waiting.entry(page).or_default().push_front((message, bytes));
    }

    /// Acts on messages on a page that came while it was taken, or filled.
    pub(super) fn act_on_waiting<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        while !self.is_held(page) {
            let Some((message, bytes)) = self.waiting.get_mut(&page).and_then(VecDeque::pop_front) else {
                self.waiting.remove(&page);
                break;
            };
            self.act(place, page, message, bytes, outputs)?;
        }
        Ok(())
    }

    fn act<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        message: ToHost,
        bytes: Option<B>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        match message {
            ToHost::Grant { access: Access::Read, ticket, version, firm, .. } => {
                if firm {
                    // The home waits, whether the grant is of use or not.
                    outputs.push(HostOutput::home(page, ToHome::Done { ticket, version }));
                }
                self.on_grant_read(place, page, ticket, version, bytes, outputs)
            }
            ToHost::Grant { access: Access::Write, ticket, version, awaits, .. } => {
                if place.look(page).had_before(version)? {
                    // Another may be waiting for acknowledgements.
                    return Ok(());
                }
                match self.collect(page, ticket, version, bytes, awaits) {
                    Some((ticket, version, bytes)) => self.on_grant_write(place, page, ticket, version, bytes, outputs),
                    None => Ok(()),
                }
            }
            ToHost::Ack { from, version } => match self.on_ack(page, from, version) {
                Some((ticket, version, bytes)) => self.on_grant_write(place, page, ticket, version, bytes, outputs),
                None => Ok(()),
            },
            ToHost::Invalidate { version, tell } => self.on_invalidate(place, page, version, tell, outputs),
            ToHost::Forward { era, to, ticket, access, .. } => {
                let why = Why::Forward { era, to, ticket, access };
                self.give(place, page, era, why).map(drop)
            }
            ToHost::Recall { era, keeps, .. } => {
                let floor = self.give(place, page, era, Why::Recall { era, keeps })?;
                if floor.is_some_and(|floor| !era.is_after(floor)) {
                    outputs.push(HostOutput::home(page, ToHome::Missing { version: era }));
                }
                Ok(())
            }
            ToHost::OwnerGone { ticket, access, version } => self.on_owner_gone(place, page, ticket, access, version, outputs),
            ToHost::Refused { ticket, .. } => {
                if place.look(page).is_asked_for() && is_of(place, page, ticket) {
                    self.fail(place, page, ticket.slot)?;
                }
                Ok(())
            }
        }
    }

    /// A grant to write comes: it counts when all have dropped their copies. Returns it if they have.
    fn collect(
        &mut self,
        page: Page,
        ticket: Ticket,
        version: Version,
        bytes: Option<B>,
        mut awaits: Hosts,
    ) -> Option<(Ticket, Version, Option<B>)> {
        if let Some(Collecting::Early { version: dropped, from }) = self.collecting.get(&page)
            && *dropped == version.prev()
        {
            awaits.subtract(from);
        }
        if awaits.is_empty() {
            self.collecting.remove(&page);
            return Some((ticket, version, bytes));
        }
        self.collecting.insert(page, Collecting::Granted { ticket, version, bytes, awaits });
        None
    }

    /// Another host dropped its copy. Returns the grant that waited for this alone.
    fn on_ack(&mut self, page: Page, host: HostId, version: Version) -> Option<(Ticket, Version, Option<B>)> {
        let none = || Collecting::Early { version, from: Hosts::NONE };
        match self.collecting.entry(page).or_insert_with(none) {
            Collecting::Granted { version: granted, .. } if *granted != version.next() => None,
            Collecting::Granted { ticket, version: granted, bytes, awaits } => {
                awaits.remove(host);
                let grant = awaits.is_empty().then(|| (*ticket, *granted, bytes.take()));
                if grant.is_some() {
                    self.collecting.remove(&page);
                }
                grant
            }
            Collecting::Early { version: dropped, from } => {
                // A message on an older version, which the home repeats for a dead host, does not concern a newer one.
                if version.is_after(*dropped) {
                    (*dropped, *from) = (version, Hosts::NONE);
                }
                if *dropped == version {
                    from.insert(host);
                }
                None
            }
        }
    }

    fn on_invalidate<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        version: Version,
        tell: Option<HostId>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        match place.change(page, |word| word.invalidate(version))? {
            Invalidated::Nothing => outputs.push(acknowledge(place, page, version, tell)),
            Invalidated::Take => self.begin_take(page, Why::Invalidate { version, tell }),
            Invalidated::Later => match place.look(page).state()? {
                State::TakingShared | State::TakingUpgrade | State::TakingOwned => return Err(taken_by_nobody()),
                _ => self.wait_for_fill(page, ToHost::Invalidate { version, tell }, None),
            },
        }
        Ok(())
    }

    /// Gives away pages owned since `era`. Returns the minimum version where they are not owned.
    fn give<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        era: Version,
        why: Why,
    ) -> Result<Option<Version>, Corrupt> {
        match place.change(page, |word| word.take_owned(era))? {
            TakeOutcome::Take => self.begin_take(page, why),
            TakeOutcome::Elsewhere { floor } => return Ok(Some(floor)),
            TakeOutcome::Later => return Err(taken_by_nobody()),
        }
        Ok(None)
    }
}
