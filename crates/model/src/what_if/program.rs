//! What the ranks of a program do, step by step, whatever it was read from.
//!
//! A command is known by the messages that the product makes of it; their lengths are the wire's, from crate `protocol`.
use hanare_protocol::element::{RANGE_LEN, SUMMARY_LEN};
use hanare_protocol::limits::{PAGE_LEN, PAGES_ASKED_MAX};
use hanare_protocol::page::Streams;
use hanare_protocol::wire::command::COMMAND_LEN;
use hanare_protocol::wire::head::HEAD_LEN;
use hanare_protocol::wire::page::{GRANTED_LEN, PAGE_REQUEST_LEN};

use crate::time::Picos;

/// Where the memory of a command lies, as its rank sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the rank's own node.
    Near,
    /// On the node after the rank's own.
    Far,
    /// In equal parts on all nodes.
    Spread,
    /// On that node.
    Node(usize),
}

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Bytes here.
    Get,
    /// Bytes there.
    Put,
    /// Elements at a stride here.
    Strided,
    /// Elements by their indices here.
    Gather,
    /// Elements by their indices there.
    Scatter,
    /// Elements by their indices changed there, each by an operand.
    Update,
    /// A word changed there, and what it was here.
    Fetch,
    /// A summary of all elements.
    Scan,
    /// Bytes from the node after the one that the place names to that one, and past this host; near: within it.
    Copy,
}

impl Verb {
    /// All, by their names in patterns.
    pub const ALL: [(&str, Verb); 9] = [
        ("get", Verb::Get),
        ("put", Verb::Put),
        ("strided", Verb::Strided),
        ("gather", Verb::Gather),
        ("scatter", Verb::Scatter),
        ("update", Verb::Update),
        ("fetch", Verb::Fetch),
        ("scan", Verb::Scan),
        ("copy", Verb::Copy),
    ];

    /// Its name in patterns and tables.
    pub fn name(self) -> &'static str {
        Verb::ALL.iter().find(|(_, verb)| *verb == self).map_or("command", |(name, _)| name)
    }

    /// Whether it names elements of its own, each a piece of work for who runs it.
    pub fn has_elements(self) -> bool {
        matches!(self, Verb::Strided | Verb::Gather | Verb::Scatter | Verb::Update)
    }

    /// Whether each element has an index in the command's list.
    fn has_list(self) -> bool {
        matches!(self, Verb::Gather | Verb::Scatter | Verb::Update)
    }
}

/// A command of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorCommand {
    /// The operation of the step.
    pub verb: Verb,
    /// Elements; one for a get or put of contiguous bytes.
    pub elements: u64,
    /// Bytes of an element.
    pub len: u64,
    /// Where its memory lies.
    pub place: Place,
}

/// Bytes of a request and of its answer, heads included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Of the request.
    pub request: u64,
    /// Of the answer.
    pub answer: u64,
}

/// Bytes of a usual address of a node, filled up.
const SOURCE_ADDRESS_LEN: u64 = 16;

/// Bytes of an index in a command's list.
const INDEX_LEN: u64 = 4;

impl VectorCommand {
    /// Bytes that the program asks for.
    pub fn bytes(&self) -> u64 {
        self.elements * self.len
    }

    /// The lengths of the message to one node that does `elements` of its elements. [`Verb::Strided`] and contiguous bytes
    /// need no list; a list is filled up to a multiple of eight.
    pub fn lengths(&self, elements: u64) -> Lengths {
        let bytes = elements * self.len;
        let list = if self.verb.has_list() { (elements * INDEX_LEN).next_multiple_of(8) } else { 0 };
        let (operand, result) = match self.verb {
            Verb::Get | Verb::Strided | Verb::Gather => (0, bytes),
            Verb::Put | Verb::Scatter | Verb::Update => (bytes, 0),
            Verb::Fetch => (bytes, bytes),
            Verb::Scan => (RANGE_LEN, SUMMARY_LEN),
            // The command of the source, and where its node is.
            Verb::Copy => (COMMAND_LEN as u64 + SOURCE_ADDRESS_LEN, 0),
        };
        let head = HEAD_LEN as u64;
        Lengths { request: head + COMMAND_LEN as u64 + list + operand, answer: head + result }
    }
}

/// The lengths of the messages by which pages are brought: of at most [`PAGES_ASKED_MAX`] each.
pub fn page_messages(pages: u64) -> impl Iterator<Item = Lengths> {
    let most = PAGES_ASKED_MAX as u64;
    (0..pages.div_ceil(most)).map(move |message| {
        let (head, count) = (HEAD_LEN as u64, most.min(pages - message * most));
        Lengths { request: head + count * PAGE_REQUEST_LEN as u64, answer: head + count * (GRANTED_LEN as u64 + PAGE_LEN) }
    })
}

