//! TCP connections from elsewhere: greeted in threads of their own, since a stranger may be slow, then handed on.

use super::desk::Letter;
use crate::node::post::Post;
use hanare_fabric::tcp::{Hellos, Incoming, Keys, Listener, Proof};
use hanare_fabric::ucx;
use hanare_protocol::session::Series;
use hanare_protocol::wire::greeting::{Hello, Role};
use hanare_protocol::{Error, Result};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Most greetings at once; further strangers wait in the listener's queue.
const GREETINGS_MAX: usize = 128;

/// On what terms strangers are let in.
#[derive(Clone)]
pub(crate) struct Terms {
    /// What they must prove.
    pub keys: Keys,
    /// Where nodes must go instead, if this node is no coordinator.
    pub join: Option<String>,
    /// How long a greeting may take.
    pub bound: Duration,
    /// What commands travel by.
    pub fabric: ucx::Choice,
}

pub(crate) struct Strangers {
    listener: Listener,
    terms: Terms,
    post: Arc<Post<Letter>>,
    greetings: Arc<AtomicUsize>,
}

impl Strangers {
    pub fn new(listener: Listener, terms: Terms, post: Arc<Post<Letter>>) -> Strangers {
        Strangers { listener, terms, post, greetings: Arc::default() }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.event()
    }

    /// Accepts those who wait, as many as may be greeted at once. Returns whether some had to go on waiting.
    pub fn accept(&self) -> bool {
        while self.greetings.load(Ordering::Relaxed) < GREETINGS_MAX {
            match self.listener.accept() {
                Ok(Some(stranger)) => self.greet(stranger),
                Ok(None) => return false,
                Err(error) => {
                    tracing::warn!("{error}");
                    return true;
                }
            }
        }
        true
    }

    fn greet(&self, stranger: Incoming) {
        let (terms, post, greetings) = (self.terms.clone(), self.post.clone(), self.greetings.clone());
        greetings.fetch_add(1, Ordering::Relaxed);
        let peer = stranger.peer().to_owned();
        let greet = move || {
            match terms.take_in(stranger) {
                Ok(letter) => post.send(letter),
                Err(error) => tracing::warn!("a connection from {peer} was refused: {error}"),
            }
            greetings.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("hanare-greeting".to_owned()).spawn(greet) {
            tracing::warn!("a connection was closed, for no thread could be started: {error}");
            self.greetings.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Terms {
    /// Greets a stranger, and agrees with it on the fabric where it has commands.
    fn take_in(&self, stranger: Incoming) -> Result<Letter> {
        let deadline = Instant::now() + self.bound;
        let verify =
            |hello: &Hello, hellos: &Hellos, proof: &Proof| admit(&self.keys, self.join.as_deref(), hello, hellos, proof);
        let greeted = stranger.greet(0, &verify, deadline)?;
        match greeted.hello.role {
            Role::Control => Ok(Letter::Greeted(greeted)),
            Role::Pages => Ok(Letter::Wired(Box::new(greeted.link))),
            Role::Data => {
                let series = (greeted.hello.from > 0).then_some(Series(greeted.hello.from));
                ucx::agree(greeted, self.fabric, deadline).map(|agreed| Letter::Linked { link: agreed.link, series })
            }
        }
    }
}

/// Whether a stranger may come in.
fn admit(keys: &Keys, join: Option<&str>, hello: &Hello, hellos: &Hellos, proof: &Proof) -> Result<()> {
    if !keys.is_proof(hellos, proof) {
        return Err(Error::KeyRefused { peer: "the connecting peer".to_owned() });
    }
    match (hello.role, join) {
        (Role::Control, Some(coordinator)) => Err(Error::BadSetting {
            key: "--join".to_owned(),
            value: "this node".to_owned(),
            reason: format!("it is not the pool's coordinator; join {coordinator}"),
        }),
        _ => Ok(()),
    }
}
