//! Offers of fabrics: the list of what a side has, its form on the wire, and both sides' decision.
//!
//! ```text
//! 0        8        16  17  18           24              32  34  35           40
//! | magic  | wanted |bare|count| zeros   | name          |rel|fast| zeros     | ... ENTRIES entries
//! ```

use crate::kind::Fabric;
use crate::stream::Stream;
use crate::tcp::exact::Exact;
use hanare_protocol::{Error, Result};
use std::time::Instant;

/// The name of TCP, which every side has.
pub const TCP: &str = "tcp";

const MAGIC: [u8; 8] = *b"HANAREFB";
const NAME_LEN: usize = 8;
const ENTRY_LEN: usize = 16;

/// Fabrics of one offer.
const ENTRIES: usize = 6;
const HEAD_LEN: usize = 24;
const OFFER_LEN: usize = HEAD_LEN + ENTRIES * ENTRY_LEN;

/// A name, filled up with zeros; all zeros are no name.
type FabricName = [u8; NAME_LEN];

/// A fabric that a side has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    name: FabricName,
    /// The first two numbers of its version.
    release: [u8; 2],
    has_rdma: bool,
}

/// A side's offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The fabric that it wants, or no name for any.
    wanted: FabricName,
    /// True for a side that takes the socket itself. Only TCP will do, and the other side's setting does not count.
    is_bare: bool,
    /// Fabrics that it has beside TCP.
    has: Vec<Entry>,
}

fn name(text: &str) -> FabricName {
    let mut name = [0; NAME_LEN];
    let bytes = text.as_bytes();
    let len = bytes.len().min(NAME_LEN);
    name[..len].copy_from_slice(&bytes[..len]);
    name
}

/// A name of another side, as it may be printed.
fn text(name: FabricName) -> String {
    name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).filter(char::is_ascii_alphanumeric).collect()
}

/// The first two numbers of a version such as `1.13.1`.
fn release(version: &str) -> [u8; 2] {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
}

impl Entry {
    /// A fabric of this side.
    pub fn new(fabric: &str, version: &str, has_rdma: bool) -> Entry {
        Entry { name: name(fabric), release: release(version), has_rdma }
    }

    fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..NAME_LEN].copy_from_slice(&self.name);
        bytes[NAME_LEN..NAME_LEN + 2].copy_from_slice(&self.release);
        bytes[NAME_LEN + 2] = self.has_rdma.into();
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Entry> {
        let name = bytes.get(..NAME_LEN)?.try_into().ok()?;
        Some(Entry {
            name,
            release: [*bytes.get(NAME_LEN)?, *bytes.get(NAME_LEN + 1)?],
            has_rdma: *bytes.get(NAME_LEN + 2)? == 1,
        })
    }
}

impl Offer {
    /// The offer of a side that wants a fabric, or any, and has these.
    pub fn new(wanted: Option<&str>, has: Vec<Entry>) -> Offer {
        Offer { wanted: wanted.map(name).unwrap_or_default(), is_bare: false, has }
    }

    /// The offer of a side that takes the socket itself.
    pub fn bare() -> Offer {
        Offer { is_bare: true, ..Offer::new(Some(TCP), Vec::new()) }
    }

    fn entry(&self, fabric: FabricName) -> Option<&Entry> {
        self.has.iter().find(|entry| entry.name == fabric)
    }

    /// True if this side uses that fabric where the other side wants it.
    fn is_willing(&self, fabric: FabricName) -> bool {
        self.wanted == fabric || self.is_auto() && self.entry(fabric).is_some_and(|entry| entry.has_rdma)
    }

    fn is_auto(&self) -> bool {
        self.wanted == FabricName::default()
    }

    fn encode(&self) -> [u8; OFFER_LEN] {
        let mut bytes = [0; OFFER_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.wanted);
        bytes[16] = self.is_bare.into();
        let entries = self.has.iter().take(ENTRIES);
        bytes[17] = entries.len() as u8;
        for (place, entry) in bytes[HEAD_LEN..].chunks_exact_mut(ENTRY_LEN).zip(entries) {
            place.copy_from_slice(&entry.encode());
        }
        bytes
    }

    fn decode(bytes: &[u8; OFFER_LEN]) -> Option<Offer> {
        let wanted = bytes[8..16].try_into().ok()?;
        let entries = bytes[HEAD_LEN..].chunks_exact(ENTRY_LEN).take(bytes[17].into());
        let offer = Offer { wanted, is_bare: bytes[16] == 1, has: entries.filter_map(Entry::decode).collect() };
        (offer.encode() == *bytes).then_some(offer)
    }
}

