//! What homes and other hosts say about pages, and what comes of it.

use super::*;

impl Host {
    /// A message of a home, or of another host.
    ///
    /// **Errors**: [`Error::Garbage`] for what no correct one sends; the region's own memory is the input of its clients.
    // FEATURE: EU-F12 EU-F13
    pub fn on_message(
        &mut self,
        home: usize,
        page: Page,
        message: ToHost,
        bytes: Option<PageBytes>,
        says: &mut Vec<Say>,
    ) -> Result<()> {
        // Seats come from clients by way of their home.
        let seat = match &message {
            ToHost::Grant { ticket, .. } | ToHost::OwnerGone { ticket, .. } | ToHost::Refused { ticket, .. } => ticket.seat,
            _ => OWN_SEAT,
        };
        if seat >= SEATS {
            return Err(garbage("a request of a seat that there is not"));
        }
        let is_here = page.0 < self.layout.len().div_ceil(PAGE_LEN) && self.home_of_page(page.0) == home;
        let Some(pages) = self.pages.as_mut().filter(|_| is_here) else {
            return Err(garbage("a message about a page that is not the home's"));
        };
        if pages.is_held(page.0) {
            pages.waiting.entry(page.0).or_default().push_back((home, message, bytes));
            return Ok(());
        }
        if pages.words.look(page.0).is_being_filled() {
            pages.wait_for_fill(page.0, (home, message, bytes));
            return Ok(());
        }
        if let Err(corrupt) = self.act(home, page, message, bytes, says) {
            self.give_up(&corrupt);
        }
        Ok(())
    }

    pub(super) fn act(
        &mut self,
        home: usize,
        page: Page,
        message: ToHost,
        bytes: Option<PageBytes>,
        says: &mut Vec<Say>,
    ) -> Result<(), Corrupt> {
        let me = self.homes[home].me;
        let Some(pages) = &mut self.pages else { return Ok(()) };
        match message {
            ToHost::Grant { access: Access::Read, ticket, version, firm, .. } => {
                if firm {
                    says.push(Say::Home { home, page, message: ToHome::Done { ticket, version }, bytes: None });
                }
                self.on_grant_read(home, page, ticket, version, bytes, says)
            }
            ToHost::Grant { access: Access::Write, ticket, version, mut awaits, .. } => {
                let collecting = pages.collecting.entry(page.0).or_default();
                if collecting.early_version == version.prev() {
                    awaits.subtract(&collecting.early);
                }
                if awaits.is_empty() {
                    pages.collecting.remove(&page.0);
                    return self.on_grant_write(home, page, ticket, version, bytes, says);
                }
                (collecting.granted, collecting.awaits) = (Some((ticket, version, bytes)), awaits);
                Ok(())
            }
            ToHost::Ack { from, version } => {
                let collecting = pages.collecting.entry(page.0).or_default();
                match &collecting.granted {
                    Some((_, granted, _)) if *granted == version.next() => {
                        collecting.awaits.remove(from);
                        if !collecting.awaits.is_empty() {
                            return Ok(());
                        }
                        let collecting = pages.collecting.remove(&page.0).unwrap_or_default();
                        let Some((ticket, version, bytes)) = collecting.granted else { return Ok(()) };
                        self.on_grant_write(home, page, ticket, version, bytes, says)
                    }
                    Some(_) => Ok(()),
                    None => {
                        if collecting.early.is_empty() || version.is_after(collecting.early_version) {
                            (collecting.early_version, collecting.early) = (version, Hosts::NONE);
                        }
                        if collecting.early_version == version {
                            collecting.early.insert(from);
                        }
                        Ok(())
                    }
                }
            }
            ToHost::Invalidate { version, tell } => match pages.words.invalidate(page.0, version)? {
                Invalidated::Nothing => {
                    says.push(acknowledge(home, page, me, version, tell));
                    Ok(())
                }
                Invalidated::Take => {
                    self.begin_take(home, page.0, Why::Invalidate { version, tell });
                    Ok(())
                }
                Invalidated::Later => match pages.words.look(page.0).state()? {
                    State::TakingShared | State::TakingUpgrade | State::TakingOwned => {
                        Err(Corrupt("a page that is taken by nobody is being taken"))
                    }
                    _ => {
                        pages.wait_for_fill(page.0, (home, message, bytes));
                        Ok(())
                    }
                },
            },
            ToHost::Forward { era, to, ticket, access } => match pages.words.take_owned(page.0, era)? {
                Taken::Take => {
                    self.begin_take(home, page.0, Why::Forward { era, to, ticket, access });
                    Ok(())
                }
                Taken::Elsewhere { .. } => Ok(()),
                Taken::Later => Err(Corrupt("a page that is taken by nobody is being taken")),
            },
            ToHost::Recall { era, keeps } => match pages.words.take_owned(page.0, era)? {
                Taken::Take => {
                    self.begin_take(home, page.0, Why::Recall { era, keeps });
                    Ok(())
                }
                Taken::Elsewhere { floor } => {
                    if !era.is_after(floor) {
                        says.push(Say::Home { home, page, message: ToHome::Missing { version: era }, bytes: None });
                    }
                    Ok(())
                }
                Taken::Later => Err(Corrupt("a page that is taken by nobody is being taken")),
            },
            ToHost::OwnerGone { ticket, access, version } => self.on_owner_gone(home, page, ticket, access, version, says),
            ToHost::Refused { ticket, .. } => {
                let word = pages.words.look(page.0);
                if word.claimer() == ticket.seat && pages.words.number(ticket.seat) == ticket.number && word.is_asked_for() {
                    pages.fail(page.0, ticket.seat)?;
                }
                Ok(())
            }
        }
    }

