//! Pages of a program, and what an update, a release and a loss do to them: those of `hanare`'s `Entry` mappings, a few bytes long.

use std::ops::Range;

/// Locks; byte `at` of the region is bound to lock `at % LOCK_COUNT`.
pub(super) const LOCK_COUNT: usize = 3;
/// Bytes of a page: two of each lock.
pub(super) const PAGE_LEN: usize = 2 * LOCK_COUNT;
/// Pages, each at a home of its own.
pub(super) const PAGE_COUNT: usize = 2;
/// Bytes of the region.
pub(super) const LEN: usize = PAGE_COUNT * PAGE_LEN;

pub(crate) type Page = [u8; PAGE_LEN];

/// The bytes of one lock.
pub(super) type Bound = [u8; LEN / LOCK_COUNT];

/// The places of a lock's bytes.
pub(super) fn places(lock: usize) -> impl Iterator<Item = usize> {
    (lock..LEN).step_by(LOCK_COUNT)
}

/// A lock's bytes of a region.
pub(super) fn bound_of(region: &[u8; LEN], lock: usize) -> Bound {
    std::array::from_fn(|k| region[lock + k * LOCK_COUNT])
}

pub(super) fn page_range(page: usize) -> Range<usize> {
    page * PAGE_LEN..(page + 1) * PAGE_LEN
}

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub own: Page,
    /// The clean bytes, of a page with stores.
    pub twin: Option<Page>,
}

/// The pages that are here.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames([Option<Frame>; PAGE_COUNT]);

impl Frames {
    pub fn is_here(&self, page: usize) -> bool {
        self.0[page].is_some()
    }

    pub fn is_dirty(&self, page: usize) -> bool {
        self.0[page].as_ref().is_some_and(|frame| frame.twin.is_some())
    }

    /// A page's bytes came from its home: it is here, or its stores are put on them.
    pub fn come(&mut self, page: usize, bytes: Page) {
        match &mut self.0[page] {
            Some(Frame { own, twin: Some(twin) }) => {
                for at in 0..PAGE_LEN {
                    if own[at] == twin[at] {
                        own[at] = bytes[at];
                    }
                }
                *twin = bytes;
            }
            absent => *absent = Some(Frame { own: bytes, twin: None }),
        }
    }

    /// A clean page is given up.
    pub fn give_up(&mut self, page: usize) {
        self.0[page].take_if(|frame| frame.twin.is_none());
    }

    /// A byte of a page that is here; of one that is not, what is at home.
    pub fn load(&self, at: usize, base: &[u8; LEN]) -> u8 {
        self.0[at / PAGE_LEN].as_ref().map_or(base[at], |frame| frame.own[at % PAGE_LEN])
    }

    pub fn store(&mut self, at: usize, byte: u8) {
        let frame = self.0[at / PAGE_LEN].as_mut().expect("it was touched");
        frame.twin.get_or_insert(frame.own);
        frame.own[at % PAGE_LEN] = byte;
    }

    /// A byte that is at home, or will be before anybody looks there; `of_twin` where the clean bytes have it too.
    pub fn patch(&mut self, at: usize, byte: u8, of_twin: bool) {
        let Some(frame) = &mut self.0[at / PAGE_LEN] else { return };
        frame.own[at % PAGE_LEN] = byte;
        if let Some(twin) = frame.twin.as_mut().filter(|_| of_twin) {
            twin[at % PAGE_LEN] = byte;
        }
    }

    /// The places at which something was stored, of all or of one lock.
    pub fn changed(&self, lock: Option<usize>) -> Vec<(usize, u8)> {
        let differs = |at: &usize| {
            let frame = self.0[at / PAGE_LEN].as_ref();
            frame.is_some_and(|frame| frame.twin.is_some_and(|twin| twin[at % PAGE_LEN] != frame.own[at % PAGE_LEN]))
        };
        let those = (0..LEN).filter(|at| lock.is_none_or(|lock| at % LOCK_COUNT == lock)).filter(differs);
        those.map(|at| (at, self.load(at, &[0; LEN]))).collect()
    }

    /// Records that the byte at a place is home.
    pub fn settle(&mut self, at: usize, byte: u8) {
        if let Some(twin) = self.0[at / PAGE_LEN].as_mut().and_then(|frame| frame.twin.as_mut()) {
            twin[at % PAGE_LEN] = byte;
        }
        self.clean();
    }

    /// Stores under a lock are taken back.
    pub fn discard(&mut self, lock: usize) {
        for at in places(lock) {
            if let Some(Frame { own, twin: Some(twin) }) = &mut self.0[at / PAGE_LEN] {
                own[at % PAGE_LEN] = twin[at % PAGE_LEN];
            }
        }
        self.clean();
    }

    /// Pages without stores are clean.
    fn clean(&mut self) {
        for frame in self.0.iter_mut().flatten() {
            frame.twin.take_if(|twin| *twin == frame.own);
        }
    }
}
