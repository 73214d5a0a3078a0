//! Children made by fork: a handle is its process's, and so are the blocks that it keeps and the values that it holds.

use crate::nodes::{PLACES, TestPool};
use hanare::{Error, Pool};
use hanare_dict::{Dict, Key, Options, kind};

/// Runs `child` in a child of this process, which ends with its value; returns that.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child uses what the C library and the pool's make usable in a child of a program with threads.
    let number = match unsafe { libc::fork() } {
        0 => {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
            // SAFETY: no handler of the parent's is to run here.
            unsafe { libc::_exit(status) }
        }
        number => number,
    };
    let mut status = 0;
    // SAFETY: the child is this process's, and the variable its own.
    assert_eq!(unsafe { libc::waitpid(number, &mut status, 0) }, number);
    status
}

fn set(dict: &Dict, numbers: std::ops::Range<i64>, value: u8) {
    for number in numbers {
        dict.set(&Key::number(number), kind::PLAIN, &[value; 200]).unwrap();
    }
}

#[test]
fn a_child_has_none_of_its_parents_blocks_and_opens_the_dictionary_anew() {
    let nodes = TestPool::start(2, 32 << 20);
    for placement in PLACES {
        let (pool, name) = (nodes.client(0), placement.to_string());
        let options = Options { placement, buckets: 8, memory: 4 << 20, ..Options::default() };
        let dict = Dict::open(&pool, &name, &options).unwrap();
        // Blocks of each length are kept for the next write.
        (0..2).for_each(|turn| set(&dict, 0..8, turn));
        dict.set(&Key::text("long"), kind::PLAIN, &vec![1; 1 << 18]).unwrap();
        let hold = dict.hold(&Key::text("long"), |_| true).unwrap();
        let child = fork(|| {
            let is_refused = |error: Error| matches!(error, Error::BadUse { .. });
            let key = Key::number(0);
            if !dict.get(&key).is_err_and(is_refused) || !dict.set(&key, kind::PLAIN, b"").is_err_and(is_refused) {
                return 1;
            }
            // The end of what is the parent's is the child's alone.
            drop((dict.keys(), hold.as_ref()));
            let own = Dict::open(&Pool::attach_to(nodes.socket(0), None).unwrap(), &name, &options).unwrap();
            set(&own, 0..4, 100);
            0
        });
        assert_eq!(child, 0);
        set(&dict, 4..8, 200);
        for number in 0..8 {
            let wanted = [if number < 4 { 100 } else { 200 }; 200];
            assert_eq!(dict.get(&Key::number(number)).unwrap().unwrap().1, wanted);
        }
        if let Some(hold) = hold {
            let gone = fork(|| {
                // SAFETY: the parent's handle is not touched again in this child.
                drop(unsafe { std::ptr::read(&raw const hold) });
                0
            });
            assert_eq!(gone, 0);
            (2..10).for_each(|turn| dict.set(&Key::text("long"), kind::PLAIN, &vec![turn; 1 << 18]).unwrap());
            let mut bytes = vec![0; 1 << 18];
            hold.read(0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 1), "the child did not let go");
        }
    }
}
