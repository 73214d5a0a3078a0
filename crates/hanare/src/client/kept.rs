//! What is kept with a region besides its bytes, as a client that opened it sees it.

use super::region::Region;
use hanare_protocol::Result;
use hanare_protocol::array::Array;
use hanare_protocol::attributes::Attributes;
use hanare_protocol::wire::control::Made;

impl Region {
    /// Whether it took the place of one whose bytes were lost ([`crate::Pool::create_or_attach`]): all that was there is zero.
    pub fn renewed(&self) -> bool {
        self.made == Made::Renewed
    }

    /// What its owner kept with it when it was opened.
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
