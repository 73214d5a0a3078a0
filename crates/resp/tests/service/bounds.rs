//! Clients that mean no good, or have gone, hold nobody up, and take a bounded part of the service.

use super::client::{TestService, command};
use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Waits for what other threads do.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_client_that_takes_no_replies_is_not_read_until_it_does() {
    let service = TestService::start(10);
    let (mut client, mut other) = (service.client(), service.client());
    let value = vec![b'v'; 100_000];
    client.ask(&command(&[b"SET", b"a", &value]), b"+OK\r\n");
    // It sends until nobody reads it any more: the service has some replies and some commands, not all.
    let all = command(&[b"GET", b"a"]).repeat(200_000);
    client.0.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_millis(500) {
        match client.0.write(&all[sent..]) {
            Ok(more) => (sent, since) = (sent + more, Instant::now()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert!(sent < all.len(), "the service takes any number of commands");
        other.ask(b"PING\r\n", b"+PONG\r\n");
    }
    client.0.set_nonblocking(false).unwrap();
    // A command that was sent as a whole has its reply.
    let reply = [b"$100000\r\n", &value[..], b"\r\n"].concat();
    for _ in 0..sent / command(&[b"GET", b"a"]).len() {
        client.expect(&reply);
    }
}

#[test]
fn clients_that_send_all_the_time_keep_no_other_out() {
    let service = TestService::start(10);
    let mut other = service.client();
    let is_over = Arc::new(AtomicBool::new(false));
    // Many short commands take longer to carry out than to send, so that these clients always have more to do.
    let sent = Arc::new(b"PING\r\n".repeat(50_000));
    let work = |_| {
        let (mut reads, is_over, sent) = (service.client().0, is_over.clone(), sent.clone());
        let mut writes = reads.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                writes.write_all(&sent).unwrap();
            }
            writes.shutdown(Shutdown::Write).unwrap();
        });
        (sender, std::thread::spawn(move || std::io::copy(&mut reads, &mut std::io::sink()).unwrap()))
    };
    let all: Vec<_> = (0..4).map(work).collect();
    (0..20).for_each(|_| other.ask(b"PING\r\n", b"+PONG\r\n"));
    is_over.store(true, Ordering::Relaxed);
    for (sender, reader) in all {
        sender.join().unwrap();
        assert!(reader.join().unwrap() > 0);
    }
}

#[test]
fn clients_that_have_gone_give_their_places_free() {
    let service = TestService::start(4);
    let mut stays = service.client();
    for round in 0..50 {
        let (mut first, mut second, mut third) = (service.client(), service.client(), service.client());
        first.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$60000000\r\nxx");
        second.send(&b"GET a\r\n".repeat(round));
        third.send(b"*1\r\n$4\r\nPI");
        drop((first, second, third));
        wait_until("they are counted no more", || stays.info("connected_clients") == 1);
    }
    let more: Vec<_> = (0..3).map(|_| service.client()).collect();
    let mut refused = service.client();
    refused.expect(b"-ERR max number of clients reached\r\n");
    assert!(refused.is_ended() && stays.info("connected_clients") == 4);
    drop(more);
}

#[test]
fn a_request_that_no_client_sends_ends_its_connection_alone() {
    let service = TestService::start(10);
    let mut other = service.client();
    for (sent, wanted) in [
        (&b"*9999999999\r\n"[..], "invalid multibulk length"),
        (b"*65537\r\n", "invalid multibulk length"),
        (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
        (b"*1\r\n!\r\n", "expected '$', got '!'"),
        (b"*1\r\n$4\r\nPINGPONG", "a word is not as long as it says"),
        (b"SET a 'b\r\n", "unbalanced quotes in request"),
        (&[0; 65_536], "too big inline request"),
    ] {
        let mut client = service.client();
        client.send(&[b"PING\r\n", sent].concat());
        client.expect(b"+PONG\r\n");
        assert_eq!(client.line(), format!("-ERR Protocol error: {wanted}\r\n"));
        assert!(client.is_ended());
        other.ask(b"PING\r\n", b"+PONG\r\n");
    }
}
