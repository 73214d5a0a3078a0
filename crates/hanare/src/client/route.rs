//! Routes of commands to an extent, and their name for it.

use super::remote::Remote;
use hanare_protocol::id::{Grant, Slot};
use std::sync::Arc;

/// The way of one command to its extent.
pub(crate) struct ExtentRoute {
    pub remote: Arc<Remote>,
    pub node: u32,
    pub slot: Slot,
    pub grant: Grant,
    /// Address of the extent's node for other nodes.
    pub address: Arc<str>,
}
