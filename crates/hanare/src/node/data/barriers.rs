//! Who waits at which barrier, on which link: the driver of the barriers' state machine.

use hanare_protocol::Error;
use hanare_protocol::barrier::{Jobs, Output};
use hanare_protocol::id::{JobId, Rank};
use hanare_protocol::wire::control::Arrival;
use std::collections::HashMap;

/// Where an answer goes: the session and the number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub session: u64,
    pub seq: u64,
}

#[derive(Default)]
pub(crate) struct Barriers {
    jobs: Jobs,
    waiters: HashMap<(JobId, Rank, u64), Waiter>,
}

/// An answer to an arrival.
pub(crate) type Answered = (Waiter, Result<(), Error>);

impl Barriers {
    pub fn on_arrival(&mut self, arrival: Arrival, waiter: Waiter) -> Vec<Answered> {
        self.waiters.insert((arrival.who.job, arrival.who.rank, arrival.generation), waiter);
        self.jobs.on_arrive(arrival);
        self.answers()
    }

    pub fn on_rank_gone(&mut self, job: JobId, rank: Rank, ranks: Option<u32>, reason: &str) -> Vec<Answered> {
        self.jobs.on_rank_gone(job, rank, ranks, reason);
        self.answers()
    }

    /// A link went: nobody is told anything there.
    pub fn forget(&mut self, session: u64) {
        self.waiters.retain(|_, waiter| waiter.session != session);
    }

    fn answers(&mut self) -> Vec<Answered> {
        let mut answers = Vec::new();
        while let Some(output) = self.jobs.poll() {
            let (key, outcome) = match output {
                Output::Release { job, rank, generation } => ((job, rank, generation), Ok(())),
                Output::Fail { job, rank, generation, error } => ((job, rank, generation), Err(error)),
            };
            if let Some(waiter) = self.waiters.remove(&key) {
                answers.push((waiter, outcome));
            }
        }
        answers
    }
}
