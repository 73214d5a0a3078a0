//! A region of the pool as a disk: the plugin that nbdkit opens for `hanare nbd NAME`, or by itself (`nbdkit hanare NAME`).
//!
//! ```text
//! NBD client ── nbdkit (TLS, filters, connections) ──> Disk ── put, get, fill ──> the region
//! ```
//!
//! nbdkit forks to go to the background, and a fork takes no threads along: nothing here touches the pool before `after_fork`.
//! Every answer comes when the bytes are at their nodes, so flush and forced unit access cost nothing more, and any number of
//! connections see one disk.

#![forbid(unsafe_code)]

mod holes;

use hanare::{CreateOptions, Pool, Region, Rights, Strided};
use nbdkit::{Error, ExtentHandle, ExtentType, Flags, FuaFlags, Result, Server, ThreadModel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words of the command line, and the region once it is open.
struct Setup {
    name: Option<String>,
    create: Option<u64>,
    copies: u8,
    region: Option<Arc<Region>>,
    pool: Option<Pool>,
}

static SETUP: Mutex<Setup> = Mutex::new(Setup { name: None, create: None, copies: 1, region: None, pool: None });

fn setup() -> MutexGuard<'static, Setup> {
    SETUP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection.
struct Disk {
    region: Arc<Region>,
    pool: Pool,
    is_read_only: bool,
}

fn refused(error: &hanare::Error) -> Error {
    let number = match error {
        hanare::Error::NoPermission { .. } | hanare::Error::BadUse { .. } => libc::EPERM,
        hanare::Error::OutOfRange { .. } => libc::ENOSPC,
        _ => libc::EIO,
    };
    // nbdkit prints one line.
    Error::new(number, error.to_string())
}

/// Opens the region for all that this user may do with it; makes it where that is wanted.
fn open_region(pool: &Pool, name: &str, create: Option<u64>, copies: u8) -> hanare::Result<Region> {
    match (create, pool.open_for(name, Rights::Write)) {
        (Some(len), Err(hanare::Error::UnknownRegion { .. })) => {
            pool.create(name, len, &CreateOptions { copies, ..CreateOptions::default() })
        }
        (_, Err(hanare::Error::NoPermission { .. })) => pool.open_for(name, Rights::Read),
        (_, opened) => opened,
    }
}

impl Disk {
    fn zero_range(&self, count: u32, offset: u64) -> Result<()> {
        self.region.fill(Strided::contiguous(offset, u64::from(count)), &[0]).map_err(|error| refused(&error))
    }
}

impl Server for Disk {
    fn name() -> &'static str {
        "hanare"
    }

    fn longname() -> Option<&'static str> {
        Some("Hanare: a region of pooled memory")
    }

    fn version() -> Option<&'static str> {
        Some(env!("CARGO_PKG_VERSION"))
    }

    fn description() -> Option<&'static str> {
        Some("serves a region of the pool that this host's Hanare node belongs to")
    }

    fn config_help() -> Option<&'static str> {
        Some(
            "[region=]NAME   the region to serve (required)\nsize=BYTES     make it so long where it is not there\ncopies=N       nodes that hold each of its bytes then, 1 to 3",
        )
    }

    fn magic_config_key() -> Option<&'static str> {
        Some("region")
    }

    fn config(key: &str, value: &str) -> Result<()> {
        let wrong = |what: String| Err(Error::new(libc::EINVAL, what));
        match key {
            "region" => setup().name = Some(value.to_owned()),
            "size" => match value.parse() {
                Ok(len) => setup().create = Some(len),
                Err(_) => return wrong(format!("size cannot be '{value}': it must be a whole number of bytes")),
            },
            "copies" => match value.parse() {
                Ok(copies) => setup().copies = copies,
                Err(_) => return wrong(format!("copies cannot be '{value}': it must be a number from 1 to 3")),
            },
            _ => return wrong(format!("'{key}' is no word of the hanare plugin; nbdkit hanare --help lists them")),
        }
        Ok(())
    }

    fn config_complete() -> Result<()> {
        match setup().name {
            Some(_) => Ok(()),
            None => Err(Error::new(libc::EINVAL, "which region? nbdkit hanare NAME")),
        }
    }

    fn thread_model() -> Result<ThreadModel> {
        Ok(ThreadModel::Parallel)
    }

    fn after_fork() -> Result<()> {
        let mut setup = setup();
        let name = setup.name.clone().unwrap_or_default();
        hanare::face::use_as(hanare::ProgramFace::Blocks);
        let pool = Pool::attach_alone().map_err(|error| refused(&error))?;
        let region = open_region(&pool, &name, setup.create, setup.copies).map_err(|error| refused(&error))?;
        (setup.region, setup.pool) = (Some(Arc::new(region)), Some(pool));
        Ok(())
    }

    fn open(is_read_only: bool) -> Result<Box<dyn Server>> {
        let setup = setup();
        match (&setup.region, &setup.pool) {
            (Some(region), Some(pool)) => Ok(Box::new(Disk { region: region.clone(), pool: pool.clone(), is_read_only })),
            _ => Err(Error::new(libc::EIO, "the region is not open yet")),
        }
    }

    fn get_size(&self) -> Result<i64> {
        i64::try_from(self.region.len()).map_err(|_| Error::new(libc::EFBIG, "the region is longer than a disk can be"))
    }

    fn can_write(&self) -> Result<bool> {
        Ok(!self.is_read_only && self.region.rights() == Rights::Write)
    }

    fn can_flush(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_fua(&self) -> Result<FuaFlags> {
        Ok(FuaFlags::Native)
    }

    fn can_multi_conn(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_trim(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_zero(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_fast_zero(&self) -> Result<bool> {
        // The pattern travels, not the bytes.
        Ok(true)
    }

    fn can_extents(&self) -> Result<bool> {
        Ok(true)
    }

    fn extents(&self, count: u32, offset: u64, flags: Flags, told: &mut ExtentHandle) -> Result<()> {
        let is_one = flags.contains(Flags::REQ_ONE);
        let parts = holes::find(&self.pool, &self.region, offset, count.into(), is_one).map_err(|error| refused(&error))?;
        parts.into_iter().try_for_each(|part| {
            let kind = if part.is_hole { ExtentType::HoleZero } else { ExtentType::Allocated };
            told.add(part.offset, part.len, kind)
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.region.get(offset, buf).map_err(|error| refused(&error))
    }

    fn write_at(&self, buf: &[u8], offset: u64, _flags: Flags) -> Result<()> {
        self.region.put(offset, buf).map_err(|error| refused(&error))
    }

    fn flush(&self) -> Result<()> {
        self.pool.flush().map_err(|error| refused(&error))
    }

    fn trim(&self, count: u32, offset: u64, _flags: Flags) -> Result<()> {
        // A region keeps its memory; what was trimmed reads as zero.
        self.zero_range(count, offset)
    }

    fn zero(&self, count: u32, offset: u64, _flags: Flags) -> Result<()> {
        self.zero_range(count, offset)
    }
}

/// The one name that nbdkit looks for.
mod entry {
    use super::Disk;

    nbdkit::plugin!(Disk {
        after_fork,
        can_extents,
        can_fast_zero,
        can_flush,
        can_fua,
        can_multi_conn,
        can_trim,
        can_write,
        can_zero,
        config,
        config_complete,
        config_help,
        extents,
        flush,
        thread_model,
        trim,
        write_at,
        zero
    });
}
