//! The answer of a home to commands, as far as its head says it.

use crate::client::shared::endpoint::{Broken, Endpoint};
use hanare_protocol::wire::head::Kind;

/// A home's reaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// The connection is of no more use.
    Broken(Broken),
    /// Refused; the first bytes of the context's message room hold the reason.
    Refused(usize),
}

impl Why {
    /// The reason for which the connection is of no more use, if it is.
    pub fn broken(self) -> Option<Broken> {
        match self {
            Why::Broken(why) => Some(why),
            Why::Refused(_) => None,
        }
    }
}

/// Takes the head of an answer that is to have so many bytes behind it; a refusal's reason goes to `reason`.
pub(super) fn expect(endpoint: &Endpoint, seq: u64, expected: u64, reason: &mut [u8]) -> Result<(), Why> {
    let head = endpoint.receive_head(seq).map_err(Why::Broken)?;
    match head.kind {
        Kind::Done if head.body_len == expected => Ok(()),
        Kind::Refused => {
            let len = (head.body_len as usize).min(reason.len());
            endpoint.receive(&mut reason[..len]).map_err(Why::Broken)?;
            endpoint.skip(head.body_len - len as u64).map_err(Why::Broken)?;
            Err(Why::Refused(len))
        }
        _ => Err(Why::Broken(endpoint.give_up(Broken::Nonsense))),
    }
}
