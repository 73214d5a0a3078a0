//! What may have been seen, by the moments before and after each operation.
//!
//! | what | rule |
//! |---|---|
//! | a byte of one writer, `Coherent` | the last write that had ended before the read began, or a later one that had begun before it ended; never an older one than a read that had ended before |
//! | the same, `Explicit` | at home: what was put or flushed is there, what was not flushed is not; through a pointer: at least what was there before the last update, and the process's own stores |
//! | a word of all | some order of its reads and writes, each between its two moments, explains all (Gibbons and Korach, 1997); of swaps each has an old value of its own |
//! | a counter | as many as were added before, to as many as had begun; no old value twice |
//! | a record under a lock | one holder at a time, all words alike, one more than the holder before left; less only behind a holder that was killed, and then the next is told |
//! | a barrier | nobody leaves before all have come |
//!
//! An operation that a kill cut off may or may not have happened.

use super::log::{NEVER, Op, Section, What};
use super::plan::{NOBODY, PAGE, Plan, RECORDS, byte};
use hanare::Consistency;
use std::collections::{BTreeMap, BTreeSet};

/// All that happened under one seed.
pub struct History<'p> {
    pub plan: &'p Plan,
    /// What each thread of a program did.
    pub hands: Vec<Vec<Op>>,
    /// What the test itself saw at the end, by commands.
    pub end: Vec<Op>,
    /// The node that holds each page.
    pub homes: Vec<usize>,
}

/// What is wrong, and when it was seen.
#[derive(Debug)]
struct Wrong {
    what: String,
    at: u64,
}

fn wrong(at: u64, what: String) -> Verdict {
    Err(Wrong { what, at })
}

type Verdict = Result<(), Wrong>;

/// Most operations that a failure prints.
const LINES_MAX: usize = 40;

impl History<'_> {
    pub fn check(&self) -> Result<(), String> {
        self.check_all().map_err(|wrong| wrong.what)
    }

    fn check_all(&self) -> Verdict {
        self.check_bytes()?;
        self.check_registers()?;
        self.check_counters()?;
        (0..RECORDS).try_for_each(|record| self.check_record(record))?;
        self.check_barriers()
    }

    fn all(&self) -> impl Iterator<Item = &Op> {
        self.hands.iter().flatten().chain(&self.end)
    }

    /// What touched a place, in order: for who has to find out.
    fn around(&self, at: u64, wrong: Wrong) -> Wrong {
        let mut ops: Vec<(u64, String)> = Vec::new();
        for (hand, log) in self.hands.iter().enumerate() {
            let hand_of = &self.plan.hands[hand];
            for op in log {
                let is_wide = matches!(op.what, What::Flush | What::Update | What::Remap | What::Attach);
                if is_wide && self.plan.mode == Consistency::Explicit || op.touches(at) {
                    let seen = op.places().position(|place| place == at).and_then(|k| op.bytes.get(k));
                    let who = format!("hand {hand}, process {}, node {}", hand_of.process, hand_of.node);
                    ops.push((op.begin, format!("{op}, byte {seen:?}: {who}")));
                }
            }
        }
        ops.extend(self.end.iter().filter(|op| op.touches(at)).map(|op| (op.begin, format!("{op}: the test"))));
        let (home, what) = (self.homes.get((at / PAGE) as usize), &wrong.what);
        let what = format!("{what}\nat {at} (page {}, home {home:?}):\n{}", at / PAGE, lines_around(ops, wrong.at));
        Wrong { what, ..wrong }
    }
}

/// Lines with their moments: those about one moment, in order.
fn lines_around(mut lines: Vec<(u64, String)>, at: u64) -> String {
    lines.sort();
    let first = lines.partition_point(|(begin, _)| *begin <= at).saturating_sub(LINES_MAX * 3 / 4);
    lines.into_iter().skip(first).take(LINES_MAX).map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

// Bytes of one writer.

/// A write, as far as one byte and one kind of reader are concerned.
struct Version {
    number: u64,
    /// From when on it, or a later one, has to be seen.
    certain: u64,
    /// From when on it may be seen.
    possible: u64,
}

/// Whose memory a read looks at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum View {
    Home,
    /// A process's own frames.
    Frames(usize),
    /// A process's own frames, of its own stores.
    Own(usize),
}

