//! Commands of one line, as people type them: words apart by blanks, and quotes that keep blanks inside.

use crate::words::Span;

/// Splits a line into words, without their quotes; `None` where quotes are not as they should be. Redis' rules: `\x41`, `\n` and such within
/// double quotes, `\'` within single ones.
pub fn split(line: &[u8], into: &mut Vec<u8>, spans: &mut Vec<Span>) -> Option<()> {
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        let begin = into.len();
        rest = take_word(rest, into)?.trim_ascii_start();
        spans.push((begin as u32, (into.len() - begin) as u32));
    }
    Some(())
}

/// Takes a word; returns what is behind it. `None` for quotes without an end, or with more of a word behind it.
fn take_word<'l>(mut rest: &'l [u8], into: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        rest = match rest {
            [] => return Some(rest),
            [blank, ..] if blank.is_ascii_whitespace() => return Some(rest),
            [quote @ (b'"' | b'\''), inside @ ..] => {
                let after = take_quoted(*quote, inside, into)?;
                let is_end = after.first().is_none_or(u8::is_ascii_whitespace);
                return is_end.then_some(after);
            }
            [byte, after @ ..] => {
                into.push(*byte);
                after
            }
        };
    }
}

/// Takes what is inside of quotes; returns what is behind them.
fn take_quoted<'l>(quote: u8, mut rest: &'l [u8], into: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        let (byte, after) = match rest {
            [b'\\', b'\'', after @ ..] if quote == b'\'' => (b'\'', after),
            [b'\\', b'x', high, low, after @ ..] if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (16 * hex(*high) + hex(*low), after)
            }
            [b'\\', letter, after @ ..] if quote == b'"' => (meant(*letter), after),
            [byte, after @ ..] if *byte == quote => return Some(after),
            [byte, after @ ..] => (*byte, after),
            [] => return None,
        };
        into.push(byte);
        rest = after;
    }
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or(0) as u8
}

/// The byte that a letter behind a backslash means.
fn meant(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_those_of_redis() {
        for (line, wanted) in [
            (&b"  SET  a\tb "[..], Some(vec![&b"SET"[..], b"a", b"b"])),
            (b"a \"b c\" 'd e'", Some(vec![b"a", b"b c", b"d e"])),
            (br#""\x00\xfFg\n\"\\" 'it\'s\n'"#, Some(vec![b"\x00\xffg\n\"\\", b"it's\\n"])),
            (b"a\"b c\"", Some(vec![b"ab c"])),
            (b"\"\" ''", Some(vec![b"", b""])),
            (b"\"a\"b", None),
            (b"\"a", None),
            (b"'a\\", None),
            (b"'", None),
            (b"", Some(vec![])),
        ] {
            let (mut into, mut spans) = (Vec::new(), Vec::new());
            let words = split(line, &mut into, &mut spans);
            let words = words.map(|()| crate::words::Words::new(&into, &spans).list());
            assert_eq!(words, wanted, "{}", line.escape_ascii());
        }
    }
}
