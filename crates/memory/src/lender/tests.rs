use super::supply::Supply;
use super::*;
use crate::window::Window;
use hanare_protocol::id::Rights;
use std::time::{Duration, Instant};

const SLAB: u64 = 64 << 10;

fn lender(bytes: u64) -> Lender {
    Lender::new(&LenderOptions { bytes, slab_len: Some(SLAB), huge: Huge::Auto, ahead: u64::MAX, ..LenderOptions::default() })
        .unwrap()
}

/// Waits for the worker, which has no clock of its own. The condition comes, or the test fails after a long while.
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not come");
        std::thread::yield_now();
    }
}

fn window(extent: &Extent) -> Window {
    // SAFETY: tests do not use windows of extents that they freed.
    unsafe { extent.window() }
}

fn bytes(extent: &Extent) -> Vec<u8> {
    let mut bytes = vec![0xee; extent.len() as usize];
    window(extent).read_into(&mut bytes).unwrap();
    bytes
}

fn fill(extent: &Extent, byte: u8) {
    window(extent).write_from(&vec![byte; extent.len() as usize]).unwrap();
}

#[test]
fn memory_is_populated_in_the_background_up_to_what_is_lent() {
    let lender = lender(10 * SLAB + 4096);
    wait_for("populated slabs", || lender.memory().populated == 10 * SLAB);
    assert_eq!((lender.memory().lent, lender.memory().used), (10 * SLAB + 4096, 0));
}

// FEATURE: EU-F3
#[test]
fn extents_of_every_size_are_zero_contiguous_and_apart() {
    let lender = lender(40 * SLAB);
    let lens = [1, 15, 16, 17, 4096, SLAB - 1, SLAB, SLAB + 1, 3 * SLAB, 3 * SLAB + 5000];
    let extents: Vec<_> = lens.iter().map(|len| lender.make(*len).unwrap()).collect();
    for (k, extent) in extents.iter().enumerate() {
        assert!(bytes(extent).iter().all(|byte| *byte == 0));
        assert_eq!(window(extent).ptr().addr() % 16, 0);
        fill(extent, k as u8 + 1);
    }
    for (k, extent) in extents.iter().enumerate() {
        assert!(bytes(extent).iter().all(|byte| *byte == k as u8 + 1), "extent {k} was written through another");
    }
}

#[test]
fn slabs_are_wiped_before_another_extent_gets_them() {
    let lender = lender(4 * SLAB);
    wait_for("populated slabs", || lender.memory().populated == 4 * SLAB);
    for round in 1..20 {
        let extent = lender.make(4 * SLAB).unwrap();
        assert!(bytes(&extent).iter().all(|byte| *byte == 0), "round {round}");
        fill(&extent, round);
        lender.free(extent);
        assert_eq!(lender.memory().populated, 4 * SLAB, "memory that nobody else had stays populated");
    }
}

#[test]
fn a_wipe_pauses_behind_each_piece_for_who_waits_for_the_processor() {
    let (len, piece_len) = (SLAB, 10_000);
    let file =
        super::slab::SlabFile::new(len, crate::file::Pages::Small, &Supply::Memory(None), &std::sync::Arc::default()).unwrap();
    let slab = super::slab::Slab { mapping: file.map().unwrap(), file: file.into() };
    // SAFETY: the slab lives to the end.
    let window = unsafe { slab.mapping.window() };
    window.write_from(&vec![7; len as usize]).unwrap();
    let mut wiped = Vec::new();
    assert!(slab.wipe(piece_len, || {
        let mut bytes = vec![0; len as usize];
        window.read_into(&mut bytes).unwrap();
        wiped.push(bytes.iter().take_while(|byte| **byte == 0).count());
    }));
    assert_eq!(wiped, [10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 65_536]);
}

#[test]
fn what_a_client_may_still_have_mapped_is_never_another_extent_s() {
    let lender = lender(2 * SLAB);
    wait_for("populated slabs", || lender.memory().populated == 2 * SLAB);
    let extent = lender.make(2 * SLAB).unwrap();
    let files = extent.files(Rights::Write).unwrap();
    lender.free(extent);
    let next = lender.make(2 * SLAB).unwrap();
    for (fd, part) in &files {
        rustix::io::pwrite(fd, &vec![1; part.len as usize], 0).unwrap();
    }
    assert!(bytes(&next).iter().all(|byte| *byte == 0));
}

