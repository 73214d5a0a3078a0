//! The peer `relay`: bare messages on their ways through processes that each wait for them.

use super::program::{self, Compiled};
use crate::turns::{Contestant, Outcome};
use std::fmt::Display;

/// Takes turns of `count` messages on each way, by the key of its figure.
pub fn contestant<'a>(compiled: &Compiled, count: u64, ways: impl Iterator<Item = (impl Display, &'a str)>) -> Contestant<'a> {
    let ways = ways.map(|(key, way)| format!("{key}={way}"));
    let words: Vec<String> = std::iter::once(count.to_string()).chain(ways).collect();
    let relay = compiled.build("cc", "relay", &[]);
    Contestant::peer("bare sockets", relay.map(|relay| move || program::figures(&program::run(&relay, &words, &[])?)))
}

/// The outcome under a name that says how many processes a way leads through.
pub fn through(relay: &Outcome, way: &str) -> Outcome {
    Outcome { name: format!("{}, the same way through {} processes", relay.name, processes(way)), ..relay.clone() }
}

/// The program, and the nodes by which its messages go.
fn processes(way: &str) -> usize {
    1 + ('0'..='9').filter(|node| way.contains(*node)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_leads_through_the_program_and_each_of_its_nodes() {
        assert_eq!(["0", "010", "021", "0+123"].map(processes), [2, 3, 4, 5]);
    }
}
