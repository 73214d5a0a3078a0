//! The link over UCX.
//!
//! Safety invariants of this module: requests of both halves end before the link says that it has ended, and before it is dropped. So
//! nothing uses their windows afterwards (`let_go`).

use super::Reason;
use super::cover::FrameCover;
use super::endpoint::{Endpoint, Outcome};
use super::life::{Life, Phase};
use super::receiver::Receiver;
use super::sender::Sender;
use crate::ending::{Ending, Steps};
use crate::link::{Link, LinkError, Progress, Sink};
use crate::tcp::Channel;
#[cfg(test)]
use crate::tcp::Socket;
use hanare_memory::Window;
use hanare_protocol::wire::head::Head;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time that a link that is dropped with everything sent waits for the last bytes to leave this process.
const FLUSH_TIME: Duration = Duration::from_secs(1);

/// Idle looks between two at the connection beside the link, for a thread that never parks. A look costs a system call.
const LIFE_INTERVAL: u32 = 1 << 12;

/// A [`Link`] over UCX: InfiniBand, RoCE and its other networks; else shared memory and TCP.
pub struct UcxLink {
    /// `None` once the link has ended.
    endpoint: Option<Endpoint>,
    sender: Sender,
    receiver: Receiver,
    /// The connection that both sides met on. It shows that the peer goes.
    beside: Channel,
    /// Watches the worker's event and the connection.
    event: OwnedFd,
    peer: String,
    life: Life,
    /// While the link is being made: a flush that is done when every way to the peer is there.
    reaching: Outcome,
    dozed: bool,
    has_more: bool,
    idle_count: u32,
    end: Option<LinkError>,
}

