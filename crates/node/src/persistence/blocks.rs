//! The bytes of extents in a file, in blocks of which each has its sum.
//!
//! ```text
//! extent, offset, length (24)  sum (32)  bytes                                                              part of an extent
//! extent, SPILLED, length (24)  sum (32)  { array, queue, lane and user, length (32)  unit } ...            units that its queues spilled
//! END, number of blocks, 0 (24)  sum (32)
//! ```

use super::{BLOCK_LEN, Progress, SUM_LEN, bad, sum};
use crate::extent::NodeExtent;
use crate::extents::{Described, Extents};
use hanare_protocol::id::Gid;
use std::collections::BTreeSet;
use std::io::{Read, Result, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The extent that no extent is.
const END: u64 = u64::MAX;

/// Longest wait for a moment at which no command changes a region.
const MOMENT_PATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks for such a moment.
const MOMENT_LOOK: Duration = Duration::from_micros(100);

/// The offset at which no bytes are.
const SPILLED: u64 = u64::MAX;

/// Bytes before a spilled unit: whose it is, and its length.
const UNIT_FRONT_LEN: usize = 32;

/// Longest block: bytes of an extent, or one unit of the greatest length with what stands before it.
const ROOM_LEN: usize = BLOCK_LEN + UNIT_FRONT_LEN;

fn words<const LEN: usize>(numbers: &[u64]) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
}

/// Writes blocks, and counts them.
struct Blocks<'a, W> {
    into: &'a mut W,
    count: u64,
}

impl<W: Write> Blocks<'_, W> {
    fn write(&mut self, extent: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let place = words::<24>(&[extent, offset, bytes.len() as u64]);
        self.into.write_all(&place)?;
        self.into.write_all(&sum(&[&place, bytes]))?;
        self.into.write_all(bytes)?;
        self.count += 1;
        Ok(())
    }
}

/// Writes the bytes of all extents, and what their queues spilled.
pub(super) fn write_blocks(
    into: &mut impl Write,
    all: &[Described],
    (extents, progress): (&Extents, &mut Progress<'_>),
) -> Result<()> {
    let (mut buffer, mut blocks) = (vec![0; BLOCK_LEN], Blocks { into, count: 0 });
    let gids: BTreeSet<Gid> = all.iter().map(|extent| extent.gid).collect();
    for gid in gids {
        let those: Vec<(u64, &Described)> = (0..).zip(all).filter(|(_, extent)| extent.gid == gid).collect();
        await_moment(extents, &those.iter().map(|(_, extent)| *extent).collect::<Vec<_>>());
        let (mut written, mut is_mixed) = (Ok(()), false);
        for extent in those {
            written = written.and_then(|()| write_extent(&mut blocks, (extents, extent), &mut buffer, progress));
            is_mixed |= extents.of_file(extent.1).is_some_and(|held| !held.end_image());
        }
        written?;
        if is_mixed {
            tracing::warn!("{gid} changes faster than it is written down: what was written has bytes of several moments");
        }
    }
    let end = words::<24>(&[END, blocks.count, 0]);
    into.write_all(&end)?;
    into.write_all(&sum(&[&end]))
}

/// Begins an image of a region's extents when no command changes them. After a while it begins in any case: then an unfinished command may be there in
/// part.
fn await_moment(extents: &Extents, those: &[&Described]) {
    let until = Instant::now() + MOMENT_PATIENCE;
    while !extents.begin_image(those, Instant::now() >= until) {
        std::thread::sleep(MOMENT_LOOK);
    }
}

/// An extent that has left the node meanwhile is written no further: no later life has it again.
fn write_extent(
    blocks: &mut Blocks<'_, impl Write>,
    (extents, (extent, described)): (&Extents, (u64, &Described)),
    buffer: &mut [u8],
    progress: &mut Progress<'_>,
) -> Result<()> {
    for offset in (0..described.len).step_by(BLOCK_LEN) {
        let bytes = &mut buffer[..(described.len - offset).min(BLOCK_LEN as u64) as usize];
        let Some(held) = extents.of_file(described) else { return Ok(()) };
        held.read_image(offset, bytes)?;
        drop(held);
        progress.advance(bytes.len() as u64);
        if bytes.iter().any(|byte| *byte != 0) {
            blocks.write(extent, offset, bytes)?;
        }
    }
    extents.of_file(described).map_or(Ok(()), |held| write_spilled(blocks, extent, &held))
}

fn write_spilled(blocks: &mut Blocks<'_, impl Write>, extent: u64, held: &NodeExtent) -> Result<()> {
    let mut block = Vec::new();
    held.each_spilled(&mut |(array, queue, lane), (unit, uid)| {
        if !block.is_empty() && block.len() + UNIT_FRONT_LEN + unit.len() > ROOM_LEN {
            blocks.write(extent, SPILLED, &block)?;
            block.clear();
        }
        block.extend(words::<UNIT_FRONT_LEN>(&[array, queue, u64::from(uid) << 32 | u64::from(lane), unit.len() as u64]));
        block.extend(unit);
        Ok(())
    })?;
    if block.is_empty() { Ok(()) } else { blocks.write(extent, SPILLED, &block) }
}

/// Fills extents that are all zero with the blocks that follow; returns how many there were.
pub(super) fn fill(from: &mut impl Read, all: &[Arc<NodeExtent>]) -> Result<u64> {
    let (mut place, mut found, mut buffer, mut count) = ([0; 24], [0; SUM_LEN], vec![0; ROOM_LEN], 0_u64);
    loop {
        from.read_exact(&mut place).map_err(|_| bad("it ends before its end mark"))?;
        from.read_exact(&mut found)?;
        let (extent, offset, len) = (number(&place, 0), number(&place, 8), number(&place, 16));
        if extent == END {
            let is_end = sum(&[&place]) == found && offset == count && from.read(&mut [0])? == 0;
            return if is_end { Ok(count) } else { Err(bad("its end mark is not what was written")) };
        }
        let held = usize::try_from(extent).ok().and_then(|extent| all.get(extent)).ok_or_else(|| bad("a block of no extent"))?;
        let is_inside = match offset {
            SPILLED => len <= ROOM_LEN as u64,
            _ => offset.checked_add(len).is_some_and(|end| end <= held.len()) && len <= BLOCK_LEN as u64,
        };
        if !is_inside {
            return Err(bad("a block that leaves its extent"));
        }
        let bytes = &mut buffer[..len as usize];
        from.read_exact(bytes)?;
        if sum(&[&place, bytes]) != found {
            return Err(bad(&format!("block {count} is not what was written")));
        }
        if offset == SPILLED {
            restore_spilled(held, bytes)?;
        } else {
            let written = held.reach().window().slice(offset as usize, bytes.len()).write_from(bytes);
            written.map_err(|_| bad("the system could not supply a page of the node's memory"))?;
        }
        count += 1;
    }
}

fn restore_spilled(held: &NodeExtent, mut units: &[u8]) -> Result<()> {
    while !units.is_empty() {
        let (front, rest) = units.split_at_checked(UNIT_FRONT_LEN).ok_or_else(|| bad("a spilled unit without its front"))?;
        let (lane, uid, len) = (number(front, 16) as u32, (number(front, 16) >> 32) as u32, usize::try_from(number(front, 24)));
        let Some((unit, rest)) = len.ok().and_then(|len| rest.split_at_checked(len)) else {
            return Err(bad("a spilled unit that leaves its block"));
        };
        let restored = held.with_queues(number(front, 0), |home| home.restore_spilled(number(front, 8), lane, (unit, uid)));
        restored.map_err(std::io::Error::other)?;
        units = rest;
    }
    Ok(())
}
