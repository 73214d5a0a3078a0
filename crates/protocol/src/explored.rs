//! What explorations by stateright share. A world notes the first thing that goes wrong in it. All orders of its steps are tried, and a
//! failure tells the way there.

use stateright::{Checker, Model, Property};
use std::fmt::Debug;
use std::hash::Hash;

/// What every state of a world must be.
const RIGHT: &str = "nothing is wrong";

/// A world that notes what went wrong in it.
pub(crate) trait Judged {
    fn wrong(&self) -> Option<&'static str>;
}

/// An exploration of such worlds.
pub(crate) trait Explored:
    Model<State: Judged + Clone + PartialEq + Hash + Send + Sync + 'static, Action: Debug + Clone + PartialEq> + Send + Sync + 'static
{
    /// A step, as a failure tells it.
    fn tell(_: &Self::State, step: &Self::Action) -> String {
        format!("{step:?}")
    }
}

/// The property of all such worlds.
pub(crate) fn nothing_is_wrong<M: Explored>() -> Vec<Property<M>> {
    vec![Property::always(RIGHT, |_, world: &M::State| world.wrong().is_none())]
}

/// Tries all orders. Returns how many states there are, and what went wrong, with the way there.
pub(crate) fn explore<M: Explored>(model: M) -> (usize, Option<String>) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    let found = checker.discovery(RIGHT).map(|path| {
        let wrong = path.last_state().wrong().unwrap_or_default();
        let told = |(world, step): &(M::State, Option<M::Action>)| Some(format!("  {}\n", M::tell(world, step.as_ref()?)));
        let steps: String = path.into_vec().iter().filter_map(told).collect();
        format!("{wrong}:\n{steps}")
    });
    (checker.unique_state_count(), found)
}

/// Nothing goes wrong in any order, and there are so many states.
#[track_caller]
pub(crate) fn holds<M: Explored>(model: M, what: &str, at_least: usize) {
    let (states, found) = explore(model);
    eprintln!("{states} states of {what}");
    assert!(found.is_none(), "{}", found.unwrap_or_default());
    assert!(states >= at_least, "only {states} states");
}

/// A rule is missed where it is switched off: some order goes wrong without it, and in that way.
#[track_caller]
pub(crate) fn is_needed<M: Explored>(without: M, off: impl Debug, wrong: &str) {
    let (_, found) = explore(without);
    let found = found.unwrap_or_else(|| panic!("nothing goes wrong with {off:?}"));
    assert!(found.starts_with(wrong), "{off:?} leads to\n{found}");
}
