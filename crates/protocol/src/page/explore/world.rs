//! The world that is explored: a home, and hosts with a thread each, between them what is under way.

use super::*;

#[allow(clippy::enum_variant_names, reason = "the names of what they carry")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum InFlight {
    /// Of a node, or of the thread of a slot, over its own connection.
    ToHome {
        from: u16,
        slot: Option<u16>,
        message: ToHome,
        value: Option<u8>,
    },
    ToHost {
        from: Option<u16>,
        to: u16,
        message: ToHost,
        value: Option<u8>,
    },
    /// The home's answer to a thread, over that thread's connection.
    ToThread {
        to: u16,
        slot: u16,
        message: ToHost,
        value: Option<u8>,
    },
}

impl InFlight {
    pub(super) fn sender(&self) -> Option<u16> {
        match self {
            InFlight::ToHome { from, .. } => Some(*from),
            InFlight::ToHost { from, .. } => *from,
            InFlight::ToThread { .. } => None,
        }
    }

    pub(super) fn receiver(&self) -> Option<u16> {
        match self {
            InFlight::ToHome { .. } => None,
            InFlight::ToHost { to, .. } | InFlight::ToThread { to, .. } => Some(*to),
        }
    }

    /// Whether it travels over the connection of a slot's thread.
    pub(super) fn is_of_thread(&self, host: u16, its: u16) -> bool {
        match self {
            InFlight::ToHome { from, slot: Some(slot), .. } => (*from, *slot) == (host, its),
            InFlight::ToThread { to, slot, .. } => (*to, *slot) == (host, its),
            _ => false,
        }
    }

    /// A place in an order that is the same however the messages came to be under way.
    pub(super) fn rank(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The thread of a host's program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Thread {
    Idle,
    /// It has claimed the page, and waits for the home's answer.
    Asks,
    /// The home has said that its node gets the page.
    Waits,
    /// It puts the page into the frame.
    Fills(Taking),
    /// It is counted in the word.
    Maps,
    /// It was killed, and neither its node nor the home may have noticed.
    Dead {
        is_detached: bool,
        is_closed: bool,
    },
    /// No slot is free for a program.
    None,
}

/// An answer that a thread takes in: what was granted, and the page's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Taking {
    pub(super) install: InstallSteps,
    pub(super) grant: Option<(Ticket, Version, Access)>,
    pub(super) value: Option<u8>,
}

/// A host: its node's rules, unless it is dead, and where its page is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Station {
    pub(super) rules: Option<Host<u8>>,
    pub(super) place: Plain<u8>,
    pub(super) slot: u16,
    pub(super) thread: Thread,
}

impl Station {
    pub(super) fn new(host: u16) -> Station {
        let place = Plain::new(HostId(host), host == OWN, 1, SLOTS);
        Station { rules: Some(Host::default()), place, slot: 1, thread: Thread::Idle }
    }

    pub(super) fn word(&self) -> PageWord {
        self.place.look(PAGE)
    }

    pub(super) fn state(&self) -> State {
        self.word().state().expect("nobody scribbles")
    }

    /// True if a program may see the frame's content: also while it is being taken, and as soon as something is put there.
    pub(super) fn may_load(&self) -> bool {
        self.rules.is_some() && !matches!(self.state(), State::Absent | State::Fetching | State::FetchingWrite)
    }

    pub(super) fn may_store(&self) -> bool {
        self.rules.is_some() && matches!(self.state(), State::Owned | State::TakingOwned)
    }

    /// The version of the copy or page that is here.
    pub(super) fn version(&self) -> Option<Version> {
        let is_filled = self.may_load() && !self.word().is_being_filled();
        is_filled.then(|| self.word().version())
    }

    /// A thread whose claim is over goes on.
    pub(super) fn settle(&mut self) {
        let word = self.word();
        if self.thread == Thread::Waits && !(word.is_claimed() && word.claimer() == self.slot) {
            self.thread = Thread::Idle;
        }
    }

