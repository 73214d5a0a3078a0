//! Every order of messages between the home of a page and the hosts that map it, by stateright.
//!
//! Each host is what runs. Its page word, changed by a thread of a program and by the rules of its node ([`Host`]). The thread claims, asks
//! the home itself, and puts the answer into the frame. It may be killed at any of that; its node goes on in its name.
//!
//! Host 0 is the home's own: its frame is the page at home. Messages come in any order, each once. Every message is a channel of its own,
//! which is more disorder than two unordered channels for each pair of hosts have. Each host may read, write and evict; the home's data
//! path gets and puts; programs are killed. Hosts die at any point. What one sent before arrives or does not, in part even after its death
//! is known. Whoever becomes owner stores a number that was never stored before.
//!
//! A run is *slow* if pages are taken some time after they were marked, and a thread's filling of a frame takes time. Messages wait for
//! both.
//!
//! Host 0 of an extent with copies is the home alone: it maps nothing. Hosts flush, and store again. Where an owner dies, the bytes at home are
//! those that were stored last.
//!
//! Held in every state:
//!
//! - a host that may store is the only one that has the page, and while a put writes at home nobody else has;
//! - whatever may be loaded, by a host or by a get, is what was stored last;
//! - when no message is under way, nobody waits (so every request is answered, with a page or an error);
//! - versions never go back, at home and at hosts;
//! - where a host has no page its frame is a hole;
//! - the page is lost only when one is dead that was granted writing; nobody is refused while all live.
//!
//! The tests at the end switch rules off, one at a time, and expect a counterexample.

use super::directory::{self, Output};
use super::install_steps::{Act, End, InstallSteps, Ruling};
use super::word::{Fault, Installed, PageWord, State};
use super::*;
use crate::error::Corrupt;
use crate::explored::{self, Explored, Judged, explore, nothing_is_wrong};
use stateright::{Model, Property};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

mod acts;
mod world;

use world::{InFlight, Station, Taking, Thread, World};

const PAGE: Page = Page(0);
const GET: Face = Face(1);
const PUT: Face = Face(2);
const OWN: u16 = 0;
/// Of each host: the node's own, and those of two programs.
const SLOTS: u16 = 3;

/// A run's remaining budget of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Left {
    /// Requests of each host.
    faults: [u8; 5],
    evictions: u8,
    gets: u8,
    puts: u8,
    /// Programs that are killed.
    kills: u8,
    /// Touches of what is here, which count their thread until it has mapped the page.
    maps: u8,
    /// Notices of links that broke, which nodes hear late: their threads are at something else by then.
    take_overs: u8,
    deaths: u8,
    /// Flushes, after which the host stores again.
    flushes: u8,
}

/// A rule that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Nothing,
    /// An invalidation of a page that is being fetched raises no floor.
    Floor,
    /// A writer does not wait for those who drop their copies.
    Acks,
    /// The home serves the next without waiting for the read-end notice.
    Done,
    /// An owner forwards whatever it owns, of whichever version.
    Era,
    /// The home does not vouch for the dead.
    Vouching,
    /// Who was to get the page from a host that died is not asked.
    Asking,
    /// A host does not ask again for what a dead one was to send.
    Hearing,
    /// A repeated request is taken for a new one.
    Seen,
    /// What a thread was granted that died is not sent to its node.
    Again,
    /// An owner that dies is taken for one that had nothing new.
    Loss,
    /// A thread says that a page is here before it puts the bytes into the frame.
    Put,
    /// A thread keeps the claim that a void grant leaves open.
    GiveUp,
    /// A node that goes on for a thread takes its slot, as if it were dead.
    Alive,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Deliver(usize),
    /// A message of a host that died does not arrive.
    Vanish(usize),
    Touch(u16, Access),
    /// A thread's bytes are in the frame.
    Filled(u16),
    /// A thread has mapped the page.
    Leave(u16),
    /// A node takes pages that are marked, and hears what waited.
    Turn(u16),
    Evict(u16),
    Flush(u16),
    /// A node hears that the link of a thread broke.
    TakeOver(u16),
    /// A program is killed.
    Kill(u16),
    /// Its node hears of it.
    Part(u16),
    /// The home sees that its connection has ended.
    Close(u16),
    Get,
    Put,
    Release,
    Die(u16),
    /// The home hears of a death.
    Report(u16),
    /// A host hears of another's death.
    Hear(u16, u16),
}

