//! The pool as a client sees it.

use super::attachment::Shared;
use super::create_options::CreateOptions;
use super::region::Region;
use super::remote::{NotPosted, Remote};
use super::request::Patience;
use super::trust::Trust;
use crate::{last_word, launch, settings, trace};
use hanare_fabric::Traffic;
use hanare_fabric::tenant_file::TenantFile;
use hanare_protocol::id::{ClientId, Gid, JobId, JobRank, NodeId, Rank, Rights, User};
use hanare_protocol::wire::control::{
    Answer, Changes, DrainStatus, DrainWish, Existing, KeeperChange, OwnStatus, PoolStatus, RegionStat, Request, TenantStat,
    TenantWish, Which,
};
use hanare_protocol::wire::exchange::Query;
use hanare_protocol::wire::rebalance::{RebalanceStatus, RebalanceWish};
use hanare_protocol::wire::sync::{Arrival, Party, SyncRequest};
use hanare_protocol::{Error, Result};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Connections that end within so short a time, one after another, are no accidents: a barrier gives up.
const RESET_COUNT: u32 = 20;
const RESET_PAUSE: Duration = Duration::from_millis(200);

/// A program's attachment to the pool, by way of its host's node. Ends when the last clone and region are dropped.
///
/// FEATURE: RF-F1 EU-F26
#[derive(Clone)]
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
    /// `None`: in this program's user alone.
    trust: Option<Arc<Trust>>,
}

impl Trust {
    /// In this program's own user.
    pub fn own(pool: &Pool) -> Trust {
        Trust::of_user(pool.user().uid)
    }
}

impl Pool {
    /// Attaches to this host's node (`HANARE_NODE`, or its default socket), as the rank that the launcher's environment names. The
    /// program is of the tenant whose file `HANARE_TENANT` names.
    ///
    /// **Errors**: [`Error::NoNode`] where none answers, [`Error::VersionMismatch`] for another build, [`Error::BadSetting`].
    /// [`Error::TenantRefused`].
    pub fn attach() -> Result<Pool> {
        Pool::attach_to(&settings::node_socket(), launch::job_rank()?)
    }

    /// Attaches to this host's node outside any job, whatever the environment says: for tools, whose end is no rank's.
    pub fn attach_alone() -> Result<Pool> {
        Pool::attach_to(&settings::node_socket(), None)
    }

    /// Attaches to the node at `address` (a path, or `@name`), of the tenant whose file `HANARE_TENANT` names.
    ///
    /// **Errors**: as for [`Pool::attach`].
    pub fn attach_to(address: &str, job: Option<JobRank>) -> Result<Pool> {
        Pool::attach_as(address, job, settings::tenant())
    }

    /// The same as a program of the tenant whose file this is. `None`: of no tenant, whatever the environment says; for operators' tools.
    ///
    /// **Errors**: as for [`Pool::attach`]; [`Error::TenantRefused`], after a second, where the pool has no tenant of that name and key.
    pub fn attach_as(address: &str, job: Option<JobRank>, tenant: Option<TenantFile>) -> Result<Pool> {
        trace::on_attach(job)?;
        let shared = Shared::attach(address, job, tenant)?;
        if let Some(trace) = trace::current() {
            let faults = shared.faults.clone();
            trace.count_pages(move || faults.totals());
        }
        if let Some(trace) = trace::current().filter(|_| job.is_some_and(|job| job.ranks > 1)) {
            // The home's clock is the job's: the timelines of its ranks lie side by side, whatever their hosts' clocks say.
            let home = shared.home()?;
            trace.align(|| home.clock());
        }
        Ok(Pool::of(shared))
    }

    /// Another handle of an attachment. It believes in regions of this program's user. **Cost**: no allocation.
    pub(crate) fn of(shared: Arc<Shared>) -> Pool {
        Pool { shared, trust: None }
    }

    /// The users whose regions this handle believes in, where it takes a region for more than bytes.
    pub fn trust(&self) -> Trust {
        self.trust.as_deref().cloned().unwrap_or_else(|| Trust::own(self))
    }

    /// The same attachment, with other trust: for queues, groups, and regions that are made or attached.
    pub fn trusting(&self, trust: Trust) -> Pool {
        Pool { shared: self.shared.clone(), trust: Some(Arc::new(trust)) }
    }

