//! Connections of clients to homes: each keeps order and loses nothing until it breaks, and either side sees its end at its own time.
//!
//! The network takes a message's delay from its world. All else that happens to [`Links`] is thrown by the dice that a world hands over.

use crate::dice::Dice;
use crate::network::Ordered;
use std::collections::BTreeMap;

/// Times after which a side sees the end of a connection whose other side is alive or dead.
const SEEN_MS: [u64; 4] = [0, 5, 200, 3_500];
/// Times after which a home sees the end of a connection that its client closed.
const CLOSED_MS: [u64; 3] = [0, 5, 3_500];

/// A connection, as long as one side holds it.
#[derive(Debug)]
pub(crate) struct Link {
    path: Ordered,
    /// When it broke: what would arrive later does not.
    cut_at: Option<u64>,
    pub is_open_at_home: bool,
    pub is_open_at_client: bool,
    /// True for one in the memory of one host, which neither breaks nor stands still.
    is_ring: bool,
}

impl Default for Link {
    fn default() -> Link {
        Link { path: Ordered::default(), cut_at: None, is_open_at_home: true, is_open_at_client: true, is_ring: false }
    }
}

impl Link {
    /// After how many milliseconds a message that is sent at this moment arrives, if it does.
    pub fn arrival(&mut self, now_ms: u64, delay_ms: u64, to_home: bool) -> Option<u64> {
        let after = if to_home { self.path.there(now_ms, delay_ms) } else { self.path.back(now_ms, delay_ms) };
        self.cut_at.is_none_or(|cut| now_ms + after <= cut).then_some(after)
    }

    /// True if an arriving message is one of a connection that is there for its receiver.
    pub fn is_open(&self, now_ms: u64, at_home: bool) -> bool {
        let is_open = if at_home { self.is_open_at_home } else { self.is_open_at_client };
        is_open && self.cut_at.is_none_or(|cut| now_ms <= cut)
    }

    /// True if it has not broken.
    pub fn is_whole(&self) -> bool {
        self.cut_at.is_none()
    }

    /// From then on nothing that is under way arrives.
    pub fn cut(&mut self, at_ms: u64) {
        self.cut_at.get_or_insert(at_ms);
    }

    /// The client ends. Returns after how many milliseconds all that it sent has arrived.
    pub fn end_at_client(&mut self, now_ms: u64) -> u64 {
        self.is_open_at_client = false;
        self.path.there(now_ms, 0)
    }
}

/// A side sees the end of a connection after a time, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkEnd {
    pub link: u64,
    pub at_home: bool,
    pub after_ms: u64,
}

/// Connections by their numbers, each with its owner's data. One that both sides have seen the end of is forgotten.
#[derive(Debug)]
pub(crate) struct Links<T> {
    last: u64,
    links: BTreeMap<u64, (T, Link)>,
}

impl<T> Default for Links<T> {
    fn default() -> Links<T> {
        Links::numbered_after(0)
    }
}

impl<T> Links<T> {
    /// No connections. The first has the number after that.
    pub fn numbered_after(last: u64) -> Links<T> {
        Links { last, links: BTreeMap::new() }
    }

    /// A connection is made. Returns its number.
    pub fn make(&mut self, of: T) -> u64 {
        self.last += 1;
        self.links.insert(self.last, (of, Link::default()));
        self.last
    }

    /// A connection is made in the memory of one host. Returns its number.
    pub fn make_ring(&mut self, of: T) -> u64 {
        let number = self.make(of);
        self.links.get_mut(&number).into_iter().for_each(|(_, link)| link.is_ring = true);
        number
    }

    /// The owner's data of a connection that one of its sides has.
    pub fn get(&self, link: u64) -> Option<&T> {
        self.links.get(&link).map(|(of, _)| of)
    }

    /// The same where the connection of an arriving message is there for its receiver.
    pub fn receiving(&self, link: u64, now_ms: u64, at_home: bool) -> Option<&T> {
        self.links.get(&link).filter(|(_, link)| link.is_open(now_ms, at_home)).map(|(of, _)| of)
    }

    /// True if the home has seen no end of a connection.
    pub fn is_open_at_home(&self, link: u64) -> bool {
        self.links.get(&link).is_some_and(|(_, link)| link.is_open_at_home)
    }

    /// The connections made before this one that the home has, of owners that `is_meant` admits.
    pub fn older_at_home(&self, link: u64, is_meant: impl Fn(&T) -> bool) -> Vec<u64> {
        let older = self.links.range(..link).filter(|(_, (of, link))| link.is_open_at_home && is_meant(of));
        older.map(|(number, _)| *number).collect()
    }

