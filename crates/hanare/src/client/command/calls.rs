//! The vector commands as calls of a region and of a pool, blocking and non-blocking.

use super::completion::ResultCell;
use super::{Batch, Command, Completion, Modify, What};
use crate::client::pool::Pool;
use crate::client::region::{InReach, Region};
use hanare_memory::{Window, vector};
#[cfg(doc)]
use hanare_protocol::Error;
use hanare_protocol::Result;
use hanare_protocol::element::{Element, Operator, Range, Summary};
use hanare_protocol::id::Rights;
use hanare_protocol::shape::{Shape, Strided};
use hanare_protocol::wire::command::{Op, Update};
use std::sync::Arc;

impl Region {
    /// Reads `into.len()` bytes at `offset`.
    ///
    /// **Cost**: on this host the copy; else one message each way for each node touched, no copy but the kernel's.
    /// **Errors**: [`Error::OutOfRange`], [`Error::NodeLost`], [`Error::RegionLost`], [`Error::Timeout`]; then the buffer's content is unspecified.
    /// **Source**: [D2 Table 2] VL, RVL; [RHiNET §3] Pull.
    ///
    /// FEATURE: RF-F6
    #[inline]
    pub fn get(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if let Some(here) = self.reach(offset, into.len()) {
            return here.read_into(into).map_err(|lost| self.lost(lost));
        }
        Command::get(self, Shape::contiguous(offset, into.len() as u64), into).run()
    }

