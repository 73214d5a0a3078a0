//! The deterministic cluster simulator: the protocol for N nodes under a seed, with faults and checkers.
#![forbid(unsafe_code)]
