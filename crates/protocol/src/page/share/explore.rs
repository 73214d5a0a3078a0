//! Every order of what a host and the homes of a region say to each other, by stateright.
//!
//! One host with two programs, and two homes of one page each. The machines are those that run: [`Sharing`], [`Guests`]. Messages keep
//! their order on each way and arrive once; those that were under way when a node was taken for lost arrive or do not. Programs
//! map and unmap the region at any time, store, or end. A home refuses a program, or gives fewer rights, or lets it wait for a while. A home is lost for good, or only away: it comes back, the
//! host hears of it before or after, or does without the host. The region may be given up at any moment.
//!
//! What a host has of a home is one number: what it stored last, if it owns the page. Held in every state:
//!
//! - a program is in the region only while each home that is not lost knows its host;
//! - what was stored lasts: when the host has let go of the region and said that all is kept, each home has it, or is lost for good;
//! - a home that begins anew has what was stored last, or knows that it is lost.
//!
//! When nothing is under way, nobody waits, and a home knows exactly the hosts that know it.
//!
//! The tests at the end put defects in, and expect a counterexample.

use super::guests::{Guests, Joiner};
use super::life::{Life, Over};
use super::lobby::{Lobby, Tried};
use super::sharing::{Action, Handed, MapRequest, Sharing};
use super::table::{HomePhase, Phase};
use crate::id::{ClientId, Epoch, Incarnation, NodeId, Rights};
use crate::page::hosts::HostId;
use stateright::{Checker, Model, Property};
use std::collections::{BTreeSet, VecDeque};

const OWN: HostId = HostId(0);
/// How long a region that is left waits for what programs keep, and a host that wants to join.
const PATIENCE_MS: u64 = 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Program(u64);

impl MapRequest for Program {
    fn client(&self) -> ClientId {
        ClientId(self.0)
    }

    fn rights(&self) -> Rights {
        Rights::Write
    }
}

/// What the host says to a home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ToHome {
    /// By grants of that epoch.
    Join {
        key: u64,
        epoch: u64,
    },
    /// A page that was granted is here.
    Done {
        share: u64,
    },
    WriteBack {
        share: u64,
        value: u8,
    },
    Leave {
        share: u64,
    },
    Forgot {
        share: u64,
    },
}

/// What a home says to the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ToHost {
    Joined { key: u64, answer: Option<(u64, bool)> },
    Left { key: u64 },
    Returned { key: u64, share: u64, takes: bool },
}

/// A home of one page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Home {
    guests: Guests,
    /// Whether it is a home in this moment; while it is silent nothing reaches it.
    is_silent: bool,
    is_dead: bool,
    epoch: u64,
    is_returning: bool,
    value: u8,
    /// Who may write the page, and whether that one has said that it does.
    owner: Option<(HostId, bool)>,
    is_lost: bool,
    /// What was stored last, wherever.
    last: u8,
    /// Hosts that wait to be let in: their keys, and the epochs of their grants.
    lobby: Lobby<(u64, u64)>,
}

/// What the host has of a home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Part {
    key: u64,
    owned: Option<u8>,
    to_home: VecDeque<ToHome>,
    to_host: VecDeque<ToHost>,
    /// Pages that a home that was lost may not have heard.
    unsent: Vec<ToHome>,
    /// What this host was when it handed over.
    handed: Vec<(u64, u64)>,
    /// The epoch whose end the host is to hear of.
    unheard: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// The region on the host, as long as there is one.
    sharing: Option<Sharing<Program, ()>>,
    homes: Vec<Home>,
    parts: Vec<Part>,
    /// Programs that map it.
    inside: BTreeSet<u64>,
    /// Programs that wait for an answer: to map, and to unmap.
    waiting: BTreeSet<u64>,
    unmapping: BTreeSet<u64>,
    drawn: u64,
    left: Left,
    wrong: Option<&'static str>,
}

