//! Words of 128 bits: one atomic step each, where the processor has instructions for them.
//!
//! Safety invariants: those of the folder, and
//!
//! 1. Both functions are called where [`is_here`] says yes, on words at multiples of 16 bytes.

/// True if this machine's processor reads and changes words of 128 bits in one step. It has `cmpxchg16b`, and AVX, with which Intel and
/// AMD promise that aligned loads of 16 bytes are atomic. **Cost**: two loads.
#[inline]
pub fn is_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_here = std::arch::is_x86_feature_detected!("cmpxchg16b") && std::arch::is_x86_feature_detected!("avx");
    #[cfg(not(target_arch = "x86_64"))]
    let is_here = false;
    is_here
}

/// The word, read in one step; nothing is written, so memory that may only be read will do.
///
/// **Ordering**: sequentially consistent with [`compare_and_swap`], as loads of this processor are.
///
/// # Safety
/// The word lies in a window (invariant 1).
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn load(at: *mut u128) -> u128 {
    let (low, high): (u64, u64);
    // SAFETY: the word is readable and aligned, and the processor has AVX (invariant 1). One instruction reads it.
    unsafe {
        std::arch::asm!(
            "vmovdqa {all}, [{at}]",
            "vmovq {low}, {all}",
            "vpextrq {high}, {all}, 1",
            at = in(reg) at,
            all = out(xmm_reg) _,
            low = out(reg) low,
            high = out(reg) high,
            options(nostack, preserves_flags),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

/// Makes the word `new` where it is `expected`, and returns the word before.
///
/// # Safety
/// Like [`load`], and the word may be written.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn compare_and_swap(at: *mut u128, expected: u128, new: u128) -> u128 {
    let (low, high): (u64, u64);
    // The compiler's own function, inlined into code for any processor, becomes a call of a library that is not linked.
    // SAFETY: the word is writable and aligned, and the processor has the instruction (invariant 1). rbx, which the compiler keeps for
    // itself, is as before afterwards.
    unsafe {
        std::arch::asm!(
            "xchg rsi, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, rsi",
            in("rdi") at,
            inout("rsi") new as u64 => _,
            in("rcx") (new >> 64) as u64,
            inout("rax") expected as u64 => low,
            inout("rdx") (expected >> 64) as u64 => high,
            options(nostack),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

/// # Safety
/// Never called: see [`is_here`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn load(_: *mut u128) -> u128 {
    unreachable!("no wide words on this processor")
}

/// # Safety
/// Never called: see [`is_here`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn compare_and_swap(_: *mut u128, _: u128, _: u128) -> u128 {
    unreachable!("no wide words on this processor")
}
