//! A part that serves one thing at a time, in the order of asking: a bus, a link, a pipeline stage, a firmware loop.
use crate::time::Picos;

/// When a part began and ended one piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The part was free and began.
    pub start: Picos,
    /// The part is free for the next.
    pub end: Picos,
}

/// A part that is taken for a span of time and free afterwards.
///
/// **Ordering**: first asked, first served; work never overtakes.
#[derive(Clone, Debug, Default)]
pub struct Station {
    free_at: Picos,
    busy: Picos,
}

impl Station {
    /// A part that is free from time zero on.
    pub fn new() -> Station {
        Station::default()
    }

    /// Takes the part for `span`, from `asked` on or from when the work before is done.
    pub fn take(&mut self, asked: Picos, span: Picos) -> Taken {
        let start = asked.max(self.free_at);
        self.free_at = start + span;
        self.busy += span;
        Taken { start, end: self.free_at }
    }

    /// When the work asked for so far is done.
    pub fn free_at(&self) -> Picos {
        self.free_at
    }

    /// The time the part was taken in all.
    pub fn busy(&self) -> Picos {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_the_work_before() {
        let mut station = Station::new();
        assert_eq!(station.take(Picos(10), Picos(5)), Taken { start: Picos(10), end: Picos(15) });
        assert_eq!(station.take(Picos(12), Picos(5)), Taken { start: Picos(15), end: Picos(20) });
        assert_eq!(station.take(Picos(30), Picos(1)), Taken { start: Picos(30), end: Picos(31) });
        assert_eq!((station.busy(), station.free_at()), (Picos(11), Picos(31)));
    }
}
