//! One descriptor for a link's event and for a time: what a layer that waits for both parks on.

use crate::link::{Link, LinkError};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The descriptor.
pub(super) struct Alarm {
    both: OwnedFd,
    timer: OwnedFd,
    /// What the link's event is watched for; `None` while it is not.
    watched: Option<EventFlags>,
    is_set: bool,
}

impl Alarm {
    /// An alarm beside `link`'s event, not set.
    pub(super) fn beside(link: &impl Link) -> Result<Alarm, LinkError> {
        let make = || {
            let both = epoll::create(CreateFlags::CLOEXEC)?;
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
            epoll::add(&both, &timer, EventData::new_u64(0), EventFlags::IN)?;
            epoll::add(&both, link.event(), EventData::new_u64(1), EventFlags::IN)?;
            Ok(Alarm { both, timer, watched: Some(EventFlags::IN), is_set: false })
        };
        make().map_err(system)
    }

    /// Watches the link for what it needs, as of now.
    pub(super) fn watch(&mut self, link: &impl Link) -> Result<(), LinkError> {
        let flags = if link.needs_write_event() { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let data = EventData::new_u64(1);
        match self.watched {
            Some(watched) if watched == flags => return Ok(()),
            Some(_) => epoll::modify(&self.both, link.event(), data, flags),
            None => epoll::add(&self.both, link.event(), data, flags),
        }
        .map_err(system)?;
        self.watched = Some(flags);
        Ok(())
    }

    /// Watches the link no more.
    pub(super) fn ignore(&mut self, link: &impl Link) -> Result<(), LinkError> {
        if self.watched.take().is_some() {
            epoll::delete(&self.both, link.event()).map_err(system)?;
        }
        Ok(())
    }

    /// Signals at `time`; a time that is over is signalled at once.
    pub(super) fn set(&mut self, time: Instant) -> Result<(), LinkError> {
        self.is_set = true;
        // Zero would mean never.
        self.settime(time.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)))
    }

    /// Does not signal, and has not.
    pub(super) fn clear(&mut self) -> Result<(), LinkError> {
        if std::mem::take(&mut self.is_set) { self.settime(Duration::ZERO) } else { Ok(()) }
    }

    fn settime(&self, after: Duration) -> Result<(), LinkError> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() };
        let spec = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec).map(drop).map_err(system)
    }

    /// Readable at the link's event and at the time.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}

#[cold]
fn system(errno: rustix::io::Errno) -> LinkError {
    LinkError::System { what: "a layer's alarm".into(), reason: errno.to_string() }
}
