//! Lines of the log about memory that the node gives back to its host.

use hanare_memory::{HostWatch, Lender};
use hanare_protocol::size::Size;
use hanare_protocol::wire::control::Memory;

/// The watch over the host's memory, and what was told of it.
pub(super) struct HostMemory {
    _watch: Option<HostWatch>,
    told: Told,
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// All is lent.
    Whole,
    /// Memory goes back.
    GivesBack,
    /// Extents leave besides.
    Leaves,
}

impl HostMemory {
    pub fn new(watch: Option<HostWatch>) -> HostMemory {
        HostMemory { _watch: watch, told: Told::Whole }
    }

    /// Writes a line when memory begins to go back, when extents begin to leave, and when all is lent again.
    pub fn tell(&mut self, memory: &Memory, lender: &Lender) {
        let is_whole = memory.withheld() == 0;
        if is_whole && self.told == Told::Whole {
            return;
        }
        let (lent, most) = (Size(memory.lent), Size(memory.lent_max));
        let why = lender.shortage().map_or_else(String::new, |shortage| format!(": {shortage}"));
        match self.told {
            _ if is_whole => {
                let returned = Size(memory.given_back);
                tracing::warn!(
                    "the host has memory enough again: {most} are lent; free slabs of {returned} went back to it so far"
                );
                self.told = Told::Whole;
            }
            Told::Whole | Told::GivesBack if memory.used > memory.lent => {
                let more = Size(memory.used.saturating_sub(memory.lent));
                tracing::warn!(
                    "memory goes back to the host, and {more} of regions are to leave: {lent} of {most} are lent{why}"
                );
                self.told = Told::Leaves;
            }
            Told::Whole => {
                tracing::warn!("memory goes back to the host: {lent} of {most} are lent{why}");
                self.told = Told::GivesBack;
            }
            Told::GivesBack | Told::Leaves => {}
        }
    }
}
