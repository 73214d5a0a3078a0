//! Nodes that were taken for lost and are back, or come back as another life, while pages of theirs are elsewhere, or pages of others
//! with them: what was stored is there, or who stored it and who reads it are told. Nobody sees older bytes.

#[path = "support/actor.rs"]
mod actor;
#[path = "support/apart.rs"]
mod apart;
#[path = "support/networks.rs"]
mod networks;
#[path = "support/relay.rs"]
mod relay;
mod support;

hanare_testkit::actors![actor::acts, apart::serves,];

use apart::{Apart, until};
use hanare::{Consistency, CreateOptions, Error, NodeId, Placement, Pool, SharedMapping};
use relay::{Mode, Relay};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::time::Duration;

const PAGE: u64 = 4096;
const PAGES: u64 = 16;
/// Where the reader, the pages and the writer are.
const READER: usize = 0;
const HOME: usize = 1;
const WRITER: usize = 2;

/// Longer than a lease, and than the time for which a node that cannot be reached counts as there.
const STILL: Duration = Duration::from_secs(5);
/// How soon what nobody can supply is told: far below the bound of an answer, twice.
const SOON: Duration = Duration::from_secs(10);

struct Scene {
    apart: Apart,
    pools: Vec<Pool>,
}

impl Scene {
    fn new(apart: Apart, home: usize) -> Scene {
        let pools: Vec<Pool> = (0..3).map(|node| apart.client(node)).collect();
        let options = CreateOptions { placement: Placement::Node(NodeId(home as u32)), ..CreateOptions::default() };
        drop(pools[home].create("region", PAGES * PAGE, &options).unwrap());
        Scene { apart, pools }
    }

    fn map(&self, node: usize) -> Result<SharedMapping, Error> {
        self.pools[node].open("region")?.map(Consistency::Coherent)
    }

    /// Maps it as soon as that is possible again.
    fn map_when_back(&self, node: usize) -> SharedMapping {
        let mut mapping = None;
        until("the region can be mapped again", || {
            mapping = self.map(node).ok();
            mapping.is_some()
        });
        mapping.unwrap()
    }

    fn is_member(&self, node: usize) -> bool {
        let status = self.pools[READER].status().unwrap();
        status.nodes.iter().any(|known| known.node == NodeId(node as u32) && known.alive)
    }

    /// A page is read by the reader, then stored to by the writer, which owns it from then on.
    fn writer_owns(&self, reader: &SharedMapping, writer: &SharedMapping, page: u64) {
        store(writer, page, 2);
        assert_eq!(load(reader, page), Ok(2));
        store(writer, page, 3);
    }

    /// Nodes stand still together for longer than anybody waits for them.
    fn stand_still(&self, nodes: &[usize]) {
        nodes.iter().for_each(|node| self.apart.stop(*node));
        std::thread::sleep(STILL);
        until("their leases end", || nodes.iter().all(|node| !self.is_member(*node)));
    }

    fn go_on(&self, nodes: &[usize]) {
        nodes.iter().for_each(|node| self.apart.go_on(*node));
        until("they are members again", || nodes.iter().all(|node| self.is_member(*node)));
    }
}

