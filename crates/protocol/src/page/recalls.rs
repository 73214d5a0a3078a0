//! Stages of commands at the home of their pages: which wait, which are over, and when their commands hear of it.
//!
//! ```text
//!               Ask               Come, Refuse, Late, Unmap              Tell
//!   Unasked -----------> Waiting --------------------------> Over --------------> Told
//!    |   ^                  |                                 ^
//!    |   +----- Return -----+                                 |
//!    +--------------------- Late, Unmap ----------------------+
//! ```
//!
//! A stage asks the directory for all its pages at one moment and in ascending order. So no two stages wait for each other. A home that was
//! taken for lost forgets all requests: its stages ask again when it has begun again. A stage waits for `patience_ms`, and no longer. Its
//! command is told once.
//!
//! A stage that reads holds nothing; one that writes holds its pages from [`Output::Ready`](super::directory::Output::Ready) on. If one
//! page is refused or comes too late, the others go to the next in their queues. [`Recalls`] says which to let go, and forgets nothing
//! that is held before [`Recalls::end`].

use super::directory::Face;
use super::message::{Access, Page};
use crate::table::{self, Row};
use std::collections::{BTreeMap, BTreeSet};

/// Phase of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Its home is away, or comes back.
    Unasked,
    /// The directory was asked for its pages.
    Waiting,
    /// All its pages are at home, or it will not get them.
    Over,
    /// The requester knows.
    Told,
}

/// An event of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The directory is asked for its pages.
    Ask,
    /// The last page that it waits for is at home.
    Come,
    /// The directory refuses a page.
    Refuse,
    /// The stage has waited for too long.
    Late,
    /// No host maps the region any more: its pages are at home.
    Unmap,
    /// The home was taken for lost.
    Return,
    /// The requester is told.
    Tell,
}

/// The transitions of a stage.
pub const STAGE: &[Row<Phase, Event>] = &[
    Row { event: Event::Ask, from: &[Phase::Unasked], to: Phase::Waiting },
    Row { event: Event::Come, from: &[Phase::Waiting], to: Phase::Over },
    Row { event: Event::Refuse, from: &[Phase::Waiting], to: Phase::Over },
    Row { event: Event::Late, from: &[Phase::Unasked, Phase::Waiting], to: Phase::Over },
    Row { event: Event::Unmap, from: &[Phase::Unasked, Phase::Waiting], to: Phase::Over },
    Row { event: Event::Return, from: &[Phase::Waiting], to: Phase::Unasked },
    Row { event: Event::Tell, from: &[Phase::Over], to: Phase::Told },
];

/// State of the home of a stage's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeStanding {
    /// The last client has unmapped the region.
    Unmapped,
    /// The home was taken for lost, and gets newer bytes first.
    Away,
    /// The home answers.
    Here,
}

/// Pages of a stage: to be asked for, or to be let go of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePages<R> {
    /// The stage's number.
    pub face: Face,
    /// The stage's region.
    pub region: R,
    /// Ascending, each once.
    pub pages: Vec<Page>,
    /// The stage's access.
    pub access: Access,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State<E> {
    Unasked,
    /// These are not here yet.
    Waiting(BTreeSet<Page>),
    Over(Result<(), E>),
    Told,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stage<A, R, E> {
    asker: A,
    region: R,
    access: Access,
    pages: Vec<Page>,
    state: State<E>,
    until_ms: u64,
}

impl<A, R: Copy, E> Stage<A, R, E> {
    fn phase(&self) -> Phase {
        match self.state {
            State::Unasked => Phase::Unasked,
            State::Waiting(_) => Phase::Waiting,
            State::Over(_) => Phase::Over,
            State::Told => Phase::Told,
        }
    }

    fn may(&self, event: Event) -> bool {
        table::next(STAGE, self.phase(), event).is_some()
    }

    fn pages_of(&self, face: Face) -> StagePages<R> {
        StagePages { face, region: self.region, pages: self.pages.clone(), access: self.access }
    }
}

/// The stages of a node's commands whose pages are asked for or held. `A` names the command, `R` a region, `E` the reason of a refusal.
///
/// **Cost**: a stage is some 100 bytes and 16 for each page that it waits for. A command without shared pages has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalls<A, R, E> {
    stages: BTreeMap<Face, Stage<A, R, E>>,
    count: u64,
    patience_ms: u64,
}

