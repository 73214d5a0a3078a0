//! Replies as bytes, in versions 2 and 3 of the protocol.

use hanare_dict::{Key, Sink, Store};

/// Bytes of the longest number.
pub const DECIMAL_LEN: usize = 20;

/// A number's decimal digits.
pub fn decimal(number: i64, text: &mut [u8; DECIMAL_LEN]) -> &[u8] {
    let (mut at, mut rest) = (DECIMAL_LEN, number.unsigned_abs());
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        text[at] = b'-';
    }
    &text[at..]
}

/// Replies that were not sent yet.
#[derive(Default)]
pub struct Replies {
    pub bytes: Vec<u8>,
    /// True in version 3.
    pub is_third: bool,
}

impl Replies {
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A short text of one line.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A refusal. A line's end in the text would end the reply.
    pub fn error(&mut self, text: &str) {
        let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        self.line(b'-', text.as_bytes());
    }

    pub fn number(&mut self, number: i64) {
        self.counted(b':', number);
    }

    /// A line of a number.
    fn counted(&mut self, kind: u8, number: i64) {
        self.line(kind, decimal(number, &mut [0; DECIMAL_LEN]));
    }

    pub fn bulk(&mut self, bytes: &[u8]) {
        self.counted(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// No value.
    pub fn none(&mut self) {
        if self.is_third { self.line(b'_', b"") } else { self.line(b'$', b"-1") }
    }

    /// A value, or that there is none.
    pub fn value(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => self.bulk(bytes),
            None => self.none(),
        }
    }

    /// A key's value from a store, or that there is none. After an error there is no reply.
    pub fn value_of(&mut self, store: &Store, key: &Key<'_>) -> hanare::Result<()> {
        let begin = self.bytes.len();
        let read = store.read(key, &mut Bulk { replies: self, begin });
        if !matches!(read, Ok(Some(_))) {
            self.bytes.truncate(begin);
        }
        if read?.is_none() {
            self.none();
        }
        Ok(())
    }

    /// The begin of a list of so many replies.
    pub fn list(&mut self, count: usize) {
        self.counted(b'*', count as i64);
    }

    /// The begin of so many pairs: a list of twice as many in version 2.
    pub fn map(&mut self, count: usize) {
        if self.is_third { self.counted(b'%', count as i64) } else { self.list(2 * count) }
    }
}

/// A reply of a value that is read in its place.
struct Bulk<'r> {
    replies: &'r mut Replies,
    begin: usize,
}

impl Sink for Bulk<'_> {
    fn room(&mut self, _: u8, len: usize) -> Option<&mut [u8]> {
        // Bytes that were read before are void.
        self.replies.bytes.truncate(self.begin);
        self.replies.counted(b'$', len as i64);
        let bytes = &mut self.replies.bytes;
        let at = bytes.len();
        bytes.resize(at + len, 0);
        bytes.extend_from_slice(b"\r\n");
        Some(&mut bytes[at..at + len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_those_of_their_version() {
        let mut replies = Replies::default();
        replies.ok();
        replies.error("ERR bad\r\n+OK");
        [-3, 0, 10, i64::MIN, i64::MAX].into_iter().for_each(|number| replies.number(number));
        replies.value(Some(b"a\r\n"));
        replies.none();
        replies.map(1);
        let numbers = ":-3\r\n:0\r\n:10\r\n:-9223372036854775808\r\n:9223372036854775807\r\n";
        let wanted = format!("+OK\r\n-ERR bad  +OK\r\n{numbers}$3\r\na\r\n\r\n$-1\r\n*2\r\n");
        assert_eq!(String::from_utf8_lossy(&replies.bytes), wanted);
        let mut third = Replies { is_third: true, ..Replies::default() };
        third.none();
        third.map(1);
        assert_eq!(third.bytes, b"_\r\n%1\r\n");
    }

    #[test]
    fn a_value_that_is_read_twice_is_sent_once() {
        let mut replies = Replies::default();
        replies.ok();
        let begin = replies.bytes.len();
        let mut bulk = Bulk { replies: &mut replies, begin };
        bulk.room(0, 12).unwrap().fill(b'x');
        bulk.room(0, 2).unwrap().fill(b'y');
        assert_eq!(replies.bytes, b"+OK\r\n$2\r\nyy\r\n");
    }
}
