//! Invariants of a page at every moment, and at the end.

use super::*;

impl PageWorld {
    /// Checks a page at every moment.
    pub(super) fn judge(&mut self, home: Extent, page: Page) -> Check {
        let Some(truth) = self.truths.get(&(home, page)) else { return Ok(()) };
        let state = |process: &Process| {
            process.mapped.get(&home).map_or(State::Absent, |mapped| mapped.place.look(page).state().expect("nobody scribbles"))
        };
        // Bytes that are being put into a frame may be seen at once.
        let may_load = |process: &Process| !matches!(state(process), State::Absent | State::Fetching | State::FetchingWrite);
        // A stopped life is told when it goes on. So is one that does not know yet that the home does without it.
        let is_told_later = |life: &Life| self.still.contains_key(life) || self.is_fenced(*life, home);
        let going = || self.processes.iter().filter(|(life, _)| !is_told_later(life));
        let readers: Vec<Life> = going().filter(|(_, process)| may_load(process)).map(|(life, _)| *life).collect();
        let is_written = going().any(|(_, process)| matches!(state(process), State::Owned | State::TakingOwned));
        check(!is_written || readers.len() == 1, || format!("page {} of {home} is written while {readers:?} have it", page.0))?;
        for life in readers {
            let read = self.frame(life, home, page);
            check(read == Some(truth.last), || format!("life {life} may load {read:?}, and {} was stored last", truth.last))?;
        }
        let at_home = self.life_of(home).map(|at| &self.processes[&at]);
        if at_home.is_some_and(|process| process.directory.phase(page) == Phase::Lost) {
            return self.judge_refusal(home, page);
        }
        Ok(())
    }

    /// A page of a home that lives is refused: then one that was granted writing is dead, or forgot what it had.
    pub(super) fn judge_refusal(&self, home: Extent, page: Page) -> Check {
        let Some(truth) = self.truths.get(&(home, page)) else { return Ok(()) };
        let is_due = truth.is_forgotten || truth.writers.iter().any(|writer| self.dead.contains(writer));
        check(is_due, || format!("page {} of {home} is refused, and all who were granted writing live: {truth:?}", page.0))
    }

    /// At the end nobody waits, and nothing is under way.
    pub(super) fn is_at_rest(&self) -> Check {
        for (life, process) in &self.processes {
            check(process.directory.busy_count() == 0, || format!("something is under way at {life}: {:?}", process.directory))?;
            check(process.returning.is_none(), || format!("{life} still waits for hosts: {:?}", process.returning))?;
            check(process.recalls.is_empty(), || format!("commands wait at {life}: {:?}", process.recalls))?;
            let waits: Vec<&Waiting> = process.threads.iter().flatten().collect();
            check(waits.is_empty(), || format!("programs of {life} wait for {waits:?}"))?;
            for (home, mapped) in &process.mapped {
                let is_claimed = |page: &u64| mapped.place.look(Page(*page)).is_claimed();
                let is_held = mapped.rules.is_taking() || (0..PAGE_COUNT).any(|page| is_claimed(&page));
                check(!is_held, || format!("{life} waits for pages of {home}: {mapped:?}"))?;
            }
            check(process.dismissed.is_empty(), || format!("{life} tells hosts for ever: {:?}", process.dismissed))?;
            let unconfirmed: usize = process.channels.keys().map(|to| process.unconfirmed_count(*to)).sum();
            check(unconfirmed == 0, || format!("{unconfirmed} messages of {life} were never confirmed"))?;
        }
        self.shares_are_at_rest()
    }
}