fn load(mapping: &SharedMapping, page: u64) -> Result<u64, Error> {
    let mut bytes = [0; 8];
    mapping.read(page * PAGE, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn store(mapping: &SharedMapping, page: u64, value: u64) {
    mapping.write(page * PAGE, &value.to_le_bytes()).unwrap();
}

fn get(pool: &Pool, page: u64) -> Result<u64, Error> {
    let mut bytes = [0; 8];
    pool.open("region")?.get(page * PAGE, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn is_loss(error: &Error) -> bool {
    matches!(error, Error::NodeLost { .. } | Error::PageLost { .. })
}

/// Does something that has to end soon.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(hanare_testkit::paced(SOON)).unwrap_or_else(|_| panic!("{what} takes longer than {SOON:?}"))
}

#[test]
fn what_an_owner_stored_is_at_the_home_that_is_back() {
    let scene = Scene::new(Apart::start(3), HOME);
    let (reader, writer) = (scene.map(READER).unwrap(), scene.map(WRITER).unwrap());
    scene.writer_owns(&reader, &writer, 0);
    assert_eq!(load(&reader, 1), Ok(0));
    scene.stand_still(&[HOME]);
    // What is here can be used meanwhile.
    assert_eq!(load(&writer, 0), Ok(3));
    store(&writer, 0, 4);
    assert!(load(&reader, 0).is_err_and(|told| is_loss(&told)));
    drop(reader);
    scene.go_on(&[HOME]);
    let reader = scene.map_when_back(READER);
    assert_eq!(load(&reader, 0), Ok(4), "the newest bytes");
    // The reader writes: whoever mapped it before the home was away does not go on with what was there then.
    store(&reader, 0, 5);
    store(&reader, 1, 5);
    for page in [0, 1] {
        match load(&writer, page) {
            Ok(seen) => assert_eq!(seen, 5),
            Err(told) => assert!(is_loss(&told), "{told}"),
        }
    }
    // All that it stored was taken home.
    assert_eq!(scene.pools[WRITER].check_stores(), Ok(()));
    writer.unmap().unwrap();
    assert_eq!(get(&scene.pools[WRITER], 0), Ok(5));
    let writer = scene.map(WRITER).unwrap();
    store(&writer, 0, 6);
    assert_eq!(load(&reader, 0), Ok(6));
}

#[test]
fn what_went_with_its_owner_is_lost_and_never_old() {
    let mut scene = Scene::new(Apart::start(3), HOME);
    let (reader, writer) = (scene.map(READER).unwrap(), scene.map(WRITER).unwrap());
    scene.writer_owns(&reader, &writer, 0);
    store(&reader, 1, 7);
    scene.apart.stop(HOME);
    scene.apart.kill(WRITER);
    std::thread::sleep(STILL);
    scene.go_on(&[HOME]);
    // Everybody is told, however it is read, and however often all have let go of it.
    let fresh = scene.apart.client(READER);
    for _ in 0..2 {
        let told = until_told(|| get(&fresh, 0));
        assert!(is_loss(&told), "{told}");
    }
    assert_eq!(get(&fresh, 1), Ok(7), "what others had was taken home");
    drop(reader);
    let reader = scene.map_when_back(READER);
    assert!(load(&reader, 0).is_err_and(|told| is_loss(&told)));
    assert_eq!(load(&reader, 1), Ok(7));
    store(&reader, 2, 8);
    drop(reader);
    assert_eq!(get(&fresh, 2), Ok(8));
    // What helps is another region in its place.
    fresh.remove("region").unwrap();
    let options = CreateOptions { placement: Placement::Node(NodeId(HOME as u32)), ..CreateOptions::default() };
    drop(fresh.create("region", PAGES * PAGE, &options).unwrap());
    assert_eq!(get(&fresh, 0), Ok(0));
}

/// What a read ends with that cannot succeed, once its home is back.
fn until_told(mut read: impl FnMut() -> Result<u64, Error>) -> Error {
    let mut told = None;
    until("a read is told that the page is lost", || {
        match read() {
            Ok(seen) => panic!("{seen} was read, and it is old"),
            Err(error @ Error::PageLost { .. }) => told = Some(error),
            Err(error) => assert!(is_loss(&error) || matches!(error, Error::GrantRefused { .. }), "{error}"),
        }
        told.is_some()
    });
    told.unwrap()
}

#[test]
fn an_owner_that_was_away_with_its_home_is_told() {
    let scene = Scene::new(Apart::start(3), HOME);
    let (reader, writer) = (scene.map(READER).unwrap(), scene.map(WRITER).unwrap());
    scene.writer_owns(&reader, &writer, 0);
    scene.stand_still(&[HOME, WRITER]);
    drop(reader);
    scene.go_on(&[HOME, WRITER]);
    let reader = scene.map_when_back(READER);
    match load(&reader, 0) {
        // It sent it home before it learned that it had been taken for lost itself.
        Ok(seen) => assert_eq!(seen, 3),
        Err(told) => {
            assert!(is_loss(&told), "{told}");
            assert!(writer.unmap().is_err_and(|told| is_loss(&told)), "its store is gone, and it is told");
        }
    }
}

#[test]
fn an_owner_that_was_taken_for_lost_cannot_unlock_flush_or_unmap_as_if_nothing_were_gone() {
    let scene = Scene::new(Apart::start(3), HOME);
    let (reader, writer) = (scene.map(READER).unwrap(), scene.map(WRITER).unwrap());
    let lock = scene.pools[WRITER].lock("one").unwrap();
    scene.writer_owns(&reader, &writer, 0);
    assert_eq!(scene.pools[WRITER].check_stores(), Ok(()));
    scene.stand_still(&[WRITER]);
    assert!(load(&reader, 0).is_err_and(|told| is_loss(&told)));
    scene.go_on(&[WRITER]);
    until("its program is told", || scene.pools[WRITER].check_stores().is_err());
    assert!(lock.unlock().is_err());
    let told = scene.pools[WRITER].flush().unwrap_err();
    assert!(is_loss(&told), "{told}");
    assert!(writer.flush(0, 8).is_err_and(|told| is_loss(&told)));
    assert!(scene.pools[WRITER].barrier().is_err_and(|told| is_loss(&told)));
    let group = scene.pools[WRITER].group("alone", 1).unwrap();
    assert!(group.barrier().is_err_and(|told| is_loss(&told)));
    assert!(writer.unmap().is_err_and(|told| is_loss(&told)));
    // With the mapping that is over.
    assert_eq!(scene.pools[WRITER].check_stores(), Ok(()));
    let writer = scene.map(WRITER).unwrap();
    store(&writer, 1, 8);
    assert_eq!(load(&reader, 1), Ok(8));
    writer.unmap().unwrap();
}

#[test]
fn an_owner_that_unmaps_while_the_home_is_away_is_told_and_so_are_readers() {
    let scene = Scene::new(Apart::start(3), HOME);
    let (reader, writer) = (scene.map(READER).unwrap(), scene.map(WRITER).unwrap());
    scene.writer_owns(&reader, &writer, 0);
    scene.stand_still(&[HOME]);
    let told = writer.unmap().unwrap_err();
    assert!(is_loss(&told), "{told}");
    // One that stored nothing has nothing to lose.
    reader.unmap().unwrap();
    scene.go_on(&[HOME]);
    let reader = scene.map_when_back(READER);
    let told = load(&reader, 0).unwrap_err();
    assert!(is_loss(&told), "{told}");
    assert_eq!(load(&reader, 1), Ok(0));
}

#[test]
fn a_host_that_its_home_could_not_reach_is_told_when_it_is_reached_again() {
    let (front, behind) = (TcpListener::bind("127.0.0.1:0").unwrap(), hanare_testkit::free_address());
    let mut apart = Apart::start(2);
    apart.add_behind(&behind.to_string(), &front.local_addr().unwrap().to_string());
    let relay = Relay::start(front, behind);
    let scene = Scene::new(apart, HOME);
    let (reader, writer) = (scene.map(READER).unwrap(), scene.map(WRITER).unwrap());
    scene.writer_owns(&reader, &writer, 0);
    assert_eq!(load(&writer, 1), Ok(0));
    relay.set(Mode::Dead);
    let told = load(&reader, 0).unwrap_err();
    assert!(is_loss(&told), "{told}");
    store(&reader, 1, 5);
    assert!(scene.is_member(WRITER), "the others know nothing of it");
    relay.set(Mode::Pass);
    until("its program is told", || scene.pools[WRITER].check_stores().is_err());
    match load(&writer, 1) {
        Ok(seen) => assert_eq!(seen, 5),
        Err(told) => assert!(is_loss(&told), "{told}"),
    }
    assert!(writer.unmap().is_err_and(|told| is_loss(&told)));
    let writer = scene.map_when_back(WRITER);
    assert_eq!(load(&writer, 1), Ok(5));
    assert!(load(&writer, 0).is_err_and(|told| is_loss(&told)));
}

#[test]
fn pages_of_the_coordinators_host_are_lost_soon_when_it_is_killed_and_started_again() {
    const READER: usize = 1;
    const HOME: usize = 2;
    for pause_ms in [0, 300] {
        let mut scene = Scene::new(Apart::start_kept(3), HOME);
        let (reader, writer) = (scene.map(READER).unwrap(), scene.map(0).unwrap());
        scene.writer_owns(&reader, &writer, 0);
        store(&reader, 1, 7);
        scene.apart.kill(0);
        std::thread::sleep(Duration::from_millis(pause_ms));
        scene.apart.start_again(0);
        let (told, other, reader) = soon("a read of what the killed node owned", move || {
            let told = load(&reader, 0);
            (told, load(&reader, 1), reader)
        });
        assert!(told.as_ref().is_err_and(is_loss), "{told:?}");
        assert_eq!(other, Ok(7));
        // A program of the next life takes part as any other.
        let fresh = scene.apart.client(0);
        let mut writer = None;
        until("the next life maps it", || {
            writer = fresh.open("region").and_then(|region| region.map(Consistency::Coherent)).ok();
            writer.is_some()
        });
        let writer = writer.unwrap();
        let told = load(&writer, 0).unwrap_err();
        assert!(is_loss(&told), "{told}");
        store(&writer, 1, 8);
        assert_eq!(load(&reader, 1), Ok(8));
        writer.unmap().unwrap();
        reader.unmap().unwrap();
        let read = soon("a get by a client of the home", {
            let pool = scene.apart.client(HOME);
            move || get(&pool, 1)
        });
        assert_eq!(read, Ok(8));
    }
}
