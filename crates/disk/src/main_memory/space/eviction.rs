//! What leaves a program: the blocks that came first, several at once. A shoot-down, a message and a hand-over between threads cost as
//! much for one block as for many.

use super::{Held, ProgramSpace};
use crate::main_memory::block::{PAGES, cut, runs};
use crate::main_memory::store::Leaving;
use hanare::Error;
use hanare_memory::uffd::Span;
use hanare_protocol::limits::{PAGE_LEN, ZAP_COUNT_MAX};
use hanare_protocol::wire::main_memory::{ANSWER_LEN, BLOCK_LEN, CALL_LEN, Call};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::OwnedFd;

/// Most blocks that leave at once: none of them is brought back before all have left.
pub const EVICTED_TOGETHER: usize = ZAP_COUNT_MAX;

/// Most pages that leave at once, 1 MiB: their bytes stay in a processor's cache from their copy to the socket.
const PAGES_TOGETHER: u64 = 256;

impl ProgramSpace {
    /// Evicts blocks with `wanted` pages in all, or as many as there are. `false` where none can go. `buffer` has room for
    /// [`EVICTED_TOGETHER`] blocks.
    pub fn evict(&self, wanted: u64, buffer: &mut [u8]) -> bool {
        let mut held = self.next_to_evict(wanted.min(PAGES_TOGETHER));
        if held.is_empty() {
            return false;
        }
        let error = match self.leave(&mut held, buffer) {
            Ok(()) => return true,
            // The program's own memory lies among some of them: the others go.
            Err(None) => {
                return held.iter_mut().map(|held| self.leave(std::slice::from_mut(held), buffer)).any(|done| done.is_ok());
            }
            Err(Some(error)) => error,
        };
        let span = self.span(held[0].number, 0..PAGES);
        drop(held);
        self.on_lost(&error, span);
        false
    }

    /// Holds the blocks whose turn it is, in rising order. Those for which no slot is free stay.
    fn next_to_evict(&self, wanted: u64) -> Vec<Held<'_>> {
        let mut table = self.table();
        let mut held = Vec::new();
        if table.is_frozen || table.is_over {
            return held;
        }
        let mut pages = 0;
        for _ in 0..3 * table.queue.len() {
            if pages >= wanted || held.len() >= EVICTED_TOGETHER {
                break;
            }
            let Some(number) = table.queue.pop_front() else { break };
            let Some(entry) = table.blocks.get_mut(&number) else { continue };
            if entry.block.here == 0 && !entry.is_held {
                entry.is_queued = false;
                continue;
            }
            if !entry.is_held && entry.block.passes == 0 {
                let block = entry.block;
                let claim = if block.dirty == 0 { Ok(None) } else { self.shared.store.claim(block.slot) };
                if let Ok(claim) = claim {
                    (entry.is_held, entry.is_queued) = (true, false);
                    pages += u64::from(block.here.count_ones());
                    table.held += 1;
                    held.push(Held { space: self, number, block, claim });
                    continue;
                }
            }
            entry.block.passes = entry.block.passes.saturating_sub(u8::from(!entry.is_held));
            table.queue.push_back(number);
        }
        drop(table);
        held.sort_unstable_by_key(|held| held.number);
        held
    }

    /// Takes all pages of blocks out of the program, and keeps their bytes. **Errors**: the pool's, which keeps them here, or the
    /// hand's; `None` where the program is over, or has put other memory there.
    fn leave(&self, held: &mut [Held<'_>], buffer: &mut [u8]) -> Result<(), Option<Error>> {
        let spans = self.protect(held)?;
        let mut areas: Vec<&mut [u8]> = buffer.chunks_exact_mut(BLOCK_LEN as usize).take(held.len()).collect();
        let mut pieces = Vec::new();
        for (held, area) in held.iter().zip(&mut areas) {
            let cut = cut(area, held.block.dirty).map(|(run, bytes)| (self.span(held.number, run).start, bytes));
            pieces.extend(cut);
        }
        self.reach.pager.read(&mut pieces).map_err(|_| None)?;
        drop(pieces);
        let leaving = held.iter_mut().zip(areas).filter(|(held, _)| held.block.dirty != 0);
        let leaving = leaving.map(|(Held { block, claim, .. }, bytes)| Leaving { block, claim, bytes });
        self.shared.store.write(&mut leaving.collect::<Vec<_>>(), self)?;
        self.goes_on();
        zap(&self.reach.hand, &spans)?;
        self.on_evicted(held);
        Ok(())
    }

    /// Takes note that blocks have left.
    fn on_evicted(&self, held: &mut [Held<'_>]) {
        let mut table = self.table();
        for held in held {
            table.evictions += 1;
            table.stash.remove(&held.number);
            let before = held.block.here.count_ones();
            let written = u64::from(held.block.dirty.count_ones()) * PAGE_LEN;
            self.counts().written.fetch_add(written, std::sync::atomic::Ordering::Relaxed);
            held.block.on_evicted(table.evictions);
            held.count(before);
        }
    }

    /// Protects all pages here of blocks, and returns where they are: neighbours in one span.
    ///
    /// The kernel refuses a span with memory that is not paged, a file that the program has mapped there: then each run of pages is a
    /// span. Clean pages are protected as they are, and asked about for that reason alone.
    fn protect(&self, held: &[Held<'_>]) -> Result<Vec<Span>, Option<Error>> {
        let mut spans: Vec<Span> = Vec::new();
        let mut next = None;
        for one in held {
            let here = one.block.here;
            let span = self.span(one.number, here.trailing_zeros()..PAGES - here.leading_zeros());
            match spans.last_mut().filter(|_| next == Some(one.number)) {
                Some(last) => last.len = span.end() - last.start,
                None => spans.push(span),
            }
            next = Some(one.number + 1);
        }
        let protect = |span: &Span| self.reach.pager.protect(*span);
        if spans.iter().try_for_each(protect).is_err() {
            let all = held.iter().flat_map(|one| runs(one.block.here).map(|run| self.span(one.number, run)));
            spans = all.collect();
            spans.iter().try_for_each(protect).map_err(|_| None)?;
        }
        Ok(spans)
    }
}

/// Has the program's hand take pages out. **Errors**: `None` where the program has no hand any more, and all pages.
fn zap(hand: &OwnedFd, spans: &[Span]) -> Result<(), Option<Error>> {
    let mut has_begun = false;
    for spans in spans.chunks(ZAP_COUNT_MAX) {
        match zap_at_once(hand, spans) {
            Some(true) => has_begun = true,
            None if !has_begun => return Err(None),
            _ => {
                let what = "taking pages out of the program".to_owned();
                return Err(Some(Error::System { what, reason: "its kernel keeps some of them".to_owned() }));
            }
        }
    }
    Ok(())
}

/// Whether all went; `None` where nobody answers.
fn zap_at_once(hand: &OwnedFd, spans: &[Span]) -> Option<bool> {
    let mut calls = [0; ZAP_COUNT_MAX * CALL_LEN];
    for (call, span) in calls.chunks_exact_mut(CALL_LEN).zip(spans) {
        call.copy_from_slice(&Call::Zap { start: span.start, len: span.len }.encode());
    }
    rustix::net::send(hand, &calls[..spans.len() * CALL_LEN], SendFlags::NOSIGNAL).ok()?;
    let mut answer = [0; ANSWER_LEN];
    loop {
        match rustix::net::recv(hand, &mut answer[..], RecvFlags::empty()) {
            Ok((ANSWER_LEN, _)) => return Some(answer == [0; ANSWER_LEN]),
            Err(Errno::INTR) => continue,
            _ => return None,
        }
    }
}
