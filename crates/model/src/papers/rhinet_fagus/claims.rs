//! How the paper's statements on RHiNET and Fagus are judged.
use std::rc::Rc;

use super::barrier;
use super::coherence::{self, Extremes};
use super::decomposition::{Runs, runs};
use super::lu::Run;
use super::primitives::{PageMode, Primitive, bandwidth, fitted, transfer};
use super::rules::RULES;
use super::transport::Transport;
use crate::claim::{Check, Judgement, Limit};
use crate::facts::facts;
use crate::memo::memo;
use crate::parameters::Parameters;

/// How much faster Send from Cache is than Normal on long transfers, in percent.
pub fn cache_gain(parameters: &Parameters) -> f64 {
    let rate = |mode| bandwidth(parameters, Primitive::PushPage(mode));
    100.0 * (rate(PageMode::SendFromCache) / rate(PageMode::Normal) - 1.0)
}

/// The DMA set-up from the read bandwidth alone.
pub fn on_pull(parameters: &Parameters) -> Parameters {
    fitted(parameters, Primitive::Pull, facts().number("rf.pull_bw"))
}

/// The DMA set-up from the write bandwidth alone.
pub fn on_push(parameters: &Parameters) -> Parameters {
    fitted(parameters, Primitive::Push, facts().number("rf.push_bw"))
}

/// RF-C1.
pub fn write(parameters: &Parameters) -> Option<Judgement> {
    let rate = bandwidth(parameters, Primitive::Push);
    Some(Judgement::new(
        format!("{rate:.1} MB/s"),
        "A read's extra way to the remote interface is counted from the mechanism; the rest of a page's time is the same for both.",
        vec![Check::fact(&RULES, "rf.push_bw", "bandwidth of Push", rate)],
    ))
}

/// RF-C2.
pub fn read(parameters: &Parameters) -> Option<Judgement> {
    let (read, write) = (bandwidth(parameters, Primitive::Pull), bandwidth(parameters, Primitive::Push));
    Some(Judgement::new(
        format!("{read:.1} MB/s, against {write:.1} MB/s of write"),
        "The DMA set-up is fitted to the write bandwidth; each page of a read is asked for when the one before has arrived.",
        vec![
            Check::fact(&RULES, "rf.pull_bw", "bandwidth of Pull", read),
            Check::new("Pull over Push", read / write, "x", Limit::Below(1.0)),
        ],
    ))
}

fn word_times(parameters: &Parameters) -> [f64; 3] {
    [Primitive::Push, Primitive::Pull, Primitive::Send].map(|primitive| transfer(parameters, primitive, 4, None).as_us())
}

/// RF-C3.
pub fn pull_latency(parameters: &Parameters) -> Option<Judgement> {
    let [push, pull, send] = word_times(parameters);
    Some(Judgement::new(
        format!("4 B: Pull {pull:.2} us, Push {push:.2} us, Send {send:.2} us"),
        "The request crosses the network before the remote interface does what a Push does.",
        vec![
            Check::new("Pull over Push, 4 B", pull / push, "x", Limit::Above(1.0)),
            Check::new("Pull over Send, 4 B", pull / send, "x", Limit::Above(1.0)),
            Check::new("Pull over Push, 4 B", pull / push, "x", Limit::Below(RULES.word("somewhat"))),
        ],
    ))
}

/// RF-C4.
pub fn send_latency(parameters: &Parameters) -> Option<Judgement> {
    let [push, _, send] = word_times(parameters);
    Some(Judgement::new(
        format!("4 B: Send {send:.2} us, Push {push:.2} us"),
        "Three command words less to write and one look-up less to make; word and look-up times are public or chosen, their counts follow from the operands.",
        vec![
            Check::new("Send over Push, 4 B", send / push, "x", Limit::Below(1.0)),
            Check::new("Send over Push, 4 B", send / push, "x", Limit::Above(RULES.word("slightly"))),
        ],
    ))
}

/// RF-C5.
pub fn from_cache(parameters: &Parameters) -> Option<Judgement> {
    let gain = cache_gain(parameters);
    Some(Judgement::new(
        format!("{gain:.1} % on long transfers"),
        "The set-up is what bursts of whole PCI clocks leave of the 48 MB/s, so one clock of a burst is worth more than the gain itself. It also rests on the receiving bus being as slow as the sending one.",
        vec![Check::fact(&RULES, "rf.cache_gain", "Send from Cache over Normal", gain)],
    ))
}

/// RF-C6.
pub fn caching_is_free(parameters: &Parameters) -> Option<Judgement> {
    let page = |mode| transfer(parameters, Primitive::PushPage(mode), 4096, None).as_us();
    let (normal, caching) = (page(PageMode::Normal), page(PageMode::PageCaching));
    Some(Judgement::new(
        format!("one page: Normal {normal:.1} us, Page Caching {caching:.1} us"),
        "The interface writes the line while the page passes, on a memory that nothing else uses then: the model was told so.",
        vec![Check::new("Page Caching over Normal", caching / normal, "x", Limit::AtMost(RULES.word("no extra")))],
    ))
}

