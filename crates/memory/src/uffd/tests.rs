//! Safety invariant of this module: the one process that is ended here has nothing left to do.

use super::peer::{Client, Peer, become_user, users};
use super::*;
use crate::file;
use std::os::unix::net::UnixStream;

const PAGES: u64 = 8;

/// What this kernel has; `None`, with the reason, where remote memory cannot be mapped.
fn features() -> Option<Features> {
    let probed = Features::probe().and_then(|features| features.check().map(|()| features));
    probed.map_err(hanare_testkit::unable).ok()
}

/// The kernel as it is, and as if it were Linux 6.1.
fn kernels() -> Vec<Features> {
    features().into_iter().flat_map(|features| [features, features & Features::LINUX_6_1]).collect()
}

fn file() -> OwnedFd {
    file::create("frames", PAGES * PAGE_LEN).unwrap()
}

fn fill(file: &OwnedFd, page: u64, byte: u8) {
    assert_eq!(rustix::io::pwrite(file, &[byte; PAGE_LEN as usize], page * PAGE_LEN).unwrap(), PAGE_LEN as usize);
}

fn punch(file: &OwnedFd, page: u64) {
    use rustix::fs::{FallocateFlags, fallocate};
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, page * PAGE_LEN, PAGE_LEN).unwrap();
}

fn client(file: &OwnedFd, features: Features) -> Client {
    Client::new(file.as_fd(), PAGES, features)
}

#[test]
fn what_this_kernel_has_is_found_by_trying() {
    let Some(features) = features() else { return };
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let version: Vec<u32> = release.split(['.', '-']).map_while(|number| number.parse().ok()).take(2).collect();
    // An older one may have a part that its makers brought back from a later one.
    for part in PARTS {
        assert!(
            features.contains(part.feature) || version < vec![part.since.0, part.since.1],
            "{} on Linux {release}",
            part.name
        );
    }
}

#[test]
fn a_kernel_that_lacks_what_is_needed_is_refused_by_name() {
    let error = (Features::all() - Features::PROTECT).check().unwrap_err().to_string();
    assert!(error.contains("write-protection of files") && error.contains("5.19") && error.contains("put and get"), "{error}");
    assert!(Features::LINUX_6_1.check().is_ok());
    assert_eq!(Features::of_linux((6, 1)), Features::LINUX_6_1);
    assert_eq!(Features::of_linux((6, 10)), Features::all());
    assert!(Features::of_linux((5, 18)).check().is_err());
    let lacking = Uffd::open(Features::all() - Features::CONTINUE);
    assert_eq!(lacking.unwrap_err(), Refused::Unsupported("CONTINUE"));
}

#[test]
fn what_was_not_asked_for_is_not_used() {
    let Some(features) = features() else { return };
    let file = file();
    fill(&file, 0, 1);
    let client = client(&file, features & Features::LINUX_6_1);
    let page = client.span.pages(0, 1);
    assert!(!client.uffd.registers_present());
    assert_eq!(client.uffd.map(page), Err(Refused::Unsupported("CONTINUE write-protected")));
    assert_eq!(client.uffd.map_protected(page), Err(Refused::Unsupported("CONTINUE write-protected")));
}

#[test]
// FEATURE: EU-F12 D2-F4
fn a_page_is_absent_then_read_then_written() {
    for features in kernels() {
        let file = file();
        let client = client(&file, features);
        let page = client.span.pages(3, 1);
        assert_eq!((client.read(3), client.write(3, 1)), (None, false), "{features:?}");
        fill(&file, 3, 7);
        if client.uffd.registers_present() {
            assert_eq!(client.read(3), None, "in the file, not mapped");
        }
        client.uffd.install(page, Access::Read).unwrap();
        assert_eq!((client.read(3), client.write(3, 8)), (Some(7), false), "{features:?}");
        client.uffd.install(page, Access::Write).unwrap();
        assert!(client.write(3, 8) && client.read(3) == Some(8));
        client.uffd.install(page, Access::Read).unwrap();
        assert!(client.write(3, 9), "what is mapped is left as it is");
        client.uffd.protect(page).unwrap();
        assert_eq!((client.read(3), client.write(3, 10)), (Some(9), false));
        punch(&file, 3);
        assert_eq!(client.read(3), None, "absent again, {features:?}");
        assert_eq!(client.read(4), None, "its neighbour is as it was");
    }
}

