//! Safety invariant of this module: service mappings outlive the windows that are made of them.

use super::*;
use crate::uffd::Features;
use crate::uffd::peer::{self, Client, DONE, Peer, users};
use hanare_protocol::page::Access;
use proptest::prelude::*;

const PAGES: u64 = 64;

fn kernels() -> Vec<Features> {
    match Features::probe().and_then(|features| features.check().map(|()| features)) {
        Ok(features) => vec![features, features & Features::LINUX_6_1],
        Err(error) => {
            hanare_testkit::unable(error);
            Vec::new()
        }
    }
}

fn frames() -> Frames {
    Frames::new("frames", PAGES).unwrap()
}

fn bytes(byte: u8, count: u64) -> Vec<u8> {
    vec![byte; (count * PAGE_LEN) as usize]
}

fn fill(frames: &Frames, page: u64, byte: u8) {
    frames.fill(Run::one(page), &bytes(byte, 1)).unwrap();
}

fn first(frames: &Frames, page: u64) -> u8 {
    frames.read_page(page).unwrap()[0]
}

fn nobody(index: usize, refused: Refused) {
    panic!("client {index}: {refused}");
}

/// A client that lives in another process, and how the node reaches its mapping.
fn peer(frames: &Frames, features: Features, user: Option<u32>) -> (Peer, ClientFrames) {
    let peer = Peer::new(frames.as_fd(), PAGES, features, user);
    let fd = peer.uffd.as_fd().try_clone_to_owned().unwrap();
    let client = ClientFrames { uffd: Uffd::adopt(fd, features), span: peer.span };
    (peer, client)
}

#[test]
fn frames_are_filled_read_and_given_back() {
    let frames = frames();
    assert_eq!(frames.present_count().unwrap(), 0);
    frames.fill(Run { first: 3, count: 4 }, &bytes(7, 4)).unwrap();
    fill(&frames, 9, 8);
    assert_eq!(frames.present_count().unwrap(), 5);
    frames.punch(Run { first: 4, count: 2 }).unwrap();
    let present: Vec<u8> = (2..8).map(|page| first(&frames, page)).collect();
    assert_eq!(present, [0, 7, 0, 0, 7, 0]);
    assert_eq!(frames.present_count().unwrap(), 3, "reading planted nothing");
    let other = Frames::adopt(frames.as_fd().try_clone_to_owned().unwrap(), PAGES).unwrap();
    assert_eq!(first(&other, 9), 8);
    assert!(Frames::adopt(frames.as_fd().try_clone_to_owned().unwrap(), PAGES + 1).is_err());
    assert!(Frames::new("frames", u64::MAX).is_err());
}

#[test]
fn a_service_mapping_receives_into_populated_frames() {
    let frames = frames();
    let service = frames.service().unwrap();
    let run = Run { first: 5, count: 3 };
    service.populate(run).unwrap();
    assert_eq!(frames.present_count().unwrap(), 3);
    // SAFETY: the mapping lives to the end of the test.
    unsafe { service.window(run) }.write_from(&bytes(4, 3)).unwrap();
    assert_eq!((first(&frames, 4), first(&frames, 5), first(&frames, 7)), (0, 4, 4));
}

/// Why nobody touches a frame through a service mapping without holding its page.
#[test]
fn a_stray_read_of_a_punched_page_plants_zeros() {
    for features in kernels().into_iter().filter(|features| features.contains(Features::CONTINUE_PROTECTED)) {
        let frames = frames();
        let client = Client::new(frames.as_fd(), PAGES, features);
        fill(&frames, 0, 1);
        frames.punch(Run::one(0)).unwrap();
        frames.read_page(0).unwrap();
        assert_eq!(
            client.uffd.install(client.span.pages(0, 1), Access::Read),
            Err(Refused::Absent),
            "a read of the file is harmless"
        );
        let service = frames.service().unwrap();
        // SAFETY: the mapping lives to the end of the round.
        unsafe { service.window(Run::one(0)) }.read_into(&mut [0; PAGE_LEN as usize]).unwrap();
        assert_eq!(client.uffd.install(client.span.pages(0, 1), Access::Read), Ok(()), "a late thread is not stopped");
        assert_eq!(client.read(0), Some(0), "and sees zeros that nobody wrote");
    }
}

/// Where the kernel maps what is in the file, a thread may map a page between the two looks of its punch at who has it mapped. The second
/// look forgets that it was protected.
#[test]
fn a_page_that_is_touched_while_it_is_punched_is_protected_when_it_comes_back() {
    if peer::about().is_none() {
        // In a process of its own. It changes mappings all the time, and other tests of this one would wait for that.
        let test = "frames::tests::a_page_that_is_touched_while_it_is_punched_is_protected_when_it_comes_back";
        let (_ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let ended = peer::start(test, "alone", theirs).wait().unwrap();
        return assert_eq!(ended.code(), Some(DONE), "its own output says why");
    }
    for features in kernels().into_iter().filter(|features| !features.contains(Features::CONTINUE_PROTECTED)) {
        let frames = frames();
        let client = Client::new(frames.as_fd(), PAGES, features);
        let fd = client.uffd.as_fd().try_clone_to_owned().unwrap();
        let known = [ClientFrames { uffd: Uffd::adopt(fd, features), span: client.span }];
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::SeqCst;
        let mut unprotected = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(order) {
                    client.read(0);
                }
            });
            for _ in 0..60_000 {
                fill(&frames, 0, 1);
                frames.take(Run::one(0), &known, None, Stays::Nothing, nobody).unwrap();
                fill(&frames, 0, 2);
                unprotected += u32::from(client.write(0, 3));
                frames.take(Run::one(0), &known, None, Stays::Nothing, nobody).unwrap();
            }
            is_over.store(true, order);
        });
        assert_eq!(unprotected, 0, "{features:?}: stores that nobody hears of");
    }
    std::process::exit(DONE);
}

