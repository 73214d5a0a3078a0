//! Sizes in settings: bytes, or with K, M, G, T (powers of 1024).

use hanare_protocol::{Error, Result};

/// Reads a size such as `64M`, `64MiB` or `67108864`; `key` is named where it cannot be read.
pub fn read(key: &str, text: &str) -> Result<u64> {
    let bad = |reason: &str| Error::BadSetting { key: key.to_owned(), value: text.to_owned(), reason: reason.to_owned() };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches('B').trim_end_matches('i') {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(bad("write bytes, or a number with K, M, G or T")),
    };
    let number: u64 = number.parse().map_err(|_| bad("write bytes, or a number with K, M, G or T"))?;
    let len = number.checked_mul(1 << shift).ok_or_else(|| bad("it is beyond 64 bits"))?;
    if len == 0 { Err(bad("it must be at least 1")) } else { Ok(len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_units() {
        for (text, len) in [("1", 1), ("64M", 64 << 20), ("64MiB", 64 << 20), ("2K", 2048), ("3G", 3 << 30), ("100B", 100)] {
            assert_eq!(read("HANARE_SODIMM", text), Ok(len), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_the_setting_named() {
        for text in ["", "M", "0", "-1", "1.5G", "64MM", "99999999999999999999", "99999999T", "1 M"] {
            let error = read("HANARE_SODIMM", text).unwrap_err().to_string();
            assert!(error.starts_with("HANARE_SODIMM cannot be"), "{text}: {error}");
        }
    }
}
