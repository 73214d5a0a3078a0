//! Connections between nodes: made, broken, made anew and given up, with couriers that say again what was not confirmed. The machines are
//! those that nodes run: [`Dialing`], [`Courier`] and [`Answering`].
//!
//! Every node makes the connections that its own messages leave by. A message arrives as long as its receiver has the connection: in any
//! order, and perhaps twice. A connection that breaks takes with it what is under way, and each end notices at its own time. For a while a
//! live node cannot be reached; a try that failed may succeed after all, beside the next.

use super::{COORDINATOR, Defect, Event, Life, PageWorld, Parcel, Process};
use crate::check::{Check, check};
use hanare_protocol::id::Incarnation;
use hanare_protocol::limits::REACH_MS;
use hanare_protocol::page::dialing::Dialed;
use hanare_protocol::page::{Answering, Courier, Dialing, Receipt};

/// Time after [`REACH_MS`] that a node may still be dialed: a try and a pause.
const GIVE_UP_LATE_MS: u64 = 1_000;
/// A connection breaks with one of so many messages that a network without connections would lose.
const LOSSES_A_BREAK: u64 = 10;

/// A connection, by its number. Never given again.
pub(super) type ConnectionId = u64;

/// The messages of one life to another, and the connection that they leave by.
#[derive(Debug, Default)]
pub(super) struct PeerChannel {
    courier: Courier<Parcel>,
    answering: Answering,
    dialing: Dialing<ConnectionId>,
    /// Since when there is no connection, although one is wanted.
    unreached_ms: Option<u64>,
}

impl Process {
    /// Number of messages to a life that it may not have heard.
    pub(super) fn unconfirmed_count(&self, to: Life) -> usize {
        self.channels.get(&to).map_or(0, |channel| channel.courier.unconfirmed_count())
    }

    /// A life is over: what it may not have heard is void, but for the pages among it.
    pub(super) fn forget_channel(&mut self, to: Life) {
        let channel = self.channels.remove(&to);
        let unheard: Vec<Parcel> =
            channel.iter().flat_map(|channel| channel.courier.unconfirmed()).map(|(_, parcel)| parcel.clone()).collect();
        self.keep_unsent(unheard);
        self.connections.retain(|_, from| *from != to);
        self.heard.remove(&to);
    }

    /// Begins a new life of this node: its unsent messages are void, except the pages among them, and the old life hears nothing.
    pub(super) fn forget_channels(&mut self) {
        let all: Vec<Life> = self.channels.keys().copied().collect();
        all.into_iter().for_each(|to| self.forget_channel(to));
        self.connections.clear();
        self.heard.clear();
    }
}

