//! Stores that go to an extent with copies as one: all of them have their effect there, or none.
//!
//! A release that one message has is done with it. The home and its copies have each part of a longer one wait for the last part. A program that
//! dies before has changed nothing. The last parts for all homes of a flush go at its end, one after another. Where a home is lost, the next one
//! has the parts that were answered.
//!
//! A release that would exceed the room at the home ends at a page before that, and another one begins. Stores go in pieces where a node of the
//! extent is of an older release. They do, too, where other programs' parts take the room.

use super::super::answer::{Why, expect_stored};
use super::super::twins::Twins;
use super::{Failed, HomeWire, Homes, ReadPages, Target};
use crate::client::shared::fault_contexts::{LANE_PAGE_COUNT, Renewals, Tools};
use hanare_memory::diff::PAGE;
use hanare_memory::uffd::Refused;
use hanare_protocol::Error;
use hanare_protocol::copies::{Once, UpdateCall};
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{CALL_NUMBER_MAX, PENDING_LEN_MAX, PENDING_PART_LEN, STORE_PART_LEN_MAX, WRITE_RANGE_COUNT_MAX};
use hanare_protocol::wire::control;
use hanare_protocol::wire::exchange::Query;
use hanare_protocol::wire::stores::StorePart;
use hanare_protocol::wire::sync::SyncRequest;

/// Times that releases of one flush to one home are begun again, because it has lost parts.
const AGAIN_COUNT: u32 = 8;

/// Bytes of memory that the changes of one page take at most at the home, in two parts.
const PAGE_MEMORY_LEN: u64 = PAGE as u64 + (PAGE as u64 / 2 + 2) * RANGE_LEN + 2 * PENDING_PART_LEN;

/// Bytes of memory of a range.
const RANGE_LEN: u64 = size_of::<(u64, u64)>() as u64;

/// Reason that a home does not take a part.
#[derive(Clone, Copy)]
enum RefusedPart {
    /// Earlier parts are lost there.
    Gone,
    /// No such stores are taken now.
    NotWhole,
}

/// A release of which all but the last part is at its home.
pub(in super::super) struct OpenRelease {
    home: usize,
    pages: Vec<u64>,
    release: Outgoing,
    /// Times that it may be begun again.
    again: u32,
}

impl OpenRelease {
    /// The home's number.
    pub fn home(&self) -> usize {
        self.home
    }
}

/// A release: the message of its next part, and what went before.
struct Outgoing {
    query: Query,
    /// Bytes of memory of the parts before at the home.
    memory_len: u64,
    /// Bytes of all parts before.
    sent_len: u64,
}

impl Outgoing {
    /// A release that begins. `None` where the home does not know such stores, or the context's calls have no numbers.
    fn begin(wire: &mut HomeWire<'_>, target: &Target) -> Option<Outgoing> {
        let client = wire.renewer.client().filter(|_| wire.knows_stores() && *wire.call < CALL_NUMBER_MAX)?;
        *wire.call += 1;
        let call = UpdateCall { client, sequence: 0, number: *wire.call, is_repeat: false };
        let part = StorePart { once: Once { call, at: 0 }, is_last: false, ranges: Vec::new(), operand: Vec::new() };
        let query = Query::Sync(SyncRequest::Store { slot: target.slot(), grant: target.grant(), part });
        Some(Outgoing { query, memory_len: 0, sent_len: 0 })
    }

    /// True if a part of it has bytes.
    fn has_stores(&self) -> bool {
        matches!(&self.query, Query::Sync(SyncRequest::Store { part, .. }) if !part.ranges.is_empty())
    }

    fn part(&mut self) -> &mut StorePart {
        match &mut self.query {
            Query::Sync(SyncRequest::Store { part, .. }) => part,
            _ => unreachable!("it is made so"),
        }
    }

    /// Has the part go to the home of today, where it may be already.
    fn retarget(&mut self, target: &Target) {
        if let Query::Sync(SyncRequest::Store { slot, grant, part }) = &mut self.query {
            (*slot, *grant, part.once.call.is_repeat) = (target.slot(), target.grant(), true);
        }
    }

