//! A connection from program to program: the node's words with the descriptor for a queue's reader, and what goes over it then.
//!
//! ```text
//! writer --greeting, as Role::Link--> node of the queue --HandOver, descriptor--> reader
//! writer --Ahead: bytes for the reader's memory, which go before the next append's units--> reader
//! writer --Append: an append as of [`super::queue`]--> reader
//! writer <--Appended: how many units count------------ reader       for several appends at once, or when the writer asks
//! ```

use serde::{Deserialize, Serialize};

/// The keys of a connection's records, as one side uses them.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkKeys {
    /// Seals what this side sends.
    pub seals: [u8; 32],
    /// Opens what the other side sends.
    pub opens: [u8; 32],
}

/// Keys do not get into logs.
impl std::fmt::Debug for LinkKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkKeys").finish_non_exhaustive()
    }
}

/// A link to a queue, as the queue's node hands it to the reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    /// The writer's lane.
    pub lane: u32,
    /// The writer's number.
    pub writer: u64,
    /// The link's generation: see [`crate::queue::link`].
    pub generation: u32,
    /// Units of the writer that count.
    pub accepted: u64,
    /// The lane's tail: what lies before it goes before the link's first unit.
    pub tail: u64,
    /// The keys of its records; `None` where its bytes are not sealed.
    pub keys: Option<LinkKeys>,
    /// The writer's address, for messages to people.
    pub peer: String,
}

/// The reader of a queue wants links of its writers: it hands its node a socket on which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSocket {
    /// The array of queues.
    pub array: super::queue::ArrayAt,
    /// The queue.
    pub queue: u64,
    /// The number of the reader.
    pub reader: u64,
}
