//! Several commands at once: one message for each node that any of them touches.

use super::started::StartedDrafts;
use super::{Command, Completion, Modify, Started, What};
use crate::client::drafts::Tickets;
use crate::client::region::Region;
use hanare_memory::Window;
use hanare_protocol::element::{Element, Range, Summary};
use hanare_protocol::shape::{Shape, Strided};
use hanare_protocol::{Error, Result};
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// Collects commands of any mix; see [`crate::Pool::batch`]. A batch to which a command could not be added is not sent.
pub struct Batch<'buffers> {
    /// Commands on regions that stay where they are. Buffers and index lists are borrowed until the batch has ended.
    fixed: Option<StartedDrafts<'buffers>>,
    /// Commands on regions with copies: they go on where another node becomes home.
    moving: Option<StartedDrafts<'buffers>>,
    /// Error of the first command that could not be added. Half of it may be among the drafts, without the memory that it was to use.
    failed: Option<Error>,
}

impl<'buffers> Batch<'buffers> {
    /// Runs `fill`, then everything it added; returns when all of it is done.
    pub(crate) fn run(fill: impl FnOnce(&mut Batch<'buffers>) -> Result<()>) -> Result<()> {
        Batch::post(fill, Tickets::default)?.finish()
    }

    /// Posts what `fill` added.
    fn post(
        fill: impl FnOnce(&mut Batch<'buffers>) -> Result<()>,
        tickets: impl Fn() -> Tickets<'buffers>,
    ) -> Result<Started<'buffers>> {
        let mut batch = Batch { fixed: None, moving: None, failed: None };
        let filled = fill(&mut batch);
        let all = |batch: Batch<'buffers>| batch.fixed.into_iter().chain(batch.moving);
        if let Err(error) = batch.failed.take().map_or(filled, Err) {
            return Err(all(batch).fold(error, |error, drafts| drafts.refuse(error)));
        }
        // SAFETY: every buffer is borrowed for 'buffers, which is longer than the requests live: they are waited for, or dropped, before.
        let post = |drafts: StartedDrafts<'buffers>| Box::new(unsafe { drafts.post(tickets()) });
        Ok(Started { fixed: batch.fixed.map(post), moving: batch.moving.map(post) })
    }

    /// Adds a command. Its parts on this host may be done at once.
    ///
    /// **Errors**: those of the command's call; the batch is not sent then.
    pub fn add<R: Deref<Target = Region>>(&mut self, command: Command<'buffers, R>) -> Result<()> {
        let moves = command.moves();
        let drafts = if moves { &mut self.moving } else { &mut self.fixed };
        let shared = &command.region().shared;
        let added = drafts.get_or_insert_with(|| StartedDrafts::new(shared, moves)).add(command);
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
        self.add(Command::get(region, shape.into(), into))
    }

    /// Adds a [`Region::put_shape`].
    pub fn put_shape(&mut self, region: &Region, shape: impl Into<Shape<'buffers>>, bytes: &'buffers [u8]) -> Result<()> {
        self.add(Command::put(region, shape.into(), bytes))
    }

    /// Adds a [`Region::get_shape_into`].
    pub fn get_shape_into(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        into: &'buffers mut [u8],
        local: impl Into<Shape<'buffers>>,
    ) -> Result<()> {
        self.add(Command::get_into(region, shape.into(), into, local.into()))
    }

    /// Adds a [`Region::put_shape_from`].
    pub fn put_shape_from(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        bytes: &'buffers [u8],
        local: impl Into<Shape<'buffers>>,
    ) -> Result<()> {
        self.add(Command::put_from(region, shape.into(), bytes, local.into()))
    }

    /// Adds a [`crate::Pool::copy`].
    pub fn copy(
        &mut self,
        from: &Region,
        from_shape: impl Into<Shape<'buffers>>,
        to: &Region,
        to_shape: impl Into<Shape<'buffers>>,
    ) -> Result<()> {
        self.add(Command::copy(from, from_shape.into(), to, to_shape.into()))
    }

    /// Adds a [`Region::fill`].
    pub fn fill(&mut self, region: &Region, shape: impl Into<Shape<'buffers>>, pattern: &'buffers [u8]) -> Result<()> {
        self.add(Command::fill(region, shape.into(), pattern))
    }

    /// Adds a [`Region::compare`]; `found` gets its outcome.
    pub fn compare(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        bytes: &'buffers [u8],
        found: &'buffers mut Option<u64>,
    ) -> Result<()> {
        self.add(Command::compare(region, shape.into(), bytes, teller(found)))
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
        let into = teller(into);
        self.add(Command::reduce(region, shape.into(), element, range, move |summary| into(Some(summary))))
    }

    /// Adds a [`Region::update`].
    pub fn update(
        &mut self,
        region: &Region,
        shape: impl Into<Shape<'buffers>>,
        modify: Modify,
        operands: &'buffers [u8],
    ) -> Result<()> {
        self.add(Command::update(region, shape.into(), modify, operands))
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
        self.add(Command::fetch(region, shape.into(), modify, operands, olds))
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
        // SAFETY: `olds` is borrowed as long as the batch. Expected and new elements are read before this returns, and no more.
        let (expected, new, olds) = unsafe { (Window::of(expected), Window::of(new), Window::of_mut(olds)) };
        self.add(Command::new(region, shape.into(), What::CompareAndSwap { element, expected, new, olds }))
    }
}

impl Batch<'static> {
    /// [`Batch::run`], returning at once.
    pub(crate) fn start(fill: impl FnOnce(&mut Batch<'static>) -> Result<()>) -> Result<Completion<()>> {
        Ok(Completion::new(Batch::post(fill, Tickets::to_keep)?, || ()))
    }
}

/// Has a command tell to the caller's variable.
fn teller<'b, T: Send>(into: &'b mut T) -> impl Fn(T) + Send + Sync + 'b {
    let into = Mutex::new(into);
    move |value| **into.lock().unwrap_or_else(PoisonError::into_inner) = value
}
