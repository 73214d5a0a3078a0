//! Kinds of values: what the bytes of one are, for all languages.
//!
//! Rust and C write bytes as they are, or any other kind that they know to write. Python reads [`PLAIN`] as `bytes` and makes objects of the others.

/// Bytes as they are.
pub const PLAIN: u8 = 0;
/// A pickle of Python. Reading it runs its writer's program: Python alone does, and only where it trusts all writers.
pub const PICKLED: u8 = 1;
/// A pickle, and its long buffers behind it.
pub const BESIDE: u8 = 2;
/// JSON in UTF-8: a text, a number, a truth value, `null`, or lists and objects of those.
pub const JSON: u8 = 3;
/// An array: a text that says its type and shape as a region's attributes do, and its elements.
pub const ARRAY: u8 = 4;
