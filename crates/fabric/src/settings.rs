//! Every setting of the library and the node: one `HANARE_…` variable each, with its default and meaning.

use crate::agree::Choice;
use crate::tenant_file::TenantFile;
use hanare_memory::KeepFree;
use hanare_memory::uffd::Features;
use hanare_protocol::versions::Versions;
use hanare_protocol::{Error, Result, limits, size};
use std::num::NonZero;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A setting as `hanare info` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The environment variable.
    pub variable: &'static str,
    /// Its value when unset, as text.
    pub default: &'static str,
    /// The setting's effect.
    pub meaning: &'static str,
}

const fn setting(variable: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    Setting { variable, default, meaning }
}

/// All settings.
pub const SETTINGS: &[Setting] = &[
    setting(
        "HANARE_NODE",
        "$XDG_RUNTIME_DIR/hanare/node.sock",
        "socket of this host's node: a path, or @name for an abstract one",
    ),
    setting(
        "HANARE_TENANT",
        "none",
        "file (mode 0600) with the tenant's name and key that a program attaches with, as `hanare tenant create` writes it",
    ),
    setting("HANARE_RANK", "from the launcher, else 0", "this program's rank in its job"),
    setting("HANARE_RANKS", "from the launcher, else 1", "how many ranks the job has"),
    setting(
        "HANARE_JOB",
        "from the launcher",
        "the job's number, up to 32 hexadecimal digits (a uuid will do): the same for its ranks, no other job's",
    ),
    setting("HANARE_LAUNCHER", "set by `hanare run`", "where a rank of this host asks its launcher to end the whole job"),
    setting("HANARE_MAIN_MEMORY", "set by `hanare run --main-memory`", "where programs reach the keeper of their large memory"),
    setting("HANARE_ANSWER_MS", "10000", "how long a peer's answer is waited for, in milliseconds"),
    setting("HANARE_FAULT_LANES", "4", "threads of a process that may fetch pages of one mapping at a time, 1 to 64"),
    setting(
        "HANARE_WIRE",
        "the newest of this build",
        "newest wire version that a node or a program speaks, as that of the release before: nothing new is used in the pool then",
    ),
    setting("HANARE_KERNEL", "the running one", "newest Linux whose userfaultfd is used, as 6.1"),
    setting(
        "HANARE_FRAMES",
        "half of the memory of the machine, or of its control group",
        "size of the pages of other nodes that all coherent mappings of a node keep together, as 1GiB; each has what those before it left, the first \
         half at most; beyond it the least used go home",
    ),
    setting(
        "HANARE_KEY",
        "pool.key in HANARE_STATE",
        "file (mode 0600) with the pool's key, drawn by a coordinator where it is not there; the same on all hosts",
    ),
    setting(
        "HANARE_SEAL",
        "auto",
        "connections that a node and its clients seal: auto (those that leave the host), always, or plain (none; also --plain)",
    ),
    setting(
        "HANARE_ADVERTISE",
        "the listening address, or the host's name",
        "host:port at which a node tells others to reach it",
    ),
    setting("HANARE_FABRIC", "auto", "what moves bytes between hosts: tcp, ucx, or auto (what is fast where both sides have it)"),
    setting("HANARE_UCX", "the system's", "UCX library: a file, or the folder of the Python package libucx-cu12"),
    setting("HANARE_QUOTA", "none", "size of all regions that one user may own, as 10GiB (read by the coordinator)"),
    setting(
        "HANARE_MEMORY_DIR",
        "memory in the folder of the node's socket",
        "folder in which nodes of a host tell each other how much memory they may take; one of root's for a group (mode 2770) is for its users \
         together",
    ),
    setting(
        "HANARE_KEEP_FREE",
        "a thirty-second part of the host and of each control group, 1GiB at most",
        "memory that a node leaves free on its host: where less is free it gives memory back, and what it holds moves to other nodes; 0 for none \
         (also --keep-free)",
    ),
    setting(
        "HANARE_COPY_RATE",
        "none",
        "bytes a second that a node sends to copies that are made and to nodes that get what it holds, as 200MiB; commands are not counted (also \
         --copy-rate)",
    ),
    setting(
        "HANARE_NODE_THREADS",
        "a quarter of the processors, 1 at least",
        "threads with which a node moves the bytes of its links, 64 at most (also --threads)",
    ),
    setting("HANARE_STATE", "$XDG_STATE_HOME/hanare", "folder of the coordinator's journal and of the pool's key"),
    setting("HANARE_HUGE", "auto", "huge pages for lent memory: auto (try hugetlb, then transparent), or never"),
    setting("HANARE_SSH", "ssh", "what `hanare run --hosts` reaches hosts with, and its options: ssh -p 2222 -i FILE"),
    setting("HANARE_LOG", "warn", "what the node writes to stderr: error, warn, info, debug, trace"),
    setting(
        "HANARE_TRACE",
        "none",
        "file for a timeline of commands (load it in ui.perfetto.dev); %r in it is the rank, %p the process",
    ),
    setting(
        "HANARE_COPIES",
        "1",
        "how many nodes hold each byte of regions that a program makes without a word about it, 1 to 3",
    ),
    setting("HANARE_PLACE", "local", "placement of regions made by dn_malloc"),
    setting("HANARE_SODIMM", "64M", "size of a rank's vector memory for VL, VS and their kin (dimmnet.h)"),
    setting("HANARE_PEERS", "bench/peers", "folder of the C programs that `hanare bench` runs as peers"),
    setting("HANARE_APPS", "out/apps", "folder of the programs that `make apps` built, for `hanare bench`"),
    setting("HANARE_PYTHON", "python3", "interpreter that has the package hanare, for `hanare bench python`"),
];

