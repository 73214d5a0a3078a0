//! Jobs: ranks on nodes that meet at barriers, finish, or die.

use crate::check::{Check, check};
use crate::cluster::{Cluster, Defect, Event};
use crate::served::{HomeInput, ServedHome, request};
use hanare_home::{Input, LockTerms, Vector, Vectors, Waiter};
use hanare_protocol::Error;
use hanare_protocol::group::{PartyReply, RankAt};
use hanare_protocol::id::{ClientId, JobId, JobRank, NodeId, Rank, User};
use hanare_protocol::wire::control::{FromNode, Request};
use hanare_protocol::wire::sync::{Arrival, Party, SyncRequest};
use std::collections::{BTreeMap, BTreeSet};

/// Time between a waiting rank's repetitions of its arrival.
const REPEAT_MS: u64 = 1_000;

/// Time between the launcher's repetitions of a rank's end, until the coordinator has replied.
const REPORT_MS: u64 = 8_000;

/// The launcher's own client.
const LAUNCHER: ClientId = ClientId(u64::MAX);

/// State of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// The rank computes, and will arrive at the next barrier.
    Runs,
    /// The rank has arrived and waits.
    Waits,
    /// The rank is gone: finished, failed, or dead.
    Gone,
}

#[derive(Debug)]
struct RankRun {
    doing: Doing,
    node: usize,
    node_life: u64,
    node_id: Option<NodeId>,
    client: ClientId,
    /// The barrier it is at or comes to next: barriers below it have released it.
    generation: u64,
    /// Its node was reported lost, so it may be taken for gone though it runs.
    was_lost: bool,
    /// The coordinator has answered the launcher's report of its end.
    is_reported: bool,
}

#[derive(Debug)]
struct JobRun {
    id: JobId,
    /// The life of the home that its ranks are connected to; and whether it is another than at first.
    home_life: u64,
    has_moved: bool,
    /// A launcher tells of ranks that end.
    has_launcher: bool,
    rounds: u64,
    ranks: Vec<RankRun>,
}

/// The home of barriers, and the arrivals that it has not answered.
#[derive(Debug)]
pub(crate) struct JobService {
    served: ServedHome<Vector>,
    /// Each rank has a link of its own.
    links: BTreeMap<(JobId, Rank), u64>,
    waiting: BTreeMap<Waiter, Arrival>,
    seq: u64,
}

impl JobService {
    pub fn new(life: u64) -> JobService {
        let terms = LockTerms { is_home: true, ..LockTerms::default() };
        JobService { served: ServedHome::new(life, terms), links: BTreeMap::new(), waiting: BTreeMap::new(), seq: 0 }
    }

    /// A rank arrives, or says again that it has.
    fn arrive(&mut self, arrival: Arrival) -> HomeInput {
        let next = self.links.len() as u64;
        let link = *self.links.entry((arrival.who.job, arrival.who.rank)).or_insert(next);
        self.seq += 1;
        let waiter = Waiter { link, seq: self.seq };
        self.waiting.insert(waiter, arrival);
        request(waiter, link, SyncRequest::Arrive(Party::Rank(arrival), None))
    }

    fn handle(&mut self, now_ms: u64, input: HomeInput) -> Vec<PartyReply<RankAt>> {
        let outputs = self.served.handle(now_ms, input, &Vectors::default());
        outputs.into_iter().filter_map(|output| self.told(output)).collect()
    }

    /// The node is the home of barriers from here on, or not any more.
    pub fn set_home(&mut self, now_ms: u64, me: NodeId, is_home: bool) -> Vec<PartyReply<RankAt>> {
        self.handle(now_ms, Input::PoolHome(me, is_home))
    }

    /// An answer of the home, as its rank hears it. A rank that is refused by a former home asks the next one.
    fn told(&mut self, output: hanare_home::SyncOutput) -> Option<PartyReply<RankAt>> {
        let hanare_home::SyncOutput::Answer(waiter, outcome) = output else { return None };
        let arrival = self.waiting.remove(&waiter)?;
        if matches!(outcome, Err(Error::NoCoordinator { .. })) {
            return None;
        }
        // Earlier arrivals of the rank are not answered any more.
        self.waiting.retain(|other, before| other.link != waiter.link || before.generation != arrival.generation);
        Some(PartyReply { who: arrival.into(), outcome: outcome.map(drop) })
    }
}

