//! The kernel's numbers and layouts for userfaultfd; from `linux/userfaultfd.h`, which never changes them.

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

/// `uffdio_continue`; `done` is bytes done, or a negative error.
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

/// `uffdio_copy`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Copy {
    pub to: u64,
    pub from: u64,
    pub len: u64,
    pub mode: u64,
    pub done: i64,
}

const _: () = {
    assert!(size_of::<Copy>() == 40);
    assert!(size_of::<Api>() == 24 && size_of::<Span>() == 16 && size_of::<Register>() == 32);
    assert!(size_of::<Fill>() == 32 && size_of::<WriteProtect>() == 24);
};

pub const UFFDIO_API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
pub const UFFDIO_REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0);
pub const UFFDIO_WAKE: Opcode = opcode::read::<Span>(0xaa, 2);
pub const UFFDIO_COPY: Opcode = opcode::read_write::<Copy>(0xaa, 3);
pub const UFFDIO_POISON: Opcode = opcode::read_write::<Fill>(0xaa, 8);
/// The request of `/dev/userfaultfd`: takes flags, returns a descriptor.
pub const USERFAULTFD_IOC_NEW: Opcode = opcode::none(0xaa, 0);
pub const UFFDIO_WRITEPROTECT: Opcode = opcode::read_write::<WriteProtect>(0xaa, 6);
pub const UFFDIO_CONTINUE: Opcode = opcode::read_write::<Fill>(0xaa, 7);

pub const REGISTER_MISSING: u64 = 1 << 0;
pub const REGISTER_WP: u64 = 1 << 1;
pub const REGISTER_MINOR: u64 = 1 << 2;
pub const WRITEPROTECT_ON: u64 = 1 << 0;
pub const CONTINUE_WP: u64 = 1 << 1;
pub const COPY_WP: u64 = 1 << 1;

/// Bytes of `uffd_msg`: the event at 0; of a page fault its flags at 8, its address at 16.
pub const EVENT_LEN: usize = 32;
pub const EVENT_PAGEFAULT: u8 = 0x12;
pub const PAGEFAULT_WRITE: u64 = 1 << 0;
pub const PAGEFAULT_WP: u64 = 1 << 1;

pub const FEATURE_WP: u64 = 1 << 0;
pub const FEATURE_MISSING_SHMEM: u64 = 1 << 5;
pub const FEATURE_SIGBUS: u64 = 1 << 7;
pub const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
pub const FEATURE_WP_SHMEM: u64 = 1 << 12;
