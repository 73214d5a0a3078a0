//! Keys as bytes, so that equal keys are equal bytes in every program and language.
//!
//! ```text
//! s utf-8, with lone surrogates | b bytes | i digits of a whole number | f eight bytes of another number | n None
//! t length u32, key, length u32, key ...
//! ```

use hanare::Error;
use std::borrow::Cow;

/// Deepest nesting of tuples.
const DEPTH: usize = 200;

/// A key: a text, bytes, or a number; of Python's also other numbers, `None`, and tuples of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'k>(Cow<'k, [u8]>);

impl<'k> Key<'k> {
    /// A text: Python's `str`.
    pub fn text(text: &str) -> Key<'static> {
        Key::made(b's', text.as_bytes())
    }

    /// Bytes: Python's `bytes`.
    pub fn bytes(bytes: &[u8]) -> Key<'static> {
        Key::made(b'b', bytes)
    }

    /// A whole number: Python's `int`.
    pub fn number(number: i64) -> Key<'static> {
        Key::made(b'i', number.to_string().as_bytes())
    }

    /// A key as its letter and the bytes behind it. **Errors**: [`Error::BadSetting`] for bytes that no key of that letter has.
    pub fn of(letter: u8, rest: &[u8]) -> Result<Key<'static>, Error> {
        let key = Key::made(letter, rest);
        if is_key(&key.0, 0) {
            return Ok(key);
        }
        let value = format!("'{}' and {} bytes", letter.escape_ascii(), rest.len());
        let reason = "give 's' and UTF-8, 'b' and any bytes, 'i' and decimal digits, or a key that the dictionary has".to_owned();
        Err(Error::BadSetting { key: "key".to_owned(), value, reason })
    }

    /// A key as the dictionary has it ([`Key::coded`]); not checked.
    pub fn from_coded(coded: &'k [u8]) -> Key<'k> {
        Key(Cow::Borrowed(coded))
    }

    /// The same, with bytes of its own.
    pub fn of_coded(coded: Vec<u8>) -> Key<'static> {
        Key(Cow::Owned(coded))
    }

    /// The key with bytes of its own.
    pub(crate) fn to_owned_key(&self) -> Key<'static> {
        Key(Cow::Owned(self.0.clone().into_owned()))
    }

    fn made(letter: u8, rest: &[u8]) -> Key<'static> {
        let mut coded = Vec::with_capacity(1 + rest.len());
        coded.push(letter);
        coded.extend_from_slice(rest);
        Key(Cow::Owned(coded))
    }

    /// Its bytes in the dictionary: the letter, and the bytes behind it.
    pub fn coded(&self) -> &[u8] {
        &self.0
    }
}

fn is_key(coded: &[u8], depth: usize) -> bool {
    let Some((letter, rest)) = coded.split_first() else { return false };
    match letter {
        b's' => is_text(rest),
        b'b' => true,
        b'i' => {
            let digits = rest.strip_prefix(b"-").unwrap_or(rest);
            let is_whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            // Each number is written in one way.
            is_whole && (digits[0] != b'0' || rest == b"0")
        }
        b'f' => rest.len() == 8,
        b'n' => rest.is_empty(),
        b't' if depth < DEPTH => are_parts(rest, depth + 1),
        _ => false,
    }
}

fn are_parts(mut rest: &[u8], depth: usize) -> bool {
    while let Some((len, from)) = rest.split_first_chunk::<4>() {
        let Some((part, after)) = from.split_at_checked(u32::from_le_bytes(*len) as usize) else { return false };
        if !is_key(part, depth) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// True for UTF-8, and for halves of characters, which a text of Python may hold.
fn is_text(mut bytes: &[u8]) -> bool {
    while let Err(odd) = std::str::from_utf8(bytes) {
        match bytes[odd.valid_up_to()..] {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ref rest @ ..] => bytes = rest,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_other_languages_could_not_read_are_refused() {
        for (letter, rest) in [
            (b's', &b"caf\xc3\xa9"[..]),
            (b's', b"a\xed\xa0\x80b"),
            (b'b', b"\xff\0"),
            (b'i', b"-12"),
            (b'i', b"0"),
            (b'f', &[0; 8]),
            (b'n', b""),
            (b't', b"\x02\0\0\0sa\x02\0\0\0i1"),
        ] {
            assert_eq!(Key::of(letter, rest).unwrap().coded(), [&[letter], rest].concat());
        }
        for (letter, rest) in [
            (b's', &b"\xff"[..]),
            (b's', b"\xed\xa0"),
            (b'i', b""),
            (b'i', b"01"),
            (b'i', b"-0"),
            (b'i', b"+1"),
            (b'f', b"1"),
            (b'n', b"1"),
            (b't', b"\x03\0\0\0sa"),
            (b'q', b""),
            (0, b"a"),
        ] {
            assert!(matches!(Key::of(letter, rest), Err(Error::BadSetting { .. })), "{letter} {rest:?}");
        }
        let mut deep = b"t".to_vec();
        for _ in 0..DEPTH {
            deep = [b"t", &(deep.len() as u32).to_le_bytes()[..], &deep].concat();
        }
        assert!(Key::of(b't', &deep[1..]).is_err());
        assert_eq!(Key::number(-12).coded(), b"i-12");
    }
}
