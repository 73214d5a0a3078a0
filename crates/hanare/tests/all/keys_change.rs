//! A pool's key is replaced while its nodes run: nobody is cut off, and who has only the old key gets in no more.

use crate::support;

use hanare::node::{Node, NodeOptions, drop_old_keys, new_key_file, rotate_key_file};
use hanare::{CreateOptions, Error, NodeId, Placement, Pool};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Ends, options};

fn node(key: &Path, join: Option<&Node>) -> hanare::Result<Node> {
    Node::start(NodeOptions { key: Some(key.to_owned()), join: join.map(|node| node.address().to_owned()), ..options(16 << 20) })
}

/// A copy of a key file, put in the place of another's whole.
fn copy(from: &Path, to: &Path) {
    let draft = to.with_extension("draft");
    std::fs::copy(from, &draft).unwrap();
    std::fs::rename(draft, to).unwrap();
}

/// Tries until it is so: nodes look at their file each second.
fn soon<T>(mut step: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(done) = step() {
            return done;
        }
        assert!(Instant::now() < until, "the nodes did not see their files change");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_key_is_replaced_while_programs_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    let (one, two, old, new) = (file("one"), file("two"), file("old"), file("new"));
    new_key_file(&one).unwrap();
    copy(&one, &two);
    copy(&one, &old);
    let first = node(&one, None).unwrap();
    let second = node(&two, Some(&first)).unwrap();
    let client = |node: &Node| Pool::attach_to(node.socket(), None).unwrap();
    let held = client(&second);
    let options = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
    let region = held.create("r", 1 << 20, &options).unwrap();
    let at_second = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    held.create("s", 1 << 20, &at_second).unwrap();
    let is_over = AtomicBool::new(false);
    // Each has connections of its own to make, by whatever key both nodes have then.
    let comes_anew = || {
        let mut byte = [0];
        client(&second).open("r").unwrap().get(0, &mut byte).unwrap();
    };
    std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let goes_on = scope.spawn(|| {
            let mut count = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                count += 1;
                region.put(8, &count.to_le_bytes()).unwrap();
                let mut seen = [0; 8];
                region.get(8, &mut seen).unwrap();
                assert_eq!(u64::from_le_bytes(seen), count);
            }
            count
        });
        comes_anew();
        rotate_key_file(&one).unwrap();
        copy(&one, &new);
        drop_old_keys(&new).unwrap();
        // The coordinator takes it; the other node has the old key alone, and all go on.
        let third = soon(|| node(&new, Some(&first)).ok());
        comes_anew();
        let fourth = node(&old, Some(&first)).unwrap();
        copy(&one, &two);
        comes_anew();
        // The old key goes when the other node knows the new one: who has that alone reaches it.
        soon(|| client(&third).open("s").ok()?.get(0, &mut [0]).ok());
        drop_old_keys(&one).unwrap();
        soon(|| node(&old, Some(&first)).is_err().then_some(()));
        comes_anew();
        copy(&new, &two);
        let refused = node(&old, Some(&first)).err();
        assert!(matches!(refused, Some(Error::KeyRefused { .. })), "{refused:?}");
        node(&new, Some(&first)).unwrap();
        comes_anew();
        drop(end);
        assert!(goes_on.join().unwrap() > 0);
        drop((third, fourth));
    });
}
