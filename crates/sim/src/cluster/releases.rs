//! Two releases: processes that speak the last version of the wire are brought up to date one by one. Some go back to it. Programs go on.
//!
//! | what is played | what must hold |
//! |---|---|
//! | all nodes begin with the last release; each ends or is killed, and its next life has the one of today | all that holds in other runs |
//! | tenants, which are younger, are asked for at any time | refused until all members and keepers know them; no node hears what it does not know |
//! | nodes that go back when the journal tells of tenants | no coordinator takes them for members; keepers take no part, and read nothing that they cannot |
//! | nodes of the last release that are away, with bytes | nothing younger is in the journal before they are back |
//! | coordinators and keepers that begin with a journal that they cannot read | they end, as their process does |
//!
//! An operator who sees that a process takes no part brings it up to date. So at the end a process of the last release is a member, or gone.
//!
//! The build of today plays the last release, as `HANARE_WIRE` has it do. Releases have dice of their own, as shortages have.

use super::process::{ProcessLife, name};
use super::{Cluster, Defect, Event};
use crate::check::{Check, check};
use crate::dice::Dice;
use hanare_protocol::Error;
use hanare_protocol::coordinator::{Peer, Record};
use hanare_protocol::versions::{NEWEST, OLDEST, Versions};
use hanare_protocol::wire::control::{FromNode, Memory, ToNode};
use std::collections::BTreeSet;

/// The version that the last release speaks.
pub(super) const LAST: u32 = NEWEST - 1;
const _: () = assert!(LAST >= OLDEST, "this build speaks as the last release");

/// Time after its end at which a process goes back to the last release: its lease is over, and coordinators know that it went.
const BACK_MS: u64 = 10_000;
/// Time for which a host that goes back stays so, unless somebody sees that its process takes no part.
const BACK_FOR_MS: u64 = 6_000;
/// Time after the last process of an older release in which somebody may be told of it.
const TOLD_MS: u64 = 60_000;
/// Part of a seed that dice of releases begin with.
const SALT: u64 = 0x7265_6c65;

/// Something that an operator does about releases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReleaseEvent {
    /// The next host gets another release.
    Next,
    /// A host goes back to the last one.
    Back { node: usize },
    /// Somebody sees that a process takes no part because of its release.
    Outdated { at: ProcessLife },
}

/// The releases of all hosts.
#[derive(Debug)]
pub(super) struct Releases {
    pub dice: Dice,
    /// Versions of the hosts' installed releases; and of the processes that run there, or ran there last.
    installed: Vec<u32>,
    pub spoke: Vec<u32>,
    /// When a host's next process may begin at the earliest.
    begins_ms: Vec<u64>,
    /// Processes of which somebody sees that they take no part.
    outdated: BTreeSet<ProcessLife>,
    /// When the journal told of something younger than the last release at first.
    younger_ms: Option<u64>,
    /// When a process of the last release ended last.
    ended_ms: u64,
}

/// The first version of the wire whose builds can read all of these records.
pub(super) fn needed_by(records: &[Record]) -> u32 {
    records.iter().map(Record::since).max().unwrap_or(OLDEST)
}

impl Cluster {
    /// The dice say whether this pool begins with the last release.
    pub(super) fn begin_releases(&mut self) {
        if !self.defect.map_or(matches!(self.plan.seed % 10, 0 | 5 | 9), Defect::is_of_releases) {
            return;
        }
        let (mut dice, hosts) = (Dice::new(self.plan.seed ^ SALT), self.hosts.len());
        let after = dice.between(1_000, 15_000);
        self.releases = Some(Releases {
            dice,
            installed: vec![LAST; hosts],
            spoke: vec![LAST; hosts],
            begins_ms: vec![0; hosts],
            outdated: BTreeSet::new(),
            younger_ms: None,
            ended_ms: 0,
        });
        self.at(after, Event::Release(ReleaseEvent::Next));
    }

    pub(super) fn on_release(&mut self, event: ReleaseEvent) -> Check {
        match event {
            ReleaseEvent::Next => self.next_host(),
            ReleaseEvent::Back { node } => self.go_back(node),
            ReleaseEvent::Outdated { at } => self.update_outdated(at),
        }
    }

    /// The version that a host's process speaks.
    pub(super) fn speaks(&self, node: usize) -> u32 {
        self.hosts[node].process.as_ref().map_or(NEWEST, |process| process.lender.versions.newest)
    }

    /// The version that two hosts speak with each other.
    pub(super) fn spoken_between(&self, node: usize, other: usize) -> u32 {
        self.speaks(node).min(self.speaks(other))
    }

