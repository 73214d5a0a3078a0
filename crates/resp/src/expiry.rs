//! Ends of keys.

use crate::refusal::{Done, Refusal, whole};
use crate::session::Session;
use crate::words::Words;
use hanare_dict::{Change, Key, Times, now_ms};

/// An end as a client says it, in milliseconds: from now on, or since 1970.
#[derive(Clone, Copy)]
pub enum End {
    In(u64),
    At(u64),
}

impl End {
    /// Reads `EX`, `PX`, `EXAT` or `PXAT` and its number. **Errors**: no such word, or a number that is no time.
    pub fn read(option: &[u8], number: &[u8], command: &str) -> Result<End, Refusal> {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        let (unit, make): (i64, fn(u64) -> End) = match () {
            () if is("ex") => (1000, End::In),
            () if is("px") => (1, End::In),
            () if is("exat") => (1000, End::At),
            () if is("pxat") => (1, End::At),
            () => return Err(Refusal::syntax()),
        };
        let ms = whole(number)?.checked_mul(unit).filter(|ms| *ms > 0 && *ms < i64::MAX / 2);
        Ok(make(ms.ok_or_else(|| Refusal::expire_time(command))? as u64))
    }

    /// The moment, in milliseconds since 1970.
    pub fn at(self, now: u64) -> u64 {
        match self {
            End::In(ms) => now.saturating_add(ms),
            End::At(ms) => ms,
        }
    }
}

/// True if a key with that end may get another, by the condition of the command. No end is later than any.
fn may(condition: Option<&[u8]>, old: u64, new: u64) -> Result<bool, Refusal> {
    let Some(condition) = condition else { return Ok(true) };
    let is = |name: &str| condition.eq_ignore_ascii_case(name.as_bytes());
    match () {
        () if is("nx") => Ok(old == 0),
        () if is("xx") => Ok(old != 0),
        () if is("gt") => Ok(old != 0 && new > old),
        () if is("lt") => Ok(old == 0 || new < old),
        () => Err(Refusal(format!("ERR Unsupported option {}", String::from_utf8_lossy(&condition[..condition.len().min(128)])))),
    }
}

/// The moment from which a client counts an end.
#[derive(Clone, Copy)]
enum From {
    Now,
    Epoch,
}

fn set_end(session: &mut Session, words: Words<'_>, unit: i64, from: From, command: &str) -> Done {
    let ms = whole(&words[2])?.checked_mul(unit).filter(|ms| ms.unsigned_abs() < u64::MAX / 4);
    let ms = ms.ok_or_else(|| Refusal::expire_time(command))?;
    if words.len() > 4 {
        return Err(Refusal::syntax());
    }
    let condition = words.get(3);
    let now = now_ms();
    let expires = match from {
        From::Now => now.saturating_add_signed(ms),
        From::Epoch => u64::try_from(ms).unwrap_or(0),
    };
    let expires = expires.max(1);
    may(condition, 0, 0)?;
    let done = session.shared.store.update(&Key::bytes(&words[1]), false, |found| {
        let Some(found) = found else { return Ok((Change::Keep, false)) };
        match may(condition, found.times.expires, expires) {
            // An end that has passed removes the key.
            Ok(true) if expires <= now => Ok((Change::Remove, true)),
            Ok(true) => Ok((Change::Times(Times { expires, ..found.times }), true)),
            _ => Ok((Change::Keep, false)),
        }
    })?;
    session.replies.number(done.into());
    Ok(())
}

pub fn expire(session: &mut Session, words: Words<'_>) -> Done {
    set_end(session, words, 1000, From::Now, "expire")
}

pub fn expireat(session: &mut Session, words: Words<'_>) -> Done {
    set_end(session, words, 1000, From::Epoch, "expireat")
}

pub fn pexpireat(session: &mut Session, words: Words<'_>) -> Done {
    set_end(session, words, 1, From::Epoch, "pexpireat")
}

pub fn pexpire(session: &mut Session, words: Words<'_>) -> Done {
    set_end(session, words, 1, From::Now, "pexpire")
}

/// A key's end, in milliseconds since 1970; -1 where it has none, -2 where the key is not there.
fn end_of(session: &Session, word: &[u8]) -> Result<i64, Refusal> {
    Ok(match session.shared.store.times(&Key::bytes(word))? {
        None => -2,
        Some(Times { expires: 0, .. }) => -1,
        Some(Times { expires, .. }) => i64::try_from(expires).unwrap_or(i64::MAX),
    })
}

/// Milliseconds until a key ends; -1 where it has no end, -2 where it is not there.
fn left(session: &Session, word: &[u8]) -> Result<i64, Refusal> {
    let (now, end) = (i64::try_from(now_ms()).unwrap_or(i64::MAX), end_of(session, word)?);
    Ok(if end < 0 { end } else { end.saturating_sub(now).max(0) })
}

pub fn pexpiretime(session: &mut Session, words: Words<'_>) -> Done {
    let end = end_of(session, &words[1])?;
    session.replies.number(end);
    Ok(())
}

pub fn expiretime(session: &mut Session, words: Words<'_>) -> Done {
    let end = end_of(session, &words[1])?;
    session.replies.number(if end < 0 { end } else { end.saturating_add(500) / 1000 });
    Ok(())
}

pub fn pttl(session: &mut Session, words: Words<'_>) -> Done {
    let left = left(session, &words[1])?;
    session.replies.number(left);
    Ok(())
}

pub fn ttl(session: &mut Session, words: Words<'_>) -> Done {
    let left = left(session, &words[1])?;
    session.replies.number(if left < 0 { left } else { left.saturating_add(500) / 1000 });
    Ok(())
}

pub fn persist(session: &mut Session, words: Words<'_>) -> Done {
    let done = session.shared.store.update(&Key::bytes(&words[1]), false, |found| {
        let timed = found.filter(|found| found.times.expires != 0);
        Ok((timed.map_or(Change::Keep, |found| Change::Times(Times { expires: 0, ..found.times })), timed.is_some()))
    })?;
    session.replies.number(done.into());
    Ok(())
}