/// The variable's text, if it is set to something.
pub fn text(variable: &str) -> Option<String> {
    debug_assert!(SETTINGS.iter().any(|setting| setting.variable == variable), "{variable} is not in SETTINGS");
    std::env::var(variable).ok().filter(|text| !text.is_empty())
}

/// The variable as a number, if it is set.
pub fn number(variable: &str) -> Result<Option<u64>> {
    let Some(text) = text(variable) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Error::BadSetting {
        key: variable.to_owned(),
        value: text,
        reason: "it must be a whole number".to_owned(),
    })
}

/// The variable as a size; where it is not set, `default` is read instead.
pub fn size(variable: &str, default: Option<&str>) -> Result<Option<u64>> {
    let Some(text) = text(variable).or(default.map(str::to_owned)) else { return Ok(None) };
    let bad = |reason| Error::BadSetting { key: variable.to_owned(), value: text.clone(), reason };
    size::parse_some(&text).map(Some).map_err(bad)
}

/// Bytes a second for copies that are made; `None` for no bound.
///
/// **Errors**: [`Error::BadSetting`] for fewer than [`COPY_RATE_MIN`](limits::COPY_RATE_MIN): writes would wait for minutes.
pub fn copy_rate(bytes: u64) -> Result<Option<NonZero<u64>>> {
    if bytes == 0 || bytes >= limits::COPY_RATE_MIN {
        return Ok(NonZero::new(bytes));
    }
    Err(Error::BadSetting {
        key: "--copy-rate".to_owned(),
        value: size::Size(bytes).to_string(),
        reason: format!("at least {}, or 0 for no bound: writes wait for bytes that move", size::Size(limits::COPY_RATE_MIN)),
    })
}

/// Versions of the wire that this process speaks.
///
/// **Errors**: [`Error::BadSetting`] for a number that this build does not speak.
pub fn versions() -> Result<Versions> {
    let Some(newest) = number("HANARE_WIRE")? else { return Ok(Versions::BUILD) };
    let known = u32::try_from(newest).ok().and_then(Versions::up_to);
    known.ok_or_else(|| Error::BadSetting {
        key: "HANARE_WIRE".to_owned(),
        value: newest.to_string(),
        reason: format!("this build speaks wire version {}", Versions::BUILD),
    })
}

