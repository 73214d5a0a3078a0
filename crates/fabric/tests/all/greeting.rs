//! Two sides meet over TCP: versions, keys, strangers and silence.

use hanare_fabric::tcp::{Caller, Greeted, Keys, Listener, connect};
use hanare_fabric::{Link, Refusal, Sink, wait};
use hanare_memory::Window;
use hanare_protocol::id::User;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, NONCE_LEN, Role, Sealing};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const KEY: [u8; 32] = [7; 32];

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn keys(key: [u8; 32], sealing: Sealing) -> Keys {
    Keys::of(&key, sealing)
}

/// A node of that pool that greets one connector.
fn node(key: [u8; 32], deadline: Instant) -> (String, JoinHandle<Result<Greeted>>) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    let greeter = thread::spawn(move || {
        let incoming = loop {
            match listener.accept().unwrap() {
                Some(incoming) => break incoming,
                None => thread::yield_now(),
            }
        };
        incoming.greet(&keys(key, Sealing::Auto), &|_| Ok(()), deadline)
    });
    (address, greeter)
}

fn join(address: &str, key: [u8; 32]) -> Result<Greeted> {
    join_as(keys(key, Sealing::Auto).caller(Role::Data, 22), address, key)
}

fn join_as(caller: Caller, address: &str, key: [u8; 32]) -> Result<Greeted> {
    connect(address, caller, &|hellos| Ok(keys(key, Sealing::Auto).secret(hellos).unwrap()), soon())
}

struct Heads(Vec<Head>);

// SAFETY: it gives no windows.
unsafe impl Sink for Heads {
    fn place(&mut self, _: &Head, _: u64) -> Result<Window, Refusal> {
        Err(Refusal("no bodies here".into()))
    }
    fn message(&mut self, head: &Head) {
        self.0.push(*head);
    }
}

#[test]
fn two_sides_with_one_key_meet_and_talk() {
    for client in [0, 7] {
        let (address, greeter) = node(KEY, soon());
        let user = User { uid: 3, gid: 4 };
        let caller = Caller { role: Role::Data, from: 22, client, user, sealing: Sealing::Auto, versions: Versions::BUILD };
        let mut here = join_as(caller, &address, KEY).unwrap();
        let mut there = greeter.join().unwrap().unwrap();
        assert_eq!((there.hello.from, there.hello.role, there.hello.client), (22, Role::Data, client));
        let asks_for = if client == 0 { User { uid: 0, gid: 0 } } else { user };
        assert_eq!(there.hello.asks_for(), asks_for, "a node asks for nobody in particular");
        assert_eq!(here.link.peer(), address);
        // SAFETY: there are no windows.
        unsafe { here.link.send(&Head::new(Kind::Ping, 5), &[]) }.unwrap();
        let mut sink = Heads(Vec::new());
        wait(&mut there.link, &mut sink, Some(soon())).unwrap();
        assert_eq!(sink.0, [Head::new(Kind::Ping, 5)]);
    }
}

#[test]
fn without_the_key_nobody_enters_and_is_told_why() {
    let (address, greeter) = node(KEY, soon());
    assert_eq!(join(&address, [8; 32]).map(drop), Err(Error::KeyRefused { peer: address }));
    assert!(matches!(greeter.join().unwrap(), Err(Error::KeyRefused { .. })));

    let (address, greeter) = node(KEY, soon());
    let outcome = connect(&address, keys(KEY, Sealing::Auto).caller(Role::Control, 0), &|_| Ok([0; 32]), soon());
    assert_eq!(outcome.map(drop), Err(Error::KeyRefused { peer: address }));
    assert!(matches!(greeter.join().unwrap(), Err(Error::KeyRefused { .. })));
}