#[test]
fn files_hold_the_extent_s_bytes_in_order() {
    let lender = lender(8 * SLAB);
    let extent = lender.make(2 * SLAB + 100).unwrap();
    let pattern: Vec<u8> = (0..extent.len()).map(|k| (k / 1000) as u8).collect();
    window(&extent).write_from(&pattern).unwrap();
    for rights in [Rights::Read, Rights::Write] {
        let mut read = Vec::new();
        for (fd, part) in extent.files(rights).unwrap() {
            assert_eq!(rustix::io::pwrite(&fd, &[0], 0).is_ok(), rights == Rights::Write);
            rustix::io::pwrite(&fd, &pattern[read.len()..][..1], 0).ok();
            let mut bytes = vec![0; part.len as usize];
            rustix::io::pread(&fd, &mut bytes, part.offset).unwrap();
            assert!(part.map_len >= part.len && part.map_len % 4096 == 0);
            crate::file::check_sealed(&fd, part.map_len).unwrap();
            read.extend(bytes);
        }
        assert_eq!(read, pattern);
    }
}

#[test]
fn small_extents_share_files_until_one_gets_its_own() {
    let lender = lender(64 * SLAB);
    let mut extents: Vec<_> = (0..200).map(|_| lender.make(1000).unwrap()).collect();
    assert!(lender.memory().used <= 8 * SLAB, "200 extents of 1000 bytes use {} bytes", lender.memory().used);
    for (k, extent) in extents.iter().enumerate() {
        fill(extent, k as u8);
        assert!(extent.is_shared_file());
        assert!(matches!(extent.files(Rights::Read), Err(Error::BadUse { .. })));
    }
    lender.own_file(&mut extents[77]).unwrap();
    assert!(!extents[77].is_shared_file());
    assert_eq!(bytes(&extents[77]), [77; 1000]);
    assert_eq!(extents[77].files(Rights::Write).unwrap().len(), 1);
    assert!(extents.iter().enumerate().all(|(k, extent)| bytes(extent) == vec![k as u8; 1000]));

    let reused = lender.make(1000).unwrap();
    assert_eq!(bytes(&reused), [0; 1000], "the old piece was wiped");
    drop((extents, reused));
    assert_eq!(lender.memory().used, 0, "empty shared files are given back");
}

#[test]
fn more_than_is_free_is_refused_and_changes_nothing() {
    let lender = lender(4 * SLAB);
    assert!(matches!(lender.make(4 * SLAB + 1), Err(Error::PoolFull { free, .. }) if free == 4 * SLAB));
    assert!(matches!(lender.make(u64::MAX), Err(Error::PoolFull { .. })));
    let all = lender.make(4 * SLAB).unwrap();
    assert!(matches!(lender.make(1), Err(Error::PoolFull { asked: 1, free: 0, .. })));
    lender.free(all);
    let part = lender.make(3 * SLAB + 4096).unwrap();
    assert_eq!(lender.memory().used, 3 * SLAB + 4096);
    assert!(lender.make(SLAB).is_err());
    drop(part);
    lender.make(4 * SLAB).unwrap();
}

#[test]
fn exact_files_take_the_place_of_free_slabs_and_slabs_grow_back() {
    let lender = lender(4 * SLAB);
    wait_for("populated slabs", || lender.memory().populated == 4 * SLAB);
    let large = SLAB + SLAB / 2;
    let extents = [lender.make(large).unwrap(), lender.make(large).unwrap()];
    extents.iter().for_each(|extent| fill(extent, 1));
    assert_eq!(lender.memory().used, 3 * SLAB);
    drop(extents);
    wait_for("slabs to grow back", || lender.memory().populated == 4 * SLAB);
}

#[test]
fn makers_on_many_threads_never_share_a_byte_nor_exceed_what_is_lent() {
    let lender = lender(16 * SLAB);
    std::thread::scope(|scope| {
        for thread in 1..=4u8 {
            let lender = &lender;
            scope.spawn(move || {
                for round in 0..60u64 {
                    let len = [100, SLAB - 9, SLAB, 2 * SLAB + 777, 3 * SLAB][(round as usize + thread as usize) % 5];
                    let extent = lender.make(len).unwrap();
                    assert!(bytes(&extent).iter().all(|byte| *byte == 0));
                    fill(&extent, thread);
                    assert!(bytes(&extent).iter().all(|byte| *byte == thread));
                    assert!(lender.memory().used <= 16 * SLAB);
                }
            });
        }
    });
    assert_eq!(lender.memory().used, 0);
}

