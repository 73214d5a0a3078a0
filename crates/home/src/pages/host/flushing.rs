//! Flushes of a region's pages on this host, and its home elsewhere: of regions with copies.

use super::{FLUSH_PAGE_COUNT_MAX, HostFrames, HostOutput, Layout, MappedPages, PageBytes, PageHost};
use hanare_protocol::id::{ClientId, NodeId};

/// The flushes of one region on this host.
#[derive(Debug, Default)]
pub(in crate::pages) struct Flushes {
    /// The number of the last one.
    pub number: u64,
    /// When it began.
    pub begun_ms: u64,
    /// Programs for which one is under way.
    pub asking: Vec<ClientId>,
    /// Programs that share the next one.
    pub then: Vec<ClientId>,
    /// More pages are left than one flush has.
    pub is_cut: bool,
    /// Pages were sent home since the last one began.
    pub has_sent: bool,
    /// The last one failed: its pages may be at no holder.
    pub has_failed: bool,
    /// Since when the next home is awaited.
    pub waits_since_ms: Option<u64>,
}

impl Flushes {
    /// True if a program waits.
    pub fn is_asked(&self) -> bool {
        !self.asking.is_empty() || !self.then.is_empty()
    }
}

impl<F: HostFrames<Home: Clone>> PageHost<F> {
    /// Another node becomes the home of the region's bytes. Pages here stay, and replies of the one before do not come.
    pub fn on_home_moves(&mut self, home: usize, now_ms: u64) {
        self.sharing.on_home_moves(home);
        self.fail_claims(home);
        // A home that knows nothing of this host has nothing to ask for.
        if self.sharing.share(home).is_some() {
            self.flushes.waits_since_ms.get_or_insert(now_ms);
        }
    }

    /// True while the next home of the region's bytes is awaited.
    pub fn awaits_home(&self) -> bool {
        self.flushes.waits_since_ms.is_some()
    }

    /// The next home does not come. Programs whose stores no home has are told.
    pub fn give_up_home(&mut self, home: usize) {
        self.flushes.waits_since_ms = None;
        if self.unsaved(&[home]).is_some()
            && let Some(MappedPages { frames, .. }) = &self.pages
        {
            frames.tell_loss();
        }
        self.on_home_lost(home);
    }

    /// The home is another node, as the coordinator says.
    pub fn follow(&mut self, layout: &Layout, node: NodeId, address: &str) {
        self.layout = layout.clone();
        let route = &mut self.homes[0];
        (route.node, route.address) = (node, address.to_owned());
    }

    /// Begins a flush. Returns true if it has pages. A flush without any goes home where bytes were sent before.
    pub fn begin_flush(&mut self, (number, had_sent): (u64, bool), outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        let (homes, all) = (self.homes.len(), std::mem::take(&mut self.flushes.has_failed));
        let begun = self.with_rules(|rules, here| {
            let begun = rules.begin_flush(here, (number, homes), (FLUSH_PAGE_COUNT_MAX, all))?;
            if begun.count == 0 && !had_sent {
                rules.end_flush();
            }
            rules.turn(here, outputs)?;
            Ok(begun)
        });
        self.flushes.is_cut = begun.is_some_and(|begun| begun.is_cut);
        begun.is_some_and(|begun| begun.count > 0)
    }
}
