//! The fabrics from outside: a module a subject.
//!
//! Files beside this folder have a process of their own:
//!
//! | file | why |
//! |---|---|
//! | `allocations` | its allocator counts |

mod greeting;
mod input;
