//! Clients of jobs: the coordinator is told of each that comes and each that goes, until it knows.
//!
//! The next coordinator knows nothing of that. It is told of the clients that are there, and of a rank of each job that is gone: one is enough
//! for the job's barrier to fail. A node remembers those that the coordinator before knew, up to [`GONE_JOB_COUNT_MAX`] jobs.

use crate::id::{ClientId, JobId, JobRank};
use crate::limits::GONE_JOB_COUNT_MAX;
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

impl Client {
    fn has_died(&self) -> bool {
        self.gone.as_ref().is_some_and(|(_, died)| *died)
    }
}

/// The clients of jobs that the coordinator must know of.
///
/// - `remembered` names clients that are gone, and whose end a coordinator knew.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    clients: BTreeMap<ClientId, Client>,
    remembered: BTreeMap<JobId, ClientId>,
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
    pub fn known(&mut self, id: ClientId, gone: bool) {
        match self.clients.get_mut(&id) {
            Some(client) if client.gone.is_none() && !gone => client.known = true,
            Some(Client { gone: Some(_), known, .. }) if gone => {
                *known = true;
                self.remember(id);
            }
            _ => {}
        }
    }

    /// The coordinator knows that a client is gone. The next one is told so if it was its rank's last, and the first of its job that died.
    fn remember(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        let (who, has_died) = (client.job, client.has_died());
        let before = self.remembered.get(&who.job).copied();
        if before == Some(id) {
            return;
        }
        let is_named = before.and_then(|before| self.clients.get(&before)).is_some_and(|before| before.has_died() || !has_died);
        let is_here = |other: &Client| other.gone.is_none() && other.job == who;
        if is_named || self.clients.values().any(is_here) {
            self.clients.remove(&id);
            return;
        }
        before.and_then(|before| self.clients.remove(&before));
        self.remembered.insert(who.job, id);
        if self.remembered.len() > GONE_JOB_COUNT_MAX {
            // Numbers of clients rise.
            let oldest = self.remembered.iter().min_by_key(|(_, id)| **id).map(|(job, id)| (*job, *id));
            oldest.and_then(|(job, id)| self.remembered.remove(&job).and_then(|_| self.clients.remove(&id)));
        }
    }

    /// The coordinator may have forgotten: it is told of all of them again.
    pub fn forget_known(&mut self) {
        for client in self.clients.values_mut() {
            (client.known, client.sent_ms) = (false, None);
        }
    }

    /// The messages to send by now. Those who are there come first: a rank is gone with its last client.
    pub fn due(&mut self, now_ms: u64, repeat_ms: u64) -> Vec<FromNode> {
        let is_due = |client: &Client| !client.known && client.sent_ms.is_none_or(|sent| sent + repeat_ms <= now_ms);
        let (here, gone): (Vec<_>, Vec<_>) =
            self.clients.iter_mut().filter(|(_, client)| is_due(client)).partition(|(_, client)| client.gone.is_none());
        let message = |(id, client): (&ClientId, &mut Client)| {
            client.sent_ms = Some(now_ms);
            match client.gone.clone() {
                None => FromNode::ClientCame { client: *id, job: client.job },
                Some((reason, died)) => FromNode::ClientGone { client: *id, job: client.job, reason, died },
            }
        };
        here.into_iter().chain(gone).map(message).collect()
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

    /// The clients of which the next coordinator is told, and whether they are gone. It knows them from then on.
    fn told(clients: &mut Clients) -> Vec<(u64, bool)> {
        clients.forget_known();
        let told = clients.due(0, 10).into_iter().map(|message| match message {
            FromNode::ClientCame { client, .. } => (client, false),
            FromNode::ClientGone { client, .. } => (client, true),
            other => panic!("{other:?}"),
        });
        let told: Vec<(ClientId, bool)> = told.collect();
        told.iter().for_each(|(client, gone)| clients.known(*client, *gone));
        told.into_iter().map(|(client, gone)| (client.0, gone)).collect()
    }

    #[test]
    fn the_next_coordinator_is_told_of_a_rank_of_each_job_that_is_gone_rather_one_that_died() {
        let rank = |job: u128, rank| JobRank { job: JobId(job), rank: Rank(rank), ranks: 4 };
        let mut clients = Clients::default();
        let goes = |clients: &mut Clients, id: u64, who, died| {
            clients.gone(ClientId(id), who, "it has ended", died);
            clients.known(ClientId(id), true);
        };
        clients.came(ClientId(9), rank(1, 3));
        goes(&mut clients, 1, rank(1, 0), false);
        goes(&mut clients, 2, rank(2, 0), false);
        assert_eq!(told(&mut clients), [(9, false), (1, true), (2, true)]);
        goes(&mut clients, 3, rank(1, 1), true);
        goes(&mut clients, 4, rank(1, 2), true);
        goes(&mut clients, 5, rank(2, 1), false);
        assert_eq!(told(&mut clients), [(9, false), (2, true), (3, true)]);
        assert_eq!(told(&mut clients), [(9, false), (2, true), (3, true)], "each one is told");
        assert_eq!(clients.due(100, 10), [], "once");
    }

    #[test]
    fn a_rank_with_a_program_that_is_there_is_not_gone() {
        let who = JobRank { job: JobId(1), rank: Rank(0), ranks: 2 };
        let mut clients = Clients::default();
        (1..3).for_each(|id| clients.came(ClientId(id), who));
        clients.gone(ClientId(1), who, "killed by signal 9", true);
        assert_eq!(told(&mut clients), [(2, false), (1, true)], "the one that is there first");
        assert_eq!(told(&mut clients), [(2, false)]);
        clients.gone(ClientId(2), who, "killed by signal 9", true);
        clients.known(ClientId(2), true);
        assert_eq!(told(&mut clients), [(2, true)]);
    }

    #[test]
    fn of_more_jobs_than_a_node_remembers_the_oldest_is_forgotten() {
        let mut clients = Clients::default();
        for id in 0..GONE_JOB_COUNT_MAX as u64 + 2 {
            let who = JobRank { job: JobId(u128::from(u64::MAX - id)), rank: Rank(0), ranks: 2 };
            clients.gone(ClientId(id), who, "it has ended", true);
            clients.known(ClientId(id), true);
        }
        let told = told(&mut clients);
        assert_eq!((told.len(), told[0], clients.clients.len()), (GONE_JOB_COUNT_MAX, (2, true), GONE_JOB_COUNT_MAX));
    }
}
