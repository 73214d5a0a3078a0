//! Refusals of commands, in Redis' words.

use crate::request::number;
use hanare::Error;

/// Why a command was refused, in Redis' words.
#[derive(Debug)]
pub struct Refusal(pub String);

impl Refusal {
    pub fn new(text: &str) -> Refusal {
        Refusal(text.to_owned())
    }

    pub fn syntax() -> Refusal {
        Refusal::new("ERR syntax error")
    }

    pub fn no_number() -> Refusal {
        Refusal::new("ERR value is not an integer or out of range")
    }

    pub fn expire_time(command: &str) -> Refusal {
        Refusal(format!("ERR invalid expire time in '{command}' command"))
    }

    pub fn too_long() -> Refusal {
        Refusal::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    }

    pub fn no_room() -> Refusal {
        Refusal::new("OOM command not allowed when used memory > 'maxmemory'.")
    }

    pub fn word_count(command: &str) -> Refusal {
        Refusal(format!("ERR wrong number of arguments for '{command}' command"))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error {
            Error::HeapFull { .. } => Refusal::no_room(),
            Error::LimitReached { .. } => Refusal::too_long(),
            other => Refusal(format!("ERR {other}")),
        }
    }
}

/// The end of a command: its reply is written, or it was refused.
pub type Done = Result<(), Refusal>;

/// A whole number. **Errors**: in Redis' words.
pub fn whole(word: &[u8]) -> Result<i64, Refusal> {
    number(word).ok_or_else(Refusal::no_number)
}

/// The refusal of a command's second word.
pub fn subcommand(command: &str, word: &[u8]) -> Refusal {
    let word = String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    Refusal(format!("ERR unknown subcommand '{word}'. Try {command} HELP."))
}
