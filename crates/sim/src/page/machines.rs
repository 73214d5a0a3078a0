//! The machines' outputs, acted on as a node's process does.

use super::*;

impl World {
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

    pub(super) fn drain_host(&mut self, life: Life, home: Life) -> Check {
        loop {
            let process = self.processes.get_mut(&life).expect("it lives");
            let Some((copies, _)) = process.copies.get_mut(&home) else { return Ok(()) };
            let Some(output) = copies.poll() else { break };
            match output {
                host::Output::ToHome(page, message) => {
                    let value = message.has_bytes().then(|| self.frame(life, home, page)).flatten();
                    let to = self.processes[&life].back.get(&home).copied().unwrap_or(home);
                    self.send(life, to, Parcel { home, page, what: What::ToHome(message), value });
                }
                host::Output::ToHost(to, page, message) => {
                    let value = message.has_bytes().then(|| self.frame(life, home, page)).flatten();
                    self.send(life, to.0, Parcel { home, page, what: What::ToHost(message), value });
                }
                host::Output::Installed(page, access) => {
                    self.free_seats(life, home, page);
                    let (read, last) = (self.frame(life, home, page), self.truths.get(&(home, page)).map(|truth| truth.last));
                    if let (Some(last), Access::Write) = (last, access) {
                        check(read == Some(last), || {
                            format!("life {life} begins to write {read:?} where {last} was stored last")
                        })?;
                        self.store(life, home, page);
                    }
                    self.count("pages installed");
                }
                host::Output::Failed(page, _) => {
                    self.free_seats(life, home, page);
                    self.count("faults refused");
                    if !self.dead.contains(&home) {
                        self.judge_refusal(home, page)?;
                    }
                }
            }
        }
        // What is not here for loading is punched.
        if let Some((copies, frames)) = self.processes.get_mut(&life).expect("it lives").copies.get_mut(&home) {
            frames.retain(|page, _| !matches!(copies.phase(*page), host::Phase::Absent | host::Phase::Fetching));
        }
        Ok(())
    }
}
