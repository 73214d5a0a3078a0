//! Cutting of a checked command: its parts on this host are done at once, the others become commands in requests.
//!
//! Operand and result lie contiguously in the caller's memory. A share that is spread over the stream is packed on its way out and spread
//! again when its answer is here.

use super::copy;
use super::what::{Sound, With};
use crate::client::cut::plan::parts;
use crate::client::cut::spread::{ExtentShape, StreamPart, joined_shapes, shares};
use crate::client::drafts::Drafts;
use crate::client::message::ListBytes;
use crate::client::region::{Region, Way};
use hanare_memory::exec;
use hanare_memory::{Lost, Window, vector};
use hanare_protocol::element::{Element, Range, SUMMARY_LEN, Summary};
use hanare_protocol::limits::{LIST_LEN_MAX, OLD_LEN_MAX};
use hanare_protocol::shape::{Checked, Indexed, Indices, Shape, Strided};
use hanare_protocol::wire::command::{Command, DIFFERENCE_LEN, Op};
use hanare_protocol::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest piece of a list in one command. While a node works on one piece, the next is on its way.
const LIST_PIECE_LEN: u64 = LIST_LEN_MAX / 4;

/// Longest piece of old values in one command.
const OLD_PIECE_LEN: u64 = OLD_LEN_MAX / 4;

impl<'b, R: Deref<Target = Region>> Sound<'b, R> {
    /// Does it on a region that is one window of this program. Copies are drafted.
    pub(super) fn at_once(&self, here: Window) -> Result<()> {
        let Sound { region, op, shape, with } = self;
        let op = *op;
        let run = |operand, result| exec::run(op, here, shape, operand, result).map_err(|lost| region.lost(lost));
        match with {
            With::Stream { operand, result } => run(*operand, *result),
            With::Blocks { memory, local } => {
                let moved = match op {
                    Op::Get => vector::copy_shapes(here, shape, *memory, local),
                    _ => vector::copy_shapes(*memory, local, here, shape),
                };
                moved.map_err(|lost| region.lost(lost))
            }
            With::Difference { bytes, found } => {
                let mut cell = [0; DIFFERENCE_LEN as usize];
                // SAFETY: the cell is borrowed for this call.
                run(*bytes, unsafe { Window::of_mut(&mut cell) })?;
                found(position(&cell));
                Ok(())
            }
            With::Summary { range, summary } => {
                let (range, mut cell) = (range.encode(), [0; SUMMARY_LEN as usize]);
                // SAFETY: both are borrowed for this call, and the range is only read.
                let (operand, result) = unsafe { (Window::of(&range), Window::of_mut(&mut cell)) };
                run(operand, result)?;
                summary(summary_of(&cell, op)?);
                Ok(())
            }
            With::Pairs { expected, new, olds } => {
                let pairs = pairs(op, *expected, *new)?;
                // SAFETY: the pairs are borrowed for this call, and only read.
                run(unsafe { Window::of(&pairs) }, *olds)
            }
            With::Region { .. } => unreachable!("a copy has two regions"),
        }
    }

    /// Does its parts on this host and drafts the others; see [`super::Command::draft`].
    pub(super) fn draft(self, drafts: &mut Drafts<'b>) -> Result<()> {
        let Sound { region, op, shape, with } = self;
        let region = &*region;
        if let With::Region { to, to_shape } = with {
            drafts.note(op, to.name(), to_shape.len());
            return copy::draft((region, shape), (&to, *to_shape), drafts);
        }
        drafts.note(op, region.name(), shape.len());
        match with {
            With::Stream { operand, result } => streams(region, op, shape, operand, result, drafts),
            With::Blocks { memory, local } => blocks(region, op, shape, memory, *local, drafts),
            With::Difference { bytes, found } => Cutter::new(region, op, drafts).compare(shape, bytes, move |first| found(first)),
            With::Summary { range, summary } => {
                Cutter::new(region, op, drafts).reduce(shape, &range, move |whole| summary(whole))
            }
            With::Pairs { expected, new, olds } => {
                let pairs = pairs(op, expected, new)?;
                // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards; it is only read.
                let operand = unsafe { Window::of(&pairs) };
                streams(region, op, shape, operand, olds, drafts)?;
                drafts.keep(pairs);
                Ok(())
            }
            With::Region { .. } => unreachable!("it was seen to"),
        }
    }
}

