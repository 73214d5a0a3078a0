//! A program's attachment to its host's node: what all handles of the pool share.
//!
//! | module | holds |
//! |---|---|
//! | `lock_leases` | locks that are leased to the program |
//! | `claims` | locks that the program holds by name, and the versions that it knows of data bound to them |
//! | `home` | the pool's home, which may move |
//! | `counters` | what happened to pages, and what moved for them |
//! | `deaths` | what a rank knows of deaths in its job |
//! | `lives` | the connections to this host's node, one after another |
//! | `mapped` | which regions are mapped, and how: [`MappedRegion`] is what every consistency gives |
//! | `reconnector` | the thread that makes connections anew for those that may not |
//! | `granted_lock` | a lock that was taken, and which of them each thread has |

mod claims;
mod counters;
mod deaths;
mod granted_lock;
mod home;
mod lives;
mod lock_leases;
mod mapped;
mod reconnector;

pub(crate) use claims::{CONNECTION_BROKE, Claims, LockData};
pub use counters::PageCounts;
pub(crate) use counters::{FaultTraffic, PageCounters, count};
pub(crate) use granted_lock::GrantedLock;
pub(crate) use lock_leases::{Again, GrantOf, Lease};
pub(crate) use mapped::{
    BoundMemory, BroughtPage, CarriedMemory, CopiedStores, DirectHold, Mapped, MappedRegion, PageWish, SendStores, Spans, Stored,
    is_one_memory,
};
pub(crate) use reconnector::Reconnect;

use super::call_numbers::CallNumbers;
use super::remote::{Blame, Dial, Remote};
use crate::face;
use deaths::Deaths;
use hanare_fabric::Link;
use hanare_fabric::agree;
use hanare_fabric::settings;
use hanare_fabric::shm::ShmLink;
use hanare_fabric::tcp;
use hanare_fabric::tenant_file::TenantFile;
use hanare_protocol::id::{ClientId, Gid, JobRank, NodeId, Rights, User};
use hanare_protocol::queue::PortId;
use hanare_protocol::session::Series;
use hanare_protocol::wire::control::{Answer, RegionView, Request, Which};
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::{Error, Result};
use home::KnownHome;
pub(crate) use lives::Life;
use lives::Lives;
use reconnector::Reconnector;
use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// State that the pool's handles share.
pub(crate) struct Shared {
    lives: Lives,
    /// The pool's home, where it is another than at the attachment.
    home: KnownHome,
    /// The host's node, and its number for this program's user: the same in all lives.
    pub node: NodeId,
    pub user: User,
    pub job: Option<JobRank>,
    /// Known deaths in its job.
    pub deaths: Deaths,
    /// Time to wait for a node's reply.
    pub bound: Duration,
    fabric: agree::Choice,
    remotes: Mutex<BTreeMap<NodeId, KnownNode>>,
    /// Grants that nodes refused so far.
    pub refusals: Arc<AtomicU64>,
    /// Numbers of calls whose updates count once.
    pub calls: Arc<CallNumbers>,
    /// Regions that this program has mapped.
    pub mapped: Mapped,
    /// The generation of the next barrier.
    pub barriers: Mutex<u64>,
    /// State shared by handles of its job's group, while there are any.
    exchange: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
    /// The program's parts in what several programs do.
    memberships: Mutex<Vec<Weak<dyn Membership>>>,
    /// Locks that it holds by name.
    pub claims: Claims,
    /// Traffic on connections of mappings.
    pub faults: Arc<FaultTraffic>,
    /// Traffic on links to and from other programs.
    pub links: Arc<FaultTraffic>,
    /// Makes those anew that broke.
    pub reconnector: Reconnector,
}

/// A part that the program has in what several programs do.
pub(crate) trait Membership: Send + Sync {
    /// Leaves in good order, unless a call is at work on it.
    fn leave(&self);
}

/// Shift of a life's number in the value that handles look at: beyond mappings and rights that changed within it.
const LIFE_SHIFT: u32 = 48;

