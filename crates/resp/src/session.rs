//! A client: what it said of itself, and its replies.

use crate::reply::Replies;
use crate::shared::Shared;
use std::sync::Arc;

/// A client, with what it said of itself.
pub struct Session {
    pub shared: Arc<Shared>,
    pub replies: Replies,
    /// True for a client that proved who it is, or need not.
    pub is_known: bool,
    /// True after the client's last command.
    pub is_over: bool,
    pub id: u64,
    pub name: Vec<u8>,
    /// The key of the command that is carried out, as the store has it.
    pub coded: Vec<u8>,
    /// Words of the command that are answered already, where the rest waits until that was sent; else 0.
    pub answered: usize,
}

impl Session {
    /// Bytes of replies from which they are sent before the next command.
    pub const LONG: usize = 64 << 10;

    pub fn new(shared: Arc<Shared>, id: u64) -> Session {
        let is_known = shared.secret.is_none();
        Session {
            shared,
            replies: Replies::default(),
            is_known,
            is_over: false,
            id,
            name: Vec::new(),
            coded: Vec::new(),
            answered: 0,
        }
    }

    /// True if replies are to be sent before more of them are made.
    pub fn is_long(&self) -> bool {
        self.replies.bytes.len() >= Session::LONG
    }
}
