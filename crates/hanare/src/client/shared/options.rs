//! Limits of a mapping of other nodes' memory, and its kernel.

use hanare_fabric::settings;
use hanare_memory::uffd::Features;
use hanare_protocol::Result;

/// Limits of a mapping.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// Bytes of frames; fewer than 256 KiB are taken for 256 KiB, because one instruction may touch several pages.
    pub frames_len: u64,
    /// Threads that may be fetching at a time; each is a connection to every home.
    pub lanes: usize,
    /// Parts of userfaultfd.
    pub features: Features,
}

impl MapOptions {
    /// Limits of the settings and this kernel.
    ///
    /// **Errors**: [`hanare_protocol::Error::BadSetting`]; [`hanare_protocol::Error::System`] where this kernel cannot map
    /// memory of other nodes, with what to do.
    pub fn new() -> Result<MapOptions> {
        let features = settings::userfaultfd()?;
        features.check()?;
        Ok(MapOptions { frames_len: settings::frames_len()?, lanes: settings::fault_lanes()?, features })
    }
}
