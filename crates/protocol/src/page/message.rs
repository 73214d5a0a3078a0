//! Messages on one page between an extent's directory and the hosts that map it.

use super::hosts::{HostId, Hosts};
use serde::{Deserialize, Serialize};

/// A page's position in its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Page(pub u64);

/// A version of a page's bytes. A new one begins whenever the page gets an owner, or is written at its home.
///
/// A page that changed its owner every microsecond would be back at the same number after an hour. No message lasts that long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version(pub u32);

impl Version {
    /// The version of a page that nobody has written. A host that never had a page has the floor below it: 0.
    pub const FIRST: Version = Version(1);

    /// The next one.
    pub fn next(self) -> Version {
        Version(self.0.wrapping_add(1))
    }

    /// The one before.
    pub fn prev(self) -> Version {
        Version(self.0.wrapping_sub(1))
    }

    /// True if it is newer than `other`.
    pub fn is_after(self, other: Version) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }

    /// The newer of two.
    pub fn newest(self, other: Version) -> Version {
        if other.is_after(self) { other } else { self }
    }
}

/// Purpose of a request or grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Loads.
    Read,
    /// Loads and stores.
    Write,
}

/// A slot, of a thread that can fault or of the host's prefetcher, has one request under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket {
    /// The thread slot of the requester.
    pub slot: u16,
    /// The how-manieth request of that slot.
    pub number: u32,
}

/// Why a page is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The page's newest bytes went with the host that owned it. They will not come back.
    Lost,
    /// Too many requests wait for the page ([`crate::limits::PAGE_QUEUE_MAX`]), or there is no such page.
    Full,
}

/// A host's message to a page's home.
///
/// **Cost**: below 32 bytes each; [`ToHome::WriteBack`] and [`ToHome::Store`] carry the page as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToHome {
    /// Wants the page. One message for the access and all coherence work that it needs.
    /// `FEATURE: EU-F14`
    Request {
        /// The request.
        ticket: Ticket,
        /// The access for it.
        access: Access,
        /// The version of the copy that the host has and keeps until it is answered or told to drop it.
        has: Option<Version>,
        /// A grant of this request was overtaken before: nobody else is to be served until [`ToHome::Done`] comes.
        firm: bool,
    },
    /// The grant has been installed: the next in line may be served. Off the critical path.
    /// `FEATURE: EU-F16`
    Done {
        /// The request that was granted.
        ticket: Ticket,
        /// The version granted.
        version: Version,
    },
    /// The page's bytes. They reply to a forward or a recall, or the host evicts the page that it owns.
    WriteBack {
        /// The version that the host owns (or of its copy, when the home asked after an owner's death).
        version: Version,
        /// True if the host keeps a copy for reading.
        keeps: bool,
    },
    /// The page that is recalled has been passed on.
    Missing {
        /// The version that the home named.
        version: Version,
    },
    /// The host has not got what the owner that died was to send, and will not take it any more.
    Abandoned {
        /// The request that the home named.
        ticket: Ticket,
    },
    /// A copy has been dropped, for the home itself.
    Ack {
        /// The version that was invalidated.
        version: Version,
    },
    /// The page's bytes, for a flush. The host goes on owning it. Since version 28.
    Store {
        /// The version that the host owns.
        version: Version,
        /// The flush's number at the host.
        flush: u64,
    },
}

/// A message on a page to a host: by the page's home or, for [`ToHost::Grant`] and [`ToHost::Ack`], by another host.
///
/// **Cost**: below 32 bytes each while hosts are numbered below 64. A [`ToHost::Grant`] carries the page as well where it says so.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToHost {
    /// The page may be read, or read and written as soon as all of `awaits` have acknowledged.
    Grant {
        /// The request that is granted.
        ticket: Ticket,
        /// The version that the bytes are, or that begins with this owner.
        version: Version,
        /// The access for it.
        access: Access,
        /// True if the page's bytes come along. Not for a host that has them, nor for the home's own, whose frame has them.
        has_bytes: bool,
        /// Hosts whose acknowledgements must come before the first store.
        awaits: Hosts,
        /// The home waits for [`ToHome::Done`]; always so for [`Access::Write`].
        firm: bool,
    },
    /// Copies up to this version are no longer good.
    Invalidate {
        /// The newest version that is not.
        version: Version,
        /// The host to acknowledge to; the home itself if none.
        tell: Option<HostId>,
    },
    /// The owner is to send the page to another host: a copy, which also goes home, or the page itself.
    Forward {
        /// The version that the owner owns. If it does not own that, it has evicted it, and the home will serve the request.
        era: Version,
        /// The host that gets it.
        to: HostId,
        /// For what request.
        ticket: Ticket,
        /// The access for it.
        access: Access,
        /// Microseconds for which the owner may keep it if a program works on it. The directory sets 0; its driver sets more.
        hold_us: u32,
    },
    /// The owner is to write the page back to its home.
    Recall {
        /// The version that the owner owns.
        era: Version,
        /// True if it may keep a copy for reading.
        keeps: bool,
        /// See [`ToHost::Forward`].
        hold_us: u32,
    },
    /// The owner that was to answer the request is gone. Has it?
    OwnerGone {
        /// The request.
        ticket: Ticket,
        /// The access for it.
        access: Access,
        /// The version that the owner would have granted.
        version: Version,
    },
    /// A copy has been dropped; by the home in the name of a host that is gone.
    Ack {
        /// The host of the copy.
        from: HostId,
        /// The version that was invalidated.
        version: Version,
    },
    /// The request fails.
    Refused {
        /// The request.
        ticket: Ticket,
        /// Why.
        reason: Refusal,
    },
}

impl ToHome {
    /// True if the page's bytes travel with it.
    pub fn has_bytes(&self) -> bool {
        matches!(self, ToHome::WriteBack { .. } | ToHome::Store { .. })
    }
}

impl ToHost {
    /// True if the page's bytes travel with it.
    pub fn has_bytes(&self) -> bool {
        matches!(self, ToHost::Grant { has_bytes: true, .. })
    }

    /// The same message, with the time for which an owner may keep the page if a program works on it.
    pub fn held_for(mut self, micros: u32) -> ToHost {
        if let ToHost::Forward { hold_us, .. } | ToHost::Recall { hold_us, .. } = &mut self {
            *hold_us = micros;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_go_round() {
        let last = Version(u32::MAX);
        assert!(last.next().is_after(last) && !last.is_after(last.next()) && !last.is_after(last));
        assert_eq!(last.next().prev(), last);
        assert_eq!(last.newest(Version(3)), Version(3));
    }

    #[test]
    fn messages_without_bytes_are_small() {
        let ticket = Ticket { slot: u16::MAX, number: u32::MAX };
        let mut awaits = Hosts::NONE;
        (0..64).for_each(|host| awaits.insert(HostId(host)));
        let grant =
            ToHost::Grant { ticket, version: Version(u32::MAX), access: Access::Write, has_bytes: true, awaits, firm: true };
        assert!(postcard::to_allocvec(&grant).unwrap().len() <= 32);
        let want = ToHome::Request { ticket, access: Access::Read, has: Some(Version(u32::MAX)), firm: true };
        assert!(postcard::to_allocvec(&want).unwrap().len() <= 32);
    }
}
