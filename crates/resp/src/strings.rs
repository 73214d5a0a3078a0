//! Strings: values by keys, counters, and what depends on the value before in one step.

use crate::expiry::End;
use crate::refusal::{Done, Refusal, whole};
use crate::reply::{DECIMAL_LEN, decimal};
use crate::session::Session;
use crate::words::Words;
use hanare_dict::{Change, Found, Item, Key, Store, Times, kind, now_ms};

/// Longest value that `APPEND` and `SETRANGE` make, in bytes: as long as a word may be.
pub const VALUE_LEN: usize = 64 << 20;

/// Most bytes of a key in memory that a session keeps, and of that memory.
const KEPT_KEY_LEN: usize = 256;
const KEPT_LEN: usize = 4 << 10;

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

/// The same in memory that a session keeps, for commands that come often. A long key has its own, which goes with the command.
fn key_in<'c>(coded: &'c mut Vec<u8>, word: &[u8]) -> Key<'c> {
    if word.len() > KEPT_KEY_LEN {
        return key(word);
    }
    coded.clear();
    coded.push(b'b');
    coded.extend_from_slice(word);
    Key::from_coded(coded)
}

/// Some keys in such memory, one behind the other.
fn keys_in<'c, 'w>(coded: &'c mut Vec<u8>, words: impl Iterator<Item = &'w [u8]>) -> Vec<Key<'c>> {
    coded.clear();
    let mut ends = Vec::new();
    for word in words {
        coded.push(b'b');
        coded.extend_from_slice(word);
        ends.push(coded.len());
    }
    let begins = [0].into_iter().chain(ends.iter().copied());
    begins.zip(&ends).map(|(begin, end)| Key::from_coded(&coded[begin..*end])).collect()
}

/// A value that takes another's place: bytes, end, and the pin of before.
fn value<'v>(bytes: &'v [u8], expires: u64, found: Option<Found<'_>>) -> Change<'v> {
    let pinned = found.map_or(0, |found| found.times.pinned);
    Change::Set { kind: kind::PLAIN, bytes: bytes.into(), times: Times { expires, pinned } }
}

fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

pub fn get(session: &mut Session, words: Words<'_>) -> Done {
    let key = key_in(&mut session.coded, &words[1]);
    Ok(session.replies.value_of(&session.shared.store, &key)?)
}

/// Options of a `SET`.
struct Setting {
    when: When,
    end: Option<End>,
    keeps_end: bool,
    gets: bool,
}

impl Setting {
    fn read(options: Words<'_>) -> Result<Setting, Refusal> {
        let mut setting = Setting { when: When::Always, end: None, keeps_end: false, gets: false };
        let mut options = options.iter();
        while let Some(word) = options.next() {
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
                let number = options.next().ok_or_else(Refusal::syntax)?;
                setting.end = Some(End::read(word, number, "set")?);
            } else {
                return Err(Refusal::syntax());
            }
        }
        Ok(setting)
    }
}

