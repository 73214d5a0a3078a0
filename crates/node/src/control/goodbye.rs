//! The end of a node in good order: what others are told, and what is written down.

use super::event_loop::ControlLoop;
use hanare_protocol::Result;
use hanare_protocol::size::Size;
use hanare_protocol::wire::control::ToNode;

/// Time to wait for commands that programs of this host began with direct access.
const COMMANDS_MS: u64 = 1000;

/// Time for the last words to the coordinator.
const LAST_WORDS_MS: u64 = 500;

impl ControlLoop {
    /// Leaves the pool: the coordinator is told, so that nobody waits for the lease to end.
    pub(super) fn say_goodbye(&mut self) -> Result<()> {
        self.listener = None;
        self.take_rights_back();
        // Pages of other nodes go home while this one is still a member: afterwards they would count as lost.
        self.service.end(self.keeper.is_some());
        let bytes = self.extents.describe().iter().map(|(extent, _)| extent.len).fold(0, u64::saturating_add);
        if self.keeper.is_none() && bytes > 0 {
            tracing::warn!("{} of regions go with this node: nobody else has them (`--persist DIR` keeps them)", Size(bytes));
        }
        // Others are told before the disk is waited for.
        self.member.leave(self.keeper.is_some());
        self.settle()?;
        let until = self.now_ms() + LAST_WORDS_MS;
        while self.now_ms() < until {
            let Some(link) = self.home.as_mut().and_then(|home| home.link.as_mut()) else { break };
            if !link.has_unsent() || link.receive::<ToNode>().1.is_err() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.await_keepers(until)?;
        self.keep()
    }

    /// Programs of this host put nothing past the node from here on: it would be told to be done, and would not be written down.
    fn take_rights_back(&self) {
        let until = self.now_ms() + COMMANDS_MS;
        while self.extents.take_rights_back() > 0 {
            if self.now_ms() >= until {
                return tracing::warn!(
                    "programs of this host do not end commands on its memory; what they put from here on is lost"
                );
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Writes the extents down, where that was asked for.
    fn keep(&mut self) -> Result<()> {
        self.schedule = None;
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let written = keeper.write(&self.extents);
        written.map(drop).inspect_err(|_| tracing::error!("the next start has what was written before in this life, if anything"))
    }
}