impl<A: Copy + PartialEq, R: Copy, E> Recalls<A, R, E> {
    /// No stage. Each waits for so long.
    pub fn new(patience_ms: u64) -> Recalls<A, R, E> {
        Recalls { stages: BTreeMap::new(), count: 0, patience_ms }
    }

    /// Time that a stage waits.
    pub fn patience_ms(&self) -> u64 {
        self.patience_ms
    }

    /// A face of its own for a stage that needs no page.
    pub fn next_face(&mut self) -> Face {
        self.count += 1;
        Face(self.count)
    }

    /// A stage needs these pages, ascending. [`Recalls::ask`] follows.
    pub fn begin(&mut self, asker: A, (region, access, pages): (R, Access, Vec<Page>), now_ms: u64) -> Face {
        let (face, until_ms) = (self.next_face(), now_ms.saturating_add(self.patience_ms));
        self.stages.insert(face, Stage { asker, region, access, pages, state: State::Unasked, until_ms });
        face
    }

    /// The stages to ask for, by the standing of their homes: those not yet asked for, and those whose home is gone.
    pub fn unasked(&self, standing: impl Fn(R) -> HomeStanding) -> Vec<Face> {
        let is_unasked = |stage: &Stage<A, R, E>| match stage.phase() {
            Phase::Unasked => true,
            Phase::Waiting => standing(stage.region) == HomeStanding::Unmapped,
            Phase::Over | Phase::Told => false,
        };
        self.stages.iter().filter(|(_, stage)| is_unasked(stage)).map(|(face, _)| *face).collect()
    }

    /// A stage is asked for, by how its home stands. Returns what the directory is to be asked for: all of it at this moment, in this
    /// order.
    #[must_use = "the directory is to be asked"]
    pub fn ask(&mut self, face: Face, standing: impl Fn(R) -> HomeStanding) -> Option<StagePages<R>> {
        let stage = self.stages.get_mut(&face)?;
        match standing(stage.region) {
            HomeStanding::Unmapped if stage.may(Event::Unmap) => stage.state = State::Over(Ok(())),
            HomeStanding::Here if stage.may(Event::Ask) => {
                stage.state = State::Waiting(stage.pages.iter().copied().collect());
                return Some(stage.pages_of(face));
            }
            HomeStanding::Unmapped | HomeStanding::Away | HomeStanding::Here => {}
        }
        None
    }

    /// The directory reports that a page is at home, or is refused. Returns the pages to release, if the stage will not be done.
    #[must_use = "others wait for the pages"]
    pub fn on_page(&mut self, face: Face, page: Page, outcome: Result<(), E>) -> Option<StagePages<R>> {
        let stage = self.stages.get_mut(&face)?;
        // A result for pages that were let go, or for an older life of the home, has no receiver.
        let State::Waiting(waits) = &mut stage.state else { return None };
        waits.remove(&page);
        let (is_last, is_refused) = (waits.is_empty(), outcome.is_err());
        let event = if is_refused { Event::Refuse } else { Event::Come };
        if (is_refused || is_last) && stage.may(event) {
            stage.state = State::Over(outcome);
        }
        is_refused.then(|| stage.pages_of(face))
    }

    /// The stages that have waited for too long.
    pub fn late(&self, now_ms: u64) -> Vec<Face> {
        let is_late = |stage: &Stage<A, R, E>| stage.may(Event::Late) && stage.until_ms <= now_ms;
        self.stages.iter().filter(|(_, stage)| is_late(stage)).map(|(face, _)| *face).collect()
    }

    /// A stage waits no longer. `outcome` gives its result, by its region and the first page that has not come. Returns the pages to
    /// release.
    #[must_use = "others wait for the pages"]
    pub fn give_up(&mut self, face: Face, outcome: impl FnOnce(R, Page) -> Result<(), E>) -> Option<StagePages<R>> {
        let stage = self.stages.get_mut(&face).filter(|stage| stage.may(Event::Late))?;
        let first = match &stage.state {
            State::Waiting(waits) => waits.first(),
            _ => None,
        };
        let first = first.or(stage.pages.first()).copied().unwrap_or(Page(0));
        stage.state = State::Over(outcome(stage.region, first));
        Some(stage.pages_of(face))
    }

