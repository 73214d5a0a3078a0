//! The node: the process of one host that lends memory, serves its host's clients and, by vector commands, everyone else.
//!
//! | module | holds |
//! |---|---|
//! | `control` | the thread that decides: clients' requests, membership, the coordinator where it is here |
//! | `data` | the thread that serves vector commands and barriers |
//! | `pages` | shared regions: directories of pages that lie here, frames of those that are mapped here |
//! | `extents` | what the node holds, found by slot and opened by grant |
//! | `extent` | one extent: its bytes, its heap, its queues |
//! | `image` | its bytes at one moment |
//! | `queues`, `spill` | queues in extents; what they spill, and for whom |
//! | `journal` | the coordinator's durable records |
//! | `keepers` | the same, held by several nodes together |
//! | `closer` | the thread that unmaps and closes what programs leave that are gone |
//! | `counts` | what was done of commands, for metrics |
//! | `member_list` | which programs are attached |
//! | `user_times` | time that users have taken of a thread |
//! | `persistence` | extents on disk, from a good end to the next start |
//! | `key` | the file with the pool's key |
//! | `control_link` | messages between nodes |
//! | `notice_queue`, `notices` | how the threads tell each other something, and what |
//! | `lost` | the error for lent memory that is gone |
//! | `options` | how a node is started |

mod closer;
mod control;
mod control_link;
mod counts;
mod data;
mod direct_access;
mod extent;
mod extents;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod image;
mod journal;
mod keepers;
mod key;
mod lost;
mod member_list;
mod notice_queue;
mod notices;
mod options;
mod pages;
mod persistence;
mod queues;
mod spill;
mod user_times;

#[cfg(test)]
pub(crate) use data::fuzz::seeds as fuzz_sharing_seeds;
#[cfg(any(test, fuzzing))]
pub(crate) use data::fuzz::sharing as fuzz_sharing;
pub use hanare_memory::allocator::keep_freed_memory;
#[cfg(any(test, fuzzing))]
pub(crate) use journal::fuzz as fuzz_journal;
pub use journal::read_journal;
#[cfg(any(test, fuzzing))]
pub(crate) use key::fuzz as fuzz_key;
pub use key::{default_key_file, draw_key, drop_old_keys, new_key_file, rotate_key_file};
pub use options::{FormerJournal, NodeOptions, SocketAccess};
#[cfg(any(test, fuzzing))]
pub(crate) use pages::fuzz::pages as fuzz_pages;
#[cfg(test)]
pub(crate) use pages::fuzz::seeds as fuzz_pages_seeds;
pub use persistence::Persist;
#[cfg(any(test, fuzzing))]
pub(crate) use persistence::fuzz::kept as fuzz_kept;
#[cfg(test)]
pub(crate) use persistence::fuzz::seeds as fuzz_kept_seeds;

pub use hanare_memory::{HostTerms, KeepFree, Source};

use control::{ControlLoop, Parts};
use extents::Extents;
use hanare_fabric::settings;
use hanare_fabric::tcp::{Hellos, Keys, Listener, Secret};
use hanare_home::PageTerms;
use hanare_memory::{Lender, LenderOptions};
use hanare_protocol::id::{Incarnation, NodeId};
use hanare_protocol::member::{self, Member};
use hanare_protocol::{Error, Result, coordinator};
use notice_queue::NoticeQueue;
use notices::ToControl;
use persistence::{Keeper, Schedule};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// A node's proof of its role to another node.
fn proving(keys: &Keys) -> impl Fn(&Hellos) -> Result<Secret> + '_ {
    |hellos| keys.secret(hellos).map_err(|why| Error::Garbage { peer: "this node".to_owned(), reason: why.0.to_owned() })
}

/// A node's way to its pool's coordinator.
#[derive(Default)]
struct Origin {
    /// The coordinator, where it is here for good.
    coordination: Option<control::Coordination>,
    /// Present at a node that is a keeper or can be one: the coordinator is here while it leads.
    reigns: Option<control::Reigns>,
    /// The addresses of coordinators elsewhere.
    addresses: Vec<String>,
}

