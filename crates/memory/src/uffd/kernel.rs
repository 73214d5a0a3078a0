//! The kernel's numbers and layouts for userfaultfd and the pagemap scan; from `linux/userfaultfd.h` and `linux/fs.h`, which
//! never change them.

use rustix::ioctl::{Opcode, opcode};
use std::mem::size_of;

/// First field of the handshake.
pub const API: u64 = 0xaa;

/// `uffdio_api`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Api {
    pub api: u64,
    pub features: u64,
    pub ioctls: u64,
}

/// `uffdio_range`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub start: u64,
    pub len: u64,
}

/// `uffdio_register`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Register {
    pub span: Span,
    pub mode: u64,
    pub ioctls: u64,
}

/// `uffdio_copy`; `copied` is bytes done, or a negative error.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Copy {
    pub to: u64,
    pub from: u64,
    pub len: u64,
    pub mode: u64,
    pub copied: i64,
}

/// `uffdio_zeropage` and `uffdio_continue`; `done` is bytes done, or a negative error.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fill {
    pub span: Span,
    pub mode: u64,
    pub done: i64,
}

/// `uffdio_writeprotect`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteProtect {
    pub span: Span,
    pub mode: u64,
}

/// `page_region`: a run of pages in the answer to a scan.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRegion {
    pub start: u64,
    pub end: u64,
    pub categories: u64,
}

/// `pm_scan_arg`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    pub size: u64,
    pub flags: u64,
    pub start: u64,
    pub end: u64,
    pub walk_end: u64,
    pub vec: u64,
    pub vec_len: u64,
    pub pages_max: u64,
    pub category_inverted: u64,
    pub category_mask: u64,
    pub category_any_mask: u64,
    pub return_mask: u64,
}

const _: () = {
    assert!(size_of::<Api>() == 24 && size_of::<Span>() == 16 && size_of::<Register>() == 32 && size_of::<Copy>() == 40);
    assert!(size_of::<Fill>() == 32 && size_of::<WriteProtect>() == 24);
    assert!(size_of::<PageRegion>() == 24 && size_of::<Scan>() == 96);
};

pub const UFFDIO_API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
pub const UFFDIO_REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0);
pub const UFFDIO_UNREGISTER: Opcode = opcode::read::<Span>(0xaa, 1);
pub const UFFDIO_COPY: Opcode = opcode::read_write::<Copy>(0xaa, 3);
pub const UFFDIO_ZEROPAGE: Opcode = opcode::read_write::<Fill>(0xaa, 4);
pub const UFFDIO_WRITEPROTECT: Opcode = opcode::read_write::<WriteProtect>(0xaa, 6);
pub const UFFDIO_CONTINUE: Opcode = opcode::read_write::<Fill>(0xaa, 7);
pub const PAGEMAP_SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);

pub const REGISTER_MISSING: u64 = 1 << 0;
pub const REGISTER_WP: u64 = 1 << 1;
pub const REGISTER_MINOR: u64 = 1 << 2;
pub const COPY_WP: u64 = 1 << 1;
pub const WRITEPROTECT_ON: u64 = 1 << 0;
pub const CONTINUE_WP: u64 = 1 << 1;

pub const FEATURE_WP: u64 = 1 << 0;
pub const FEATURE_MISSING_SHMEM: u64 = 1 << 5;
pub const FEATURE_SIGBUS: u64 = 1 << 7;
pub const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
pub const FEATURE_WP_SHMEM: u64 = 1 << 12;
pub const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
pub const FEATURE_WP_ASYNC: u64 = 1 << 15;

/// Write-protect what the scan finds, in the same step.
pub const SCAN_WP_MATCHING: u64 = 1 << 0;
/// Refuse ranges that are not tracked asynchronously.
pub const SCAN_CHECK_WPASYNC: u64 = 1 << 1;
pub const PAGE_IS_WRITTEN: u64 = 1 << 1;
