//! Timing models of the five papers' hardware.
#![forbid(unsafe_code)]
