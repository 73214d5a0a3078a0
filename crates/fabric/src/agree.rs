//! Agreement on a fabric between two sides that have greeted each other.
//!
//! ```text
//!   both sides at once, over the connection that was greeted:
//!      Offer (16 bytes)         ---><---      what each wants and has: both come to the same decision, or both refuse
//!      where it is UCX          ---><---      crate::ucx connects
//! ```
//!
//! A further fabric between hosts is a [`Choice`], a field of the offer, and a line in [`agree`].

use crate::link::Link;
use crate::stream::Stream;
use crate::tcp::exact::Exact;
use crate::tcp::{Channel, Greeted, TcpLink};
use crate::ucx::{self, Reason, available};
use hanare_protocol::wire::greeting::Hello;
use hanare_protocol::{Error, Result};
use std::time::Instant;

/// The fabric that a side wants between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Choice {
    /// UCX where this side has RDMA, the other side wants or has it too, and nothing has to be sealed; TCP otherwise.
    #[default]
    Auto = 0,
    /// TCP, whatever there is.
    Tcp = 1,
    /// UCX, or nothing.
    Ucx = 2,
}

impl Choice {
    /// True if commands go over TCP from here, whatever the other side has.
    pub fn is_tcp(self) -> bool {
        !self.may_want_ucx(false)
    }

    /// True if this side may use UCX on a connection, which is sealed or not. A card that moves sealed frames was never measured: there
    /// UCX is taken where both sides ask for it.
    fn may_want_ucx(self, is_sealed: bool) -> bool {
        match self {
            Choice::Auto => !is_sealed && ucx::may_have_rdma(),
            Choice::Tcp => false,
            Choice::Ucx => true,
        }
    }
}

impl std::str::FromStr for Choice {
    type Err = Error;
    fn from_str(text: &str) -> Result<Choice> {
        match text {
            "auto" => Ok(Choice::Auto),
            "tcp" => Ok(Choice::Tcp),
            "ucx" => Ok(Choice::Ucx),
            _ => Err(refusal(text, "it is one of auto, tcp and ucx".into())),
        }
    }
}

/// A link that both sides agreed on.
pub struct Agreed {
    /// The link, ready for messages.
    pub link: Box<dyn Link>,
    /// The other side's hello.
    pub hello: Hello,
    /// `tcp` or `ucx`.
    pub fabric: &'static str,
}

/// Opens the library now, where this choice may want it later: before a program's faults are resolved by a signal handler. While the
/// library is opened its own handlers are installed for some milliseconds, and a fault of another thread would end the process.
///
/// **Cost**: as of [`available`]; next to nothing where TCP was chosen, or no card has RDMA and UCX was not asked for.
pub fn open_ahead(choice: Choice) {
    if choice.may_want_ucx(false) {
        // A missing library is reported where it is wanted.
        let _ = available();
    }
}

const OFFER_LEN: usize = 16;
const OFFER_MAGIC: [u8; 8] = *b"HANAREFB";

/// A side's offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    choice: Choice,
    /// The version's first two numbers, where there is UCX.
    ucx: Option<[u8; 2]>,
    has_rdma: bool,
    /// True for a side that takes the socket itself: only TCP will do, and the other side's setting does not count.
    is_bare: bool,
}

impl Offer {
    /// The library is not even opened where it is not wanted: that takes a program some 10 ms.
    fn ours(choice: Choice, is_sealed: bool) -> Offer {
        let info = if choice.may_want_ucx(is_sealed) { available().ok() } else { None };
        let has_rdma = !is_sealed && info.as_ref().is_some_and(|info| info.has_rdma);
        Offer { choice, ucx: info.map(|info| release(&info.version)), has_rdma, is_bare: false }
    }

    /// True if this side uses UCX where the other side wants it.
    fn is_willing(&self) -> bool {
        self.choice == Choice::Ucx || self.choice == Choice::Auto && self.has_rdma
    }

    fn encode(&self) -> [u8; OFFER_LEN] {
        let mut bytes = [0; OFFER_LEN];
        bytes[..8].copy_from_slice(&OFFER_MAGIC);
        let [major, minor] = self.ucx.unwrap_or_default();
        let is_there = self.ucx.is_some().into();
        let numbers = [self.choice as u8, is_there, self.has_rdma.into(), major, minor, self.is_bare.into()];
        bytes[8..14].copy_from_slice(&numbers);
        bytes
    }

    fn decode(bytes: &[u8; OFFER_LEN]) -> Option<Offer> {
        let choice = [Choice::Auto, Choice::Tcp, Choice::Ucx].into_iter().find(|choice| *choice as u8 == bytes[8])?;
        let ucx = (bytes[9] == 1).then_some([bytes[11], bytes[12]]);
        let offer = Offer { choice, ucx, has_rdma: bytes[10] == 1, is_bare: bytes[13] == 1 };
        (offer.encode() == *bytes).then_some(offer)
    }
}

