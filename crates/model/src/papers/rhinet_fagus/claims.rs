//! Verdicts on what the paper says of RHiNET and Fagus.
use super::coherence::Extremes;
use super::decomposition::Runs;
use super::lu::Run;
use super::primitives::{PageMode, Primitive, bandwidth, fitted, transfer};
use crate::claim::ClaimResult;
use crate::facts::facts;
use crate::parameters::Parameters;

/// How much faster Send from Cache is than Normal on long transfers, in percent.
pub fn cache_gain(parameters: &Parameters) -> f64 {
    let rate = |mode| bandwidth(parameters, Primitive::PushPage(mode));
    100.0 * (rate(PageMode::SendFromCache) / rate(PageMode::Normal) - 1.0)
}

const ON_PUSH: &[&str] = &["rf.push_bw", "rf.env.pci_clock", "rf.env.pci_width", "rf.npc.line"];
const ON_PULL: &[&str] = &["rf.pull_bw", "rf.env.pci_clock", "rf.env.pci_width", "rf.npc.line"];

/// Bandwidths within five percent count as "about".
fn is_about(value: f64, printed: f64) -> bool {
    (value / printed - 1.0).abs() <= 0.05
}

/// The claims on figure 2.
pub fn primitives(parameters: &Parameters) -> Vec<ClaimResult> {
    let (push, pull) = (facts().number("rf.push_bw"), facts().number("rf.pull_bw"));
    let on_pull = fitted(parameters, Primitive::Pull, pull);
    let on_push = fitted(parameters, Primitive::Push, push);
    let (push_rate, pull_rate) = (bandwidth(&on_pull, Primitive::Push), bandwidth(&on_push, Primitive::Pull));
    let us = |primitive| transfer(&on_push, primitive, 4, None).as_us();
    let (pushed, pulled, sent) = (us(Primitive::Push), us(Primitive::Pull), us(Primitive::Send));
    let page = |mode| transfer(&on_push, Primitive::PushPage(mode), 4096, None).as_us();
    let (normal, caching) = (page(PageMode::Normal), page(PageMode::PageCaching));
    let gain = cache_gain(&on_push);
    vec![
        ClaimResult::judged(
            "RF-C1",
            is_about(push_rate, push),
            format!("{push_rate:.1} MB/s"),
            "With the DMA set-up fitted to the read bandwidth of 45 MB/s; a read's extra way to the remote interface is counted from the mechanism.",
            ON_PULL,
        ),
        ClaimResult::judged(
            "RF-C2",
            is_about(pull_rate, pull) && pull_rate < push,
            format!("{pull_rate:.1} MB/s, against {push} MB/s of write"),
            "With the DMA set-up fitted to the write bandwidth of 48 MB/s; each page of a read is asked for when the one before has arrived.",
            ON_PUSH,
        ),
        ClaimResult::judged(
            "RF-C3",
            pulled > pushed && pulled > sent && pulled < 1.5 * pushed,
            format!("4 B: Pull {pulled:.2} us, Push {pushed:.2} us, Send {sent:.2} us"),
            "The request crosses the network before the remote interface does what a Push does. \"Somewhat\" is read as less than half more.",
            ON_PUSH,
        ),
        ClaimResult::judged(
            "RF-C4",
            sent < pushed && sent > 0.8 * pushed,
            format!("4 B: Send {sent:.2} us, Push {pushed:.2} us"),
            "Three command words less to write and one look-up less to make; word and look-up times are public or chosen, their counts follow from the operands.",
            ON_PUSH,
        ),
        ClaimResult::judged(
            "RF-C5",
            (gain - facts().number("rf.cache_gain")).abs() <= 1.0,
            format!("{gain:.1} % on long transfers"),
            "The set-up is what bursts of whole PCI clocks leave of the 48 MB/s. It rests on the receiving bus being as slow as the sending one: were it faster, the gain would be greater.",
            ON_PUSH,
        ),
        ClaimResult::judged(
            "RF-C6",
            caching <= 1.001 * normal,
            format!("one page: Normal {normal:.1} us, Page Caching {caching:.1} us"),
            "The interface writes the line while the page passes, on a memory that nothing else uses then; so it is built, and so it comes out.",
            ON_PUSH,
        ),
    ]
}

