//! Terms of regions that programs create.

use super::region::Region;
use crate::settings;
use hanare_protocol::attributes::Attributes;
use hanare_protocol::limits::COPY_COUNT_MAX;
use hanare_protocol::placement::Placement;
use hanare_protocol::{Error, Result};

/// The setting for regions whose options do not say how many copies they have.
const COPIES: &str = "HANARE_COPIES";

/// Tries to make a region with copies elsewhere, where a node that was to hold it is lost.
const ELSEWHERE_TRIES: u32 = 3;

/// Terms of a new region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// Placement of its bytes.
    pub placement: Placement,
    /// Nodes that hold each of its bytes, 1 to 3. From 2 on no answered write is lost with a node. Another one goes on with the bytes when
    /// the lost node's lease is over. A write costs a message more each way. Reads cost the same, but on this host they go by the node.
    /// A region with copies is mapped `Coherent` only where it is one extent (`local`, `node=K`). Its queues do not spill. 0 is as the
    /// setting `HANARE_COPIES` says, which `hanare run --copies` makes; else 1.
    pub copies: u8,
    /// Rights, as a file's mode bits.
    pub mode: u32,
    /// Attributes under its name, for all who open it: for example which array it holds ([`Array::attributes`]).
    ///
    /// [`Array::attributes`]: crate::Array::attributes
    pub attributes: Attributes,
    /// Has [`crate::Pool::create_or_attach`] refuse a region whose bytes are lost, where it would make it anew for its owner.
    pub refuse_lost: bool,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            placement: Placement::Local,
            copies: 0,
            mode: 0o600,
            attributes: Attributes::default(),
            refuse_lost: false,
        }
    }
}

impl CreateOptions {
    /// The number of nodes that hold each byte, also where the options do not say. **Errors**: [`Error::BadSetting`].
    pub(super) fn copies_or_setting(&self) -> Result<u8> {
        if self.copies > 0 {
            return Ok(self.copies);
        }
        match settings::number(COPIES)? {
            None => Ok(1),
            Some(copies) if (1..=u64::from(COPY_COUNT_MAX)).contains(&copies) => Ok(copies as u8),
            Some(copies) => Err(Error::BadSetting {
                key: COPIES.to_owned(),
                value: copies.to_string(),
                reason: format!("a region has 1 to {COPY_COUNT_MAX} copies"),
            }),
        }
    }

    /// Makes a region by these options. One with copies begins on this host's node where a node of its placement is lost.
    ///
    /// **Cost**: up to four calls of `make`. **Errors**: those of `make`; [`Error::BadSetting`].
    pub fn make_where_nodes_live(mut self, make: impl Fn(&CreateOptions) -> Result<Region>) -> Result<Region> {
        self.copies = self.copies_or_setting()?;
        for _ in 0..ELSEWHERE_TRIES {
            match make(&self) {
                // The node of a copy may be another the next time.
                Err(Error::NodeLost { .. } | Error::Timeout { .. }) if self.copies > 1 => self.placement = Placement::Local,
                made => return made,
            }
        }
        make(&self)
    }
}