    /// Versions that a host's next process speaks. `None` where it begins later: it is too soon, or it could not read its journal.
    pub(super) fn next_versions(&mut self, node: usize, is_home: bool) -> Result<Option<Versions>, String> {
        let Some(releases) = &self.releases else { return Ok(Some(Versions::BUILD)) };
        let wait_ms = releases.begins_ms[node].saturating_sub(self.now_ms);
        if wait_ms > 0 {
            self.at(wait_ms, Event::Restart { node });
            return Ok(None);
        }
        if releases.installed[node] == LAST && self.is_younger_under_way(node) {
            self.install(node, NEWEST);
        }
        if self.installed(node) == LAST && self.is_beyond(node, is_home)? {
            self.count("journals that the last release could not read");
            self.install(node, NEWEST);
            let after = self.dice.between(500, 4_000);
            self.at(after, Event::Restart { node });
            return Ok(None);
        }
        let newest = self.installed(node);
        if let Some(releases) = &mut self.releases {
            releases.spoke[node] = newest;
        }
        Ok(Versions::up_to(newest))
    }

    fn installed(&self, node: usize) -> u32 {
        self.releases.as_ref().map_or(NEWEST, |releases| releases.installed[node])
    }

    fn install(&mut self, node: usize, newest: u32) {
        if let Some(releases) = &mut self.releases {
            releases.installed[node] = newest;
        }
    }

    /// True if the journal that a host's process would begin with has records that the last release cannot read.
    fn is_beyond(&mut self, node: usize, is_home: bool) -> Result<bool, String> {
        if is_home {
            self.settle_journal()?;
        }
        Ok(if is_home { self.journal_is_younger() } else { self.file_is_younger(node) })
    }

    /// True if the journal of a pool without keepers tells of something younger than the last release.
    fn journal_is_younger(&self) -> bool {
        needed_by(&self.journal.records) > LAST
    }

    /// True if the process of a host can be the coordinator with the journal of the one before it.
    pub(super) fn can_take_over(&mut self, node: usize) -> Result<bool, String> {
        if self.speaks(node) > LAST {
            return Ok(true);
        }
        self.settle_journal()?;
        Ok(!self.journal_is_younger())
    }

    /// The operator goes on with a host that has the last release. If none has it, a host goes back at times.
    fn next_host(&mut self) -> Check {
        let (is_rough, hosts) = (self.is_rough, self.hosts.len() as u64);
        let Some(releases) = self.releases.as_mut().filter(|_| is_rough) else { return Ok(()) };
        let after = releases.dice.between(1_000, 8_000);
        // A host that goes back does so for a while.
        let is_older =
            |host: &usize| releases.installed[*host] == LAST && self.course.now_ms >= releases.begins_ms[*host] + BACK_FOR_MS;
        let older: Vec<usize> = (0..self.hosts.len()).filter(is_older).collect();
        let next = if older.is_empty() { None } else { Some(releases.dice.pick(&older)) };
        let back = (next.is_none() && releases.dice.chance(3_000)).then(|| releases.dice.below(hosts) as usize);
        let leaves = releases.dice.chance(5_000);
        self.at(after, Event::Release(ReleaseEvent::Next));
        if let Some(node) = back {
            return self.go_back(node);
        }
        let Some(node) = next.filter(|node| self.may_lose(*node)) else { return Ok(()) };
        self.note(format!("{} gets the release of today", name(node)));
        self.count("hosts brought up to date");
        self.install(node, NEWEST);
        if leaves && node != self.home_at && !self.homes.contains_key(&node) && !self.hosts[node].is_stopped {
            return self.leave(node);
        }
        self.crash(node);
        let after = self.dice.pick(&[50, 500, 2_000, 6_000]);
        self.at(after, Event::Restart { node });
        Ok(())
    }

    /// A host's process ends, and a while later one of the last release begins.
    fn go_back(&mut self, node: usize) -> Check {
        if !self.is_rough || self.hosts[node].process.is_none() || self.installed(node) == LAST || !self.may_lose(node) {
            return Ok(());
        }
        self.note(format!("{} goes back to the last release", name(node)));
        self.count("hosts that go back to the last release");
        self.install(node, LAST);
        let begins_ms = self.now_ms + BACK_MS;
        if let Some(releases) = &mut self.releases {
            releases.begins_ms[node] = begins_ms;
        }
        self.crash(node);
        self.at(BACK_MS, Event::Restart { node });
        Ok(())
    }

    /// A process takes no part because of its release. Its operator sees that after a while.
    pub(super) fn plan_update(&mut self, at: ProcessLife) {
        let after = self.dice.between(500, 4_000);
        if self.releases.as_mut().is_some_and(|releases| releases.outdated.insert(at)) {
            self.at(after, Event::Release(ReleaseEvent::Outdated { at }));
        }
    }

    fn update_outdated(&mut self, at: ProcessLife) -> Check {
        if self.process(at).is_some() {
            self.count("processes that were too old to take part");
            self.install(at.0, NEWEST);
            self.crash(at.0);
            let after = self.dice.between(50, 2_000);
            self.at(after, Event::Restart { node: at.0 });
        }
        Ok(())
    }

    /// The coordinator refuses a node.
    pub(super) fn on_refused(&mut self, at: ProcessLife, error: &Error) {
        self.count("joins refused");
        if matches!(error, Error::TooOld { .. }) {
            self.count("joins refused because of their release");
            self.plan_update(at);
        }
    }

