//! Lives that end, and who hears of it when; nodes that do not reach each other.

use super::*;

impl PageWorld {
    /// A node dies, or the weather changes.
    pub(super) fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(200, 3_000);
        self.at(after, Event::Fault);
        if self.dice.chance(5_000) {
            self.throw_weather();
            return Ok(());
        }
        if self.dice.chance(4_000) {
            return self.trouble_a_way();
        }
        let node = self.course.dice.below(self.nodes.len() as u64) as usize;
        let Some(life) = self.nodes[node].filter(|life| !self.still.contains_key(life)) else { return Ok(()) };
        let process = &self.processes[&life];
        let is_whole =
            process.returning.is_none() && (0..PAGE_COUNT).all(|page| process.directory.phase(Page(page)) != Phase::Lost);
        if is_whole && self.dice.chance(5_000) {
            self.stand_still(node, life);
            return Ok(());
        }
        self.nodes[node] = None;
        self.note(format!("life {life} of node {node} dies"));
        self.count("deaths");
        let extent = self.processes.remove(&life).map(|process| process.extent);
        self.dead.insert(life);
        self.truths.retain(|(home, _), _| Some(*home) != extent);
        let after = self.dice.pick(&[1, 100, 1_000, 5_000]);
        self.at(after, Event::Restart { node });
        if node == COORDINATOR && after < SILENCE_MS {
            self.start_next_life_unseen(life, after);
            return Ok(());
        }
        self.end_connections_to(life, false, (0, 500));
        for other in self.others(life) {
            // A host that dials it finds out before the slowest news.
            let after = self.dice.between(0, 2 * SILENCE_MS);
            self.at(after, Event::Lost { life: other, lost: life });
        }
        Ok(())
    }

    /// A live node cannot reach another for a while, or a home does without a host that lives.
    fn trouble_a_way(&mut self) -> Check {
        let going: Vec<Life> = self.nodes.iter().flatten().copied().filter(|life| !self.still.contains_key(life)).collect();
        if going.len() < 2 {
            return Ok(());
        }
        let (from, to) = (self.dice.pick(&going), self.dice.pick(&going));
        if from == to {
            return Ok(());
        }
        // Acts of a fenced host that lives are seldom seen.
        let dismissals = if self.has(Defect::TakeLeaveForAnswer) { 9_000 } else { 2_000 };
        if self.dice.chance(dismissals) {
            return self.dismiss(from, to);
        }
        self.cut(from, to);
        Ok(())
    }

    pub(super) fn on_lost(&mut self, life: Life, lost: Life) -> Check {
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        process.lost.insert(lost);
        process.forget_channel(lost);
        process.leaves.retain(|(at, ..)| *at != lost);
        let homes = process.shares.iter().filter(|(_, share)| share.at == lost).map(|(home, _)| *home);
        let homes: Vec<Extent> = homes.collect();
        homes.into_iter().try_for_each(|home| self.on_home_lost(life, home, lost))?;
        self.lose_sharers(life, lost)
    }
}
