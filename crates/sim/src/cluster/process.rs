//! A node's process as the simulator sees it, and the part of one node's process that is the pool's home.

use crate::cluster::jobs::JobService;
use crate::cluster::lender::Lender;
use crate::cluster::memory::SimExtent;
use crate::cluster::served_link::CommandLink;
use crate::served::ServedHome;
use hanare_home::LockTerms;
use hanare_protocol::coordinator::{BatchNumber, Coordinator, Peer, Reign, WaitingOutputs};
use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{ClientId, Incarnation, NodeId, Slot};
use hanare_protocol::member::{Member, Settings};
use hanare_protocol::wire::control::{RegionView, Request};
use hanare_protocol::wire::copies::CopiedExtent;
use hanare_ring::lease::Leases;
use hanare_ring::lease::clients::LeasesOfClients;
use hanare_ring::testing::Steps;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The one who asks for tenants, or as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TenantAsker {
    Operator,
    Program(usize),
}

/// A process: its host, and its life.
pub(crate) type ProcessLife = (usize, u64);

/// Leases of locks of the programs of a node.
pub(crate) type NodeLeases = LeasesOfClients<Leases<Steps>>;

/// Programs of each node that work on regions.
const CLIENT_COUNT: usize = 3;

/// A program attached to a node.
#[derive(Debug)]
pub(crate) struct Client {
    pub id: ClientId,
    pub uid: u32,
    /// The request it waits for: its number, what, and by when it must be answered.
    pub waits: Option<(u64, Request, u64)>,
    /// The region it opened last.
    pub view: Option<RegionView>,
}

/// A running node process.
#[derive(Debug)]
pub(crate) struct Process {
    pub life: u64,
    pub incarnation: Incarnation,
    pub member: Member,
    pub lender: Lender,
    /// The home of its regions.
    pub served: ServedHome<SimExtent>,
    pub connection: Option<Peer>,
    /// When it heard the coordinator last.
    pub heard_ms: u64,
    pub clients: Vec<Client>,
    /// The launcher's reports of ranks that ended, by request.
    pub reports: BTreeMap<u64, (usize, usize)>,
    /// Programs that open their regions here, by request.
    pub opens: BTreeMap<u64, Opener>,
    /// Commands on words that wait for their write, by link.
    pub writes: BTreeMap<u64, LinkUse>,
    /// Extents that are made ready for copies when commands under way have ended.
    pub readying: Vec<ReadyOrder>,
    /// Copies that homes here want dropped.
    pub doubted: BTreeSet<(CopiedExtent, NodeId)>,
    /// Locks that are leased to programs here.
    pub leases: NodeLeases,
    pub tick_at: Option<u64>,
}

/// An order to make extents ready for copies.
#[derive(Clone, Debug)]
pub(crate) struct ReadyOrder {
    pub order: u64,
    /// The first holders; `None` where the extents are ready no more.
    pub set: Option<HolderSet>,
    pub extents: Vec<(CopiedExtent, Slot)>,
}

/// The request of a link.
#[derive(Debug)]
pub(crate) enum LinkUse {
    /// An addition.
    Adds {
        /// Its program.
        program: usize,
        /// The link that it came on.
        link: Box<CommandLink>,
    },
    /// A store of a program to data bound to a lock.
    Accesses(u64, Box<CommandLink>),
    /// A comparison of copies.
    Compares,
}

/// A program that opens a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Opener {
    Words(usize),
    Locks(u64),
    /// A program with locks, for a page of their data.
    Entries(u64, usize),
    Queues(usize, ClientId),
    /// An operator or a program of tenants, which asks anything.
    Tenants(TenantAsker),
}

impl Process {
    pub fn new((node, life): ProcessLife, incarnation: Incarnation, lender: Lender, terms: LockTerms) -> Process {
        let mut member = Member::new(Settings::new(incarnation, &name(node), &address(node)));
        member.set_memory(lender.memory());
        let client = |number: usize| Client {
            id: ClientId((node as u64) << 32 | number as u64),
            uid: 100 + (node + number) as u32 % 3,
            waits: None,
            view: None,
        };
        let clients = (0..CLIENT_COUNT).map(client).collect();
        let (reports, opens, writes, readying, doubted, leases) = Default::default();
        let served = ServedHome::new(life, terms);
        let (connection, heard_ms, tick_at) = (None, 0, None);
        Process {
            life,
            incarnation,
            member,
            lender,
            served,
            connection,
            heard_ms,
            clients,
            reports,
            opens,
            writes,
            readying,
            doubted,
            leases,
            tick_at,
        }
    }
}

/// The name of a node.
pub(crate) fn name(node: usize) -> String {
    format!("n{node}")
}

/// The address of a node.
pub(crate) fn address(node: usize) -> String {
    format!("10.0.0.{node}:7000")
}

/// A host: its process, when it runs, and what keeps it from the others.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub process: Option<Process>,
    pub is_stopped: bool,
    /// The coordinator does not reach it.
    pub is_partitioned: bool,
    /// Other nodes do not reach it either; programs do.
    pub is_alone: bool,
}

/// State of the coordinator's process beyond its node.
#[derive(Debug)]
pub(crate) struct Home {
    pub life: u64,
    pub coordinator: Coordinator,
    /// Its outputs that wait for the commit of their records.
    pub outputs: WaitingOutputs,
    /// The last batch whose commit is planned.
    pub planned: BatchNumber,
    pub jobs: JobService,
    /// Its reign, and its passes that wait with the moments of their decisions, where keepers hold the journal.
    pub reign: Option<Reign>,
    pub passes: VecDeque<(BatchNumber, u64)>,
    pub tick_at: Option<u64>,
}
