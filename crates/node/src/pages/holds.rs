//! Pages that hosts of this node keep for a while, because their programs work on them, although other hosts wait for them.

use super::SharedRegions;
use super::host::Host;
use super::request::HostKey;
use std::time::Duration;

impl SharedRegions {
    /// The time, as rules are told it that count in microseconds.
    pub(super) fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// How long until a page is to be given, if one is kept.
    pub fn holds_for(&self) -> Option<Duration> {
        let (until_us, _) = self.holds.first()?;
        Some(Duration::from_micros(until_us.saturating_sub(self.now_us())))
    }

    /// A host may keep a page since a moment ago.
    pub(super) fn look_at_holds(&mut self, key: HostKey) {
        let until_us = self.hosts.get(&key).and_then(Host::holds_until_us);
        self.holds.extend(until_us.map(|until_us| (until_us, key)));
    }

    /// Gives what was kept for long enough.
    ///
    /// **Cost**: a look at the clock while something is kept; else nothing.
    pub fn end_holds(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        let now_us = self.now_us();
        while let Some((_, key)) = self.holds.first().filter(|(until_us, _)| *until_us <= now_us).copied() {
            self.holds.pop_first();
            self.with_host(key, |host, outputs| host.end_holds(now_us, outputs));
            self.look_at_holds(key);
            self.settle();
        }
    }
}
