//! Files that are written, cut, changed and read again.

use super::*;
use crate::extent::NodeExtent;
use crate::extents::Readiness;
use hanare_memory::file::Huge;
use hanare_memory::{Lender, LenderOptions};
use hanare_protocol::id::Slot;
use std::sync::Arc;

const LIFE: Incarnation = Incarnation(7);

fn extents() -> Extents {
    let options = LenderOptions { bytes: 64 << 20, slab_len: None, huge: Huge::Never, ahead: 0, ..LenderOptions::default() };
    Extents::new(Arc::new(Lender::new(&options).unwrap()))
}

fn keeper(folder: &Path) -> Keeper {
    let keeper = Keeper::open(folder, LIFE, "n").unwrap();
    keeper.on_joined();
    keeper
}

fn bytes_of(held: &NodeExtent) -> Vec<u8> {
    let mut bytes = vec![0; held.len() as usize];
    held.reach().window().read_into(&mut bytes).unwrap();
    bytes
}

/// Three extents: small, none but zeros, and longer than a block; the first slot is empty.
fn filled() -> Extents {
    let extents = extents();
    for (gid, len) in [(1, 4096), (2, 100), (3, 8 << 20), (4, 3 << 20)] {
        extents.make(Gid(gid), &[len], false).unwrap();
    }
    extents.free(&[Slot(0)]);
    for (described, held) in extents.describe() {
        if described.gid != Gid(3) {
            let bytes: Vec<u8> = (0..described.len).map(|at| (at / 7 + described.gid.0) as u8).collect();
            held.reach().window().write_from(&bytes).unwrap();
        }
    }
    extents
}

#[test]
fn what_was_written_is_read_into_the_same_slots_and_zeros_take_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let before = filled();
    assert_eq!(keeper(folder.path()).write(&before).unwrap(), Some(100 + (11 << 20)));
    let len = std::fs::metadata(folder.path().join("node.kept")).unwrap().len();
    assert!(len < (3 << 20) + 4096, "{len}");
    let after = extents();
    let restored = keeper(folder.path()).restore(&after).unwrap().unwrap();
    assert_eq!((restored.life, restored.held.len()), (LIFE, 3));
    for ((old, was), (new, is)) in before.describe().iter().zip(after.describe()) {
        assert_eq!(*old, new);
        assert!(bytes_of(was) == bytes_of(&is), "{}", new.gid);
    }
    assert_eq!(after.make(Gid(9), &[64], false).unwrap()[0].slot, Slot(0), "the empty slot is given out again");
}

#[test]
fn an_extent_whose_newest_pages_are_elsewhere_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let before = filled();
    before.describe()[1].1.set_lacks_pages(true);
    keeper(folder.path()).write(&before).unwrap();
    let after = extents();
    keeper(folder.path()).restore(&after).unwrap();
    let slots: Vec<Slot> = after.describe().iter().map(|(described, _)| described.slot).collect();
    let all: Vec<Slot> = before.describe().iter().map(|(described, _)| described.slot).collect();
    assert_eq!(slots, [all[0], all[2]]);
}

/// Slots of the extents that a file names.
fn slots_in(folder: &Path) -> Vec<Slot> {
    let after = extents();
    keeper(folder).restore(&after).unwrap();
    after.describe().iter().map(|(described, _)| described.slot).collect()
}

#[test]
fn what_may_have_copies_is_written_by_its_only_holder() {
    let folder = tempfile::tempdir().unwrap();
    let before = extents();
    let made = before.make(Gid(1), &[8 << 20], false).unwrap()[0];
    let copy = before.make(Gid(2), &[8 << 20], true).unwrap()[0];
    assert!(matches!(before.make_ready(Gid(1), &[made.slot], true), Ok(Readiness::Changed(_))));
    keeper(folder.path()).write(&before).unwrap();
    assert_eq!(slots_in(folder.path()), [made.slot], "the copy is another home's");
    assert!(!before.set_alone(made.gid, made.slot, false) && before.set_alone(copy.gid, copy.slot, true));
    assert!(!before.set_alone(copy.gid, copy.slot, true), "it was before");
    keeper(folder.path()).write(&before).unwrap();
    assert_eq!(slots_in(folder.path()), [copy.slot]);
}