impl UcxLink {
    /// A link whose endpoint is connected; `ours` and `theirs` are the tokens of frames to us and to the peer.
    pub(super) fn new(
        endpoint: Endpoint,
        beside: Channel,
        peer: String,
        (ours, theirs): (u64, u64),
        cover: Option<FrameCover>,
    ) -> Result<UcxLink, Reason> {
        let watch = || {
            let event = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&event, &beside, EventData::new_u64(0), EventFlags::IN | EventFlags::RDHUP)?;
            Ok::<_, Errno>(event)
        };
        let failed = |errno: Errno| Reason(format!("watching for events: {errno}"));
        let event = watch().map_err(failed)?;
        epoll::add(&event, endpoint.event()?, EventData::new_u64(1), EventFlags::IN).map_err(failed)?;
        Ok(UcxLink {
            endpoint: Some(endpoint),
            sender: Sender::new(theirs, cover),
            receiver: Receiver::new(ours),
            beside,
            event,
            peer,
            life: Life::new(),
            reaching: Outcome::Done(0),
            dozed: false,
            has_more: false,
            idle_count: 0,
            end: None,
        })
    }

    /// Sends the peer a first frame, and begins to wait until every way to it is there.
    pub(super) fn reach_out(&mut self) -> Result<(), LinkError> {
        let endpoint = self.endpoint.as_mut().expect("a link that has just been made");
        let outcome = self.sender.send_reach(endpoint).map(|()| endpoint.begin_flush());
        outcome.map(|outcome| self.reaching = outcome).map_err(|ending| self.finish(ending))
    }

    /// True if the peer's first frame has come, and ours has left. For the first long frame UCX asks the other side something. While it
    /// makes connections both sides must look.
    pub(super) fn is_reached(&mut self) -> Result<bool, LinkError> {
        let endpoint = self.endpoint.as_mut().expect("a link that has just been made");
        let moved = endpoint.progress(Window::empty(), Window::empty()).map_err(Ending::from);
        let outcome = moved.and_then(|_| {
            if let Outcome::Pending(request) = std::mem::replace(&mut self.reaching, Outcome::Done(0)) {
                self.reaching = endpoint.poll(request);
            }
            match (&self.reaching, endpoint.arrivals().broken) {
                (Outcome::Failed(reason), _) => Err(Ending::Closed(format!("UCX does not reach it: {reason}"))),
                (_, Some(_)) => Err(Ending::Closed("UCX does not reach it".into())),
                (Outcome::Done(_), None) => Ok(self.sender.is_told(endpoint) && endpoint.arrivals().has_heard),
                (Outcome::Pending(_), None) => Ok(false),
            }
        });
        outcome.map_err(|ending| self.finish(ending))
    }

    /// The connection that both sides met on.
    pub(super) fn beside_mut(&mut self) -> &mut Channel {
        &mut self.beside
    }

    /// Parts of a raw peer.
    #[cfg(test)]
    pub(super) fn into_parts(mut self) -> (Endpoint, Channel, u64, Option<FrameCover>) {
        let endpoint = self.endpoint.take().expect("a live link");
        let again = std::net::TcpStream::from(self.beside.as_fd().try_clone_to_owned().expect("a descriptor"));
        let again = Channel::plain(Socket::new(again).expect("a live connection"));
        (endpoint, again, self.sender.token, self.sender.cover())
    }

    /// The transports of the endpoint, in UCX's words.
    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        self.endpoint.as_ref().map(Endpoint::describe).unwrap_or_default()
    }

    /// Checks that the peer lives: after a sleep, from time to time while idle, and whenever the link is not live.
    fn check_life(&mut self, is_idle: bool) -> Result<(), Ending> {
        self.idle_count = if is_idle { self.idle_count + 1 } else { 0 };
        let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
        let is_broken = endpoint.arrivals().broken.is_some();
        let is_live = self.life.phase() == Phase::Live;
        if is_live && !is_broken && !self.dozed && self.idle_count < LIFE_INTERVAL {
            return Ok(());
        }
        (self.dozed, self.idle_count) = (false, 0);
        let now = Instant::now();
        match said(&mut self.beside) {
            Said::Nothing => {}
            Said::Bye(frame_count) => self.life.on_bye(frame_count, now),
            Said::Gone(reason) => self.life.on_gone(&reason, now),
        }
        if is_broken {
            self.life.on_gone("its process ended, or the way to it broke", now);
        }
        self.life.on_look(endpoint.arrivals().next(), is_idle, self.receiver.is_held, now);
        match self.life.over() {
            None => Ok(()),
            Some(reason) => {
                let place = if self.receiver.inbox.is_whole() { "" } else { " in the middle of a message" };
                Err(Ending::Closed(format!("{reason}{place}")))
            }
        }
    }

    /// Ends everything that uses windows.
    fn let_go(&mut self) {
        if self.beside.ends_by_reset() {
            // The peer hears of the end before the time that closing the endpoint takes.
            let _ = rustix::net::shutdown(&self.beside, rustix::net::Shutdown::Both);
        }
        let Some(endpoint) = self.endpoint.take() else { return };
        // The worker's descriptor goes with it.
        if let Ok(event) = endpoint.event() {
            let _ = epoll::delete(&self.event, event);
        }
        let (from, to) = (self.sender.window(), self.receiver.window());
        let mut sends = self.sender.take_requests();
        if let Outcome::Pending(request) = std::mem::replace(&mut self.reaching, Outcome::Done(0)) {
            sends.push(request);
        }
        endpoint.abandon(sends, self.receiver.take_requests(), from, to);
    }

    fn push_now(&mut self) -> Result<(), LinkError> {
        let UcxLink { endpoint, sender, receiver, .. } = self;
        let Some(endpoint) = endpoint else { return Ok(()) };
        let ack = receiver.ack(endpoint);
        match sender.push(endpoint, ack, &mut Progress::default()) {
            Ok(has_more) => {
                self.has_more |= has_more;
                Ok(())
            }
            Err(ending) => settle_for(&mut self.life, ending).map_err(|ending| self.finish(ending)),
        }
    }
}

/// A connection that broke while sending is reported when nothing more arrives either.
fn settle_for(life: &mut Life, ending: Ending) -> Result<(), Ending> {
    match ending {
        Ending::Closed(reason) => {
            life.on_gone(&reason, Instant::now());
            Ok(())
        }
        other => Err(other),
    }
}

/// Words of the connection beside the link.
enum Said {
    Nothing,
    Bye(u64),
    Gone(String),
}

fn said(beside: &mut Channel) -> Said {
    let mut bytes = [0; 8];
    match beside.receive_slice(&mut bytes) {
        Ok(8) => Said::Bye(u64::from_le_bytes(bytes)),
        // Eight bytes sent at once on an idle connection come at once.
        Ok(_) => Said::Gone("its process ended".into()),
        Err(Errno::AGAIN | Errno::INTR) => Said::Nothing,
        Err(errno) => Said::Gone(errno.to_string()),
    }
}

