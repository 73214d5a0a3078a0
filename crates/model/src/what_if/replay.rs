//! A recording is replayed where it was made before anything else is asked of it: how much of its time does the model know?
//!
//! The first run has the messages and the computing alone. Time that an entry took beyond that run is kept: the host caused it, and no network
//! changes it. The second run has the kept time and must last as long as the recording. Its error lies in how ranks wait for each other.
use super::WhatIfError;
use super::path::Expense;
use super::program::{Program, Step};
use super::recording::{OwnTime, Recording};
use super::simulate::{self, Run, Setting};
use crate::time::Picos;

/// Largest error of a replay, as a share of the recorded time.
const FAR_OFF: f64 = 0.2;

/// The greatest share of the recorded time that may be kept without the model knowing what it was.
const MOSTLY_KEPT: f64 = 0.5;

/// A recording beside its replay on the host where it was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// From the first event of the recording to the last, without the writing of the timeline.
    pub recorded: Picos,
    /// The same by the model alone.
    pub model: Picos,
    /// The same with what is kept.
    pub here: Picos,
    /// Kept time along the path to the replay's end.
    pub kept: Picos,
    /// The waits of the rank that ended last for other ranks: recorded, and replayed.
    pub waits: (Picos, Picos),
}

impl Replay {
    /// Error of the replay, as a share of the recorded time.
    pub fn residual(&self) -> f64 {
        self.here.0 as f64 / self.recorded.0.max(1) as f64 - 1.0
    }

    /// Error of the model alone.
    pub fn alone(&self) -> f64 {
        self.model.0 as f64 / self.recorded.0.max(1) as f64 - 1.0
    }

    /// The share of the recorded time that is kept.
    pub fn kept_share(&self) -> f64 {
        self.kept.0 as f64 / self.recorded.0.max(1) as f64
    }

    /// Why nothing should be concluded from the recording.
    pub fn objections(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.residual().abs() > FAR_OFF {
            let (recorded, replayed) = self.waits;
            found.push(format!(
                "replayed where it was recorded it takes {} for {} ({:+.0} %), of it {replayed} for {recorded} waiting for other ranks",
                self.here,
                self.recorded,
                self.residual() * 100.0
            ));
        }
        if self.kept_share() > MOSTLY_KEPT {
            found.push(format!(
                "{:.0} % of the recorded time is neither the program's work nor anything that the model knows: the host was busy, or the program \
                 does what the model has not",
                self.kept_share() * 100.0
            ));
        }
        found
    }
}

/// Replays a recording on `here`, the setting that it was made in. Returns the program with what is kept in it.
///
/// **Cost**: two runs. **Errors**: as [`simulate::run`].
pub fn replay(mut recording: Recording, here: &Setting) -> Result<(Program, Replay), WhatIfError> {
    let timed = Setting { is_timed: true, ..here.clone() };
    let alone = simulate::run(&recording.program, &timed)?;
    for rank in 0..recording.taken.len() {
        let kept = kept(&recording.taken[rank], &alone.starts[rank]);
        let places: Vec<usize> = recording.taken[rank].iter().map(|taken| taken.to).collect();
        let steps = recording.steps_mut(rank);
        places.into_iter().zip(kept).for_each(|(place, kept)| steps[place] = Step::Kept(kept));
    }
    let with = simulate::run(&recording.program, &timed)?;
    let last = (0..with.ends.len()).max_by_key(|rank| with.ends[*rank]).unwrap_or(0);
    let replay = Replay {
        recorded: recording.span(),
        model: alone.end,
        here: with.end,
        kept: with.path.of(Expense::Kept),
        waits: (recording.waited[last], waited(&recording, &with, last)),
    };
    Ok((recording.program, replay))
}

/// Time of each entry beyond the run. Where the run took longer, less is kept of the next entries.
fn kept(taken: &[OwnTime], starts: &[Picos]) -> Vec<Picos> {
    let mut owed = Picos::ZERO;
    let of = |taken: &OwnTime| {
        let run = starts.get(taken.to).zip(starts.get(taken.from)).map_or(Picos::ZERO, |(to, from)| to.since(*from));
        let (more, less) = (taken.took.since(run), run.since(taken.took));
        let kept = more.since(owed);
        owed = owed.since(more) + less;
        kept
    };
    taken.iter().map(of).collect()
}

/// Time of a run that a rank waited for others.
fn waited(recording: &Recording, run: &Run, rank: usize) -> Picos {
    let (starts, steps) = (&run.starts[rank], &recording.program.phases(rank)[0].steps);
    let is_wait = |step: &Step| matches!(step, Step::Barrier | Step::Hear(_));
    let spans = starts.windows(2).zip(steps).filter(|(_, step)| is_wait(step)).map(|(pair, _)| pair[1] - pair[0]);
    spans.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_longer_is_kept_and_what_was_predicted_longer_is_owed() {
        let us = |all: &[u64]| all.iter().map(|us| Picos::us(*us)).collect::<Vec<_>>();
        let taken = |from, took| OwnTime { from, to: from + 1, took: Picos::us(took) };
        let all = [taken(0, 10), taken(1, 10), taken(2, 30), taken(3, 30)];
        // The run took 4, 25, 10 and 30: 6 kept, 15 owed, of which 20 more pay, and 5 kept.
        assert_eq!(kept(&all, &us(&[0, 4, 29, 39, 69])), us(&[6, 0, 5, 0]));
        assert_eq!(kept(&all, &[]), us(&[10, 10, 30, 30]));
    }

    #[test]
    fn a_replay_that_is_off_or_mostly_kept_is_objected_to() {
        let ms = Picos::ms;
        let good = Replay { recorded: ms(100), model: ms(60), here: ms(119), kept: ms(50), waits: (ms(1), ms(2)) };
        assert_eq!(good.objections(), Vec::<String>::new());
        assert!((good.alone() + 0.4).abs() < 1e-9);
        let off = Replay { here: ms(79), ..good.clone() };
        assert!(off.objections()[0].contains("79 ms for 100 ms (-21 %)"), "{:?}", off.objections());
        assert!(Replay { kept: ms(51), ..good }.objections()[0].starts_with("51 %"));
    }
}
