//! The node's control path: one thread that decides, and drives the machines of membership and coordination.
//!
//! | module | holds |
//! |---|---|
//! | `client` | a client's Unix socket, one request at a time |
//! | `clients` | what clients ask, and what the node answers by itself |
//! | `descriptors` | how many this process may have, and what a user's share of them is |
//! | `listener` | the Unix socket that clients attach to |
//! | `extents` | extents that the coordinator orders |
//! | `leases` | locks that are lent to clients of this host |
//! | `tenants` | programs that would be a tenant's |
//! | `detached` | programs that live and have no connection any more |
//! | `acceptor` | TCP connections: greeted by a thread of their own, then handed on |
//! | `home` | the link to the coordinator, where that is another node |
//! | `coordination` | the coordinator, where it is this node |
//! | `keeper_state` | a keeper of the coordinator's journal |
//! | `journals` | where its records go |
//! | `reigns` | where a keeper's reign begins and ends |
//! | `event_loop` | the thread's loop |

mod acceptor;
mod client;
mod client_turns;
mod clients;
mod coordination;
mod descriptors;
mod detached;
mod event_loop;
mod extents;
mod goodbye;
mod home;
mod journals;
mod keeper_state;
mod leases;
mod listener;
mod readying_extents;
mod reigns;
mod tenants;

pub(crate) use acceptor::{Acceptor, GreetingTerms};
pub(crate) use event_loop::{ControlLoop, Parts};
pub(crate) use home::CoordinatorLink;
pub(crate) use keeper_state::Reigns;

pub(crate) use coordination::Coordination;
pub(crate) use descriptors::raise_limit;
use hanare_protocol::Result;
use hanare_protocol::coordinator::Settings;
use std::path::Path;

/// The coordinator, as its journal has it.
pub(crate) fn open_coordination(settings: Settings, journal: Option<&Path>) -> Result<Coordination> {
    Coordination::open(settings, journal, 0)
}
