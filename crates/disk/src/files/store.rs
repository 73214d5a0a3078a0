//! The regions that hold files' bytes, and the blocks that this mount may fill.

use super::ledger::Ledger;
use super::parts::Parts;
use super::record::{Record, SessionId};
use super::refusal::{Result, refused};
use super::space::{BLOCK_LEN, Run};
use hanare::{Error, Placement, Pool, Region};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Shortest and longest data region in blocks, 4 MiB and 1 GiB. A new one is as long as all before it, so that few are made.
const SEGMENT_BLOCKS: (u64, u64) = (1 << 10, 1 << 18);

/// Shortest one that is tried when the pool is nearly full: 64 KiB.
const SEGMENT_BLOCKS_LAST: u64 = 16;

/// Fewest and most blocks that a mount reserves at once, 256 KiB and 64 MiB. It asks for twice as many each time.
const RESERVE_BLOCKS: (u64, u64) = (1 << 6, 1 << 14);

/// Blocks of one placement that are this mount's to fill.
#[derive(Default)]
struct Purse {
    runs: Vec<Run>,
    /// Number of blocks asked for the last time.
    asked: u64,
}

/// Reservations of this mount.
#[derive(Default)]
struct Purses {
    /// Purses by placement.
    of: HashMap<String, Purse>,
    /// Numbers of data regions that the log gave this mount, and that have no region.
    spare: Vec<u32>,
}

/// Store of the bytes.
pub struct Store {
    pool: Pool,
    parts: Parts,
    regions: RwLock<HashMap<u32, Arc<Region>>>,
    purses: Mutex<Purses>,
    /// Data regions whose bytes are gone: no more is written there.
    gone: Mutex<HashSet<u32>>,
}

impl Store {
    /// A store without regions and reserves; both come at the first use.
    pub fn new(pool: &Pool, parts: &Parts) -> Store {
        Store {
            pool: pool.clone(),
            parts: parts.clone(),
            regions: RwLock::default(),
            purses: Mutex::default(),
            gone: Mutex::default(),
        }
    }

    /// The placement that a file's text means on this host.
    ///
    /// **Errors**: `EINVAL` for a text that is no placement.
    pub fn key(&self, place: &str) -> Result<String> {
        match place.parse::<Placement>() {
            Ok(Placement::Local) => Ok(Placement::Node(self.pool.node()).to_string()),
            Ok(other) => Ok(other.to_string()),
            Err(_) => Err(Errno::INVAL),
        }
    }

    /// The region that holds some blocks.
    pub fn region(&self, segment: u32) -> Result<Arc<Region>, Error> {
        if let Some(region) = self.regions.read().unwrap_or_else(PoisonError::into_inner).get(&segment) {
            return Ok(region.clone());
        }
        let region = Arc::new(self.parts.open(&self.parts.data(segment))?);
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        Ok(regions.entry(segment).or_insert(region).clone())
    }

    /// Reads bytes of a run, from byte `skip` of it on.
    pub fn get(&self, run: Run, skip: u64, into: &mut [u8]) -> Result<()> {
        let got = self.region(run.segment).and_then(|region| region.get(u64::from(run.block) * BLOCK_LEN + skip, into));
        got.map_err(|error| self.broken(run, &error))
    }

    /// Reads bytes of runs, of each from a byte of it on. **Cost**: one message to each node that has some.
    pub fn get_all(&self, mut pieces: Vec<(Run, u64, &mut [u8])>) -> Result<()> {
        if pieces.len() > 1 {
            let got = self.pool.batch(|batch| {
                pieces.iter_mut().try_for_each(|(run, skip, into)| {
                    batch.get(&*self.region(run.segment)?, u64::from(run.block) * BLOCK_LEN + *skip, into)
                })
            });
            if got.is_ok() {
                return Ok(());
            }
        }
        // Pieces go one by one, because an error names the region that it is of.
        pieces.into_iter().try_for_each(|(run, skip, into)| self.get(run, skip, into))
    }

