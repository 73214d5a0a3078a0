//! Words of users on where a new region's bytes go.

use super::create_options::CreateOptions;
use hanare_protocol::placement::Placement;
use hanare_protocol::usage::{FOLLOWS, USERS};
use hanare_protocol::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Where a new region's bytes go, in one word: `near`, or a [`Placement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// As the placement says.
    At(Placement),
    /// On the node of the program that creates it, at first. Later its bytes move to the host whose programs use them most.
    NearUsers,
}

impl Default for Place {
    fn default() -> Place {
        Place::At(Placement::Local)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::At(placement) => placement.fmt(f),
            Place::NearUsers => f.write_str("near"),
        }
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place> {
        if text == "near" { Ok(Place::NearUsers) } else { text.parse().map(Place::At) }
    }
}

impl CreateOptions {
    /// The same at this place. A region near its users has an attribute that says so.
    pub fn at(mut self, place: Place) -> CreateOptions {
        match place {
            Place::At(placement) => self.placement = placement,
            Place::NearUsers => {
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
            assert_eq!(word.parse::<Place>().unwrap().to_string(), word);
        }
        assert!(matches!("nearer".parse::<Place>(), Err(Error::BadPlacement { .. })));
    }

    #[test]
    fn a_region_near_its_users_begins_here_and_follows() {
        let options = CreateOptions::default().at(Place::NearUsers);
        assert_eq!((options.placement, options.attributes.get(FOLLOWS)), (Placement::Local, Some(USERS)));
        assert_eq!(CreateOptions::default().at(Place::default()), CreateOptions::default());
    }
}
