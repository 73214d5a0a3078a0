//! Tenants: users of the pool whom no system knows. A program proves a tenant's key to its node, and is that tenant's from there on.
//!
//! A tenant has a user's number from a range that no real user may have. So all that the pool decides by user holds for tenants, too: rights,
//! quotas, fairness, proofs to other nodes. Beside that each tenant has a *space* of names. Names of its regions stand behind its own name,
//! `team/name`. Names of its locks and groups stand behind its number, because homes of locks do not know tenants' names.
//!
//! | user | names it may say | stands in the pool as |
//! |---|---|---|
//! | a tenant | `name` | `team/name` of regions, `/NUMBER/name` of locks and groups |
//! | root | `name`, and `team/name` of a region that is there | itself |
//! | others | `name` | itself |

use crate::error::{Error, Result};
use crate::id::User;
pub use crate::id::{TENANT_NUMBERS, is_tenant, who};
use crate::limits::{NAME_LEN_MAX, TENANT_NAME_LEN_MAX};
use crate::name::check_name;
use serde::{Deserialize, Serialize};
use std::fmt;
use subtle::ConstantTimeEq;

/// The space of names of a user: a tenant's own, or the one of all others.
pub fn space(uid: u32) -> Option<u32> {
    Some(uid).filter(|uid| is_tenant(*uid))
}

/// A tenant as a user.
pub fn user(number: u32) -> User {
    User { uid: number, gid: number }
}

/// Refuses names that would garble a listing or a key's file, or that a cluster's labels cannot have.
pub fn check_tenant(name: &str) -> Result<()> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric();
    let is_good = name.len() <= TENANT_NAME_LEN_MAX
        && name.as_bytes().first().is_some_and(|first| is_letter(*first))
        && name.bytes().all(|byte| is_letter(byte) || b"-_.".contains(&byte));
    if is_good {
        return Ok(());
    }
    let reason = format!(
        "a tenant's name has 1 to {TENANT_NAME_LEN_MAX} letters, digits, '-', '_' and '.', and begins with a letter or a digit"
    );
    let value: String = name.escape_debug().take(TENANT_NAME_LEN_MAX).collect();
    Err(Error::BadSetting { key: "a tenant's name".to_owned(), value, reason })
}

/// The name in the pool of a tenant's region. **Errors**: [`Error::BadName`], also for one that is too long behind the tenant's name.
pub fn full_name(tenant: &str, name: &str) -> Result<String> {
    check_name(name)?;
    let full = format!("{tenant}/{name}");
    match full.len() > NAME_LEN_MAX {
        true => Err(Error::BadName {
            name: name.to_owned(),
            reason: format!(
                "with the tenant's name '{tenant}' before it it has {} bytes, at most {NAME_LEN_MAX} are allowed",
                full.len()
            ),
        }),
        false => Ok(full),
    }
}

/// Tenant and name of a region's name in the pool; `None` for regions of no tenant.
pub fn parts(full: &str) -> Option<(&str, &str)> {
    full.split_once('/').filter(|(tenant, _)| !tenant.is_empty())
}

/// Refuses names that no region in the pool can have.
pub fn check_full(full: &str) -> Result<()> {
    match parts(full) {
        Some((tenant, name)) if check_tenant(tenant).is_ok() => check_name(name),
        _ => check_name(full),
    }
}

/// The prefix of the names of a user's locks and groups at their home; empty but for a tenant.
pub fn lock_prefix(uid: u32) -> String {
    space(uid).map_or_else(String::new, |number| format!("/{number}/"))
}

/// A tenant's key: 256 random bits. Its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantKey(pub [u8; 32]);

impl fmt::Debug for TenantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TenantKey(hidden)")
    }
}

/// A hash of a tenant's key, by which the pool knows the key. Nobody finds the key from it, because keys are random.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// True if both are of one key. **Cost**: the same time for all.
    pub fn is_of_one_key(&self, other: &KeyHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(hidden)")
    }
}