#[test]
// FEATURE: EU-F13
fn taking_a_page_takes_it_from_all_clients_with_its_bytes() {
    for features in kernels() {
        for user in users() {
            let frames = frames();
            let (mut peers, clients): (Vec<_>, Vec<_>) = (0..2).map(|_| peer(&frames, features, user)).unzip();
            frames.fill(Run { first: 1, count: 3 }, &bytes(1, 3)).unwrap();
            for peer in &mut peers {
                assert!((1..4).all(|page| peer.install(page, Access::Write)));
            }
            assert!(peers[0].write(2, 5) && peers[1].read(2) == Some(5), "one frame for both");

            let mut taken = bytes(0xee, 3);
            frames.take(Run { first: 1, count: 3 }, &clients, Some(&mut taken), Stays::Copy, nobody).unwrap();
            let heads: Vec<u8> = taken.chunks(PAGE_LEN as usize).map(|page| page[0]).collect();
            assert_eq!(heads, [1, 5, 1]);
            for peer in &mut peers {
                assert_eq!((peer.read(2), peer.write(2, 6), peer.write(1, 6)), (Some(5), false, false), "{features:?} {user:?}");
            }

            assert!(peers[1].install(2, Access::Write) && peers[1].write(2, 7));
            let mut taken = bytes(0xee, 1);
            frames.take(Run::one(2), &clients, Some(&mut taken), Stays::Nothing, nobody).unwrap();
            assert_eq!(taken[0], 7);
            for peer in &mut peers {
                assert_eq!((peer.read(2), peer.read(3)), (None, Some(1)));
            }
            assert!(peers[0].install(3, Access::Write));
            frames.take(Run::one(3), &clients, None, Stays::Nothing, nobody).unwrap();
            assert_eq!((peers[0].read(3), peers[1].read(3)), (None, None), "an invalidation reads nothing");
            fill(&frames, 3, 8);
            assert!(peers[0].install(3, Access::Read) && !peers[0].write(3, 9), "it comes back to be read, {features:?}");
            frames.punch(Run::one(3)).unwrap();
            assert_eq!(frames.present_count().unwrap(), 1);
        }
    }
}

/// Why all clients are protected before the bytes are read.
#[test]
fn a_store_after_the_read_is_lost_unless_protected_first() {
    for features in kernels() {
        let frames = frames();
        let (mut peer, client) = peer(&frames, features, None);
        let clients = [client];
        fill(&frames, 0, 1);
        assert!(peer.install(0, Access::Write));
        let sent = first(&frames, 0);
        assert!(peer.write(0, 2), "nothing stops the store");
        frames.punch(Run::one(0)).unwrap();
        assert_eq!(sent, 1, "the store is in no byte that was sent, nor in the file");

        fill(&frames, 0, 1);
        assert!(peer.install(0, Access::Write));
        frames.protect(Run::one(0), &clients, nobody);
        let sent = first(&frames, 0);
        assert!(!peer.write(0, 2), "the store waits, and is made to the page when it comes back");
        assert_eq!(sent, 1);
    }
}

#[test]
fn a_page_punched_before_it_is_read_is_zeros() {
    let frames = frames();
    fill(&frames, 0, 9);
    frames.punch(Run::one(0)).unwrap();
    assert_eq!(first(&frames, 0), 0);
    fill(&frames, 0, 9);
    let mut taken = bytes(0, 1);
    frames.take(Run::one(0), &[], Some(&mut taken), Stays::Nothing, nobody).unwrap();
    assert_eq!((taken[0], frames.present_count().unwrap()), (9, 0));
}

#[test]
fn a_client_that_ended_or_unmapped_is_named_and_stops_nobody() {
    for features in kernels() {
        let frames = frames();
        let (mut peers, clients): (Vec<_>, Vec<_>) = (0..3).map(|_| peer(&frames, features, None)).unzip();
        fill(&frames, 0, 3);
        assert!(peers.iter_mut().all(|peer| peer.install(0, Access::Write)));
        peers[0].kill();
        peers[1].unmap();
        let mut refused = Vec::new();
        let mut taken = bytes(0, 1);
        frames.take(Run::one(0), &clients, Some(&mut taken), Stays::Copy, |index, why| refused.push((index, why))).unwrap();
        assert_eq!(refused, [(0, Refused::Ended), (1, Refused::Unregistered)]);
        assert_eq!((taken[0], peers[2].write(0, 1), peers[2].read(0)), (3, false, Some(3)));
    }
}

#[test]
fn a_limit_is_kept_by_evicting_in_batches() {
    let frames = frames();
    let mut here = Vec::new();
    for page in 0..PAGES {
        if here.len() == 16 {
            let victims: Vec<u64> = here.drain(..8).collect();
            runs_of(&victims).for_each(|run| frames.take(run, &[], None, Stays::Nothing, nobody).unwrap());
        }
        here.push(page);
        fill(&frames, page, 1);
        assert_eq!(frames.present_count().unwrap(), here.len() as u64);
    }
}

proptest! {
    #[test]
    fn runs_name_each_page_once(mut pages in prop::collection::vec(0..40u64, 0..30)) {
        pages.sort_unstable();
        let runs: Vec<Run> = runs_of(&pages).collect();
        let named: Vec<u64> = runs.iter().flat_map(|run| run.first..run.first + run.count).collect();
        prop_assert!(runs.windows(2).all(|two| two[0].first + two[0].count < two[1].first));
        pages.dedup();
        prop_assert_eq!(named, pages);
    }
}
