use super::*;
use crate::window::Window;
use hanare_protocol::id::Rights;
use std::time::{Duration, Instant};

const SLAB: u64 = 64 << 10;

fn lender(bytes: u64) -> Lender {
    Lender::new(&LenderOptions { bytes, slab_len: Some(SLAB), huge: Huge::Auto, ahead: u64::MAX, promises: None }).unwrap()
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
    let file = super::slab::SlabFile::new(len, crate::file::Pages::Small, &std::sync::Arc::default()).unwrap();
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
    assert!(matches!(lender.make(1), Err(Error::PoolFull { asked: 1, free: 0 })));
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
    let refused =
        Lender::new(&LenderOptions { bytes: 1 << 50, slab_len: None, huge: Huge::Auto, ahead: u64::MAX, promises: None })
            .unwrap_err();
    assert!(matches!(&refused, Error::BadSetting { key, .. } if key == "memory"), "{refused}");
    assert!(check_bytes(100 << 20, Some(99 << 20)).is_err());
    assert!(check_bytes(100 << 20, Some(100 << 20)).is_ok());
    assert!(check_bytes(100, None).is_err());
    assert!(
        Lender::new(&LenderOptions { bytes: 1 << 20, slab_len: Some(5000), huge: Huge::Never, ahead: u64::MAX, promises: None })
            .is_err()
    );
}

#[test]
fn slabs_are_large_and_about_a_thousand() {
    assert_eq!(usual_slab_len(100 << 20), SLAB_LEN_MIN);
    assert_eq!(usual_slab_len(64 << 30), 64 << 20);
    assert_eq!(usual_slab_len(1 << 40), 1 << 30);
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
