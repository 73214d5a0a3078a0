//! Homes that stand still for so long that they are taken for lost, and come back with their bytes while others own pages. And a next
//! life of the coordinator's node, which nobody was told of.

use super::*;
use hanare_protocol::id::{Epoch, NodeId};
use hanare_protocol::page::membership::Over;

impl PageWorld {
    /// A node stands still: to the others this life is over. It goes on later, as a home that has its bytes.
    pub(super) fn stand_still(&mut self, node: usize, life: Life) {
        self.note(format!("life {life} of node {node} stands still"));
        self.count("nodes that stood still");
        let until_ms = self.now_ms + self.dice.between(3_600, 9_000);
        self.still.insert(life, until_ms);
        self.dead.insert(life);
        for other in self.others(life) {
            // Some hear of it when it is back.
            let after = self.dice.between(0, 5_000);
            self.at(after, Event::Lost { life: other, lost: life });
        }
        // For a moment it goes on as if nothing had been.
        let after = until_ms - self.now_ms + self.dice.pick(&[0, 1, 20]);
        self.at(after, Event::Return { node, life });
    }

    pub(super) fn others(&self, life: Life) -> Vec<Life> {
        self.processes.keys().copied().filter(|other| *other != life).collect()
    }

    /// True if an event has to wait until a life goes on; its programs and commands then begin again.
    pub(super) fn is_deferred(&mut self, event: &Event) -> bool {
        let life = match event {
            Event::Program { life } | Event::Command { life } if self.still.contains_key(life) => return true,
            Event::Arrive { to: life, .. } | Event::Receipt { to: life, .. } => *life,
            Event::Tried { from: life, .. } | Event::Ended { life, .. } => *life,
            Event::Filled { life, .. } | Event::Local { life, .. } | Event::Tick { life } | Event::Lost { life, .. } => *life,
            Event::Release { home, .. } => match self.life_of(*home) {
                Some(life) => life,
                None => return false,
            },
            _ => return false,
        };
        match self.still.get(&life).copied() {
            Some(until_ms) if self.now_ms < until_ms => {
                self.course.at(until_ms - self.course.now_ms, event.clone());
                true
            }
            _ => false,
        }
    }

    /// Takes a node in again, as a new life: as a host it drops its pages of others, as a home it asks for its own.
    pub(super) fn on_return(&mut self, node: usize, was: Life) -> Check {
        if self.processes.contains_key(&was) {
            self.hear_itself(was)?;
        }
        self.still.remove(&was);
        let Some(mut process) = self.processes.remove(&was) else { return Ok(()) };
        let life = self.next_life;
        self.next_life += 1;
        self.nodes[node] = Some(life);
        self.count("homes that came back");
        if self.has(Defect::ForgetOwners) {
            process.directory = Directory::new(PAGE_COUNT, OWN);
            process.guests = Sharers::new(OWN);
        }
        let guests: Vec<Peer> = process.guests.iter().map(Peer::of).collect();
        process.returning = Some(Returning::new(&process.directory, guests.iter().map(|peer| peer.host)));
        process.guests.begin_return(NodeId(was.into()), NodeId(life.into()));
        process.lobby.drop_those(|_| true);
        process.forget_channels();
        for dead in &self.dead {
            process.dismissed.on_lives_over(NodeId((*dead).into()), Over::UpTo(Epoch((*dead).into())));
        }
        process.leaves.clear();
        process.recalls.on_return();
        process.lost = self.dead.clone();
        let own = process.shares.get_mut(&process.extent);
        own.into_iter().for_each(|share| share.at = life);
        let others = if self.has(Defect::KeepShares) { BTreeMap::new() } else { process.drop_others_pages() };
        self.processes.insert(life, process);
        self.note(format!("life {was} of node {node} is back as {life}, and asks {guests:?}"));
        for peer in guests {
            if peer.life != was && self.dead.contains(&peer.life) {
                let after = self.dice.between(0, 3_500);
                self.at(after, Event::Lost { life, lost: peer.life });
            }
        }
        (0..others.len()).for_each(|_| self.count("extents dropped by a node that was taken for lost"));
        if !self.has(Defect::KeepShares) {
            self.leave_others_homes(life, &others)?;
        }
        self.ask_again(life);
        self.set_going(life);
        self.end_holds()?;
        self.end_return(life)
    }

