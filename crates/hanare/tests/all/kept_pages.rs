//! Pages of `Explicit` mappings that have not changed at their homes stay through an update; those that have do not, however they changed.

use crate::support;

use hanare::node::{Node, NodeOptions, Persist};
use hanare::{
    Consistency, CreateOptions, Element, Indexed, LocalMapping, Modify, NodeId, Operator, PageCounts, Placement, Pool, Region,
    SharedMapping, Strided,
};
use support::{TestPool, on, pattern};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

fn map(region: &Region) -> Option<SharedMapping> {
    match region.map(Consistency::Explicit) {
        Ok(mapping) => Some(mapping),
        Err(error) => {
            hanare_testkit::unable(error);
            None
        }
    }
}

/// A plain load. The mapping lives.
fn load(mapping: &SharedMapping, at: u64) -> u8 {
    assert!(at < mapping.len());
    // SAFETY: within the mapping, of which no reference is made.
    unsafe { mapping.ptr().add(at as usize).read_volatile() }
}

fn store(mapping: &SharedMapping, at: u64, byte: u8) {
    assert!(at < mapping.len());
    // SAFETY: as in `load`; it was opened for writing.
    unsafe { mapping.ptr().add(at as usize).write_volatile(byte) }
}

fn load_all(mapping: &SharedMapping) {
    for at in (0..mapping.len()).step_by(PAGE as usize) {
        load(mapping, at);
    }
}

/// Messages that `what` sent, and what happened to pages.
fn cost(pool: &Pool, mapping: &SharedMapping, what: impl FnOnce()) -> (u64, PageCounts) {
    let (before, pages) = (pool.traffic(), mapping.counts());
    what();
    let (after, now) = (pool.traffic(), mapping.counts());
    (
        after.messages_sent - before.messages_sent,
        PageCounts { fetches: now.fetches - pages.fetches, kept: now.kept - pages.kept, ..PageCounts::default() },
    )
}

fn counts(fetches: u64, kept: u64) -> PageCounts {
    PageCounts { fetches, kept, ..PageCounts::default() }
}

#[test]
// FEATURE: D2-F7
fn an_update_asks_each_home_once_and_brings_what_has_changed() {
    let pool = TestPool::start(3, 16 * MIB);
    let client = pool.client(0);
    let how = CreateOptions { placement: Placement::Interleave(2 * PAGE), ..CreateOptions::default() };
    // A third of it lies here and is mapped as it is; the last page is a short one.
    let region = client.create("a", 300 * PAGE - 100, &how).unwrap();
    let Some(mapping) = map(&region) else { return };
    load_all(&mapping);
    let far = pool.client(1).open("a").unwrap();
    let whole = || mapping.update(0, mapping.len()).unwrap();
    let extents: Vec<NodeId> = region.layout().extents().map(|extent| extent.node).collect();
    let is_far = |page: u64| extents[region.layout().pieces(page * PAGE, 1).next().unwrap().extent] != pool.nodes[0].id();
    assert_eq!(cost(&client, &mapping, whole), (2, counts(0, 200)));
    let there: Vec<u64> = (0..300).filter(|page| is_far(*page)).collect();
    assert_eq!(there.len(), 200);
    let (changed, last) = (there[77], 299);
    far.put(changed * PAGE + 9, &[7]).unwrap();
    far.put(last * PAGE + 11, &[8]).unwrap();
    let more = u64::from(is_far(last));
    assert_eq!(cost(&client, &mapping, whole), (2, counts(0, 199 - more)));
    let brought = cost(&client, &mapping, || load_all(&mapping)).1.fetches;
    assert_eq!((load(&mapping, changed * PAGE + 9), load(&mapping, last * PAGE + 11), brought), (7, 8, 1 + more));
    // A range asks for its own pages alone.
    assert_eq!(cost(&client, &mapping, || mapping.update(there[0] * PAGE, 1).unwrap()), (1, counts(0, 1)));
}

