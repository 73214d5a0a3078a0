//! Every order of what a host and the homes of a region say to each other, by stateright.
//!
//! One host with two programs, and two homes of one page each. The machines are those that run: [`Sharing`], [`Sharers`]. Messages keep
//! their order on each way and arrive once. Those that were under way when a node was taken for lost arrive or do not. Programs map and
//! unmap the region at any time, store, or end. A home refuses a program, or gives fewer rights, or lets it wait for a while. A home is
//! lost for good, or is only away. An absent home comes back, and the host hears of it before or after, or goes on without the host. The
//! region may be given up at any moment.
//!
//! A host's copy is one number: its last store, if it owns the page. Held in every state:
//!
//! - a program is in the region only while each home that is not lost knows its host;
//! - stores last: once the host has left the region and reported success, each home has them or is lost for good;
//! - a home that begins anew has what was stored last, or knows that it is lost.
//!
//! When nothing is under way, nobody waits, and a home knows exactly the hosts that know it.
//!
//! The tests put defects in, and expect a counterexample.
//!
//! | file | holds |
//! |---|---|
//! | `world` | what there is, one step of it, and what must hold when nothing is under way |
//! | `host` | what the host does |
//! | `home` | what a home does |
//! | `tests` | what is explored |

mod home;
mod host;
mod tests;
mod world;

use super::sharing::MapRequest;
use crate::explored::{Explored, Judged, nothing_is_wrong};
use crate::id::{ClientId, Rights};
use crate::page::hosts::HostId;
use stateright::{Model, Property};
use world::World;

const OWN: HostId = HostId(0);
/// Time that a left region waits for pages that programs keep, and a host waits to join.
const PATIENCE_MS: u64 = 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Program(u64);

impl MapRequest for Program {
    fn client(&self) -> ClientId {
        ClientId(self.0)
    }

    fn rights(&self) -> Rights {
        Rights::Write
    }
}

/// The host's messages to a home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ToHome {
    /// A request with grants of that epoch.
    Join {
        key: u64,
        epoch: u64,
    },
    /// A page that was granted is here.
    Done {
        share: u64,
    },
    WriteBack {
        share: u64,
        value: u8,
    },
    Leave {
        share: u64,
    },
    Forgot {
        share: u64,
    },
}

/// A home's messages to the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ToHost {
    /// The membership, and the home's epoch.
    Joined {
        key: u64,
        answer: Option<(u64, u64)>,
    },
    Left {
        key: u64,
    },
    Returned {
        key: u64,
        share: u64,
        takes: bool,
    },
}

/// A run's remaining budget of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Left {
    maps: u8,
    stores: u8,
    ends: u8,
    refusals: u8,
    /// Joins that have to wait for commands under way.
    waits: u8,
    gives_up: u8,
    /// Homes that fall silent, and come back.
    silences: u8,
    deaths: u8,
    /// Hosts that a home does without.
    fences: u8,
    /// Times that this host is taken for lost.
    cuts: u8,
}

/// A defect that is put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Nothing,
    /// A host that does not know what it had says that all is home.
    Forgetting,
    /// A home that is back does not ask.
    Asking,
    /// A home that takes in a host that does not know it any more is not told.
    Stray,
    /// A host that has left goes on waiting to be let in.
    Waiting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Map(u64),
    Unmap(u64),
    /// A program ends without a word.
    End(u64),
    Store(usize),
    GiveUp,
    /// Pages that programs hold back are let go of, or it is too late.
    Turn {
        is_late: bool,
    },
    ToHome(usize),
    /// The home refuses.
    Refuse(usize),
    /// The home has commands under way, and lets a host wait.
    Wait(usize),
    /// The host that waits is tried once more; or it is too late, and the commands are under way still.
    Try {
        home: usize,
        is_late: bool,
    },
    ToHost(usize),
    /// A home falls silent.
    Silence(usize),
    Return(usize),
    /// A home that is back asks once more.
    Repeat(usize),
    Die(usize),
    /// The host hears that a home is lost.
    Hear(usize),
    Dismiss(usize),
    /// A home reaches the host that it did without.
    Tell(usize),
    /// The host was taken for lost.
    Cut,
}

struct Exploration {
    homes: usize,
    left: Left,
    off: Off,
}

impl Explored for Exploration {
    fn tell(world: &World, step: &Step) -> String {
        match step {
            Step::ToHome(home) => format!("to home {home}: {:?}", world.parts[*home].to_home.front()),
            Step::ToHost(home) => format!("from home {home}: {:?}", world.parts[*home].to_host.front()),
            other => format!("{other:?}"),
        }
    }
}

impl Model for Exploration {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.homes, self.left)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong().is_some() {
            return;
        }
        (1..=2).for_each(|program| steps_of_program(world, program, steps));
        steps_of_host(world, steps);
        (0..world.homes.len()).for_each(|home| steps_of_home(world, home, steps));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.act(step, self.off);
        next.judge();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        nothing_is_wrong()
    }
}

fn steps_of_program(world: &World, program: u64, steps: &mut Vec<Step>) {
    let left = &world.left;
    let is_inside = world.inside.contains(&program);
    let waits = world.waiting.contains(&program) || world.unmapping.contains(&program);
    if !is_inside && !waits && left.maps > 0 {
        steps.push(Step::Map(program));
    }
    if is_inside {
        steps.push(Step::Unmap(program));
    }
    if left.ends > 0 && (is_inside || world.waiting.contains(&program)) {
        steps.push(Step::End(program));
    }
}

fn steps_of_host(world: &World, steps: &mut Vec<Step>) {
    let Some(sharing) = &world.sharing else { return };
    if world.left.gives_up > 0 && !world.inside.is_empty() {
        steps.push(Step::GiveUp);
    }
    if sharing.may_empty() || sharing.handing().next().is_some() {
        steps.push(Step::Turn { is_late: false });
        if world.parts.iter().any(|part| part.owned.is_some()) {
            steps.push(Step::Turn { is_late: true });
        }
    }
    if world.left.cuts > 0 {
        steps.push(Step::Cut);
    }
}

fn steps_of_home(world: &World, home: usize, steps: &mut Vec<Step>) {
    let (it, part, left) = (&world.homes[home], &world.parts[home], &world.left);
    if left.stores > 0 && !world.inside.is_empty() {
        steps.push(Step::Store(home));
    }
    if !part.to_host.is_empty() && !it.is_dead {
        steps.push(Step::ToHost(home));
    }
    if part.unheard.is_some() {
        steps.push(Step::Hear(home));
    }
    if it.is_dead {
        return;
    }
    if it.is_silent {
        return steps.push(Step::Return(home));
    }
    if let Some(first) = part.to_home.front() {
        steps.push(Step::ToHome(home));
        let is_join = matches!(first, ToHome::Join { .. });
        steps.extend((is_join && left.refusals > 0).then_some(Step::Refuse(home)));
        steps.extend((is_join && left.waits > 0).then_some(Step::Wait(home)));
    }
    if !it.join_queue.is_empty() {
        steps.extend([false, true].map(|is_late| Step::Try { home, is_late }));
    }
    if it.is_returning && part.to_home.is_empty() && part.to_host.is_empty() {
        steps.push(Step::Repeat(home));
    }
    if !it.fenced.clone().due(0).is_empty() {
        steps.push(Step::Tell(home));
    }
    if left.silences > 0 {
        steps.push(Step::Silence(home));
    }
    if left.deaths > 0 {
        steps.push(Step::Die(home));
    }
    if left.fences > 0 && !it.is_returning && !it.sharers.is_empty() {
        steps.push(Step::Dismiss(home));
    }
}
