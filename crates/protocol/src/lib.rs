//! The rules of the pool: ids, limits, wire formats and every state machine; no I/O.
#![forbid(unsafe_code)]
