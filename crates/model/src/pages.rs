//! The product's page rules as a model drives them: the [`Directory`] of an extent's home and the [`Copies`] of each host.
//!
//! Nothing is decided here. A touch or a message goes in, and what the rules want done comes out in order; a model gives each
//! letter its way and its time. What a home and its own host say to each other is no message between nodes.
use hanare_protocol::page::directory::Output as HomeOutput;
use hanare_protocol::page::host::{Output as HostOutput, Phase};
use hanare_protocol::page::{Access, Copies, Directory, HostId, Page, ToHome, ToHost, Touch};

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
    /// Who says it.
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

/// One home's pages and all hosts that map them.
pub struct Pages {
    home: usize,
    directory: Directory,
    hosts: Vec<Copies>,
}

impl Pages {
    /// `pages` pages at `home`, mapped by `hosts` hosts, with no copy anywhere.
    pub fn new(home: usize, hosts: usize, pages: u64) -> Pages {
        let number = |host: usize| HostId(host as u16);
        let hosts = (0..hosts).map(|host| Copies::new(number(host))).collect();
        Pages { home, directory: Directory::new(pages, number(home)), hosts }
    }

    /// Whether a host may use a page in that way as it is.
    pub fn has(&self, host: usize, page: Page, access: Access) -> bool {
        matches!((self.hosts[host].phase(page), access), (Phase::Owned, _) | (Phase::Shared, Access::Read))
    }

    /// A program of a host touches a page, from a seat of its own. Says what became of it and what follows.
    pub fn touch(&mut self, host: usize, page: Page, access: Access, seat: u16) -> (Touch, Vec<Act>) {
        let touch = self.hosts[host].touch(page, access, seat);
        (touch, self.drain(host))
    }

    /// A letter has arrived. A letter that the rules refuse is a defect of the model and panics.
    pub fn deliver(&mut self, letter: Letter) -> Vec<Act> {
        let Letter { from, to, page, said } = letter;
        let heard = match said {
            Said::ToHome(message) => self.directory.handle(HostId(from as u16), page, message),
            Said::ToHost(message) => self.hosts[to].handle(page, message),
        };
        heard.unwrap_or_else(|error| panic!("the rules refuse what the rules said: {error}"));
        self.drain(to)
    }

    fn drain(&mut self, host: usize) -> Vec<Act> {
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
        while let Some(output) = self.hosts[host].poll() {
            acts.push(match output {
                HostOutput::ToHome(page, message) => {
                    Act::Send(Letter { from: host, to: self.home, page, said: Said::ToHome(message) })
                }
                HostOutput::ToHost(to, page, message) => {
                    Act::Send(Letter { from: host, to: usize::from(to.0), page, said: Said::ToHost(message) })
                }
                HostOutput::Installed(page, _) => Act::Installed(host, page),
                HostOutput::Failed(page, refusal) => panic!("page {} failed: {refusal:?}, and no host is ever lost", page.0),
            });
        }
        acts
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
}
