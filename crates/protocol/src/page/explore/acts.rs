//! What happens in the world: threads that touch the page, programs that are killed, hosts that die.

use super::*;

impl World {
    /// A thread touches the page, and asks the home where it has to.
    pub(super) fn touch(&mut self, host: u16, access: Access, firm: bool) {
        let station = self.station_mut(host);
        let slot = station.slot;
        let (has, access) = match station.place.fault(PAGE, slot, access) {
            Ok(Fault::Fetch { access, .. }) => (None, access),
            Ok(Fault::Upgrade { has }) => (Some(has), Access::Write),
            Ok(Fault::Map(_)) => {
                station.thread = Thread::Maps;
                return;
            }
            Ok(Fault::Wait(_)) => {
                station.thread = Thread::Idle;
                return;
            }
            Err(_) => return self.fail("a thread finds nonsense"),
        };
        station.thread = Thread::Asks;
        let ticket = Ticket { slot, number: station.place.number(slot) };
        let message = ToHome::Request { ticket, access, has, firm };
        self.post(InFlight::ToHome { from: host, slot: Some(slot), message, value: None });
    }

    /// A thread's answer, taken in as in `client/shared/coherent/fetch.rs`.
    pub(super) fn answer(&mut self, host: u16, message: ToHost, value: Option<u8>, mode: Mode) {
        let station = self.station_mut(host);
        station.thread = Thread::Idle;
        let (answer, grant) = match message {
            ToHost::Grant { ticket, version, access, firm, .. } => {
                (Ruling::Granted { has_bytes: value.is_some(), firm }, Some((ticket, version, access)))
            }
            ToHost::Refused { reason: Refusal::Lost, .. } => (Ruling::Lost, None),
            _ => (Ruling::Refused, None),
        };
        self.take_in(host, Taking { install: InstallSteps::new(answer), grant, value }, mode);
    }

    /// Goes on with a reply until it is taken in, or the thread is about to publish the frame's content.
    fn take_in(&mut self, host: u16, mut taking: Taking, mode: Mode) {
        let before = self.station(host).version();
        let was_owned = self.station(host).may_store().then_some(before).flatten();
        let mut has_changed = false;
        loop {
            let station = self.station_mut(host);
            let (slot, place, install) = (station.slot, &mut station.place, &mut taking.install);
            let is_open = |place: &Plain<u8>| place.look(PAGE).is_asked_for() && place.look(PAGE).claimer() == slot;
            match (install.act(), taking.grant) {
                (Act::Fill, Some((_, version, access))) => {
                    let Ok(fill) = place.change(PAGE, |word| word.fill(slot, version, access)) else {
                        return self.fail("a thread finds nonsense");
                    };
                    install.on_fill(fill, is_open(place));
                }
                (Act::Put, Some(_)) => {
                    if mode.off != Off::Put {
                        place.set_frame(PAGE, taking.value);
                    }
                    install.on_put(true);
                    if mode.is_slow {
                        return station.thread = Thread::Fills(taking);
                    }
                }
                (act @ (Act::Publish | Act::Grant), Some((_, version, access))) => {
                    let installed = match act {
                        Act::Publish => place.change(PAGE, |word| word.filled(slot, version)),
                        _ => place.change(PAGE, |word| word.grant(slot, version, access)),
                    };
                    let Ok(installed) = installed else { return self.fail("a thread finds nonsense") };
                    install.on_installed(installed, is_open(place));
                    has_changed = true;
                    if act == Act::Publish && !matches!(installed, Installed::Here(_)) {
                        self.fail("somebody else fills the frame");
                    }
                }
                (Act::GiveUp, _) => {
                    if mode.off != Off::GiveUp && place.change(PAGE, |word| word.fail(slot)).is_ok_and(|failed| failed.is_some())
                    {
                        place.clear_slot(slot);
                    }
                    install.done();
                }
                (Act::Acknowledge, Some((ticket, version, _))) => {
                    install.done();
                    if std::mem::take(&mut has_changed) {
                        self.see(host, before, was_owned);
                    }
                    let message = ToHome::Done { ticket, version };
                    self.post(InFlight::ToHome { from: host, slot: Some(slot), message, value: None });
                }
                (Act::Break, _) => {
                    install.done();
                    self.close_session(host, slot, mode);
                }
                // It is mapped by the next touch.
                (Act::Map, _) => install.done(),
                (Act::End(end), grant) => {
                    if has_changed {
                        self.see(host, before, was_owned);
                    }
                    if let (End::Overtaken, Some((_, _, access))) = (end, grant) {
                        self.touch(host, access, true);
                    }
                    return;
                }
                (act, _) => unreachable!("{act:?} of what was not granted"),
            }
        }
    }

    /// A thread has put the page into the frame.
    pub(super) fn filled(&mut self, host: u16, mode: Mode) {
        let station = self.station_mut(host);
        let Thread::Fills(taking) = std::mem::replace(&mut station.thread, Thread::Idle) else { return };
        self.take_in(host, taking, mode);
    }

