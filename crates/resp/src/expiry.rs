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

/// The conditions of a command that sets an end.
#[derive(Clone, Copy, Default)]
struct Conditions {
    is_without: bool,
    has_one: bool,
    is_later: bool,
    is_earlier: bool,
}

impl Conditions {
    /// Reads the words behind an end. **Errors**: others than conditions, and those that exclude each other.
    fn read(words: Words<'_>) -> Result<Conditions, Refusal> {
        let mut all = Conditions::default();
        for word in words.iter() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match () {
                () if is("nx") => all.is_without = true,
                () if is("xx") => all.has_one = true,
                () if is("gt") => all.is_later = true,
                () if is("lt") => all.is_earlier = true,
                () => {
                    let word = String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
                    return Err(Refusal(format!("ERR Unsupported option {word}")));
                }
            }
        }
        match all {
            Conditions { is_without: true, has_one, is_later, is_earlier } if has_one || is_later || is_earlier => {
                Err(Refusal::new("ERR NX and XX, GT or LT options at the same time are not compatible"))
            }
            Conditions { is_later: true, is_earlier: true, .. } => {
                Err(Refusal::new("ERR GT and LT options at the same time are not compatible"))
            }
            all => Ok(all),
        }
    }

    /// True if a key with that end may get another. No end is later than any.
    fn hold(self, old: u64, new: u64) -> bool {
        let has_end = old != 0;
        !(self.is_without && has_end
            || self.has_one && !has_end
            || self.is_later && (!has_end || new <= old)
            || self.is_earlier && has_end && new >= old)
    }
}

/// The moment from which a client counts an end.
#[derive(Clone, Copy)]
enum From {
    Now,
    Epoch,
}

fn set_end(session: &mut Session, words: Words<'_>, unit: i64, from: From, command: &str) -> Done {
    let conditions = Conditions::read(words.from(3))?;
    let now = now_ms();
    let ms = whole(&words[2])?.checked_mul(unit);
    let end = match from {
        From::Now => ms.and_then(|ms| ms.checked_add(i64::try_from(now).ok()?)),
        From::Epoch => ms,
    };
    let end = end.ok_or_else(|| Refusal::expire_time(command))?;
    let expires = u64::try_from(end).unwrap_or(0).max(1);
    let done = session.shared.store.update(&Key::bytes(&words[1]), false, |found| {
        let Some(found) = found else { return Ok((Change::Keep, false)) };
        match conditions.hold(found.times.expires, expires) {
            // An end that has passed removes the key.
            true if expires <= now => Ok((Change::Remove, true)),
            true => Ok((Change::Times(Times { expires, ..found.times }), true)),
            false => Ok((Change::Keep, false)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Conditions, String> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        crate::line::split(text, &mut bytes, &mut spans).unwrap();
        Conditions::read(Words::new(&bytes, &spans)).map_err(|Refusal(text)| text)
    }

    #[test]
    fn conditions_are_those_of_redis() {
        for (text, on_none, on_earlier, on_later) in [
            (&b""[..], true, true, true),
            (b"nx", true, false, false),
            (b"XX", false, true, true),
            (b"GT", false, true, false),
            (b"lt", true, false, true),
            (b"LT XX", false, false, true),
            (b"XX GT GT", false, true, false),
        ] {
            let all = read(text).unwrap();
            let got = (all.hold(0, 100), all.hold(50, 100), all.hold(200, 100));
            assert_eq!(got, (on_none, on_earlier, on_later), "{}", text.escape_ascii());
            assert!(!all.is_later && !all.is_earlier || !all.hold(100, 100));
        }
        for (text, wanted) in [
            (&b"AB"[..], "ERR Unsupported option AB"),
            (b"XX AB", "ERR Unsupported option AB"),
            (b"LT GT", "ERR GT and LT options at the same time are not compatible"),
            (b"GT NX", "ERR NX and XX, GT or LT options at the same time are not compatible"),
        ] {
            assert_eq!(read(text).err().as_deref(), Some(wanted));
        }
    }
}
