//! The node's report to a program that looks at it.

use super::{Connection, SeatedLink, ServiceLoop};
use crate::user_times::{TimeQuota, processor_time};
use hanare_protocol::id::{ClientId, Gid, Rights};
use hanare_protocol::limits::LOOK_COUNT_MAX;
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::wire::look::Seen;
use hanare_protocol::{Error, Result};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time that a user's looks may take. Each goes through all locks, and all pages that are shared: a question of some bytes costs milliseconds.
pub(super) const LOOK_SHARE: TimeQuota = TimeQuota { burst: Duration::from_millis(100), part: 10 };

impl ServiceLoop {
    /// The report for a link's user, and the time of its next look.
    pub(super) fn look_in_turn(&mut self, id: u64, query: &Query) -> Result<Reply> {
        let Some(SeatedLink { user: Some(uid), .. }) = self.places.get(&id) else { return self.look_at(id, query) };
        let (uid, begun) = (*uid, processor_time());
        if !self.look_times.wait(uid, Instant::now()).is_zero() {
            let what = "milliseconds of a node's time in a row for looks of one user".to_owned();
            return Err(Error::LimitReached { what, limit: LOOK_SHARE.burst.as_millis() as u64 });
        }
        let reply = self.look_at(id, query);
        self.look_times.took(uid, Instant::now(), processor_time().saturating_sub(begun));
        reply
    }

    /// The report for a link's user. A link gets one report at a time, because it is long.
    fn look_at(&self, id: u64, query: &Query) -> Result<Reply> {
        let Some(SeatedLink { seat: Connection::Client(session), .. }) = self.places.get(&id) else { return Ok(Reply::Working) };
        if session.is_blocked() {
            return Err(Error::LimitReached { what: "looks of one program at a node at once".to_owned(), limit: 1 });
        }
        let user = session.user();
        let sees_all = user.uid == 0 || user.uid == rustix::process::geteuid().as_raw();
        let look = match query {
            Query::Look(look) | Query::Backing(look) => look,
            Query::Faces => return Ok(Reply::Faces(Box::new(self.extents.counts.read_faces_by(user.uid, sees_all)))),
            _ => return Ok(Reply::Working),
        };
        if look.readable.len() > LOOK_COUNT_MAX {
            return Err(Error::LimitReached { what: "regions that one look tells of".to_owned(), limit: LOOK_COUNT_MAX as u64 });
        }
        let readable = |(slot, grant): &(_, _)| self.extents.hold(*slot, *grant, Rights::Read).ok().map(|held| held.gid());
        let mut gids: BTreeSet<Gid> = look.readable.iter().filter_map(readable).collect();
        if matches!(query, Query::Backing(_)) {
            return Ok(Reply::Backing(Box::new(self.extents.backing(&gids, sees_all))));
        }
        gids.append(&mut self.home.pages().mapped_by(|client| self.extents.members.is_of(client, user.uid)));
        let first = look.readable.first().and_then(readable).filter(|_| look.cells > 0);
        let (locks, lock_count) = self.home.locks_seen_by(user, |link| self.client_of(link));
        Ok(Reply::Seen(Box::new(Seen {
            counts: self.extents.counts.read_by(user.uid, sees_all),
            programs: self.extents.members.seen_by(user.uid),
            locks,
            lock_count,
            pages: self.home.pages().stats(|gid| sees_all || gids.contains(&gid)),
            map: first.map_or_else(Vec::new, |gid| self.home.pages().map(gid, look.cells)),
        })))
    }

    /// The program that a link is of; 0 for a node's own, and one that has ended.
    fn client_of(&self, link: u64) -> ClientId {
        match self.places.get(&link) {
            Some(SeatedLink { seat: Connection::Client(session), .. }) => session.client(),
            _ => ClientId(0),
        }
    }
}