/// Finds the coordinator of a node's pool, which begins here where the options name no other.
fn find_coordinator(
    options: &NodeOptions,
    (address, life): (&str, Incarnation),
    keys: &Keys,
    notices: &Arc<NoticeQueue<ToControl>>,
) -> Result<Origin> {
    let own = coordinator::Settings::new(&options.name);
    let rules = coordinator::Settings { quota: options.quota, home_life: Some(life), ..own };
    if let Some(join) = &options.join {
        return Ok(Origin { addresses: vec![join.clone()], ..Origin::default() });
    }
    if options.keepers.is_empty() {
        let coordination = control::open_coordination(rules, options.journal.as_deref())?;
        return Ok(Origin { coordination: Some(coordination), ..Origin::default() });
    }
    let named = keepers::sorted(&options.keepers)?;
    let is_named = named.iter().any(|keeper| keeper == address);
    // A node that listens at any port cannot be a keeper: others find it by its address.
    let can_be_one = is_named || options.former_journal.as_ref().is_some_and(|former| former.is_wanted);
    if !can_be_one && (options.listen.ends_with(":0") || options.journal.is_none()) {
        return Ok(Origin { addresses: named, ..Origin::default() });
    }
    let path = options.journal.as_deref().ok_or_else(|| Error::BadSetting {
        key: "--keepers".to_owned(),
        value: options.keepers.join(","),
        reason: "a keeper needs a file for what it promises".to_owned(),
    })?;
    let mut keepers = keepers::Keepers::open(&named, address, path, keys.clone(), notices.clone())?;
    if let Some(former) = &options.former_journal {
        keepers.bring(former)?;
    }
    let addresses = keepers.addresses();
    Ok(Origin { reigns: Some(control::Reigns::new(keepers, rules)), addresses, ..Origin::default() })
}

type ControlThread = JoinHandle<Result<()>>;

/// Starts the control thread.
fn start_control(parts: Parts) -> Result<ControlThread> {
    let mut control = ControlLoop::new(parts)?;
    let run = move || {
        hanare_memory::vital::is_vital();
        hanare_memory::prompt::shorten_turns(0);
        control.run()
    };
    let thread = std::thread::Builder::new().name("hanare-control".to_owned()).spawn(run);
    thread.map_err(|error| Error::System { what: "start a thread".to_owned(), reason: error.to_string() })
}

/// Begins to write extents down from time to time, where that is wished.
fn start_schedule(keeper: Option<&Arc<Keeper>>, persist: Option<&Persist>, extents: &Arc<Extents>) -> Result<Option<Schedule>> {
    let wish = keeper.zip(persist.and_then(|persist| persist.every));
    wish.map(|(keeper, every)| Schedule::start(keeper.clone(), extents.clone(), every)).transpose()
}

/// Memory that a node of these options lends.
fn lent(options: &NodeOptions) -> LenderOptions {
    let (bytes, huge, ahead) = (options.memory, options.huge, options.ahead);
    LenderOptions { source: options.source.clone(), bytes, slab_len: None, huge, ahead, promises: options.promises.clone() }
}

/// Waits until the control thread says that the node is a member, or why it never will be.
fn await_member(is_ready: &Receiver<Result<NodeId>>, thread: ControlThread) -> Result<(NodeId, ControlThread)> {
    match is_ready.recv() {
        Ok(id) => Ok((id?, thread)),
        // The thread ended without a word: its own outcome says why.
        Err(_) => match thread.join() {
            Ok(Err(error)) => Err(error),
            _ => Err(Error::System { what: "start the node".to_owned(), reason: "its control thread ended".to_owned() }),
        },
    }
}

/// A node that runs in threads of this process. Dropping it ends it in good order.
pub struct Node {
    id: NodeId,
    address: String,
    socket: String,
    notices: Arc<NoticeQueue<ToControl>>,
    thread: Mutex<Option<ControlThread>>,
}