#[test]
fn lending_what_the_machine_has_not_is_refused() {
    let refused = Lender::new(&LenderOptions {
        bytes: 1 << 50,
        slab_len: None,
        huge: Huge::Auto,
        ahead: u64::MAX,
        ..LenderOptions::default()
    })
    .unwrap_err();
    assert!(matches!(&refused, Error::BadSetting { key, .. } if key == "memory"), "{refused}");
    assert!(supply::check_bytes(100 << 20, Some(99 << 20)).is_err());
    assert!(supply::check_bytes(100 << 20, Some(100 << 20)).is_ok());
    assert!(supply::check_bytes(100, None).is_err());
    assert!(
        Lender::new(&LenderOptions {
            bytes: 1 << 20,
            slab_len: Some(5000),
            huge: Huge::Never,
            ahead: u64::MAX,
            ..LenderOptions::default()
        })
        .is_err()
    );
}

#[test]
fn slabs_are_large_and_about_a_thousand() {
    assert_eq!(usual_slab_len(100 << 20, SLAB_COUNT), SLAB_LEN_MIN);
    assert_eq!(usual_slab_len(64 << 30, SLAB_COUNT), 64 << 20);
    assert_eq!(usual_slab_len(1 << 40, SLAB_COUNT), 1 << 30);
    assert_eq!(usual_slab_len(1 << 40, 8 * SLAB_COUNT), 128 << 20);
}

fn terms(bytes: u64, has_spare: bool) -> super::offer::Terms {
    super::offer::Terms { bytes, has_spare }
}

#[test]
fn free_slabs_go_back_and_extents_stay() {
    let lender = lender(8 * SLAB);
    wait_for("populated slabs", || lender.memory().populated == 8 * SLAB);
    let extents = [lender.make(2 * SLAB).unwrap(), lender.make(SLAB).unwrap()];
    extents.iter().for_each(|extent| fill(extent, 7));
    lender.stock.set_terms(terms(5 * SLAB, true), None);
    wait_for("slabs to go back", || lender.memory().populated == 5 * SLAB);
    assert_eq!((lender.memory().lent, lender.memory().lent_max), (5 * SLAB, 8 * SLAB));
    let full = lender.make(3 * SLAB).unwrap_err();
    assert_eq!(full, Error::PoolFull { asked: 3 * SLAB, free: 2 * SLAB, withheld: 3 * SLAB });
    lender.stock.set_terms(terms(5 * SLAB, false), None);
    wait_for("the others to go back, too", || lender.memory().populated == 3 * SLAB);
    wait_for("them to be counted", || lender.memory().given_back == 5 * SLAB);
    assert!(extents.iter().all(|extent| bytes(extent).iter().all(|byte| *byte == 7)));
    // Less than is used is offered: what is freed goes back, and nothing is made.
    lender.stock.set_terms(terms(SLAB, false), None);
    assert_eq!(lender.make(1).unwrap_err(), Error::PoolFull { asked: 1, free: 0, withheld: 7 * SLAB });
    let [two, one] = extents;
    lender.free(two);
    wait_for("freed slabs to go back", || lender.memory().populated == SLAB);
    assert!(bytes(&one).iter().all(|byte| *byte == 7));
    lender.stock.set_terms(terms(8 * SLAB, true), None);
    wait_for("slabs to grow again", || lender.memory().populated == 8 * SLAB);
    assert_eq!(bytes(&lender.make(7 * SLAB).unwrap()), vec![0; 7 * SLAB as usize]);
}

#[test]
fn a_slab_gives_its_memory_back_to_the_machine() {
    let total = std::sync::Arc::default();
    let file =
        std::sync::Arc::new(super::slab::SlabFile::new(SLAB, crate::file::Pages::Small, &Supply::Memory(None), &total).unwrap());
    let slab = super::slab::Slab { mapping: file.map().unwrap(), file: file.clone() };
    // SAFETY: the window is not used behind the next line.
    unsafe { slab.mapping.window() }.write_from(&vec![7; SLAB as usize]).unwrap();
    file.add_populated(SLAB);
    let blocks = || rustix::fs::fstat(file.fd().unwrap()).unwrap().st_blocks as u64 * 512;
    assert_eq!(blocks(), SLAB);
    let mut left = Vec::new();
    slab.give_back(SLAB / 4, |_| left.push(blocks()));
    assert_eq!(left, [SLAB / 4 * 3, SLAB / 2, SLAB / 4, 0]);
    assert_eq!((file.populated(), total.load(std::sync::atomic::Ordering::Relaxed)), (0, 0));
}

