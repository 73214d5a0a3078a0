//! Releases, as programs send them.

use super::frames::{self, PAGE_LEN};
use super::programs::{EntryProgram, Section, Todo};
use super::{Cluster, Defect, accesses::offset_of};
use crate::check::Check;
use hanare_protocol::entry::{BoundRange, BoundShape, Publication, Stores};
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::carried::ExtentAddress;
use hanare_protocol::wire::sync::SyncRequest;

impl EntryProgram {
    /// A byte of data, as the home of its lock and its own home know it.
    fn place(&self, at: usize) -> (BoundRange, ExtentAddress) {
        let view = self.views[at / PAGE_LEN].as_ref().expect("a page that is here was opened");
        let slot = view.layout.extents().next().expect("a region has extents").slot;
        let offset = offset_of(self.region, at);
        (BoundRange { gid: view.gid, offset, len: 1 }, ExtentAddress { slot, grant: view.grants[0], offset })
    }
}

impl Cluster {
    /// Names what was stored, where anything was, and gives the lock back after that. A release of a lock at a byte may go along with it.
    pub(super) fn release(&mut self, client: u64, lock: usize, may_go_along: bool) -> Check {
        let (sends_pages, sends_first) = (self.has(Defect::SendPages), self.has(Defect::SendBeforePublish));
        // A release that is too long for a message names places.
        let (is_long, goes_along) = (self.dice.chance(2_500), may_go_along && self.dice.chance(5_000));
        let Some(me) = self.entry(client) else { return Ok(()) };
        let Some(Section { who, is_alone, rebinds, .. }) = me.section(lock) else { return Ok(()) };
        let changed = if is_alone { me.frames.changed(Some(lock)) } else { Vec::new() };
        if changed.is_empty() {
            me.todo.push_back(Todo::Unlock(who));
            return Ok(());
        }
        let sent = if sends_pages { me.frames.changed(None) } else { changed.clone() };
        let (draft, number) = (me.frames.bound(lock), who.number);
        let (ranges, places): (Vec<_>, Vec<_>) = changed.iter().map(|(at, _)| me.place(*at)).unzip();
        let shape = |(BoundRange { gid, offset, len }, _)| BoundShape { gid, shape: Strided::contiguous(offset, len) };
        let bound = frames::places(lock).map(|at| shape(me.place(at))).collect();
        let binding = rebinds.then_some(bound);
        let changes = match is_long {
            true => Stores::Ranges(ranges),
            false => Stores::Bytes(ranges, changed.iter().map(|(_, byte)| *byte).collect()),
        };
        let publication = Publication { changes, binding };
        let is_whole = goes_along && me.region.is_some() && !is_long && !sends_pages;
        let request = if is_whole {
            SyncRequest::Release { number, publication, places, keeps: false }
        } else {
            me.todo.extend([Todo::Send(who, sent.clone()), Todo::Unlock(who)]);
            SyncRequest::Publish { number, publication }
        };
        if sends_first && !is_whole {
            self.send_stores(client, who, sent)?;
        }
        self.count(if is_whole { "releases in one message" } else { "releases" });
        if let Some(entries) = &mut self.entries {
            entries.judge.on_sent(who, draft);
        }
        self.ask_about_lock(client, request)
    }
}
