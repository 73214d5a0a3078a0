//! Messages between lives: lost, repeated, delayed and overtaken, with couriers between.

use super::*;

impl PageWorld {
    /// Sends, or sends again.
    pub(super) fn transmit(&mut self, from: Life, to: Life, number: u64, parcel: &Parcel) {
        self.deliver(|| Event::Arrive { from, to, number, parcel: parcel.clone() });
    }

    pub(super) fn send(&mut self, from: Life, to: Life, parcel: Parcel) {
        if from == to {
            let after = self.dice.between(0, 2);
            return self.at(after, Event::Local { life: from, parcel });
        }
        let process = self.processes.get_mut(&from).expect("who sends lives");
        if process.lost.contains(&to) {
            if returns::is_page(&&parcel) {
                process.kept.entry(to).or_default().push(parcel);
            }
            return;
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
        self.say_farewells(life);
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
        if matches!(parcel.what, What::ToHome(_) | What::Leave) && parcel.home != to {
            return self.hear_of_before(from, to, parcel);
        }
        let Parcel { home, page, what, value } = parcel;
        let process = self.processes.get_mut(&to).expect("it lives");
        match what {
            What::Returned => self.on_returned(from, to, home),
            What::Leave => Err(format!("life {to} is left by {from}, which it never asked")),
            What::ToHome(message) => {
                let heard = process.directory.handle(HostId(from), page, message).map_err(|error| error.to_string())?;
                if heard == Heard::Acted && message.has_bytes() && from != to {
                    process.memory[page.0 as usize] = value.ok_or("a page without its bytes")?;
                }
                self.drain_home(to, page)
            }
            What::ToHost(message) => {
                if !process.mapped.contains_key(&home) {
                    // An extent that was given up: its home is gone, or another life, to which a page goes straight back.
                    let Some(version) = returns::passed_on(&message) else { return Ok(()) };
                    let Some(back) = process.back.get(&home).copied() else { return Ok(()) };
                    let what = What::ToHome(ToHome::WriteBack { version, keeps: false });
                    self.send(to, back, Parcel { home, page, what, value });
                    return Ok(());
                }
                self.hear(from, to, home, page, message, value)
            }
        }
    }
}