#[test]
fn makers_beside_an_offer_that_comes_and_goes_get_whole_extents() {
    let lender = lender(16 * SLAB);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0u64.. {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                lender.stock.set_terms(terms(round % 17 * SLAB, round % 3 == 0), None);
                std::thread::yield_now();
            }
        });
        let makers: Vec<_> = (1..=2u8)
            .map(|thread| {
                let lender = &lender;
                scope.spawn(move || {
                    let (mut made, mut round) = (0, 0);
                    while made < 100 {
                        round += 1;
                        let Ok(extent) = lender.make([SLAB, 2 * SLAB + 777, 5 * SLAB][round % 3]) else {
                            std::thread::yield_now();
                            continue;
                        };
                        made += 1;
                        assert!(bytes(&extent).iter().all(|byte| *byte == 0));
                        fill(&extent, thread);
                        assert!(bytes(&extent).iter().all(|byte| *byte == thread));
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = makers.into_iter().map(|maker| maker.join()).collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    lender.stock.set_terms(terms(16 * SLAB, true), None);
    wait_for("all to be there again", || lender.memory().populated == 16 * SLAB);
    assert_eq!((lender.memory().used, lender.memory().lent), (0, 16 * SLAB));
}

#[test]
fn a_host_that_runs_short_gets_free_memory_back() {
    let folder = std::env::temp_dir().join(format!("hanare-host-{}", std::process::id()));
    let lender = lender(64 << 20);
    wait_for("populated slabs", || lender.memory().populated == 64 << 20);
    let extent = lender.make(8 << 20).unwrap();
    let tell = |bytes: u64| std::fs::write(&folder, bytes.to_string()).unwrap();
    tell(96 << 20);
    let host = HostTerms { keep_free: KeepFree::Bytes(16 << 20), told: Some(folder.clone()) };
    let too_much = HostTerms { keep_free: KeepFree::Bytes(40 << 20), ..host.clone() };
    assert!(matches!(lender.watch_host(too_much), Err(Error::BadSetting { key, .. }) if key == "keep-free"));
    assert!(lender.watch_host(HostTerms { keep_free: KeepFree::Bytes(0), told: None }).unwrap().is_none());
    let watch = lender.watch_host(host).unwrap().unwrap();
    assert_eq!((lender.memory().lent, lender.shortage()), (64 << 20, None));
    tell(40 << 20);
    wait_for("free slabs to go back", || lender.memory().populated == 8 << 20);
    wait_for("them to be counted", || lender.memory().given_back == 56 << 20);
    assert_eq!(lender.memory().lent, 24 << 20);
    // The next look finds no bytes missing.
    let is_told = |told: HostShortage| (told.keeps, told.limit) == (16 << 20, folder.display().to_string());
    wait_for("the limit to be told", || lender.shortage().is_some_and(is_told));
    tell(20 << 20);
    wait_for("less to be lent than is used", || lender.memory().lent == 4 << 20);
    drop((extent, watch));
    std::fs::remove_file(&folder).unwrap();
}

#[test]
fn an_extent_may_outlive_its_lender() {
    let extent = {
        let lender = lender(4 * SLAB);
        lender.make(3 * SLAB).unwrap()
    };
    fill(&extent, 9);
    assert!(bytes(&extent).iter().all(|byte| *byte == 9));
}

/// A file to lend, gone with the test.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str, len: u64) -> Scratch {
        let path = std::env::temp_dir().join(format!("hanare-lend-{name}-{}", std::process::id()));
        std::fs::write(&path, vec![0xaa; len as usize]).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Scratch(path)
    }

    fn lender(&self, bytes: u64) -> Lender {
        let source = Source::Dax(self.0.clone());
        Lender::new(&LenderOptions { source, bytes, slab_len: Some(SLAB), ..LenderOptions::default() }).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn extents_of_a_file_are_zero_apart_wiped_and_never_handed_out() {
    let scratch = Scratch::new("extents", 64 * SLAB);
    let lender = scratch.lender(64 * SLAB);
    assert!(!lender.gives_files() && lender.watch_host(HostTerms::default()).unwrap().is_none());
    assert_eq!(lender.backing().2, None);
    for round in 1..8u8 {
        let lens = [1, 1000, SLAB - 1, SLAB, SLAB + 1, 3 * SLAB + 5000, 9 * SLAB];
        let extents: Vec<_> = lens.iter().map(|len| lender.make(*len).unwrap()).collect();
        for (k, extent) in extents.iter().enumerate() {
            assert!(bytes(extent).iter().all(|byte| *byte == 0), "round {round}, extent {k}");
            fill(extent, k as u8 + 1);
        }
        for (k, extent) in extents.iter().enumerate() {
            assert!(bytes(extent).iter().all(|byte| *byte == k as u8 + 1), "extent {k} was written through another");
            assert!(matches!(extent.files(Rights::Read), Err(Error::BadUse { .. })));
        }
        // The extents are freed in another order each time.
        let mut extents = extents;
        extents.rotate_left(round as usize % lens.len());
    }
    wait_for("the last bytes to be wiped", || std::fs::read(&scratch.0).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(lender.memory().used, 0);
}

#[test]
fn a_file_is_lent_to_its_last_byte_whatever_was_freed_before() {
    let scratch = Scratch::new("pieces", 16 * SLAB);
    let lender = scratch.lender(16 * SLAB);
    // Every second piece is freed: no free range has the length of a slab and a half.
    let mut extents: Vec<_> = (0..16).map(|_| lender.make(SLAB).unwrap()).collect();
    assert!(matches!(lender.make(1), Err(Error::PoolFull { free: 0, .. })));
    let mut keep = false;
    extents.retain(|_| {
        keep = !keep;
        keep
    });
    let rest = lender.make(7 * SLAB + SLAB / 2).unwrap();
    fill(&rest, 3);
    assert!(bytes(&rest).iter().all(|byte| *byte == 3));
    assert_eq!(lender.memory().used, 16 * SLAB, "the last half of a grain is counted");
}

#[test]
fn memory_of_named_numa_nodes_is_lent_and_found_there() {
    let lends = |wish: &str| {
        let source = Source::Memory(Some(wish.parse().unwrap()));
        Lender::new(&LenderOptions {
            source,
            bytes: 16 * SLAB,
            slab_len: Some(SLAB),
            huge: Huge::Never,
            ..LenderOptions::default()
        })
    };
    let Ok(lender) = lends("all") else { return hanare_testkit::unable("this kernel tells of no NUMA nodes") };
    let set = lender.backing().2.unwrap().clone();
    let mut large = lender.make(5 * SLAB).unwrap();
    // The worker populates it meanwhile.
    let found = large.residence(1 << 20);
    assert_eq!(found.numa.values().sum::<u64>() + found.absent, 5 * SLAB, "{found:?}");
    fill(&large, 1);
    let found = large.residence(1 << 20);
    assert_eq!((found.numa.values().sum::<u64>(), found.absent, found.is_estimate), (5 * SLAB, 0, false), "{found:?}");
    assert!(found.numa.keys().all(|number| set.numbers().any(|named| named == *number)), "{found:?}");
    let small = lender.make(100).unwrap();
    fill(&small, 1);
    assert_eq!(small.residence(10).numa.values().sum::<u64>(), 100);
    lender.own_file(&mut large).unwrap();
    let refused = lends("1023").unwrap_err();
    assert!(matches!(&refused, Error::BadSetting { key, .. } if key == "numa"), "{refused}");
}

#[test]
fn a_file_that_somebody_makes_shorter_loses_bytes_and_not_the_process() {
    let scratch = Scratch::new("shorter", 8 * SLAB);
    let lender = scratch.lender(8 * SLAB);
    let extent = lender.make(4 * SLAB).unwrap();
    fill(&extent, 5);
    std::fs::OpenOptions::new().write(true).open(&scratch.0).unwrap().set_len(0).unwrap();
    assert!(window(&extent).slice(0, 8).write_from(&[1; 8]).is_err());
    assert!(window(&extent).slice(0, 8).read_into(&mut [0; 8]).is_err(), "and never passes for zeros");
    drop(extent);
}
