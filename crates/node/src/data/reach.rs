//! Bytes of an extent, and the pages in which they lie.

use crate::extents::Opened;
use crate::held::Writing;
use hanare_home::Need;
use hanare_memory::{Lost, Window, vector};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::shape::Checked;

/// Pages that one stage has brought home, at most; blocks of one unit may have more.
const PAGES_AT_ONCE: usize = 512;

/// Bytes of an extent that are written.
pub(crate) struct Reached {
    pub opened: Opened,
    pub shape: Checked<'static>,
    /// Where they are written as they are.
    _writing: Option<Writing>,
}

impl Reached {
    pub fn new(opened: &Opened, shape: &Checked<'static>, writing: Option<&Writing>) -> Reached {
        Reached { opened: opened.clone(), shape: shape.clone(), _writing: writing.cloned() }
    }

    /// Where the next bytes of the stream belong, if they lie there in a row and can be written as they come.
    pub fn direct_place(&self, at: u64) -> Option<Window> {
        let (window, (offset, len)) = (self.opened.stays()?, self.shape.range()?);
        self.opened.held().will_write([(offset + at, len - at)]);
        Some(window.slice((offset + at) as usize, (len - at) as usize))
    }

    /// Writes bytes of the stream from `at` on.
    pub fn write(&self, at: u64, bytes: Window) -> Result<(), Lost> {
        self.opened.held().will_write(runs(&self.shape, at, bytes.len() as u64));
        let reach = self.opened.held().reach();
        vector::scatter_part(bytes, reach.window(), &self.shape, at)
    }
}

/// How many bytes of a shape's stream one stage does from `at` on, of at most `most`, and the pages that it needs. It ends where a unit
/// does, or all.
pub(crate) fn need(opened: &Opened, shape: &Checked<'_>, (at, most, unit): (u64, u64, u64), access: Access) -> (u64, Need) {
    let mut pages: Vec<u64> = Vec::new();
    let mut len = 0;
    while len < most && (pages.len() < PAGES_AT_ONCE || len < unit) {
        let (offset, run) = run_at(shape, at + len);
        let run = run.min(most - len);
        let (first, last) = (offset / PAGE_LEN, (offset + run - 1) / PAGE_LEN);
        let room = PAGES_AT_ONCE.saturating_sub(pages.len()).max(unit.div_ceil(PAGE_LEN) as usize + 1) as u64;
        let last = last.min(first + room - 1);
        pages.extend((first..=last).filter(|page| pages.last() != Some(page)).collect::<Vec<_>>());
        len += run.min((last + 1) * PAGE_LEN - offset);
    }
    if len < most {
        len -= len % unit;
    }
    pages.sort_unstable();
    pages.dedup();
    (len, Need { gid: opened.held().gid(), slot: opened.slot(), access, pages })
}

/// Ranges of the extent that hold `len` bytes of the stream, from `at` on.
pub(crate) fn runs<'a>(shape: &'a Checked<'_>, at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> + 'a {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let (offset, run) = run_at(shape, at + done);
            let run = run.min(len - done);
            done += run;
            (offset, run)
        })
    })
}

/// Where byte `at` of the stream lies, and how many follow there in a row.
fn run_at(shape: &Checked<'_>, at: u64) -> (u64, u64) {
    match shape.range() {
        Some((offset, len)) => (offset + at, len - at),
        None => {
            let block = shape.shape().block();
            (shape.block_offset(at / block) + at % block, block - at % block)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::Extents;
    use hanare_memory::file::Huge;
    use hanare_memory::{Lender, LenderOptions};
    use hanare_protocol::id::{Gid, Rights};
    use hanare_protocol::shape::{Indexed, Indices, Shape, Strided};
    use std::sync::Arc;

    const LEN: u64 = 16 << 20;

    fn opened() -> Opened {
        let lender =
            Lender::new(&LenderOptions { bytes: LEN, slab_len: None, huge: Huge::Never, ahead: 0, promises: None }).unwrap();
        let extents = Extents::new(Arc::new(lender));
        let made = extents.make(Gid(1), &[LEN]).unwrap().remove(0);
        extents.open(made.slot, made.read, Rights::Read).unwrap()
    }

    /// The stages of a whole shape: each has the pages of its bytes, and no stage ends inside a unit.
    fn check(opened: &Opened, shape: Shape<'_>, unit: u64) -> usize {
        let shape = shape.check("r", LEN).unwrap();
        let (mut at, mut count) = (0, 0);
        while at < shape.len() {
            let (len, need) = need(opened, &shape, (at, shape.len() - at, unit), Access::Read);
            assert!(len > 0 && (len % unit == 0 || at + len == shape.len()));
            let mut touched: Vec<u64> = Vec::new();
            let mut done = 0;
            while done < len {
                let (offset, run) = run_at(&shape, at + done);
                let run = run.min(len - done);
                touched.extend(offset / PAGE_LEN..=(offset + run - 1) / PAGE_LEN);
                done += run;
            }
            touched.sort_unstable();
            touched.dedup();
            assert!(touched.iter().all(|page| need.pages.binary_search(page).is_ok()));
            assert!(need.pages.is_sorted() && need.pages.len() <= PAGES_AT_ONCE + 2 + (unit / 8) as usize);
            (at, count) = (at + len, count + 1);
        }
        count
    }

    #[test]
    fn a_stage_asks_for_the_pages_of_its_bytes() {
        let opened = opened();
        assert_eq!(check(&opened, Shape::contiguous(100, 8), 8), 1);
        assert_eq!(check(&opened, Shape::contiguous(5, 10 << 20), 1), 6);
        assert_eq!(check(&opened, Shape::contiguous(4090, 4 << 20), 6), 3);
        check(&opened, Strided { offset: 3, block: 5000, count: 800, stride: 20_000 }.into(), 1);
        let list: Vec<u32> = (0..9000).map(|k| k * 7919 % (LEN as u32 / 8)).collect();
        let list = || Indexed { offset: 0, block: 8, scale: 8, indices: Indices::Narrow(list.clone().into()) };
        assert!(check(&opened, list().into(), 8) > 10);
        check(&opened, list().into(), 24_000);
    }
}