    /// Delivers a node's messages to itself before anything else happens to it.
    fn hear_itself(&mut self, life: Life) -> Check {
        let is_own = |event: &Event| matches!(event, Event::Local { life: own, .. } if *own == life);
        while let Some(event) = self.course.pull(is_own) {
            self.act(event)?;
        }
        Ok(())
    }

    /// A home that is back asks the hosts that have not answered, again and again; so are those told that it did without.
    pub(super) fn ask_again(&mut self, life: Life) {
        let (now_ms, is_silent) = (self.now_ms, self.has(Defect::DismissSilently));
        let Some(process) = self.processes.get_mut(&life) else { return };
        let home = process.extent;
        let dismissed = if is_silent { Vec::new() } else { process.dismissed.due(now_ms) };
        let due = if process.returning.is_some() { process.guests.due(now_ms) } else { Vec::new() };
        let awaited = due.into_iter().filter_map(|host| Some((host, process.guests.get(host)?)));
        let awaited: Vec<(Peer, u64)> = awaited.map(|(host, guest)| (Peer::of((host, guest)), guest.share)).collect();
        let all = awaited.into_iter().map(|it| (it, true)).chain(dismissed.into_iter().map(|it| (it, false)));
        for ((Peer { life: to, key: by, .. }, share), takes) in all {
            if !self.dead.contains(&to) {
                let what = What::Returned { share, takes };
                self.send(life, to, Parcel { home, page: Page(0), what, value: None, by, peer: None });
            }
        }
    }

