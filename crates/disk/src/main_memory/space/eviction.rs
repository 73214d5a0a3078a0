//! Eviction from a program: the pages whose turn it is, several at once. A shoot-down, a message and a hand-over between threads cost as
//! much for one page as for many.
//!
//! The evictor holds the pages that leave, and no others: these come and are written meanwhile. A touch of a page that leaves waits.

use super::{Number, ProgramSpace};
use crate::main_memory::block::{Block, PAGES, Slot, cut, len_of, runs};
use crate::main_memory::policy::Cohort;
use crate::main_memory::store::Leaving;
use hanare::Error;
use hanare_memory::uffd::Span;
use hanare_protocol::limits::{PAGE_LEN, ZAP_COUNT_MAX};
use hanare_protocol::page::own_page::{Aim, Event, PageStep};
use hanare_protocol::wire::main_memory::{ANSWER_LEN, CALL_LEN, Call};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// Blocks whose bytes a buffer of the evictor holds: pages that leave together, 1 MiB, and those of a last turn. So many bytes stay in
/// a processor's cache from their copy to the socket.
pub const EVICTED_TOGETHER: usize = 5;

/// Pages after which none is added.
const PAGES_TOGETHER: u64 = (EVICTED_TOGETHER as u64 - 1) * PAGES as u64;

/// Pages of a block that leave, held.
struct Departure {
    number: Number,
    /// The block as it was when they began to leave, and what has become of them since; a write gives it another slot.
    block: Block,
    pages: u64,
    /// A slot that the block gets, or gives back.
    claim: Option<Slot>,
}

impl Departure {
    /// Pages whose bytes are to be kept.
    fn written(&self) -> u64 {
        self.block.states.next(Aim::Evict, PageStep::Send, self.pages)
    }
}

impl ProgramSpace {
    /// Evicts `wanted` pages, or as many as there are. `false` where none can go. `buffer` has room for [`EVICTED_TOGETHER`] blocks.
    pub fn evict(&self, wanted: u64, buffer: &mut [u8]) -> bool {
        let mut departures = self.next_to_evict(wanted.min(PAGES_TOGETHER));
        let Some(first) = departures.first().map(|first| first.number) else { return false };
        let outcome = self.leave(&mut departures, buffer);
        if let Err(None) = outcome {
            // The program's own memory lies among some of them: the others go.
            let each = departures.into_iter().map(|mut one| {
                let is_gone = self.leave(std::slice::from_mut(&mut one), buffer).is_ok();
                self.settle(vec![one]);
                is_gone
            });
            return each.fold(false, |any, is_gone| any | is_gone);
        }
        self.settle(departures);
        outcome.inspect_err(|error| error.iter().for_each(|error| self.on_lost(error, self.span(first, 0..PAGES)))).is_ok()
    }

    /// Marks the pages whose turn it is, in rising order of their blocks. Those for which no slot is free stay.
    fn next_to_evict(&self, wanted: u64) -> Vec<Departure> {
        let mut table = self.table();
        let table = &mut *table;
        let mut departures = BTreeMap::new();
        if table.is_frozen || table.is_over {
            return Vec::new();
        }
        let mut count = 0;
        for _ in 0..table.policy.turns() {
            if count >= wanted {
                break;
            }
            let Some(turn) = table.policy.next() else { break };
            let Some(block) = table.blocks.get_mut(&turn.number) else { continue };
            if block.states.held() & turn.pages != 0 {
                table.policy.put_back(turn);
                continue;
            }
            let (number, pages) = (turn.number, turn.pages & block.here());
            if pages == 0 {
                continue;
            }
            let has_claim = departures.get(&number).is_some_and(|one: &Departure| one.claim.is_some());
            let is_written = pages & block.states.dirty() != 0;
            let claim = if is_written && !has_claim { self.shared.store.claim(block.slot) } else { Ok(None) };
            let Ok(claim) = claim else {
                table.policy.put_back(turn);
                continue;
            };
            let one = departures.entry(number).or_insert_with(|| {
                table.held += 1;
                Departure { number, block: *block, pages: 0, claim: None }
            });
            block.states.step(Event::Hold, pages);
            one.block = *block;
            one.pages |= pages;
            one.claim = one.claim.or(claim);
            count += u64::from(pages.count_ones());
        }
        departures.into_values().collect()
    }

