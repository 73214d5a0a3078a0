//! RHiNET's primitives from one node to another over TCP, a page each. Push, pull, push page in its three modes, and send. A call's time is
//! that until it returns: when the bytes are there.
//!
// FEATURE: RF-F20

use crate::Options;
use crate::compare::{baseline, compare, own};
use crate::nodes::Nodes;
use crate::report::{Claim, Report};
use crate::turns::{Contestant, Figures, Outcome, take_turns, time_step};
use anyhow::{Result, anyhow, ensure};
use hanare::{Body, CreateOptions, JobId, JobRank, Mailbox, NodeId, Placement, Pool, PushedPage, Rank, Wanted};
use std::time::Duration;

/// The bench's name.
pub const NAME: &str = "primitives";

const PAGE_LEN: usize = 4096;
const LINES: u32 = 4096;
const REGION_LEN: u64 = 1 << 20;
/// Memory that a node lends: the page cache of the paper's size, and room to spare.
const MEMORY: u64 = 64 << 20;

const PUSH: &str = "push";
const PULL: &str = "pull";
const PAGE: &str = "push page";
const CACHING: &str = "push page, page caching";
const FROM_CACHE: &str = "push page, send from cache";
const SEND: &str = "send";

/// Each beside what it is compared with.
const PRIMITIVES: [(&str, &str); 6] =
    [(PUSH, PUSH), (PULL, PUSH), (PAGE, PUSH), (CACHING, PAGE), (FROM_CACHE, PAGE), (SEND, PUSH)];

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2).max(2), MEMORY)?;
    let contestants = vec![Contestant::ours("hanare", || turn(&nodes, options.budget()))];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let ours = &outcomes[0];
    let mut report = Report::new(NAME);
    for (primitive, beside) in PRIMITIVES {
        let case = format!("{primitive}, 4 KiB to another node, tcp");
        report.rows.push(compare(case, ours, primitive, &baseline(ours, beside), beside, None)?);
    }
    if !options.quick {
        report.claims = claims(ours)?;
    }
    Ok(report)
}

/// Two ranks: the first measures, the second receives what is sent.
fn turn(nodes: &Nodes, budget: Duration) -> Result<Figures> {
    let job = JobId(rand::random());
    let attach = |rank: u32| nodes.attach_as(rank as usize, JobRank { job, rank: Rank(rank), ranks: 2 });
    let (here, there) = (attach(0)?, attach(1)?);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mailbox = there.job_group().mailbox(1 << 20)?;
            receive_all(&mailbox)?;
            Ok::<(), anyhow::Error>(there.barrier()?)
        });
        let figures = measure(&here, budget)?;
        receiving.join().map_err(|_| anyhow!("a rank panicked"))??;
        Ok(figures)
    })
}

/// Until an empty message says that this was all.
fn receive_all(mailbox: &Mailbox) -> Result<()> {
    let mut page = [0; PAGE_LEN];
    loop {
        let message = mailbox.receive(Wanted { from: None, context: 0, tag: None }, None)?;
        if message.is_empty() {
            return Ok(());
        }
        message.read(0, &mut page)?;
    }
}

fn measure(pool: &Pool, budget: Duration) -> Result<Figures> {
    let mailbox = pool.job_group().mailbox(1 << 20)?;
    let cache = pool.page_cache(LINES)?;
    let options = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let name = format!("primitives-{:016x}", rand::random::<u64>());
    let region = pool.create(&name, REGION_LEN, &options)?;
    ensure!(!region.is_local(), "the region lies on the other node");
    let page: [u8; PAGE_LEN] = std::array::from_fn(|at| (at * 7) as u8);
    region.put(0, &page.repeat(REGION_LEN as usize / PAGE_LEN))?;
    let mut into = [0; PAGE_LEN];
    // Pages of the region and lines are used in turn.
    let mut count = 0u32;
    let mut next = || {
        count += 1;
        (count % LINES, u64::from(count) * PAGE_LEN as u64 % REGION_LEN)
    };
    for line in 0..LINES {
        cache.push(PushedPage::Caching(&page, line), &region, 0)?;
    }
    let mut figures = Figures::new();
    let mut time = |key: &str, step: &mut dyn FnMut() -> hanare::Result<()>| -> Result<()> {
        figures.insert(key.to_owned(), time_step(budget, step)?);
        Ok(())
    };
    time(PUSH, &mut || region.put(next().1, &page))?;
    time(PULL, &mut || region.get(next().1, &mut into))?;
    time(PAGE, &mut || cache.push(PushedPage::Normal(&page), &region, next().1))?;
    time(CACHING, &mut || {
        let (line, offset) = next();
        cache.push(PushedPage::Caching(&page, line), &region, offset)
    })?;
    time(FROM_CACHE, &mut || {
        let (line, offset) = next();
        cache.push(PushedPage::FromCache(line), &region, offset)
    })?;
    time(SEND, &mut || mailbox.send(1, 0, 0, &[], Body::Bytes(&page)))?;
    ensure!(into == page, "other bytes came back");
    mailbox.send(1, 0, 0, &[], Body::Bytes(&[]))?;
    pool.barrier()?;
    pool.remove(&name)?;
    Ok(figures)
}

/// The paper's comparisons.
fn claims(ours: &Outcome) -> Result<Vec<Claim>> {
    let ratio = |a: &str, b: &str| Ok::<f64, anyhow::Error>(own(a, ours, a)? / own(b, ours, b)?);
    let (pull, send) = (ratio(PULL, PUSH)?, ratio(SEND, PUSH)?);
    let (from_cache, caching) = (ratio(PAGE, FROM_CACHE)?, ratio(CACHING, PAGE)?);
    Ok(vec![
        // SOURCE: [RF §4.2] "somewhat higher", "slightly lower", "about 4 % better", "no extra latency": within a tenth where no figure is given
        Claim::new("RF-C3", pull, (1.0..=1.5).contains(&pull)),
        Claim::new("RF-C4", send, (0.8..1.0).contains(&send)),
        Claim::new("RF-C5", from_cache, (1.02..=1.1).contains(&from_cache)),
        Claim::new("RF-C6", caching, caching <= 1.1),
    ])
}