    pub(super) fn act(&mut self, step: Step, mode: Mode) {
        match step {
            Step::Deliver(at) => {
                let (_, flight) = self.in_flight.remove(at);
                self.deliver(flight, mode);
            }
            Step::Vanish(at) => drop(self.in_flight.remove(at)),
            Step::Touch(host, access) => {
                let before = self.left.maps;
                self.touch(host, access, false);
                match self.station(host).thread {
                    Thread::Maps => self.left.maps = before - 1,
                    _ => self.left.faults[usize::from(host)] -= 1,
                }
            }
            Step::Filled(host) => self.filled(host, mode),
            Step::Leave(host) => {
                let station = self.station_mut(host);
                station.thread = Thread::Idle;
                if station.place.leave(PAGE, station.slot).is_err() {
                    self.fail("a thread finds nonsense");
                }
                self.with_node(host, mode, |_, _, _| Ok(()));
            }
            Step::Turn(host) => self.with_node(host, mode, |rules, place, outputs| rules.turn(place, outputs).map(drop)),
            Step::Evict(host) => {
                self.left.evictions -= 1;
                self.with_node(host, mode, |rules, place, _| rules.evict(place, PAGE).map(drop));
            }
            Step::Flush(host) => {
                self.left.flushes -= 1;
                self.with_node(host, mode, |rules, place, outputs| {
                    rules.begin_flush(place, (1, 1), (1, false))?;
                    rules.turn(place, outputs).map(drop)
                });
                if self.station(host).state() == State::Owned {
                    self.store(host);
                }
            }
            Step::Get => {
                (self.left.gets, self.get_waits) = (self.left.gets - 1, true);
                self.directory.recall(PAGE, GET, Access::Read);
                self.drain_home(mode, None);
            }
            Step::Put => {
                (self.left.puts, self.put_waits) = (self.left.puts - 1, true);
                self.directory.recall(PAGE, PUT, Access::Write);
                self.drain_home(mode, None);
            }
            Step::Release => {
                self.put_holds = false;
                self.directory.release(PAGE, PUT);
                self.drain_home(mode, None);
            }
            Step::TakeOver(host) => {
                self.left.take_overs -= 1;
                let slot = self.station(host).slot;
                let slots = slot..slot + 1;
                self.with_node(host, mode, |rules, place, outputs| match mode.off {
                    Off::Alive => rules.part(place, slots, false, outputs),
                    _ => rules.take_over(place, slots, outputs),
                });
            }
            Step::Kill(_) | Step::Part(_) | Step::Close(_) => self.act_on_program(step, mode),
            Step::Die(_) | Step::Report(_) | Step::Hear(..) => self.act_on_death(step, mode),
        }
        self.judge();
    }

    /// A thread's connection to the home ends, with what is on its way on it.
    fn close_session(&mut self, host: u16, slot: u16, mode: Mode) {
        self.in_flight.retain(|(_, flight)| !flight.is_of_thread(host, slot));
        if mode.off != Off::Again {
            let again = self.directs.on_session_closed(host);
            self.send_again(again);
        }
    }

    /// A program dies; its node and the home notice each by itself.
    pub(super) fn act_on_program(&mut self, step: Step, mode: Mode) {
        let host = match step {
            Step::Kill(host) => {
                self.left.kills -= 1;
                self.station_mut(host).thread = Thread::Dead { is_detached: false, is_closed: false };
                return;
            }
            Step::Part(host) => {
                let slot = self.station(host).slot;
                self.with_node(host, mode, |rules, place, outputs| rules.part(place, slot..slot + 1, true, outputs));
                if let Thread::Dead { is_detached, .. } = &mut self.station_mut(host).thread {
                    *is_detached = true;
                }
                host
            }
            Step::Close(host) => {
                let slot = self.station(host).slot;
                self.close_session(host, slot, mode);
                if let Thread::Dead { is_closed, .. } = &mut self.station_mut(host).thread {
                    *is_closed = true;
                }
                host
            }
            _ => unreachable!("one of a program"),
        };
        let station = self.station_mut(host);
        if station.thread == (Thread::Dead { is_detached: true, is_closed: true }) {
            station.begin_program();
        }
    }

    /// A host dies; the home and the others hear of it.
    pub(super) fn act_on_death(&mut self, step: Step, mode: Mode) {
        match step {
            Step::Die(host) => {
                self.left.deaths -= 1;
                let at_home = self.at_home();
                let station = self.station_mut(host);
                (*station, station.rules, station.thread) = (Station::new(host), None, Thread::None);
                if host == OWN {
                    self.station_mut(OWN).place.set_frame(PAGE, at_home);
                }
                self.in_flight.retain(|(_, flight)| flight.receiver() != Some(host));
                self.unreported.push(host);
                self.unheard.retain(|(who, _)| *who != host);
                // Nobody is told of the home's own host: what it was to send lies at home.
                let live: Vec<u16> =
                    (0..self.stations.len() as u16).filter(|other| host != OWN && !self.is_dead(*other)).collect();
                self.unheard.extend(live.into_iter().map(|who| (who, host)));
            }
            Step::Hear(who, whom) => {
                self.unheard.retain(|other| *other != (who, whom));
                if mode.off != Off::Hearing {
                    self.with_node(who, mode, |rules, place, outputs| {
                        rules.on_host_gone(place, 0, outputs);
                        Ok(())
                    });
                }
            }
            Step::Report(host) => {
                self.unreported.retain(|other| *other != host);
                self.in_flight.retain(|(_, flight)| !matches!(flight, InFlight::ToHome { from, .. } if *from == host));
                self.directs.on_host_gone(HostId(host));
                if mode.off == Off::Loss {
                    let version = self.directory.version(PAGE);
                    let _ = self.directory.handle(HostId(host), PAGE, ToHome::WriteBack { version, keeps: false });
                }
                let version = self.directory.version(PAGE);
                let has_newest =
                    [version, version.next()].iter().any(|version| self.directory.may_put(PAGE, HostId(host), *version));
                if self.has_copies && has_newest {
                    self.last = self.at_home().unwrap_or_default();
                }
                self.directory.on_host_lost(HostId(host));
                self.drain_home(mode, None);
                if host == OWN {
                    // It comes again, and has nothing.
                    let at_home = self.at_home();
                    *self.station_mut(OWN) = Station::new(OWN);
                    self.station_mut(OWN).place.set_frame(PAGE, at_home);
                }
            }
            _ => unreachable!("one of a host"),
        }
    }
}