    /// Takes pages out of the program, and keeps their bytes. **Errors**: the pool's, which keeps them here, or the hand's; `None` where
    /// the program is over, or has put other memory there.
    fn leave(&self, departures: &mut [Departure], buffer: &mut [u8]) -> Result<(), Option<Error>> {
        let spans = self.close(departures)?;
        let mut rest = buffer;
        let mut areas = Vec::new();
        for one in &*departures {
            let (area, further) = rest.split_at_mut(len_of(one.written()));
            areas.push(area);
            rest = further;
        }
        let mut pieces = Vec::new();
        for (one, area) in departures.iter().zip(&mut areas) {
            let cut = cut(area, one.written());
            pieces.extend(cut.map(|(run, bytes)| (self.span(one.number, run).start, bytes)));
        }
        self.reach.pager.read(&mut pieces).map_err(|_| None)?;
        drop(pieces);
        let zeros: Vec<u64> = departures.iter().zip(&mut areas).map(|(one, area)| drop_zeros(area, one.written())).collect();
        let mut leaving = Vec::new();
        for ((one, zeros), area) in departures.iter_mut().zip(&zeros).zip(areas) {
            let pages = one.written() & !zeros;
            if pages != 0 {
                let Departure { block, claim, .. } = one;
                leaving.push(Leaving { block, claim, pages, bytes: &area[..len_of(pages)] });
            }
        }
        let written: u64 = leaving.iter().map(|leaving| leaving.bytes.len() as u64).sum();
        self.shared.store.write(&mut leaving, self)?;
        departures.iter_mut().zip(zeros).for_each(|(one, zeros)| one.block.on_kept(one.pages, zeros));
        self.counts().written.fetch_add(written, Ordering::Relaxed);
        self.goes_on();
        zap(&self.reach.hand, &spans)?;
        departures.iter_mut().for_each(|one| _ = one.block.take(Aim::Evict, PageStep::Drop, one.pages));
        Ok(())
    }

    /// Releases pages that have left, or that stay.
    fn settle(&self, departures: Vec<Departure>) {
        let mut left = 0;
        let mut table = self.table();
        for one in &departures {
            // A touch of another page of the block may be going on.
            while table.blocks.get(&one.number).is_some_and(|block| block.states.held() & !one.pages != 0) {
                table = self.wait_for_change(table);
            }
            let number = one.number;
            table.held -= 1;
            if let Some(block) = table.blocks.get_mut(&number) {
                block.release(one.pages, &one.block);
                let is_empty = block.here() == 0;
                if block.kept == 0 && block.states.dirty() == 0 {
                    block.slot.take().into_iter().for_each(|slot| self.shared.store.release(slot));
                }
                if is_empty {
                    table.stash.remove(&number);
                }
            }
            let turn = Cohort { number, pages: one.pages };
            if one.block.here() & one.pages != 0 {
                table.policy.put_back(turn);
                continue;
            }
            table.policy.on_left(turn);
            left += u64::from(one.pages.count_ones());
        }
        drop(table);
        departures.into_iter().filter_map(|one| one.claim).for_each(|slot| self.shared.store.release(slot));
        self.changed.notify_all();
        self.count(0u64.wrapping_sub(left));
        self.shared.room.notify_all();
    }

    /// Closes the pages, and returns where they are: neighbours in one span.
    ///
    /// The kernel refuses a span with memory that is not paged, a file that the program has mapped there. Clean pages are protected as
    /// they are, and asked about for that reason alone.
    fn close(&self, departures: &mut [Departure]) -> Result<Vec<Span>, Option<Error>> {
        let mut spans: Vec<Span> = Vec::new();
        for span in departures.iter().flat_map(|one| runs(one.pages).map(|run| self.span(one.number, run))) {
            match spans.last_mut().filter(|last| last.end() == span.start) {
                Some(last) => last.len += span.len,
                None => spans.push(span),
            }
        }
        spans.iter().try_for_each(|span| self.reach.pager.protect(*span)).map_err(|_| None)?;
        departures.iter_mut().for_each(|one| _ = one.block.take(Aim::Evict, PageStep::Close, one.pages));
        Ok(spans)
    }
}

/// Moves the bytes of pages that have others than zeros to the front, and returns which pages have none.
fn drop_zeros(area: &mut [u8], pages: u64) -> u64 {
    const PIECE: usize = 64;
    let (mut zeros, mut end) = (0, 0);
    for (index, page) in runs(pages).flatten().enumerate() {
        let range = index * PAGE_LEN as usize..(index + 1) * PAGE_LEN as usize;
        if area[range.clone()].chunks_exact(PIECE).all(|piece| piece == [0; PIECE]) {
            zeros |= 1 << page;
            continue;
        }
        if end != range.start {
            area.copy_within(range, end);
        }
        end += PAGE_LEN as usize;
    }
    zeros
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

/// True if all went; `None` without a reply.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_found_and_the_rest_lies_together() {
        let page = |byte: u8, at: usize| {
            let mut page = [0; PAGE_LEN as usize];
            page[at] = byte;
            page
        };
        let mut area = [page(0, 0), page(1, 4095), page(0, 9), page(2, 0)].concat();
        assert_eq!(drop_zeros(&mut area, 0b1101_0001), 0b0100_0001);
        assert!(area[..4096] == page(1, 4095) && area[4096..8192] == page(2, 0));
    }
}
