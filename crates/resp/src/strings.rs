//! Strings: values by keys, counters, and what depends on the value before in one step.

use crate::expiry::End;
use crate::refusal::{Done, Refusal, whole};
use crate::session::Session;
use hanare_dict::{Change, Found, Key, Times, kind, now_ms};

/// Longest value that `APPEND` makes, in bytes: as long as a word may be.
const VALUE_LEN: usize = 64 << 20;

/// The condition of a `SET`.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Always,
    New,
    There,
}

fn key(word: &[u8]) -> Key<'static> {
    Key::bytes(word)
}

/// A value that takes another's place: bytes, end, and the pin of before.
fn value<'v>(bytes: &'v [u8], expires: u64, found: Option<Found<'_>>) -> Change<'v> {
    let pinned = found.map_or(0, |found| found.times.pinned);
    Change::Set { kind: kind::PLAIN, bytes: bytes.into(), times: Times { expires, pinned } }
}

fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

pub fn get(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let found = session.store.get(&key(&words[1]))?;
    session.replies.value(found.as_ref().map(|(_, bytes)| bytes.as_slice()));
    Ok(())
}

/// Options of a `SET`.
struct Setting {
    when: When,
    end: Option<End>,
    keeps_end: bool,
    gets: bool,
}

impl Setting {
    fn read(mut words: &[Vec<u8>]) -> Result<Setting, Refusal> {
        let mut setting = Setting { when: When::Always, end: None, keeps_end: false, gets: false };
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            let has_no_end = setting.end.is_none() && !setting.keeps_end;
            if is(word, "nx") && setting.when == When::Always {
                setting.when = When::New;
            } else if is(word, "xx") && setting.when == When::Always {
                setting.when = When::There;
            } else if is(word, "get") {
                setting.gets = true;
            } else if is(word, "keepttl") && has_no_end {
                setting.keeps_end = true;
            } else if has_no_end {
                let (number, rest) = words.split_first().ok_or_else(Refusal::syntax)?;
                setting.end = Some(End::read(word, number, "set")?);
                words = rest;
            } else {
                return Err(Refusal::syntax());
            }
        }
        Ok(setting)
    }
}

pub fn set(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let Setting { when, end, keeps_end, gets } = Setting::read(&words[3..])?;
    let expires = end.map_or(0, |end| end.at(now_ms()));
    let (is_set, old) = session.store.update(&key(&words[1]), gets, |found| {
        let old = found.filter(|_| gets).map(|found| found.bytes.to_vec());
        let may = match when {
            When::Always => true,
            When::New => found.is_none(),
            When::There => found.is_some(),
        };
        let expires = if keeps_end { found.map_or(0, |found| found.times.expires) } else { expires };
        let change = if may { value(&words[2], expires, found) } else { Change::Keep };
        Ok((change, (may, old)))
    })?;
    match (gets, is_set) {
        (true, _) => session.replies.value(old.as_deref()),
        (false, true) => session.replies.ok(),
        (false, false) => session.replies.none(),
    }
    Ok(())
}

pub fn setnx(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let is_set = session.store.update(&key(&words[1]), false, |found| match found {
        Some(_) => Ok((Change::Keep, false)),
        None => Ok((value(&words[2], 0, None), true)),
    })?;
    session.replies.number(is_set.into());
    Ok(())
}

fn set_until(session: &mut Session<'_>, words: &[Vec<u8>], end: End) -> Done {
    let expires = end.at(now_ms());
    session.store.update(&key(&words[1]), false, |found| Ok((value(&words[3], expires, found), ())))?;
    session.replies.ok();
    Ok(())
}

pub fn setex(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    set_until(session, words, End::read(b"ex", &words[2], "setex")?)
}

pub fn psetex(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    set_until(session, words, End::read(b"px", &words[2], "psetex")?)
}

pub fn mset(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let (pairs, rest) = words[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Refusal::new("ERR wrong number of arguments for 'mset' command"));
    }
    for [name, bytes] in pairs {
        session.store.update(&key(name), false, |found| Ok((value(bytes, 0, found), ())))?;
    }
    session.replies.ok();
    Ok(())
}

