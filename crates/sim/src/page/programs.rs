//! Programs' acts: threads that touch pages, gets and puts by command, and the results of both.

use super::*;

impl PageWorld {
    /// The value of a page at a host; its own extent's frames are the memory at home.
    pub(super) fn frame(&self, life: Life, home: Extent, page: Page) -> Option<u64> {
        let process = &self.processes[&life];
        match process.extent == home {
            true => Some(process.memory[page.0 as usize]),
            false => process.mapped.get(&home)?.place.frame(page).copied(),
        }
    }

    pub(super) fn set_frame(&mut self, life: Life, home: Extent, page: Page, value: u64) {
        let process = self.processes.get_mut(&life).expect("it lives");
        match process.extent == home {
            true => process.memory[page.0 as usize] = value,
            false => process.mapped.get_mut(&home).expect("it maps the extent").place.set_frame(page, Some(value)),
        }
    }

    /// Somebody who may stores what nobody stored before.
    pub(super) fn store(&mut self, life: Life, home: Extent, page: Page) {
        let value = self.next_value;
        self.next_value += 1;
        self.set_frame(life, home, page, value);
        self.truths.get_mut(&(home, page)).expect("its home lives").last = value;
        self.count("stores");
    }

    /// Threads whose claims are over go on.
    pub(super) fn free_threads(&mut self, life: Life, home: Extent) {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(Mapped { place, .. }) = process.mapped.get(&home) else { return };
        let mut installed = 0;
        for thread in &mut process.threads {
            let is_over = |waiting: &mut Waiting| {
                let word = place.look(waiting.page);
                waiting.home == home && !(word.is_claimed() && word.claimer() == waiting.seat)
            };
            if let Some(waiting) = thread.take_if(is_over) {
                installed += usize::from(place.look(waiting.page).may_map(Access::Read));
            }
        }
        (0..installed).for_each(|_| self.count("pages installed"));
    }

    /// Fills a frame by the thread that was granted the page, if it does so itself.
    pub(super) fn fill_by_thread(&mut self, life: Life, home: Extent, page: Page, message: &ToHost, value: Option<u64>) -> bool {
        let ToHost::Grant { ticket, version, access, awaits, .. } = message else { return false };
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(Mapped { place, .. }) = process.mapped.get_mut(&home) else { return false };
        let is_its = |thread: &Option<Waiting>| {
            thread.as_ref().is_some_and(|waiting| (waiting.home, waiting.page, waiting.seat) == (home, page, ticket.seat))
        };
        let Some(thread) = process.threads.iter().position(is_its) else { return false };
        let is_answer = place.number(ticket.seat) == ticket.number && awaits.is_empty() && value.is_some();
        if !is_answer || !self.course.dice.chance(5_000) {
            return false;
        }
        if place.change(page, |word| word.fill(ticket.seat, *version, *access)) != Ok(Fill::Go) {
            return false;
        }
        place.set_frame(page, value);
        process.threads[thread].as_mut().expect("just found").fills = Some(message.clone());
        self.count("frames filled by threads");
        let after = self.dice.pick(&[0, 1, 20, 200]);
        self.at(after, Event::Filled { life, thread, ticket: *ticket });
        true
    }

    /// A thread's bytes are in the frame.
    pub(super) fn on_filled(&mut self, life: Life, thread: usize, of: Ticket) -> Check {
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        let Some(Waiting { home, page, seat, fills: Some(grant) }) = process.threads[thread].clone() else { return Ok(()) };
        let ToHost::Grant { ticket, version, firm, .. } = grant else { return Ok(()) };
        if ticket != of {
            return Ok(());
        }
        self.with_host(life, home, |_, place, outputs| {
            place.change(page, |word| word.filled(seat, version))?;
            place.clear_seat(seat);
            if firm {
                outputs.push(HostOutput::Home { page, message: ToHome::Done { ticket, version }, bytes: None });
            }
            Ok(())
        })?;
        self.judge(home, page)
    }

