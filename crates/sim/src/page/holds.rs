//! Pages that go to and fro: their homes let one host after another keep them for a while, and no host keeps one for longer.

use super::{Defect, Event, Extent, Life, Mapped, OWN, PageWorld};
use crate::check::{Check, check};
use hanare_protocol::limits::PAGE_HOLD_US;
use hanare_protocol::page::{HostId, ToHost};

impl PageWorld {
    pub(super) fn now_us(&self) -> u64 {
        self.now_ms * 1000
    }

    /// A host asked its home for a page that others have. For some seconds of each quarter of a minute homes find that pages go to and fro.
    pub(super) fn on_move(&mut self, life: Life) {
        let is_often = self.now_ms % 15_000 < 5_000;
        let (now_us, returns) = (self.now_us(), if is_often { 32 } else { 1 });
        if let Some(process) = self.processes.get_mut(&life) {
            (0..returns).for_each(|_| process.tenure.on_return(now_us));
        }
    }

    /// A home's message, with the time that an owner may keep a page that is to be given up.
    pub(super) fn held(&mut self, life: Life, to: HostId, message: ToHost) -> ToHost {
        let by = match &message {
            ToHost::Recall { .. } => OWN,
            ToHost::Forward { to, .. } => *to,
            _ => return message,
        };
        let now_us = self.now_us();
        let hold_us = self.processes.get_mut(&life).map_or(0, |process| process.tenure.on_demand(by, to, now_us));
        if hold_us > 0 {
            self.count("pages that might be kept");
        }
        message.held_for(hold_us)
    }

    /// A host that may keep a page looks at it when that is over.
    pub(super) fn look_at_holds(&mut self, life: Life, home: Extent) {
        let mapped = self.processes.get(&life).and_then(|process| process.mapped.get(&home));
        if let Some(until_us) = mapped.and_then(|mapped| mapped.rules.holds_until_us()) {
            let after_ms = until_us.saturating_sub(self.now_us()).div_ceil(1000);
            self.at(after_ms, Event::Look);
        }
    }

    /// Hosts that do not stand still give what they kept for long enough.
    pub(super) fn end_holds(&mut self) -> Check {
        if self.has(Defect::KeepOn) {
            return Ok(());
        }
        let now_us = self.now_us();
        for (life, home) in self.held_until(now_us) {
            self.count("pages kept for a while");
            self.with_host(life, home, |rules, place, outputs| rules.end_holds(place, now_us, outputs).map(drop))?;
            self.look_at_holds(life, home);
        }
        Ok(())
    }

    /// The hosts that keep pages whose time is over, but for those that stand still.
    fn held_until(&self, now_us: u64) -> Vec<(Life, Extent)> {
        let going = self.processes.iter().filter(|(life, _)| !self.still.contains_key(life));
        let mapped = going.flat_map(|(life, process)| process.mapped.iter().map(|(home, mapped)| (*life, *home, mapped)));
        let is_over = |mapped: &Mapped| mapped.rules.holds_until_us().is_some_and(|until_us| until_us <= now_us);
        mapped.filter(|(.., mapped)| is_over(mapped)).map(|(life, home, _)| (life, home)).collect()
    }

    /// No page is kept for longer than its host may, nor is one promised for longer.
    pub(super) fn judge_holds(&self) -> Check {
        let now_us = self.now_us();
        let late = self.held_until(now_us.saturating_sub(1000));
        check(late.is_empty(), || format!("pages are kept for too long by {late:?}"))?;
        let longest = now_us + u64::from(PAGE_HOLD_US);
        let mut mapped = self.processes.values().flat_map(|process| process.mapped.values());
        let is_bounded = mapped.all(|mapped| mapped.rules.holds_until_us().is_none_or(|until_us| until_us <= longest));
        check(is_bounded, || "a page is kept beyond its bound".to_owned())
    }
}
