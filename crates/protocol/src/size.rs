//! Sizes as people write them, and as every face prints them.
//!
//! A unit's letter alone counts in powers of two, as everywhere where memory is meant: `4G` is `4GiB`. `4GB` is decimal.

use std::fmt;

/// Units of powers of 1024, largest first.
const UNITS: [(u64, &str); 5] = [(1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// A number of bytes, shown for people in the largest unit that it fills: `100 GiB`, `1.5 KiB`, `77 B`. Cut, not rounded, to one
/// decimal, so that no shown limit is above the true one.
///
/// Bytes as a size; `{:#}` tells a number that is not whole in its unit exactly, too: `8000000 bytes (7.6 MiB)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        let text = match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
            None => format!("{bytes} B"),
            Some((unit, name)) => match (bytes / unit, bytes % unit * 10 / unit) {
                (whole, 0) => format!("{whole} {name}"),
                (whole, tenths) => format!("{whole}.{tenths} {name}"),
            },
        };
        let is_whole = UNITS.iter().find(|(unit, _)| bytes >= *unit).is_none_or(|(unit, _)| bytes.is_multiple_of(*unit));
        match f.alternate() && !is_whole {
            true => write!(f, "{bytes} bytes ({text})"),
            false => f.pad(&text),
        }
    }
}

/// Memory that nodes do not lend at present, as a part of a sentence; empty without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Withheld(pub u64);

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            bytes => write!(f, ", and hosts that run short of memory keep {} back (see `hanare status`)", Size(bytes)),
        }
    }
}

/// Reads `4GiB`, `2G` (the same as `2GiB`), `512M`, `1.5k`, `10GB` (decimal) or plain bytes. **Errors**: the fault, with the right forms.
pub fn parse(text: &str) -> Result<u64, String> {
    let bad = || {
        format!("'{text}' is no size: write a number of bytes, or a number with K, M, G, T (powers of 1024) or KB, MB, GB, TB")
    };
    let trimmed = text.trim();
    let number = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(bad());
    }
    let one = unit(trimmed[number.len()..].trim_start()).ok_or_else(bad)?;
    let beyond = || format!("'{text}' is beyond 64 bits");
    // A fraction of 64-bit floats is exact only up to 53 bits, so whole numbers take their own way.
    if let Ok(count) = number.parse::<u64>() {
        return count.checked_mul(one).ok_or_else(beyond);
    }
    if number.bytes().all(|c| c.is_ascii_digit()) {
        return Err(beyond());
    }
    let bytes = number.parse::<f64>().map_err(|_| bad())? * one as f64;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(beyond()) }
}

/// Reads a size that may not be zero.
pub fn parse_some(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err("a size of 0 bytes cannot be used".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Bytes of a unit as people write it: nothing, `B`, or a letter with `iB`, `B` (decimal) or nothing.
fn unit(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    let (letter, rest) = text.split_at_checked(1).unwrap_or(("", ""));
    let power = match letter {
        "" => return Some(1),
        "B" if rest.is_empty() => return Some(1),
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    match rest {
        "" | "IB" => Some(1024u64.pow(power)),
        "B" => Some(1000u64.pow(power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_alone_is_a_power_of_two_and_b_makes_it_decimal() {
        for (text, bytes) in [
            ("4GiB", 4 << 30),
            ("2G", 2 << 30),
            ("512M", 512 << 20),
            ("1.5k", 1536),
            ("10GB", 10_000_000_000),
            ("77", 77),
            ("8 B", 8),
            ("64mib", 64 << 20),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_exact_beyond_what_a_float_holds() {
        assert_eq!(parse("9007199254740993"), Ok(9_007_199_254_740_993));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in
            ["", "G", "-1", "1Q", "4 apples", "1e3", "99999999999T", "99999999999999999999", "1.5.5", "64MM", "1KiBB", "0x10"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_some("0").is_err());
    }

    #[test]
    fn a_size_is_shown_in_the_largest_unit_that_it_fills_and_never_above_itself() {
        for (bytes, short, exact) in [
            (0, "0 B", "0 B"),
            (77, "77 B", "77 B"),
            (4096, "4 KiB", "4 KiB"),
            (1536, "1.5 KiB", "1536 bytes (1.5 KiB)"),
            (8_000_000, "7.6 MiB", "8000000 bytes (7.6 MiB)"),
            (100 << 30, "100 GiB", "100 GiB"),
            ((4 << 30) - 4096, "3.9 GiB", "4294963200 bytes (3.9 GiB)"),
            ((1 << 30) - 1, "1023.9 MiB", "1073741823 bytes (1023.9 MiB)"),
            (u64::MAX, "16383.9 PiB", "18446744073709551615 bytes (16383.9 PiB)"),
        ] {
            assert_eq!((Size(bytes).to_string().as_str(), format!("{:#}", Size(bytes)).as_str()), (short, exact));
        }
        assert_eq!(format!("{:>8}", Size(4096)), "   4 KiB");
    }
}