struct Exploration {
    hosts: u16,
    left: Left,
    off: Off,
    /// Whether taking and filling take time.
    is_slow: bool,
    has_copies: bool,
}

/// How the rules of a world are altered.
#[derive(Clone, Copy)]
struct Mode {
    off: Off,
    is_slow: bool,
}

impl Exploration {
    fn mode(&self) -> Mode {
        Mode { off: self.off, is_slow: self.is_slow }
    }

    /// What a host that lives may do.
    fn actions_of(&self, world: &World, host: u16, steps: &mut Vec<Step>) {
        let station = world.station(host);
        let Some(rules) = &station.rules else { return };
        let left = &world.left;
        match station.thread {
            Thread::Idle => {
                for access in [Access::Read, Access::Write] {
                    let is_here = station.word().may_map(access);
                    let may = if is_here { left.maps > 0 } else { left.faults[usize::from(host)] > 0 };
                    if may && (is_here || matches!(station.state(), State::Absent | State::Shared)) {
                        steps.push(Step::Touch(host, access));
                    }
                }
            }
            Thread::Fills(_) => steps.push(Step::Filled(host)),
            Thread::Maps => steps.push(Step::Leave(host)),
            Thread::Dead { is_detached, is_closed } => {
                steps.extend((!is_detached).then_some(Step::Part(host)));
                steps.extend((!is_closed).then_some(Step::Close(host)));
            }
            Thread::Asks | Thread::Waits | Thread::None => {}
        }
        let speaks = || world.in_flight.iter().any(|(_, flight)| flight.is_of_thread(host, station.slot));
        let is_at_it = match station.thread {
            Thread::Idle => speaks(),
            Thread::Dead { .. } | Thread::None => false,
            _ => true,
        };
        if left.kills > 0 && is_at_it {
            steps.push(Step::Kill(host));
        }
        if left.take_overs > 0 && !matches!(station.thread, Thread::Idle | Thread::Dead { .. } | Thread::None) {
            steps.push(Step::TakeOver(host));
        }
        if rules.may_turn(&station.place) {
            steps.push(Step::Turn(host));
        }
        if left.evictions > 0 && matches!(station.state(), State::Shared | State::Owned) {
            steps.push(Step::Evict(host));
        }
        let is_flushing = || {
            let is_store = |flight: &InFlight| matches!(flight, InFlight::ToHome { message: ToHome::Store { .. }, .. });
            rules.is_taking() || world.in_flight.iter().any(|(_, flight)| is_store(flight))
        };
        if left.flushes > 0 && station.state() == State::Owned && station.word().is_written() && !is_flushing() {
            steps.push(Step::Flush(host));
        }
        if left.deaths > 0 && !(world.has_copies && host == OWN) {
            steps.push(Step::Die(host));
        }
    }
}

impl Judged for World {
    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }
}

impl Explored for Exploration {
    fn tell(world: &World, step: &Step) -> String {
        match step {
            Step::Deliver(at) => format!("deliver {:?}", world.in_flight[*at].1),
            Step::Vanish(at) => format!("vanish {:?}", world.in_flight[*at].1),
            other => format!("{other:?}"),
        }
    }
}

impl Model for Exploration {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.hosts, self.left, self.has_copies)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong.is_some() {
            return;
        }
        for (at, (rank, flight)) in world.in_flight.iter().enumerate() {
            if at > 0 && world.in_flight[at - 1] == (*rank, flight.clone()) {
                continue;
            }
            // A dead thread hears nothing.
            let is_deaf = |to: u16| matches!(world.station(to).thread, Thread::Dead { .. });
            if !matches!(flight, InFlight::ToThread { to, .. } if is_deaf(*to)) {
                steps.push(Step::Deliver(at));
            }
            // The home's own host leaves, and its node goes on.
            if flight.sender().is_some_and(|host| host != OWN && world.is_dead(host)) {
                steps.push(Step::Vanish(at));
            }
        }
        (0..self.hosts).for_each(|host| self.actions_of(world, host, steps));
        if world.left.gets > 0 && !world.get_waits {
            steps.push(Step::Get);
        }
        if world.left.puts > 0 && !world.put_waits && !world.put_holds {
            steps.push(Step::Put);
        }
        if world.put_holds {
            steps.push(Step::Release);
        }
        steps.extend(world.unheard.iter().map(|(who, whom)| Step::Hear(*who, *whom)));
        steps.extend(world.unreported.iter().map(|host| Step::Report(*host)));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        if self.off == Off::Nothing {
            next.act(step, self.mode());
            return Some(next);
        }
        // Without one of its rules a machine may come to where its table does not lead: that counts as found.
        let is_caught = catch_unwind(AssertUnwindSafe(|| next.act(step, self.mode()))).is_err();
        if is_caught {
            next.fail("a machine leaves its table");
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        nothing_is_wrong()
    }
}