/// How much of everything a run may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Left {
    maps: u8,
    stores: u8,
    ends: u8,
    refusals: u8,
    /// Joins that have to wait for commands under way.
    waits: u8,
    gives_up: u8,
    /// Homes that fall silent, and come back.
    silences: u8,
    deaths: u8,
    /// Hosts that a home does without.
    dismissals: u8,
    /// Times that this host is taken for lost.
    cuts: u8,
}

/// A defect that is put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Nothing,
    /// A host that does not know what it had says that all is home.
    Forgetting,
    /// A home that is back does not ask.
    Asking,
    /// A home that takes in a host that does not know it any more is not told.
    Stray,
    /// A host that has left goes on waiting to be let in.
    Waiting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Map(u64),
    Unmap(u64),
    /// A program ends without a word.
    End(u64),
    Store(usize),
    GiveUp,
    /// Pages that programs hold back are let go of, or it is too late.
    Turn {
        is_late: bool,
    },
    ToHome(usize),
    /// The home refuses.
    Refuse(usize),
    /// The home has commands under way, and lets a host wait.
    Wait(usize),
    /// The host that waits is tried once more; or it is too late, and the commands are under way still.
    Try {
        home: usize,
        is_late: bool,
    },
    ToHost(usize),
    /// A home falls silent.
    Silence(usize),
    Return(usize),
    /// A home that is back asks once more.
    Repeat(usize),
    Die(usize),
    /// The host hears that a home is lost.
    Hear(usize),
    Dismiss(usize),
    /// This host was taken for lost.
    Cut,
}

struct Exploration {
    homes: usize,
    left: Left,
    off: Off,
}

impl Home {
    fn is_owner(&self, host: HostId) -> bool {
        self.owner.is_some_and(|(owner, _)| owner == host)
    }
}

