//! The distance between a produced value and the printed one.
use serde::Serialize;

/// How far a produced value may be from the printed one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Tolerance {
    /// Equal up to floating-point rounding (1e-9 of the value).
    Exact,
    /// At most this far, in the fact's unit: half of the last printed digit where only rounding differs.
    Absolute(f64),
    /// At most this share of the printed value.
    Relative(f64),
}

impl Tolerance {
    /// Whether `got` is close enough to `want`.
    pub fn accepts(self, want: f64, got: f64) -> bool {
        let allowed = match self {
            Tolerance::Exact => 1e-9 * want.abs(),
            // A value on the edge of the last digit is inside.
            Tolerance::Absolute(distance) => distance * (1.0 + 1e-9),
            Tolerance::Relative(share) => share * want.abs(),
        };
        (want - got).abs() <= allowed
    }
}