pub fn set(session: &mut Session, words: Words<'_>) -> Done {
    let Setting { when, end, keeps_end, gets } = Setting::read(words.from(3))?;
    let expires = end.map_or(0, |end| end.at(now_ms()));
    let key = key_in(&mut session.coded, &words[1]);
    let (is_set, old) = session.shared.store.update(&key, gets, |found| {
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

pub fn setnx(session: &mut Session, words: Words<'_>) -> Done {
    let is_set = session.shared.store.update(&key(&words[1]), false, |found| match found {
        Some(_) => Ok((Change::Keep, false)),
        None => Ok((value(&words[2], 0, None), true)),
    })?;
    session.replies.number(is_set.into());
    Ok(())
}

fn set_until(session: &mut Session, words: Words<'_>, end: End) -> Done {
    let expires = end.at(now_ms());
    session.shared.store.update(&key(&words[1]), false, |found| Ok((value(&words[3], expires, found), ())))?;
    session.replies.ok();
    Ok(())
}

pub fn setex(session: &mut Session, words: Words<'_>) -> Done {
    set_until(session, words, End::read(b"ex", &words[2], "setex")?)
}

pub fn psetex(session: &mut Session, words: Words<'_>) -> Done {
    set_until(session, words, End::read(b"px", &words[2], "psetex")?)
}

pub fn mset(session: &mut Session, words: Words<'_>) -> Done {
    if words.len().is_multiple_of(2) {
        return Err(Refusal::word_count("mset"));
    }
    let keys = keys_in(&mut session.coded, words.from(1).iter().step_by(2));
    let done = set_all(&session.shared.store, &keys, words.from(2));
    session.coded.shrink_to(KEPT_LEN);
    done?;
    session.replies.ok();
    Ok(())
}

/// Sets keys to every other one of some words. On other hosts a batch spares messages; here each key has its turn.
fn set_all(store: &Store, keys: &[Key<'_>], values: Words<'_>) -> Done {
    if store.is_here() {
        return Ok(store.update_each(keys, false, |index, found| Ok(value(&values[2 * index], 0, found)))?);
    }
    let item = |(key, bytes)| Item { key, kind: kind::PLAIN, bytes };
    let items: Vec<Item<'_>> = keys.iter().zip(values.iter().step_by(2)).map(item).collect();
    let has_room = store.put_many(&items, None)?;
    if has_room.contains(&false) { Err(Refusal::no_room()) } else { Ok(()) }
}

pub fn mget(session: &mut Session, words: Words<'_>) -> Done {
    let (store, replies) = (&session.shared.store, &mut session.replies);
    let begin = replies.bytes.len();
    let mut next = session.answered.max(1);
    if session.answered == 0 {
        replies.list(words.len() - 1);
    }
    while next < words.len() && replies.bytes.len() < Session::LONG {
        match replies.value_of(store, &key_in(&mut session.coded, &words[next])) {
            Ok(()) => {}
            // A refusal takes the place of the list, as long as that was not sent.
            Err(error) if session.answered == 0 => {
                replies.bytes.truncate(begin);
                return Err(error.into());
            }
            Err(_) => replies.none(),
        }
        next += 1;
    }
    session.answered = if next < words.len() { next } else { 0 };
    Ok(())
}

pub fn getdel(session: &mut Session, words: Words<'_>) -> Done {
    let old = session
        .shared
        .store
        .update(&key(&words[1]), true, |found| Ok((Change::Remove, found.map(|found| found.bytes.to_vec()))))?;
    session.replies.value(old.as_deref());
    Ok(())
}

pub fn getset(session: &mut Session, words: Words<'_>) -> Done {
    let old = session
        .shared
        .store
        .update(&key(&words[1]), true, |found| Ok((value(&words[2], 0, found), found.map(|found| found.bytes.to_vec()))))?;
    session.replies.value(old.as_deref());
    Ok(())
}

pub fn getex(session: &mut Session, words: Words<'_>) -> Done {
    let expires = match words.from(2).list()[..] {
        [] => None,
        [option] if is(option, "persist") => Some(0),
        [option, number] => Some(End::read(option, number, "getex")?.at(now_ms())),
        _ => return Err(Refusal::syntax()),
    };
    let old = session.shared.store.update(&key(&words[1]), true, |found| {
        let times = found.zip(expires).map(|(found, expires)| Times { expires, ..found.times });
        Ok((times.map_or(Change::Keep, Change::Times), found.map(|found| found.bytes.to_vec())))
    })?;
    session.replies.value(old.as_deref());
    Ok(())
}

pub fn del(session: &mut Session, words: Words<'_>) -> Done {
    let mut count = 0;
    for word in words.from(1).iter() {
        count += i64::from(session.shared.store.remove(&key(word))?);
    }
    session.replies.number(count);
    Ok(())
}

pub fn exists(session: &mut Session, words: Words<'_>) -> Done {
    let keys: Vec<Key<'_>> = words.from(1).iter().map(key).collect();
    let there = session.shared.store.contains_many(&keys)?;
    session.replies.number(there.into_iter().filter(|there| *there).count() as i64);
    Ok(())
}

pub fn strlen(session: &mut Session, words: Words<'_>) -> Done {
    let len =
        session.shared.store.update(&key(&words[1]), false, |found| Ok((Change::Keep, found.map_or(0, |found| found.len))))?;
    session.replies.number(len as i64);
    Ok(())
}

pub fn kind(session: &mut Session, words: Words<'_>) -> Done {
    let there = session.shared.store.times(&key(&words[1]))?.is_some();
    session.replies.simple(if there { "string" } else { "none" });
    Ok(())
}

pub fn append(session: &mut Session, words: Words<'_>) -> Done {
    let more = &words[2];
    let len = session.shared.store.update(&key(&words[1]), true, |found| {
        let bytes = [found.map_or(&[][..], |found| found.bytes), more].concat();
        if bytes.len() > VALUE_LEN {
            return Ok((Change::Keep, None));
        }
        let (len, times) = (bytes.len(), found.map(|found| found.times).unwrap_or_default());
        Ok((Change::Set { kind: kind::PLAIN, bytes: bytes.into(), times }, Some(len)))
    })?;
    session.replies.number(len.ok_or_else(Refusal::too_long)? as i64);
    Ok(())
}

fn add(session: &mut Session, word: &[u8], more: i64) -> Done {
    let sum = session.shared.store.update(&key_in(&mut session.coded, word), true, |found| {
        let before = found.map_or(Ok(0), |found| whole(found.bytes));
        let overflow = || Refusal::new("ERR increment or decrement would overflow");
        let sum = before.and_then(|before| before.checked_add(more).ok_or_else(overflow));
        let times = found.map(|found| found.times).unwrap_or_default();
        let change = match &sum {
            Ok(sum) => {
                let bytes = decimal(*sum, &mut [0; DECIMAL_LEN]).to_vec().into();
                Change::Set { kind: kind::PLAIN, bytes, times }
            }
            Err(_) => Change::Keep,
        };
        Ok((change, sum))
    })?;
    session.replies.number(sum?);
    Ok(())
}

pub fn incr(session: &mut Session, words: Words<'_>) -> Done {
    add(session, &words[1], 1)
}

pub fn decr(session: &mut Session, words: Words<'_>) -> Done {
    add(session, &words[1], -1)
}

pub fn incrby(session: &mut Session, words: Words<'_>) -> Done {
    add(session, &words[1], whole(&words[2])?)
}

pub fn decrby(session: &mut Session, words: Words<'_>) -> Done {
    let less = whole(&words[2])?.checked_neg().ok_or_else(|| Refusal::new("ERR decrement would overflow"))?;
    add(session, &words[1], less)
}
