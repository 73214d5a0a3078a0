//! Commands as a client sends them: a list of words, each with its length before it, or one line of words.
//!
//! A command may come in any pieces. The reader remembers where it is, so each byte is looked at once.

use crate::line::split;
use crate::words::{Span, Words};
use std::mem;

/// Words of a command, and bytes of a word and of all words. Redis allows 512 MiB for a word.
const WORDS: usize = 1 << 16;
const WORD_LEN: usize = 64 << 20;
const COMMAND_LEN: usize = 128 << 20;

/// The same before a client has proved who it is, as in Redis.
const WORDS_BEFORE: usize = 10;
const WORD_LEN_BEFORE: usize = 16 << 10;

/// Bytes of a line: of a length, or of a command of one line.
const LINE_LEN: usize = 64 << 10;

/// Bytes of the buffer that a thread lends to the connection whose turn it is.
const LENT_LEN: usize = 64 << 10;

/// Least room for bytes that come, and bytes by which a buffer grows.
const ROOM: usize = 512;
const GROWTH: (usize, usize) = (4 << 10, 1 << 20);

/// A fault of a request, in Redis' words. The connection ends after it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl Fault {
    fn new(reason: &str) -> Fault {
        Fault(format!("ERR Protocol error: {reason}"))
    }
}

/// Bytes of a connection that are not commands yet.
#[derive(Default)]
pub struct Incoming {
    /// Bytes up to `end` have come; behind them is room.
    bytes: Vec<u8>,
    end: usize,
    /// Begin of the command that is read.
    begin: usize,
    reader: Reader,
    /// True if the command was read to its end.
    is_whole: bool,
}

impl Incoming {
    /// Takes a thread's buffer for a turn, where no bytes wait.
    pub fn borrow(&mut self, lent: &mut Vec<u8>) {
        if self.bytes.is_empty() {
            lent.resize(LENT_LEN, 0);
            mem::swap(&mut self.bytes, lent);
        }
    }

    /// Gives the buffer back. Bytes that wait move to memory of their own.
    pub fn give_back(&mut self, lent: &mut Vec<u8>) {
        let (is_own, is_long) = (!lent.is_empty(), self.bytes.len() > LENT_LEN);
        if self.len() == 0 {
            let used = mem::take(&mut self.bytes);
            if !is_own && !is_long {
                *lent = used;
            }
            (self.begin, self.end) = (0, 0);
        } else if !is_own && !is_long {
            let rest = self.bytes[self.begin..self.end].to_vec();
            (self.begin, self.end) = (0, rest.len());
            *lent = mem::replace(&mut self.bytes, rest);
        }
    }