#[test]
fn a_page_that_is_not_in_the_file_cannot_be_mapped() {
    let Some(features) = features().filter(|features| features.contains(Features::CONTINUE_PROTECTED)) else { return };
    let file = file();
    let client = client(&file, features);
    fill(&file, 0, 1);
    fill(&file, 1, 1);
    assert_eq!(client.uffd.map_protected(client.span), Err(Refused::Absent));
    assert_eq!((client.read(0), client.read(1), client.read(2)), (Some(1), Some(1), None), "those before it are mapped");
    fill(&file, 2, 2);
    assert_eq!(client.uffd.map(client.span.pages(0, 3)), Ok(()), "what is mapped is passed over");
    assert_eq!((client.write(1, 5), client.write(2, 5)), (false, true));
}

/// Rule 2: without `map_protected` the protection of a page that was not mapped is lost.
#[test]
// FEATURE: EU-F13
fn a_protection_before_mapping_is_overridden_unless_mapped_protected() {
    let Some(features) = features().filter(|features| features.contains(Features::CONTINUE_PROTECTED)) else { return };
    let file = file();
    let client = client(&file, features);
    fill(&file, 0, 1);
    fill(&file, 1, 1);
    client.uffd.protect(client.span).unwrap();
    client.uffd.map(client.span.pages(0, 1)).unwrap();
    client.uffd.map_protected(client.span.pages(1, 1)).unwrap();
    assert!(client.write(0, 9), "the plain map lost the protection: this is why there is another");
    assert!(!client.write(1, 9));
}

/// Rule 1: what a thread maps that was not counted when the page was taken.
#[test]
// FEATURE: EU-F13
fn a_late_map_after_a_downgrade_makes_a_page_writable_or_shows_other_bytes() {
    let Some(features) = features().filter(|features| features.contains(Features::CONTINUE_PROTECTED)) else { return };
    let file = file();
    let client = client(&file, features);
    let page = client.span.pages(0, 1);
    fill(&file, 0, 1);
    // The node downgrades (protects all, leaves a copy) between the thread's look at the page and its map for writing.
    client.uffd.protect(page).unwrap();
    client.uffd.install(page, Access::Write).unwrap();
    assert!(client.write(0, 2), "a store that nobody will see: installers must be waited for");

    // The node takes the page and fills another version of it before the thread maps.
    client.uffd.protect(page).unwrap();
    punch(&file, 0);
    assert_eq!(client.uffd.install(page, Access::Read), Err(Refused::Absent), "as long as nothing is there, it is noticed");
    fill(&file, 0, 3);
    client.uffd.install(page, Access::Read).unwrap();
    assert_eq!(client.read(0), Some(3), "and then it is not: only the count of the page's word tells");
}

/// Rule 3: Linux 6.1 protects before it fills.
#[test]
// FEATURE: EU-F13
fn without_protected_maps_a_mark_made_before_filling_protects() {
    let Some(features) = features() else { return };
    let file = file();
    let client = client(&file, features & Features::LINUX_6_1);
    for round in 1..4 {
        fill(&file, 0, round);
        assert_eq!(
            (client.read(0), client.write(0, 9)),
            (Some(round), false),
            "protected since it was registered, round {round}"
        );
        client.uffd.install(client.span.pages(0, 1), Access::Write).unwrap();
        assert!(client.write(0, 10 + round));
        client.uffd.protect(client.span.pages(0, 1)).unwrap();
        assert_eq!((client.read(0), client.write(0, 9)), (Some(10 + round), false));
        punch(&file, 0);
        assert_eq!(client.read(0), None);
    }
    // A page whose mark was taken off and that is taken away before it was protected anew is mapped writable: the rule matters.
    client.uffd.install(client.span.pages(1, 1), Access::Write).unwrap();
    fill(&file, 1, 1);
    assert!(client.write(1, 2));
}

#[test]
fn a_range_that_is_not_registered_is_refused() {
    let Some(features) = features() else { return };
    let file = file();
    let mut client = client(&file, features);
    client.mapping = None;
    assert_eq!(client.uffd.protect(client.span), Err(Refused::Unregistered));
    // A descriptor from a peer that is no userfaultfd.
    let other = Uffd::adopt(file, features);
    assert!(matches!(other.protect(client.span), Err(Refused::System(_))));
    assert!(matches!(other.install(client.span, Access::Write), Err(Refused::System(_))));
}