/// A command whose operand and result are memory as it travels.
fn streams(region: &Region, op: Op, shape: Checked<'_>, operand: Window, result: Window, drafts: &mut Drafts<'_>) -> Result<()> {
    match (op, shape.shape()) {
        (Op::Get, Shape::Strided(shape)) => plain(region, op, *shape, result, drafts),
        (Op::Put, Shape::Strided(shape)) => plain(region, op, *shape, operand, drafts),
        (Op::Fill { .. }, _) => Cutter::new(region, op, drafts).fill(shape, operand),
        _ => Cutter::new(region, op, drafts).stream(shape, operand, result),
    }
}

/// Gets and puts of strided blocks: no allocation where one extent is touched.
fn plain(region: &Region, op: Op, shape: Strided, memory: Window, drafts: &mut Drafts<'_>) -> Result<()> {
    let way = region.way();
    for part in parts(way.routes(), shape) {
        let memory = memory.slice(part.at as usize, part.len as usize);
        match way.local(part.extent)? {
            Some(extent) => {
                let checked = Shape::from(part.shape).check(region.name(), extent.len() as u64)?;
                let moved = match op {
                    Op::Get => vector::gather(extent, &checked, memory),
                    _ => vector::scatter(memory, extent, &checked),
                };
                moved.map_err(|lost| region.lost(lost))?;
                drafts.note_done(op, region.here());
            }
            None => {
                let route = region.extent_route(part.extent);
                let command = Command::new(op, route.node, route.slot, route.grant, &part.shape.into());
                drafts.push_plain(&route, &command, memory);
            }
        }
    }
    Ok(())
}

/// Gets and puts of blocks of the caller's memory. They are packed on their way, unless the region is one extent of this host.
fn blocks<'b>(
    region: &Region,
    op: Op,
    shape: Checked<'_>,
    memory: Window,
    local: Checked<'_>,
    drafts: &mut Drafts<'b>,
) -> Result<()> {
    let way = region.way();
    let only = if way.routes().extents().len() == 1 { way.local(0)? } else { None };
    if let Some(extent) = only {
        drafts.note_done(op, region.here());
        let moved = match op {
            Op::Get => vector::copy_shapes(extent, &shape, memory, &local),
            _ => vector::copy_shapes(memory, &local, extent, &shape),
        };
        return moved.map_err(|lost| region.lost(lost));
    }
    let mut packed = vec![0u8; shape.len() as usize];
    // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards.
    let window = unsafe { Window::of_mut(&mut packed) };
    if op == Op::Put {
        vector::gather(memory, &local, window).map_err(|lost| private(&lost))?;
        streams(region, op, shape, window, Window::empty(), drafts)?;
        drafts.keep(packed);
        return Ok(());
    }
    streams(region, op, shape, Window::empty(), window, drafts)?;
    let local = local.into_owned();
    drafts.after(Box::new(move || {
        // SAFETY: the answers are here, so the buffer is ours alone, and only read.
        vector::scatter(unsafe { Window::of(&packed) }, memory, &local).map_err(|lost| private(&lost))
    }));
    Ok(())
}

/// A command that is being cut.
struct Cutter<'r, 'd, 'b> {
    region: &'r Region,
    op: Op,
    way: Way<'r>,
    /// Extents that it reaches directly. Decided once for each: a part done at once must not overtake one that was drafted.
    reached: BTreeMap<usize, Option<Window>>,
    drafts: &'d mut Drafts<'b>,
}

