//! The pool's key. It is a file of mode 0600, drawn by a user's first node that is not given one.
//!
//! A drawn key is one line, `hanare-key` and 64 hexadecimal digits. While it is replaced the file has the key before it in the next line.
//! Nodes believe all, and prove the first that the other side has. Nodes look at their file now and then. Any other file is a passphrase,
//! and goes through Argon2id, so that a greeting seen on the wire is of little help to who guesses.

use argon2::{Algorithm, Argon2, Params};
use hanare_fabric::tcp::PoolKeys;
use hanare_fabric::{regular_file, settings};
use hanare_protocol::limits::KEY_COUNT_MAX;
use hanare_protocol::{Error, Result};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// First characters of a drawn key.
const MARK: &str = "hanare-key ";

/// Shortest passphrase: what is shorter is found by trying, whatever a try costs.
const PASSPHRASE_LEN_MIN: usize = 16;

/// Longest file that is looked at.
const FILE_LEN_MAX: u64 = 64 << 10;

/// A try costs who guesses this much memory, in KiB, and so many passes over it. [RFC 9106 §4, second recommendation]
const GUESS_KIB: u32 = 64 << 10;
const GUESS_PASSES: u32 = 3;

/// The same for all pools: hosts share nothing but the passphrase.
const SALT: &[u8] = b"hanare 2026-11 pool key";

/// The file where a user's nodes look for the pool's key unless told otherwise: `pool.key` beside the journal.
pub fn default_key_file() -> PathBuf {
    settings::state_folder().join("pool.key")
}

/// A fresh key, as its file has it.
///
/// **Errors**: [`Error::System`] where the kernel gives no random bytes.
pub fn draw_key() -> Result<String> {
    let bytes: [u8; 32] = hanare_memory::random::bytes()?;
    Ok(format!("{}\n", line_of(&bytes)))
}

fn line_of(key: &[u8; 32]) -> String {
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{MARK}{digits}")
}

/// Writes a fresh key to a file of mode 0600, which must not exist. Its folder is made for this user alone.
///
/// **Errors**: [`Error::BadSetting`] with what the system says.
pub fn new_key_file(path: &Path) -> Result<()> {
    match write_new(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(bad(
            path,
            "it is there already, and who shares that key would be shut out; `hanare key rotate` puts a new one before it",
        )),
        Err(error) => Err(bad(path, &error.to_string())),
    }
}

/// The file appears whole or not at all, and replaces none.
fn write_new(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.exists() {
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700).create(folder)?;
    }
    let key = draw_key().map_err(io::Error::other)?;
    draft(path, key.as_bytes(), |draft| std::fs::hard_link(draft, path))
}

/// Writes bytes to a file beside `path`, and has `place` put it there.
fn draft(path: &Path, bytes: &[u8], place: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let suffix: u64 = u64::from_le_bytes(hanare_memory::random::bytes().map_err(io::Error::other)?);
    let draft = folder.join(format!(".key-{suffix:016x}"));
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        place(&draft)
    };
    let outcome = written();
    let _ = std::fs::remove_file(&draft);
    outcome
}

/// Puts a fresh key before those of a file; nodes that have the file believe all of them.
///
/// **Errors**: [`Error::BadSetting`] where the file has [`KEY_COUNT_MAX`] keys already, or a passphrase, or cannot be written.
pub fn rotate_key_file(path: &Path) -> Result<()> {
    let mut keys = drawn_lines(path)?;
    if keys.len() >= KEY_COUNT_MAX {
        return Err(bad(path, &format!("it has {KEY_COUNT_MAX} keys already; drop the old ones with `hanare key drop-old`")));
    }
    keys.insert(0, draw_key()?.trim_end().to_owned());
    rewrite(path, &keys)
}

/// Drops all keys of a file but the first.
///
/// **Errors**: [`Error::BadSetting`] where it has a passphrase, or cannot be written.
pub fn drop_old_keys(path: &Path) -> Result<()> {
    let keys = drawn_lines(path)?;
    rewrite(path, keys.get(..1).unwrap_or_default())
}

fn drawn_lines(path: &Path) -> Result<Vec<String>> {
    match read(open(path).map_err(|error| bad(path, &error.to_string()))?, path)? {
        PoolKeys::Drawn(keys) => Ok(keys.iter().map(line_of).collect()),
        PoolKeys::Passphrase(_) => Err(bad(path, "a passphrase is not replaced while nodes run; stop them, and draw a key")),
    }
}

/// Replaces a file that this user owns, whole.
fn rewrite(path: &Path, keys: &[String]) -> Result<()> {
    let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
    draft(path, text.as_bytes(), |draft| std::fs::rename(draft, path)).map_err(|error| bad(path, &error.to_string()))
}

/// The file with the key of a node that runs, to be looked at now and then.
pub(crate) struct KeyFile {
    path: PathBuf,
    seen: Option<(u64, i64, i64)>,
}

