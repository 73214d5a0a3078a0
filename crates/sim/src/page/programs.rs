//! What programs do: threads that touch pages, gets and puts by command, and what comes of both.

use super::*;

impl World {
    /// The value of a page at a host; its own extent's frames are the memory at home.
    pub(super) fn frame(&self, life: Life, home: Life, page: Page) -> Option<u64> {
        let process = &self.processes[&life];
        match life == home {
            true => Some(process.memory[page.0 as usize]),
            false => process.copies.get(&home)?.1.get(&page).copied(),
        }
    }

    pub(super) fn set_frame(&mut self, life: Life, home: Life, page: Page, value: u64) {
        let process = self.processes.get_mut(&life).expect("it lives");
        match life == home {
            true => process.memory[page.0 as usize] = value,
            false => drop(process.copies.get_mut(&home).expect("it maps the extent").1.insert(page, value)),
        }
    }

    /// Somebody who may stores what nobody stored before.
    pub(super) fn store(&mut self, life: Life, home: Life, page: Page) {
        let value = self.next_value;
        self.next_value += 1;
        self.set_frame(life, home, page, value);
        self.truths.get_mut(&(home, page)).expect("its home lives").last = value;
        self.count("stores");
    }

    pub(super) fn free_seats(&mut self, life: Life, home: Life, page: Page) {
        let process = self.processes.get_mut(&life).expect("it lives");
        process.seats.iter_mut().filter(|seat| **seat == Some((home, page))).for_each(|seat| *seat = None);
    }

    /// A thread of a program touches a page; now and then another is evicted, or a request is made again.
    pub(super) fn on_program(&mut self, life: Life) -> Check {
        if !self.processes.contains_key(&life) || !self.is_rough {
            return Ok(());
        }
        let after = self.dice.pick(&[1, 5, 20, 100]);
        self.at(after, Event::Program { life });
        let homes: Vec<Life> = self.nodes.iter().flatten().copied().collect();
        let (home, page) = (self.dice.pick(&homes), Page(self.dice.below(PAGE_COUNT)));
        let access = if self.dice.chance(4_000) { Access::Write } else { Access::Read };
        if self.processes.get(&home).is_none_or(|process| process.returning.is_some()) {
            // Nobody is taken in.
            return Ok(());
        }
        let process = self.processes.get_mut(&life).expect("just seen");
        if process.lost.contains(&home) {
            return self.use_what_is_here(life, home, page);
        }
        let (copies, _) = process.copies.entry(home).or_insert_with(|| (Copies::new(HostId(life)), BTreeMap::new()));
        if self.dice.chance(1_500) {
            if copies.evict(page) {
                self.count("evictions");
            }
        } else if self.dice.chance(300) {
            copies.repeat(page);
        } else if let Some(seat) = process.seats.iter().position(Option::is_none) {
            match copies.touch(page, access, seat as u16) {
                Touch::Asked => process.seats[seat] = Some((home, page)),
                Touch::Wait => {}
                Touch::Have => {
                    self.count("hits");
                    let (read, last) = (self.frame(life, home, page), self.truths.get(&(home, page)).map(|truth| truth.last));
                    if last.is_some() {
                        check(read == last, || format!("life {life} loads {read:?} where {last:?} was stored last"))?;
                        if access == Access::Write {
                            self.store(life, home, page);
                        }
                    }
                }
            }
        }
        self.drain_host(life, home)?;
        self.judge(home, page)
    }

    /// A home is away: what a host owns of it can be used all the same.
    fn use_what_is_here(&mut self, life: Life, home: Life, page: Page) -> Check {
        let phase = self.processes[&life].copies.get(&home).map(|(copies, _)| copies.phase(page));
        if phase == Some(host::Phase::Owned) && self.truths.contains_key(&(home, page)) {
            self.store(life, home, page);
            self.count("stores while the home is away");
        }
        self.judge(home, page)
    }
}
