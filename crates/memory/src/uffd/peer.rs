//! Another process of a test. It is this very program, run again for one test as a client that touches what it is told to.
//!
//! Safety invariant of this module: pages of the mapping are touched by system calls only, which fail where a touch would
//! fault.

use super::{Features, Span, Uffd};
use crate::Mapping;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::wire::control::FilePart;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// The user that a peer becomes where the test runs as root.
pub const ORDINARY_USER: u32 = 65534;

/// Exit code of a test's process that came to its end: a test that did not run ends with 0.
pub const DONE: i32 = 42;

/// Says that the program was started as a peer, as which user, and with which features.
const VARIABLE: &str = "HANARE_TEST_PEER";

/// The users that a test can have its peers be.
pub fn users() -> Vec<Option<u32>> {
    if rustix::process::geteuid().is_root() { vec![None, Some(ORDINARY_USER)] } else { vec![None] }
}

/// Starts this program again, for one test, with a socket as its standard input. `about` is what that test finds by [`about`].
pub fn start(test: &str, about: &str, socket: UnixStream) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, about)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Purpose of the process; `None` in an ordinary run of the tests.
pub fn about() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// A client in a process of its own, as a test's node sees it.
pub struct Peer {
    process: Child,
    socket: UnixStream,
    pub uffd: Uffd,
    pub span: Span,
}

impl Peer {
    /// A process that maps all of `file` and registers it with those features.
    pub fn new(file: BorrowedFd<'_>, pages: u64, features: Features, user: Option<u32>) -> Peer {
        let (mut socket, theirs) = UnixStream::pair().unwrap();
        let about = format!("{} {pages} {}", features.bits(), user.unwrap_or(u32::MAX));
        let process = start("uffd::peer::a_client", &about, theirs);
        send(&mut socket, 0, &[file]);
        let (start, mut files) = receive(&mut socket);
        let uffd = Uffd::adopt(files.remove(0), features);
        Peer { process, socket, uffd, span: Span { start, len: pages * PAGE_LEN } }
    }

    fn ask(&mut self, what: u8, page: u64, byte: u8) -> Option<u8> {
        self.socket.write_all(&[what, page as u8, byte]).unwrap();
        let mut answer = [0; 2];
        self.socket.read_exact(&mut answer).unwrap();
        (answer[0] == 1).then_some(answer[1])
    }

    /// The first byte of a page, `None` where reading it faults.
    pub fn read(&mut self, page: u64) -> Option<u8> {
        self.ask(b'r', page, 0)
    }

    /// True if the first byte of a page could be written.
    pub fn write(&mut self, page: u64, byte: u8) -> bool {
        self.ask(b'w', page, byte).is_some()
    }

    /// The client installs a page itself; whether it could.
    pub fn install(&mut self, page: u64, access: Access) -> bool {
        self.ask(if access == Access::Read { b'i' } else { b'I' }, page, 0).is_some()
    }

    /// The client unmaps everything, and lives on.
    pub fn unmap(&mut self) {
        self.ask(b'u', 0, 0);
    }

    /// The client is killed, and is gone when this returns.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client in this process: the mapping of a file, registered.
pub struct Client {
    pub mapping: Option<Mapping>,
    pub uffd: Uffd,
    pub span: Span,
    scratch: OwnedFd,
}

impl Client {
    pub fn new(file: BorrowedFd<'_>, pages: u64, features: Features) -> Client {
        let len = pages * PAGE_LEN;
        let mut mapping = Mapping::reserve(len).unwrap();
        mapping.map_file(0, file, FilePart { offset: 0, len, map_len: len }, Rights::Write).unwrap();
        let (uffd, span) = (Uffd::open(features).unwrap(), Span::of(&mapping));
        // SAFETY: the mapping is touched by system calls only.
        unsafe { uffd.register(span) }.unwrap();
        let scratch = crate::file::create("scratch", PAGE_LEN).unwrap();
        Client { mapping: Some(mapping), uffd, span, scratch }
    }

    fn at(&self, page: u64) -> *mut u8 {
        self.mapping.as_ref().unwrap().ptr().wrapping_add((page * PAGE_LEN) as usize)
    }

    /// The first byte of a page, `None` where reading it faults.
    pub fn read(&self, page: u64) -> Option<u8> {
        // SAFETY: the kernel reads one byte of the mapping, or says that it cannot.
        match unsafe { libc::pwrite(raw(&self.scratch), self.at(page).cast(), 1, 0) } {
            1 => {
                let mut byte = [0];
                rustix::io::pread(&self.scratch, &mut byte, 0).unwrap();
                Some(byte[0])
            }
            _ => {
                assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
                None
            }
        }
    }

    /// True if the first byte of a page could be written.
    pub fn write(&self, page: u64, byte: u8) -> bool {
        rustix::io::pwrite(&self.scratch, &[byte], 0).unwrap();
        // SAFETY: the kernel writes one byte of the mapping, or says that it cannot.
        let done = unsafe { libc::pread(raw(&self.scratch), self.at(page).cast(), 1, 0) };
        assert!(done == 1 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT));
        done == 1
    }
}

fn raw(file: &OwnedFd) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(file)
}

/// Not a test of its own: what a [`Peer`]'s process does.
#[test]
fn a_client() {
    let Some(about) = about() else { return };
    let numbers: Vec<u32> = about.split(' ').map(|number| number.parse().unwrap()).collect();
    if numbers[2] != u32::MAX {
        become_user(numbers[2]);
    }
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let (_, files) = receive(&mut socket);
    let mut client = Client::new(files[0].as_fd(), u64::from(numbers[1]), Features::from_bits_retain(numbers[0]));
    send(&mut socket, client.span.start, &[client.uffd.as_fd()]);
    let mut order = [0; 3];
    while socket.read_exact(&mut order).is_ok() {
        let page = u64::from(order[1]);
        let answer = match order[0] {
            b'r' => client.read(page),
            b'w' => client.write(page, order[2]).then_some(0),
            b'i' => client.uffd.install(client.span.pages(page, 1), Access::Read).ok().map(|()| 0),
            b'I' => client.uffd.install(client.span.pages(page, 1), Access::Write).ok().map(|()| 0),
            b'u' => client.mapping.take().map(|_| 0),
            other => panic!("order {other}"),
        };
        socket.write_all(&[u8::from(answer.is_some()), answer.unwrap_or(0)]).unwrap();
    }
}

/// Gives up being root for good; the process may still look at itself in /proc.
pub fn become_user(user: u32) {
    // SAFETY: plain calls; the C library changes all threads.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setresgid(user, user, user), 0);
        assert_eq!(libc::setresuid(user, user, user), 0);
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
}

/// Hands over descriptors with a number.
pub fn send(socket: &mut UnixStream, number: u64, files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
    let bytes = number.to_le_bytes();
    rustix::net::sendmsg(&*socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
}

/// Takes them.
pub fn receive(socket: &mut UnixStream) -> (u64, Vec<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 8];
    let received = rustix::net::recvmsg(&*socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    assert_eq!(received.unwrap().bytes, 8, "the peer answers");
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    (u64::from_le_bytes(bytes), files.flatten().collect())
}
