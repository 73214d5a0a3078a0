//! A keeper's state in the control thread.

use crate::control_link::ControlLink;
use crate::keepers::Keepers;
use hanare_protocol::coordinator::{Reign, Settings};
use std::collections::HashMap;

/// The state of a keeper's control thread beside that of other nodes.
pub(crate) struct Reigns {
    pub keepers: Keepers,
    /// Settings of the coordinators that begin here.
    pub(super) settings: Settings,
    pub(super) reign: Option<Reign>,
    /// The other keeper that led when this one looked last.
    pub(super) leader: Option<String>,
    /// Links of nodes that were sent elsewhere: they are kept until those close them, so that they read where to go.
    pub(super) callers: HashMap<u64, ControlLink>,
    /// When this node answers for names of locks, while it leads. By then the lease of the home before is over.
    pub(super) names_at_ms: Option<u64>,
    /// True if it does.
    pub(super) is_home: bool,
}

impl Reigns {
    pub fn new(keepers: Keepers, settings: Settings) -> Reigns {
        Reigns { keepers, settings, reign: None, leader: None, callers: HashMap::new(), names_at_ms: None, is_home: false }
    }

    /// True if a batch of its reign is not decided yet.
    pub(super) fn waits(&self) -> bool {
        !self.keepers.engine().lock().is_settled()
    }
}
