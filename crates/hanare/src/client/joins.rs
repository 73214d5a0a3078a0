//! Commands that a node refused since others have their region mapped coherently: carried out by this program, through a
//! mapping of its own.
//!
//! A node admits all commands of a message or none, so that a message that it refused is done here from the beginning, and an
//! update counts once. Where the node of a copy's source refuses, other commands of the message may be done: such messages
//! hold no updates, and are done again as a whole.

use super::message::{Cut, Entry, ListBytes, Message};
use super::remote::Remote;
use super::subject::Subject;
use crate::client::cut::runs::{THROUGH_LEN, slice};
use crate::exec::{Exec, Stage};
use hanare_memory::{Window, guard};
use hanare_protocol::error::Happened;
use hanare_protocol::id::{Gid, NodeId};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// Carries out what `remote` refused since region `gid` is mapped. Commands on regions that are not mapped, of a batch, go there
/// again.
///
/// **Cost**: what mapping the region costs, once for all its commands; then that of reaching its pages.
/// **Errors**: those of [`Subject::join`]; [`Error::Broken`] where part of it was done.
pub(crate) fn carry_out(remote: &Remote, message: &Message, gid: Gid) -> Result<()> {
    join(message, gid)?;
    let mut has_written = false;
    carry_out_joined(remote, message, &mut has_written).map_err(|error| match has_written {
        true => Error::Broken {
            node: remote.node(),
            what: "a command in parts".to_owned(),
            reason: error.to_string(),
            happened: Happened::Unknown,
        },
        false => error,
    })
}

/// Maps the region of that number, if the request is about it.
fn join(message: &Message, gid: Gid) -> Result<()> {
    let subject = message.subjects().iter().find(|subject| subject.gid == gid);
    subject.ok_or(Error::IsMapped { gid })?.join().map(drop)
}

fn carry_out_joined(remote: &Remote, message: &Message, has_written: &mut bool) -> Result<()> {
    let mut again = Message::default();
    let mut entries = message.entries();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if let Op::CopyFrom { .. } = entry.command.op {
            let target = entries.next().expect("copies come in pairs")?;
            copy(&entry, &target, has_written)?;
            continue;
        }
        match entry.subject.window()? {
            Some(flat) => {
                *has_written |= entry.command.op.writes();
                run(&entry, flat)?;
            }
            None => again.push_again(&entry),
        }
    }
    if again.is_empty() {
        return Ok(());
    }
    // SAFETY: its memory is that of the refused message, whose sender waits for it.
    match unsafe { remote.exchange(again) }? {
        None => Ok(()),
        // One region less each time.
        Some((gid, again)) => {
            join(&again, gid)?;
            carry_out_joined(remote, &again, has_written)
        }
    }
}

/// Runs of a shape of an extent, as they lie in the mapping of the region: each with its place in the stream.
fn runs<'s>(subject: &'s Subject, extent: usize, shape: &'s Checked<'_>) -> impl Iterator<Item = (u64, u64, u64)> + 's {
    let (first, block) = shape.range().map_or((None, shape.shape().block()), |(offset, len)| (Some(offset), len));
    let blocks = shape.block_offsets().take(if first.is_some() { 0 } else { usize::MAX });
    first.into_iter().chain(blocks).enumerate().flat_map(move |(k, offset)| {
        let mut at = k as u64 * block;
        subject.routes.places(extent, offset, block).map(move |(offset, len)| {
            at += len;
            (at - len, offset, len)
        })
    })
}

/// Does a command on the region's bytes, as a node would do it on its extent: run by run.
fn run(entry: &Entry<'_>, flat: Window) -> Result<()> {
    let Entry { command, shape, subject, extent, .. } = entry;
    let op = command.op;
    if let Op::Append { .. } = op {
        // Queues are reached as they are, or not at all.
        return Err(Error::IsMapped { gid: subject.gid });
    }
    let lost = |lost| subject.lost(lost);
    // The caller's list may have changed; words at odd places are none.
    op.check(&subject.name, shape)?;
    let (mut operands, mut results) = (Cut::of(&entry.operand), Cut::of(&entry.result));
    let mut exec = Exec::new(op);
    if !op.streams_operand() {
        let len = op.operand_len(shape.len()).expect("it was checked when it was drafted");
        operands.each(len, |window| exec.hold(window)).map_err(lost)?;
    }
    if let Op::Reduce(_) = op {
        reduce(&mut exec, entry, flat)?;
    } else {
        for (at, offset, len) in runs(subject, *extent, shape) {
            let words = Shape::contiguous(offset, len).check(&subject.name, subject.routes.len())?;
            let mut done = 0;
            while done < len {
                let part = op.streams_operand().then(|| operands.next((len - done) * op.operand_factor()));
                let operand = part.unwrap_or(Window::empty());
                let most = part.map_or(len - done, |part| part.len() as u64 / op.operand_factor());
                let result = if op.streams_result() { results.next(most) } else { Window::empty() };
                let most = if op.streams_result() { result.len() as u64 } else { most };
                let stage = Stage { memory: flat, shape: &words, at: done, len: most, stream_at: at + done };
                exec.stage(stage, operand, result).map_err(lost)?;
                done += most;
            }
        }
    }
    exec.told().map_or(Ok(()), |told| results.next(told.len() as u64).write_from(&told)).map_err(lost)
}