struct KnownNode {
    address: Option<String>,
    remote: Arc<Remote>,
}

impl Shared {
    /// Attaches to the node at an address (a path, or `@name`). **Errors**: as for [`crate::Pool::attach`].
    pub fn attach(address: &str, job: Option<JobRank>, tenant: Option<TenantFile>) -> Result<Arc<Shared>> {
        let (bound, fabric) = (settings::answer_bound()?, settings::fabric()?);
        let lives = Lives::begin(address, job, tenant, bound)?;
        let (node, user) = (lives.now().attached.node, lives.now().attached.user);
        let (remotes, calls) = (Mutex::default(), CallNumbers::new()?);
        let (deaths, refusals, barriers, exchange, memberships, mapped, claims, faults, links, reconnector) = Default::default();
        let shared = Arc::new(Shared {
            lives,
            home: KnownHome::default(),
            node,
            user,
            job,
            deaths,
            bound,
            fabric,
            remotes,
            refusals,
            calls,
            mapped,
            barriers,
            exchange,
            memberships,
            claims,
            faults,
            links,
            reconnector,
        });
        shared.enter_own()?;
        Ok(shared)
    }

    /// The connection of today to this host's node, which may have ended. **Cost**: a load or two.
    #[inline]
    pub fn life(&self) -> &Life {
        self.lives.now()
    }

