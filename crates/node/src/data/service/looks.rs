//! What a program is told that looks at the node.

use super::{Seat, SeatedLink, ServiceLoop};
use hanare_protocol::id::{ClientId, Gid, Rights};
use hanare_protocol::limits::LOOK_COUNT_MAX;
use hanare_protocol::wire::exchange::Reply;
use hanare_protocol::wire::look::{Look, Seen};
use hanare_protocol::{Error, Result};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Time that a user's looks may take in a row.
const BURST: Duration = Duration::from_millis(100);

/// The part of a node's time that a user's looks may take.
const PART: u32 = 10;

/// Time that users' looks have taken lately, because each goes through all locks, and all pages that are shared: a question of some bytes costs
/// milliseconds.
#[derive(Default)]
pub(super) struct LookTimes(HashMap<u32, (Duration, Instant)>);

impl LookTimes {
    fn spent(&self, uid: u32, now: Instant) -> Duration {
        let left = |(spent, then): &(Duration, Instant)| spent.saturating_sub(now.saturating_duration_since(*then) / PART);
        self.0.get(&uid).map_or(Duration::ZERO, left)
    }

    /// **Errors**: [`Error::LimitReached`].
    fn check(&self, uid: u32, now: Instant) -> Result<()> {
        if self.spent(uid, now) < BURST {
            return Ok(());
        }
        let what = "milliseconds of a node's time in a row for looks of one user".to_owned();
        Err(Error::LimitReached { what, limit: BURST.as_millis() as u64 })
    }

    /// A user's look took so long.
    fn took(&mut self, uid: u32, now: Instant, time: Duration) {
        let spent = self.spent(uid, now) + time;
        self.0.insert(uid, (spent, now));
        self.0.retain(|_, (spent, then)| now.saturating_duration_since(*then) < *spent * PART);
    }
}

/// What this thread has used: it may have to wait for a processor.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

impl ServiceLoop {
    /// What a link's user may see, and when it may look again.
    pub(super) fn look_in_turn(&mut self, id: u64, look: &Look) -> Result<Reply> {
        let Some(SeatedLink { user: Some(uid), .. }) = self.places.get(&id) else { return self.look_at(id, look) };
        let (uid, begun) = (*uid, processor_time());
        self.look_times.check(uid, Instant::now())?;
        let reply = self.look_at(id, look);
        self.look_times.took(uid, Instant::now(), processor_time().saturating_sub(begun));
        reply
    }

    /// What a link's user may see. One look of a link is answered at a time, because an answer is long.
    fn look_at(&self, id: u64, look: &Look) -> Result<Reply> {
        let Some(SeatedLink { seat: Seat::Client(session), .. }) = self.places.get(&id) else { return Ok(Reply::Working) };
        if session.is_blocked() {
            return Err(Error::LimitReached { what: "looks of one program at a node at once".to_owned(), limit: 1 });
        }
        if look.readable.len() > LOOK_COUNT_MAX {
            return Err(Error::LimitReached { what: "regions that one look tells of".to_owned(), limit: LOOK_COUNT_MAX as u64 });
        }
        let user = session.user();
        let readable = |(slot, grant): &(_, _)| self.extents.hold(*slot, *grant, Rights::Read).ok().map(|held| held.gid());
        let gids: BTreeSet<Gid> = look.readable.iter().filter_map(readable).collect();
        let sees_all = user.uid == 0 || user.uid == rustix::process::geteuid().as_raw();
        let first = look.readable.first().and_then(readable).filter(|_| look.cells > 0);
        let (locks, lock_count) = self.home.locks_seen_by(user, |link| self.client_of(link));
        Ok(Reply::Seen(Box::new(Seen {
            counts: self.extents.counts.read(),
            programs: self.extents.roll.seen_by(user.uid),
            locks,
            lock_count,
            pages: self.pages.stats(|gid| sees_all || gids.contains(&gid)),
            map: first.map_or_else(Vec::new, |gid| self.pages.map(gid, look.cells)),
        })))
    }

    /// The program that a link is of; 0 for a node's own, and one that has ended.
    fn client_of(&self, link: u64) -> ClientId {
        match self.places.get(&link) {
            Some(SeatedLink { seat: Seat::Client(session), .. }) => session.client(),
            _ => ClientId(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_without_pause_at_much_has_a_tenth_of_the_time() {
        let (mut times, begun) = (LookTimes::default(), Instant::now());
        let (mut now, mut spent, long) = (begun, Duration::ZERO, Duration::from_millis(5));
        while now < begun + Duration::from_secs(10) {
            if times.check(7, now).is_ok() {
                (now, spent) = (now + long, spent + long);
                times.took(7, now, long);
                assert!(times.check(8, now).is_ok(), "another user looks all the same");
            }
            now += Duration::from_millis(1);
        }
        assert!((Duration::from_millis(1000)..Duration::from_millis(1110)).contains(&spent), "{spent:?}");
        times.took(8, now + Duration::from_secs(2), long);
        assert_eq!(times.0.len(), 1, "who does not look any more is forgotten");
    }
}