impl Error {
    /// The error for a user that does not see what stands before its names: `prefix` is taken from each name.
    #[must_use]
    pub fn without_prefix(mut self, prefix: &str) -> Error {
        let cut = |text: &mut String| {
            if let Some(rest) = text.strip_prefix(prefix) {
                *text = rest.to_owned();
            }
        };
        let quoted = format!("'{prefix}");
        let cut_quoted = |text: &mut String| *text = text.replace(&quoted, "'");
        match &mut self {
            Error::UnknownRegion { name }
            | Error::NameTaken { name, .. }
            | Error::BadName { name, .. }
            | Error::BadLength { name, .. }
            | Error::LockLost { name, .. }
            | Error::LockMisused { name, .. }
            | Error::BadGroup { name, .. } => cut(name),
            Error::NoPermission { region, .. } | Error::RegionLost { region, .. } | Error::BadUse { region, .. } => cut(region),
            Error::PartyGone { group, .. } => cut(group),
            Error::LimitReached { what, .. } | Error::NotInTime { what, .. } | Error::Timeout { what, .. } => cut_quoted(what),
            _ => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Gid, Slot};
    use crate::name::{extent_of_name, name_of_byte};

    #[test]
    fn tenants_have_numbers_that_no_system_gives() {
        for uid in [0, 1000, 65_534, 65_535, 524_288, 1 << 31, u32::MAX - 1, u32::MAX] {
            assert!(!is_tenant(uid) && space(uid).is_none(), "{uid}");
        }
        assert!(is_tenant(*TENANT_NUMBERS.start()) && is_tenant(*TENANT_NUMBERS.end()));
        assert_eq!(TENANT_NUMBERS.count(), 1 << 20);
    }

    #[test]
    fn a_tenant_s_name_is_a_plain_word() {
        for name in ["a", "team", "Team-7_b.c", "7", &"x".repeat(TENANT_NAME_LEN_MAX)] {
            assert_eq!(check_tenant(name), Ok(()), "{name}");
        }
        for name in ["", "-a", ".", "..", "a b", "a/b", "é", "a\n", "a\u{202e}", &"x".repeat(TENANT_NAME_LEN_MAX + 1)] {
            let error = check_tenant(name).unwrap_err().to_string();
            assert!(error.contains("letters") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_full_name_is_no_other_name() {
        let full = full_name("team", "a").unwrap();
        assert_eq!((full.as_str(), parts(&full)), ("team/a", Some(("team", "a"))));
        assert!(check_name(&full).is_err() && check_full(&full).is_ok() && check_full("a").is_ok());
        for bad in ["a/b", "..", "", "a\n"] {
            assert!(full_name("team", bad).is_err(), "{bad}");
        }
        for bad in ["team/a/b", "/a", "/7/a", "-/a", "team/", "team/.."] {
            assert!(check_full(bad).is_err(), "{bad}");
        }
        let longest = "x".repeat(NAME_LEN_MAX - "team/".len());
        assert!(full_name("team", &longest).is_ok());
        assert!(full_name("team", &format!("{longest}x")).unwrap_err().to_string().contains("tenant"));
    }

    #[test]
    fn a_lock_of_a_tenant_is_no_lock_at_a_byte() {
        let number = *TENANT_NUMBERS.start();
        let name = format!("{}a", lock_prefix(number));
        assert_eq!((extent_of_name(&name), check_name(&name).is_err(), lock_prefix(1000)), (None, true, String::new()));
        assert!(!name_of_byte(Gid(number.into()), Slot(0), 1).eq(&name));
        assert!(check_full(&name).is_err());
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(format!("{:?} {:?}", TenantKey([7; 32]), KeyHash([7; 32])), "TenantKey(hidden) KeyHash(hidden)");
        let hash = KeyHash([7; 32]);
        assert!(hash.is_of_one_key(&KeyHash([7; 32])) && !hash.is_of_one_key(&KeyHash([8; 32])));
    }

    #[test]
    fn errors_lose_the_prefix_and_nothing_else() {
        let cut = |error: Error| error.without_prefix("team/");
        assert_eq!(cut(Error::UnknownRegion { name: "team/a".into() }), Error::UnknownRegion { name: "a".into() });
        assert_eq!(cut(Error::UnknownRegion { name: "teams/a".into() }), Error::UnknownRegion { name: "teams/a".into() });
        let what = |what: &str| Error::LimitReached { what: what.to_owned(), limit: 1 };
        assert_eq!(cut(what("resizes of region 'team/a'")), what("resizes of region 'a'"));
        assert_eq!(cut(what("regions of a pool")), what("regions of a pool"));
    }
}
