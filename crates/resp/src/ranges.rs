//! Parts of strings.

use crate::refusal::{Done, Refusal, whole};
use crate::session::Session;
use crate::strings::VALUE_LEN;
use crate::words::Words;
use hanare_dict::{Change, Key, kind};
use std::ops::Range;

/// Bytes of a value of `len` bytes from one to another, both of them counted in. Numbers below zero count from the end.
fn part(len: usize, first: i64, last: i64) -> Range<usize> {
    let len = len as i64;
    if first < 0 && last < 0 && first > last {
        return 0..0;
    }
    let from_begin = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (first, end) = (from_begin(first), from_begin(last).saturating_add(1).min(len));
    if first < end { first as usize..end as usize } else { 0..0 }
}

pub fn getrange(session: &mut Session, words: Words<'_>) -> Done {
    let (first, last) = (whole(&words[2])?, whole(&words[3])?);
    let found = session.shared.store.get(&Key::bytes(&words[1]))?;
    let bytes = found.map(|(_, bytes)| bytes).unwrap_or_default();
    session.replies.bulk(&bytes[part(bytes.len(), first, last)]);
    Ok(())
}

pub fn setrange(session: &mut Session, words: Words<'_>) -> Done {
    let offset = usize::try_from(whole(&words[2])?).map_err(|_| Refusal::new("ERR offset is out of range"))?;
    let more = &words[3];
    let len = session.shared.store.update(&Key::bytes(&words[1]), true, |found| {
        let old = found.map_or(&[][..], |found| found.bytes);
        // No bytes make no key.
        if more.is_empty() {
            return Ok((Change::Keep, Some(old.len())));
        }
        let Some(end) = offset.checked_add(more.len()).filter(|end| *end <= VALUE_LEN) else { return Ok((Change::Keep, None)) };
        let mut bytes = old.to_vec();
        bytes.resize(bytes.len().max(end), 0);
        bytes[offset..end].copy_from_slice(more);
        let (len, times) = (bytes.len(), found.map(|found| found.times).unwrap_or_default());
        Ok((Change::Set { kind: kind::PLAIN, bytes: bytes.into(), times }, Some(len)))
    })?;
    session.replies.number(len.ok_or_else(Refusal::too_long)? as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_that_of_redis() {
        for (first, last, wanted) in [
            (0, 3, "This"),
            (0, -1, "This is a string"),
            (-3, -1, "ing"),
            (10, 100, "string"),
            (5, 3, ""),
            (-1, -3, ""),
            (-100, 2, "Thi"),
            (-100, -99, "T"),
            (16, 20, ""),
            (i64::MIN, i64::MAX, "This is a string"),
            (i64::MAX, i64::MAX, ""),
        ] {
            let text = "This is a string";
            assert_eq!(&text[part(text.len(), first, last)], wanted, "{first} {last}");
        }
        assert_eq!(part(0, 0, -1), 0..0);
    }
}