pub fn mget(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    // A refusal takes the place of the list: values are read before any is sent, as far as they are short together.
    let mut found = Vec::new();
    let (mut len, mut said) = (0, false);
    for (index, word) in words[1..].iter().enumerate() {
        let value = session.store.get(&key(word));
        if said {
            // The list was begun: an element that cannot be read is one without a value.
            session.replies.value(value.ok().flatten().as_ref().map(|(_, bytes)| bytes.as_slice()));
            session.flush_some();
            continue;
        }
        let value = value?.map(|(_, bytes)| bytes);
        len += value.as_ref().map_or(0, Vec::len);
        found.push(value);
        if len >= Session::LONG || index + 2 == words.len() {
            session.replies.list(words.len() - 1);
            found.drain(..).for_each(|value| session.replies.value(value.as_deref()));
            session.flush_some();
            said = true;
        }
    }
    Ok(())
}

pub fn getdel(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let old =
        session.store.update(&key(&words[1]), true, |found| Ok((Change::Remove, found.map(|found| found.bytes.to_vec()))))?;
    session.replies.value(old.as_deref());
    Ok(())
}

pub fn getex(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let expires = match &words[2..] {
        [] => None,
        [option] if is(option, "persist") => Some(0),
        [option, number] => Some(End::read(option, number, "getex")?.at(now_ms())),
        _ => return Err(Refusal::syntax()),
    };
    let old = session.store.update(&key(&words[1]), true, |found| {
        let times = found.zip(expires).map(|(found, expires)| Times { expires, ..found.times });
        Ok((times.map_or(Change::Keep, Change::Times), found.map(|found| found.bytes.to_vec())))
    })?;
    session.replies.value(old.as_deref());
    Ok(())
}

pub fn del(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let mut count = 0;
    for word in &words[1..] {
        count += i64::from(session.store.remove(&key(word))?);
    }
    session.replies.number(count);
    Ok(())
}

pub fn exists(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let keys: Vec<Key<'_>> = words[1..].iter().map(|word| key(word)).collect();
    let there = session.store.contains_many(&keys)?;
    session.replies.number(there.into_iter().filter(|there| *there).count() as i64);
    Ok(())
}

pub fn strlen(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let len = session.store.update(&key(&words[1]), false, |found| Ok((Change::Keep, found.map_or(0, |found| found.len))))?;
    session.replies.number(len as i64);
    Ok(())
}

pub fn kind(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let there = session.store.times(&key(&words[1]))?.is_some();
    session.replies.simple(if there { "string" } else { "none" });
    Ok(())
}

pub fn append(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let more = &words[2];
    let len = session.store.update(&key(&words[1]), true, |found| {
        let bytes = [found.map_or(&[][..], |found| found.bytes), more].concat();
        if bytes.len() > VALUE_LEN {
            return Ok((Change::Keep, None));
        }
        let (len, times) = (bytes.len(), found.map(|found| found.times).unwrap_or_default());
        Ok((Change::Set { kind: kind::PLAIN, bytes: bytes.into(), times }, Some(len)))
    })?;
    let too_long = || Refusal::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    session.replies.number(len.ok_or_else(too_long)? as i64);
    Ok(())
}

fn add(session: &mut Session<'_>, word: &[u8], more: i64) -> Done {
    let sum = session.store.update(&key(word), true, |found| {
        let before = found.map_or(Ok(0), |found| whole(found.bytes));
        let overflow = || Refusal::new("ERR increment or decrement would overflow");
        let sum = before.and_then(|before| before.checked_add(more).ok_or_else(overflow));
        let times = found.map(|found| found.times).unwrap_or_default();
        let change = match &sum {
            Ok(sum) => Change::Set { kind: kind::PLAIN, bytes: sum.to_string().into_bytes().into(), times },
            Err(_) => Change::Keep,
        };
        Ok((change, sum))
    })?;
    session.replies.number(sum?);
    Ok(())
}

pub fn incr(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    add(session, &words[1], 1)
}

pub fn decr(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    add(session, &words[1], -1)
}

pub fn incrby(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    add(session, &words[1], whole(&words[2])?)
}

pub fn decrby(session: &mut Session<'_>, words: &[Vec<u8>]) -> Done {
    let less = whole(&words[2])?.checked_neg().ok_or_else(|| Refusal::new("ERR decrement would overflow"))?;
    add(session, &words[1], less)
}
