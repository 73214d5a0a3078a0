//! The machines' outputs, acted on as a node's process does.

use super::*;
use hanare_protocol::Corrupt;

impl PageWorld {
    pub(super) fn drain_home(&mut self, life: Life, page: Page) -> Check {
        while let Some(output) = self.processes.get_mut(&life).and_then(|process| process.directory.poll()) {
            match output {
                Output::Send(to, page, message) => {
                    let writer = match &message {
                        ToHost::Grant { access: Access::Write, .. } => Some(to),
                        ToHost::Forward { access: Access::Write, to, .. } => Some(*to),
                        _ => None,
                    };
                    if let Some(writer) = writer {
                        self.truths.get_mut(&(life, page)).expect("its home lives").writers.insert(writer.0);
                    }
                    let value = message.has_bytes().then(|| self.processes[&life].memory[page.0 as usize]);
                    self.send(life, to.0, Parcel { home: life, page, what: What::ToHost(message), value });
                }
                Output::Ready(page, face) => self.on_ready(life, page, face)?,
                Output::Failed(page, face, _) => {
                    self.give_up(life, face);
                    self.count("commands refused");
                    self.judge_refusal(life, page)?;
                }
            }
        }
        self.judge(life, page)
    }

    /// A message to a host: a thread takes what it was granted at its home, or the node acts on it.
    pub(super) fn hear(&mut self, from: Life, life: Life, home: Life, page: Page, message: ToHost, value: Option<u64>) -> Check {
        if message.has_bytes() && value.is_none() {
            return Err("a page without its bytes".to_owned());
        }
        if from == home && self.fill_by_thread(life, home, page, &message, value) {
            return self.judge(home, page);
        }
        let word = self.processes[&life].mapped[&home].place.look(page);
        let is_grant = matches!(&message, ToHost::Grant { awaits, .. } if awaits.is_empty());
        let may_refuse = matches!(message, ToHost::Refused { .. } | ToHost::OwnerGone { .. });
        self.with_host(life, home, |rules, place, outputs| rules.on_message(place, page, message, value, outputs))?;
        let is_same = self.processes[&life].mapped[&home].place.look(page) == word;
        if is_grant && is_same {
            self.count("messages overtaken");
        }
        if may_refuse && !is_same {
            self.count("faults refused");
            if !self.dead.contains(&home) {
                self.judge_refusal(home, page)?;
            }
        }
        self.judge(home, page)
    }

    /// The node of a host does something by its rules, takes what can be taken, and says what comes of it.
    pub(super) fn with_host(
        &mut self,
        life: Life,
        home: Life,
        act: impl FnOnce(&mut Host<u64>, &mut Plain<u64>, &mut Vec<HostOutput<u64>>) -> Result<(), Corrupt>,
    ) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(Mapped { rules, place }) = process.mapped.get_mut(&home) else { return Ok(()) };
        if life == home {
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
        for say in outputs {
            let (to, page, what, value) = match say {
                HostOutput::Home { page, message, bytes } => {
                    check(bytes.is_some() == message.has_bytes(), || format!("life {life} says {message:?} without its page"))?;
                    (self.processes[&life].back.get(&home).copied().unwrap_or(home), page, What::ToHome(message), bytes)
                }
                HostOutput::Host { to, page, message, bytes } => {
                    check(bytes.is_some() == message.has_bytes(), || format!("life {life} says {message:?} without its page"))?;
                    (to.0, page, What::ToHost(message), bytes)
                }
            };
            self.send(life, to, Parcel { home, page, what, value });
        }
        Ok(())
    }

    /// A page may be written: it is what was stored last, and somebody stores at once.
    fn on_owned(&mut self, life: Life, home: Life, page: Page) -> Check {
        let (read, last) = (self.frame(life, home, page), self.truths.get(&(home, page)).map(|truth| truth.last));
        let Some(last) = last else { return Ok(()) };
        check(read == Some(last), || format!("life {life} begins to write {read:?} where {last} was stored last"))?;
        self.store(life, home, page);
        Ok(())
    }

    /// A home is lost: who waits for it is refused.
    pub(super) fn refuse_all(&mut self, life: Life, home: Life) -> Check {
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
