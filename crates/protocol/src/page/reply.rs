//! Grants that go with the reply to a thread's requests, although the home could not give them at once.
//!
//! A page that the home's own host has, and gives up at once, belongs in the reply. That saves the asking host's node a message, and the
//! thread a wake. So the home keeps back the messages of itself and its own host to the asking node about these requests. It waits until
//! its own host has done its part. A grant that nobody has to acknowledge any more goes to the thread. Any other goes to its node after
//! all.

use super::message::{Page, Ticket, ToHost};

/// A grant that is kept back, and what the driver sends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredGrant<M> {
    /// Its page.
    pub page: Page,
    /// [`ToHost::Grant`].
    pub message: ToHost,
    /// The page's bytes, and where it goes.
    pub with: M,
}

/// The reply to one message of a thread, while some of its requests wait for the home's own host.
///
/// **Cost**: a scan of the requests that wait for each message to the asking node; a message has some ten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReply<M> {
    /// The requests that wait.
    later: Vec<(Page, Ticket)>,
    kept: Vec<DeferredGrant<M>>,
}

/// A reply that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedReply<M> {
    /// Grants for the thread itself.
    pub granted: Vec<DeferredGrant<M>>,
    /// Grants that others have to acknowledge first: they go to the thread's node.
    pub awaited: Vec<DeferredGrant<M>>,
}

impl<M> PendingReply<M> {
    /// These requests of the thread wait.
    pub fn new(later: impl IntoIterator<Item = (Page, Ticket)>) -> PendingReply<M> {
        PendingReply { later: later.into_iter().collect(), kept: Vec::new() }
    }

    /// A message to the asking node. Returned unless it answers one of the requests, or is the acknowledgement that a kept grant waits for.
    pub fn keep(&mut self, page: Page, message: ToHost, with: M) -> Option<(ToHost, M)> {
        match &message {
            ToHost::Grant { ticket, .. } => {
                let Some(at) = self.later.iter().position(|wanted| *wanted == (page, *ticket)) else {
                    return Some((message, with));
                };
                self.later.swap_remove(at);
                self.kept.push(DeferredGrant { page, message, with });
                None
            }
            ToHost::Ack { from, version } => {
                let takes = |kept: &mut DeferredGrant<M>| match &mut kept.message {
                    ToHost::Grant { version: granted, awaits, .. } => {
                        kept.page == page && *granted == version.next() && awaits.remove(*from)
                    }
                    _ => false,
                };
                let is_taken = self.kept.iter_mut().any(takes);
                (!is_taken).then_some((message, with))
            }
            _ => Some((message, with)),
        }
    }

    /// The home's own host has done what it can.
    pub fn finish(self) -> FinishedReply<M> {
        let is_free = |kept: &DeferredGrant<M>| matches!(&kept.message, ToHost::Grant { awaits, .. } if awaits.is_empty());
        let (granted, awaited) = self.kept.into_iter().partition(is_free);
        FinishedReply { granted, awaited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Access, HostId, Hosts, Version};

    const PAGE: Page = Page(3);
    const TICKET: Ticket = Ticket { slot: 1, number: 7 };

    fn grant(ticket: Ticket, awaits: Hosts) -> ToHost {
        ToHost::Grant { ticket, version: Version(5), access: Access::Write, has_bytes: false, awaits, firm: true }
    }

    fn ack(from: u16, version: u32) -> ToHost {
        ToHost::Ack { from: HostId(from), version: Version(version) }
    }

    #[test]
    fn a_grant_goes_with_the_reply_when_all_have_acknowledged() {
        let mut reply = PendingReply::new([(PAGE, TICKET)]);
        let mut awaits = Hosts::one(HostId(0));
        assert_eq!(reply.keep(PAGE, grant(TICKET, awaits.clone()), 'a'), None);
        for other in [(Page(4), ack(0, 4)), (PAGE, ack(0, 3)), (PAGE, ack(2, 4))] {
            assert_eq!(reply.keep(other.0, other.1.clone(), 'b'), Some((other.1, 'b')), "it is for the node");
        }
        assert_eq!(reply.clone().finish().awaited.len(), 1);
        assert_eq!(reply.keep(PAGE, ack(0, 4), 'b'), None);
        assert_eq!(reply.keep(PAGE, ack(0, 4), 'b'), Some((ack(0, 4), 'b')), "once");
        awaits.remove(HostId(0));
        let granted = vec![DeferredGrant { page: PAGE, message: grant(TICKET, awaits), with: 'a' }];
        assert_eq!(reply.finish(), FinishedReply { granted, awaited: vec![] });
    }

    #[test]
    fn what_answers_no_request_of_the_thread_goes_to_its_node() {
        let mut reply = PendingReply::new([(PAGE, TICKET)]);
        let other = Ticket { slot: 2, number: 7 };
        for (page, message) in [(PAGE, grant(other, Hosts::NONE)), (Page(4), grant(TICKET, Hosts::NONE))] {
            assert_eq!(reply.keep(page, message.clone(), ()), Some((message, ())));
        }
        assert_eq!(reply.keep(PAGE, grant(TICKET, Hosts::NONE), ()), None);
        let again = grant(TICKET, Hosts::NONE);
        assert_eq!(reply.keep(PAGE, again.clone(), ()), Some((again, ())), "a request is answered once");
        assert_eq!(reply.finish().granted.len(), 1);
    }
}
