//! Reasons for the end of a link, still without the peer's name.

use crate::link::{LinkError, Progress, Sink};
use hanare_memory::Lost;
use hanare_protocol::wire::Malformed;

/// Report of a link's part; [`Ending::at`] makes it the error that users see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The peer is gone.
    Closed(String),
    /// The peer sent nonsense.
    Garbage(String),
    /// The system refused.
    System { what: &'static str, reason: String },
}

impl Ending {
    /// The error, with the peer's name.
    #[cold]
    pub(crate) fn at(self, peer: &str) -> LinkError {
        let peer = peer.to_owned();
        match self {
            Ending::Closed(reason) => LinkError::Closed { peer, reason },
            Ending::Garbage(reason) => LinkError::Garbage { peer, reason },
            Ending::System { what, reason } => LinkError::System { what: format!("{what} ({peer})"), reason },
        }
    }

    /// A system call failed. Resets and broken pipes are the peer's going; a bad address is a window that went away.
    #[cold]
    pub(crate) fn of_call(what: &'static str, error: &std::io::Error) -> Ending {
        match error.raw_os_error() {
            Some(
                libc::ECONNRESET
                | libc::ECONNABORTED
                | libc::EPIPE
                | libc::ETIMEDOUT
                | libc::ENOTCONN
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH,
            ) => Ending::Closed(error.to_string()),
            Some(libc::EBADMSG) => {
                Ending::Garbage("a sealed record does not open: it was changed on the way, or is not the next one".into())
            }
            Some(libc::EFAULT) => Ending::System { what, reason: "the memory of a body is gone".into() },
            _ => Ending::System { what, reason: error.to_string() },
        }
    }
}

/// A link that moves by steps, one of which may be its last.
pub(crate) trait Steps {
    /// Moves what can be moved.
    fn step(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending>;

    /// True if a step left bytes that can be moved at once.
    fn has_more(&mut self) -> &mut bool;

    /// The end, once it has ended.
    fn check_open(&self) -> Result<(), LinkError>;

    /// Ends it.
    fn finish(&mut self, ending: Ending) -> LinkError;

    /// [`crate::Link::progress`] of such a link. Bytes moved before the end are reported first, the end by the next call.
    fn progress_by_step(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        self.check_open()?;
        *self.has_more() = false;
        let mut done = Progress::default();
        match self.step(sink, &mut done) {
            Ok(()) => Ok(Progress { has_more: *self.has_more(), ..done }),
            Err(ending) => {
                let end = self.finish(ending);
                if done.is_idle() { Err(end) } else { Ok(Progress { has_more: true, ..done }) }
            }
        }
    }
}

impl From<Malformed> for Ending {
    #[cold]
    fn from(malformed: Malformed) -> Ending {
        Ending::Garbage(malformed.0.to_owned())
    }
}

impl From<Lost> for Ending {
    #[cold]
    fn from(lost: Lost) -> Ending {
        Ending::System { what: "copying a body", reason: lost.to_string() }
    }
}
