//! The error for memory that this node lends and does not get.

use hanare_memory::Lost;
use hanare_protocol::Error;

/// The error for lent memory that the kernel could not supply.
pub(crate) fn lost_memory(lost: &Lost) -> Error {
    Error::System { what: "reach lent memory".to_owned(), reason: format!("{lost:?}") }
}
