//! The vector commands on a region, blocking and non-blocking. Each is drafted in one way, whoever runs it.

use crate::client::command::completion::{Completion, Told};
use crate::client::command::draft::Call;
use crate::client::command::drafting::pairs;
use crate::client::region::Region;
use hanare_memory::{Window, vector};
#[cfg(doc)]
use hanare_protocol::Error;
use hanare_protocol::Result;
use hanare_protocol::element::{Element, Operator, Range, Summary};
use hanare_protocol::shape::{Checked, Shape, Strided};
use hanare_protocol::wire::command::Op;

/// What is done to each element of a shape. Operands have one element's bytes for all, or one for each in order.
///
/// **Source**: [RF §3] atomic primitives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modify {
    /// The operation.
    pub operator: Operator,
    /// The kind of elements: of 32 or 64 bits; bitwise operations take whole numbers.
    pub element: Element,
}

impl Region {
    /// Reads the blocks of `shape` into `into`, one after another. The buffer has exactly the shape's bytes.
    ///
    /// **Cost**: one command a node, whatever the strides. **Errors**: as for [`Region::get`], and [`Error::BadShape`].
    /// **Source**: [D2 Table 2] VLS.
    ///
    /// FEATURE: D2-F11
    pub fn get_strided(&self, shape: Strided, into: &mut [u8]) -> Result<()> {
        self.get_checked(&self.fit(shape.into())?, into)
    }

    /// Writes `bytes` into the blocks of `shape`, one after another. The buffer has exactly the shape's bytes.
    ///
    /// **Cost**, **Errors**: as for [`Region::get_strided`]. **Source**: [D2 Table 2] VSS.
    ///
    /// FEATURE: D2-F11
    pub fn put_strided(&self, shape: Strided, bytes: &[u8]) -> Result<()> {
        self.put_checked(&self.fit(shape.into())?, bytes)
    }

