//! One command of the user on a region: its local shares are done at once, the others become commands in requests.
//!
//! Operand and result lie contiguously in the caller's memory. A share that is spread over the stream is packed on its way out and spread
//! again when its answer is here.

use crate::client::cut::plan::parts;
use crate::client::cut::spread::{Share, Stream, joined_shares, shares};
use crate::client::drafts::{Drafts, ListBytes};
use crate::client::region::{Region, Way};
use crate::exec;
use hanare_memory::{Lost, Window, vector};
use hanare_protocol::element::{RANGE_LEN, Range, SUMMARY_LEN, Summary};
use hanare_protocol::limits::{LIST_LEN_MAX, OLD_LEN_MAX};
use hanare_protocol::shape::{Checked, Indexed, Indices, Shape, Strided};
use hanare_protocol::wire::command::{Command, DIFFERENCE_LEN, Op, dims_list, index_bytes};
use hanare_protocol::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A command, and the memory that it reads (as many bytes as `Op::operand_len` says) or fills (`Op::result_len`).
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub op: Op,
    pub shape: Checked<'a>,
    pub operand: Window,
    pub result: Window,
}

impl Call<'_> {
    /// A get into memory of as many bytes.
    pub fn get(shape: Checked<'_>, into: Window) -> Call<'_> {
        Call { op: Op::Get, shape, operand: Window::empty(), result: into }
    }

    /// A put of as many bytes.
    pub fn put(shape: Checked<'_>, bytes: Window) -> Call<'_> {
        Call { op: Op::Put, shape, operand: bytes, result: Window::empty() }
    }
}

/// Longest piece of a list in one command: while a node works on one piece, the next is on its way.
const LIST_PIECE_LEN: u64 = LIST_LEN_MAX / 4;

/// Longest piece of old values in one command.
const OLD_PIECE_LEN: u64 = OLD_LEN_MAX / 4;

impl Region {
    /// Does the local shares of a command and drafts the others. The call was checked by its maker.
    ///
    /// Its windows, and a borrowed index list, are used until the drafts were posted and their tickets waited for: whoever posts vouches.
    pub(crate) fn draft<'b>(&self, call: Call<'_>, drafts: &mut Drafts<'b>) -> Result<()> {
        self.check_rights(call.op)?;
        drafts.note(call.op, self.name(), call.shape.len());
        match (call.op, call.shape.shape()) {
            (Op::Get, Shape::Strided(shape)) => self.draft_strided(Op::Get, *shape, call.result, drafts),
            (Op::Put, Shape::Strided(shape)) => self.draft_strided(Op::Put, *shape, call.operand, drafts),
            (Op::Fill { pattern_len }, _) => self.draft_fill(call, u64::from(pattern_len), drafts),
            _ => {
                let mut reached = Reached::by(self.way());
                for share in shares(reached.way.routes(), call.shape) {
                    let local = reached.extent(share.extent)?;
                    self.draft_share(call.op, share, local, call.operand, call.result, drafts)?;
                }
                Ok(())
            }
        }
    }

    /// The way of plain gets and puts: no allocation where one extent is touched.
    pub(crate) fn draft_strided(&self, op: Op, shape: Strided, memory: Window, drafts: &mut Drafts<'_>) -> Result<()> {
        let way = self.way();
        for part in parts(way.routes(), shape) {
            let memory = memory.slice(part.at as usize, part.len as usize);
            match way.local(part.extent)? {
                Some(extent) => {
                    let checked = Shape::from(part.shape).check(self.name(), extent.len() as u64)?;
                    let moved = match op {
                        Op::Get => vector::gather(extent, &checked, memory),
                        _ => vector::scatter(memory, extent, &checked),
                    };
                    moved.map_err(|lost| self.lost(lost))?;
                    drafts.note_done(op, self.here());
                }
                None => {
                    let door = self.door(part.extent);
                    let command = Command::new(op, door.node, door.slot, door.grant, &part.shape.into());
                    drafts.push_plain(&door, &command, memory);
                }
            }
        }
        Ok(())
    }

    /// Does or drafts a share; `local` is its extent, where it is reached directly.
    fn draft_share(
        &self,
        op: Op,
        share: Share<'_>,
        local: Option<Window>,
        operand: Window,
        result: Window,
        drafts: &mut Drafts<'_>,
    ) -> Result<()> {
        if let Some(element) = op.element()
            && op.is_once()
        {
            // Where a resize has left an odd border, what is aligned in the region is not on its extent.
            share.shape.check_elements(self.name(), "an update", element, true)?;
        }
        for share in pieces(op, share, local.is_some())? {
            let shape_len = share.shape.len();
            let operand_len = op.operand_len(shape_len).expect("the whole call was checked");
            let whole = |window: Window, len: u64, factor: u64| match &share.stream {
                Stream::At(at) => Some(window.slice((at * factor) as usize, len as usize)),
                Stream::Blocks(_) => None,
            };
            let factor = if matches!(op, Op::CompareAndSwap(_)) { 2 } else { 1 };
            let (operand, packed) = match op.streams_operand().then(|| whole(operand, operand_len, factor)) {
                None => (operand, Vec::new()),
                Some(Some(part)) => (part, Vec::new()),
                Some(None) => self.pack(operand, &share, factor)?,
            };
            let result_len = op.result_len(shape_len);
            let streams_result = matches!(op, Op::Get | Op::Fetch(_) | Op::CompareAndSwap(_));
            let (target, spread) = match streams_result.then(|| whole(result, result_len, 1)) {
                None => (result, None),
                Some(Some(part)) => (part, None),
                Some(None) => {
                    let mut packed = vec![0u8; result_len as usize];
                    // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards.
                    (unsafe { Window::of_mut(&mut packed) }, Some((packed, blocks_of(&share, 1)?)))
                }
            };
            match local {
                Some(extent) => {
                    drafts.note_done(op, self.here());
                    exec::run(op, extent, &share.shape, operand, target).map_err(|lost| self.lost(lost))?
                }
                None => {
                    let door = self.door(share.extent);
                    let command = Command::new(op, door.node, door.slot, door.grant, share.shape.shape());
                    drafts.push(&door, &command, list_bytes(share.shape.into_shape()), operand, target, packed);
                }
            }
            if let Some((packed, blocks)) = spread {
                drafts.after(Box::new(move || {
                    // SAFETY: the answer is here, so the buffer is ours alone, and only read.
                    let packed = unsafe { Window::of(&packed) };
                    vector::scatter(packed, result.slice(0, blocks.limit() as usize), &blocks).map_err(|lost| private(&lost))
                }));
            }
        }
        Ok(())
    }

    /// The operand of a share that is spread over the stream, packed.
    fn pack(&self, operand: Window, share: &Share<'_>, factor: u64) -> Result<(Window, Vec<u8>)> {
        let blocks = blocks_of(share, factor)?;
        let mut packed = vec![0u8; blocks.len() as usize];
        // SAFETY: the heap memory stays where it is while the vector is moved into the request.
        let window = unsafe { Window::of_mut(&mut packed) };
        vector::gather(operand.slice(0, blocks.limit() as usize), &blocks, window).map_err(|lost| private(&lost))?;
        Ok((window, packed))
    }

    /// A fill: its pattern begins anew in every share, at the byte where the stream is.
    fn draft_fill(&self, call: Call<'_>, pattern_len: u64, drafts: &mut Drafts<'_>) -> Result<()> {
        let mut pattern = vec![0u8; pattern_len as usize];
        call.operand.read_into(&mut pattern).map_err(|lost| private(&lost))?;
        let mut reached = Reached::by(self.way());
        let routes = reached.way.routes();
        let all = if pattern_len == 1 { joined_shares(routes, call.shape) } else { shares(routes, call.shape) };
        // A node fills when the whole message is there, and puts as it comes: blocks that overlap keep their order in one of the two alone.
        let is_patterned = all.iter().all(|share| phase(share, pattern_len).is_some());
        for share in all {
            let local = reached.extent(share.extent)?;
            match phase(&share, pattern_len).filter(|_| is_patterned) {
                Some(phase) => {
                    let mut turned = pattern.clone();
                    turned.rotate_left(phase as usize);
                    self.draft_pattern(share, local, turned, drafts)?;
                }
                None => self.draft_written_out(share, local, &pattern, drafts)?,
            }
        }
        Ok(())
    }

    fn draft_pattern(&self, share: Share<'_>, local: Option<Window>, pattern: Vec<u8>, drafts: &mut Drafts<'_>) -> Result<()> {
        let op = Op::Fill { pattern_len: pattern.len() as u32 };
        // SAFETY: the heap memory stays where it is while the vector is moved into the request; it is only read.
        let operand = unsafe { Window::of(&pattern) };
        if let Some(extent) = local {
            drafts.note_done(op, self.here());
            return exec::run(op, extent, &share.shape, operand, Window::empty()).map_err(|lost| self.lost(lost));
        }
        for share in pieces(op, share, false)? {
            let door = self.door(share.extent);
            let command = Command::new(op, door.node, door.slot, door.grant, share.shape.shape());
            let list = list_bytes(share.shape.into_shape());
            drafts.push(&door, &command, list, Window::empty(), Window::empty(), pattern.clone());
        }
        Ok(())
    }

    /// Blocks that each begin the pattern elsewhere are put, not filled.
    fn draft_written_out(&self, share: Share<'_>, local: Option<Window>, pattern: &[u8], drafts: &mut Drafts<'_>) -> Result<()> {
        let (block, len) = (share.shape.shape().block(), share.shape.len());
        let byte = |at: u64| pattern[(at % pattern.len() as u64) as usize];
        let bytes: Vec<u8> = match &share.stream {
            Stream::At(at) => (*at..at + len).map(byte).collect(),
            Stream::Blocks(positions) => positions.iter().flat_map(|position| *position..position + block).map(byte).collect(),
        };
        // SAFETY: the bytes live until this has returned, and are only read.
        let operand = unsafe { Window::of(&bytes) };
        if let Some(extent) = local {
            drafts.note_done(Op::Put, self.here());
            return exec::run(Op::Put, extent, &share.shape, operand, Window::empty()).map_err(|lost| self.lost(lost));
        }
        let mut at = 0;
        for share in pieces(Op::Put, Share { stream: Stream::At(0), ..share }, false)? {
            let len = share.shape.len() as usize;
            let door = self.door(share.extent);
            let command = Command::new(Op::Put, door.node, door.slot, door.grant, share.shape.shape());
            let list = list_bytes(share.shape.into_shape());
            drafts.push(&door, &command, list, Window::empty(), Window::empty(), bytes[at..at + len].to_vec());
            at += len;
        }
        Ok(())
    }

    /// Compares; `tell` gets the position of the first difference when all answers are here.
    pub(crate) fn draft_compare<'b>(
        &self,
        shape: Checked<'_>,
        bytes: Window,
        drafts: &mut Drafts<'b>,
        tell: impl FnOnce(Option<u64>) + Send + 'b,
    ) -> Result<()> {
        self.check_rights(Op::Compare)?;
        drafts.note(Op::Compare, self.name(), shape.len());
        let first = Arc::new(Mutex::new(u64::MAX));
        let mut reached = Reached::by(self.way());
        for share in shares(reached.way.routes(), shape) {
            let local = reached.extent(share.extent)?;
            for share in pieces(Op::Compare, share, local.is_some())? {
                let mut cell = vec![0u8; DIFFERENCE_LEN as usize];
                // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards.
                let result = unsafe { Window::of_mut(&mut cell) };
                let (stream, block) = (share.stream.clone(), share.shape.shape().block());
                self.draft_share(Op::Compare, share, local, bytes, result, drafts)?;
                let first = first.clone();
                drafts.after(Box::new(move || {
                    let found = u64::from_le_bytes(cell[..].try_into().expect("a cell"));
                    let at = match &stream {
                        _ if found == u64::MAX => u64::MAX,
                        Stream::At(at) => at + found,
                        Stream::Blocks(positions) => positions[(found / block) as usize] + found % block,
                    };
                    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                    *first = at.min(*first);
                    Ok(())
                }));
            }
        }
        drafts.after(Box::new(move || {
            let first = *first.lock().unwrap_or_else(PoisonError::into_inner);
            tell((first != u64::MAX).then_some(first));
            Ok(())
        }));
        Ok(())
    }

    /// Summarises; `tell` gets the summary when all answers are here.
    pub(crate) fn draft_reduce<'b>(
        &self,
        op: Op,
        shape: Checked<'_>,
        range: &Range,
        drafts: &mut Drafts<'b>,
        tell: impl FnOnce(Summary) + Send + 'b,
    ) -> Result<()> {
        let Op::Reduce(element) = op else { unreachable!("only reductions come here") };
        self.check_rights(op)?;
        drafts.note(op, self.name(), shape.len());
        let whole = Arc::new(Mutex::new(Summary::new(element)));
        let range: Arc<[u8; RANGE_LEN as usize]> = Arc::new(range.encode());
        // SAFETY: the range stays where it is as long as any of its owners; the last is among what is run afterwards.
        let operand = unsafe { Window::of(&range[..]) };
        let mut reached = Reached::by(self.way());
        for share in joined_shares(reached.way.routes(), shape) {
            // An odd border of a resize may cut an element.
            share.shape.check_elements(self.name(), "a reduction across a border of two extents", element, false)?;
            let local = reached.extent(share.extent)?;
            for share in pieces(op, share, local.is_some())? {
                let mut cell = vec![0u8; SUMMARY_LEN as usize];
                // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards.
                let result = unsafe { Window::of_mut(&mut cell) };
                self.draft_share(op, share, local, operand, result, drafts)?;
                let (whole, range) = (whole.clone(), range.clone());
                drafts.after(Box::new(move || {
                    let _kept = range;
                    let garbage = || Error::Garbage { peer: "a node".to_owned(), reason: "not a summary".to_owned() };
                    let part = Summary::decode(&cell, element).ok_or_else(garbage)?;
                    whole.lock().unwrap_or_else(PoisonError::into_inner).merge(&part);
                    Ok(())
                }));
            }
        }
        drafts.after(Box::new(move || {
            tell(whole.lock().unwrap_or_else(PoisonError::into_inner).clone());
            Ok(())
        }));
        Ok(())
    }
}

