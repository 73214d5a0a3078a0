//! Bodies that this party fetches from where they lie: begun as soon as their heads arrive, before anybody receives them.
//!
//! ```text
//! head arrives ──> waits ──receive memory has room, few others move──> moves ──> over: it has landed, or why not. The sender is told
//!                    └─────its receive waits, and there is no room─────────────> over: in memory of the program
//! ```
//!
//! A fetch is a command at this party's own node, which gets the bytes from the node that holds them: they move while the program does
//! something else. Bodies that nobody has received fill the receive memory at most.
//!
//! **Source**: [D3 §2] HTP.
//!
//! FEATURE: D3-F10

use super::message::ArrivedBody;
use super::receive_memory::{ReceiveMemory, ReceivedBody};
use crate::client::command::Completion;
use crate::client::pool::Pool;
use crate::client::region::Region;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::limits::{MESSAGE_FETCH_COUNT_MAX, MESSAGE_REGION_COUNT_MAX};
use hanare_protocol::message::part::BodyPart;
use hanare_protocol::shape::Shape;
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The number of a fetch, in the order of the heads' arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FetchId(u64);

/// A fetch's outcome, for its sender.
pub(super) struct FetchNews {
    pub to: u32,
    /// The sender's number of the part.
    pub number: u64,
    pub outcome: Result<()>,
}

struct BodyFetch {
    from: u32,
    part: BodyPart,
    len: u64,
    state: FetchState,
}

enum FetchState {
    Waits,
    /// The completion goes first: the block is in use until then.
    Moves(Completion<()>, ReceivedBody),
    Over(Result<ArrivedBody>),
}

/// Bodies that this party fetches.
pub(super) struct Fetches {
    pool: Pool,
    receive_memory: ReceiveMemory,
    list: BTreeMap<FetchId, BodyFetch>,
    /// Waiting fetches, oldest first, with some that their receives did not allow to wait.
    waiting: VecDeque<FetchId>,
    moving: BTreeSet<FetchId>,
    news: Vec<FetchNews>,
    regions: FetchedRegions,
    next: u64,
}

impl Fetches {
    pub fn new(pool: &Pool, receive_memory: ReceiveMemory) -> Fetches {
        let (list, waiting, moving, news) = Default::default();
        Fetches { pool: pool.clone(), receive_memory, list, waiting, moving, news, regions: FetchedRegions::default(), next: 0 }
    }

    /// The head of a message of `from` has come, whose body is that part and has `len` bytes, which is no more than the receive memory.
    pub fn add(&mut self, from: u32, part: BodyPart, len: u64) -> FetchId {
        let id = FetchId(self.next);
        self.next += 1;
        self.list.insert(id, BodyFetch { from, part, len, state: FetchState::Waits });
        self.waiting.push_back(id);
        id
    }

    /// True if a body is on its way.
    pub fn are_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// Sleeps until something of the oldest that moves has come, for `bound` at most.
    pub fn nap(&self, bound: Duration) {
        if let Some(FetchState::Moves(completion, _)) = self.moving.first().map(|id| &self.list[id].state) {
            completion.nap(bound);
        }
    }

    /// Notes what has come, and begins to fetch what there is room for. Waits for no body.
    pub fn advance(&mut self) {
        if self.list.is_empty() {
            return;
        }
        let come: Vec<FetchId> = self.moving.iter().copied().filter(|id| self.is_done(*id)).collect();
        come.into_iter().for_each(|id| self.finish(id));
        while self.moving.len() < MESSAGE_FETCH_COUNT_MAX
            && let Some(id) = self.waiting.front().copied()
            && self.begin(id)
        {
            self.waiting.pop_front();
        }
    }

    fn is_done(&self, id: FetchId) -> bool {
        matches!(&self.list[&id].state, FetchState::Moves(completion, _) if completion.is_done())
    }

    /// News for the senders.
    pub fn take_news(&mut self) -> Vec<FetchNews> {
        std::mem::take(&mut self.news)
    }

    /// Has a body begin to move into receive memory, unless it has begun. False where that has no room.
    fn begin(&mut self, id: FetchId) -> bool {
        let Some(BodyFetch { part, len, state: FetchState::Waits, .. }) = self.list.get(&id) else { return true };
        let len = *len;
        let block = match self.receive_memory.allocate(len) {
            Ok(None) => return false,
            Ok(Some(block)) => Ok(block),
            Err(error) => Err(error),
        };
        let begun = block.and_then(|block| {
            let (region, shape) = self.regions.part(&self.pool, part, len)?;
            let to = Shape::contiguous(block.offset, len);
            Ok(FetchState::Moves(self.pool.start_copy(&region, shape, block.region(), to)?, block))
        });
        match begun {
            Ok(state) => {
                self.list.get_mut(&id).expect("it was just seen").state = state;
                self.moving.insert(id);
            }
            Err(error) => self.end(id, Err(error)),
        }
        true
    }