/// One byte that was read.
struct Seen {
    view: View,
    /// Writes that were certain at this moment have to be seen.
    since: u64,
    begin: u64,
    end: u64,
    value: u8,
}

impl History<'_> {
    fn is_explicit(&self) -> bool {
        self.plan.mode == Consistency::Explicit
    }

    fn process_ops(&self, process: usize) -> impl Iterator<Item = &Op> {
        self.hands.iter().enumerate().filter(move |(hand, _)| self.plan.hands[*hand].process == process).flat_map(|(_, log)| log)
    }

    fn is_direct(&self, hand: usize, at: u64) -> bool {
        self.homes[(at / PAGE) as usize] == self.plan.hands[hand].node
    }

    fn check_bytes(&self) -> Verdict {
        let processes = self.plan.hands.iter().map(|hand| hand.process + 1).max().unwrap_or(0);
        let of_each = |is: fn(&What) -> bool| -> Vec<Vec<&Op>> {
            (0..processes).map(|process| self.process_ops(process).filter(|op| is(&op.what)).collect()).collect()
        };
        // A section flushes its record, and with it the pages.
        let flushes = of_each(|what| matches!(what, What::Flush | What::Section));
        let mut updates = of_each(|what| matches!(what, What::Update | What::Remap | What::Attach));
        for updates in &mut updates {
            // Nothing is fetched before the first thread has come; what it fetched is there when the others come.
            let first = updates.iter().filter(|op| op.what == What::Attach).map(|op| op.begin).min();
            updates.retain(|op| op.what != What::Attach || Some(op.begin) == first);
        }
        let mut writes: Vec<Vec<&Op>> = vec![Vec::new(); self.plan.hot as usize];
        let mut seen: Vec<Vec<Seen>> = (0..self.plan.hot).map(|_| Vec::new()).collect();
        for (hand, log) in self.hands.iter().enumerate() {
            for op in log {
                match op.what {
                    What::Store | What::Write | What::Put | What::PutStrided => {
                        op.places().for_each(|at| writes[at as usize].push(op));
                    }
                    What::Load | What::Read | What::Get | What::GetStrided if op.has_ended() => {
                        for (at, value) in op.places().zip(&op.bytes) {
                            let (view, since) = self.view(hand, op, at, &updates);
                            seen[at as usize].push(Seen { view, since, begin: op.begin, end: op.end, value: *value });
                        }
                    }
                    _ => {}
                }
            }
        }
        for op in self.end.iter().filter(|op| op.what == What::Get) {
            for (at, value) in op.places().zip(&op.bytes) {
                seen[at as usize].push(Seen { view: View::Home, since: op.begin, begin: op.begin, end: op.end, value: *value });
            }
        }
        for at in (0..self.plan.hot).filter(|at| self.plan.owner[*at as usize] != NOBODY) {
            let seen = std::mem::take(&mut seen[at as usize]);
            self.check_byte(at, &writes[at as usize], seen, &flushes).map_err(|wrong| self.around(at, wrong))?;
        }
        Ok(())
    }

    /// Whose memory a read of a byte looks at, and since when.
    fn view(&self, hand: usize, op: &Op, at: u64, updates: &[Vec<&Op>]) -> (View, u64) {
        let by_pointer = matches!(op.what, What::Load | What::Read);
        if !self.is_explicit() || !by_pointer || self.is_direct(hand, at) {
            return (View::Home, op.begin);
        }
        let (process, owner) = (self.plan.hands[hand].process, self.plan.owner[at as usize]);
        if owner != NOBODY && self.plan.hands[owner as usize].process == process && !self.plan.by_command[at as usize] {
            return (View::Own(process), op.begin);
        }
        let is_before = |update: &&&Op| update.end <= op.begin && (update.what == What::Attach || update.touches(at));
        let since = updates[process].iter().filter(is_before).map(|update| update.begin).max();
        (View::Frames(process), since.unwrap_or(0))
    }

    /// A write for those who look at its home.
    fn at_home(&self, at: u64, write: &Op, flushes: &[Vec<&Op>]) -> Version {
        let owner = self.plan.owner[at as usize] as usize;
        let by_pointer = matches!(write.what, What::Store | What::Write);
        let at_once = Version { number: write.value, certain: write.end, possible: write.begin };
        if !self.is_explicit() || !by_pointer || self.is_direct(owner, at) {
            return at_once;
        }
        let flushes = &flushes[self.plan.hands[owner].process];
        let covers = |flush: &&&Op| flush.what == What::Flush && flush.touches(at);
        let certain = flushes.iter().filter(covers).filter(|flush| flush.begin >= write.end).map(|flush| flush.end).min();
        let covers_page = |flush: &&&Op| {
            let (first, last) = (flush.shape.offset / PAGE, (flush.shape.offset + flush.shape.block.max(1) - 1) / PAGE);
            flush.what == What::Section || (first..=last).contains(&(at / PAGE))
        };
        // Where pages make room for others, they are sent home before.
        let possible = match self.plan.frames {
            Some(_) => Some(write.begin),
            None => flushes.iter().filter(covers_page).filter(|f| f.end >= write.begin).map(|f| f.begin.max(write.begin)).min(),
        };
        Version { certain: certain.unwrap_or(NEVER), possible: possible.unwrap_or(NEVER), ..at_once }
    }

    fn check_byte(&self, at: u64, writes: &[&Op], mut seen: Vec<Seen>, flushes: &[Vec<&Op>]) -> Verdict {
        let for_itself = |write: &&Op| Version { number: write.value, certain: write.end, possible: write.begin };
        let own: Vec<Version> = writes.iter().map(for_itself).collect();
        let home: Vec<Version> = writes.iter().map(|write| self.at_home(at, write, flushes)).collect();
        seen.sort_by_key(|seen| (seen.view, seen.begin));
        for of_view in seen.chunk_by(|a, b| a.view == b.view) {
            let versions = if matches!(of_view[0].view, View::Own(_)) { &own } else { &home };
            check_views(at, versions, of_view)?;
        }
        Ok(())
    }
}

