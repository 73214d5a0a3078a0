//! The answer of a home to commands, as far as its head says it, and to stores.

use crate::client::shared::endpoint::{Broken, Endpoint};
use hanare_protocol::wire::control;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::wire::sync::SyncAnswer;

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
        Kind::Refused => Err(Why::Refused(receive_body(endpoint, &head, reason).map_err(Why::Broken)?)),
        _ => Err(Why::Broken(endpoint.give_up(Broken::Nonsense))),
    }
}

/// Takes the answer to one of the stores that are expected, which is that they are done. Returns its number, and where it is refused the length
/// of the reason in `room`.
pub(super) fn expect_stored(
    endpoint: &Endpoint,
    is_expected: impl Fn(u64) -> bool,
    room: &mut [u8],
) -> Result<(u64, Result<(), usize>), Broken> {
    let head = endpoint.receive_head_of(is_expected)?;
    let len = receive_body(endpoint, &head, room)?;
    match head.kind {
        Kind::Synced if control::decode(&room[..len]) == Ok(SyncAnswer::Done) => Ok((head.seq, Ok(()))),
        Kind::Refused => Ok((head.seq, Err(len))),
        _ => Err(endpoint.give_up(Broken::Nonsense)),
    }
}

/// Takes the body of an answer, as far as there is room. Returns the bytes that were taken.
fn receive_body(endpoint: &Endpoint, head: &Head, room: &mut [u8]) -> Result<usize, Broken> {
    let len = (head.body_len as usize).min(room.len());
    endpoint.receive(&mut room[..len])?;
    endpoint.skip(head.body_len - len as u64)?;
    Ok(len)
}