impl<'r, 'd, 'b> Cutter<'r, 'd, 'b> {
    fn new(region: &'r Region, op: Op, drafts: &'d mut Drafts<'b>) -> Cutter<'r, 'd, 'b> {
        Cutter { region, op, way: region.way(), reached: BTreeMap::new(), drafts }
    }

    fn reach(&mut self, extent: usize) -> Result<Option<Window>> {
        if let Some(known) = self.reached.get(&extent) {
            return Ok(*known);
        }
        let local = self.way.local(extent)?;
        self.reached.insert(extent, local);
        Ok(local)
    }

    /// A command whose operand and result are streams, or the same for all shares.
    fn stream(&mut self, shape: Checked<'_>, operand: Window, result: Window) -> Result<()> {
        for share in shares(self.way.routes(), shape) {
            self.share(share, operand, result)?;
        }
        Ok(())
    }

    /// Does a share, or drafts it in pieces.
    fn share(&mut self, share: ExtentShape<'_>, operand: Window, result: Window) -> Result<()> {
        let local = self.reach(share.extent)?;
        // A resize may leave an odd border. An element that is whole in the region may be cut there, or lie at an odd offset of its extent.
        self.op.check(self.region.name(), &share.shape)?;
        pieces(self.op, share, local.is_some())?.into_iter().try_for_each(|piece| self.piece(piece, local, operand, result))
    }

    fn piece(&mut self, share: ExtentShape<'_>, local: Option<Window>, operand: Window, result: Window) -> Result<()> {
        let (op, len) = (self.op, share.shape.len());
        let whole = |window: Window, len: u64, factor: u64| match &share.stream {
            StreamPart::At(at) => Some(window.slice((at * factor) as usize, len as usize)),
            StreamPart::Blocks(_) => None,
        };
        let factor = op.operand_factor();
        let operand_len = op.operand_len(len).expect("the whole command was checked");
        let (operand, packed) = match op.streams_operand().then(|| whole(operand, operand_len, factor)) {
            None => (operand, Vec::new()),
            Some(Some(part)) => (part, Vec::new()),
            Some(None) => pack(operand, &share, factor)?,
        };
        let (target, spread) = match op.streams_result().then(|| whole(result, len, 1)) {
            None => (result, None),
            Some(Some(part)) => (part, None),
            Some(None) => {
                let mut packed = vec![0u8; len as usize];
                // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards.
                (unsafe { Window::of_mut(&mut packed) }, Some((packed, blocks_of(&share, 1)?)))
            }
        };
        self.run(op, share, local, operand, target, packed)?;
        if let Some((packed, blocks)) = spread {
            self.drafts.after(Box::new(move || {
                // SAFETY: the answer is here, so the buffer is ours alone, and only read.
                let packed = unsafe { Window::of(&packed) };
                vector::scatter(packed, result.slice(0, blocks.limit() as usize), &blocks).map_err(|lost| private(&lost))
            }));
        }
        Ok(())
    }

    /// Does a piece on its extent, if that is reached directly, or drafts it. `packed` is kept for the operand's sake; where the operand is
    /// empty it is the operand.
    fn run(
        &mut self,
        op: Op,
        share: ExtentShape<'_>,
        local: Option<Window>,
        operand: Window,
        result: Window,
        packed: Vec<u8>,
    ) -> Result<()> {
        let Some(extent) = local else {
            let route = self.region.extent_route(share.extent);
            let command = Command::new(op, route.node, route.slot, route.grant, share.shape.shape());
            let list = (share.shape.len(), ListBytes::of(share.shape.into_shape()));
            self.drafts.push(&route, &command, list, operand, result, packed);
            return Ok(());
        };
        self.drafts.note_done(op, self.region.here());
        // SAFETY: the vector is borrowed for this call, and only read.
        let operand = if operand.is_empty() { unsafe { Window::of(&packed) } } else { operand };
        exec::run(op, extent, &share.shape, operand, result).map_err(|lost| self.region.lost(lost))
    }

    /// A fill: its pattern begins anew in every share, at the byte where the stream is.
    fn fill(&mut self, shape: Checked<'_>, pattern: Window) -> Result<()> {
        let pattern = bytes_of(pattern)?;
        let (routes, len) = (self.way.routes(), pattern.len() as u64);
        let all = if len == 1 { joined_shapes(routes, shape) } else { shares(routes, shape) };
        // A node fills when the whole message is there, and puts as it comes. So overlapping blocks keep their order only within one of the
        // two.
        let is_patterned = all.iter().all(|share| phase(share, len).is_some());
        for share in all {
            let local = self.reach(share.extent)?;
            match phase(&share, len).filter(|_| is_patterned) {
                Some(phase) => {
                    let mut turned = pattern.clone();
                    turned.rotate_left(phase as usize);
                    for piece in pieces(self.op, share, local.is_some())? {
                        self.run(self.op, piece, local, Window::empty(), Window::empty(), turned.clone())?;
                    }
                }
                None => self.written_out(share, local, &pattern)?,
            }
        }
        Ok(())
    }

    /// Blocks that each begin the pattern elsewhere are put, not filled.
    fn written_out(&mut self, share: ExtentShape<'_>, local: Option<Window>, pattern: &[u8]) -> Result<()> {
        let (block, len) = (share.shape.shape().block(), share.shape.len());
        let byte = |at: u64| pattern[(at % pattern.len() as u64) as usize];
        let bytes: Vec<u8> = match &share.stream {
            StreamPart::At(at) => (*at..at + len).map(byte).collect(),
            StreamPart::Blocks(positions) => {
                positions.iter().flat_map(|position| *position..position + block).map(byte).collect()
            }
        };
        let mut at = 0;
        for piece in pieces(Op::Put, ExtentShape { stream: StreamPart::At(0), ..share }, local.is_some())? {
            let len = piece.shape.len() as usize;
            self.run(Op::Put, piece, local, Window::empty(), Window::empty(), bytes[at..at + len].to_vec())?;
            at += len;
        }
        Ok(())
    }

    /// Compares; `tell` gets the position of the first difference when all answers are here.
    fn compare(&mut self, shape: Checked<'_>, bytes: Window, tell: impl FnOnce(Option<u64>) + Send + 'b) -> Result<()> {
        let first = Arc::new(Mutex::new(None));
        for share in shares(self.way.routes(), shape) {
            let is_local = self.reach(share.extent)?.is_some();
            for piece in pieces(self.op, share, is_local)? {
                let (stream, block, first) = (piece.stream.clone(), piece.shape.shape().block(), first.clone());
                self.cell(piece, bytes, DIFFERENCE_LEN, move |cell| {
                    let at = position(cell).map(|found| match &stream {
                        StreamPart::At(at) => at + found,
                        StreamPart::Blocks(positions) => positions[(found / block) as usize] + found % block,
                    });
                    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                    *first = [*first, at].into_iter().flatten().min();
                    Ok(())
                })?;
            }
        }
        self.drafts.after(Box::new(move || {
            tell(*first.lock().unwrap_or_else(PoisonError::into_inner));
            Ok(())
        }));
        Ok(())
    }

    /// Summarises; `tell` gets the summary when all answers are here.
    fn reduce(&mut self, shape: Checked<'_>, range: &Range, tell: impl FnOnce(Summary) + Send + 'b) -> Result<()> {
        let op = self.op;
        let Op::Reduce(element) = op else { unreachable!("only reductions come here") };
        let whole = Arc::new(Mutex::new(Summary::new(element)));
        let range = range.encode().to_vec();
        // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards; it is only read.
        let operand = unsafe { Window::of(&range) };
        for share in joined_shapes(self.way.routes(), shape) {
            let is_local = self.reach(share.extent)?.is_some();
            for piece in pieces(op, share, is_local)? {
                let whole = whole.clone();
                self.cell(piece, operand, SUMMARY_LEN, move |cell| {
                    let part = summary_of(cell, op)?;
                    whole.lock().unwrap_or_else(PoisonError::into_inner).merge(&part);
                    Ok(())
                })?;
            }
        }
        self.drafts.after(Box::new(move || {
            drop(range);
            tell(whole.lock().unwrap_or_else(PoisonError::into_inner).clone());
            Ok(())
        }));
        Ok(())
    }

    /// A piece whose result goes into a cell of its own; `take` gets that when all answers are here.
    fn cell(
        &mut self,
        piece: ExtentShape<'_>,
        operand: Window,
        len: u64,
        take: impl FnOnce(&[u8]) -> Result<()> + Send + 'b,
    ) -> Result<()> {
        let mut cell = vec![0u8; len as usize];
        // SAFETY: the heap memory stays where it is while the vector is moved into what is run afterwards.
        let result = unsafe { Window::of_mut(&mut cell) };
        self.share(piece, operand, result)?;
        self.drafts.after(Box::new(move || take(&cell)));
        Ok(())
    }
}

/// The position that a comparison told, if there is a difference.
fn position(cell: &[u8]) -> Option<u64> {
    let found = cell.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
    (found != u64::MAX).then_some(found)
}

fn summary_of(cell: &[u8], op: Op) -> Result<Summary> {
    let garbage = || Error::Garbage { peer: "a node".to_owned(), reason: "not a summary".to_owned() };
    op.element().and_then(|element| Summary::decode(cell, element)).ok_or_else(garbage)
}

fn bytes_of(window: Window) -> Result<Vec<u8>> {
    let mut bytes = vec![0; window.len()];
    window.read_into(&mut bytes).map_err(|lost| private(&lost))?;
    Ok(bytes)
}

/// Expected and new elements as they travel: side by side.
fn pairs(op: Op, expected: Window, new: Window) -> Result<Vec<u8>> {
    let len = op.element().map_or(1, Element::len) as usize;
    let (expected, new) = (bytes_of(expected)?, bytes_of(new)?);
    Ok(expected.chunks(len).zip(new.chunks(len)).flat_map(|(expected, new)| [expected, new].concat()).collect())
}

/// The operand of a share that is spread over the stream, packed.
fn pack(operand: Window, share: &ExtentShape<'_>, factor: u64) -> Result<(Window, Vec<u8>)> {
    let blocks = blocks_of(share, factor)?;
    let mut packed = vec![0u8; blocks.len() as usize];
    // SAFETY: the heap memory stays where it is while the vector is moved into the request.
    let window = unsafe { Window::of_mut(&mut packed) };
    vector::gather(operand.slice(0, blocks.limit() as usize), &blocks, window).map_err(|lost| private(&lost))?;
    Ok((window, packed))
}

/// Offset in the pattern at which a part begins, if all of its blocks begin there.
fn phase(share: &ExtentShape<'_>, pattern_len: u64) -> Option<u64> {
    match &share.stream {
        StreamPart::At(at) => Some(at % pattern_len),
        // Each block begins the pattern anew where blocks hold it whole.
        StreamPart::Blocks(_) => share.shape.shape().block().is_multiple_of(pattern_len).then_some(0),
    }
}

/// The blocks of the stream that a spread share stands for, as a shape on the caller's memory.
fn blocks_of(share: &ExtentShape<'_>, factor: u64) -> Result<Checked<'static>> {
    let StreamPart::Blocks(positions) = &share.stream else { unreachable!("only spread shares are packed") };
    let block = share.shape.shape().block();
    let end = positions.iter().max().map_or(0, |last| (last + block) * factor);
    let offsets = positions.iter().flat_map(|at| (0..factor).map(move |k| at * factor + k * block)).collect();
    Shape::Indexed(Indexed { offset: 0, block, scale: 1, indices: Indices::Wide(Cow::Owned(offsets)) }).check("", end)
}

/// A share as commands of bounded size: lists, and old values that a node must hold, go in pieces.
fn pieces<'a>(op: Op, share: ExtentShape<'a>, is_local: bool) -> Result<Vec<ExtentShape<'a>>> {
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
    let old = if op.gives_old() { (OLD_PIECE_LEN / unit.max(1)).max(1) } else { u64::MAX };
    let list = match shape.shape() {
        Shape::Indexed(Indexed { indices: Indices::Narrow(_), .. }) => LIST_PIECE_LEN / 4,
        Shape::Indexed(_) => LIST_PIECE_LEN / 8,
        _ => u64::MAX,
    };
    old.min(list)
}

/// Units `from .. to` of a share.
fn piece(share: &ExtentShape<'_>, unit: u64, from: u64, to: u64) -> Result<ExtentShape<'static>> {
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
        StreamPart::At(at) => StreamPart::At(at + from * unit),
        StreamPart::Blocks(positions) => StreamPart::Blocks(positions[from as usize..to as usize].to_vec()),
    };
    Ok(ExtentShape { extent: share.extent, shape: shape.check("", share.shape.limit())?, stream })
}

fn too_long(len: u64) -> Error {
    Error::LimitReached { what: format!("old values of {len} bytes from one command; make several"), limit: OLD_PIECE_LEN }
}

/// Memory of this process itself is gone: nothing of a region.
fn private(lost: &Lost) -> Error {
    Error::System { what: "reach this program's own memory".to_owned(), reason: lost.to_string() }
}
