//! A bound on the bytes that a node sends each second to copies that are made: of all its extents together, which take turns of a range each.
//! A copy that got no range for long would hold back writes, because ranges confirm them.

use hanare_protocol::wire::copies::CopiedExtent;
use std::collections::VecDeque;
use std::num::NonZero;
use std::time::Duration;

/// Time whose bytes may go at once, after a pause: wakes come late.
const BURST: Duration = Duration::from_millis(20);

/// The pace of ranges.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Bytes a second; `None` for no bound.
    rate: Option<NonZero<u64>>,
    now: Duration,
    /// When the next range may go.
    next: Duration,
    /// Extents whose ranges wait for that, in turn, and the one whose turn it is.
    waiting: VecDeque<CopiedExtent>,
    turn: Option<CopiedExtent>,
}

impl Pace {
    pub fn set_rate(&mut self, rate: Option<NonZero<u64>>) {
        self.rate = rate;
    }

    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// True if a range of the extent, of so many bytes, may go now. Else [`Pace::next_turn`] gives the extent later.
    pub fn may_send(&mut self, extent: CopiedExtent, len: u64) -> bool {
        let Some(rate) = self.rate else { return true };
        let is_its_turn = self.turn.take_if(|turn| *turn == extent).is_some() || self.waiting.is_empty();
        if self.now < self.next || !is_its_turn {
            if !self.waiting.contains(&extent) {
                self.waiting.push_back(extent);
            }
            return false;
        }
        let takes = Duration::from_secs_f64(len as f64 / rate.get() as f64);
        self.next = self.next.max(self.now.saturating_sub(BURST)).saturating_add(takes);
        true
    }

    /// When extents that wait have their turn.
    pub fn deadline(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(self.next)
    }

    /// The extent whose turn it is, if a range may go now.
    pub fn next_turn(&mut self, now: Duration) -> Option<CopiedExtent> {
        self.turn = if now < self.next { None } else { self.waiting.pop_front() };
        self.turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::id::Gid;
    use hanare_protocol::limits::STAGE_LEN;

    #[test]
    fn ranges_of_all_extents_keep_to_the_rate_together() {
        let extents = [0, 1].map(|index| CopiedExtent { gid: Gid(1), index });
        let mut pace = Pace::default();
        assert!(
            (0..1_000).all(|_| pace.may_send(extents[0], STAGE_LEN as u64)) && pace.deadline().is_none(),
            "without a bound all go"
        );
        pace.set_rate(NonZero::new(8 * STAGE_LEN as u64));
        let (mut sent, mut now) = ([0u32; 2], Duration::from_secs(7));
        let end = now + Duration::from_secs(10);
        while now < end {
            pace.set_now(now);
            let mut send = |pace: &mut Pace, extent: CopiedExtent| {
                while pace.may_send(extent, STAGE_LEN as u64) {
                    sent[extent.index as usize] += 1;
                }
            };
            match pace.deadline() {
                None => extents.into_iter().for_each(|extent| send(&mut pace, extent)),
                Some(_) => {
                    while let Some(extent) = pace.next_turn(now) {
                        send(&mut pace, extent);
                    }
                }
            }
            now = pace.deadline().expect("more ranges wait");
        }
        assert!((79..=82).contains(&sent.iter().sum::<u32>()) && sent[0].abs_diff(sent[1]) <= 1, "{sent:?}");
        assert!(pace.next_turn(Duration::ZERO).is_none() && pace.deadline().is_some(), "too soon");
    }
}
