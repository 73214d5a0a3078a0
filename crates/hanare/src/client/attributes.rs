//! Attributes of a region besides its bytes, seen by a client that opened it.

use super::region::Region;
use hanare_protocol::Result;
use hanare_protocol::array::Array;
use hanare_protocol::attributes::Attributes;
use hanare_protocol::wire::control::Made;

impl Region {
    /// True if it took the place of one whose bytes were lost ([`crate::Pool::create_or_attach`]): all its bytes are zero.
    pub fn renewed(&self) -> bool {
        self.made == Made::Renewed
    }

    /// The owner's attributes, from the time of opening.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The array that it holds, as its attributes say; `None` where they say nothing of one.
    ///
    /// **Errors**: [`hanare_protocol::Error::BadSetting`] where they say what no array is, and for an array of another length than the region.
    pub fn array(&self) -> Result<Option<Array>> {
        Array::of_region(&self.attributes, self.len())
    }
}
