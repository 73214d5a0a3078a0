//! Replies as bytes, in versions 2 and 3 of the protocol.

/// Replies that were not sent yet.
#[derive(Default)]
pub struct Replies {
    pub bytes: Vec<u8>,
    /// True in version 3.
    pub is_third: bool,
}

impl Replies {
    fn line(&mut self, kind: char, text: &str) {
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A short text of one line.
    pub fn simple(&mut self, text: &str) {
        self.line('+', text);
    }

    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// A refusal. A line's end in the text would end the reply.
    pub fn error(&mut self, text: &str) {
        let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        self.line('-', &text);
    }

    pub fn number(&mut self, number: i64) {
        self.line(':', &number.to_string());
    }

    pub fn bulk(&mut self, bytes: &[u8]) {
        self.line('$', &bytes.len().to_string());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// No value.
    pub fn none(&mut self) {
        if self.is_third { self.line('_', "") } else { self.line('$', "-1") }
    }

    /// A value, or that there is none.
    pub fn value(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => self.bulk(bytes),
            None => self.none(),
        }
    }

    /// The begin of a list of so many replies.
    pub fn list(&mut self, count: usize) {
        self.line('*', &count.to_string());
    }

    /// The begin of so many pairs: a list of twice as many in version 2.
    pub fn map(&mut self, count: usize) {
        if self.is_third { self.line('%', &count.to_string()) } else { self.list(2 * count) }
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
        replies.number(-3);
        replies.value(Some(b"a\r\n"));
        replies.none();
        replies.map(1);
        assert_eq!(replies.bytes, b"+OK\r\n-ERR bad  +OK\r\n:-3\r\n$3\r\na\r\n\r\n$-1\r\n*2\r\n");
        let mut third = Replies { is_third: true, ..Replies::default() };
        third.none();
        third.map(1);
        assert_eq!(third.bytes, b"_\r\n%1\r\n");
    }
}