    /// A home is back, and calls this host by that key and share: it gets all that is here. Or it did without this host: all that is here of
    /// it goes.
    pub(super) fn on_returned(
        &mut self,
        (from, life): (Life, Life),
        home: Extent,
        (key, share): (u64, u64),
        takes: bool,
    ) -> Check {
        if self.has(Defect::ForgetShares) && self.is_rough && self.dice.chance(5_000) {
            self.forget(life, home);
            self.send(life, from, Parcel { home, page: Page(0), what: What::Leave, value: None, by: share, peer: None });
            return Ok(());
        }
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(its) = process.shares.get_mut(&home).filter(|its| its.key == key) else {
            if let Some(unsent) = takes.then(|| process.handed.asked((key, share))).flatten() {
                process.leaves.insert((from, home, share));
                unsent.into_iter().for_each(|parcel| self.send(life, from, parcel));
            } else {
                self.send(life, from, Parcel { home, page: Page(0), what: What::Forgot, value: None, by: share, peer: None });
                self.forgive(life, home);
            }
            return Ok(());
        };
        let before = std::mem::replace(&mut its.at, from);
        if before != from {
            // The news of the life before may come late.
            process.lost.insert(before);
            process.forget_channel(before);
        }
        if !takes {
            return self.on_done_without(life, home, share);
        }
        // Threads that fill frames come to their end first.
        self.end_fills(life, home)?;
        self.refuse_all(life, home)?;
        self.part_threads(life, home)?;
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&life).expect("it lives");
        if let Some(known) = process.shares.get_mut(&home) {
            known.sharing.on_returned(0, share, true, now_ms);
        }
        self.drain_membership(life, home)?;
        self.hand_over(life, home)
    }

    /// A home did without this host, which it knew by that share: what is here of its pages is not good.
    fn on_done_without(&mut self, life: Life, home: Extent, share: u64) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        if process.share_at(home) == Some(share) {
            let has_unsaved = process.has_unsaved(home);
            if let Some(known) = process.shares.get_mut(&home).filter(|_| has_unsaved) {
                known.sharing.fail("its home did without this host");
            }
            self.count("hosts told that their home did without them");
            self.end_fills(life, home)?;
            self.refuse_all(life, home)?;
            self.part_threads(life, home)?;
            self.processes.get_mut(&life).expect("it lives").mapped.remove(&home);
        }
        let now_ms = self.now_ms;
        if let Some(known) = self.processes.get_mut(&life).and_then(|process| process.shares.get_mut(&home)) {
            known.sharing.on_returned(0, share, false, now_ms);
        }
        self.drain_membership(life, home)
    }

    /// All that a host has of a home that is back goes there.
    fn hand_over(&mut self, life: Life, home: Extent) -> Check {
        let process = &self.processes[&life];
        let is_handing = process.shares.get(&home).is_some_and(|share| share.sharing.handing().next().is_some());
        if !is_handing {
            return Ok(());
        }
        self.with_host(life, home, |rules, place, outputs| {
            let is_over = rules.hand_over(place, 0, outputs)?;
            assert!(is_over, "nobody maps what is handed over");
            Ok(())
        })?;
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&life).expect("it lives");
        let share = process.shares.get_mut(&home).expect("just seen");
        share.sharing.on_pages_returned(0, true, true, now_ms);
        self.drain_membership(life, home)
    }

    /// A host gives an extent up, with all that it had of it: its programs wrote nonsense into the words of its pages.
    fn forget(&mut self, life: Life, home: Extent) {
        self.note(format!("life {life} forgets what it had of {home}"));
        let process = self.processes.get_mut(&life).expect("it lives");
        if let Some(share) = process.shares.remove(&home) {
            process.lost.insert(share.at);
            process.channels.remove(&share.at);
        }
        process.mapped.remove(&home);
        process.threads.iter_mut().for_each(|thread| drop(thread.take_if(|waiting| waiting.home == home)));
        self.forgive(life, home);
    }

    /// A host says something of a page to a home that is back: pages among it count.
    pub(super) fn hear_in_return(
        &mut self,
        life: Life,
        host: HostId,
        page: Page,
        (message, value): (ToHome, Option<u64>),
    ) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let (Some(rules), ToHome::WriteBack { version, .. }) = (&mut process.returning, message) else { return Ok(()) };
        if rules.on_write_back(host, page, version) == Heard::Acted {
            process.memory[page.0 as usize] = value.ok_or("a page without its bytes")?;
            self.count("pages that came home");
        }
        self.end_return(life)
    }

    /// When all have answered the home begins anew: nobody else has a page of it, and what is lost went with somebody.
    pub(super) fn end_return(&mut self, life: Life) -> Check {
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(rules) = process.returning.take_if(|rules| rules.ends(now_ms)) else { return Ok(()) };
        let home = process.extent;
        let lost: BTreeSet<Page> = rules.lost().collect();
        process.directory = Directory::after_return(PAGE_COUNT, OWN, lost.iter().copied());
        process.guests.end_return();
        self.note(format!("{life} begins anew without {lost:?}"));
        for page in (0..PAGE_COUNT).map(Page) {
            if lost.contains(&page) {
                self.count("pages lost while their home was away");
                self.judge_refusal(home, page)?;
            } else if let Some(truth) = self.truths.get_mut(&(home, page)) {
                // Its newest bytes are here, and nowhere else.
                *truth = Truth { last: truth.last, ..Truth::default() };
            }
        }
        for (other, process) in self.processes.iter().filter(|(other, _)| !self.still.contains_key(other)) {
            // Frames of the home's own host are the bytes at home.
            let is_kept = |mapped: &Mapped, page: u64| match process.extent == home {
                true => mapped.place.look(Page(page)).may_map(Access::Read),
                false => mapped.place.frame(Page(page)).is_some(),
            };
            let kept =
                process.mapped.get(&home).map_or(0, |mapped| (0..PAGE_COUNT).filter(|page| is_kept(mapped, *page)).count());
            check(kept == 0, || format!("life {other} goes on with {kept} pages of {home}, whose home began anew"))?;
        }
        Ok(())
    }

    /// The coordinator's node died and is started again before anybody misses it: those who had a connection to it dial again.
    pub(super) fn start_next_life_unseen(&mut self, life: Life, after_ms: u64) {
        self.count("next lives that nobody was told of");
        self.unseen.insert(life);
        self.end_connections_to(life, true, (after_ms + 1, after_ms + 500));
    }

    /// Tells all that a life is over, because a host that dialed again was answered by another.
    pub(super) fn tell_of_another(&mut self, life: Life, before: Life) {
        let others: Vec<Life> = self.others(life).into_iter().chain([life]).collect();
        for other in others {
            let is_told = self.processes.get(&other).is_none_or(|process| process.lost.contains(&before));
            if !is_told {
                let after = if other == life { 0 } else { self.dice.between(0, 500) };
                self.at(after, Event::Lost { life: other, lost: before });
            }
        }
    }
}

/// True if a page goes home with it.
pub(super) fn is_page(parcel: &Parcel) -> bool {
    matches!(parcel.what, What::ToHome(ToHome::WriteBack { .. }))
}

/// The version of a page that another host passes on with this, and has no more.
pub(super) fn passed_on(message: &ToHost) -> Option<Version> {
    match message {
        ToHost::Grant { access: Access::Write, has_bytes: true, version, .. } => Some(*version),
        _ => None,
    }
}
