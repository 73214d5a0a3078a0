//! Fault contexts. A thread that resolves a fault gets one for that time, with connections to the region's homes and room for pages.
//!
//! A mapping has a fixed number of contexts (`HANARE_FAULT_LANES`): a fault may be a thread's first call of ours, so no thread can be
//! prepared. A thread takes a free one. If there is none, it pauses and yields until one is given back.
//!
//! # Rules
//!
//! - Take the page's claim first, then a context. With a context in hand never wait for a page, nor for a second context. So each holder
//!   of a context comes to an end, within the bound of its node's reply.
//! - [`FaultContexts::take`] and the guard's drop are async-signal-safe. A thread that is killed takes its process with it. The contexts
//!   are the process's own, so none is left behind.
//!
//! Safety invariant of this module: only the thread that took a context reaches its content. It does so from the exchange that took it
//! until the store that gives it back.

use super::endpoint::{Broken, Endpoint};
use super::orders::{FindHomes, NewHome, Orders, Renewal};
use crate::client::attachment::Shared;
use crate::client::repetition::{Breaks, Refusals};
use hanare_memory::diff::Diff;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{ASK_MS, PAGE_LEN, SPIN_PAUSE_COUNT};
use hanare_protocol::wire::control::SharedHome;
use hanare_protocol::{Error, Result};
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// Pages that a lane has room for.
pub(crate) const LANE_PAGE_COUNT: usize = hanare_protocol::limits::PAGES_ASKED_MAX;

/// Tools of one thread at a time.
struct FaultContext {
    is_taken: AtomicBool,
    tools: UnsafeCell<Tools>,
    lists: UnsafeCell<Box<Lists>>,
}

/// Room for numbers of pages. A signal handler's stack may be 8 KiB, and the kernel takes up to half of it.
pub(crate) struct Lists {
    /// Pages to fetch.
    pub window: [u64; LANE_PAGE_COUNT],
    /// Pages that make room.
    pub victims: [u64; LANE_PAGE_COUNT],
    /// Pages that go home.
    pub dirty: [u64; LANE_PAGE_COUNT],
}

/// Room of a lane for what goes before the bytes of a request: commands and lists. As many again for the bytes that go with it.
pub(crate) const MESSAGE_LEN: usize = 128 << 10;

/// Times that a fault has connections to one home renewed before it takes their ends for the home's.
const RENEW_COUNT: usize = 3;

/// Room for the reason of a refusal.
const REASON_LEN: usize = 4 << 10;

/// Tools of a context.
pub(crate) struct Tools {
    /// A connection for each home, in the order in which the homes were given.
    pub endpoints: Box<[Endpoint]>,
    /// Room for [`LANE_PAGE_COUNT`] pages.
    pub pages: Box<[u8]>,
    /// Room of [`MESSAGE_LEN`] bytes.
    pub message: Box<[u8]>,
    /// Room of [`MESSAGE_LEN`] bytes.
    pub operands: Box<[u8]>,
    /// Numbers of pages.
    pub numbers: Box<[u64; LANE_PAGE_COUNT]>,
    /// Differences of the page that is being sent.
    pub diff: Box<Diff>,
    /// Room for a home's reason of a refusal.
    pub reason: Box<[u8]>,
    /// The number of the next request; one lane's requests are numbered on their own.
    pub seq: u64,
    /// The last call of the context that counts once. It has one under way at most.
    pub call: u64,
    pub renewer: Renewer,
}

/// A context's way to new connections: orders, its number there, and the time for them.
pub(crate) struct Renewer(pub(super) Option<(Arc<Orders>, usize, Duration)>);

impl Tools {
    /// Makes another connection to home number `home`, if it was found broken though its node may live. Returns true if it is good. A node
    /// that was silent has had its time. Async-signal-safe.
    pub fn renew(&mut self, home: usize, why: Broken) -> bool {
        self.renewer.renew(&mut self.endpoints[home], home, why)
    }

    /// [`Renewer::renew_again`].
    pub fn renew_again(&mut self, renewals: &mut Renewals, home: usize, broken: Option<Broken>) -> bool {
        self.renewer.renew_again(&mut self.endpoints, renewals, home, broken)
    }
}

impl Renewer {
    /// Tells a home, on a new connection, whose calls come on it.
    fn introduce(&self, endpoint: &Endpoint) {
        if let Some((orders, lane, _)) = &self.0 {
            orders.introduce(*lane, endpoint);
        }
    }

    /// The program of the context's calls, where homes may move.
    pub fn client(&self) -> Option<u64> {
        self.0.as_ref().and_then(|(orders, lane, _)| orders.client(*lane))
    }

    /// Time for an answer on a new connection.
    fn bound(&self) -> Option<Duration> {
        self.0.as_ref().map(|(orders, ..)| orders.bound())
    }

    /// True if the bytes have copies, or had some.
    pub fn moves(&self) -> bool {
        self.0.as_ref().is_some_and(|(orders, ..)| orders.moves())
    }

