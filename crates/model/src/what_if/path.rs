//! What time was spent on, along a chain of causes.
use crate::time::Picos;

/// What a piece of time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expense {
    /// The program's own work.
    Computing,
    /// Memory of this host, or loads and stores over a network that has them.
    Memory,
    /// The library's work in the program: requests, answers, faults.
    Library,
    /// The work of a node's thread for requests.
    Serving,
    /// Waiting for a node's thread that serves others.
    Node,
    /// Waiting for a processor that others have.
    Processor,
    /// Threads that had parked and wake up.
    Waking,
    /// The way through an empty network.
    Latency,
    /// Bytes on the slowest link.
    Bytes,
    /// Waiting for links that others have.
    Link,
    /// Recorded time that the model does not explain.
    Kept,
}

impl Expense {
    /// All, in the order of tables.
    pub const ALL: [Expense; 11] = [
        Expense::Computing,
        Expense::Memory,
        Expense::Library,
        Expense::Serving,
        Expense::Node,
        Expense::Processor,
        Expense::Waking,
        Expense::Latency,
        Expense::Bytes,
        Expense::Link,
        Expense::Kept,
    ];

    /// The words of tables.
    pub fn name(self) -> &'static str {
        match self {
            Expense::Computing => "computing",
            Expense::Memory => "memory of this host, or loads",
            Expense::Library => "the library's work",
            Expense::Serving => "a node's work",
            Expense::Node => "waiting for a node's thread",
            Expense::Processor => "waiting for a processor",
            Expense::Waking => "waking up",
            Expense::Latency => "latency",
            Expense::Bytes => "bytes on the line",
            Expense::Link => "waiting for links",
            Expense::Kept => "kept as recorded",
        }
    }
}

/// The time until a moment, by what it was spent on. The parts add up to the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    spent: [Picos; Expense::ALL.len()],
}

impl Path {
    /// Goes on by a span.
    pub fn add(&mut self, cause: Expense, span: Picos) {
        self.spent[cause as usize] += span;
    }

    /// The time spent on a cause.
    pub fn of(&self, cause: Expense) -> Picos {
        self.spent[cause as usize]
    }

    /// The moment it reaches.
    pub fn total(&self) -> Picos {
        self.spent.iter().copied().sum()
    }
}
