//! The node bus with its retries, the memory behind a write buffer, and CK's directory check: tables 1 and 3.
//!
//! A read waits for the memory; a write ends when the write buffer has its data. CK delays the acceptance of an address by
//! its check, and the memory's own wait runs beside the check, so that a checked read costs a checked write plus one cycle.
//! A write-back of a block that is exclusive here costs CK one look. Repeated accesses are retried at address tenure until
//! the memory is free.
use super::timing::{Access, Timing};

/// Bus cycles from the processor's request to its answer, for an isolated access to own memory.
// FEATURE: EU-F1 EU-F2 EU-F17
pub fn response(timing: &Timing, access: Access, is_ck_active: bool) -> u64 {
    let moved = timing.transfer + timing.beats(access) - 1;
    let wait = match (access.is_write, access.is_burst) {
        (true, _) => 0,
        (false, true) => timing.wait_burst,
        (false, false) => timing.wait_single,
    };
    if !is_ck_active {
        return moved + wait;
    }
    if access.is_write && access.is_burst {
        return moved + timing.lookup;
    }
    let waits = if access.is_write { 0 } else { timing.lookup.max(wait.saturating_sub(timing.check)) };
    moved + timing.check + waits
}

/// Bus cycles during which a burst keeps the memory busy; a read's and a write's row cycle are the same.
pub fn memory_busy(timing: &Timing) -> u64 {
    (response(timing, Access::BURST_READ, false) + timing.recovery).saturating_sub(timing.restart)
}

/// The steady state of repeated bursts to own memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Mean bus cycles between two accepted addresses.
    pub interval: f64,
    /// Mean retries before an address is accepted.
    pub retries: f64,
}

impl Steady {
    /// Bytes per second of blocks of `block` bytes on a bus of `hertz`.
    pub fn bytes_per_second(&self, block: u64, hertz: u64) -> f64 {
        block as f64 * hertz as f64 / self.interval
    }
}

/// Runs `count` bursts one after the other and takes the mean.
// FEATURE: EU-F12
pub fn steady(timing: &Timing, is_write: bool, is_ck_active: bool, count: u64) -> Steady {
    let (mut now, mut retries) = (0, 0);
    let busy = memory_busy(timing);
    for _ in 0..count {
        let free_at = now + busy;
        let mut attempt = now + timing.next_address;
        if is_ck_active && !is_write {
            // CK retries the address until its check is done and lets it through in the very cycle the memory is free.
            now = (attempt + timing.check).max(free_at);
            continue;
        }
        let look = if is_ck_active { timing.lookup } else { 0 };
        attempt += look;
        while attempt < free_at {
            attempt += timing.address_tenure + timing.back_off + look;
            retries += 1;
        }
        now = attempt;
    }
    Steady { interval: now as f64 / count as f64, retries: retries as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::euphoria::parameters;

    #[test]
    fn responses_are_the_printed_cycles() {
        let timing = Timing::new(&parameters());
        let cycles = |active| Access::ALL.map(|access| response(&timing, access, active));
        assert_eq!(cycles(false), [13, 11, 20, 14]);
        assert_eq!(cycles(true), [25, 24, 28, 15]);
    }

    #[test]
    fn repeated_bursts_are_retried_twice_and_checks_waste_no_wait() {
        let timing = Timing::new(&parameters());
        assert_eq!(steady(&timing, false, false, 100), Steady { interval: 22.0, retries: 2.0 });
        assert_eq!(steady(&timing, true, false, 100), Steady { interval: 22.0, retries: 2.0 });
        assert_eq!(steady(&timing, false, true, 100).interval, 19.0);
        assert_eq!(steady(&timing, true, true, 100).interval, 25.0);
    }

    #[test]
    fn a_memory_without_wait_is_never_retried() {
        let timing = Timing { next_address: 40, ..Timing::new(&parameters()) };
        assert_eq!(steady(&timing, false, false, 10), Steady { interval: 40.0, retries: 0.0 });
    }
}