    /// Another program comes, if a slot is free.
    pub(super) fn begin_program(&mut self) {
        let Some(rules) = &mut self.rules else { return };
        rules.settle_dead_slots(&self.place);
        let free = (1..SLOTS).find(|slot| rules.is_free(*slot..*slot + 1));
        (self.slot, self.thread) = free.map_or((0, Thread::None), |slot| (slot, Thread::Idle));
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) directory: Directory,
    pub(super) stations: Vec<Station>,
    pub(super) directs: Directs<u16>,
    /// What is under way, in the order of its ranks.
    pub(super) in_flight: Vec<(u64, InFlight)>,
    /// Hosts that died and that the home does not know to be dead.
    pub(super) unreported: Vec<u16>,
    /// Hosts that have not heard that another died: who, and of whom.
    pub(super) unheard: Vec<(u16, u16)>,
    /// The two hosts that were granted writing last.
    pub(super) writers: [u16; 2],
    /// The value that was stored last, and the number of all: each is another.
    pub(super) last: u8,
    pub(super) stored: u8,
    /// True if the extent has copies.
    pub(super) has_copies: bool,
    /// The newest version seen at home.
    pub(super) version: Version,
    pub(super) get_waits: bool,
    pub(super) put_waits: bool,
    pub(super) put_holds: bool,
    pub(super) left: Left,
    /// What went wrong on the way to this state.
    pub(super) wrong: Option<&'static str>,
}

impl World {
    pub(super) fn new(hosts: u16, left: Left, has_copies: bool) -> World {
        let mut stations: Vec<Station> = (0..hosts).map(Station::new).collect();
        stations[usize::from(OWN)].place.set_frame(PAGE, Some(0));
        World {
            directory: match has_copies {
                true => Directory::new(1, HostId(OWN)).with_copies(),
                false => Directory::new(1, HostId(OWN)),
            },
            stations,
            directs: Directs::default(),
            in_flight: Vec::new(),
            unreported: Vec::new(),
            unheard: Vec::new(),
            writers: [OWN, OWN],
            last: 0,
            stored: 0,
            has_copies,
            version: Version::FIRST,
            get_waits: false,
            put_waits: false,
            put_holds: false,
            left,
            wrong: None,
        }
    }

    pub(super) fn station(&self, host: u16) -> &Station {
        &self.stations[usize::from(host)]
    }

    pub(super) fn station_mut(&mut self, host: u16) -> &mut Station {
        &mut self.stations[usize::from(host)]
    }

    pub(super) fn is_dead(&self, host: u16) -> bool {
        self.station(host).rules.is_none()
    }

    pub(super) fn deaths(&self) -> usize {
        self.stations.iter().filter(|station| station.rules.is_none()).count()
    }

    /// The page at home.
    pub(super) fn at_home(&self) -> Option<u8> {
        self.station(OWN).place.frame(PAGE).copied()
    }

    pub(super) fn fail(&mut self, wrong: &'static str) {
        self.wrong.get_or_insert(wrong);
    }

    pub(super) fn post(&mut self, flight: InFlight) {
        if flight.receiver().is_some_and(|to| self.is_dead(to)) {
            return;
        }
        let rank = flight.rank();
        let at = self.in_flight.partition_point(|(other, _)| *other < rank);
        self.in_flight.insert(at, (rank, flight));
    }

    pub(super) fn deliver(&mut self, flight: InFlight, mode: Mode) {
        match flight {
            InFlight::ToHome { from, slot, message, value } => self.deliver_to_home(from, slot, message, value, mode),
            InFlight::ToHost { to, message, value, .. } => self.deliver_to_host(to, message, value, mode),
            InFlight::ToThread { to, message, value, .. } => self.answer(to, message, value, mode),
        }
    }

    pub(super) fn deliver_to_home(&mut self, from: u16, slot: Option<u16>, message: ToHome, value: Option<u8>, mode: Mode) {
        if mode.off == Off::Seen && matches!(message, ToHome::Request { .. }) {
            self.directory.forget(HostId(from));
        }
        let heard = self.directory.handle(HostId(from), PAGE, message);
        match heard {
            Ok(Heard::Acted) if message.has_bytes() && from != OWN => self.station_mut(OWN).place.set_frame(PAGE, value),
            Ok(_) => {}
            Err(_) => self.fail("the home hears nonsense"),
        }
        let again = heard.as_ref().ok().and_then(|heard| self.directs.on_message(HostId(from), PAGE, &message, *heard));
        let asks = match message {
            ToHome::Request { ticket, .. } if slot.is_some() && heard != Ok(Heard::Stale) => Some((from, ticket)),
            _ => None,
        };
        self.send_again(again);
        self.drain_home(mode, asks);
        // Without an answer at once, the thread's node gets the page.
        let is_answered = self.in_flight.iter().any(|(_, flight)| matches!(flight, InFlight::ToThread { to, .. } if *to == from));
        if slot.is_some_and(|_| !is_answered) && self.station(from).thread == Thread::Asks {
            self.station_mut(from).thread = Thread::Waits;
            self.station_mut(from).settle();
        }
    }

