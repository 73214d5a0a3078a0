//! Units of parameters and facts, and conversion between those of one kind.
//!
//! SOURCE: the papers' conventions: sizes are powers of two (200 MB is 200 MiB), rates are powers of ten.

/// What a unit measures; only units of one kind convert into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Time,
    Size,
    Rate,
    Frequency,
    Length,
    Share,
}

/// Name, kind, and factor to the kind's base (second, byte, byte per second, hertz, metre, one).
const UNITS: &[(&str, Kind, f64)] = &[
    ("ps", Kind::Time, 1e-12),
    ("ns", Kind::Time, 1e-9),
    ("us", Kind::Time, 1e-6),
    ("ms", Kind::Time, 1e-3),
    ("s", Kind::Time, 1.0),
    ("B", Kind::Size, 1.0),
    ("KB", Kind::Size, 1024.0),
    ("MB", Kind::Size, 1024.0 * 1024.0),
    ("GB", Kind::Size, 1024.0 * 1024.0 * 1024.0),
    ("KiB", Kind::Size, 1024.0),
    ("MiB", Kind::Size, 1024.0 * 1024.0),
    ("GiB", Kind::Size, 1024.0 * 1024.0 * 1024.0),
    ("B/s", Kind::Rate, 1.0),
    ("KB/s", Kind::Rate, 1e3),
    ("MB/s", Kind::Rate, 1e6),
    ("GB/s", Kind::Rate, 1e9),
    ("Mb/s", Kind::Rate, 1e6 / 8.0),
    ("Gb/s", Kind::Rate, 1e9 / 8.0),
    ("Hz", Kind::Frequency, 1.0),
    ("kHz", Kind::Frequency, 1e3),
    ("MHz", Kind::Frequency, 1e6),
    ("GHz", Kind::Frequency, 1e9),
    ("m", Kind::Length, 1.0),
    ("km", Kind::Length, 1e3),
    ("x", Kind::Share, 1.0),
    ("%", Kind::Share, 0.01),
];

/// Units that convert only to themselves.
const PLAIN: &[&str] = &[
    "cells",
    "clocks",
    "count",
    "cycles",
    "entries",
    "Mflop/s",
    "nodes",
    "ns/m",
    "order",
    "pages",
    "processors",
    "seed",
    "USD",
    "W",
];

/// True if a parameter may have this unit.
pub fn is_known(name: &str) -> bool {
    find(name).is_some() || PLAIN.contains(&name)
}

fn find(name: &str) -> Option<(Kind, f64)> {
    UNITS.iter().find(|unit| unit.0 == name).map(|unit| (unit.1, unit.2))
}

/// A value in `from`, in `to`; none where the two measure different things.
///
/// A unit that is not in the table (`cycles`, `count`, `pages`) converts only to itself.
pub fn convert(value: f64, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(value);
    }
    let (from_kind, from_factor) = find(from)?;
    let (to_kind, to_factor) = find(to)?;
    (from_kind == to_kind).then(|| value * (from_factor / to_factor))
}

/// The units a value in `unit` may be given in, with `unit` itself first.
pub fn accepted(unit: &str) -> Vec<&str> {
    let mut names = vec![unit];
    if let Some((kind, _)) = find(unit) {
        names.extend(UNITS.iter().filter(|other| other.1 == kind && other.0 != unit).map(|other| other.0));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_rates_decimal() {
        assert_eq!(convert(200.0, "MB", "B"), Some(209_715_200.0));
        assert_eq!(convert(48.0, "MB/s", "B/s"), Some(48e6));
        assert_eq!(convert(8.0, "Gb/s", "GB/s"), Some(1.0));
    }

    #[test]
    fn kinds_do_not_mix() {
        assert_eq!(convert(1.0, "ns", "B"), None);
        assert_eq!(convert(1.0, "cycles", "ns"), None);
        assert_eq!(convert(3.0, "cycles", "cycles"), Some(3.0));
    }

    #[test]
    fn accepted_units_start_with_the_own() {
        assert_eq!(accepted("ms"), ["ms", "ps", "ns", "us", "s"]);
        assert_eq!(accepted("pages"), ["pages"]);
    }
}