impl PageWorld {
    pub(super) fn send(&mut self, from: Life, to: Life, parcel: Parcel) {
        let Some(parcel) = self.keep_for_reply(from, to, parcel) else { return };
        if from == to {
            // A leave is behind all that was said before.
            let after = if matches!(parcel.what, super::What::Leave) { 3 } else { self.dice.between(0, 2) };
            return self.at(after, Event::Local { life: from, parcel });
        }
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&from).expect("who sends lives");
        if process.lost.contains(&to) {
            return process.keep_unsent([parcel]);
        }
        let channel = process.channels.entry(to).or_default();
        let number = channel.courier.send(parcel.clone());
        let (place, wants) = (channel.dialing.place(), channel.dialing.want(now_ms));
        self.count("messages");
        if let Some(connection) = place {
            self.transmit(connection, (from, to), number, &parcel);
        }
        if wants {
            self.dial(from, to);
        }
    }

    /// Sends over a connection, which may break with it.
    fn transmit(&mut self, connection: ConnectionId, (from, to): (Life, Life), number: u64, parcel: &Parcel) {
        let (breaks, repeats) = (self.weather.loss / LOSSES_A_BREAK, self.weather.duplication);
        if self.dice.chance(breaks) {
            self.break_connection(connection, from, to);
        }
        let is_repeated = self.dice.chance(repeats);
        if is_repeated {
            self.count("messages duplicated");
        }
        for _ in 0..1 + u64::from(is_repeated) {
            let after = self.delay_ms();
            self.at(after, Event::Arrive { from, to, connection, number, parcel: parcel.clone() });
        }
    }

    pub(super) fn on_arrive(&mut self, (from, to): (Life, Life), connection: ConnectionId, number: u64, parcel: Parcel) -> Check {
        let Some(process) = self.processes.get_mut(&to).filter(|process| !process.lost.contains(&from)) else { return Ok(()) };
        if !process.connections.contains_key(&connection) {
            self.count("messages lost");
            return Ok(());
        }
        let is_new = process.heard.entry(from).or_default().hear(number);
        if is_new || self.has(Defect::HearTwice) { self.on_parcel(from, to, parcel) } else { Ok(()) }
    }

    /// A receipt comes back over a connection; one that has ended brings none.
    pub(super) fn on_receipt(&mut self, (from, to): (Life, Life), connection: ConnectionId, receipt: &Receipt) {
        let channel = self.processes.get_mut(&to).and_then(|process| process.channels.get_mut(&from));
        if let Some(channel) = channel.filter(|channel| channel.dialing.place() == Some(connection)) {
            channel.courier.confirm(receipt);
        }
    }

    /// A node begins a try to reach another.
    fn dial(&mut self, from: Life, to: Life) {
        let now_ms = self.now_ms;
        let Some(channel) = self.processes.get_mut(&from).and_then(|process| process.channels.get_mut(&to)) else { return };
        channel.unreached_ms.get_or_insert(now_ms);
        let after = self.dice.pick(&[0, 1, 20, 200]);
        self.count("tries to connect");
        self.at(after, Event::Tried { from, to });
    }

    /// True if a try to reach a life succeeds at this moment.
    fn is_reached(&self, from: Life, to: Life) -> bool {
        let is_cut = self.cuts.get(&(from, to)).is_some_and(|until_ms| self.now_ms < *until_ms);
        self.processes.contains_key(&to) && !self.still.contains_key(&to) && !is_cut
    }

    /// The outcome of a try.
    pub(super) fn on_tried(&mut self, from: Life, to: Life) -> Check {
        let (now_ms, is_taken_for_old) = (self.now_ms, self.has(Defect::TakeForOld));
        let mut is_reached = self.is_reached(from, to);
        let another = self.nodes[COORDINATOR].filter(|_| self.unseen.contains(&to));
        self.next_connection += 1;
        let (connection, never_gives_up) = (self.next_connection, self.has(Defect::DialForEver));
        let Some(channel) = self.processes.get_mut(&from).and_then(|process| process.channels.get_mut(&to)) else {
            return Ok(());
        };
        if let Some(another) = another {
            // The coordinator's next life answers where the one before was reached.
            let mut answering = channel.answering;
            let is_known = answering.hear(Incarnation(another.into()));
            if is_known && !is_taken_for_old {
                self.tell_of_another(from, to);
                return Ok(());
            }
            is_reached |= is_known;
        }
        let told_ms = channel.unreached_ms.filter(|_| never_gives_up).unwrap_or(now_ms);
        match channel.dialing.tried(is_reached.then_some(connection), told_ms) {
            Dialed::Up => self.on_up(from, to, connection),
            Dialed::Spare if is_reached => self.count("spare connections closed"),
            Dialed::Spare => {}
            Dialed::Again if self.has(Defect::GiveUpSoon) => return self.on_unreachable(from, to),
            Dialed::Again => {
                if self.dice.chance(3_000) {
                    let after = self.dice.between(100, 400);
                    self.at(after, Event::Tried { from, to });
                }
            }
            Dialed::Lost => return self.on_unreachable(from, to),
        }
        Ok(())
    }

    /// A connection is there: what was not confirmed goes over it.
    fn on_up(&mut self, from: Life, to: Life, connection: ConnectionId) {
        self.count("connections made");
        if let Some(process) = self.processes.get_mut(&to) {
            process.connections.insert(connection, from);
        }
        let Some(channel) = self.processes.get_mut(&from).and_then(|process| process.channels.get_mut(&to)) else { return };
        let is_first = channel.answering == Answering::default();
        channel.unreached_ms = None;
        channel.answering.hear(Incarnation(to.into()));
        let again: Vec<(u64, Parcel)> = channel.courier.unconfirmed().map(|(number, parcel)| (number, parcel.clone())).collect();
        if is_first || !self.has(Defect::SendOnce) {
            again.into_iter().for_each(|(number, parcel)| self.transmit(connection, (from, to), number, &parcel));
        }
    }

    /// A node was not reached for too long. No live one of this world is away for so long.
    fn on_unreachable(&mut self, from: Life, to: Life) -> Check {
        if self.still.contains_key(&from) {
            // Time went by while it stood still. It is about to begin anew.
            return Ok(());
        }
        check(self.dead.contains(&to), || format!("life {from} gives up life {to}, which lives"))?;
        self.count("nodes given up by those who dialed them");
        self.on_lost(from, to)
    }

    /// A connection breaks. Each end notices later.
    fn break_connection(&mut self, connection: ConnectionId, from: Life, to: Life) {
        for life in [from, to] {
            let after = self.dice.pick(&[0, 1, 50, 500]);
            self.at(after, Event::Ended { life, connection });
        }
    }

    /// A node notices that a connection has ended.
    pub(super) fn on_ended(&mut self, life: Life, connection: ConnectionId) {
        let now_ms = self.now_ms;
        let Some(process) = self.processes.get_mut(&life) else { return };
        process.connections.remove(&connection);
        let broken =
            process.channels.iter_mut().find_map(|(to, channel)| channel.dialing.ended(connection, now_ms).then_some(*to));
        if let Some(to) = broken {
            self.count("connections that broke");
            self.dial(life, to);
        }
    }

    /// The connections to a life that is over end; of some ends the network says nothing.
    pub(super) fn end_connections_to(&mut self, gone: Life, is_always_told: bool, (from_ms, to_ms): (u64, u64)) {
        for other in self.others(gone) {
            let Some(connection) = self.processes[&other].channels.get(&gone).and_then(|channel| channel.dialing.place()) else {
                continue;
            };
            if is_always_told || self.dice.chance(5_000) {
                let after = self.dice.between(from_ms, to_ms);
                self.at(after, Event::Ended { life: other, connection });
            }
        }
    }

    /// A connection breaks, and for a while no other can be made that way.
    pub(super) fn cut(&mut self, from: Life, to: Life) {
        let Some(connection) = self.processes[&from].channels.get(&to).and_then(|channel| channel.dialing.place()) else {
            return;
        };
        let until_ms = self.now_ms + self.dice.pick(&[0, 300, 1_000, 2_000]);
        self.note(format!("{from} does not reach {to} until {until_ms} ms"));
        self.count("ways that were cut");
        self.cuts.insert((from, to), until_ms);
        self.break_connection(connection, from, to);
    }

    /// Time passes: who could not be reached is dialed again, and what was heard is confirmed.
    pub(super) fn tick_channels(&mut self, life: Life) -> Check {
        let (now_ms, dials_once) = (self.now_ms, self.has(Defect::DialOnce));
        let is_still = self.still.contains_key(&life);
        let process = self.processes.get_mut(&life).expect("it lives");
        let mut due = Vec::new();
        for (to, channel) in &mut process.channels {
            let away_ms = channel.unreached_ms.map_or(0, |since_ms| now_ms - since_ms);
            let is_late = away_ms > REACH_MS + GIVE_UP_LATE_MS && !is_still;
            check(!is_late, || format!("life {life} has not reached life {to} for {away_ms} ms, and does not give it up"))?;
            if !dials_once && channel.dialing.is_due(now_ms) {
                due.push(*to);
            }
        }
        let mut receipts = Vec::new();
        // The newest connection of a life is the one that it speaks by.
        for (connection, from) in process.connections.iter().rev() {
            receipts.extend(process.heard.get_mut(from).and_then(Courier::receipt).map(|receipt| (*connection, *from, receipt)));
        }
        due.into_iter().for_each(|to| self.dial(life, to));
        for (connection, to, receipt) in receipts {
            let after = self.delay_ms();
            self.at(after, Event::Receipt { from: life, to, connection, receipt });
        }
        Ok(())
    }
}
