//! Shared parts of all worlds: the run ([`run`]), and its course ([`Course`]). A course has virtual time and the events in it, chance,
//! the network's weather, the defect put in on purpose, counts, and the trail that a failure shows.
//!
//! A world is a type of its own with its machines, its events and its judge ([`World`]). It dereferences to its course.

use crate::check::{Check, all_held};
use crate::dice::Dice;
use crate::network::Weather;
use crate::report::{Counts, Failure, Plan};
use std::collections::{BTreeMap, VecDeque};
use std::ops::DerefMut;

/// Virtual time after the faults in which everything must come to rest.
pub(crate) const QUIET_MS: u64 = 60_000;
/// Number of the last lines that a failure shows.
const TRAIL_LEN: usize = 60;
/// Events from one word about progress to the next.
const PROGRESS_STEPS: u64 = 4096;

/// A world: machines of the product, what happens to them, and what must hold.
pub(crate) trait World: DerefMut<Target = Course<Self::Event, Self::Defect>> + Sized {
    /// Its name in `hanare sim`.
    const NAME: &'static str;
    type Event;
    /// Defects that can be put in on purpose.
    type Defect: Copy + PartialEq;

    /// The world at its first moment, with the events that set it going.
    fn begin(course: Course<Self::Event, Self::Defect>) -> Self;

    /// Something happens.
    fn act(&mut self, event: Self::Event) -> Check;

    /// All faults end: what was broken heals.
    fn calm(&mut self) -> Check;

    /// Checks after every event.
    fn judge(&mut self) -> Check {
        Ok(())
    }

    /// Checks when all is quiet.
    fn judge_rest(&mut self) -> Check;
}

/// The course of a world.
#[derive(Debug)]
pub(crate) struct Course<E, D> {
    pub plan: Plan,
    pub defect: Option<D>,
    pub dice: Dice,
    pub weather: Weather,
    pub now_ms: u64,
    /// True while faults and new work come.
    pub is_rough: bool,
    pub counts: Counts,
    events: BTreeMap<(u64, u64), E>,
    event_count: u64,
    trail: VecDeque<String>,
}

impl<E, D: Copy + PartialEq> Course<E, D> {
    fn new(plan: Plan, defect: Option<D>) -> Course<E, D> {
        Course {
            plan,
            defect,
            dice: Dice::new(plan.seed),
            weather: Weather::FAIR,
            now_ms: 0,
            is_rough: true,
            counts: Counts::new(),
            events: BTreeMap::new(),
            event_count: 0,
            trail: VecDeque::new(),
        }
    }

    /// True if this defect is in the world.
    pub fn has(&self, defect: D) -> bool {
        self.defect == Some(defect)
    }

    /// Lets an event happen after a while.
    pub fn at(&mut self, after_ms: u64, event: E) {
        self.event_count += 1;
        self.events.insert((self.now_ms + after_ms, self.event_count), event);
    }

    /// Counts something that happened.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Keeps a line of what happened for a failure's report.
    pub fn note(&mut self, line: String) {
        if self.trail.len() == TRAIL_LEN {
            self.trail.pop_front();
        }
        self.trail.push_back(format!("{:>8} ms  {line}", self.now_ms));
    }

    /// The network becomes as bad as the dice say.
    pub fn throw_weather(&mut self) {
        self.weather = Weather::throw(&mut self.dice);
    }

    /// Time that a message takes where none is lost.
    pub fn delay_ms(&mut self) -> u64 {
        self.dice.between(0, self.weather.delay_ms_max)
    }

    /// A message over a network that loses, repeats, delays and reorders. Returns how many copies of it arrive.
    pub fn deliver(&mut self, message: impl Fn() -> E) -> usize {
        let arrivals = self.weather.arrivals(&mut self.dice);
        match arrivals.len() {
            0 => self.count("messages lost"),
            1 => {}
            _ => self.count("messages duplicated"),
        }
        arrivals.iter().for_each(|after| self.at(*after, message()));
        arrivals.len()
    }
}

/// Simulates a plan without a defect.
///
/// **Cost**: about a second for ten virtual minutes of three nodes. **Errors**: the first check that did not hold.
pub(crate) fn simulate<W: World>(plan: Plan, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    run::<W>(plan, None, progress)
}

/// Simulates a plan, then until all is quiet.
pub(crate) fn run<W: World>(plan: Plan, defect: Option<W::Defect>, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    let mut world = W::begin(Course::new(plan, defect));
    let held = all_held(|| play(&mut world, progress));
    let (at_ms, trail) = (world.now_ms, std::mem::take(&mut world.trail).into());
    match held {
        Ok(()) => Ok(std::mem::take(&mut world.counts)),
        Err(what) => Err(Failure { plan, world: W::NAME, at_ms, what, trail }),
    }
}

