//! The lives of an attachment. If a node has ended and is back, the first call that has to ask it attaches to it again.
//!
//! A life is one connection to this host's node, with all that came over it. Handles go on with the life of today: they open their regions
//! again by number. Bytes that went with the node are lost, which is an error. Mappings, locks and places in groups of an earlier life stay
//! lost, because the pool has given them up. A rank never attaches anew: its job has ended with it.

use crate::client::session::NodeSession;
use hanare_fabric::shm::ShmParts;
use hanare_fabric::tcp::Caller;
use hanare_fabric::tenant_file::TenantFile;
use hanare_protocol::id::JobRank;
use hanare_protocol::wire::control::Attached;
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::{Error, Result};
use hanare_ring::thread_slots::ThreadSlots;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Most lives of an attachment: the memory of each stays, because threads may still be at work in it.
const LIFE_COUNT: u64 = 256;

/// A life.
pub(crate) struct Life {
    /// Number of lives before.
    pub number: u64,
    pub session: NodeSession,
    /// Words in which threads announce direct access.
    pub thread_slots: ThreadSlots,
    pub attached: Attached,
    /// The link to the node, until it is opened.
    link: Mutex<Option<ShmParts>>,
    next: OnceLock<Box<Life>>,
}

/// All lives of an attachment.
pub(crate) struct Lives {
    address: String,
    job: Option<JobRank>,
    /// The tenant that the program is of. Its file is read in each life.
    tenant: Option<TenantFile>,
    bound: Duration,
    first: Life,
    /// Held by the thread that attaches anew.
    turn: Mutex<()>,
}

impl Lives {
    /// Attaches to the node at an address. **Errors**: as for [`crate::Pool::attach`].
    pub fn begin(address: &str, job: Option<JobRank>, tenant: Option<TenantFile>, bound: Duration) -> Result<Lives> {
        let first = Life::begin((address, job, tenant.as_ref()), bound, 0)?;
        Ok(Lives { address: address.to_owned(), job, tenant, bound, first, turn: Mutex::default() })
    }

    /// The life of today. **Cost**: a load for each.
    #[inline]
    pub fn now(&self) -> &Life {
        let mut life = &self.first;
        // ORDERING: pairs with the initialisation in `connected`: who finds a life finds all of it.
        while let Some(next) = life.next.get() {
            life = next;
        }
        life
    }

    /// The same, begun anew where its connection has ended. **Cost**: a system call, and an attachment where it has.
    ///
    /// **Errors**: [`Error::NoNode`] where the node is not back; [`Error::NodeLost`] where another one listens there.
    pub fn connected(&self) -> Result<&Life> {
        if self.job.is_some() || !self.now().session.has_ended() {
            return Ok(self.now());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let life = self.now();
        // Another thread may have been faster.
        if !life.session.has_ended() || life.number.saturating_add(1) >= LIFE_COUNT {
            return Ok(life);
        }
        let next = Life::begin((&self.address, None, self.tenant.as_ref()), self.bound, life.number.saturating_add(1))?;
        let (before, attached) = (&self.first.attached, &next.attached);
        if (attached.node, attached.user) != (before.node, before.user) {
            let reason = format!("this host's node has ended, and {} listens in its place; attach to that", attached.node);
            return Err(Error::NodeLost { node: before.node, reason });
        }
        life.session.close();
        Ok(life.next.get_or_init(|| Box::new(next)))
    }
}

impl Life {
    fn begin((address, job, tenant): (&str, Option<JobRank>, Option<&TenantFile>), bound: Duration, number: u64) -> Result<Life> {
        let (session, attached, fds) = NodeSession::attach(address, job, tenant, bound)?;
        let [memory, bell, thread_slots]: [OwnedFd; 3] = fds.try_into().map_err(|fds: Vec<OwnedFd>| Error::Garbage {
            peer: attached.node.to_string(),
            reason: format!("{} descriptors came with the attachment", fds.len()),
        })?;
        let link = Mutex::new(Some(ShmParts { memory, bell }));
        Ok(Life { number, session, thread_slots: ThreadSlots::open(thread_slots)?, attached, link, next: OnceLock::new() })
    }

    /// The program as it calls another node.
    pub fn caller(&self, role: Role, from: u64) -> Caller {
        let Attached { client, user, sealing, .. } = self.attached;
        Caller { role, from, client: client.0, user, sealing, versions: self.session.versions() }
    }

    /// True if no other has begun.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.next.get().is_none()
    }

    /// The link to the node; once, because it goes with the life.
    pub fn take_link(&self) -> Option<ShmParts> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
