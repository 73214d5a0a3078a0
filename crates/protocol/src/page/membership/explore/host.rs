//! Steps of the host: its programs, its messages to homes, and its reaction to theirs.

use super::world::{Home, World};
use super::{Off, PATIENCE_MS, Program, ToHome, ToHost};
use crate::id::{Epoch, Incarnation, Rights};
use crate::page::membership::life::{Life, Over};
use crate::page::membership::sharing::{Action, ReturnOutcome, Sharing};
use crate::page::membership::table::{HomePhase, Phase};

impl World {
    /// A program's turn has come.
    pub(super) fn begin(&mut self, program: Program) {
        if self.sharing.is_none() {
            for at in 0..self.parts.len() {
                self.parts[at].key = self.draw();
            }
            let lives = self.homes.iter().map(|home| Life { epoch: Epoch(home.epoch), process: None });
            self.sharing = Some(Sharing::new(lives, PATIENCE_MS));
        }
        let Some(sharing) = &mut self.sharing else { return };
        let Some(program) = sharing.share_with(program) else { return };
        if sharing.lost().is_some() {
            self.waiting.remove(&program.0);
            return;
        }
        for (home, it) in self.homes.iter().enumerate() {
            sharing.meet(home, Epoch(it.epoch));
        }
        sharing.ask(program);
    }

    /// Does what the machine wants.
    pub(super) fn drain(&mut self, off: Off) {
        while let Some(action) = self.sharing.as_mut().and_then(Sharing::poll) {
            match action {
                Action::Ask => {
                    for (part, home) in self.parts.iter_mut().zip(&self.homes) {
                        part.to_home.push_back(ToHome::Join { key: part.key, epoch: home.epoch });
                    }
                }
                Action::Admit(program) => {
                    self.waiting.remove(&program.0);
                    self.inside.insert(program.0);
                    let sharing = self.sharing.as_ref().expect("it says so");
                    if (0..self.homes.len()).any(|home| sharing.share(home).is_none()) {
                        self.fail("a program is let in that a home does not know");
                    }
                }
                Action::Refuse(program, _) => drop(self.waiting.remove(&program.0)),
                Action::Again(program) => self.begin(program),
                Action::Tell { home, share } => self.parts[home].to_home.push_back(ToHome::Leave { share }),
                Action::Farewell { home, share, has_all } => self.say_farewell(home, share, has_all, off),
                Action::Rename(home) => {
                    self.parts[home].owned = None;
                    self.parts[home].key = self.draw();
                }
                Action::Unmapped(program, failed) => {
                    self.unmapping.remove(&program.0);
                    let is_kept = |home: &Home| home.is_dead || home.is_lost || home.is_silent || home.is_returning;
                    let kept = self.homes.iter().zip(&self.parts).all(|(home, part)| {
                        is_kept(home) || home.value == home.last || part.to_home.iter().any(is_page) || !part.unsent.is_empty()
                    });
                    if failed.is_none() && self.sharing.is_none() && !kept {
                        self.fail("stores are gone, and the program was told that they are kept");
                    }
                }
                Action::End => {
                    let rest: Vec<Action<Program, ()>> =
                        std::iter::from_fn(|| self.sharing.as_mut().and_then(Sharing::poll)).collect();
                    self.sharing = None;
                    for part in &mut self.parts {
                        part.owned = None;
                    }
                    for action in rest {
                        match action {
                            Action::Again(program) => self.begin(program),
                            Action::Unmapped(program, _) => drop(self.unmapping.remove(&program.0)),
                            _ => self.fail("something is to be done after the end"),
                        }
                    }
                }
            }
        }
        // A region that nobody maps is left.
        if let Some(sharing) = &mut self.sharing
            && self.inside.is_empty()
            && sharing.phase() == Phase::Rest
        {
            sharing.on_unused(0);
        }
    }

    pub(super) fn say_farewell(&mut self, home: usize, share: u64, has_all: bool, off: Off) {
        let part = &mut self.parts[home];
        let unsent = std::mem::take(&mut part.unsent);
        if has_all {
            part.to_home.extend(unsent);
        }
        let last = if has_all || off == Off::Forgetting { ToHome::Leave { share } } else { ToHome::Forgot { share } };
        part.to_home.push_back(last);
    }