fn play<W: World>(world: &mut W, progress: &mut dyn FnMut(f64)) -> Check {
    let (rough_ms, mut steps) = (world.plan.rough_ms(), 0_u64);
    let end_ms = rough_ms + QUIET_MS;
    while let Some((at_ms, _)) = world.events.first_key_value().map(|(when, _)| *when) {
        if world.is_rough && at_ms >= rough_ms {
            (world.now_ms, world.is_rough, world.weather) = (rough_ms, false, Weather::FAIR);
            world.note("all faults end".to_owned());
            world.calm()?;
            continue;
        }
        if at_ms > end_ms {
            break;
        }
        let (_, event) = world.events.pop_first().expect("just seen");
        world.now_ms = at_ms;
        world.act(event)?;
        world.judge()?;
        steps += 1;
        if steps.is_multiple_of(PROGRESS_STEPS) {
            progress((at_ms as f64 / end_ms as f64).min(1.0));
        }
    }
    world.counts.insert("events", steps);
    progress(1.0);
    world.judge_rest()
}

/// When to tick, counted from now, if that is sooner than what is scheduled already.
pub(crate) fn due(deadline: Option<u64>, tick_at: &mut Option<u64>, now_ms: u64) -> Option<u64> {
    let at = deadline?.max(now_ms + 1);
    if tick_at.is_some_and(|scheduled| scheduled <= at && scheduled > now_ms) {
        return None;
    }
    *tick_at = Some(at);
    Some(at - now_ms)
}

/// Declares the defects that can be put into a world, each of which its judge must find.
macro_rules! defects {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A defect put in on purpose: the judge must find it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Defect {
            $($(#[$doc])* $name,)*
        }

        #[cfg(test)]
        impl $crate::harness::testing::All for Defect {
            const ALL: &'static [Defect] = &[$(Defect::$name),*];
        }
    };
}
pub(crate) use defects;

/// Makes a world dereference to its field `course`.
macro_rules! on_course {
    ($world:ty) => {
        impl std::ops::Deref for $world {
            type Target = $crate::harness::Course<Event, Defect>;

            fn deref(&self) -> &Self::Target {
                &self.course
            }
        }

        impl std::ops::DerefMut for $world {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.course
            }
        }
    };
}
pub(crate) use on_course;

/// Questions of the tests of all worlds.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use std::fmt::Debug;
    use std::ops::Range;

    /// All defects of a world.
    pub trait All: Sized + 'static {
        const ALL: &'static [Self];
    }

    /// Every check holds under these seeds.
    pub fn passes<W: World>(seeds: impl IntoIterator<Item = u64>, nodes: Range<u32>, minutes: f64) {
        for seed in seeds {
            let nodes = nodes.start + seed as u32 % (nodes.end - nodes.start);
            if let Err(failure) = simulate::<W>(Plan { seed, nodes, minutes }, &mut |_| {}) {
                panic!("{failure}");
            }
        }
    }

    /// Every check holds, and each of these happened more than so many times.
    pub fn meets<W: World>(plan: Plan, least: u64, whats: &[&str]) -> Counts {
        let counts = simulate::<W>(plan, &mut |_| {}).unwrap_or_else(|failure| panic!("{failure}"));
        for what in whats {
            assert!(counts.get(what).is_some_and(|count| *count > least), "{what} hardly happened: {counts:?}");
        }
        counts
    }

    /// A seed means the same run, and another one another.
    pub fn replays<W: World>(minutes: f64) {
        let once = |seed| simulate::<W>(Plan { seed, nodes: 3, minutes }, &mut |_| {});
        assert_eq!(once(11), once(11));
        assert_ne!(once(11), once(12));
    }

    /// The judge finds every defect that there is, by one of some seeds from the first on; each failure is handed to `look`.
    pub fn finds_all<W: World<Defect: All + Debug>>(
        (first, seeds): (impl Fn(W::Defect) -> u64, u64),
        (nodes, minutes): (u32, f64),
        look: impl Fn(Failure),
    ) {
        for defect in W::Defect::ALL {
            let first = first(*defect);
            let mut plans = (first..first + seeds).map(|seed| Plan { seed, nodes, minutes });
            let found = plans.find_map(|plan| run::<W>(plan, Some(*defect), &mut |_| {}).err());
            look(found.unwrap_or_else(|| panic!("{defect:?} was not found")));
        }
    }
}
