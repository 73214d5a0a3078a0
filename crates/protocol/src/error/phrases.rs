//! Parts of messages that depend on what is told.

use crate::id::is_tenant;

/// The setting of a user's quota.
pub(super) fn quota_of(uid: u32) -> &'static str {
    if is_tenant(uid) { "one (`hanare tenant set NAME quota=`)" } else { "HANARE_QUOTA" }
}

/// The beginning of a group's refusal: of a number of parties, or of a call.
pub(super) fn bad_group(name: &str, asked: u32, parties: u32) -> String {
    match asked == parties {
        true => format!("group '{name}' cannot be used so"),
        false => format!("group '{name}' has {parties} parties, and {asked} were asked for"),
    }
}
