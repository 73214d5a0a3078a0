//! Several commands at once: one message for each node that any of them touches.

use crate::client::command::calls::Modify;
use crate::client::command::completion::Completion;
use crate::client::command::drafting::pairs;
use crate::client::cut::runs::draft_copy;
use crate::client::drafts::{Drafts, Tickets};
use crate::client::region::Region;
use hanare_memory::Window;
use hanare_protocol::element::{Element, Range, Summary};
use hanare_protocol::shape::{Shape, Strided};
use hanare_protocol::{Error, Result};

/// Collects commands of any mix; see [`crate::Pool::batch`]. A batch to which a command could not be added is not sent.
pub struct Batch<'buffers> {
    /// Buffers and index lists are borrowed until the batch has ended.
    drafts: Drafts<'buffers>,
    /// Of the first command that could not be added. Half of it may be among the drafts, without the memory that it was to use.
    failed: Option<Error>,
}

impl<'buffers> Batch<'buffers> {
    /// Runs `fill`, then everything it added; returns when all of it is done.
    pub(crate) fn run(fill: impl FnOnce(&mut Batch<'buffers>) -> Result<()>) -> Result<()> {
        let mut tickets = Tickets::default();
        let posted = Batch::post(fill, &mut tickets)?;
        let waited = tickets.finish();
        posted.and(waited)
    }

    /// Posts what `fill` added. The tickets must be waited for.
    fn post(fill: impl FnOnce(&mut Batch<'buffers>) -> Result<()>, tickets: &mut Tickets<'buffers>) -> Result<Result<()>> {
        let mut batch = Batch { drafts: Drafts::default(), failed: None };
        let filled = fill(&mut batch);
        if let Err(error) = batch.failed.map_or(filled, Err) {
            return Err(batch.drafts.refuse(error));
        }
        // SAFETY: every buffer is borrowed for 'buffers, which is longer than the tickets live, and both callers wait for all of them.
        Ok(unsafe { batch.drafts.post(tickets) })
    }

    fn add(&mut self, draft: impl FnOnce(&mut Drafts<'buffers>) -> Result<()>) -> Result<()> {
        let added = draft(&mut self.drafts);
        if let Err(error) = &added {
            self.failed.get_or_insert_with(|| error.clone());
        }
        added
    }

    /// Adds a get of `into.len()` bytes at `offset`.
    pub fn get(&mut self, region: &Region, offset: u64, into: &'buffers mut [u8]) -> Result<()> {
        self.get_shape(region, Strided::contiguous(offset, into.len() as u64), into)
    }

    /// Adds a put of `bytes` at `offset`.
    pub fn put(&mut self, region: &Region, offset: u64, bytes: &'buffers [u8]) -> Result<()> {
        self.put_shape(region, Strided::contiguous(offset, bytes.len() as u64), bytes)
    }

    /// Adds a get of the blocks of `shape`.
    pub fn get_strided(&mut self, region: &Region, shape: Strided, into: &'buffers mut [u8]) -> Result<()> {
        self.get_shape(region, shape, into)
    }

    /// Adds a put of the blocks of `shape`.
    pub fn put_strided(&mut self, region: &Region, shape: Strided, bytes: &'buffers [u8]) -> Result<()> {
        self.put_shape(region, shape, bytes)
    }

    /// Adds a [`Region::get_shape`].
    pub fn get_shape(&mut self, region: &Region, shape: impl Into<Shape<'buffers>>, into: &'buffers mut [u8]) -> Result<()> {
        // SAFETY: the window lives as long as the borrow.
        let into = unsafe { Window::of_mut(into) };
        self.add(|drafts| region.draft_get(shape.into(), into, drafts))
    }

    /// Adds a [`Region::put_shape`].
    pub fn put_shape(&mut self, region: &Region, shape: impl Into<Shape<'buffers>>, bytes: &'buffers [u8]) -> Result<()> {
        // SAFETY: the window lives as long as the borrow, and a put only reads it.
        let bytes = unsafe { Window::of(bytes) };
        self.add(|drafts| region.draft_put(shape.into(), bytes, drafts))
    }

    /// Adds a [`Region::get_shape_into`].
    pub fn get_shape_into(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        into: &'buffers mut [u8],
        local: impl Into<Shape<'buffers>>,
    ) -> Result<()> {
        // SAFETY: the window lives as long as the borrow.
        let into = unsafe { Window::of_mut(into) };
        self.add(|drafts| region.draft_get_into(shape.into(), into, local.into(), drafts))
    }

    /// Adds a [`Region::put_shape_from`].
    pub fn put_shape_from(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        bytes: &'buffers [u8],
        local: impl Into<Shape<'buffers>>,
    ) -> Result<()> {
        // SAFETY: the window lives as long as the borrow, and a put only reads it.
        let bytes = unsafe { Window::of(bytes) };
        self.add(|drafts| region.draft_put_from(shape.into(), bytes, local.into(), drafts))
    }

    /// Adds a [`crate::Pool::copy`].
    pub fn copy(
        &mut self,
        from: &Region,
        from_shape: impl Into<Shape<'buffers>>,
        to: &Region,
        to_shape: impl Into<Shape<'buffers>>,
    ) -> Result<()> {
        self.add(|drafts| draft_copy(from, from_shape.into(), to, to_shape.into(), drafts))
    }

    /// Adds a [`Region::fill`].
    pub fn fill(&mut self, region: &Region, shape: impl Into<Shape<'buffers>>, pattern: &'buffers [u8]) -> Result<()> {
        // SAFETY: the window lives as long as the borrow, and a fill only reads it.
        let pattern = unsafe { Window::of(pattern) };
        self.add(|drafts| region.draft_pattern_over(shape.into(), pattern, drafts))
    }

    /// Adds a [`Region::compare`]; `found` gets its outcome.
    pub fn compare(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        bytes: &'buffers [u8],
        found: &'buffers mut Option<u64>,
    ) -> Result<()> {
        // SAFETY: the window lives as long as the borrow, and a compare only reads it.
        let bytes = unsafe { Window::of(bytes) };
        self.add(|drafts| region.draft_difference(shape.into(), bytes, drafts, move |first| *found = first))
    }

    /// Adds a [`Region::reduce`]; `into` gets its outcome.
    pub fn reduce(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        element: Element,
        range: Range,
        into: &'buffers mut Option<Summary>,
    ) -> Result<()> {
        let tell = move |summary| *into = Some(summary);
        self.add(|drafts| region.draft_summary(shape.into(), element, range, drafts, tell))
    }

    /// Adds a [`Region::update`].
    pub fn update(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        modify: Modify,
        operands: &'buffers [u8],
    ) -> Result<()> {
        // SAFETY: the window lives as long as the borrow, and an update only reads it.
        let operands = unsafe { Window::of(operands) };
        self.add(|drafts| region.draft_update(shape.into(), modify, operands, drafts))
    }

    /// Adds a [`Region::fetch`].
    pub fn fetch(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        modify: Modify,
        operands: &'buffers [u8],
        olds: &'buffers mut [u8],
    ) -> Result<()> {
        // SAFETY: the windows live as long as the borrows, and operands are only read.
        let (operands, olds) = unsafe { (Window::of(operands), Window::of_mut(olds)) };
        self.add(|drafts| region.draft_fetch(shape.into(), modify, operands, olds, drafts))
    }

    /// Adds a [`Region::compare_and_swap`].
    pub fn compare_and_swap(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        element: Element,
        expected: &[u8],
        new: &[u8],
        olds: &'buffers mut [u8],
    ) -> Result<()> {
        let pairs = pairs(element, expected, new);
        // SAFETY: `olds` is borrowed as long as its window lives; the pairs' heap memory stays while the vector is moved into what is run
        // afterwards, and is only read.
        let (window, olds) = unsafe { (Window::of(&pairs), Window::of_mut(olds)) };
        self.add(|drafts| region.draft_swap(shape.into(), element, window, olds, drafts))?;
        self.drafts.after(Box::new(move || {
            drop(pairs);
            Ok(())
        }));
        Ok(())
    }
}

impl Batch<'static> {
    /// As [`Batch::run`], returning at once.
    pub(crate) fn start(fill: impl FnOnce(&mut Batch<'static>) -> Result<()>) -> Result<Completion<()>> {
        let mut tickets = Tickets::to_keep();
        match Batch::post(fill, &mut tickets)? {
            Ok(()) => Ok(Completion::new(tickets, || ())),
            Err(error) => {
                // What did leave must be settled before anybody takes its memory back.
                let _ = tickets.wait();
                Err(error)
            }
        }
    }
}
