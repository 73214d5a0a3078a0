//! A wish on where a new region's bytes go, in the words of users.

use super::create_options::CreateOptions;
use hanare_protocol::placement::Placement;
use hanare_protocol::usage::{FOLLOWS, USERS};
use hanare_protocol::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A wish on where a new region's bytes go: `near`, or a [`Placement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementWish {
    /// The bytes stay where the placement says.
    At(Placement),
    /// The bytes begin on the node of the program that creates the region. Later they move to the host whose programs use them most.
    NearUsers,
}

impl Default for PlacementWish {
    fn default() -> PlacementWish {
        PlacementWish::At(Placement::Local)
    }
}

impl fmt::Display for PlacementWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementWish::At(placement) => placement.fmt(f),
            PlacementWish::NearUsers => f.write_str("near"),
        }
    }
}

impl FromStr for PlacementWish {
    type Err = Error;

    fn from_str(text: &str) -> Result<PlacementWish> {
        if text == "near" { Ok(PlacementWish::NearUsers) } else { text.parse().map(PlacementWish::At) }
    }
}

impl CreateOptions {
    /// The same options for a region there. A region near its users has an attribute that says so.
    pub fn at(mut self, wish: PlacementWish) -> CreateOptions {
        match wish {
            PlacementWish::At(placement) => self.placement = placement,
            PlacementWish::NearUsers => {
                self.placement = Placement::Local;
                self.attributes.set(FOLLOWS, USERS);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_they_are_read() {
        for word in ["near", "local", "node=3", "interleave=4096"] {
            assert_eq!(word.parse::<PlacementWish>().unwrap().to_string(), word);
        }
        assert!(matches!("nearer".parse::<PlacementWish>(), Err(Error::BadPlacement { .. })));
    }

    #[test]
    fn a_region_near_its_users_begins_here_and_follows() {
        let options = CreateOptions::default().at(PlacementWish::NearUsers);
        assert_eq!((options.placement, options.attributes.get(FOLLOWS)), (Placement::Local, Some(USERS)));
        assert_eq!(CreateOptions::default().at(PlacementWish::default()), CreateOptions::default());
    }
}
