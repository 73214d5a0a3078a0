//! The watch over the host's memory: a thread that looks at what the machine and its control groups have left, and tells the stock.
//!
//! **Cost**: a look reads some ten small files of the kernel, some 100 us. There is one look a second, and five where memory is short.

use super::offer::{HostShortage, Look, Offer};
use super::stall::{Stalls, Wake};
use super::stock::Stock;
use crate::capacity::{self, Limit};
use crate::file::Pages;
use crate::numa;
use hanare_protocol::size::Size;
use hanare_protocol::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between looks while there is memory enough.
const LOOK_FAR: Duration = Duration::from_secs(1);

/// The same while memory is short, or twice what is to be kept is not free. A neighbour may take a GiB in it.
const LOOK_NEAR: Duration = Duration::from_millis(200);

/// A thirty-second part of a limit is kept free where no other is asked for.
const PARTS: u64 = 32;

/// The most of that.
const USUAL_LEN_MOST: u64 = 1 << 30;

/// Memory that a lender leaves free, of the machine and of each control group that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepFree {
    /// A thirty-second part of each limit, 1 GiB at most.
    #[default]
    Usual,
    /// A number of bytes; with 0 nothing is watched.
    Bytes(u64),
}

impl KeepFree {
    /// Bytes of a limit that stay free.
    fn of(self, total: u64) -> u64 {
        match self {
            KeepFree::Usual => (total / PARTS).min(USUAL_LEN_MOST),
            KeepFree::Bytes(bytes) => bytes,
        }
    }
}

/// Terms of a watch.
#[derive(Clone, Debug, Default)]
pub struct HostTerms {
    /// Memory that stays free.
    pub keep_free: KeepFree,
    /// A file with the bytes that the lender and free memory have together, in place of what the system says. Tests write it.
    pub told: Option<PathBuf>,
}

/// The watch; it ends when it is dropped.
#[derive(Debug)]
pub struct HostWatch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl HostWatch {
    pub(super) fn begin(stock: &Arc<Stock>, terms: HostTerms) -> Result<Option<HostWatch>> {
        // A DAX device or file takes none of the host's memory.
        if terms.keep_free == KeepFree::Bytes(0) || stock.bytes == 0 || stock.supply.dax().is_some() {
            return Ok(None);
        }
        check(stock, &terms)?;
        let system = |reason: String| Error::System { what: "watching the host's memory".to_owned(), reason };
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| system(errno.to_string()))?);
        let (for_thread, stock) = (stop.clone(), stock.clone());
        let thread = std::thread::Builder::new().name("host-watch".to_owned()).spawn(move || {
            crate::vital::is_vital();
            watch(&stock, &terms, &for_thread);
        });
        Ok(Some(HostWatch { stop, thread: Some(thread.map_err(|error| system(error.to_string()))?) }))
    }
}

impl Drop for HostWatch {
    fn drop(&mut self) {
        let told = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take().filter(|_| told.is_ok()) {
            let _ = thread.join();
        }
    }
}

/// Refuses a bound that operators set and that does not hold even before anything is lent.
fn check(stock: &Stock, terms: &HostTerms) -> Result<()> {
    let KeepFree::Bytes(keeps) = terms.keep_free else { return Ok(()) };
    let Some(tight) = tightest(stock, terms, stock.populated()) else { return Ok(()) };
    let could_lend = i128::from(stock.populated()) + tight.room();
    if could_lend >= i128::from(stock.bytes) {
        return Ok(());
    }
    let reason = format!("{} has {} free, and {} are to be lent", tight.limit, Size(tight.left), Size(stock.bytes));
    Err(Error::BadSetting { key: "keep-free".to_owned(), value: Size(keeps).to_string(), reason })
}

/// Looks until told to stop.
fn watch(stock: &Stock, terms: &HostTerms, stop: &OwnedFd) {
    let (mut offer, begun) = (Offer::new(stock.bytes), Instant::now());
    // A watch that is told needs no account of the system.
    let mut stalls = if terms.told.is_some() { Stalls::default() } else { Stalls::new(&capacity::limits()) };
    let mut is_stalled = false;
    loop {
        let pause = look(stock, terms, &mut offer, (begun.elapsed().as_millis() as u64, is_stalled));
        is_stalled = match stalls.wait(stop.as_fd(), pause) {
            Wake::Stop => return,
            Wake::Stall => true,
            Wake::Time => false,
        };
    }
}

