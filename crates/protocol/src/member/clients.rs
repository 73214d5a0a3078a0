//! Clients of jobs: the coordinator is told of each that comes and each that goes, until it knows.

use crate::id::{ClientId, JobRank};
use crate::wire::control::FromNode;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Client {
    job: JobRank,
    /// Manner of its end, and true inside if it did not detach.
    gone: Option<(String, bool)>,
    known: bool,
    sent_ms: Option<u64>,
}

/// The clients of jobs that the coordinator must know of.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    clients: BTreeMap<ClientId, Client>,
}

impl Clients {
    /// A client of a job attached.
    pub fn came(&mut self, client: ClientId, job: JobRank) {
        self.clients.insert(client, Client { job, gone: None, known: false, sent_ms: None });
    }

    /// A client of a job is gone.
    pub fn gone(&mut self, client: ClientId, job: JobRank, reason: &str, died: bool) {
        let gone = Some((reason.to_owned(), died));
        self.clients.insert(client, Client { job, gone, known: false, sent_ms: None });
    }

    /// The coordinator knows.
    pub fn known(&mut self, client: ClientId, gone: bool) {
        match self.clients.get_mut(&client) {
            Some(client) if client.gone.is_none() && !gone => client.known = true,
            Some(Client { gone: Some(_), .. }) if gone => {
                self.clients.remove(&client);
            }
            _ => {}
        }
    }

    /// The coordinator may have forgotten: it is told of all of them again.
    pub fn forget_known(&mut self) {
        for client in self.clients.values_mut() {
            (client.known, client.sent_ms) = (false, None);
        }
    }

    /// The messages to send by now.
    pub fn due(&mut self, now_ms: u64, repeat_ms: u64) -> Vec<FromNode> {
        let is_due = |client: &Client| !client.known && client.sent_ms.is_none_or(|sent| sent + repeat_ms <= now_ms);
        let due = self.clients.iter_mut().filter(|(_, client)| is_due(client));
        let message = |(id, client): (&ClientId, &mut Client)| {
            client.sent_ms = Some(now_ms);
            match client.gone.clone() {
                None => FromNode::ClientCame { client: *id, job: client.job },
                Some((reason, died)) => FromNode::ClientGone { client: *id, job: client.job, reason, died },
            }
        };
        due.map(message).collect()
    }

    /// When the next repetition is due.
    pub fn deadline(&self, repeat_ms: u64) -> Option<u64> {
        let unknown = self.clients.values().filter(|client| !client.known);
        unknown.map(|client| client.sent_ms.map_or(0, |sent| sent + repeat_ms)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{JobId, Rank};

    #[test]
    fn each_client_is_told_until_known_and_again_to_a_coordinator_that_may_have_forgotten() {
        let job = JobRank { job: JobId(1), rank: Rank(0), ranks: 1 };
        let mut clients = Clients::default();
        clients.came(ClientId(1), job);
        assert_eq!((clients.due(0, 10).len(), clients.due(9, 10).len(), clients.due(10, 10).len()), (1, 0, 1));
        clients.known(ClientId(1), false);
        assert!(clients.due(100, 10).is_empty());
        clients.forget_known();
        assert_eq!(clients.due(100, 10).len(), 1);
        clients.gone(ClientId(1), job, "exit status 1", true);
        clients.known(ClientId(1), false);
        assert_eq!(clients.due(200, 10).len(), 1, "a late answer to its coming does not settle its going");
        clients.known(ClientId(1), true);
        assert_eq!((clients.due(300, 10).len(), clients.deadline(10)), (0, None));
    }
}