/// Which extents one call reaches directly. Decided once for each: a share done at once must not overtake one that was drafted.
struct Reached<'r> {
    way: Way<'r>,
    known: BTreeMap<usize, Option<Window>>,
}

impl<'r> Reached<'r> {
    fn by(way: Way<'r>) -> Reached<'r> {
        Reached { way, known: BTreeMap::new() }
    }

    fn extent(&mut self, extent: usize) -> Result<Option<Window>> {
        if let Some(known) = self.known.get(&extent) {
            return Ok(*known);
        }
        let local = self.way.local(extent)?;
        self.known.insert(extent, local);
        Ok(local)
    }
}

/// Where in the pattern a share begins, if all of its blocks begin there.
fn phase(share: &Share<'_>, pattern_len: u64) -> Option<u64> {
    match &share.stream {
        Stream::At(at) => Some(at % pattern_len),
        // Each block begins the pattern anew where blocks hold it whole.
        Stream::Blocks(_) => share.shape.shape().block().is_multiple_of(pattern_len).then_some(0),
    }
}

/// The blocks of the stream that a spread share stands for, as a shape on the caller's memory.
fn blocks_of(share: &Share<'_>, factor: u64) -> Result<Checked<'static>> {
    let Stream::Blocks(positions) = &share.stream else { unreachable!("only spread shares are packed") };
    let block = share.shape.shape().block();
    let end = positions.iter().max().map_or(0, |last| (last + block) * factor);
    let offsets = positions.iter().flat_map(|at| (0..factor).map(move |k| at * factor + k * block)).collect();
    Shape::Indexed(Indexed { offset: 0, block, scale: 1, indices: Indices::Wide(Cow::Owned(offsets)) }).check("", end)
}

/// A share as commands of bounded size: lists, and old values that a node must hold, go in pieces.
fn pieces<'a>(op: Op, share: Share<'a>, is_local: bool) -> Result<Vec<Share<'a>>> {
    let unit = match (share.shape.range(), op.element()) {
        (Some(_), Some(element)) => element.len(),
        _ => share.shape.shape().block(),
    };
    let at_once = if is_local { u64::MAX } else { units_at_once(op, &share.shape, unit) };
    if unit == 0 || share.shape.len() / unit <= at_once {
        return Ok(vec![share]);
    }
    let count = share.shape.len() / unit;
    (0..count.div_ceil(at_once)).map(|k| piece(&share, unit, k * at_once, ((k + 1) * at_once).min(count))).collect()
}