#[test]
// FEATURE: EU-F13
fn a_node_maps_and_protects_in_another_process() {
    for features in kernels() {
        for user in users() {
            let file = file();
            let mut peer = Peer::new(file.as_fd(), PAGES, features, user);
            assert_eq!(peer.read(0), None);
            fill(&file, 0, 4);
            peer.uffd.install(peer.span.pages(0, 1), Access::Read).unwrap();
            assert_eq!((peer.read(0), peer.write(0, 5)), (Some(4), false), "{features:?} {user:?}");
            assert!(peer.install(0, Access::Write) && peer.write(0, 5));
            peer.uffd.protect(peer.span.pages(0, 1)).unwrap();
            assert!(!peer.write(0, 6));
            peer.uffd.unprotect(peer.span.pages(0, 1)).unwrap();
            assert!(peer.write(0, 6));
            let far = Span { start: peer.span.end() + (1 << 30), len: PAGE_LEN };
            assert_eq!(peer.uffd.protect(far), Err(Refused::Unregistered));
            peer.unmap();
            assert_eq!(peer.uffd.protect(peer.span), Err(Refused::Unregistered));
            peer.kill();
            assert_eq!(peer.uffd.protect(peer.span), Err(Refused::Ended));
        }
    }
}

/// What [`an_ordinary_user_has_the_same`] runs in a process that gave up being root.
#[test]
fn an_ordinary_user() {
    if super::peer::about().is_none() {
        return;
    }
    become_user(super::peer::ORDINARY_USER);
    what_this_kernel_has_is_found_by_trying();
    a_page_is_absent_then_read_then_written();
    a_late_map_after_a_downgrade_makes_a_page_writable_or_shows_other_bytes();
    without_protected_maps_a_mark_made_before_filling_protects();
    // SAFETY: the process has nothing left to do; the number says that it came here.
    unsafe { libc::_exit(super::peer::DONE) };
}

#[test]
fn an_ordinary_user_has_the_same() {
    if !rustix::process::geteuid().is_root() {
        return hanare_testkit::unable("the other tests ran as an ordinary user already");
    }
    let (_socket, theirs) = UnixStream::pair().unwrap();
    let status = super::peer::start("uffd::tests::an_ordinary_user", "", theirs).wait().unwrap();
    assert_eq!(status.code(), Some(super::peer::DONE), "{status}");
}

/// `UFFD_FEATURE_EVENT_REMOVE`: who takes memory out waits until somebody reads of it, and steps are refused meanwhile.
const EVENT_REMOVE: u64 = 1 << 3;

#[test]
fn a_descriptor_that_holds_steps_up_is_given_up_after_milliseconds() {
    let Some(features) = features() else { return };
    let mut mapping = Mapping::reserve(PAGES * PAGE_LEN).unwrap();
    let file = file();
    let part = hanare_protocol::wire::control::FilePart { offset: 0, len: PAGES * PAGE_LEN, map_len: PAGES * PAGE_LEN };
    mapping.map_file(0, file.as_fd(), part, hanare_protocol::id::Rights::Write).unwrap();
    let fd = descriptor().unwrap();
    let asked = features.asked() | EVENT_REMOVE;
    handshake(fd.as_fd(), &mut kernel::Api { api: kernel::API, features: asked, ioctls: 0 }).unwrap();
    let owner = Uffd { fd, features, patience: None, is_stuck: AtomicBool::new(false) };
    let span = Span::of(&mapping);
    // SAFETY: nobody makes references to the bytes.
    unsafe { owner.register(span) }.unwrap();
    let node = Uffd::adopt(owner.as_fd().try_clone_to_owned().unwrap(), features);
    std::thread::scope(|scope| {
        let (start, len) = (mapping.ptr() as usize, mapping.len());
        let removes = scope.spawn(move || {
            // SAFETY: pages of the mapping, which nobody has touched.
            unsafe { rustix::mm::madvise(start as *mut _, len, rustix::mm::Advice::LinuxDontNeed) }
        });
        while node.protect(span).is_ok() {
            std::thread::yield_now();
        }
        assert!(node.is_stuck());
        // Each would take its patience if it was tried.
        const COUNT: u32 = 1000;
        let begun = Instant::now();
        for _ in 0..COUNT {
            assert_eq!(node.protect(span), Err(Refused::System(Errno::AGAIN)));
        }
        assert!(begun.elapsed() < COUNT * FOREIGN_PATIENCE, "nothing more is tried");
        let mut event = [0; 32];
        assert_eq!(rustix::io::read(owner.as_fd(), &mut event), Ok(event.len()));
        removes.join().unwrap().unwrap();
    });
}
