//! Messages between lives: lost, repeated, delayed and overtaken, with couriers between.

use super::*;

impl PageWorld {
    /// Sends, or sends again.
    pub(super) fn transmit(&mut self, from: Life, to: Life, number: u64, parcel: &Parcel) {
        self.deliver(|| Event::Arrive { from, to, number, parcel: parcel.clone() });
    }

    pub(super) fn send(&mut self, from: Life, to: Life, parcel: Parcel) {
        if from == to {
            // A leave is behind all that was said before.
            let after = if matches!(parcel.what, What::Leave) { 3 } else { self.dice.between(0, 2) };
            return self.at(after, Event::Local { life: from, parcel });
        }
        let process = self.processes.get_mut(&from).expect("who sends lives");
        if process.lost.contains(&to) {
            return process.keep_unsent([parcel]);
        }
        let number = process.couriers.entry(to).or_default().send(parcel.clone());
        self.count("messages");
        self.transmit(from, to, number, &parcel);
    }

    pub(super) fn on_arrive(&mut self, from: Life, to: Life, number: u64, parcel: Parcel) -> Check {
        let Some(process) = self.processes.get_mut(&to).filter(|process| !process.lost.contains(&from)) else { return Ok(()) };
        let is_new = process.couriers.entry(from).or_default().hear(number);
        if is_new || self.has(Defect::HearTwice) { self.on_parcel(from, to, parcel) } else { Ok(()) }
    }

    pub(super) fn on_tick(&mut self, life: Life) -> Check {
        if !self.processes.contains_key(&life) {
            return Ok(());
        }
        self.at(TICK_MS, Event::Tick { life });
        self.tick_stages(life)?;
        self.try_again(life)?;
        self.let_leavers_go(life)?;
        self.go_on_leaving(life)?;
        self.ask_again(life);
        self.end_return(life)?;
        let process = self.processes.get_mut(&life).expect("just seen");
        let peers: Vec<Life> = process.couriers.keys().copied().collect();
        for to in peers {
            let process = self.processes.get_mut(&life).expect("it lives");
            let courier = process.couriers.get_mut(&to).expect("just listed");
            if let Some(receipt) = courier.receipt() {
                self.deliver(|| Event::Receipt { from: life, to, receipt: receipt.clone() });
            }
            if self.has(Defect::SendOnce) {
                continue;
            }
            // What was sent just now has hardly had the time to be confirmed: not all of it every time.
            let courier = &self.processes[&life].couriers[&to];
            let again: Vec<(u64, Parcel)> = courier.unconfirmed().map(|(number, parcel)| (number, parcel.clone())).collect();
            for (number, parcel) in again {
                if !self.is_rough || self.dice.chance(5_000) {
                    self.transmit(life, to, number, &parcel);
                }
            }
        }
        Ok(())
    }

    pub(super) fn on_parcel(&mut self, from: Life, to: Life, parcel: Parcel) -> Check {
        self.note(format!("{from} to {to}: page {} of {}: {:?} {:?}", parcel.page.0, parcel.home, parcel.what, parcel.value));
        let Parcel { home, page, what, value, by, peer } = parcel;
        let process = self.processes.get_mut(&to).expect("it lives");
        if what.is_for_home() && process.extent != home {
            return Err(format!("{from} takes {to} for the home of {home}"));
        }
        match what {
            What::Join => self.on_join(from, to, by),
            What::Joined(answer) => self.on_joined((from, to), home, by, answer),
            What::Leave => self.on_leave(to, by, true),
            What::Forgot => self.on_leave(to, by, false),
            What::Left => self.on_left(to, home, by),
            What::Returned(share) => self.on_returned((from, to), home, (by, share)),
            What::HostGone if process.is_called(home, by) => self.with_host(to, home, |rules, place, outputs| {
                rules.on_host_gone(place, 0, outputs);
                Ok(())
            }),
            What::HostGone => Ok(()),
            What::ToHome(message) => {
                let Some(host) = process.guest_of(by) else { return Ok(()) };
                if process.returning.is_some() {
                    return self.hear_in_return(to, host, page, (message, value));
                }
                let heard = process.directory.handle(host, page, message).map_err(|error| error.to_string())?;
                if heard == Heard::Acted && message.has_bytes() && host != OWN {
                    process.memory[page.0 as usize] = value.ok_or("a page without its bytes")?;
                }
                self.drain_home(to, page)
            }
            What::ToHost(message) if process.is_called(home, by) && process.mapped.contains_key(&home) => {
                let mapped = process.mapped.get_mut(&home).expect("just seen");
                mapped.peers.extend(peer.map(|peer| (peer.host, peer)));
                self.hear(from, to, home, page, message, value)
            }
            What::ToHost(message) => {
                // The extent was handed over: a page that was passed on goes straight back to its home.
                let Some(version) = returns::passed_on(&message) else { return Ok(()) };
                let Some((share, back)) = process.handed.home_of(by).map(|(share, at)| (share, *at)) else { return Ok(()) };
                let what = What::ToHome(ToHome::WriteBack { version, keeps: false });
                self.send(to, back, Parcel { home, page, what, value, by: share, peer: None });
                Ok(())
            }
        }
    }
}
