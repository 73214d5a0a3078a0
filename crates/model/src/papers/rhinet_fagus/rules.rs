//! What the paper's numbers and words are read as.
use crate::claim::Rules;

/// One table for every claim of the paper.
pub static RULES: Rules = Rules {
    share: 0.05,
    last_digit: 1.0,
    why: "Every number of the text is printed as \"about\", with one or two digits.",
    words: &[
        ("somewhat", 1.5, "less than half more"),
        ("slightly", 0.8, "less than a fifth less"),
        ("no extra", 1.001, "less than a thousandth more"),
        ("nearly all", 0.85, "just below the paper's own 88 % of 11 of 12.5 MB/s, of which it says so"),
        ("most", 0.5, "more than half"),
    ],
};