#[test]
fn a_region_that_comes_back_gets_no_slot_that_a_file_has_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (before, keeper) = (extents(), keeper(folder.path()));
    let make = |gid: u64| before.make(Gid(gid), &[4096], false).unwrap()[0].slot;
    let first = make(1);
    keeper.write(&before).unwrap();
    before.free(&[first]);
    let (again, other) = (make(1), make(2));
    assert!(again != first && other == first, "another region may have it");
    before.free(&[again, other]);
    keeper.write(&before).unwrap();
    assert_eq!([make(1), make(3)].into_iter().min(), Some(first), "the next file names it no more");
}

#[test]
fn an_extent_that_is_written_down_is_made_ready_meanwhile() {
    const LEN: u64 = 32 << 20;
    let folder = tempfile::tempdir().unwrap();
    let (before, keeper) = (extents(), keeper(folder.path()));
    let made = before.make(Gid(1), &[LEN], false).unwrap()[0];
    let held = before.describe()[0].1.clone();
    held.reach().window().write_from(&vec![7; LEN as usize]).unwrap();
    drop(held);
    let part = folder.path().join("node.kept.part");
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| keeper.write(&before).unwrap());
        while !part.exists() {
            std::thread::yield_now();
        }
        let until = Instant::now() + Duration::from_secs(60);
        while !matches!(before.make_ready(Gid(1), &[made.slot], true), Ok(Readiness::Changed(_))) {
            assert!(Instant::now() < until, "the write keeps it from that");
            std::thread::yield_now();
        }
        assert_eq!(writes.join().unwrap(), Some(LEN));
    });
    let after = extents();
    keeper.restore(&after).unwrap();
    assert!(bytes_of(&after.describe()[0].1).iter().all(|byte| *byte == 7));
}

#[test]
fn a_life_that_the_pool_has_not_taken_in_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    keeper(folder.path()).write(&filled()).unwrap();
    let next = Keeper::open(folder.path(), Incarnation(8), "n").unwrap();
    let after = extents();
    assert!(next.restore(&after).unwrap().is_some());
    assert_eq!(next.write(&after).unwrap(), None);
    assert_eq!(next.restore(&extents()).unwrap().unwrap().life, LIFE, "the life before is the one that the pool knows");
    next.on_joined();
    assert!(next.write(&after).unwrap().is_some());
    assert_eq!(next.restore(&extents()).unwrap().unwrap().life, Incarnation(8));
}

#[test]
fn a_file_that_was_cut_or_changed_anywhere_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    keeper(folder.path()).write(&filled()).unwrap();
    let path = folder.path().join("node.kept");
    let whole = std::fs::read(&path).unwrap();
    let step = whole.len() / 23;
    let cut = (0..whole.len()).step_by(step).map(|len| whole[..len].to_vec());
    let changed = (0..whole.len()).step_by(step).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    });
    let longer = [&whole[..], b"x"].concat();
    for (number, bytes) in cut.chain(changed).chain([longer]).enumerate() {
        std::fs::write(&path, bytes).unwrap();
        let error = keeper(folder.path()).restore(&extents()).map(drop).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains(path.to_str().unwrap()), "{number}: {error}");
    }
    std::fs::write(&path, whole).unwrap();
    assert!(keeper(folder.path()).restore(&extents()).unwrap().is_some());
}

#[test]
fn a_write_that_ends_anywhere_leaves_the_file_before_it() {
    let folder = tempfile::tempdir().unwrap();
    keeper(folder.path()).write(&filled()).unwrap();
    let before = std::fs::read(folder.path().join("node.kept")).unwrap();
    std::fs::write(folder.path().join("node.kept.part"), &before[..before.len() / 2]).unwrap();
    assert_eq!(keeper(folder.path()).restore(&extents()).unwrap().unwrap().held.len(), 3);
    let other = extents();
    other.make(Gid(5), &[10], false).unwrap();
    keeper(folder.path()).write(&other).unwrap();
    assert_eq!(keeper(folder.path()).restore(&extents()).unwrap().unwrap().held[0].gid, Gid(5));
}

