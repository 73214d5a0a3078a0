//! The barriers of jobs: groups whose parties are ranks, from the first arrival on, whether they have arrived or not.
//!
//! Each round of a job has a *generation*: 0, 1, 2 … A rank names it when it arrives. So it may repeat that over another connection. A job
//! that is over is remembered as long as there is room. Otherwise a rank that was taken for gone with its node could still arrive. It would
//! begin the job again and wait for ever.

use super::{PartyReply, Phase, Rounds};
use crate::error::Error;
use crate::id::{JobId, JobRank, Rank};
use crate::limits::{JOB_COUNT_MAX, RANK_COUNT_MAX};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A rank's arrival at its job's barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The arriving rank.
    pub who: JobRank,
    /// Barrier of the job: 0 for the first, then 1, and so on.
    pub generation: u64,
}

/// A rank at one barrier of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankAt {
    /// The job.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
    /// Number of the barrier.
    pub generation: u64,
}

impl From<Arrival> for RankAt {
    fn from(Arrival { who: JobRank { job, rank, .. }, generation }: Arrival) -> RankAt {
        RankAt { job, rank, generation }
    }
}

/// A job: its ranks, and their rounds.
///
/// - `gone` is not empty exactly when the rounds are broken or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    /// Number of the job's ranks; unknown until one has arrived.
    ranks: Option<u32>,
    rounds: Rounds<Rank>,
    gone: BTreeSet<Rank>,
    /// The error that names the first rank that died, if one did.
    death: Option<Error>,
    /// Order of creation, for forgetting the oldest.
    birth: u64,
}

impl Job {
    /// Refuses ranks that do not agree on the job's size.
    fn check(&self, who: JobRank) -> Result<(), Error> {
        let bad = |key: &str, value: u32, reason: String| {
            Err(Error::BadSetting { key: key.to_owned(), value: value.to_string(), reason })
        };
        if who.ranks > RANK_COUNT_MAX {
            return Err(Error::LimitReached { what: format!("{} ranks in a job", who.ranks), limit: u64::from(RANK_COUNT_MAX) });
        }
        if who.rank.0 >= who.ranks {
            return bad("HANARE_RANK", who.rank.0, format!("the job has {} ranks, counted from 0", who.ranks));
        }
        match self.ranks {
            Some(ranks) if ranks != who.ranks => {
                bad("HANARE_RANKS", who.ranks, format!("other ranks of the job say it has {ranks}"))
            }
            _ => Ok(()),
        }
    }

    /// A rank arrives; returns who is released.
    fn on_arrive(&mut self, who: JobRank, generation: u64) -> Result<BTreeSet<Rank>, Error> {
        self.check(who)?;
        self.ranks = Some(who.ranks);
        let completed = self.rounds.completed;
        if generation < completed {
            self.rounds.on_repeat();
            return Ok(BTreeSet::from([who.rank]));
        }
        self.rounds.check()?;
        if generation > completed {
            return Err(Error::Garbage {
                peer: who.rank.to_string(),
                reason: format!("it is at barrier {generation} of the job while barrier {completed} has not completed"),
            });
        }
        self.rounds.on_meet(who.rank, who.ranks)
    }

    /// A rank is gone. Returns the ranks that wait in vain, this rank among them. It may have been taken for gone with its node.
    fn on_gone(&mut self, rank: Rank, error: Error) -> BTreeSet<Rank> {
        self.gone.insert(rank);
        let is_last = self.ranks.is_some_and(|ranks| self.gone.len() >= ranks as usize);
        self.rounds.on_go(error, is_last)
    }
}

/// The barriers of all jobs of a pool.
///
/// A job's barrier is made when its first rank arrives or goes. Jobs that are over, then broken ones, are forgotten when there are
/// too many, the oldest first.
// FEATURE: D2-F8
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    jobs: BTreeMap<JobId, Job>,
    births: u64,
    replies: VecDeque<PartyReply<RankAt>>,
    /// Another home may have had the jobs before. Ranks tell by their arrivals which barriers have completed.
    is_another_home: bool,
}

impl Jobs {
    /// No job yet.
    pub fn new() -> Jobs {
        Jobs::default()
    }