    fn renew(&self, endpoint: &mut Endpoint, home: usize, why: Broken) -> bool {
        let Some((orders, lane, bound)) = self.0.as_ref().filter(|_| why == Broken::Closed) else { return false };
        orders.renew(*lane, (home, NewHome::Known), endpoint, *bound) == Renewal::Made
    }

    /// [`Tools::renew`]. Bytes without copies may have moved from a node that was silent.
    fn renew_or_follow(&self, endpoint: &mut Endpoint, home: usize, why: Broken) -> bool {
        match &self.0 {
            Some((orders, lane, bound)) if why == Broken::TimedOut && orders.may_move() => {
                let wanted = orders.after_silence(home, endpoint);
                orders.renew(*lane, (home, wanted), endpoint, *bound) == Renewal::Made
            }
            _ => self.renew(endpoint, home, why),
        }
    }

    /// [`Tools::renew`], for one more request of a fault. Bytes with copies may have another home meanwhile, whatever was `broken` or refused. So may
    /// bytes whose grant is refused. The coordinator is asked for it until the lease of a lost one must be over. Async-signal-safe.
    pub fn renew_again(&self, endpoints: &mut [Endpoint], renewals: &mut Renewals, home: usize, broken: Option<Broken>) -> bool {
        let Some((orders, lane, bound)) = self.0.as_ref() else { return false };
        let (count, endpoint) = (endpoints.len(), &mut endpoints[home]);
        if let (Some(why), false) = (broken, orders.moves()) {
            renewals.count += 1;
            return renewals.count <= count.max(RENEW_COUNT) && self.renew_or_follow(endpoint, home, why);
        }
        // A refused request did nothing. Its bytes may have got copies, or have moved.
        let may_follow = orders.moves() || orders.may_move() && renewals.refusals.may_repeat();
        while may_follow && renewals.breaks.may_repeat_moved() {
            match orders.renew(*lane, (home, NewHome::Today), endpoint, *bound) {
                Renewal::Made => return true,
                Renewal::NotNow => {}
                Renewal::Never => return false,
            }
        }
        false
    }
}

/// Connections that were made again for one fault.
#[derive(Default)]
pub(crate) struct Renewals {
    count: usize,
    refusals: Refusals,
    breaks: Breaks,
}

// SAFETY: the tools are reached by the thread that took the lane alone (the module's invariant); they may move between threads.
unsafe impl Sync for FaultContext {}

/// The lanes of one mapping.
pub(crate) struct FaultContexts(Box<[FaultContext]>);

impl FaultContexts {
    /// Lanes with a connection each to every one of the homes. `next` finds them later. Not for a signal handler.
    ///
    /// **Cost**: `count` times as many connections as there are homes; 512 KiB a lane, as far as it is used. **Errors**: as
    /// [`Endpoint::connect`].
    pub fn connect(shared: &Arc<Shared>, homes: &[SharedHome], next: Arc<dyn FindHomes>, count: usize) -> Result<FaultContexts> {
        shared.open_fabric();
        let count = count.max(1);
        let orders = Orders::of_lanes(shared, next, homes.len(), count, shared.bound)?;
        let lane = |lane| -> Result<FaultContext> {
            let connect = |home: &SharedHome| {
                let endpoint = Endpoint::connect(shared, home, orders.bound())?;
                orders.introduce(lane, &endpoint);
                Ok(endpoint)
            };
            let endpoints: Result<Box<[Endpoint]>> = homes.iter().map(connect).collect();
            Ok(FaultContext::new(endpoints?, Renewer(Some((orders.clone(), lane, shared.bound)))))
        };
        let lanes: Result<Box<[FaultContext]>> = (0..count).map(lane).collect();
        lanes.map(FaultContexts)
    }