/// All jobs of a run.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    jobs: Vec<JobRun>,
    /// Programs that are gone, where a coordinator knew that.
    known_ends: BTreeSet<ClientId>,
}

impl Programs {
    /// Ranks die with their host's node process: their client library ends them. Returns those that did.
    pub fn on_node_died(&mut self, node: usize, life: u64) -> Vec<(usize, usize)> {
        let mut died = Vec::new();
        for (job, run) in self.jobs.iter_mut().enumerate() {
            for (number, rank) in run.ranks.iter_mut().enumerate() {
                if (rank.node, rank.node_life) == (node, life) && rank.doing != Doing::Gone {
                    rank.doing = Doing::Gone;
                    died.push((job, number));
                }
            }
        }
        died
    }

    /// The coordinator takes a node for lost.
    pub fn on_node_lost(&mut self, node: NodeId) {
        for rank in self.jobs.iter_mut().flat_map(|job| &mut job.ranks) {
            rank.was_lost |= rank.node_id.is_none_or(|id| id == node);
        }
    }

    /// At the end nobody runs or waits.
    pub fn judge_rest(&self) -> Check {
        for job in &self.jobs {
            let left = job.ranks.iter().position(|rank| rank.doing != Doing::Gone);
            check(left.is_none(), || format!("rank {left:?} is left of {job:?}"))?;
        }
        Ok(())
    }

    fn position(&self, job: JobId) -> Option<usize> {
        self.jobs.iter().position(|run| run.id == job)
    }
}

impl Cluster {
    /// A job starts on nodes that are there.
    pub(crate) fn on_launch(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(2_000, 15_000);
        self.at(after, Event::Launch);
        let Some(home_life) = self.home().map(|home| home.life) else { return Ok(()) };
        let nodes: Vec<usize> = (0..self.hosts.len()).filter(|node| self.hosts[*node].process.is_some()).collect();
        let (id, job) = (JobId(u128::from(self.dice.next())), self.programs.jobs.len());
        let count = self.dice.between(1, 5) as u32;
        let mut ranks = Vec::new();
        for number in 0..count {
            let node = self.dice.pick(&nodes);
            let process = self.hosts[node].process.as_mut().expect("just listed");
            let client = ClientId((node as u64) << 32 | (job as u64 + 1) << 8 | u64::from(number));
            process.member.client_came(self.course.now_ms, client, JobRank { job: id, rank: Rank(number), ranks: count });
            let (node_life, node_id) = (process.life, process.member.identity().map(|(id, _)| id));
            ranks.push(RankRun {
                doing: Doing::Runs,
                node,
                node_life,
                node_id,
                client,
                generation: 0,
                was_lost: false,
                is_reported: false,
            });
            self.drain_node(node)?;
            let after = self.dice.between(10, 500);
            self.at(after, Event::Rank { job, rank: number as usize });
            if self.dice.chance(800) {
                let after = self.dice.between(0, 6_000);
                self.at(after, Event::RankDies { job, rank: number as usize });
            }
        }
        let rounds = self.dice.between(1, 6);
        // Nodes alone tell of the ranks of every other job, where keepers hold the journal.
        let has_launcher = self.keepers.is_none() || id.0 & 1 == 0;
        self.programs.jobs.push(JobRun { id, home_life, has_moved: false, has_launcher, rounds, ranks });
        self.count("jobs");
        Ok(())
    }

