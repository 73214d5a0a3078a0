//! Stores that go to an extent with copies as one: all of them have their effect there, or none.
//!
//! A release that one message has is done with it. The home and its copies have each part of a longer one wait for the last part. A program that
//! dies before has changed nothing. The last parts for all homes of a flush go together at its end. Where a home is lost, the next one has the
//! parts that were answered.
//!
//! A release that would exceed the room at the home ends at a page before that, and another one begins. Stores go in pieces where a node of the
//! extent is of an older release. They do, too, where other programs' parts take the room.

mod outgoing;

use super::super::twins::Twins;
use super::{Failed, HomeWire, Homes, ReadPages};
use crate::client::shared::fault_contexts::{LANE_PAGE_COUNT, Tools};
use hanare_memory::diff::PAGE;
use hanare_memory::uffd::Refused;
use hanare_protocol::limits::PENDING_PART_LEN;
use outgoing::{Outgoing, RANGE_LEN, Stopped};

/// Times that releases of one flush to one home are begun again, because it has lost parts.
const AGAIN_COUNT: u32 = 8;

/// Bytes of memory that the changes of one page take at most at the home, in two parts.
const PAGE_MEMORY_LEN: u64 = PAGE as u64 + (PAGE as u64 / 2 + 2) * RANGE_LEN + 2 * PENDING_PART_LEN;

/// A release of which all but the last part is on its way to its home.
pub(in super::super) struct OpenRelease {
    home: usize,
    pages: Vec<u64>,
    release: Outgoing,
    /// Times that it may be begun again.
    again: u32,
}

/// The way to one of the homes, and the room that changes of pages take on it.
fn parts_of(tools: &mut Tools, home: usize) -> (HomeWire<'_>, &mut [u8], &mut hanare_memory::diff::Diff) {
    let Tools { endpoints, pages, diff, reason, seq, call, renewer, .. } = tools;
    (HomeWire { home, endpoints, renewer, reason, seq, call }, pages, diff)
}

impl Homes {
    /// [`Homes::send`] of stores that have their effect together: with [`Homes::finish`], unless they need no release. Returns bytes that have their
    /// effect already. Not for a signal handler.
    ///
    /// **Cost**: a message for each [`STORE_PART_LEN_MAX`](hanare_protocol::limits::STORE_PART_LEN_MAX) bytes, but the last. **Errors**: a release
    /// that failed has no effect.
    pub fn send_whole<E: From<Failed> + From<Refused>>(
        &self,
        home: usize,
        tools: &mut Tools,
        twins: &Twins,
        pages: &[u64],
        read: &mut ReadPages<'_>,
    ) -> Result<(u64, Option<OpenRelease>), E> {
        let those: Vec<u64> = pages.iter().copied().filter(|page| self.has_part(*page, home)).collect();
        self.send_whole_again(home, tools, twins, those, (read, AGAIN_COUNT))
    }