impl Node {
    /// Starts a node: lends memory, joins its pool (or begins one), and returns when clients may attach.
    ///
    /// **Errors**: [`Error::BadSetting`] (no such memory, address, key, journal or socket), [`Error::NoCoordinator`] when the
    /// pool it should join was not reached within the bound, [`Error::KeyRefused`], [`Error::VersionMismatch`].
    pub fn start(options: NodeOptions) -> Result<Node> {
        let begun = Instant::now();
        control::raise_limit();
        let key_file = key::KeyFile::new(options.key.as_deref());
        let joins = options.join.is_some() || !options.keepers.is_empty();
        let keys = Keys::of(key::pool_key(options.key.as_deref(), joins)?, options.sealing).speaking(options.versions);
        let (bound, fabric) = (settings::answer_bound()?, settings::fabric()?);
        let lender = Arc::new(Lender::new(&lent(&options))?);
        let extents = Arc::new(Extents::new(lender.clone()));
        let listener = Listener::bind(&options.listen)?;
        let address = options.advertised(listener.address());
        let notices = Arc::new(NoticeQueue::new()?);
        let incarnation = Incarnation(u128::from_le_bytes(hanare_memory::random::bytes()?));
        let Origin { coordination, reigns, addresses } = find_coordinator(&options, (&address, incarnation), &keys, &notices)?;
        let join = (!addresses.is_empty() && reigns.is_none()).then(|| addresses.join(" or "));
        let named = (!addresses.is_empty()).then_some((addresses, !options.keepers.is_empty()));
        let home = named.map(|named| control::CoordinatorLink::new(named, keys.clone(), bound, notices.clone()));
        let keeper = |persist: &Persist| Keeper::open(&persist.folder, incarnation, &options.name).map(Arc::new);
        let keeper = options.persist.as_ref().map(keeper).transpose()?;
        let restored = keeper.as_ref().map(|keeper| keeper.restore(&extents)).transpose()?.flatten();
        let was_home = coordination.as_ref().is_some_and(control::Coordination::began_again);
        let locks = hanare_home::LockTerms { is_home: coordination.is_some(), was_home, was_lender: restored.is_some() };
        let life = member::Settings {
            answer_ms: bound.as_millis() as u64,
            wish: options.number.map(NodeId),
            restores: restored.as_ref().map(|restored| restored.life),
            persists: keeper.is_some(),
            ..member::Settings::new(incarnation, &options.name, &address)
        };
        let schedule = start_schedule(keeper.as_ref(), options.persist.as_ref(), &extents)?;
        let frames_max = options.frames / hanare_protocol::limits::PAGE_LEN;
        let pages = PageTerms { address: address.clone(), life: incarnation, answer: bound, frames_max };
        let service = data::ServiceTerms {
            extents: extents.clone(),
            keys: keys.clone(),
            bound,
            fabric,
            locks,
            pages,
            copy_rate: options.copy_rate,
            threads: options.threads,
        };
        let (ready, is_ready) = channel();
        let parts = Parts {
            member: Member::with_extents(life, restored.map_or_else(Vec::new, |restored| restored.held)),
            keeper,
            schedule,
            coordination,
            reigns,
            home,
            acceptor: control::Acceptor::start(
                listener,
                control::GreetingTerms { keys: keys.clone(), join, bound, fabric },
                notices.clone(),
            )?,
            service: data::Service::start(service, notices.clone())?,
            extents,
            host_watch: lender.watch_host(options.host)?,
            lender,
            notices: notices.clone(),
            keys,
            key_file,
            socket: options.socket.clone(),
            access: options.access,
            ready,
            begun,
        };
        let (id, thread) = await_member(&is_ready, start_control(parts)?)?;
        Ok(Node { id, address, socket: options.socket, notices, thread: Mutex::new(Some(thread)) })
    }

    /// Its number in the pool.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Address for other nodes and their clients: `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Address for clients of this host.
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Asks it to end in good order; returns at once.
    pub fn stop(&self) {
        self.notices.send(ToControl::Stop);
    }

    /// Waits for its end. **Errors**: why it ended by itself: the journal could not be written.
    pub fn wait(&self) -> Result<()> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        match thread.map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => {
                Err(Error::System { what: "run the node".to_owned(), reason: "its control thread panicked".to_owned() })
            }
            None => Ok(()),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
        if let Err(error) = self.wait() {
            tracing::error!("{error}");
        }
    }
}
