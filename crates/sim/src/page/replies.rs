//! Replies to threads: a home's own host does at once what a request wants of it, and grants that need no more go with the reply. The machine
//! is that which nodes run: [`PendingReply`].

use super::{Defect, Life, PageWorld, Parcel, What};
use crate::check::Check;
use hanare_protocol::page::reply::DeferredGrant;
use hanare_protocol::page::{Hosts, Page, PendingReply, Ticket, ToHost};
use std::collections::VecDeque;

/// A reply that a home puts together.
#[derive(Debug)]
pub(super) struct Reply {
    home: Life,
    /// The asking host's key.
    key: u64,
    rules: PendingReply<(Life, Parcel)>,
    /// Messages between the home and its own host meanwhile.
    own: VecDeque<Parcel>,
}

impl PageWorld {
    /// A thread of a host asked, and its home answers when its own host has done what it can.
    pub(super) fn reply_to(&mut self, (from, home): (Life, Life), share: u64, page: Page, ticket: Ticket) -> Check {
        let process = &self.processes[&home];
        let Some(peer) = process.sharer_of(share).and_then(|host| process.peer(host)).filter(|peer| peer.life == from) else {
            return self.drain_home(home, page);
        };
        let rules = PendingReply::new([(page, ticket)]);
        self.reply = Some(Reply { home, key: peer.key, rules, own: VecDeque::new() });
        self.drain_home(home, page)?;
        while let Some(parcel) = self.reply.as_mut().and_then(|reply| reply.own.pop_front()) {
            self.on_parcel(home, home, parcel)?;
        }
        let Some(reply) = self.reply.take() else { return Ok(()) };
        let finished = reply.rules.finish();
        (0..finished.granted.len()).for_each(|_| self.count("grants that went with a reply"));
        for DeferredGrant { message, with: (to, parcel), .. } in finished.granted.into_iter().chain(finished.awaited) {
            let message = if self.has(Defect::ReplyEarly) { without_waiting(message) } else { message };
            self.send(home, to, Parcel { what: What::ToHost(message), ..parcel });
        }
        Ok(())
    }

    /// Keeps what belongs in the reply that is put together, and what the home and its own host say to each other meanwhile.
    pub(super) fn keep_for_reply(&mut self, from: Life, to: Life, mut parcel: Parcel) -> Option<Parcel> {
        let Some(reply) = self.reply.as_mut().filter(|reply| reply.home == from) else { return Some(parcel) };
        if from == to {
            reply.own.push_back(parcel);
            return None;
        }
        match parcel.what.clone() {
            What::ToHost(message) if parcel.by == reply.key => {
                let (message, (_, kept)) = reply.rules.keep(parcel.page, message, (to, parcel))?;
                parcel = kept;
                parcel.what = What::ToHost(message);
                Some(parcel)
            }
            _ => Some(parcel),
        }
    }
}

fn without_waiting(message: ToHost) -> ToHost {
    match message {
        ToHost::Grant { ticket, version, access, has_bytes, firm, .. } => {
            ToHost::Grant { ticket, version, access, has_bytes, awaits: Hosts::NONE, firm }
        }
        other => other,
    }
}