#[test]
fn an_acceptor_without_the_key_is_refused_by_who_has_it() {
    let (address, greeter) = node([8; 32], soon());
    // A liar that tells the connector that all is well.
    assert_eq!(join(&address, KEY).map(drop), Err(Error::KeyRefused { peer: address }));
    assert!(greeter.join().unwrap().is_err());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let liar = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut theirs = [0; HELLO_LEN];
        stream.read_exact(&mut theirs).unwrap();
        stream.write_all(&theirs).unwrap();
        stream.read_exact(&mut [0; 48]).unwrap();
        stream.write_all(&[48, 0]).unwrap();
        stream.write_all(&[3; 48]).unwrap();
    });
    assert_eq!(join(&address, KEY).map(drop), Err(Error::KeyRefused { peer: address }));
    liar.join().unwrap();
}

#[test]
fn what_a_node_refuses_with_is_told_to_who_has_the_key() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    let away = Error::NoCoordinator { reason: "away".into() };
    let why = away.clone();
    let greeter = thread::spawn(move || {
        let incoming = loop {
            if let Some(incoming) = listener.accept().unwrap() {
                break incoming;
            }
        };
        incoming.greet(&keys(KEY, Sealing::Auto), &|_| Err(why.clone()), soon()).map(drop)
    });
    assert_eq!(join(&address, KEY).map(drop), Err(away.clone()));
    assert_eq!(greeter.join().unwrap(), Err(away));
}

/// Both sides of a connection, through somebody who changes byte `at` of what one of them says.
fn through(at: usize, is_answer: bool, deadline: Instant) -> (Result<Greeted>, Result<Greeted>) {
    let (to, greeter) = node(KEY, deadline);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let one = listener.accept().unwrap().0;
        let other = TcpStream::connect(to).unwrap();
        let pass = |mut from: TcpStream, mut into: TcpStream, mut left: usize| {
            let mut bytes = [0; 1024];
            while let Ok(len @ 1..) = from.read(&mut bytes) {
                if left < len {
                    bytes[left] ^= 1;
                }
                left = left.checked_sub(len).unwrap_or(usize::MAX);
                let _ = into.write_all(&bytes[..len]);
            }
            let _ = into.shutdown(std::net::Shutdown::Both);
        };
        let (to_one, to_other) = (one.try_clone().unwrap(), other.try_clone().unwrap());
        let (there, back) = if is_answer { (usize::MAX, at) } else { (at, usize::MAX) };
        thread::spawn(move || pass(one, to_other, there));
        pass(other, to_one, back);
    });
    let caller = keys(KEY, Sealing::Auto).caller(Role::Data, 22);
    let here = connect(&address, caller, &|hellos| Ok(keys(KEY, Sealing::Auto).secret(hellos).unwrap()), deadline);
    (here, greeter.join().unwrap())
}

#[test]
fn who_stands_between_reads_nothing_and_changes_nothing_of_the_greeting() {
    // A relay that changes nothing sees sealed bytes, though all is on this host.
    let (here, there) = through(usize::MAX - 1, false, soon());
    assert!(here.unwrap().link.into_channel().is_sealed() && there.unwrap().link.into_channel().is_sealed());
    // A side that waits for bytes which do not come ends with the deadline.
    let briefly = || Instant::now() + Duration::from_millis(300);
    // Every byte of either hello (the magic and the version have errors of their own), and some of the proofs.
    for at in (8..HELLO_LEN + 48).step_by(5).chain(HELLO_LEN - 8..HELLO_LEN + 2) {
        let (here, there) = through(at, false, briefly());
        assert!(here.is_err() && there.is_err(), "byte {at} of the connector's");
        let (here, _) = through(at, true, briefly());
        assert!(here.is_err(), "byte {at} of the acceptor's");
    }
}

