//! A thread serves many connections, each in its turn.
//!
//! A turn takes a connection out of its slot, and puts it back. Meanwhile the thread holds no lock. So a turn that lasts holds up its own
//! connection alone: another thread takes over the slots, and the first leaves when its turn is over. `watch` sees to that.
//!
//! A socket tells each change once (edge-triggered). Events are noted at the connection's slot, also while it is out.

use crate::connection::{After, Buffers, Connection};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Events that are taken at once.
const EVENTS: usize = 128;

/// Time between two looks for clients that are late.
const LOOK: Duration = Duration::from_secs(1);

/// Turns between two such looks where no turn waits for events.
const TURNS: u64 = 64;

/// Events of a connection. The end of a read half is told with what comes before it.
const FLAGS: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Connections that one thread serves.
pub struct EventLoop {
    events: OwnedFd,
    slots: Mutex<Slots>,
    /// Number of the turn; 0 while the thread waits.
    turn: AtomicU64,
    count: AtomicUsize,
}

#[derive(Default)]
struct Slots {
    /// Number of the thread that serves. One of a lower number leaves.
    thread: u32,
    all: Vec<Slot>,
    free: Vec<u32>,
    /// Connections that may have something to do.
    ready: VecDeque<Token>,
    /// Turns until the next look for events: one for each connection that was ready at the last. None that is always ready keeps others out.
    round: usize,
    /// Next look for clients that are late.
    look: Option<Instant>,
}

/// A slot for a connection, and events that its next turn is to know of.
#[derive(Default)]
struct Slot {
    stamp: u32,
    connection: Option<Box<Connection>>,
    flags: EventFlags,
    is_ready: bool,
}

/// A slot, and which of its connections is meant: a socket's last events may come after the next connection has the slot.
#[derive(Clone, Copy)]
struct Token {
    index: u32,
    stamp: u32,
}

impl Token {
    fn data(self) -> EventData {
        EventData::new_u64(u64::from(self.stamp) << 32 | u64::from(self.index))
    }

    fn of(data: EventData) -> Token {
        Token { index: data.u64() as u32, stamp: (data.u64() >> 32) as u32 }
    }
}

/// A connection that is out of its slot.
struct Out {
    token: Token,
    connection: Box<Connection>,
}

/// A thread's next step.
enum Step {
    Turn(Out),
    Wait(Option<Duration>),
    Leave,
}

impl Slots {
    fn slot(&mut self, token: Token) -> Option<&mut Slot> {
        self.all.get_mut(token.index as usize).filter(|slot| slot.stamp == token.stamp)
    }

    /// Notes that a connection may have something to do.
    fn note(&mut self, token: Token, flags: EventFlags) {
        let Some(slot) = self.slot(token) else { return };
        slot.flags |= flags;
        // A connection that is out looks again when it comes back.
        if !std::mem::replace(&mut slot.is_ready, true) && slot.connection.is_some() {
            self.ready.push_back(token);
        }
    }

    /// Takes the next connection that may have something to do.
    fn take_ready(&mut self) -> Option<Out> {
        while let Some(token) = self.ready.pop_front() {
            let Some(slot) = self.slot(token) else { continue };
            let Some(mut connection) = slot.connection.take() else { continue };
            slot.is_ready = false;
            connection.hear(std::mem::replace(&mut slot.flags, EventFlags::empty()));
            return Some(Out { token, connection });
        }
        None
    }

    /// Puts a connection back.
    fn put_back(&mut self, Out { token, connection }: Out, after: After) {
        if connection.has_deadline() {
            self.look.get_or_insert_with(|| Instant::now() + LOOK);
        }
        let Some(slot) = self.slot(token) else { return };
        slot.connection = Some(connection);
        if slot.is_ready || after == After::GoesOn {
            slot.is_ready = true;
            self.ready.push_back(token);
        }
    }

    /// Gives a slot free for another connection.
    fn free(&mut self, token: Token) -> Option<Box<Connection>> {
        let slot = self.slot(token)?;
        let connection = slot.connection.take();
        *slot = Slot { stamp: token.stamp.wrapping_add(1), ..Slot::default() };
        self.free.push(token.index);
        connection
    }

    /// Takes out the clients that are late.
    fn take_late(&mut self, now: Instant) -> Vec<Connection> {
        let (mut late, mut any) = (Vec::new(), false);
        for (index, slot) in (0..).zip(&self.all) {
            let Some(connection) = &slot.connection else { continue };
            any |= connection.has_deadline();
            if connection.is_late(now) {
                late.push(Token { index, stamp: slot.stamp });
            }
        }
        self.look = any.then(|| now + LOOK);
        late.into_iter().filter_map(|token| self.free(token)).map(|late| *late).collect()
    }
}

/// Number of a thread's first turn. Turns of two threads have different numbers.
fn first_turn(thread: u32) -> u64 {
    u64::from(thread) << 32 | 1
}

