//! Kinds of values: the form of their bytes, for all languages.
//!
//! Rust and C write plain bytes, or any other kind that they can make. Python reads [`PLAIN`] as `bytes` and makes objects of the others.

/// Bytes as they are.
pub const PLAIN: u8 = 0;
/// A pickle of Python. Reading it runs code of its writer: only Python does, and only where it trusts all writers.
pub const PICKLED: u8 = 1;
/// A pickle, and its long buffers behind it.
pub const BESIDE: u8 = 2;
/// JSON in UTF-8: a text, a number, a truth value, `null`, or lists and objects of those.
pub const JSON: u8 = 3;
/// An array: a text with its type and shape, as in a region's attributes, and its elements.
pub const ARRAY: u8 = 4;
