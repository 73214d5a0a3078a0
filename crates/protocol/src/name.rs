//! Names that regions, locks, groups, nodes and attributes may have.

use crate::error::{Error, Result};
use crate::id::{Gid, Slot};
use crate::limits::NAME_LEN_MAX;

/// Refuses names that cannot be a file's in a mounted pool, or that would garble a listing.
pub fn check_name(name: &str) -> Result<()> {
    let reason = match name {
        "" => "it is empty".to_owned(),
        "." | ".." => "it means a directory".to_owned(),
        _ if name.len() > NAME_LEN_MAX => format!("it has {} bytes, at most {NAME_LEN_MAX} are allowed", name.len()),
        _ if name.contains('/') => "'/' is not allowed".to_owned(),
        _ if name.chars().any(is_unprintable) => {
            "control characters, and those that change the direction of text, are not allowed".to_owned()
        }
        _ => return Ok(()),
    };
    // The name is shown with its strange characters written out, and not at any length.
    let shown =
        name.chars().take(NAME_LEN_MAX).flat_map(|c| if is_unprintable(c) { c.escape_unicode().collect() } else { vec![c] });
    Err(Error::BadName { name: shown.collect(), reason })
}

/// Name of a lock or a group at a byte of an extent. [`check_name`] refuses it, so no program can give it.
pub fn name_of_byte(gid: Gid, slot: Slot, offset: u64) -> String {
    format!("/{}/{}/{offset}", gid.0, slot.0)
}

/// The extent of a name by [`name_of_byte`]; `None` of all others.
pub fn extent_of_name(name: &str) -> Option<(Gid, Slot)> {
    let (gid, rest) = name.strip_prefix('/')?.split_once('/')?;
    let (slot, _) = rest.split_once('/')?;
    Some((Gid(gid.parse().ok()?), Slot(slot.parse().ok()?)))
}

/// True for a character that makes a listing show something else than its names. These are control characters, line and paragraph
/// separators, those of no width, and those that turn the direction of text.
fn is_unprintable(c: char) -> bool {
    let is_format = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_at_a_byte_has_a_name_that_no_program_can_give() {
        let name = name_of_byte(Gid(7), Slot(3), u64::MAX);
        assert_eq!(extent_of_name(&name), Some((Gid(7), Slot(3))));
        assert!(check_name(&name).is_err());
        for name in ["a", "7/3/1", "/7/3", "/a/3/1", "/7//1", ""] {
            assert_eq!(extent_of_name(name), None, "{name}");
        }
    }

    #[test]
    fn names_are_those_that_a_file_can_have() {
        let longest = "x".repeat(NAME_LEN_MAX);
        for name in ["a", "A matrix", "...", "é", longest.as_str()] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(NAME_LEN_MAX + 1);
        let hidden = ["a\u{202e}b", "\u{2066}a", "a\u{200b}", "a\u{2028}b", "\u{feff}a"];
        for name in ["", ".", "..", "a/b", "a\0", "a\nb", "\u{7f}", long.as_str()].into_iter().chain(hidden) {
            let error = check_name(name).unwrap_err();
            assert!(matches!(error, Error::BadName { .. }), "{name}");
            assert!(!error.to_string().chars().any(is_unprintable), "{error}");
        }
    }
}
