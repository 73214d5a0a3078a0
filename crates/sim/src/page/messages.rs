//! Effects of a message between two lives; and a life's repeated acts.

use super::*;

impl PageWorld {
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
        self.tick_channels(life)
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
            What::Returned { share, takes } => self.on_returned((from, to), home, (by, share), takes),
            What::HostGone if process.is_called(home, by) => self.with_host(to, home, |rules, place, outputs| {
                rules.on_host_gone(place, 0, outputs);
                Ok(())
            }),
            What::HostGone => Ok(()),
            What::ToHome(message) => {
                let Some(host) = process.sharer_of(by) else { return Ok(()) };
                if process.returning.is_some() {
                    return self.hear_in_return(to, host, page, (message, value));
                }
                let is_move = match message {
                    ToHome::Request { access, .. } => !process.directory.is_free_for(page, host, access),
                    _ => false,
                };
                let heard = process.directory.handle(host, page, message).map_err(|error| error.to_string())?;
                if heard == Heard::Acted && message.has_bytes() && host != OWN {
                    process.memory[page.0 as usize] = value.ok_or("a page without its bytes")?;
                }
                if is_move {
                    self.on_move(to);
                }
                match message {
                    ToHome::Request { ticket, .. } if host != OWN && self.dice.chance(5_000) => {
                        self.reply_to((from, to), by, page, ticket)
                    }
                    _ => self.drain_home(to, page),
                }
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
