//! Commands as a client sends them: a list of words, each with its length before it, or one line of words.

use std::io;

/// Words of a command, and bytes of a word and of all words. Redis allows 512 MiB for a word.
const WORDS: usize = 1 << 16;
const WORD_LEN: usize = 64 << 20;
const COMMAND_LEN: usize = 128 << 20;

/// The same before a client has proved who it is, as in Redis.
const WORDS_BEFORE: usize = 10;
const WORD_LEN_BEFORE: usize = 16 << 10;

/// Bytes of a line: of a length, or of a command of one line.
const LINE_LEN: usize = 64 << 10;

/// A command: its name, and the words behind it.
pub type Words = Vec<Vec<u8>>;

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
    bytes: Vec<u8>,
    /// Bytes before it were taken.
    at: usize,
}

impl Incoming {
    /// Room for bytes that come.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        let len = self.bytes.len();
        // A long word grows its buffer by what has come, not by what the client says will come.
        self.bytes.resize(len + (len / 2).clamp(16 << 10, 1 << 20), 0);
        let read = read(&mut self.bytes[len..]);
        self.bytes.truncate(len + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Takes the next command; `None` where it has not come as a whole. **Errors**: bytes that no client sends, or too many.
    pub fn next(&mut self, is_known: bool) -> Result<Option<Words>, Fault> {
        loop {
            let mut reader = Reader { rest: &self.bytes[self.at..], is_known };
            let Some(words) = reader.command()? else { return Ok(None) };
            self.at = self.bytes.len() - reader.rest.len();
            if self.at == self.bytes.len() {
                self.at = 0;
                self.bytes.clear();
                // A long command does not keep its memory.
                self.bytes.shrink_to(64 << 10);
            }
            // An empty line or list is no command, and has no reply.
            if !words.is_empty() {
                return Ok(Some(words));
            }
        }
    }
}

/// A read of one command.
struct Reader<'b> {
    rest: &'b [u8],
    is_known: bool,
}

impl<'b> Reader<'b> {
    fn command(&mut self) -> Result<Option<Words>, Fault> {
        match self.rest.first() {
            None => Ok(None),
            Some(b'*') => self.list(),
            Some(_) => match self.line("too big inline request")? {
                Some(line) => words_of_line(line).map(Some),
                None => Ok(None),
            },
        }
    }

    fn list(&mut self) -> Result<Option<Words>, Fault> {
        let (words, word_len) = if self.is_known { (WORDS, WORD_LEN) } else { (WORDS_BEFORE, WORD_LEN_BEFORE) };
        let Some(line) = self.line("too big mbulk count string")? else { return Ok(None) };
        let count = match number(&line[1..]) {
            Some(count) if count <= 0 => return Ok(Some(Vec::new())),
            Some(count) => usize::try_from(count).ok().filter(|count| *count <= WORDS),
            None => None,
        };
        let count = count.ok_or_else(|| Fault::new("invalid multibulk length"))?;
        if count > words {
            return Err(Fault::new("unauthenticated multibulk length"));
        }
        let (mut taken, mut sum) = (Vec::new(), 0);
        for _ in 0..count {
            let Some(line) = self.line("too big bulk count string")? else { return Ok(None) };
            let Some(digits) = line.strip_prefix(b"$") else {
                let other = line.first().map_or_else(String::new, |byte| byte.escape_ascii().to_string());
                return Err(Fault(format!("ERR Protocol error: expected '$', got '{other}'")));
            };
            let len = number(digits).and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= WORD_LEN);
            let len = len.ok_or_else(|| Fault::new("invalid bulk length"))?;
            if len > word_len {
                return Err(Fault::new("unauthenticated bulk length"));
            }
            sum += len;
            if sum > COMMAND_LEN {
                return Err(Fault::new("the words of a command are too long"));
            }
            let Some((word, rest)) = self.rest.split_at_checked(len) else { return Ok(None) };
            match rest {
                [b'\r', b'\n', rest @ ..] => self.rest = rest,
                [] | [b'\r'] => return Ok(None),
                _ => return Err(Fault::new("a word is not as long as it says")),
            }
            taken.push(word);
        }
        Ok(Some(taken.into_iter().map(<[u8]>::to_vec).collect()))
    }

    /// The next line without its end. **Errors**: one that is too long.
    fn line(&mut self, too_long: &str) -> Result<Option<&'b [u8]>, Fault> {
        let Some(end) = self.rest.iter().take(LINE_LEN).position(|byte| *byte == b'\n') else {
            return if self.rest.len() >= LINE_LEN { Err(Fault::new(too_long)) } else { Ok(None) };
        };
        let (line, rest) = (&self.rest[..end], &self.rest[end + 1..]);
        self.rest = rest;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// A whole number of decimal digits.