    /// Opens a region that is more than bytes to this program: state that it acts upon. **Errors**: as for [`Pool::open`]; [`Error::NotTrusted`].
    pub fn open_trusted(&self, name: &str) -> Result<Region> {
        let region = self.open(name)?;
        self.trust().check_region(&region).map(|()| region)
    }

    /// The program's rank in its job; 0 where it was started alone.
    pub fn rank(&self) -> u32 {
        self.shared.job.map_or(0, |job| job.rank.0)
    }

    /// Number of the job's ranks; 1 where it was started alone.
    pub fn ranks(&self) -> u32 {
        self.shared.job.map_or(1, |job| job.ranks)
    }

    /// The host's node.
    pub fn node(&self) -> NodeId {
        self.shared.node
    }

    /// The user of this program, as its node's kernel says.
    pub fn user(&self) -> User {
        self.shared.user
    }

    /// The client's id in the pool.
    pub fn client(&self) -> ClientId {
        self.shared.client()
    }

    /// Makes a region of `len` bytes, all zero.
    ///
    /// **Errors**: [`Error::NameTaken`], [`Error::BadName`], [`Error::BadLength`], [`Error::BadPlacement`], [`Error::PoolFull`],
    /// [`Error::QuotaExceeded`], [`Error::NoCoordinator`], [`Error::BadSetting`].
    pub fn create(&self, name: &str, len: u64, options: &CreateOptions) -> Result<Region> {
        self.create_as(name, len, options, Existing::Refuse)
    }

    /// Makes a region, or opens the one of that name and length that is there ([`Region::created`] says which).
    ///
    /// A region of this user whose bytes went with their node is made again, all zero, unless `refuse_lost` forbids it. [`Region::renewed`]
    /// says so. Bytes that are away for now are no reason: they may come back.
    ///
    /// **Errors**: as for [`Pool::create`], and [`Error::BadLength`] where the existing one has another length. [`Error::NotTrusted`] where another
    /// user made it, and is not named by [`Pool::trusting`]; such a region can be opened ([`Pool::open`]).
    ///
    /// FEATURE: D2-F6
    pub fn create_or_attach(&self, name: &str, len: u64, options: &CreateOptions) -> Result<Region> {
        let existing = if options.refuse_lost { Existing::Attach } else { Existing::AttachOrRenew };
        let region = self.create_as(name, len, options, existing)?;
        self.trust().check_region(&region).map(|()| region)
    }

    fn create_as(&self, name: &str, len: u64, options: &CreateOptions, existing: Existing) -> Result<Region> {
        let copies = options.copies_or_setting()?;
        let CreateOptions { placement, mode, attributes, .. } = options.clone();
        self.region(&Request::Create { name: name.to_owned(), len, placement, copies, mode, attributes, existing })
    }

    /// Opens a region for the most that this user may do with it, whoever made it. Its bytes are its owner's word, as those of a file
    /// ([`Region::owner`]).
    ///
    /// **Errors**: [`Error::UnknownRegion`], [`Error::NoPermission`], [`Error::RegionLost`], [`Error::NodeLost`].
    pub fn open(&self, name: &str) -> Result<Region> {
        Region::new(self.shared.clone(), self.shared.open(Which::Name(name.to_owned()), None)?)
    }

    /// Opens the region that has this number ([`Region::gid`]), whatever its name is by now. `None` is for the most that this user may do.
    pub fn open_gid(&self, gid: Gid, rights: Option<Rights>) -> Result<Region> {
        Region::new(self.shared.clone(), self.shared.open(Which::Gid(gid), rights)?)
    }

    /// Opens a region for reading, or for reading and writing.
    pub fn open_for(&self, name: &str, rights: Rights) -> Result<Region> {
        Region::new(self.shared.clone(), self.shared.open(Which::Name(name.to_owned()), Some(rights))?)
    }

    /// Makes a region longer and opens it; the new bytes are zero, the old ones stay where they are.
    ///
    /// **Errors**: [`Error::BadLength`] where it is longer already, and as for [`Pool::create`].
    pub fn resize(&self, name: &str, len: u64) -> Result<Region> {
        self.region(&Request::Resize { name: name.to_owned(), len })
    }

