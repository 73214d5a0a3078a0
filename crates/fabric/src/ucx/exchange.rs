//! Connection by UCX of two sides that agreed on it.
//!
//! ```text
//!   both sides at once, over the connection that was greeted:
//!      token, address of worker ---><---
//!      a first frame            ---><---      over UCX
//!      "reached"                ---><---      each has the other's first frame
//! ```

use super::Reason;
use super::context::{Context, context};
use super::cover::FrameCover;
use super::endpoint::Endpoint;
use super::link::UcxLink;
use crate::link::{Link, LinkError};
use crate::tcp::exact::Exact;
use crate::tcp::{Channel, random};
use hanare_protocol::{Error, Result};
use rustix::io::Errno;
use std::time::Instant;

/// Longest address of a worker that is taken: a machine with many cards has a few KiB.
const ADDRESS_LEN_MAX: usize = 64 << 10;

const REACHED: u8 = b'R';

/// Makes the link of two sides that both call this, with the library of this machine.
///
/// **Errors**: [`Error::System`] where there is no UCX here, or it fails; [`Error::NoNode`], [`Error::Garbage`], [`Error::Timeout`].
pub(crate) fn connect(beside: Channel, peer: String, deadline: Instant) -> Result<UcxLink> {
    let context = context().map_err(|reason| failed(&peer, reason))?;
    upgrade(beside, peer, context, deadline)
}

/// Makes the link over UCX of two sides that both call this.
pub(super) fn upgrade(mut beside: Channel, peer: String, context: &'static Context, deadline: Instant) -> Result<UcxLink> {
    // Sides that were told to do without seals have said all so far in the plain.
    let is_whole = beside.is_sealed();
    beside.seal_rest();
    let cover = beside.keys().map(|keys| FrameCover::new(keys.clone(), is_whole));
    let mut exact = Exact { stream: &mut beside, peer: &peer, begun: Instant::now(), deadline };
    let failed = |reason| failed(&peer, reason);
    let token = u64::from_le_bytes(random()?);
    let mut endpoint = Endpoint::new(context, token, cover.clone()).map_err(failed)?;
    let address = endpoint.address().map_err(failed)?;
    exact.send(&[&token.to_le_bytes()[..], &(address.len() as u32).to_le_bytes(), &address].concat())?;

    let mut start = [0; 12];
    exact.receive(&mut start)?;
    let theirs = u64::from_le_bytes(start[..8].try_into().expect("eight bytes"));
    let len = u32::from_le_bytes(start[8..].try_into().expect("four bytes")) as usize;
    if !(1..=ADDRESS_LEN_MAX).contains(&len) {
        return Err(garbage(&peer, "an address of UCX of no possible length"));
    }
    let mut address = vec![0; len];
    exact.receive(&mut address)?;
    endpoint.connect(&address).map_err(failed)?;
    reach(UcxLink::new(endpoint, beside, peer.clone(), (token, theirs), cover).map_err(failed)?, deadline)
}

/// Waits until both sides have a frame of the other: UCX makes its connections when they are first used.
fn reach(mut link: UcxLink, deadline: Instant) -> Result<UcxLink> {
    let begun = Instant::now();
    let peer = link.peer().to_owned();
    let unreached = |error: LinkError| failed(&peer, Reason(error.to_string()));
    link.reach_out().map_err(unreached)?;
    let (mut is_reached, mut is_told) = (false, false);
    while !(is_reached && is_told) {
        if !is_reached && link.is_reached().map_err(unreached)? {
            is_reached = true;
            Exact { stream: link.beside_mut(), peer: &peer, begun, deadline }.send(&[REACHED])?;
        }
        // The other side may need this one's worker until it has said so.
        link.is_reached().map_err(unreached)?;
        is_told |= is_told_by(&mut link)?;
        if Instant::now() >= deadline {
            let after_ms = deadline.saturating_duration_since(begun).as_millis() as u64;
            return Err(Error::Timeout { peer, what: "connecting by UCX".into(), after_ms });
        }
        std::thread::yield_now();
    }
    Ok(link)
}

/// True if the other side says that it has been reached.
fn is_told_by(link: &mut UcxLink) -> Result<bool> {
    let mut byte = [0];
    let told = link.beside_mut().receive_slice(&mut byte);
    let gone = |reason: &str| Error::NoNode { address: link.peer().to_owned(), reason: reason.to_owned() };
    match told {
        Ok(1) if byte[0] == REACHED => Ok(true),
        Ok(1) => Err(garbage(link.peer(), "something else than that it was reached")),
        Ok(_) => Err(gone("it closed the connection while connecting by UCX")),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(errno) => Err(gone(&errno.to_string())),
    }
}

fn failed(peer: &str, Reason(reason): Reason) -> Error {
    Error::System { what: format!("connecting to {peer} by UCX"), reason: format!("{reason}; --fabric tcp does without") }
}

fn garbage(peer: &str, reason: &str) -> Error {
    Error::Garbage { peer: peer.to_owned(), reason: reason.to_owned() }
}
