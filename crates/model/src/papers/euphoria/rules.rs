//! What the paper's numbers and words are read as.
use crate::claim::Rules;

/// One table for every claim of the paper.
pub static RULES: Rules = Rules {
    share: 0.04,
    last_digit: 0.0,
    why: "The tables print nanoseconds and tenths of seconds; one cycle of the bus is 1 to 4 % of a remote response.",
    words: &[
        ("stays near", 0.1, "a tenth of the response"),
        ("most", 0.5, "more than half"),
        ("dominates", 0.5, "more than half"),
        ("negligible", 0.05, "a twentieth"),
        ("large", 10.0, "ten times the clean access"),
        ("much less", 0.1, "a tenth, as the paper's values have it"),
        ("much more", 2.0, "twice, as the paper's values have it"),
        ("more than twice", 2.0, "as printed"),
        ("a few hundred ns, least", 100.0, "one hundred"),
        ("a few hundred ns, most", 1000.0, "below a microsecond"),
        ("tens of microseconds", 10.0, "ten at least"),
    ],
};
