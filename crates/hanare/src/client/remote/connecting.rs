//! Making connections, and what became of a request that was not posted.

use super::{Inner, Remote, system};
use hanare_memory::fork::Withheld;
use hanare_protocol::error::Happened;
use hanare_protocol::wire::exchange::name_head;
use hanare_protocol::wire::head::HEAD_LEN;
use hanare_protocol::{Error, Result};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// The error of a request that was not posted, or in parts.
pub(crate) struct NotPosted {
    pub error: Error,
    /// The effect of it at the node, as far as is known.
    pub happened: Happened,
}

impl NotPosted {
    /// The error of one of which no byte was sent.
    pub fn before(error: Error) -> NotPosted {
        NotPosted { error, happened: Happened::No }
    }

    /// The error of one of which bytes may have been sent.
    pub fn of(error: Error) -> NotPosted {
        NotPosted { happened: error.happened(), error }
    }
}

impl From<NotPosted> for Error {
    fn from(NotPosted { error, .. }: NotPosted) -> Error {
        error
    }
}

impl Remote {
    /// Ends an idle connection whose other end is closed. Nobody could say what became of an update that is sent there.
    ///
    /// **Cost**: a system call, if there is a connection to another node that is idle.
    pub(super) fn look_at_idle(&self, inner: &mut Inner) {
        let is_idle = !self.is_own && !inner.pending.any_unanswered();
        if is_idle && inner.link.as_ref().is_some_and(|link| link.has_ended()) {
            let error = self.lost("it closed the connection".to_owned());
            self.close(inner, &error);
        }
    }

    pub(super) fn connect(&self, inner: &mut Inner, patience: Duration) -> Result<()> {
        if inner.is_abandoned {
            return Err(Error::NodeLost { node: self.node, reason: "another node has its part now".to_owned() });
        }
        if inner.link.is_none() {
            let link = (self.dial)(patience)?;
            let event = link.event().try_clone_to_owned().map_err(|error| system("duplicate a descriptor", &error))?;
            (inner.link, inner.event) = (Some(link), Some(Arc::new((Withheld::new(event.as_fd()), event))));
            inner.posted_len = 0;
        }
        Ok(())
    }

    /// Names the connection, so that what became of its requests can be asked for when it has broken. The name tells the program, too.
    pub(super) fn name(&self, inner: &mut Inner) -> Result<u128> {
        if let Some(name) = inner.name {
            return Ok(name);
        }
        let name = u128::from(self.client) << 64 | u128::from(u64::from_le_bytes(hanare_memory::random::bytes()?));
        let link = inner.link.as_mut().expect("the caller connected");
        // SAFETY: there is no body.
        if let Err(error) = unsafe { link.send(&name_head(name), &[]) } {
            return Err(self.lose(inner, error));
        }
        inner.posted_len += HEAD_LEN as u64;
        inner.name = Some(name);
        Ok(name)
    }
}