    /// Writes `bytes` at `offset`; returns when they are at their home, visible to every later get.
    ///
    /// **Cost**, **Errors**: as for [`Region::get`]; after an error any part of the bytes may have been written.
    /// **Source**: [D2 Table 2] VS, RVS; [RHiNET §3] Push.
    ///
    /// FEATURE: RF-F5
    #[inline]
    pub fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.rights() == Rights::Write
            && let Some(here) = self.reach(offset, bytes.len())
        {
            return here.write_from(bytes).map_err(|lost| self.lost(lost));
        }
        Command::put(self, Shape::contiguous(offset, bytes.len() as u64), bytes).run()
    }

    /// Reads the blocks of `shape` into `into`, one after another. The buffer has exactly the shape's bytes.
    ///
    /// **Cost**: one command a node, whatever the strides. **Errors**: as for [`Region::get`], and [`Error::BadShape`].
    /// **Source**: [D2 Table 2] VLS.
    ///
    /// FEATURE: D2-F11
    pub fn get_strided(&self, shape: Strided, into: &mut [u8]) -> Result<()> {
        Command::get(self, shape.into(), into).run()
    }

    /// Writes `bytes` into the blocks of `shape`, one after another. The buffer has exactly the shape's bytes.
    ///
    /// **Cost**, **Errors**: as for [`Region::get_strided`]. **Source**: [D2 Table 2] VSS.
    ///
    /// FEATURE: D2-F11
    pub fn put_strided(&self, shape: Strided, bytes: &[u8]) -> Result<()> {
        Command::put(self, shape.into(), bytes).run()
    }

    /// Reads the blocks of any shape (a [`Strided`], a sub-array, indices) into `into`, one after another.
    ///
    /// **Cost**: one message each way for each node touched; an index list travels there, 4 or 8 bytes an index.
    /// **Errors**: as for [`Region::get`]; [`Error::BadDimension`], [`Error::BadIndex`], [`Error::BadShape`].
    ///
    /// FEATURE: D3-F13
    pub fn get_shape<'s>(&self, shape: impl Into<Shape<'s>>, into: &mut [u8]) -> Result<()> {
        Command::get(self, shape.into(), into).run()
    }

    /// Writes `bytes` into the blocks of any shape, one after another. Of several writes to one byte the last in order stays.
    ///
    /// **Cost**, **Errors**: as for [`Region::get_shape`].
    pub fn put_shape<'s>(&self, shape: impl Into<Shape<'s>>, bytes: &[u8]) -> Result<()> {
        Command::put(self, shape.into(), bytes).run()
    }

    /// Reads the blocks of `shape` into the blocks of `local` in `into`; both have as many bytes. A halo in one command.
    ///
    /// **Cost**: as for [`Region::get_shape`]; bytes of other nodes are copied once more.
    ///
    /// FEATURE: D3-F25
    pub fn get_shape_into<'s, 'l>(
        &self,
        shape: impl Into<Shape<'s>>,
        into: &mut [u8],
        local: impl Into<Shape<'l>>,
    ) -> Result<()> {
        Command::get_into(self, shape.into(), into, local.into()).run()
    }

    /// Writes the blocks of `local` in `bytes` into the blocks of `shape`; both have as many bytes.
    ///
    /// **Cost**, **Errors**: as for [`Region::get_shape_into`].
    ///
    /// FEATURE: D3-F25
    pub fn put_shape_from<'s, 'l>(&self, shape: impl Into<Shape<'s>>, bytes: &[u8], local: impl Into<Shape<'l>>) -> Result<()> {
        Command::put_from(self, shape.into(), bytes, local.into()).run()
    }

    /// Fills the stream of `shape` with `pattern`, over and over; the stream is a whole number of patterns.
    ///
    /// **Cost**: one message each way for each node touched; the pattern (256 KiB at most) travels, not the bytes.
    pub fn fill<'s>(&self, shape: impl Into<Shape<'s>>, pattern: &[u8]) -> Result<()> {
        Command::fill(self, shape.into(), pattern).run()
    }

    /// Compares the stream of `shape` with `bytes`, which are as many. Returns the stream's position of the first difference, if there is
    /// one.
    ///
    /// **Cost**: the bytes travel to their nodes, 8 come back from each.
    pub fn compare<'s>(&self, shape: impl Into<Shape<'s>>, bytes: &[u8]) -> Result<Option<u64>> {
        let found = ResultCell::default();
        Command::compare(self, shape.into(), bytes, found.setter()).run()?;
        Ok(found.take())
    }

    /// Counts the elements of `shape` that lie in `range`, and gives their sum, least and greatest. The numbers stay where they are.
    ///
    /// The summary is the same, bit for bit, however the region lies on nodes. **Cost**: less than 1 KiB for each node touched.
    /// **Errors**: [`Error::BadElement`] where a block is no whole number of elements. **Source**: [VQ §5] the database scan.
    pub fn reduce<'s>(&self, shape: impl Into<Shape<'s>>, element: Element, range: Range) -> Result<Summary> {
        let summary = ResultCell::default();
        Command::reduce(self, shape.into(), element, range, summary.setter()).run()?;
        Ok(summary.take())
    }

    /// Updates every element of `shape` by its operand, each in one step that no other update of anyone divides. Repeated indices all count.
    ///
    /// **Cost**: as for [`Region::put_shape`]. **Errors**: [`Error::BadElement`] for elements at odd offsets; [`Error::Broken`] where the
    /// connection broke: it says whether the update happened. The command as a whole is not one step.
    pub fn update<'s>(&self, shape: impl Into<Shape<'s>>, modify: Modify, operands: &[u8]) -> Result<()> {
        Command::update(self, shape.into(), modify, operands).run()
    }

    /// [`Region::update`] that returns the elements before it in `olds`, in order.
    pub fn fetch<'s>(&self, shape: impl Into<Shape<'s>>, modify: Modify, operands: &[u8], olds: &mut [u8]) -> Result<()> {
        Command::fetch(self, shape.into(), modify, operands, olds).run()
    }

    /// Swaps each element of `shape` for that of `new` if it equals that of `expected`, bit for bit. `olds` gets the elements before.
    pub fn compare_and_swap<'s>(
        &self,
        shape: impl Into<Shape<'s>>,
        element: Element,
        expected: &[u8],
        new: &[u8],
        olds: &mut [u8],
    ) -> Result<()> {
        Command::compare_and_swap(self, shape.into(), element, expected, new, olds).run()
    }

    /// Applies an operation to the 64-bit word at `offset` and returns the word before it.
    ///
    /// **Cost**: on this host a processor's atomic instruction; else one message each way. **Errors**: as for [`Region::update`].
    pub fn fetch_word(&self, offset: u64, operator: Operator, operand: u64) -> Result<u64> {
        let op = Op::Fetch(Update { operator, element: Element::U64, is_same: false });
        if let Some(here) = self.word_in_reach(offset, op)? {
            return vector::update_word(*here, offset, operator, operand).map_err(|lost| self.lost(lost));
        }
        let mut old = [0; 8];
        let modify = Modify { operator, element: Element::U64 };
        self.fetch(Strided::contiguous(offset, 8), modify, &operand.to_le_bytes(), &mut old)?;
        Ok(u64::from_le_bytes(old))
    }

    /// Reads the 64-bit word at `offset`, a multiple of 8, in one step. The result is one value of an update, a fetch, a swap or an atomic
    /// store, never a mix of two. [`Region::get`] promises that for single bytes alone.
    ///
    /// **Ordering**: what was written before the word that is seen is seen after it. **Cost**: on this host a load; else one message each
    /// way. **Errors**: as for [`Region::get`]; [`Error::BadElement`] at an odd offset.
    pub fn read_word(&self, offset: u64) -> Result<u64> {
        self.fetch_word(offset, Operator::Load, 0)
    }

    /// Swaps the 64-bit word at `offset` for `new` if it is `expected`; returns the word before.
    ///
    /// **Cost**, **Errors**: as for [`Region::fetch_word`].
    pub fn compare_and_swap_word(&self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        if let Some(here) = self.word_in_reach(offset, Op::CompareAndSwap(Element::U64))? {
            return vector::compare_and_swap_word(*here, offset, expected, new).map_err(|lost| self.lost(lost));
        }
        let mut old = [0; 8];
        let shape = Strided::contiguous(offset, 8);
        self.compare_and_swap(shape, Element::U64, &expected.to_le_bytes(), &new.to_le_bytes(), &mut old)?;
        Ok(u64::from_le_bytes(old))
    }

    /// The region's bytes for a step on the word at `offset`, where this program may take it itself. A word that is not as it should be
    /// goes the long way, which refuses it. **Errors**: [`Error::BadUse`] for a handle that may only read.
    #[inline]
    fn word_in_reach(&self, offset: u64, op: Op) -> Result<Option<InReach<'_>>> {
        let is_inside = offset.is_multiple_of(8) && offset < self.len() && self.len() - offset >= 8;
        let here = if is_inside { self.mapped_whole() } else { None };
        if here.is_some() {
            self.check_rights(op)?;
        }
        Ok(here)
    }

    /// Begins a get into `into` and returns at once; the buffer comes back from [`Completion::wait`].
    pub fn start_get(&self, offset: u64, into: Vec<u8>) -> Result<Completion<Vec<u8>>> {
        let len = into.len() as u64;
        self.start_get_shape(Strided::contiguous(offset, len), into)
    }

    /// Begins a put of `bytes` and returns at once. [`Completion::wait`] returns the buffer when the bytes are at their home.
    pub fn start_put(&self, offset: u64, bytes: Vec<u8>) -> Result<Completion<Vec<u8>>> {
        let len = bytes.len() as u64;
        self.start_put_shape(Strided::contiguous(offset, len), bytes)
    }

    /// [`Region::get_shape`], returning at once.
    pub fn start_get_shape(&self, shape: impl Into<Shape<'static>>, mut into: Vec<u8>) -> Result<Completion<Vec<u8>>> {
        // SAFETY: the completion owns the buffer's heap memory and gives it back only once all answers are here.
        let window = unsafe { Window::of_mut(&mut into) };
        self.start(shape, What::Get { into: window, local: None }, move || into)
    }

    /// [`Region::put_shape`], returning at once.
    pub fn start_put_shape(&self, shape: impl Into<Shape<'static>>, bytes: Vec<u8>) -> Result<Completion<Vec<u8>>> {
        // SAFETY: as in `start_get_shape`; a put only reads.
        let window = unsafe { Window::of(&bytes) };
        self.start(shape, What::Put { from: window, local: None }, move || bytes)
    }

    /// [`Region::fill`], returning at once.
    pub fn start_fill(&self, shape: impl Into<Shape<'static>>, pattern: Vec<u8>) -> Result<Completion<()>> {
        // SAFETY: as in `start_put_shape`.
        let window = unsafe { Window::of(&pattern) };
        self.start(shape, What::Fill { pattern: window }, move || drop(pattern))
    }

    /// [`Region::compare`], returning at once.
    pub fn start_compare(&self, shape: impl Into<Shape<'static>>, bytes: Vec<u8>) -> Result<Completion<Option<u64>>> {
        let found = ResultCell::default();
        // SAFETY: as in `start_put_shape`.
        let window = unsafe { Window::of(&bytes) };
        let what = What::Compare { bytes: window, found: Arc::new(found.setter()) };
        self.start(shape, what, move || {
            drop(bytes);
            found.take()
        })
    }

    /// [`Region::reduce`], returning at once.
    pub fn start_reduce(&self, shape: impl Into<Shape<'static>>, element: Element, range: Range) -> Result<Completion<Summary>> {
        let summary = ResultCell::default();
        let what = What::Reduce { element, range, summary: Arc::new(summary.setter()) };
        self.start(shape, what, move || summary.take())
    }

    /// [`Region::update`], returning at once.
    pub fn start_update(&self, shape: impl Into<Shape<'static>>, modify: Modify, operands: Vec<u8>) -> Result<Completion<()>> {
        // SAFETY: as in `start_put_shape`.
        let window = unsafe { Window::of(&operands) };
        self.start(shape, What::Update { modify, operands: window }, move || drop(operands))
    }

    /// [`Region::fetch`], returning at once; the elements before come from [`Completion::wait`].
    pub fn start_fetch(
        &self,
        shape: impl Into<Shape<'static>>,
        modify: Modify,
        operands: Vec<u8>,
    ) -> Result<Completion<Vec<u8>>> {
        let shape = shape.into();
        let len = shape.by_ref().check(self.name(), self.len())?.len();
        let mut olds = vec![0u8; len as usize];
        // SAFETY: as in `start_get_shape`; operands are only read.
        let what = unsafe { What::Fetch { modify, operands: Window::of(&operands), olds: Window::of_mut(&mut olds) } };
        self.start(shape, what, move || {
            drop(operands);
            olds
        })
    }

    /// [`Region::compare_and_swap`], returning at once; the elements before come from [`Completion::wait`].
    pub fn start_compare_and_swap(
        &self,
        shape: impl Into<Shape<'static>>,
        element: Element,
        expected: &[u8],
        new: &[u8],
    ) -> Result<Completion<Vec<u8>>> {
        let mut olds = vec![0u8; expected.len()];
        // SAFETY: as in `start_get_shape`; expected and new elements are read before this returns, and no more.
        let (expected, new, window) = unsafe { (Window::of(expected), Window::of(new), Window::of_mut(&mut olds)) };
        self.start(shape, What::CompareAndSwap { element, expected, new, olds: window }, move || olds)
    }

    /// Begins a command whose memory goes into `brings`, which gives the caller its result.
    fn start<T>(
        &self,
        shape: impl Into<Shape<'static>>,
        what: What<'static, &Region>,
        brings: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Completion<T>> {
        // SAFETY: the memory is heap memory of `brings`, which the completion keeps until all answers are here.
        let started = unsafe { Command { region: self, shape: shape.into(), what }.start() }?;
        Ok(Completion::new(started, brings))
    }
}