/// The first two numbers of a version such as `1.13.1`.
fn release(version: &str) -> [u8; 2] {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
}

/// Verdict of both sides on both offers. The error has the reason for a refusal, from one side's view.
///
/// Both have the same release of UCX: 1.13 and 1.22 connect and pass small messages, but a large one hangs, or ends the process.
/// \[measured\]
fn is_ucx(ours: &Offer, theirs: &Offer) -> std::result::Result<bool, String> {
    if ours.is_bare || theirs.is_bare {
        return Ok(false);
    }
    let wants_ucx = ours.choice == Choice::Ucx || theirs.choice == Choice::Ucx;
    let wants_tcp = ours.choice == Choice::Tcp || theirs.choice == Choice::Tcp;
    match (wants_ucx, wants_tcp, ours.ucx, theirs.ucx) {
        (true, true, ..) if ours.choice == Choice::Tcp => Err("the other side is set to ucx and this one to tcp".into()),
        (true, true, ..) => Err("the other side is set to tcp".into()),
        // A side does not enter a library that parses a stranger's bytes at the stranger's word. It does not say whether it has the
        // library.
        (true, false, ..) if !ours.is_willing() => {
            Err("the other side is set to ucx; this one is set to auto, and has no RDMA or seals: set both to ucx".into())
        }
        (true, false, ..) if !theirs.is_willing() => {
            Err("the other side is set to auto, and has no RDMA or seals: set both to ucx".into())
        }
        (true, false, None, _) => Err("this side has no UCX".into()),
        (true, false, _, None) => Err("the other side has no UCX; install it there (Debian: libucx0)".into()),
        (true, false, Some(ours), Some(theirs)) if ours != theirs => Err(format!(
            "UCX is {}.{} there and {}.{} here, which do not understand each other; install the same release on both",
            theirs[0], theirs[1], ours[0], ours[1]
        )),
        (true, false, ..) => Ok(true),
        (false, true, ..) => Ok(false),
        (false, false, ..) => Ok(ours.has_rdma && theirs.has_rdma && ours.ucx == theirs.ucx),
    }
}

/// Agrees on the fabric of a connection that has just been greeted, and makes the link. The other side calls this, too. Waits until
/// `deadline` at most.
///
/// **Cost**: one round trip; with UCX some milliseconds more, and a worker.
///
/// **Errors**: [`Error::BadSetting`], on both sides, where their settings cannot both be met. [`Error::NoNode`] where the other side
/// goes; [`Error::Garbage`], [`Error::Timeout`]; [`Error::System`] where UCX fails.
pub fn agree(greeted: Greeted, choice: Choice, deadline: Instant) -> Result<Agreed> {
    let Greeted { link, hello } = greeted;
    let (mut channel, peer) = link.into_stream();
    let ours = Offer::ours(choice, channel.is_sealed());
    let theirs = offer(&ours, &mut channel, &peer, deadline)?;
    let is_ucx = is_ucx(&ours, &theirs).map_err(|why| refused(choice, &peer, &why))?;
    if !is_ucx {
        return Ok(Agreed { link: Box::new(TcpLink::new(channel, peer)), hello, fabric: "tcp" });
    }
    Ok(Agreed { link: Box::new(ucx::connect(channel, peer, deadline)?), hello, fabric: "ucx" })
}

/// The stream of a connection that has just been greeted, for a caller that makes the system calls itself. It stays TCP, whatever either
/// side is set to. The other side calls [`agree`]. Waits until `deadline` at most.
///
/// **Cost**: one round trip. **Errors**: [`Error::NoNode`] where the other side goes; [`Error::Garbage`], [`Error::Timeout`].
pub fn take_channel(greeted: Greeted, deadline: Instant) -> Result<Channel> {
    let (mut channel, peer) = greeted.link.into_stream();
    let ours = Offer { choice: Choice::Tcp, ucx: None, has_rdma: false, is_bare: true };
    offer(&ours, &mut channel, &peer, deadline)?;
    Ok(channel)
}

/// Sends our offer and receives the other side's.
fn offer(ours: &Offer, stream: &mut impl Stream, peer: &str, deadline: Instant) -> Result<Offer> {
    let mut exact = Exact { stream, peer, begun: Instant::now(), deadline };
    exact.send(&ours.encode())?;
    let mut theirs = [0; OFFER_LEN];
    exact.receive(&mut theirs)?;
    Offer::decode(&theirs).ok_or_else(|| garbage(peer, "no offer of a fabric after the greeting"))
}

/// The refusal, with what is known here about why there is no UCX.
fn refused(choice: Choice, peer: &str, why: &str) -> Error {
    let more = match available() {
        Err(Reason(reason)) if choice != Choice::Tcp => format!(" ({reason})"),
        _ => String::new(),
    };
    let value = match choice {
        Choice::Auto => "auto",
        Choice::Tcp => "tcp",
        Choice::Ucx => "ucx",
    };
    refusal(value, format!("{peer} and this side do not agree: {why}{more}"))
}

