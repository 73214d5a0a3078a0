//! Programs that would be a tenant's. The coordinator looks at their key before they are clients; from there on the tenant is their user.

use super::clients::{Reply, nonsense, plain};
use super::event_loop::ControlLoop;
use hanare_fabric::tenant_file;
use hanare_protocol::id::{JobRank, User};
use hanare_protocol::limits::TENANT_REFUSED_MS;
use hanare_protocol::tenant::{TenantKey, check_tenant, is_tenant};
use hanare_protocol::wire::control::{Answer, Request};
use hanare_protocol::{Error, Result};

impl ControlLoop {
    /// Has the coordinator look at a program's key. The program waits for its answer.
    pub(super) fn prove_tenant(
        &mut self,
        key: u64,
        job: Option<JobRank>,
        (tenant, secret): (String, TenantKey),
    ) -> Option<Reply> {
        if let Err(error) = check_tenant(&tenant) {
            return Some(plain(Err(error)));
        }
        let client = self.clients.get_mut(&key).expect("the caller looked");
        client.proves = Some(job);
        let (user, id, hash) = (client.asker(), client.id, tenant_file::hash(&secret));
        let request = self.member.ask(self.now_ms(), user, id, Request::ProveTenant { tenant, hash });
        self.clients.get_mut(&key).expect("the caller looked").waits_for = Some(request);
        self.asks.insert(request, key);
        None
    }

    /// The coordinator has looked at a program's key.
    pub(super) fn proved_tenant(&mut self, key: u64, job: Option<JobRank>, result: Result<Answer>) {
        let (answer, fds) = match result {
            Ok(Answer::Tenant(user)) if is_tenant(user.uid) => match self.become_tenant(key, user) {
                Ok(()) => self.attach(key, job),
                Err(error) => plain(Err(error)),
            },
            Ok(_) => plain(Err(nonsense("an answer that no tenant gets"))),
            Err(error @ Error::TenantRefused { .. }) => {
                let due_ms = self.now_ms().saturating_add(TENANT_REFUSED_MS);
                tracing::info!("a program was refused: {error}");
                return self.refusals.0.push_back((due_ms, key, error));
            }
            Err(error) => plain(Err(error)),
        };
        self.answer_later(key, &answer, fds);
    }

    /// The program is the tenant's, and counts as one of its programs.
    fn become_tenant(&mut self, key: u64, user: User) -> Result<()> {
        let limit = self.user_clients_max;
        if self.users.get(&user.uid).is_some_and(|count| *count >= limit) {
            return Err(Error::LimitReached { what: "programs of one tenant at a node".to_owned(), limit: limit as u64 });
        }
        let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
        let before = std::mem::replace(&mut client.user, user).uid;
        client.groups.clear();
        self.count_client(before, false);
        self.count_client(user.uid, true);
        Ok(())
    }

    /// Tells those whose time has come that their keys are wrong.
    pub(super) fn refuse_tenants(&mut self, now_ms: u64) {
        while self.refusals.due_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            let Some((_, key, error)) = self.refusals.0.pop_front() else { return };
            self.answer_later(key, &Err(error), Vec::new());
        }
    }
}
