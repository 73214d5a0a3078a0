//! Making of a dictionary's parts.

use hanare::{CreateOptions, Error, Placement, Region, Result};

/// Tries to make a part with copies elsewhere, where a node that was to hold it is lost.
const ELSEWHERE_TRIES: u32 = 3;

/// Makes a part. One with copies begins on this host's node where a node of its placement is lost.
pub fn make_part(options: &CreateOptions, make: impl Fn(&CreateOptions) -> Result<Region>) -> Result<Region> {
    let mut options = options.clone();
    for _ in 0..ELSEWHERE_TRIES {
        match make(&options) {
            // The node of a copy may be another the next time.
            Err(Error::NodeLost { .. } | Error::Timeout { .. }) if options.copies > 1 => options.placement = Placement::Local,
            made => return made,
        }
    }
    make(&options)
}