    /// Another home may have had the jobs, or gets them. A rank that arrives at a barrier has passed those before it, so they have completed.
    /// Ranks that are gone stay so: the coordinator may tell of them before its node is home.
    pub fn forget_rounds(&mut self) {
        self.is_another_home = true;
        self.jobs.retain(|_, job| !job.gone.is_empty());
    }

    /// Number of jobs with ranks that are not gone.
    pub fn count(&self) -> usize {
        self.jobs.values().filter(|job| job.rounds.phase() != Phase::Empty).count()
    }

    /// The state of a job's barrier, if the job is remembered.
    pub fn phase(&self, job: JobId) -> Option<Phase> {
        self.jobs.get(&job).map(|job| job.rounds.phase())
    }

    /// A rank arrives at its job's barrier. Answers follow by [`Jobs::poll`], some of them later.
    ///
    /// **Errors**, in the answers: [`Error::RankGone`] when a rank of the job is gone. [`Error::BadSetting`] when the ranks do not
    /// agree on the job's size. [`Error::Garbage`] for a round that cannot have begun. [`Error::LimitReached`] for too many ranks or
    /// jobs.
    pub fn on_arrive(&mut self, arrival: Arrival) {
        let Arrival { who: who @ JobRank { job, .. }, generation } = arrival;
        if self.is_another_home
            && let Ok(state) = self.job(job)
            && state.check(who).is_ok()
        {
            let before = state.rounds.completed;
            let waiting = state.rounds.catch_up(generation);
            let passed = |rank| PartyReply { who: RankAt { job, rank, generation: before }, outcome: Ok(()) };
            self.replies.extend(waiting.into_iter().map(passed));
        }
        let answer = self.job(job).and_then(|job| job.on_arrive(who, generation));
        match answer {
            Ok(released) => {
                let at = |rank| RankAt { job, rank, generation };
                self.replies.extend(released.into_iter().map(|rank| PartyReply { who: at(rank), outcome: Ok(()) }));
            }
            Err(error) => self.replies.push_back(PartyReply { who: arrival.into(), outcome: Err(error) }),
        }
        // A job that came into being with an arrival that was refused has nothing to remember.
        if self.jobs.get(&job).is_some_and(|job| job.ranks.is_none() && job.gone.is_empty()) {
            self.jobs.remove(&job);
        }
    }

    /// True if the barrier of an arrival has completed: then the arrival is a repetition.
    pub fn is_over(&self, arrival: Arrival) -> bool {
        self.jobs.get(&arrival.who.job).is_some_and(|job| arrival.generation < job.rounds.completed)
    }

    /// A rank's process is gone: all ranks that wait, or arrive later, get an error.
    ///
    /// `ranks` is the job's size where it is known. It `died` where it failed, or went without detaching.
    pub fn on_rank_gone(&mut self, job: JobId, rank: Rank, ranks: Option<u32>, reason: &str, died: bool) {
        let Ok(state) = self.job(job) else { return };
        state.ranks = state.ranks.or(ranks);
        let generation = state.rounds.completed;
        let error = Error::RankGone { rank, reason: reason.to_owned() };
        if died {
            state.death.get_or_insert_with(|| error.clone());
        }
        let waiting = state.on_gone(rank, error.clone());
        let fail = |rank| PartyReply { who: RankAt { job, rank, generation }, outcome: Err(error.clone()) };
        self.replies.extend(waiting.into_iter().map(fail));
    }

    /// The error that names the first rank of a job that died. A rank that detached before it ended with status 0 did not.
    pub fn death(&self, job: JobId) -> Option<&Error> {
        self.jobs.get(&job)?.death.as_ref()
    }

    /// The next answer.
    pub fn poll(&mut self) -> Option<PartyReply<RankAt>> {
        self.replies.pop_front()
    }

