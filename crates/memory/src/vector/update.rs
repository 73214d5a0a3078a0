//! Updates and compare-and-swap of words, one atomic step each, on memory that this host's programs change at the same time.
//!
//! Safety invariants: those of the folder, and
//!
//! 1. A word is touched only where it lies at a multiple of its length. [`Words::each`] looks at the address of every block.
//! 2. Operands and olds are the caller's private buffers, of any alignment, and long enough for the part.

use super::blocks::prefetch;
use super::runs::{Index, List, Run, Runs};
use super::{check_runs, enter, wide};
use crate::guard::{Lost, Side, check_side, guarded, is_any_lost};
use crate::window::Window;
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::shape::Checked;
use hanare_protocol::wire::command::Update;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// Updates each element of the `len` bytes of `shape`'s stream from `at` on, in order. Elements that come several times are updated as
/// often.
///
/// `operands` has `len` bytes, or one element if `update.is_same`. `olds` has `len` bytes and gets the elements as each step found them.
/// Both are private buffers of any alignment. `at` and `len` are multiples of the element's length, and `shape` was checked for its
/// elements' alignment.
///
/// **Ordering**: every step is sequentially consistent, as are those of programs that use atomics on the same words. A least
/// or greatest that changes nothing writes nothing. **Cost**: one atomic step for each element. **Errors**: [`Lost`], counted
/// in `to`: some elements were updated.
pub fn update_part(
    to: Window,
    shape: &Checked<'_>,
    at: u64,
    len: u64,
    update: Update,
    operands: Window,
    olds: Option<Window>,
) -> Result<(), Lost> {
    let Update { operator, element, is_same } = update;
    assert!(operator.fits(element), "{operator} does not fit {element}");
    let step = if is_same { 0 } else { element.len() };
    assert_eq!(operands.len() as u64, if is_same { element.len() } else { len }, "an operand for each element, or one");
    let words = Words::new(to, shape, at, len, element, Operands { from: operands, step: step as usize }, olds);
    words.run(to, shape, at, len, |words| match element {
        Element::U32 => words.whole::<u32, _>(operator, |word| word),
        Element::I32 => words.whole::<u32, _>(operator, |word| word as i32),
        Element::U64 => words.whole::<u64, _>(operator, |word| word),
        Element::I64 => words.whole::<u64, _>(operator, |word| word as i64),
        Element::F32 => words.float::<u32, f32>(operator),
        Element::F64 => words.float::<u64, f64>(operator),
        Element::U128 => words.whole::<u128, _>(operator, |word| word),
        // Ruled out by `Operator::fits`.
        Element::U8 | Element::I8 | Element::U16 | Element::I16 => true,
    })
}

/// Updates the 64-bit word at byte `offset` of a window, a multiple of 8, and returns the word before. It is [`update_part`] of one word,
/// without the walk.
///
/// **Ordering**, **Errors**: as for [`update_part`]. **Cost**: one atomic step and about 2 ns.
pub fn update_word(to: Window, offset: u64, operator: Operator, operand: u64) -> Result<u64, Lost> {
    step_on_word(to, offset, |word| match operator {
        Operator::Add => word.fetch_add(operand, SeqCst),
        Operator::Min => word.fetch_min(operand, SeqCst),
        Operator::Max => word.fetch_max(operand, SeqCst),
        Operator::And => word.fetch_and(operand, SeqCst),
        Operator::Or => word.fetch_or(operand, SeqCst),
        Operator::Xor => word.fetch_xor(operand, SeqCst),
        Operator::Swap => word.swap(operand, SeqCst),
        Operator::Load => word.load(SeqCst),
    })
}

/// Swaps the 64-bit word at byte `offset` of a window, a multiple of 8, for `new` if it is `expected`. Returns the word before. It is
/// [`compare_and_swap_part`] of one word, without the walk.
///
/// **Ordering**, **Errors**, **Cost**: as for [`update_word`].
pub fn compare_and_swap_word(to: Window, offset: u64, expected: u64, new: u64) -> Result<u64, Lost> {
    step_on_word(to, offset, |word| match word.compare_exchange(expected, new, SeqCst, SeqCst) {
        Ok(old) | Err(old) => old,
    })
}

