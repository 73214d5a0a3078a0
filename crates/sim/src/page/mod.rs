//! Pages shared by hosts, simulated: each node is the [`Home`](hanare_home::Home) that nodes run. Every node is home to a region of one
//! extent, and programs of all nodes map it.
//!
//! Frames go from node to node over connections that break and are made anew. Each side sees the end of a connection at its own time. Threads
//! of programs ask homes over links that break, too. Threads claim pages, put them into frames, load and store. Programs map regions, unmap
//! them, and are killed in the middle. Gets and puts come by command, and programs wait for words. Nodes die at any moment and come back as new lives. Some nodes only
//! stand still until they are taken for lost. Others own pages of them meanwhile, and go on storing. A home may go on without a host that
//! lives, and that uses its copies until it is told. The first node is the coordinator's: nobody is told of its death when its next life
//! begins soon.
//!
//! A naive model knows the last store to each page. After every event: a load sees that store; a host that may store is the only one that
//! has the page; a page is refused or lost only after the death of a node that had asked to write it. At the end all faults stop, programs
//! go on for a while, and nobody may be left waiting.
//!
//! | file | holds |
//! |---|---|
//! | `node` | a node's process: its `Home`, told of an event, and its outputs |
//! | `wires` | connections between nodes |
//! | `programs` | programs that map regions, and their threads' touches |
//! | `installs` | a thread's request to a home, its link, and the steps by which it takes the reply in |
//! | `commands` | gets and puts at the home |
//! | `words` | words that programs wait for there |
//! | `faults` | deaths, nodes that stand still, nodes that do not reach each other |
//! | `tampering` | defects: what is done to frames on their way |
//! | `judge` | the naive model |

mod commands;
mod faults;
mod installs;
mod judge;
mod node;
mod programs;
mod tampering;
mod wires;
mod words;

use crate::check::{Check, check};
use crate::harness::{Course, World, defects, on_course};
use crate::wires::Wires;
use hanare_home::{PageBytes, VectorFrames};
use hanare_protocol::id::Gid;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Face, Page};
use hanare_protocol::wire::page::{PageRequest, Settled};
use installs::{PageAnswer, ThreadLink, ThreadWork};
use node::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tampering::Tampering;

/// Pages of each region.
const PAGE_COUNT: u64 = 6;
/// The node whose deaths the membership does not tell of, if it is back soon.
const COORDINATOR: usize = 0;
/// Time that an unreachable node counts as there.
const SILENCE_MS: u64 = 3_500;
/// Pages that a thread asks for at once, at most: it has as many slots.
const LANE_LEN: u64 = 3;
/// Time after the faults for which programs go on touching pages.
const LAST_TOUCHES_MS: u64 = 15_000;

/// A life of a node's process. Its region has the same number. Never given again.
type Life = u64;
/// A life as the membership counts them: a process that was taken for lost and is back is another.
type Era = (Life, u64);

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A frame arrives at an end of a connection.
    Frame { place: u64, bytes: Vec<u8> },
    /// A try of a life to reach a node is over.
    Tried {
        from: Life,
        node: usize,
        /// True for one that was told to have failed, and may succeed after all.
        is_spare: bool,
    },
    /// An end of a connection is seen to have ended.
    WireEnded { place: u64 },
    /// The deadline of a node has come.
    Tick { life: Life },
    /// Threads of a node's programs do something.
    Program { life: Life },
    /// A thread's message arrives at a home.
    Asked { link: u64, seq: u64, share: u64, requests: Vec<PageRequest> },
    /// The reply arrives at the thread.
    Granted { link: u64, seq: u64, answers: Vec<PageAnswer> },
    /// A thread's notice of installed pages arrives at a home.
    Settled { link: u64, share: u64, settled: Vec<Settled> },
    /// A side sees that a thread's link has ended.
    LinkEnded { link: u64, at_home: bool },
    /// A thread whose link broke tells its node.
    TakeOver { life: Life, client: u64, gid: Gid, slots: Range<u16> },
    /// A thread has put what it was granted into the frame.
    Filled { life: Life, client: u64, thread: usize, number: u64 },
    /// A command of a node begins.
    Command { life: Life },
    /// A command is done with its pages, or has the first of them and asks for the next.
    Release { life: Life, face: Face },
    /// A region is used past its pages no more.
    PastPages { life: Life },
    /// A home does without a host that lives.
    Dismiss { home: Life, of: Life },
    /// Something goes wrong.
    Fault,
    /// A process starts on a node.
    Restart { node: usize },
    /// A life hears of the membership that a node's lives up to that epoch are over.
    Lost { life: Life, node: usize, epoch: u64 },
    /// A life that stood still is taken in again.
    Return { life: Life },
}

