//! Children made by fork: what they may do, and what they do not keep from others.

mod support;

use hanare::{Consistency, CreateOptions, Error, NodeId, Placement, Pool};
use std::time::{Duration, Instant};
use support::TestPool;

const LEN: usize = 1 << 20;

/// Runs `child` in a child of this process; returns its process number. `child` ends by its value.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child uses what the C library and this one make usable in a child of a program with threads.
    match unsafe { libc::fork() } {
        0 => {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
            // SAFETY: no handler of the parent's is to run here.
            unsafe { libc::_exit(status) }
        }
        child => child,
    }
}

fn status_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

// One after the other: a child has what the threads of its parent had in hand.
#[test]
fn children_attach_anew_and_leave_their_parent_alone() {
    let pool = TestPool::start(2, 16 << 20);
    let socket = pool.nodes[0].socket().to_owned();
    let client = pool.client(0);
    let options = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let region = client.create("far", LEN as u64, &options).unwrap();
    region.put(0, &vec![b'A'; LEN]).unwrap();
    client.create("mapped", 4096, &options).unwrap();
    let mapping = client.open("mapped").unwrap().map(Consistency::Coherent).unwrap();
    mapping.write(0, b"mine").unwrap();

    let child = fork(|| {
        let mut back = vec![0; LEN];
        let is_refused = |result: Result<(), Error>| matches!(result, Err(Error::BadUse { .. }));
        if !is_refused(region.get(0, &mut back)) || !is_refused(region.put(0, &back)) || !is_refused(client.remove("far")) {
            return 1;
        }
        // An unmap, and the end of handles, are the child's alone.
        drop((mapping, region, client));
        let anew = Pool::attach_to(&socket, None).unwrap();
        anew.open("far").unwrap().get(0, &mut back).unwrap();
        if back.iter().all(|byte| *byte == b'A') { 0 } else { 2 }
    });
    assert_eq!(status_of(child), 0);
}

#[test]
fn a_parent_goes_on_while_its_children_try_its_handles() {
    let pool = TestPool::start(2, 16 << 20);
    let client = pool.client(0);
    let options = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let region = client.create("far", LEN as u64, &options).unwrap();
    region.put(0, &vec![b'A'; LEN]).unwrap();
    let mapping = client.open("far").unwrap().map(Consistency::Coherent).unwrap();
    let plain = client.create("plain", LEN as u64, &options).unwrap();
    plain.put(0, &vec![b'B'; LEN]).unwrap();
    let children: Vec<i32> = (0..4)
        .map(|_| {
            fork(|| {
                let mut back = vec![0; LEN];
                let refused = (0..50).all(|_| plain.get(0, &mut back).is_err());
                // SAFETY: what the parent has is not touched again in this child.
                drop(unsafe { std::ptr::read(&raw const mapping) });
                i32::from(!refused)
            })
        })
        .collect();
    let mut back = vec![0; LEN];
    for _ in 0..50 {
        plain.get(0, &mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == b'B'));
        mapping.read(0, &mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == b'A'));
    }
    assert!(children.into_iter().all(|child| status_of(child) == 0));
    mapping.write(0, b"still mapped").unwrap();
}

#[test]
fn a_child_works_on_its_parent_s_memory_only_until_that_is_taken_back() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("here", LEN as u64, &CreateOptions::default()).unwrap();
    region.put(0, b"parent").unwrap();
    let mut told = [0; 2];
    // SAFETY: both ends are this test's own.
    assert_eq!(unsafe { libc::pipe(told.as_mut_ptr()) }, 0);
    let child = fork(|| {
        if region.put(0, b"child!").is_err() {
            return 1;
        }
        let mut byte = 0u8;
        // SAFETY: a byte into a variable of ours.
        if unsafe { libc::read(told[0], (&raw mut byte).cast(), 1) } != 1 {
            return 2;
        }
        i32::from(!matches!(region.put(0, b"stolen"), Err(Error::BadUse { .. })))
    });
    while {
        let mut bytes = [0; 6];
        region.get(0, &mut bytes).unwrap();
        &bytes != b"child!"
    } {
        std::thread::yield_now();
    }
    let mapping = far.open("here").unwrap().map(Consistency::Coherent).unwrap();
    mapping.write(0, b"shared").unwrap();
    // SAFETY: a byte of this stack.
    assert_eq!(unsafe { libc::write(told[1], b"x".as_ptr().cast(), 1) }, 1);
    assert_eq!(status_of(child), 0);
    let mut bytes = [0; 6];
    region.get(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"shared");
}

#[test]
fn an_idle_child_keeps_no_lock_of_a_dead_holder() {
    let pool = TestPool::start(2, 16 << 20);
    let socket = pool.nodes[1].socket().to_owned();
    let holder = fork(|| {
        let client = Pool::attach_to(&socket, None).unwrap();
        let _guard = client.lock("held").unwrap();
        let idle = fork(|| {
            std::thread::sleep(Duration::from_secs(60));
            0
        });
        println!("{idle}");
        // SAFETY: this very process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        1
    });
    assert!(libc::WIFSIGNALED(status_of(holder)));
    let client = pool.client(0);
    let begun = Instant::now();
    let guard = client.lock("held").unwrap();
    assert!(guard.was_abandoned());
    assert!(begun.elapsed() < Duration::from_secs(50), "not only when the child ends");
}