    /// Whatever request it answers, a grant to read above the floor is good.
    pub(super) fn on_grant_read(
        &mut self,
        home: usize,
        page: Page,
        ticket: Ticket,
        version: Version,
        bytes: Option<PageBytes>,
        says: &mut Vec<Say>,
    ) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let word = pages.words.look(page.0);
        if word.state()? != State::Fetching {
            return Ok(());
        }
        let seat = word.claimer();
        if !version.is_after(word.floor()) {
            if seat == ticket.seat && pages.words.number(seat) == ticket.number {
                let ticket = Ticket { seat, number: pages.words.next_number(seat) };
                let want = ToHome::Want { ticket, access: Access::Read, has: None, firm: true };
                says.push(Say::Home { home, page, message: want, bytes: None });
            }
            return Ok(());
        }
        // Where there is no room, who wanted it asks again; where it is not ours, its thread has an answer of its own.
        match &bytes {
            Some(bytes) => pages.fill(page.0, seat, (version, Access::Read), bytes)?,
            None => pages.grant(page.0, seat, (version, Access::Read))?,
        };
        Ok(())
    }

    /// A grant to write that nobody has to acknowledge to any more.
    pub(super) fn on_grant_write(
        &mut self,
        home: usize,
        page: Page,
        ticket: Ticket,
        version: Version,
        bytes: Option<PageBytes>,
        says: &mut Vec<Say>,
    ) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let mut word = pages.words.look(page.0);
        // A grant that was sent twice, since its thread is dead: this host had the page as its owner, and has let go of it. After
        // that, and after any copy that it dropped, a version lies between the floor and one that it is granted.
        let is_old = match word.state()? {
            State::Absent | State::FetchingWrite => !version.prev().is_after(word.floor()),
            State::Upgrading => !version.is_after(word.version()),
            _ => false,
        };
        if is_old {
            return Ok(());
        }
        if word.state()? == State::Absent && bytes.is_some() {
            // Who asked is gone, and nobody else has asked: it is the node's until somebody touches it.
            if !matches!(pages.words.fault(page.0, OWN_SEAT, Access::Write)?, Fault::Fetch { .. }) {
                return self.on_grant_write(home, page, ticket, version, bytes, says);
            }
            word = pages.words.look(page.0);
        } else if word.state()? == State::Shared && bytes.is_none() {
            if !matches!(pages.words.fault(page.0, OWN_SEAT, Access::Write)?, Fault::Upgrade { .. }) {
                return self.on_grant_write(home, page, ticket, version, bytes, says);
            }
            word = pages.words.look(page.0);
        }
        match word.state()? {
            State::FetchingWrite | State::Upgrading => {
                let filled = match &bytes {
                    Some(bytes) => pages.fill(page.0, word.claimer(), (version, Access::Write), bytes)?,
                    None => pages.grant(page.0, word.claimer(), (version, Access::Write))?,
                };
                match filled {
                    Filled::Here => {}
                    Filled::NoRoom => {
                        // It goes back, and who wanted it asks again.
                        let message = ToHome::WriteBack { version, keeps: false };
                        says.push(Say::Home { home, page, message, bytes });
                        return Ok(());
                    }
                    Filled::NotOurs => {
                        pages.wait_for_fill(page.0, (home, granted_again(ticket, version, bytes.is_some()), bytes));
                        return Ok(());
                    }
                }
                if word.claimer() == OWN_SEAT {
                    // The seat's word was for the claim alone.
                    let _ = pages.words.bury(OWN_SEAT)?;
                }
                says.push(Say::Home { home, page, message: ToHome::Done { ticket, version }, bytes: None });
            }
            // Its thread was given the same, and is at it: what that comes to is seen then.
            State::Filling | State::FillingWrite => {
                pages.wait_for_fill(page.0, (home, granted_again(ticket, version, bytes.is_some()), bytes));
            }
            // It was installed by the thread itself, which could not say so.
            State::Owned if word.version() == version => {
                says.push(Say::Home { home, page, message: ToHome::Done { ticket, version }, bytes: None });
            }
            // It is given straight back.
            _ => {
                let message = ToHome::WriteBack { version, keeps: false };
                let bytes = bytes.or_else(|| pages.read(page.0));
                says.push(Say::Home { home, page, message, bytes });
            }
        }
        Ok(())
    }

    pub(super) fn on_owner_gone(
        &mut self,
        home: usize,
        page: Page,
        ticket: Ticket,
        access: Access,
        version: Version,
        says: &mut Vec<Say>,
    ) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let word = pages.words.look(page.0);
        let state = word.state()?;
        if word.is_being_filled() {
            pages.wait_for_fill(page.0, (home, ToHost::OwnerGone { ticket, access, version }, None));
            return Ok(());
        }
        let is_asked = word.claimer() == ticket.seat && pages.words.number(ticket.seat) == ticket.number;
        if is_asked && matches!(state, State::Fetching | State::FetchingWrite) {
            pages.fail(page.0, ticket.seat)?;
            says.push(Say::Home { home, page, message: ToHome::Abandoned { ticket }, bytes: None });
            return Ok(());
        }
        match access {
            // It came, and the home has been told, or is about to be.
            Access::Write => {}
            Access::Read if matches!(state, State::Shared | State::Upgrading) && word.version() == version => {
                let bytes = pages.read(page.0);
                says.push(Say::Home { home, page, message: ToHome::WriteBack { version, keeps: true }, bytes });
            }
            Access::Read => says.push(Say::Home { home, page, message: ToHome::Abandoned { ticket }, bytes: None }),
        }
        Ok(())
    }

    /// Another host is gone: it may have been the one that was to send a page.
    pub fn on_host_gone(&mut self, home: usize, says: &mut Vec<Say>) {
        let Some(pages) = &self.pages else { return };
        let is_read = |page: &u64| pages.words.look(*page).state() == Ok(State::Fetching);
        let fetching: Vec<u64> = (0..pages.count()).filter(is_read).collect();
        for page in fetching {
            if self.home_of_page(page) == home {
                self.repeat(page, says);
            }
        }
    }

    /// A home is gone: what was asked of it does not come. Who waits asks it again, and finds out.
    pub fn on_home_lost(&mut self, home: usize) {
        self.homes[home].is_lost = true;
        let Some(pages) = &self.pages else { return };
        let waiting: Vec<u64> = (0..pages.count()).filter(|page| pages.words.look(*page).is_asked_for()).collect();
        for page in waiting {
            if self.home_of_page(page) != home {
                continue;
            }
            let Some(pages) = &mut self.pages else { return };
            let _ = pages.fail(page, pages.words.look(page).claimer());
        }
    }
}

pub(super) fn acknowledge(home: usize, page: Page, me: HostId, version: Version, tell: Option<HostId>) -> Say {
    match tell {
        Some(to) => Say::Host { home, to, page, message: ToHost::Ack { from: me, version }, bytes: None },
        None => Say::Home { home, page, message: ToHome::Ack { version }, bytes: None },
    }
}

/// A grant to write that has all acknowledgements, to be heard once more.
fn granted_again(ticket: Ticket, version: Version, has_bytes: bool) -> ToHost {
    ToHost::Grant { ticket, version, access: Access::Write, has_bytes, awaits: Hosts::NONE, firm: true }
}
