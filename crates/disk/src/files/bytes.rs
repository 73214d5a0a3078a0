//! A file's bytes: read, written, made longer and shorter.
//!
//! Bytes go to the pool at the write, into blocks that this mount reserved where a hole was. Their record goes to the log at fsync, at
//! close, or after a second. So a full pool shows at the write. A mount that dies leaves a file as the log has it.

use super::Files;
use super::open::{Open, Pending};
use super::record::{Attributes, Ino, Record, Stamp};
use super::refusal::Result;
use super::space::{BLOCK_LEN, Run};
use super::tree::{FILE_LEN_MAX, Inode, Kind};
use rustix::io::Errno;
use std::time::Duration;

/// Time that written bytes wait for more before their record goes to the log.
pub const TELL_AFTER: Duration = Duration::from_secs(1);

/// A file as this mount sees it.
pub struct Source<'a> {
    /// The inode in the log.
    pub inode: &'a Inode,
    /// Later writes of this mount.
    pub pending: Option<&'a Pending>,
}

impl Source<'_> {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.inode.size().max(self.pending.and_then(|pending| pending.size).unwrap_or(0))
    }

    /// The run at a block; else the number of blocks of the hole there.
    pub fn find(&self, block: u64, limit: u64) -> Result<Run, u64> {
        match self.pending.map_or(Err(limit), |pending| pending.fresh.find(block, limit)) {
            Err(hole) => self.inode.find(block, hole),
            found => found,
        }
    }

    /// The parts of bytes `from .. to`. Each is a number of bytes of a run, with the offset in it, or of a hole.
    fn parts(&self, from: u64, to: u64) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut at = from;
        while at < to {
            let block = at / BLOCK_LEN;
            let limit = to.div_ceil(BLOCK_LEN) - block;
            let found = self.find(block, limit);
            let blocks = found.map_or_else(|hole| hole.max(1), |run| u64::from(run.count));
            let end = ((block + blocks) * BLOCK_LEN).min(to);
            parts.push(Part { at, len: end - at, run: found.ok(), skip: at % BLOCK_LEN });
            at = end;
        }
        parts
    }

    /// The first byte at `from` or later that is data, or the first that is in a hole. The end of the file counts as a hole.
    pub fn seek(&self, from: u64, data: bool) -> Option<u64> {
        let size = self.size();
        if from >= size {
            return None;
        }
        let part = self.parts(from, size).into_iter().find(|part| part.run.is_some() == data);
        match part {
            Some(part) => Some(part.at),
            None if data => None,
            None => Some(size),
        }
    }
}

/// Bytes of a file that lie one after another, or in one hole.
#[derive(Clone, Copy)]
struct Part {
    at: u64,
    len: u64,
    run: Option<Run>,
    skip: u64,
}

impl Files {
    /// Reads up to `len` bytes; fewer at the end of the file.
    pub fn read(&self, ino: Ino, offset: u64, len: usize) -> Result<Vec<u8>> {
        let _inside = self.gate.enter();
        self.session()?;
        let open = self.opened(ino);
        // Held over the copying, so that blocks that a truncation frees are not filled again meanwhile.
        let pending = open.as_ref().map(|open| open.read());
        let (parts, len) = {
            let view = self.view()?;
            let inode = view.tree.inode(ino).ok_or(Errno::STALE)?;
            let source = Source { inode, pending: pending.as_deref() };
            let end = source.size().min(offset.saturating_add(len as u64));
            if offset >= end {
                return Ok(Vec::new());
            }
            (source.parts(offset, end), (end - offset) as usize)
        };
        let mut bytes = vec![0; len];
        let (mut pieces, mut rest) = (Vec::new(), &mut bytes[..]);
        for part in parts {
            let (into, behind) = rest.split_at_mut(part.len as usize);
            pieces.extend(part.run.map(|run| (run, part.skip, into)));
            rest = behind;
        }
        self.store.get_all(pieces)?;
        Ok(bytes)
    }

