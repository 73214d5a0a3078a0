//! Lives that end, and who hears of it when.

use super::*;
use hanare_protocol::id::NodeId;
use hanare_protocol::page::share::Over;

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
        if process.mapped.contains_key(&lost) {
            self.refuse_all(life, lost)?;
        }
        self.on_home_lost(life, lost, may_return)?;
        if self.has(Defect::KeepDead) {
            return Ok(());
        }
        let process = self.processes.get_mut(&life).expect("it lives");
        let over = process.guests.over(NodeId(lost.into()), Over::All);
        if let Some((_, rules)) = &mut process.returning {
            for host in over {
                rules.on_host_lost(host);
                process.guests.answer(host);
            }
            return self.end_return(life);
        }
        over.into_iter().try_for_each(|host| self.lose_guest(life, host))
    }
}
