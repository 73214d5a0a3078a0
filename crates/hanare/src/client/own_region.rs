//! A region of this program alone, which goes with it.

use super::create_options::CreateOptions;
use super::pool::Pool;
use super::region::Region;
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// A region that goes with its owner.
pub(crate) struct OwnRegion {
    pub pool: Pool,
    pub region: Arc<Region>,
}

impl OwnRegion {
    /// On this host. What one of that name left that died goes.
    pub fn new(pool: &Pool, name: &str, len: u64) -> Result<OwnRegion> {
        let create = || pool.create(name, len, &CreateOptions { copies: 1, ..CreateOptions::default() });
        let region = match create() {
            Err(Error::NameTaken { .. }) => {
                pool.remove(name)?;
                create()
            }
            other => other,
        }?;
        Ok(OwnRegion { pool: pool.clone(), region: Arc::new(region) })
    }
}

impl Drop for OwnRegion {
    fn drop(&mut self) {
        // Without the pool the region is gone, too.
        let _ = self.pool.remove(self.region.name());
    }
}
