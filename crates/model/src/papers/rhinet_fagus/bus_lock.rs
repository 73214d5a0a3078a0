//! The defect of the PCI controller PCIH1: a host read of the interface during one of its transfers locks the bus.
//!
//! Messages arrive and are written to host memory burst by burst. A host that polls looks at a flag in its own memory;
//! a host that is interrupted must read the interface's interrupt status over the bus. On the fixed controller such a
//! read is tried again until the burst is over.
use super::transport::Rhinet;
use crate::engine::Engine;
use crate::outcome::{Cell, Outcome, Table};
use crate::parameters::Parameters;
use crate::sequence::Sequence;
use crate::station::Station;
use crate::time::Picos;

/// A way to learn of completions, on one of the two controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// By interrupt, else by polling host memory.
    pub has_interrupts: bool,
    /// With the controller's defect repaired.
    pub is_fixed: bool,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fate {
    /// When the bus locked, if it did.
    pub locked: Option<Picos>,
    /// Messages the host learned of.
    pub learned: u64,
    /// Mean time from a message in memory until the host knew.
    pub delay: Picos,
    /// Reads that met a transfer and were tried again.
    pub retried: u64,
}

enum Event {
    /// A message is at the interface.
    Message,
    /// A message is in host memory.
    Stored,
    /// The interrupt handler reads the interface's status.
    StatusRead { stored: Picos },
}

/// Receives messages until all are learned of or the bus has locked.
// FEATURE: RF-F18
pub fn receive(parameters: &Parameters, case: Case) -> Fate {
    let rhinet = Rhinet::new(parameters);
    let interval = parameters.picos("lock.interval").0;
    let read = Picos::from_cycles(parameters.count("lock.read"), parameters.hertz("pci.clock"));
    let interrupt = parameters.picos("host.interrupt");
    let poll = parameters.picos("host.poll") + parameters.picos("host.yield");
    let mut arrivals = Sequence::new(parameters.count("lock.seed"));
    let mut left = parameters.count("lock.messages");
    let mut bus = Station::new();
    let mut engine = Engine::new();
    let mut fate = Fate { locked: None, learned: 0, delay: Picos::ZERO, retried: 0 };
    let learn = |fate: &mut Fate, stored: Picos, known: Picos| {
        fate.learned += 1;
        fate.delay += known.since(stored);
    };
    engine.schedule(Picos::ZERO, Event::Message);
    while let Some((now, event)) = engine.pop() {
        match event {
            Event::Message => {
                engine.schedule(bus.take(now, rhinet.dma(rhinet.page_bytes)).end, Event::Stored);
                left -= 1;
                if left > 0 {
                    engine.schedule(now + Picos(1 + arrivals.below(2 * interval)), Event::Message);
                }
            }
            Event::Stored if case.has_interrupts => engine.schedule(now + interrupt, Event::StatusRead { stored: now }),
            Event::Stored => learn(&mut fate, now, now + poll),
            Event::StatusRead { stored } => {
                let is_transferring = bus.free_at() > now;
                if is_transferring && !case.is_fixed {
                    fate.locked = Some(now);
                    break;
                }
                // Between two bursts the read gets the bus.
                let wait = if is_transferring { rhinet.burst } else { Picos::ZERO };
                fate.retried += u64::from(is_transferring);
                learn(&mut fate, stored, now + wait + read);
            }
        }
    }
    fate.delay = Picos(fate.delay.0 / fate.learned.max(1));
    fate
}

/// The four combinations of polling or interrupts and the controller as built or repaired.
pub fn bus_lock(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let columns = [
        ("completion by", ""),
        ("PCIH1", ""),
        ("messages learned of", "count"),
        ("bus locked after", "ms"),
        ("mean delay", "us"),
        ("reads tried again", "count"),
    ];
    let mut table = Table::new(format!("Receiving {} messages of a page", parameters.count("lock.messages")), &columns);
    for has_interrupts in [false, true] {
        for is_fixed in [false, true] {
            let fate = receive(parameters, Case { has_interrupts, is_fixed });
            let locked: Cell = fate.locked.map_or("never".into(), |at| at.as_ms().into());
            table.row(vec![
                if has_interrupts { "interrupt" } else { "polling" }.into(),
                if is_fixed { "repaired" } else { "as built" }.into(),
                fate.learned.into(),
                locked,
                fate.delay.as_us().into(),
                fate.retried.into(),
            ]);
            if has_interrupts && !is_fixed {
                outcome.headline("messages until the lock", "count", fate.learned as f64);
            }
        }
    }
    outcome.tables.push(table);
    outcome.note("Which is why the paper polls: an interrupt handler must read the interface's status, and the next message may be under way.");
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn only_interrupts_on_the_defective_controller_lock() {
        for has_interrupts in [false, true] {
            for is_fixed in [false, true] {
                let fate = receive(&parameters(), Case { has_interrupts, is_fixed });
                assert_eq!(fate.locked.is_some(), has_interrupts && !is_fixed, "{has_interrupts} {is_fixed}");
                if fate.locked.is_none() {
                    assert_eq!(fate.learned, parameters().count("lock.messages"));
                }
            }
        }
    }

    #[test]
    fn a_lone_message_never_locks() {
        let alone = parameters().with("lock.messages", 1.0);
        let fate = receive(&alone, Case { has_interrupts: true, is_fixed: false });
        assert_eq!((fate.locked, fate.learned), (None, 1));
    }
}
