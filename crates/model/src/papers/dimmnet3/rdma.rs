//! Remote updates of memory that was never touched before: a pin-down cache, Active Zero-copy, and the extended memory.
//!
//! The first keeps target pages pinned and must release one to pin another; the second needs no pinned target and
//! interrupts its host for every message; the third is never paged, so that the board stores what arrives.
use super::machine::Machine;
use super::rules::RULES;
use crate::claim::{Check, Judgement, Limit};
use crate::engine::Engine;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;
use crate::recent::Recent;
use crate::sequence::Sequence;
use crate::station::Station;
use crate::time::Picos;

/// How a remote update finds its target memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Main memory behind a pin-down cache.
    PinDownCache,
    /// Main memory, with an interrupt a message.
    ActiveZeroCopy,
    /// The board's memory.
    Extended,
}

impl Target {
    const ALL: [Target; 3] = [Target::PinDownCache, Target::ActiveZeroCopy, Target::Extended];

    fn name(self) -> &'static str {
        match self {
            Target::PinDownCache => "pin-down cache",
            Target::ActiveZeroCopy => "Active Zero-copy",
            Target::Extended => "extended memory",
        }
    }
}

/// What a run of updates cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Updates {
    /// Mean time from the wish to the stored update.
    pub latency: Picos,
    /// Target host's processor time for one update.
    pub host: Picos,
    /// Share of updates that found their page pinned, 0 to 1.
    pub hit_ratio: f64,
}

/// The cited constants of the three ways.
struct Costs {
    transfer: Picos,
    pin: Picos,
    unpin: Picos,
    interrupt: Picos,
    extended: Picos,
    cache_pages: usize,
    messages: u64,
    interval: Picos,
    seed: u64,
}

impl Costs {
    fn new(parameters: &Parameters) -> Costs {
        Costs {
            transfer: parameters.picos("rdma.transfer"),
            pin: parameters.picos("rdma.pin"),
            unpin: parameters.picos("rdma.unpin"),
            interrupt: parameters.picos("rdma.interrupt"),
            extended: extended(&Machine::new(parameters)),
            cache_pages: parameters.count("rdma.cache_pages") as usize,
            messages: parameters.count("rdma.messages"),
            interval: parameters.picos("rdma.interval"),
            seed: parameters.count("rdma.seed"),
        }
    }
}

/// One update of 64 B into the other board's memory: the host's stores, two boards and the network; no host at the target.
// FEATURE: D3-F1 D3-F21
fn extended(machine: &Machine) -> Picos {
    const UPDATE_BYTES: u64 = 64;
    let len_bytes = machine.header_bytes + UPDATE_BYTES;
    let nic = &machine.nic;
    let wire = &machine.wire;
    let posted = machine.host.stores(len_bytes) + machine.host.command(nic.command_bytes.botf) + machine.host.out;
    let sent =
        nic.crossing + nic.command + nic.packetise + Picos::from_bytes(len_bytes + wire.overhead_bytes, wire.bytes_per_second);
    posted + sent + wire.hop + nic.receive + machine.memory.access(UPDATE_BYTES)
}

enum Event {
    Wish,
    Start { wished: Picos },
}

/// Updates of pages drawn evenly from `page_count` pages, one at a time.
// FEATURE: D3-F22
fn run(costs: &Costs, target: Target, page_count: u64) -> Updates {
    let mut engine = Engine::new();
    let mut pages = Sequence::new(costs.seed);
    let mut pinned = Recent::new(costs.cache_pages);
    let mut initiator = Station::new();
    let (mut left, mut hits) = (costs.messages, 0_u64);
    let (mut waited, mut host) = (Picos::ZERO, Picos::ZERO);
    engine.schedule(Picos::ZERO, Event::Wish);
    while let Some((now, event)) = engine.pop() {
        match event {
            Event::Wish => {
                left -= 1;
                engine.schedule(now, Event::Start { wished: now });
                if left > 0 {
                    engine.schedule(now + costs.interval, Event::Wish);
                }
            }
            Event::Start { wished } => {
                let (at_host, wire) = match target {
                    Target::PinDownCache => {
                        let was_full = pinned.is_full();
                        let is_hit = pinned.touch(pages.below(page_count));
                        hits += u64::from(is_hit);
                        let release = if was_full { costs.unpin } else { Picos::ZERO };
                        (if is_hit { Picos::ZERO } else { costs.pin + release }, costs.transfer)
                    }
                    Target::ActiveZeroCopy => (costs.interrupt, costs.transfer),
                    Target::Extended => (Picos::ZERO, costs.extended),
                };
                host += at_host;
                waited += initiator.take(now, at_host + wire).end.since(wished);
            }
        }
    }
    Updates {
        latency: Picos(waited.0 / costs.messages),
        host: Picos(host.0 / costs.messages),
        hit_ratio: hits as f64 / costs.messages as f64,
    }
}