    /// Removes a region. Programs that have it mapped keep their mapping. All other use of it fails from now on, at each node that is a
    /// member of the pool.
    ///
    /// **Cost**: waits until its nodes have let go of it. A silent or lost node is waited for until its lease is over, some seconds.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.tell(&Request::Remove { name: name.to_owned() })
    }

    /// Changes what is kept with a region: its name, owner, mode or attributes. Handles that are open keep what they were opened for.
    ///
    /// **Errors**: [`Error::NoPermission`] for all but its owner and root. Root alone gives it to another user. [`Error::NameTaken`],
    /// [`Error::BadName`]. [`Error::LimitReached`] for too many bytes of attributes. [`Error::QuotaExceeded`].
    pub fn alter(&self, name: &str, changes: &Changes) -> Result<()> {
        self.tell(&Request::Alter { name: name.to_owned(), changes: changes.clone() })
    }

    /// Takes a node that does not come back out of the list of nodes. Bytes that it could have brought back are lost.
    ///
    /// **Errors**: [`Error::BadSetting`] for a member, and for a node that the pool does not have. [`Error::NoPermission`] if it has bytes
    /// of others.
    pub fn forget_node(&self, node: NodeId) -> Result<()> {
        self.tell(&Request::Forget { node })
    }

    /// Has what a node holds moved to other nodes, ends that, or looks at it. It goes on without this program.
    ///
    /// **Errors**: [`Error::BadSetting`] for a node that is no member, and for a user that may not.
    pub fn drain(&self, node: NodeId, wish: &DrainWish) -> Result<DrainStatus> {
        match self.shared.ask(&Request::Drain { node, wish: wish.clone() })? {
            Answer::Drain(status) => Ok(status),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Spreads the pool's bytes over its nodes again, ends that, or looks at it. It goes on without this program.
    ///
    /// **Errors**: [`Error::BadSetting`] for a user that may not.
    pub fn rebalance(&self, wish: RebalanceWish) -> Result<RebalanceStatus> {
        match self.shared.ask(&Request::Rebalance(wish))? {
            Answer::Rebalance(status) => Ok(status),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Adds a keeper, removes one, or gives its place to another disk, because its disk is lost. It is done when the next list of keepers has
    /// its coordinator, a second or two later.
    ///
    /// **Errors**: [`Error::BadSetting`] where the keeper, the node or a majority of the next list is not reached. The same while another
    /// change is under way, and for a user that may not.
    pub fn change_keepers(&self, address: &str, change: KeeperChange) -> Result<()> {
        match self.shared.ask(&Request::Keepers { address: address.to_owned(), change })? {
            Answer::Ok => Ok(()),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Lists tenants, with what they use. For operators: root, and the user that runs this host's node.
    ///
    /// **Errors**: [`Error::BadSetting`] for others.
    pub fn tenants(&self) -> Result<Vec<TenantStat>> {
        let mut all: Vec<TenantStat> = Vec::new();
        loop {
            let after = all.last().map_or_else(String::new, |tenant| tenant.name.clone());
            match self.shared.ask(&Request::Tenants(TenantWish::List { after }))? {
                Answer::Tenants { tenants, more } if !more || !tenants.is_empty() => {
                    all.extend(tenants);
                    if !more {
                        return Ok(all);
                    }
                }
                other => return Err(self.nonsense(&other)),
            }
        }
    }

    /// Makes, changes or removes a tenant. A removal goes on until none of the tenant's regions is left. For operators.
    ///
    /// **Errors**: [`Error::BadSetting`] for others, and where the tenant is not there, is there already, or has regions.
    /// [`Error::LimitReached`].
    pub fn change_tenant(&self, wish: &TenantWish) -> Result<()> {
        loop {
            match self.shared.ask(&Request::Tenants(wish.clone()))? {
                Answer::Ok => return Ok(()),
                Answer::Tenants { .. } if matches!(wish, TenantWish::Remove { with_regions: true, .. }) => {}
                other => return Err(self.nonsense(&other)),
            }
        }
    }

    /// Describes a region.
    pub fn stat(&self, name: &str) -> Result<RegionStat> {
        match self.shared.ask(&Request::Stat { name: name.to_owned() })? {
            Answer::Stat(stat) => Ok(stat),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Lists all regions by name.
    pub fn list(&self) -> Result<Vec<RegionStat>> {
        let mut all: Vec<RegionStat> = Vec::new();
        loop {
            let after = all.last().map_or_else(String::new, |region| region.name.clone());
            match self.shared.ask(&Request::List { after })? {
                Answer::List { regions, more } if !more || !regions.is_empty() => {
                    all.extend(regions);
                    if !more {
                        return Ok(all);
                    }
                }
                other => return Err(self.nonsense(&other)),
            }
        }
    }

    /// Describes the pool: its nodes and what they lend.
    pub fn status(&self) -> Result<PoolStatus> {
        match self.shared.ask(&Request::Status)? {
            Answer::Status(status) => Ok(status),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Orders this client's earlier commands before its later ones, without waiting for the network. A node runs one client's commands in
    /// the order of their begin, and a CPU fence orders stores to mapped memory. Waits for this host's node alone: an access to mapped
    /// memory may overtake earlier requests to it.
    pub fn fence(&self) {
        // Failures are reported where they are waited for.
        let _ = self.shared.own().map(|remote| remote.quiesce());
        fence(Ordering::SeqCst);
    }

    /// Waits until all earlier writes of this client, by command or by store, are visible at their home. All nodes that hold bytes of a region
    /// with copies have them then.
    ///
    /// **Errors**: the first connection's that failed; what was written there is unknown. As for [`Pool::check_stores`]. [`Error::NodeLost`]
    /// where a region with copies has no home in time.
    pub fn flush(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        let remotes = self.shared.remotes();
        trace::slice("flush", || remotes.iter().try_for_each(|remote| remote.quiesce()))?;
        self.release_stores()
    }

    /// [`Pool::check_stores`]. Before, stores through coherent mappings of regions with copies are put at all nodes that hold the bytes. Programs
    /// that go on after a barrier, or with a lock, find them there, whoever dies.
    pub(crate) fn release_stores(&self) -> Result<()> {
        self.shared.mapped.release_stores(&self.shared)
    }

    /// Says whether what this program stored through its coherent mappings is still there. Barriers and unlocks ask it by
    /// themselves: nobody goes on as if others could see stores that are gone.
    ///
    /// **Cost**: a load for each mapping. **Errors**: [`Error::NodeLost`] where this host was cut off, and its pages were lost; until
    /// the region is unmapped.
    pub fn check_stores(&self) -> Result<()> {
        self.shared.mapped.check_stores()
    }

    /// The own node's knowledge of the pool: whether it is a member at present, and the memory that it lends. The coordinator is not
    /// asked.
    pub fn own_status(&self) -> Result<OwnStatus> {
        match self.shared.ask(&Request::Own)? {
            Answer::Own(status) => Ok(status),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Waits until every rank of the job is here. Alone, it returns at once. No deadline while all ranks live.
    ///
    /// **Cost**: one message each way between each rank and the job's home. Coherent mappings of regions with copies are flushed before, as by
    /// [`Pool::flush`]. **Errors**: [`Error::RankGone`] with the rank's number when one has ended; [`Error::NodeLost`] when the home is gone,
    /// or as for [`Pool::check_stores`]. **Source**: [D2 Table 1] dn_barrier.
    ///
    /// FEATURE: D2-F8
    pub fn barrier(&self) -> Result<()> {
        // A rank whose stores are lost does not arrive: the others would go on without them.
        self.release_stores()?;
        let Some(who) = self.shared.job else { return Ok(()) };
        fence(Ordering::SeqCst);
        let mut generation = self.shared.barriers.lock().unwrap_or_else(PoisonError::into_inner);
        self.arrive(Arrival { who, generation: *generation })?;
        *generation += 1;
        Ok(())
    }

    /// Arrives at a barrier of the job, perhaps not for the first time: at the pool's home, or the next one.
    pub(super) fn arrive(&self, arrival: Arrival) -> Result<()> {
        trace::slice("barrier", || self.shared.ask_home(|home| arrive_at(home, arrival)))
    }

    /// Messages and bytes to and from nodes so far, with the faults of mappings. They count over the program's own connections. A page that
    /// its node brought for a thread of the program counts as a message with the page's bytes, also if it came ahead. Other messages
    /// between nodes are theirs. So is a page of this host's own memory that another host gives back. A page that another program of this
    /// host brought counts for that program.
    pub fn traffic(&self) -> Traffic {
        let mut sum = self.shared.mapped.traffic(&self.shared.faults);
        sum += self.shared.links.read();
        self.shared.remotes().iter().for_each(|remote| sum += remote.traffic());
        sum
    }

    /// Tells the pool that a rank's process has ended, so that nobody waits for it. It `died` if its status is not 0. For launchers.
    pub fn rank_ended(&self, job: JobId, rank: Rank, reason: &str, died: bool) -> Result<()> {
        self.tell(&Request::RankEnded { job, rank, reason: reason.to_owned(), died })
    }

    /// The error for an answer of another kind than was asked for.
    fn nonsense(&self, answer: &Answer) -> Error {
        self.shared.nonsense(answer)
    }

    /// Leaves the groups and mailboxes of this attachment in good order: what they sent arrives, and their regions go. Later calls on them fail.
    /// Other handles go on, and the program's end is no death for its job. A program that ends without dropping its handles calls this last.
    ///
    /// **Cost**: a message each way for each party that was sent to. A call of another thread that is at work on a group keeps its place.
    pub fn leave(&self) {
        // A caller that wants the outcome asks for it first.
        let _ = self.release_stores();
        self.shared.leave();
    }

    /// Ends this program and the whole job that it is a rank of, with this status. Its lowest 8 bits count, as with `exit`. Never returns.
    ///
    /// Under `hanare run`, here or on other hosts, the launcher sends SIGTERM to all other ranks at once, and SIGKILL 5 s later. Its own
    /// status is this one, even 0, unless a rank had failed before: that rank's status stays. Other launchers see this rank end with the
    /// status. `mpirun` ends the job unless it is 0, `srun` if `--kill-on-bad-exit` says so. There the pool is told. So the other ranks'
    /// barriers and waits end with [`Error::RankGone`].
    ///
    /// **Cost**: the time until the launcher hears of it, half a second at most. Under other launchers as a naming call. Other threads go
    /// on meanwhile. Functions that the program registered for its exit run, as after `main`.
    pub fn abort(&self, status: i32) -> ! {
        // Printed text must not depend on whether this process ends by itself, or is told to first.
        let _ = std::io::Write::flush(&mut std::io::stdout());
        // SAFETY: NULL stands for all streams of the process.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        if let Some(who) = self.shared.job
            && !last_word::tell(who, status)
        {
            // The process ends whatever becomes of this.
            let _ = self.rank_ended(who.job, who.rank, &format!("it ended the job with status {}", status & 0xff), true);
        }
        std::process::exit(status)
    }

    fn tell(&self, request: &Request) -> Result<()> {
        match self.shared.ask(request)? {
            Answer::Ok => Ok(()),
            other => Err(self.nonsense(&other)),
        }
    }

    fn region(&self, request: &Request) -> Result<Region> {
        match self.shared.ask(request)? {
            Answer::Region(view) => Region::new(self.shared.clone(), view),
            other => Err(self.nonsense(&other)),
        }
    }
}

/// A rank arrives at that home. It arrives again if the connection ends meanwhile, as long as the home takes another.
fn arrive_at(home: &Remote, arrival: Arrival) -> Result<()> {
    let mut resets = 0;
    loop {
        let (begun, was_there) = (Instant::now(), home.is_connected());
        let mut request = home.draft();
        request.set_query(&Query::Sync(SyncRequest::Arrive(Party::Rank(arrival), None)), Patience::Endless);
        // SAFETY: an arrival has no memory of ours.
        let outcome = match unsafe { home.post(request) } {
            Ok(seq) => home.wait(seq),
            Err(NotPosted { error: Error::NodeLost { .. }, .. }) if was_there => continue,
            Err(NotPosted { error, .. }) => return Err(error),
        };
        resets = if begun.elapsed() < RESET_PAUSE { resets + 1 } else { 0 };
        match outcome {
            Err(Error::NodeLost { .. }) if resets < RESET_COUNT => std::thread::sleep(RESET_PAUSE / RESET_COUNT),
            other => return other,
        }
    }
}