/// Takes one atomic step on a word of a window, which does not panic, and returns what the step does.
#[inline(always)]
fn step_on_word(to: Window, offset: u64, step: impl FnOnce(&AtomicU64) -> u64) -> Result<u64, Lost> {
    let word = to.slice(offset as usize, size_of::<u64>());
    assert!(word.ptr().cast::<u64>().is_aligned(), "a word at offset {offset} is at no multiple of 8 bytes");
    let mut old = 0;
    // SAFETY: the word lies in a window and is aligned, as just asserted; all who change it do so atomically or not at all.
    // ORDERING: as all updates, see above.
    guarded(0..0, word.range(), || old = step(unsafe { AtomicU64::from_ptr(word.ptr().cast()) }));
    if is_any_lost() {
        check_side(Side::Target, word, offset)?;
    }
    Ok(old)
}

/// Compares each element of the `len` bytes of `shape`'s stream from `at` on with the first of its pair. Where they are equal bit for bit,
/// the second replaces the element.
///
/// `pairs` has `2 * len` bytes: each expected element, then its replacement. `olds` has `len` bytes and gets the elements as each step
/// found them. The swap was done where that is the expected one. The rest is as for [`update_part`].
pub fn compare_and_swap_part(
    to: Window,
    shape: &Checked<'_>,
    at: u64,
    len: u64,
    element: Element,
    pairs: Window,
    olds: Window,
) -> Result<(), Lost> {
    assert_eq!(pairs.len() as u64, 2 * len, "two operands for each element");
    let operands = Operands { from: pairs, step: 2 * element.len() as usize };
    let words = Words::new(to, shape, at, len, element, operands, Some(olds));
    words.run(to, shape, at, len, |words| match element.len() {
        1 => words.swaps::<u8>(),
        2 => words.swaps::<u16>(),
        4 => words.swaps::<u32>(),
        8 => words.swaps::<u64>(),
        _ => words.swaps::<u128>(),
    })
}

/// Blocks ahead of an update for which memory is asked. \[measured\]
const WORDS_AHEAD: usize = 16;

/// A word of memory that others may change at the same moment.
trait Word: Copy + Eq {
    const LEN: usize = size_of::<Self>();

    /// # Safety
    /// `at` lies in a window, at a multiple of the word's length.
    unsafe fn load(at: *mut Self) -> Self;
    /// Makes the word `new` where it is `expected`, and returns the word before. **Safety**: as `load`.
    unsafe fn compare_and_swap(at: *mut Self, expected: Self, new: Self) -> Self;
    /// Updates the word, and returns the word before. **Safety**: as `load`; `operator` needs no look at the kind of number.
    unsafe fn bits(at: *mut Self, operator: Operator, operand: Self) -> Self;
}

macro_rules! word {
    ($word:ty, $atomic:ty) => {
        impl Word for $word {
            #[inline(always)]
            unsafe fn load(at: *mut Self) -> Self {
                // SAFETY: passed on.
                unsafe { <$atomic>::from_ptr(at) }.load(SeqCst)
            }

            #[inline(always)]
            unsafe fn compare_and_swap(at: *mut Self, expected: Self, new: Self) -> Self {
                // SAFETY: passed on.
                let word = unsafe { <$atomic>::from_ptr(at) };
                match word.compare_exchange(expected, new, SeqCst, SeqCst) {
                    Ok(old) | Err(old) => old,
                }
            }

            #[inline(always)]
            unsafe fn bits(at: *mut Self, operator: Operator, operand: Self) -> Self {
                // SAFETY: passed on.
                let word = unsafe { <$atomic>::from_ptr(at) };
                match operator {
                    Operator::Add => word.fetch_add(operand, SeqCst),
                    Operator::And => word.fetch_and(operand, SeqCst),
                    Operator::Or => word.fetch_or(operand, SeqCst),
                    Operator::Xor => word.fetch_xor(operand, SeqCst),
                    _ => word.swap(operand, SeqCst),
                }
            }
        }
    };
}