/// Random remote updates over growing sets of target pages: figure 6.
pub fn updates(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let costs = Costs::new(parameters);
    let columns = [
        ("target pages", "count"),
        ("pinned already", "%"),
        ("pin-down cache", "us"),
        ("Active Zero-copy", "us"),
        ("extended memory", "us"),
        ("host: pin-down", "us"),
        ("host: Active Zero-copy", "us"),
    ];
    let mut table = Table::new("Mean time of a random remote update", &columns);
    let mut plot = Plot::new("Random remote updates", Axis::log("target pages", "count"), Axis::log("mean time", "us"));
    let sizes: Vec<u64> = (8..=20).map(|power| 1 << power).collect();
    let runs: Vec<[Updates; 3]> = sizes.iter().map(|&pages| Target::ALL.map(|target| run(&costs, target, pages))).collect();
    for (&pages, [cache, active, extended]) in sizes.iter().zip(&runs) {
        table.row(vec![
            pages.into(),
            (100.0 * cache.hit_ratio).into(),
            cache.latency.as_us().into(),
            active.latency.as_us().into(),
            extended.latency.as_us().into(),
            cache.host.as_us().into(),
            active.host.as_us().into(),
        ]);
    }
    for (index, target) in Target::ALL.iter().enumerate() {
        plot.line(target.name(), sizes.iter().zip(&runs).map(|(&pages, run)| (pages as f64, run[index].latency.as_us())));
    }
    outcome.tables.push(table);
    outcome.plots.push(plot.figure("D3 figure 6"));
    outcome.headline("pin-down cache, most pages", "us", runs[runs.len() - 1][0].latency.as_us());
    outcome
}

/// The fewest and the most target pages.
fn extremes(parameters: &Parameters) -> [[Updates; 3]; 2] {
    let costs = Costs::new(parameters);
    [1 << 8, 1 << 20].map(|pages| Target::ALL.map(|target| run(&costs, target, pages)))
}

fn rise([few, many]: &[[Updates; 3]; 2], target: usize) -> f64 {
    many[target].latency.as_us() / few[target].latency.as_us()
}

fn in_words(runs: &[[Updates; 3]; 2]) -> String {
    let [few, many] = runs;
    format!(
        "from few to many pages: pin-down cache x{:.1} ({:.1} to {:.1} us), Active Zero-copy x{:.2}, extended memory x{:.2} at {:.1} us",
        rise(runs, 0),
        few[0].latency.as_us(),
        many[0].latency.as_us(),
        rise(runs, 1),
        rise(runs, 2),
        many[2].latency.as_us()
    )
}

/// D3-C15.
pub fn never_paged(parameters: &Parameters) -> Option<Judgement> {
    let runs = extremes(parameters);
    Some(Judgement::new(
        in_words(&runs),
        "Pinning, releasing and interrupt costs are public ones; that the board's memory needs neither is its design, that the cache's misses grow with the pages is run.",
        vec![
            Check::new("extended memory, many pages over few", rise(&runs, 2), "x", Limit::Below(RULES.word("not degrade"))),
            Check::is("extended memory takes none of the target's processor", runs[1][2].host == Picos::ZERO),
            Check::new("pin-down cache, many pages over few", rise(&runs, 0), "x", Limit::Above(RULES.word("degrade"))),
        ],
    ))
}

/// D3-C20.
pub fn pinned(parameters: &Parameters) -> Option<Judgement> {
    let runs = extremes(parameters);
    let (cache, active) = (&runs[1][0], &runs[1][1]);
    Some(Judgement::new(
        format!(
            "{}; {:.1} % of pages still pinned; {:.0} us of the target's processor for each Active Zero-copy message",
            in_words(&runs),
            100.0 * cache.hit_ratio,
            active.host.as_us()
        ),
        "Run with pages drawn evenly; nothing of it is calibrated on the paper, which prints no latency here.",
        vec![
            Check::new("pin-down cache, many pages over few", rise(&runs, 0), "x", Limit::Above(RULES.word("degrade"))),
            Check::new("pages still pinned", 100.0 * cache.hit_ratio, "%", Limit::Below(RULES.word("inefficient"))),
            Check::new("Active Zero-copy, many pages over few", rise(&runs, 1), "x", Limit::Below(RULES.word("not degrade"))),
            Check::new("Active Zero-copy, target's processor a message", active.host.as_us(), "us", Limit::Above(0.0)),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn pages_that_fit_stay_pinned() {
        let costs = Costs::new(&parameters());
        let few = run(&costs, Target::PinDownCache, 64);
        assert_eq!(few.hit_ratio, (costs.messages - 64) as f64 / costs.messages as f64);
    }

    #[test]
    fn hits_fall_to_the_share_of_pages_that_fit() {
        let costs = Costs::new(&parameters());
        let pages = 4 * costs.cache_pages as u64;
        let ratio = run(&costs, Target::PinDownCache, pages).hit_ratio;
        assert!((0.1..=0.25).contains(&ratio), "seed {}: {ratio}", costs.seed);
    }
}