/// One row: nodes, invalidation, update; RHiNET first.
type Rows = Vec<(usize, Extremes, Extremes)>;

fn rows(parameters: &Parameters) -> [Rows; 2] {
    let range = facts().fact("rf.coherence.nodes").input().numbers();
    Transport::both(parameters).map(|transport| {
        let row = |nodes| {
            let update = coherence::update(parameters, &transport, nodes, None);
            (nodes, coherence::invalidate(parameters, &transport, nodes), update)
        };
        (range[0] as usize..=range[1] as usize).map(row).collect()
    })
}

/// RF-C7.
pub fn in_arrival_order(parameters: &Parameters) -> Option<Judgement> {
    let [rhinet, ethernet] = rows(parameters);
    let text = |(nodes, _, update): &(usize, Extremes, Extremes)| {
        format!("{nodes} nodes {:.0} to {:.0} us", update.least.as_us(), update.greatest.as_us())
    };
    let list = |rows: &Rows| rows.iter().map(text).collect::<Vec<_>>().join(", ");
    let spread = |rows: &Rows| {
        let several = rows.iter().filter(|row| row.0 > 2);
        several.map(|row| row.2.greatest.as_us() / row.2.least.as_us()).fold(f64::INFINITY, f64::min)
    };
    let check = |name: &str, rows: &Rows| {
        Check::new(format!("Max over Min, 3 and 4 nodes, {name}"), spread(rows), "x", Limit::Above(1.0))
    };
    Some(Judgement::new(
        format!("update on RHiNET: {}; on Ethernet: {}", list(&rhinet), list(&ethernet)),
        "Clients read at the same moment; the server takes their requests in the order of arrival, so that the last waits for the pages of the others.",
        vec![check("RHiNET", &rhinet), check("Ethernet", &ethernet)],
    ))
}

/// RF-C8.
pub fn reported(parameters: &Parameters) -> Option<Judgement> {
    let shown = |rows: &Rows| {
        let each = rows.iter().map(|row| format!("{:.0}/{:.0}", row.1.greatest.as_us(), row.2.greatest.as_us()));
        each.collect::<Vec<_>>().join(", ")
    };
    let [rhinet, ethernet] = rows(parameters);
    Some(Judgement::nothing(
        format!("slowest invalidation/update in us for 2, 3, 4 nodes: RHiNET {}; Ethernet {}", shown(&rhinet), shown(&ethernet)),
        "The claim is that these are reported; the text gives no value and no order, so there is nothing to meet. Both are drawn.",
    ))
}

/// Best barrier throughputs: pages cached as they are sent, every page sent from the cache, Ethernet.
fn throughputs(parameters: &Parameters) -> Rc<[f64; 3]> {
    memo("rhinet-fagus barrier", parameters, |parameters| {
        let range = facts().fact("rf.barrier.sizes").input().numbers();
        let step = facts().number("rf.barrier.step") as usize;
        let sizes: Vec<u64> = (range[0] as u64..=range[1] as u64).step_by(step).map(|kilobytes| kilobytes * 1024).collect();
        let [rhinet, ethernet] = Transport::both(parameters);
        let best =
            |transport: &Transport, mode| barrier::sweep(parameters, transport, &sizes, mode).into_iter().fold(0.0, f64::max);
        [best(&rhinet, PageMode::PageCaching), best(&rhinet, PageMode::SendFromCache), best(&ethernet, PageMode::Normal)]
    })
}

/// RF-C9.
pub fn barrier_rhinet(parameters: &Parameters) -> Option<Judgement> {
    let [rhinet, cached, _] = *throughputs(parameters);
    let check = |rate| vec![Check::fact(&RULES, "rf.barrier.rhinet", "barrier throughput, RHiNET", rate)];
    let printed = facts().fact("rf.barrier.rhinet").named();
    Some(Judgement::new(
        format!("{rhinet:.1} MB/s; {cached:.1} MB/s if every page were in the cache"),
        "The printed number is suspect: it exceeds the 48 MB/s of the plain write it is made of. A barrier of freshly written pages cannot send from the cache; one that repeats the same pages can.",
        check(rhinet),
    )
    .or("pages written since the last barrier", "pages in the Network Page Cache, which section 3(2) says updates use", check(cached))
    .finding(format!(
        "The printed {printed} exceed the printed bandwidth of the write below them. Sending every page from the page cache explains them: {cached:.1} MB/s."
    )))
}

/// RF-C10.
pub fn barrier_ethernet(parameters: &Parameters) -> Option<Judgement> {
    let ethernet = throughputs(parameters)[2];
    Some(Judgement::new(
        format!("{ethernet:.1} MB/s"),
        "Frames, headers and the host's work of Linux 2.2 are public figures; datagrams stop for an acknowledgement when half of the default socket buffer is out.",
        vec![Check::fact(&RULES, "rf.barrier.ethernet", "barrier throughput, Ethernet", ethernet)],
    ))
}

