//! Pages of a region that all hosts map coherently: the product's rules decide, this file sends their letters.
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Page, ToHost};
use hanare_protocol::wire::head::HEAD_LEN;
use hanare_protocol::wire::page::{GRANTED_LEN, PAGE_REQUEST_LEN};

use super::rank::{Doing, Touching};
use super::{Body, Event, Message, Outgoing, World};
use crate::pages::{Act, Letter, Said};
use crate::time::Picos;
use crate::what_if::path::{Expense, Path};
use crate::what_if::program::{Place, page_messages};

/// Bytes of a letter between nodes beside its head and page: the most that module `page` of the product names.
const LETTER_LEN: u64 = 32;

impl World<'_> {
    /// A rank touches the next page at that place.
    pub(super) fn begin_touch(&mut self, rank: usize, writes: bool, place: Place) {
        let (home, nodes) = (self.target(rank, place), self.setting.nodes as u64);
        let process = &mut self.ranks[rank];
        let page = Page(process.touched * nodes + home as u64);
        process.touched += 1;
        let access = if writes { Access::Write } else { Access::Read };
        process.touching = Some(Touching { page, access, begun: self.engine.now() });
        let here = self.node_of(rank);
        if self.pages[home].has(here, page, access) {
            self.ranks[rank].touching = None;
            return self.rank_works(rank, Expense::Memory, Picos::ZERO, Doing::Next);
        }
        let asking = if home == here { 0.0 } else { self.software(here, home).client / 2.0 };
        self.rank_works(rank, Expense::Library, Picos::from_ns_f64(asking), Doing::Touch);
    }

    /// A fault brings a page of the next node, and those behind it along.
    pub(super) fn bring(&mut self, rank: usize, pages: u64) {
        let (node, costs) = (self.target(rank, Place::Far), &self.setting.costs);
        let local = Picos::from_ns_f64(costs.fault + costs.brought_page * (pages - 1) as f64);
        let request = |lengths| Outgoing { node, lengths, work: Picos::ZERO, pulls: None, kind: "page" };
        self.make(rank, page_messages(pages).map(request).collect(), local);
    }

    /// The fault itself: the page is here, is asked for, or was asked for before.
    pub(super) fn touch(&mut self, rank: usize) {
        let Some(Touching { page, access, begun }) = self.ranks[rank].touching else { return self.go_on(rank) };
        let (here, home, slot) = (self.node_of(rank), self.home_of(page), (rank / self.setting.nodes) as u16);
        let (is_here, acts) = self.pages[home].touch(here, page, access, slot);
        if is_here {
            self.ranks[rank].touching = None;
            return self.go_on(rank);
        }
        self.wait(rank);
        let path = self.ranks[rank].path.clone();
        self.act(begun, &path, 0, acts);
    }

    fn home_of(&self, page: Page) -> usize {
        (page.0 % self.setting.nodes as u64) as usize
    }

    /// A letter has been taken in.
    pub(super) fn hear(&mut self, letter: Letter, begun: Picos, path: &Path, bytes: u64) {
        let home = self.home_of(letter.page);
        let acts = self.pages[home].deliver(letter);
        self.act(begun, path, bytes, acts);
    }

    /// Does what the rules want. What a home and its own host say to each other takes no time.
    fn act(&mut self, begun: Picos, path: &Path, bytes: u64, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send(letter) if letter.is_message() => self.send_letter(letter, begun, path),
                Act::Send(letter) => self.hear(letter, begun, path, bytes),
                Act::Installed(host, page) => self.install(host, page, path, bytes),
            }
        }
    }

    /// Every rank of the host that waits for the page goes on, and touches it again.
    fn install(&mut self, host: usize, page: Page, path: &Path, bytes: u64) {
        let now = self.engine.now();
        let home = self.home_of(page);
        for rank in 0..self.setting.ranks {
            let Some(touching) = self.ranks[rank].touching.filter(|touching| touching.page == page) else { continue };
            if self.node_of(rank) == host {
                let (begun, path, body) = (touching.begun, path.clone(), Body::Installed);
                let message = Message { rank, from: home, to: host, bytes, kind: "page", begun, arrived: now, path, body };
                self.engine.schedule(now, Event::AtRank(Box::new(message)));
            }
        }
    }

    /// A rank of the letter's host that waits for what the letter says.
    fn listener(&self, letter: &Letter) -> Option<usize> {
        let is_answer = matches!(letter.said, Said::ToHost(ToHost::Grant { .. } | ToHost::Ack { .. }));
        let waits = |rank: &usize| {
            self.node_of(*rank) == letter.to && self.ranks[*rank].touching.is_some_and(|touching| touching.page == letter.page)
        };
        (0..self.setting.ranks).filter(|_| is_answer).find(waits)
    }

    fn send_letter(&mut self, letter: Letter, begun: Picos, path: &Path) {
        let Letter { from, to, .. } = letter;
        let listener = self.listener(&letter);
        let record = match (&letter.said, listener) {
            (Said::ToHost(ToHost::Grant { .. }), Some(_)) => GRANTED_LEN as u64,
            (Said::ToHome(message), _) if !message.has_bytes() => PAGE_REQUEST_LEN as u64,
            _ => LETTER_LEN,
        };
        let page = if letter.has_bytes() { PAGE_LEN } else { 0 };
        let bytes = HEAD_LEN as u64 + record + page;
        let (rank, arrived, path) = (listener.unwrap_or(0), self.engine.now(), path.clone());
        let body = Body::Letter(letter);
        self.send(Message { rank, from, to, bytes, kind: "page", begun, arrived, path, body }, listener.is_some());
    }

    /// A node's work for the letters that follow from one: the other half of a request's work, and the page's bytes.
    pub(super) fn answer_work(&self, letter: &Letter) -> Picos {
        let Letter { from, to, .. } = *letter;
        let page = match letter.said {
            Said::ToHome(hanare_protocol::page::ToHome::Request { has: None, .. }) => self.at_one_end(to, from, PAGE_LEN),
            _ => Picos::ZERO,
        };
        Picos::from_ns_f64(self.software(from, to).node / 2.0) + page
    }
}
