//! The commands: their names, the number of their words, and the functions that carry them out.

use crate::refusal::{Done, Refusal, subcommand};
use crate::session::Session;
use crate::words::Words;
use crate::{about, expiry, ranges, scan, strings};

/// A command.
pub struct Command {
    pub name: &'static str,
    /// Number of its words with its name, as Redis says it: that of all, or minus the least.
    pub words: i64,
    /// First key, last key and distance between keys, as Redis says them.
    pub keys: (i64, i64, i64),
    /// True if it is also for clients that did not prove who they are.
    is_for_all: bool,
    act: fn(&mut Session, Words<'_>) -> Done,
}

const fn of_key(name: &'static str, words: i64, act: fn(&mut Session, Words<'_>) -> Done) -> Command {
    Command { name, words, keys: (1, 1, 1), is_for_all: false, act }
}

const fn of_keys(name: &'static str, last: i64, step: i64, act: fn(&mut Session, Words<'_>) -> Done) -> Command {
    Command { name, words: if step == 1 { -2 } else { -3 }, keys: (1, last, step), is_for_all: false, act }
}

const fn of_none(name: &'static str, words: i64, act: fn(&mut Session, Words<'_>) -> Done) -> Command {
    Command { name, words, keys: (0, 0, 0), is_for_all: false, act }
}

const fn for_all(name: &'static str, words: i64, act: fn(&mut Session, Words<'_>) -> Done) -> Command {
    Command { is_for_all: true, ..of_none(name, words, act) }
}

/// All commands, by their names.
pub const COMMANDS: &[Command] = &[
    of_key("append", 3, strings::append),
    for_all("auth", -2, about::auth),
    of_none("client", -2, about::client),
    of_none("command", -1, command),
    of_none("dbsize", 1, scan::dbsize),
    of_key("decr", 2, strings::decr),
    of_key("decrby", 3, strings::decrby),
    of_keys("del", -1, 1, strings::del),
    of_none("echo", 2, about::echo),
    of_keys("exists", -1, 1, strings::exists),
    of_key("expire", -3, expiry::expire),
    of_key("expireat", -3, expiry::expireat),
    of_key("expiretime", 2, expiry::expiretime),
    of_none("flushall", -1, scan::flush),
    of_none("flushdb", -1, scan::flush),
    of_key("get", 2, strings::get),
    of_key("getdel", 2, strings::getdel),
    of_key("getex", -2, strings::getex),
    of_key("getrange", 4, ranges::getrange),
    of_key("getset", 3, strings::getset),
    for_all("hello", -1, about::hello),
    of_key("incr", 2, strings::incr),
    of_key("incrby", 3, strings::incrby),
    of_none("info", -1, about::info),
    of_keys("mget", -1, 1, strings::mget),
    of_keys("mset", -1, 2, strings::mset),
    of_key("persist", 2, expiry::persist),
    of_key("pexpire", -3, expiry::pexpire),
    of_key("pexpireat", -3, expiry::pexpireat),
    of_key("pexpiretime", 2, expiry::pexpiretime),
    of_none("ping", -1, about::ping),
    of_key("psetex", 4, strings::psetex),
    of_key("pttl", 2, expiry::pttl),
    for_all("quit", -1, about::quit),
    of_none("scan", -2, scan::scan),
    of_none("select", 2, about::select),
    of_key("set", -3, strings::set),
    of_key("setex", 4, strings::setex),
    of_key("setnx", 3, strings::setnx),
    of_key("setrange", 4, ranges::setrange),
    of_key("strlen", 2, strings::strlen),
    of_keys("touch", -1, 1, strings::exists),
    of_key("ttl", 2, expiry::ttl),
    of_key("type", 2, strings::kind),
    of_keys("unlink", -1, 1, strings::del),
];

/// Number of the commands that come before each letter.
const STARTS: [usize; 27] = {
    let (mut starts, mut at) = ([0; 27], 0);
    while at < COMMANDS.len() {
        let mut letter = (COMMANDS[at].name.as_bytes()[0] - b'a') as usize + 1;
        while letter < starts.len() {
            starts[letter] = at + 1;
            letter += 1;
        }
        at += 1;
    }
    starts
};

/// The command of a name, in letters of either case.
fn find(name: &[u8]) -> Option<&'static Command> {
    let letter = name.first()?.to_ascii_lowercase().checked_sub(b'a')? as usize;
    let some = COMMANDS.get(*STARTS.get(letter)?..*STARTS.get(letter + 1)?)?;
    some.iter().find(|command| command.name.len() == name.len() && command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Carries a command out, and writes its reply. Where that is long, [`Session::answered`] tells that more is to come.
pub fn carry_out(session: &mut Session, words: Words<'_>) {
    let Some(name) = words.get(0) else { return };
    let found = find(name);
    let done = match found {
        Some(command) if !session.is_known && !command.is_for_all => Err(Refusal::new("NOAUTH Authentication required.")),
        None if !session.is_known => Err(Refusal::new("NOAUTH Authentication required.")),
        Some(command) if !has_its_words(command.words, words.len()) => Err(Refusal::word_count(command.name)),
        Some(command) => (command.act)(session, words),
        None => Err(unknown(name, words.from(1))),
    };
    if let Err(Refusal(text)) = done {
        session.replies.error(&text);
    }
}

fn has_its_words(wanted: i64, count: usize) -> bool {
    let least = wanted.unsigned_abs() as usize;
    if wanted < 0 { count >= least } else { count == least }
}

/// The refusal of a command that is not here. It repeats at most 128 bytes of it, as Redis does.
fn unknown(name: &[u8], words: Words<'_>) -> Refusal {
    let short = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    let mut begin = String::new();
    for word in words.iter() {
        if begin.len() >= 128 {
            break;
        }
        begin += &format!("'{}' ", short(word));
    }
    Refusal(format!("ERR unknown command '{}', with args beginning with: {begin}", short(name)))
}

/// Lists the commands.
fn command(session: &mut Session, words: Words<'_>) -> Done {
    let replies = &mut session.replies;
    match words.get(1).map(|word| word.to_ascii_lowercase()).as_deref() {
        None => {
            replies.list(COMMANDS.len());
            for command in COMMANDS {
                let (first, last, step) = command.keys;
                replies.list(6);
                replies.bulk(command.name.as_bytes());
                replies.number(command.words);
                replies.list(0);
                [first, last, step].into_iter().for_each(|number| replies.number(number));
            }
        }
        Some(b"count") => replies.number(COMMANDS.len() as i64),
        Some(b"docs") => replies.map(0),
        Some(_) => return Err(subcommand("COMMAND", &words[1])),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        for command in COMMANDS {
            let found = find(command.name.to_ascii_uppercase().as_bytes());
            assert_eq!(found.map(|found| found.name), Some(command.name));
        }
        for other in [&b""[..], b"ge", b"gett", b"\0", b"@", b"{", b"zz", b"\xff", &[b'a'; 100]] {
            assert!(find(other).is_none(), "{}", other.escape_ascii());
        }
    }
}
