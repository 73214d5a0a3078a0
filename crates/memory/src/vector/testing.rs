//! What the kernels' tests share: random shapes, random parts, and the slow way to see what a shape touches.

use crate::guard::forget;
use crate::window::Window;
use hanare_protocol::shape::{Checked, Dim, Indexed, Indices, Shape, Strided, Subarray};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;

/// Bytes of the tables that shapes are checked against.
pub const LEN: usize = 8192;

/// Random checked shapes within [`LEN`], all offsets and lengths multiples of `unit`. They are strided, sub-arrays with strides of any sign
/// and zero, and index lists of both widths with repeats.
pub fn shapes(unit: u64) -> impl Strategy<Value = Checked<'static>> {
    let limit = LEN as u64 / unit;
    let block = || prop_oneof![Just(1u64), Just(2), Just(4), Just(8), Just(16), Just(32), Just(64), 1..100u64, 500..700u64];
    let strided = (0..50u64, block(), 0..40u64, 0..90u64, 0..3u8).prop_map(move |(offset, block, count, gap, dense)| {
        let gap = if dense == 0 { 0 } else { gap };
        Shape::from(Strided { offset: offset * unit, block: block * unit, count, stride: (block + gap) * unit })
    });
    let dims = proptest::collection::vec((0u64..7, prop_oneof![-70i64..70, Just(0)]), 0..5);
    let subarrays = (block(), dims, any::<prop::sample::Index>(), any::<bool>()).prop_map(move |(block, dims, place, joins)| {
        let dims: Vec<Dim> = dims.iter().map(|&(count, stride)| Dim { count, stride: stride * unit as i64 }).collect();
        let dims = if joins { [dims, vec![Dim { count: 3, stride: (block * unit) as i64 }]].concat() } else { dims };
        let reach = |dim: &Dim| (dim.count as i64 - 1).max(0) * dim.stride;
        let low: i64 = dims.iter().map(|dim| reach(dim).min(0)).sum();
        let high: i64 = dims.iter().map(|dim| reach(dim).max(0)).sum::<i64>() + (block * unit) as i64;
        let slack = (LEN as i64 - (high - low)).max(0) / unit as i64 + 1;
        let offset = place.index(slack as usize) as i64 * unit as i64 - low;
        Shape::from(Subarray::new(offset as u64, block * unit, &dims).unwrap())
    });
    let indices = proptest::collection::vec(any::<prop::sample::Index>(), 0..60);
    let indexed =
        (0..50u64, block(), 1..80u64, indices, any::<bool>()).prop_map(move |(offset, block, scale, picks, is_narrow)| {
            let most = limit.saturating_sub(offset + block) / scale + 1;
            let indices = picks.iter().map(|pick| pick.index(most as usize) as u64);
            let indices = match is_narrow {
                true => Indices::Narrow(indices.map(|index| index as u32).collect::<Vec<_>>().into()),
                false => Indices::Wide(indices.collect::<Vec<_>>().into()),
            };
            Shape::from(Indexed { offset: offset * unit, block: block * unit, scale: scale * unit, indices })
        });
    let fits = |shape: Shape<'static>| shape.check("r", LEN as u64).ok();
    prop_oneof![strided, subarrays, indexed].prop_filter_map("inside", fits)
}

/// How a stream is cut into parts.
#[derive(Clone, Debug)]
pub struct Parts(Vec<u64>);

/// Random ways to cut a stream, the whole among them.
pub fn parts() -> impl Strategy<Value = Parts> {
    prop_oneof![Just(Parts(vec![])), proptest::collection::vec(1..900u64, 1..4).prop_map(Parts)]
}

impl Parts {
    /// The parts of a stream of `len`: where each begins, and its length.
    pub fn of(&self, len: u64) -> Vec<(u64, u64)> {
        self.of_units(len, 1)
    }

    /// As `of`, with cuts at multiples of `unit` only.
    pub fn of_units(&self, len: u64, unit: u64) -> Vec<(u64, u64)> {
        let (mut parts, mut at) = (Vec::new(), 0);
        let mut lens = self.0.iter().cycle();
        while at < len || parts.is_empty() {
            let part = lens.next().map_or(len, |part| part * unit).min(len - at);
            parts.push((at, part));
            at += part;
        }
        parts
    }
}

/// Every byte that a shape touches, in order.
pub fn bytes_of(shape: &Checked<'_>) -> Vec<usize> {
    let block = shape.shape().block();
    shape.block_offsets().flat_map(|offset| offset..offset + block).map(|at| at as usize).collect()
}

/// The stream of a shape, the slow way.
pub fn stream(bytes: &[u8], shape: &Checked<'_>) -> Vec<u8> {
    bytes_of(shape).into_iter().map(|at| bytes[at]).collect()
}

/// Bytes without a pattern.
pub fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|k| (k as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

/// A window of a buffer.
pub fn window(bytes: &mut [u8]) -> Window {
    // SAFETY: every test keeps its buffers, and leaves them alone while it uses their windows.
    unsafe { Window::of_mut(bytes) }
}

/// A table of [`LEN`] bytes where words lie at multiples of their length.
pub struct Table(Vec<u128>);

impl Table {
    /// A table of these bytes.
    pub fn new(bytes: &[u8]) -> Table {
        Table(bytes.chunks_exact(16).map(|word| u128::from_ne_bytes(word.try_into().unwrap())).collect())
    }

    /// Its window.
    pub fn window(&mut self) -> Window {
        // SAFETY: as in `window`.
        unsafe { Window::new(self.0.as_mut_ptr().cast(), self.0.len() * 16) }
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// A mapped file, cut behind its first page so that the rest is lost.
pub struct Torn {
    _file: OwnedFd,
    whole: Window,
}

impl Torn {
    /// A file of `len` bytes of which 4096 are left.
    pub fn new(len: usize) -> Torn {
        let file = memfd_create("torn", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len as u64).unwrap();
        // SAFETY: the kernel chooses a free range; it is unmapped in `drop`, after the last use of the window.
        let whole = unsafe {
            let both = ProtFlags::READ | ProtFlags::WRITE;
            Window::new(mmap(std::ptr::null_mut(), len, both, MapFlags::SHARED, &file, 0).unwrap().cast(), len)
        };
        ftruncate(&file, 4096).unwrap();
        Torn { _file: file, whole }
    }

    /// Its window.
    pub fn window(&self) -> Window {
        self.whole
    }
}

impl Drop for Torn {
    fn drop(&mut self) {
        forget(self.whole.range());
        // SAFETY: mapped in `new` with this length.
        unsafe { munmap(self.whole.ptr().cast(), self.whole.len()).unwrap() };
    }
}