/// The claims on figures 3 and 4.
pub fn coherence(runs: &[(usize, Extremes, Extremes)]) -> Vec<ClaimResult> {
    let half = runs.len() / 2;
    let several = runs.iter().filter(|run| run.0 > 2);
    let spread = several.clone().all(|run| run.2.greatest > run.2.least);
    let text = |run: &(usize, Extremes, Extremes)| {
        format!("{} nodes {:.0} to {:.0} us", run.0, run.2.least.as_us(), run.2.greatest.as_us())
    };
    let list = |runs: &[(usize, Extremes, Extremes)]| runs.iter().map(text).collect::<Vec<_>>().join(", ");
    let shown = |runs: &[(usize, Extremes, Extremes)]| {
        let each = runs.iter().map(|run| format!("{:.0}/{:.0}", run.1.greatest.as_us(), run.2.greatest.as_us()));
        each.collect::<Vec<_>>().join(", ")
    };
    vec![
        ClaimResult::judged(
            "RF-C7",
            spread,
            format!("update on RHiNET: {}; on Ethernet: {}", list(&runs[..half]), list(&runs[half..])),
            "Clients read at the same moment; the server takes their requests in the order of arrival, so that the last waits for the pages of the others.",
            &["rf.push_bw", "rf.coherence.var", "rf.npc.line"],
        ),
        ClaimResult::judged(
            "RF-C8",
            runs.iter().map(|run| run.0).eq([2, 3, 4, 2, 3, 4]),
            format!(
                "slowest invalidation/update in us for 2, 3, 4 nodes: RHiNET {}; Ethernet {}",
                shown(&runs[..half]),
                shown(&runs[half..])
            ),
            "The claim is that these are reported; the text gives no value and no order, so there is nothing to meet. Both are drawn.",
            &["rf.push_bw", "rf.env.ethernet_rate"],
        ),
    ]
}

/// What "nearly all" is read as: the paper says it of 11 of 12.5 MB/s, 88 %, and of a figure of its own that is suspect.
const NEARLY_ALL: f64 = 0.85;

/// The claims on figure 5; best throughputs with Page Caching, from the cache, and on Ethernet.
pub fn barrier(parameters: &Parameters, [rhinet, cached, ethernet]: [f64; 3]) -> Vec<ClaimResult> {
    let printed = ["rf.barrier.rhinet", "rf.barrier.ethernet"].map(|key| facts().number(key));
    let line = parameters.bytes_per_second("ethernet.rate") as f64 / 1e6;
    let push = bandwidth(parameters, Primitive::PushPage(PageMode::Normal));
    vec![
        ClaimResult::judged(
            "RF-C9",
            is_about(rhinet, printed[0]),
            format!("{rhinet:.1} MB/s; {cached:.1} MB/s if every page were in the cache"),
            "The printed 51 MB/s are suspect: they exceed the 48 MB/s of the plain write they are made of. A barrier of freshly written pages cannot send from the cache; one that repeats the same pages comes near.",
            ON_PUSH,
        ),
        ClaimResult::judged(
            "RF-C10",
            is_about(ethernet, printed[1]),
            format!("{ethernet:.1} MB/s"),
            "Frames, headers and the host's work of Linux 2.2 are public figures; datagrams stop for an acknowledgement when half of the default socket buffer is out.",
            &["rf.env.ethernet_rate", "rf.npc.line"],
        ),
        ClaimResult::judged(
            "RF-C11",
            rhinet > NEARLY_ALL * push && ethernet > NEARLY_ALL * line,
            format!(
                "RHiNET {:.0} % of Push Page, Ethernet {:.0} % of the line rate",
                100.0 * rhinet / push,
                100.0 * ethernet / line
            ),
            "Of the primitive on RHiNET, of 12.5 MB/s on Ethernet. \"Nearly all\" is read as 85 %, just below the paper's own 88 % on Ethernet; the barrier's own messages are a small part at 512 KB.",
            &["rf.push_bw", "rf.env.ethernet_rate"],
        ),
    ]
}

