//! The file with a tenant's name and key, which a program's environment names: one line, `hanare-tenant`, the name, 64 hexadecimal digits.
//!
//! The pool knows a hash of the key alone. A key is random, so no slow hash is needed.

use crate::regular_file;
use hanare_protocol::limits::TENANT_FILE_LEN_MAX;
use hanare_protocol::tenant::{KeyHash, TenantKey, check_tenant};
use hanare_protocol::{Error, Result};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// First word of the file.
const MARK: &str = "hanare-tenant";

/// A tenant's name and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The name.
    pub name: String,
    /// The key.
    pub key: TenantKey,
}

/// A file with a tenant's name and key. It is read at each attachment, so that a new key needs no new program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantFile(pub PathBuf);

/// The hash by which a pool knows a key.
pub fn hash(key: &TenantKey) -> KeyHash {
    KeyHash(blake3::derive_key("hanare 2026-11 key of a tenant", &key.0))
}

impl Tenant {
    /// A tenant of that name with a fresh key. **Errors**: [`Error::BadSetting`] for the name; [`Error::System`] without random bytes.
    pub fn draw(name: &str) -> Result<Tenant> {
        check_tenant(name)?;
        Ok(Tenant { name: name.to_owned(), key: TenantKey(hanare_memory::random::bytes()?) })
    }

    /// The text of its file.
    pub fn text(&self) -> String {
        let digits: String = self.key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{MARK} {} {digits}\n", self.name)
    }

    /// Reads such a text; `None` for any other.
    pub fn parse(text: &str) -> Option<Tenant> {
        let mut words = text.split_ascii_whitespace();
        let (MARK, name, digits, None) = (words.next()?, words.next()?, words.next()?, words.next()) else { return None };
        check_tenant(name).ok()?;
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Tenant { name: name.to_owned(), key: TenantKey(key) })
    }
}

impl TenantFile {
    /// Reads the file. A link leads to it where a system that hands out secrets mounts them so. Such a system may let a group read what is
    /// root's; of others' files the owner alone may.
    ///
    /// **Errors**: [`Error::BadSetting`].
    pub fn read(&self) -> Result<Tenant> {
        let path: &Path = &self.0;
        let bad = |reason: &str| Error::BadSetting {
            key: "HANARE_TENANT".to_owned(),
            value: path.display().to_string(),
            reason: reason.to_owned(),
        };
        let file = regular_file::open(path, OpenOptions::new().read(true), regular_file::FOLLOWS_LINKS);
        let file = file.map_err(|error| bad(&error.to_string()))?;
        let about = file.metadata().map_err(|error| bad(&error.to_string()))?;
        let others = if about.uid() == 0 { 0o037 } else { 0o077 };
        if about.mode() & others != 0 {
            return Err(bad("others may read it; make it mode 0600"));
        }
        let mut text = String::new();
        file.take(TENANT_FILE_LEN_MAX).read_to_string(&mut text).map_err(|error| bad(&error.to_string()))?;
        Tenant::parse(&text).ok_or_else(|| {
            bad("it is no tenant's: it has one line of `hanare-tenant`, a name and 64 hexadecimal digits, as `hanare tenant create` writes it")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_was_drawn_is_read_again() {
        let tenant = Tenant::draw("team-7").unwrap();
        assert_eq!(Tenant::parse(&tenant.text()), Some(tenant.clone()));
        assert_ne!(Tenant::draw("team-7").unwrap().key, tenant.key);
        assert!(!format!("{tenant:?}").contains(&tenant.text()[21..40]));
        assert_eq!(hash(&tenant.key), hash(&tenant.key.clone()));
        assert_ne!(hash(&tenant.key).0, tenant.key.0);
        let digits = "0".repeat(64);
        for bad in ["", "hanare-tenant", "hanare-tenant a", "hanare-tenant a 12", "hanare-tenant a/b 0", "other a 0"] {
            assert_eq!(Tenant::parse(&bad.replace('0', &digits)), None, "{bad}");
        }
        assert_eq!(Tenant::parse(&format!("hanare-tenant a {digits} more")), None);
    }

    #[test]
    fn a_file_that_others_read_or_that_is_no_tenant_s_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = TenantFile(folder.path().join("team.key"));
        assert!(file.read().unwrap_err().to_string().contains("team.key"));
        let tenant = Tenant::draw("team").unwrap();
        std::fs::write(&file.0, tenant.text()).unwrap();
        for (mode, reads) in [(0o600, true), (0o400, true), (0o604, false), (0o620, false), (0o666, false)] {
            std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(file.read().is_ok(), reads, "{mode:o}");
        }
        let is_root = std::fs::metadata(&file.0).unwrap().uid() == 0;
        std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o440)).unwrap();
        assert_eq!(file.read().is_ok(), is_root, "a group may read what a system mounts for it");
        std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&file.0, "team").unwrap();
        assert!(file.read().unwrap_err().to_string().contains("hanare tenant create"));
        assert!(TenantFile(folder.path().to_owned()).read().is_err(), "a folder");
    }
}