impl KeyFile {
    /// The file that [`pool_key`] read.
    pub fn new(given: Option<&Path>) -> KeyFile {
        let path = given.map_or_else(default_key_file, Path::to_path_buf);
        KeyFile { seen: KeyFile::stamp(&path), path }
    }

    /// A stamp that differs after a file was replaced or written.
    fn stamp(path: &Path) -> Option<(u64, i64, i64)> {
        std::fs::metadata(path).ok().map(|about| (about.ino(), about.ctime(), about.ctime_nsec()))
    }

    /// The keys, where the file has changed. A file that is gone or makes no sense changes nothing.
    ///
    /// **Cost**: one system call where nothing has changed.
    pub fn look(&mut self) -> Option<PoolKeys> {
        let now = KeyFile::stamp(&self.path);
        if now.is_none() || std::mem::replace(&mut self.seen, now) == now {
            return None;
        }
        match pool_key(Some(&self.path), true) {
            // A passphrase takes a while to stretch, and would hold others up: it is read at the start alone.
            Ok(PoolKeys::Drawn(keys)) => {
                tracing::info!("{} has changed; it has {} keys", self.path.display(), keys.len());
                Some(PoolKeys::Drawn(keys))
            }
            Ok(PoolKeys::Passphrase(_)) => {
                tracing::warn!("{} has a passphrase now; that takes a restart", self.path.display());
                None
            }
            Err(error) => {
                tracing::warn!("the keys of before are kept: {error}");
                None
            }
        }
    }
}

/// The pool's key for a node, of the given file or of this user's own. A coordinator draws that if it is not there.
///
/// **Cost**: some 100 ms for a passphrase. **Errors**: [`Error::BadSetting`] where there is none, or others may read it.
pub(crate) fn pool_key(given: Option<&Path>, joins: bool) -> Result<PoolKeys> {
    let Some(given) = given else { return own_key(&default_key_file(), joins) };
    read(open(given).map_err(|error| bad(given, &error.to_string()))?, given)
}

/// Opens a key file. A link leads to it where a system that hands out secrets mounts them so.
fn open(path: &Path) -> io::Result<File> {
    regular_file::open(path, OpenOptions::new().read(true), regular_file::FOLLOWS_LINKS)
}

fn own_key(path: &Path, joins: bool) -> Result<PoolKeys> {
    if !joins {
        match write_new(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(bad(path, &error.to_string())),
            _ => {}
        }
    }
    let file = open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => bad(
            path,
            "there is no such file; copy the key of the pool to join from its coordinator's host (by default the file of this name there), \
             mode 0600, or name it with --key or HANARE_KEY",
        ),
        _ => bad(path, &error.to_string()),
    })?;
    let owner = file.metadata().map_err(|error| bad(path, &error.to_string()))?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(bad(path, "it belongs to another user"));
    }
    read(file, path)
}

/// Reads a key file; refuses one that others may read, or that is too short to be a secret.
fn read(mut file: File, path: &Path) -> Result<PoolKeys> {
    let refuse = |error: io::Error| bad(path, &error.to_string());
    if file.metadata().map_err(refuse)?.permissions().mode() & 0o077 != 0 {
        return Err(bad(path, "others may read it; make it mode 0600"));
    }
    let mut bytes = Vec::new();
    (&mut file).take(FILE_LEN_MAX).read_to_end(&mut bytes).map_err(refuse)?;
    match drawn(&bytes) {
        Some(keys) if keys.len() > KEY_COUNT_MAX => Err(bad(path, &format!("it has more than {KEY_COUNT_MAX} keys"))),
        Some(keys) => Ok(PoolKeys::Drawn(keys)),
        None if bytes.starts_with(MARK.as_bytes()) => {
            Err(bad(path, "it has no whole keys: lines of `hanare-key` and 64 hexadecimal digits"))
        }
        None if bytes.len() < PASSPHRASE_LEN_MIN => {
            Err(bad(path, "a passphrase has at least 16 bytes; draw a key with `hanare key new FILE`"))
        }
        None => stretch(&bytes).map(PoolKeys::Passphrase).map_err(|error| bad(path, &error.to_string())),
    }
}

/// The keys of a file that were drawn: one and more lines of them, and nothing else.
fn drawn(bytes: &[u8]) -> Option<Vec<[u8; 32]>> {
    let keys: Vec<[u8; 32]> = std::str::from_utf8(bytes).ok()?.lines().map(drawn_line).collect::<Option<_>>()?;
    (!keys.is_empty()).then_some(keys)
}

