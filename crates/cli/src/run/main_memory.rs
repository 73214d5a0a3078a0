//! `--main-memory`: which programs it can serve, and what they are started with.

use super::rank::Program;
use anyhow::{Context, Result, bail, ensure};
use hanare::Pool;
use hanare_disk::main_memory::{self, MainMemory};
use rustix::fs::Mode;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The library that programs are started with, as it is built and installed.
const LIBRARY: &str = "libhanare_main_memory.so";

/// Libraries that the loader puts before all others.
const PRELOAD: &str = "LD_PRELOAD";

/// Refuses, before anything is started, a program whose memory cannot lie in the pool.
pub fn check(limit: u64, program: &Program) -> Result<()> {
    let least = main_memory::LIMIT_MIN;
    ensure!(limit >= least, "--main-memory is at least {}M: fewer pages leave no choice of which to keep", least >> 20);
    main_memory::check_permission()?;
    library()?;
    check_file(program.path(), true)
}

/// Checks what every program needs: memory that the pool may page, and the library that is loaded into it.
///
/// **Errors**: the reason, and the line to type where there is one.
pub fn check_machine() -> Result<(), (String, Option<String>)> {
    if let Err(error) = main_memory::check_permission() {
        let is_root = rustix::process::geteuid().is_root();
        let setting = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
        let remedy = if !is_root && setting.trim() == "0" {
            "sudo sysctl vm.unprivileged_userfaultfd=1"
        } else {
            "allow userfaultfd in the container's seccomp profile, and CONFIG_USERFAULTFD in the kernel"
        };
        return Err((error.to_string(), Some(remedy.to_owned())));
    }
    library().map(drop).map_err(|error| (format!("{error:#}"), Some("make install".to_owned())))
}

/// Refuses a file that the loader does not start, or into which it loads nothing of ours.
fn check_file(path: &Path, may_be_script: bool) -> Result<()> {
    let cannot = |reason: &str| format!("--main-memory cannot serve '{}': {reason}", path.display());
    let file = File::open(path).with_context(|| cannot("it cannot be read"))?;
    let meta = file.metadata()?;
    let takes_rights = (meta.mode() & Mode::SUID.bits() != 0 && meta.uid() != rustix::process::geteuid().as_raw())
        || (meta.mode() & Mode::SGID.bits() != 0 && meta.gid() != rustix::process::getegid().as_raw());
    ensure!(!takes_rights, cannot("it runs with its owner's rights (setuid), and loads no library of yours"));
    let mut head = vec![0; 4096];
    let len = file.read_at(&mut head, 0)?;
    head.truncate(len);
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let word = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        ensure!(may_be_script, cannot("its interpreter is a script, too"));
        return check_file(Path::new(std::ffi::OsStr::from_bytes(word)), false);
    }
    match loader(&file, &head).with_context(|| cannot("it is no program of this machine"))? {
        None => bail!(cannot("it is linked statically, so that no library can be put before it")),
        Some(loader) if loader.contains("musl") => bail!(cannot("it uses musl, and the library is built for glibc")),
        Some(_) => Ok(()),
    }
}

/// The loader that an ELF file names. `None` where it is linked statically.
fn loader(file: &File, head: &[u8]) -> Result<Option<String>> {
    const PROGRAM_HEADER_LEN: u64 = 56;
    const INTERPRETER: u64 = 3;
    /// A loader's path is short.
    const PATH_LEN: u64 = 4096;
    let number = |bytes: &[u8], at: usize, len: usize| -> Option<u64> {
        let bytes = bytes.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    };
    let mut own = [0; 20];
    File::open("/proc/self/exe")?.read_exact(&mut own)?;
    // The class, the order of bytes, and the machine.
    let is_like = head.len() >= 64 && head[..6] == own[..6] && head[18..20] == own[18..20];
    ensure!(is_like, "it was built for another machine");
    let (table, count) = (number(head, 32, 8).context("no table")?, number(head, 56, 2).context("no table")?);
    for at in 0..count {
        let mut header = [0; PROGRAM_HEADER_LEN as usize];
        let from = table.checked_add(at * PROGRAM_HEADER_LEN).context("a table beyond the end")?;
        file.read_exact_at(&mut header, from)?;
        if number(&header, 0, 4) == Some(INTERPRETER) {
            let (from, len) = (number(&header, 8, 8).unwrap_or(0), number(&header, 32, 8).unwrap_or(0));
            let mut path = vec![0; len.min(PATH_LEN) as usize];
            file.read_exact_at(&mut path, from)?;
            return Ok(Some(String::from_utf8_lossy(&path).trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

/// The library that was built or installed with this command.
fn library() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("deps").join(LIBRARY), folder.join("../lib/hanare").join(LIBRARY)];
    let found = places.iter().find(|place| place.is_file());
    let found = found.with_context(|| format!("no {LIBRARY} beside this command; `cargo build -p hanare-preload` builds it"))?;
    Ok(found.canonicalize()?)
}

/// Starts the keeper on the pool of a node, and gives the variables of its programs.
pub fn start(limit: u64, socket: &str, variables: &mut Vec<(String, String)>) -> Result<MainMemory> {
    let keeper = MainMemory::start(socket, limit)?;
    let library = library()?.into_os_string().into_string().ok().context("the path of the library is no text")?;
    let given = variables.iter().rfind(|(name, _)| name == PRELOAD).map(|(_, value)| value.clone());
    let preload = match given.or_else(|| std::env::var(PRELOAD).ok()).filter(|others| !others.is_empty()) {
        Some(others) => format!("{library}:{others}"),
        None => library,
    };
    let (name, value) = keeper.variable();
    variables.extend([(PRELOAD.to_owned(), preload), (name.to_owned(), value)]);
    Ok(keeper)
}

/// Removes what the inner process left where it was killed.
pub fn clean_up() {
    if let Ok(pool) = Pool::attach_alone() {
        main_memory::sweep(&pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_served_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(check_file(Path::new("/proc/self/exe"), true).is_ok());
        let mut text = write("script", b"#! /proc/self/exe -x\n");
        assert!(check_file(&text, true).is_ok());
        text = write("script of a script", format!("#!{}\n", text.display()).as_bytes());
        assert!(format!("{:#}", check_file(&text, true).unwrap_err()).contains("script, too"));
        // No segment that names a loader.
        let mut without = own[..4096.min(own.len())].to_vec();
        without[56..58].fill(0);
        let refusal = format!("{:#}", check_file(&write("static", &without), true).unwrap_err());
        assert!(refusal.contains("statically"), "{refusal}");
        without[18] ^= 1;
        let refusal = format!("{:#}", check_file(&write("other", &without), true).unwrap_err());
        assert!(refusal.contains("another machine"), "{refusal}");
        assert!(check_file(&write("empty", b""), true).is_err() && check_file(Path::new("/no/such"), true).is_err());
    }
}
