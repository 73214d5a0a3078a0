//! The home's side of sharing: hosts join, wait to be let in, and leave. The machines are those that nodes run: [`Sharers`] and
//! [`JoinQueue`](hanare_protocol::page::membership::JoinQueue).
//!
//! Two causes let a host wait. Its home is back from being taken for lost, and gets newer bytes from others first. Or programs of the
//! home's node have direct accesses under way, which go past the pages.
//!
//! [`Sharers`]: hanare_protocol::page::membership::Sharers

use super::{Defect, Extent, Life, OWN, PAGE_COUNT, PageWorld, Parcel, Process, What};
use crate::check::Check;
use hanare_protocol::id::{Epoch, Incarnation, NodeId, Rights};
use hanare_protocol::page::membership::{Joiner, Life as NodeLife, Over, Sharer, Tried, Waiting};
use hanare_protocol::page::{HostId, Page};

/// A host that wants to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Joining {
    from: Life,
    key: u64,
}

/// Name and life of a host at a home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(super) host: HostId,
    pub(super) life: Life,
    pub(super) key: u64,
}

impl Peer {
    pub(super) fn of((host, guest): (HostId, &Sharer)) -> Peer {
        Peer { host, life: guest.who.node.0 as Life, key: guest.who.key }
    }
}

impl Process {
    /// A home's number for the host that has this membership.
    pub(super) fn sharer_of(&self, share: u64) -> Option<HostId> {
        self.guests.iter().find(|(_, guest)| guest.share == share).map(|(host, _)| host)
    }

    /// A home's name for a host, and its life.
    pub(super) fn peer(&self, host: HostId) -> Option<Peer> {
        self.guests.get(host).map(|guest| Peer::of((host, guest)))
    }

    /// Ends the waits of those hosts.
    fn end_wait(&mut self, has_ended: impl Fn(&Joining) -> bool) {
        self.lobby.drop_those(has_ended);
    }
}

impl PageWorld {
    /// A host will map the extent that lies here.
    pub(super) fn on_join(&mut self, from: Life, home: Life, key: u64) -> Check {
        let now_ms = self.now_ms;
        let is_past_pages = self.is_rough && self.dice.chance(3_000);
        let lasts_ms = self.dice.pick(&[5, 200, 3_000, 7_000]);
        let process = self.processes.get_mut(&home).expect("it lives");
        if is_past_pages && process.guests.is_empty() && process.bypassed_until_ms < now_ms {
            process.bypassed_until_ms = now_ms + lasts_ms;
        }
        let waiting = process.lobby.come(Joining { from, key }, now_ms);
        self.try_join(home, waiting)
    }

    /// Tries the waiting joins again.
    pub(super) fn try_again(&mut self, home: Life) -> Check {
        if self.has(Defect::TryOnce) {
            return Ok(());
        }
        let due = self.processes.get_mut(&home).expect("it lives").lobby.due();
        due.into_iter().try_for_each(|waiting| self.try_join(home, waiting))
    }

