//! Mappings of one region have one address in all programs, so pointers may lie in shared memory; and an address is given, or refused.

use crate::support::{TestPool, on};
use hanare::{Consistency, CreateOptions, Error, MapAddress, Pool};

const PAGE: u64 = 4096;

/// Makes regions and removes them again: their numbers, and so the addresses of those that come next, are none that other tests of this
/// process have.
fn count_up(client: &Pool, count: u64) {
    for number in 0..count {
        let name = format!("passed {number}");
        client.create(&name, 64, &CreateOptions::default()).unwrap();
        client.remove(&name).unwrap();
    }
}

fn is_refused<T>(outcome: Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::BadUse { reason, .. }) if reason.contains("address"))
}

#[test]
fn a_region_is_at_its_own_address_in_both_ways_or_elsewhere_where_that_is_taken() {
    let pool = TestPool::start(2, 16 << 20);
    let (first, second) = (pool.client(0), pool.client(1));
    count_up(&first, 200);
    for (name, consistency) in [("e", Consistency::Explicit), ("c", Consistency::Coherent)] {
        first.create(name, 4 * PAGE, &on(0)).unwrap();
        let (near, far) = (first.open(name).unwrap(), second.open(name).unwrap());
        let own = near.map_at(consistency, MapAddress::Same).unwrap();
        assert!(own.is_at_usual_address());
        // Both clients are this process: what one has the other cannot have.
        assert!(is_refused(far.map_at(consistency, MapAddress::Same)));
        let other = far.map(consistency).unwrap();
        assert!(!other.is_at_usual_address() && other.ptr() != own.ptr());
        assert!(is_refused(far.map_at(consistency, MapAddress::Same)), "it is mapped elsewhere");
        // The same again is the same mapping.
        assert_eq!(near.map_at(consistency, MapAddress::Same).unwrap().ptr(), own.ptr());
        let begin = own.ptr();
        drop((own, other));
        assert_eq!(far.map(consistency).unwrap().ptr(), begin, "it is free again");
    }
}

#[test]
fn an_address_that_is_given_is_taken_or_refused() {
    let pool = TestPool::start(1, 16 << 20);
    let client = pool.client(0);
    let region = client.create("a", 4 * PAGE, &CreateOptions::default()).unwrap();
    let address = 0x1234_0000_0000;
    let mapping = region.map_at(Consistency::Coherent, MapAddress::At(address)).unwrap();
    assert_eq!(mapping.ptr().addr(), address);
    mapping.write(PAGE, b"there").unwrap();
    drop(mapping);
    let mut back = [0; 5];
    region.get(PAGE, &mut back).unwrap();
    assert_eq!(&back, b"there");
    let here = std::ptr::from_ref(&back).addr() & !0xfff;
    for taken in [here, 1, address + 1, usize::MAX & !0xfff] {
        assert!(is_refused(region.map_at(Consistency::Coherent, MapAddress::At(taken))), "{taken:#x}");
    }
}

/// A list whose elements are blocks of a heap, tied together by plain pointers, as a rank finds it.
///
/// # Safety
/// `first` is null, or points to a word that holds the next one, and a number behind it, in memory that is mapped here.
unsafe fn walk(mut at: *const [usize; 2]) -> Vec<usize> {
    let mut numbers = Vec::new();
    while !at.is_null() {
        // SAFETY: promised by the caller.
        let [next, number] = unsafe { at.read_volatile() };
        numbers.push(number);
        at = std::ptr::with_exposed_provenance(next);
    }
    numbers
}

#[test]
fn pointers_that_one_program_stores_are_good_in_another() {
    const RANK: &str = "HANARE_TEST_WALKS";
    if let Ok(socket) = std::env::var(RANK) {
        let region = Pool::attach_to(&socket, None).unwrap().open("list").unwrap();
        let mapping = region.map_at(Consistency::Coherent, MapAddress::Same).unwrap();
        mapping.ptr().expose_provenance();
        // SAFETY: the other program has stored the list whole, and waits.
        let numbers = unsafe {
            walk(std::ptr::with_exposed_provenance(mapping.word(0).unwrap().load(std::sync::atomic::Ordering::SeqCst) as usize))
        };
        assert_eq!(numbers, (0..100).rev().collect::<Vec<_>>());
        return;
    }
    let pool = TestPool::start(2, 16 << 20);
    let client = pool.client(0);
    count_up(&client, 300);
    let region = client.create("list", 64 * PAGE, &on(0)).unwrap();
    let mapping = region.map_at(Consistency::Coherent, MapAddress::Same).unwrap();
    let mut first = 0;
    for number in 0..100 {
        let block = region.heap().allocate(16, 16).unwrap();
        // SAFETY: a block of ours in the mapping, aligned.
        unsafe { mapping.ptr().add(block as usize).cast::<[usize; 2]>().write_volatile([first, number]) };
        first = mapping.ptr().addr() + block as usize;
    }
    mapping.word(0).unwrap().store(first as u64, std::sync::atomic::Ordering::SeqCst);
    // Another program, on the other host.
    let own = std::env::current_exe().unwrap();
    let name = "equal_addresses::pointers_that_one_program_stores_are_good_in_another";
    let ended = std::process::Command::new(own).args(["--exact", name]).env(RANK, pool.nodes[1].socket()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"));
}
