//! Pages shared by hosts, simulated. Every node is home to an extent and maps those of all others. Connections break, repeat, delay and
//! reorder, with couriers between. Threads of programs claim pages, put them into frames, load and store, and are killed in the middle.
//! Programs map extents and unmap them, so that hosts join homes, wait there to be let in, and leave. Gets and puts come by command,
//! pages are evicted, nodes die at any moment and come back as new lives. Some only stand still for so long that they are taken for lost,
//! and come back with their bytes, while others own pages of them and go on storing; as hosts they drop their copies of others' pages. A
//! home goes on without a host that lives and uses its copies until it is told. The first node is the coordinator's: nobody is told of
//! its death when its next life begins soon.
//!
//! A naive model knows the last store to each page. After every event: a load sees that store; a host that may store is the only one that
//! has the page; a page is refused or lost only after the death of a node that had been granted writing. At the end all faults stop and
//! nobody may be left waiting.

mod channels;
mod faults;
mod holds;
mod judge;
mod machines;
mod memberships;
mod messages;
mod programs;
mod replies;
mod returns;
mod sharers;
mod stages;

use crate::check::{Check, check};
use crate::harness::{Course, World, defects, on_course};
use channels::{ConnectionId, PeerChannel};
use hanare_protocol::page::directory::{Output, Phase};
use hanare_protocol::page::membership::{FencedHosts, JoinQueue, ReturnedPages, Sharers};
use hanare_protocol::page::word::{Fault, Fill, State};
use hanare_protocol::page::{Access, Courier, Directory, Face, Heard, Host, HostId, HostMemory, Page, Plain, Recalls, Receipt};
use hanare_protocol::page::{HoldTimes, HostOutput, Returning, Ticket, ToHome, ToHost, Version};
use memberships::HomeMembership;
use replies::Reply;
use sharers::{Joining, Peer};
use stages::{STAGE_PATIENCE_MS, Stage, Undone};
use std::collections::{BTreeMap, BTreeSet};

/// Pages of each extent.
const PAGE_COUNT: u64 = 6;
/// The node whose deaths the membership does not tell of, if it is back soon.
const COORDINATOR: usize = 0;
/// Time that an unreachable node counts as there.
const SILENCE_MS: u64 = 3_500;
/// Threads of each node's programs.
const THREAD_COUNT: u16 = 3;
/// Seats of each region on a host: the node's own, and two for each thread, because a killed one's is kept while its claim is open.
const SEAT_COUNT: u16 = 1 + 2 * THREAD_COUNT;
/// Time between a node's repetitions of unconfirmed messages, and its confirmations.
const TICK_MS: u64 = 40;

/// Time that a host waits to be let in at a home: some of its causes last longer.
const LOBBY_PATIENCE_MS: u64 = 5_000;

/// A life of a node's process. Never given again.
type Life = u16;
/// An extent, by the life in which its home began. A home that comes back has the same extent in another life.
type Extent = u16;
/// The number of a home's own host.
const OWN: HostId = HostId(0);

/// A message between two lives: about a page of an extent.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    home: Extent,
    page: Page,
    what: What,
    value: Option<u64>,
    /// The share by which a home knows the host that says it, or what the host that is told is called.
    by: u64,
    /// The host that it names, by its name at the home.
    peer: Option<Peer>,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    ToHome(ToHome),
    ToHost(ToHost),
    /// A host will map the extent; its answer, by which number and share, or that it may not.
    Join,
    Joined(Option<(HostId, u64)>),
    /// A host has sent all that it had of it; the home knows it no more.
    Leave,
    Left,
    /// A host does not know what it had of it.
    Forgot,
    /// Another host is gone.
    HostGone,
    /// The home is back in the life that says so, and asks the host that has this share; or does not take it, because it did without it.
    Returned {
        share: u64,
        takes: bool,
    },
}

