//! The product's page rules as a model drives them: the [`Directory`] of an extent's home and each host's words and node ([`Host`]).
//!
//! Nothing is decided here. A touch or a message goes in, and what the rules want done comes out in order; a model gives each
//! letter its way and its time. What a home and its own host say to each other is no message between nodes.
use hanare_protocol::Corrupt;
use hanare_protocol::page::directory::Output as HomeOutput;
use hanare_protocol::page::word::Fault;
use hanare_protocol::page::{Access, Directory, Host, HostId, HostMemory, HostOutput, Page, Plain, Ticket, ToHome, ToHost};

/// What is said of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// By a host to the page's home.
    ToHome(ToHome),
    /// To a host, by the home or another host.
    ToHost(ToHost),
}

/// What is said, from host to host by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The sender.
    pub from: usize,
    /// Who hears it.
    pub to: usize,
    /// Of which page.
    pub page: Page,
    /// What.
    pub said: Said,
}

impl Letter {
    /// Whether it passes from one host to another.
    pub fn is_message(&self) -> bool {
        self.from != self.to
    }

    /// Whether the page travels with it. The home's own host has its frame where the home's bytes are.
    pub fn has_bytes(&self) -> bool {
        self.is_message()
            && match &self.said {
                Said::ToHome(message) => message.has_bytes(),
                Said::ToHost(message) => message.has_bytes(),
            }
    }
}

/// What the rules want done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A letter goes out.
    Send(Letter),
    /// A host may use the page.
    Installed(usize, Page),
}

/// A host: its node's rules, and the words that they work on. Bytes are of no account to a model.
struct Mapped {
    rules: Host<()>,
    place: Plain<()>,
}

/// One home's pages and all hosts that map them.
pub struct Pages {
    home: usize,
    directory: Directory,
    hosts: Vec<Mapped>,
}

impl Pages {
    /// `pages` pages at `home`, mapped by `hosts` hosts, with no copy anywhere.
    pub fn new(home: usize, hosts: usize, pages: u64) -> Pages {
        let number = |host: usize| HostId(host as u16);
        let place = |host: usize| Plain::new(number(host), host == home, pages, u16::MAX);
        let hosts = (0..hosts).map(|host| Mapped { rules: Host::default(), place: place(host) }).collect();
        Pages { home, directory: Directory::new(pages, number(home)), hosts }
    }

    /// Whether a host may use a page in that way as it is.
    pub fn has(&self, host: usize, page: Page, access: Access) -> bool {
        let word = self.hosts[host].place.look(page);
        word.may_map(access) && !word.is_claimed()
    }

    /// A program of a host touches a page, from a slot of its own, counted from 0. Says whether the page is here, and what follows if
    /// not: nothing where it was asked for before.
    pub fn touch(&mut self, host: usize, page: Page, access: Access, slot: u16) -> (bool, Vec<Act>) {
        // Slot 0 is the node's own.
        let (place, slot) = (&mut self.hosts[host].place, slot + 1);
        // A page that was written soon after it was read is fetched for writing, whatever the program does first.
        let (has, access) = match place.fault(page, slot, access).expect("words are the rules' own") {
            Fault::Map(_) => {
                place.leave(page, slot).expect("just counted");
                return (true, Vec::new());
            }
            Fault::Wait(_) => return (false, Vec::new()),
            Fault::Fetch { access, .. } => (None, access),
            Fault::Upgrade { has } => (Some(has), access),
        };
        let ticket = Ticket { slot, number: place.number(slot) };
        let said = Said::ToHome(ToHome::Request { ticket, access, has, firm: false });
        (false, vec![Act::Send(Letter { from: host, to: self.home, page, said })])
    }

    /// A letter has arrived. A letter that the rules refuse is a defect of the model and panics.
    pub fn deliver(&mut self, letter: Letter) -> Vec<Act> {
        let Letter { from, to, page, said } = letter;
        match said {
            Said::ToHome(message) => {
                let heard = self.directory.handle(HostId(from as u16), page, message);
                heard.unwrap_or_else(|error| panic!("the rules refuse what the rules said: {error}"));
                self.drain()
            }
            Said::ToHost(message) => {
                let bytes = message.has_bytes().then_some(());
                self.with_host(to, page, |rules, place, outputs| rules.on_message(place, page, message, bytes, outputs))
            }
        }
    }