/// Time to wait for a peer's reply.
pub fn answer_bound() -> Result<Duration> {
    match number("HANARE_ANSWER_MS")?.unwrap_or(limits::ANSWER_MS) {
        0 => Err(Error::BadSetting {
            key: "HANARE_ANSWER_MS".to_owned(),
            value: "0".to_owned(),
            reason: "no answer comes in no time; it must be at least 1".to_owned(),
        }),
        ms => Ok(Duration::from_millis(ms)),
    }
}

/// Variables whose names begin like settings but are none, each with the setting that was most likely meant.
pub fn unknown() -> Vec<(String, Option<&'static str>)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown_among(names)
}

fn unknown_among(names: impl Iterator<Item = String>) -> Vec<(String, Option<&'static str>)> {
    let is_known = |name: &str| SETTINGS.iter().any(|setting| setting.variable == name);
    let ours = names.filter(|name| name.starts_with("HANARE_") && !name.starts_with("HANARE_TEST_") && !is_known(name));
    let nearest = |name: &str| {
        let near = SETTINGS.iter().map(|setting| (distance(name, setting.variable), setting.variable));
        near.min().filter(|(distance, _)| *distance <= 3).map(|(_, variable)| variable)
    };
    let mut found: Vec<_> = ours.map(|name| (nearest(&name), name)).map(|(near, name)| (name, near)).collect();
    found.sort();
    found
}

/// Number of letters to put in, take out or change to make one name the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, a) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (at, b) in to.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[to.len()]
}

/// Number of fault contexts of a mapping: threads that may fetch at a time.
pub fn fault_lanes() -> Result<usize> {
    /// The number unset. More threads than this seldom fault at once, and each fault context has a connection to every home.
    const COUNT: u64 = 4;
    const COUNT_MAX: u64 = 64;
    let count = number("HANARE_FAULT_LANES")?.unwrap_or(COUNT);
    if !(1..=COUNT_MAX).contains(&count) {
        return Err(Error::BadSetting {
            key: "HANARE_FAULT_LANES".to_owned(),
            value: count.to_string(),
            reason: format!("it must be 1 to {COUNT_MAX}"),
        });
    }
    Ok(count as usize)
}

/// Features of this kernel's userfaultfd that may be asked for.
///
/// **Errors**: [`Error::BadSetting`]; [`Error::System`] where this kernel has no userfaultfd, or forbids it.
pub fn userfaultfd() -> Result<Features> {
    let offered = Features::probe()?;
    let Some(text) = text("HANARE_KERNEL") else { return Ok(offered) };
    let version = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match version {
        Some(version) => Ok(offered & Features::of_linux(version)),
        None => Err(Error::BadSetting {
            key: "HANARE_KERNEL".to_owned(),
            value: text,
            reason: "it must be a version of Linux, as 6.1".to_owned(),
        }),
    }
}

/// Bytes of frames that all mappings of a host keep together. As set, or half of the memory of the machine or its control group.
pub fn frames_len() -> Result<u64> {
    Ok(size("HANARE_FRAMES", None)?.unwrap_or_else(|| hanare_memory::capacity::total() / 2))
}

/// Threads that move the bytes of a node's links: a quarter of the processors that the process may use, where nothing is set.
pub fn node_threads() -> Result<NonZero<usize>> {
    let Some(count) = number("HANARE_NODE_THREADS")? else {
        let quarter = std::thread::available_parallelism().map_or(1, NonZero::get) / 4;
        return Ok(threads_of(quarter.clamp(1, limits::NODE_THREAD_COUNT_MAX)).unwrap_or(NonZero::<usize>::MIN));
    };
    threads_of(usize::try_from(count).unwrap_or(usize::MAX)).ok_or_else(|| Error::BadSetting {
        key: "HANARE_NODE_THREADS".to_owned(),
        value: count.to_string(),
        reason: format!("it must be 1 to {}", limits::NODE_THREAD_COUNT_MAX),
    })
}

/// `count` threads of a node; `None` where it may not have so many.
pub fn threads_of(count: usize) -> Option<NonZero<usize>> {
    NonZero::new(count).filter(|count| count.get() <= limits::NODE_THREAD_COUNT_MAX)
}

