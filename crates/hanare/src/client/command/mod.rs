//! The vector commands.

pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod draft;
pub(crate) mod drafting;
