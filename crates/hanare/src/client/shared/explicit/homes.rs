//! Homes of a mapping's pages, and the requests that bring pages and send changes: ordinary vector commands over a context's connections,
//! written into the context's own room.
//!
//! Everything but [`Homes::new`], [`Homes::ask`], [`Homes::send_whole`] and [`Homes::error`] is async-signal-safe.

mod question;
mod stores;

use super::answer::{Why, expect};
use super::message::ContextMessage;
use super::twins::Twins;
use crate::client::region::Region;
use crate::client::shared::endpoint::{Broken, Endpoint};
use crate::client::shared::fault_contexts::{Renewals, Renewer, Tools};
use hanare_memory::diff::PAGE;
use hanare_memory::uffd::Refused;
use hanare_protocol::id::{Grant, NodeId, Slot};
use hanare_protocol::limits::{CALL_NUMBER_MAX, PAGE_LEN};
use hanare_protocol::placement::{Extent, Layout, Piece};
use hanare_protocol::wire::carried::ExtentAddress;
use hanare_protocol::wire::command::{Command, Form, Op};
use hanare_protocol::wire::control::{self, RegionView};
use hanare_protocol::wire::head::{Head, Kind, encode_call};
use hanare_protocol::{Error, Result};
pub(super) use question::AskedPage;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// Why a home could not be used: a plain value, made inside a signal handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    /// Its number among the homes.
    pub home: usize,
    pub why: Why,
}

/// An extent's name in commands. A reader that meets a change sends a mixture, which is refused like any grant of yesterday.
struct Target {
    home: usize,
    node: AtomicU32,
    slot: AtomicU32,
    /// Both halves.
    grant: [AtomicU64; 2],
}

impl Target {
    fn new(home: usize, extent: &Extent, grant: Grant) -> Target {
        let target = Target { home, node: AtomicU32::default(), slot: AtomicU32::default(), grant: Default::default() };
        target.set(extent, grant);
        target
    }

    fn set(&self, extent: &Extent, grant: Grant) {
        self.node.store(extent.node.0, Relaxed);
        self.slot.store(extent.slot.0, Relaxed);
        let halves = grant.0.as_chunks::<8>().0;
        self.grant.iter().zip(halves).for_each(|(place, half)| place.store(u64::from_le_bytes(*half), Relaxed));
    }

    fn node(&self) -> NodeId {
        NodeId(self.node.load(Relaxed))
    }

    fn slot(&self) -> Slot {
        Slot(self.slot.load(Relaxed))
    }

    fn grant(&self) -> Grant {
        let mut grant = [0; 16];
        for (half, place) in grant.as_chunks_mut::<8>().0.iter_mut().zip(&self.grant) {
            *half = place.load(Relaxed).to_le_bytes();
        }
        Grant(grant)
    }

    /// Has a command of before go to the home of today.
    fn retarget(&self, command: &mut Command) {
        (command.node, command.slot, command.grant) = (self.node().0, self.slot(), self.grant());
    }

    /// A command on a row of blocks of the extent.
    fn command(&self, op: Op, offset: u64, block: u64) -> Command {
        let (node, slot, grant) = (self.node().0, self.slot(), self.grant());
        Command { op, node, slot, grant, form: Form::Strided, offset, block, count: 1, stride: block, goes_on: false }
    }
}

/// A page's bytes that lie together on one extent.
struct HomePart {
    extent: usize,
    /// First byte in the extent.
    offset: u64,
    /// Place in the page.
    range: Range<usize>,
}

/// The homes of a region's pages.
pub(super) struct Homes {
    layout: Layout,
    len: u64,
    targets: Box<[Target]>,
    /// An extent of each home.
    extents: Box<[usize]>,
    /// True since the bytes were seen with copies: their homes may be others at any moment.
    moves: AtomicBool,
}

