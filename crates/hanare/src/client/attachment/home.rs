//! The pool's home: the node of names of locks and groups, and of jobs' barriers.
//!
//! In a pool with keepers the home may move. So the program has a connection of its own to the home, and a thread that looks for
//! it. When the home has moved, that connection ends. Requests that wait there go to the next home, and locks that were taken over
//! it are lost.

use super::Shared;
use crate::client::remote::Remote;
use crate::client::threads;
use hanare_protocol::wire::control::{Answer, NodeAddress, OwnStatus, Request};
use hanare_protocol::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time between looks for the home.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Time after which a home is asked again that refused, because it is none yet.
const AGAIN_PAUSE: Duration = Duration::from_millis(50);

/// Bytes of the looking thread's stack: it asks one question.
const STACK_LEN: usize = 256 << 10;

/// The home that the program knows.
#[derive(Default)]
pub(crate) struct KnownHome(Mutex<Option<Home>>);

struct Home {
    /// The life of the attachment in which it was heard of.
    life: u64,
    at: NodeAddress,
    /// Its own connection, where the pool has keepers.
    remote: Option<Arc<Remote>>,
}

impl Shared {
    /// The connection to the pool's home.
    ///
    /// **Cost**: a question to this host's node, once in a life.
    pub fn home(self: &Arc<Self>) -> Result<Arc<Remote>> {
        let life = self.life().number;
        let mut known = self.known_home();
        let home = match &*known {
            Some(home) if home.life == life => home,
            _ => {
                let status = self.own_status()?;
                let remote = if status.keepers.is_empty() { None } else { Some(self.home_at(&status.coordinator)?) };
                if remote.is_some() && known.as_ref().is_none_or(|home| home.remote.is_none()) {
                    let shared = Arc::downgrade(self);
                    threads::start("hanare-home", STACK_LEN, move || watch(&shared))?;
                }
                known.insert(Home { life, at: status.coordinator, remote })
            }
        };
        match &home.remote {
            Some(remote) => Ok(remote.clone()),
            None => self.remote(home.at.node, Some(&home.at.address)),
        }
    }

    fn known_home(&self) -> MutexGuard<'_, Option<Home>> {
        self.home.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own_status(&self) -> Result<OwnStatus> {
        match self.ask(&Request::Own)? {
            Answer::Own(status) => Ok(status),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Another connection to that node.
    fn home_at(self: &Arc<Self>, at: &NodeAddress) -> Result<Arc<Remote>> {
        let dial = self.tcp_dial(at.node, &at.address)?;
        Ok(Arc::new(Remote::new(at.node, self.bound, (dial, self.own_loss()), self.known())?))
    }

    /// Asks the home. If another node becomes it meanwhile, that one is asked.
    ///
    /// **Errors**: those of `ask`. It is called again where the home was lost, silent or another: whatever happened there is void at the next.
    pub fn ask_home<T>(self: &Arc<Self>, mut ask: impl FnMut(&Arc<Remote>) -> Result<T>) -> Result<T> {
        let mut begun = Instant::now();
        loop {
            let home = self.home()?;
            match ask(&home) {
                Err(error) if self.may_ask_again(&home, &error, &mut begun) => {}
                outcome => return outcome,
            }
        }
    }

    /// True if the home is another by now, or may still become it. A moment passes before the second.
    fn may_ask_again(self: &Arc<Self>, asked: &Arc<Remote>, error: &Error, begun: &mut Instant) -> bool {
        let is_homes = |error: &Error| {
            matches!(error, Error::NoCoordinator { .. } | Error::NodeLost { .. } | Error::Timeout { .. } | Error::Broken { .. })
        };
        if !is_homes(error) {
            return false;
        }
        self.look_for_home();
        match &*self.known_home() {
            Some(Home { remote: Some(remote), .. }) if !Arc::ptr_eq(remote, asked) => {
                *begun = Instant::now();
                return true;
            }
            Some(Home { remote: Some(_), .. }) => {}
            _ => return false,
        }
        // A connection that broke at the same home is its caller's to judge.
        if matches!(error, Error::Broken { .. }) {
            return false;
        }
        std::thread::sleep(AGAIN_PAUSE);
        begun.elapsed() < self.bound
    }

    /// Goes to the node that is the home today, where that has moved.
    fn look_for_home(self: &Arc<Self>) {
        let Ok(OwnStatus { coordinator, .. }) = self.own_status() else { return };
        let mut known = self.known_home();
        let Some(Home { at, remote: Some(remote), .. }) = known.as_mut() else { return };
        if (at.node, &at.address) == (coordinator.node, &coordinator.address) {
            return;
        }
        let Ok(next) = self.home_at(&coordinator) else { return };
        let before = std::mem::replace(remote, next);
        *at = coordinator;
        drop(known);
        before.abandon("another node is the pool's home now");
    }
}

/// Looks for the home until the program detaches.
fn watch(shared: &Weak<Shared>) {
    loop {
        std::thread::sleep(LOOK_PAUSE);
        let Some(shared) = shared.upgrade() else { return };
        shared.look_for_home();
    }
}
