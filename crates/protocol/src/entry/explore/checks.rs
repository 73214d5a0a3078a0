//! What is checked of every order, and the orders that are gone through.

use super::*;
use stateright::{Checker, Model, Property};

impl Model for Two {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let (mut locks, mut data) = (Locks::new(), BoundData::new(7));
        for lock in 0..LOCKS {
            let who = Claimant { link: 99, number: 0 };
            locks.on_lock(&name(lock), Claim { who, thread: 0, mode: Mode::Exclusive }, false).unwrap();
            let shape = Strided::contiguous((lock * LEN) as u64, LEN as u64);
            let binding = Some(vec![BoundShape { gid: Gid(1), shape }]);
            data.on_publish(&locks, who, 7, Publication { changes: Stores::NONE, binding }).unwrap();
            data.on_unlock(&locks, who);
            locks.on_unlock(who).unwrap();
        }
        let hosts = (0..HOSTS).map(|host| Host { link: host as u64, ..Host::default() }).collect();
        let (base, released) = ([0; LOCKS * LEN], [[0; LEN]; LOCKS]);
        let (asked, ended) = Default::default();
        vec![World { locks, data, base, hosts, released, stores: 0, deaths: 0, evictions: 0, numbers: 0, asked, ended }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Action>) {
        acts.extend(world.asked.iter().map(|who| Action::Answer(*who)));
        for (host, me) in world.hosts.iter().enumerate() {
            match &me.frame {
                None => acts.push(Action::Touch(host)),
                Some(frame) if frame.twin.is_none() && world.evictions < self.evictions => acts.push(Action::Evict(host)),
                Some(_) => {}
            }
            if world.deaths < self.deaths {
                acts.push(Action::Die(host));
            }
            (0..LOCKS).for_each(|lock| world.acts_of(self, host, lock, acts));
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        world.act(self, action)?;
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let redone = Property::sometimes("a release is redone", |_, world: &World| {
            world.hosts.iter().flat_map(|host| host.held.iter().flatten()).any(|held| matches!(held.doing, Doing::Redoes(_)))
        });
        let mut properties = vec![
            Property::always(SEES, |_, world: &World| {
                world.hosts.iter().all(|host| {
                    let sees = |(lock, held): (usize, &Held)| host.view(&world.base, lock) == held.sees;
                    let works = |held: &&Held| !matches!(held.doing, Doing::Redoes(_));
                    let held = host.held.iter().enumerate().filter_map(|(lock, held)| Some((lock, held.as_ref().filter(works)?)));
                    held.into_iter().all(sees)
                })
            }),
            Property::always(HOMES, |_, world: &World| {
                (0..LOCKS).all(|lock| {
                    let is_whole = world.data.phase(&name(lock)) == Some(Phase::Whole);
                    !is_whole || world.base[bytes_of(lock)] == world.released[lock]
                })
            }),
            Property::sometimes("all that was to be released has been", |model: &Two, world: &World| {
                let takes = if model.shares { &model.takes[..1] } else { &model.takes[..] };
                world.stores == takes.iter().flatten().sum::<u8>() && world.hosts.iter().all(|host| host.held == [None, None])
            }),
        ];
        properties.extend((self.deaths > 0 && !self.lends).then_some(redone));
        properties
    }
}

const SEES: &str = "who has a lock sees the last release, and its own stores";
const HOMES: &str = "homes have the last release, and nothing that was not released";

#[test]
fn two_hosts_and_two_locks_in_one_page_in_every_order() {
    let model = Two { takes: [[1, 1], [1, 1]], ..Two::default() };
    model.checker().threads(2).spawn_dfs().join().assert_properties();
}

#[test]
fn a_page_that_makes_room_while_two_locks_have_bytes_in_it() {
    let model = Two { takes: [[1, 1], [2, 0]], evictions: 1, ..Two::default() };
    model.checker().threads(2).spawn_dfs().join().assert_properties();
}

/// A host that dies at any moment, beside one that has bytes of another lock in the page.
fn dies() -> Two {
    Two { takes: [[2, 0], [1, 1]], deaths: 1, ..Two::default() }
}

#[test]
fn a_host_that_dies_has_released_all_or_nothing() {
    let checker = dies().checker().threads(2).spawn_dfs().join();
    checker.assert_no_discovery(SEES);
    checker.assert_no_discovery(HOMES);
    assert!(checker.discovery("a release is redone").is_some());
}

#[test]
fn a_reader_beside_a_writer_that_dies() {
    let model = Two { shares: true, takes: [[2, 0], [2, 0]], evictions: 1, ..dies() };
    model.checker().threads(2).spawn_dfs().join().assert_properties();
}

/// One host keeps what another wants, with a death at any moment, and a page that makes room.
fn lends() -> Two {
    Two { lends: true, takes: [[2, 0], [1, 0]], deaths: 1, evictions: 1, ..Two::default() }
}

#[test]
fn a_leased_lock_has_its_data_as_they_were_left() {
    let in_one_page = Two { takes: [[2, 1], [1, 1]], deaths: 0, evictions: 0, ..lends() };
    for model in [lends(), in_one_page.clone(), Two { along: true, ..lends() }, Two { along: true, ..in_one_page }] {
        model.checker().threads(2).spawn_dfs().join().assert_properties();
    }
}

/// Each rule, switched off, is missed.
#[test]
fn without_one_of_the_rules_something_goes_wrong() {
    for (model, wrong) in [
        (Two { sends_pages: true, ..dies() }, HOMES),
        (Two { skips_redo: true, ..dies() }, HOMES),
        (Two { keeps_early: true, ..lends() }, SEES),
        (Two { along: true, forgets: true, ..lends() }, HOMES),
        (Two { hides_bytes: true, takes: [[1, 0], [1, 0]], ..dies() }, SEES),
    ] {
        assert!(model.checker().threads(2).spawn_bfs().join().discovery(wrong).is_some(), "{wrong}");
    }
}