    /// Room for bytes that come.
    pub fn room(&mut self) -> &mut [u8] {
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.bytes.len() - self.end < ROOM {
            // A long word grows its buffer by what has come, not by what the client says will come.
            self.bytes.resize(self.end + (self.end / 2).clamp(GROWTH.0, GROWTH.1), 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Counts bytes that came into the room.
    pub fn came(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.end - self.begin
    }

    /// Bytes of memory that a command which has begun takes.
    pub fn held(&self) -> usize {
        self.len() + self.reader.spans.len() * size_of::<Span>()
    }

    /// Reads the next command, unless one stands here. Returns false where it has not come as a whole. **Errors**: bytes that no client
    /// sends, or too many.
    pub fn next(&mut self, is_known: bool) -> Result<bool, Fault> {
        if self.is_whole {
            return Ok(true);
        }
        while self.reader.read(&self.bytes[self.begin..self.end], is_known)? {
            // An empty line or list is no command, and has no reply.
            self.is_whole = !self.reader.spans.is_empty();
            if self.is_whole {
                return Ok(true);
            }
            self.pass();
        }
        Ok(false)
    }

    /// The command that was read, until it is passed.
    pub fn words(&self) -> Words<'_> {
        let bytes = if self.reader.is_line { &self.reader.line } else { &self.bytes[self.begin..self.end] };
        Words::new(bytes, &self.reader.spans)
    }

    /// Goes behind the command that was read.
    pub fn pass(&mut self) {
        self.begin += self.reader.at;
        self.is_whole = false;
        self.reader.reset();
    }
}

/// A command that is read. Offsets count from its begin.
#[derive(Default)]
struct Reader {
    /// Bytes that were read.
    at: usize,
    /// Bytes behind them that have no line's end.
    searched: usize,
    /// Words of a list that are to come; `None` before its first line.
    missing: Option<usize>,
    /// Length of a word whose line was read.
    word_len: Option<usize>,
    /// Bytes of all words.
    sum: usize,
    spans: Vec<Span>,
    /// The words of a command of one line, without quotes.
    line: Vec<u8>,
    is_line: bool,
}

impl Reader {
    fn reset(&mut self) {
        let mut spans = mem::take(&mut self.spans);
        spans.clear();
        // A long command does not keep its memory.
        spans.shrink_to(64);
        *self = Reader { spans, ..Reader::default() };
    }

    /// Reads on. Returns true at the command's end.
    fn read(&mut self, bytes: &[u8], is_known: bool) -> Result<bool, Fault> {
        let mut missing = match self.missing {
            Some(missing) => missing,
            None => match bytes.first() {
                None => return Ok(false),
                Some(b'*') => {
                    let Some(line) = self.take_line(bytes, "too big mbulk count string")? else { return Ok(false) };
                    count_of(&line[1..], is_known)?
                }
                Some(_) => return self.read_line(bytes),
            },
        };
        while missing > 0 {
            if !self.read_word(bytes, is_known)? {
                self.missing = Some(missing);
                return Ok(false);
            }
            missing -= 1;
        }
        Ok(true)
    }

    /// Reads a word. Returns false where it has not come as a whole.
    fn read_word(&mut self, bytes: &[u8], is_known: bool) -> Result<bool, Fault> {
        let len = match self.word_len.take() {
            Some(len) => len,
            None => {
                let len = match self.take_short_len(bytes) {
                    Some(len) => len,
                    None => {
                        let Some(line) = self.take_line(bytes, "too big bulk count string")? else { return Ok(false) };
                        len_of(line, is_known)?
                    }
                };
                self.sum += len;
                if self.sum > COMMAND_LEN {
                    return Err(Fault::new("the words of a command are too long"));
                }
                len
            }
        };
        let (begin, end) = (self.at, self.at + len);
        match bytes.get(end..) {
            Some([b'\r', b'\n', ..]) => {
                self.spans.push((begin as u32, len as u32));
                self.at = end + 2;
                Ok(true)
            }
            None | Some([] | [b'\r']) => {
                self.word_len = Some(len);
                Ok(false)
            }
            Some(_) => Err(Fault::new("a word is not as long as it says")),
        }
    }

    /// Takes the line of a word's length, where it has come, and has one digit or two. Most words do, and bounds are higher.
    fn take_short_len(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.searched > 0 {
            return None;
        }
        let (len, taken) = match bytes.get(self.at..)? {
            [b'$', one @ b'0'..=b'9', b'\r', b'\n', ..] => (one - b'0', 4),
            [b'$', ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => (10 * (ten - b'0') + one - b'0', 5),
            _ => return None,
        };
        self.at += taken;
        Some(len.into())
    }

    /// Reads a command of one line.
    fn read_line(&mut self, bytes: &[u8]) -> Result<bool, Fault> {
        let Some(line) = self.take_line(bytes, "too big inline request")? else { return Ok(false) };
        self.is_line = true;
        split(line, &mut self.line, &mut self.spans).ok_or_else(|| Fault::new("unbalanced quotes in request"))?;
        Ok(true)
    }

    /// Takes the next line, without its end. **Errors**: one that is too long.
    fn take_line<'b>(&mut self, bytes: &'b [u8], too_long: &str) -> Result<Option<&'b [u8]>, Fault> {
        let rest = &bytes[self.at..];
        let new = &rest[self.searched..rest.len().min(LINE_LEN)];
        let Some(found) = new.iter().position(|byte| *byte == b'\n') else {
            self.searched += new.len();
            return if rest.len() >= LINE_LEN { Err(Fault::new(too_long)) } else { Ok(None) };
        };
        let end = self.searched + found;
        self.at += end + 1;
        self.searched = 0;
        let line = &rest[..end];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// Number of a list's words, by its first line.
fn count_of(digits: &[u8], is_known: bool) -> Result<usize, Fault> {
    let count = match number(digits) {
        Some(count) if count <= 0 => return Ok(0),
        Some(count) => usize::try_from(count).ok().filter(|count| *count <= WORDS),
        None => None,
    };
    match count {
        None => Err(Fault::new("invalid multibulk length")),
        Some(count) if !is_known && count > WORDS_BEFORE => Err(Fault::new("unauthenticated multibulk length")),
        Some(count) => Ok(count),
    }
}

/// Bytes of a word, by the line before it.
fn len_of(line: &[u8], is_known: bool) -> Result<usize, Fault> {
    let Some(digits) = line.strip_prefix(b"$") else {
        let other = line.first().map_or_else(String::new, |byte| byte.escape_ascii().to_string());
        return Err(Fault(format!("ERR Protocol error: expected '$', got '{other}'")));
    };
    let len = number(digits).and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= WORD_LEN);
    match len {
        None => Err(Fault::new("invalid bulk length")),
        Some(len) if !is_known && len > WORD_LEN_BEFORE => Err(Fault::new("unauthenticated bulk length")),
        Some(len) => Ok(len),
    }
}

/// A whole number of decimal digits. Redis takes no sign but the minus, and no zeros before a number.
pub fn number(text: &[u8]) -> Option<i64> {
    let (is_below, digits) = text.strip_prefix(b"-").map_or((false, text), |digits| (true, digits));
    match digits {
        [b'0'] if !is_below => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // Added below zero, where there is one number more.
    let sum = digits.iter().try_fold(0i64, |sum, digit| match digit {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_sub((digit - b'0').into()),
        _ => None,
    })?;
    if is_below { Some(sum) } else { sum.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sent = Vec<Vec<u8>>;

    /// All commands of some bytes, which come in pieces. A buffer is lent for each.
    fn all(bytes: &[u8], piece: usize, is_known: bool) -> Result<Vec<Sent>, Fault> {
        let (mut incoming, mut lent, mut all) = (Incoming::default(), Vec::new(), Vec::new());
        for mut some in bytes.chunks(piece) {
            incoming.borrow(&mut lent);
            while !some.is_empty() {
                let room = incoming.room();
                let len = room.len().min(some.len());
                room[..len].copy_from_slice(&some[..len]);
                incoming.came(len);
                some = &some[len..];
                while incoming.next(is_known)? {
                    all.push(incoming.words().iter().map(<[u8]>::to_vec).collect());
                    incoming.pass();
                }
            }
            incoming.give_back(&mut lent);
        }
        Ok(all)
    }

    fn words(words: &[&str]) -> Sent {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn commands_come_in_any_pieces() {
        let sent = b"*2\r\n$3\r\nGET\r\n$5\r\na\r\nb \r\nPING\r\n\r\n*0\r\n*-1\r\nSET a \"b c\" 'd'\n*1\r\n$0\r\n\r\n*1\r\n$12\r\na word of 12\r\n";
        let wanted = [
            words(&["GET", "a\r\nb "]),
            words(&["PING"]),
            words(&["SET", "a", "b c", "d"]),
            words(&[""]),
            words(&["a word of 12"]),
        ];
        for piece in (1..9).chain([sent.len()]) {
            assert_eq!(all(sent, piece, true).unwrap(), wanted, "pieces of {piece}");
        }
        let long = [b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3000000\r\n", &[b'x'; 3_000_000][..], b"\r\n*1\r\n$4\r\nPING\r\n"].concat();
        for piece in [1000, 65_536, 100_000, long.len()] {
            let got = all(&long, piece, true).unwrap();
            assert_eq!((got.len(), got[0][2].len(), &got[1]), (2, 3_000_000, &words(&["PING"])), "pieces of {piece}");
        }
    }

    #[test]
    fn a_byte_is_looked_at_once() {
        // A line and a list of the greatest lengths, byte by byte: reading either again from its begin takes minutes.
        let line = [&[b'a'; LINE_LEN - 2][..], b"\r\n"].concat();
        assert_eq!(all(&line, 1, true).unwrap(), [vec![vec![b'a'; LINE_LEN - 2]]]);
        let list = [format!("*{WORDS}\r\n").into_bytes(), b"$1\r\na\r\n".repeat(WORDS)].concat();
        assert_eq!(all(&list, 1, true).unwrap(), [vec![b"a".to_vec(); WORDS]]);
    }

    #[test]
    fn a_turn_keeps_no_more_than_what_waits() {
        let (mut incoming, mut lent) = (Incoming::default(), Vec::new());
        incoming.borrow(&mut lent);
        let sent = b"PING\r\n*1\r\n$4\r\nPI";
        incoming.room()[..sent.len()].copy_from_slice(sent);
        incoming.came(sent.len());
        assert!(incoming.next(true).unwrap());
        incoming.pass();
        assert!(!incoming.next(true).unwrap());
        incoming.give_back(&mut lent);
        assert_eq!((incoming.bytes.len(), incoming.len(), lent.len()), (10, 10, LENT_LEN));
        incoming.borrow(&mut lent);
        assert_eq!(lent.len(), LENT_LEN, "bytes that wait need no other buffer");
        incoming.room()[..4].copy_from_slice(b"NG\r\n");
        incoming.came(4);
        assert!(incoming.next(true).unwrap());
        incoming.pass();
        incoming.give_back(&mut lent);
        assert_eq!((incoming.bytes.capacity(), lent.len()), (0, LENT_LEN));
    }

    #[test]
    fn lengths_and_numbers_have_bounds() {
        for (sent, fault) in [
            (&b"*99999999999999999999\r\n"[..], "invalid multibulk length"),
            (b"*70000\r\n", "invalid multibulk length"),
            (b"*x\r\n", "invalid multibulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$67108865\r\n", "invalid bulk length"),
            (b"*1\r\n$+3\r\nGET\r\n", "invalid bulk length"),
            (b"*1\r\n$03\r\nGET\r\n", "invalid bulk length"),
            (b"*1\r\n:3\r\n", "expected '$', got ':'"),
            (b"*1\r\n$3\r\nGETT\r\n", "a word is not as long as it says"),
            (b"*3\r\n$67108864\r\n", ""),
            (b"SET a \"b", ""),
            (b"SET a \"b\n", "unbalanced quotes in request"),
        ] {
            let got = all(sent, 1, true);
            match fault {
                "" => assert_eq!(got, Ok(Vec::new())),
                _ => assert_eq!(got, Err(Fault(format!("ERR Protocol error: {fault}"))), "{}", sent.escape_ascii()),
            }
        }
        assert!(all(&[b'a'; LINE_LEN], 999, true).is_err() && all(&[b"*", &[b'1'; LINE_LEN][..]].concat(), 999, true).is_err());
        assert_eq!(all(b"*11\r\n", 9, false), Err(Fault::new("unauthenticated multibulk length")));
        assert_eq!(all(b"*1\r\n$16385\r\n", 9, false), Err(Fault::new("unauthenticated bulk length")));
        assert_eq!(all(b"*11\r\n", 9, true), Ok(Vec::new()));
        for (text, wanted) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            ("1x", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(number(text.as_bytes()), wanted, "{text}");
        }
    }

    #[global_allocator]
    static COUNTING: hanare_fuzz::Counting = hanare_fuzz::Counting;

    /// Any bytes are commands, a fault, or the begin of a command, whatever their pieces; memory grows by what came, not by what is promised.
    fn any(bytes: &[u8]) {
        for is_known in [false, true] {
            let whole = all(bytes, usize::MAX, is_known);
            if let Ok(all) = &whole {
                assert!(all.iter().flatten().map(Vec::len).sum::<usize>() <= bytes.len());
            }
            assert_eq!(all(bytes, 3, is_known), whole);
        }
        let _ = number(bytes);
    }

    #[test]
    fn requests_of_any_bytes() {
        let seeds =
            [&b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"[..], b"SET a \"b\\x0ac\"\r\n*1\r\n$4\r\nPING\r\n", b"*65536\r\n$67108864\r\n"];
        hanare_fuzz::drive("requests", &seeds.map(<[u8]>::to_vec), 1 << 20, any);
    }
}
