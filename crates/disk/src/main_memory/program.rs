//! The connection of one program to its keeper: what it says, and the threads that resolve its touches.

use super::space::{ProgramSpace, Reach, Snapshot, buffer};
use super::{Shared, THREADS, processors, spawn};
use hanare_memory::prompt::shorten_turns;
use hanare_memory::uffd::Span;
use hanare_memory::uffd::pager::Pager;
use hanare_protocol::limits::{ARENA_LEN_MAX, FREE_BLOCK_COUNT_MAX, PAGE_LEN};
use hanare_protocol::wire::main_memory::{BLOCK_LEN, CALL_LEN, Call, REFUSED};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::collections::HashMap;
use std::io::{IoSliceMut, PipeReader, pipe};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between looks whether a program that closed its connection is gone: some close all descriptors and go on.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// Listener for programs.
pub struct Listener {
    name: String,
    socket: OwnedFd,
}

/// Shared state of connections.
struct SharedConnections {
    shared: Arc<Shared>,
    programs: Mutex<HashMap<u64, Arc<ProgramSpace>>>,
    tickets: Mutex<HashMap<u64, Snapshot>>,
    last: AtomicU64,
}

impl SharedConnections {
    fn programs(&self) -> MutexGuard<'_, HashMap<u64, Arc<ProgramSpace>>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tickets(&self) -> MutexGuard<'_, HashMap<u64, Snapshot>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Listens at a name that is drawn.
    pub fn start(shared: &Arc<Shared>) -> Result<Listener, Errno> {
        let mut drawn = [0; 8];
        rustix::rand::getrandom(&mut drawn, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("hanare-memory-{:016x}", u64::from_le_bytes(drawn));
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        rustix::net::listen(&socket, 64)?;
        let door = Arc::new(SharedConnections {
            shared: shared.clone(),
            programs: Mutex::default(),
            tickets: Mutex::default(),
            last: AtomicU64::new(0),
        });
        let own = rustix::io::fcntl_dupfd_cloexec(&socket, 0)?;
        let accept = move || {
            loop {
                match rustix::net::accept_with(&own, SocketFlags::CLOEXEC) {
                    Ok(connection) => {
                        let door = door.clone();
                        // The end of the connection tells the program that there is no thread for it.
                        let _ = spawn("program", move || {
                            converse(&door, &connection);
                        });
                    }
                    Err(Errno::INTR | Errno::CONNABORTED) => {}
                    // Descriptors or memory are short for now: the programs wait.
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => std::thread::sleep(LOOK_AFTER),
                    Err(_) => return,
                }
            }
        };
        spawn("programs", accept).map_err(|_| Errno::AGAIN)?;
        Ok(Listener { name, socket })
    }

    /// The name, in the abstract.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes nobody more.
    pub fn end(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// Hears a program until it ends. `None` where it says what cannot be.
fn converse(door: &SharedConnections, connection: &OwnedFd) -> Option<()> {
    let peer = rustix::net::sockopt::socket_peercred(connection).ok()?;
    if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
        return None;
    }
    let (mut call, mut files) = receive(connection)?;
    let mut inherited = None;
    match call {
        Call::Fork { parent } => return sell(door, connection, parent),
        Call::Child { ticket } => {
            inherited = Some(door.tickets().remove(&ticket)?);
            (call, files) = receive(connection)?;
        }
        _ => {}
    }
    let Call::Hello { start, len } = call else { return None };
    let [uffd, hand] = <[OwnedFd; 2]>::try_from(files).ok()?;
    let is_sound = start % BLOCK_LEN == 0 && len % BLOCK_LEN == 0 && len <= ARENA_LEN_MAX && start.checked_add(len).is_some();
    let process = peer.pid.as_raw_nonzero().get() as u32;
    let pager = Pager::adopt(uffd, process).ok().filter(|_| is_sound);
    let Some(pager) = pager else {
        answer(connection, REFUSED);
        return None;
    };
    let (stopped, stop) = pipe().ok()?;
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned();
    let space = ProgramSpace::new(&door.shared, Reach { pager, hand, arena: Span { start, len }, process, name }, inherited);
    let id = door.last.fetch_add(1, Ordering::Relaxed) + 1;
    door.programs().insert(id, space.clone());
    door.shared.spaces().push(space.clone());
    let has_threads = resolve(&door.shared, &space, &stopped);
    answer(connection, if has_threads.is_some() { id } else { REFUSED });
    while let Some((call, _)) = receive(connection) {
        if hear(&space, connection, call).is_none() {
            break;
        }
    }
    let _ = rustix::net::shutdown(connection, rustix::net::Shutdown::Both);
    while space.reach().pager.is_alive() {
        std::thread::sleep(LOOK_AFTER);
    }
    space.end();
    drop(stop);
    door.programs().remove(&id);
    door.shared.spaces().retain(|other| !Arc::ptr_eq(other, &space));
    Some(())
}

fn hear(space: &ProgramSpace, connection: &OwnedFd, call: Call) -> Option<()> {
    match call {
        Call::Free { start, len } => {
            if start % PAGE_LEN != 0 || len % PAGE_LEN != 0 || len > FREE_BLOCK_COUNT_MAX * BLOCK_LEN {
                return None;
            }
            space.free(start, len, || {
                answer(connection, 0);
                matches!(receive(connection), Some((Call::Freed, _))).then_some(())
            })
        }
        Call::Forked => {
            space.thaw();
            Some(())
        }
        Call::Reserve { blocks } => {
            answer(connection, if space.reserve(blocks) { 0 } else { REFUSED });
            Some(())
        }
        Call::Return { blocks } => {
            space.give_back(blocks);
            Some(())
        }
        Call::MayFork => {
            answer(connection, if space.may_fork() { 0 } else { REFUSED });
            Some(())
        }
        _ => None,
    }
}

/// Stops a program that is about to fork, and keeps what the child will have until the child comes, or cannot come any more.
fn sell(door: &SharedConnections, connection: &OwnedFd, parent: u64) -> Option<()> {
    let parent = door.programs().get(&parent).cloned()?;
    let Some(room) = parent.room_of_child() else {
        answer(connection, REFUSED);
        return None;
    };
    let snapshot = parent.freeze(room)?;
    let ticket = door.last.fetch_add(1, Ordering::Relaxed) + 1;
    door.tickets().insert(ticket, snapshot);
    answer(connection, ticket);
    while receive(connection).is_some() {}
    door.tickets().remove(&ticket);
    Some(())
}

/// Starts the threads that resolve a program's touches, until `stopped` has nobody who writes.
fn resolve(shared: &Arc<Shared>, space: &Arc<ProgramSpace>, stopped: &PipeReader) -> Option<()> {
    let processors = processors();
    for number in 0..shared.lanes.len() - 1 {
        let (shared, space, stopped) = (shared.clone(), space.clone(), stopped.try_clone().ok()?);
        let work = move || {
            if processors <= THREADS {
                let mut set = rustix::thread::CpuSet::new();
                set.set(number);
                // Without that it works, too.
                let _ = rustix::thread::sched_setaffinity(None, &set);
            }
            shorten_turns(0);
            let (mut buffer, lane) = (buffer(1), &shared.lanes[number]);
            loop {
                let pager = &space.reach().pager;
                let mut both = [PollFd::new(pager, PollFlags::IN), PollFd::new(&stopped, PollFlags::empty())];
                let _ = poll(&mut both, None);
                if !both[1].revents().is_empty() {
                    return;
                }
                while let Some(touch) = pager.next() {
                    space.on_touch(touch, lane, &mut buffer);
                }
            }
        };
        spawn("touches", work).ok()?;
    }
    Some(())
}

/// The next call and what came with it. `None` when the connection is over, or says what is no call.
fn receive(connection: &OwnedFd) -> Option<(Call, Vec<OwnedFd>)> {
    let mut bytes = [0; CALL_LEN + 1];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let received = loop {
        match rustix::net::recvmsg(connection, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other.ok()?.bytes,
        }
    };
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    Some((Call::decode(&bytes[..received]).ok()?, files))
}

/// Answers; who is gone needs none.
fn answer(connection: &OwnedFd, value: u64) {
    let _ = rustix::net::send(connection, &value.to_le_bytes(), SendFlags::NOSIGNAL);
}
