//! The promises of every fabric, tried on each of them.
//!
//! A new fabric joins by one line at the end of this file. In `fabrics` it makes a pair of links, and a raw peer.
// FEATURE: RF-F13

mod bodies;
mod death;
pub(crate) mod fabrics;
mod garbage;
mod lost;
mod order;
mod pressure;
mod sleep;
mod store;

use crate::link::{Link, LinkError, Progress, Sink};
use crate::wait::wait;
use fabrics::{Fabric, SEALED, UCX, UCX_SEALED, UCX_SHM, UCX_TCP, UCX_TOLD};
pub(crate) use fabrics::{SHM, TCP};
use hanare_memory::Window;
use hanare_protocol::wire::head::{Head, Kind};
use std::time::{Duration, Instant};
pub(crate) use store::Store;

/// Time that a test waits for what must come. It is long enough for a busy machine, and never reached when all is well.
const BOUND: Duration = Duration::from_secs(30);

fn soon() -> Instant {
    Instant::now() + BOUND
}

/// Bytes that differ from message to message and from place to place.
pub(crate) fn body(seq: u64, len: usize) -> Vec<u8> {
    let cycle: Vec<u8> = (0..251u64).map(|k| (k.wrapping_mul(7) ^ seq.wrapping_mul(31)) as u8).collect();
    let mut bytes = cycle.repeat(len / cycle.len() + 1);
    bytes.truncate(len);
    bytes
}

pub(crate) fn head(seq: u64, body_len: usize) -> Head {
    Head { body_len: body_len as u64, detail: !seq, count: 3, ..Head::new(Kind::Commands, seq) }
}

/// Sends a message; its bytes are kept by the caller until they have left.
pub(crate) fn send(link: &mut dyn Link, seq: u64, bytes: &[u8]) -> Result<(), LinkError> {
    // SAFETY: the tests keep the bytes until the link has sent them, and do not write to them.
    unsafe { link.send(&head(seq, bytes.len()), &[Window::of(bytes)]) }
}

/// Moves both sides in turn until `is_done`; fails after the bound.
pub(crate) fn pump(
    (one, one_sink): (&mut dyn Link, &mut Store),
    (other, other_sink): (&mut dyn Link, &mut Store),
    mut is_done: impl FnMut(&Store, &Store) -> bool,
) {
    let end = soon();
    loop {
        one.progress(one_sink).expect("a live link");
        other.progress(other_sink).expect("a live link");
        if is_done(one_sink, other_sink) && one.unsent_len() == 0 && other.unsent_len() == 0 {
            return;
        }
        assert!(
            Instant::now() < end,
            "{} has {} unsent, {} has {}",
            one.peer(),
            one.unsent_len(),
            other.peer(),
            other.unsent_len()
        );
    }
}

/// Waits for messages until there are `count`.
fn receive(link: &mut dyn Link, sink: &mut Store, count: usize) {
    let end = soon();
    while sink.messages.len() < count {
        wait(link, sink, Some(end)).expect("a message in time");
    }
}

/// Waits until the link has ended, and returns why.
pub(crate) fn end_of(link: &mut dyn Link, sink: &mut dyn Sink) -> LinkError {
    let end = soon();
    loop {
        match wait(link, sink, Some(end)) {
            Ok(Progress { .. }) => {}
            Err(error @ LinkError::Timeout { .. }) => panic!("the link goes on: {error}"),
            Err(error) => return error,
        }
    }
}

/// Declares every test of the suite for each fabric.
macro_rules! conformance {
    ($($fabric:ident = $value:expr;)*) => { $(
        mod $fabric {
            use super::*;
            const FABRIC: Fabric = $value;
            conformance!(@tests
                order::small_messages_arrive_in_order_both_ways
                order::large_messages_cross_each_other
                bodies::bodies_of_every_size_arrive
                bodies::a_body_goes_into_windows_of_any_size
                bodies::a_body_comes_from_many_windows
                bodies::a_body_may_come_in_stages
                pressure::a_peer_that_does_not_read_holds_the_sender_back
                pressure::a_sink_that_lets_nothing_begin_holds_the_sender_back
                pressure::a_sink_without_a_place_yet_is_asked_again
                pressure::a_place_that_is_taken_back_is_asked_for_anew
                pressure::one_call_moves_a_fair_share_only
                death::the_last_messages_come_before_the_end
                death::a_peer_may_die_in_a_head
                death::a_peer_may_die_in_a_body
                death::sending_to_a_dead_peer_ends
                garbage::garbage_ends_the_link
                garbage::lengths_beyond_the_limits_end_the_link
                garbage::what_the_sink_refuses_ends_the_link
                garbage::bytes_may_come_one_by_one
                garbage::cuts_anywhere_change_nothing
                lost::a_body_whose_memory_is_lost_ends_the_link
                lost::a_place_whose_memory_is_lost_ends_the_link
                sleep::a_sleeper_is_woken_by_a_message
                sleep::nobody_sleeps_over_a_message
                sleep::a_sleeper_without_news_is_left_alone
                sleep::a_sleeper_is_woken_by_room
                sleep::a_sleeper_is_woken_by_the_peer_s_death
                sleep::two_sleepers_never_miss_each_other
                sleep::a_deadline_ends_a_wait_but_not_the_link
            );
        }
    )* };
    (@tests $($file:ident::$test:ident)*) => { $(
        #[test]
        fn $test() {
            match FABRIC.lack() {
                Some(reason) => hanare_testkit::unable(reason),
                None => super::$file::$test(&FABRIC),
            }
        }
    )* };
}

conformance! {
    tcp = TCP;
    sealed = SEALED;
    shm = SHM;
    ucx = UCX;
    ucx_shm = UCX_SHM;
    ucx_tcp = UCX_TCP;
    ucx_told = UCX_TOLD;
    ucx_sealed = UCX_SEALED;
}
