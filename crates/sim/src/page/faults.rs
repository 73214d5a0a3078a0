//! Lives that end, and who hears of it when.

use super::*;

impl World {
    /// A node dies, or the weather changes.
    pub(super) fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(200, 6_000);
        self.at(after, Event::Fault);
        if self.dice.chance(5_000) {
            self.weather = Weather::throw(&mut self.dice);
            return Ok(());
        }
        let node = self.dice.below(self.nodes.len() as u64) as usize;
        let Some(life) = self.nodes[node].take() else { return Ok(()) };
        self.note(format!("life {life} of node {node} dies"));
        self.count("deaths");
        self.processes.remove(&life);
        self.dead.insert(life);
        self.truths.retain(|(home, _), _| *home != life);
        let living: Vec<Life> = self.processes.keys().copied().collect();
        for other in living {
            let after = self.dice.between(0, 3_500);
            self.at(after, Event::Lost { life: other, lost: life });
        }
        let after = self.dice.pick(&[1, 100, 1_000, 5_000]);
        self.at(after, Event::Restart { node });
        Ok(())
    }

    pub(super) fn on_lost(&mut self, life: Life, lost: Life) -> Check {
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        process.lost.insert(lost);
        process.couriers.remove(&lost);
        let mut homes: Vec<Life> = process.copies.keys().copied().collect();
        if let Some((copies, _)) = process.copies.get_mut(&lost) {
            copies.on_home_lost();
            self.drain_host(life, lost)?;
            self.processes.get_mut(&life).expect("it lives").copies.remove(&lost);
            homes.retain(|home| *home != lost);
        }
        for home in homes {
            let process = self.processes.get_mut(&life).expect("it lives");
            process.copies.get_mut(&home).expect("just listed").0.on_host_lost();
            self.drain_host(life, home)?;
        }
        if self.sabotage == Sabotage::KeepDead {
            return Ok(());
        }
        self.processes.get_mut(&life).expect("it lives").directory.on_host_lost(HostId(lost));
        (0..PAGE_COUNT).try_for_each(|page| self.drain_home(life, Page(page)))
    }
}
