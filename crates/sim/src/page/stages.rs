//! Stages of commands: each asks for all its pages at one moment, and is done when all are at home.

use super::*;

/// A stage that waits for pages.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Each page, and what was stored there last when the stage asked.
    pages: BTreeMap<Page, u64>,
    waits: BTreeSet<Page>,
    /// Pages that it asks for later, which no correct home does.
    unasked: Vec<Page>,
    is_put: bool,
}

impl Stage {
    fn access(&self) -> Access {
        if self.is_put { Access::Write } else { Access::Read }
    }
}

impl PageWorld {
    /// A get or put comes by command.
    pub(super) fn on_command(&mut self, life: Life) -> Check {
        if !self.processes.contains_key(&life) || !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(5, 200);
        self.at(after, Event::Command { life });
        if self.processes[&life].returning.is_some() {
            return Ok(());
        }
        let (first, is_put, face) = (Page(self.dice.below(PAGE_COUNT)), self.dice.chance(4_000), Face(self.next_face));
        self.next_face += 1;
        let mut asked: Vec<Page> = (0..PAGE_COUNT).map(Page).filter(|page| *page == first || self.dice.chance(2_500)).collect();
        let home = self.processes[&life].extent;
        let pages = asked.iter().map(|page| (*page, self.truths[&(home, *page)].last)).collect();
        let unasked = if self.has(Defect::AskInTurns) {
            // The first that is asked for is any of them.
            let at = self.dice.below(asked.len() as u64) as usize;
            asked.rotate_left(at);
            asked.split_off(1)
        } else {
            Vec::new()
        };
        let stage = Stage { pages, waits: asked.iter().copied().collect(), unasked, is_put };
        let access = stage.access();
        let process = self.processes.get_mut(&life).expect("just seen");
        process.faces.insert(face, stage);
        asked.iter().for_each(|page| process.directory.recall(*page, face, access));
        if self.dice.chance(500) {
            // It gives up: if it is not served at once, it will not be.
            self.drain_home(life, first)?;
            if self.give_up(life, face) {
                self.count("commands given up");
            }
        }
        self.drain_home(life, first)
    }

    /// A page of a stage is at home; or may be looked at there.
    pub(super) fn on_ready(&mut self, life: Life, page: Page, face: Face) -> Check {
        check(face.0 < self.next_face, || "a face that nobody asked for".to_owned())?;
        if !self.processes[&life].faces.contains_key(&face) {
            // It gave up when another of its pages was refused, and has let go of this one.
            return Ok(());
        }
        self.check_newest(life, page)?;
        let process = self.processes.get_mut(&life).expect("it lives");
        let stage = process.faces.get_mut(&face).expect("just seen");
        check(stage.waits.remove(&page), || format!("page {} comes twice", page.0))?;
        if let Some(next) = stage.unasked.pop() {
            stage.waits.insert(next);
            let access = stage.access();
            process.directory.recall(next, face, access);
            return Ok(());
        }
        if !stage.waits.is_empty() {
            return Ok(());
        }
        let stage = process.faces.remove(&face).expect("just seen");
        if !stage.is_put {
            for (page, since) in stage.pages {
                let read = self.processes[&life].memory[page.0 as usize];
                check(read >= since, || format!("a get finds {read} where {since} was there before it began"))?;
            }
            self.count("gets");
            return Ok(());
        }
        let after = self.dice.pick(&[0, 1, 20, 300]);
        for page in stage.pages.into_keys() {
            self.check_newest(life, page)?;
            self.store(life, self.processes[&life].extent, page);
            self.at(after, Event::Release { life, page, face });
        }
        self.count("puts");
        Ok(())
    }

    fn check_newest(&self, life: Life, page: Page) -> Check {
        let process = &self.processes[&life];
        let (read, last) = (process.memory[page.0 as usize], self.truths[&(process.extent, page)].last);
        check(read == last, || format!("a command finds {read} where {last} was stored last"))
    }

    /// A stage lets go of its pages, since one of them does not come or nobody waits for it. Returns whether it was under way.
    pub(super) fn give_up(&mut self, life: Life, face: Face) -> bool {
        let Some(process) = self.processes.get_mut(&life) else { return false };
        let Some(stage) = process.faces.remove(&face) else { return false };
        stage.pages.keys().for_each(|page| process.directory.release(*page, face));
        true
    }
}
