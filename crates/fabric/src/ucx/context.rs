//! Shared state of all links of a process: UCX initialised once, with the settings that the contract of links needs.
//!
//! Safety invariants of this module:
//! 1. A context is made with `mt_workers_shared`, so that any thread may make workers of it.
//! 2. Cleaning up never happens: links keep a reference to it, and one lives as long as the process.

use super::bindings::*;
use super::library::{self, Opened};
use super::{FabricInfo, Reason};
use hanare_memory::fork::Lineage;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// UCX, initialised.
pub(super) struct Context {
    opened: &'static Opened,
    handle: ucp_context_h,
}

// SAFETY: invariant 1, and the library's functions are free of thread rules of their own.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Settings that are not UCX's defaults, and why. `true`: every version knows it.
const SETTINGS: [(&str, &str, bool); 5] = [
    // Endpoints that report their peer's death leave shared memory out otherwise, without a word. [measured] Both kinds of
    // shared memory have the setting under this name; 1.13 takes POSIX_ERROR_HANDLING and SYSV_ERROR_HANDLING from the
    // environment only, and ignores them here with success.
    ("MM_ERROR_HANDLING", "y", true),
    // A peer killed over shared memory is reported after 19 s otherwise. [measured]
    ("KEEPALIVE_INTERVAL", "1s", true),
    // Bodies sent from their window go by rendezvous, into the window of the receiver's sink, never into UCX's memory.
    ("RNDV_THRESH", "32k", true),
    // Mappings here are made and unmade by direct system calls, which UCX's hooks do not see. A cache of registrations would go on to use
    // the pages of a mapping that is gone. One name is of 1.13, the other of later versions.
    ("RCACHE_ENABLE", "n", false),
    ("IB_REG_METHODS", "direct", false),
];

/// Forks between a process that uses UCX and the first of its ancestors that used the library, at most.
const GENERATION_COUNT: usize = 8;

/// The library, opened at most once: a second version of it in one process would mix with the first.
///
/// **Errors**: also in a child made by fork while its parent was opening it: nobody would end that in the child.
fn opened() -> Result<&'static Opened, Reason> {
    static OPENED: OnceLock<Result<Opened, Reason>> = OnceLock::new();
    /// The generation that is opening it, or has opened it, counted from 1.
    static OPENER: AtomicU32 = AtomicU32::new(0);
    let ours = Lineage::here().generation() + 1;
    let opener = OPENER.compare_exchange(0, ours, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(ours);
    if opener != ours && OPENED.get().is_none() {
        return Err(Reason("this process was made by fork while its parent was opening UCX".to_owned()));
    }
    OPENED.get_or_init(library::open).as_ref().map_err(Clone::clone)
}

/// The context of this process; made at the first call. A child made by fork has its own.
pub(super) fn context() -> Result<&'static Context, Reason> {
    static CONTEXTS: [OnceLock<Result<Context, Reason>>; GENERATION_COUNT] = [const { OnceLock::new() }; GENERATION_COUNT];
    let context = CONTEXTS.get(Lineage::here().generation() as usize);
    let context =
        context.ok_or_else(|| Reason(format!("more than {GENERATION_COUNT} forks lie between this process and the first")))?;
    context.get_or_init(|| Context::new(None)).as_ref().map_err(Clone::clone)
}

impl Context {
    /// Initialises UCX, for some transports only (a list as in `UCX_TLS`) or for all that `UCX_TLS` allows.
    pub(super) fn new(transports: Option<&str>) -> Result<Context, Reason> {
        let opened = opened()?;
        let config = Config::new(&opened.ucp)?;
        for (name, value, is_known_everywhere) in SETTINGS {
            config.set(name, value, is_known_everywhere)?;
        }
        if let Some(transports) = transports {
            config.set("TLS", transports, true)?;
        }
        // SAFETY: zeros are valid for every field; the mask names those that are set.
        let mut params: ucp_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = u64::from(UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED);
        params.features = u64::from(UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
        params.mt_workers_shared = 1;
        let mut handle = std::ptr::null_mut();
        // SAFETY: parameters, configuration and the place for the handle are valid for the call.
        let status = unsafe { opened.ucp.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config.handle, &mut handle) };
        check(&opened.ucp, status, "ucp_init")?;
        Ok(Context { opened, handle })
    }