/// Reads of one view, by when they began.
fn check_views(at: u64, versions: &[Version], seen: &[Seen]) -> Verdict {
    // The position of the version that each read saw; zero is before all.
    let mut found: Vec<usize> = Vec::new();
    let mut by_end: Vec<usize> = (0..seen.len()).collect();
    by_end.sort_by_key(|k| seen[*k].end);
    let (mut ended, mut floor) = (by_end.into_iter().peekable(), 0);
    for one in seen {
        while let Some(before) = ended.next_if(|k| seen[*k].end < one.begin) {
            floor = floor.max(found[before]);
        }
        let lowest = versions.iter().rposition(|version| version.certain <= one.since).map_or(0, |k| k + 1);
        let values = |k: &usize| *k == 0 && one.value == 0 || *k > 0 && one.value == byte(versions[*k - 1].number, at);
        let Some(which) = (0..=versions.len()).find(values) else {
            return wrong(
                one.begin,
                format!("{:?} saw {:#x} in {}..{}, which nobody wrote", one.view, one.value, one.begin, one.end),
            );
        };
        let number = |k: usize| if k == 0 { 0 } else { versions[k - 1].number };
        let said = |what: &str| {
            let (begin, end, view) = (one.begin, one.end, one.view);
            wrong(begin, format!("{view:?} saw write {} in {begin}..{end}, {what}", number(which)))
        };
        if which < lowest {
            return said(&format!("but write {} had to be seen", number(lowest)));
        }
        if which < floor {
            return said(&format!("after write {} had been seen", number(floor)));
        }
        // A later write of the same process that may be seen takes earlier ones with it.
        if which > 0 && versions[which - 1].possible > one.end {
            return said("which was not to be seen yet");
        }
        found.push(which);
    }
    Ok(())
}

// Words that all write.

/// What was done to a word: a value that was found, one that was left, or both.
struct Touch {
    found: Option<u64>,
    left: Option<u64>,
    begin: u64,
    end: u64,
}

impl History<'_> {
    fn check_registers(&self) -> Verdict {
        for at in self.plan.registers() {
            let touches: Vec<Touch> = self.all().filter(|op| op.shape.offset == at).filter_map(touch).collect();
            check_register(&touches).map_err(|wrong| self.around(at, wrong))?;
        }
        Ok(())
    }
}