impl EventLoop {
    /// A loop without connections and without a thread.
    pub fn new() -> io::Result<EventLoop> {
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(EventLoop { events, slots: Mutex::default(), turn: AtomicU64::new(0), count: AtomicUsize::new(0) })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of its connections.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Number of the turn that is under way; 0 while the thread waits.
    pub fn turn(&self) -> u64 {
        self.turn.load(Ordering::SeqCst)
    }

    /// Gives a connection a slot. The thread hears of it by its first event.
    pub fn add(&self, connection: Box<Connection>) -> io::Result<()> {
        let mut slots = self.slots();
        let index = match slots.free.pop() {
            Some(index) => index,
            None => {
                slots.all.push(Slot::default());
                slots.all.len() as u32 - 1
            }
        };
        let token = Token { index, stamp: slots.all[index as usize].stamp };
        if let Err(errno) = epoll::add(&self.events, &*connection, token.data(), FLAGS) {
            slots.free.push(index);
            return Err(errno.into());
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        slots.put_back(Out { token, connection }, After::Waits);
        Ok(())
    }

    /// Lets another thread serve, if that turn is still under way. `start` gets the thread's number.
    pub fn take_over(&self, turn: u64, start: impl FnOnce(u32) -> io::Result<()>) -> io::Result<bool> {
        let mut slots = self.slots();
        if self.turn() != turn {
            return Ok(false);
        }
        let thread = slots.thread + 1;
        start(thread)?;
        slots.thread = thread;
        // The last turn is not taken for one of the new thread, which may begin late.
        self.turn.store(first_turn(thread), Ordering::SeqCst);
        Ok(true)
    }

    /// Serves until another thread takes over. `wake` is called when a turn begins after a wait.
    pub fn serve(&self, thread: u32, wake: impl Fn()) {
        let (mut buffers, mut events) = (Buffers::default(), Vec::with_capacity(EVENTS));
        let mut turn = first_turn(thread);
        let mut done = None;
        loop {
            match self.next(thread, turn, done.take()) {
                Step::Leave => return,
                Step::Turn(mut out) => {
                    turn += 1;
                    self.turn.store(turn, Ordering::Relaxed);
                    let after = catch_unwind(AssertUnwindSafe(|| out.connection.turn(&mut buffers)));
                    // The panic's message is said. It ends this connection alone.
                    done = Some((out, after.unwrap_or(After::Ends)));
                }
                Step::Wait(time) => {
                    self.turn.store(0, Ordering::SeqCst);
                    self.wait(&mut events, time);
                    turn += 1;
                    self.turn.store(turn, Ordering::SeqCst);
                    wake();
                    self.note_all(thread, &mut events);
                }
            }
        }
    }

    /// Ends a turn, and begins the next.
    fn next(&self, thread: u32, turn: u64, done: Option<(Out, After)>) -> Step {
        let mut slots = self.slots();
        // Sockets close without the lock.
        let mut closing = Vec::new();
        match done {
            None => {}
            Some((out, After::Ends)) => {
                slots.free(out.token);
                self.count.fetch_sub(1, Ordering::Relaxed);
                closing.push(*out.connection);
            }
            Some((out, after)) => {
                let is_replaced = slots.thread != thread;
                if is_replaced {
                    self.tell_again(&out);
                }
                slots.put_back(out, after);
            }
        }
        if slots.thread != thread {
            return Step::Leave;
        }
        if let Some(look) = slots.look
            && (slots.ready.is_empty() || turn.is_multiple_of(TURNS))
        {
            let now = Instant::now();
            if now >= look {
                let late = slots.take_late(now);
                self.count.fetch_sub(late.len(), Ordering::Relaxed);
                closing.extend(late);
            }
        }
        if slots.round == 0 && !slots.ready.is_empty() {
            return Step::Wait(Some(Duration::ZERO));
        }
        slots.round = slots.round.saturating_sub(1);
        match slots.take_ready() {
            Some(out) => Step::Turn(out),
            None => Step::Wait(slots.look.map(|look| look.saturating_duration_since(Instant::now()))),
        }
    }

    /// Has the socket tell its state as a new event, for a thread that waits for one.
    fn tell_again(&self, out: &Out) {
        // A closed socket refuses, and has nothing to tell.
        let _ = epoll::modify(&self.events, &*out.connection, out.token.data(), FLAGS);
    }

    fn wait(&self, events: &mut Vec<Event>, time: Option<Duration>) {
        let time = time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        match epoll::wait(&self.events, spare_capacity(events), time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                tracing::error!("waiting for clients failed: {errno}");
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Notes events at their slots.
    fn note_all(&self, thread: u32, events: &mut Vec<Event>) {
        let mut slots = self.slots();
        let is_replaced = slots.thread != thread;
        for Event { flags, data, .. } in events.drain(..) {
            let token = Token::of(data);
            slots.note(token, flags);
            if is_replaced && let Some(connection) = slots.slot(token).and_then(|slot| slot.connection.as_ref()) {
                let _ = epoll::modify(&self.events, &**connection, token.data(), FLAGS);
            }
        }
        slots.round = slots.ready.len();
    }
}