    fn drain(&mut self) -> Vec<Act> {
        let mut acts = Vec::new();
        while let Some(output) = self.directory.poll() {
            match output {
                HomeOutput::Send(to, page, message) => {
                    let letter = Letter { from: self.home, to: usize::from(to.0), page, said: Said::ToHost(message) };
                    acts.push(Act::Send(letter));
                }
                HomeOutput::Ready(..) | HomeOutput::Failed(..) => unreachable!("no model uses commands on shared pages"),
            }
        }
        acts
    }

    /// A host's node does something with a page, and takes at once what is to be taken: whoever maps a page in a model has done so.
    fn with_host(
        &mut self,
        host: usize,
        page: Page,
        act: impl FnOnce(&mut Host<()>, &mut Plain<()>, &mut Vec<HostOutput<()>>) -> Result<(), Corrupt>,
    ) -> Vec<Act> {
        let Mapped { rules, place } = &mut self.hosts[host];
        if host == self.home {
            // Its frame is where the home's bytes are.
            place.set_frame(page, Some(()));
        }
        let was_claimed = place.look(page).is_claimed();
        let mut outputs = Vec::new();
        act(rules, place, &mut outputs).expect("the rules refuse what the rules said");
        while rules.turn(place, &mut outputs).expect("words are the rules' own") {}
        let send = |say: HostOutput<()>| match say {
            HostOutput::Home { page, message, .. } => {
                Some(Letter { from: host, to: self.home, page, said: Said::ToHome(message) })
            }
            HostOutput::Host { to, page, message, .. } => {
                Some(Letter { from: host, to: usize::from(to.0), page, said: Said::ToHost(message) })
            }
            // Models have no copies.
            HostOutput::Flush { .. } => None,
        };
        let is_installed = was_claimed && !place.look(page).is_claimed();
        outputs.into_iter().filter_map(send).map(Act::Send).chain(is_installed.then_some(Act::Installed(host, page))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Messages, and those with the page, until all is still.
    fn cost(pages: &mut Pages, acts: Vec<Act>) -> (u32, u32) {
        let mut cost = (0, 0);
        let mut open = VecDeque::from(acts);
        while let Some(act) = open.pop_front() {
            if let Act::Send(letter) = act {
                cost.0 += u32::from(letter.is_message());
                cost.1 += u32::from(letter.has_bytes());
                open.extend(pages.deliver(letter));
            }
        }
        cost
    }

    /// The table of costs in the product's module `page`, as its own tests assert it.
    #[test]
    fn accesses_cost_what_the_products_tests_assert() {
        use Access::{Read, Write};
        let mut pages = Pages::new(0, 5, 8);
        let mut touch = |host, access| {
            let (_, acts) = pages.touch(host, Page(3), access, 0);
            let cost = cost(&mut pages, acts);
            assert!(pages.has(host, Page(3), access));
            cost
        };
        assert_eq!(touch(1, Read), (2, 1), "another node's memory, clean");
        assert_eq!(touch(0, Read), (0, 0), "own memory, clean");
        assert_eq!(touch(1, Read), (0, 0), "a copy is here");
        assert_eq!(touch(2, Write), (6, 1), "one other host and the home's have copies");
        assert_eq!(touch(2, Write), (0, 0), "it is the owner's");
        assert_eq!(touch(3, Read), (4, 2), "dirty in a third");
        assert_eq!(touch(3, Write), (5, 0), "an upgrade sends no page");
    }

    /// The word of a page tells which access to ask for, and waits for that one alone.
    #[test]
    fn a_page_that_was_read_and_then_written_is_asked_for_to_write() {
        let mut pages = Pages::new(0, 2, 8);
        let mut touch = |host, access| {
            let (_, acts) = pages.touch(host, Page(3), access, 0);
            cost(&mut pages, acts);
            pages.has(host, Page(3), access)
        };
        for _ in 0..3 {
            for host in [0, 1] {
                assert!(touch(host, Access::Read) && touch(host, Access::Write));
            }
        }
    }
}
