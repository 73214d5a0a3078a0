//! Commands of programs that give up or die, simulated: what was answered stays.
//!
//! Each *line* of programs writes versions 1, 2, 3 … of one block, by puts and by copies from elsewhere. A program that gets no answer
//! in time gives its connection up, opens the next, and goes on; one that is killed has a successor on the same host. Paths between
//! hosts lose packets for a while and keep their order otherwise; nodes stop and go on.
//!
//! | way | what the kernel does for a connection that is closed |
//! |---|---|
//! | `Tcp` | it discards what was not sent, and sends a reset, which may be lost |
//! | `Ucx` | it goes on sending, since the library's sockets are its own; the socket beside them sends a reset, which may be lost |
//! | `Ring` | nothing: the bytes lie in shared memory; the node hears of the end at once |
//!
//! Known limits, which this world leaves out. A program dies while its packets are lost, so that no reset reaches the node: then the node
//! goes on with what it had received, such as a copy that waits for its source. Sockets of UCX send for the dead in that case, too; over
//! RDMA no kernel sends for anybody.
//!
//! The judge: once a version was answered, no byte of an older one is written.
//!
//! | module | holds |
//! |---|---|
//! | `node` | nodes: buffers, turns, copies under way, the product's [`hanare_protocol::session::Sessions`] |
//! | `programs` | what programs do, and how they end |

mod node;
mod programs;

use crate::check::{Check, all_held, check};
use crate::dice::Dice;
use crate::report::{Counts, Failure, Plan};
use node::Node;
use programs::{Channel, Line};
use std::collections::{BTreeMap, VecDeque};

/// Lines of programs on each host.
const LINE_COUNT: u64 = 2;
/// Most pieces in which a command's bytes arrive: more than a node takes in the time of a round trip.
const PIECE_COUNT_MAX: u64 = 12;
/// Virtual time after the faults in which everything must come to rest.
const QUIET_MS: u64 = 60_000;
/// How many of the last events a failure shows.
const TRAIL_LEN: usize = 60;

#[derive(Clone, Debug)]
enum Event {
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
    /// Bytes of another node have come for a copy.
    Fetched {
        node: u64,
        connection: u64,
        piece: Piece,
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
    Calm,
}

/// A piece of a command.
#[derive(Clone, Copy, Debug)]
struct Piece {
    line: u64,
    version: u64,
    number: u64,
    /// Whether the command ends with it.
    is_last: bool,
    /// Whether the bytes are fetched from another node.
    is_copy: bool,
}

/// A defect put in on purpose: the checks must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    /// None: the real thing.
    None,
    /// Closing a connection leaves what was not sent to the kernel.
    SendOn,
    /// A node goes on with a connection whose successor it greeted.
    ServeBoth,
    /// Copies go on when their session has ended.
    KeepFetching,
    /// A node reads what the dead left before it looks who is dead.
    ServeTheDead,
}

#[derive(Debug)]
struct World {
    plan: Plan,
    sabotage: Sabotage,
    dice: Dice,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    event_count: u64,
    nodes: Vec<Node>,
    lines: Vec<Line>,
    connections: BTreeMap<u64, Channel>,
    connection_count: u64,
    series_count: u64,
    /// The newest version of each line whose command was answered.
    answered: Vec<u64>,
    is_rough: bool,
    counts: Counts,
    trail: VecDeque<String>,
}

/// Simulates so many nodes for so many virtual minutes, then until all is quiet.
///
/// **Cost**: less than a second for ten virtual minutes of three nodes. **Errors**: the first check that did not hold.
pub(crate) fn run(plan: Plan, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    run_sabotaged(plan, Sabotage::None, progress)
}

fn run_sabotaged(plan: Plan, sabotage: Sabotage, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    let mut world = World::new(plan, sabotage);
    match all_held(|| world.run(progress)) {
        Ok(()) => Ok(world.counts),
        Err(what) => Err(Failure { plan, world: "commands", at_ms: world.now_ms, what, trail: world.trail.into() }),
    }
}

impl World {
    fn new(plan: Plan, sabotage: Sabotage) -> World {
        let nodes = u64::from(plan.nodes);
        let mut world = World {
            plan,
            sabotage,
            dice: Dice::new(plan.seed),
            now_ms: 0,
            events: BTreeMap::new(),
            event_count: 0,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            lines: Vec::new(),
            connections: BTreeMap::new(),
            connection_count: 0,
            series_count: 0,
            answered: vec![0; (nodes * LINE_COUNT) as usize],
            is_rough: true,
            counts: Counts::new(),
            trail: VecDeque::new(),
        };
        for line in 0..nodes * LINE_COUNT {
            let made = Line::throw(line % nodes, nodes, &mut world.dice);
            world.lines.push(made);
            world.at(line, Event::Successor { line });
        }
        world.at(1_000, Event::Fault);
        world.at((plan.minutes * 60_000.0) as u64, Event::Calm);
        world
    }