/// RF-C11.
pub fn nearly_all(parameters: &Parameters) -> Option<Judgement> {
    let [rhinet, _, ethernet] = *throughputs(parameters);
    let line = parameters.bytes_per_second("ethernet.rate") as f64 / 1e6;
    let push = bandwidth(parameters, Primitive::PushPage(PageMode::Normal));
    let check = |name: &str, share| Check::new(name, share, "", Limit::Above(RULES.word("nearly all")));
    Some(Judgement::new(
        format!("RHiNET {:.0} % of Push Page, Ethernet {:.0} % of the line rate", 100.0 * rhinet / push, 100.0 * ethernet / line),
        "Of the primitive on RHiNET, of 12.5 MB/s on Ethernet; the barrier's own messages are a small part at 512 KB. Ethernet's 10.5 MB/s agree with the printed \"about 11\" and are yet short of this.",
        vec![
            check("RHiNET's barrier over Push Page", rhinet / push),
            check("Ethernet's barrier over the line rate", ethernet / line),
        ],
    ))
}

fn list(runs: &Runs, line: &[Run]) -> String {
    let each = runs.nodes.iter().zip(line).skip(1).map(|(nodes, run)| format!("{nodes} nodes {:.0} s", run.total.as_s()));
    each.collect::<Vec<_>>().join(", ")
}

fn lu_runs(parameters: &Parameters) -> Rc<Runs> {
    memo("rhinet-fagus lu", parameters, runs)
}

const LU: &str = "Nothing is fitted to figure 6. A library thread that polls for the completion of one release yields to its own program, which computes a whole step before the next release leaves. That needs the server's own thread to be let go first, which the paper does not say.";

/// Least ratio of RHiNET's to Ethernet's time on 2 and more nodes, for a completion.
fn least_ratio(runs: &Runs, completion: usize) -> f64 {
    let ratio = |index: usize| runs.rhinet[completion][index].total.as_s() / runs.ethernet[index].total.as_s();
    (1..runs.nodes.len()).map(ratio).fold(f64::INFINITY, f64::min)
}

/// RF-C12.
pub fn lu_takes_longer(parameters: &Parameters) -> Option<Judgement> {
    let runs = lu_runs(parameters);
    Some(Judgement::new(
        format!("RHiNET {}; Ethernet {}", list(&runs, &runs.rhinet[0]), list(&runs, &runs.ethernet)),
        LU,
        vec![Check::new("RHiNET over Ethernet, 2 to 4 nodes, least", least_ratio(&runs, 0), "x", Limit::Above(1.0))],
    ))
}

/// RF-C13.
pub fn excess_is_in_barriers(parameters: &Parameters) -> Option<Judgement> {
    let runs = lu_runs(parameters);
    let last = runs.nodes.len() - 1;
    let polling = &runs.rhinet[0][last];
    let excess = polling.total.as_s() - runs.ethernet[last].total.as_s();
    let in_barriers = polling.barrier.as_s() - runs.ethernet[last].barrier.as_s();
    Some(Judgement::new(
        format!(
            "on {} nodes {in_barriers:.1} s of {excess:.1} s of excess are between the last arrival at a barrier and the last release",
            runs.nodes[last]
        ),
        format!("{LU} Computing is the same in both; the rest is nodes waiting for each other's messages."),
        vec![
            Check::new("RHiNET's excess over Ethernet", excess, "s", Limit::Above(0.0)),
            Check::new("of it in barriers", in_barriers / excess, "", Limit::Above(RULES.word("most"))),
        ],
    ))
}

/// RF-C14.
pub fn interrupts_cure_it(parameters: &Parameters) -> Option<Judgement> {
    let runs = lu_runs(parameters);
    let last = runs.nodes.len() - 1;
    let excess = runs.rhinet[0][last].total.as_s() / runs.ethernet[last].total.as_s();
    let ratio = |index: usize| runs.rhinet[1][index].total.as_s() / runs.ethernet[index].total.as_s();
    let greatest = (1..=last).map(ratio).fold(0.0, f64::max);
    Some(Judgement::new(
        format!(
            "polling and yielding: {}; interrupts: {}; spin, then park: {}; Ethernet: {}",
            list(&runs, &runs.rhinet[0]),
            list(&runs, &runs.rhinet[1]),
            list(&runs, &runs.rhinet[2]),
            list(&runs, &runs.ethernet)
        ),
        format!(
            "{LU} The same program with interrupts, on a repaired bus controller, is no slower than on Ethernet, so the suspected cause suffices; the paper could not check it either."
        ),
        vec![
            Check::new("polling on RHiNET over Ethernet, 4 nodes", excess, "x", Limit::Above(1.0)),
            Check::new("interrupts on RHiNET over Ethernet, greatest", greatest, "x", Limit::AtMost(1.0)),
        ],
    ))
}