/// The faults of a program that reads all pages of a region, so many, one after another, by the product's own rule; and what it waits for
/// between them.
pub fn walk(pages: u64) -> Vec<Step> {
    let (streams, mut page, mut steps) = (Streams::default(), 0, Vec::new());
    while page < pages {
        let stream = streams.find(page, 0);
        let next = (page + 1 + stream.ahead).min(pages);
        streams.go_on(stream, page, next, None);
        steps.extend([Step::Bring { pages: next - page }, Step::Wait { left: 0 }]);
        page = next;
    }
    steps
}

/// One step of a rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The program computes.
    Compute(Picos),
    /// The program begins a command, and goes on while fewer than the phase's depth are under way.
    Command(VectorCommand),
    /// A request of known lengths to known nodes, as it was recorded.
    Requests(Vec<(usize, Lengths)>),
    /// The program waits until at most `left` of its requests are not answered.
    Wait {
        /// Requests that may stay open.
        left: u64,
    },
    /// The program waits for all that it has begun, then for all ranks.
    Barrier,
    /// The program waits for all that it has begun, then takes the lock that all ranks take.
    Lock,
    /// The program waits for all that it has begun, then gives the lock back.
    Unlock,
    /// Work on memory of this host, which no network changes: it takes as long as it was recorded to.
    Local(Picos),
    /// Recorded time that the model does not explain; it stays.
    Kept(Picos),
    /// A rank comes to a moment that another may wait for.
    Tell(u32),
    /// The program waits until a rank has come to a moment.
    Hear(u32),
    /// The program touches the next page of a region that all map coherently.
    Touch {
        /// Whether it stores.
        writes: bool,
        /// Where the page's home is.
        place: Place,
    },
    /// The program touches the next page of a stream of another node's pages, and those behind it are brought along.
    Bring {
        /// All of them.
        pages: u64,
    },
}

/// Steps that are repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The steps.
    pub steps: Vec<Step>,
    /// Number of turns.
    pub times: u64,
    /// Commands that may be under way at a time.
    pub depth: u64,
}

/// What every rank does.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What it was read from, for people.
    pub name: String,
    /// The phases of each rank; a rank beyond the last does what rank 0 does.
    pub ranks: Vec<Vec<Phase>>,
    /// Ranks that the source names; none where the user may choose.
    pub rank_count: Option<usize>,
}

impl Program {
    /// The phases of a rank.
    pub fn phases(&self, rank: usize) -> &[Phase] {
        self.ranks.get(rank).unwrap_or(&self.ranks[0])
    }

    /// Steps of all of a rank's phases.
    pub fn step_count(&self, rank: usize) -> u64 {
        self.phases(rank).iter().map(|phase| phase.times.saturating_mul(phase.steps.len() as u64)).sum()
    }

    /// Whether any rank has a step of that kind.
    pub fn has(&self, is: impl Fn(&Step) -> bool) -> bool {
        self.ranks.iter().flatten().flat_map(|phase| &phase.steps).any(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_brings_twice_as_much_each_time() {
        let brought = |count| {
            let pages = |step: &Step| if let Step::Bring { pages } = step { Some(*pages) } else { None };
            walk(count).iter().filter_map(pages).collect::<Vec<_>>()
        };
        assert_eq!(brought(1000), [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 233]);
        let lengths = |request, answer| Lengths { request, answer };
        let (full, rest) = (lengths(32 + 64 * 24, 32 + 64 * (8 + 4096)), lengths(32 + 24, 32 + 8 + 4096));
        assert_eq!(page_messages(129).collect::<Vec<_>>(), [full, full, rest]);
    }

    #[test]
    fn messages_have_the_wires_lengths() {
        let lengths = |verb, elements, len| VectorCommand { verb, elements, len, place: Place::Far }.lengths(elements);
        assert_eq!(lengths(Verb::Get, 1, 4096), Lengths { request: 96, answer: 32 + 4096 });
        assert_eq!(lengths(Verb::Put, 1, 8), Lengths { request: 104, answer: 32 });
        assert_eq!(lengths(Verb::Gather, 3, 8), Lengths { request: 96 + 16, answer: 32 + 24 });
        assert_eq!(lengths(Verb::Strided, 3, 8), Lengths { request: 96, answer: 32 + 24 });
        assert_eq!(lengths(Verb::Update, 64, 8), Lengths { request: 96 + 256 + 512, answer: 32 });
    }
}
