//! Short values that a region's owner keeps with its name, such as the terms of an array in it.
//!
//! The pool keeps them in its journal and gives them out with the region. Only programs know what they mean; [`crate::array`] is one
//! such meaning.

use crate::error::{Error, Result};
use crate::limits::ATTRIBUTES_LEN_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Values of a region by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes(BTreeMap<String, Vec<u8>>);

impl Attributes {
    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Sets a value; [`Attributes::check`] refuses a value that no region takes.
    pub fn set(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all names and values.
    pub fn len_bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len().saturating_add(value.len())).fold(0, usize::saturating_add)
    }

    /// Applies changes: a value is set, `None` takes it away.
    pub(crate) fn alter(&mut self, changes: &BTreeMap<String, Option<Vec<u8>>>) {
        for (name, value) in changes {
            match value {
                Some(value) => drop(self.0.insert(name.clone(), value.clone())),
                None => drop(self.0.remove(name)),
            }
        }
    }

    /// Refuses more bytes than a region may have, and names that would garble a listing. **Errors**: [`Error::LimitReached`],
    /// [`Error::BadName`].
    pub fn check(&self) -> Result<()> {
        if self.len_bytes() > ATTRIBUTES_LEN_MAX {
            let what = "bytes of a region's attributes, names and values together".to_owned();
            return Err(Error::LimitReached { what, limit: ATTRIBUTES_LEN_MAX as u64 });
        }
        self.0.keys().try_for_each(|name| crate::name::check_name(name))
    }
}

impl<N: Into<String>, V: Into<Vec<u8>>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(items: I) -> Attributes {
        Attributes(items.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_bytes_as_the_limit_are_taken_and_none_more() {
        let most = Attributes::from_iter([("n", vec![0; ATTRIBUTES_LEN_MAX - 1])]);
        assert_eq!(most.check(), Ok(()));
        let more = Attributes::from_iter([("no", vec![0; ATTRIBUTES_LEN_MAX - 1])]);
        assert!(matches!(more.check(), Err(Error::LimitReached { .. })));
        assert!(matches!(Attributes::from_iter([("", "x")]).check(), Err(Error::BadName { .. })));
        assert!(matches!(Attributes::from_iter([("a\nb", "x")]).check(), Err(Error::BadName { .. })));
    }

    #[test]
    fn changes_set_and_take_away() {
        let mut attributes = Attributes::from_iter([("a", "1"), ("b", "2")]);
        attributes.alter(&BTreeMap::from([("a".to_owned(), None), ("c".to_owned(), Some(b"3".to_vec()))]));
        assert_eq!(attributes, Attributes::from_iter([("b", "2"), ("c", "3")]));
    }
}