    /// Writes bytes of a run.
    pub fn put(&self, run: Run, skip: u64, bytes: &[u8]) -> Result<()> {
        let put = self.region(run.segment).and_then(|region| region.put(u64::from(run.block) * BLOCK_LEN + skip, bytes));
        put.map_err(|error| self.broken(run, &error))
    }

    /// Makes `len` bytes of a run zero.
    pub fn zero(&self, run: Run, skip: u64, len: u64) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut at = 0;
        while at < len {
            let part = (len - at).min(ZEROS.len() as u64);
            self.put(run, skip + at, &ZEROS[..part as usize])?;
            at += part;
        }
        Ok(())
    }

    fn gone(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, run: Run, error: &Error) -> Errno {
        if matches!(error, Error::RegionLost { .. } | Error::UnknownRegion { .. }) {
            self.gone().insert(run.segment);
        }
        match refused(&self.parts.data(run.segment), error) {
            // Bytes that a file has are never missing for want of a name or of room.
            Errno::NOENT | Errno::NOSPC | Errno::DQUOT => Errno::IO,
            other => other,
        }
    }

    /// Takes `blocks` blocks of a placement from this mount's reserve, and reserves more where that is not enough.
    ///
    /// **Errors**: `ENOSPC`, `EDQUOT`; nothing is taken then.
    pub fn take(&self, ledger: &Ledger, session: SessionId, key: &str, blocks: u64) -> Result<Vec<Run>> {
        let mut purses = self.purses.lock().unwrap_or_else(PoisonError::into_inner);
        let Purses { of, spare } = &mut *purses;
        let purse = of.entry(key.to_owned()).or_default();
        let gone = self.gone().clone();
        purse.runs.retain(|run| !gone.contains(&run.segment));
        let here: u64 = purse.runs.iter().map(|run| u64::from(run.count)).sum();
        if here < blocks {
            let need = blocks - here;
            let wish = (purse.asked * 2).clamp(RESERVE_BLOCKS.0, RESERVE_BLOCKS.1).max(need);
            purse.runs.extend(self.reserve(ledger, session, key, need, wish, spare)?);
            purse.asked = wish;
        }
        let mut taken = Vec::new();
        let mut left = blocks;
        while left > 0 {
            let Some(run) = purse.runs.last_mut() else { return Err(Errno::NOSPC) };
            let count = u32::try_from(left).unwrap_or(u32::MAX).min(run.count);
            taken.push(run.part(0, count));
            left -= u64::from(count);
            if count == run.count {
                purse.runs.pop();
            } else {
                *run = run.part(count, u32::MAX);
            }
        }
        Ok(taken)
    }

    /// Takes back blocks that came into no file.
    pub fn give_back(&self, key: &str, runs: impl IntoIterator<Item = Run>) {
        let mut purses = self.purses.lock().unwrap_or_else(PoisonError::into_inner);
        purses.of.entry(key.to_owned()).or_default().runs.extend(runs);
    }

    /// Forgets all reserves: the session that had them has ended.
    pub fn forget_reserves(&self) {
        *self.purses.lock().unwrap_or_else(PoisonError::into_inner) = Purses::default();
    }

    /// Reserves at least `need` blocks, and up to `wish` if no more memory of the pool is needed for them.
    fn reserve(
        &self,
        ledger: &Ledger,
        session: SessionId,
        key: &str,
        need: u64,
        wish: u64,
        spare: &mut Vec<u32>,
    ) -> Result<Vec<Run>> {
        let wish = u32::try_from(wish).unwrap_or(u32::MAX);
        let blocks = |runs: &[Run]| runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
        loop {
            let found = ledger.commit(|tree| {
                let runs = tree.space.find(key, wish, &self.gone());
                let records =
                    if blocks(&runs) < need { Vec::new() } else { vec![Record::Reserve { session, runs: runs.clone() }] };
                Ok((records, runs))
            })?;
            let Some(missing) = need.checked_sub(blocks(&found)).filter(|missing| *missing > 0) else { return Ok(found) };
            let made = self.grow(ledger, session, key, missing, spare)?;
            let reserved = ledger.commit(|tree| {
                // Others may have ended this mount, and removed what it had made.
                if !tree.sessions.get(&session).is_some_and(|of| made.iter().all(|(segment, _)| of.making.contains(segment))) {
                    return Ok((Vec::new(), None));
                }
                let mut runs = tree.space.find(key, wish, &self.gone());
                let mut records = Vec::new();
                for (segment, blocks_made) in &made {
                    let count = u64::from(wish).saturating_sub(blocks(&runs)).max(1);
                    runs.push(Run { segment: *segment, block: 0, count: *blocks_made }.part(0, count as u32));
                    records.push(Record::Segment { session, segment: *segment, key: key.to_owned(), blocks: *blocks_made });
                }
                // Another mount may have reserved meanwhile what was found before.
                if blocks(&runs) >= need {
                    records.push(Record::Reserve { session, runs: runs.clone() });
                    return Ok((records, Some(Some(runs))));
                }
                Ok((records, Some(None)))
            })?;
            match reserved {
                Some(Some(runs)) => return Ok(runs),
                Some(None) => {}
                None => {
                    made.iter().for_each(|(segment, _)| self.drop_region(*segment));
                    return Err(Errno::IO);
                }
            }
        }
    }

    /// Makes data regions of `need` blocks at least. Each has a number that the log gave this mount before: `spare` are those without a
    /// region.
    fn grow(&self, ledger: &Ledger, session: SessionId, key: &str, need: u64, spare: &mut Vec<u32>) -> Result<Vec<(u32, u32)>> {
        let placement: Placement = key.parse().map_err(|_| Errno::INVAL)?;
        let same: u64 = {
            let known = ledger.known();
            let same = known.tree.space.segments.values().filter(|segment| segment.key == key);
            same.map(|segment| u64::from(segment.blocks)).sum()
        };
        let mut size = same.clamp(SEGMENT_BLOCKS.0, SEGMENT_BLOCKS.1).max(need.min(SEGMENT_BLOCKS.1));
        let (mut made, mut have) = (Vec::new(), 0);
        while have < need {
            let number = match spare.pop() {
                Some(number) => number,
                None => ledger.commit(|tree| {
                    tree.sessions.get(&session).ok_or(Errno::IO)?;
                    Ok((vec![Record::Number { session }], tree.space.next))
                })?,
            };
            let name = self.parts.data(number);
            match self.parts.create(&name, size * BLOCK_LEN, placement) {
                Ok(_) => {
                    made.push((number, size as u32));
                    have += size;
                    continue;
                }
                // The region is this mount's, which did not hear that it had made it.
                Err(Error::NameTaken { .. }) => self.parts.remove(&name).map_err(|error| refused(&name, &error))?,
                Err(Error::PoolFull { .. } | Error::QuotaExceeded { .. }) if size > SEGMENT_BLOCKS_LAST => size /= 2,
                Err(error) => {
                    made.iter().for_each(|(segment, _)| self.drop_region(*segment));
                    spare.extend(made.iter().map(|(segment, _)| *segment).chain([number]));
                    return Err(refused(&name, &error));
                }
            }
            spare.push(number);
        }
        Ok(made)
    }

    /// Removes the region of blocks that nobody has.
    pub fn drop_region(&self, segment: u32) {
        self.regions.write().unwrap_or_else(PoisonError::into_inner).remove(&segment);
        let name = self.parts.data(segment);
        match self.parts.remove(&name) {
            Ok(()) | Err(Error::UnknownRegion { .. }) => {}
            Err(error) => tracing::warn!("{name} stays, and holds nothing: {error}"),
        }
    }
}