word!(u8, AtomicU8);
word!(u16, AtomicU16);
word!(u32, AtomicU32);
word!(u64, AtomicU64);

impl Word for u128 {
    #[inline(always)]
    unsafe fn load(at: *mut Self) -> Self {
        // SAFETY: passed on; whoever runs a command on such words has asked `wide::is_here`.
        unsafe { wide::load(at) }
    }

    #[inline(always)]
    unsafe fn compare_and_swap(at: *mut Self, expected: Self, new: Self) -> Self {
        // SAFETY: as above.
        unsafe { wide::compare_and_swap(at, expected, new) }
    }

    #[inline(always)]
    unsafe fn bits(at: *mut Self, operator: Operator, operand: Self) -> Self {
        // SAFETY: passed on.
        unsafe {
            change(at, |old| match operator {
                Operator::Add => old.wrapping_add(operand),
                Operator::And => old & operand,
                Operator::Or => old | operand,
                Operator::Xor => old ^ operand,
                _ => operand,
            })
        }
    }
}

/// Replaces the word by `change` of it, and returns the word before. **Safety**: as [`Word::load`].
#[inline(always)]
unsafe fn change<W: Word>(at: *mut W, change: impl Fn(W) -> W) -> W {
    // SAFETY: passed on.
    let mut old = unsafe { W::load(at) };
    loop {
        let new = change(old);
        if new == old {
            return old;
        }
        // SAFETY: passed on.
        let seen = unsafe { W::compare_and_swap(at, old, new) };
        if seen == old {
            return old;
        }
        old = seen;
    }
}

/// A floating-point number in a word.
trait Float<W: Word>: Copy {
    fn of(word: W) -> Self;
    fn word(self) -> W;
    fn sum(self, other: Self) -> Self;
    fn lesser(self, other: Self) -> Self;
    fn greater(self, other: Self) -> Self;
}