fn touch(op: &Op) -> Option<Touch> {
    let (begin, end, has_ended) = (op.begin, op.end, op.has_ended());
    let (found, left) = match op.what {
        What::RegisterStore | What::RegisterPut => (None, Some(op.value)),
        What::RegisterLoad | What::RegisterGet if has_ended => (Some(op.result), None),
        What::RegisterSwap => (has_ended.then_some(op.result), Some(op.value)),
        What::RegisterCompareSwap if has_ended => (Some(op.result), (op.result == op.expected).then_some(op.value)),
        What::RegisterCompareSwap => (None, Some(op.value)),
        _ => return None,
    };
    Some(Touch { found, left, begin, end })
}

/// Whether some order explains all that was done to one word, which held zero before, by values that are each written once.
fn check_register(touches: &[Touch]) -> Verdict {
    // Of each value: when its last part had begun, and its first had ended.
    let mut zones = BTreeMap::from([(0u64, (0u64, 0u64))]);
    let mut written = BTreeMap::from([(0u64, 0u64)]);
    for touch in touches {
        if let Some(value) = touch.left {
            zones.insert(value, (touch.begin, touch.end));
            if written.insert(value, touch.begin).is_some() {
                return wrong(touch.begin, format!("{value:#x} was written twice: the test is wrong"));
            }
        }
    }
    let (mut taken, mut read) = (BTreeSet::new(), BTreeSet::from([0]));
    for touch in touches {
        let Some(value) = touch.found else { continue };
        read.insert(value);
        let Some((last_begin, first_end)) = zones.get_mut(&value) else {
            return wrong(touch.begin, format!("{value:#x} was found in {}..{}, which nobody wrote", touch.begin, touch.end));
        };
        if touch.end < written[&value] {
            return wrong(touch.begin, format!("{value:#x} was found in {}..{}, before it was written", touch.begin, touch.end));
        }
        if touch.left.is_some() && !taken.insert(value) {
            return wrong(touch.begin, format!("{value:#x} was replaced by two swaps"));
        }
        *last_begin = touch.begin.max(*last_begin);
        *first_end = touch.end.min(*first_end);
    }
    // A write that was cut off and never seen need not have happened.
    zones.retain(|value, zone| zone.1 != NEVER || read.contains(value));
    let ahead = |(_, (last_begin, first_end)): &(&u64, &(u64, u64))| first_end < last_begin;
    let mut forward: Vec<(u64, u64, u64)> = zones.iter().filter(ahead).map(|(value, zone)| (zone.1, zone.0, *value)).collect();
    forward.sort();
    for pair in forward.windows(2) {
        if pair[1].0 < pair[0].1 {
            return wrong(
                pair[1].0,
                format!("{:#x} and {:#x} were both there before and after each other", pair[0].2, pair[1].2),
            );
        }
    }
    for (value, (first, last)) in zones.iter().filter(|zone| !ahead(zone)) {
        let k = forward.partition_point(|zone| zone.0 < *first);
        if k > 0 && *last < forward[k - 1].1 {
            return wrong(*first, format!("{value:#x} was there and gone while {:#x} was there all the time", forward[k - 1].2));
        }
    }
    Ok(())
}

impl History<'_> {
    fn check_counters(&self) -> Verdict {
        for at in self.plan.counters() {
            let ops: Vec<&Op> = self.all().filter(|op| op.touches(at)).collect();
            check_counter(&ops).map_err(|wrong| self.around(at, wrong))?;
        }
        Ok(())
    }
}

fn check_counter(ops: &[&Op]) -> Verdict {
    let adds: Vec<&&Op> = ops.iter().filter(|op| matches!(op.what, What::Add | What::AddCommand | What::AddUpdate)).collect();
    let mut olds = BTreeSet::new();
    let mut floor = Vec::new();
    for op in ops.iter().filter(|op| op.has_ended()) {
        let is_add = matches!(op.what, What::Add | What::AddCommand);
        if !is_add && !matches!(op.what, What::CountLoad | What::CountGet) {
            continue;
        }
        if is_add && !olds.insert(op.result) {
            return wrong(op.begin, format!("two adds found {}", op.result));
        }
        let least = adds.iter().filter(|add| add.end < op.begin).count() as u64;
        let most = adds.iter().filter(|add| add.begin < op.end).count() as u64 - u64::from(is_add);
        if !(least..=most).contains(&op.result) {
            return wrong(op.begin, format!("{op}: it had to be {least} to {most}"));
        }
        floor.push((op.begin, op.end, op.result));
    }
    for one in &floor {
        if let Some(other) = floor.iter().find(|other| other.1 < one.0 && other.2 > one.2) {
            return wrong(one.0, format!("the count went back, from {other:?} to {one:?}"));
        }
    }
    Ok(())
}