    pub(super) fn ucp(&self) -> &'static Ucp {
        &self.opened.ucp
    }

    pub(super) fn handle(&self) -> ucp_context_h {
        self.handle
    }

    /// UCX's findings on this machine.
    pub(super) fn info(&self) -> FabricInfo {
        // SAFETY: the context is valid, and the stream for the call.
        let text = printed(|stream| unsafe { self.opened.ucp.ucp_context_print_info(self.handle, stream) });
        let transports = transports(&text);
        let has_rdma = transports.iter().any(|name| is_rdma(name));
        FabricInfo { version: self.opened.version.clone(), path: self.opened.path.clone(), transports, has_rdma }
    }
}

struct Config<'a> {
    ucp: &'a Ucp,
    handle: *mut ucp_config_t,
}

impl<'a> Config<'a> {
    fn new(ucp: &'a Ucp) -> Result<Config<'a>, Reason> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: no prefix and no file, and a place for the handle.
        let status = unsafe { ucp.ucp_config_read(std::ptr::null(), std::ptr::null(), &mut handle) };
        check(ucp, status, "ucp_config_read")?;
        Ok(Config { ucp, handle })
    }

    fn set(&self, name: &str, value: &str, is_known_everywhere: bool) -> Result<(), Reason> {
        let [name_c, value_c] = [name, value].map(|text| CString::new(text).expect("a setting has no zero byte"));
        // SAFETY: the configuration is valid; both texts end in zero.
        let status = unsafe { self.ucp.ucp_config_modify(self.handle, name_c.as_ptr(), value_c.as_ptr()) };
        if is_known_everywhere { check(self.ucp, status, &format!("UCX_{name}={value}")) } else { Ok(()) }
    }
}

impl Drop for Config<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `ucp_config_read`, released once.
        unsafe { self.ucp.ucp_config_release(self.handle) };
    }
}

/// A status in UCX's words.
pub(super) fn words(ucp: &Ucp, status: ucs_status_t) -> String {
    // SAFETY: the text is a constant of the library, or of its thread until the next call.
    unsafe { CStr::from_ptr(ucp.ucs_status_string(status)) }.to_string_lossy().into_owned()
}

pub(super) fn check(ucp: &Ucp, status: ucs_status_t, what: &str) -> Result<(), Reason> {
    if status == UCS_OK { Ok(()) } else { Err(Reason(format!("{what}: {}", words(ucp, status)))) }
}

/// Text that `print` writes to a stream of C's library.
pub(super) fn printed(print: impl FnOnce(*mut libc::FILE)) -> String {
    let (mut bytes, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: the stream is closed before its buffer is read, and the buffer, which ends in zero, freed after that.
    unsafe {
        let stream = libc::open_memstream(&mut bytes, &mut len);
        if stream.is_null() {
            return String::new();
        }
        print(stream);
        libc::fclose(stream);
        let text = CStr::from_ptr(bytes).to_string_lossy().into_owned();
        libc::free(bytes.cast());
        text
    }
}

/// The transports in the text of `ucp_context_print_info`, each once: lines such as
/// `#  resource 3  :  md 2  dev 2  flags -- posix/memory`.
fn transports(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .lines()
        .filter(|line| line.contains(" resource "))
        .filter_map(|line| line.split_whitespace().last()?.split_once('/'))
        .map(|(name, _)| name.to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Transports by which a network card reads and writes memory without the other side's processor.
fn is_rdma(transport: &str) -> bool {
    ["rc", "dc", "ud", "srd", "ugni", "gga"].iter().any(|family| transport.split('_').next() == Some(*family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_read_from_ucx_s_own_words() {
        let text = "#\n# UCP context\n#\n#     component 0  :  self\n#     md 0  : component 0  self\n#\n\
                    #     resource 0  :  md 0  dev 0  flags -- self/memory0\n\
                    #     resource 1  :  md 1  dev 1  flags -- tcp/eth0\n\
                    #     resource 2  :  md 1  dev 2  flags -- tcp/lo\n\
                    #     resource 3  :  md 2  dev 3  flags -- rc_mlx5/mlx5_0:1\n";
        assert_eq!(transports(text), ["rc_mlx5", "self", "tcp"]);
        assert_eq!(transports(""), Vec::<String>::new());
    }

    #[test]
    fn rdma_is_known_by_its_transports() {
        assert!(["rc_verbs", "rc_mlx5", "dc_mlx5", "ud_verbs", "ud_mlx5", "ugni_rdma", "srd"].iter().all(|name| is_rdma(name)));
        assert!(
            !["tcp", "self", "posix", "sysv", "cma", "knem", "xpmem", "cuda_copy", "rdmacm"].iter().any(|name| is_rdma(name))
        );
    }
}
