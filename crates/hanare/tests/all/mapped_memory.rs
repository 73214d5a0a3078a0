//! What all mappings of a host keep together, and system calls that write to mapped pages.

use crate::support;

use hanare::{Consistency, CreateOptions, Error, NodeId, Placement, Pool, SharedMapping};
use std::os::fd::AsFd;
use support::TestPool;

const PAGE: u64 = 4096;

fn map(client: &Pool, name: &str, consistency: Consistency) -> Result<SharedMapping, Error> {
    client.open(name).unwrap().map(consistency)
}

fn create(client: &Pool, name: &str, pages: u64) {
    let options = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
    client.create(name, pages * PAGE, &options).unwrap();
}

#[test]
fn mappings_share_one_budget_of_frames_in_the_order_in_which_they_come() {
    let budget = 256;
    let pool = TestPool::start_with_frames(2, 64 << 20, budget * PAGE);
    let (near, far) = (pool.client(0), pool.client(1));
    for name in ["a", "b", "c"] {
        create(&near, name, 1024);
    }
    create(&near, "little", 1);
    let first = map(&far, "a", Consistency::Coherent).unwrap();
    let second = map(&far, "b", Consistency::Coherent).unwrap();
    let refused = map(&far, "c", Consistency::Coherent).err().unwrap();
    assert!(
        matches!(&refused, Error::LimitReached { what, limit } if what.contains("HANARE_FRAMES") && *limit == budget),
        "{refused}"
    );
    // Copies in a program's own memory are not of the budget, nor are mappings of another host.
    drop(map(&far, "c", Consistency::Explicit).unwrap());
    drop(map(&near, "c", Consistency::Coherent).unwrap());
    let mut bytes = vec![0; 1024 * PAGE as usize];
    for mapping in [&first, &second] {
        mapping.write(0, &vec![5; bytes.len()]).unwrap();
        mapping.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 5));
    }
    first.unmap().unwrap();
    let third = map(&far, "c", Consistency::Coherent).unwrap();
    third.write(0, &[6; 100]).unwrap();
    third.unmap().unwrap();
    second.unmap().unwrap();
    drop(map(&far, "little", Consistency::Coherent).unwrap());
}

#[test]
fn a_system_call_writes_to_pages_that_were_touched_for_it() {
    let pool = TestPool::start(2, 64 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    create(&near, "a", 16);
    // Its program reaches the memory by commands, and has nothing of it mapped afterwards.
    let region = || pool.client(1).open("a").unwrap();
    for consistency in [Consistency::Coherent, Consistency::Explicit] {
        region().put(0, &[1; 16 * PAGE as usize]).unwrap();
        let mapping = map(&far, "a", consistency).unwrap();
        // One byte is read, so that pages of it are here to be read alone.
        mapping.touch(0, 16 * PAGE).unwrap();
        mapping.touch_to_write(PAGE + 100, 9 * PAGE).unwrap();
        let mut seen = vec![0; 16 * PAGE as usize];
        mapping.read(0, &mut seen).unwrap();
        assert!(seen.iter().all(|byte| *byte == 1), "a touch changes no byte");
        let (out, into) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&into, &[2; 9 * PAGE as usize]).unwrap();
        // SAFETY: the range lies in the mapping, which stays; other programs do not use it meanwhile.
        let range = unsafe { std::slice::from_raw_parts_mut(mapping.ptr().add(PAGE as usize + 100), 9 * PAGE as usize) };
        assert_eq!(rustix::io::read(out.as_fd(), range), Ok(9 * PAGE as usize), "{consistency:?}");
        mapping.flush(0, 16 * PAGE).unwrap();
        mapping.unmap().unwrap();
        let mut bytes = [0; 2];
        region().get(PAGE + 99, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2]);
    }
    let outside = map(&far, "a", Consistency::Coherent).unwrap().touch_to_write(15 * PAGE, 2 * PAGE).unwrap_err();
    assert!(matches!(outside, Error::OutOfRange { .. }));
}
