//! Counts of threads and their node at slots of the page words.

/// Indices of a slot's counts, where threads count in the page words that they share with their node.
pub mod slot {
    /// Touches that found no page.
    pub const FAULTS: usize = 0;
    /// Pages that came from their homes.
    pub const FETCHED: usize = 1;
    /// Pages that came before a touch.
    pub const PREFETCHED: usize = 2;
    /// Copies that became writable.
    pub const UPGRADED: usize = 3;
    /// Waits for a page that others hold.
    pub const WAITED: usize = 4;
    /// Pages whose bytes the node brought for the thread: the node counts them.
    pub const BROUGHT: usize = 5;
    /// Stores of this host's programs that were lost, at [`super::LOSS_SLOT`].
    pub const LOST: usize = 0;
}

/// A slot of the node's, at which it counts for all programs.
pub const LOSS_SLOT: u16 = 1;
