//! Clocks tell which act of another rank ended a wait, because a timeline does not.
//!
//! Ranks write their timelines by one clock. A wait that took long ended because another rank did something: gave a lock back, arrived at a
//! barrier, changed a word. The last thing that any of them began before the end of the wait is taken for that. Where that lies further back
//! than an answer takes, the rank stored to memory without a command: the moment of the store is taken to be an answer's time before the end.
use std::collections::BTreeMap;

use hanare_protocol::limits::SPIN_ANSWER_US;

use super::timeline::{Sort, Timeline, TimelineEntry};

/// A wait that ends sooner waited for nobody.
const SHORT_US: f64 = SPIN_ANSWER_US as f64;

/// An act that lies further back did not end the wait.
const LATE_US: f64 = 2.0 * SPIN_ANSWER_US as f64;

/// An answer's time.
const ANSWER_US: f64 = 20.0;

/// Waits of all ranks, and the moments that ended them.
#[derive(Default)]
pub(super) struct Waits {
    /// The moment that an entry waits for, by rank and place.
    pub causes: BTreeMap<(usize, usize), u32>,
    /// The moments on each rank's timeline, in order.
    pub moments: Vec<Vec<(f64, u32)>>,
    /// All ranks meet the same number of the job's barriers: the product's own rule says who waits for whom.
    pub has_barriers: bool,
}

/// An entry that may wait for another rank.
pub(super) fn is_wait(timeline: &Timeline<'_>, entry: &TimelineEntry<'_>) -> bool {
    let asks = || entry.requests.iter().any(|asked| timeline.asked[*asked].may_wait);
    match entry.category {
        "wait" => entry.name != "flush",
        "queue" => true,
        _ => entry.sort == Sort::Waited && asks(),
    }
}

fn is_barrier(entry: &TimelineEntry<'_>) -> bool {
    entry.category == "wait" && entry.name == "barrier"
}

/// The shortest wait of each name of a rank, in microseconds: what it takes where nobody is waited for.
fn shortest<'a>(timeline: &Timeline<'a>) -> BTreeMap<&'a str, f64> {
    let mut shortest = BTreeMap::new();
    for entry in timeline.entries.iter().filter(|entry| is_wait(timeline, entry)) {
        let took = entry.end - entry.begin - entry.wrote;
        let least = shortest.entry(entry.name).or_insert(took);
        *least = took.min(*least);
    }
    shortest
}

impl Waits {
    pub fn of(timelines: &[Timeline<'_>]) -> Waits {
        let counts: Vec<usize> =
            timelines.iter().map(|timeline| timeline.entries.iter().filter(|entry| is_barrier(entry)).count()).collect();
        let mut waits = Waits {
            causes: BTreeMap::new(),
            moments: vec![Vec::new(); timelines.len()],
            has_barriers: counts.windows(2).all(|pair| pair[0] == pair[1]),
        };
        let mut next = 0;
        for (rank, timeline) in timelines.iter().enumerate() {
            let shortest = shortest(timeline);
            for (place, entry) in timeline.entries.iter().enumerate().filter(|(_, entry)| is_wait(timeline, entry)) {
                let long = SHORT_US.min(2.0 * shortest.get(entry.name).copied().unwrap_or(0.0));
                let is_met = waits.has_barriers && is_barrier(entry);
                if is_met || entry.end - entry.begin - entry.wrote <= long {
                    continue;
                }
                if let Some((other, at)) = cause(timelines, rank, entry) {
                    waits.causes.insert((rank, place), next);
                    waits.moments[other].push((at, next));
                    next += 1;
                }
            }
        }
        for moments in &mut waits.moments {
            moments.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        waits
    }

    /// An entry that is a barrier of all ranks.
    pub fn is_met(&self, entry: &TimelineEntry<'_>) -> bool {
        self.has_barriers && is_barrier(entry)
    }
}

/// The rank and the moment that ended a wait; none where nobody did anything.
fn cause(timelines: &[Timeline<'_>], rank: usize, wait: &TimelineEntry<'_>) -> Option<(usize, f64)> {
    let others = timelines.iter().enumerate().filter(|(other, _)| *other != rank);
    let last = others.filter_map(|(other, timeline)| {
        // Entries of one thread begin in order, but for those that are told when they are over: these are near enough.
        let count = timeline.entries.partition_point(|entry| entry.begin < wait.end);
        let entry = timeline.entries.get(count.checked_sub(1)?)?;
        // A rank whose own wait outlasts this one acted when that wait began.
        let is_at_wait = is_wait(timeline, entry) && entry.end >= wait.end;
        Some((entry.begin, is_at_wait, other))
    });
    let last: Vec<_> = last.collect();
    let acted =
        last.iter().filter(|(begin, ..)| *begin > wait.begin && wait.end - begin <= LATE_US).max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((begin, _, other)) = acted {
        return Some((*other, *begin));
    }
    let stored = last.iter().filter(|(_, is_at_wait, _)| !is_at_wait).max_by(|a, b| a.0.total_cmp(&b.0));
    stored.map(|(begin, _, other)| (*other, (wait.end - ANSWER_US).max(*begin)))
}
