//! What the paper's numbers and words are read as.
use crate::claim::Rules;

/// One table for every claim of the paper.
pub static RULES: Rules = Rules {
    share: 0.04,
    last_digit: 0.0,
    why: "Tables print whole milliseconds of a few hundred, and operation times of two programs differ by up to 8 % at these sizes.",
    words: &[
        ("greatly", 2.0, "at least twice"),
        ("about as fast", 1.05, "within a twentieth"),
        ("near-linear", 0.95, "95 % of the ideal speed-up"),
        ("disk-bound", 0.5, "more than half of the time is the disk's"),
    ],
};