/// Looks once, and returns the time to the next look.
fn look(stock: &Stock, terms: &HostTerms, offer: &mut Offer, (now_ms, is_stalled): (u64, bool)) -> Duration {
    // Reserved huge pages are nobody else's: the host gains nothing by them.
    if stock.pages() == Pages::Huge {
        return LOOK_FAR;
    }
    let (populated, used) = (stock.populated(), stock.lock().used);
    let tight = tightest(stock, terms, populated);
    let (room, keeps) = (tight.as_ref().map(HostShortage::room), tight.as_ref().map_or(0, |tight| tight.keeps));
    let terms_of_now = offer.on_look(&Look { now_ms, populated, used, room, keeps, is_stalled });
    let is_near = terms.told.is_some() || !terms_of_now.has_spare || room.is_some_and(|room| room < keeps.into());
    stock.set_terms(terms_of_now, tight.filter(|_| terms_of_now.bytes < stock.bytes));
    if is_near { LOOK_NEAR } else { LOOK_FAR }
}

/// The limit that leaves least. `None` where the system does not say.
fn tightest(stock: &Stock, terms: &HostTerms, populated: u64) -> Option<HostShortage> {
    if let Some(path) = &terms.told {
        return told(path, terms.keep_free, populated);
    }
    let shortage = |limit: Limit| {
        let keeps = terms.keep_free.of(limit.total);
        let name = limit.folder.map_or("this machine".to_owned(), |folder| format!("control group {}", folder.display()));
        HostShortage { limit: name, left: limit.left, keeps }
    };
    // Bound memory that runs out ends the process, whatever the rest of the machine has.
    let of_numa = stock.supply.numa().map(|set| {
        let topology = numa::topology();
        HostShortage {
            limit: format!("NUMA node {set}"),
            left: topology.free(set),
            keeps: terms.keep_free.of(topology.total(set)),
        }
    });
    capacity::limits().into_iter().map(shortage).chain(of_numa).min_by_key(HostShortage::room)
}

fn told(path: &Path, keep_free: KeepFree, populated: u64) -> Option<HostShortage> {
    let total: u64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    let left = total.saturating_sub(populated);
    // Bytes that are populated and not there are missing besides.
    let keeps = keep_free.of(total).saturating_add(populated.saturating_sub(total));
    Some(HostShortage { limit: path.display().to_string(), left, keeps })
}

#[cfg(test)]
mod tests {
    use super::super::supply::Supply;
    use super::*;
    use hanare_protocol::limits::PAGE_LEN;

    #[test]
    fn a_part_of_each_limit_stays_free() {
        assert_eq!(KeepFree::Usual.of(64 << 30), 1 << 30);
        assert_eq!(KeepFree::Usual.of(1 << 30), 32 << 20);
        assert_eq!(KeepFree::Bytes(5).of(1 << 30), 5);
    }

    #[test]
    fn the_limit_that_leaves_least_is_named() {
        let stock = |supply: Supply| Stock::new((0, 1 << 20), supply, Pages::Small, 0);
        let tight = tightest(&stock(Supply::Memory(None)), &HostTerms::default(), 0).unwrap();
        assert!(tight.to_string().contains(" free, and is to keep "), "{tight}");
        // Bound to a NUMA node that is not there: it has nothing.
        let bound = stock(Supply::Memory(Some([1023].into_iter().collect())));
        let of_numa = tightest(&bound, &HostTerms::default(), 0).unwrap();
        assert_eq!((of_numa.limit.as_str(), of_numa.left, of_numa.keeps), ("NUMA node 1023", 0, 0));
        let all = capacity::limits();
        assert!(all.iter().any(|limit| limit.folder.is_none() && limit.left > PAGE_LEN && limit.total >= limit.left));
    }
}