defects! {
    /// Messages that are sent again are taken for new ones.
    HearTwice,
    /// Messages that a connection lost are not sent again.
    SendOnce,
    /// Deaths are told to nobody, and a life that dials the dead waits for ever.
    KeepDead,
    /// A home that is back forgets who had newer bytes.
    ForgetOwners,
    /// A host that forgot what it had of a home says that it has sent all.
    ForgetShares,
    /// The coordinator's next life is taken for the one before.
    TakeForOld,
    /// A command asks for a page when it holds the one before, in any order.
    AskInTurns,
    /// A host that leaves tells its home nothing.
    LeaveSilently,
    /// A leave overtakes the pages that were sent before it.
    LeaveEarly,
    /// A host that asks for a further program is taken in as another host.
    JoinAnew,
    /// A deadline that has come is told to nobody.
    SleepOn,
    /// A node that was taken for lost is not told so.
    KeepShares,
    /// A node that could not be reached is not dialed again.
    DialOnce,
    /// A try to reach a node that fails looks like a connection that breaks at once.
    DialForEver,
    /// A node is given up with the first try that fails.
    GiveUpSoon,
    /// A host that its home did without is not told.
    DismissSilently,
    /// A grant to write does not say which copies are still to be dropped.
    GrantEarly,
    /// A home is not told that a thread's link has ended.
    KeepLinks,
    /// A thread whose link broke gives up its claims, and tells nobody.
    GiveUpClaims,
    /// A dead program's node does not hear of it.
    KeepPrograms,
}

/// Pages shared by hosts.
pub(crate) struct PageWorld {
    course: Course<Event, Defect>,
    processes: BTreeMap<Life, Process>,
    /// The life of each node, if it has one.
    nodes: Vec<Option<Life>>,
    /// The last epoch of each node.
    epochs: Vec<u64>,
    /// Lives, programs, links and connections that were numbered.
    drawn: u64,
    next_value: u64,
    truths: BTreeMap<(Gid, Page), Truth>,
    dead: BTreeSet<Era>,
    /// Lives that stand still, and until when.
    still: BTreeMap<Life, u64>,
    /// Lives of the coordinator's node that nobody was told the end of, with their epochs.
    unseen: BTreeMap<Life, u64>,
    wires: Wires<Life>,
    links: BTreeMap<u64, ThreadLink>,
    /// Pairs that cannot reach each other, and until when.
    cuts: BTreeMap<(Life, Life), u64>,
    /// Since when lives dial nodes in vain, and their last tries.
    unreached: BTreeMap<(Life, usize), Range<u64>>,
    /// Memberships that homes gave to hosts.
    shares: BTreeMap<(Gid, Life), BTreeSet<u64>>,
    /// Programs of that life map nothing until then.
    apart: Option<(Life, u64)>,
    /// All programs write to that region until then.
    storm: Option<(Gid, u64)>,
    /// Memberships of hosts that their homes did without.
    done_without: BTreeSet<u64>,
    tampering: Tampering,
}

on_course!(PageWorld);

/// The model's knowledge of a page, without any rule.
#[derive(Debug, Default)]
struct Truth {
    pub last: u64,
    /// Lives that ever asked to write.
    pub writers: BTreeSet<Era>,
    /// True if one of them forgot its pages, or its home did without it.
    pub is_forgotten: bool,
    /// True once it was refused.
    pub is_lost: bool,
}

/// A program that maps a region, or waits for its node.
struct MappingProgram {
    pub gid: Gid,
    pub phase: Phase,
}

/// A program's state.
enum Phase {
    /// Has asked to map the region.
    Asks,
    Inside(Inside),
    /// Has asked to unmap it.
    Leaves,
}