    /// True if the part has room for a run of bytes at its end.
    fn has_room(&mut self, len: usize) -> bool {
        let part = self.part();
        part.operand.len() + len <= STORE_PART_LEN_MAX && part.ranges.len() < WRITE_RANGE_COUNT_MAX
    }

    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let part = self.part();
        match part.ranges.last_mut().filter(|(at, len)| at + len == offset) {
            Some((_, len)) => *len += bytes.len() as u64,
            None => part.ranges.push((offset, bytes.len() as u64)),
        }
        part.operand.extend_from_slice(bytes);
    }

    /// Bytes of memory of the part at the home.
    fn part_len(&mut self) -> u64 {
        let part = self.part();
        part.operand.len() as u64 + part.ranges.len() as u64 * RANGE_LEN + PENDING_PART_LEN
    }

    /// True if the parts that wait might exceed their room with the changes of another page.
    fn is_full(&mut self) -> bool {
        self.memory_len + self.part_len() + PAGE_MEMORY_LEN > PENDING_LEN_MAX
    }

    /// The part is stored: the next one begins.
    fn next_part(&mut self) {
        self.memory_len += self.part_len();
        let part = self.part();
        let len = part.operand.len() as u64;
        part.once = Once { call: UpdateCall { is_repeat: false, ..part.once.call }, at: part.once.at + len };
        part.ranges.clear();
        part.operand.clear();
        self.sent_len += len;
    }
}

impl HomeWire<'_> {
    fn knows_stores(&self) -> bool {
        self.endpoints[self.home].spoken() >= SyncRequest::STORES_SINCE
    }
}

