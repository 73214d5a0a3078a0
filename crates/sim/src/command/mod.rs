//! Commands of programs that give up or die, simulated: what was answered stays.
//!
//! Each *line* of programs writes versions 1, 2, 3 … of one block, by puts and by copies from elsewhere. A program that gets no answer
//! in time gives its connection up, opens the next, and goes on; one that is killed has a successor on the same host. Paths between
//! hosts lose packets for a while and keep their order otherwise; nodes stop and go on.
//!
//! | way | what the kernel does for a connection that is closed |
//! |---|---|
//! | `Tcp` | it discards what was not sent, and sends a reset, which may be lost |
//! | `Ucx` | it goes on sending, because the library's sockets are its own; the socket beside them sends a reset, which may be lost |
//! | `Ring` | nothing: the bytes lie in shared memory; the node hears of the end at once |
//!
//! Known limits, which this world leaves out. A program may die while its packets are lost, so that no reset reaches the node. Then the
//! node goes on with what it had received, such as a copy that waits for its source. Sockets of UCX send for the dead in that case, too;
//! over RDMA no kernel sends for anybody.
//!
//! The judge: once a version was answered, no byte of an older one is there. A program that gives a command up asks, on its next
//! connection, what became of it: what is said to be done is there, and what is said not to be done never comes. Each user with links
//! that are awake has a turn in each round of a node.
//!
//! | module | holds |
//! |---|---|
//! | `node` | nodes: buffers, rounds of turns, copies under way; the product's sessions and fairness |
//! | `sources` | links over which copies fetch bytes: the product's fetches ([`hanare_home::FetchLink`]), some into extents that hosts map |
//! | `programs` | what programs do, and how they end |
//!
//! Links are those of all worlds ([`ServedLink`](crate::served_link::ServedLink)): the product's commands, fed with bytes as they come.

mod node;
mod programs;
mod sources;

use crate::check::{Check, check};
use crate::dice::Dice;
use crate::harness::{Course, World, defects, on_course};
use crate::served_link::Piece;
use node::Node;
use programs::{Channel, Line};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Lines of programs on each host.
const LINE_COUNT: u64 = 2;
/// Most pieces in which a command's bytes arrive: more than a node takes in the time of a round trip.
const PIECE_COUNT_MAX: u64 = 12;
/// Bytes of a word, which has the version that wrote it; and of a line.
const WORD_LEN: u64 = 8;
const LINE_LEN: u64 = 2 * PIECE_COUNT_MAX * WORD_LEN;

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A greeting reaches a node.
    Greeting {
        connection: u64,
    },
    /// A piece of a command reaches a node's kernel.
    Piece {
        connection: u64,
        piece: Piece,
    },
    /// The news that a connection was closed reaches a node's kernel.
    Reset {
        connection: u64,
    },
    /// A node's service looks at what is there.
    Serve {
        node: u64,
    },
    /// A node has a link to another that a copy's source is on.
    Dialed {
        node: u64,
        address: String,
    },
    /// Bytes have come over such a link.
    Came {
        node: u64,
        link: u64,
    },
    /// Pages that such bytes wait for are at home.
    Home {
        node: u64,
        link: u64,
    },
    /// An answer reaches a program.
    Answer {
        connection: u64,
        version: u64,
    },
    /// A program is welcome at a node.
    Welcome {
        connection: u64,
    },
    /// A program does its next thing.
    Next {
        line: u64,
        life: u64,
    },
    /// A program has waited long enough.
    Bound {
        line: u64,
        life: u64,
        version: u64,
    },
    /// Another program goes on for one that was killed.
    Successor {
        line: u64,
    },
    /// Packets pass again.
    Heal {
        line: u64,
    },
    /// The kernels of a connection's two ends send again what was lost.
    Resend {
        connection: u64,
    },
    Fault,
}

/// A command that was given up: its connection, its version, and what that writes.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    connection: u64,
    version: u64,
    words: Words,
}

/// Words of a line that a version writes: `count` words, one in `step`.
#[derive(Clone, Copy, Debug)]
struct Words {
    count: u64,
    step: u64,
}

defects! {
    /// Closing a connection leaves what was not sent to the kernel.
    SendOn,
    /// A node goes on with a connection whose successor it greeted.
    ServeBoth,
    /// Copies go on when their session has ended.
    KeepFetching,
    /// A link is kept whose bytes are on their way into an extent for a session that has ended.
    KeepLink,
    /// A node reads what the dead left before it looks who is dead.
    ServeTheDead,
    /// A node answers a command when it begins to come.
    AnswerFirst,
    /// A node ends its round when the links of one user had their turn.
    ServeOneUser,
}

/// Commands of programs that give up or die.
pub(crate) struct CommandWorld {
    course: Course<Event, Defect>,
    nodes: Vec<Node>,
    lines: Vec<Line>,
    connections: BTreeMap<u64, Channel>,
    connection_count: u64,
    series_count: u64,
    /// The newest version of each line whose command was answered.
    answered: Vec<u64>,
    /// Lines that the judge is to look at.
    touched: BTreeSet<u64>,
    /// Lines and versions that were said not to be done.
    undone: BTreeSet<(u64, u64)>,
    /// The newest version that was answered, of each word of each line.
    floors: Vec<[u64; (LINE_LEN / WORD_LEN) as usize]>,
}

