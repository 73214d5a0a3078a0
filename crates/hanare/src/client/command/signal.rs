//! A put with a signal: bytes, and behind them an update of a word, for whoever waits for that word.

use super::{Command, Modify};
use crate::client::cut::plan::parts;
use crate::client::region::Region;
use crate::client::repetition::Repetition;
use crate::client::rounds;
use hanare_protocol::Result;
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::id::NodeId;
use hanare_protocol::shape::{Shape, Strided};

/// The word that tells of a put: [`Region::put_with_signal`].
#[derive(Clone, Copy, Debug)]
pub struct Signal<'r> {
    /// The region of the word; that of the bytes or another.
    pub region: &'r Region,
    /// The word, at a multiple of 8.
    pub offset: u64,
    /// Update of the word: [`Operator::Swap`] sets it, [`Operator::Add`] counts.
    pub operator: Operator,
    /// The operand.
    pub value: u64,
}

impl Region {
    /// Writes `bytes` at `offset`, then updates the signal's 64-bit word. Whoever has seen the word, by [`Region::wait_until`] or
    /// [`Region::read_word`], sees the bytes.
    ///
    /// **Cost**: one message each way, if bytes and word are on one other node. Else as the put, and then the update. **Errors**: as for
    /// [`Region::put`] and [`Region::update`]. Where one of the two could be refused before a byte moves, neither is done.
    pub fn put_with_signal(&self, offset: u64, bytes: &[u8], signal: Signal<'_>) -> Result<()> {
        let operand = signal.value.to_le_bytes();
        let modify = Modify { operator: signal.operator, element: Element::U64 };
        let put = Command::put(self, Shape::contiguous(offset, bytes.len() as u64), bytes);
        let update = Command::update(signal.region, Shape::contiguous(signal.offset, 8), modify, &operand);
        put.check()?;
        update.check()?;
        let node = self.only_node(offset, bytes.len() as u64);
        // Bytes with copies may have other homes by then.
        let may_move = self.copies() > 1 || signal.region.copies() > 1;
        if may_move || node.is_none() || node != signal.region.only_node(signal.offset, 8) {
            put.run()?;
            return update.run();
        }
        let refresh = |error: &_| {
            let can_help = self.refresh_after(error)?;
            Ok(signal.region.refresh_after(error)? || can_help)
        };
        // SAFETY: bytes and operand are borrowed until all is waited for. A node does one client's commands in the order of the message.
        unsafe {
            rounds::run(
                || Repetition { is_once: true, ..Repetition::default() },
                refresh,
                |drafts| {
                    put.by_ref().draft(drafts)?;
                    update.by_ref().draft(drafts)
                },
            )
        }
    }

    /// The other node that has all of a range inside the region. `None` if there are several, or it is reached without a message.
    fn only_node(&self, offset: u64, len: u64) -> Option<NodeId> {
        let way = self.way();
        if way.is_flat() {
            return None;
        }
        let parts = parts(way.routes(), Strided::contiguous(offset, len));
        let mut nodes = parts.map(|part| self.extent_today(part.extent).0.node);
        let first = nodes.next().filter(|node| *node != self.here())?;
        nodes.all(|node| node == first).then_some(first)
    }
}
