use super::*;
use crate::files::record::{Attributes, Fresh};
use crate::files::space::BLOCK_LEN;
use proptest::prelude::*;

fn time() -> Stamp {
    Stamp::default()
}

fn tree() -> Tree {
    let mut tree = Tree::new(0, 0, 0o755, time());
    tree.apply_frame(&[Record::Start { session: 1 }, Record::Number { session: 1 }, segment(0)]);
    tree
}

fn segment(segment: u32) -> Record {
    Record::Segment { session: 1, segment, key: "node=0".into(), blocks: 64 }
}

fn make(name: &[u8], parent: Ino, what: Fresh) -> Record {
    Record::Make { parent, name: name.to_vec(), what, mode: 0o644, uid: 1, gid: 1, time: time() }
}

/// A step of a random run.
fn step() -> impl Strategy<Value = Record> {
    let ino = 0u64..9;
    let name = prop::sample::select(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
    let run = (0u32..40, 1u32..9).prop_map(|(block, count)| Run { segment: 0, block, count });
    let what = prop::sample::select(vec![Fresh::File, Fresh::Folder, Fresh::Link { target: b"x".to_vec() }]);
    prop_oneof![
        (ino.clone(), name.clone(), what).prop_map(|(parent, name, what)| make(&name, parent, what)),
        (ino.clone(), ino.clone(), name.clone()).prop_map(|(ino, parent, name)| Record::Link { ino, parent, name, time: time() }),
        (ino.clone(), name.clone()).prop_map(|(parent, name)| Record::Unlink { parent, name, time: time() }),
        (ino.clone(), name.clone(), ino.clone(), name, any::<bool>()).prop_map(
            |(parent, name, new_parent, new_name, exchange)| Record::Rename {
                parent,
                name,
                new_parent,
                new_name,
                exchange,
                time: time()
            }
        ),
        (ino.clone(), 0u64..20).prop_map(|(ino, blocks)| {
            let set = Attributes { size: Some(blocks * BLOCK_LEN / 2), ..Attributes::default() };
            Record::Set { ino, set, time: time() }
        }),
        run.clone().prop_map(|run| Record::Reserve { session: 1, runs: vec![run] }),
        (ino.clone(), 0u64..12, run.clone()).prop_map(|(ino, at, run)| {
            let size = (at + u64::from(run.count)) * BLOCK_LEN;
            Record::Write { session: 1, ino, size, time: time(), runs: vec![(at, run)] }
        }),
        run.prop_map(|run| Record::Return { session: 1, runs: vec![run] }),
        (ino.clone(), 0u64..12, 0u64..12).prop_map(|(ino, from, to)| Record::Punch { ino, from, to, time: time() }),
        ino.clone().prop_map(|ino| Record::Hold { session: 1, ino }),
        ino.prop_map(|ino| Record::Release { session: 1, ino }),
        (0u64..80).prop_map(|upto| Record::Reclaim { upto }),
        Just(Record::Number { session: 1 }),
        (0u32..4).prop_map(segment),
    ]
}

/// What holds after every record.
fn check(tree: &Tree) {
    assert_eq!(tree.check(), Ok(()), "{tree:?}");
}

proptest! {
    /// No record loses a block or gives it to two files. No folder hangs nowhere, links are counted, and a snapshot is the same.
    #[test]
    fn any_records_leave_a_whole_tree(steps in prop::collection::vec(step(), 1..80)) {
        let mut tree = tree();
        for record in steps {
            let before = tree.clone();
            let changed = tree.apply(&record);
            tree.position += 1;
            if !changed { prop_assert_eq!(&tree.inodes, &before.inodes, "{:?}", record); }
            check(&tree);
        }
        let bytes = postcard::to_stdvec(&tree).unwrap();
        prop_assert_eq!(postcard::from_bytes::<Tree>(&bytes).unwrap(), tree);
    }
}

#[test]
fn a_rename_over_a_file_leaves_that_file_until_all_have_come_past_it() {
    let mut tree = tree();
    tree.apply_frame(&[make(b"new", ROOT, Fresh::File), make(b"old", ROOT, Fresh::File)]);
    let (new, old) = (tree.child(ROOT, b"new").unwrap(), tree.child(ROOT, b"old").unwrap());
    let to = b"old".to_vec();
    tree.apply_frame(&[Record::Rename {
        parent: ROOT,
        name: b"new".to_vec(),
        new_parent: ROOT,
        new_name: to,
        exchange: false,
        time: time(),
    }]);
    assert_eq!((tree.child(ROOT, b"old"), tree.child(ROOT, b"new"), tree.is_orphan(old)), (Some(new), None, true));
    let at = tree.position;
    tree.apply_frame(&[Record::Hold { session: 1, ino: old }, Record::Reclaim { upto: at + 1 }]);
    assert!(tree.inode(old).is_some(), "a mount holds it");
    tree.apply_frame(&[Record::End { session: 1 }, Record::Reclaim { upto: at + 1 }]);
    assert!(tree.inode(old).is_none());
}

#[test]
fn what_no_kernel_takes_is_no_name_and_no_length() {
    let mut tree = tree();
    let before = tree.clone();
    let long = vec![b'x'; 256];
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &long] {
        assert!(!tree.apply(&make(name, ROOT, Fresh::File)), "{name:?}");
    }
    assert_eq!(tree, before);
    assert!(tree.apply(&make(b"a", ROOT, Fresh::File)));
    let ino = tree.child(ROOT, b"a").unwrap();
    for size in [u64::MAX, 1 << 63] {
        let set = Attributes { size: Some(size), ..Attributes::default() };
        assert!(!tree.apply(&Record::Set { ino, set, time: time() }));
        assert!(!tree.apply(&Record::Write { session: 1, ino, size, time: time(), runs: Vec::new() }));
    }
    check(&tree);
}