/// Sends our offer and receives the other side's.
pub fn exchange(ours: &Offer, stream: &mut impl Stream, peer: &str, deadline: Instant) -> Result<Offer> {
    let mut exact = Exact { stream, peer, begun: Instant::now(), deadline };
    exact.send(&ours.encode())?;
    let mut theirs = [0; OFFER_LEN];
    exact.receive(&mut theirs)?;
    let garbage = || Error::Garbage { peer: peer.to_owned(), reason: "no offer of a fabric after the greeting".to_owned() };
    Offer::decode(&theirs).ok_or_else(garbage)
}

/// Verdict of both sides on both offers: one of the `known` fabrics, or `None` for TCP. The error has the reason for a refusal, from one
/// side's view.
pub fn common<'f>(known: &'f [Fabric], ours: &Offer, theirs: &Offer) -> std::result::Result<Option<&'f Fabric>, String> {
    if ours.is_bare || theirs.is_bare {
        return Ok(None);
    }
    let wanted = match (ours.is_auto(), theirs.is_auto()) {
        (true, true) => return Ok(fast(known, ours, theirs)),
        (false, false) if ours.wanted != theirs.wanted => {
            return Err(format!("the other side is set to {} and this one to {}", text(theirs.wanted), text(ours.wanted)));
        }
        (false, _) => ours.wanted,
        (true, false) => theirs.wanted,
    };
    if wanted == name(TCP) {
        return Ok(None);
    }
    let fabric = text(wanted);
    let chosen = known.iter().find(|known| name(known.name) == wanted);
    // A side does not enter a library that parses a stranger's bytes at the stranger's word. It does not say whether it has the library.
    if !ours.is_willing(wanted) {
        return Err(format!(
            "the other side is set to {fabric}; this one is set to auto, and has no RDMA or seals: set both to {fabric}"
        ));
    }
    if !theirs.is_willing(wanted) {
        return Err(format!("the other side is set to auto, and has no RDMA or seals: set both to {fabric}"));
    }
    match (ours.entry(wanted), theirs.entry(wanted)) {
        (None, _) => Err(format!("this side has no {fabric}")),
        (_, None) => {
            let package = chosen.map(|fabric| format!(" ({})", fabric.package)).unwrap_or_default();
            Err(format!("the other side has no {fabric}; install it there{package}"))
        }
        (Some(ours), Some(theirs)) if ours.release != theirs.release => {
            let [[a, b], [c, d]] = [theirs.release, ours.release];
            Err(format!(
                "{fabric} is {a}.{b} there and {c}.{d} here, which do not understand each other; install the same release on both"
            ))
        }
        _ => Ok(chosen),
    }
}

/// The first fabric by name that is fast on both sides, which have the same release of it. UCX 1.13 and 1.22 connect and pass small
/// messages, but a large one hangs, or ends the process. \[measured\]
fn fast<'f>(known: &'f [Fabric], ours: &Offer, theirs: &Offer) -> Option<&'f Fabric> {
    let is_fast = |fabric: &&Fabric| {
        let entry = ours.entry(name(fabric.name));
        entry.is_some_and(|entry| entry.has_rdma) && theirs.entry(name(fabric.name)) == entry
    };
    known.iter().filter(is_fast).min_by_key(|fabric| fabric.name)
}

/// Any bytes are an offer or none, and both sides decide the same of any two, over these fabrics.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz_offer(known: &[Fabric], bytes: &[u8]) {
    let offers: Vec<Offer> =
        bytes.chunks_exact(OFFER_LEN).filter_map(|one| Offer::decode(one.try_into().ok()?)).take(8).collect();
    for ours in &offers {
        assert!(Offer::decode(&ours.encode()).as_ref() == Some(ours));
        for theirs in &offers {
            let decided = |ours, theirs| common(known, ours, theirs).map(|fabric| fabric.map(|fabric| fabric.name)).ok();
            assert_eq!(decided(ours, theirs), decided(theirs, ours), "{ours:?} {theirs:?}");
        }
    }
}

