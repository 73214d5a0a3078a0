//! Steps of a rank from its timeline: computing in the gaps, the messages of what it did, and how long that took.
use hanare_protocol::limits::WHAT_IF_STEP_COUNT_MAX;
use hanare_protocol::wire::head::HEAD_LEN;
use hanare_protocol::wire::page::{GRANTED_LEN, PAGE_REQUEST_LEN};

use super::OwnTime;
use super::timeline::{PageMessages, Sort, Timeline, TimelineEntry};
use super::waits::Waits;
use crate::time::Picos;
use crate::what_if::program::{Lengths, Step, page_messages};

/// Most messages for pages of one entry: those of a flush of 1 GiB. More messages count as this number of longer ones.
const LONGEST_FLUSH: u64 = 1 << 12;

/// The steps of a rank, while they are made.
pub(super) struct RankSteps<'a, 'b> {
    timeline: &'b Timeline<'a>,
    waits: &'b Waits,
    rank: usize,
    /// The rank's own node, and the node after it.
    own_node: usize,
    next_node: usize,
    /// Moments of this rank that others wait for, and how many of them are steps already.
    moments: &'b [(f64, u32)],
    passed: usize,
    pub steps: Vec<Step>,
    /// Entries whose time no other rank decided, with their steps.
    pub taken: Vec<OwnTime>,
    /// Time that it waited for other ranks.
    pub waited: Picos,
}

fn span(micros: f64) -> Picos {
    Picos::from_ns_f64(micros.max(0.0) * 1e3)
}

impl<'a, 'b> RankSteps<'a, 'b> {
    /// Makes the steps of a rank, from the moment on at which the first rank began; ranks are dealt out over `nodes` in turn.
    ///
    /// **Errors**: more steps than a run may have.
    pub fn of(
        timeline: &'b Timeline<'a>,
        waits: &'b Waits,
        (rank, nodes): (usize, usize),
        from: f64,
    ) -> Result<RankSteps<'a, 'b>, String> {
        let (moments, steps, taken) = (&waits.moments[rank][..], Vec::new(), Vec::new());
        let mut made = RankSteps {
            timeline,
            waits,
            rank,
            own_node: rank % nodes.max(1),
            next_node: (rank + 1) % nodes.max(1),
            moments,
            passed: 0,
            steps,
            taken,
            waited: Picos::ZERO,
        };
        let mut before = from;
        for (place, entry) in timeline.entries.iter().enumerate() {
            let took = made.gap(before, entry);
            made.entry(place, entry, took);
            // A slice that is told at its end may begin before what lies in it has ended.
            before = before.max(entry.end);
            if made.steps.len() as u64 > WHAT_IF_STEP_COUNT_MAX {
                return Err(format!("it has more than the {WHAT_IF_STEP_COUNT_MAX} steps that a run may have"));
            }
        }
        made.pass(f64::INFINITY);
        Ok(made)
    }

    /// The program computes until an entry begins. Returns how long that took itself.
    fn gap(&mut self, before: f64, entry: &TimelineEntry<'_>) -> f64 {
        let begin = entry.begin.max(before);
        if let Sort::Over { .. } = entry.sort {
            // The thread waited: since when, nothing says.
            return (begin - before - entry.wrote_before).max(0.0);
        }
        // The writing is spread over the gap, as far as moments in it go.
        let net = (begin - before - entry.wrote_before).max(0.0);
        let scale = if begin > before { net / (begin - before) } else { 0.0 };
        let mut at = before;
        while let Some((moment, _)) = self.moments.get(self.passed).filter(|(moment, _)| *moment < begin) {
            let moment = moment.max(at);
            self.steps.push(Step::Compute(span((moment - at) * scale)));
            at = moment;
            self.pass(moment);
        }
        self.steps.push(Step::Compute(span((begin - at) * scale)));
        self.pass(begin);
        (entry.end - begin - entry.wrote).max(0.0)
    }

