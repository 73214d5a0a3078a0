//! Homes that stand still for so long that they are taken for lost, and come back with their bytes while others own pages; and
//! a next life of the coordinator's node, which nobody was told of.

use super::*;
use hanare_protocol::id::NodeId;

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

    /// Whether an event has to wait until a life goes on: what its programs and commands do then begins anew.
    pub(super) fn is_deferred(&mut self, event: &Event) -> bool {
        let life = match event {
            Event::Program { life } | Event::Command { life } if self.still.contains_key(life) => return true,
            Event::Arrive { to: life, .. } | Event::Receipt { to: life, .. } => *life,
            Event::Filled { life, .. }
            | Event::Local { life, .. }
            | Event::Tick { life }
            | Event::Release { life, .. }
            | Event::Lost { life, .. } => *life,
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

    /// It is taken in again, as a new life: as a host it has nothing any more, as a home it asks for what it had.
    pub(super) fn on_return(&mut self, node: usize, was: Life) -> Check {
        self.still.remove(&was);
        let Some(mut process) = self.processes.remove(&was) else { return Ok(()) };
        let life = self.next_life;
        self.next_life += 1;
        self.nodes[node] = Some(life);
        self.count("homes that came back");
        if self.has(Defect::ForgetOwners) {
            process.directory = Directory::new(PAGE_COUNT, OWN);
            process.guests = Guests::new(OWN);
        }
        // What its own programs had lies at home.
        let guests: Vec<(HostId, Life)> = process.guests.iter().map(Peer::of).map(|peer| (peer.host, peer.life)).collect();
        let others = guests.iter().filter(|(host, _)| *host != OWN);
        let rules = Returning::new(&process.directory, others.clone().map(|(host, _)| *host));
        process.guests.begin_return(NodeId(was.into()), NodeId(life.into()));
        process.guests.answer(OWN);
        process.couriers.clear();
        process.shares.clear();
        process.mapped.clear();
        process.kept.clear();
        process.back.clear();
        process.leaves.clear();
        process.handed.clear();
        process.faces.clear();
        process.threads.fill(None);
        process.lost = self.dead.clone();
        process.returning = Some((was, rules));
        self.processes.insert(life, process);
        self.note(format!("life {was} of node {node} is back as {life}, and asks {guests:?}"));
        for (_, guest) in guests {
            if self.dead.contains(&guest) {
                let after = self.dice.between(0, 3_500);
                self.at(after, Event::Lost { life, lost: guest });
            }
        }
        self.ask_again(life);
        self.set_going(life);
        self.end_return(life)
    }

    /// A home that is back asks the hosts that have not answered, again and again.
    pub(super) fn ask_again(&mut self, life: Life) {
        let now_ms = self.now_ms;
        let Some(process) = self.processes.get_mut(&life) else { return };
        let Some((was, _)) = &process.returning else { return };
        let was = *was;
        let due = process.guests.due(now_ms);
        let due: Vec<(Peer, u64)> = (due.into_iter())
            .filter_map(|host| process.guests.get(host).map(|guest| (Peer::of((host, guest)), guest.share)))
            .collect();
        for (Peer { life: to, key: by, .. }, share) in due {
            if !self.dead.contains(&to) {
                self.send(
                    life,
                    to,
                    Parcel { home: was, page: Page(0), what: What::Returned(share), value: None, by, peer: None },
                );
            }
        }
    }

    /// A home is back, and calls this host by that key and share: it gets all that is here.
    pub(super) fn on_returned(&mut self, from: Life, life: Life, home: Life, (key, share): (u64, u64)) -> Check {
        if self.has(Defect::ForgetShares) && self.is_rough && self.dice.chance(5_000) {
            self.forget(life, home);
            self.send(life, from, Parcel { home, page: Page(0), what: What::Leave, value: None, by: share, peer: None });
            return Ok(());
        }
        let process = self.processes.get_mut(&life).expect("it lives");
        process.back.insert(home, from);
        process.lost.insert(home);
        if !process.is_called(home, key) {
            let has_all = process.handed.get(&key) == Some(&(share, from));
            if has_all {
                process.leaves.insert((home, share));
            } else {
                self.tell(life, home, What::Forgot, share);
                self.forgive(life, home);
            }
            return Ok(());
        }
        let under_way = process.couriers.remove(&home);
        let sent = under_way.iter().flat_map(Courier::unconfirmed).map(|(_, parcel)| parcel).filter(is_page).cloned();
        let kept: Vec<Parcel> = process.kept.remove(&home).unwrap_or_default().into_iter().chain(sent).collect();
        kept.into_iter().for_each(|parcel| self.send(life, from, parcel));
        let process = self.processes.get_mut(&life).expect("it lives");
        // Threads that fill frames come to their end first.
        let fills = |waiting: &Waiting| waiting.fills.as_ref().filter(|_| waiting.home == home).cloned();
        let filling: Vec<(usize, ToHost)> = (process.threads.iter().enumerate())
            .filter_map(|(thread, waiting)| Some((thread, fills(waiting.as_ref()?)?)))
            .collect();
        for (thread, grant) in filling {
            if let ToHost::Grant { ticket, .. } = grant {
                self.on_filled(life, thread, ticket)?;
            }
        }
        self.refuse_all(life, home)?;
        self.part_threads(life, home)?;
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&life).expect("it lives");
        if let Some(known) = process.shares.get_mut(&home) {
            known.sharing.on_returned(0, share, true, now_ms);
        }
        self.drain_share(life, home)?;
        self.hand_over(life, home, key)
    }

    /// All that a host has of a home that is back goes there.
    fn hand_over(&mut self, life: Life, home: Life, key: u64) -> Check {
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
        let handed = share.sharing.share(0).map(|share| (share, process.back[&home]));
        share.sharing.on_handed(0, true, true, now_ms);
        process.handed.extend(handed.map(|handed| (key, handed)));
        self.drain_share(life, home)
    }

    /// A host gives an extent up, with all that it had of it: its programs wrote nonsense into the words of its pages.
    fn forget(&mut self, life: Life, home: Life) {
        self.note(format!("life {life} forgets what it had of {home}"));
        let process = self.processes.get_mut(&life).expect("it lives");
        process.lost.insert(home);
        process.couriers.remove(&home);
        process.kept.remove(&home);
        process.mapped.remove(&home);
        process.shares.remove(&home);
        process.threads.iter_mut().for_each(|thread| drop(thread.take_if(|waiting| waiting.home == home)));
        self.forgive(life, home);
    }

    /// A host says something to the home that is back, about its life before.
    pub(super) fn hear_of_before(&mut self, from: Life, to: Life, parcel: Parcel) -> Check {
        let process = self.processes.get_mut(&to).expect("it lives");
        let Some(was) = process.returning.as_ref().map(|(was, _)| *was).filter(|was| *was == parcel.home) else { return Ok(()) };
        let Some(host) = process.guest_of(parcel.by) else { return Ok(()) };
        let peer = process.guests.get(host).map(|guest| Peer::of((host, guest)));
        let (_, rules) = process.returning.as_mut().expect("just seen");
        match parcel.what {
            What::ToHome(ToHome::WriteBack { version, .. })
                if rules.on_write_back(host, parcel.page, version) == Heard::Acted =>
            {
                process.memory[parcel.page.0 as usize] = parcel.value.ok_or("a page without its bytes")?;
                self.count("pages that came home");
            }
            What::Leave | What::Forgot => {
                if matches!(parcel.what, What::Leave) {
                    rules.on_left(host)
                } else {
                    rules.on_host_lost(host)
                }
                process.guests.answer(host);
                if let Some(Peer { key: by, .. }) = peer {
                    self.send(to, from, Parcel { home: was, page: Page(0), what: What::Left, value: None, by, peer: None });
                }
            }
            _ => {}
        }
        self.end_return(to)
    }

    /// When all have answered the home begins anew: nobody else has a page of it, and what is lost went with somebody.
    pub(super) fn end_return(&mut self, life: Life) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some((was, rules)) = process.returning.take_if(|(_, rules)| rules.is_over()) else { return Ok(()) };
        let lost: BTreeSet<Page> = rules.lost().collect();
        process.directory = Directory::after_return(PAGE_COUNT, OWN, lost.iter().copied());
        process.guests.end_return();
        self.note(format!("{life} begins anew without {lost:?}"));
        for page in (0..PAGE_COUNT).map(Page) {
            let mut truth = self.truths.remove(&(was, page)).unwrap_or_default();
            if !lost.contains(&page) {
                // Its newest bytes are here, and nowhere else.
                truth = Truth { last: truth.last, ..Truth::default() };
            }
            self.truths.insert((life, page), truth);
            if lost.contains(&page) {
                self.count("pages lost while their home was away");
                self.judge_refusal(life, page)?;
            }
        }
        for (other, process) in self.processes.iter().filter(|(other, _)| !self.still.contains_key(other)) {
            let kept = process.mapped.get(&was).map(|mapped| mapped.place.present_count()).unwrap_or_default();
            check(kept == 0, || format!("life {other} goes on with {kept} pages of {was}, which is {life} by now"))?;
        }
        Ok(())
    }

    /// The coordinator's node died and is started again before anybody misses it: those who had a connection to it dial again.
    pub(super) fn start_next_life_unseen(&mut self, life: Life, after_ms: u64) {
        self.count("next lives that nobody was told of");
        for other in self.others(life) {
            if self.processes[&other].couriers.contains_key(&life) {
                let after = after_ms + self.dice.between(1, 500);
                self.at(after, Event::Answer { life: other, before: life });
            }
        }
    }

    /// Who dialed again is answered by another life: all are told that the one before is over.
    pub(super) fn on_answer(&mut self, life: Life, before: Life) {
        let mut answering = Answering::default();
        answering.hear(Incarnation(before.into()));
        // Where nobody answers, that is told as well.
        let another = self.nodes[COORDINATOR].is_none_or(|now| answering.hear(Incarnation(now.into())));
        if !another || self.has(Defect::TakeForOld) {
            return;
        }
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

/// Whether a page goes home with it.
pub(super) fn is_page(parcel: &&Parcel) -> bool {
    matches!(parcel.what, What::ToHome(ToHome::WriteBack { .. }))
}

/// The version of a page that another host passes on with this, and has no more.
pub(super) fn passed_on(message: &ToHost) -> Option<Version> {
    match message {
        ToHost::Grant { access: Access::Write, has_bytes: true, version, .. } => Some(*version),
        _ => None,
    }
}