    /// A thread that waits is killed: its node goes on in its name, and what it was granted its home sends there.
    fn kill_thread(&mut self, life: Life, thread: usize) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(Waiting { home, page, seat, fills }) = process.threads[thread].take() else { return Ok(()) };
        let by = process.shares.get(&home).map(|share| share.key);
        self.count("threads killed");
        self.note(format!("a thread of {life} is killed that waits for page {} of {home}", page.0));
        self.with_host(life, home, |rules, place, outputs| rules.part(place, seat..seat + 1, true, outputs))?;
        if let (Some(grant), Some(at), Some(by)) = (fills, self.life_of(home), by)
            && self.processes[&at].returning.is_none()
            && matches!(grant, ToHost::Grant { firm: true, .. })
        {
            let value = Some(self.processes[&at].memory[page.0 as usize]);
            self.send(at, life, Parcel { home, page, what: What::ToHost(grant), value, by, peer: None });
        }
        self.judge(home, page)
    }

    /// Threads that fill frames of an extent come to their end.
    pub(super) fn end_fills(&mut self, life: Life, home: Extent) -> Check {
        let fills = |waiting: &Waiting| waiting.fills.as_ref().filter(|_| waiting.home == home).cloned();
        let filling: Vec<(usize, ToHost)> = (self.processes[&life].threads.iter().enumerate())
            .filter_map(|(thread, waiting)| Some((thread, fills(waiting.as_ref()?)?)))
            .collect();
        for (thread, grant) in filling {
            if let ToHost::Grant { ticket, .. } = grant {
                self.on_filled(life, thread, ticket)?;
            }
        }
        Ok(())
    }

    /// The threads that wait for pages of a home are gone.
    pub(super) fn part_threads(&mut self, life: Life, home: Extent) -> Check {
        let waits = |thread: &usize| self.processes[&life].threads[*thread].as_ref().is_some_and(|waiting| waiting.home == home);
        let waiting: Vec<usize> = (0..usize::from(THREAD_COUNT)).filter(waits).collect();
        waiting.into_iter().try_for_each(|thread| self.kill_thread(life, thread))
    }

    /// A thread of a program touches a page; now and then another is evicted, or a request is made again.
    pub(super) fn on_program(&mut self, life: Life) -> Check {
        if !self.processes.contains_key(&life) || !self.is_rough {
            return Ok(());
        }
        let after = self.dice.pick(&[1, 5, 20, 100]);
        self.at(after, Event::Program { life });
        let homes: Vec<Extent> = self.nodes.iter().flatten().map(|at| self.processes[at].extent).collect();
        let (home, page) = (self.dice.pick(&homes), Page(self.dice.below(PAGE_COUNT)));
        let access = if self.dice.chance(4_000) { Access::Write } else { Access::Read };
        let process = self.processes.get_mut(&life).expect("just seen");
        let share = process.shares.get(&home).filter(|share| !share.inside.is_empty());
        if share.is_some_and(|share| process.lost.contains(&share.at)) {
            return self.use_what_is_here(life, home, page);
        }
        let may_touch = share.is_some_and(|share| !share.sharing.is_lost(0)) && process.mapped.contains_key(&home);
        if share.is_some() && !may_touch && self.dice.chance(1_000) {
            // Their host knows nothing of the extent any more.
            return self.unmap(life, home);
        }
        if !may_touch || self.dice.chance(100) {
            return self.map(life, home);
        }
        if self.dice.chance(100) {
            return self.unmap(life, home);
        }
        if self.dice.chance(1_500) {
            let mut is_evicted = false;
            self.with_host(life, home, |rules, place, _| {
                is_evicted = rules.evict(place, page)?;
                Ok(())
            })?;
            if is_evicted {
                self.count("evictions");
            }
        } else if self.dice.chance(300) {
            let waits = self.processes[&life].threads.iter().position(Option::is_some);
            waits.map_or(Ok(()), |thread| self.kill_thread(life, thread))?;
        } else {
            self.touch(life, home, page, access)?;
        }
        self.judge(home, page)
    }

    /// A thread that waits for nothing touches a page.
    fn touch(&mut self, life: Life, home: Extent, page: Page, access: Access) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(thread) = process.threads.iter().position(Option::is_none) else { return Ok(()) };
        let (Some(by), Some(Mapped { rules, place, .. })) = (process.share_at(home), process.mapped.get_mut(&home)) else {
            return Ok(());
        };
        rules.settle_dead_seats(place);
        let seats = [1 + thread as u16, 1 + THREAD_COUNT + thread as u16];
        let Some(seat) = seats.into_iter().find(|seat| rules.is_free(*seat..*seat + 1)) else { return Ok(()) };
        let (has, access) = match place.fault(page, seat, access).map_err(|corrupt| corrupt.to_string())? {
            Fault::Wait(_) => return Ok(()),
            Fault::Map(_) => {
                place.leave(page, seat).map_err(|corrupt| corrupt.to_string())?;
                return self.use_page(life, home, page, access);
            }
            Fault::Fetch { access, .. } => (None, access),
            Fault::Upgrade { has } => (Some(has), Access::Write),
        };
        let ticket = Ticket { seat, number: place.number(seat) };
        process.threads[thread] = Some(Waiting { home, page, seat, fills: None });
        let what = What::ToHome(ToHome::Request { ticket, access, has, firm: false });
        let at = process.shares[&home].at;
        self.send(life, at, Parcel { home, page, what, value: None, by, peer: None });
        Ok(())
    }

    /// A thread uses what is here.
    fn use_page(&mut self, life: Life, home: Extent, page: Page, access: Access) -> Check {
        self.count("hits");
        let (read, last) = (self.frame(life, home, page), self.truths.get(&(home, page)).map(|truth| truth.last));
        // A host that does not know yet that its home does without it may have older bytes.
        if last.is_some() && !self.is_fenced(life, home) {
            check(read == last, || format!("life {life} loads {read:?} where {last:?} was stored last"))?;
            if access == Access::Write {
                self.store(life, home, page);
            }
        }
        Ok(())
    }

    /// A home is away: what a host owns of it can be used all the same.
    fn use_what_is_here(&mut self, life: Life, home: Extent, page: Page) -> Check {
        if self.dice.chance(50) {
            return self.unmap(life, home);
        }
        let word = self.processes[&life].mapped.get(&home).map(|mapped| mapped.place.look(page));
        if word.is_some_and(|word| word.state() == Ok(State::Owned)) && self.truths.contains_key(&(home, page)) {
            self.store(life, home, page);
            self.count("stores while the home is away");
        }
        self.judge(home, page)
    }
}
