//! Gets and puts by command. Each asks its home for all its pages at one moment, waits, and is done when all are there.

use super::{Defect, Event, Life, PAGE_COUNT, PageWorld, page_of, value_of};
use crate::check::{Check, check};
use hanare_home::{HomePages, Input, Need, PageInput, Recall};
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::page::{Access, Face, Page};
use hanare_protocol::{Error, Result as Outcome};
use std::collections::BTreeMap;

/// A command's stage.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Each page, and what was stored there last when the command came.
    pages: BTreeMap<Page, u64>,
    /// Pages that it asks for later, which no correct home does.
    unasked: Vec<Page>,
    /// Pages held while it asks for those.
    held: Vec<Face>,
    link: u64,
    is_put: bool,
    /// True while it waits for pages.
    waits: bool,
}

impl Stage {
    pub fn waits(&self) -> bool {
        self.waits
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
        if self.dice.chance(400) {
            return self.wait_for_word(life);
        }
        let gid = Gid(life);
        let (first, is_put, beside) = (self.pick_page(gid), self.dice.chance(4_000), self.dice.pick(&[0, 0, 2_500]));
        let wanted: Vec<Page> = (0..PAGE_COUNT).map(Page).filter(|page| *page == first || self.dice.chance(beside)).collect();
        let pages = wanted.iter().map(|page| (*page, self.truths[&(gid, *page)].last)).collect();
        let (mut now, mut unasked, link) = (wanted, Vec::new(), self.draw());
        if self.has(Defect::AskInTurns) {
            let at = self.dice.below(now.len() as u64) as usize;
            now.rotate_left(at);
            unasked = now.split_off(1);
        }
        self.recall(life, now, Stage { pages, unasked, held: Vec::new(), link, is_put, waits: true })?;
        if self.dice.chance(500) && self.forget_stages_of(life, link) {
            self.count("commands given up");
            return self.tell(life, Input::LinkGone { link });
        }
        Ok(())
    }

    fn forget_stages_of(&mut self, life: Life, link: u64) -> bool {
        let Some(process) = self.processes.get_mut(&life) else { return false };
        let before = process.stages.len();
        process.stages.retain(|_, stage| stage.link != link || !stage.waits);
        process.stages.len() < before
    }

    fn recall(&mut self, life: Life, pages: Vec<Page>, stage: Stage) -> Check {
        let access = if stage.is_put { Access::Write } else { Access::Read };
        let numbers = pages.iter().map(|page| page.0).collect();
        let need = Need { gid: Gid(life), slot: Slot(0), access, pages: numbers };
        let now = std::time::Duration::from_millis(self.now_ms);
        let process = self.processes.get_mut(&life).expect("the caller saw it");
        match process.home.recall(now, stage.link, need) {
            Ok(Recall::Ready(face)) => {
                process.stages.insert(face, stage);
                self.on_ready(life, face)?;
            }
            Ok(Recall::Waits(face)) => drop(process.stages.insert(face, stage)),
            Err(error) => self.on_refused(life, &stage, &error)?,
        }
        self.go_on(life)
    }

    /// The pages that a stage waits for are at home, or will not come.
    pub(super) fn on_recalled(&mut self, life: Life, face: Face, outcome: Outcome<()>) -> Check {
        let process = self.processes.get_mut(&life).expect("it speaks");
        let Some(stage) = process.stages.get(&face).cloned() else { return Ok(()) };
        match outcome {
            Ok(()) => self.on_ready(life, face),
            Err(error) => {
                process.stages.remove(&face);
                self.on_refused(life, &stage, &error)?;
                self.tell(life, PageInput::Release(face))
            }
        }
    }

    fn on_refused(&mut self, life: Life, stage: &Stage, error: &Error) -> Check {
        match error {
            Error::PageLost { offset, .. } => {
                self.count("commands refused");
                self.judge_refusal(Gid(life), Page(offset / hanare_protocol::limits::PAGE_LEN))
            }
            Error::Timeout { .. } if self.processes[&life].is_impatient => {
                self.count("commands that waited for too long");
                Ok(())
            }
            error => Err(format!("a command at {life} is refused: {error}: {stage:?}")),
        }
    }

    /// All pages of a stage are at home.
    fn on_ready(&mut self, life: Life, face: Face) -> Check {
        let process = self.processes.get_mut(&life).expect("it speaks");
        let stage = process.stages.get_mut(&face).expect("the caller saw it");
        stage.waits = false;
        if !stage.unasked.is_empty() {
            let after = self.dice.pick(&[0, 1, 20]);
            self.at(after, Event::Release { life, face });
            return Ok(());
        }
        let Stage { pages, is_put, .. } = stage.clone();
        let (bytes, gid) = (process.bytes.clone(), Gid(life));
        for (page, since) in pages {
            let read = value_of(&bytes.read_page(page.0).map_err(|error| error.to_string())?);
            let last = self.truths[&(gid, page)].last;
            check(read >= since, || format!("a get finds {read} where {since} was there before it began"))?;
            if is_put {
                check(read == last, || format!("a put finds {read} where {last} was stored last"))?;
                let value = self.next_value();
                bytes.write_page(page.0, &page_of(value)).map_err(|error| error.to_string())?;
                self.truths.get_mut(&(gid, page)).expect("just seen").last = value;
            }
        }
        self.count(if is_put { "puts" } else { "gets" });
        let after = if is_put { self.dice.pick(&[0, 1, 20, 300]) } else { 0 };
        self.at(after, Event::Release { life, face });
        Ok(())
    }

    /// A command is done: its pages serve others.
    pub(super) fn on_release(&mut self, life: Life, face: Face) -> Check {
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        let Some(mut stage) = process.stages.remove(&face) else { return Ok(()) };
        if let Some(next) = stage.unasked.pop() {
            stage.waits = true;
            stage.held.push(face);
            return self.recall(life, vec![next], stage);
        }
        stage.held.into_iter().chain([face]).try_for_each(|face| self.tell(life, PageInput::Release(face)))
    }

    /// Programs of a home's node begin to use its region past its pages, where nobody maps it.
    pub(super) fn use_past_pages(&mut self, life: Life) {
        let after = self.dice.pick(&[5, 200, 3_000, 30_000]);
        self.processes[&life].memory.set_in_use(Gid(life), true);
        self.count("regions used past their pages");
        self.at(after, Event::PastPages { life });
    }

    pub(super) fn on_past_pages(&mut self, life: Life) -> Check {
        if let Some(process) = self.processes.get(&life) {
            process.memory.set_in_use(Gid(life), false);
        }
        Ok(())
    }
}