const LU: &[&str] = &["rf.push_bw", "rf.env.ethernet_rate", "rf.lu.n"];

fn list(runs: &Runs, line: &[Run]) -> String {
    let each = runs.nodes.iter().zip(line).skip(1).map(|(nodes, run)| format!("{nodes} nodes {:.0} s", run.total.as_s()));
    each.collect::<Vec<_>>().join(", ")
}

/// The claims on figure 6; `other` are the runs with the other order of release, which the paper does not rule out.
pub fn lu(runs: &Runs, other: &Runs) -> Vec<ClaimResult> {
    let is_longer = |runs: &Runs| (1..runs.nodes.len()).all(|index| runs.rhinet[0][index].total > runs.ethernet[index].total);
    // Who, if anybody, shows the excess that the other two claims speak of.
    let excessive = [runs, other].into_iter().find(|runs| is_longer(runs));
    let orders =
        [runs, other].map(|runs| format!("RHiNET {}; Ethernet {}", list(runs, &runs.rhinet[0]), list(runs, &runs.ethernet)));
    let mut claims = vec![ClaimResult::judged(
        "RF-C12",
        is_longer(runs) && is_longer(other),
        orders.join(" | in the other order of release: "),
        "Nothing is fitted to figure 6. A library thread that polls for the completion of one release yields to its own program, which computes a whole step before the next release leaves. That needs the server's own thread to be let go first, which the paper does not say; so the claim holds in one of two readings and is not counted.",
        LU,
    )];
    let in_both = is_longer(runs) && is_longer(other);
    claims.extend(excessive.map_or_else(Vec::new, |runs| excess(runs, in_both)));
    if excessive.is_none() {
        let reason = "With these parameters polling costs RHiNET nothing over Ethernet, so that there is no excess to explain.";
        claims.extend(["RF-C13", "RF-C14"].map(|id| ClaimResult::judged(id, false, "no excess", reason, LU)));
    }
    claims
}

/// What the excess is made of, and what takes it away; counted only where both orders of release show one.
fn excess(runs: &Runs, in_both: bool) -> Vec<ClaimResult> {
    let last = runs.nodes.len() - 1;
    let [polling, interrupts, parking] = [0, 1, 2].map(|completion| &runs.rhinet[completion]);
    let excess = polling[last].total.as_s() - runs.ethernet[last].total.as_s();
    let in_barriers = polling[last].barrier.as_s() - runs.ethernet[last].barrier.as_s();
    let vanishes = (1..=last).all(|index| interrupts[index].total <= runs.ethernet[index].total);
    vec![
        ClaimResult::judged(
            "RF-C13",
            in_both && excess > 0.0 && in_barriers > 0.5 * excess,
            format!(
                "on {} nodes {in_barriers:.1} s of {excess:.1} s of excess are between the last arrival at a barrier and the last release",
                runs.nodes[last]
            ),
            "Shown for the order of release that has an excess; the other order, which the paper does not rule out, has none, so the claim is not counted. Computing is the same in both; the rest is nodes waiting for each other's messages.",
            LU,
        ),
        ClaimResult::judged(
            "RF-C14",
            in_both && vanishes,
            format!(
                "polling and yielding: {}; interrupts: {}; spin, then park: {}; Ethernet: {}",
                list(runs, polling),
                list(runs, interrupts),
                list(runs, parking),
                list(runs, &runs.ethernet)
            ),
            "Shown for the order of release that has an excess: the same program with interrupts, on a repaired bus controller, is no slower than on Ethernet, so the suspected cause suffices. The other order has no excess to take away, so the claim is not counted; the paper could not check it either.",
            LU,
        ),
    ]
}