    /// Waits until a body is here: in memory of the program, where the receive memory has no room.
    pub fn finish(&mut self, id: FetchId) {
        let has_room = self.begin(id);
        let Some(fetch) = self.list.get_mut(&id) else { return };
        let outcome = match std::mem::replace(&mut fetch.state, FetchState::Waits) {
            over @ FetchState::Over(_) => {
                fetch.state = over;
                return;
            }
            FetchState::Waits => {
                debug_assert!(!has_room, "it would move");
                self.regions.get(&self.pool, &fetch.part, fetch.len).map(ArrivedBody::Here)
            }
            FetchState::Moves(completion, block) => {
                let moved = match completion.wait() {
                    // The region was opened before its node made other grants. Nobody else knows the block: a second copy does no harm.
                    Err(Error::GrantRefused { .. } | Error::Broken { .. }) => self.regions.copy(&self.pool, &fetch.part, &block),
                    other => other,
                };
                moved.map(|()| ArrivedBody::Received(block))
            }
        };
        self.end(id, outcome);
    }

    fn end(&mut self, id: FetchId, outcome: Result<ArrivedBody>) {
        let Some(fetch) = self.list.get_mut(&id) else { return };
        let told = outcome.as_ref().map(|_| ()).map_err(Error::clone);
        self.news.push(FetchNews { to: fetch.from, number: fetch.part.number, outcome: told });
        fetch.state = FetchState::Over(outcome);
        self.moving.remove(&id);
    }

    /// The body, where it is here, or why it cannot come: told once. Has it begin to move where its receive waits for it.
    pub fn take(&mut self, id: FetchId) -> Option<Result<ArrivedBody>> {
        if !self.begin(id) {
            self.finish(id);
        }
        let is_over = matches!(self.list.get(&id)?.state, FetchState::Over(_));
        match is_over.then(|| self.list.remove(&id)).flatten()?.state {
            FetchState::Over(outcome) => Some(outcome),
            FetchState::Waits | FetchState::Moves(..) => None,
        }
    }
}

/// Regions that bodies were fetched from, the latest last: senders send parts of few.
#[derive(Default)]
struct FetchedRegions(VecDeque<Arc<Region>>);

impl FetchedRegions {
    /// The region, with the rights of this party's own user, and whether it was opened before.
    fn open(&mut self, pool: &Pool, gid: Gid) -> Result<(Arc<Region>, bool)> {
        if let Some(region) = self.0.iter().find(|region| region.gid() == gid) {
            return Ok((region.clone(), true));
        }
        let region = Arc::new(pool.open_gid(gid, Some(Rights::Read))?);
        if self.0.len() >= MESSAGE_REGION_COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(region.clone());
        Ok((region, false))
    }

    /// A part that another program named, checked.
    fn part(&mut self, pool: &Pool, part: &BodyPart, len: u64) -> Result<(Arc<Region>, Shape<'static>)> {
        let shape = part.shape()?;
        loop {
            let (region, is_old) = self.open(pool, part.gid)?;
            match shape.by_ref().check(region.name(), region.len()).map(|checked| checked.len()) {
                Ok(found) if found == len => return Ok((region, shape)),
                Ok(found) => {
                    let reason = format!("a message says that its body has {len} bytes, and its part of the region has {found}");
                    return Err(Error::BadUse { region: region.name().to_owned(), reason });
                }
                // The region may have grown after it was opened.
                Err(_) if is_old => self.0.retain(|other| other.gid() != part.gid),
                Err(error) => return Err(error),
            }
        }
    }

    fn get(&mut self, pool: &Pool, part: &BodyPart, len: u64) -> Result<Vec<u8>> {
        let (region, shape) = self.part(pool, part, len)?;
        let mut bytes = vec![0; len as usize];
        region.get_shape(shape, &mut bytes).map(|()| bytes)
    }

    fn copy(&mut self, pool: &Pool, part: &BodyPart, block: &ReceivedBody) -> Result<()> {
        let (region, shape) = self.part(pool, part, block.len)?;
        pool.copy(&region, shape, block.region(), Shape::contiguous(block.offset, block.len))
    }
}