/// Whoever changes pages of region "a", which lies on node 1: programs of other nodes and of its own.
struct Others {
    clients: Vec<Pool>,
    region: Region,
    at_home: Region,
    third: Region,
    /// Of another program of the home's host, which knows nothing of the mappings.
    beside: Region,
    local: LocalMapping,
    own: SharedMapping,
    far: SharedMapping,
    /// On another node, and at the home.
    sources: [Region; 2],
}

fn place(page: u64) -> u64 {
    page * PAGE + 64
}

/// Changes a byte of a page, in one way.
type Way = fn(&Others, u64, u8);

const WAYS: &[(&str, Way)] = &[
    ("a put over a link", |all, page, byte| all.third.put(place(page), &[byte]).unwrap()),
    ("a put beside the home", |all, page, byte| all.beside.put(place(page), &[byte]).unwrap()),
    ("a put of the reader itself", |all, page, byte| all.region.put(place(page), &[byte]).unwrap()),
    ("blocks", |all, page, byte| {
        all.third.put_strided(Strided { offset: place(page), block: 1, count: 2, stride: 9 }, &[byte; 2]).unwrap();
    }),
    ("a fill", |all, page, byte| all.third.fill(Strided::contiguous(place(page), 8), &[byte]).unwrap()),
    ("an atomic update", |all, page, byte| {
        let mut old = [0];
        all.third.get(place(page), &mut old).unwrap();
        let (add, more) = (Modify { operator: Operator::Add, element: Element::U64 }, u64::from(byte.wrapping_sub(old[0])));
        all.third.update(Indexed::elements(place(page), 8, &[0u32][..]), add, &more.to_le_bytes()).unwrap();
    }),
    ("a word swapped beside the home", |all, page, byte| {
        let (mut old, mut word) = ([0; 8], [0; 8]);
        all.beside.get(place(page), &mut word).unwrap();
        let new = [&[byte], &word[1..]].concat();
        all.beside.compare_and_swap(Strided::contiguous(place(page), 8), Element::U64, &word, &new, &mut old).unwrap();
    }),
    ("a copy from another node", |all, page, byte| {
        all.sources[0].put(0, &[byte]).unwrap();
        let (from, to) = (Strided::contiguous(0, 1), Strided::contiguous(place(page), 1));
        all.clients[2].copy(&all.sources[0], from, &all.third, to).unwrap();
    }),
    ("a copy at the home", |all, page, byte| {
        all.sources[1].put(0, &[byte]).unwrap();
        let (from, to) = (Strided::contiguous(0, 1), Strided::contiguous(place(page), 1));
        all.clients[1].copy(&all.sources[1], from, &all.at_home, to).unwrap();
    }),
    ("a store at the home, mapped as it is", |all, page, byte| store(&all.own, place(page), byte)),
    ("a store to the home's memory", |all, page, byte| {
        // SAFETY: within the mapping, of which no reference is made.
        unsafe { all.local.ptr().add(place(page) as usize).write_volatile(byte) }
    }),
    ("a store elsewhere, flushed", |all, page, byte| {
        store(&all.far, place(page), byte);
        all.far.flush(place(page), 1).unwrap();
    }),
];

#[test]
fn whatever_changes_bytes_at_home_is_seen_after_an_update() {
    let pool = TestPool::start(3, 16 * MIB);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let region = clients[0].create("a", 64 * PAGE, &on(1)).unwrap();
    let Some(mapping) = map(&region) else { return };
    let [at_home, third] = [1, 2].map(|node: usize| clients[node].open("a").unwrap());
    let other = pool.client(1);
    let beside = other.open("a").unwrap();
    let (local, own, far) = (beside.map_local().unwrap(), map(&at_home).unwrap(), map(&third).unwrap());
    let sources = [("b", 2), ("c", 1)].map(|(name, node)| clients[node as usize].create(name, PAGE, &on(node)).unwrap());
    let all = Others { clients, region, at_home, third, beside, local, own, far, sources };
    load_all(&mapping);
    mapping.update(0, mapping.len()).unwrap();
    for (number, (name, way)) in (0..).zip(WAYS) {
        // After the second time the page is taken for one that changes all the time.
        for turn in 1..=5 {
            let (page, byte) = (number + 1, 10 * turn + number as u8);
            way(&all, page, byte);
            let before = mapping.counts();
            mapping.update(0, mapping.len()).unwrap();
            assert_eq!(load(&mapping, place(page)), byte, "{name}, turn {turn}");
            assert_eq!(mapping.counts().fetches - before.fetches, 1, "{name} changed one page");
        }
    }
    assert!(mapping.counts().kept >= 5 * WAYS.len() as u64 * 50, "the others stayed");
}