    /// A process ends.
    pub(super) fn end_release(&mut self, speaks: u32) {
        let now_ms = self.now_ms;
        if let Some(releases) = self.releases.as_mut().filter(|_| speaks <= LAST) {
            releases.ended_ms = now_ms;
        }
    }

    /// True if a process of the last release runs, or did lately.
    pub(super) fn was_older(&self) -> bool {
        let Some(releases) = &self.releases else { return false };
        self.runs_older() || self.now_ms <= releases.ended_ms + TOLD_MS
    }

    /// True if a process of the last release runs.
    pub(super) fn runs_older(&self) -> bool {
        (0..self.hosts.len()).any(|node| self.speaks(node) <= LAST)
    }

    /// Records count from here on. The first of them that is younger than the last release shuts out nobody with bytes.
    pub(super) fn on_journaled(&mut self, records: &[Record]) -> Check {
        let (now_ms, runs_older) = (self.now_ms, self.runs_older());
        let Some(releases) = self.releases.as_mut().filter(|_| needed_by(records) > LAST) else { return Ok(()) };
        if releases.younger_ms.is_some() {
            return Ok(());
        }
        releases.younger_ms = Some(now_ms);
        self.count(if runs_older { "older processes shut out" } else { "journals that tell of something younger" });
        let shut_out = (0..self.hosts.len()).find(|node| self.speaks(*node) <= LAST && self.has_bytes(*node));
        check(shut_out.is_none(), || format!("{} is shut out with bytes: {records:?}", name(shut_out.unwrap_or_default())))
    }

    /// True if regions have bytes at a host's process.
    fn has_bytes(&self, node: usize) -> bool {
        let Some(process) = &self.hosts[node].process else { return false };
        process.member.identity().is_some_and(|(id, _)| !self.checks.extents_on(id, process.incarnation).is_empty())
    }

    /// A connection to the coordinator ends. By a defect the coordinator looks at members alone: nodes that are away seem to be of today.
    pub(super) fn forget_release(&mut self, peer: Peer) {
        let Some(connection) = self.connections.open.get(&peer).copied().filter(|_| self.has(Defect::LookAtMembers)) else {
            return;
        };
        let now_ms = self.now_ms;
        let process = self.hosts[connection.node].process.as_ref().filter(|process| process.life == connection.node_life);
        let Some((process, (_, epoch))) = process.and_then(|process| Some((process, process.member.identity()?))) else { return };
        let memory = Memory { versions: Versions::BUILD, ..process.lender.memory() };
        if let Some(home) = self.homes.get_mut(&connection.home.0).filter(|home| home.life == connection.home.1) {
            home.coordinator.handle(now_ms, peer, FromNode::Renew { epoch, memory });
        }
    }

    /// A coordinator says something that it decided then: none that knows of something younger takes an older node for a member.
    pub(super) fn judge_told(&self, peer: Peer, message: &ToNode, decided_ms: u64) -> Check {
        let Some(younger_ms) = self.releases.as_ref().and_then(|releases| releases.younger_ms) else { return Ok(()) };
        let Some(connection) = self.connections.open.get(&peer).filter(|_| decided_ms > younger_ms) else { return Ok(()) };
        let Some(process) = &self.hosts[connection.node].process else { return Ok(()) };
        let is_older = process.life == connection.node_life && process.lender.versions.newest <= LAST;
        check(!is_older || matches!(message, ToNode::Unknown | ToNode::Refused { .. }), || {
            format!("{} speaks {LAST}, the journal tells of something younger, and it hears: {message:?}", name(connection.node))
        })
    }

    /// A node says something to the coordinator on a host: nothing that it does not know.
    pub(super) fn judge_heard(&self, at: usize, message: &FromNode) -> Check {
        let FromNode::Ask { what, .. } = message else { return Ok(()) };
        let speaks = self.speaks(at);
        check(what.since() <= speaks, || format!("the coordinator at {} speaks {speaks}, and hears {what:?}", name(at)))
    }

    /// A node's message as the coordinator gets it. By a defect the node says that it speaks more than it does.
    pub(super) fn as_newer(&self, message: FromNode) -> FromNode {
        let is_younger = self.releases.as_ref().is_some_and(|releases| releases.younger_ms.is_some());
        match message {
            FromNode::Renew { epoch, mut memory } if self.has(Defect::LeaveOutOlder) => {
                memory.versions = Versions::BUILD;
                FromNode::Renew { epoch, memory }
            }
            FromNode::Join { incarnation, attempt, name, address, mut memory, was, held, wish, restores }
                if is_younger && self.has(Defect::AdmitOlder) =>
            {
                memory.versions = Versions::BUILD;
                FromNode::Join { incarnation, attempt, name, address, memory, was, held, wish, restores }
            }
            message => message,
        }
    }

    /// At the end no process of the last release is in a pool whose journal it could not read.
    pub(super) fn judge_releases(&self) -> Check {
        let is_younger = self.releases.as_ref().is_some_and(|releases| releases.younger_ms.is_some());
        check(!is_younger || !self.runs_older(), || "a process of the last release is left".to_owned())
    }
}