impl Homes {
    /// [`Homes::send`] of stores that have their effect together: with [`Homes::finish`], unless they need no release. Returns bytes that have their
    /// effect already. Not for a signal handler.
    ///
    /// **Cost**: a message each way for each [`STORE_PART_LEN_MAX`] bytes, but the last. **Errors**: a release that failed has no effect.
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
            let begun = self.begin_release::<E>(home, tools, twins, rest, read)?;
            let taken = match begun {
                Ok((count, release)) if count == rest.len() => {
                    let pages = rest.to_vec();
                    return Ok((sent, release.has_stores().then_some(OpenRelease { home, pages, release, again })));
                }
                Ok((count, mut release)) => self.post_last(home, tools, &mut release)?.map(|len| (count, len)),
                Err(not_taken) => Err(not_taken),
            };
            match taken {
                Ok((count, len)) => (done, sent) = (done + count, sent + len),
                Err(RefusedPart::Gone) if again > 0 => again -= 1,
                Err(_) => return Ok((sent + self.send::<E>(home, tools, twins, rest, read)?, None)),
            }
        }
        Ok((sent, None))
    }

    /// Sends the last part of a release: all of its stores have their effect. Returns how many bytes they are.
    ///
    /// **Cost**: a message each way. **Errors**: its last part may have come all the same.
    pub fn finish<E: From<Failed> + From<Refused>>(
        &self,
        open: OpenRelease,
        tools: &mut Tools,
        twins: &Twins,
        read: &mut ReadPages<'_>,
    ) -> Result<u64, E> {
        let (home, mut open, mut sent) = (open.home, Some(open), 0);
        while let Some(OpenRelease { pages, mut release, again, .. }) = open {
            match self.post_last(home, tools, &mut release)? {
                Ok(len) => return Ok(sent + len),
                Err(RefusedPart::Gone) if again > 0 => {
                    let (more, begun) = self.send_whole_again::<E>(home, tools, twins, pages, (read, again - 1))?;
                    (sent, open) = (sent + more, begun);
                }
                Err(_) => return Ok(sent + self.send::<E>(home, tools, twins, &pages, read)?),
            }
        }
        Ok(sent)
    }

    /// Begins a release with the stores of the first pages, as many as have room. Sends all but its last part.
    fn begin_release<E: From<Failed> + From<Refused>>(
        &self,
        home: usize,
        tools: &mut Tools,
        twins: &Twins,
        pages: &[u64],
        read: &mut ReadPages<'_>,
    ) -> Result<Result<(usize, Outgoing), RefusedPart>, E> {
        let Tools { endpoints, pages: room, diff, reason, seq, call, renewer, .. } = tools;
        let mut wire = HomeWire { home, endpoints, renewer, reason, seq, call };
        let target = &self.targets[self.extents[home]];
        let Some(mut release) = Outgoing::begin(&mut wire, target) else { return Ok(Err(RefusedPart::NotWhole)) };
        let mut count = 0;
        for some in pages.chunks(LANE_PAGE_COUNT) {
            read(some, room)?;
            for (page, bytes) in some.iter().zip(room.as_chunks::<PAGE>().0) {
                if release.is_full() {
                    return Ok(Ok((count, release)));
                }
                // SAFETY: the caller holds the page, and no other reference to its twin is in use.
                diff.renew(unsafe { twins.of(*page) }, bytes);
                for part in self.parts(*page, home) {
                    let clipped = |(start, len): (usize, usize)| start.max(part.range.start)..(start + len).min(part.range.end);
                    for run in diff.runs().map(clipped).filter(|run| !run.is_empty()) {
                        if !release.has_room(run.len()) {
                            if let Err(not_taken) = self.post_part(&mut wire, &mut release)? {
                                return Ok(Err(not_taken));
                            }
                            release.next_part();
                        }
                        release.add(part.offset + (run.start - part.range.start) as u64, &bytes[run]);
                    }
                }
                count += 1;
            }
        }
        Ok(Ok((count, release)))
    }

    /// Sends the last part of a release. Returns how many bytes the release has.
    fn post_last(&self, home: usize, tools: &mut Tools, release: &mut Outgoing) -> Result<Result<u64, RefusedPart>, Failed> {
        let Tools { endpoints, reason, seq, call, renewer, .. } = tools;
        let mut wire = HomeWire { home, endpoints, renewer, reason, seq, call };
        release.part().is_last = true;
        let posted = self.post_part(&mut wire, release)?;
        Ok(posted.map(|()| {
            release.next_part();
            release.sent_len
        }))
    }

    /// Sends a part, and waits until all holders have it: at the home of today, or the next one.
    fn post_part(&self, wire: &mut HomeWire<'_>, release: &mut Outgoing) -> Result<Result<(), RefusedPart>, Failed> {
        let mut renewals = Renewals::default();
        loop {
            *wire.seq += 1;
            let ((head, body), endpoint) = (release.query.encode(*wire.seq), &wire.endpoints[wire.home]);
            let sent = endpoint.send(&[&head.encode(), &body]).map_err(Why::Broken);
            let Err(why) = sent.and_then(|()| expect_stored(endpoint, *wire.seq, wire.reason)) else { return Ok(Ok(())) };
            if let Why::Refused(len) = why
                && let Some(not_taken) = refusal(&wire.reason[..len])
            {
                return Ok(Err(not_taken));
            }
            if !wire.renewer.renew_again(wire.endpoints, &mut renewals, wire.home, why.broken()) {
                return Err(Failed { home: wire.home, why });
            }
            if !wire.knows_stores() {
                return Ok(Err(RefusedPart::NotWhole));
            }
            release.retarget(&self.targets[self.extents[wire.home]]);
        }
    }
}

/// The reason of a home that refuses a part for good. All other refusals are those of a home that is none any more.
fn refusal(reason: &[u8]) -> Option<RefusedPart> {
    match control::decode::<Error>(reason).ok()? {
        Error::Broken { happened: Happened::No, .. } => Some(RefusedPart::Gone),
        Error::LimitReached { .. } | Error::TooOld { .. } | Error::BadUse { .. } => Some(RefusedPart::NotWhole),
        _ => None,
    }
}
