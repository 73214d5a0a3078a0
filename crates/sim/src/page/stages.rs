//! Stages of commands: each asks for all its pages at one moment, waits for a while, and is done when all are at home. The machine is
//! that which nodes run: [`Recalls`].

use super::*;
use hanare_protocol::page::Refusal;
use hanare_protocol::page::recalls::{HomeStanding, StagePages};

/// Time that a stage waits for hosts. All acts of hosts last shorter, so only stages that came late in one are not done in time.
pub(super) const STAGE_PATIENCE_MS: u64 = 30_000;
/// Time that those wait.
const SHORT_PATIENCE_MS: u64 = 300;

/// Why a stage is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undone {
    Refused,
    Late,
}

/// A command's stage that waits for pages.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Each page, and what was stored there last when the command came.
    pages: BTreeMap<Page, u64>,
    /// Pages that came since the directory was asked.
    came: BTreeSet<Page>,
    /// Pages that it asks for later, which no correct home does.
    unasked: Vec<Page>,
    is_put: bool,
    is_impatient: bool,
}

impl Process {
    fn standing(&self) -> HomeStanding {
        if self.returning.is_some() { HomeStanding::Away } else { HomeStanding::Here }
    }

    fn let_go(&mut self, freed: Option<StagePages<()>>) {
        let Some(StagePages { face, pages, .. }) = freed.filter(|_| self.returning.is_none()) else { return };
        pages.into_iter().for_each(|page| self.directory.release(page, face));
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
        let (first, is_put, is_impatient) = (Page(self.dice.below(PAGE_COUNT)), self.dice.chance(4_000), self.dice.chance(1_000));
        let wanted: Vec<Page> = (0..PAGE_COUNT).map(Page).filter(|page| *page == first || self.dice.chance(2_500)).collect();
        let home = self.processes[&life].extent;
        let pages = wanted.iter().map(|page| (*page, self.truths[&(home, *page)].last)).collect();
        let access = if is_put { Access::Write } else { Access::Read };
        let since_ms = (self.now_ms + SHORT_PATIENCE_MS).saturating_sub(STAGE_PATIENCE_MS);
        let since_ms = if is_impatient { since_ms } else { self.now_ms };
        let process = self.processes.get_mut(&life).expect("just seen");
        let face = process.recalls.begin((), ((), access, wanted), since_ms);
        process.stages.insert(face, Stage { pages, came: BTreeSet::new(), unasked: Vec::new(), is_put, is_impatient });
        self.ask_for_pages(life, face)?;
        if self.dice.chance(500) && self.end_stage(life, face).is_some() {
            self.count("commands given up");
        }
        self.drain_home(life, first)
    }

