//! Pages that another host waits for, and that are kept for a while because a program here works on them.
//!
//! The page's home sets the time for which its owner may keep it ([`super::super::hold_time`]). The host keeps it for at most
//! [`PAGE_HOLD_US`] in any case. It looks at the page when it is asked for it, and when it gives it. A page that did not change was kept in
//! vain. It is given at once the next 2 times, then 4, 8, ... So a page that hosts hand to each other, such as a flag, is hardly ever kept.
//!
//! A page that is kept stays as it was: its word is owned, and threads go on with it. A request for it counts as not yet arrived.

use super::{Host, HostMemory, HostOutput};
use crate::error::Corrupt;
use crate::limits::PAGE_HOLD_US;
use crate::page::message::{Page, ToHost};
use crate::page::word::State;
use std::collections::BTreeMap;

/// Most times that a page is given at once after a hold in vain, as a power of 2. So holds in vain cost little.
const LONGEST_SKIP_BITS: u8 = 10;

/// Most pages that are remembered as kept in vain: others are kept once more.
const KNOWN_VAIN: usize = 4096;

/// A page that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RetainedPage<B> {
    message: ToHost,
    /// Its bytes when it was asked for.
    was: B,
    until_us: u64,
}

/// A page that was kept in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Vain {
    /// Times in a row.
    bits: u8,
    /// Times that it is given at once.
    skips: u32,
}

/// The pages that a host keeps for a while.
///
/// **Cost**: the bytes of each page that is kept. 16 bytes for each that was kept in vain, of at most 4096.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holds<B> {
    kept: BTreeMap<Page, RetainedPage<B>>,
    vain: BTreeMap<Page, Vain>,
}

impl<B> Default for Holds<B> {
    fn default() -> Holds<B> {
        Holds { kept: BTreeMap::new(), vain: BTreeMap::new() }
    }
}

impl<B> Holds<B> {
    /// Messages on these pages are void.
    pub fn forget(&mut self, is_meant: &impl Fn(Page) -> bool) {
        self.kept.retain(|page, _| !is_meant(*page));
        self.vain.retain(|page, _| !is_meant(*page));
    }

    /// True if a page may be kept this time.
    fn may_keep(&mut self, page: Page) -> bool {
        match self.vain.get_mut(&page) {
            Some(vain) if vain.skips > 0 => {
                vain.skips -= 1;
                false
            }
            _ => !self.kept.contains_key(&page),
        }
    }

    /// A page was kept, in vain or not.
    fn learn(&mut self, page: Page, is_vain: bool) {
        if !is_vain {
            self.vain.remove(&page);
            return;
        }
        if self.vain.len() >= KNOWN_VAIN && !self.vain.contains_key(&page) {
            self.vain.pop_first();
        }
        let vain = self.vain.entry(page).or_default();
        vain.bits = (vain.bits + 1).min(LONGEST_SKIP_BITS);
        vain.skips = 1 << vain.bits;
    }
}

impl<B: Clone + PartialEq> Host<B> {
    /// [`Host::on_message`] at a moment of the driver's clock. A page that its home lets this host keep is kept if it may be of use.
    /// [`Host::end_holds`] follows at [`Host::holds_until_us`].
    ///
    /// **Cost**: beside that of the message, a read of the page where it is kept.
    pub fn on_message_at<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        (page, message, bytes): (Page, ToHost, Option<B>),
        now_us: u64,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        let (ToHost::Forward { era, hold_us, .. } | ToHost::Recall { era, hold_us, .. }) = message else {
            return self.on_message(place, page, message, bytes, outputs);
        };
        let word = place.look(page);
        let is_owned = word.state()? == State::Owned && word.version() == era && !self.is_held(page);
        if hold_us == 0 || !is_owned || !self.holds.may_keep(page) {
            return self.on_message(place, page, message, bytes, outputs);
        }
        // An owned page has a frame.
        let Some(was) = place.read(page) else { return self.on_message(place, page, message, bytes, outputs) };
        let until_us = now_us.saturating_add(hold_us.min(PAGE_HOLD_US).into());
        self.holds.kept.insert(page, RetainedPage { message, was, until_us });
        Ok(())
    }

    /// Until when the first of the pages is kept that are.
    pub fn holds_until_us(&self) -> Option<u64> {
        self.holds.kept.values().map(|kept| kept.until_us).min()
    }

    /// Goes on with the messages about pages that were kept for long enough. Returns whether there were any.
    pub fn end_holds<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        now_us: u64,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<bool, Corrupt> {
        let over: Vec<(Page, RetainedPage<B>)> = self.holds.kept.extract_if(.., |_, kept| kept.until_us <= now_us).collect();
        let any = !over.is_empty();
        for (page, RetainedPage { message, was, .. }) in over {
            let is_here = place.look(page).state()? == State::Owned;
            if is_here {
                let is_vain = place.read(page).is_some_and(|is| is == was);
                self.holds.learn(page, is_vain);
            }
            self.on_message(place, page, message, None, outputs)?;
        }
        Ok(any)
    }
}