#[test]
fn a_page_that_has_stores_here_stays_where_its_home_has_not_changed() {
    let pool = TestPool::start(2, 16 * MIB);
    let client = pool.client(0);
    let region = client.create("a", 2 * PAGE, &on(1)).unwrap();
    region.put(0, &pattern(2 * PAGE as usize, 1)).unwrap();
    let Some(mapping) = map(&region) else { return };
    store(&mapping, 5, 1);
    store(&mapping, PAGE + 5, 2);
    let far = pool.client(1).open("a").unwrap();
    far.put(PAGE + 6, &[3]).unwrap();
    let whole = || mapping.update(0, mapping.len()).unwrap();
    // A question, and the merge of the second page.
    assert_eq!(cost(&client, &mapping, whole), (2, counts(1, 1)));
    assert_eq!([5, PAGE + 5, PAGE + 6].map(|at| load(&mapping, at)), [1, 2, 3]);
    mapping.flush(0, mapping.len()).unwrap();
    let mut bytes = [0; 2];
    far.get(PAGE + 5, &mut bytes).unwrap();
    assert_eq!(bytes, [2, 3]);
    // What went home is what is there, and nothing else has changed.
    assert_eq!(cost(&client, &mapping, whole), (1, counts(0, 2)));
    // A flush of bytes that another changed meanwhile leaves theirs to the next update.
    store(&mapping, 5, 9);
    far.put(7, &[8]).unwrap();
    mapping.flush(0, 1).unwrap();
    whole();
    assert_eq!([5, 7].map(|at| load(&mapping, at)), [9, 8]);
}

#[test]
fn a_page_that_changes_each_time_is_brought_without_a_question() {
    let pool = TestPool::start(2, 16 * MIB);
    let client = pool.client(0);
    let region = client.create("a", 8 * PAGE, &on(1)).unwrap();
    let Some(mapping) = map(&region) else { return };
    let far = pool.client(1).open("a").unwrap();
    let update = || mapping.update(0, PAGE).unwrap();
    load(&mapping, 0);
    let mut messages = Vec::new();
    for turn in 1..6 {
        far.put(0, &[turn]).unwrap();
        messages.push(cost(&client, &mapping, update).0);
        assert_eq!(load(&mapping, 0), turn);
    }
    assert_eq!(messages, [1, 1, 0, 0, 0]);
    // From now on it stays: that is found out, and then asked.
    let (one, two) = (cost(&client, &mapping, update), cost(&client, &mapping, || assert_eq!(load(&mapping, 0), 5)));
    assert_eq!((one, two), ((0, counts(0, 0)), (1, counts(1, 0))), "brought in vain");
    assert_eq!(cost(&client, &mapping, update), (1, counts(0, 1)));
}

#[test]
fn a_question_about_many_pages_goes_in_few_messages() {
    let pool = TestPool::start(2, 160 * MIB);
    let client = pool.client(0);
    let pages = 20_000;
    let region = client.create("a", pages * PAGE, &on(1)).unwrap();
    let Some(mapping) = map(&region) else { return };
    load_all(&mapping);
    let whole = || mapping.update(0, mapping.len()).unwrap();
    let before = client.traffic();
    assert_eq!(cost(&client, &mapping, whole), (2, counts(0, pages)));
    let after = client.traffic();
    let bytes = after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received;
    assert!(bytes < pages * 21, "{bytes} bytes");
    pool.client(1).open("a").unwrap().put(PAGE * 3001, &[1]).unwrap();
    assert_eq!(cost(&client, &mapping, whole), (2, counts(0, pages - 1)));
    assert_eq!(load(&mapping, PAGE * 3001), 1);
}