/// A program that maps a region.
struct Inside {
    pub slot_first: u16,
    pub share: u64,
    pub frames: VectorFrames,
    pub threads: Vec<PageThread>,
    /// True once a home has said that it shares nothing with this host any more.
    pub is_over: bool,
}

/// A thread, with a connection to the home of its own.
#[derive(Default)]
struct PageThread {
    pub link: Option<u64>,
    pub seq: u64,
    pub doing: ThreadWork,
}

impl Inside {
    /// The first slot of a thread.
    pub fn slot(&self, thread: usize) -> u16 {
        self.slot_first + thread as u16 * LANE_LEN as u16
    }
}

/// The value that a page has.
fn value_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("a page is longer"))
}

/// A page with a value.
fn page_of(value: u64) -> PageBytes {
    let mut bytes = vec![0; PAGE_LEN as usize];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes.into()
}

impl World for PageWorld {
    const NAME: &'static str = "pages";
    type Event = Event;
    type Defect = Defect;

    fn begin(mut course: Course<Event, Defect>) -> PageWorld {
        course.throw_weather();
        let count = course.plan.nodes as usize;
        let mut world = PageWorld {
            course,
            processes: BTreeMap::new(),
            nodes: vec![None; count],
            epochs: vec![0; count],
            drawn: 0,
            next_value: 1,
            truths: BTreeMap::new(),
            dead: BTreeSet::new(),
            still: BTreeMap::new(),
            unseen: BTreeMap::new(),
            wires: Wires::default(),
            links: BTreeMap::new(),
            cuts: BTreeMap::new(),
            unreached: BTreeMap::new(),
            shares: BTreeMap::new(),
            apart: None,
            storm: None,
            done_without: BTreeSet::new(),
            tampering: Tampering::default(),
        };
        (0..count).for_each(|node| world.start(node));
        world.at(2_000, Event::Fault);
        world
    }

    fn act(&mut self, event: Event) -> Check {
        if self.is_deferred(&event) {
            return Ok(());
        }
        match event {
            Event::Frame { place, bytes } => self.on_frame(place, bytes),
            Event::Tried { from, node, is_spare } => self.on_tried(from, node, is_spare),
            Event::WireEnded { place } => self.on_wire_ended(place),
            Event::Tick { life } => self.on_tick(life),
            Event::Program { life } => self.on_program(life),
            Event::Asked { link, seq, share, requests } => self.on_asked(link, seq, share, &requests),
            Event::Granted { link, seq, answers } => self.on_granted(link, seq, answers),
            Event::Settled { link, share, settled } => self.on_settled(link, share, &settled),
            Event::LinkEnded { link, at_home: true } => self.on_link_ended_at_home(link),
            Event::LinkEnded { link, at_home: false } => self.on_link_broken(link),
            Event::TakeOver { life, client, gid, slots } => self.on_take_over(life, client, gid, slots),
            Event::Filled { life, client, thread, number } => self.on_filled(life, client, thread, number),
            Event::Command { life } => self.on_command(life),
            Event::Release { life, face } => self.on_release(life, face),
            Event::PastPages { life } => self.on_past_pages(life),
            Event::Dismiss { home, of } => self.dismiss(home, of),
            Event::Fault => self.on_fault(),
            Event::Restart { node } => {
                if self.nodes[node].is_none() {
                    self.start(node);
                }
                Ok(())
            }
            Event::Lost { life, node, epoch } => self.on_lost(life, node, epoch),
            Event::Return { life } => self.on_return(life),
        }
    }

    fn calm(&mut self) -> Check {
        self.cuts.clear();
        (0..self.nodes.len()).for_each(|node| self.at(0, Event::Restart { node }));
        Ok(())
    }

    fn judge_rest(&mut self) -> Check {
        self.is_at_rest()
    }
}

impl PageWorld {
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    /// The life in which a region's home is at this moment, unless it is dead.
    fn home_of(&self, gid: Gid) -> Option<Life> {
        Some(gid.0).filter(|life| self.processes.contains_key(life))
    }

    fn others(&self, life: Life) -> Vec<Life> {
        self.processes.keys().copied().filter(|other| *other != life).collect()
    }
}

#[cfg(test)]
mod tests;