// Records under a lock, and barriers.

impl History<'_> {
    fn check_record(&self, record: u64) -> Verdict {
        let sections: Vec<&Op> = self.all().filter(|op| op.what == What::Section && op.shape.offset == record).collect();
        let line = |op: &&Op| match op.has_ended() {
            true => {
                let Section { taken, leaving, was_abandoned, words } = Section::of(&op.bytes);
                (taken, format!("{op}: {taken}..{leaving}, abandoned {was_abandoned}, {words:?}"))
            }
            false => (op.begin, format!("{op}: cut off")),
        };
        check_sections(&sections).map_err(|Wrong { what, at }| {
            let lines = lines_around(sections.iter().map(line).collect(), at);
            Wrong { what: format!("record {record}: {what}\n{lines}"), at }
        })
    }

    fn check_barriers(&self) -> Verdict {
        let meetings: Vec<Vec<&Op>> =
            self.hands.iter().map(|log| log.iter().filter(|op| op.what == What::Barrier).collect()).collect();
        let rounds = meetings.iter().map(Vec::len).max().unwrap_or(0);
        for round in 0..rounds {
            let of_round: Vec<&&Op> = meetings.iter().filter_map(|meetings| meetings.get(round)).collect();
            let (came, left) = (of_round.iter().map(|op| op.begin).max(), of_round.iter().map(|op| op.end).min());
            if of_round.len() != self.plan.parties() || came > left {
                return wrong(came.unwrap_or(0), format!("barrier {round} of {} parties: {of_round:?}", self.plan.parties()));
            }
        }
        Ok(())
    }
}