impl World {
    fn new(homes: usize, left: Left) -> World {
        let home = Home {
            guests: Guests::new(OWN),
            is_silent: false,
            is_dead: false,
            epoch: 1,
            is_returning: false,
            value: 0,
            owner: None,
            is_lost: false,
            last: 0,
            lobby: Lobby::new(PATIENCE_MS),
        };
        let part = Part {
            key: 0,
            owned: None,
            to_home: VecDeque::new(),
            to_host: VecDeque::new(),
            unsent: Vec::new(),
            handed: Vec::new(),
            unheard: None,
        };
        World {
            sharing: None,
            homes: vec![home; homes],
            parts: vec![part; homes],
            inside: BTreeSet::new(),
            waiting: BTreeSet::new(),
            unmapping: BTreeSet::new(),
            drawn: 0,
            left,
            wrong: None,
        }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    fn fail(&mut self, what: &'static str) {
        self.wrong.get_or_insert(what);
    }

    /// A program's turn has come.
    fn begin(&mut self, program: Program) {
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
    fn drain(&mut self, off: Off) {
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

    fn say_farewell(&mut self, home: usize, share: u64, has_all: bool, off: Off) {
        let part = &mut self.parts[home];
        let unsent = std::mem::take(&mut part.unsent);
        if has_all {
            part.to_home.extend(unsent);
        }
        let last = if has_all || off == Off::Forgetting { ToHome::Leave { share } } else { ToHome::Forgot { share } };
        part.to_home.push_back(last);
    }

    /// All that the host owns of a home goes there.
    fn empty(&mut self, home: usize) {
        let Some(share) = self.sharing.as_ref().and_then(|sharing| sharing.share(home)) else { return };
        let part = &mut self.parts[home];
        let Some(value) = part.owned.take() else { return };
        let page = ToHome::WriteBack { share, value };
        let is_away = self.sharing.as_ref().is_some_and(|sharing| sharing.home(home) == HomePhase::Lost);
        if is_away { part.unsent.push(page) } else { part.to_home.push_back(page) }
    }

    fn act(&mut self, step: Step, off: Off) {
        match step {
            Step::Map(program) => {
                self.left.maps -= 1;
                self.waiting.insert(program);
                self.begin(Program(program));
            }
            Step::Unmap(program) => {
                self.inside.remove(&program);
                self.unmapping.insert(program);
                let is_unused = self.inside.is_empty();
                if let Some(sharing) = &mut self.sharing {
                    sharing.unmap(ClientId(program), is_unused, 0);
                }
            }
            Step::End(program) => {
                self.left.ends -= 1;
                self.inside.remove(&program);
                self.waiting.remove(&program);
                if let Some(sharing) = &mut self.sharing {
                    sharing.on_client_gone(ClientId(program));
                }
            }
            Step::Store(home) => self.store(home),
            Step::GiveUp => {
                self.left.gives_up -= 1;
                self.inside.clear();
                if let Some(sharing) = &mut self.sharing {
                    sharing.give_up(0);
                }
            }
            Step::Turn { is_late } => self.turn(is_late),
            Step::ToHome(home) => {
                if let Some(message) = self.parts[home].to_home.pop_front() {
                    self.at_home(home, message, off);
                }
            }
            Step::Refuse(home) => {
                self.left.refusals -= 1;
                if let Some(ToHome::Join { key, .. }) = self.parts[home].to_home.pop_front() {
                    self.parts[home].to_host.push_back(ToHost::Joined { key, answer: None });
                }
            }
            Step::Wait(home) => {
                self.left.waits -= 1;
                if let Some(ToHome::Join { key, epoch }) = self.parts[home].to_home.pop_front() {
                    let lobby = &mut self.homes[home].lobby;
                    let waiting = lobby.come((key, epoch), 0);
                    assert_eq!(lobby.tried::<(), _>(waiting, Tried::NotYet(()), 0), None);
                }
            }
            Step::Try { home, is_late } => {
                for waiting in self.homes[home].lobby.due() {
                    if !is_late {
                        let (key, epoch) = waiting.who;
                        self.at_home(home, ToHome::Join { key, epoch }, off);
                        continue;
                    }
                    let answered = self.homes[home].lobby.tried::<(), _>(waiting, Tried::NotYet(()), PATIENCE_MS);
                    let ((key, _), _) = answered.expect("it was too late");
                    self.parts[home].to_host.push_back(ToHost::Joined { key, answer: None });
                }
            }
            Step::ToHost(home) => {
                if let Some(message) = self.parts[home].to_host.pop_front() {
                    self.at_host(home, message, off);
                }
            }
            Step::Silence(home) => {
                self.left.silences -= 1;
                (self.homes[home].is_silent, self.parts[home].unheard) = (true, Some(self.homes[home].epoch));
            }
            Step::Return(home) => self.come_back(home, off),
            Step::Repeat(home) => self.ask_again(home),
            Step::Die(home) => {
                self.left.deaths -= 1;
                let it = &mut self.homes[home];
                (it.is_dead, it.is_silent) = (true, true);
                self.parts[home].to_host.clear();
                self.parts[home].unheard = Some(self.homes[home].epoch);
            }
            Step::Hear(home) => {
                let part = &mut self.parts[home];
                let Some(epoch) = part.unheard.take() else { return };
                let over = Over::UpTo(Epoch(epoch));
                if self.sharing.as_ref().is_some_and(|sharing| !sharing.is_over(home, over)) {
                    return;
                }
                // What was under way may not have been heard: pages among it are kept.
                let under_way = std::mem::take(&mut part.to_home);
                part.unsent.extend(under_way.into_iter().filter(is_page));
                if let Some(sharing) = &mut self.sharing {
                    sharing.on_lost(home);
                }
            }
            Step::Dismiss(home) => self.dismiss(home),
            Step::Cut => self.cut(),
        }
        self.drain(off);
    }

    fn store(&mut self, home: usize) {
        self.left.stores -= 1;
        let Some(share) = self.sharing.as_ref().and_then(|sharing| sharing.share(home)) else { return };
        let it = &mut self.homes[home];
        let host = it.guests.iter().find(|(_, guest)| guest.share == share).map(|(host, _)| host);
        let Some(host) = host.filter(|_| !it.is_silent && !it.is_returning && !it.is_lost) else { return };
        it.owner = Some((host, false));
        it.last += 1;
        self.parts[home].owned = Some(it.last);
        self.parts[home].to_home.push_back(ToHome::Done { share });
    }

    fn turn(&mut self, is_late: bool) {
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
            if sharing.on_handed(home, !is_late, true, now_ms) != Handed::Waits {
                self.parts[home].handed.extend(share.filter(|_| !is_late).map(|share| (key, share)));
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

    fn at_home(&mut self, home: usize, message: ToHome, off: Off) {
        let share = self.draw();
        let it = &mut self.homes[home];
        let by = |guests: &Guests, share: u64| guests.iter().find(|(_, guest)| guest.share == share).map(|(host, _)| host);
        match message {
            ToHome::Join { key, epoch } => {
                let life = Life { epoch: Epoch(1), process: None };
                let who = Joiner { node: NodeId(1), life, address: String::new(), key, readers: None };
                if it.is_returning || it.epoch != epoch {
                    return self.parts[home].to_host.push_back(ToHost::Joined { key, answer: None });
                }
                for earlier in it.guests.earlier(&who) {
                    it.guests.lose(earlier);
                    if it.is_owner(earlier) {
                        (it.owner, it.is_lost) = (None, true);
                    }
                }
                let (_, share) = it.guests.join(who, (share, Rights::Write), false);
                self.parts[home].to_host.push_back(ToHost::Joined { key, answer: Some((share, true)) });
            }
            ToHome::WriteBack { share, value } => {
                if let Some(host) = by(&it.guests, share)
                    && it.is_owner(host)
                {
                    (it.value, it.owner) = (value, None);
                }
            }
            ToHome::Done { share } => {
                if let Some(host) = by(&it.guests, share)
                    && it.is_owner(host)
                {
                    it.owner = Some((host, true));
                }
            }
            ToHome::Leave { share } => self.leave(home, (share, false), off),
            ToHome::Forgot { share } => self.leave(home, (share, true), off),
        }
    }

    fn leave(&mut self, home: usize, (share, is_lost): (u64, bool), off: Off) {
        let it = &mut self.homes[home];
        let Some((host, key)) =
            it.guests.iter().find(|(_, guest)| guest.share == share).map(|(host, guest)| (host, guest.who.key))
        else {
            return;
        };
        if off != Off::Waiting {
            it.lobby.drop_those(|(waiting, _)| *waiting == key);
        }
        let had_page = it.is_owner(host);
        if it.is_returning {
            it.guests.answer(host);
            // Who leaves without a page that it never said to have did not get it.
            it.is_lost |= had_page && (is_lost || it.owner == Some((host, true)));
            if had_page {
                it.owner = None;
            }
            self.parts[home].to_host.push_back(ToHost::Left { key });
            return self.end_return(home);
        }
        if is_lost {
            drop(it.guests.lose(host))
        } else {
            drop(it.guests.leave(host, false))
        }
        it.is_lost |= had_page;
        if had_page {
            it.owner = None;
        }
        self.parts[home].to_host.push_back(ToHost::Left { key });
    }

    fn come_back(&mut self, home: usize, off: Off) {
        let it = &mut self.homes[home];
        (it.is_silent, it.is_returning, it.epoch) = (false, true, it.epoch + 1);
        // What it had to say is void.
        self.parts[home].to_host.clear();
        it.lobby.drop_those(|_| true);
        it.guests.begin_return(NodeId(0), NodeId(0));
        let awaited = it.guests.due(0);
        let messages: Vec<ToHost> = (awaited.iter().filter_map(|host| it.guests.get(*host)))
            .map(|guest| ToHost::Returned { key: guest.who.key, share: guest.share, takes: true })
            .collect();
        if off == Off::Asking {
            for host in awaited {
                it.guests.answer(host);
            }
            it.owner = None;
        } else {
            self.parts[home].to_host.extend(messages);
        }
        self.end_return(home);
    }

    fn ask_again(&mut self, home: usize) {
        let guests = &mut self.homes[home].guests;
        let due = guests.due(u64::MAX);
        let messages = due.iter().filter_map(|host| guests.get(*host)).map(|guest| (guest.who.key, guest.share));
        let messages = messages.map(|(key, share)| ToHost::Returned { key, share, takes: true });
        self.parts[home].to_host.extend(messages);
    }

    fn end_return(&mut self, home: usize) {
        let it = &mut self.homes[home];
        if it.guests.awaited().next().is_some() {
            return;
        }
        it.guests.end_return();
        it.is_returning = false;
        if !it.is_lost && it.value != it.last {
            self.fail("a home goes on with older bytes");
        }
    }

    /// A home could not reach the host, and does without it: it is told when it is reached again.
    fn dismiss(&mut self, home: usize) {
        self.left.dismissals -= 1;
        let it = &mut self.homes[home];
        let all: Vec<HostId> = it.guests.iter().map(|(host, _)| host).collect();
        for host in all {
            let Some(guest) = it.guests.lose(host) else { continue };
            it.lobby.drop_those(|(waiting, _)| *waiting == guest.who.key);
            if it.is_owner(host) {
                (it.owner, it.is_lost) = (None, true);
            }
            self.parts[home].to_host.push_back(ToHost::Returned { key: guest.who.key, share: guest.share, takes: false });
        }
    }

    /// All homes do without this host, and it is told.
    fn cut(&mut self) {
        self.left.cuts -= 1;
        for (it, part) in self.homes.iter_mut().zip(&mut self.parts) {
            let all: Vec<HostId> = it.guests.iter().map(|(host, _)| host).collect();
            for host in all {
                if !it.guests.answer(host) {
                    it.guests.lose(host);
                }
                it.is_lost |= it.is_owner(host);
            }
            it.owner = None;
            it.lobby.drop_those(|_| true);
            part.to_home.clear();
            part.to_host.clear();
            part.unsent.clear();
            part.owned = None;
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.begin_anew(0..self.homes.len());
            sharing.fail(());
        }
        for home in 0..self.homes.len() {
            if self.homes[home].is_returning {
                self.end_return(home);
            }
        }
    }

    fn at_host(&mut self, home: usize, message: ToHost, off: Off) {
        match message {
            ToHost::Joined { key, answer } => {
                let sharing = self.sharing.as_mut().filter(|_| self.parts[home].key == key);
                let is_known = match (sharing, answer) {
                    (Some(sharing), Some((share, _))) => sharing.on_accepted(home, Incarnation(1), (share, Rights::Write)),
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
                    let is_handed = self.parts[home].handed.contains(&(key, share));
                    return self.say_farewell(home, share, is_handed, off);
                };
                if !takes {
                    self.parts[home].owned = None;
                    sharing.fail(());
                }
                sharing.on_returned(home, share, takes, 0);
            }
        }
    }

    /// Nothing is under way, and all that can be done by itself is.
    fn is_quiet(&self) -> bool {
        let is_idle = |part: &Part| part.to_home.is_empty() && part.to_host.is_empty() && part.unheard.is_none();
        let may_turn = self.sharing.as_ref().is_some_and(|sharing| sharing.may_empty() || sharing.handing().next().is_some());
        self.parts.iter().all(is_idle)
            && !may_turn
            && self.homes.iter().all(|home| home.is_dead || home.lobby.is_empty())
            && self.homes.iter().all(|home| home.is_dead || !home.is_returning)
            && self.homes.iter().all(|home| home.is_dead || !home.is_silent)
    }

    fn judge(&mut self) {
        if !self.is_quiet() {
            return;
        }
        if !self.waiting.is_empty() || !self.unmapping.is_empty() {
            return self.fail("a program waits for nothing");
        }
        if self.sharing.as_ref().is_some_and(|sharing| sharing.phase() != Phase::Rest) {
            return self.fail("a region waits for nothing");
        }
        for home in 0..self.homes.len() {
            if self.homes[home].is_dead {
                continue;
            }
            let share = self.sharing.as_ref().and_then(|sharing| sharing.share(home));
            let known: Vec<u64> = self.homes[home].guests.iter().map(|(_, guest)| guest.share).collect();
            if known != Vec::from_iter(share) {
                return self.fail("a home knows a host that does not know it, or the other way round");
            }
        }
    }
}

fn is_page(message: &ToHome) -> bool {
    matches!(message, ToHome::WriteBack { .. })
}

impl Model for Exploration {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.homes, self.left)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong.is_some() {
            return;
        }
        let left = &world.left;
        for program in 1..=2 {
            let is_inside = world.inside.contains(&program);
            let waits = world.waiting.contains(&program) || world.unmapping.contains(&program);
            if !is_inside && !waits && left.maps > 0 {
                steps.push(Step::Map(program));
            }
            if is_inside {
                steps.push(Step::Unmap(program));
            }
            if left.ends > 0 && (is_inside || world.waiting.contains(&program)) {
                steps.push(Step::End(program));
            }
        }
        if let Some(sharing) = &world.sharing {
            if left.gives_up > 0 && !world.inside.is_empty() {
                steps.push(Step::GiveUp);
            }
            let may_empty = sharing.may_empty();
            if may_empty || sharing.handing().next().is_some() {
                steps.push(Step::Turn { is_late: false });
                if world.parts.iter().any(|part| part.owned.is_some()) {
                    steps.push(Step::Turn { is_late: true });
                }
            }
            if left.cuts > 0 {
                steps.push(Step::Cut);
            }
        }
        for (home, it) in world.homes.iter().enumerate() {
            let part = &world.parts[home];
            if left.stores > 0 && !world.inside.is_empty() {
                steps.push(Step::Store(home));
            }
            if !part.to_host.is_empty() && !it.is_dead {
                steps.push(Step::ToHost(home));
            }
            if part.unheard.is_some() {
                steps.push(Step::Hear(home));
            }
            if it.is_dead {
                continue;
            }
            if it.is_silent {
                steps.push(Step::Return(home));
                continue;
            }
            if let Some(first) = part.to_home.front() {
                steps.push(Step::ToHome(home));
                if left.refusals > 0 && matches!(first, ToHome::Join { .. }) {
                    steps.push(Step::Refuse(home));
                }
                if left.waits > 0 && matches!(first, ToHome::Join { .. }) {
                    steps.push(Step::Wait(home));
                }
            }
            if !it.lobby.is_empty() {
                steps.extend([false, true].map(|is_late| Step::Try { home, is_late }));
            }
            if it.is_returning && part.to_home.is_empty() && part.to_host.is_empty() {
                steps.push(Step::Repeat(home));
            }
            if left.silences > 0 {
                steps.push(Step::Silence(home));
            }
            if left.deaths > 0 {
                steps.push(Step::Die(home));
            }
            if left.dismissals > 0 && !it.is_returning && !it.guests.is_empty() {
                steps.push(Step::Dismiss(home));
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.act(step, self.off);
        next.judge();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("agreed", |_, world: &World| world.wrong.is_none())]
    }
}

fn explore(homes: usize, left: Left, off: Off) -> (usize, Option<String>) {
    let checker = Exploration { homes, left, off }.checker().threads(2).spawn_bfs().join();
    let found = checker.discovery("agreed").map(|path| {
        let wrong = path.last_state().wrong.unwrap_or_default();
        let told = |(world, step): &(World, Option<Step>)| match step {
            Some(Step::ToHome(home)) => format!("  to home {home}: {:?}", world.parts[*home].to_home.front()),
            Some(Step::ToHost(home)) => format!("  from home {home}: {:?}", world.parts[*home].to_host.front()),
            other => format!("  {other:?}"),
        };
        let steps: Vec<String> = path.into_vec().iter().map(told).collect();
        format!("{wrong}:\n{}\n", steps.join("\n"))
    });
    (checker.unique_state_count(), found)
}

#[track_caller]
fn holds(homes: usize, left: Left, at_least: usize) {
    let (states, found) = explore(homes, left, Off::Nothing);
    eprintln!("{states} states of a host and {homes} homes with {left:?}");
    assert!(found.is_none(), "{}", found.unwrap_or_default());
    assert!(states >= at_least, "only {states} states");
}

const NONE: Left =
    Left { maps: 0, stores: 0, ends: 0, refusals: 0, waits: 0, gives_up: 0, silences: 0, deaths: 0, dismissals: 0, cuts: 0 };

#[test]
fn a_host_that_comes_and_goes() {
    holds(1, Left { maps: 3, stores: 2, ends: 1, refusals: 1, ..NONE }, 7_000);
    holds(2, Left { maps: 2, stores: 1, ends: 1, refusals: 1, ..NONE }, 8_000);
}

#[test]
fn a_region_that_is_given_up_while_homes_are_asked() {
    holds(2, Left { maps: 3, stores: 1, gives_up: 1, ..NONE }, 15_000);
}

#[test]
fn a_host_that_waits_to_be_let_in() {
    holds(1, Left { maps: 3, stores: 1, waits: 2, ends: 1, ..NONE }, 1_000);
    holds(2, Left { maps: 2, stores: 1, waits: 1, gives_up: 1, ..NONE }, 5_000);
    holds(1, Left { maps: 2, stores: 1, waits: 1, silences: 1, cuts: 1, ..NONE }, 5_000);
    holds(1, Left { maps: 2, waits: 1, dismissals: 1, deaths: 1, ..NONE }, 1_000);
}

#[test]
fn a_home_that_is_taken_for_lost_and_comes_back() {
    holds(1, Left { maps: 2, stores: 1, silences: 2, ends: 1, ..NONE }, 200_000);
    holds(2, Left { maps: 2, stores: 1, silences: 1, ..NONE }, 400_000);
}

#[test]
fn a_home_that_is_lost_for_good() {
    holds(2, Left { maps: 2, stores: 1, deaths: 1, ..NONE }, 9_000);
    holds(1, Left { maps: 2, stores: 1, deaths: 1, silences: 1, ..NONE }, 20_000);
}

#[test]
fn a_home_that_does_without_its_host() {
    holds(1, Left { maps: 3, stores: 1, dismissals: 1, ..NONE }, 8_000);
    holds(2, Left { maps: 2, stores: 1, dismissals: 1, ..NONE }, 50_000);
}

#[test]
fn a_host_that_is_taken_for_lost() {
    holds(1, Left { maps: 3, stores: 1, cuts: 1, silences: 1, ..NONE }, 130_000);
    holds(2, Left { maps: 2, stores: 1, cuts: 1, gives_up: 1, ..NONE }, 14_000);
}

#[track_caller]
fn is_needed(off: Off, homes: usize, left: Left, wrong: &str) {
    let (_, found) = explore(homes, left, off);
    let found = found.unwrap_or_else(|| panic!("nothing goes wrong with {off:?}"));
    assert!(found.starts_with(wrong), "{off:?} leads to\n{found}");
}

#[test]
fn without_saying_that_it_forgot_a_host_lets_a_home_go_on_with_older_bytes() {
    let left = Left { maps: 1, stores: 1, silences: 1, gives_up: 1, ..NONE };
    is_needed(Off::Forgetting, 1, left, "a home goes on with older bytes");
}

#[test]
fn without_asking_a_home_that_is_back_goes_on_with_older_bytes() {
    is_needed(Off::Asking, 1, Left { maps: 1, stores: 1, silences: 1, ..NONE }, "a home goes on with older bytes");
}

#[test]
fn without_an_answer_to_stray_shares_a_home_keeps_a_host_that_is_gone() {
    is_needed(Off::Stray, 1, Left { maps: 2, dismissals: 1, ..NONE }, "a home knows a host that does not know it");
}

#[test]
fn a_host_that_has_left_and_waits_on_would_be_let_in_without_knowing() {
    let left = Left { maps: 2, stores: 1, waits: 1, silences: 1, cuts: 1, ..NONE };
    is_needed(Off::Waiting, 1, left, "a home knows a host that does not know it");
}
