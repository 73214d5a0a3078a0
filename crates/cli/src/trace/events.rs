//! The events of a timeline's file, one after another.

use super::Traced;
use anyhow::Result;
use serde::Deserializer;
use serde::de::{SeqAccess, Visitor};
use std::fmt;
use std::io::Read;

/// Gives each event of a file to `take`. Events before an error are given. **Errors**: where it is no list of events.
pub fn each(from: impl Read, take: impl FnMut(Traced)) -> Result<()> {
    let mut from = serde_json::Deserializer::from_reader(from);
    from.deserialize_seq(Events(take))?;
    Ok(from.end()?)
}

struct Events<F>(F);

impl<'de, F: FnMut(Traced)> Visitor<'de> for Events<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element()? {
            (self.0)(event);
        }
        Ok(())
    }
}
