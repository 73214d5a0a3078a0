//! Bytes of results on their way to a link: as windows to where they lie, or through a buffer.

use super::execution::{CommandExtents, gather_stream};
use hanare_home::{AdmittedCommand, Part, runs};
use hanare_memory::Window;
use hanare_protocol::Result;

/// Adds windows of a part that leaves from where it lies.
pub(super) fn give(command: &AdmittedCommand<CommandExtents>, part: &Part, windows: &mut Vec<Window>) {
    if command.holds_result() {
        // SAFETY: the result does not change any more, and stays with the command until the link has nothing unsent.
        let result = unsafe { Window::of(&command.execution.result) };
        return windows.push(result.slice(part.at as usize, part.len as usize));
    }
    let window = command.extent().opened.stays().expect("only memory that stays is given");
    windows.extend(runs(&command.shape, part.at, part.len).map(|(offset, len)| window.slice(offset as usize, len as usize)));
}

/// Copies bytes of a result from byte `at` on.
pub(super) fn gather(command: &AdmittedCommand<CommandExtents>, at: u64, into: &mut [u8]) -> Result<()> {
    if command.holds_result() {
        into.copy_from_slice(&command.execution.result[at as usize..][..into.len()]);
        return Ok(());
    }
    gather_stream((command.extent(), &command.shape), at, into)
}