fn drawn_line(line: &str) -> Option<[u8; 32]> {
    let digits = line.strip_prefix(MARK)?.trim_end();
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

/// Fuzz target: a key file. Keys that are read are what they are when they are written again.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(bytes: &[u8]) {
    let Some(keys) = drawn(bytes) else { return };
    assert!(keys.len() <= bytes.len() / 64, "a key that is not there");
    let text: String = keys.iter().map(|key| format!("{}\n", line_of(key))).collect();
    assert_eq!(drawn(text.as_bytes()), Some(keys));
}

fn stretch(passphrase: &[u8]) -> std::result::Result<[u8; 32], argon2::Error> {
    let parameters = Params::new(GUESS_KIB, GUESS_PASSES, 1, Some(32))?;
    let mut key = [0; 32];
    Argon2::new(Algorithm::Argon2id, argon2::Version::V0x13, parameters).hash_password_into(passphrase, SALT, &mut key)?;
    Ok(key)
}

fn bad(path: &Path, reason: &str) -> Error {
    Error::BadSetting { key: "the pool's key (--key)".to_owned(), value: path.display().to_string(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool_key(given: Option<&Path>, joins: bool) -> Result<[u8; 32]> {
        super::pool_key(given, joins).map(only)
    }

    fn own_key(path: &Path, joins: bool) -> Result<[u8; 32]> {
        super::own_key(path, joins).map(only)
    }

    fn only(keys: PoolKeys) -> [u8; 32] {
        match keys {
            PoolKeys::Passphrase(key) => key,
            PoolKeys::Drawn(keys) => keys[0],
        }
    }

    #[test]
    fn a_new_key_comes_first_and_the_others_stay_until_they_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        new_key_file(&path).unwrap();
        let first = pool_key(Some(&path), true).unwrap();
        let mut watched = KeyFile::new(Some(&path));
        assert!(watched.look().is_none());
        for count in 2..=KEY_COUNT_MAX {
            rotate_key_file(&path).unwrap();
            let Some(PoolKeys::Drawn(keys)) = watched.look() else { panic!("the file has changed") };
            assert_eq!((keys.len(), keys[count - 1]), (count, first));
            assert!(watched.look().is_none());
        }
        assert!(rotate_key_file(&path).unwrap_err().to_string().contains("drop-old"));
        let newest = pool_key(Some(&path), true).unwrap();
        drop_old_keys(&path).unwrap();
        assert!(matches!(watched.look(), Some(PoolKeys::Drawn(keys)) if keys == [newest]));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "hanare-key 12").unwrap();
        assert!(watched.look().is_none(), "nonsense changes nothing");
        let phrase = file(&folder, b"sixteen bytes and a few more");
        assert!(rotate_key_file(&phrase).unwrap_err().to_string().contains("passphrase"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    fn file(folder: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
        let path = folder.path().join("key");
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    #[test]
    fn a_key_that_others_may_read_or_guess_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, &[7; 32]);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(pool_key(Some(&path), false).unwrap_err().to_string().contains("0600"));
        assert!(pool_key(Some(&file(&folder, &[7; 3])), false).unwrap_err().to_string().contains("16 bytes"));
        assert!(pool_key(Some(&file(&folder, b"hanare-key 12345678")), false).unwrap_err().to_string().contains("no whole key"));
        assert!(pool_key(Some(Path::new("/no/such")), false).unwrap_err().to_string().contains("/no/such"));
    }

    #[test]
    fn a_key_that_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_bits_truncate(0o600)).unwrap();
        for refused in [pool_key(Some(&path), true), own_key(&path, true), own_key(&path, false)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("no regular file"), "{error}");
        }
        let key = folder.path().join("mounted");
        new_key_file(&key).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&key, &path).unwrap();
        assert_eq!(pool_key(Some(&path), true).unwrap(), pool_key(Some(&key), true).unwrap(), "a link is a mounted secret");
    }

    #[test]
    fn a_passphrase_is_stretched_and_a_drawn_key_taken_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let phrase = b"sixteen bytes and a few more";
        let stretched = pool_key(Some(&file(&folder, phrase)), false).unwrap();
        assert_eq!(stretched, pool_key(Some(&file(&folder, phrase)), true).unwrap(), "on every host the same");
        assert_ne!(stretched, *blake3::hash(phrase).as_bytes());
        let digits = "00ff".repeat(16);
        let key = pool_key(Some(&file(&folder, format!("hanare-key {digits}\n").as_bytes())), false).unwrap();
        assert_eq!(key[..4], [0, 0xff, 0, 0xff]);
    }

    #[test]
    fn a_coordinator_draws_one_key_and_who_joins_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/pool.key");
        let missing = own_key(&path, true).unwrap_err().to_string();
        assert!(missing.contains("pool.key") && missing.contains("copy"), "{missing}");
        let key = own_key(&path, false).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!((own_key(&path, true).unwrap(), own_key(&path, false).unwrap()), (key, key));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
        assert!(new_key_file(&path).unwrap_err().to_string().contains("there already"));
    }
}
