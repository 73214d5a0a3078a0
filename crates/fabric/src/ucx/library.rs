//! Finding and opening the library, without letting it change the process.
//!
//! UCX takes two things for granted when it is loaded. It reports crashes: it replaces the handlers of SIGSEGV, SIGBUS and others, ours
//! for lost memory among them. And it logs to standard output. Both are put back.
//!
//! Safety invariants of this module:
//! 1. Only a file named `libucp.so*` is opened, and its functions are called by the types of the header in `bindings`.
//! 2. The library stays open to the end of the process, because threads of its own may run in it.

use super::Reason;
use super::bindings::{Ucp, ucs_status_t};
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};

/// First place to look: a file, or a folder such as that of the wheel `libucx-cu12`.
pub(super) const SETTING: &str = "HANARE_UCX";

/// The name that every version since 1.0 has.
const FILE_NAME: &str = "libucp.so.0";

/// Its possible places in a folder: a library folder, an installation, a folder of Python packages.
const PLACES: [&str; 4] = ["", "lib", "libucx/lib", "lib64"];

/// Signals whose handlers UCX replaces.
const SIGNALS: [c_int; 4] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

/// The open library.
pub(super) struct Opened {
    pub(super) ucp: Ucp,
    /// The version it gives, such as `1.13.1`.
    pub(super) version: String,
    /// The opened file.
    pub(super) path: PathBuf,
}

/// Opens the library that the setting names, or the system's.
pub(super) fn open() -> Result<Opened, Reason> {
    let path = match std::env::var_os(SETTING) {
        None => PathBuf::from(FILE_NAME),
        Some(setting) => named(Path::new(&setting))?,
    };
    // Installed once: were it another thread's meanwhile, what is put back would be the handler before it, for good.
    hanare_memory::guard::install();
    let handlers = SIGNALS.map(|signal| (signal, handler(signal)));
    let ucp = load(&path);
    handlers.iter().for_each(|(signal, before)| restore(*signal, before));
    let ucp = ucp?;
    // SAFETY: the version is a constant text of the library.
    let version = unsafe { CStr::from_ptr(ucp.ucp_get_version_string()) }.to_string_lossy().into_owned();
    Ok(Opened { ucp, version, path })
}

fn named(setting: &Path) -> Result<PathBuf, Reason> {
    if setting.is_file() {
        return Ok(setting.to_owned());
    }
    let candidate = PLACES.iter().map(|place| setting.join(place).join(FILE_NAME)).find(|path| path.is_file());
    candidate.ok_or_else(|| Reason(format!("{SETTING} is {}, where no {FILE_NAME} is", setting.display())))
}

fn load(path: &Path) -> Result<Ucp, Reason> {
    let missing = |error: libloading::Error| Reason(format!("{} cannot be used: {}", path.display(), root(&error)));
    // SAFETY: invariant 1; what its initialisers change is put back by `open`.
    let library = unsafe { libloading::Library::new(path) }.map_err(missing)?;
    if std::env::var_os("UCX_LOG_LEVEL").is_none() {
        be_quiet(&library);
    }
    // SAFETY: invariant 1.
    unsafe { Ucp::from_library(library) }.map_err(missing)
}

/// The loader's message; the error's own text is the loader's function.
fn root(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| source.to_string())
}

/// Errors come back as values; the log would repeat them on standard output. Without the function it stays as it is.
fn be_quiet(library: &libloading::Library) {
    type SetValue = unsafe extern "C" fn(*const c_char, *const c_char) -> ucs_status_t;
    // SAFETY: the type that `ucs/config/global_opts.h` declares; both texts are constants.
    unsafe {
        if let Ok(set_value) = library.get::<SetValue>(b"ucs_global_opts_set_value\0") {
            set_value(c"LOG_LEVEL".as_ptr(), c"fatal".as_ptr());
        }
    }
}

fn handler(signal: c_int) -> libc::sigaction {
    // SAFETY: asks only; zeros are a valid structure to be filled.
    unsafe {
        let mut action = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action
    }
}

fn restore(signal: c_int, before: &libc::sigaction) {
    // SAFETY: what the kernel said was installed.
    unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_leads_nowhere_is_named() {
        let Reason(text) = named(Path::new("/nowhere")).unwrap_err();
        assert!(text.contains(SETTING) && text.contains("/nowhere") && text.contains(FILE_NAME), "{text}");
        let Err(Reason(text)) = load(Path::new("/nowhere/libucp.so.0")) else { panic!("it opened nothing") };
        assert!(text.contains("/nowhere/libucp.so.0") && text.contains("No such file"), "{text}");
    }

    #[test]
    fn what_is_no_library_is_refused() {
        let Err(Reason(text)) = load(Path::new("/dev/null")) else { panic!("it opened nothing") };
        assert!(text.contains("/dev/null"), "{text}");
        // A library, but another one.
        let Err(Reason(text)) = load(Path::new("libc.so.6")) else { panic!("that is not UCX") };
        assert!(text.contains("ucs_status_string") || text.contains("ucp_"), "{text}");
    }
}