    /// All that the host owns of a home goes there.
    pub(super) fn empty(&mut self, home: usize) {
        let Some(share) = self.sharing.as_ref().and_then(|sharing| sharing.share(home)) else { return };
        let part = &mut self.parts[home];
        let Some(value) = part.owned.take() else { return };
        let page = ToHome::WriteBack { share, value };
        let is_away = self.sharing.as_ref().is_some_and(|sharing| sharing.home(home) == HomePhase::Lost);
        if is_away { part.unsent.push(page) } else { part.to_home.push_back(page) }
    }

    pub(super) fn store(&mut self, home: usize) {
        self.left.stores -= 1;
        let Some(share) = self.sharing.as_ref().and_then(|sharing| sharing.share(home)) else { return };
        let it = &mut self.homes[home];
        let host = it.sharers.iter().find(|(_, sharer)| sharer.share == share).map(|(host, _)| host);
        let Some(host) = host.filter(|_| !it.is_silent && !it.is_returning && !it.is_lost) else { return };
        it.owner = Some((host, false));
        it.last += 1;
        self.parts[home].owned = Some(it.last);
        self.parts[home].to_home.push_back(ToHome::Done { share });
    }

    pub(super) fn turn(&mut self, is_late: bool) {
        let now_ms = if is_late { PATIENCE_MS + 1 } else { 0 };
        let Some(sharing) = &self.sharing else { return };
        let handing: Vec<usize> = sharing.handing().collect();
        let may_empty = sharing.may_empty();
        for home in handing {
            if !is_late {
                self.empty(home);
            }
            let Some(sharing) = &mut self.sharing else { return };
            let share = sharing.share(home);
            let key = self.parts[home].key;
            if sharing.on_pages_returned(home, !is_late, true, now_ms) != ReturnOutcome::Waits {
                self.parts[home].returned.extend(share.filter(|_| !is_late).map(|share| (key, share)));
            }
        }
        if may_empty {
            for home in 0..self.homes.len() {
                if !is_late {
                    self.empty(home);
                }
            }
            if let Some(sharing) = &mut self.sharing {
                sharing.on_emptied(!is_late, now_ms, || ());
            }
        }
    }

    /// The host hears that a home is lost.
    pub(super) fn hear_of_loss(&mut self, home: usize) {
        let part = &mut self.parts[home];
        let Some(epoch) = part.unheard.take() else { return };
        let over = Over::UpTo(Epoch(epoch));
        if self.sharing.as_ref().is_some_and(|sharing| !sharing.is_over(home, over)) {
            return;
        }
        // Messages under way may not have been heard: their pages are kept.
        let under_way = std::mem::take(&mut part.to_home);
        part.unsent.extend(under_way.into_iter().filter(is_page));
        if let Some(sharing) = &mut self.sharing {
            sharing.on_lost(home);
        }
    }

    pub(super) fn at_host(&mut self, home: usize, message: ToHost, off: Off) {
        match message {
            ToHost::Joined { key, answer } => {
                let sharing = self.sharing.as_mut().filter(|_| self.parts[home].key == key);
                let is_known = match (sharing, answer) {
                    (Some(sharing), Some((share, epoch))) => {
                        let life = Life { epoch: Epoch(epoch), process: Some(Incarnation(1)) };
                        sharing.on_accepted(home, life, (share, Rights::Write))
                    }
                    (Some(sharing), None) => {
                        sharing.on_refused(home, ());
                        true
                    }
                    (None, answer) => answer.is_none(),
                };
                if let Some((share, _)) = answer.filter(|_| !is_known && off != Off::Stray) {
                    self.parts[home].to_home.push_back(ToHome::Forgot { share });
                }
            }
            ToHost::Left { key } => {
                if let Some(sharing) = self.sharing.as_mut().filter(|_| self.parts[home].key == key) {
                    sharing.on_left(home);
                }
            }
            ToHost::Returned { key, share, takes } => {
                let Some(sharing) = self.sharing.as_mut().filter(|_| self.parts[home].key == key) else {
                    let is_returned = self.parts[home].returned.contains(&(key, share));
                    return self.say_farewell(home, share, is_returned, off);
                };
                if !takes {
                    self.parts[home].owned = None;
                    sharing.fail(());
                }
                sharing.on_returned(home, share, takes, 0);
            }
        }
    }
}

fn is_page(message: &ToHome) -> bool {
    matches!(message, ToHome::WriteBack { .. })
}
