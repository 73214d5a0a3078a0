//! Versions of the wire, so that nodes and programs of two releases work side by side.
//!
//! Both sides of a connection say the oldest and the newest version that they speak. Both then speak the lower one of the newest.
//!
//! ```text
//! 27 to 28  <-->  27        both speak 27
//! 29 to 30  <-->  27 to 28  refused in one line
//! ```
//!
//! A later version only adds messages: a kind of head, or a variant at the end of an enum. A side sends none that is younger than what both
//! speak. So a decoder needs no version. The shapes of each version stand in `tests/wire`, and a test compares them.
//!
//! All keepers, and later coordinators, read what the journal keeps. A record is written only where all of the pool know it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The oldest version that this build speaks.
pub const OLDEST: u32 = 27;

/// The newest version that this build speaks: what it can do with a build like itself.
pub const NEWEST: u32 = 28;

/// The versions that one side speaks: all from the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl Versions {
    /// The versions of this build.
    pub const BUILD: Versions = Versions { oldest: OLDEST, newest: NEWEST };

    /// The versions of this build that are no newer than one; `None` if there are none.
    pub fn up_to(newest: u32) -> Option<Versions> {
        (OLDEST..=NEWEST).contains(&newest).then_some(Versions { newest, ..Versions::BUILD })
    }

    /// The version that two sides speak with each other; `None` if they have none in common.
    pub fn spoken_with(self, other: Versions) -> Option<u32> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }

    /// Both numbers in one, as a hello has them. Numbers above 65,535 are no versions.
    pub(crate) fn pack(self) -> u32 {
        self.oldest.min(0xffff) << 16 | self.newest.min(0xffff)
    }

    /// The numbers of [`Versions::pack`]. Builds before version 27 said one number.
    pub(crate) fn unpack(packed: u32) -> Versions {
        let (oldest, newest) = (packed >> 16, packed & 0xffff);
        Versions { oldest: if oldest == 0 { newest } else { oldest }, newest }
    }
}

impl Default for Versions {
    fn default() -> Versions {
        Versions::BUILD
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(oldest: u32, newest: u32) -> Versions {
        Versions { oldest, newest }
    }

    #[test]
    fn two_sides_speak_the_lower_one_of_their_newest() {
        assert_eq!(versions(27, 28).spoken_with(versions(27, 27)), Some(27));
        assert_eq!(versions(27, 27).spoken_with(versions(27, 28)), Some(27));
        assert_eq!(versions(28, 30).spoken_with(versions(27, 29)), Some(29));
        assert_eq!(versions(29, 30).spoken_with(versions(27, 28)), None);
        assert_eq!(versions(27, 28).spoken_with(versions(29, 30)), None);
        // A range that ends before it begins is a liar's.
        assert_eq!(versions(30, 27).spoken_with(versions(27, 30)), None);
    }

    #[test]
    fn a_hello_has_both_numbers() {
        for given in [versions(27, 28), versions(26, 26), versions(0xffff, 0xffff)] {
            assert_eq!(Versions::unpack(given.pack()), given);
        }
        assert_eq!(Versions::unpack(26), versions(26, 26));
    }

    #[test]
    fn a_process_may_speak_as_the_release_before() {
        assert_eq!(Versions::up_to(OLDEST), Some(versions(OLDEST, OLDEST)));
        assert_eq!((Versions::up_to(OLDEST - 1), Versions::up_to(NEWEST + 1)), (None, None));
    }
}
