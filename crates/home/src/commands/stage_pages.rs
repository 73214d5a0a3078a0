//! The pages that a stage of a command needs at home.

use super::memory::CommandExtent;
use crate::memory::Need;
use hanare_protocol::limits::{PAGE_LEN, STAGE_LEN, WRITE_RANGE_COUNT_MAX};
use hanare_protocol::page::Access;
use hanare_protocol::shape::Checked;

/// Pages that one stage has brought home, at most; blocks of one unit may have more.
const PAGES_AT_ONCE: usize = 512;

/// Returns the length of the stage that begins at `at` of a shape's stream, and the pages that it needs. A stage has at most `most` bytes,
/// and ends where a unit does, or all. Copies take a write whole: its stage has at most [`STAGE_LEN`] bytes, in at most
/// [`WRITE_RANGE_COUNT_MAX`] ranges.
pub fn stage_pages(
    extent: &impl CommandExtent,
    shape: &Checked<'_>,
    (at, most, unit): (u64, u64, u64),
    access: Access,
) -> (u64, Need) {
    let (most, ranges_max) = match access == Access::Write && extent.has_copies() {
        true => (most.min(STAGE_LEN as u64), WRITE_RANGE_COUNT_MAX),
        false => (most, usize::MAX),
    };
    let mut pages: Vec<u64> = Vec::new();
    let (mut len, mut ranges) = (0, 0);
    while len < most && ranges < ranges_max && (pages.len() < PAGES_AT_ONCE || len < unit) {
        let (offset, run) = run_at(shape, at + len);
        let run = run.min(most - len);
        let (first, last) = (offset / PAGE_LEN, (offset + run - 1) / PAGE_LEN);
        let room = PAGES_AT_ONCE.saturating_sub(pages.len()).max(unit.div_ceil(PAGE_LEN) as usize + 1) as u64;
        let last = last.min(first + room - 1);
        pages.extend((first..=last).filter(|page| pages.last() != Some(page)).collect::<Vec<_>>());
        len += run.min((last + 1) * PAGE_LEN - offset);
        ranges += 1;
    }
    if len < most {
        len -= len % unit;
    }
    pages.sort_unstable();
    pages.dedup();
    (len, Need { gid: extent.gid(), slot: extent.slot(), access, pages })
}

/// The ranges of the extent that hold `len` bytes of the stream, from `at` on: each with its first byte and its length.
pub fn runs<'a>(shape: &'a Checked<'_>, at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> + 'a {
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

/// The place of byte `at` of the stream, and the number of bytes in a row from there on.
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
    use crate::commands::tests::TestExtent;
    use hanare_protocol::shape::{Indexed, Indices, Shape, Strided};

    const LEN: u64 = 16 << 20;

    /// The stages of a whole shape: each has the pages of its bytes, and no stage ends inside a unit.
    fn check(shape: Shape<'_>, unit: u64) -> usize {
        let (shape, extent) = (shape.check("r", LEN).unwrap(), TestExtent::by_pages());
        let (mut at, mut count) = (0, 0);
        while at < shape.len() {
            let (len, need) = stage_pages(&extent, &shape, (at, shape.len() - at, unit), Access::Read);
            assert!(len > 0 && (len % unit == 0 || at + len == shape.len()));
            let mut touched: Vec<u64> = Vec::new();
            for (offset, run) in runs(&shape, at, len) {
                touched.extend(offset / PAGE_LEN..=(offset + run - 1) / PAGE_LEN);
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
    fn a_stage_that_copies_take_is_one_write_of_them() {
        let list = |block: u64| Indexed { offset: 0, block, scale: 8, indices: Indices::Narrow((0..20_000).collect()) };
        let shapes: [(Shape<'_>, u64); 4] = [
            (Shape::contiguous(5, 1 << 20), 1),
            (Strided { offset: 3, block: 1, count: 500_000, stride: 3 }.into(), 1),
            (list(8).into(), 8),
            (Strided { offset: 0, block: 40, count: 60_000, stride: 48 }.into(), 8),
        ];
        for (shape, unit) in shapes {
            let (shape, extent) = (shape.check("r", LEN).unwrap(), TestExtent::with_copies());
            for mut at in [0, unit, 5 * unit] {
                while at < shape.len() {
                    let (len, _) = stage_pages(&extent, &shape, (at, shape.len() - at, unit), Access::Write);
                    let count = runs(&shape, at, len).count();
                    assert!(
                        len > 0 && len % unit == 0 && len <= STAGE_LEN as u64 && count <= WRITE_RANGE_COUNT_MAX,
                        "{len} {count}"
                    );
                    at += len;
                }
            }
            let (read, _) = stage_pages(&extent, &shape, (0, shape.len(), unit), Access::Read);
            let (written, _) = stage_pages(&extent, &shape, (0, shape.len(), unit), Access::Write);
            assert!(read > written, "{read} {written}");
        }
    }

    #[test]
    fn a_stage_asks_for_the_pages_of_its_bytes() {
        assert_eq!(check(Shape::contiguous(100, 8), 8), 1);
        assert_eq!(check(Shape::contiguous(5, 10 << 20), 1), 6);
        assert_eq!(check(Shape::contiguous(4090, 4 << 20), 6), 3);
        check(Strided { offset: 3, block: 5000, count: 800, stride: 20_000 }.into(), 1);
        let list: Vec<u32> = (0..9000).map(|k| k * 7919 % (LEN as u32 / 8)).collect();
        let list = || Indexed { offset: 0, block: 8, scale: 8, indices: Indices::Narrow(list.clone().into()) };
        assert!(check(list().into(), 8) > 10);
        check(list().into(), 24_000);
    }
}
