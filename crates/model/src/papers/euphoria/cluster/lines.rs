//! The data lines: wavelengths through a star coupler, two to a full-duplex channel, each channel tuned to a pair of nodes.
//!
//! Broadcast and select: every node's light reaches every node, so any free channel serves any pair, and only its two nodes
//! listen to it.

/// A channel's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    /// Tuned to nobody.
    Dark,
    /// Up between two nodes and not in use.
    Up([usize; 2]),
    /// Given to an access of two nodes.
    Taken([usize; 2]),
}

/// What an arbitration found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The pair's line is up already.
    Held(usize),
    /// A channel that must be set up first.
    SetUp(usize),
    /// Every channel is taken.
    Busy,
}

// FEATURE: EU-F8
/// All channels of the star.
pub struct Lines {
    channels: Vec<Channel>,
}

fn pair(a: usize, b: usize) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

impl Lines {
    /// Dark channels.
    pub fn new(count: usize) -> Lines {
        Lines { channels: vec![Channel::Dark; count] }
    }

    /// Whether the line of a pair is up and free.
    pub fn is_up(&self, a: usize, b: usize) -> bool {
        self.channels.contains(&Channel::Up(pair(a, b)))
    }

    /// Takes a channel for a pair: its own where it is up, else a dark one, else one that is up for others.
    pub fn take(&mut self, a: usize, b: usize) -> Grant {
        let wanted = pair(a, b);
        if let Some(index) = self.channels.iter().position(|channel| *channel == Channel::Up(wanted)) {
            self.channels[index] = Channel::Taken(wanted);
            return Grant::Held(index);
        }
        let dark = self.channels.iter().position(|channel| *channel == Channel::Dark);
        let idle = || self.channels.iter().position(|channel| matches!(channel, Channel::Up(_)));
        match dark.or_else(idle) {
            Some(index) => {
                self.channels[index] = Channel::Taken(wanted);
                Grant::SetUp(index)
            }
            None => Grant::Busy,
        }
    }

    /// Gives a channel back: dark, or still up for its pair where lines are kept.
    pub fn release(&mut self, index: usize, is_kept: bool) {
        self.channels[index] = match (self.channels[index], is_kept) {
            (Channel::Taken(nodes), true) => Channel::Up(nodes),
            _ => Channel::Dark,
        };
    }

    /// Brings a line up before the run.
    pub fn bring_up(&mut self, a: usize, b: usize) {
        let granted = self.take(a, b);
        if let Grant::SetUp(index) | Grant::Held(index) = granted {
            self.release(index, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pairs_talk_at_once_and_the_third_waits() {
        let mut lines = Lines::new(2);
        assert_eq!((lines.take(0, 1), lines.take(2, 3), lines.take(1, 2)), (Grant::SetUp(0), Grant::SetUp(1), Grant::Busy));
        lines.release(0, true);
        assert!(lines.is_up(1, 0));
        assert_eq!(lines.take(1, 0), Grant::Held(0));
        lines.release(0, true);
        assert_eq!(lines.take(1, 2), Grant::SetUp(0));
        lines.release(0, false);
        assert!(!lines.is_up(1, 2));
    }
}