pub fn number(digits: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(digits).ok()?;
    // Redis takes no sign but the minus, and no zeros before a number.
    let is_plain = text == "0" || text.strip_prefix('-').unwrap_or(text).starts_with(|first: char| ('1'..='9').contains(&first));
    text.parse().ok().filter(|_| is_plain)
}

/// Words of a line, apart by blanks. Quotes, as people type them, keep blanks inside.
fn words_of_line(line: &[u8]) -> Result<Words, Fault> {
    let (mut words, mut rest) = (Vec::new(), line.trim_ascii());
    while let Some(first) = rest.first() {
        let (word, after) = match first {
            b'"' | b'\'' => {
                let end = rest[1..].iter().position(|byte| byte == first);
                let end = end.ok_or_else(|| Fault::new("unbalanced quotes in request"))?;
                (&rest[1..=end], &rest[end + 2..])
            }
            _ => rest.split_at(rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len())),
        };
        words.push(word.to_vec());
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], is_known: bool) -> Result<Vec<Words>, Fault> {
        let mut incoming = Incoming { bytes: bytes.to_vec(), at: 0 };
        let mut all = Vec::new();
        while let Some(words) = incoming.next(is_known)? {
            all.push(words);
        }
        Ok(all)
    }

    fn words(words: &[&str]) -> Words {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn commands_come_in_any_pieces() {
        let sent = b"*2\r\n$3\r\nGET\r\n$5\r\na\r\nb \r\nPING\r\n\r\n*0\r\n*-1\r\nSET a \"b c\" 'd'\n*1\r\n$0\r\n\r\n";
        let wanted = [words(&["GET", "a\r\nb "]), words(&["PING"]), words(&["SET", "a", "b c", "d"]), words(&[""])];
        assert_eq!(all(sent, true).unwrap(), wanted);
        for piece in 1..9 {
            let (mut incoming, mut got) = (Incoming::default(), Vec::new());
            for some in sent.chunks(piece) {
                incoming
                    .fill(|into| {
                        into[..some.len()].copy_from_slice(some);
                        Ok(some.len())
                    })
                    .unwrap();
                while let Some(words) = incoming.next(true).unwrap() {
                    got.push(words);
                }
            }
            assert_eq!((got, incoming.len()), (wanted.to_vec(), 0), "pieces of {piece}");
        }
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
            (b"*1\r\n:3\r\n", "expected '$', got ':'"),
            (b"*1\r\n$3\r\nGETT\r\n", "a word is not as long as it says"),
            (b"SET a \"b", ""),
            (b"SET a \"b\n", "unbalanced quotes in request"),
        ] {
            let got = all(sent, true);
            match fault {
                "" => assert_eq!(got, Ok(Vec::new())),
                _ => assert_eq!(got, Err(Fault(format!("ERR Protocol error: {fault}"))), "{}", sent.escape_ascii()),
            }
        }
        assert!(all(&[b'a'; LINE_LEN], true).is_err() && all(&[b"*", &[b'1'; LINE_LEN][..]].concat(), true).is_err());
        assert_eq!(all(b"*11\r\n", false), Err(Fault::new("unauthenticated multibulk length")));
        assert_eq!(all(b"*1\r\n$16385\r\n", false), Err(Fault::new("unauthenticated bulk length")));
        assert_eq!(all(b"*11\r\n", true), Ok(Vec::new()));
    }

    #[global_allocator]
    static COUNTING: hanare_fuzz::Counting = hanare_fuzz::Counting;

    /// Any bytes are commands, a fault, or the begin of a command; memory grows by what came, not by what is promised.
    fn any(bytes: &[u8]) {
        for is_known in [false, true] {
            if let Ok(all) = all(bytes, is_known) {
                assert!(all.iter().flatten().map(Vec::len).sum::<usize>() <= bytes.len());
            }
        }
        let _ = number(bytes);
    }

    #[test]
    fn requests_of_any_bytes() {
        let seeds =
            [&b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"[..], b"SET a \"b c\"\r\n*1\r\n$4\r\nPING\r\n", b"*65536\r\n$67108864\r\n"];
        hanare_fuzz::drive("requests", &seeds.map(<[u8]>::to_vec), 1 << 20, any);
    }
}
