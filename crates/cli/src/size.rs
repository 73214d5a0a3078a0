//! Sizes as people write them, and as the command prints them.
//!
//! A unit's letter alone counts in powers of two, as everywhere where memory is meant: `4G` is `4GiB`. `4GB` is decimal.

use bytesize::ByteSize;
use hanare_protocol::id::NodeId;
use hanare_protocol::place::Placement;

/// Reads `4GiB`, `2G` (the same as `2GiB`), `512M`, `10GB` (decimal) or plain bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let bad = || {
        format!("'{text}' is no size: write a number of bytes, or a number with K, M, G, T (powers of 1024) or KB, MB, GB, TB")
    };
    let trimmed = text.trim();
    let number = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(bad());
    }
    let unit = trimmed[number.len()..].trim_start();
    let unit = if unit.len() == 1 && !unit.eq_ignore_ascii_case("b") { format!("{unit}iB") } else { unit.to_owned() };
    // A fraction of 64-bit floats is exact only up to 53 bits, so whole numbers take their own way.
    let one = format!("1{unit}").parse::<ByteSize>().map_err(|_| bad())?.0;
    match number.parse::<u64>() {
        Ok(count) => count.checked_mul(one).ok_or_else(|| format!("'{text}' is beyond 64 bits")),
        Err(_) => number.parse::<f64>().map(|count| (count * one as f64) as u64).map_err(|_| bad()),
    }
}

/// Reads a size that may not be zero.
pub fn parse_some(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err("a size of 0 bytes cannot be used".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Reads a placement: `local`, `node=K`, or `interleave=CHUNK` with the chunk written as any size.
pub fn placement(text: &str) -> Result<Placement, String> {
    let placement = match text.split_once('=') {
        Some(("interleave", chunk)) => Placement::Interleave(parse(chunk)?),
        Some(("node", number)) => Placement::Node(NodeId(number.parse().map_err(|_| format!("'{number}' is no node's number"))?)),
        None if text == "local" => Placement::Local,
        _ => return Err("write local, node=K, or interleave=CHUNK".to_owned()),
    };
    placement.check().map_err(|error| error.to_string())?;
    Ok(placement)
}

/// Writes a size for people.
pub fn show(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// Writes a placement for people.
pub fn show_placement(placement: &Placement) -> String {
    match placement {
        Placement::Interleave(chunk) => format!("interleave={}", show(*chunk).replace(".0 ", "")),
        other => other.to_string(),
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
        for text in ["", "G", "-1", "1Q", "4 apples", "1e3", "99999999999T", "0x10"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_some("0").is_err());
    }

    #[test]
    fn an_interleave_chunk_is_a_size() {
        assert_eq!(placement("interleave=64K"), Ok(Placement::Interleave(65536)));
        assert_eq!(placement("node=3"), Ok(Placement::Node(NodeId(3))));
        assert!(placement("interleave=1000").is_err() && placement("near").is_err() && placement("node=x").is_err());
        assert_eq!(show_placement(&Placement::Interleave(65536)), "interleave=64KiB");
    }
}
