//! How each command becomes a call: its checks, then its windows. Both, and borrowed index lists, stay good until the tickets
//! were waited for.

use crate::client::command::calls::Modify;
use crate::client::command::check::fit_buffer;
use crate::client::command::draft::{Call, private};
use crate::client::drafts::Drafts;
use crate::client::region::Region;
use hanare_memory::{Window, vector};
use hanare_protocol::Result;
use hanare_protocol::element::{Element, Range, Summary};
use hanare_protocol::shape::Shape;
use hanare_protocol::wire::command::Op;

impl Region {
    pub(crate) fn draft_get(&self, shape: Shape<'_>, into: Window, drafts: &mut Drafts<'_>) -> Result<()> {
        let shape = self.checked(shape)?;
        self.check_len(&shape, "the buffer", into.len() as u64, shape.len())?;
        self.draft(Call::get(shape, into), drafts)
    }

    pub(crate) fn draft_put(&self, shape: Shape<'_>, bytes: Window, drafts: &mut Drafts<'_>) -> Result<()> {
        let shape = self.checked(shape)?;
        self.check_len(&shape, "the buffer", bytes.len() as u64, shape.len())?;
        self.draft(Call::put(shape, bytes), drafts)
    }

    pub(crate) fn draft_get_into<'b>(
        &self,
        shape: Shape<'_>,
        into: Window,
        local: Shape<'_>,
        drafts: &mut Drafts<'b>,
    ) -> Result<()> {
        let (shape, local) = (self.checked(shape)?, fit_buffer(local, into.len() as u64)?);
        self.check_len(&shape, "the blocks of the buffer's shape", local.len(), shape.len())?;
        if let Some((offset, len)) = local.range() {
            let into = into.slice(offset as usize, len as usize);
            return self.draft(Call::get(shape, into), drafts);
        }
        if let Some(extent) = self.only_extent()? {
            drafts.note(Op::Get, self.name(), shape.len());
            return vector::copy_shapes(extent, &shape, into, &local).map_err(|lost| self.lost(lost));
        }
        let mut packed = vec![0u8; shape.len() as usize];
        // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards.
        let window = unsafe { Window::of_mut(&mut packed) };
        self.draft(Call::get(shape, window), drafts)?;
        let local = local.into_owned();
        drafts.after(Box::new(move || {
            // SAFETY: the answers are here, so the buffer is ours alone, and only read.
            vector::scatter(unsafe { Window::of(&packed) }, into, &local).map_err(|lost| private(&lost))
        }));
        Ok(())
    }

    pub(crate) fn draft_put_from(
        &self,
        shape: Shape<'_>,
        bytes: Window,
        local: Shape<'_>,
        drafts: &mut Drafts<'_>,
    ) -> Result<()> {
        self.check_rights(Op::Put)?;
        let (shape, local) = (self.checked(shape)?, fit_buffer(local, bytes.len() as u64)?);
        self.check_len(&shape, "the blocks of the buffer's shape", local.len(), shape.len())?;
        if let Some((offset, len)) = local.range() {
            let bytes = bytes.slice(offset as usize, len as usize);
            return self.draft(Call::put(shape, bytes), drafts);
        }
        if let Some(extent) = self.only_extent()? {
            drafts.note(Op::Put, self.name(), shape.len());
            drafts.note_done(Op::Put, self.here());
            return vector::copy_shapes(bytes, &local, extent, &shape).map_err(|lost| self.lost(lost));
        }
        let mut packed = vec![0u8; shape.len() as usize];
        // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards.
        let window = unsafe { Window::of_mut(&mut packed) };
        vector::gather(bytes, &local, window).map_err(|lost| private(&lost))?;
        self.draft(Call::put(shape, window), drafts)?;
        drafts.after(Box::new(move || {
            drop(packed);
            Ok(())
        }));
        Ok(())
    }

    /// The whole region's bytes, where they are one extent of this host.
    fn only_extent(&self) -> Result<Option<Window>> {
        let way = self.way();
        if way.routes().extents().len() == 1 { way.local(0) } else { Ok(None) }
    }

    pub(crate) fn draft_pattern_over(&self, shape: Shape<'_>, pattern: Window, drafts: &mut Drafts<'_>) -> Result<()> {
        let shape = self.checked(shape)?;
        self.check_pattern(&shape, pattern.len() as u64)?;
        let op = Op::Fill { pattern_len: pattern.len() as u32 };
        self.draft(Call { op, shape, operand: pattern, result: Window::empty() }, drafts)
    }

    pub(crate) fn draft_difference<'b>(
        &self,
        shape: Shape<'_>,
        bytes: Window,
        drafts: &mut Drafts<'b>,
        tell: impl FnOnce(Option<u64>) + Send + 'b,
    ) -> Result<()> {
        let shape = self.checked(shape)?;
        self.check_len(&shape, "the bytes to compare with", bytes.len() as u64, shape.len())?;
        self.draft_compare(shape, bytes, drafts, tell)
    }

    pub(crate) fn draft_summary<'b>(
        &self,
        shape: Shape<'_>,
        element: Element,
        range: Range,
        drafts: &mut Drafts<'b>,
        tell: impl FnOnce(Summary) + Send + 'b,
    ) -> Result<()> {
        let shape = self.checked(shape)?;
        self.check_reduction(&shape, element, &range)?;
        self.draft_reduce(Op::Reduce(element), shape, &range, drafts, tell)
    }

    pub(crate) fn draft_update(&self, shape: Shape<'_>, modify: Modify, operand: Window, drafts: &mut Drafts<'_>) -> Result<()> {
        let shape = self.checked(shape)?;
        let update = self.check_update(&shape, modify, operand.len() as u64)?;
        self.draft(Call { op: Op::Update(update), shape, operand, result: Window::empty() }, drafts)
    }

    pub(crate) fn draft_fetch(
        &self,
        shape: Shape<'_>,
        modify: Modify,
        operand: Window,
        olds: Window,
        drafts: &mut Drafts<'_>,
    ) -> Result<()> {
        let shape = self.checked(shape)?;
        let update = self.check_update(&shape, modify, operand.len() as u64)?;
        self.check_len(&shape, "the buffer for old values", olds.len() as u64, shape.len())?;
        self.draft(Call { op: Op::Fetch(update), shape, operand, result: olds }, drafts)
    }

    pub(crate) fn draft_swap(
        &self,
        shape: Shape<'_>,
        element: Element,
        pairs: Window,
        olds: Window,
        drafts: &mut Drafts<'_>,
    ) -> Result<()> {
        let shape = self.checked(shape)?;
        self.check_swap(&shape, element, pairs.len() as u64)?;
        self.check_len(&shape, "the buffer for old values", olds.len() as u64, shape.len())?;
        self.draft(Call { op: Op::CompareAndSwap(element), shape, operand: pairs, result: olds }, drafts)
    }
}

/// Expected and new values as they travel: element by element, side by side. Lists of different lengths give too few, which is refused later.
pub(crate) fn pairs(element: Element, expected: &[u8], new: &[u8]) -> Vec<u8> {
    let len = element.len() as usize;
    if expected.len() != new.len() {
        return Vec::new();
    }
    expected.chunks(len).zip(new.chunks(len)).flat_map(|(expected, new)| [expected, new].concat()).collect()
}
