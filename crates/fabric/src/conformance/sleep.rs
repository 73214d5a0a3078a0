//! Dozing and waking: nobody sleeps over news, nobody is woken without.

use super::order::seeded;
use super::*;
use rand::RngExt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::thread;

/// Whether the link's event comes within `bound`.
fn is_signalled(link: &dyn Link, bound: Duration) -> bool {
    let flags = if link.needs_write_event() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let timeout = Timespec { tv_sec: bound.as_secs() as i64, tv_nsec: bound.subsec_nanos().into() };
    poll(&mut [PollFd::from_borrowed_fd(link.event(), flags)], Some(&timeout)).unwrap() > 0
}

/// Dozes as a waiter does: looks, announces, and looks again where it may not sleep.
fn doze(link: &mut dyn Link, store: &mut Store) {
    let end = soon();
    while !link.doze() {
        link.progress(store).unwrap();
        assert!(Instant::now() < end, "there is always news");
    }
}

/// Awake after a wake: the messages that it was about.
fn messages_after_wake(link: &mut dyn Link, store: &mut Store, count: usize) {
    assert!(is_signalled(link, BOUND), "nobody woke the sleeper");
    receive(link, store, count);
}

pub(super) fn a_sleeper_is_woken_by_a_message(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let mut store = Store::new();
    for round in 0..10 {
        other.progress(&mut store).unwrap();
        doze(&mut *other, &mut store);
        let bytes = body(round, 100);
        send(&mut *one, round, &bytes).unwrap();
        let mut sender_store = Store::new();
        let end = soon();
        while one.unsent_len() > 0 {
            wait(&mut *one, &mut sender_store, Some(end)).unwrap();
        }
        messages_after_wake(&mut *other, &mut store, round as usize + 1);
    }
    assert_eq!(store.seqs(), (0..10).collect::<Vec<_>>());
}

pub(super) fn nobody_sleeps_over_a_message(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let mut store = Store::new();
    for round in 0..10 {
        send(&mut *one, round, &[]).unwrap();
        let end = soon();
        while one.unsent_len() > 0 {
            wait(&mut *one, &mut Store::new(), Some(end)).unwrap();
        }
        assert!(!other.doze() || is_signalled(&*other, BOUND), "it would sleep over message {round}");
        receive(&mut *other, &mut store, round as usize + 1);
    }
}

pub(super) fn a_sleeper_without_news_is_left_alone(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let (mut one_store, mut other_store) = (Store::new(), Store::new());
    for round in 0..5 {
        send(&mut *one, round, &[]).unwrap();
        pump((&mut *one, &mut one_store), (&mut *other, &mut other_store), |_, other| other.messages.len() == round as usize + 1);
        other.progress(&mut other_store).unwrap();
        for (link, store) in [(&mut one, &mut one_store), (&mut other, &mut other_store)] {
            link.progress(store).unwrap();
            doze(&mut **link, store);
            assert!(!is_signalled(&**link, Duration::ZERO), "a parked thread would burn its CPU");
        }
    }
}

pub(super) fn a_sleeper_is_woken_by_room(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let (mut one_store, mut other_store) = (Store::new(), Store::new());
    let bytes = body(0, 32 << 20);
    send(&mut *one, 0, &bytes).unwrap();
    while !one.progress(&mut one_store).unwrap().is_idle() {}
    assert!(one.unsent_len() > 0);
    doze(&mut *one, &mut one_store);
    assert!(!is_signalled(&*one, Duration::ZERO), "there is no room yet");
    let reader = thread::spawn(move || {
        receive(&mut *other, &mut other_store, 1);
        assert!(other_store.messages[0].1 == body(0, 32 << 20));
    });
    let end = soon();
    assert!(is_signalled(&*one, BOUND), "nobody told of the room");
    while one.unsent_len() > 0 {
        wait(&mut *one, &mut one_store, Some(end)).unwrap();
    }
    reader.join().unwrap();
}

pub(super) fn a_sleeper_is_woken_by_the_peer_s_death(fabric: &Fabric) {
    let (mut link, raw) = fabric.raw();
    let mut store = Store::new();
    link.progress(&mut store).unwrap();
    doze(&mut *link, &mut store);
    drop(raw);
    assert!(is_signalled(&*link, BOUND), "nobody told of the death");
    assert!(matches!(end_of(&mut *link, &mut store), LinkError::Closed { .. }));
}

pub(super) fn two_sleepers_never_miss_each_other(fabric: &Fabric) {
    const ROUNDS: u64 = 300;
    let (mut one, mut other) = fabric.pair();
    let echo = thread::spawn(move || {
        let mut store = Store::new();
        for round in 0..ROUNDS {
            receive(&mut *other, &mut store, round as usize + 1);
            send(&mut *other, round, &[]).unwrap();
        }
        // Whatever the link still holds leaves before it goes.
        let end = soon();
        while other.unsent_len() > 0 {
            wait(&mut *other, &mut store, Some(end)).unwrap();
        }
    });
    let mut prng = seeded("sleepers");
    let mut store = Store::new();
    for round in 0..ROUNDS {
        // Sometimes before, sometimes while, sometimes after the other side parks.
        let pause = Instant::now() + Duration::from_micros(prng.random_range(0..120));
        while Instant::now() < pause {
            std::hint::spin_loop();
        }
        send(&mut *one, round, &[]).unwrap();
        receive(&mut *one, &mut store, round as usize + 1);
    }
    echo.join().unwrap();
    assert_eq!(store.seqs(), (0..ROUNDS).collect::<Vec<_>>());
}

pub(super) fn a_deadline_ends_a_wait_but_not_the_link(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let mut store = Store::new();
    let late = wait(&mut *other, &mut store, Some(Instant::now() + Duration::from_millis(3)));
    assert!(matches!(late, Err(LinkError::Timeout { .. })), "{late:?}");
    send(&mut *one, 5, &[]).unwrap();
    let end = soon();
    while one.unsent_len() > 0 {
        wait(&mut *one, &mut Store::new(), Some(end)).unwrap();
    }
    receive(&mut *other, &mut store, 1);
    assert_eq!(store.seqs(), [5]);
}
