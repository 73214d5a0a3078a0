//! The connection to the keeper, and how a child of fork gets one of its own.

use crate::lock::Lock;
use crate::{arena, hand, next, say};
use hanare_memory::uffd::Span;
use hanare_memory::uffd::pager::PagedMemory;
use hanare_protocol::limits::FREE_BLOCK_COUNT_MAX;
use hanare_protocol::wire::main_memory::{ANSWER_LEN, BLOCK_LEN, Call, REFUSED};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::ffi::CStr;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// The descriptor of the connection; -1 where there is none.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);
/// The keeper's name for this program.
static ID: AtomicU64 = AtomicU64::new(0);
/// The keeper's ticket for a fork that is going on, and its connection.
static TICKET: AtomicU64 = AtomicU64::new(0);
static TICKET_CONNECTION: AtomicI32 = AtomicI32::new(-1);

/// Lock of a talk. A fork holds it until parent and child are apart.
static TALK: Lock = Lock::new();

/// Connects and opens the arena, where a keeper is named.
pub fn begin() {
    if name().is_none() {
        return;
    }
    let Some((start, len)) = arena::reserve() else { return say(&["no addresses for large memory; it stays on this host"]) };
    match hello(start, len, None) {
        Ok(()) => {
            watch_forks();
            arena::open(len);
        }
        Err(reason) => say(&["large memory stays on this host: ", reason]),
    }
}

/// Registers the handlers of forks, once. Whoever registers others calls this before.
///
/// The first handlers registered run last before the kernel copies a program, and first after it. So no other handler waits for a
/// lock whose holder waits for this fork, and none in a child touches memory before the child has its pages.
pub fn watch_forks() {
    static HAS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if !HAS_REGISTERED.swap(true, Ordering::Relaxed) {
        // Without room for them, children of this program end at their first touch.
        let _ = next::register_atfork(Some(before_fork), Some(in_parent), Some(in_child), std::ptr::null_mut());
    }
}

fn name() -> Option<&'static [u8]> {
    // SAFETY: the name ends with a zero byte; nobody changes the variable while the program is loaded.
    let value = unsafe { libc::getenv(c"HANARE_MAIN_MEMORY".as_ptr()) };
    // SAFETY: as above.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
}

fn connect() -> Result<OwnedFd, &'static str> {
    let name = name().ok_or("no keeper is named")?;
    let address = SocketAddrUnix::new_abstract_name(name).map_err(|_| "the keeper's name is none")?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let socket = socket.map_err(|_| "no descriptor is left")?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => Ok(socket),
        Err(_) => Err("its keeper, hanare run, does not answer"),
    }
}

/// Has this program's arena paged; that of a child comes with its parent's pages.
fn hello(start: usize, len: usize, ticket: Option<u64>) -> Result<(), &'static str> {
    let connection = connect()?;
    let memory = PagedMemory::open().map_err(|_| "this user may not page memory; see vm.unprivileged_userfaultfd")?;
    let span = Span { start: start as u64, len: len as u64 };
    // SAFETY: the arena is private and anonymous; no page of it was touched, or the keeper knows it.
    unsafe { memory.register(span) }.map_err(|_| "its arena cannot be paged")?;
    let (own, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|_| "no descriptor is left")?;
    if let Some(ticket) = ticket {
        send(connection.as_fd(), Call::Child { ticket });
    }
    let call = Call::Hello { start: start as u64, len: len as u64 }.encode();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut files = SendAncillaryBuffer::new(&mut room);
    let fds = [memory.as_fd(), theirs.as_fd()];
    files.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(&connection, &[IoSlice::new(&call)], &mut files, SendFlags::NOSIGNAL).map_err(|_| "its keeper ended")?;
    hand::start(own.into_raw_fd()).ok_or("no thread is left")?;
    match receive(connection.as_fd()) {
        Some(id) if id != REFUSED => ID.store(id, Ordering::Relaxed),
        _ => return Err("its keeper, hanare run, refused"),
    }
    CONNECTION.store(connection.into_raw_fd(), Ordering::Relaxed);
    Ok(())
}

fn send(connection: BorrowedFd<'_>, call: Call) {
    // A dead keeper is noticed at the reply.
    let _ = rustix::net::send(connection, &call.encode(), SendFlags::NOSIGNAL);
}

fn receive(connection: BorrowedFd<'_>) -> Option<u64> {
    let mut bytes = [0; ANSWER_LEN];
    loop {
        match rustix::net::recv(connection, &mut bytes[..], RecvFlags::empty()) {
            Ok((ANSWER_LEN, _)) => return Some(u64::from_le_bytes(bytes)),
            Err(Errno::INTR) => {}
            _ => return None,
        }
    }
}