/// Offers that [`fuzz_offer`] begins with.
#[cfg(test)]
pub(crate) fn fuzz_seed() -> Vec<u8> {
    let offer = |wanted: Option<&str>| Offer::new(wanted, vec![Entry::new("ucx", "1.13.1", wanted.is_none())]).encode();
    [None, Some(TCP), Some("ucx")].map(offer).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UCX: Option<&str> = Some("ucx");

    /// UCX, and a fabric that there is not.
    const KNOWN: [Fabric; 2] = [crate::ucx::FABRIC, Fabric { name: "efa", package: "efa.deb", ..crate::ucx::FABRIC }];

    fn decided(ours: &Offer, theirs: &Offer) -> std::result::Result<Option<&'static str>, String> {
        Ok(common(&KNOWN, ours, theirs)?.map(|fabric| fabric.name))
    }

    fn has(version: &str, has_rdma: bool) -> Vec<Entry> {
        vec![Entry::new("ucx", version, has_rdma)]
    }

    fn offers() -> [Offer; 11] {
        let further = Entry::new("efa", "2.1", true);
        [
            Offer::bare(),
            Offer::new(Some(TCP), Vec::new()),
            Offer::new(None, Vec::new()),
            Offer::new(None, has("1.13", false)),
            Offer::new(None, has("1.13.1", true)),
            Offer::new(UCX, Vec::new()),
            Offer::new(UCX, has("1.13", false)),
            Offer::new(None, has("1.22", true)),
            Offer::new(UCX, has("1.22", true)),
            Offer::new(None, [has("1.13", true), vec![further]].concat()),
            Offer::new(Some("efa"), vec![further]),
        ]
    }

    #[test]
    fn both_sides_come_to_the_same_decision() {
        for ours in offers() {
            for theirs in offers() {
                assert_eq!(decided(&ours, &theirs).ok(), decided(&theirs, &ours).ok(), "{ours:?} {theirs:?}");
            }
        }
    }

    #[test]
    fn a_peer_alone_brings_no_side_without_rdma_to_use_ucx() {
        let [_, tcp, none, plain, rdma, ucx_without, ucx, newer, ucx_newer, both, _] = offers();
        let is = |fabric| Ok(Some(fabric));
        assert_eq!(decided(&rdma, &rdma), is("ucx"));
        assert_eq!(decided(&rdma, &both), is("ucx"));
        assert_eq!(decided(&both, &both), is("efa"), "the first by name");
        assert_eq!(decided(&rdma, &plain), Ok(None));
        assert_eq!(decided(&rdma, &tcp), Ok(None));
        assert_eq!(decided(&rdma, &newer), Ok(None), "two releases do not talk");
        assert_eq!(decided(&plain, &none), Ok(None));
        assert_eq!(decided(&rdma, &ucx), is("ucx"));
        assert_eq!(decided(&ucx, &ucx), is("ucx"));
        let refused = |ours: &Offer, theirs: &Offer, words: &str| {
            let why = decided(ours, theirs).unwrap_err();
            assert!(why.contains(words), "{why}");
        };
        refused(&plain, &ucx, "this one is set to auto");
        refused(&ucx, &plain, "set both to ucx");
        refused(&ucx, &none, "set both to ucx");
        refused(&none, &ucx, "this one is set to auto");
        refused(&ucx, &ucx_without, "the other side has no ucx; install it there (Debian: libucx0)");
        refused(&ucx, &tcp, "the other side is set to tcp and this one to ucx");
        refused(&ucx_without, &ucx, "this side has no ucx");
        refused(&ucx, &ucx_newer, "1.22 there and 1.13 here");
    }

    #[test]
    fn one_who_takes_the_socket_gets_tcp_from_a_side_that_is_set_to_ucx() {
        let bare = Offer::bare();
        assert!(offers().iter().all(|other| decided(&bare, other) == Ok(None) && decided(other, &bare) == Ok(None)));
    }

    #[test]
    fn names_of_fabrics_fit_an_offer() {
        assert!(crate::agree::FABRICS.len() <= ENTRIES);
        assert!(crate::agree::names().all(|(fabric, _)| text(name(fabric)) == fabric));
    }

    #[test]
    fn a_version_s_release_is_its_first_two_numbers() {
        assert_eq!(release("1.13.1"), [1, 13]);
        assert_eq!(release("2"), [2, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_offer_or_none(mut bytes in proptest::array::uniform32(any::<u8>()), is_named: bool) {
            if is_named {
                bytes[..8].copy_from_slice(&MAGIC);
            }
            let mut whole = [0; OFFER_LEN];
            whole[..32].copy_from_slice(&bytes);
            if let Some(offer) = Offer::decode(&whole) {
                prop_assert_eq!(offer.encode(), whole);
            }
        }
    }

    #[test]
    fn offers_survive_the_wire() {
        assert!(offers().iter().all(|offer| Offer::decode(&offer.encode()).as_ref() == Some(offer)));
    }
}