    /// Asks the directory for a stage's pages, if the home answers.
    fn ask_for_pages(&mut self, life: Life, face: Face) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let standing = process.standing();
        let Some(StagePages { mut pages, access, .. }) = process.recalls.ask(face, |()| standing) else { return Ok(()) };
        let first = pages[0];
        if self.has(Defect::AskInTurns) {
            // The first that is asked for is any of them.
            let at = self.dice.below(pages.len() as u64) as usize;
            pages.rotate_left(at);
        }
        let later = if self.has(Defect::AskInTurns) { pages.split_off(1) } else { Vec::new() };
        let process = self.processes.get_mut(&life).expect("it lives");
        if let Some(stage) = process.stages.get_mut(&face) {
            (stage.came, stage.unasked) = (BTreeSet::new(), later);
        }
        pages.into_iter().for_each(|page| process.directory.recall(page, face, access));
        self.drain_home(life, first)
    }

    /// A page of a stage is at home; or may be looked at there.
    pub(super) fn on_ready(&mut self, life: Life, page: Page, face: Face) -> Check {
        if !self.processes[&life].stages.contains_key(&face) {
            // The program gave up, and has let go of this one.
            return Ok(());
        }
        self.check_newest(life, page)?;
        let process = self.processes.get_mut(&life).expect("it lives");
        let stage = process.stages.get_mut(&face).expect("just seen");
        check(stage.came.insert(page), || format!("page {} comes twice", page.0))?;
        if let Some(next) = stage.unasked.pop() {
            let access = if stage.is_put { Access::Write } else { Access::Read };
            process.directory.recall(next, face, access);
        }
        let freed = process.recalls.on_page(face, page, Ok(()));
        process.let_go(freed);
        self.tell_stages(life)
    }

    /// The directory refuses a page of a stage.
    pub(super) fn on_failed(&mut self, life: Life, page: Page, face: Face, _: Refusal) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let (home, freed) = (process.extent, process.recalls.on_page(face, page, Err(Undone::Refused)));
        process.let_go(freed);
        self.judge_refusal(home, page)?;
        self.tell_stages(life)
    }

    /// Time passes: stages of a home that is back are asked for, and those that have waited for too long are not waited for.
    pub(super) fn tick_stages(&mut self, life: Life) -> Check {
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&life).expect("it lives");
        let standing = process.standing();
        let unasked = process.recalls.unasked(|()| standing);
        unasked.into_iter().try_for_each(|face| self.ask_for_pages(life, face))?;
        let process = self.processes.get_mut(&life).expect("it lives");
        for face in process.recalls.late(now_ms) {
            let freed = process.recalls.give_up(face, |(), _| Err(Undone::Late));
            process.let_go(freed);
        }
        self.tell_stages(life)?;
        self.drain_home(life, Page(0))
    }

    fn tell_stages(&mut self, life: Life) -> Check {
        let told = self.processes.get_mut(&life).expect("it lives").recalls.tell_all(None);
        told.into_iter().try_for_each(|((), face, outcome)| self.finish(life, face, outcome))
    }

    /// A stage is done, or will not be.
    fn finish(&mut self, life: Life, face: Face, outcome: Result<(), Undone>) -> Check {
        if let Err(undone) = outcome {
            self.count(if undone == Undone::Late { "commands that waited for too long" } else { "commands refused" });
            let stage = self.end_stage(life, face);
            let may_be_late = undone == Undone::Refused || stage.as_ref().is_none_or(|stage| stage.is_impatient);
            return check(may_be_late, || format!("a stage waits for ever: {stage:?}"));
        }
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(stage) = process.stages.remove(&face) else { return Err("a stage is told that nobody waits for".to_owned()) };
        check(stage.came.len() == stage.pages.len(), || format!("a stage has {:?} of {:?}", stage.came, stage.pages))?;
        if !stage.is_put {
            for (page, since) in stage.pages {
                let read = self.processes[&life].memory[page.0 as usize];
                check(read >= since, || format!("a get finds {read} where {since} was there before it began"))?;
            }
            self.end_stage(life, face);
            self.count("gets");
            return Ok(());
        }
        let (after, home) = (self.dice.pick(&[0, 1, 20, 300]), self.processes[&life].extent);
        for page in stage.pages.into_keys() {
            self.check_newest(life, page)?;
            self.store(life, home, page);
        }
        self.at(after, Event::Release { home, face });
        self.count("puts");
        Ok(())
    }

    fn check_newest(&self, life: Life, page: Page) -> Check {
        let process = &self.processes[&life];
        let (read, last) = (process.memory[page.0 as usize], self.truths[&(process.extent, page)].last);
        check(read == last, || format!("a command finds {read} where {last} was stored last"))
    }

    /// A put is done: its pages serve others.
    pub(super) fn on_release(&mut self, home: Extent, face: Face) -> Check {
        let Some(life) = self.life_of(home) else { return Ok(()) };
        self.end_stage(life, face);
        (0..PAGE_COUNT).try_for_each(|page| self.drain_home(life, Page(page)))
    }

    /// A stage lets go of its pages. Returns it, if it was under way.
    fn end_stage(&mut self, life: Life, face: Face) -> Option<Stage> {
        let process = self.processes.get_mut(&life)?;
        let ended = process.recalls.end(face);
        process.let_go(ended);
        process.stages.remove(&face)
    }
}