impl Homes {
    /// The homes of the extents that `is_used` (by number). They have a number each, in the order of their extents. An extent that `follows` to
    /// other nodes has one of its own.
    pub fn new(region: &Region, is_used: &[bool], follows: bool) -> Homes {
        let mut homes: Vec<(NodeId, usize)> = Vec::new();
        let mut target = |(number, (extent, grant)): (usize, (Extent, Grant))| {
            let known = homes.iter().position(|(node, _)| *node == extent.node).filter(|_| !follows);
            let home = known.unwrap_or(homes.len());
            if known.is_none() && is_used[number] {
                homes.push((extent.node, number));
            }
            Target::new(home, &extent, grant)
        };
        let targets = region.extents_today().into_iter().enumerate().map(&mut target).collect();
        Homes {
            layout: region.layout().clone(),
            len: region.len(),
            targets,
            extents: homes.into_iter().map(|(_, extent)| extent).collect(),
            moves: AtomicBool::new(region.copies() > 1),
        }
    }

    /// Number of the homes.
    pub fn count(&self) -> usize {
        self.extents.len()
    }

    /// The node of a home.
    pub fn node(&self, home: usize) -> NodeId {
        self.node_of(self.extents[home])
    }

    /// The nodes of the homes, by number.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.extents.iter().map(|extent| self.node_of(*extent))
    }

    /// The node of an extent.
    pub fn node_of(&self, extent: usize) -> NodeId {
        self.targets[extent].node()
    }

    /// True if the bytes have copies, or had some.
    pub fn moves(&self) -> bool {
        self.moves.load(Acquire)
    }

    /// Takes the places and grants of today's extents.
    pub fn set(&self, view: &RegionView) {
        if view.copies > 1 {
            self.moves.store(true, Release);
        }
        let today = view.layout.extents().zip(&view.grants);
        self.targets.iter().zip(today).for_each(|(target, (extent, grant))| target.set(extent, *grant));
    }

    /// The pieces of extents that a page consists of; fewer bytes than a page at the region's end.
    pub fn pieces(&self, page: u64) -> impl Iterator<Item = Piece> + '_ {
        let start = page * PAGE_LEN;
        self.layout.pieces(start, PAGE_LEN.min(self.len - start))
    }

    /// The piece in which a page begins, from there to its end.
    pub fn piece_at(&self, page: u64) -> Option<Piece> {
        let start = page * PAGE_LEN;
        self.layout.pieces(start, self.len - start).next()
    }

    /// The node and the extent where a range lies; `None` where it lies in parts.
    pub fn place_of(&self, range: &Range<u64>) -> Option<(NodeId, ExtentAddress)> {
        let mut pieces = self.layout.pieces(range.start, range.end - range.start);
        let piece = pieces.next().filter(|_| pieces.next().is_none())?;
        let target = &self.targets[piece.extent];
        Some((target.node(), ExtentAddress { slot: target.slot(), grant: target.grant(), offset: piece.offset }))
    }

    /// A page's parts on one home.
    fn parts(&self, page: u64, home: usize) -> impl Iterator<Item = HomePart> + '_ {
        self.pieces(page).filter(move |piece| self.targets[piece.extent].home == home).map(|piece| HomePart {
            extent: piece.extent,
            offset: piece.offset,
            range: piece.at as usize..(piece.at + piece.len) as usize,
        })
    }

    /// Brings pages' bytes into the context's room, in the order of `pages`; zeros follow at the region's end. `arrived` is told of whole
    /// pages, by their place among `pages`, each once. If one home has them all, it is told in parts as they come, so that sending and
    /// using go on side by side.
    ///
    /// **Cost**: one message each way for each home touched, all at once. **Errors**: the first home that failed, with pages
    /// told of or not; what the others answered is taken in, so that their connections go on.
    pub fn fetch(&self, tools: &mut Tools, pages: &[u64], mut arrived: impl FnMut(Range<usize>, &[u8])) -> Result<(), Failed> {
        tools.seq += 1;
        let Tools { endpoints, pages: room, message, reason, seq, .. } = tools;
        let (mut failed, mut asked, mut home_count) = (None, 0, 0);
        while asked < self.count() && failed.is_none() {
            let request = self.gets(pages, asked, message);
            if request.count > 0 {
                home_count += 1;
                let head = Head { count: request.count, body_len: request.len as u64, ..Head::new(Kind::Commands, *seq) };
                let sent = endpoints[asked].send(&[&head.encode(), &message[..request.len]]);
                failed = sent.err().map(|why| Failed { home: asked, why: Why::Broken(why) });
            }
            asked += 1;
        }
        if let Some(last) = pages.last().filter(|last| (**last + 1) * PAGE_LEN > self.len) {
            let at = (pages.len() - 1) * PAGE + (self.len - last * PAGE_LEN) as usize;
            room[at..pages.len() * PAGE].fill(0);
        }
        let answering = if failed.is_some() { asked - 1 } else { asked };
        let mut told = 0;
        for (home, endpoint) in endpoints.iter().enumerate().take(answering) {
            let ranges = Ranges { homes: self, home, pages, index: 0, within: 0 };
            let expected: u64 = ranges.clone().map(|range| range.len() as u64).sum();
            let mut receive = || {
                expect(endpoint, *seq, expected, reason)?;
                for range in ranges.clone().flat_map(in_turns) {
                    endpoint.receive(&mut room[range.clone()]).map_err(Why::Broken)?;
                    let whole = if range.end + PAGE > pages.len() * PAGE { pages.len() } else { range.end / PAGE };
                    if home_count == 1 && whole > told {
                        arrived(told..whole, &room[told * PAGE..whole * PAGE]);
                        told = whole;
                    }
                }
                Ok(())
            };
            if expected > 0
                && let Err(why) = receive()
            {
                failed = failed.or(Some(Failed { home, why }));
            }
        }
        if failed.is_none() && told < pages.len() {
            arrived(told..pages.len(), &room[told * PAGE..pages.len() * PAGE]);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Writes the commands that get the pages' parts on one home; parts that lie together there become one.
    fn gets(&self, pages: &[u64], home: usize, message: &mut [u8]) -> HomeRequest {
        let mut request = ContextMessage::new(message, &mut []);
        for part in pages.iter().flat_map(|page| self.parts(*page, home)) {
            let command = self.targets[part.extent].command(Op::Get, part.offset, part.range.len() as u64);
            let fits = request.get(command);
            assert!(fits, "a request has room for the parts of a window's pages");
        }
        HomeRequest { count: request.count(), len: request.commands_len() }
    }

    /// True if a part of a page lies on a home.
    pub fn has_part(&self, page: u64, home: usize) -> bool {
        self.parts(page, home).next().is_some()
    }

    /// Sends to a home what was changed of its parts of dirty pages, ascending. `read` puts the bytes of some of them into a room for
    /// [`LANE_PAGE_COUNT`](crate::client::shared::fault_contexts::LANE_PAGE_COUNT). Returns how many bytes were sent.
    ///
    /// The caller holds the pages, and has them protected from writing. Where the home of bytes with copies is lost, the next one gets the
    /// same message, as does the home of today after a refused grant. The next home does not repeat what the copies have of it. **Errors**: a
    /// part of it may be at the home then.
    pub fn send<E: From<Failed> + From<Refused>>(
        &self,
        home: usize,
        tools: &mut Tools,
        twins: &Twins,
        pages: &[u64],
        read: &mut ReadPages<'_>,
    ) -> Result<u64, E> {
        let Tools { endpoints, pages: room, message, operands, numbers, diff, reason, seq, call, renewer } = tools;
        let mut wire = HomeWire { home, endpoints, renewer, reason, seq, call };
        let mut sent = 0;
        let mut post = |message: &mut ContextMessage<'_>| {
            sent += message.changed_len();
            self.post(&mut wire, message)
        };
        let mut message = ContextMessage::new(message, operands);
        let mut those = pages.iter().filter(|page| self.has_part(**page, home));
        loop {
            let len = numbers.iter_mut().zip(&mut those).map(|(number, page)| *number = *page).count();
            if len == 0 {
                break;
            }
            read(&numbers[..len], room)?;
            for (page, bytes) in numbers[..len].iter().zip(room.as_chunks::<PAGE>().0) {
                // SAFETY: the caller holds the page, and no other reference to its twin is in use.
                diff.renew(unsafe { twins.of(*page) }, bytes);
                for part in self.parts(*page, home).filter(|_| !diff.is_empty()) {
                    let command = self.targets[part.extent].command(Op::Put, part.offset, 0);
                    let mut from = part.range.start;
                    while from < part.range.end {
                        from = message.put(command, diff, bytes, &part.range, from);
                        if from < part.range.end {
                            post(&mut message)?;
                        }
                    }
                }
            }
        }
        if message.count() > 0 {
            post(&mut message)?;
        }
        Ok(sent)
    }

    /// Sends a message and empties it. A frame of its own: whoever fills the message needs another on the small stack.
    #[inline(never)]
    fn post(&self, wire: &mut HomeWire<'_>, message: &mut ContextMessage<'_>) -> Result<(), Failed> {
        let mut call = wire.next_call();
        let mut renewals = Renewals::default();
        let outcome = loop {
            *wire.seq += 1;
            let Err(why) = message.exchange(&wire.endpoints[wire.home], *wire.seq, call, wire.reason) else { break Ok(()) };
            if !self.finds_next_home(wire, message, &mut renewals, (&mut call, why.broken())) {
                break Err(Failed { home: wire.home, why });
            }
        };
        message.clear();
        outcome
    }

    /// True if the home of a call moved, and the message is ready to be sent there again. Stores may be done twice. So a call that had no number,
    /// because its bytes had no copies, gets one.
    #[cold]
    #[inline(never)]
    fn finds_next_home(
        &self,
        wire: &mut HomeWire<'_>,
        message: &mut ContextMessage<'_>,
        renewals: &mut Renewals,
        (call, broken): (&mut u64, Option<Broken>),
    ) -> bool {
        let may_repeat = *call != 0 || broken.is_none();
        if !may_repeat || !wire.renewer.renew_again(wire.endpoints, renewals, wire.home, broken) {
            return false;
        }
        *call = if *call == 0 { wire.next_call() } else { encode_call(0, *wire.call, true) };
        message.retarget(|command| self.targets[self.extents[wire.home]].retarget(command));
        true
    }

    /// A failure as an error, with the home's own reason where it gave one. Not for a signal handler.
    pub fn error(&self, failed: Failed, reason: &[u8]) -> Error {
        let node = self.node(failed.home);
        match failed.why {
            Why::Broken(why) => why.error(node),
            Why::Refused(len) => control::decode::<Error>(&reason[..len])
                .unwrap_or_else(|malformed| Error::Garbage { peer: node.to_string(), reason: malformed.0.to_owned() }),
        }
    }
}