impl Pool {
    /// Copies the blocks of `from_shape` to those of `to_shape`, which have as many bytes in all. Shapes of any kind on either side.
    ///
    /// **Cost**: one message each way for each node that receives bytes. They go from node to node, and none passes through this program.
    /// Overlapping ranges of one region give unspecified bytes, and so do target blocks that are named twice. **Source**: [D3 §3] VCOPI,
    /// VDDC.
    ///
    /// FEATURE: D3-F11 D3-F12
    pub fn copy<'f, 't>(
        &self,
        from: &Region,
        from_shape: impl Into<Shape<'f>>,
        to: &Region,
        to_shape: impl Into<Shape<'t>>,
    ) -> Result<()> {
        Command::copy(from, from_shape.into(), to, to_shape.into()).run()
    }

    /// [`Pool::copy`], returning at once.
    pub fn start_copy(
        &self,
        from: &Region,
        from_shape: impl Into<Shape<'static>>,
        to: &Region,
        to_shape: impl Into<Shape<'static>>,
    ) -> Result<Completion<()>> {
        let command = Command::copy(from, from_shape.into(), to, to_shape.into());
        // SAFETY: of the caller's memory a copy uses index lists alone, which last for ever.
        Ok(Completion::new(unsafe { command.start() }?, || ()))
    }

    /// [`Pool::batch`], returning at once. Buffers and index lists live for ever, so that they outlive the commands.
    pub fn start_batch(&self, fill: impl FnOnce(&mut Batch<'static>) -> Result<()>) -> Result<Completion<()>> {
        Batch::start(fill)
    }

    /// Runs the commands that `fill` adds: one message for each node touched, all done when this returns. They are unordered among each other.
    ///
    /// ```no_run
    /// # let pool = hanare::Pool::attach()?; let region = pool.open("a")?;
    /// let (mut head, mut tail) = ([0; 8], [0; 8]);
    /// pool.batch(|batch| {
    ///     batch.get(&region, 0, &mut head)?;
    ///     batch.get(&region, region.len() - 8, &mut tail)
    /// })?;
    /// # Ok::<(), hanare::Error>(())
    /// ```
    pub fn batch<'buffers>(&self, fill: impl FnOnce(&mut Batch<'buffers>) -> Result<()>) -> Result<()> {
        Batch::run(fill)
    }
}