/// Parts of a page in two extents are not asked for: it is given up as before. The pages behind it begin anywhere in the second one.
#[test]
fn a_page_in_parts_is_brought_again() {
    let pool = TestPool::start(2, 16 * MIB);
    let client = pool.client(0);
    client.create("a", 10_001, &on(1)).unwrap();
    let region = client.resize("a", 30_002).unwrap();
    let Some(mapping) = map(&region) else { return };
    let far = pool.client(1).open("a").unwrap();
    load_all(&mapping);
    let whole = || mapping.update(0, mapping.len()).unwrap();
    // Each extent is asked by itself: it may move by itself.
    assert_eq!(cost(&client, &mapping, whole), (2, counts(0, 7)));
    for (at, kept) in [(9000, 7), (10_050, 7), (13_000, 6), (30_001, 6)] {
        load_all(&mapping);
        far.put(at, &[9]).unwrap();
        assert_eq!(cost(&client, &mapping, whole), (2, counts(0, kept)), "byte {at}");
        assert_eq!(load(&mapping, at), 9, "byte {at}");
    }
}

#[test]
fn what_its_home_cannot_tell_of_stays_and_is_an_error() {
    let mut pool = TestPool::start(3, 16 * MIB);
    let client = pool.client(0);
    let how = CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() };
    let region = client.create("a", 9 * PAGE, &how).unwrap();
    region.put(0, &pattern(9 * PAGE as usize, 4)).unwrap();
    let Some(mapping) = map(&region) else { return };
    load_all(&mapping);
    let far = pool.client(1).open("a").unwrap();
    let lost = pool.nodes[2].id();
    drop(pool.nodes.pop());
    let error = mapping.update(0, mapping.len()).unwrap_err();
    assert!(matches!(error, hanare::Error::NodeLost { node, .. } if node == lost), "{error}");
    let wanted = pattern(9 * PAGE as usize, 4);
    assert!((0..mapping.len()).step_by(61).all(|at| load(&mapping, at) == wanted[at as usize]), "what is here stays readable");
    // The other home told of its pages all the same, and is asked each time.
    for at in (0..mapping.len()).step_by(PAGE as usize) {
        if far.put(at, &[0xee]).is_ok() {
            assert!(mapping.update(0, mapping.len()).is_err());
            assert_eq!(load(&mapping, at), 0xee);
        }
    }
}

/// The bytes come from a disk, under new grants, at another address.
#[test]
fn a_home_in_its_next_life_is_asked() {
    let (pool, folder) = (TestPool::start(1, 16 * MIB), tempfile::tempdir().unwrap());
    let client = pool.client(0);
    let kept = || {
        let persist = Some(Persist { folder: folder.path().to_owned(), every: None });
        NodeOptions {
            persist,
            name: "kept".to_owned(),
            join: Some(pool.nodes[0].address().to_owned()),
            ..support::options(16 * MIB)
        }
    };
    let node = Node::start(kept()).unwrap();
    let region = client.create("a", 4 * PAGE, &on(node.id().0)).unwrap();
    let Some(mapping) = map(&region) else { return };
    load_all(&mapping);
    mapping.update(0, mapping.len()).unwrap();
    Pool::attach_to(node.socket(), None).unwrap().open("a").unwrap().put(PAGE, &[5]).unwrap();
    node.stop();
    node.wait().unwrap();
    drop(node);
    let node = Node::start(kept()).unwrap();
    Pool::attach_to(node.socket(), None).unwrap().open("a").unwrap().put(2 * PAGE, &[6]).unwrap();
    mapping.update(0, mapping.len()).unwrap();
    assert_eq!([0, 1, 2].map(|page| load(&mapping, page * PAGE)), [0, 5, 6]);
}
