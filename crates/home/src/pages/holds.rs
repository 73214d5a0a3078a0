//! Holds: pages that hosts of this node keep for a while although other hosts wait. Programs here work on them.

use super::Pages;
use super::host::PageHost;
use super::memory::PageMemory;
use super::request::HostKey;

impl<M: PageMemory> Pages<M> {
    /// A host may keep a page since a moment ago.
    pub(super) fn look_at_holds(&mut self, key: HostKey) {
        let until_us = self.hosts.get(&key).and_then(PageHost::holds_until_us);
        self.holds.extend(until_us.map(|until_us| (until_us, key)));
    }

    /// Gives what was kept for long enough.
    pub(super) fn end_holds(&mut self) {
        let now_us = self.now_us();
        while let Some((_, key)) = self.holds.first().filter(|(until_us, _)| *until_us <= now_us).copied() {
            self.holds.pop_first();
            self.with_host(key, |host, outputs| host.end_holds(now_us, outputs));
            self.look_at_holds(key);
            self.settle();
        }
    }
}
