//! The words of a command, where they lie among a connection's bytes.

use std::ops::Index;

/// Begin and length of a word.
pub type Span = (u32, u32);

/// A command: its name, and the words behind it.
#[derive(Clone, Copy)]
pub struct Words<'b> {
    bytes: &'b [u8],
    spans: &'b [Span],
}

impl<'b> Words<'b> {
    /// Words of these bytes. Each span lies among them.
    pub fn new(bytes: &'b [u8], spans: &'b [Span]) -> Words<'b> {
        Words { bytes, spans }
    }

    pub fn len(self) -> usize {
        self.spans.len()
    }

    pub fn get(self, index: usize) -> Option<&'b [u8]> {
        let (begin, len) = *self.spans.get(index)?;
        self.bytes.get(begin as usize..)?.get(..len as usize)
    }

    /// The words from one on.
    pub fn from(self, index: usize) -> Words<'b> {
        Words { spans: self.spans.get(index..).unwrap_or_default(), ..self }
    }

    pub fn iter(self) -> impl Iterator<Item = &'b [u8]> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }

    /// The words as slices, for commands that have few.
    pub fn list(self) -> Vec<&'b [u8]> {
        self.iter().collect()
    }
}

impl Index<usize> for Words<'_> {
    type Output = [u8];

    /// **Panics** where there is no such word.
    fn index(&self, index: usize) -> &[u8] {
        self.get(index).expect("the command's table says the number of its words")
    }
}