    /// After how many milliseconds a message that is sent at this moment arrives, if it does.
    pub fn arrival(&mut self, link: u64, now_ms: u64, delay_ms: u64, to_home: bool) -> Option<u64> {
        self.links.get_mut(&link)?.1.arrival(now_ms, delay_ms, to_home)
    }

    fn pick(&self, dice: &mut Dice) -> Option<u64> {
        let whole: Vec<u64> =
            self.links.iter().filter(|(_, (_, link))| link.is_whole() && !link.is_ring).map(|(number, _)| *number).collect();
        if whole.is_empty() { None } else { Some(dice.pick(&whole)) }
    }

    /// Stalls a connection: nothing passes for one of these times; nothing is lost. Returns false where there is none.
    pub fn stall_one(&mut self, now_ms: u64, lasts_ms: &[u64], dice: &mut Dice) -> bool {
        let Some((_, link)) = self.pick(dice).and_then(|number| self.links.get_mut(&number)) else { return false };
        link.path.stall(now_ms + dice.pick(lasts_ms));
        true
    }

    /// A connection breaks though both of its ends live.
    pub fn break_one(&mut self, now_ms: u64, dice: &mut Dice) -> Option<[LinkEnd; 2]> {
        self.pick(dice).map(|link| self.break_at(link, now_ms, dice))
    }

    /// A connection breaks that the world names.
    pub fn break_at(&mut self, link: u64, now_ms: u64, dice: &mut Dice) -> [LinkEnd; 2] {
        self.cut(link, now_ms, dice);
        [true, false].map(|at_home| LinkEnd { link, at_home, after_ms: dice.pick(&SEEN_MS) })
    }

    /// From some message on, nothing that is under way arrives.
    fn cut(&mut self, link: u64, now_ms: u64, dice: &mut Dice) {
        let cut_ms = now_ms + dice.pick(&[0, 1, 20, 500]);
        self.links.get_mut(&link).into_iter().for_each(|(_, link)| link.cut(cut_ms));
    }

    /// From this moment on nothing that is under way arrives.
    pub fn reset(&mut self, link: u64, now_ms: u64) {
        self.links.get_mut(&link).into_iter().for_each(|(_, link)| link.cut(now_ms));
    }

    /// A client dies. The kernel closes its connection behind what it had sent, or the host is gone with what was under way (`is_cut`).
    pub fn end_at_client(&mut self, link: u64, is_cut: bool, now_ms: u64, dice: &mut Dice) -> Option<LinkEnd> {
        if is_cut {
            self.cut(link, now_ms, dice);
        }
        let rest = self.links.get_mut(&link)?.1.end_at_client(now_ms);
        Some(LinkEnd { link, at_home: true, after_ms: rest + dice.pick(&CLOSED_MS) })
    }

    /// A home has died: the clients of its connections notice, each at its time.
    pub fn lose_home(&mut self, now_ms: u64, dice: &mut Dice, is_its: impl Fn(&T) -> bool) -> Vec<LinkEnd> {
        let lost = self.older_at_home(u64::MAX, is_its);
        let lose = |link: u64| {
            self.cut(link, now_ms, dice);
            self.links.get_mut(&link).into_iter().for_each(|(_, link)| link.is_open_at_home = false);
            LinkEnd { link, at_home: false, after_ms: dice.pick(&SEEN_MS) }
        };
        lost.into_iter().map(lose).collect()
    }
}

impl<T: Clone> Links<T> {
    /// The home sees the end of a connection, or closes it. Its client hears of it: whoever closes a connection tells, if anything gets
    /// through. `None` where the home has closed it before.
    pub fn close_at_home(&mut self, link: u64) -> Option<(T, LinkEnd)> {
        let (of, found) = self.links.get_mut(&link)?;
        let was_open = std::mem::take(&mut found.is_open_at_home);
        let of = of.clone();
        self.forget(link);
        was_open.then_some((of, LinkEnd { link, at_home: false, after_ms: 0 }))
    }

    /// The client sees the end of a connection, or closes it, which its home sees in the end. `None` where it has closed it before.
    pub fn close_at_client(&mut self, link: u64, now_ms: u64, dice: &mut Dice) -> Option<(T, LinkEnd)> {
        let (of, found) = self.links.get_mut(&link)?;
        let was_open = std::mem::take(&mut found.is_open_at_client);
        let of = of.clone();
        let closed = was_open.then(|| {
            self.cut(link, now_ms, dice);
            (of, LinkEnd { link, at_home: true, after_ms: dice.pick(&CLOSED_MS) })
        });
        self.forget(link);
        closed
    }

    fn forget(&mut self, link: u64) {
        self.links.extract_if(link..=link, |_, (_, link)| !link.is_open_at_home && !link.is_open_at_client).for_each(drop);
    }
}
