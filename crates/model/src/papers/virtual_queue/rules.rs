//! What the paper's numbers and words are read as.
use crate::claim::Rules;

/// One table for every claim of the paper.
pub static RULES: Rules = Rules {
    share: 0.02,
    last_digit: 0.0,
    why: "Figure 6 is lost; two hundredths of an axis from 0 to 1 are about what could be read from it.",
    words: &[
        ("only a little", 0.2, "less than a fifth a doubling"),
        ("hardly shows", 0.05, "a twentieth of the time"),
        ("strongly", 0.1, "a tenth"),
        ("do not reach", 0.01, "a hundredth of the updates"),
        ("because of", 0.5, "half of the gap"),
        ("insignificant", 0.1, "a tenth of a percent"),
        ("appears", 1.0, "one percent, which figure 6 could just show"),
        ("not bandwidth", 0.5, "the memory is busy for less than half of the time"),
        ("comparable", 0.95, "within a twentieth"),
        ("hard to use", 0.5, "queues cost less than half of what registers cost"),
    ],
};