impl What {
    fn is_for_home(&self) -> bool {
        matches!(self, What::ToHome(_) | What::Join | What::Leave | What::Forgot)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Arrive {
        from: Life,
        to: Life,
        connection: ConnectionId,
        number: u64,
        parcel: Parcel,
    },
    /// A message between a home and its own host: it arrives once, in any order.
    Local {
        life: Life,
        parcel: Parcel,
    },
    Receipt {
        from: Life,
        to: Life,
        connection: ConnectionId,
        receipt: Receipt,
    },
    /// A try of a life to reach another is over.
    Tried {
        from: Life,
        to: Life,
    },
    /// A life notices that a connection has ended.
    Ended {
        life: Life,
        connection: ConnectionId,
    },
    Tick {
        life: Life,
    },
    Program {
        life: Life,
    },
    /// A thread has put what it was granted into the frame.
    Filled {
        life: Life,
        thread: usize,
        ticket: Ticket,
    },
    Command {
        life: Life,
    },
    /// A put is done with its pages.
    Release {
        home: Extent,
        face: Face,
    },
    /// The time is over for which a page was kept.
    Look,
    Fault,
    Restart {
        node: usize,
    },
    /// A life hears that another is over.
    Lost {
        life: Life,
        lost: Life,
    },
    /// A life that stood still is taken in again.
    Return {
        node: usize,
        life: Life,
    },
}

/// A node's state of a home's extent: its rules, and the words and frames that they work on.
#[derive(Debug)]
struct Mapped {
    rules: Host<u64>,
    place: Plain<u64>,
    /// Other hosts, by their numbers at the home.
    peers: BTreeMap<HostId, Peer>,
}

/// Cause of a thread's wait.
#[derive(Clone, Debug)]
struct Waiting {
    home: Extent,
    page: Page,
    seat: u16,
    /// The grant whose bytes it puts into the frame.
    fills: Option<ToHost>,
}

/// A node's process.
#[derive(Debug)]
struct Process {
    /// Its own.
    extent: Extent,
    directory: Directory,
    /// Decides which of them may keep pages that go to and fro.
    tenure: HoldTimes,
    /// The hosts that share its extent.
    guests: Sharers,
    /// Hosts that wait to share it.
    lobby: JoinQueue<Joining>,
    /// Until when its programs have commands under way that go past the pages.
    bypassed_until_ms: u64,
    memory: Vec<u64>,
    /// The extents that it shares.
    shares: BTreeMap<Extent, HomeMembership>,
    /// Its state of each.
    mapped: BTreeMap<Extent, Mapped>,
    /// Messages to others.
    channels: BTreeMap<Life, PeerChannel>,
    /// Messages heard of others, and the connections that they made.
    heard: BTreeMap<Life, Courier<()>>,
    connections: BTreeMap<ConnectionId, Life>,
    /// Hosts that its home did without, and by which share: they may live, and are told.
    dismissed: FencedHosts<(Peer, u64)>,
    lost: BTreeSet<Life>,
    threads: Vec<Option<Waiting>>,
    /// Gets and puts that are under way, and which pages they wait for.
    stages: BTreeMap<Face, Stage>,
    recalls: Recalls<(), (), Undone>,
    /// Lives of homes that are to be told that there is no more of an extent, by which share.
    leaves: BTreeSet<(Life, Extent, u64)>,
    /// Shares at homes that are back and have got all, and in which life those are.
    handed: ReturnedPages<Life, Parcel>,
    /// State of this home's return, after it was taken for lost.
    returning: Option<Returning>,
}

/// The model's knowledge of a page, without any rule.
#[derive(Debug, Default)]
struct Truth {
    last: u64,
    /// Lives that were ever granted writing.
    writers: BTreeSet<Life>,
    /// True if one of them forgot its pages.
    is_forgotten: bool,
}

defects! {
    /// Repetitions of the network are taken for new messages.
    HearTwice,
    /// Lost messages are not sent again.
    SendOnce,
    /// The home is not told of deaths.
    KeepDead,
    /// A home that is back forgets who had newer bytes.
    ForgetOwners,
    /// A host that forgot what it had of a home says that it has sent all.
    ForgetShares,
    /// The coordinator's next life is taken for the one before.
    TakeForOld,
    /// A stage asks for a page when it holds the one before, in any order.
    AskInTurns,
    /// A host that leaves tells its home nothing.
    LeaveSilently,
    /// A leave overtakes the pages that were sent before it.
    LeaveEarly,
    /// A host that asks for a further program is taken in as another host.
    JoinAnew,
    /// Hosts that wait to be let in are not tried again.
    TryOnce,
    /// A host whose life is over goes on waiting to be let in.
    WaitOn,
    /// A node that was taken for lost goes on with what it had of others' pages.
    KeepShares,
    /// A node that could not be reached is not dialed again.
    DialOnce,
    /// A node that cannot be reached is never given up.
    DialForEver,
    /// A node is given up with the first try that fails.
    GiveUpSoon,
    /// A host that its home did without is not told.
    DismissSilently,
    /// A grant goes with the reply to a thread, although others have not dropped their copies.
    ReplyEarly,
    /// A host keeps pages that others wait for until it needs their room.
    KeepOn,
    /// A leave counts as the answer of a host that its home did without.
    TakeLeaveForAnswer,
}

/// Pages shared by hosts.
#[derive(Debug)]
pub(crate) struct PageWorld {
    course: Course<Event, Defect>,
    processes: BTreeMap<Life, Process>,
    /// The life of each node, if it has one.
    nodes: Vec<Option<Life>>,
    next_life: Life,
    next_value: u64,
    /// Shares, keys and programs that were numbered.
    drawn: u64,
    truths: BTreeMap<(Extent, Page), Truth>,
    dead: BTreeSet<Life>,
    /// Lives that stand still, and until when.
    still: BTreeMap<Life, u64>,
    /// Lives of the coordinator's node that nobody was told the end of.
    unseen: BTreeSet<Life>,
    /// Connections that were numbered.
    next_connection: ConnectionId,
    /// Pairs that cannot reach each other, and until when.
    cuts: BTreeMap<(Life, Life), u64>,
    /// Shares of hosts that their homes did without.
    done_without: BTreeSet<u64>,
    /// The reply to a thread that a home puts together.
    reply: Option<Reply>,
}

on_course!(PageWorld);

impl World for PageWorld {
    const NAME: &'static str = "pages";
    /// Lives are numbered, and no number is given again.
    const ROUND_MINUTES: Option<f64> = Some(20.0);
    type Event = Event;
    type Defect = Defect;