    fn at(&mut self, after_ms: u64, event: Event) {
        self.event_count += 1;
        self.events.insert((self.now_ms + after_ms, self.event_count), event);
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn note(&mut self, line: String) {
        if self.trail.len() == TRAIL_LEN {
            self.trail.pop_front();
        }
        self.trail.push_back(format!("{:>8} ms  {line}", self.now_ms));
    }

    fn run(&mut self, progress: &mut dyn FnMut(f64)) -> Check {
        let end_ms = (self.plan.minutes * 60_000.0) as u64 + QUIET_MS;
        let mut steps = 0_u64;
        while let Some(((now_ms, _), event)) = self.events.pop_first() {
            if now_ms > end_ms {
                break;
            }
            self.now_ms = now_ms;
            self.act(event)?;
            steps += 1;
            if steps.is_multiple_of(4096) {
                progress((now_ms as f64 / end_ms as f64).min(1.0));
            }
        }
        self.counts.insert("events", steps);
        progress(1.0);
        self.judge_rest(end_ms)
    }

    fn act(&mut self, event: Event) -> Check {
        match event {
            Event::Greeting { connection } => self.on_greeting(connection),
            Event::Piece { connection, piece } => self.on_piece(connection, piece),
            Event::Reset { connection } => self.on_reset(connection),
            Event::Serve { node } => self.on_serve(node),
            Event::Fetched { node, connection, piece } => self.on_fetched(node, connection, piece),
            Event::Answer { connection, version } => self.on_answer(connection, version),
            Event::Welcome { connection } => self.on_welcome(connection),
            Event::Next { line, life } => self.on_next(line, life),
            Event::Bound { line, life, version } => self.on_bound(line, life, version),
            Event::Successor { line } => self.on_successor(line),
            Event::Heal { line } => self.on_heal(line),
            Event::Resend { connection } => self.on_resend(connection),
            Event::Fault => self.on_fault(),
            Event::Calm => {
                self.note("all faults end".to_owned());
                self.is_rough = false;
                (0..self.lines.len() as u64).try_for_each(|line| self.on_heal(line))
            }
        }
    }

    /// Something goes wrong, and the next thing is planned.
    fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(50, 1_500);
        self.at(after, Event::Fault);
        let line = self.dice.below(self.lines.len() as u64);
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
                let node = self.dice.below(self.nodes.len() as u64);
                let time = self.dice.pick(&[20, 300, 1_500, 4_000]);
                self.note(format!("node {node} is stopped for {time} ms"));
                self.count("stops of nodes");
                let state = &mut self.nodes[node as usize];
                (state.stopped_until_ms, state.was_stopped) = (self.now_ms + time, true);
                self.at(time, Event::Serve { node });
            }
        }
        Ok(())
    }

    /// A byte of a command is written: the rule of this world.
    fn write(&mut self, piece: Piece) -> Check {
        let answered = self.answered[piece.line as usize];
        self.count("pieces written");
        check(piece.version >= answered, || {
            format!(
                "line {}: piece {} of version {} is written, and {answered} was answered",
                piece.line, piece.number, piece.version
            )
        })
    }

    /// Nothing hangs: all lines have got answers since the faults ended.
    fn judge_rest(&self, end_ms: u64) -> Check {
        let since = end_ms - QUIET_MS;
        self.lines.iter().enumerate().try_for_each(|(line, state)| {
            check(state.answered_ms > since, || format!("line {line} has got no answer since the faults ended: {state:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan { seed, nodes: 3, minutes: 3.0 }
    }

    #[test]
    fn what_was_answered_stays() {
        for seed in 0..40 {
            let counts = run(plan(seed), &mut |_| ()).unwrap_or_else(|failure| panic!("{failure}"));
            for what in [
                "answers",
                "commands given up",
                "programs killed",
                "copies",
                "resets lost",
                "connections ended by their successor",
            ] {
                assert!(counts.get(what).is_some_and(|count| *count > 0), "seed {seed}: no {what} in {counts:?}");
            }
        }
    }

    #[test]
    fn each_sabotage_is_found() {
        use Sabotage::*;
        for sabotage in [SendOn, ServeBoth, KeepFetching, ServeTheDead] {
            let found = (0..20).find_map(|seed| run_sabotaged(plan(seed), sabotage, &mut |_| ()).err());
            let failure = found.unwrap_or_else(|| panic!("{sabotage:?} was not found"));
            assert!(failure.what.contains("was answered"), "{sabotage:?}: {failure}");
        }
    }
}
