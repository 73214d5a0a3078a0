//! Bytes of extents on their way: as windows to where they lie, through a buffer, or from one extent to another.

use super::reach::runs;
use super::work::Work;
use crate::lost::lost_memory;
use hanare_memory::{Window, vector};
use hanare_protocol::Result;
use hanare_protocol::limits::STAGE_LEN;

/// Most windows given to a link at once.
pub(super) const WINDOWS_AT_ONCE: u64 = 256;

/// Bytes in a row that can leave from where they lie.
pub(super) fn direct_len(work: &Work) -> u64 {
    if work.holds_result() {
        return work.result_len();
    }
    match (work.opened().stays(), work.shape.range()) {
        (None, _) => 0,
        (Some(_), Some((_, len))) => len,
        (Some(_), None) => work.shape.shape().block(),
    }
}

/// Adds windows of a result from byte `at` on; returns the bytes they hold.
pub(super) fn give(work: &Work, at: u64, windows: &mut Vec<Window>) -> u64 {
    if work.holds_result() {
        // SAFETY: the result does not change any more, and stays with the work until the link has nothing unsent.
        windows.push(unsafe { Window::of(&work.result[at as usize..]) });
        return work.result_len() - at;
    }
    let window = work.opened().stays().expect("only memory that stays is given");
    if let Some((offset, len)) = work.shape.range() {
        windows.push(window.slice((offset + at) as usize, (len - at) as usize));
        return len - at;
    }
    let block = work.shape.shape().block();
    let first = at / block;
    let count = (WINDOWS_AT_ONCE - windows.len() as u64).min(work.len() / block - first);
    windows.extend((first..first + count).map(|k| window.slice(work.shape.block_offset(k) as usize, block as usize)));
    count * block
}

pub(super) fn gather(work: &Work, at: u64, into: &mut [u8]) -> Result<()> {
    if work.holds_result() {
        into.copy_from_slice(&work.result[at as usize..at as usize + into.len()]);
        return Ok(());
    }
    gather_stream(work, at, into)
}

fn gather_stream(work: &Work, at: u64, into: &mut [u8]) -> Result<()> {
    let reach = work.opened().held().reach();
    // SAFETY: the buffer is borrowed for this call.
    let into = unsafe { Window::of_mut(into) };
    vector::gather_part(reach.window(), &work.shape, at, into).map_err(|lost| lost_memory(&lost))
}

/// Copies bytes `at .. end` of a pair: at once where a side is contiguous and both stay where they are, else through a buffer.
pub(super) fn copy_range(from: &Work, to: &Work, at: u64, end: u64) -> Result<()> {
    to.opened().held().will_write(runs(&to.shape, at, end - at));
    if let (Some(source), Some(target)) = (from.opened().stays(), to.opened().stays()) {
        let part = |window: Window, offset: u64| window.slice((offset + at) as usize, (end - at) as usize);
        match (from.shape.range(), to.shape.range()) {
            (Some((offset, _)), _) => {
                return vector::scatter_part(part(source, offset), target, &to.shape, at).map_err(|lost| lost_memory(&lost));
            }
            (_, Some((offset, _))) => {
                return vector::gather_part(source, &from.shape, at, part(target, offset)).map_err(|lost| lost_memory(&lost));
            }
            _ => {}
        }
    }
    let mut buffer = vec![0; STAGE_LEN.min((end - at) as usize)];
    let mut at = at;
    while at < end {
        let len = (end - at).min(buffer.len() as u64) as usize;
        gather_stream(from, at, &mut buffer[..len])?;
        // SAFETY: the buffer is borrowed for this iteration, and only read.
        let bytes = unsafe { Window::of(&buffer[..len]) };
        let reach = to.opened().held().reach();
        vector::scatter_part(bytes, reach.window(), &to.shape, at).map_err(|lost| lost_memory(&lost))?;
        at += len as u64;
    }
    Ok(())
}