#[test]
fn what_others_put_into_the_folder_is_neither_written_through_nor_believed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (keeper, theirs) = (keeper(folder.path()), folder.path().join("theirs"));
    std::fs::write(&theirs, "theirs").unwrap();
    let (part, kept) = (folder.path().join("node.kept.part"), folder.path().join("node.kept"));
    symlink(&theirs, &part).unwrap();
    keeper.write(&filled()).unwrap();
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    // A file that others may read, left where ours is to be written.
    std::fs::write(&part, "").unwrap();
    std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o666)).unwrap();
    keeper.write(&filled()).unwrap();
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&kept, Some(65_534), None).unwrap();
        assert!(matches!(keeper.restore(&extents()), Err(Error::BadSetting { .. })), "another user's");
    }
    std::fs::rename(&kept, folder.path().join("moved")).unwrap();
    symlink(folder.path().join("moved"), &kept).unwrap();
    assert!(keeper.restore(&extents()).is_err(), "a link");
}

#[test]
fn a_pipe_in_the_folder_is_refused_at_once() {
    let make = |path: &Path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_bits_truncate(0o666)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    make(&folder.path().join("node.kept"));
    let node = keeper(folder.path());
    let error = node.restore(&extents()).map(drop).unwrap_err().to_string();
    assert!(error.contains("node.kept: it is no regular file"), "{error}");
    make(&folder.path().join("node.kept.part"));
    node.write(&filled()).unwrap();
    drop(node);
    std::fs::remove_file(folder.path().join("lock")).unwrap();
    make(&folder.path().join("lock"));
    let error = Keeper::open(folder.path(), LIFE, "n").map(drop).unwrap_err().to_string();
    assert!(error.contains("lock: it is no regular file"), "{error}");
}

#[test]
fn a_folder_is_of_one_node_and_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let first = keeper(folder.path());
    assert!(matches!(Keeper::open(folder.path(), LIFE, "n"), Err(Error::BadSetting { .. })));
    first.write(&filled()).unwrap();
    drop(first);
    let other = Keeper::open(folder.path(), LIFE, "m").unwrap();
    assert!(matches!(other.restore(&extents()), Err(Error::BadSetting { .. })));
    let small =
        Lender::new(&LenderOptions { bytes: 1 << 20, slab_len: None, huge: Huge::Never, ahead: 0, ..LenderOptions::default() })
            .unwrap();
    drop(other);
    assert!(matches!(keeper(folder.path()).restore(&Extents::new(Arc::new(small))), Err(Error::PoolFull { .. })));
}