/// Puts the bytes of pages into a room.
type ReadPages<'r> = dyn FnMut(&[u64], &mut [u8]) -> Result<(), Refused> + 'r;

/// A context's way to one home.
struct HomeWire<'t> {
    home: usize,
    endpoints: &'t mut [Endpoint],
    renewer: &'t Renewer,
    reason: &'t mut [u8],
    seq: &'t mut u64,
    call: &'t mut u64,
}

impl HomeWire<'_> {
    /// The next call, as a head's detail has it; 0 where homes do not move.
    fn next_call(&mut self) -> u64 {
        if !self.renewer.moves() || *self.call >= CALL_NUMBER_MAX {
            return 0;
        }
        *self.call += 1;
        encode_call(0, *self.call, false)
    }
}

/// A request in a lane's message room.
struct HomeRequest {
    count: u32,
    len: usize,
}

/// Ranges of the context's room for a reply's bytes, in order of arrival; ranges that touch are one.
#[derive(Clone)]
struct Ranges<'a> {
    homes: &'a Homes,
    home: usize,
    pages: &'a [u64],
    /// The page that comes next.
    index: usize,
    /// Its parts that were given already.
    within: usize,
}

impl Ranges<'_> {
    fn next_part(&mut self) -> Option<Range<usize>> {
        while let Some(page) = self.pages.get(self.index) {
            if let Some(part) = self.homes.parts(*page, self.home).nth(self.within) {
                self.within += 1;
                let base = self.index * PAGE;
                return Some(base + part.range.start..base + part.range.end);
            }
            (self.index, self.within) = (self.index + 1, 0);
        }
        None
    }
}

impl Iterator for Ranges<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let mut range = self.next_part()?;
        loop {
            let (index, within) = (self.index, self.within);
            match self.next_part() {
                Some(part) if part.start == range.end => range.end = part.end,
                None => return Some(range),
                Some(_) => {
                    (self.index, self.within) = (index, within);
                    return Some(range);
                }
            }
        }
    }
}

/// Cuts a range of an answer into what is received at once: few enough bytes to be in the cache still when they are moved on.
fn in_turns(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    const TURN_LEN: usize = 16 * PAGE;
    range.clone().step_by(TURN_LEN).map(move |start| start..range.end.min(start + TURN_LEN))
}