    /// The job, made when it is not there yet.
    fn job(&mut self, job: JobId) -> Result<&mut Job, Error> {
        if !self.jobs.contains_key(&job) && self.jobs.len() >= JOB_COUNT_MAX {
            let ended = self.jobs.iter().filter(|(_, job)| matches!(job.rounds.phase(), Phase::Broken | Phase::Empty));
            // First those whose ranks are all gone, or none of which ever came: nobody waits there.
            let age = |(_, job): &(&JobId, &Job)| (job.ranks.is_some() && job.rounds.phase() != Phase::Empty, job.birth);
            let Some(oldest) = ended.min_by_key(age).map(|(job, _)| *job) else {
                return Err(Error::LimitReached { what: "jobs with a barrier".to_owned(), limit: JOB_COUNT_MAX as u64 });
            };
            self.jobs.remove(&oldest);
        }
        let births = &mut self.births;
        Ok(self.jobs.entry(job).or_insert_with(|| {
            *births += 1;
            Job { ranks: None, rounds: Rounds::new(), gone: BTreeSet::new(), death: None, birth: *births }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(1);

    fn arrive(jobs: &mut Jobs, rank: u32, ranks: u32, generation: u64) -> Vec<PartyReply<RankAt>> {
        jobs.on_arrive(Arrival { who: JobRank { job: JOB, rank: Rank(rank), ranks }, generation });
        std::iter::from_fn(|| jobs.poll()).collect()
    }

    fn gone(jobs: &mut Jobs, rank: u32) -> Vec<PartyReply<RankAt>> {
        jobs.on_rank_gone(JOB, Rank(rank), None, "killed by signal 9", true);
        std::iter::from_fn(|| jobs.poll()).collect()
    }

    fn at_another_home() -> Jobs {
        let mut jobs = Jobs::new();
        jobs.forget_rounds();
        jobs
    }

    fn release(rank: u32, generation: u64) -> PartyReply<RankAt> {
        PartyReply { who: RankAt { job: JOB, rank: Rank(rank), generation }, outcome: Ok(()) }
    }

    fn fail(rank: u32, generation: u64, who: u32) -> PartyReply<RankAt> {
        let error = Error::RankGone { rank: Rank(who), reason: "killed by signal 9".into() };
        PartyReply { who: RankAt { job: JOB, rank: Rank(rank), generation }, outcome: Err(error) }
    }

    #[test]
    // FEATURE: D2-F8
    fn the_last_arrival_releases_everyone_and_a_repetition_is_answered_again() {
        let mut jobs = Jobs::new();
        assert_eq!(arrive(&mut jobs, 1, 2, 0), []);
        assert_eq!(arrive(&mut jobs, 1, 2, 0), [], "a repetition while the round gathers");
        assert_eq!(arrive(&mut jobs, 0, 2, 0), [release(0, 0), release(1, 0)]);
        assert_eq!(arrive(&mut jobs, 1, 2, 0), [release(1, 0)], "its release was lost");
        assert_eq!(arrive(&mut jobs, 1, 2, 1), []);
        assert_eq!(arrive(&mut jobs, 0, 2, 0), [release(0, 0)], "one rank is a round ahead of the other's repetition");
        assert_eq!(arrive(&mut jobs, 0, 2, 1), [release(0, 1), release(1, 1)]);
    }

    #[test]
    fn a_home_that_follows_another_learns_from_arrivals_which_barriers_completed() {
        let mut jobs = at_another_home();
        assert_eq!(arrive(&mut jobs, 0, 3, 7), [], "its release was lost with the home before");
        assert_eq!(arrive(&mut jobs, 1, 3, 8), [release(0, 7)], "so barrier 7 has completed");
        assert_eq!(arrive(&mut jobs, 2, 3, 7), [release(2, 7)]);
        assert_eq!(arrive(&mut jobs, 0, 3, 8), []);
        assert_eq!(arrive(&mut jobs, 2, 3, 8), [release(0, 8), release(1, 8), release(2, 8)]);
        assert!(matches!(arrive(&mut Jobs::new(), 0, 2, 1)[..], [PartyReply { outcome: Err(Error::Garbage { .. }), .. }]));
    }

    #[test]
    fn an_arrival_that_is_refused_completes_no_barrier_at_a_home_that_follows_another() {
        let mut jobs = at_another_home();
        assert_eq!(arrive(&mut jobs, 0, 2, 7), []);
        assert!(matches!(arrive(&mut jobs, 1, 3, 8)[..], [PartyReply { outcome: Err(_), .. }]), "a job of another size");
        assert_eq!(arrive(&mut jobs, 1, 2, 7), [release(0, 7), release(1, 7)]);
        let mut last = at_another_home();
        assert_eq!(arrive(&mut last, 0, 1, u64::MAX), [release(0, u64::MAX)], "a number that a program made up");
        assert_eq!(arrive(&mut last, 0, 1, u64::MAX), [release(0, u64::MAX)]);
    }

    #[test]
    fn ranks_that_are_gone_stay_so_where_the_home_moves() {
        let mut jobs = Jobs::new();
        arrive(&mut jobs, 0, 3, 0);
        jobs.on_rank_gone(JobId(2), Rank(0), Some(2), "killed by signal 9", true);
        jobs.forget_rounds();
        // The coordinator tells of it before its node is home.
        gone(&mut jobs, 2);
        jobs.forget_rounds();
        assert_eq!(arrive(&mut jobs, 1, 3, 4), [fail(1, 4, 2)]);
        assert!(jobs.death(JobId(2)).is_some());
    }

    #[test]
    fn a_job_of_one_rank_never_waits() {
        let mut jobs = Jobs::new();
        assert_eq!(arrive(&mut jobs, 0, 1, 0), [release(0, 0)]);
        assert_eq!(arrive(&mut jobs, 0, 1, 1), [release(0, 1)]);
    }

    #[test]
    fn a_gone_rank_fails_those_who_wait_and_those_who_come() {
        let mut jobs = Jobs::new();
        arrive(&mut jobs, 0, 3, 0);
        assert_eq!(gone(&mut jobs, 2), [fail(0, 0, 2)]);
        assert_eq!(arrive(&mut jobs, 1, 3, 0), [fail(1, 0, 2)]);
        assert_eq!(gone(&mut jobs, 2), [], "told twice");
        assert_eq!(gone(&mut jobs, 1), []);
        assert_eq!(jobs.phase(JOB), Some(Phase::Broken));
        assert_eq!(gone(&mut jobs, 0), []);
        assert_eq!((jobs.count(), jobs.phase(JOB)), (0, Some(Phase::Empty)));
        assert_eq!(arrive(&mut jobs, 1, 3, 0), [fail(1, 0, 2)], "who was taken for gone does not begin the job anew");
        assert_eq!(gone(&mut jobs, 0), [], "told twice");
    }

    #[test]
    fn a_rank_that_is_gone_before_anyone_arrived_is_remembered() {
        let mut jobs = Jobs::new();
        gone(&mut jobs, 1);
        assert_eq!(arrive(&mut jobs, 0, 2, 0), [fail(0, 0, 1)]);
    }

    #[test]
    fn a_rank_that_detached_has_not_died_and_the_first_that_died_is_named() {
        let mut jobs = Jobs::new();
        jobs.on_rank_gone(JOB, Rank(0), Some(3), "detached", false);
        assert_eq!(jobs.death(JOB), None);
        gone(&mut jobs, 2);
        gone(&mut jobs, 1);
        assert!(matches!(jobs.death(JOB), Some(Error::RankGone { rank: Rank(2), .. })));
        assert_eq!(jobs.death(JobId(2)), None);
    }

    #[test]
    fn a_rank_that_waits_and_is_taken_for_gone_with_its_node_is_told_too() {
        let mut jobs = Jobs::new();
        arrive(&mut jobs, 0, 2, 0);
        assert_eq!(gone(&mut jobs, 0), [fail(0, 0, 0)]);
    }

    #[test]
    fn a_round_that_completed_stays_complete_when_a_rank_goes_after_it() {
        let mut jobs = Jobs::new();
        arrive(&mut jobs, 0, 2, 0);
        arrive(&mut jobs, 1, 2, 0);
        gone(&mut jobs, 1);
        assert_eq!(arrive(&mut jobs, 0, 2, 0), [release(0, 0)]);
        assert_eq!(arrive(&mut jobs, 0, 2, 1), [fail(0, 1, 1)]);
    }

    #[test]
    fn ranks_that_disagree_or_make_no_sense_are_refused_and_disturb_nobody() {
        let mut jobs = Jobs::new();
        let refused = |outputs: Vec<PartyReply<RankAt>>| matches!(outputs.as_slice(), [PartyReply { outcome: Err(_), .. }]);
        assert!(refused(arrive(&mut jobs, 0, 0, 0)));
        assert!(refused(arrive(&mut jobs, 0, RANK_COUNT_MAX + 1, 0)));
        assert_eq!(jobs.count(), 0);
        arrive(&mut jobs, 0, 2, 0);
        assert!(refused(arrive(&mut jobs, 1, 3, 0)));
        assert!(refused(arrive(&mut jobs, 2, 2, 0)));
        assert!(refused(arrive(&mut jobs, 1, 2, 7)));
        assert_eq!(arrive(&mut jobs, 1, 2, 0), [release(0, 0), release(1, 0)]);
    }

    #[test]
    fn beyond_the_limit_broken_jobs_are_forgotten_first() {
        let mut jobs = Jobs::new();
        for job in 0..JOB_COUNT_MAX as u128 {
            jobs.on_rank_gone(JobId(job), Rank(0), None, "ended", false);
        }
        jobs.on_arrive(Arrival { who: JobRank { job: JobId(u128::MAX), rank: Rank(0), ranks: 2 }, generation: 0 });
        assert_eq!(jobs.poll(), None);
        assert_eq!(jobs.count(), JOB_COUNT_MAX);
        assert_eq!(jobs.phase(JobId(0)), None, "the oldest went");
    }

    /// A rank's program: which barrier it is at, whether it waits there, and whether it is gone.
    #[derive(Clone, Copy)]
    struct Program {
        at: u64,
        waits: bool,
        gone: bool,
    }

    /// Steps one rank; returns true if the step was possible.
    fn step(jobs: &mut Jobs, programs: &mut [Program; 3], rank: usize, action: u32) -> bool {
        let me = programs[rank];
        let (number, ranks) = (rank as u32, programs.len() as u32);
        let outputs = match action {
            0 if !me.gone && !me.waits => {
                programs[rank].waits = true;
                arrive(jobs, number, ranks, me.at)
            }
            1 if me.waits => arrive(jobs, number, ranks, me.at),
            2 if me.at > 0 => arrive(jobs, number, ranks, me.at - 1),
            3 if !me.gone => {
                (programs[rank].gone, programs[rank].waits) = (true, false);
                gone(jobs, number)
            }
            _ => return false,
        };
        let before = *programs;
        for PartyReply { who: RankAt { rank, generation, .. }, outcome } in outputs {
            match outcome {
                Ok(()) => {
                    let has_arrived = |program: &Program| program.at > generation || program.waits && program.at == generation;
                    let died_after = |program: &Program| program.gone && program.at >= generation;
                    assert!(before.iter().all(|program| has_arrived(program) || died_after(program)), "released early");
                    let me = &mut programs[rank.0 as usize];
                    if me.waits && me.at == generation {
                        (me.waits, me.at) = (false, generation + 1);
                    }
                }
                Err(error) => {
                    let Error::RankGone { rank: who, .. } = error else { panic!("{error}") };
                    assert!(programs[who.0 as usize].gone, "failed for a rank that is there");
                    programs[rank.0 as usize].waits = false;
                }
            }
        }
        let someone_gone = programs.iter().any(|program| program.gone);
        let all_wait = programs.iter().all(|program| program.waits);
        let waits_in_vain = someone_gone && programs.iter().any(|program| program.waits);
        assert!(!all_wait && !waits_in_vain, "somebody waits for nothing");
        true
    }

    fn explore(jobs: &Jobs, programs: [Program; 3], depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let mut paths = 0;
        for rank in 0..3 {
            for action in 0..4 {
                let (mut jobs, mut programs) = (jobs.clone(), programs);
                if step(&mut jobs, &mut programs, rank, action) {
                    paths += explore(&jobs, programs, depth - 1);
                }
            }
        }
        paths
    }

    #[test]
    fn every_order_of_arrivals_repetitions_and_ends_of_three_ranks_keeps_the_promise() {
        let fresh = Program { at: 0, waits: false, gone: false };
        let paths = explore(&Jobs::new(), [fresh; 3], 8);
        assert!(paths > 100_000, "{paths} paths");
    }
}