    fn send_whole_again<E: From<Failed> + From<Refused>>(
        &self,
        home: usize,
        tools: &mut Tools,
        twins: &Twins,
        pages: Vec<u64>,
        (read, mut again): (&mut ReadPages<'_>, u32),
    ) -> Result<(u64, Option<OpenRelease>), E> {
        let (mut done, mut sent) = (0, 0);
        while done < pages.len() {
            let rest = &pages[done..];
            let taken = match self.begin_release::<E>(home, tools, twins, rest, read) {
                Ok((count, release)) if count == rest.len() => {
                    let pages = rest.to_vec();
                    return Ok((sent, release.has_stores().then_some(OpenRelease { home, pages, release, again })));
                }
                Ok((count, mut release)) => {
                    let posted = self.post_last(home, tools, &mut release);
                    posted.and_then(|()| self.settle(home, tools, &mut release)).map(|len| (count, len))
                }
                Err(stopped) => Err(stopped),
            };
            match taken {
                Ok((count, len)) => (done, sent) = (done + count, sent + len),
                Err(Stopped::Failed(failed)) => return Err(failed),
                Err(Stopped::Gone) if again > 0 => again -= 1,
                Err(_) => return Ok((sent + self.send::<E>(home, tools, twins, rest, read)?, None)),
            }
        }
        Ok((sent, None))
    }

    /// Sends the last parts of releases, each for a home of its own. All of their stores have their effect. Returns of each how many bytes they are.
    ///
    /// **Cost**: a message each way for each, all at once. **Errors**: a last part may have come all the same.
    pub fn finish<E: From<Failed> + From<Refused>>(
        &self,
        mut open: Vec<OpenRelease>,
        tools: &mut Tools,
        twins: &Twins,
        read: &mut ReadPages<'_>,
    ) -> Vec<(usize, Result<u64, E>)> {
        let posted: Vec<Result<(), Stopped<E>>> =
            open.iter_mut().map(|open| self.post_last(open.home, tools, &mut open.release)).collect();
        let finished = open.into_iter().zip(posted).map(|(open, posted)| {
            let home = open.home;
            (home, self.finish_one(open, posted, tools, (twins, &mut *read)))
        });
        finished.collect()
    }

    fn finish_one<E: From<Failed> + From<Refused>>(
        &self,
        mut open: OpenRelease,
        mut posted: Result<(), Stopped<E>>,
        tools: &mut Tools,
        (twins, read): (&Twins, &mut ReadPages<'_>),
    ) -> Result<u64, E> {
        let mut sent = 0;
        loop {
            let OpenRelease { home, pages, mut release, again } = open;
            match posted.and_then(|()| self.settle(home, tools, &mut release)) {
                Ok(len) => return Ok(sent + len),
                Err(Stopped::Failed(failed)) => return Err(failed),
                Err(Stopped::Gone) if again > 0 => {
                    let (more, begun) = self.send_whole_again::<E>(home, tools, twins, pages, (read, again - 1))?;
                    sent += more;
                    let Some(begun) = begun else { return Ok(sent) };
                    open = begun;
                    posted = self.post_last(home, tools, &mut open.release);
                }
                Err(_) => return Ok(sent + self.send::<E>(home, tools, twins, &pages, read)?),
            }
        }
    }

    /// Begins a release with the stores of the first pages, as many as have room. Sends all but its last part.
    fn begin_release<E: From<Failed> + From<Refused>>(
        &self,
        home: usize,
        tools: &mut Tools,
        twins: &Twins,
        pages: &[u64],
        read: &mut ReadPages<'_>,
    ) -> Result<(usize, Outgoing), Stopped<E>> {
        let (mut wire, room, diff) = parts_of(tools, home);
        let target = &self.targets[self.extents[home]];
        let mut release = Outgoing::begin(&mut wire).ok_or(Stopped::NotWhole)?;
        let mut count = 0;
        for some in pages.chunks(LANE_PAGE_COUNT) {
            if let Err(refused) = read(some, room) {
                wire.abandon(&release);
                return Err(Stopped::Failed(refused.into()));
            }
            for (page, bytes) in some.iter().zip(room.as_chunks::<PAGE>().0) {
                if release.is_full(PAGE_MEMORY_LEN) {
                    return Ok((count, release));
                }
                // SAFETY: the caller holds the page, and no other reference to its twin is in use.
                diff.renew(unsafe { twins.of(*page) }, bytes);
                for part in self.parts(*page, home) {
                    let clipped = |(start, len): (usize, usize)| start.max(part.range.start)..(start + len).min(part.range.end);
                    for run in diff.runs().map(clipped).filter(|run| !run.is_empty()) {
                        if !release.has_room(run.len()) {
                            wire.post(target, &mut release)?;
                        }
                        release.add(part.offset + (run.start - part.range.start) as u64, &bytes[run]);
                    }
                }
                count += 1;
            }
        }
        Ok((count, release))
    }

    /// Sends the last part of a release.
    fn post_last<E: From<Failed>>(&self, home: usize, tools: &mut Tools, release: &mut Outgoing) -> Result<(), Stopped<E>> {
        parts_of(tools, home).0.post_last(&self.targets[self.extents[home]], release)
    }

    /// Waits until all parts of a release are answered. Returns how many bytes it has.
    fn settle<E: From<Failed>>(&self, home: usize, tools: &mut Tools, release: &mut Outgoing) -> Result<u64, Stopped<E>> {
        parts_of(tools, home).0.settle(&self.targets[self.extents[home]], release)?;
        Ok(release.sent_len())
    }
}