#[track_caller]
fn holds(hosts: u16, left: Left, at_least: usize) {
    holds_if(hosts, left, false, at_least);
}

/// As [`holds`], where taking pages and filling frames take time.
#[track_caller]
fn holds_slowly(hosts: u16, left: Left, at_least: usize) {
    holds_if(hosts, left, true, at_least);
}

#[track_caller]
fn holds_if(hosts: u16, left: Left, is_slow: bool, at_least: usize) {
    let what = format!("{hosts} hosts{} with {left:?}", if is_slow { ", slow," } else { "" });
    explored::holds(Exploration { hosts, left, off: Off::Nothing, is_slow, has_copies: false }, &what, at_least);
}

const NONE: Left =
    Left { faults: [0; 5], evictions: 0, gets: 0, puts: 0, kills: 0, maps: 0, take_overs: 0, deaths: 0, flushes: 0 };

#[test]
// FEATURE: EU-F13
fn two_hosts_that_evict_and_faces_that_get_and_put() {
    holds(2, Left { faults: [2, 2, 0, 0, 0], evictions: 1, gets: 1, puts: 1, ..NONE }, 300_000);
}

/// A host that wrote the page twice asks to write it where a thread only reads.
#[test]
fn two_hosts_that_write_in_turn_until_one_reads() {
    holds(2, Left { faults: [1, 3, 0, 0, 0], evictions: 2, ..NONE }, 5_000);
    holds_slowly(2, Left { faults: [0, 4, 0, 0, 0], evictions: 2, kills: 1, maps: 1, ..NONE }, 5_000);
}

#[test]
fn two_hosts_one_of_which_dies_or_repeats_itself() {
    holds(2, Left { faults: [1, 2, 0, 0, 0], evictions: 1, gets: 1, deaths: 1, ..NONE }, 60_000);
    holds(2, Left { faults: [2, 2, 0, 0, 0], evictions: 1, kills: 1, ..NONE }, 300_000);
}

#[test]
// FEATURE: EU-F13
fn three_hosts() {
    holds(3, Left { faults: [1, 2, 1, 0, 0], evictions: 1, ..NONE }, 80_000);
    holds(3, Left { faults: [0, 1, 1, 0, 0], puts: 1, kills: 1, ..NONE }, 20_000);
}

#[test]
fn what_waits_while_pages_are_taken_and_frames_are_filled() {
    holds_slowly(2, Left { faults: [2, 2, 0, 0, 0], evictions: 1, gets: 1, ..NONE }, 50_000);
    holds_slowly(2, Left { faults: [1, 1, 0, 0, 0], evictions: 1, kills: 1, maps: 2, ..NONE }, 40_000);
    holds_slowly(2, Left { faults: [1, 1, 0, 0, 0], kills: 1, evictions: 1, puts: 1, ..NONE }, 50_000);
    holds_slowly(3, Left { faults: [1, 1, 1, 0, 0], evictions: 1, maps: 1, ..NONE }, 50_000);
    holds_slowly(2, Left { faults: [1, 1, 0, 0, 0], maps: 1, deaths: 1, ..NONE }, 2_500);
}

#[test]
fn programs_that_are_killed_at_any_step() {
    holds_slowly(2, Left { faults: [1, 2, 0, 0, 0], kills: 1, evictions: 1, ..NONE }, 60_000);
    holds(2, Left { faults: [1, 1, 0, 0, 0], kills: 2, gets: 1, evictions: 1, ..NONE }, 100_000);
}

