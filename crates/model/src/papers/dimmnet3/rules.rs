//! What the paper's numbers and words are read as.
use crate::claim::Rules;

/// One table for every claim of the paper.
pub static RULES: Rules = Rules {
    share: 0.05,
    last_digit: 0.0,
    why: "Figure 7 is lost and the text rounds; nothing finer than a twentieth can be read from it.",
    words: &[
        ("somewhat", 1.33, "at most a third more"),
        ("far", 1.33, "more than a third, because \"somewhat\" of the same figure is a third"),
        ("strongly", 0.5, "at least half a microsecond, a third of the shortest message"),
        ("raises the load", 1.5, "half more of the processor's time"),
        ("about the same", 1.1, "within a tenth"),
        ("well above", 2.0, "at least twice"),
        ("most", 50.0, "more than half"),
        ("little", 1.2, "less than a fifth"),
        ("degrade", 1.5, "half more"),
        ("not degrade", 1.01, "less than a hundredth more"),
        ("efficient", 90.0, "nine tenths of the bus"),
        ("inefficient", 10.0, "a tenth of the bus"),
        ("one order of magnitude, least", 5.0, "half of ten"),
        ("one order of magnitude, most", 20.0, "twice ten"),
    ],
};
