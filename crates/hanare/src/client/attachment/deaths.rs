//! A rank's knowledge of deaths in its job. Threads that wait for a word hear of them, because nobody may be left to change it.
//!
//! A rank that waits longer than a moment asks the pool's home once. The reply comes when a rank of its job has died. While the home is
//! away, waits for words go on without it.

use super::Shared;
use crate::client::remote::Remote;
use crate::client::request::Patience;
use hanare_protocol::limits::ANSWER_MS;
use hanare_protocol::wire::exchange::Query;
use hanare_protocol::wire::sync::SyncRequest;
use hanare_protocol::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time that an unreachable home is not asked again: making a connection may delay a wait.
const PAUSE: Duration = Duration::from_millis(ANSWER_MS);

/// Time that a thread sleeps between two looks for a death that it expects.
const NAP: Duration = Duration::from_millis(2);

/// Known deaths, shared by a program's threads.
#[derive(Default)]
pub(crate) struct Deaths(Mutex<Hearing>);

#[derive(Default)]
enum Hearing {
    /// Not asked yet.
    #[default]
    Unasked,
    /// The home has been asked, and answers by that number.
    Asked(Arc<Remote>, u64),
    /// The home could not be asked.
    Silent { since: Instant },
    /// A rank has died.
    Known(Error),
}

impl Shared {
    /// Fails where a rank of this program's job has died. Alone, never.
    ///
    /// **Cost**: at first a message to the pool's home; later a look at the connection. **Errors**: [`Error::RankGone`].
    pub fn check_deaths(self: &Arc<Self>) -> Result<()> {
        let Some(who) = self.job else { return Ok(()) };
        let mut state = self.deaths.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match &*state {
            Hearing::Known(death) => return Err(death.clone()),
            Hearing::Silent { since } if since.elapsed() < PAUSE => return Ok(()),
            Hearing::Asked(home, seq) if !home.is_done(*seq) => return Ok(()),
            Hearing::Asked(home, seq) => match home.wait(*seq) {
                Err(death @ Error::RankGone { .. }) => Hearing::Known(death),
                // The connection broke: the next look asks on another.
                _ => Hearing::Unasked,
            },
            Hearing::Unasked | Hearing::Silent { .. } => {
                let asked = self.home().and_then(|home| {
                    let mut request = home.draft();
                    request.set_query(&Query::Sync(SyncRequest::AwaitDeath { job: who.job }), Patience::Endless);
                    // SAFETY: such a request has no memory but its own.
                    let seq = unsafe { home.post(request) }?;
                    Ok((home, seq))
                });
                asked.map_or(Hearing::Silent { since: Instant::now() }, |(home, seq)| Hearing::Asked(home, seq))
            }
        };
        *state = next;
        match &*state {
            Hearing::Known(death) => Err(death.clone()),
            _ => Ok(()),
        }
    }

    /// The first death in this program's job, if the home tells of one within `patience`.
    pub fn first_death(self: &Arc<Self>, patience: Duration) -> Option<Error> {
        let begun = Instant::now();
        loop {
            if let Err(death) = self.check_deaths() {
                return Some(death);
            }
            if self.job.is_none() || begun.elapsed() >= patience {
                return None;
            }
            std::thread::sleep(NAP);
        }
    }
}