#[test]
fn nodes_that_hear_late_of_links_that_broke() {
    holds_slowly(2, Left { faults: [1, 1, 0, 0, 0], maps: 1, kills: 1, take_overs: 1, ..NONE }, 5_000);
    holds_slowly(2, Left { faults: [1, 2, 0, 0, 0], evictions: 1, take_overs: 2, ..NONE }, 5_000);
}

/// [`holds`] for an extent with copies, whose hosts are those after the first.
#[track_caller]
fn holds_with_copies(hosts: u16, left: Left, is_slow: bool, at_least: usize) {
    let what = format!("{hosts} hosts, with copies, slow: {is_slow}, with {left:?}");
    explored::holds(Exploration { hosts, left, off: Off::Nothing, is_slow, has_copies: true }, &what, at_least);
}

#[test]
fn hosts_of_an_extent_with_copies_that_flush_and_die() {
    holds_with_copies(3, Left { faults: [0, 1, 1, 0, 0], flushes: 1, deaths: 1, ..NONE }, false, 100);
    holds_with_copies(3, Left { faults: [0, 2, 1, 0, 0], flushes: 1, evictions: 1, deaths: 1, ..NONE }, false, 100);
    holds_with_copies(3, Left { faults: [0, 1, 1, 0, 0], flushes: 1, gets: 1, puts: 1, deaths: 1, ..NONE }, false, 100);
    holds_with_copies(3, Left { faults: [0, 1, 1, 0, 0], flushes: 1, maps: 1, kills: 1, ..NONE }, true, 100);
    holds_with_copies(4, Left { faults: [0, 1, 1, 1, 0], flushes: 1, deaths: 1, ..NONE }, false, 100);
}

#[test]
fn three_hosts_one_of_which_dies() {
    holds(3, Left { faults: [1, 1, 1, 0, 0], evictions: 1, deaths: 1, ..NONE }, 500_000);
}

/// Minutes each: `cargo test --release -p hanare-protocol --lib page::explore::long -- --ignored --nocapture`.
mod long {
    use super::*;

    #[test]
    #[ignore = "takes minutes; the command is above it"]
    fn two_hosts_and_everything() {
        holds(2, Left { faults: [2, 2, 0, 0, 0], evictions: 1, gets: 1, puts: 1, kills: 1, deaths: 1, ..NONE }, 3_000_000);
    }

    #[test]
    #[ignore = "takes minutes; the command is above it"]
    fn three_hosts_one_of_which_dies_between_two_writes() {
        holds(3, Left { faults: [1, 2, 1, 0, 0], deaths: 1, ..NONE }, 300_000);
    }

    #[test]
    #[ignore = "takes minutes; the command is above it"]
    fn three_hosts_two_of_which_die() {
        holds(3, Left { faults: [1, 1, 1, 0, 0], evictions: 1, gets: 1, deaths: 2, ..NONE }, 3_000_000);
    }

    #[test]
    #[ignore = "takes minutes; the command is above it"]
    fn three_hosts_and_a_put_one_of_which_dies() {
        holds(3, Left { faults: [1, 2, 1, 0, 0], puts: 1, deaths: 1, ..NONE }, 3_000_000);
    }

    #[test]
    #[ignore = "takes minutes; the command is above it"]
    fn three_hosts_and_a_put_where_programs_are_killed() {
        holds(3, Left { faults: [1, 1, 1, 0, 0], puts: 1, kills: 1, ..NONE }, 800_000);
        holds_slowly(3, Left { faults: [1, 1, 1, 0, 0], evictions: 1, kills: 1, ..NONE }, 100_000);
    }

    #[test]
    #[ignore = "takes minutes; the command is above it"]
    fn three_hosts_that_evict() {
        holds(3, Left { faults: [2, 2, 1, 0, 0], evictions: 1, ..NONE }, 100_000);
        holds(3, Left { faults: [1, 2, 2, 0, 0], evictions: 2, puts: 1, ..NONE }, 300_000);
    }
}

/// A rule is missed where it is needed: some order of messages goes wrong without it, and in that way.
#[track_caller]
fn is_needed(off: Off, hosts: u16, left: Left, wrong: &str) {
    let (_, kept) = explore(Exploration { hosts, left, off: Off::Nothing, is_slow: false, has_copies: false });
    assert!(kept.is_none(), "with all rules: {}", kept.unwrap_or_default());
    explored::is_needed(Exploration { hosts, left, off, is_slow: false, has_copies: false }, off, wrong);
}

