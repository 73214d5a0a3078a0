//! What the logs of a seed have to say.

use super::plan::{Plan, Stream};
use std::collections::BTreeMap;
use std::path::Path;

/// How far a stream was read.
#[derive(Default)]
struct Read {
    /// The next number for the reader that lives, unless it has not seen one of this stream yet.
    next: Option<u64>,
    /// One beyond the last that any reader saw, and that any freed.
    seen: u64,
    freed: u64,
}

/// Checks each array that was not lost.
pub fn check(plan: &Plan, folder: &Path, is_lost: impl Fn(usize) -> bool) -> Result<(), String> {
    let arrays = (0..plan.arrays.len()).filter(|array| !is_lost(*array));
    for array in arrays {
        let streams = read_log(plan, folder, array)?;
        for (slot, writer) in plan.writers.iter().enumerate().filter(|(_, writer)| writer.array == array) {
            for life in 0..writer.slot.lives {
                let stream = Stream { queue: writer.queue, slot: slot as u64, life: life as u64 };
                let seen = streams.get(&stream).map_or(0, |read| read.seen);
                let log = std::fs::read_to_string(plan.log_of_writer(folder, slot, life)).unwrap_or_default();
                let (done, begun) = (beyond(&log, "done"), beyond(&log, "begun"));
                if seen < done || seen > begun.max(done) {
                    return Err(format!("{stream:?} of array {array}: {done} to {begun} were committed, {seen} read"));
                }
            }
        }
    }
    Ok(())
}

/// One beyond the last number of lines that begin so.
fn beyond(log: &str, what: &str) -> u64 {
    let numbers = log.lines().filter_map(|line| line.strip_prefix(what)?.trim().parse::<u64>().ok());
    numbers.max().map_or(0, |last| last + 1)
}

/// Follows a reader's log, and those of its successors, who add to it.
fn read_log(plan: &Plan, folder: &Path, array: usize) -> Result<BTreeMap<Stream, Read>, String> {
    let own = &plan.arrays[array];
    let log = std::fs::read_to_string(plan.log_of_reader(folder, array)).unwrap_or_default();
    let mut streams = BTreeMap::<Stream, Read>::new();
    for (at, line) in log.lines().enumerate() {
        let wrong = |what: &str| Err(format!("array {array}, line {}: '{line}': {what}", at + 1));
        let words: Vec<&str> = line.split(' ').collect();
        let (what, rest) = words.split_first().expect("a line has words");
        if *what == "life" {
            streams.values_mut().for_each(|read| read.next = None);
            continue;
        }
        if *what == "error" {
            continue;
        }
        let [queue, slot, life, number, whole] = rest else { return wrong("it makes no sense") };
        let [queue, slot, life, number] = [queue, slot, life, number].map(|word| word.parse::<u64>().unwrap_or(u64::MAX));
        if *whole != "whole" {
            return wrong("a torn unit");
        }
        let read = streams.entry(Stream { queue, slot, life }).or_default();
        if *what == "freed" {
            read.freed = read.freed.max(number + 1);
            continue;
        }
        // A reader of another host tells what it has freed with its next look: its successor may see as much as a lane holds again.
        let again = if own.reader.node == own.node && plan.copies == 1 { 0 } else { u64::from(own.form.depth) * 16 };
        match read.next {
            Some(next) if number != next => return wrong(&format!("number {next} was to come")),
            None if number > read.seen => return wrong(&format!("number {} was left out", read.seen)),
            None if number < read.freed.saturating_sub(again) => return wrong("it was freed before"),
            _ => {}
        }
        read.next = Some(number + 1);
        read.seen = read.seen.max(number + 1);
    }
    Ok(streams)
}