/// Memory of the host that a node leaves free.
pub fn keep_free() -> Result<KeepFree> {
    Ok(size("HANARE_KEEP_FREE", None)?.map_or(KeepFree::Usual, KeepFree::Bytes))
}

/// Choice of a fabric between hosts.
pub fn fabric() -> Result<Choice> {
    text("HANARE_FABRIC").map_or(Ok(Choice::Auto), |text| text.parse())
}

/// The socket of this host's node: `HANARE_NODE`, or the place where `hanare node` listens by default.
pub fn node_socket() -> String {
    text("HANARE_NODE").unwrap_or_else(|| runtime_folder().join("node.sock").to_string_lossy().into_owned())
}

/// The file of the tenant that programs of this environment are of.
pub fn tenant() -> Option<TenantFile> {
    text("HANARE_TENANT").map(|path| TenantFile(PathBuf::from(path)))
}

/// The folder in which nodes tell each other how much memory they may take.
pub fn memory_folder() -> PathBuf {
    text("HANARE_MEMORY_DIR").map_or_else(|| runtime_folder().join("memory"), PathBuf::from)
}

/// The folder for sockets: `$XDG_RUNTIME_DIR/hanare`, or one under `/tmp` that carries the user's id.
pub fn runtime_folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder).join("hanare"),
        _ => PathBuf::from(format!("/tmp/hanare-{}", rustix::process::getuid().as_raw())),
    }
}

/// Refuses a folder that is another user's, or in which others may plant files and take files' places.
///
/// **Errors**: [`Error::BadSetting`].
pub fn check_folder(folder: &Path) -> Result<()> {
    let bad = |reason: String| Error::BadSetting { key: "a folder".to_owned(), value: folder.display().to_string(), reason };
    let about = std::fs::metadata(folder).map_err(|error| bad(error.to_string()))?;
    let (owner, own) = (about.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        return Err(bad(format!("it belongs to user {owner}; give a folder of this user, {own}")));
    }
    if about.mode() & 0o022 != 0 {
        return Err(bad("others may write to it; chmod go-w, or give another".to_owned()));
    }
    Ok(())
}

/// The folder for the journal: `HANARE_STATE`, `$XDG_STATE_HOME/hanare`, or `~/.local/state/hanare`.
pub fn state_folder() -> PathBuf {
    if let Some(folder) = text("HANARE_STATE") {
        return PathBuf::from(folder);
    }
    match (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")) {
        (Some(folder), _) if !folder.is_empty() => PathBuf::from(folder).join("hanare"),
        (_, Some(home)) if !home.is_empty() => PathBuf::from(home).join(".local/state/hanare"),
        _ => runtime_folder(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_which_others_may_plant_files_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        check_folder(folder.path()).unwrap();
        for mode in [0o722, 0o702, 0o1777] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(check_folder(folder.path()).is_err(), "{mode:o}");
        }
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
            assert!(check_folder(folder.path()).is_err(), "another user's");
        }
        assert!(check_folder(&folder.path().join("none")).is_err());
    }

    #[test]
    fn an_unknown_name_is_told_with_the_one_that_was_meant() {
        let names = ["HANARE_ANSWER", "HANARE_NOD", "HANARE_NODE", "HANARE_COLOUR", "HANARE_TEST_SEED", "PATH"];
        let found = unknown_among(names.iter().map(|name| (*name).to_owned()));
        let told: Vec<_> = found.iter().map(|(name, near)| (name.as_str(), *near)).collect();
        assert_eq!(
            told,
            [("HANARE_ANSWER", Some("HANARE_ANSWER_MS")), ("HANARE_COLOUR", None), ("HANARE_NOD", Some("HANARE_NODE"))]
        );
    }

    #[test]
    fn every_setting_has_one_name_a_default_and_a_meaning() {
        let mut names: Vec<_> = SETTINGS.iter().map(|setting| setting.variable).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
        assert!(SETTINGS.iter().all(|s| s.variable.starts_with("HANARE_") && !s.default.is_empty() && !s.meaning.is_empty()));
    }
}