    /// A rank has computed, or waits and says so again.
    pub(crate) fn on_rank(&mut self, job: usize, rank: usize) -> Check {
        if self.programs.jobs[job].ranks[rank].doing == Doing::Gone {
            return Ok(());
        }
        if !self.has_home(job) {
            return self.end_rank(job, rank, "the home of its barrier was lost");
        }
        let run = &mut self.programs.jobs[job];
        let (who, home_life) = (who(run, rank), run.home_life);
        let me = &mut run.ranks[rank];
        if me.generation == run.rounds {
            return self.end_rank(job, rank, "it finished");
        }
        me.doing = Doing::Waits;
        let (node, arrival) = (me.node, Arrival { who, generation: me.generation });
        self.at(REPEAT_MS, Event::Rank { job, rank });
        self.transmit_rank(node, Event::Arrive { life: home_life, arrival });
        Ok(())
    }

    /// True if the home of a job's barriers is there. Where keepers hold the journal the job goes on at the next home. Nodes tell that one of ranks that
    /// are gone. A scheduler ends a job with a rank that went with its node.
    fn has_home(&mut self, job: usize) -> bool {
        let today = self.home().map(|home| home.life);
        let lives: Vec<Option<u64>> = self.hosts.iter().map(|host| host.process.as_ref().map(|process| process.life)).collect();
        let has_keepers = self.keepers.is_some();
        let run = &mut self.programs.jobs[job];
        let moves = today != Some(run.home_life);
        if moves && !has_keepers {
            return false;
        }
        run.has_moved |= moves;
        let is_lost = |rank: &RankRun| rank.doing == Doing::Gone && lives[rank.node] != Some(rank.node_life);
        if (run.has_moved || !run.has_launcher) && run.ranks.iter().any(is_lost) {
            return false;
        }
        if let Some(today) = today.filter(|_| moves) {
            run.home_life = today;
            self.count("jobs that go on at another home");
        }
        true
    }

    /// True if jobs run. Pools with keepers that look for another defect have none: more of their runs fit into the same time.
    pub(super) fn has_jobs(&self) -> bool {
        self.keepers.is_none() || !self.defect.is_some_and(Defect::is_of_others)
    }

    /// A coordinator knows that a program is gone.
    pub(super) fn end_is_known(&mut self, client: ClientId) {
        self.programs.known_ends.insert(client);
    }

    /// True if a node does not say this, by a defect: a coordinator knew it.
    pub(super) fn is_forgotten(&self, message: &FromNode) -> bool {
        let is_known = |client| self.programs.known_ends.contains(client);
        self.has(Defect::TellOnce) && matches!(message, FromNode::ClientGone { client, .. } if is_known(client))
    }

    fn transmit_rank(&mut self, node: usize, event: Event) {
        if self.hosts[node].is_partitioned {
            return;
        }
        self.deliver(|| event.clone());
    }

    /// A rank's process dies.
    pub(crate) fn on_rank_dies(&mut self, job: usize, rank: usize) -> Check {
        self.count("rank deaths");
        self.end_rank(job, rank, "killed by signal 9")
    }