    fn try_join(&mut self, home: Life, waiting: Waiting<Joining>) -> Check {
        let tried = self.take_in(home, waiting.who)?;
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&home).expect("it lives");
        match process.lobby.tried(waiting, tried, now_ms) {
            Some((Joining { from, key }, result)) => {
                let host = result.as_ref().map_or(OWN, |(host, _)| *host);
                self.count(if result.is_ok() { "hosts that were let in" } else { "hosts that waited for too long" });
                self.send_to_sharer(home, Peer { host, life: from, key }, What::Joined(result.ok()));
            }
            None => self.count("tries of hosts that wait"),
        }
        Ok(())
    }

    fn take_in(&mut self, home: Life, Joining { from, key }: Joining) -> Result<Tried<(HostId, u64), &'static str>, String> {
        let (share, another) = (self.draw(), self.draw());
        let (joins_anew, now_ms) = (self.has(Defect::JoinAnew), self.now_ms);
        let process = self.processes.get_mut(&home).expect("it lives");
        if process.returning.is_some() {
            return Ok(Tried::NotYet("it is coming back"));
        }
        let life = NodeLife { epoch: Epoch(from.into()), process: Some(Incarnation(from.into())) };
        let is_here = process.guests.has_live(NodeId(from.into()), Over::AllBut(Incarnation(from.into())));
        let called = if joins_anew && is_here { another } else { key };
        let who = Joiner { node: NodeId(from.into()), life, address: String::new(), key: called, readers: None };
        for earlier in process.guests.earlier(&who) {
            self.lose_sharer(home, earlier)?;
        }
        let process = self.processes.get_mut(&home).expect("it lives");
        if process.guests.is_empty() && now_ms < process.bypassed_until_ms {
            return Ok(Tried::NotYet("commands are under way"));
        }
        Ok(Tried::Admitted(process.guests.join(who, (share, Rights::Write), from == home)))
    }

    /// A host has let go of all, or does not know what it had.
    pub(super) fn on_leave(&mut self, home: Life, share: u64, has_all: bool) -> Check {
        let is_answer = !has_all || self.has(Defect::TakeLeaveForAnswer);
        let process = self.processes.get_mut(&home).expect("it lives");
        if is_answer {
            process.dismissed.on_forgot(share);
        }
        let Some(host) = process.sharer_of(share) else { return Ok(()) };
        let peer = process.peer(host).expect("just seen");
        process.end_wait(|waiting| waiting.key == peer.key);
        if let Some(rules) = &mut process.returning {
            if has_all {
                rules.on_left(host)
            } else {
                rules.on_host_lost(host)
            }
            process.guests.answer(host);
            self.send_to_sharer(home, peer, What::Left);
            return self.end_return(home);
        }
        if !has_all {
            return self.lose_sharer(home, host);
        }
        if process.guests.leave(host, process.directory.is_passing_on(host)).is_none() {
            self.count("leaves that waited for pages passed on");
            return Ok(());
        }
        process.directory.on_host_lost(host);
        process.tenure.on_host_gone(host);
        self.send_to_sharer(home, peer, What::Left);
        (0..PAGE_COUNT).try_for_each(|page| self.drain_home(home, Page(page)))
    }

    /// Sharers whose last pages were on their way to others, once more.
    pub(super) fn let_leavers_go(&mut self, home: Life) -> Check {
        let process = &self.processes[&home];
        let draining = process.guests.draining().filter_map(|host| Some(process.guests.get(host)?.share));
        let draining: Vec<u64> = draining.collect();
        draining.into_iter().try_for_each(|share| self.on_leave(home, share, true))
    }

    /// The life of a host is over: it waits no more, and what it had is gone, or is not waited for by a home that is back.
    pub(super) fn lose_sharers(&mut self, home: Life, lost: Life) -> Check {
        let waits_on = self.has(Defect::WaitOn);
        let process = self.processes.get_mut(&home).expect("it lives");
        if !waits_on {
            process.end_wait(|waiting| waiting.from == lost);
        }
        if self.has(Defect::KeepDead) {
            return Ok(());
        }
        let process = self.processes.get_mut(&home).expect("it lives");
        process.dismissed.on_lives_over(NodeId(lost.into()), Over::UpTo(Epoch(lost.into())));
        let over = process.guests.over(NodeId(lost.into()), Over::All);
        self.do_without(home, over)
    }

    /// A home could not reach the hosts of a life that goes on, and does without them. They are told when they are reached again.
    pub(super) fn dismiss(&mut self, home: Life, of: Life) -> Check {
        if self.has(Defect::TakeLeaveForAnswer) {
            // Its leave is on its way.
            let extent = self.processes[&home].extent;
            for _ in 0..3 {
                self.unmap(of, extent)?;
            }
        }
        let process = self.processes.get_mut(&home).expect("it lives");
        let (extent, over) = (process.extent, process.guests.over(NodeId(of.into()), Over::All));
        let shares: Vec<u64> = over.iter().filter_map(|host| Some(process.guests.get(*host)?.share)).collect();
        for host in &over {
            if let Some(guest) = process.guests.get(*host) {
                process.dismissed.dismiss(guest, (Peer::of((*host, guest)), guest.share));
            }
        }
        for share in shares {
            self.note(format!("{home} does not reach life {of}, which it knows by {share}"));
            self.count("hosts that their home did without");
            self.done_without.insert(share);
        }
        // Pages that it was granted to write are lost, although it lives.
        self.excuse(of, extent);
        self.do_without(home, over)
    }

    /// True if a host does not know yet that its home did without it.
    pub(super) fn is_fenced(&self, life: Life, home: Extent) -> bool {
        let share = self.processes.get(&life).and_then(|process| process.share_at(home));
        share.is_some_and(|share| self.done_without.contains(&share))
    }

    /// Hosts are lost, with what they had; a home that is back waits for them no more.
    fn do_without(&mut self, home: Life, over: Vec<HostId>) -> Check {
        let process = self.processes.get_mut(&home).expect("it lives");
        if let Some(rules) = &mut process.returning {
            for host in over {
                rules.on_host_lost(host);
                process.guests.answer(host);
            }
            return self.end_return(home);
        }
        over.into_iter().try_for_each(|host| self.lose_sharer(home, host))
    }

    /// A sharer is gone, with what it had: the others are told.
    fn lose_sharer(&mut self, home: Life, host: HostId) -> Check {
        let process = self.processes.get_mut(&home).expect("it lives");
        let Some(gone) = process.guests.lose(host) else { return Ok(()) };
        process.end_wait(|waiting| waiting.key == gone.who.key);
        process.directory.on_host_lost(host);
        process.tenure.on_host_gone(host);
        let others: Vec<Peer> = process.guests.iter().map(Peer::of).collect();
        self.note(format!("{home} does without life {} as {host:?}", gone.who.node.0));
        if host != OWN {
            others.into_iter().for_each(|peer| self.send_to_sharer(home, peer, What::HostGone));
        }
        (0..PAGE_COUNT).try_for_each(|page| self.drain_home(home, Page(page)))
    }

    pub(super) fn send_to_sharer(&mut self, home: Life, peer: Peer, what: What) {
        let extent = self.processes[&home].extent;
        self.send(home, peer.life, Parcel { home: extent, page: Page(0), what, value: None, by: peer.key, peer: None });
    }
}
