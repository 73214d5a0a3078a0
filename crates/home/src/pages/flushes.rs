//! Flushes of coherent mappings of regions with copies, on the host whose programs stored. Hosts whose home is elected anew.
//!
//! A flush is of all that this host's programs stored to the region. Programs that ask while one is under way share the next.
//!
//! The pages of a lost home stay usable here. The next home asks for them, and a program says where that is. A flush fails meanwhile, and the
//! program asks again: its connection has one question at a time, and the next home is found by others.

use super::Pages;
use super::host::PageHost;
use super::memory::PageMemory;
use super::request::HostKey;
use hanare_protocol::id::{ClientId, Gid};
use hanare_protocol::page::membership::table::HomePhase;
use hanare_protocol::wire::control::Answer;
use hanare_protocol::{Error, Result};

impl<M: PageMemory> Pages<M> {
    /// A program wants all stores of this host at all holders.
    pub(super) fn begin_flush(&mut self, client: ClientId, gid: Gid) {
        let place = self.place_of(client, gid);
        let Some((place, host)) = place.and_then(|place| Some((place, self.hosts.get_mut(&place)?))) else {
            let reason = "this program does not share it".to_owned();
            return self.reply(client, Err(Error::BadUse { region: gid.to_string(), reason }));
        };
        if !host.is_copied {
            return self.reply(client, Ok(Answer::Ok));
        }
        host.flushes.then.push(client);
        self.go_on_flushing(place);
    }

    /// Begins the next flush, if none is under way.
    fn go_on_flushing(&mut self, place: HostKey) {
        let now_ms = self.now_ms();
        let Some(host) = self.hosts.get_mut(&place) else { return };
        if !host.flushes.asking.is_empty() || host.flushes.then.is_empty() {
            return;
        }
        let is_known = matches!(host.sharing.home(0), HomePhase::Shared | HomePhase::AskedAgain);
        if !is_known || host.awaits_home() {
            return self.fail_flushes(place);
        }
        let flushes = &mut host.flushes;
        (flushes.number, flushes.begun_ms) = (flushes.number + 1, now_ms);
        flushes.asking = std::mem::take(&mut flushes.then);
        let (number, had_sent) = (flushes.number, std::mem::take(&mut flushes.has_sent));
        let mut has_pages = false;
        self.with_host(place, |host, outputs| has_pages = host.begin_flush((number, had_sent), outputs));
        if !has_pages && !had_sent {
            self.end_flush(place, &Ok(()));
        }
    }

    /// A flush is at all holders, or failed.
    pub(super) fn on_flushed(&mut self, key: u64, number: u64, result: Result<()>) {
        let Some((place, _)) = self.keys.get(&key).copied() else { return };
        let Some(host) = self.hosts.get_mut(&place).filter(|host| host.flushes.number == number) else { return };
        let flushes = &mut host.flushes;
        if flushes.is_cut && result.is_ok() {
            flushes.then.append(&mut flushes.asking);
        }
        self.end_flush(place, &result);
        self.go_on_flushing(place);
    }

    fn end_flush(&mut self, place: HostKey, result: &Result<()>) {
        let Some(host) = self.hosts.get_mut(&place) else { return };
        host.flushes.has_failed |= result.is_err();
        host.flushes.has_sent |= result.is_err();
        let asking = std::mem::take(&mut host.flushes.asking);
        asking.into_iter().for_each(|client| self.reply(client, result.clone().map(|()| Answer::Ok)));
    }

    /// The home of a region is lost: programs that wait for a flush ask again when they have found the next.
    pub(super) fn fail_flushes(&mut self, place: HostKey) {
        let Some(host) = self.hosts.get_mut(&place) else { return };
        let (node, flushes) = (host.homes[0].node, &mut host.flushes);
        flushes.asking.append(&mut flushes.then);
        let reason = "it is lost, and the next home has not got the pages of this host yet".to_owned();
        self.end_flush(place, &Err(Error::NodeLost { node, reason }));
    }

    /// A home does not answer a flush, or the next home does not come: the pages here are lost then, as those of a home without copies.
    pub(super) fn give_up_homes(&mut self) {
        let (now_ms, patience_ms) = (self.now_ms(), self.answer_ms());
        let is_past = |since: u64, patience_ms: u64| now_ms.saturating_sub(since) > patience_ms;
        let is_late = |host: &PageHost<M::Frames>| host.flushes.waits_since_ms.is_some_and(|since| is_past(since, patience_ms));
        // Programs hear it before their own deadline.
        let after_ms = patience_ms - patience_ms / 4;
        let is_silent = |host: &PageHost<M::Frames>| !host.flushes.asking.is_empty() && is_past(host.flushes.begun_ms, after_ms);
        let late: Vec<HostKey> = self.hosts.iter().filter(|(_, host)| is_late(host)).map(|(place, _)| *place).collect();
        let silent: Vec<HostKey> = self.hosts.iter().filter(|(_, host)| is_silent(host)).map(|(place, _)| *place).collect();
        for place in silent {
            let peer = self.hosts.get(&place).map_or_else(String::new, |host| host.homes[0].node.to_string());
            let what = format!("a flush of {}", place.gid);
            self.end_flush(place, &Err(Error::Timeout { peer, what, after_ms }));
            self.go_on_flushing(place);
        }
        for place in late {
            let Some(host) = self.hosts.get_mut(&place) else { continue };
            tracing::error!(
                "{}: no node has taken the place of {}, its home, for {patience_ms} ms",
                place.gid,
                host.homes[0].node
            );
            host.give_up_home(0);
            self.fail_flushes(place);
            self.act(place);
        }
    }
}
