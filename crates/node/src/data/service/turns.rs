//! Turns of links. Those that move many bytes have theirs on several threads at once.
//!
//! Only the service's thread has the home. A turn of a client's link touches its own buffers and the extents. A program of this host that
//! reaches those directly does the same. Turns of several links begin together, and the service waits until all of them have ended. Then it
//! acts on what each one brought, one after another. So no link sees a home that changes within its turn, and the home knows of no threads.
//!
//! ```text
//! service:  take links ──┬─ turn of a ─┬── act on a ── act on b ── act on c
//! others:                ├─ turn of b ─┤
//!                        └─ turn of c ─┘
//! ```

use super::{REST_FROM, REST_UP_TO, SeatedLink, ServiceLoop};
use crate::data::connection::{Connection, Did};
use crate::notices::ToControl;
use hanare_fabric::LinkError;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::time::Duration;

/// The threads that move bytes of links: the service's own, and others beside it where it has some.
#[derive(Default)]
pub(super) struct TurnThreads(Option<ThreadPool>);

/// A link that has its turn beside others.
struct LinkTurn {
    user: Option<u32>,
    id: u64,
    place: SeatedLink,
    outcome: std::result::Result<bool, LinkError>,
}

impl TurnThreads {
    /// Starts the others beside the calling thread, `count` together. Where the system gives none, the caller is alone.
    pub fn start(count: NonZero<usize>) -> TurnThreads {
        if count.get() == 1 {
            return TurnThreads::default();
        }
        let begin = |_| {
            hanare_memory::vital::is_vital();
            hanare_memory::prompt::shorten_turns(0);
        };
        let named = |at| format!("hanare-turns-{at}");
        let pool = ThreadPoolBuilder::new().num_threads(count.get()).use_current_thread().thread_name(named).start_handler(begin);
        let pool = pool.build().inspect_err(|error| tracing::warn!("one thread moves the bytes of all links: {error}"));
        TurnThreads(pool.ok())
    }

    /// Number of links that have their turns at once.
    fn count(&self) -> usize {
        self.0.as_ref().map_or(1, ThreadPool::current_num_threads)
    }

    /// Gives each link its turn, and returns when all have had it.
    ///
    /// **Cost**: waking threads that have slept since the last call.
    fn turn(&self, links: &mut [LinkTurn], now: Duration, is_shared: bool) {
        let Some(pool) = &self.0 else { return };
        let advance = |link: &mut LinkTurn| link.outcome = link.place.seat.advance(now, is_shared);
        pool.install(|| links.par_iter_mut().with_max_len(1).for_each(advance));
    }
}

impl ServiceLoop {
    /// A round of the awake links: users one after another, of each those that have waited longest. Returns whether anything moved.
    pub(super) fn move_awake(&mut self) -> bool {
        let (mut moved, mut next) = (false, None);
        self.rests = (self.rests || self.checked_by_call().nth(REST_FROM - 1).is_some()) && self.places.len() <= REST_UP_TO;
        self.awake.begin();
        self.read_clock();
        while let Some((user, id)) = next.take().or_else(|| self.awake.next(self.now)) {
            if self.threads.count() > 1 && self.moves_much(id) {
                moved |= self.move_several((user, id), &mut next);
            } else {
                let has_moved = self.move_one(id);
                moved |= self.had_turn(user, id, has_moved);
            }
            self.read_clock();
        }
        if self.extents.spills.take_call() {
            self.control.send(ToControl::Spills);
        }
        moved
    }

    /// A link had its turn: it waits for the next one, or rests. Returns whether anything moved.
    fn had_turn(&mut self, user: Option<u32>, id: u64, has_moved: bool) -> bool {
        self.awake.had_turn(user, has_moved);
        let can_rest = |place: &SeatedLink| self.rests && !has_moved && place.seat.can_rest();
        match self.places.get(&id) {
            Some(place) if can_rest(place) => self.doze(user, id),
            Some(_) => self.awake.push(user, id),
            None => {}
        }
        has_moved
    }

    fn close_ended_before_turn(&mut self) {
        if self.sessions.on_turn(self.now.as_millis() as u64) {
            self.close_ended();
        }
    }

    /// Gives a link one turn. Returns true if anything moved.
    fn move_one(&mut self, id: u64) -> bool {
        self.close_ended_before_turn();
        self.look_who_fetches(id);
        let Some(place) = self.places.get_mut(&id) else { return false };
        let outcome = place.seat.turn(self.now, self.awake.is_shared());
        self.act_on(id, outcome)
    }

    fn act_on(&mut self, id: u64, outcome: std::result::Result<Did, LinkError>) -> bool {
        match outcome {
            Ok(did) => self.act(id, did),
            Err(error) => {
                self.end(id, &error);
                false
            }
        }
    }

    /// True for a client's link whose turns are worth a thread.
    fn moves_much(&self, id: u64) -> bool {
        self.places.get(&id).is_some_and(|place| place.seat.moves_much())
    }

    /// Gives a link its turn together with those that come after it and move as much. `next` is the link behind them, if one was taken.
    /// Returns true if anything moved.
    fn move_several(&mut self, first: (Option<u32>, u64), next: &mut Option<(Option<u32>, u64)>) -> bool {
        self.close_ended_before_turn();
        let mut links = Vec::with_capacity(self.threads.count());
        *next = Some(first);
        while let Some((user, id)) = next.take() {
            if !self.moves_much(id) {
                // A link that has ended since is no more to be served.
                *next = self.places.contains_key(&id).then_some((user, id));
                break;
            }
            let Some(place) = self.places.remove(&id) else { break };
            links.push(LinkTurn { user, id, place, outcome: Ok(false) });
            if links.len() == self.threads.count() {
                break;
            }
            *next = self.awake.next(self.now);
        }
        self.threads.turn(&mut links, self.now, self.awake.is_shared());
        let mut turns = Vec::with_capacity(links.len());
        for LinkTurn { user, id, place, outcome } in links {
            self.places.insert(id, place);
            turns.push((user, id, outcome));
        }
        let mut moved = false;
        for (user, id, outcome) in turns {
            moved |= self.act_on_turn(user, id, outcome);
        }
        moved
    }

    /// Acts on what a link's turn brought, unless another one's has ended the link.
    fn act_on_turn(&mut self, user: Option<u32>, id: u64, outcome: std::result::Result<bool, LinkError>) -> bool {
        let Some(SeatedLink { seat: Connection::Client(session), .. }) = self.places.get_mut(&id) else { return false };
        let outcome = outcome.map(|moved| Did::Client(session.take_turn(moved)));
        let has_moved = self.act_on(id, outcome);
        self.had_turn(user, id, has_moved)
    }
}
