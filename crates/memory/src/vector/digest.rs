//! Digest: hands a stream to a caller that makes digests, a page's length at a time.
//!
//! Safety invariants: those of the folder.

use super::gather::gather_part;
use super::pieces;
use crate::diff::{PAGE, PageBytes};
use crate::guard::Lost;
use crate::window::Window;
use hanare_protocol::shape::Checked;

/// Calls `each` with every page's length of `len` bytes of a shape's stream, from byte `at` on. Zeros fill up a last one that is shorter.
///
/// **Cost**: one read, through a page of the stack that stays in the cache. **Errors**: [`Lost`]; `each` has got the pages before. Bytes
/// that others change meanwhile may be seen as they were or as they are.
pub fn digest_part(from: Window, shape: &Checked<'_>, at: u64, len: u64, mut each: impl FnMut(&PageBytes)) -> Result<(), Lost> {
    let mut page = [0; PAGE];
    for (done, part) in pieces(len, PAGE) {
        page[part..].fill(0);
        // SAFETY: the page is this call's, and used through the window until `gather_part` returns.
        let window = unsafe { Window::of_mut(&mut page[..part]) };
        gather_part(from, shape, at + done, window)?;
        each(&page);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::window;
    use super::*;
    use hanare_protocol::shape::{Indexed, Shape, Strided};

    /// The pages that are told, of all of a shape.
    fn told(memory: &[u8], shape: Shape<'_>) -> Vec<PageBytes> {
        let mut copy = memory.to_vec();
        let shape = shape.check("r", memory.len() as u64).unwrap();
        let mut pages = Vec::new();
        digest_part(window(&mut copy), &shape, 0, shape.len(), |page| pages.push(*page)).unwrap();
        pages
    }

    #[test]
    fn pages_are_told_in_the_order_of_the_shape_and_the_last_one_is_filled_up() {
        let memory: Vec<u8> = (0..5 * PAGE).map(|at| (at / 7) as u8 ^ (at / PAGE) as u8).collect();
        let page = |at: usize| -> PageBytes { memory[at..at + PAGE].try_into().unwrap() };
        assert_eq!(told(&memory, Shape::contiguous(PAGE as u64, 2 * PAGE as u64)), [page(PAGE), page(2 * PAGE)]);
        let listed = Indexed { offset: 5, block: PAGE as u64, scale: PAGE as u64, indices: (&[3u32, 0, 1][..]).into() };
        assert_eq!(told(&memory, listed.into()), [page(5 + 3 * PAGE), page(5), page(5 + PAGE)]);
        let mut short = [0; PAGE];
        short[..100].copy_from_slice(&memory[4000..4100]);
        assert_eq!(told(&memory, Shape::contiguous(4000, 100)), [short]);
        let halves = Strided { offset: 0, block: PAGE as u64 / 2, count: 3, stride: PAGE as u64 };
        let pages = told(&memory, halves.into());
        assert_eq!((&pages[0][..2048], &pages[0][2048..]), (&memory[..2048], &memory[4096..6144]));
        assert_eq!((&pages[1][..2048], &pages[1][2048..]), (&memory[8192..10_240], &[0; 2048][..]));
    }
}
