//! Features of this kernel's userfaultfd, tried rather than read from a version.

use super::kernel;
use super::{Refused, Span, Uffd};
use crate::Mapping;
use crate::file;
use bitflags::bitflags;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::FilePart;
use hanare_protocol::{Error, Result};
use std::os::fd::AsFd;

bitflags! {
    /// Parts of userfaultfd that shared memory uses. [`PARTS`] has the first kernel with each, and the way without it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features: u32 {
        /// Absent pages of memory files are seen, and faults come as SIGBUS to the thread that touched.
        const FAULTS = 1 << 0;
        /// Pages that are in the file but not mapped are seen, and mapped by `CONTINUE`.
        const CONTINUE = 1 << 1;
        /// Pages of memory files are write-protected, also before they are there.
        const PROTECT = 1 << 2;
        /// `CONTINUE` maps a page write-protected in one step.
        const CONTINUE_PROTECTED = 1 << 3;
    }
}

/// A part of userfaultfd, for listings.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The feature.
    pub feature: Features,
    /// Its name in listings.
    pub name: &'static str,
    /// The first kernel with it.
    pub since: (u32, u32),
    /// The way without it.
    pub without: &'static str,
}

/// All parts, oldest first.
pub const PARTS: [Part; 4] = [
    Part { feature: Features::FAULTS, name: "faults as SIGBUS", since: (4, 14), without: "no mapping of remote memory" },
    Part { feature: Features::CONTINUE, name: "CONTINUE", since: (5, 14), without: "no mapping of remote memory" },
    Part {
        feature: Features::PROTECT,
        name: "write-protection of files",
        since: (5, 19),
        without: "no mapping of remote memory",
    },
    Part {
        feature: Features::CONTINUE_PROTECTED,
        name: "CONTINUE write-protected",
        since: (6, 4),
        without: "no Coherent mappings; Explicit and Entry protect a page before they fill it",
    },
];

impl Features {
    /// Features without which remote memory cannot be mapped.
    pub const NEEDED: Features = Features::FAULTS.union(Features::CONTINUE).union(Features::PROTECT);

    /// Features of Linux 6.1: to run there, or here as if there.
    pub const LINUX_6_1: Features = Features::NEEDED;

    /// Features of a version of Linux, as far as versions tell.
    pub fn of_linux(version: (u32, u32)) -> Features {
        let has = |part: &&Part| part.since <= version;
        PARTS.iter().filter(has).map(|part| part.feature).collect()
    }

    /// Asks the kernel, as the user that this process is.
    ///
    /// **Cost**: about ten system calls; ask once. **Errors**: [`Error::System`] with what to do, if there is no userfaultfd at all. One
    /// that lacks parts is no error ([`Features::check`]).
    pub fn probe() -> Result<Features> {
        let offered = offered().map_err(|refused| Error::System {
            what: "opening a userfaultfd, to map memory of other nodes".to_owned(),
            reason: match refused {
                Refused::System(rustix::io::Errno::NOSYS) => {
                    "this kernel has none (CONFIG_USERFAULTFD); use put and get, which need no mapping".to_owned()
                }
                Refused::System(rustix::io::Errno::PERM) => {
                    "it is forbidden here, as some containers do; allow the system call userfaultfd in the container's seccomp \
                     profile, or use put and get, which need no mapping"
                        .to_owned()
                }
                other => other.to_string(),
            },
        })?;
        let has = |bits: u64| offered & bits == bits;
        let mut features = Features::empty();
        features.set(Features::FAULTS, has(kernel::FEATURE_SIGBUS | kernel::FEATURE_MISSING_SHMEM));
        features.set(Features::CONTINUE, has(kernel::FEATURE_MINOR_SHMEM));
        features.set(Features::PROTECT, has(kernel::FEATURE_WP | kernel::FEATURE_WP_SHMEM));
        // No bit tells of this one: it is tried.
        if features.contains(Features::NEEDED) && try_continue_protected(features)? {
            features |= Features::CONTINUE_PROTECTED;
        }
        Ok(features)
    }

    /// Refuses a kernel on which remote memory cannot be mapped; the error names the part that it lacks.
    pub fn check(self) -> Result<()> {
        match PARTS.iter().find(|part| !self.contains(part.feature) && Features::NEEDED.contains(part.feature)) {
            None => Ok(()),
            Some(part) => Err(Error::System {
                what: "mapping memory of other nodes".to_owned(),
                reason: format!(
                    "this kernel's userfaultfd lacks '{}', which Linux {}.{} brought; use put and get, which need no mapping",
                    part.name, part.since.0, part.since.1
                ),
            }),
        }
    }

    /// Refuses a kernel on which memory cannot be mapped coherently, by name of what it lacks.
    pub fn check_coherent(self) -> Result<()> {
        self.check()?;
        match PARTS.iter().find(|part| !self.contains(part.feature)) {
            None => Ok(()),
            Some(part) => Err(Error::System {
                what: "mapping memory coherently".to_owned(),
                reason: format!(
                    "this kernel's userfaultfd lacks '{}', which Linux {}.{} brought; map with Explicit or Entry, which need no \
                     more than Linux 6.1, or use put and get",
                    part.name, part.since.0, part.since.1
                ),
            }),
        }
    }

    /// Features to ask of the kernel for an open descriptor.
    pub(super) fn asked(self) -> u64 {
        let bits = [
            (Features::FAULTS, kernel::FEATURE_SIGBUS | kernel::FEATURE_MISSING_SHMEM),
            (Features::CONTINUE, kernel::FEATURE_MINOR_SHMEM),
            (Features::PROTECT, kernel::FEATURE_WP | kernel::FEATURE_WP_SHMEM),
        ];
        bits.iter().filter(|(feature, _)| self.contains(*feature)).fold(0, |all, (_, bits)| all | bits)
    }
}

/// The feature bits of this kernel.
fn offered() -> Result<u64, Refused> {
    let mut api = kernel::Api { api: kernel::API, ..Default::default() };
    super::handshake(super::descriptor()?.as_fd(), &mut api)?;
    Ok(api.features)
}

/// A page of a memory file that is in the file and not mapped, under a descriptor.
fn one_page(features: Features) -> Result<(Mapping, Uffd, Span)> {
    let file = file::create("hanare-probe", PAGE_LEN)?;
    rustix::io::pwrite(&file, &[1], 0).map_err(file::system("filling a memory file"))?;
    let mut mapping = Mapping::reserve(PAGE_LEN)?;
    mapping.map_file(0, file.as_fd(), FilePart { offset: 0, len: PAGE_LEN, map_len: PAGE_LEN }, Rights::Write)?;
    let uffd = Uffd::open(features)?;
    let span = Span::of(&mapping);
    // SAFETY: nobody but this function knows the mapping, and nothing touches it.
    unsafe { uffd.register(span) }?;
    Ok((mapping, uffd, span))
}

fn try_continue_protected(features: Features) -> Result<bool> {
    let (_mapping, uffd, span) = one_page(features | Features::CONTINUE_PROTECTED)?;
    match uffd.map_protected(span) {
        Ok(_) => Ok(true),
        Err(Refused::System(rustix::io::Errno::INVAL)) => Ok(false),
        Err(refused) => Err(refused.into()),
    }
}