/// Reduces a copy of the bytes, a buffer at a time: an element may lie across two runs.
fn reduce(exec: &mut Exec, entry: &Entry<'_>, flat: Window) -> Result<()> {
    let Entry { shape, subject, extent, .. } = entry;
    let mut buffer = Vec::with_capacity(STAGE_LEN);
    let mut reduce = |buffer: &mut Vec<u8>| {
        let len = buffer.len() as u64;
        let shape = Shape::contiguous(0, len).check(&subject.name, len)?;
        // SAFETY: the buffer is borrowed for this call, and only read.
        let memory = unsafe { Window::of(buffer) };
        let stage = Stage { memory, shape: &shape, at: 0, len, stream_at: 0 };
        exec.stage(stage, Window::empty(), Window::empty()).map_err(|lost| subject.lost(lost))?;
        buffer.clear();
        Ok::<(), Error>(())
    };
    for (_, offset, len) in runs(subject, *extent, shape) {
        let mut done = 0;
        while done < len {
            let (part, old) = ((len - done).min((STAGE_LEN - buffer.len()) as u64), buffer.len());
            buffer.resize(old + part as usize, 0);
            let bytes = flat.slice((offset + done) as usize, part as usize);
            bytes.read_into(&mut buffer[old..]).map_err(|lost| subject.lost(lost))?;
            done += part;
            if buffer.len() == STAGE_LEN {
                reduce(&mut buffer)?;
            }
        }
    }
    reduce(&mut buffer)
}

/// Copies by way of this program's memory: ranges a piece at a time, blocks with room for all of them.
fn copy(from: &Entry<'_>, to: &Entry<'_>, has_written: &mut bool) -> Result<()> {
    let len = to.shape.len();
    let is_cut = from.shape.range().is_some() && to.shape.range().is_some();
    let piece = if is_cut { THROUGH_LEN.min(len) } else { len };
    let mut bytes = vec![0; piece as usize];
    let mut at = 0;
    while at < len {
        let end = (at + piece).min(len);
        let part = |entry: &Entry<'_>| match is_cut {
            true => slice(entry.shape.shape(), at, end).into_owned(),
            false => entry.shape.shape().by_ref().into_owned(),
        };
        // SAFETY: the buffer lives until both have returned, and nobody else uses it.
        let window = unsafe { Window::of_mut(&mut bytes) }.slice(0, (end - at) as usize);
        move_bytes(from, Op::Get, part(from), window)?;
        *has_written = true;
        move_bytes(to, Op::Put, part(to), window)?;
        at = end;
    }
    Ok(())
}

/// Gets or puts one side of a copy: through the mapping, or by a command where the region is not mapped.
fn move_bytes(side: &Entry<'_>, op: Op, shape: Shape<'static>, memory: Window) -> Result<()> {
    let Entry { command: Command { node, slot, grant, .. }, subject, extent, .. } = side;
    let command = Command::new(op, *node, *slot, *grant, &shape);
    let (operand, result) = if op == Op::Get { (Window::empty(), memory) } else { (memory, Window::empty()) };
    if subject.window()?.is_none() {
        let remote = subject.shared.remote(NodeId(*node), None)?;
        let mut message = Message::default();
        message.push(&command, &(Arc::clone(subject), *extent as u32), ListBytes::of(shape.clone()), operand, result, Vec::new());
        // SAFETY: the caller's buffer is there until this returns, and the command's list is its own.
        match unsafe { remote.exchange(message) }? {
            None => return Ok(()),
            Some((gid, message)) => join(&message, gid)?,
        }
    }
    let shape = shape.check(&subject.name, side.shape.limit())?;
    let flat = subject.join()?;
    for (at, offset, len) in runs(subject, *extent, &shape) {
        let (here, there) = (memory.slice(at as usize, len as usize), flat.slice(offset as usize, len as usize));
        let moved = if op == Op::Get { guard::copy(there, here) } else { guard::copy(here, there) };
        moved.map_err(|lost| subject.lost(lost))?;
    }
    Ok(())
}