impl Steps for UcxLink {
    fn step(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        let UcxLink { endpoint, sender, receiver, .. } = self;
        let Some(endpoint) = endpoint else { return Ok(()) };
        let count = endpoint.progress(sender.window(), receiver.window())?;
        sender.reap(endpoint, done).or_else(|ending| settle_for(&mut self.life, ending))?;
        if self.life.phase() == Phase::Live {
            let ack = receiver.ack(endpoint);
            self.has_more |= sender.push(endpoint, ack, done)?;
        }
        self.has_more |= receiver.pull(endpoint, sink, done)?;
        if endpoint.arrivals().has_failed {
            return Err(sender.failed("the peer could not receive it"));
        }
        if self.life.phase() == Phase::Live {
            // Taken frames are credit, and a failure is news.
            let ack = receiver.ack(endpoint);
            sender.tell(endpoint, ack)?;
        }
        self.check_life(count == 0 && done.is_idle())
    }

    fn has_more(&mut self) -> &mut bool {
        &mut self.has_more
    }

    fn check_open(&self) -> Result<(), LinkError> {
        match &self.end {
            None => Ok(()),
            Some(end) => Err(end.clone()),
        }
    }

    #[cold]
    fn finish(&mut self, ending: Ending) -> LinkError {
        self.let_go();
        self.sender.outbox.clear();
        // So the peer learns of the end, whatever it waits for.
        let _ = rustix::net::shutdown(&self.beside, rustix::net::Shutdown::Both);
        let end = ending.at(&self.peer);
        self.end = Some(end.clone());
        end
    }
}

impl Link for UcxLink {
    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        if self.life.phase() != Phase::Live {
            return Ok(());
        }
        let was_empty = self.sender.outbox.is_empty();
        self.sender.outbox.begin(head, body);
        // Earlier bytes still wait, so these would too: `progress` tries again.
        if was_empty { self.push_now() } else { Ok(()) }
    }

    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        if self.life.phase() != Phase::Live {
            return Ok(());
        }
        let was_empty = self.sender.outbox.is_empty();
        self.sender.outbox.extend(body);
        if was_empty { self.push_now() } else { Ok(()) }
    }

    fn unsent_len(&self) -> u64 {
        if self.end.is_some() { 0 } else { self.sender.unsent_len() }
    }

    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        self.progress_by_step(sink)
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn needs_write_event(&self) -> bool {
        // The worker's event comes for room too.
        false
    }

    fn doze(&mut self) -> bool {
        if self.has_more || self.end.is_some() || self.life.phase() != Phase::Live {
            return false;
        }
        let Some(endpoint) = &mut self.endpoint else { return false };
        let has_news = !self.receiver.is_held && endpoint.arrivals().ahead(0).is_some() && !self.receiver.waits(endpoint);
        if has_news {
            return false;
        }
        self.dozed = true;
        // After a failed arming looking again is all that is left; the error shows in calls that fail.
        endpoint.arm().unwrap_or(false)
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn life(&self) -> BorrowedFd<'_> {
        self.beside.as_fd()
    }
}

impl UcxLink {
    /// Vouches for the last body, and waits until all frames have left this process. Returns true if they have.
    fn leave(&mut self) -> bool {
        let UcxLink { endpoint: Some(endpoint), sender, receiver, .. } = self else { return false };
        let end = Instant::now() + FLUSH_TIME;
        let ack = receiver.ack(endpoint);
        loop {
            if sender.tell(endpoint, ack).is_err() || endpoint.progress(Window::empty(), receiver.window()).is_err() {
                return false;
            }
            if sender.is_told(endpoint) {
                // Over TCP a flush is answered by the peer, which may not look. What has left UCX's hands arrives all the same.
                endpoint.flush(Instant::now() + FLUSH_TIME / 10, receiver.window());
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
        }
    }
}

impl Drop for UcxLink {
    fn drop(&mut self) {
        // A side that could not send all its bytes does not say goodbye: the other side takes it for dead. A side that ends by reset says
        // none either, because its unanswered requests must not be carried out.
        if !self.beside.ends_by_reset() && self.life.phase() == Phase::Live && self.sender.outbox.is_empty() && self.leave() {
            let bye = self.sender.sent_count().to_le_bytes();
            let _ = self.beside.send_slices(&[IoSlice::new(&bye)]);
        }
        self.let_go();
    }
}
