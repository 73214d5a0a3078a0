//! Pages of a program, and what an update, a release and a loss do to them: those of `hanare`'s `Entry` mappings, a few bytes long.

/// Locks; byte `at` of the data is bound to lock `at % LOCK_COUNT`.
pub(super) const LOCK_COUNT: usize = 3;
/// Bytes of a page: two of each lock.
pub(super) const PAGE_LEN: usize = 2 * LOCK_COUNT;
/// Pages, each at a home of its own.
pub(super) const PAGE_COUNT: usize = 2;
pub(super) const LEN: usize = PAGE_COUNT * PAGE_LEN;

pub(super) type Page = [u8; PAGE_LEN];

/// The bytes of one lock.
pub(super) type Bound = [u8; LEN / LOCK_COUNT];

/// The places of a lock's bytes.
pub(super) fn places(lock: usize) -> impl Iterator<Item = usize> {
    (lock..LEN).step_by(LOCK_COUNT)
}

fn range(page: usize) -> std::ops::Range<usize> {
    page * PAGE_LEN..(page + 1) * PAGE_LEN
}

/// The pages that are here. A page with stores is one whose clean bytes differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    pub own: [u8; LEN],
    /// The clean bytes.
    pub twin: [u8; LEN],
    is_here: [bool; PAGE_COUNT],
}

impl Frames {
    /// A page that is not here.
    pub fn missing(&self) -> Option<usize> {
        self.is_here.iter().position(|is_here| !is_here)
    }

    pub fn is_dirty(&self, page: usize) -> bool {
        self.is_here[page] && self.own[range(page)] != self.twin[range(page)]
    }

    /// A page's bytes came from its home: its stores are put on them.
    pub fn come(&mut self, page: usize, bytes: Page) {
        for (at, byte) in range(page).zip(bytes) {
            if !self.is_here[page] || self.own[at] == self.twin[at] {
                self.own[at] = byte;
            }
            self.twin[at] = byte;
        }
        self.is_here[page] = true;
    }

    /// A clean page is given up.
    pub fn give_up(&mut self, page: usize) {
        self.is_here[page] &= self.is_dirty(page);
    }

    /// A lock's bytes, where all pages are here.
    pub fn bound(&self, lock: usize) -> Bound {
        std::array::from_fn(|k| self.own[lock + k * LOCK_COUNT])
    }

    /// A byte that is at home, or will be before anybody looks there; `of_twin` where the clean bytes of a page with stores have it too.
    pub fn patch(&mut self, at: usize, byte: u8, of_twin: bool) {
        if of_twin || !self.is_dirty(at / PAGE_LEN) {
            self.twin[at] = byte;
        }
        self.own[at] = byte;
    }

    /// The places at which something was stored, of all or of one lock.
    pub fn changed(&self, lock: Option<usize>) -> Vec<(usize, u8)> {
        let is_its = |at: &usize| lock.is_none_or(|lock| at % LOCK_COUNT == lock);
        let differs = |at: &usize| self.is_here[at / PAGE_LEN] && self.own[*at] != self.twin[*at];
        (0..LEN).filter(is_its).filter(differs).map(|at| (at, self.own[at])).collect()
    }

    /// Stores under a lock are taken back.
    pub fn discard(&mut self, lock: usize) {
        places(lock).for_each(|at| self.own[at] = self.twin[at]);
    }
}