    fn begin(mut course: Course<Event, Defect>) -> PageWorld {
        course.throw_weather();
        let nodes = vec![None; course.plan.nodes as usize];
        let mut world = PageWorld {
            course,
            processes: BTreeMap::new(),
            nodes,
            next_life: 0,
            next_value: 1,
            drawn: 0,
            truths: BTreeMap::new(),
            dead: BTreeSet::new(),
            still: BTreeMap::new(),
            unseen: BTreeSet::new(),
            next_connection: 0,
            cuts: BTreeMap::new(),
            done_without: BTreeSet::new(),
            reply: None,
        };
        (0..world.nodes.len()).for_each(|node| world.start(node));
        world.at(2_000, Event::Fault);
        world
    }

    fn act(&mut self, event: Event) -> Check {
        self.end_holds()?;
        if self.is_deferred(&event) {
            return Ok(());
        }
        match event {
            Event::Arrive { from, to, connection, number, parcel } => self.on_arrive((from, to), connection, number, parcel),
            Event::Local { life, .. } if !self.processes.contains_key(&life) => Ok(()),
            Event::Local { life, parcel } => self.on_parcel(life, life, parcel),
            Event::Receipt { from, to, connection, receipt } => {
                self.on_receipt((from, to), connection, &receipt);
                Ok(())
            }
            Event::Tried { from, to } => self.on_tried(from, to),
            Event::Ended { life, connection } => {
                self.on_ended(life, connection);
                Ok(())
            }
            Event::Tick { life } => self.on_tick(life),
            Event::Program { life } => self.on_program(life),
            Event::Filled { life, thread, ticket } => self.on_filled(life, thread, ticket),
            Event::Command { life } => self.on_command(life),
            Event::Release { home, face } => self.on_release(home, face),
            Event::Look => Ok(()),
            Event::Fault => self.on_fault(),
            Event::Restart { node } => {
                if self.nodes[node].is_none() {
                    self.start(node);
                }
                Ok(())
            }
            Event::Lost { life, lost } => self.on_lost(life, lost),
            Event::Return { node, life } => self.on_return(node, life),
        }
    }

    fn calm(&mut self) -> Check {
        self.cuts.clear();
        (0..self.nodes.len()).for_each(|node| self.at(0, Event::Restart { node }));
        Ok(())
    }

    fn judge(&mut self) -> Check {
        self.judge_holds()
    }

    fn judge_rest(&mut self) -> Check {
        self.is_at_rest()
    }
}

impl PageWorld {
    fn start(&mut self, node: usize) {
        let life = self.next_life;
        self.next_life += 1;
        self.nodes[node] = Some(life);
        let process = Process {
            extent: life,
            directory: Directory::new(PAGE_COUNT, OWN),
            tenure: HoldTimes::default(),
            guests: Sharers::new(OWN),
            lobby: JoinQueue::new(LOBBY_PATIENCE_MS),
            bypassed_until_ms: 0,
            memory: vec![0; PAGE_COUNT as usize],
            shares: BTreeMap::new(),
            mapped: BTreeMap::new(),
            channels: BTreeMap::new(),
            heard: BTreeMap::new(),
            connections: BTreeMap::new(),
            dismissed: FencedHosts::default(),
            lost: self.dead.clone(),
            threads: vec![None; usize::from(THREAD_COUNT)],
            stages: BTreeMap::new(),
            recalls: Recalls::new(STAGE_PATIENCE_MS),
            leaves: BTreeSet::new(),
            handed: ReturnedPages::default(),
            returning: None,
        };
        self.processes.insert(life, process);
        for page in 0..PAGE_COUNT {
            self.truths.insert((life, Page(page)), Truth::default());
        }
        self.note(format!("life {life} of node {node} begins"));
        self.set_going(life);
    }

    /// The life in which an extent's home is at this moment, unless it is dead.
    fn life_of(&self, home: Extent) -> Option<Life> {
        self.processes.iter().find(|(_, process)| process.extent == home).map(|(life, _)| *life)
    }

    /// Starts a life's repeated events.
    fn set_going(&mut self, life: Life) {
        self.at(0, Event::Tick { life });
        for _ in 0..THREAD_COUNT {
            self.at(1, Event::Program { life });
        }
        self.at(1, Event::Command { life });
    }
}

#[cfg(test)]
mod tests;
