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
        let before = self.processes.remove(&life).and_then(|process| process.returning).map(|(was, _)| was);
        self.dead.insert(life);
        self.truths.retain(|(home, _), _| *home != life && Some(*home) != before);
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
        let may_return = self.still.contains_key(&lost) || self.truths.contains_key(&(lost, Page(0)));
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        process.lost.insert(lost);
        if let Some(courier) = process.couriers.remove(&lost).filter(|_| may_return) {
            let unsent = courier.unconfirmed().map(|(_, parcel)| parcel).filter(returns::is_page).cloned();
            process.kept.entry(lost).or_default().extend(unsent);
        }
        let mut homes: Vec<Life> = process.mapped.keys().copied().collect();
        if process.mapped.contains_key(&lost) {
            self.refuse_all(life, lost)?;
            if !may_return {
                let process = self.processes.get_mut(&life).expect("it lives");
                process.mapped.remove(&lost);
                process.threads.iter_mut().for_each(|thread| drop(thread.take_if(|waiting| waiting.home == lost)));
            }
            homes.retain(|home| *home != lost);
        }
        for home in homes {
            self.with_host(life, home, |rules, place, outputs| {
                rules.on_host_gone(place, 0, outputs);
                Ok(())
            })?;
        }
        if self.has(Defect::KeepDead) {
            return Ok(());
        }
        let process = self.processes.get_mut(&life).expect("it lives");
        if let Some((_, rules)) = &mut process.returning {
            rules.on_host_lost(HostId(lost));
            return self.end_return(life);
        }
        process.directory.on_host_lost(HostId(lost));
        (0..PAGE_COUNT).try_for_each(|page| self.drain_home(life, Page(page)))
    }
}