    /// The homes of this node were taken for lost, and forget what they were asked for.
    pub fn on_return(&mut self) {
        for stage in self.stages.values_mut().filter(|stage| stage.may(Event::Return)) {
            stage.state = State::Unasked;
        }
    }

    /// Outcome of a stage, if it is over and was not told.
    pub fn tell(&mut self, face: Face) -> Option<Result<(), E>> {
        let stage = self.stages.get_mut(&face).filter(|stage| stage.may(Event::Tell))?;
        match std::mem::replace(&mut stage.state, State::Told) {
            State::Over(outcome) => Some(outcome),
            _ => unreachable!("the table tells of what is over"),
        }
    }

    /// The same for all stages but one, and who asked.
    pub fn tell_all(&mut self, but: Option<Face>) -> Vec<(A, Face, Result<(), E>)> {
        let over = self.stages.iter().filter(|(face, stage)| stage.phase() == Phase::Over && Some(**face) != but);
        let over: Vec<(A, Face)> = over.map(|(face, stage)| (stage.asker, *face)).collect();
        over.into_iter().filter_map(|(asker, face)| Some((asker, face, self.tell(face)?))).collect()
    }

    /// A stage is done, or nobody wants it any more. Returns what is to be let go of.
    pub fn end(&mut self, face: Face) -> Option<StagePages<R>> {
        self.stages.remove(&face).map(|stage| stage.pages_of(face))
    }

    /// The stages that need pages of a region.
    pub fn of_region(&self, region: R) -> Vec<Face>
    where
        R: PartialEq,
    {
        self.stages.iter().filter(|(_, stage)| stage.region == region).map(|(face, _)| *face).collect()
    }

    /// The stages of one who asks.
    pub fn of(&self, asker: A) -> Vec<Face> {
        self.stages.iter().filter(|(_, stage)| stage.asker == asker).map(|(face, _)| *face).collect()
    }

