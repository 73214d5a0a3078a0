//! Pages of this host that make room for others.

use super::{HostFrames, HostOutput, MappedPages, PageBytes, PageHost, State};
use hanare_protocol::page::Page;

/// Pages looked at for one eviction, and most that are evicted by it.
const SWEEP_COUNT: u64 = 4096;
const EVICT_COUNT: usize = 256;

impl<F: HostFrames<Home: Clone>> PageHost<F> {
    /// More frames are filled than there may be: some pages from elsewhere go.
    // FEATURE: D2-F4
    pub fn on_crowded(&mut self, outputs: &mut Vec<HostOutput<PageBytes>>) {
        let frames_max = self.frames_max;
        let found = self.pages.as_mut().map(|pages| pages.sweep(frames_max)).unwrap_or_default();
        // Pages of this node's own memory stay.
        let elsewhere: Vec<Page> = found.into_iter().filter(|page| self.homes[self.home_of_page(*page)].own.is_none()).collect();
        self.with_rules(|rules, here| {
            elsewhere.into_iter().try_for_each(|page| rules.evict(here, page).map(drop))?;
            rules.turn(here, outputs)
        });
    }
}

impl<F: HostFrames> MappedPages<F> {
    /// Finds pages to let go of, if there are more frames than allowed. They are some of those behind the end of the last search.
    fn sweep(&mut self, frames_max: u64) -> Vec<Page> {
        let (count, mut found) = (self.frames.page_count(), Vec::new());
        let Some(excess) = self.frames.present_count().checked_sub(frames_max).filter(|excess| *excess > 0) else {
            return found;
        };
        let wanted = (excess as usize + EVICT_COUNT / 2).max(EVICT_COUNT);
        for _ in 0..count.max(SWEEP_COUNT) {
            let page = Page(self.hand % count);
            self.hand = page.0 + 1;
            if matches!(self.frames.look(page).state(), Ok(State::Shared | State::Owned)) {
                found.push(page);
            }
            if found.len() >= wanted {
                break;
            }
        }
        found
    }
}