/// Sections of one record. The test is told of a word's lock that it breaks by breaking it, and mends the record before.
fn check_sections(sections: &[&Op]) -> Verdict {
    let mut whole: Vec<(Section, u64)> =
        sections.iter().filter(|op| op.has_ended()).map(|op| (Section::of(&op.bytes), op.result)).collect();
    whole.sort_by_key(|(section, _)| section.taken);
    let cut: Vec<u64> = sections.iter().filter(|op| !op.has_ended()).map(|op| op.begin).collect();
    let (mut last, mut until, mut excused, mut told) = (0, 0, 0, 0);
    for (section, left) in &whole {
        let &Section { taken, leaving, was_abandoned, ref words } = section;
        if taken < until {
            return wrong(taken, format!("two held the lock at {taken}"));
        }
        let (least, most) = (words.iter().min().unwrap(), words.iter().max().unwrap());
        if least != most && !was_abandoned {
            return wrong(taken, format!("torn at {taken}, and nobody was told"));
        }
        let cut_before = cut.iter().filter(|begin| **begin < leaving).count() as u64;
        told += u64::from(was_abandoned);
        if told > cut_before {
            return wrong(taken, format!("abandoned at {taken}, by nobody"));
        }
        if *least < last {
            return wrong(taken, format!("back from {last} at {taken}"));
        }
        // What the dead did between this holder and the one before.
        excused += most - last;
        if excused > cut_before {
            return wrong(taken, format!("{} more at {taken} than anybody added", most - last));
        }
        (last, until) = (*left, leaving);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(value: u64, begin: u64, end: u64) -> Touch {
        Touch { found: None, left: Some(value), begin, end }
    }

    fn read(value: u64, begin: u64, end: u64) -> Touch {
        Touch { found: Some(value), left: None, begin, end }
    }

    #[test]
    fn orders_of_a_word_are_told_from_disorders() {
        let good: [&[Touch]; 4] = [
            &[write(1, 1, 9), read(0, 2, 3), read(1, 4, 5), read(1, 10, 11)],
            &[write(1, 1, 2), write(2, 1, NEVER), read(1, 3, 4), read(2, 5, 6)],
            &[write(1, 1, 20), write(2, 1, 20), read(2, 2, 3), read(1, 4, 5)],
            &[write(1, 1, NEVER), read(0, 9, 10)],
        ];
        good.iter().for_each(|touches| check_register(touches).unwrap());
        let bad: [&[Touch]; 6] = [
            &[write(1, 1, 2), read(0, 3, 4)],
            &[write(1, 1, 9), read(1, 2, 3), read(0, 4, 5)],
            &[write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)],
            &[write(1, 1, 20), write(2, 1, 20), read(2, 2, 3), read(1, 4, 5), read(2, 6, 7)],
            &[read(7, 1, 2)],
            &[write(1, 5, 6), read(1, 1, 2)],
        ];
        bad.iter().for_each(|touches| check_register(touches).unwrap_err().what.clear());
        let swap = |begin| Touch { found: Some(0), left: Some(begin), begin, end: 99 };
        assert!(check_register(&[swap(1), swap(2)]).unwrap_err().what.contains("two swaps"));
    }

    fn versions() -> Vec<Version> {
        [(1, 10, 5), (2, 30, 20)].map(|(number, certain, possible)| Version { number, certain, possible }).into()
    }

    fn seen(number: u64, begin: u64, end: u64) -> Seen {
        let value = if number == 0 { 0 } else { byte(number, 77) };
        Seen { view: View::Home, since: begin, begin, end, value }
    }

    #[test]
    fn bytes_that_are_too_old_too_new_or_nobodys_are_found() {
        let good = [seen(0, 1, 2), seen(1, 4, 6), seen(1, 11, 40), seen(2, 12, 21), seen(2, 31, 32)];
        check_views(77, &versions(), &good).unwrap();
        let bad = [
            vec![seen(0, 10, 11)],
            vec![seen(1, 30, 31)],
            vec![seen(1, 1, 4)],
            vec![seen(2, 21, 22), seen(1, 23, 24)],
            vec![seen(9, 21, 22)],
        ];
        bad.iter().for_each(|seen| check_views(77, &versions(), seen).unwrap_err().what.clear());
    }

    fn section(taken: u64, leaving: u64, was_abandoned: bool, words: [u64; 2], left: u64) -> Op {
        let bytes = Section { taken, leaving, was_abandoned, words: words.to_vec() }.to_bytes();
        Op { begin: taken, end: leaving, result: left, bytes, ..Op::on_range(What::Section, 0, 0, 0) }
    }

    #[test]
    fn records_that_are_torn_lost_or_held_twice_are_found() {
        let dead = Op { begin: 3, ..Op::on_range(What::Section, 0, 0, 0) };
        let first = section(1, 2, false, [0, 0], 1);
        let check = |next: &Op| check_sections(&[&first, &dead, next]);
        for good in [section(5, 6, true, [1, 2], 3), section(5, 6, true, [1, 1], 2), section(5, 6, false, [2, 2], 3)] {
            check(&good).unwrap();
        }
        let torn = section(5, 6, false, [1, 2], 3);
        let (lost, many) = (section(5, 6, false, [0, 0], 1), section(5, 6, false, [3, 3], 4));
        for bad in [torn, lost, many, section(1, 6, false, [1, 1], 2)] {
            check(&bad).unwrap_err().what.clear();
        }
        assert!(check_sections(&[&first, &section(5, 6, true, [1, 1], 2)]).unwrap_err().what.contains("by nobody"));
    }

    #[test]
    fn counts_that_are_lost_or_doubled_are_found() {
        let op = |what, begin, end, result| Op { begin, end, result, ..Op::on_range(what, 0, 8, 0) };
        let (one, two) = (op(What::Add, 1, 2, 0), op(What::Add, 3, 4, 1));
        let cut = op(What::AddUpdate, 1, NEVER, 0);
        let good = [op(What::CountGet, 5, 6, 2), op(What::CountGet, 5, 6, 3)];
        good.iter().for_each(|count| check_counter(&[&one, &two, &cut, count]).unwrap());
        for bad in [op(What::CountGet, 5, 6, 1), op(What::CountGet, 5, 6, 4), op(What::Add, 5, 6, 1)] {
            check_counter(&[&one, &two, &cut, &bad]).unwrap_err().what.clear();
        }
        let (late, early) = (op(What::CountGet, 5, 6, 3), op(What::CountGet, 7, 8, 2));
        assert!(check_counter(&[&one, &two, &cut, &late, &early]).unwrap_err().what.contains("went back"));
    }
}