fn units_at_once(op: Op, shape: &Checked<'_>, unit: u64) -> u64 {
    let holds_old = matches!(op, Op::Fetch(_) | Op::CompareAndSwap(_));
    let old = if holds_old { (OLD_PIECE_LEN / unit.max(1)).max(1) } else { u64::MAX };
    let list = match shape.shape() {
        Shape::Indexed(Indexed { indices: Indices::Narrow(_), .. }) => LIST_PIECE_LEN / 4,
        Shape::Indexed(_) => LIST_PIECE_LEN / 8,
        _ => u64::MAX,
    };
    old.min(list)
}

/// Units `from .. to` of a share.
fn piece(share: &Share<'_>, unit: u64, from: u64, to: u64) -> Result<Share<'static>> {
    let shape = match (share.shape.range(), share.shape.shape()) {
        (Some((offset, _)), _) => Shape::contiguous(offset + from * unit, (to - from) * unit),
        (None, Shape::Strided(shape)) => {
            Shape::Strided(Strided { offset: shape.offset + from * shape.stride, count: to - from, ..*shape })
        }
        (None, Shape::Indexed(shape)) => {
            let indices = shape.indices.slice(from as usize, to as usize);
            Shape::Indexed(Indexed { offset: shape.offset, block: shape.block, scale: shape.scale, indices }).into_owned()
        }
        (None, Shape::Subarray(_)) => return Err(too_long(share.shape.len())),
    };
    let stream = match &share.stream {
        Stream::At(at) => Stream::At(at + from * unit),
        Stream::Blocks(positions) => Stream::Blocks(positions[from as usize..to as usize].to_vec()),
    };
    Ok(Share { extent: share.extent, shape: shape.check("", share.shape.limit())?, stream })
}

fn too_long(len: u64) -> Error {
    Error::LimitReached { what: format!("old values of {len} bytes from one command; make several"), limit: OLD_PIECE_LEN }
}

/// What travels of a shape beside its command.
pub(crate) fn list_bytes(shape: Shape<'_>) -> ListBytes {
    match shape {
        Shape::Strided(_) => ListBytes::None,
        Shape::Subarray(shape) => ListBytes::Dims(dims_list(&shape)),
        Shape::Indexed(shape) => match shape.indices {
            Indices::Narrow(Cow::Owned(list)) => ListBytes::Narrow(list),
            Indices::Wide(Cow::Owned(list)) => ListBytes::Wide(list),
            borrowed => {
                // SAFETY: the caller's list stays as it is until the tickets were waited for, as `Region::draft` says.
                ListBytes::Borrowed(unsafe { Window::of(index_bytes(&borrowed)) })
            }
        },
    }
}

/// Memory of this process itself is gone: nothing of a region.
pub(crate) fn private(lost: &Lost) -> Error {
    Error::System { what: "reach this program's own memory".to_owned(), reason: lost.to_string() }
}