on_course!(CommandWorld);

impl World for CommandWorld {
    const NAME: &'static str = "commands";
    type Event = Event;
    type Defect = Defect;

    fn begin(course: Course<Event, Defect>) -> CommandWorld {
        let nodes = u64::from(course.plan.nodes);
        let mut world = CommandWorld {
            course,
            nodes: (0..nodes).map(|_| Node::new(nodes * LINE_COUNT)).collect(),
            lines: Vec::new(),
            connections: BTreeMap::new(),
            connection_count: 0,
            series_count: 0,
            answered: vec![0; (nodes * LINE_COUNT) as usize],
            touched: BTreeSet::new(),
            undone: BTreeSet::new(),
            floors: vec![[0; (LINE_LEN / WORD_LEN) as usize]; (nodes * LINE_COUNT) as usize],
        };
        for line in 0..nodes * LINE_COUNT {
            let made = Line::throw(line % nodes, nodes, &mut world.course.dice);
            world.lines.push(made);
            world.at(line, Event::Successor { line });
        }
        world.at(1_000, Event::Fault);
        world
    }

    fn act(&mut self, event: Event) -> Check {
        match event {
            Event::Greeting { connection } => self.on_greeting(connection),
            Event::Piece { connection, piece } => self.on_piece(connection, piece),
            Event::Reset { connection } => self.on_reset(connection),
            Event::Serve { node } => self.on_serve(node),
            Event::Dialed { node, address } => self.on_dialed(node, address),
            Event::Came { node, link } => self.on_came(node, link),
            Event::Home { node, link } => self.on_home(node, link),
            Event::Answer { connection, version } => self.on_answer(connection, version),
            Event::Welcome { connection } => self.on_welcome(connection),
            Event::Next { line, life } => self.on_next(line, life),
            Event::Bound { line, life, version } => self.on_bound(line, life, version),
            Event::Successor { line } => self.on_successor(line),
            Event::Heal { line } => self.on_heal(line),
            Event::Resend { connection } => self.on_resend(connection),
            Event::Fault => self.on_fault(),
        }
    }

    fn calm(&mut self) -> Check {
        (0..self.lines.len() as u64).try_for_each(|line| self.on_heal(line))
    }

    /// No word is older than what was answered, or of a command that was said not to be done.
    fn judge(&mut self) -> Check {
        std::mem::take(&mut self.touched).into_iter().try_for_each(|line| {
            let node = &self.nodes[self.lines[line as usize].node as usize];
            (0..).zip(&self.floors[line as usize]).try_for_each(|(word, floor)| {
                let version = node.word(line, word);
                check(version >= *floor, || format!("line {line}: word {word} has version {version}, and {floor} was answered"))?;
                let is_undone = self.undone.contains(&(line, version));
                check(!is_undone, || format!("line {line}: word {word} has version {version}, which was said not to be done"))
            })
        })
    }

    /// Checks that no line hangs: all have had replies since the faults ended.
    fn judge_rest(&mut self) -> Check {
        let since = self.plan.rough_ms();
        self.lines.iter().enumerate().try_for_each(|(line, state)| {
            check(state.answered_ms > since, || format!("line {line} has got no answer since the faults ended: {state:?}"))
        })
    }
}

impl CommandWorld {
    /// Something goes wrong, and the next thing is planned.
    fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(50, 1_500);
        self.at(after, Event::Fault);
        let line = self.course.dice.below(self.lines.len() as u64);
        match self.dice.below(4) {
            0 => self.cut(line),
            1 => self.kill(line),
            2 => {
                // The program dies while nobody hears of it.
                self.cut(line);
                let after = self.dice.between(0, 300);
                self.at(after, Event::Next { line, life: u64::MAX });
            }
            _ => {
                let node = self.course.dice.below(self.nodes.len() as u64);
                let time = self.dice.pick(&[20, 300, 1_500, 4_000]);
                self.note(format!("node {node} is stopped for {time} ms"));
                self.count("stops of nodes");
                let state = &mut self.nodes[node as usize];
                (state.stopped_until_ms, state.was_stopped) = (self.course.now_ms + time, true);
                self.at(time, Event::Serve { node });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::harness::testing::{finds_all, meets};

    #[test]
    fn what_was_answered_stays() {
        let (mut told, mut dropped) = (0, 0);
        for seed in 0..40 {
            let whats = [
                "answers",
                "commands given up",
                "programs killed",
                "copies",
                "stages of copies that waited for pages",
                "resets lost",
                "connections ended by their successor",
            ];
            let counts = meets::<CommandWorld>(Plan { seed, nodes: 3, minutes: 3.0 }, 0, &whats);
            told += counts.get("commands known to be done").copied().unwrap_or(0);
            dropped += counts.get("links dropped under a copy").copied().unwrap_or(0);
        }
        assert!(told > 0, "no program heard that a command that it gave up was done");
        assert!(dropped > 0, "no session ended under a copy");
    }

    #[test]
    fn each_defect_is_found() {
        let whats = ["was answered", "had no turn", "said not to be done"];
        finds_all::<CommandWorld>((|_| 0, 40), (3, 3.0), |failure| {
            assert!(whats.iter().any(|what| failure.what.contains(what)), "{failure}");
        });
    }
}