/// The connection. A program that closes all its descriptors has none: what it gives back stays in the pool until it ends.
fn connection() -> Option<BorrowedFd<'static>> {
    let fd = CONNECTION.load(Ordering::Relaxed);
    // SAFETY: it is closed by nobody but a child that has another, before it runs code of the program.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Asks the keeper, in a talk. Without a keeper nothing is refused: nothing of this program leaves it.
fn is_granted(call: Call) -> bool {
    let answer = connection().and_then(|connection| {
        send(connection, call);
        receive(connection)
    });
    answer != Some(REFUSED)
}

/// Reserves room in the pool for pages that may be written from here on. `false` where there is none, and nothing changed.
///
/// **Cost**: a message there and back, where a block of them has no room yet.
pub fn reserve(range: Range<usize>) -> bool {
    let blocks = arena::unreserved(range.clone());
    if blocks == 0 {
        return true;
    }
    if !TALK.with(|| is_granted(Call::Reserve { blocks })) {
        return false;
    }
    // Another thread may have had some of the blocks reserved meanwhile.
    give_back(blocks.saturating_sub(arena::note_reserved(range)));
    true
}

/// Gives the room of pages back that nobody will write.
pub fn unreserve(range: Range<usize>) {
    give_back(arena::note_returned(range));
}

fn give_back(blocks: u64) {
    if blocks > 0 {
        TALK.with(|| connection().into_iter().for_each(|connection| send(connection, Call::Return { blocks })));
    }
}

/// Reserves room for a child's copy of this program's memory, for the fork that follows. `false` where the pool has none.
pub fn may_fork() -> bool {
    TALK.with(|| is_granted(Call::MayFork))
}

/// Makes whole pages of the arena zero.
pub fn free(start: usize, len: usize) {
    let most = (FREE_BLOCK_COUNT_MAX * BLOCK_LEN) as usize - BLOCK_LEN as usize;
    for at in (start..start + len).step_by(most) {
        let len = most.min(start + len - at);
        TALK.with(|| {
            let answered = connection().and_then(|connection| {
                send(connection, Call::Free { start: at as u64, len: len as u64 });
                receive(connection).map(|_| connection)
            });
            match answered {
                Some(connection) => {
                    hand::zap(at, len);
                    send(connection, Call::Freed);
                }
                // SAFETY: pages of the arena, which whoever frees them owns: without a keeper they are made zero one by one.
                None => unsafe { std::ptr::write_bytes(at as *mut u8, 0, len) },
            }
        });
    }
}

/// Runs in the parent, after all other handlers and before the kernel copies it.
extern "C" fn before_fork() {
    TALK.take();
    arena::LOCK.take();
    let ticket = connection().and_then(|_| {
        let further = connect().ok()?;
        send(further.as_fd(), Call::Fork { parent: ID.load(Ordering::Relaxed) });
        let ticket = receive(further.as_fd()).filter(|ticket| *ticket != REFUSED)?;
        TICKET_CONNECTION.store(further.into_raw_fd(), Ordering::Relaxed);
        Some(ticket)
    });
    TICKET.store(ticket.unwrap_or(REFUSED), Ordering::Relaxed);
    if ticket.is_some() {
        let (start, len) = arena::range();
        // SAFETY: our own range.
        let _ = unsafe { rustix::mm::madvise(start as *mut _, len, rustix::mm::Advice::LinuxDoFork) };
    }
}

fn close(fd: i32) {
    if fd >= 0 {
        // SAFETY: a descriptor of this module, which forgets it with this.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

extern "C" fn in_parent() {
    let (start, len) = arena::range();
    arena::forbid_children(start, len);
    if let Some(connection) = connection().filter(|_| TICKET.load(Ordering::Relaxed) != REFUSED) {
        send(connection, Call::Forked);
    }
    close(TICKET_CONNECTION.swap(-1, Ordering::Relaxed));
    arena::LOCK.open();
    TALK.open();
}

/// Runs in the child, before any other handler and any code of the program.
extern "C" fn in_child() {
    close(CONNECTION.swap(-1, Ordering::Relaxed));
    let (start, len) = arena::range();
    let ticket = TICKET.load(Ordering::Relaxed);
    if ticket != REFUSED {
        if let Err(reason) = hello(start, len, Some(ticket)) {
            say(&["a child of fork cannot have its memory: ", reason]);
            // SAFETY: the child ends before it can read zeros where its parent has bytes.
            unsafe { libc::_exit(127) };
        }
        arena::forbid_children(start, len);
    }
    close(TICKET_CONNECTION.swap(-1, Ordering::Relaxed));
    arena::LOCK.open();
    TALK.open();
}