    /// Asks this host's node, where it is back as one that attaches anew.
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        self.lives.connected()?.session.ask(request)
    }

    /// The same, with descriptors both ways.
    pub fn ask_with_fds(&self, request: &Request, fds: Vec<OwnedFd>) -> Result<(Answer, Vec<OwnedFd>)> {
        self.lives.connected()?.session.ask_with_fds(request, fds)
    }

    /// The error for an answer of another kind than was asked for.
    pub fn nonsense(&self, answer: &Answer) -> Error {
        self.life().session.nonsense(answer)
    }

    /// The client's id in the pool.
    pub fn client(&self) -> ClientId {
        self.life().attached.client
    }

    /// The error for what was made in an earlier life, once there is another.
    pub fn check_life(&self, number: u64) -> Result<()> {
        if self.life().number == number { Ok(()) } else { Err(self.own_lost()) }
    }

    /// Count of events that may change decisions of a region's handles: mappings of this program made or ended, rights that its node took
    /// back, another life of the node.
    #[inline]
    pub fn changes(&self, gid: Gid) -> u64 {
        let life = self.life();
        self.mapped.changes().wrapping_add(life.thread_slots.words().generation(gid.0)).wrapping_add(life.number << LIFE_SHIFT)
    }

    /// The region as it is today, for those rights.
    pub fn open(&self, which: Which, rights: Option<Rights>) -> Result<RegionView> {
        match self.ask(&Request::Open { which, rights })? {
            Answer::Region(view) => Ok(view),
            other => Err(self.nonsense(&other)),
        }
    }

    /// State shared by handles of the job's group, which is of one type; made where there is none.
    pub fn exchange<T: Any + Membership + Default>(&self) -> Arc<T> {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        let there = exchange.as_ref().and_then(Weak::upgrade).and_then(|any| any.downcast().ok());
        there.unwrap_or_else(|| {
            let fresh: Arc<T> = Arc::default();
            let weak: Weak<T> = Arc::downgrade(&fresh);
            *exchange = Some(weak);
            self.enter(&fresh);
            fresh
        })
    }

    /// Notes a membership, which [`Shared::leave`] ends.
    pub fn enter<T: Membership + 'static>(&self, fresh: &Arc<T>) {
        let mut memberships = self.memberships.lock().unwrap_or_else(PoisonError::into_inner);
        memberships.retain(|other| other.strong_count() > 0);
        let weak: Weak<T> = Arc::downgrade(fresh);
        memberships.push(weak);
    }

    /// Leaves all that other programs may wait for, and tells the node that the program's end is no death.
    pub fn leave(&self) {
        let memberships = std::mem::take(&mut *self.memberships.lock().unwrap_or_else(PoisonError::into_inner));
        memberships.iter().filter_map(Weak::upgrade).for_each(|membership| membership.leave());
        self.life().session.leave();
    }

    /// The connection to this host's node.
    pub fn own(&self) -> Option<Arc<Remote>> {
        self.places().get(&self.node).map(|place| place.remote.clone())
    }

    /// The connections to all nodes so far.
    pub fn remotes(&self) -> Vec<Arc<Remote>> {
        self.places().values().map(|place| place.remote.clone()).collect()
    }

    fn places(&self) -> std::sync::MutexGuard<'_, BTreeMap<NodeId, KnownNode>> {
        self.remotes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parts of the attachment that its connections know.
    fn known(&self) -> (Arc<AtomicU64>, u64) {
        (self.refusals.clone(), self.calls.client())
    }

    /// The connection to a node; a fresh one when its address has changed.
    pub fn remote(self: &Arc<Self>, node: NodeId, address: Option<&str>) -> Result<Arc<Remote>> {
        let mut places = self.places();
        if let Some(place) = places.get(&node)
            && (node == self.node || address.is_none() || place.address.as_deref() == address)
        {
            return Ok(place.remote.clone());
        }
        let address = address.ok_or(Error::NodeLost { node, reason: "its address is not known".to_owned() })?;
        let remote = Arc::new(Remote::new(node, self.bound, (self.tcp_dial(node, address)?, self.own_loss()), self.known())?);
        places.insert(node, KnownNode { address: Some(address.to_owned()), remote: remote.clone() });
        Ok(remote)
    }

    /// Makes connections to a node, one after another. Each ends the one before at the node, wherever that one's bytes are.
    fn tcp_dial(self: &Arc<Self>, node: NodeId, address: &str) -> Result<Box<Dial>> {
        let shared: Weak<Shared> = Arc::downgrade(self);
        let address = address.to_owned();
        let series = Series(u64::from_le_bytes(hanare_memory::random::bytes()?).max(1));
        Ok(Box::new(move |patience| {
            let shared =
                shared.upgrade().ok_or_else(|| Error::NoNode { address: address.clone(), reason: "detached".to_owned() })?;
            let deadline = Instant::now() + patience;
            let agree = |greeted: tcp::Greeted| {
                let spoken = greeted.spoken;
                Ok((agree::agree(greeted, shared.fabric, deadline)?.link, spoken))
            };
            let (mut link, spoken) = shared.greet(node, &address, Some(series), deadline, agree)?;
            tell_face(&mut *link, spoken);
            Ok(link)
        }))
    }

    /// Opens the fabric's library where it may be wanted later: before faults are resolved, not while.
    pub fn open_fabric(&self) {
        agree::open_ahead(self.fabric);
    }

    /// A connection that the node hands to the reader of a queue, to which a port of this program writes. What was sent is delivered, even where the
    /// program ends then: the reader's host has it.
    ///
    /// **Errors**: [`Error::BadSetting`] where another fabric than TCP may carry commands.
    pub fn link(&self, node: NodeId, address: &str, port: PortId) -> Result<tcp::TcpLink> {
        if !self.fabric.is_tcp() {
            let reason = "programs link over TCP alone".to_owned();
            return Err(Error::BadSetting { key: "the fabric".to_owned(), value: self.fabric.to_string(), reason });
        }
        let caller = self.lives.connected().map_err(|error| self.own_lost_for(error))?.caller(Role::Link, port.0);
        let deadline = Instant::now() + self.bound;
        let greeted = tcp::connect(address, caller, &|hellos: &tcp::Hellos| self.prove(hellos), deadline);
        Ok(greeted.map_err(|error| lost_while_greeted(node, error))?.link)
    }

    /// A fresh connection to a node, greeted and proved, on which both sides then `agree`. It continues a series, or stands by itself. One that is cut
    /// meanwhile does not mean that the node is lost.
    pub fn greet<T>(
        &self,
        node: NodeId,
        address: &str,
        series: Option<Series>,
        deadline: Instant,
        agree: impl Fn(tcp::Greeted) -> Result<T>,
    ) -> Result<T> {
        let life = self.lives.connected().map_err(|error| self.own_lost_for(error))?;
        let caller = life.caller(Role::Data, series.map_or(0, |series| series.0));
        let then = |mut greeted: tcp::Greeted| {
            // A thread's message on pages must arrive from a fault, though its program is killed: the home counts on it.
            if series.is_some() {
                greeted.end_by_reset(self.bound)?;
            }
            agree(greeted)
        };
        let agreed = tcp::reach(address, caller, &|hellos: &tcp::Hellos| self.prove(hellos), deadline, then);
        agreed.map_err(|error| lost_while_greeted(node, error))
    }

    /// The node knows the key; its clients need not.
    fn prove(&self, hellos: &[u8]) -> Result<[u8; 32]> {
        match self.life().session.ask(&Request::Prove { hellos: hellos.to_vec() }) {
            Ok(Answer::Proof(proof)) => Ok(proof),
            Ok(other) => Err(self.nonsense(&other)),
            Err(error) => Err(self.own_lost_for(error)),
        }
    }

    /// The error for what went with this host's node.
    fn own_lost(&self) -> Error {
        let reason = match self.job {
            Some(_) => "this host's node has ended, and with it this rank's place in its job",
            None => {
                "this host's node has ended; once it is back, calls go on, without the bytes, mappings and locks that went with it"
            }
        };
        Error::NodeLost { node: self.node, reason: reason.to_owned() }
    }

    /// Blames this host's node for the loss, if it is not there, instead of the node that was called.
    fn own_lost_for(&self, error: Error) -> Error {
        if let Error::NoNode { .. } = error { self.own_lost() } else { error }
    }

    /// The blame when this host's node has ended: others end its clients' connections then.
    fn own_loss(self: &Arc<Self>) -> Box<Blame> {
        let shared: Weak<Shared> = Arc::downgrade(self);
        Box::new(move || {
            let shared = shared.upgrade()?;
            shared.life().session.has_ended().then(|| shared.own_lost())
        })
    }

    /// Enters the shm link to this host's node, which is opened once in a life. This program closes it where the node does not answer. That ends
    /// the life, and the next call begins another.
    fn enter_own(self: &Arc<Self>) -> Result<()> {
        let (node, shared): (NodeId, Weak<Shared>) = (self.node, Arc::downgrade(self));
        let dial = move |_| {
            let gone = || Error::NodeLost { node, reason: "detached".to_owned() };
            let shared = shared.upgrade().ok_or_else(gone)?;
            let life = shared.lives.connected().map_err(|error| shared.own_lost_for(error))?;
            let Some(link) = life.take_link() else {
                // A rank keeps its place in its job, which would end with the life.
                if shared.job.is_none() {
                    life.session.close();
                }
                return Err(shared.own_lost());
            };
            let mut link = ShmLink::open(link, &node.to_string())?;
            tell_face(&mut link, life.session.spoken());
            Ok(Box::new(link) as Box<dyn Link>)
        };
        let remote = Remote::new(node, self.bound, (Box::new(dial), Box::new(|| None)), self.known())?;
        let remote = Arc::new(remote.of_this_host());
        self.places().insert(node, KnownNode { address: None, remote });
        Ok(())
    }
}

/// Tells a node on a new link by which face this program uses the pool. A link that breaks under it is found broken by the next message.
fn tell_face(link: &mut dyn Link, spoken: u32) {
    if let Some(head) = face::told(spoken) {
        // SAFETY: there is no body.
        let _ = unsafe { link.send(&head, &[]) };
    }
}

/// Turns a refused or broken greeting into a lost node. No process listens at its address, or it died in the middle.
fn lost_while_greeted(node: NodeId, error: Error) -> Error {
    match error {
        Error::NoNode { reason, .. } => Error::NodeLost { node, reason },
        other => other,
    }
}