    /// True if there is no stage.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// True if a stage waits for pages.
    pub fn any_wait(&self) -> bool {
        self.stages.values().any(|stage| stage.phase() != Phase::Told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATIENCE_MS: u64 = 10;

    fn here(_: u8) -> HomeStanding {
        HomeStanding::Here
    }

    #[test]
    fn the_table_says_one_thing() {
        assert_eq!(table::print(STAGE), include_str!("recalls.txt"));
        assert_eq!(table::contradiction(STAGE), None);
    }

    #[test]
    fn a_stage_is_asked_for_again_where_its_home_comes_back() {
        let mut recalls = Recalls::<u8, u8, &str>::new(PATIENCE_MS);
        let face = recalls.begin(1, (7, Access::Write, vec![Page(2), Page(3)]), 0);
        assert_eq!(recalls.ask(face, |_| HomeStanding::Away), None);
        let asked = recalls.ask(face, here).expect("its home answers");
        assert_eq!((asked.pages, asked.region), (vec![Page(2), Page(3)], 7));
        assert_eq!(recalls.ask(face, here), None, "once");
        assert_eq!(recalls.on_page(face, Page(2), Ok(())), None);
        recalls.on_return();
        assert_eq!((recalls.on_page(face, Page(3), Ok(())), recalls.tell(face)), (None, None), "of the life before");
        assert_eq!(recalls.unasked(here), [face]);
        assert!(recalls.ask(face, here).is_some());
        for page in [2, 3] {
            assert_eq!((recalls.tell(face), recalls.on_page(face, Page(page), Ok(()))), (None, None));
        }
        assert_eq!((recalls.tell(face), recalls.tell(face)), (Some(Ok(())), None));
    }

    #[test]
    fn a_stage_whose_home_is_gone_has_all_its_pages() {
        let mut recalls = Recalls::<u8, u8, &str>::new(PATIENCE_MS);
        let face = recalls.begin(1, (7, Access::Read, vec![Page(2)]), 0);
        assert!(recalls.ask(face, here).is_some());
        assert_eq!(recalls.unasked(|_| HomeStanding::Unmapped), [face]);
        assert_eq!(recalls.ask(face, |_| HomeStanding::Unmapped), None);
        assert_eq!(recalls.tell_all(None), [(1, face, Ok(()))]);
    }

    /// The test's record of a stage, without any rule.
    #[derive(Debug, Default)]
    struct Known {
        begun_ms: u64,
        /// Pages that have not come since the directory was asked last, if it was.
        missing: Option<BTreeSet<u64>>,
        is_refused: bool,
        is_late: bool,
        is_told: bool,
        /// Pages that the directory holds for it.
        held: BTreeSet<u64>,
    }

    proptest! {
        /// The requester is told once. It is success only if each page came after the last question to the directory, and in time. A
        /// refused or late stage lets go, and one that has ended holds nothing.
        #[test]
        fn who_asks_is_told_once_and_the_truth(steps in prop::collection::vec((0..8u8, 0..4u64, 0..4u64), 1..200)) {
            let mut recalls = Recalls::<u64, u8, ()>::new(PATIENCE_MS);
            let (mut stages, mut now_ms, mut is_away) = (BTreeMap::<Face, Known>::new(), 0, false);
            for (step, which, page) in steps {
                let standing = |_: u8| if is_away { HomeStanding::Away } else { HomeStanding::Here };
                let face = stages.keys().nth(which as usize).copied();
                match (step, face) {
                    (0, _) if stages.len() < 4 => {
                        let pages: Vec<Page> = (page..4).map(Page).collect();
                        let face = recalls.begin(which, (0, Access::Write, pages), now_ms);
                        stages.insert(face, Known { begun_ms: now_ms, ..Known::default() });
                    }
                    (1, _) => {
                        for face in recalls.unasked(standing) {
                            let Some(asked) = recalls.ask(face, standing) else { continue };
                            stages.get_mut(&face).unwrap().missing = Some(asked.pages.iter().map(|page| page.0).collect());
                        }
                    }
                    (2 | 3, Some(face)) => {
                        let known = stages.get_mut(&face).unwrap();
                        let is_due = known.missing.as_ref().is_some_and(|missing| missing.contains(&page));
                        if !is_due {
                            continue;
                        }
                        let is_refused = step == 3 && which == 0;
                        known.missing.as_mut().unwrap().remove(&page);
                        known.is_refused |= is_refused && !known.is_late;
                        known.held.extend((!is_refused).then_some(page));
                        if let Some(freed) = recalls.on_page(face, Page(page), if is_refused { Err(()) } else { Ok(()) }) {
                            known.held.retain(|page| !freed.pages.contains(&Page(*page)));
                            known.missing = None;
                        }
                    }
                    (4, _) => {
                        now_ms += 1 + page;
                        for face in recalls.late(now_ms) {
                            let known = stages.get_mut(&face).unwrap();
                            prop_assert!(now_ms >= known.begun_ms + PATIENCE_MS);
                            let freed = recalls.give_up(face, |_, _| Err(())).expect("it is late");
                            known.held.retain(|page| !freed.pages.contains(&Page(*page)));
                            (known.is_late, known.missing) = (true, None);
                        }
                    }
                    (5, _) => is_away = !is_away,
                    (6, _) if is_away => {
                        recalls.on_return();
                        for known in stages.values_mut() {
                            known.held.clear();
                            if !known.is_refused && !known.is_late && known.missing.as_ref().is_some_and(|missing| !missing.is_empty()) {
                                known.missing = None;
                            }
                        }
                    }
                    (7, Some(face)) => {
                        if let Some(outcome) = recalls.tell(face) {
                            let known = stages.get_mut(&face).unwrap();
                            prop_assert!(!std::mem::replace(&mut known.is_told, true), "twice");
                            let has_all = known.missing.as_ref().is_some_and(BTreeSet::is_empty);
                            prop_assert_eq!(outcome.is_ok(), has_all && !known.is_refused && !known.is_late);
                        }
                        if which == 3 {
                            let freed = recalls.end(face).expect("it is there");
                            let known = stages.remove(&face).unwrap();
                            prop_assert!(known.held.iter().all(|page| freed.pages.contains(&Page(*page))));
                        }
                    }
                    _ => {}
                }
            }
            // At the end each is told in time.
            now_ms += PATIENCE_MS;
            for face in recalls.late(now_ms) {
                let _ = recalls.give_up(face, |_, _| Err(()));
            }
            let told: BTreeSet<Face> = recalls.tell_all(None).into_iter().map(|(_, face, _)| face).collect();
            for (face, known) in &stages {
                prop_assert!(known.is_told != told.contains(face), "{known:?}");
            }
            prop_assert!(!recalls.any_wait());
        }
    }
}
