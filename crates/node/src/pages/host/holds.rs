//! Pages that this host keeps for a while although other hosts wait for them: the clock of [`Host::on_message`] tells how long.

use super::Host;
use crate::pages::outgoing::PageBytes;
use hanare_protocol::page::HostOutput;

impl Host {
    /// Until when the first of them is kept.
    pub fn holds_until_us(&self) -> Option<u64> {
        self.pages.as_ref().and_then(|pages| pages.rules.holds_until_us())
    }

    /// Gives those that were kept for long enough to those who wait.
    pub fn end_holds(&mut self, now_us: u64, outputs: &mut Vec<HostOutput<PageBytes>>) {
        self.with_rules(|rules, here| rules.end_holds(here, now_us, outputs));
    }
}
