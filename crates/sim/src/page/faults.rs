//! Lives that end, and who hears of it when; nodes that stand still, and nodes that do not reach each other.

use super::*;
use crate::network::Weather;
use hanare_home::PageInput;
use hanare_protocol::id::{Epoch, NodeId};
use hanare_protocol::page::membership::Over;

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
        if self.has(Defect::DismissSilently) || self.dice.chance(4_000) {
            return self.trouble_a_way();
        }
        let node = self.course.dice.below(self.nodes.len() as u64) as usize;
        let Some(life) = self.nodes[node].filter(|life| !self.still.contains_key(life)) else { return Ok(()) };
        let lost = self.truths.iter().filter(|((gid, _), truth)| *gid == Gid(life) && truth.is_lost).count();
        match self.dice.below(10) {
            // A region that lost most of its pages is of no more use.
            _ if lost > 3 => self.die(life),
            0..3 => self.begin_storm(Gid(life)),
            3..6 => self.stand_still(life),
            _ => self.die(life),
        }
        Ok(())
    }

    /// Programs of all hosts take the pages of a region from each other.
    fn begin_storm(&mut self, gid: Gid) {
        self.weather = Weather::FAIR;
        let lasts_ms = self.dice.pick(&[100, 1_000]);
        self.storm = Some((gid, self.now_ms + lasts_ms));
        self.count("storms");
    }

    fn die(&mut self, life: Life) {
        let process = self.processes.remove(&life).expect("its node has it");
        let (node, epoch) = (process.node, process.epoch);
        self.nodes[node] = None;
        self.note(format!("life {life} of node {node} dies"));
        self.count("deaths");
        self.dead.insert((life, epoch));
        self.truths.retain(|(gid, _), _| *gid != Gid(life));
        self.end_links_of(life);
        let after = self.dice.pick(&[1, 100, 1_000, 5_000]);
        self.at(after, Event::Restart { node });
        if node == COORDINATOR && after < SILENCE_MS {
            self.count("next lives that nobody was told of");
            self.unseen.insert(life, epoch);
            return self.end_wires_of(life, true, (after + 1, after + 500));
        }
        self.end_wires_of(life, false, (0, 500));
        for other in self.others(life) {
            // A host that dials it finds out before the slowest news.
            let after = self.dice.between(0, 2 * SILENCE_MS);
            self.at(after, Event::Lost { life: other, node, epoch });
        }
    }

    /// A node stands still: to the others this life is over. It goes on later, as a home that has its bytes.
    fn stand_still(&mut self, life: Life) {
        let (node, epoch) = (self.processes[&life].node, self.processes[&life].epoch);
        self.note(format!("life {life} of node {node} stands still"));
        self.count("nodes that stood still");
        let until_ms = self.now_ms + self.dice.between(3_600, 9_000);
        self.still.insert(life, until_ms);
        self.dead.insert((life, epoch));
        for other in self.others(life) {
            // Some hear of it when it is back.
            let after = self.dice.between(0, 5_000);
            self.at(after, Event::Lost { life: other, node, epoch });
        }
        self.unreached.retain(|(from, _), _| *from != life);
        // For a moment it goes on as if nothing had been.
        let after = until_ms - self.now_ms + self.dice.pick(&[0, 1, 20]);
        self.at(after, Event::Return { life });
    }

    /// A node is taken in again, in another epoch: as a host it drops its pages of others, as a home it asks for its own.
    pub(super) fn on_return(&mut self, life: Life) -> Check {
        self.still.remove(&life);
        self.unreached.retain(|(from, _), _| *from != life);
        let forgets = self.has(Defect::ForgetOwners);
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        let node = process.node;
        self.epochs[node] += 1;
        process.epoch = self.epochs[node];
        // Homes know it no more by these, or will not soon.
        let void: Vec<u64> = process.mapped.iter().filter(|(gid, _)| gid.0 != life).map(|(_, mapped)| mapped.share).collect();
        self.done_without.extend(void);
        self.note(format!("life {life} of node {node} is back"));
        self.count("homes that came back");
        if forgets {
            self.forget_owners(life);
        }
        if !self.has(Defect::KeepShares) {
            self.identify(life)?;
        }
        self.set_going(life);
        Ok(())
    }

    /// True if an event has to wait until a life goes on; its programs and commands then begin again.
    pub(super) fn is_deferred(&mut self, event: &Event) -> bool {
        let life = match event {
            Event::Program { life } | Event::Command { life } if self.still.contains_key(life) => return true,
            Event::Frame { place, .. } | Event::WireEnded { place } => self.wires.at(*place),
            Event::Tried { from: life, .. } | Event::Tick { life } | Event::TakeOver { life, .. } => Some(*life),
            Event::Filled { life, .. } | Event::Release { life, .. } | Event::Lost { life, .. } => Some(*life),
            Event::Asked { link, .. } | Event::Settled { link, .. } => self.home_at(*link),
            Event::LinkEnded { link, at_home: true } => self.home_at(*link),
            Event::LinkEnded { link, at_home: false } | Event::Granted { link, .. } => self.thread_at(*link),
            _ => None,
        };
        match life.and_then(|life| self.still.get(&life)).copied() {
            Some(until_ms) if self.now_ms < until_ms => {
                self.course.at(until_ms - self.course.now_ms, event.clone());
                true
            }
            _ => false,
        }
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
        let is_wanted = self.has(Defect::DismissSilently);
        if is_wanted && self.apart.is_some_and(|(_, until_ms)| self.now_ms < until_ms) {
            return Ok(());
        }
        if is_wanted || self.dice.chance(5_000) {
            // A node gives up all that another is to it. So the home maps nothing, and has nothing to say as a host.
            self.unmap_all(from)?;
            self.apart = Some((from, self.now_ms + 3_000));
            let after = self.dice.between(500, 3_000);
            self.at(after, Event::Dismiss { home: from, of: to });
            return Ok(());
        }
        self.cut(from, to);
        Ok(())
    }

    /// All programs of a life unmap their regions.
    fn unmap_all(&mut self, life: Life) -> Check {
        let programs: Vec<u64> = self.processes[&life].programs.keys().copied().collect();
        programs.into_iter().try_for_each(|client| self.unmap(life, client))
    }

    /// A home could not reach a node that lives, and maps nothing: it does without its host.
    pub(super) fn dismiss(&mut self, home: Life, of: Life) -> Check {
        let gid = Gid(home);
        let goes = |life: &Life| self.processes.contains_key(life) && !self.still.contains_key(life);
        if !self.is_rough || !goes(&home) || !goes(&of) {
            return Ok(());
        }
        let maps = !self.processes[&home].programs.is_empty() || self.shares.keys().any(|(_, host)| *host == home);
        let shares = self.shares.get(&(gid, of)).cloned().unwrap_or_default();
        if maps || shares.is_empty() {
            return Ok(());
        }
        self.note(format!("{home} does not reach life {of}, which it knows by {shares:?}"));
        self.count("hosts that their home did without");
        self.done_without.extend(shares);
        // Pages that it was granted to write are lost, although it lives.
        self.excuse(of, gid);
        let node = self.processes[&of].node;
        self.shares.remove(&(gid, of));
        self.give_up(home, node)
    }

    /// A life gives up a node that it cannot reach.
    pub(super) fn give_up(&mut self, life: Life, node: usize) -> Check {
        self.unreached.remove(&(life, node));
        self.tell(life, PageInput::NodeLost { node: NodeId(node as u32), over: Over::All })
    }

    pub(super) fn on_lost(&mut self, life: Life, node: usize, epoch: u64) -> Check {
        if self.has(Defect::KeepDead) {
            return Ok(());
        }
        self.unreached.remove(&(life, node));
        self.tell(life, PageInput::NodeLost { node: NodeId(node as u32), over: Over::UpTo(Epoch(epoch)) })
    }

    /// Tells all that a life of the coordinator is over, because a host that dialed again was answered by another.
    pub(super) fn tell_of_another(&mut self, node: usize, before: Life) {
        let Some(epoch) = self.unseen.remove(&before) else { return };
        let all: Vec<Life> = self.processes.keys().copied().collect();
        for life in all {
            let after = self.dice.between(0, 500);
            self.at(after, Event::Lost { life, node, epoch });
        }
    }
}
