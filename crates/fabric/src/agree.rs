//! Agreement on a fabric between two sides that have greeted each other.
//!
//! ```text
//!   both sides at once, over the connection that was greeted:
//!      Offer                    ---><---      what each wants and has: both come to the same decision, or both refuse
//!      where it is not TCP      ---><---      that fabric connects
//! ```
//!
//! A further fabric between hosts is a folder, and a line in [`FABRICS`].

use crate::link::Link;
use crate::offer::{Entry, Offer, TCP, common, exchange};
use crate::tcp::{Channel, Greeted, TcpLink};
use hanare_protocol::wire::greeting::Hello;
use hanare_protocol::{Error, Result};
use std::time::Instant;

pub use crate::kind::{Fabric, FabricInfo, Reason};

/// The fabrics between hosts beside TCP.
pub const FABRICS: &[Fabric] = &[crate::ucx::FABRIC];

/// The fabric that a side wants between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// A fast fabric if both sides have one, and nothing is sealed or the other side asks for it. TCP otherwise.
    #[default]
    Auto,
    /// The fabric of that name, or nothing.
    Named(&'static str),
}

impl Choice {
    /// TCP, whatever there is.
    pub const TCP: Choice = Choice::Named(TCP);

    /// True if commands go over TCP from here, whatever the other side has.
    pub fn is_tcp(self) -> bool {
        !FABRICS.iter().any(|fabric| self.may_want(fabric, false))
    }

    /// True if this side may use that fabric on a connection, which is sealed or not. A card that moves sealed frames was never measured:
    /// there a fabric is taken where both sides ask for it.
    fn may_want(self, fabric: &Fabric, is_sealed: bool) -> bool {
        match self {
            Choice::Auto => !is_sealed && (fabric.may_be_fast)(),
            Choice::Named(name) => name == fabric.name,
        }
    }
}

/// The name of each fabric between hosts, with the networks that it is for.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once((TCP, "Any two machines")).chain(FABRICS.iter().map(|fabric| (fabric.name, fabric.about)))
}

impl std::fmt::Display for Choice {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Choice::Auto => "auto",
            Choice::Named(name) => name,
        })
    }
}

impl std::str::FromStr for Choice {
    type Err = Error;
    fn from_str(text: &str) -> Result<Choice> {
        if text == "auto" {
            return Ok(Choice::Auto);
        }
        let all = || names().map(|(name, _)| name).collect::<Vec<_>>().join(" and ");
        let found = names().map(|(name, _)| name).find(|name| *name == text);
        found.map(Choice::Named).ok_or_else(|| refusal(text, format!("it is one of auto, {}", all())))
    }
}

/// A link that both sides agreed on.
pub struct Agreed {
    /// The link, ready for messages.
    pub link: Box<dyn Link>,
    /// The other side's hello.
    pub hello: Hello,
    /// The name of its fabric.
    pub fabric: &'static str,
}

/// Opens each library that this choice may want later, before a signal handler resolves a program's faults. While a library is opened
/// its own handlers are installed for some milliseconds. A fault of another thread would end the process then.
///
/// **Cost**: as of [`Fabric::available`]. Next to nothing if TCP was chosen, or no card has RDMA and no other fabric was asked for.
pub fn open_ahead(choice: Choice) {
    for fabric in FABRICS.iter().filter(|fabric| choice.may_want(fabric, false)) {
        // A missing library is reported where it is wanted.
        let _ = (fabric.available)();
    }
}

/// A library is not even opened where it is not wanted: that takes a program some 10 ms.
fn offered(choice: Choice, is_sealed: bool) -> Offer {
    let entry = |fabric: &Fabric| {
        let info = (fabric.available)().ok()?;
        Some(Entry::new(fabric.name, &info.version, !is_sealed && info.has_rdma))
    };
    let wanted = FABRICS.iter().filter(|fabric| choice.may_want(fabric, is_sealed));
    let name = if let Choice::Named(name) = choice { Some(name) } else { None };
    Offer::new(name, wanted.filter_map(entry).collect())
}

/// Agrees on the fabric of a connection that has just been greeted, and makes the link. The other side calls this, too. Waits until
/// `deadline` at most.
///
/// **Cost**: one round trip; with UCX some milliseconds more, and a worker.
///
/// **Errors**: [`Error::BadSetting`], on both sides, where their settings cannot both be met. [`Error::NoNode`] where the other side
/// goes; [`Error::Garbage`], [`Error::Timeout`]; [`Error::System`] where the fabric fails.
pub fn agree(greeted: Greeted, choice: Choice, deadline: Instant) -> Result<Agreed> {
    let Greeted { link, hello, .. } = greeted;
    let (mut channel, peer) = link.into_stream();
    let ours = offered(choice, channel.is_sealed());
    let theirs = exchange(&ours, &mut channel, &peer, deadline)?;
    match common(FABRICS, &ours, &theirs).map_err(|why| refused(choice, &peer, &why))? {
        None => Ok(Agreed { link: Box::new(TcpLink::new(channel, peer)), hello, fabric: TCP }),
        Some(fabric) => Ok(Agreed { link: (fabric.connect)(channel, peer, deadline)?, hello, fabric: fabric.name }),
    }
}

/// The stream of a connection that has just been greeted, for a caller that makes the system calls itself. It stays TCP, whatever either
/// side is set to. The other side calls [`agree`]. Waits until `deadline` at most.
///
/// **Cost**: one round trip. **Errors**: [`Error::NoNode`] where the other side goes; [`Error::Garbage`], [`Error::Timeout`].
pub fn take_channel(greeted: Greeted, deadline: Instant) -> Result<Channel> {
    let (mut channel, peer) = greeted.link.into_stream();
    exchange(&Offer::bare(), &mut channel, &peer, deadline)?;
    Ok(channel)
}

/// The refusal, with what is known here about why a fabric is not there.
fn refused(choice: Choice, peer: &str, why: &str) -> Error {
    let missing = FABRICS.iter().filter(|fabric| choice != Choice::TCP && why.contains(fabric.name));
    let more: String =
        missing.filter_map(|fabric| (fabric.available)().err()).map(|Reason(reason)| format!(" ({reason})")).collect();
    refusal(&choice.to_string(), format!("{peer} and this side do not agree: {why}{more}"))
}

fn refusal(value: &str, reason: String) -> Error {
    Error::BadSetting { key: "the fabric".into(), value: value.to_owned(), reason }
}
