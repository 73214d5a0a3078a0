//! How commands reach an extent, and what they name it by.

use super::remote::Remote;
use hanare_protocol::id::{Grant, Slot};
use std::sync::Arc;

/// The way of one command to its extent.
pub(crate) struct ExtentDoor {
    pub remote: Arc<Remote>,
    pub node: u32,
    pub slot: Slot,
    pub grant: Grant,
    /// Where other nodes reach the extent's node.
    pub address: Arc<str>,
}
