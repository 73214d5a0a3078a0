//! Commands about the connection and the service.

use crate::refusal::{Done, Refusal, subcommand, whole};
use crate::session::Session;
use crate::words::Words;
use std::sync::atomic::{AtomicU64, Ordering};

/// The release whose words these are.
const RELEASE: &str = "7.0.0";

/// Bytes of a connection's name.
const NAME_LEN: usize = 256;

pub fn ping(session: &mut Session, words: Words<'_>) -> Done {
    match (words.len(), words.get(1)) {
        (1, _) => session.replies.simple("PONG"),
        (2, Some(word)) => session.replies.bulk(word),
        _ => return Err(Refusal::new("ERR wrong number of arguments for 'ping' command")),
    }
    Ok(())
}

pub fn echo(session: &mut Session, words: Words<'_>) -> Done {
    session.replies.bulk(&words[1]);
    Ok(())
}

pub fn select(session: &mut Session, words: Words<'_>) -> Done {
    match whole(&words[1])? {
        0 => session.replies.ok(),
        _ => return Err(Refusal::new("ERR DB index is out of range")),
    }
    Ok(())
}

pub fn quit(session: &mut Session, _: Words<'_>) -> Done {
    session.is_over = true;
    session.replies.ok();
    Ok(())
}

/// Checks a proof. The name of the user is that of Redis' first user.
fn prove(session: &mut Session, user: &[u8], secret: &[u8]) -> Done {
    let Some(own) = &session.shared.secret else {
        return Err(Refusal::new(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        ));
    };
    if !own.is(secret) || user != b"default" {
        return Err(Refusal::new("WRONGPASS invalid username-password pair or user is disabled."));
    }
    session.is_known = true;
    Ok(())
}

pub fn auth(session: &mut Session, words: Words<'_>) -> Done {
    match words.list()[..] {
        [_, secret] => prove(session, b"default", secret)?,
        [_, user, secret] => prove(session, user, secret)?,
        _ => return Err(Refusal::syntax()),
    }
    session.replies.ok();
    Ok(())
}

pub fn hello(session: &mut Session, words: Words<'_>) -> Done {
    let version = match words.get(1) {
        None => None,
        Some(word) => match crate::request::number(word) {
            Some(version @ (2 | 3)) => Some(version == 3),
            Some(_) => return Err(Refusal::new("NOPROTO unsupported protocol version")),
            None => return Err(Refusal::new("ERR Protocol version is not an integer or out of range")),
        },
    };
    let mut name = None;
    let words = words.list();
    let mut rest = words.get(2..).unwrap_or_default();
    loop {
        rest = match rest {
            [] => break,
            [option, user, secret, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                prove(session, user, secret)?;
                rest
            }
            [option, word, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                name = Some(name_of(word)?);
                rest
            }
            [option, ..] => {
                let option = String::from_utf8_lossy(&option[..option.len().min(128)]).into_owned();
                return Err(Refusal(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        };
    }
    if !session.is_known {
        return Err(Refusal::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be \
             used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    session.name = name.unwrap_or_else(|| std::mem::take(&mut session.name));
    session.replies.is_third = version.unwrap_or(session.replies.is_third);
    let (id, proto) = (session.id, if session.replies.is_third { 3 } else { 2 });
    let replies = &mut session.replies;
    replies.map(7);
    for (key, word) in [("server", "redis"), ("version", RELEASE), ("mode", "standalone"), ("role", "master")] {
        replies.bulk(key.as_bytes());
        replies.bulk(word.as_bytes());
    }
    for (key, number) in [("proto", proto), ("id", id as i64)] {
        replies.bulk(key.as_bytes());
        replies.number(number);
    }
    replies.bulk(b"modules");
    replies.list(0);
    Ok(())
}

fn name_of(word: &[u8]) -> Result<Vec<u8>, Refusal> {
    match word.len() <= NAME_LEN && word.iter().all(u8::is_ascii_graphic) {
        true => Ok(word.to_vec()),
        false => Err(Refusal::new("ERR Client names cannot contain spaces, newlines or special characters.")),
    }
}

pub fn client(session: &mut Session, words: Words<'_>) -> Done {
    let is = |name: &str| words[1].eq_ignore_ascii_case(name.as_bytes());
    match words.len() {
        2 if is("id") => session.replies.number(session.id as i64),
        2 if is("getname") => match session.name.is_empty() {
            true => session.replies.none(),
            false => session.replies.bulk(&session.name),
        },
        2 if is("info") => {
            let line = format!("id={} name={} db=0\n", session.id, String::from_utf8_lossy(&session.name));
            session.replies.bulk(line.as_bytes());
        }
        3 if is("setname") => {
            session.name = name_of(&words[2])?;
            session.replies.ok();
        }
        // A library's name and release are of no use here.
        4 if is("setinfo") => {
            name_of(&words[3])?;
            session.replies.ok();
        }
        _ => return Err(subcommand("CLIENT", &words[1])),
    }
    Ok(())
}

pub fn info(session: &mut Session, _: Words<'_>) -> Done {
    let (shared, store) = (&session.shared, &session.shared.store);
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let text = format!(
        "# Server\r\nredis_version:{RELEASE}\r\nredis_mode:standalone\r\nhanare_version:{}\r\nprocess_id:{}\r\nuptime_in_seconds:{}\r\n\r\n\
         # Clients\r\nconnected_clients:{}\r\nmaxclients:{}\r\n\r\n\
         # Memory\r\nmaxmemory_policy:allkeys-{}\r\nhanare_store:{}\r\n\r\n\
         # Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\n\r\n\
         # Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        shared.begun.elapsed().as_secs(),
        shared.connected.load(Ordering::Relaxed),
        shared.most,
        store.evict().name(),
        store.name(),
        count(&shared.connections),
        count(&shared.commands),
    );
    session.replies.bulk(text.as_bytes());
    Ok(())
}
