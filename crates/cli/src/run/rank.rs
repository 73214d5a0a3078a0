//! A rank's process: how it is started, and what it does before it becomes the user's program.

use super::children;
use anyhow::{Context, Result, bail, ensure};
use hanare_protocol::id::JobRank;
use rustix::process::{Pid, Signal, getpid};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The first argument of a rank's process before it becomes the program; its second is the launcher's number.
pub const BECOME: &str = "__rank";

/// Program of a rank.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// Finds the program as a shell would, before anything is started for it.
    pub fn find(words: &[OsString]) -> Result<Program> {
        let (name, arguments) = words.split_first().context("no program was given")?;
        let path = if Path::new(name).components().count() > 1 || name.as_encoded_bytes().contains(&b'/') {
            PathBuf::from(name)
        } else {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| is_program(path));
            found.with_context(|| format!("no program '{}' in PATH", name.display()))?
        };
        let metadata = path.metadata().with_context(|| format!("cannot run '{}'", path.display()))?;
        ensure!(metadata.is_file(), "cannot run '{}': it is no file", path.display());
        ensure!(is_program(&path), "cannot run '{}': it is not executable", path.display());
        Ok(Program { path, arguments: arguments.to_vec() })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The program's name without its folder.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).display().to_string()
    }

    /// The command that starts it as a rank of `who.job` attached to the node at `socket`.
    pub fn command(&self, who: JobRank, socket: &str) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg(BECOME).arg(getpid().to_string()).arg(&self.path).args(&self.arguments);
        command.envs(hanare::launch::variables(who, socket));
        if who.rank.0 > 0 {
            command.stdin(Stdio::null());
        }
        command
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The loader's first place for libraries.
pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The folders that a rank's loader looks through: those `given`, or this process's own, then the one of the library that was
/// installed with this command. `None` where there is no such library.
pub fn library_path(given: Option<&str>) -> Option<OsString> {
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.join("lib");
    if !folder.join("libhanare.so.0").exists() {
        return None;
    }
    let before = given.map(OsString::from).or_else(|| std::env::var_os(LIBRARY_PATH)).filter(|folders| !folders.is_empty());
    match before {
        Some(mut folders) => {
            folders.push(":");
            folders.push(folder);
            Some(folders)
        }
        None => Some(folder.into_os_string()),
    }
}

/// Ties this process's life to that of the one with the number that it was started with.
pub fn tie_to(launcher: &OsStr) -> Result<()> {
    let launcher = launcher.to_str().and_then(|text| Pid::from_raw(text.parse().ok()?)).context("not started by a launcher")?;
    ensure!(children::die_with(launcher, Signal::KILL)?, "the launch was given up");
    Ok(())
}

/// In the rank's process: ties its life to the launcher's, then becomes the program.
pub fn become_program(launcher: &OsStr, program: &[OsString]) -> Result<()> {
    tie_to(launcher)?;
    let (path, arguments) = program.split_first().context("no program was given")?;
    let error = Command::new(path).args(arguments).exec();
    bail!("cannot run '{}': {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it_or_refused_by_name() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(Program::find(&words(&["sh", "-c", "true"])).unwrap().name(), "sh");
        let refused = [
            ("no-such-program-here", "in PATH"),
            ("/no/such", "cannot run"),
            ("/proc/self/stat", "executable"),
            ("/tmp", "no file"),
        ];
        for (name, reason) in refused {
            let error = format!("{:#}", Program::find(&words(&[name])).unwrap_err());
            assert!(error.contains(name) && error.contains(reason), "{error}");
        }
    }
}