/// Ranges that end before they begin would make two locks of one, and four of two.
#[test]
fn a_range_that_ends_before_it_begins_gives_no_lock_back() {
    use crate::files::record::Claim;
    let mut tree = tree();
    assert!(tree.apply(&make(b"a", ROOT, Fresh::File)));
    let ino = tree.child(ROOT, b"a").unwrap();
    let claim = Claim { session: 1, owner: 1, pid: 1, start: 0, end: u64::MAX, exclusive: true };
    assert!(tree.apply(&Record::Lock { ino, claim }));
    let before = tree.clone();
    assert!(!tree.apply(&Record::Unlock { ino, claim: Claim { start: 1 << 63, end: 1 << 62, ..claim } }));
    assert_eq!(tree, before);
}

#[test]
fn a_snapshot_that_no_records_build_is_refused() {
    let mut whole = tree();
    whole.apply_frame(&[
        make(b"a", ROOT, Fresh::Folder),
        make(b"b", ROOT, Fresh::File),
        Record::Reserve { session: 1, runs: vec![Run { segment: 0, block: 0, count: 4 }] },
    ]);
    check(&whole);
    type Lie = fn(&mut Tree);
    let lies: [Lie; 9] = [
        |tree| tree.position = u64::MAX,
        |tree| tree.next = 2,
        |tree| tree.sessions.get_mut(&1).unwrap().slot = SESSION_COUNT_MAX,
        |tree| assert!(tree.sessions.get_mut(&1).unwrap().reserve.add(Run { segment: 0, block: 20, count: 1 })),
        |tree| assert!(tree.sessions.get_mut(&1).unwrap().making.insert(0)),
        |tree| assert!(tree.sessions.get_mut(&1).unwrap().making.insert(9)),
        |tree| tree.space.segments.clear(),
        |tree| drop(tree.inodes.remove(&2)),
        |tree| tree.inodes.get_mut(&3).unwrap().links = 7,
    ];
    for lie in lies {
        let mut tree = whole.clone();
        lie(&mut tree);
        assert!(tree.check().is_err(), "{tree:?}");
    }
}