    /// Reads the blocks of any shape (a [`Strided`], a sub-array, indices) into `into`, one after another.
    ///
    /// **Cost**: one message each way for each node touched; an index list travels there, 4 or 8 bytes an index.
    /// **Errors**: as for [`Region::get`]; [`Error::BadDimension`], [`Error::BadIndex`], [`Error::BadShape`].
    ///
    /// FEATURE: D3-F13
    pub fn get_shape<'s>(&self, shape: impl Into<Shape<'s>>, into: &mut [u8]) -> Result<()> {
        self.get_checked(&self.checked(shape.into())?, into)
    }

    /// Writes `bytes` into the blocks of any shape, one after another. Of several writes to one byte the last in order stays.
    ///
    /// **Cost**, **Errors**: as for [`Region::get_shape`].
    pub fn put_shape<'s>(&self, shape: impl Into<Shape<'s>>, bytes: &[u8]) -> Result<()> {
        self.put_checked(&self.checked(shape.into())?, bytes)
    }

    fn get_checked(&self, shape: &Checked<'_>, into: &mut [u8]) -> Result<()> {
        self.check_len(shape, "the buffer", into.len() as u64, shape.len())?;
        // SAFETY: buffer and list are borrowed until this returns, and `run` waits for all answers before it does.
        unsafe {
            let into = Window::of_mut(into);
            if let Some(here) = self.mapped_whole() {
                return vector::gather(here, shape, into).map_err(|lost| self.lost(lost));
            }
            self.run(false, |drafts| self.draft(Call::get(shape.by_ref(), into), drafts))
        }
    }

    fn put_checked(&self, shape: &Checked<'_>, bytes: &[u8]) -> Result<()> {
        self.check_rights(Op::Put)?;
        self.check_len(shape, "the buffer", bytes.len() as u64, shape.len())?;
        // SAFETY: as in `get_checked`; a put only reads.
        unsafe {
            let bytes = Window::of(bytes);
            if let Some(here) = self.mapped_whole() {
                return vector::scatter(bytes, here, shape).map_err(|lost| self.lost(lost));
            }
            self.run(false, |drafts| self.draft(Call::put(shape.by_ref(), bytes), drafts))
        }
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
        let (shape, local) = (shape.into(), local.into());
        // SAFETY: as in `get_checked`.
        unsafe {
            let into = Window::of_mut(into);
            self.run(false, |drafts| self.draft_get_into(shape.by_ref(), into, local.by_ref(), drafts))
        }
    }

    /// Writes the blocks of `local` in `bytes` into the blocks of `shape`; both have as many bytes.
    ///
    /// **Cost**, **Errors**: as for [`Region::get_shape_into`].
    ///
    /// FEATURE: D3-F25
    pub fn put_shape_from<'s, 'l>(&self, shape: impl Into<Shape<'s>>, bytes: &[u8], local: impl Into<Shape<'l>>) -> Result<()> {
        let (shape, local) = (shape.into(), local.into());
        // SAFETY: as in `get_checked`; a put only reads.
        unsafe {
            let bytes = Window::of(bytes);
            self.run(false, |drafts| self.draft_put_from(shape.by_ref(), bytes, local.by_ref(), drafts))
        }
    }

    /// Fills the stream of `shape` with `pattern`, over and over; the stream is a whole number of patterns.
    ///
    /// **Cost**: one message each way for each node touched; the pattern (256 KiB at most) travels, not the bytes.
    pub fn fill<'s>(&self, shape: impl Into<Shape<'s>>, pattern: &[u8]) -> Result<()> {
        let shape = shape.into();
        // SAFETY: as in `get_checked`; a fill only reads.
        unsafe {
            let pattern = Window::of(pattern);
            self.run(false, |drafts| self.draft_pattern_over(shape.by_ref(), pattern, drafts))
        }
    }

    /// Compares the stream of `shape` with `bytes`, as many; the position in the stream of the first difference, if there is one.
    ///
    /// **Cost**: the bytes travel to their nodes, 8 come back from each.
    pub fn compare<'s>(&self, shape: impl Into<Shape<'s>>, bytes: &[u8]) -> Result<Option<u64>> {
        let shape = shape.into();
        let found = Told::default();
        // SAFETY: as in `get_checked`; a compare only reads.
        unsafe {
            let bytes = Window::of(bytes);
            self.run(false, |drafts| self.draft_difference(shape.by_ref(), bytes, drafts, found.teller()))?;
        }
        Ok(found.take())
    }

    /// Counts the elements of `shape` that lie in `range`, and gives their sum, least and greatest. The numbers stay where they are.
    ///
    /// The summary is the same, bit for bit, however the region lies on nodes. **Cost**: less than 1 KiB for each node touched.
    /// **Errors**: [`Error::BadElement`] where a block is no whole number of elements. **Source**: [VQ §5] the database scan.
    pub fn reduce<'s>(&self, shape: impl Into<Shape<'s>>, element: Element, range: Range) -> Result<Summary> {
        let shape = shape.into();
        let summary = Told::default();
        // SAFETY: as in `get_checked`.
        unsafe {
            self.run(false, |drafts| self.draft_summary(shape.by_ref(), element, range, drafts, summary.teller()))?;
        }
        Ok(summary.take())
    }

    /// Updates every element of `shape` by its operand, each in one step that no other update of anyone divides. Repeated indices all count.
    ///
    /// **Cost**: as for [`Region::put_shape`]. **Errors**: [`Error::BadElement`] for elements at odd offsets; [`Error::Broken`] where the
    /// connection broke: it says whether the update happened. The command as a whole is not one step.
    pub fn update<'s>(&self, shape: impl Into<Shape<'s>>, modify: Modify, operands: &[u8]) -> Result<()> {
        let shape = shape.into();
        if let Some(here) = self.mapped_whole() {
            return self.update_here(here, shape, modify, operands, None);
        }
        // SAFETY: as in `get_checked`; an update only reads its operands.
        unsafe {
            let operands = Window::of(operands);
            self.run(true, |drafts| self.draft_update(shape.by_ref(), modify, operands, drafts))
        }
    }

    /// As [`Region::update`]; `olds` gets the elements before it, in order.
    pub fn fetch<'s>(&self, shape: impl Into<Shape<'s>>, modify: Modify, operands: &[u8], olds: &mut [u8]) -> Result<()> {
        let shape = shape.into();
        if let Some(here) = self.mapped_whole() {
            return self.update_here(here, shape, modify, operands, Some(olds));
        }
        // SAFETY: as in `update`; `olds` is ours until this returns.
        unsafe {
            let (operands, olds) = (Window::of(operands), Window::of_mut(olds));
            self.run(true, |drafts| self.draft_fetch(shape.by_ref(), modify, operands, olds, drafts))
        }
    }

    /// Swaps every element of `shape` for that of `new` where it equals that of `expected`, bit for bit; `olds` gets the elements before.
    pub fn compare_and_swap<'s>(
        &self,
        shape: impl Into<Shape<'s>>,
        element: Element,
        expected: &[u8],
        new: &[u8],
        olds: &mut [u8],
    ) -> Result<()> {
        let shape = shape.into();
        let pairs = pairs(element, expected, new);
        // SAFETY: as in `fetch`.
        unsafe {
            let (pairs, olds) = (Window::of(&pairs), Window::of_mut(olds));
            self.run(true, |drafts| self.draft_swap(shape.by_ref(), element, pairs, olds, drafts))
        }
    }

    /// Applies an operation to the 64-bit word at `offset` and returns the word before it.
    ///
    /// **Cost**: on this host a processor's atomic instruction; else one message each way. **Errors**: as for [`Region::update`].
    pub fn fetch_word(&self, offset: u64, operator: Operator, operand: u64) -> Result<u64> {
        let is_inside = offset.is_multiple_of(8) && offset < self.len() && self.len() - offset >= 8;
        if let Some(here) = self.mapped_whole().filter(|_| is_inside) {
            self.check_rights(Op::Put)?;
            return vector::update_word(here, offset, operator, operand).map_err(|lost| self.lost(lost));
        }
        let mut old = [0; 8];
        let modify = Modify { operator, element: Element::U64 };
        self.fetch(Strided::contiguous(offset, 8), modify, &operand.to_le_bytes(), &mut old)?;
        Ok(u64::from_le_bytes(old))
    }

    /// Swaps the 64-bit word at `offset` for `new` if it is `expected`; returns the word before.
    pub fn compare_and_swap_word(&self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let mut old = [0; 8];
        let shape = Strided::contiguous(offset, 8);
        self.compare_and_swap(shape, Element::U64, &expected.to_le_bytes(), &new.to_le_bytes(), &mut old)?;
        Ok(u64::from_le_bytes(old))
    }

    /// Begins a get into `into` and returns at once; the buffer comes back from [`Completion::wait`].
    pub fn start_get(&self, offset: u64, into: Vec<u8>) -> Result<Completion<Vec<u8>>> {
        let len = into.len() as u64;
        self.start_get_shape(Strided::contiguous(offset, len), into)
    }

    /// Begins a put of `bytes` and returns at once; the buffer comes back from [`Completion::wait`], when the bytes are at their home.
    pub fn start_put(&self, offset: u64, bytes: Vec<u8>) -> Result<Completion<Vec<u8>>> {
        let len = bytes.len() as u64;
        self.start_put_shape(Strided::contiguous(offset, len), bytes)
    }

    /// As [`Region::get_shape`], returning at once.
    pub fn start_get_shape(&self, shape: impl Into<Shape<'static>>, mut into: Vec<u8>) -> Result<Completion<Vec<u8>>> {
        let shape = shape.into();
        // SAFETY: the completion owns the buffer's heap memory and gives it back only once all answers are here.
        let tickets = unsafe {
            let window = Window::of_mut(&mut into);
            self.start(|drafts| self.draft_get(shape, window, drafts))?
        };
        Ok(Completion::new(tickets, move || into))
    }

    /// As [`Region::put_shape`], returning at once.
    pub fn start_put_shape(&self, shape: impl Into<Shape<'static>>, bytes: Vec<u8>) -> Result<Completion<Vec<u8>>> {
        let shape = shape.into();
        // SAFETY: as in `start_get_shape`.
        let tickets = unsafe {
            let window = Window::of(&bytes);
            self.start(|drafts| self.draft_put(shape, window, drafts))?
        };
        Ok(Completion::new(tickets, move || bytes))
    }

    /// As [`Region::fill`], returning at once.
    pub fn start_fill(&self, shape: impl Into<Shape<'static>>, pattern: Vec<u8>) -> Result<Completion<()>> {
        let shape = shape.into();
        // SAFETY: as in `start_get_shape`.
        let tickets = unsafe {
            let window = Window::of(&pattern);
            self.start(|drafts| self.draft_pattern_over(shape, window, drafts))?
        };
        Ok(Completion::new(tickets, move || drop(pattern)))
    }

    /// As [`Region::compare`], returning at once.
    pub fn start_compare(&self, shape: impl Into<Shape<'static>>, bytes: Vec<u8>) -> Result<Completion<Option<u64>>> {
        let (shape, found) = (shape.into(), Told::default());
        // SAFETY: as in `start_get_shape`.
        let tickets = unsafe {
            let window = Window::of(&bytes);
            self.start(|drafts| self.draft_difference(shape, window, drafts, found.teller()))?
        };
        Ok(Completion::new(tickets, move || {
            drop(bytes);
            found.take()
        }))
    }

    /// As [`Region::reduce`], returning at once.
    pub fn start_reduce(&self, shape: impl Into<Shape<'static>>, element: Element, range: Range) -> Result<Completion<Summary>> {
        let (shape, summary) = (shape.into(), Told::default());
        // SAFETY: a reduction has no memory of the caller.
        let tickets = unsafe { self.start(|drafts| self.draft_summary(shape, element, range, drafts, summary.teller()))? };
        Ok(Completion::new(tickets, move || summary.take()))
    }

    /// As [`Region::update`], returning at once.
    pub fn start_update(&self, shape: impl Into<Shape<'static>>, modify: Modify, operands: Vec<u8>) -> Result<Completion<()>> {
        let shape = shape.into();
        // SAFETY: as in `start_get_shape`.
        let tickets = unsafe {
            let window = Window::of(&operands);
            self.start(|drafts| self.draft_update(shape, modify, window, drafts))?
        };
        Ok(Completion::new(tickets, move || drop(operands)))
    }

    /// As [`Region::fetch`], returning at once; the elements before come from [`Completion::wait`].
    pub fn start_fetch(
        &self,
        shape: impl Into<Shape<'static>>,
        modify: Modify,
        operands: Vec<u8>,
    ) -> Result<Completion<Vec<u8>>> {
        let shape = shape.into();
        let len = shape.by_ref().check(self.name(), self.len())?.len();
        let mut olds = vec![0u8; len as usize];
        // SAFETY: as in `start_get_shape`.
        let tickets = unsafe {
            let (window, olds) = (Window::of(&operands), Window::of_mut(&mut olds));
            self.start(|drafts| self.draft_fetch(shape, modify, window, olds, drafts))?
        };
        Ok(Completion::new(tickets, move || {
            drop(operands);
            olds
        }))
    }

    /// As [`Region::compare_and_swap`], returning at once; the elements before come from [`Completion::wait`].
    pub fn start_compare_and_swap(
        &self,
        shape: impl Into<Shape<'static>>,
        element: Element,
        expected: &[u8],
        new: &[u8],
    ) -> Result<Completion<Vec<u8>>> {
        let shape = shape.into();
        let (pairs, mut olds) = (pairs(element, expected, new), vec![0u8; expected.len()]);
        // SAFETY: as in `start_get_shape`.
        let tickets = unsafe {
            let (window, olds) = (Window::of(&pairs), Window::of_mut(&mut olds));
            self.start(|drafts| self.draft_swap(shape, element, window, olds, drafts))?
        };
        Ok(Completion::new(tickets, move || {
            drop(pairs);
            olds
        }))
    }

    /// An update of a region that is one mapped extent: no request, no share.
    fn update_here(
        &self,
        here: Window,
        shape: Shape<'_>,
        modify: Modify,
        operands: &[u8],
        olds: Option<&mut [u8]>,
    ) -> Result<()> {
        let shape = self.checked(shape)?;
        let update = self.check_update(&shape, modify, operands.len() as u64)?;
        if let Some(olds) = &olds {
            self.check_len(&shape, "the buffer for old values", olds.len() as u64, shape.len())?;
        }
        let op = if olds.is_some() { Op::Fetch(update) } else { Op::Update(update) };
        self.check_rights(op)?;
        // SAFETY: both are borrowed for this call, and operands only read.
        let (operands, olds) = unsafe { (Window::of(operands), olds.map(|olds| Window::of_mut(olds))) };
        vector::update_part(here, &shape, 0, shape.len(), update, operands, olds).map_err(|lost| self.lost(lost))
    }
}
