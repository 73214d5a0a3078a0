//! Several commands at once: one message for each node that any of them touches.

use super::drafts::{Drafts, Tickets};
use super::region::Region;
use hanare_memory::Window;
use hanare_protocol::Result;
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::command::Op;
use std::marker::PhantomData;

/// Collects commands; see [`crate::Pool::batch`].
pub struct Batch<'buffers> {
    drafts: Drafts,
    /// Buffers are borrowed until the batch has ended.
    buffers: PhantomData<&'buffers mut [u8]>,
}

impl<'buffers> Batch<'buffers> {
    /// Runs `fill`, then everything it added; returns when all of it is done.
    pub(crate) fn run(fill: impl FnOnce(&mut Batch<'buffers>) -> Result<()>) -> Result<()> {
        let mut batch = Batch { drafts: Drafts::default(), buffers: PhantomData };
        fill(&mut batch)?;
        let mut tickets = Tickets::default();
        // SAFETY: every buffer is borrowed for 'buffers, which is longer than this call, and all tickets are waited for before it ends.
        let posted = unsafe { batch.drafts.post(&mut tickets) };
        let waited = tickets.wait();
        posted.and(waited)
    }

    /// Adds a get of `into.len()` bytes at `offset`.
    pub fn get(&mut self, region: &Region, offset: u64, into: &'buffers mut [u8]) -> Result<()> {
        self.get_strided(region, Strided::contiguous(offset, into.len() as u64), into)
    }

    /// Adds a put of `bytes` at `offset`.
    pub fn put(&mut self, region: &Region, offset: u64, bytes: &'buffers [u8]) -> Result<()> {
        self.put_strided(region, Strided::contiguous(offset, bytes.len() as u64), bytes)
    }

    /// Adds a get of the blocks of `shape`.
    pub fn get_strided(&mut self, region: &Region, shape: Strided, into: &'buffers mut [u8]) -> Result<()> {
        // SAFETY: the window lives as long as the borrow.
        let window = unsafe { Window::of_mut(into) };
        region.draft(Op::Get, shape, window, &mut self.drafts)
    }

    /// Adds a put of the blocks of `shape`.
    pub fn put_strided(&mut self, region: &Region, shape: Strided, bytes: &'buffers [u8]) -> Result<()> {
        // SAFETY: the window lives as long as the borrow, and a put only reads it.
        let window = unsafe { Window::of(bytes) };
        region.draft(Op::Put, shape, window, &mut self.drafts)
    }
}
