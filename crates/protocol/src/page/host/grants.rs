//! Grants at the node, in whoever's name the page was claimed, and messages about owners that are gone.

use super::{Host, HostMemory, HostOutput, OWN_SLOT, is_of};
use crate::error::Corrupt;
use crate::page::hosts::Hosts;
use crate::page::message::{Access, Page, Ticket, ToHome, ToHost, Version};
use crate::page::word::{Fault, Fill, Installed, PageWord, State};

/// Result of a page that came to the node.
enum Filled {
    Here,
    /// No frame is free on this machine.
    NoRoom,
    /// Its claim is not open any more, or its thread fills the frame itself.
    NotOurs,
}

impl<B: Clone> Host<B> {
    /// A grant to read above the minimum version is good, whatever request it answers. An invalidation that made it stale would have raised
    /// the minimum version.
    pub(super) fn on_grant_read<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        ticket: Ticket,
        version: Version,
        bytes: Option<B>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        let word = place.look(page);
        if word.state()? != State::Fetching {
            return Ok(());
        }
        let slot = word.claimer();
        if !version.is_after(word.floor()) {
            if is_of(place, page, ticket)
                && let Some(number) = place.next_number(slot, ticket.number)
            {
                let ticket = Ticket { slot, number };
                outputs.push(HostOutput::home(page, ToHome::Request { ticket, access: Access::Read, has: None, firm: true }));
            }
            return Ok(());
        }
        // Without room the thread asks again; with a claim of another's its thread has a reply of its own.
        self.install(place, page, slot, (version, Access::Read), bytes.as_ref()).map(drop)
    }

    /// A grant to write that nobody has to acknowledge to any more.
    pub(super) fn on_grant_write<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        ticket: Ticket,
        version: Version,
        bytes: Option<B>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        let word = loop {
            let word = place.look(page);
            let state = word.state()?;
            if word.had_before(version)? {
                return Ok(());
            }
            // The requesting thread is gone, and no other asked: the page is the node's until a program touches it.
            let is_ours = matches!((state, bytes.is_some()), (State::Absent, true) | (State::Shared, false));
            if !is_ours {
                break word;
            }
            match place.fault(page, OWN_SLOT, Access::Write)? {
                Fault::Fetch { .. } | Fault::Upgrade { .. } => break place.look(page),
                Fault::Map(_) => {
                    place.change(page, PageWord::leave)?;
                    place.clear_slot(OWN_SLOT);
                }
                Fault::Wait(_) => {}
            }
        };
        match word.state()? {
            State::FetchingWrite | State::Upgrading => {
                match self.install(place, page, word.claimer(), (version, Access::Write), bytes.as_ref())? {
                    Filled::Here => {}
                    Filled::NoRoom => {
                        // The page goes back, and its requester asks again.
                        outputs.push(HostOutput::Home { page, message: ToHome::WriteBack { version, keeps: false }, bytes });
                        return Ok(());
                    }
                    Filled::NotOurs => {
                        self.wait_for_fill(page, granted_again(ticket, version, bytes.is_some()), bytes);
                        return Ok(());
                    }
                }
                if word.claimer() == OWN_SLOT {
                    // The slot's word was for the claim alone.
                    place.clear_slot(OWN_SLOT);
                }
                outputs.push(HostOutput::home(page, ToHome::Done { ticket, version }));
            }
            // Its thread was given the same, and is at it: what that comes to is seen then.
            State::Filling | State::FillingWrite => {
                self.wait_for_fill(page, granted_again(ticket, version, bytes.is_some()), bytes);
            }
            // The thread itself installed it, and could not say so.
            State::Owned if word.version() == version => outputs.push(HostOutput::home(page, ToHome::Done { ticket, version })),
            // The grant is given straight back.
            _ => {
                let bytes = bytes.or_else(|| place.read(page));
                outputs.push(HostOutput::Home { page, message: ToHome::WriteBack { version, keeps: false }, bytes });
            }
        }
        Ok(())
    }

    /// Puts a page that its claimer awaits in its place, if its grant is good, and says so in its word.
    fn install<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        slot: u16,
        (version, access): (Version, Access),
        bytes: Option<&B>,
    ) -> Result<Filled, Corrupt> {
        let fill = match bytes {
            Some(_) => place.change(page, |word| word.fill(slot, version, access))?,
            None => Fill::Has,
        };
        let installed = match (fill, bytes) {
            (Fill::Go, Some(bytes)) => {
                if !place.fill(page, slot, bytes) {
                    place.change(page, |word| word.fail_fill(slot))?;
                    place.clear_slot(slot);
                    self.collecting.remove(&page);
                    return Ok(Filled::NoRoom);
                }
                place.change(page, |word| word.filled(slot, version))?
            }
            (Fill::Has, _) => place.change(page, |word| word.grant(slot, version, access))?,
            _ => return Ok(Filled::NotOurs),
        };
        Ok(if matches!(installed, Installed::Here(_)) { Filled::Here } else { Filled::NotOurs })
    }

    /// The owner that was to answer a request is gone. Has it?
    pub(super) fn on_owner_gone<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        ticket: Ticket,
        access: Access,
        version: Version,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        let word = place.look(page);
        let state = word.state()?;
        if word.is_being_filled() {
            self.wait_for_fill(page, ToHost::OwnerGone { ticket, access, version }, None);
            return Ok(());
        }
        if is_of(place, page, ticket) && matches!(state, State::Fetching | State::FetchingWrite) {
            self.fail(place, page, ticket.slot)?;
            outputs.push(HostOutput::home(page, ToHome::Abandoned { ticket }));
            return Ok(());
        }
        match access {
            // The grant came, and the home has been told, or is about to be.
            Access::Write => {}
            Access::Read if matches!(state, State::Shared | State::Upgrading) && word.version() == version => {
                let bytes = place.read(page);
                outputs.push(HostOutput::Home { page, message: ToHome::WriteBack { version, keeps: true }, bytes });
            }
            Access::Read => outputs.push(HostOutput::home(page, ToHome::Abandoned { ticket })),
        }
        Ok(())
    }
}

/// A grant to write that has all acknowledgements, to be heard once more.
fn granted_again(ticket: Ticket, version: Version, has_bytes: bool) -> ToHost {
    ToHost::Grant { ticket, version, access: Access::Write, has_bytes, awaits: Hosts::NONE, firm: true }
}