    /// Writes bytes. **Errors**: `ENOSPC`, `EDQUOT`, `EFBIG`, `EIO`; nothing was written, or parts of it.
    pub fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= FILE_LEN_MAX).ok_or(Errno::FBIG)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let open = self.open_entry(ino);
        let mut pending = open.write();
        self.with_room(&mut pending, |pending, fresh| {
            let _inside = self.gate.enter();
            let (parts, size) = self.fill(&open, pending, fresh, offset, end)?;
            self.clear_behind(&open, pending, size, offset)?;
            for part in parts {
                let run = part.run.ok_or(Errno::IO)?;
                let at = (part.at - offset) as usize;
                self.store.put(run, part.skip, &bytes[at..at + part.len as usize])?;
            }
            pending.note(offset, end);
            Ok(())
        })?;
        if self.is_coherent { self.tell(&open, &mut pending) } else { Ok(()) }
    }

    /// Does work that may need blocks, and once more where the pool was full and blocks could be freed. `fresh` lists filled blocks. After
    /// an error they are a hole again, because they may have the bytes of an earlier file.
    fn with_room(
        &self,
        pending: &mut Pending,
        mut work: impl FnMut(&mut Pending, &mut Vec<(u64, Run)>) -> Result<()>,
    ) -> Result<()> {
        let mut is_again = false;
        loop {
            let mut fresh = Vec::new();
            let done = work(pending, &mut fresh);
            if done.is_ok() {
                return Ok(());
            }
            for (block, run) in fresh {
                let end = block + u64::from(run.count);
                let holes = pending.fresh.cut(block, end);
                (block..end).for_each(|block| drop(pending.partial.remove(&block)));
                self.store.give_back(&pending.key, holes.into_iter().map(|(_, run)| run));
            }
            match done {
                Err(Errno::NOSPC | Errno::DQUOT) if !is_again && self.free_now() => is_again = true,
                done => return done,
            }
        }
    }

    /// Gives bytes `from .. to` blocks where they have none; returns their parts, all with a run, and the length before.
    fn fill(
        &self,
        open: &Open,
        pending: &mut Pending,
        fresh: &mut Vec<(u64, Run)>,
        from: u64,
        to: u64,
    ) -> Result<(Vec<Part>, u64)> {
        let (parts, size, place) = {
            let view = self.view()?;
            let inode = view.tree.inode(open.ino).ok_or(Errno::STALE)?;
            let source = Source { inode, pending: Some(pending) };
            (source.parts(from, to), source.size(), self.place(inode))
        };
        let session = self.session()?;
        if parts.iter().all(|part| part.run.is_some()) {
            return Ok((parts, size));
        }
        if pending.fresh.is_empty() {
            pending.key = self.store.key(&place)?;
        }
        let mut filled = Vec::with_capacity(parts.len());
        for part in parts {
            if part.run.is_some() {
                filled.push(part);
                continue;
            }
            let (mut block, end) = (part.at / BLOCK_LEN, (part.at + part.len).div_ceil(BLOCK_LEN));
            for run in self.store.take(&self.ledger, session, &pending.key, end - block)? {
                let (begin, behind) = (block * BLOCK_LEN, (block + u64::from(run.count)) * BLOCK_LEN);
                let (at, to) = (part.at.max(begin), (part.at + part.len).min(behind));
                pending.fill(block, run, at, to);
                fresh.push((block, run));
                // The former bytes of these blocks are never seen.
                self.store.zero(run, 0, at - begin)?;
                self.store.zero(run, to - begin, behind - to)?;
                filled.push(Part { at, len: to - at, run: Some(run), skip: at - begin });
                block += u64::from(run.count);
            }
        }
        Ok((filled, size))
    }

    /// A file that becomes longer shows zeros from its old end on, also in the rest of its last block.
    fn clear_behind(&self, open: &Open, pending: &Pending, size: u64, from: u64) -> Result<()> {
        let end = size.next_multiple_of(BLOCK_LEN).min(from);
        if size >= end {
            return Ok(());
        }
        let run = {
            let view = self.ledger.known();
            let inode = view.tree.inode(open.ino).ok_or(Errno::STALE)?;
            Source { inode, pending: Some(pending) }.find(size / BLOCK_LEN, 1).ok()
        };
        run.map_or(Ok(()), |run| self.store.zero(run, size % BLOCK_LEN, end - size))
    }

    /// The regions that have a file's bytes: a line each, with the number of bytes and the placement.
    pub fn regions_of(&self, ino: Ino) -> Result<Vec<u8>> {
        self.flush(ino)?;
        let view = self.view()?;
        let Some(Inode { kind: Kind::File { blocks, .. }, .. }) = view.tree.inode(ino) else { return Err(Errno::NODATA) };
        let mut sums = std::collections::BTreeMap::<u32, u64>::new();
        blocks.iter().for_each(|(_, run)| *sums.entry(run.segment).or_default() += u64::from(run.count) * BLOCK_LEN);
        let line = |(segment, len): (u32, u64)| {
            let key = view.tree.space.segments.get(&segment).map_or("", |segment| segment.key.as_str());
            format!("{} {len} {key}\n", self.ledger.parts().data(segment))
        };
        Ok(sums.into_iter().map(line).collect::<String>().into_bytes())
    }

    /// Placement of a file's blocks.
    fn place(&self, inode: &Inode) -> String {
        let place = inode.xattrs.get(super::PLACE).map(|text| String::from_utf8_lossy(text).into_owned());
        place.unwrap_or_else(|| "local".to_owned())
    }

    /// Adds a file's writes to the log. **Errors**: `EIO`, too, once, where earlier writes are lost.
    pub fn flush(&self, ino: Ino) -> Result<()> {
        let Some(open) = self.opened(ino) else { return Ok(()) };
        let mut pending = open.write();
        if std::mem::take(&mut pending.is_broken) {
            return Err(Errno::IO);
        }
        self.tell(&open, &mut pending)
    }

    /// Adds a file's pending writes to the log.
    pub fn tell(&self, open: &Open, pending: &mut Pending) -> Result<()> {
        let Some(time) = pending.time else { return Ok(()) };
        let _inside = self.gate.enter();
        let (session, ino, size) = (self.session()?, open.ino, pending.size.unwrap_or(0));
        let told = self.ledger.commit(|tree| {
            let Some(inode) = tree.inode(ino) else { return Ok((Vec::new(), None)) };
            let (runs, double) = split(inode, pending);
            self.merge(inode, pending, &double)?;
            let record = Record::Write { session, ino, size, time, runs };
            Ok((vec![record], Some((double, inode.change, tree.position + 1))))
        })?;
        let key = pending.key.clone();
        let fresh = pending.settle();
        match told {
            Some((double, before, change)) => {
                self.store.give_back(&key, double.into_iter().map(|(_, run)| run));
                pending.saw(before, change);
            }
            None => self.store.give_back(&key, fresh.iter().map(|(_, run)| run)),
        }
        Ok(())
    }

    /// Another mount filled the same holes: copies the bytes written here over that mount's bytes.
    fn merge(&self, inode: &Inode, pending: &Pending, double: &[(u64, Run)]) -> Result<()> {
        for (block, run) in double {
            let Ok(theirs) = inode.find(*block, 1) else { continue };
            for (from, to) in pending.partial.get(block).into_iter().flatten() {
                let mut bytes = vec![0; (to - from) as usize];
                self.store.get(*run, *from, &mut bytes)?;
                self.store.put(theirs, *from, &bytes)?;
            }
        }
        Ok(())
    }

    /// Sets a file's length. A longer file ends in a hole.
    pub fn truncate(&self, ino: Ino, len: u64, mut set: Attributes) -> Result<()> {
        if len > FILE_LEN_MAX {
            return Err(Errno::FBIG);
        }
        let open = self.open_entry(ino);
        let mut pending = open.write();
        self.tell(&open, &mut pending)?;
        let _inside = self.gate.enter();
        let size = {
            let view = self.view()?;
            let inode = view.tree.inode(ino).ok_or(Errno::STALE)?;
            if !matches!(inode.kind, Kind::File { .. }) {
                return Err(if inode.is_folder() { Errno::ISDIR } else { Errno::INVAL });
            }
            inode.size()
        };
        self.clear_behind(&open, &pending, size, len)?;
        set.size = Some(len);
        let time = Stamp::now();
        set.mtime.get_or_insert(time);
        let set = &set;
        let (before, change) = self.ledger.commit(|tree| {
            let before = tree.inode(ino).ok_or(Errno::STALE)?.change;
            Ok((vec![Record::Set { ino, set: set.clone(), time }], (before, tree.position + 1)))
        })?;
        pending.saw(before, change);
        Ok(())
    }

    /// Gives bytes `offset .. offset + len` blocks; the file becomes as long, if that is wanted.
    pub fn allocate(&self, ino: Ino, offset: u64, len: u64, keeps_size: bool) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= FILE_LEN_MAX).ok_or(Errno::FBIG)?;
        let open = self.open_entry(ino);
        let mut pending = open.write();
        let size = {
            let view = self.view()?;
            let inode = view.tree.inode(ino).ok_or(Errno::STALE)?;
            Source { inode, pending: Some(&pending) }.size()
        };
        self.with_room(&mut pending, |pending, fresh| {
            let _inside = self.gate.enter();
            let holes: Vec<Part> = {
                let view = self.view()?;
                let inode = view.tree.inode(ino).ok_or(Errno::STALE)?;
                let source = Source { inode, pending: Some(pending) };
                source.parts(offset, end).into_iter().filter(|part| part.run.is_none()).collect()
            };
            for hole in holes {
                let (from, behind) = (hole.at / BLOCK_LEN * BLOCK_LEN, (hole.at + hole.len).next_multiple_of(BLOCK_LEN));
                for part in self.fill(&open, pending, fresh, from, behind)?.0 {
                    self.store.zero(part.run.ok_or(Errno::IO)?, part.skip, part.len)?;
                }
            }
            self.clear_behind(&open, pending, size, if keeps_size { size } else { end })
        })?;
        let before = pending.size;
        pending.note(offset, end.max(offset + 1));
        pending.size = if keeps_size { before } else { Some(before.unwrap_or(0).max(end)) };
        self.tell(&open, &mut pending)
    }

    /// Makes bytes `offset .. offset + len` zero: whole blocks become a hole.
    pub fn punch(&self, ino: Ino, offset: u64, len: u64, keeps_size: bool) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= FILE_LEN_MAX).ok_or(Errno::FBIG)?;
        let open = self.open_entry(ino);
        let mut pending = open.write();
        self.tell(&open, &mut pending)?;
        let _inside = self.gate.enter();
        let (first, last) = (offset.div_ceil(BLOCK_LEN), end / BLOCK_LEN);
        let (edges, size) = {
            let view = self.view()?;
            let inode = view.tree.inode(ino).ok_or(Errno::STALE)?;
            let source = Source { inode, pending: None };
            let edges = if first <= last {
                [source.parts(offset, first * BLOCK_LEN), source.parts(last * BLOCK_LEN, end)].concat()
            } else {
                source.parts(offset, end)
            };
            (edges, source.size())
        };
        for part in edges {
            if let Some(run) = part.run {
                self.store.zero(run, part.skip, part.len)?;
            }
        }
        self.clear_behind(&open, &pending, size, if keeps_size { size } else { end })?;
        let time = Stamp::now();
        let (before, change) = self.ledger.commit(|tree| {
            let inode = tree.inode(ino).ok_or(Errno::STALE)?;
            let size = inode.size();
            let mut records = vec![Record::Punch { ino, from: first, to: last.max(first), time }];
            if !keeps_size && end > size {
                records.push(Record::Set { ino, set: Attributes { size: Some(end), ..Attributes::default() }, time });
            }
            Ok((records, (inode.change, tree.position + 1)))
        })?;
        pending.saw(before, change);
        Ok(())
    }
}

/// Pending blocks of a file: those for its holes, and partial ones where there is no hole any more.
#[expect(clippy::type_complexity, reason = "two lists of the same")]
fn split(inode: &Inode, pending: &Pending) -> (Vec<(u64, Run)>, Vec<(u64, Run)>) {
    let (mut runs, mut double) = (Vec::new(), Vec::new());
    for (place, run) in pending.fresh.iter() {
        let mut begin = 0;
        let is_double =
            |k: u32| pending.partial.contains_key(&(place + u64::from(k))) && inode.find(place + u64::from(k), 1).is_ok();
        let partial = pending.partial.range(place..place + u64::from(run.count)).map(|(block, _)| (block - place) as u32);
        for k in partial.filter(|k| is_double(*k)) {
            if begin < k {
                runs.push((place + u64::from(begin), run.part(begin, k - begin)));
            }
            double.push((place + u64::from(k), run.part(k, 1)));
            begin = k + 1;
        }
        if begin < run.count {
            runs.push((place + u64::from(begin), run.part(begin, run.count - begin)));
        }
    }
    (runs, double)
}
