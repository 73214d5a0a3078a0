//! The last line of a program that touches a page nobody can supply: written inside the signal handler.

use hanare_memory::fault::Resolved;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::PAGE_LEN;

/// What is said of one region's pages.
pub(crate) struct Report {
    name: Box<str>,
}

/// Room for a line; a longer one is cut.
const LINE_LEN: usize = 512;

struct Line {
    bytes: [u8; LINE_LEN],
    len: usize,
}

impl Line {
    fn push(&mut self, text: &str) {
        let text = &text.as_bytes()[..text.len().min(LINE_LEN - 1 - self.len)];
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    fn push_number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(std::str::from_utf8(&digits[at..]).unwrap_or_default());
    }
}

impl Report {
    /// For a region of that name.
    pub fn new(name: &str) -> Report {
        Report { name: name.into() }
    }

    /// Says on the standard error output why a page cannot be had. Async-signal-safe.
    pub fn lost(&self, page: u64, node: NodeId, why: &str) -> Resolved {
        let mut line = Line { bytes: [0; LINE_LEN], len: 0 };
        line.push("hanare: region '");
        line.push(&self.name);
        line.push("', offset ");
        line.push_number(page * PAGE_LEN);
        line.push(": its home, node ");
        line.push_number(node.0.into());
        line.push(", cannot give it (");
        line.push(why);
        line.push("); the access ends with SIGBUS\n");
        let _ = rustix::io::write(rustix::stdio::stderr(), &line.bytes[..line.len]);
        Resolved::Lost
    }
}