#[test]
fn a_connection_is_plain_where_both_say_so_and_nowhere_else() {
    use Sealing::{Always, Auto, Plain};
    for (ours, theirs, is_sealed) in [
        (Auto, Auto, false),
        (Plain, Plain, false),
        (Always, Always, true),
        (Auto, Always, true),
        (Plain, Auto, true),
        (Plain, Always, true),
    ] {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.address().to_string();
        let greeter = thread::spawn(move || {
            let incoming = loop {
                if let Some(incoming) = listener.accept().unwrap() {
                    break incoming;
                }
            };
            incoming.greet(&keys(KEY, theirs), &|_| Ok(()), soon()).unwrap()
        });
        let ours = keys(KEY, ours);
        let here = connect(&address, ours.caller(Role::Data, 0), &|hellos| Ok(ours.secret(hellos).unwrap()), soon()).unwrap();
        let there = greeter.join().unwrap();
        assert_eq!((here.link.into_channel().is_sealed(), there.link.into_channel().is_sealed()), (is_sealed, is_sealed));
    }
}

#[test]
fn another_version_is_refused_in_one_clear_line_on_both_sides() {
    let versions = Versions { oldest: 98, newest: 99 };
    let theirs = Hello { versions, ..Hello::new(Role::Data, 1, [0; NONCE_LEN]) }.encode();

    // A newer connector, an older node.
    let (address, greeter) = node(KEY, soon());
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(&theirs).unwrap();
    let mut answer = [0; HELLO_LEN];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(Hello::decode(&answer).unwrap().versions, Versions::BUILD, "the newer one can name our version");
    let refusal = greeter.join().unwrap().map(drop).unwrap_err();
    assert!(matches!(refusal, Error::VersionMismatch { ours: Versions::BUILD, theirs, .. } if theirs == versions));
    assert!(refusal.to_string().starts_with("wire version 98 to 99 at 127.0.0.1:"), "{refusal}");

    // An older connector, a newer node.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let newer = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; HELLO_LEN]).unwrap();
        stream.write_all(&theirs).unwrap();
    });
    assert_eq!(
        join(&address, KEY).map(drop),
        Err(Error::VersionMismatch { peer: address, ours: Versions::BUILD, theirs: versions })
    );
    newer.join().unwrap();
}

#[test]
fn who_is_no_node_is_garbage() {
    let (address, greeter) = node(KEY, soon());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: somebody else's program\r\n\r\n").unwrap();
    assert!(matches!(greeter.join().unwrap().map(drop), Err(Error::Garbage { .. })));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stranger = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; HELLO_LEN]).unwrap();
        stream.write_all(&[b'x'; HELLO_LEN]).unwrap();
    });
    assert!(matches!(join(&address, KEY).map(drop), Err(Error::Garbage { .. })));
    stranger.join().unwrap();
}

#[test]
fn silence_ends_at_the_deadline() {
    let (address, greeter) = node(KEY, Instant::now() + Duration::from_millis(30));
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(&[0; 3]).unwrap();
    assert!(matches!(greeter.join().unwrap().map(drop), Err(Error::Timeout { .. })));

    // A listener that never accepts: the system connects, nobody says hello.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let deadline = Instant::now() + Duration::from_millis(30);
    let outcome = connect(&address, keys(KEY, Sealing::Auto).caller(Role::Data, 0), &|_| Ok([0; 32]), deadline);
    assert!(matches!(outcome.map(drop), Err(Error::Timeout { .. })));
}

#[test]
fn nobody_there_is_no_node() {
    let address = hanare_testkit::free_address().to_string();
    assert!(matches!(join(&address, KEY).map(drop), Err(Error::NoNode { .. })));

    let (address, greeter) = node(KEY, soon());
    drop(TcpStream::connect(address).unwrap());
    assert!(matches!(greeter.join().unwrap().map(drop), Err(Error::NoNode { .. })));
}

#[test]
fn what_stops_the_proof_is_passed_on() {
    let (address, greeter) = node(KEY, soon());
    let away = Error::NoCoordinator { reason: "away".into() };
    let outcome = connect(&address, keys(KEY, Sealing::Auto).caller(Role::Control, 0), &|_| Err(away.clone()), soon());
    assert_eq!(outcome.map(drop), Err(away.clone()));
    assert!(matches!(greeter.join().unwrap().map(drop), Err(Error::NoNode { .. })));
}