    /// What was granted to threads, and not acknowledged, goes to their nodes.
    pub(super) fn send_again(&mut self, all: impl IntoIterator<Item = Again>) {
        for Again { host, grant, .. } in all {
            let value = grant.has_bytes().then(|| self.at_home()).flatten();
            self.post(InFlight::ToHost { from: None, to: host.0, message: grant, value });
        }
    }

    pub(super) fn deliver_to_host(&mut self, to: u16, mut message: ToHost, value: Option<u8>, mode: Mode) {
        if self.is_dead(to) {
            return;
        }
        let station = self.station(to);
        match &mut message {
            ToHost::Invalidate { version, tell } if mode.off == Off::Floor && !station.may_load() => {
                let (version, from) = (*version, HostId(to));
                let flight = match tell {
                    Some(tell) => {
                        InFlight::ToHost { from: Some(to), to: tell.0, message: ToHost::Ack { from, version }, value: None }
                    }
                    None => InFlight::ToHome { from: to, slot: None, message: ToHome::Ack { version }, value: None },
                };
                return self.post(flight);
            }
            ToHost::Grant { awaits, .. } if mode.off == Off::Acks => *awaits = Hosts::NONE,
            ToHost::Forward { era, .. } if mode.off == Off::Era => *era = station.version().unwrap_or(*era),
            ToHost::Grant { has_bytes: true, .. } if to == OWN => self.fail("the home's own host is sent what lies in its frame"),
            _ => {}
        }
        self.with_node(to, mode, |rules, place, outputs| rules.on_message(place, PAGE, message, value, outputs));
    }

    /// The node of a host does something.
    pub(super) fn with_node(
        &mut self,
        host: u16,
        mode: Mode,
        act: impl FnOnce(&mut Host<u8>, &mut Plain<u8>, &mut Vec<HostOutput<u8>>) -> Result<(), Corrupt>,
    ) {
        let before = self.station(host).version();
        let was_owned = self.station(host).may_store().then_some(before).flatten();
        let mut outputs = Vec::new();
        let station = self.station_mut(host);
        let Some(rules) = &mut station.rules else { return };
        let mut acted = act(rules, &mut station.place, &mut outputs);
        while !mode.is_slow && acted == Ok(()) {
            match rules.turn(&mut station.place, &mut outputs) {
                Ok(true) => {}
                other => {
                    acted = other.map(drop);
                    break;
                }
            }
        }
        station.settle();
        if acted.is_err() {
            self.fail("a host hears nonsense");
        }
        self.see(host, before, was_owned);
        self.say(host, outputs);
    }

    /// A host stores a new value to the page that it has.
    pub(super) fn store(&mut self, host: u16) {
        self.stored += 1;
        self.last = self.stored;
        let last = self.last;
        self.station_mut(host).place.set_frame(PAGE, Some(last));
    }

    /// What became of a host's page: whoever becomes its owner stores.
    pub(super) fn see(&mut self, host: u16, before: Option<Version>, was_owned: Option<Version>) {
        let station = self.station(host);
        let after = station.version();
        let is_new = station.may_store() && after != was_owned;
        let frame = station.place.frame(PAGE).copied();
        if before.zip(after).is_some_and(|(before, after)| before.is_after(after)) {
            self.fail("a version goes back at a host");
        }
        if is_new {
            if frame != Some(self.last) {
                self.fail("a host begins to write what is not the last value");
            }
            self.store(host);
        }
    }

    pub(super) fn say(&mut self, from: u16, outputs: Vec<HostOutput<u8>>) {
        for say in outputs {
            let (flight, has_bytes) = match say {
                HostOutput::Home { message, bytes, .. } => {
                    let has_bytes = message.has_bytes();
                    (InFlight::ToHome { from, slot: None, message, value: bytes }, has_bytes == bytes.is_some())
                }
                HostOutput::Host { to, message, bytes, .. } => {
                    let has_bytes = message.has_bytes();
                    (InFlight::ToHost { from: Some(from), to: to.0, message, value: bytes }, has_bytes == bytes.is_some())
                }
                HostOutput::Flush { .. } => continue,
            };
            if !has_bytes {
                self.fail("a host sends what it has not");
            }
            self.post(flight);
        }
    }

