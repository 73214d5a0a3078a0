//! The machines' outputs, acted on as a node's process does.

use super::*;
use hanare_protocol::Corrupt;

impl PageWorld {
    pub(super) fn drain_home(&mut self, life: Life, page: Page) -> Check {
        while let Some(output) = self.processes.get_mut(&life).and_then(|process| process.directory.poll()) {
            match output {
                Output::Send(to, page, message) => {
                    let message = self.held(life, to, message);
                    let process = &self.processes[&life];
                    let home = process.extent;
                    let Some(receiver) = process.peer(to) else { continue };
                    let named = match &message {
                        ToHost::Forward { to, .. } => process.peer(*to),
                        ToHost::Invalidate { tell, .. } => tell.and_then(|host| process.peer(host)),
                        _ => None,
                    };
                    let writer = match &message {
                        ToHost::Grant { access: Access::Write, .. } => Some(receiver),
                        ToHost::Forward { access: Access::Write, .. } => named,
                        _ => None,
                    };
                    let value = message.has_bytes().then(|| process.memory[page.0 as usize]);
                    if let Some(writer) = writer {
                        self.truths.get_mut(&(home, page)).expect("its home lives").writers.insert(writer.life);
                    }
                    let what = What::ToHost(message);
                    self.send(life, receiver.life, Parcel { home, page, what, value, by: receiver.key, peer: named });
                }
                Output::Ready(page, face) => self.on_ready(life, page, face)?,
                Output::Failed(page, face, refusal) => self.on_failed(life, page, face, refusal)?,
            }
        }
        match self.processes.get(&life).map(|process| process.extent) {
            Some(home) => self.judge(home, page),
            None => Ok(()),
        }
    }

    /// A message to a host: a thread takes what it was granted at its home, or the node acts on it.
    pub(super) fn hear(
        &mut self,
        from: Life,
        life: Life,
        home: Extent,
        page: Page,
        message: ToHost,
        value: Option<u64>,
    ) -> Check {
        if message.has_bytes() && value.is_none() {
            return Err("a page without its bytes".to_owned());
        }
        let is_from_home = self.processes[&life].shares.get(&home).is_some_and(|share| share.at == from);
        if is_from_home && self.fill_by_thread(life, home, page, &message, value) {
            return self.judge(home, page);
        }
        let word = self.processes[&life].mapped[&home].place.look(page);
        let is_grant = matches!(&message, ToHost::Grant { awaits, .. } if awaits.is_empty());
        let may_refuse = matches!(message, ToHost::Refused { .. } | ToHost::OwnerGone { .. });
        let now_us = self.now_us();
        self.with_host(life, home, |rules, place, outputs| rules.on_message_at(place, (page, message, value), now_us, outputs))?;
        self.look_at_holds(life, home);
        let is_same = self.processes[&life].mapped[&home].place.look(page) == word;
        if is_grant && is_same {
            self.count("messages overtaken");
        }
        if may_refuse && !is_same {
            self.count("faults refused");
            if self.life_of(home).is_some_and(|at| !self.dead.contains(&at)) {
                self.judge_refusal(home, page)?;
            }
        }
        self.judge(home, page)
    }

    /// The node of a host does something by its rules, takes what can be taken, and says what comes of it.
    pub(super) fn with_host(
        &mut self,
        life: Life,
        home: Extent,
        act: impl FnOnce(&mut Host<u64>, &mut Plain<u64>, &mut Vec<HostOutput<u64>>) -> Result<(), Corrupt>,
    ) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(Mapped { rules, place, .. }) = process.mapped.get_mut(&home) else { return Ok(()) };
        if process.extent == home {
            // Its frames are the bytes at home.
            (0..PAGE_COUNT).for_each(|page| place.set_frame(Page(page), Some(process.memory[page as usize])));
        }
        let owned = |place: &Plain<u64>| -> Vec<Option<Version>> {
            let words = (0..PAGE_COUNT).map(|page| place.look(Page(page)));
            words.map(|word| (word.state() == Ok(State::Owned)).then(|| word.version())).collect()
        };
        let (before, mut outputs) = (owned(place), Vec::new());
        let mut acted = act(rules, place, &mut outputs);
        while acted.is_ok() {
            match rules.turn(place, &mut outputs) {
                Ok(true) => {}
                other => {
                    acted = other.map(drop);
                    break;
                }
            }
        }
        acted.map_err(|corrupt| corrupt.to_string())?;
        let after = owned(place);
        self.free_threads(life, home);
        for (page, (before, after)) in before.into_iter().zip(after).enumerate() {
            if after.is_some() && after != before {
                self.on_owned(life, home, Page(page as u64))?;
            }
        }
        outputs.into_iter().try_for_each(|output| self.send_output(life, home, output))
    }

    /// A message of a host to its home, or to another host.
    fn send_output(&mut self, life: Life, home: Extent, output: HostOutput<u64>) -> Check {
        let process = &self.processes[&life];
        let (to, by, page, what, value) = match output {
            HostOutput::Home { page, message, bytes } => {
                check(bytes.is_some() == message.has_bytes(), || format!("life {life} says {message:?} without its page"))?;
                let Some(share) = process.shares.get(&home) else { return Ok(()) };
                let Some(by) = share.sharing.share(0) else { return Ok(()) };
                (share.at, by, page, What::ToHome(message), bytes)
            }
            HostOutput::Host { to, page, message, bytes } => {
                check(bytes.is_some() == message.has_bytes(), || format!("life {life} says {message:?} without its page"))?;
                let Some(peer) = process.mapped.get(&home).and_then(|mapped| mapped.peers.get(&to)) else { return Ok(()) };
                (peer.life, peer.key, page, What::ToHost(message), bytes)
            }
        };
        self.send(life, to, Parcel { home, page, what, value, by, peer: None });
        Ok(())
    }

    /// A page may be written: it is what was stored last, and somebody stores at once.
    fn on_owned(&mut self, life: Life, home: Extent, page: Page) -> Check {
        let (read, last) = (self.frame(life, home, page), self.truths.get(&(home, page)).map(|truth| truth.last));
        let Some(last) = last else { return Ok(()) };
        check(read == Some(last), || format!("life {life} begins to write {read:?} where {last} was stored last"))?;
        self.store(life, home, page);
        Ok(())
    }

    /// A home is lost: who waits for it is refused.
    pub(super) fn refuse_all(&mut self, life: Life, home: Extent) -> Check {
        let waits =
            |world: &PageWorld| world.processes[&life].threads.iter().flatten().filter(|waiting| waiting.home == home).count();
        let before = waits(self);
        self.with_host(life, home, |rules, place, _| {
            rules.on_home_lost(place, 0);
            Ok(())
        })?;
        (waits(self)..before).for_each(|_| self.count("faults refused"));
        Ok(())
    }
}
