//! The programs that are attached to the node, as its kernel vouches for them. The control thread writes the list, the service reads it.
//! Beside it stands the number of users with links, those on other hosts among them. The service writes it, the control thread reads it.

use hanare_protocol::id::ClientId;
use hanare_protocol::limits::LOOK_COUNT_MAX;
use hanare_protocol::wire::look::ProgramStat;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct MemberList {
    programs: Mutex<BTreeMap<ClientId, ProgramStat>>,
    users: AtomicUsize,
}

impl MemberList {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClientId, ProgramStat>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program has attached.
    pub fn enter(&self, program: ProgramStat) {
        self.lock().insert(program.client, program);
    }

    /// True for a program of that user.
    pub fn is_of(&self, client: ClientId, user: u32) -> bool {
        self.lock().get(&client).is_some_and(|program| program.user == user)
    }

    /// Number of users with links here.
    pub fn user_count(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// Sets the number of users with links here.
    pub fn set_user_count(&self, count: usize) {
        self.users.store(count, Ordering::Relaxed);
    }

    /// A program is gone.
    pub fn strike(&self, client: ClientId) {
        self.lock().remove(&client);
    }

    /// The programs that a user may see, its own or for root all, by number: at most [`LOOK_COUNT_MAX`].
    pub fn seen_by(&self, user: u32) -> Vec<ProgramStat> {
        let members = self.lock();
        members.values().filter(|program| user == 0 || program.user == user).take(LOOK_COUNT_MAX).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_sees_its_own_programs_and_root_sees_all() {
        let members = MemberList::default();
        for (number, user) in [(1, 10), (2, 11), (3, 10)] {
            members.enter(ProgramStat { client: ClientId(number), process: 7, user, job: None });
        }
        members.strike(ClientId(3));
        assert!(members.is_of(ClientId(1), 10) && !members.is_of(ClientId(1), 11) && !members.is_of(ClientId(9), 10));
        let seen = |user| members.seen_by(user).iter().map(|program| program.client.0).collect::<Vec<u64>>();
        assert_eq!([seen(10), seen(11), seen(12), seen(0)], [vec![1], vec![2], vec![], vec![1, 2]]);
    }
}