#[test]
fn without_a_floor_an_overtaken_grant_is_read() {
    is_needed(Off::Floor, 2, Left { faults: [1, 1, 0, 0, 0], ..NONE }, "one host writes while another has the page");
}

#[test]
fn without_acknowledgements_a_writer_meets_readers() {
    is_needed(Off::Acks, 2, Left { faults: [1, 1, 0, 0, 0], ..NONE }, "one host writes while another has the page");
}

#[test]
fn without_the_read_end_notice_a_forward_overtakes_the_grant() {
    is_needed(Off::Done, 2, Left { faults: [1, 1, 0, 0, 0], ..NONE }, "somebody waits for nothing");
}

#[test]
fn without_eras_an_old_forward_takes_a_page_from_its_next_owner() {
    is_needed(Off::Era, 3, Left { faults: [0, 2, 1, 0, 0], evictions: 1, ..NONE }, "");
}

#[test]
fn without_vouching_a_writer_waits_for_the_dead() {
    is_needed(Off::Vouching, 3, Left { faults: [0, 1, 1, 0, 0], deaths: 1, ..NONE }, "somebody waits for nothing");
}

#[test]
fn without_asking_a_page_hangs_between_two_hosts() {
    is_needed(Off::Asking, 3, Left { faults: [0, 1, 1, 0, 0], deaths: 1, ..NONE }, "somebody waits for nothing");
}

#[test]
fn without_hearing_of_deaths_a_reader_waits_for_the_dead() {
    is_needed(Off::Hearing, 3, Left { faults: [0, 1, 1, 0, 0], deaths: 1, ..NONE }, "somebody waits for nothing");
}

#[test]
fn without_numbers_a_repeated_request_is_granted_twice() {
    is_needed(Off::Seen, 2, Left { faults: [0, 1, 0, 0, 0], evictions: 1, kills: 1, ..NONE }, "somebody waits for nothing");
}

#[test]
fn without_another_grant_a_dead_thread_s_page_is_owned_by_nobody() {
    is_needed(Off::Again, 2, Left { faults: [0, 1, 0, 0, 0], kills: 1, ..NONE }, "somebody waits for nothing");
}

#[test]
fn without_loss_older_bytes_would_be_read() {
    let wrong = "a host reads what is not the last value";
    is_needed(Off::Loss, 2, Left { faults: [1, 1, 0, 0, 0], deaths: 1, ..NONE }, wrong);
}

#[test]
fn without_bytes_in_the_frame_a_page_is_here_that_is_not() {
    is_needed(Off::Put, 2, Left { faults: [0, 1, 0, 0, 0], ..NONE }, "");
}

#[test]
fn without_giving_up_an_overtaken_claim_nobody_gets_the_page() {
    is_needed(Off::GiveUp, 2, Left { faults: [1, 1, 0, 0, 0], ..NONE }, "");
}

#[test]
fn without_its_slot_a_thread_maps_what_is_taken() {
    is_needed(Off::Alive, 2, Left { faults: [1, 1, 0, 0, 0], maps: 1, take_overs: 1, ..NONE }, "");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    /// Long runs of five hosts, of which every step is chosen at random.
    #[test]
    fn five_hosts_at_random(choices in proptest::collection::vec(proptest::prelude::any::<u16>(), 600), deaths in 0..3u8) {
        let left = Left { faults: [20; 5], evictions: 15, gets: 10, puts: 10, kills: 10, maps: 10, take_overs: 10, deaths, flushes: 0 };
        let exploration = Exploration { hosts: 5, left, off: Off::Nothing, is_slow: true, has_copies: false };
        let mut world = World::new(5, left, false);
        for choice in choices {
            let mut steps = Vec::new();
            exploration.actions(&world, &mut steps);
            if steps.is_empty() {
                break;
            }
            let mut step = steps.swap_remove(usize::from(choice) % steps.len());
            // A death is possible at each of many steps. Most choices of one are not taken, so that some come late.
            if matches!(step, Step::Die(_)) && choice % 8 != 0 && !steps.is_empty() {
                step = steps.swap_remove(usize::from(choice / 8) % steps.len());
            }
            world.act(step, exploration.mode());
            proptest::prop_assert_eq!(world.wrong, None, "{:?}", world);
        }
    }
}
