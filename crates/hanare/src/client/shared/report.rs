//! The last line of a program that touches a page nobody can supply: written inside the signal handler.

use hanare_memory::fault::Resolved;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::PAGE_LEN;
use std::fmt::Write;

/// Report on one region's pages.
pub(crate) struct Report {
    name: Box<str>,
}

/// Longest line: a name has 255 bytes at most.
const LINE_LEN: usize = 600;

/// A line for the standard error output, written without an allocation or a lock: a signal handler may do so. The part that does not
/// fit is cut.
pub(crate) struct Line {
    bytes: [u8; LINE_LEN],
    len: usize,
}

impl Line {
    pub fn new() -> Line {
        Line { bytes: [0; LINE_LEN], len: 0 }
    }

    /// Writes it.
    pub fn print(mut self) {
        self.bytes[self.len] = b'\n';
        let _ = rustix::io::write(rustix::stdio::stderr(), &self.bytes[..self.len + 1]);
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let len = text.len().min(LINE_LEN - 1 - self.len);
        self.bytes[self.len..self.len + len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

impl Report {
    /// For a region of that name.
    pub fn new(name: &str) -> Report {
        Report { name: name.into() }
    }

    /// Says on the standard error output why a page cannot be had. Async-signal-safe.
    pub fn lost(&self, page: u64, home: NodeId, why: &str) -> Resolved {
        self.say(page, format_args!("its home, node {}, cannot give it ({why})", home.0))
    }

    /// The same of a page that several nodes hold.
    pub fn lost_by_all(&self, page: u64, why: &str) -> Resolved {
        self.say(page, format_args!("its region has copies, and no node that holds it can give it ({why})"))
    }

    /// The same where this host cannot have it, whatever its home does.
    pub fn lost_here(&self, page: u64, why: &str) -> Resolved {
        self.say(page, format_args!("this host cannot have it ({why})"))
    }

    fn say(&self, page: u64, what: std::fmt::Arguments<'_>) -> Resolved {
        let mut line = Line::new();
        let (name, offset) = (&self.name, page * PAGE_LEN);
        let _ = write!(line, "hanare: region '{name}', offset {offset}: {what}; the access ends with SIGBUS");
        line.print();
        Resolved::Lost
    }
}