fn refusal(value: &str, reason: String) -> Error {
    Error::BadSetting { key: "the fabric".into(), value: value.to_owned(), reason }
}

fn garbage(peer: &str, reason: &str) -> Error {
    Error::Garbage { peer: peer.to_owned(), reason: reason.to_owned() }
}

/// Any bytes are an offer or none, and both sides decide the same of any two.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    let offers: Vec<Offer> =
        bytes.chunks_exact(OFFER_LEN).filter_map(|one| Offer::decode(one.try_into().ok()?)).take(8).collect();
    for ours in &offers {
        assert!(Offer::decode(&ours.encode()).as_ref() == Some(ours));
        for theirs in &offers {
            assert_eq!(is_ucx(ours, theirs).ok(), is_ucx(theirs, ours).ok(), "{ours:?} {theirs:?}");
        }
    }
}

/// Offers that [`fuzz_offer`] begins with.
#[cfg(test)]
pub(crate) fn fuzz_seed() -> Vec<u8> {
    let all = [Choice::Auto, Choice::Tcp, Choice::Ucx];
    let offer = |choice| Offer { choice, ucx: Some([1, 13]), has_rdma: choice == Choice::Auto, is_bare: false }.encode();
    all.map(offer).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const V13: Option<[u8; 2]> = Some([1, 13]);

    const BARE: Offer = Offer { choice: Choice::Tcp, ucx: None, has_rdma: false, is_bare: true };

    const OFFERS: [Offer; 9] = [
        BARE,
        Offer { choice: Choice::Tcp, ucx: None, has_rdma: false, is_bare: false },
        Offer { choice: Choice::Auto, ucx: None, has_rdma: false, is_bare: false },
        Offer { choice: Choice::Auto, ucx: V13, has_rdma: false, is_bare: false },
        Offer { choice: Choice::Auto, ucx: V13, has_rdma: true, is_bare: false },
        Offer { choice: Choice::Ucx, ucx: None, has_rdma: false, is_bare: false },
        Offer { choice: Choice::Ucx, ucx: V13, has_rdma: false, is_bare: false },
        Offer { choice: Choice::Auto, ucx: Some([1, 22]), has_rdma: true, is_bare: false },
        Offer { choice: Choice::Ucx, ucx: Some([1, 22]), has_rdma: true, is_bare: false },
    ];

    #[test]
    fn both_sides_come_to_the_same_decision() {
        for ours in OFFERS {
            for theirs in OFFERS {
                assert_eq!(is_ucx(&ours, &theirs).ok(), is_ucx(&theirs, &ours).ok(), "{ours:?} {theirs:?}");
            }
        }
    }

    #[test]
    fn a_peer_alone_brings_no_side_without_rdma_to_use_ucx() {
        let [_, tcp, none, plain, rdma, ucx_without, ucx, newer, ucx_newer] = OFFERS;
        let decided = |ours, theirs| is_ucx(&ours, &theirs);
        assert_eq!(decided(rdma, rdma), Ok(true));
        assert_eq!(decided(rdma, plain), Ok(false));
        assert_eq!(decided(rdma, tcp), Ok(false));
        assert_eq!(decided(rdma, newer), Ok(false), "two releases do not talk");
        assert_eq!(decided(plain, none), Ok(false));
        assert_eq!(decided(rdma, ucx), Ok(true));
        assert_eq!(decided(ucx, ucx), Ok(true));
        let refused = |ours, theirs, words: &str| assert!(decided(ours, theirs).unwrap_err().contains(words));
        refused(plain, ucx, "this one is set to auto");
        refused(ucx, plain, "set both to ucx");
        refused(ucx, none, "set both to ucx");
        refused(none, ucx, "this one is set to auto");
        refused(ucx, ucx_without, "the other side has no UCX");
        refused(ucx, tcp, "set to tcp");
        refused(ucx_without, ucx, "this side");
        refused(ucx, ucx_newer, "1.22 there and 1.13 here");
    }

    #[test]
    fn one_who_takes_the_socket_gets_tcp_from_a_side_that_is_set_to_ucx() {
        assert!(OFFERS.iter().all(|other| is_ucx(&BARE, other) == Ok(false) && is_ucx(other, &BARE) == Ok(false)));
    }

    #[test]
    fn a_version_s_release_is_its_first_two_numbers() {
        assert_eq!(release("1.13.1"), [1, 13]);
        assert_eq!(release("2"), [2, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_offer_or_none(mut bytes: [u8; OFFER_LEN], is_named: bool) {
            if is_named {
                bytes[..8].copy_from_slice(&OFFER_MAGIC);
            }
            if let Some(offer) = Offer::decode(&bytes) {
                prop_assert_eq!(offer.encode(), bytes);
            }
        }
    }

    #[test]
    fn offers_survive_the_wire() {
        assert!(OFFERS.iter().all(|offer| Offer::decode(&offer.encode()) == Some(*offer)));
    }
}