    /// A rank's process is gone; its node notices.
    fn end_rank(&mut self, job: usize, rank: usize, reason: &str) -> Check {
        let run = &mut self.programs.jobs[job];
        let who = who(run, rank);
        let me = &mut run.ranks[rank];
        if std::mem::replace(&mut me.doing, Doing::Gone) == Doing::Gone {
            return Ok(());
        }
        let (node, life, client) = (me.node, me.node_life, me.client);
        if let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) {
            process.member.client_gone(self.course.now_ms, client, who, reason, true);
        }
        self.drain_node(node)?;
        let after = self.dice.between(0, REPORT_MS);
        self.at(after, Event::RankEnded { job, rank });
        Ok(())
    }

    /// The launcher reports the end of a rank's process over some node that runs, until it has an answer.
    pub(crate) fn on_rank_ended(&mut self, job: usize, rank: usize) -> Check {
        let run = &self.programs.jobs[job];
        if run.ranks[rank].is_reported || !run.has_launcher {
            return Ok(());
        }
        let what = Request::RankEnded { job: run.id, rank: Rank(rank as u32), reason: "exit status 1".to_owned(), died: true };
        self.at(REPORT_MS, Event::RankEnded { job, rank });
        let now_ms = self.now_ms;
        let Some(node) = self.hosts.iter().rposition(|host| host.process.is_some() && !host.is_stopped) else { return Ok(()) };
        let process = self.hosts[node].process.as_mut().expect("just seen");
        let request = process.member.ask(now_ms, User { uid: 0, gid: 0 }, LAUNCHER, what);
        process.reports.insert(request, (job, rank));
        self.drain_node(node)
    }

    /// The launcher has an answer.
    pub(crate) fn on_reported(&mut self, job: usize, rank: usize, is_known: bool) {
        self.programs.jobs[job].ranks[rank].is_reported |= is_known;
    }

    /// An arrival reaches the home.
    pub(crate) fn on_arrive(&mut self, life: u64, arrival: Arrival) -> Check {
        let Some((at, home)) = self.homes.iter_mut().find(|(_, home)| home.life == life) else { return Ok(()) };
        let (at, input) = (*at, home.jobs.arrive(arrival));
        if self.has(Defect::ReleaseEarly) && self.dice.chance(100) {
            return self.judge_barrier(&PartyReply { who: arrival.into(), outcome: Ok(()) });
        }
        self.drive_jobs(at, input)
    }

    /// The home of barriers hears of an event, and ranks hear what comes of it.
    pub(crate) fn drive_jobs(&mut self, at: usize, input: HomeInput) -> Check {
        let now_ms = self.now_ms;
        let replies = self.homes.get_mut(&at).map_or_else(Vec::new, |home| home.jobs.handle(now_ms, input));
        self.tell_ranks(replies)
    }

    /// Ranks hear from a home of their barriers.
    pub(super) fn tell_ranks(&mut self, replies: Vec<PartyReply<RankAt>>) -> Check {
        for reply in replies {
            self.judge_barrier(&reply)?;
            if let Some(index) = self.programs.position(reply.who.job) {
                let node = self.programs.jobs[index].ranks[reply.who.rank.0 as usize].node;
                self.transmit_rank(node, Event::BarrierAnswer { reply });
            }
        }
        Ok(())
    }

    /// Checks a barrier: no rank is released before all have arrived, and none is failed unless one is gone.
    fn judge_barrier(&mut self, reply: &PartyReply<RankAt>) -> Check {
        let RankAt { job, generation, .. } = reply.who;
        let Some(index) = self.programs.position(job) else { return Err(format!("nobody launched {job}")) };
        let run = &self.programs.jobs[index];
        match &reply.outcome {
            Ok(()) => {
                let is_there =
                    |rank: &RankRun| rank.generation > generation || rank.generation == generation && rank.doing != Doing::Runs;
                check(run.ranks.iter().all(is_there), || format!("{reply:?} though not all have arrived: {run:?}"))?;
                self.count("barrier releases");
            }
            Err(Error::RankGone { rank, .. }) => {
                let gone = &run.ranks[rank.0 as usize];
                check(gone.doing == Doing::Gone || gone.was_lost, || format!("{reply:?} though it is there: {run:?}"))?;
                self.count("barrier failures");
            }
            Err(_) => return Err(format!("{reply:?} in {run:?}")),
        }
        Ok(())
    }

    /// A rank hears from its barrier.
    pub(crate) fn on_barrier_answer(&mut self, reply: PartyReply<RankAt>) -> Check {
        let RankAt { job, rank, generation } = reply.who;
        let Some(index) = self.programs.position(job) else { return Ok(()) };
        let rank = rank.0 as usize;
        let me = &mut self.programs.jobs[index].ranks[rank];
        if me.doing != Doing::Waits || me.generation != generation {
            return Ok(());
        }
        if reply.outcome.is_err() {
            return self.end_rank(index, rank, "its barrier failed");
        }
        me.doing = Doing::Runs;
        me.generation += 1;
        Ok(())
    }
}

fn who(run: &JobRun, rank: usize) -> JobRank {
    JobRank { job: run.id, rank: Rank(rank as u32), ranks: run.ranks.len() as u32 }
}
