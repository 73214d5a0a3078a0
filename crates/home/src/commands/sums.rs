//! Sums over the commands of a message: operands, results and sizes.

use super::command::AdmittedCommand;
use super::memory::{CommandExtent, CommandMemory};
use hanare_protocol::Error;
use hanare_protocol::copies::{Once, UpdateCall};
use hanare_protocol::id::Slot;
use hanare_protocol::limits::{BODY_LEN_MAX, HELD_LEN_MAX, OLD_LEN_MAX};
use hanare_protocol::wire::command::Op;
use std::collections::BTreeMap;

/// Bytes that the commands of a message bring and give. Each sum stays at its most where it would be beyond 64 bits.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub operands: u64,
    results: u64,
    /// Operands that are kept until the message is whole.
    held: u64,
    /// Old values and digests.
    kept: u64,
}

impl Sums {
    pub fn add(&mut self, command: &AdmittedCommand<impl CommandMemory>) {
        let (op, operand, result) = (command.op, command.operand_len(), command.result_len());
        self.operands = self.operands.saturating_add(operand);
        self.results = self.results.saturating_add(result);
        self.held = self.held.saturating_add(if op.streams_operand() { 0 } else { operand });
        self.kept = self.kept.saturating_add(if op.is_once() || op == Op::Digest { result } else { 0 });
    }

    pub fn beyond_limits(&self) -> Option<Error> {
        let beyond = |len: u64, limit: u64, what: &str| {
            (len > limit).then(|| Error::LimitReached { what: format!("{what} of {len} bytes in one message"), limit })
        };
        beyond(self.kept, OLD_LEN_MAX, "old values and digests")
            .or_else(|| beyond(self.held, HELD_LEN_MAX, "patterns"))
            .or_else(|| beyond(self.results, BODY_LEN_MAX, "results"))
    }
}

/// Bytes that a message's call has written on each extent, as far as its commands are known.
#[derive(Debug, Default)]
pub(super) struct CallWrites(BTreeMap<Slot, u64>);

impl CallWrites {
    /// The place of a command in its call: behind the commands of its message on the same extent, and behind the bytes that it tells.
    pub fn place(&mut self, call: UpdateCall, command: &AdmittedCommand<impl CommandMemory>, before: u64) -> Once {
        if !command.op.writes() {
            return Once { call, at: 0 };
        }
        let end = self.0.entry(command.extent().slot()).or_default();
        let at = before.max(*end);
        *end = at.saturating_add(command.stream_len());
        Once { call, at }
    }
}

/// Copies come in pairs of a source and a target with as many bytes.
pub(super) fn unpaired<M: CommandMemory>(commands: &[AdmittedCommand<M>]) -> Option<Error> {
    let bad = |command: &AdmittedCommand<M>| {
        Some(command.shape.refused("of a copy", "a copy needs a source and then a target of as many bytes"))
    };
    let mut commands = commands.iter();
    while let Some(from) = commands.next() {
        match from.op {
            Op::CopyFrom { .. } => match commands.next() {
                Some(to) if to.op == Op::CopyTo && from.stream_len() == to.stream_len() => {}
                _ => return bad(from),
            },
            Op::CopyTo => return bad(from),
            _ => {}
        }
    }
    None
}
