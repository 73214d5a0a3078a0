//! Keys, some at a time.

use crate::refusal::{Done, Refusal, whole};
use crate::request::number;
use crate::session::Session;
use crate::words::Words;

/// Most keys that a client may ask for at once, and bytes of a pattern.
const COUNT: i64 = 10_000;
const PATTERN_LEN: usize = 1024;

/// Redis' keys among the store's: those of bytes.
fn names(keys: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    keys.iter().filter_map(|coded| coded.strip_prefix(b"b"))
}

pub fn scan(session: &mut Session, words: Words<'_>) -> Done {
    let cursor = number(&words[1]).and_then(|cursor| u64::try_from(cursor).ok());
    let cursor = cursor.ok_or_else(|| Refusal::new("ERR invalid cursor"))?;
    let (mut pattern, mut count, mut is_of_strings) = (None, 10, true);
    let words = words.list();
    let (options, rest) = words[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Refusal::syntax());
    }
    for [option, word] in options {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        if is("match") && word.len() <= PATTERN_LEN {
            pattern = Some(*word);
        } else if is("count") {
            count = whole(word)?;
        } else if is("type") {
            is_of_strings = word.eq_ignore_ascii_case(b"string");
        } else {
            return Err(Refusal::syntax());
        }
    }
    if count < 1 {
        return Err(Refusal::syntax());
    }
    let (next, keys) = session.shared.store.scan(cursor, count.min(COUNT) as usize)?;
    let is_wanted = |name: &&[u8]| is_of_strings && pattern.is_none_or(|pattern| is_match(pattern, name));
    let names: Vec<&[u8]> = names(&keys).filter(is_wanted).collect();
    session.replies.list(2);
    session.replies.bulk(next.to_string().as_bytes());
    session.replies.list(names.len());
    names.into_iter().for_each(|name| session.replies.bulk(name));
    Ok(())
}

pub fn dbsize(session: &mut Session, _: Words<'_>) -> Done {
    let (mut at, mut count) = (0, 0);
    loop {
        let (next, keys) = session.shared.store.scan(at, COUNT as usize)?;
        count += names(&keys).count();
        if next == 0 {
            break;
        }
        at = next;
    }
    session.replies.number(count as i64);
    Ok(())
}

/// Removes all keys of the store, those of other programs and kinds among them.
pub fn flush(session: &mut Session, words: Words<'_>) -> Done {
    match words.get(1) {
        None => {}
        Some(word) if words.len() == 2 && (word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async")) => {}
        Some(_) => return Err(Refusal::syntax()),
    }
    session.shared.store.clear()?;
    session.replies.ok();
    Ok(())
}

/// True if a name matches a pattern of `*`, `?`, `[a-z]`, `[^a]` and `\`. **Cost**: the product of both lengths at most.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (pattern, name);
    // The rest of the pattern behind the last star, and of the name where the star ends.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match (at, from) {
            ([b'*', rest @ ..], _) => {
                star = Some((rest, from));
                at = rest;
                continue;
            }
            ([], []) => return true,
            ([_, ..], [byte, after @ ..]) => {
                if let Some(rest) = match_one(at, *byte) {
                    (at, from) = (rest, after);
                    continue;
                }
            }
            _ => {}
        }
        let Some((rest, [_, after @ ..])) = star else { return false };
        star = Some((rest, after));
        (at, from) = (rest, after);
    }
}

/// The rest of a pattern behind what stands for one byte, if it stands for this byte.
fn match_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'\\', letter, rest @ ..] => (*letter == byte).then_some(rest),
        [b'[', set @ ..] => {
            let (is_without, mut set) = set.strip_prefix(b"^").map_or((false, set), |set| (true, set));
            let mut is_in = false;
            loop {
                set = match set {
                    [b']', rest @ ..] => return (is_in != is_without).then_some(rest),
                    [b'\\', letter, rest @ ..] => {
                        is_in |= *letter == byte;
                        rest
                    }
                    [low, b'-', high, rest @ ..] if *high != b']' => {
                        is_in |= (*low.min(high)..=*low.max(high)).contains(&byte);
                        rest
                    }
                    [letter, rest @ ..] => {
                        is_in |= *letter == byte;
                        rest
                    }
                    // A set without an end ends with the pattern.
                    [] => return (is_in != is_without).then_some(set),
                };
            }
        }
        [letter, rest @ ..] => (*letter == byte).then_some(rest),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns_as_in_redis() {
        for (pattern, name, wanted) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbcd", false),
            ("a?c", "abc", true),
            ("h[ae]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("*a*b*c", "xxaxbxxbc", true),
            ("[abc", "b", true),
            ("", "a", false),
            ("a[]", "a]", false),
        ] {
            assert_eq!(is_match(pattern.as_bytes(), name.as_bytes()), wanted, "{pattern} {name}");
        }
        // A pattern of many stars ends soon.
        assert!(!is_match("*a".repeat(500).as_bytes(), &[b'a'; 400]));
    }
}