#[test]
fn what_queues_have_spilled_is_read_back_in_order() {
    use hanare_protocol::queue::{Overflow, PortId, QueueForm, Unit};
    let form = QueueForm { unit: Unit::Records { len_max: 1 << 20 }, depth: 2, ports: 2, overflow: Overflow::Spill };
    let units: Vec<Vec<u8>> = (0..7_usize).map(|k| vec![k as u8 + 1; [(1 << 20), 3, 0, 700_000][k % 4]]).collect();
    let folder = tempfile::tempdir().unwrap();
    let before = extents();
    let len = form.array_len(1).unwrap();
    before.make(Gid(1), &[len], false).unwrap();
    let held = before.describe()[0].1.clone();
    held.reach().window().slice(0, 64).write_from(&form.encode(1)).unwrap();
    let (writer, reader) = (PortId(5), PortId(6));
    held.with_queues(0, |home| home.open_lane(0, writer, 1001)).unwrap();
    for (seq, unit) in (0..).zip(&units) {
        let front = hanare_protocol::wire::queue::AppendFront { queue: 0, writer, seq };
        let frame =
            [&(unit.len() as u64).to_le_bytes()[..], unit, &vec![0; unit.len().next_multiple_of(8) - unit.len()]].concat();
        held.append(0, 0, &[&front.encode()[..], &frame].concat()).unwrap();
    }
    let spilled = |held: &NodeExtent| {
        let mut all = Vec::new();
        held.each_spilled(&mut |_, (unit, uid)| {
            assert_eq!(uid, 1001);
            all.push(unit.to_vec());
            Ok(())
        })
        .unwrap();
        all
    };
    let were = spilled(&held);
    assert!(!were.is_empty() && units.ends_with(&were), "{} units", were.len());
    keeper(folder.path()).write(&before).unwrap();
    let after = extents();
    keeper(folder.path()).restore(&after).unwrap();
    let held = after.describe()[0].1.clone();
    assert!(spilled(&held) == were);
    assert!(after.spills.len() > 700_000, "they count as their user's: {}", after.spills.len());
    // The units come back when the reader makes room, and the next writer's go behind them.
    held.with_queues(0, |home| home.open_reader(0, 1, reader)).unwrap();
    held.with_queues(0, |home| home.open_lane(0, PortId(7), 1002)).unwrap();
    let tail = {
        let mut line = vec![0; 8];
        held.reach().window().slice((form.queue_at(1, 0) + form.lane_at(0)) as usize, 8).read_into(&mut line).unwrap();
        u64::from_le_bytes(line.try_into().unwrap())
    };
    held.with_queues(0, |home| home.free((0, 0), reader, tail)).unwrap();
    assert!(spilled(&held).len() < were.len());
    let small = LenderOptions { bytes: 5 << 20, slab_len: None, huge: Huge::Never, ahead: 0, ..LenderOptions::default() };
    let small = Extents::new(Arc::new(Lender::new(&small).unwrap()));
    let error = keeper(folder.path()).restore(&small).map(drop).unwrap_err();
    assert!(matches!(error, Error::PoolFull { .. }), "{error}");
}

#[test]
fn a_region_is_written_down_as_of_one_moment_while_commands_change_it() {
    use hanare_protocol::shape::Shape;
    use hanare_protocol::wire::command::{Command, Op};
    const PUT_LEN: u64 = 8 << 20;
    let folder = tempfile::tempdir().unwrap();
    let (before, keeper, stop) = (extents(), keeper(folder.path()), AtomicBool::new(false));
    let made = before.make(Gid(1), &[PUT_LEN], false).unwrap()[0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let command = Command::new(Op::Put, 1, made.slot, made.write, &Shape::contiguous(0, PUT_LEN));
            for value in (1..=250).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                let (opened, shape, _writing) = before.admit(&command, Shape::contiguous(0, PUT_LEN)).unwrap();
                for (offset, len) in (0..PUT_LEN).step_by(1 << 16).map(|at| (at, 1 << 16)) {
                    opened.held().will_write([(offset, len)]);
                    let window = opened.held().reach().window().slice(offset as usize, len as usize);
                    window.write_from(&vec![value; len as usize]).unwrap();
                }
                drop((opened, shape, _writing));
                // Its client hears of it, and puts again.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..5 {
            keeper.write(&before).unwrap();
            let after = extents();
            keeper.restore(&after).unwrap();
            let bytes = bytes_of(&after.describe()[0].1);
            let other = bytes.iter().position(|byte| *byte != bytes[0]);
            assert_eq!(other, None, "bytes of two puts, the first of which is {}", bytes[0]);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn blocks_of_a_heap_that_is_gone_are_not_given_out_again() {
    let folder = tempfile::tempdir().unwrap();
    let before = extents();
    before.make(Gid(1), &[1 << 20], false).unwrap();
    before.describe()[0].1.begin_heap().unwrap();
    keeper(folder.path()).write(&before).unwrap();
    let after = extents();
    keeper(folder.path()).restore(&after).unwrap();
    let (described, held) = &after.describe()[0];
    assert!(described.has_heap);
    assert!(matches!(held.begin_heap(), Err(Error::BadUse { .. })));
    // Its next home would not know that.
    let ready = after.make_ready(Gid(1), &[described.slot], true);
    assert!(matches!(ready, Err(Error::BadUse { reason, .. }) if reason.contains("heap")));
}
