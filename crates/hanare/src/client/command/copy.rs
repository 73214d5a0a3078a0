//! Copies from region to region, from node to node: the node that receives the bytes fetches them where they lie.

use super::Command;
use crate::client::cut::runs::{Run, THROUGH_LEN, runs, slice};
use crate::client::drafts::Drafts;
use crate::client::message::ListBytes;
use crate::client::region::{Region, Way};
use hanare_memory::vector;
use hanare_protocol::Result;
use hanare_protocol::shape::Checked;
use hanare_protocol::wire::command::{self, Op};

/// Up to so many bytes, the caller itself copies between mapped extents of this host: a message costs more.
const COPY_HERE_LEN_MAX: u64 = 1 << 20;

/// Drafts a copy; see [`Command::draft`].
pub(super) fn draft(
    (from, from_shape): (&Region, Checked<'_>),
    (to, to_shape): (&Region, Checked<'_>),
    drafts: &mut Drafts<'_>,
) -> Result<()> {
    let (from_way, to_way) = (from.way(), to.way());
    if from_way.is_flat() || to_way.is_flat() {
        drop((from_way, to_way));
        copy_through(from, from_shape, to, to_shape)?;
        drafts.note_done(Op::CopyTo, to.here());
        return Ok(());
    }
    for run in runs(from.routes(), from_shape, to.routes(), to_shape) {
        draft_run((from, &from_way), (to, &to_way), run, drafts)?;
    }
    Ok(())
}

/// Copies through this program, if a side is mapped coherently. Ranges go a piece at a time, blocks with room for all of them.
fn copy_through(from: &Region, from_shape: Checked<'_>, to: &Region, to_shape: Checked<'_>) -> Result<()> {
    let len = from_shape.len();
    let is_cut = from_shape.range().is_some() && to_shape.range().is_some();
    let piece = if is_cut { THROUGH_LEN.min(len) } else { len };
    let mut bytes = vec![0; piece as usize];
    let mut at = 0;
    while at < len {
        let end = (at + piece).min(len);
        let bytes = &mut bytes[..(end - at) as usize];
        if is_cut {
            Command::get(from, slice(from_shape.shape(), at, end), bytes).run()?;
            Command::put(to, slice(to_shape.shape(), at, end), bytes).run()?;
        } else {
            Command::get(from, from_shape.shape().by_ref(), bytes).run()?;
            Command::put(to, to_shape.shape().by_ref(), bytes).run()?;
        }
        at = end;
    }
    Ok(())
}

fn draft_run(
    (from, from_way): (&Region, &Way<'_>),
    (to, to_way): (&Region, &Way<'_>),
    run: Run<'_, '_>,
    drafts: &mut Drafts<'_>,
) -> Result<()> {
    let (source, target) = (from.extent_route(run.from.0), to.extent_route(run.to.0));
    if source.node == target.node && copy_here((from, from_way), (to, to_way), &run)? {
        drafts.note_done(Op::CopyTo, to.here());
        return Ok(());
    }
    let address = if source.node == target.node { &[] } else { source.address.as_bytes() };
    let op = Op::CopyFrom { address_len: address.len() as u32 };
    let from_command = command::Command::new(op, source.node, source.slot, source.grant, &run.from.1);
    let to_command = command::Command::new(Op::CopyTo, target.node, target.slot, target.grant, &run.to.1);
    // A look at each index, so only where it counts.
    let len = if drafts.is_numbered() { run.len()? } else { 0 };
    let from_part = (&source, &from_command, ListBytes::of(run.from.1), address.to_vec());
    drafts.push_pair(len, from_part, (&target, &to_command, ListBytes::of(run.to.1)));
    Ok(())
}

/// Copies between two mapped extents, if there is little to copy. Returns whether it did.
fn copy_here((from, from_way): (&Region, &Way<'_>), (to, to_way): (&Region, &Way<'_>), run: &Run<'_, '_>) -> Result<bool> {
    if run.len()? > COPY_HERE_LEN_MAX {
        return Ok(false);
    }
    let (Some(source), Some(target)) = (from_way.local(run.from.0)?, to_way.local(run.to.0)?) else { return Ok(false) };
    let from_shape = run.from.1.by_ref().check(from.name(), source.len() as u64)?;
    let to_shape = run.to.1.by_ref().check(to.name(), target.len() as u64)?;
    vector::copy_shapes(source, &from_shape, target, &to_shape).map_err(|lost| from.lost(lost))?;
    Ok(true)
}
