//! Address of a mapping. It follows from the region's number, so that all programs that map it agree without a word.
//!
//! The addresses are far from those of programs, libraries, stacks and mappings, and from sanitizers' shadows. A region's place is free in
//! a program, with two exceptions. The program has mapped another region with the same remainder, or a longer one before it.

use crate::client::region::Region;
use hanare_memory::Mapping;
use hanare_protocol::id::Gid;
use hanare_protocol::{Error, Result};

/// The first region's place: 32 TiB, in the middle of what a program with 47 bits of addresses has.
const BASE: u64 = 0x2000_0000_0000;

/// From one region's place to that of the next: 64 GiB. Longer regions take the places of those behind them, too.
const STRIDE: u64 = 64 << 30;

/// Places: 32 TiB of addresses. Numbers of regions count up, so those that a job makes one after another have places of their own.
const PLACE_COUNT: u64 = 512;

/// Address of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapAddress {
    /// At the region's own address, which is the same in all programs, where that is free; else anywhere.
    #[default]
    Usual,
    /// At the region's own address, or not at all. Pointers into the region may lie in shared memory, and are good in every rank.
    Same,
    /// At this address, a multiple of 4 KiB, or not at all.
    At(usize),
}

impl MapAddress {
    /// The address that a region has in all programs.
    pub(crate) fn usual(gid: Gid) -> usize {
        (BASE + gid.0 % PLACE_COUNT * STRIDE) as usize
    }

    /// True if a mapping of the region that begins there is as wanted.
    pub(super) fn is_met(self, gid: Gid, begin: usize) -> bool {
        match self {
            MapAddress::Usual => true,
            MapAddress::Same => begin == MapAddress::usual(gid),
            MapAddress::At(address) => begin == address,
        }
    }

    /// Takes the addresses of a region.
    ///
    /// **Errors**: [`Error::BadUse`] where they are to be had nowhere else, and are in use.
    pub(super) fn reserve(self, region: &Region) -> Result<Mapping> {
        let (usual, len) = (MapAddress::usual(region.gid()), region.len());
        let (wanted, is_must) = match self {
            MapAddress::Usual => (usual, false),
            MapAddress::Same => (usual, true),
            MapAddress::At(address) => (address, true),
        };
        match Mapping::reserve_at(wanted, len)? {
            Some(mapping) => Ok(mapping),
            None if is_must => Err(self.refused(region, "this program has something else there, or cannot have it")),
            None => Mapping::reserve(len),
        }
    }

    /// The error for a mapping that is not where it is wanted.
    pub(super) fn refused(self, region: &Region, why: &str) -> Error {
        let wanted = match self {
            MapAddress::At(address) => address,
            MapAddress::Usual | MapAddress::Same => MapAddress::usual(region.gid()),
        };
        let reason = format!("it cannot be mapped at address {wanted:#x}: {why}; map it early in the program, or anywhere");
        Error::BadUse { region: region.name().to_owned(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_that_are_made_one_after_another_have_places_of_their_own() {
        let places: std::collections::BTreeSet<usize> =
            (1000..1000 + PLACE_COUNT).map(|gid| MapAddress::usual(Gid(gid))).collect();
        assert_eq!(places.len() as u64, PLACE_COUNT);
        let (first, last) = (*places.first().unwrap() as u64, *places.last().unwrap() as u64);
        assert!(first == BASE && last + STRIDE == 0x4000_0000_0000, "{first:#x} to {last:#x}");
    }
}
