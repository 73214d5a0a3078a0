//! What a fault of a registered mapping costs, beside the kernel's own: `cargo run --release -p hanare-memory --example faults`.
//!
//! Safety invariants of this program: mappings are touched by volatile loads and stores only, and outlive them.

use hanare_memory::Mapping;
use hanare_memory::fault::{Resolve, Resolved, admit_thread, watch};
use hanare_memory::frames::{Frames, Run};
use hanare_memory::uffd::{Features, Span, Uffd};
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::wire::control::FilePart;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

const PAGES: u64 = 2048;

struct Filler {
    frames: Frames,
    uffd: Uffd,
    span: Span,
    is_filled: AtomicBool,
}

// SAFETY: system calls from the stack, and an atomic.
unsafe impl Resolve for Filler {
    fn resolve(&self, page: u64, access: Access) -> Resolved {
        if !self.is_filled.load(Relaxed) && self.frames.fill(Run::one(page), &[1; PAGE_LEN as usize]).is_err() {
            return Resolved::Lost;
        }
        self.uffd.install(self.span.pages(page, 1), access).map_or(Resolved::Lost, |()| Resolved::Again)
    }
}

fn map(frames: &Frames) -> Mapping {
    let len = PAGES * PAGE_LEN;
    let mut mapping = Mapping::reserve(len).expect("addresses");
    mapping.map_file(0, frames.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write).expect("a mapping");
    mapping
}

fn ns_a_page(mut body: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..PAGES).for_each(&mut body);
    start.elapsed().as_nanos() as f64 / PAGES as f64
}

fn main() {
    let features = Features::probe().and_then(|features| features.check().map(|()| features));
    let features = match features {
        Ok(features) => features,
        Err(error) => return println!("not measured: {error}"),
    };
    admit_thread();
    let mut rows: Vec<(&str, Vec<f64>)> = Vec::new();
    for _ in 0..7 {
        let mut row = 0;
        let mut note = |name, ns| {
            if row == rows.len() {
                rows.push((name, Vec::new()));
            }
            rows[row].1.push(ns);
            row += 1;
        };
        let frames = Frames::new("frames", PAGES).expect("a file");
        let plain = map(&frames);
        let at = |mapping: &Mapping, page: u64| mapping.ptr().wrapping_add((page * PAGE_LEN) as usize);
        // SAFETY: the mapping outlives it.
        note(
            "the kernel's own: first store to a page of a file",
            ns_a_page(|page| unsafe { at(&plain, page).write_volatile(1) }),
        );
        frames.punch(Run { first: 0, count: PAGES }).expect("punched");

        let mapping = map(&frames);
        let (uffd, span) = (Uffd::open(features).expect("a userfaultfd"), Span::of(&mapping));
        // SAFETY: no reference to the mapping exists.
        unsafe { uffd.register(span) }.expect("registered");
        let frames = Frames::adopt(frames.as_fd().try_clone_to_owned().expect("a descriptor"), PAGES).expect("frames");
        // SAFETY: nobody touches the mapping after the watch is dropped.
        let watch = unsafe { watch(span, Filler { frames, uffd, span, is_filled: AtomicBool::new(false) }) }.expect("watched");
        // SAFETY: as above.
        let load = |page| _ = unsafe { at(&mapping, page).read_volatile() };
        // SAFETY: as above.
        let store = |page| unsafe { at(&mapping, page).write_volatile(2) };
        note("load of a page that is a hole: filled and mapped", ns_a_page(load));
        note("store to a page mapped for reading", ns_a_page(store));
        note("write-protect, a page a call", ns_a_page(|page| watch.uffd.protect(span.pages(page, 1)).expect("protected")));
        note(
            "write-protect, 32 pages a call",
            ns_a_page(|page| {
                if page % 32 == 0 {
                    watch.uffd.protect(span.pages(page, 32)).expect("protected");
                }
            }),
        );
        note(
            "punch, 32 pages a call",
            ns_a_page(|page| {
                if page % 32 == 0 {
                    watch.frames.punch(Run { first: page, count: 32 }).expect("punched");
                }
            }),
        );
        let bytes = vec![3; 32 * PAGE_LEN as usize];
        note(
            "fill, 32 pages a call",
            ns_a_page(|page| {
                if page % 32 == 0 {
                    watch.frames.fill(Run { first: page, count: 32 }, &bytes).expect("filled");
                }
            }),
        );
        watch.is_filled.store(true, Relaxed);
        note("load of a page that is here: mapped", ns_a_page(load));
    }
    let median = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let own = median(&rows[0].1);
    println!("userfaultfd here: {features:?}");
    for (name, times) in &rows {
        println!("{name:<55} {:>7.0} ns a page   {:>5.2} of the kernel's own", median(times), median(times) / own);
    }
}