macro_rules! float {
    ($float:ty, $word:ty) => {
        impl Float<$word> for $float {
            fn of(word: $word) -> Self {
                <$float>::from_bits(word)
            }
            fn word(self) -> $word {
                self.to_bits()
            }
            fn sum(self, other: Self) -> Self {
                self + other
            }
            fn lesser(self, other: Self) -> Self {
                self.min(other)
            }
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);

/// Operands of successive elements, `step` bytes from one to the next.
#[derive(Clone, Copy)]
struct Operands {
    from: Window,
    step: usize,
}

/// The words of a part of a stream, with what each is to be changed by.
struct Words<'a> {
    base: *mut u8,
    runs: Runs<'a>,
    operand: *const u8,
    operand_step: usize,
    /// Address for the next old element; null where none are asked for.
    old: *mut u8,
}

impl<'a> Words<'a> {
    fn new(
        to: Window,
        shape: &'a Checked<'_>,
        at: u64,
        len: u64,
        element: Element,
        operands: Operands,
        olds: Option<Window>,
    ) -> Words<'a> {
        enter(to, shape, at, len);
        // Lengths of elements are powers of two; a division would cost as much as an update.
        let is_whole = |bytes: u64| bytes & (element.len() - 1) == 0;
        assert!(is_whole(at) && is_whole(len) && (len == 0 || is_whole(shape.shape().block())), "whole elements of {element}");
        assert!(olds.is_none_or(|olds| olds.len() as u64 == len), "room for each old element");
        Words {
            base: to.ptr(),
            runs: Runs::new(shape, at, len),
            operand: operands.from.ptr(),
            operand_step: operands.step,
            old: olds.map_or(std::ptr::null_mut(), |olds| olds.ptr()),
        }
    }

    /// Runs `body`, which says whether all words were aligned, under a guard.
    fn run(self, to: Window, shape: &Checked<'_>, at: u64, len: u64, body: impl FnOnce(Words<'a>) -> bool) -> Result<(), Lost> {
        let mut is_aligned = true;
        guarded(0..0, to.range(), || is_aligned = body(self));
        assert!(is_aligned, "elements lie at multiples of their length: see Checked::check_elements");
        if is_any_lost() { check_runs(Side::Target, to, shape, at, len) } else { Ok(()) }
    }

    /// Updates whole numbers, which compare as `number` says.
    #[inline(always)]
    fn whole<W: Word, N: Ord>(self, operator: Operator, number: impl Fn(W) -> N) -> bool {
        let pick = |is_new: bool, old, new| if is_new { new } else { old };
        // SAFETY: `each` hands out aligned words of the window (invariants 1).
        unsafe {
            match operator {
                Operator::Min => self.by_one(|at, x| change(at, |old| pick(number(x) < number(old), old, x))),
                Operator::Max => self.by_one(|at, x| change(at, |old| pick(number(x) > number(old), old, x))),
                Operator::Add => self.by_one(|at, x| W::bits(at, Operator::Add, x)),
                Operator::And => self.by_one(|at, x| W::bits(at, Operator::And, x)),
                Operator::Or => self.by_one(|at, x| W::bits(at, Operator::Or, x)),
                Operator::Xor => self.by_one(|at, x| W::bits(at, Operator::Xor, x)),
                Operator::Swap => self.by_one(|at, x| W::bits(at, Operator::Swap, x)),
                Operator::Load => self.by_one(|at, _| W::load(at)),
            }
        }
    }

    #[inline(always)]
    fn float<W: Word, F: Float<W>>(self, operator: Operator) -> bool {
        // SAFETY: as in `whole`.
        unsafe {
            match operator {
                Operator::Add => self.by_one(|at, x| change(at, |old| F::of(old).sum(F::of(x)).word())),
                Operator::Min => self.by_one(|at, x| change(at, |old| F::of(old).lesser(F::of(x)).word())),
                Operator::Max => self.by_one(|at, x| change(at, |old| F::of(old).greater(F::of(x)).word())),
                Operator::Load => self.by_one(|at, _| W::load(at)),
                _ => self.by_one(|at, x| W::bits(at, Operator::Swap, x)),
            }
        }
    }

    fn swaps<W: Word>(self) -> bool {
        // SAFETY: as in `whole`; the second operand lies behind the first (invariant 2).
        self.each::<W, true>(|at, pair| unsafe { W::compare_and_swap(at, pair.read_unaligned(), pair.add(1).read_unaligned()) })
    }

    /// Steps that take one operand each.
    #[inline(always)]
    fn by_one<W: Word>(self, step: impl Fn(*mut W, W) -> W) -> bool {
        // Without a use for the old word the processor's plain locked instructions do.
        match self.old.is_null() {
            // SAFETY: there is an operand for each element (invariant 2).
            true => self.each::<W, false>(|at, operand| step(at, unsafe { operand.read_unaligned() })),
            // SAFETY: as above.
            false => self.each::<W, true>(|at, operand| step(at, unsafe { operand.read_unaligned() })),
        }
    }

    /// Calls `step` with each word in order and its operand's address; `step` returns the old word. False where a block is not aligned.
    #[inline(never)]
    fn each<W: Word, const OLDS: bool>(mut self, step: impl Fn(*mut W, *const W) -> W) -> bool {
        while let Some(run) = self.runs.next() {
            let is_aligned = match run {
                Run::Line(line) => (0..line.count).all(|k| {
                    let offset = line.offset.wrapping_add_signed(line.step.wrapping_mul(k as isize));
                    self.block::<W, OLDS>(offset, line.block, &step)
                }),
                Run::Narrow(list) => self.list::<W, OLDS, _>(list, &step),
                Run::Wide(list) => self.list::<W, OLDS, _>(list, &step),
            };
            if !is_aligned {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn list<W: Word, const OLDS: bool, I: Index>(&mut self, list: List<'_, I>, step: &impl Fn(*mut W, *const W) -> W) -> bool {
        let last = list.indices.len() - 1;
        list.indices.iter().enumerate().all(|(k, index)| {
            // A locked instruction waits for its memory, and all others wait for it. Unlike plain loads they do not overlap by themselves.
            let ahead = list.indices[(k + WORDS_AHEAD).min(last)].get();
            prefetch(self.base.wrapping_add(list.offset + ahead * list.scale));
            self.block::<W, OLDS>(list.offset + index.get() * list.scale, list.block, step)
        })
    }

    /// The words of one block of the window, which has whole ones.
    #[inline(always)]
    fn block<W: Word, const OLDS: bool>(&mut self, offset: usize, len: usize, step: &impl Fn(*mut W, *const W) -> W) -> bool {
        let first = self.base.wrapping_add(offset).cast::<W>();
        if !first.addr().is_multiple_of(W::LEN) {
            return false;
        }
        for k in 0..len / W::LEN {
            let old = step(first.wrapping_add(k), self.operand.cast());
            self.operand = self.operand.wrapping_add(self.operand_step);
            if OLDS {
                // SAFETY: there is room for each old element (invariant 2).
                unsafe { self.old.cast::<W>().write_unaligned(old) };
                self.old = self.old.wrapping_add(W::LEN);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{LEN, Table, noise, parts, shapes, window};
    use super::*;
    use hanare_protocol::shape::{Indexed, Shape, Strided};
    use proptest::prelude::*;

    /// An operator's result on two elements, in bytes.
    fn plain(operator: Operator, element: Element, old: &[u8], operand: &[u8]) -> Vec<u8> {
        macro_rules! number {
            ($number:ty) => {{
                let (a, b) =
                    (<$number>::from_le_bytes(old.try_into().unwrap()), <$number>::from_le_bytes(operand.try_into().unwrap()));
                match operator {
                    Operator::Add => a.wrapping_add(b),
                    Operator::Min => a.min(b),
                    Operator::Max => a.max(b),
                    Operator::And => a & b,
                    Operator::Or => a | b,
                    Operator::Xor => a ^ b,
                    Operator::Swap => b,
                    Operator::Load => a,
                }
                .to_le_bytes()
                .to_vec()
            }};
        }
        macro_rules! float {
            ($number:ty) => {{
                let (a, b) =
                    (<$number>::from_le_bytes(old.try_into().unwrap()), <$number>::from_le_bytes(operand.try_into().unwrap()));
                match operator {
                    Operator::Add => a + b,
                    Operator::Min => a.min(b),
                    Operator::Max => a.max(b),
                    Operator::Load => a,
                    _ => b,
                }
                .to_le_bytes()
                .to_vec()
            }};
        }
        match element {
            Element::U32 => number!(u32),
            Element::I32 => number!(i32),
            Element::U64 => number!(u64),
            Element::I64 => number!(i64),
            Element::F32 => float!(f32),
            Element::F64 => float!(f64),
            Element::U128 => number!(u128),
            _ => unreachable!("no update fits"),
        }
    }

    /// The kinds of elements that this machine has instructions for.
    fn kinds() -> Vec<Element> {
        Element::ALL.into_iter().filter(|element| *element != Element::U128 || wide::is_here()).collect()
    }

    fn updates() -> impl Strategy<Value = Update> {
        let all = kinds().into_iter().flat_map(|element| Operator::ALL.map(|operator| (operator, element)));
        let fitting: Vec<_> = all.filter(|(operator, element)| operator.fits(*element)).collect();
        (proptest::sample::select(fitting), any::<bool>()).prop_map(|((operator, element), is_same)| Update {
            operator,
            element,
            is_same,
        })
    }

    /// The offsets of a shape's elements, in order.
    fn elements(shape: &Checked<'_>, len: usize) -> Vec<usize> {
        let block = shape.shape().block() as usize;
        shape.block_offsets().flat_map(|offset| (0..block).step_by(len).map(move |at| offset as usize + at)).collect()
    }

    /// Bytes of numbers that are not NaN, whichever kind they are taken for: how a NaN's bits come out of a sum is not ours
    /// to say.
    fn numbers(len: usize) -> Vec<u8> {
        noise(len).iter().map(|byte| if byte & 0x7f >= 0x7f { 0x35 } else { *byte }).collect()
    }

    proptest! {
        // FEATURE: D3-F13
        #[test]
        fn updates_equal_a_plain_loop(update in updates(), shape in shapes(16), cuts in parts(), wants_olds: bool) {
            let len = update.element.len() as usize;
            shape.check_elements("r", "update", update.element, true).unwrap();
            let before = numbers(LEN);
            // Private buffers lie anywhere.
            let mut operands: Vec<u8> = [vec![0], numbers(if update.is_same { len } else { shape.len() as usize })].concat();
            operands[1..].reverse();
            let mut olds = vec![0; shape.len() as usize + 1];
            let (mut wanted, mut wanted_olds) = (before.clone(), Vec::new());
            for (k, at) in elements(&shape, len).into_iter().enumerate() {
                let operand = &operands[1 + if update.is_same { 0 } else { k * len }..][..len];
                wanted_olds.extend_from_slice(&wanted[at..at + len]);
                let new = plain(update.operator, update.element, &wanted[at..at + len], operand);
                wanted[at..at + len].copy_from_slice(&new);
            }
            let mut table = Table::new(&before);
            for (at, part) in cuts.of_units(shape.len(), len as u64) {
                let (start, part_len) = (at as usize + 1, part as usize);
                let old = wants_olds.then(|| window(&mut olds).slice(start, part_len));
                let (first, operand_len) = if update.is_same { (1, len) } else { (start, part_len) };
                let operand = window(&mut operands).slice(first, operand_len);
                update_part(table.window(), &shape, at, part, update, operand, old).unwrap();
            }
            prop_assert_eq!(table.bytes(), wanted);
            if wants_olds {
                prop_assert_eq!(&olds[1..], wanted_olds);
            }
        }

        #[test]
        fn compare_and_swap_equals_a_plain_loop(
            element in proptest::sample::select(kinds()),
            shape in shapes(16),
            cuts in parts(),
            hits in any::<u64>(),
        ) {
            let len = element.len() as usize;
            let before = noise(LEN);
            let (mut wanted, mut wanted_olds, mut pairs) = (before.clone(), Vec::new(), vec![0]);
            let news = noise(shape.len() as usize);
            for (k, at) in elements(&shape, len).into_iter().enumerate() {
                let old = wanted[at..at + len].to_vec();
                let is_hit = hits >> (k % 64) & 1 == 1;
                let expected: Vec<u8> = if is_hit { old.clone() } else { old.iter().map(|byte| byte ^ 1).collect() };
                let new: Vec<u8> = news[k * len..][..len].iter().map(|byte| !byte).collect();
                if is_hit {
                    wanted[at..at + len].copy_from_slice(&new);
                }
                pairs.extend([expected, new].concat());
                wanted_olds.extend(old);
            }
            let (mut table, mut olds) = (Table::new(&before), vec![0; shape.len() as usize]);
            for (at, part) in cuts.of_units(shape.len(), len as u64) {
                let pair = window(&mut pairs).slice(1 + 2 * at as usize, 2 * part as usize);
                let old = window(&mut olds).slice(at as usize, part as usize);
                compare_and_swap_part(table.window(), &shape, at, part, element, pair, old).unwrap();
            }
            prop_assert_eq!(table.bytes(), wanted);
            prop_assert_eq!(olds, wanted_olds);
        }
    }

    #[test]
    fn a_word_is_updated_like_a_shape_of_one() {
        for operator in Operator::ALL {
            let mut bytes: Vec<u64> = vec![7, 0x5a5a_1234_ffff_0000, 9];
            // SAFETY: the buffer is left alone while its window is used.
            let window = unsafe { window_of(&mut bytes) };
            let old = super::update_word(window, 8, operator, 0xff00_ff00).unwrap();
            assert_eq!(old, 0x5a5a_1234_ffff_0000);
            let wanted = plain(operator, Element::U64, &old.to_le_bytes(), &0xff00_ff00u64.to_le_bytes());
            assert_eq!(bytes, [7, u64::from_le_bytes(wanted.try_into().unwrap()), 9], "{operator}");
        }
    }

    #[test]
    fn a_word_is_swapped_where_it_is_the_expected_one() {
        let mut bytes: Vec<u64> = vec![7, 8, 9];
        // SAFETY: the buffer is left alone while its window is used.
        let window = unsafe { window_of(&mut bytes) };
        assert_eq!(compare_and_swap_word(window, 8, 7, 1), Ok(8), "another word stays");
        assert_eq!(compare_and_swap_word(window, 8, 8, u64::MAX), Ok(8));
        assert_eq!(compare_and_swap_word(window, 16, 9, 9), Ok(9));
        assert_eq!(bytes, [7, u64::MAX, 9]);
    }

    /// # Safety
    /// Like [`Window::of_mut`].
    unsafe fn window_of(words: &mut [u64]) -> Window {
        // SAFETY: promised by the caller.
        unsafe { Window::new(words.as_mut_ptr().cast(), size_of_val(words)) }
    }

    #[test]
    fn updates_of_many_threads_all_count() {
        const ROUNDS: u64 = 2000;
        let mut table = Table::new(&[0; LEN]);
        let memory = table.window();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                scope.spawn(move || {
                    // Each word twice in a list, and once by whole numbers' own atomics.
                    let shape = Shape::from(Indexed::elements(0, 8, &[0u32, 1, 1, 0][..])).check("r", LEN as u64).unwrap();
                    let (element, operator) =
                        if thread < 2 { (Element::F64, Operator::Add) } else { (Element::I64, Operator::Max) };
                    let mut operand = if thread < 2 { 1.5f64.to_le_bytes() } else { 0i64.to_le_bytes() };
                    let update = Update { operator, element, is_same: true };
                    for _ in 0..ROUNDS {
                        update_part(memory, &shape, 0, shape.len(), update, window(&mut operand), None).unwrap();
                    }
                });
            }
        });
        let bytes = table.bytes();
        // Floats that are not negative are no less than zero as whole numbers either, so the greatest changed nothing.
        for at in [0, 8] {
            assert_eq!(f64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()), 2.0 * 2.0 * 1.5 * ROUNDS as f64);
        }
    }

    #[test]
    fn wide_words_that_threads_swap_are_never_half_old() {
        if !wide::is_here() {
            return;
        }
        const ROUNDS: u64 = 20_000;
        let mut table = Table::new(&[0; LEN]);
        let memory = table.window();
        let run = |operator, operand: u128, old: &mut [u8]| {
            let shape = Shape::contiguous(16, 16).check("r", LEN as u64).unwrap();
            let update = Update { operator, element: Element::U128, is_same: true };
            let mut operand = operand.to_le_bytes();
            update_part(memory, &shape, 0, 16, update, window(&mut operand), Some(window(old))).unwrap();
        };
        std::thread::scope(|scope| {
            for thread in 1..3u64 {
                scope.spawn(move || {
                    (0..ROUNDS).for_each(|k| {
                        let half = u128::from(thread << 32 | k);
                        run(Operator::Swap, half << 64 | half, &mut [0; 16]);
                    });
                });
            }
            for _ in 0..ROUNDS {
                let mut seen = [0; 16];
                run(Operator::Load, 0, &mut seen);
                let seen = u128::from_le_bytes(seen);
                assert_eq!(seen as u64, (seen >> 64) as u64, "both halves are of one swap");
            }
        });
    }

    #[test]
    fn elements_off_their_places_are_a_programmer_error() {
        let mut table = Table::new(&[0; LEN]);
        let memory = table.window();
        let update = Update { operator: Operator::Add, element: Element::U64, is_same: true };
        let shape = Shape::from(Strided { offset: 4, block: 8, count: 2, stride: 16 }).check("r", LEN as u64).unwrap();
        let run = |update, shape: &Checked<'_>, len| {
            let mut one = [1; 8];
            update_part(memory, shape, 0, len, update, window(&mut one), None)
        };
        assert!(std::panic::catch_unwind(|| run(update, &shape, 16)).is_err(), "off its place");
        let shape = Shape::contiguous(0, 16).check("r", LEN as u64).unwrap();
        assert!(std::panic::catch_unwind(|| run(update, &shape, 12)).is_err(), "half an element");
        assert!(std::panic::catch_unwind(|| run(Update { element: Element::U8, ..update }, &shape, 16)).is_err(), "a byte");
        assert_eq!(run(update, &shape, 16), Ok(()));
    }
}
