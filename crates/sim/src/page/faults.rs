//! Lives that end, and who hears of it when.

use super::*;

impl PageWorld {
    /// A node dies, or the weather changes.
    pub(super) fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(200, 6_000);
        self.at(after, Event::Fault);
        if self.dice.chance(5_000) {
            self.throw_weather();
            return Ok(());
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
        for other in self.others(life) {
            let after = self.dice.between(0, SILENCE_MS);
            self.at(after, Event::Lost { life: other, lost: life });
        }
        Ok(())
    }

    pub(super) fn on_lost(&mut self, life: Life, lost: Life) -> Check {
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        process.lost.insert(lost);
        let unheard: Vec<Parcel> =
            process.couriers.remove(&lost).iter().flat_map(Courier::unconfirmed).map(|(_, it)| it.clone()).collect();
        process.keep_unsent(unheard);
        process.leaves.retain(|(at, ..)| *at != lost);
        let homes = process.shares.iter().filter(|(_, share)| share.at == lost).map(|(home, _)| *home);
        let homes: Vec<Extent> = homes.collect();
        homes.into_iter().try_for_each(|home| self.on_home_lost(life, home, lost))?;
        self.lose_guests(life, lost)
    }
}