    /// The outputs of the home. What it grants at once to the thread that `asks` goes there.
    pub(super) fn drain_home(&mut self, mode: Mode, asks: Option<(u16, Ticket)>) {
        while let Some(output) = self.directory.poll() {
            match output {
                Output::Send(to, _, message) => self.send_from_home(to, message, mode, asks),
                Output::Ready(_, GET) => {
                    self.get_waits = false;
                    if self.at_home() != Some(self.last) {
                        self.fail("a get reads what is not the last value");
                    }
                }
                Output::Ready(..) => {
                    (self.put_waits, self.put_holds) = (false, true);
                    if self.stations[1..].iter().any(Station::may_load) {
                        self.fail("a put writes while a host has the page");
                    }
                    self.store(OWN);
                }
                Output::Failed(_, face, _) => {
                    if self.deaths() == 0 || self.has_copies {
                        self.fail("a face is refused while all live");
                    }
                    match face {
                        GET => self.get_waits = false,
                        _ => self.put_waits = false,
                    }
                }
            }
        }
        let version = self.directory.version(PAGE);
        if self.version.is_after(version) {
            self.fail("a version goes back at home");
        }
        self.version = version;
    }

    pub(super) fn send_from_home(&mut self, to: HostId, message: ToHost, mode: Mode, asks: Option<(u16, Ticket)>) {
        let value = message.has_bytes().then(|| self.at_home()).flatten();
        let mut done = None;
        let mut answers = None;
        match &message {
            ToHost::Grant { ticket, version, access, awaits, firm, .. } => {
                if *access == Access::Write {
                    self.writers = [self.writers[1], to.0];
                    done = Some((to, *ticket, *version));
                }
                answers = Some(*ticket).filter(|_| awaits.is_empty());
                if *firm && asks == answers.map(|ticket| (to.0, ticket)) && asks.is_some() {
                    let again = self.directs.give(to, to.0, PAGE, *ticket, message.clone());
                    self.send_again(again);
                }
            }
            ToHost::Forward { .. } if self.has_copies => self.fail("a page passes its home by"),
            ToHost::Forward { access: Access::Write, to: next, ticket, era, .. } => {
                self.writers = [to.0, next.0];
                done = Some((*next, *ticket, era.next()));
            }
            ToHost::Refused { .. } if self.deaths() == 0 || self.has_copies => self.fail("a host is refused while all live"),
            ToHost::Refused { ticket, .. } => answers = Some(*ticket),
            ToHost::Ack { .. } if mode.off == Off::Vouching => return,
            ToHost::OwnerGone { .. } if mode.off == Off::Asking => return,
            _ => {}
        }
        let thread = answers.filter(|ticket| asks == Some((to.0, *ticket)));
        self.post(match thread {
            Some(ticket) => InFlight::ToThread { to: to.0, slot: ticket.slot, message, value },
            None => InFlight::ToHost { from: None, to: to.0, message, value },
        });
        if let Some((to, ticket, version)) = done.filter(|_| mode.off == Off::Done) {
            let _ = self.directory.handle(to, PAGE, ToHome::Done { ticket, version });
        }
    }

    /// What holds in a state, whatever led to it.
    pub(super) fn judge(&mut self) {
        let hosts = 0..self.stations.len() as u16;
        let readers: Vec<u16> = hosts.clone().filter(|host| self.station(*host).may_load()).collect();
        if hosts.clone().any(|host| self.station(host).may_store()) && readers.len() > 1 {
            self.fail("one host writes while another has the page");
        }
        if readers.iter().any(|host| self.station(*host).place.frame(PAGE) != Some(&self.last)) {
            self.fail("a host reads what is not the last value");
        }
        let is_hole = |host: &u16| *host == OWN || self.station(*host).place.frame(PAGE).is_none();
        if hosts.clone().any(|host| !self.station(host).may_load() && !is_hole(&host)) {
            self.fail("something stays in a frame");
        }
        if self.directory.phase(PAGE) == directory::Phase::Lost && !self.writers.iter().any(|host| self.is_dead(*host)) {
            self.fail("the page is lost though its writers live");
        }
        let is_quiet = self.in_flight.is_empty() && self.unreported.is_empty() && self.unheard.is_empty() && !self.put_holds;
        let goes_on = |station: &Station| {
            matches!(station.thread, Thread::Fills(_) | Thread::Maps | Thread::Dead { .. })
                || station.rules.as_ref().is_some_and(|rules| rules.may_turn(&station.place))
        };
        let waits = |station: &Station| match &station.rules {
            Some(rules) => {
                let is_claimed = station.word().is_claimed() || rules.is_taking();
                is_claimed || matches!(station.thread, Thread::Asks | Thread::Waits)
            }
            None => false,
        };
        let somebody_waits = self.get_waits || self.put_waits || self.directory.busy_count() > 0;
        if is_quiet && !self.stations.iter().any(goes_on) && (somebody_waits || self.stations.iter().any(waits)) {
            self.fail("somebody waits for nothing");
        }
    }
}
