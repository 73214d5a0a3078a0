//! A home as a node serves it, under virtual time: every output is taken after every input, and ticks come when they are due.

use crate::harness::due;
use hanare_home::{Bytes, Counts, Home, Input, LockTerms, Memory, Output, PageTerms, PageVectors, Pages, SyncOutput, Waiter};
use hanare_protocol::id::{ClientId, Gid, Slot, User};
use hanare_protocol::wire::copies::{CopiedExtent, ExtentWrite};
use hanare_protocol::wire::sync::SyncRequest;
use std::time::Duration;

/// An event of a home whose regions no host maps.
pub(crate) type HomeInput = Input<'static, PageVectors>;

/// A life of a home.
#[derive(Debug)]
pub(crate) struct ServedHome<E> {
    home: Home<PageVectors, E>,
    tick_at: Option<u64>,
}

impl<E: Bytes + Clone> ServedHome<E> {
    pub fn new(life: u64, terms: LockTerms) -> ServedHome<E> {
        let pages = Pages::new(PageTerms::default(), PageVectors::default());
        ServedHome { home: Home::new(terms, life, pages), tick_at: None }
    }

    /// An event happens. Returns what comes of it, in order.
    pub fn tell(
        &mut self,
        now_ms: u64,
        input: Input<'_, PageVectors>,
        memory: &impl Memory<Extent = E>,
    ) -> Vec<Output<PageVectors>> {
        self.home.handle(Duration::from_millis(now_ms), input, memory);
        std::iter::from_fn(|| self.home.poll(memory)).collect()
    }

    /// The same where no host maps a region, and no region has copies.
    pub fn handle(&mut self, now_ms: u64, input: HomeInput, memory: &impl Memory<Extent = E>) -> Vec<SyncOutput> {
        let sync = |output| match output {
            Output::Sync(output) => output,
            Output::Pages(_) | Output::Copies(_) => unreachable!("no host maps a region, and no region has copies"),
        };
        self.tell(now_ms, input, memory).into_iter().map(sync).collect()
    }

    /// A command writes to an extent with copies. Returns what comes of it.
    pub fn write(
        &mut self,
        now_ms: u64,
        (link, at): (u64, (Gid, Slot)),
        write: ExtentWrite,
        memory: &impl Memory<Extent = E>,
    ) -> Vec<Output<PageVectors>> {
        self.home.write(Duration::from_millis(now_ms), link, at, write);
        std::iter::from_fn(|| self.home.poll(memory)).collect()
    }

    /// After how many milliseconds a tick is to come, unless one is under way that comes in time.
    pub fn next_tick(&mut self, now_ms: u64) -> Option<u64> {
        due(self.home.deadline().map(|at| at.as_millis() as u64), &mut self.tick_at, now_ms)
    }

    /// The slot of an extent with copies that is home here.
    pub fn home_slot(&self, extent: CopiedExtent) -> Option<Slot> {
        self.home.home_slot(extent)
    }

    /// True if the home of an extent here is overtaken by an election.
    pub fn is_overtaken(&self, extent: CopiedExtent) -> bool {
        self.home.is_overtaken(extent)
    }

    pub fn counts(&self) -> Counts {
        self.home.counts()
    }
}

/// A request of a program; all programs are of one user.
pub(crate) fn request(waiter: Waiter, client: u64, request: SyncRequest) -> HomeInput {
    Input::Request { waiter, from: (ClientId(client), User { uid: 1000, gid: 1000 }), request }
}
