//! The naive model, what must hold of a page at every moment, and at the end.

use super::node::Process;
use super::*;
use hanare_protocol::page::HostMemory;
use hanare_protocol::page::word::State;

impl PageWorld {
    /// True if a host does not know yet that others do without it: it stands still, or its home could not reach it.
    pub(super) fn is_told_later(&self, life: Life, gid: Gid) -> bool {
        self.still.contains_key(&life) || self.is_fenced(life, gid)
    }

    /// True if a home did without the membership by which a host maps its region.
    pub(super) fn is_fenced(&self, life: Life, gid: Gid) -> bool {
        let mapped = self.processes.get(&life).and_then(|process| process.mapped.get(&gid));
        mapped.is_some_and(|mapped| self.done_without.contains(&mapped.share))
    }

    /// Pages that a host may have been granted to write may be refused.
    pub(super) fn excuse(&mut self, life: Life, gid: Gid) {
        for ((of, _), truth) in &mut self.truths {
            truth.is_forgotten |= *of == gid && truth.writers.iter().any(|(writer, _)| *writer == life);
        }
    }

    /// A page of a region, and seldom one that was refused.
    pub(super) fn pick_page(&mut self, gid: Gid) -> Page {
        let is_good = |page: &Page| self.truths.get(&(gid, *page)).is_none_or(|truth| !truth.is_lost);
        let good: Vec<Page> = (0..PAGE_COUNT).map(Page).filter(is_good).collect();
        match good.is_empty() || self.dice.chance(500) {
            true => Page(self.dice.below(PAGE_COUNT)),
            false => self.dice.pick(&good),
        }
    }

    /// Checks a page at every moment.
    pub(super) fn judge(&mut self, gid: Gid, page: Page) -> Check {
        let Some(truth) = self.truths.get(&(gid, page)) else { return Ok(()) };
        let (mut readers, mut is_written) = (Vec::new(), false);
        for (life, process) in &self.processes {
            let Some(mapped) = process.mapped.get(&gid).filter(|_| !self.is_told_later(*life, gid)) else { continue };
            let state = mapped.state(page);
            // Bytes that are being put into a frame may be seen at once.
            if !matches!(state, State::Absent | State::Fetching | State::FetchingWrite) {
                readers.push(*life);
                let read = mapped.value(page);
                let last = truth.last;
                check(read == Some(last), || {
                    format!("life {life} may load {read:?} of page {} of {}, and {last} was stored last", page.0, gid.0)
                })?;
            }
            is_written |= matches!(state, State::Owned | State::TakingOwned);
        }
        check(!is_written || readers.len() == 1, || format!("page {} of {} is written while {readers:?} have it", page.0, gid.0))
    }

    /// A page of a home that lives is refused: then one that asked to write it is dead, or forgot what it had.
    pub(super) fn judge_refusal(&mut self, gid: Gid, page: Page) -> Check {
        let Some(truth) = self.truths.get_mut(&(gid, page)) else { return Ok(()) };
        truth.is_lost = true;
        let is_due = truth.is_forgotten || truth.writers.iter().any(|writer| self.dead.contains(writer));
        check(is_due, || format!("page {} of {} is refused, and all who asked to write live: {truth:?}", page.0, gid.0))
    }

    /// At the end nobody waits, and nothing is under way.
    pub(super) fn is_at_rest(&mut self) -> Check {
        let all: Vec<(Gid, Page)> = self.truths.keys().copied().collect();
        all.into_iter().try_for_each(|(gid, page)| self.judge(gid, page))?;
        for (life, process) in &self.processes {
            let Process { home, stages, words, programs, mapped, .. } = process;
            let waiting = stages.values().find(|stage| stage.waits());
            check(waiting.is_none(), || format!("a command waits at {life}: {waiting:?}"))?;
            check(words.is_empty(), || format!("a word is waited for at {life}: {words:?}"))?;
            for (client, program) in programs {
                let Phase::Inside(inside) = &program.phase else {
                    return Err(format!("program {client} of {life} waits to map {}, or to unmap it", program.gid.0));
                };
                let waiting: Vec<_> = inside.threads.iter().flat_map(|thread| thread.doing.claims()).collect();
                let words = || waiting.iter().map(|claim| inside.frames.look(claim.page)).collect::<Vec<_>>();
                let is_idle = waiting.is_empty();
                check(is_idle, || {
                    format!("a thread of program {client} of {life} waits for {waiting:?} of {}: {:?}", program.gid.0, words())
                })?;
            }
            for (gid, mapped) in mapped {
                let claimed = (0..PAGE_COUNT).find(|page| mapped.frames.look(Page(*page)).is_claimed());
                check(claimed.is_none(), || format!("life {life} waits for page {claimed:?} of {}", gid.0))?;
                let is_void = self.done_without.contains(&mapped.share) && self.home_of(*gid).is_some();
                let kept = (0..PAGE_COUNT).find(|page| is_void && mapped.state(Page(*page)) != State::Absent);
                check(kept.is_none(), || {
                    format!("life {life} goes on with page {kept:?} of {}, whose home does without it", gid.0)
                })?;
            }
            check(!home.pages().is_busy(), || format!("life {life} takes pages for ever"))?;
            check(home.deadline().is_none(), || format!("life {life} waits for something"))?;
        }
        Ok(())
    }
}
