//! Writes that are applied.

use super::{CopiedPart, WaitingCommand, moved};
use crate::copies::CopyOutput;
use crate::memory::Bytes;
use crate::queue_calls::{carry_out, is_refusal};
use hanare_protocol::Result;
use hanare_protocol::copies::{Comparison, DigestCall, HomeLog, PeerState, PendingStores, Position};
use hanare_protocol::heap::{Heap, answer_bytes};
use hanare_protocol::id::NodeId;
use hanare_protocol::wire::control::encode;
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};
use std::collections::VecDeque;
use std::sync::Arc;

impl<E: Bytes, A: Copy> CopiedPart<E, A> {
    /// Applies a write, and notes the call that it is a part of. Returns the elements before it, or what its call answers.
    pub(super) fn apply_noted(&mut self, write: &Arc<ExtentWrite>) -> Result<Vec<u8>> {
        let olds = match &write.call {
            Some(ExtentCall::Heap(call)) => {
                let answers = answer_bytes(&Heap::carry_out(&mut self.heap, call));
                self.note_heap();
                answers
            }
            Some(ExtentCall::Digests(call)) => call.digests(|offset, into| self.extent.read(offset, into))?,
            Some(ExtentCall::Queue(call)) => {
                // Only the whole queue makes sense. A copy that is made gets the bytes that were changed, and the ports at its end.
                if self.home.is_none() && self.copy.is_making() {
                    return Ok(Vec::new());
                }
                let (outcome, touched) = carry_out(&self.extent, call);
                self.touch(&touched);
                outcome?
            }
            Some(ExtentCall::Store { .. }) => return self.apply_stores(write).map(|()| Vec::new()),
            Some(ExtentCall::ForgetStores(call)) => {
                self.forget_stores(call);
                Vec::new()
            }
            Some(ExtentCall::Page(_)) => {
                let olds = self.extent.apply(write)?;
                self.note_pages(write);
                olds
            }
            Some(ExtentCall::Hosts(_)) => {
                self.note_pages(write);
                Vec::new()
            }
            None => self.extent.apply(write)?,
        };
        if let Some(once) = &write.once {
            self.done.note(once, write.len_bytes(), &olds);
        }
        Ok(olds)
    }

    /// All copies have a write: the home applies it, and its command goes on.
    pub(super) fn apply(&mut self, position: Position, entry: &Arc<ExtentWrite>, outputs: &mut VecDeque<CopyOutput<A>>) {
        let outcome = self.apply_noted(entry);
        let failed = outcome.as_ref().err().filter(|error| !is_refusal(entry, error)).cloned();
        if let Some(mut waiting) = self.askers.remove(&position) {
            let outcome = outcome.map(|bytes| match &entry.call {
                Some(ExtentCall::Digests(call)) => self.compare(call, &mut waiting, &bytes),
                _ => waiting.olds_with(bytes),
            });
            outputs.push_back(CopyOutput::Applied { asker: waiting.asker, outcome });
        }
        // A home alone goes on: no copy has other bytes.
        let has_copies = self.home.as_ref().is_some_and(|home| home.peers().next().is_some());
        if let Some(error) = failed.filter(|_| has_copies) {
            self.break_down(&error);
            self.depose(outputs);
            self.home = None;
        }
    }

    /// The home answers nothing from here on. Commands that wait are refused.
    pub(super) fn depose(&mut self, outputs: &mut VecDeque<CopyOutput<A>>) {
        self.extent.set_open(false);
        let me = self.home.as_ref().map_or(NodeId(0), HomeLog::node);
        // The next home may have their writes, or not.
        let outcome = |waiting: WaitingCommand<A>| CopyOutput::Applied { asker: waiting.asker, outcome: Err(moved(me)) };
        self.to_make = None;
        self.pending = PendingStores::default();
        outputs.extend(std::mem::take(&mut self.askers).into_values().map(outcome));
    }

    /// Compares the home's digests with those of its copies, and goes on without those that are void. Returns the [`Comparison`], encoded.
    fn compare(&mut self, call: &DigestCall, waiting: &mut WaitingCommand<A>, own: &[u8]) -> Vec<u8> {
        let Some(home) = &mut self.home else { return encode(&Comparison::default()) };
        let counting = home.peers().filter(|(_, state)| *state != PeerState::Making).map(|(node, _)| node);
        let comparison = waiting.compare(call, own, counting);
        for node in &comparison.dropped {
            tracing::error!("{node} has other bytes of {} than its home: its copy is void", self.extent.gid());
            home.on_silent(*node);
        }
        encode(&comparison)
    }
}