    /// Lends a free lane to the calling thread; waits while there is none.
    ///
    /// **Cost**: one exchange where the first is free.
    pub fn take(&self) -> FaultContextGuard<'_> {
        let mut pauses = 0;
        loop {
            if let Some(guard) = self.try_take() {
                return guard;
            }
            if pauses < SPIN_PAUSE_COUNT {
                pauses += 1;
                std::hint::spin_loop();
            } else {
                rustix::thread::sched_yield();
            }
        }
    }

    /// Lends a free lane, if there is one.
    pub fn try_take(&self) -> Option<FaultContextGuard<'_>> {
        (0..self.0.len()).find_map(|index| self.try_take_that(index))
    }

    fn try_take_that(&self, index: usize) -> Option<FaultContextGuard<'_>> {
        let lane = &self.0[index];
        // ORDERING: pairs with the store in the guard's drop: what the last thread did to the tools is done.
        let is_free = !lane.is_taken.load(Relaxed) && lane.is_taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        is_free.then(|| FaultContextGuard { index, lane, _one_thread: PhantomData })
    }

    /// Replaces connections that broke, or lead to a node that is no home, on all lanes in turn. `place` says where each home is, by its
    /// number. Not for a signal handler.
    ///
    /// **Cost**: waits for each lane; no message where all connections are good. **Errors**: the first that could not be made;
    /// those before it are good.
    pub fn reconnect<'a>(&self, shared: &Shared, place: impl Fn(usize) -> (NodeId, Option<&'a str>)) -> Result<()> {
        /// The caller has waited for the answer of a silent node already.
        const PATIENCE: Duration = Duration::from_millis(ASK_MS);
        for index in 0..self.0.len() {
            let mut lane = self.take_that(index);
            let Tools { endpoints, renewer, .. } = lane.tools();
            for (home, endpoint) in endpoints.iter_mut().enumerate() {
                let (node, address) = place(home);
                if node == endpoint.node() && !endpoint.is_ended() {
                    continue;
                }
                let lost = || Error::NodeLost { node, reason: "its address is not known".to_owned() };
                let bound = renewer.bound().unwrap_or(endpoint.bound());
                let home = SharedHome { node, address: address.ok_or_else(lost)?.to_owned(), share: endpoint.share() };
                let made = Endpoint::connect_within(shared, &home, bound, PATIENCE)?;
                renewer.introduce(&made);
                *endpoint = made;
            }
        }
        Ok(())
    }

    fn take_that(&self, index: usize) -> FaultContextGuard<'_> {
        loop {
            if let Some(guard) = self.try_take_that(index) {
                return guard;
            }
            rustix::thread::sched_yield();
        }
    }
}

impl FaultContext {
    fn new(endpoints: Box<[Endpoint]>, renewer: Renewer) -> FaultContext {
        let room = |len| vec![0; len].into_boxed_slice();
        let tools = Tools {
            endpoints,
            pages: room(LANE_PAGE_COUNT * PAGE_LEN as usize),
            message: room(MESSAGE_LEN),
            operands: room(MESSAGE_LEN),
            numbers: Box::new([0; LANE_PAGE_COUNT]),
            diff: Box::new(Diff::none()),
            reason: room(REASON_LEN),
            seq: 0,
            call: 0,
            renewer,
        };
        let lists = Lists { window: [0; LANE_PAGE_COUNT], victims: [0; LANE_PAGE_COUNT], dirty: [0; LANE_PAGE_COUNT] };
        FaultContext { is_taken: AtomicBool::new(false), tools: UnsafeCell::new(tools), lists: UnsafeCell::new(Box::new(lists)) }
    }
}

/// A lane that is lent to this thread; given back when dropped.
pub(crate) struct FaultContextGuard<'a> {
    index: usize,
    lane: &'a FaultContext,
    /// Not shared between threads: endpoints are not.
    _one_thread: PhantomData<Cell<()>>,
}

impl FaultContextGuard<'_> {
    /// The lane's number, below the number of lanes: nobody else has it at this moment.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its tools, all at once.
    pub fn tools(&mut self) -> &mut Tools {
        // SAFETY: the lane is this guard's (the module's invariant), which is borrowed for as long.
        unsafe { &mut *self.lane.tools.get() }
    }

    /// Its tools, and its room for numbers beside them.
    pub fn parts(&mut self) -> (&mut Tools, &mut Lists) {
        // SAFETY: as above; they are two things.
        unsafe { (&mut *self.lane.tools.get(), &mut **self.lane.lists.get()) }
    }

    /// The connection to home number `home`.
    pub fn endpoint(&self, home: usize) -> &Endpoint {
        // SAFETY: as above; the tools are borrowed for reading as long as the guard is.
        unsafe { &(&(*self.lane.tools.get()).endpoints)[home] }
    }
}

impl Drop for FaultContextGuard<'_> {
    fn drop(&mut self) {
        // ORDERING: pairs with the exchange in `try_take_that`.
        self.lane.is_taken.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    fn lanes(count: usize) -> FaultContexts {
        FaultContexts((0..count).map(|_| FaultContext::new(Box::default(), Renewer(None))).collect())
    }

    #[test]
    fn a_lane_is_lent_once_at_a_time() {
        let lanes = lanes(2);
        let (one, two) = (lanes.take(), lanes.take());
        assert_eq!((one.index(), two.index()), (0, 1));
        assert!(lanes.try_take().is_none());
        drop(one);
        assert_eq!(lanes.take().index(), 0, "the one that was given back");
    }

    #[test]
    fn threads_wait_for_a_lane_and_find_its_tools_whole() {
        let (lanes, sum) = (lanes(2), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let mut lane = lanes.take();
                        let tools = lane.tools();
                        // Both change together: a lane that two threads hold is found out.
                        let seen = tools.seq;
                        assert_eq!(tools.pages[0], seen as u8);
                        thread::yield_now();
                        tools.seq = seen + 1;
                        tools.pages[0] = (seen + 1) as u8;
                        sum.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        let (mut one, mut two) = (lanes.take(), lanes.take());
        assert_eq!(one.tools().seq + two.tools().seq, sum.load(Relaxed));
    }
}
