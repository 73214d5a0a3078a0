//! Faults in a library that was loaded by `dlopen`: in its constructor, in its functions, in a thread that it made, and in functions of
//! the C library that it calls, whether it was loaded before the region was mapped or after.

mod support;

use hanare::{Consistency, CreateOptions, NodeId, Placement, Pool, SharedMapping};
use libloading::Library;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use support::TestPool;

const PAGE: u64 = 4096;
const WORDS: u64 = 512;

/// The library, compiled and loaded; in its constructor it touches what `place` names, if that is there. `None` without a compiler.
fn load(folder: &Path, place: &Path) -> Option<Library> {
    let (source, made) = (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/late.c"), folder.join("late.so"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-pthread", "-Wall", "-Werror"]).arg(format!("-DPLACE=\"{}\"", place.display()));
    match cc.arg("-o").arg(&made).arg(source).output() {
        Err(error) => {
            hanare_testkit::uninstalled(format!("cc does not run: {error}"));
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            // SAFETY: its constructor touches a page of a mapping that lives longer.
            Some(unsafe { Library::new(made) }.unwrap())
        }
    }
}

/// Calls a function of the library by its name, with words.
macro_rules! call {
    (@ $word:expr) => { u64 };
    ($library:expr, $name:literal, $($word:expr),*) => {{
        // SAFETY: the function is `late.c`'s and takes as many words; pointers among them are to memory that is there.
        unsafe { $library.get::<unsafe extern "C" fn($(call!(@ $word)),*) -> u64>($name.as_bytes()).unwrap()($($word),*) }
    }};
}

fn at(mapping: &SharedMapping, page: u64) -> u64 {
    mapping.ptr().expose_provenance() as u64 + page * PAGE
}

fn word(mapping: &SharedMapping, page: u64, word: u64) -> &AtomicU64 {
    assert!((page * WORDS + word + 1) * 8 <= mapping.len());
    // SAFETY: an aligned word inside the mapping, which is borrowed as long; all use atomics.
    unsafe { AtomicU64::from_ptr(mapping.ptr().cast::<u64>().add((page * WORDS + word) as usize)) }
}

struct Two {
    _pool: TestPool,
    near: Pool,
    far: Pool,
}

impl Two {
    fn new() -> Two {
        let pool = TestPool::start(2, 16 << 20);
        let (near, far) = (pool.client(0), pool.client(1));
        let options = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
        near.create("late", 128 * PAGE, &options).unwrap();
        Two { _pool: pool, near, far }
    }

    /// The region on both hosts. Words of the first pages are the near one's: the other faults on each of them.
    fn map(&self) -> (SharedMapping, SharedMapping) {
        let [near, far] = [&self.near, &self.far].map(|pool| pool.open("late").unwrap().map(Consistency::Coherent).unwrap());
        for page in 0..128 {
            word(&near, page, 0).store(1000 + page, SeqCst);
        }
        (near, far)
    }
}

/// What the library's functions do with pages that the near host has, and that the near host finds afterwards.
fn touch_all(library: &Library, near: &SharedMapping, far: &SharedMapping) {
    assert_eq!(call!(library, "late_swap", at(far, 1), 7), 1001);
    assert_eq!(word(near, 1, 0).load(SeqCst), 7);

    assert_eq!(call!(library, "late_end", at(far, 2)), 1002, "in its own thread");
    assert_eq!(word(near, 2, 0).load(SeqCst), 8);

    // From pages to others, over borders.
    let bytes = support::pattern(5 * PAGE as usize, 3);
    near.write(10 * PAGE + 100, &bytes).unwrap();
    call!(library, "late_copy", at(far, 20) + 77, at(far, 10) + 100, bytes.len() as u64);
    let mut copied = vec![0; bytes.len()];
    near.read(20 * PAGE + 77, &mut copied).unwrap();
    assert!(copied == bytes);

    let text = vec![b'x'; 3 * PAGE as usize + 5];
    near.write(30 * PAGE + 4000, &text).unwrap();
    near.write(30 * PAGE + 4000 + text.len() as u64, &[0]).unwrap();
    assert_eq!(call!(library, "late_strlen", at(far, 30) + 4000), text.len() as u64);

    let mut words: Vec<u64> =
        support::pattern(20 * PAGE as usize, 9).as_chunks().0.iter().copied().map(u64::from_le_bytes).collect();
    let write = |first: u64, words: &[u64]| {
        near.write(first * PAGE, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    };
    write(40, &words);
    write(70, &words);
    call!(library, "late_sort", at(far, 40), words.len() as u64);
    let mut numbers: Vec<u32> = (0..words.len() as u32).collect();
    call!(library, "late_order", at(far, 70), numbers.as_mut_ptr().expose_provenance() as u64, words.len() as u64);
    let ordered: Vec<u64> = numbers.iter().map(|number| words[*number as usize]).collect();
    words.sort_unstable();
    assert!(ordered == words, "numbers in memory of the C library, by words of the region");
    let found: Vec<u64> = (0..words.len() as u64).map(|k| word(near, 40 + k / WORDS, k % WORDS).load(SeqCst)).collect();
    assert!(found == words, "words of the region itself");
}

#[test]
fn a_library_that_is_loaded_while_a_region_is_mapped_touches_it() {
    let (folder, two) = (tempfile::tempdir().unwrap(), Two::new());
    let (near, far) = two.map();
    let place = folder.path().join("place");
    std::fs::write(&place, format!("{:#x}", at(&far, 0))).unwrap();
    let Some(library) = load(folder.path(), &place) else { return };
    assert_eq!(call!(library, "late_found",), 1000, "its constructor loaded");
    assert_eq!(word(&near, 0, 1).load(SeqCst), 1001, "and stored");
    assert_eq!(call!(library, "late_begin", 8), 0);
    touch_all(&library, &near, &far);
}

#[test]
fn a_library_and_its_thread_that_were_there_before_the_region_was_mapped_touch_it() {
    let (folder, two) = (tempfile::tempdir().unwrap(), Two::new());
    let Some(library) = load(folder.path(), &folder.path().join("nothing")) else { return };
    assert_eq!(call!(library, "late_begin", 8), 0);
    let (near, far) = two.map();
    touch_all(&library, &near, &far);
}