    /// Tells those who wait for moments up to this one.
    fn pass(&mut self, at: f64) {
        while let Some((_, id)) = self.moments.get(self.passed).filter(|(moment, _)| *moment <= at) {
            self.steps.push(Step::Tell(*id));
            self.passed += 1;
        }
    }

    fn entry(&mut self, place: usize, entry: &TimelineEntry<'_>, took: f64) {
        let cause = self.waits.causes.get(&(self.rank, place));
        if self.waits.is_met(entry) || cause.is_some() {
            self.waited += span(took);
        }
        if self.waits.is_met(entry) {
            return self.steps.push(Step::Barrier);
        }
        let from = self.steps.len();
        self.steps.extend(cause.map(|id| Step::Hear(*id)));
        let requests: Vec<_> = entry.requests.iter().map(|asked| self.request(entry, *asked)).collect();
        let has_requests = !requests.is_empty();
        match entry.sort {
            Sort::Begun if has_requests => return self.steps.push(Step::Requests(requests)),
            Sort::Begun => return,
            Sort::Over { left } => self.steps.push(Step::Wait { left }),
            Sort::Waited if has_requests => {
                self.steps.extend([Step::Requests(requests), Step::Wait { left: entry.open }]);
            }
            Sort::Waited => {}
        }
        let has_pages = self.pages(entry);
        if matches!(entry.sort, Sort::Waited) && !has_requests && !has_pages && cause.is_none() {
            // On memory of this host: it takes as long anywhere.
            return self.steps.push(Step::Local(span(took)));
        }
        if cause.is_none() {
            self.steps.push(Step::Kept(Picos::ZERO));
            self.taken.push(OwnTime { from, to: self.steps.len() - 1, took: span(took) });
        }
    }

    /// A request's lengths. Of an answer that was not written down, the bytes of the command say it.
    fn request(&self, entry: &TimelineEntry<'_>, asked: usize) -> (usize, Lengths) {
        let (head, parts) = (HEAD_LEN as u64, entry.requests.len() as u64);
        let asked = &self.timeline.asked[asked];
        let returns = matches!(entry.name, "get" | "fetch" | "compare and swap" | "batch");
        let received = asked.received.unwrap_or(if returns { entry.bytes / parts } else { 0 });
        (asked.node, Lengths { request: head.saturating_add(asked.sent), answer: head.saturating_add(received) })
    }

    /// The messages for pages of an entry, one after another to each node, the nodes side by side. Returns whether there are any.
    fn pages(&mut self, entry: &TimelineEntry<'_>) -> bool {
        let from = self.steps.len();
        let PageMessages { messages, sent, received, later, nodes } = &entry.page_messages;
        let nodes = if nodes.is_empty() { vec![self.next_node] } else { nodes.clone() };
        let mut left = (*messages).min(LONGEST_FLUSH);
        // The own node gives leave, and has its memory mapped here: the bytes are of the others.
        let is_own = |node: &usize| *node == self.own_node && nodes.len() > 1;
        let distant = nodes.iter().filter(|node| !is_own(node)).count() as u64;
        let parts = (left * distant).div_ceil(nodes.len() as u64).max(1);
        let leave = Lengths { request: (HEAD_LEN + PAGE_REQUEST_LEN) as u64, answer: (HEAD_LEN + GRANTED_LEN) as u64 };
        let rest = Lengths { request: sent / parts, answer: received / parts };
        let lengths: Vec<_> = nodes.iter().map(|node| (*node, if is_own(node) { leave } else { rest })).collect();
        while left > 0 {
            let count = left.min(lengths.len() as u64);
            let requests = lengths.iter().take(count as usize).copied().collect();
            self.steps.extend([Step::Requests(requests), Step::Wait { left: entry.open }]);
            left -= count;
        }
        // This host's node gets these from another host, for this program.
        for lengths in page_messages(*later) {
            self.steps.extend([Step::Requests(vec![(self.next_node, lengths)]), Step::Wait { left: entry.open }]);
        }
        self.steps.len() > from
    }
}
