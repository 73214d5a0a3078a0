//! Request and reply: a TCP link beside a bare non-blocking socket that waits in the same way, a link over shared
//! memory, and one over UCX where there is one (`HANARE_UCX`, `UCX_TLS` choose the library and its transports).
//!
//! `cargo run --release --example echo [ROUNDS]` prints medians and the best of several runs in turn. The first table is time with a thread
//! on either side. The second is CPU time with both sides on one thread, which other programs on the machine hardly touch: it shows what
//! the link adds to the system calls.

use hanare_fabric::agree::{self, Choice};
use hanare_fabric::shm::ShmLink;
use hanare_fabric::tcp::{Channel, Greeted, Keys, Listener, Socket, TcpLink, connect};
use hanare_fabric::ucx;
use hanare_fabric::{Link, Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::greeting::{Role, Sealing};
use hanare_protocol::wire::head::{Head, Kind};
use rustix::time::{ClockId, clock_gettime};
use std::hint::spin_loop;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const RUNS: usize = 7;

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(20_000, |text| text.parse().expect("a number of rounds"));
    match ucx::available() {
        Ok(info) => println!("UCX {} ({}): {}", info.version, info.path.display(), info.transports.join(" ")),
        Err(reason) => println!("no UCX, so its columns are empty: {reason}"),
    }
    println!("Round trips between two threads, time");
    table(rounds, [bare_round_trip, tcp_round_trip, shm_round_trip, ucx_round_trip]);
    println!("Round trips on one thread, CPU time");
    table(rounds, [bare_cost, tcp_cost, shm_cost, ucx_cost]);
}

/// Runs a bare socket, and links over TCP, shared memory and UCX in turn, for each size.
fn table(rounds: usize, sides: [fn(usize, usize) -> f64; 4]) {
    let [a, b, c, d] = ["bare tcp, us", "link tcp, us", "link shm, us", "link ucx, us"];
    println!("{:>8} {a:>14} {b:>14} {c:>14} {d:>14} {:>9} {:>9} {:>9}", "bytes", "tcp/bare", "shm/bare", "ucx/bare");
    for len in [8, 4 << 10, 64 << 10, 1 << 20] {
        let rounds = (rounds * 64 / (64 + len / 1024)).max(50);
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..RUNS {
            for (times, side) in times.iter_mut().zip(sides) {
                times.push(side(len, rounds));
            }
        }
        for (name, [bare, tcp, shm, ucx]) in
            [("median", times.each_ref().map(|times| median(times))), ("best", times.each_ref().map(|times| best(times)))]
        {
            let [of_tcp, of_shm, of_ucx] = [tcp, shm, ucx].map(|time| time / bare);
            println!(
                "{len:>8} {bare:>14.2} {tcp:>14.2} {shm:>14.2} {ucx:>14.2} {of_tcp:>9.2} {of_shm:>9.2} {of_ucx:>9.2}  {name} of {RUNS}"
            );
        }
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_owned();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn best(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::NAN, f64::min)
}

fn micros(time: Duration, rounds: usize) -> f64 {
    time.as_secs_f64() * 1e6 / rounds as f64
}

/// Both sides wait alike: pauses at first, then give the CPU away between looks.
struct Pause(u32);

impl Pause {
    fn once(&mut self) {
        self.0 += 1;
        if self.0 < 20 { spin_loop() } else { thread::yield_now() }
    }
}

fn bare_round_trip(len: usize, rounds: usize) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = thread::spawn(move || {
        let mut stream = prepared(listener.accept().expect("a connection").0);
        let mut bytes = vec![0; len];
        for _ in 0..rounds {
            read_all(&mut stream, &mut bytes);
            write_all(&mut stream, &bytes);
        }
    });
    let mut stream = prepared(TcpStream::connect(address).expect("a connection"));
    let (request, mut reply) = (vec![7; len], vec![0; len]);
    let begun = Instant::now();
    for _ in 0..rounds {
        write_all(&mut stream, &request);
        read_all(&mut stream, &mut reply);
    }
    let time = begun.elapsed();
    server.join().expect("the echo ended well");
    assert_eq!(request, reply);
    micros(time, rounds)
}

fn prepared(stream: TcpStream) -> TcpStream {
    stream.set_nonblocking(true).expect("not blocking");
    stream.set_nodelay(true).expect("no delay");
    stream
}

fn read_all(stream: &mut TcpStream, mut into: &mut [u8]) {
    let mut pause = Pause(0);
    while !into.is_empty() {
        match stream.read(into) {
            Ok(len) => into = &mut into[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause.once(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) {
    let mut pause = Pause(0);
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause.once(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Puts every body in the same buffer.
struct Echo {
    window: Window,
    seen: Option<Head>,
}

// SAFETY: the window's buffer outlives the link in both users below.
unsafe impl Sink for Echo {
    fn place(&mut self, _: &Head, at: u64) -> Result<Window, Refusal> {
        let at = at as usize;
        Ok(self.window.slice(at, self.window.len() - at))
    }
    fn message(&mut self, head: &Head) {
        self.seen = Some(*head);
    }
}

/// Two sides that have greeted each other, the acceptor's in a thread that goes on with it.
fn greeted<T: Send + 'static>(accepted: impl FnOnce(Greeted) -> T + Send + 'static) -> (Greeted, thread::JoinHandle<T>) {
    let listener = Listener::bind("127.0.0.1:0").expect("a port");
    let address = listener.address().to_string();
    let server = thread::spawn(move || {
        let incoming = loop {
            if let Some(incoming) = listener.accept().expect("a connection") {
                break incoming;
            }
            thread::yield_now();
        };
        accepted(incoming.greet(&keys(), &|_| Ok(()), soon()).expect("a greeting"))
    });
    (
        connect(&address, keys().caller(Role::Data, 2), &|hellos| Ok(keys().secret(hellos).unwrap()), soon())
            .expect("a connection"),
        server,
    )
}

fn tcp_round_trip(len: usize, rounds: usize) -> f64 {
    let (mut greeted, server) = greeted(move |mut greeted| answer(&mut greeted.link, len, rounds));
    let time = ask(&mut greeted.link, len, rounds);
    server.join().expect("the echo ended well");
    micros(time, rounds)
}

/// Not a number where there is no UCX.
fn ucx_round_trip(len: usize, rounds: usize) -> f64 {
    if ucx::available().is_err() {
        return f64::NAN;
    }
    let (greeted, server) = greeted(move |greeted| answer(&mut upgraded(greeted), len, rounds));
    let time = ask(&mut upgraded(greeted), len, rounds);
    server.join().expect("the echo ended well");
    micros(time, rounds)
}

fn upgraded(greeted: Greeted) -> Box<dyn Link> {
    agree::agree(greeted, Choice::Named("ucx"), soon()).expect("both sides have UCX").link
}

fn shm_round_trip(len: usize, rounds: usize) -> f64 {
    let (mut link, parts) = ShmLink::create("the echo").expect("a link");
    let server = thread::spawn(move || answer(&mut ShmLink::open(parts, "the asker").expect("a link"), len, rounds));
    let time = ask(&mut link, len, rounds);
    server.join().expect("the echo ended well");
    micros(time, rounds)
}

/// Sends every message back.
fn answer(link: &mut impl Link, len: usize, rounds: usize) {
    let mut bytes = vec![0; len];
    // SAFETY: the buffer outlives the link's use of it and is not touched meanwhile.
    let window = unsafe { Window::of_mut(&mut bytes) };
    let mut sink = Echo { window, seen: None };
    for _ in 0..rounds {
        let head = next(link, &mut sink);
        send(link, &mut sink, &head, window);
    }
}

fn ask(link: &mut impl Link, len: usize, rounds: usize) -> Duration {
    let (mut request, mut reply) = (vec![7; len], vec![0; len]);
    // SAFETY: as above.
    let (from, to) = unsafe { (Window::of_mut(&mut request), Window::of_mut(&mut reply)) };
    let mut sink = Echo { window: to, seen: None };
    let begun = Instant::now();
    for seq in 0..rounds as u64 {
        let head = Head { body_len: len as u64, ..Head::new(Kind::Done, seq) };
        send(link, &mut sink, &head, from);
        assert_eq!(next(link, &mut sink).seq, seq);
    }
    let time = begun.elapsed();
    assert_eq!(request, reply);
    time
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let one = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    (prepared(one), prepared(listener.accept().expect("a connection").0))
}

fn bare_cost(len: usize, rounds: usize) -> f64 {
    let (mut one, mut other) = sockets();
    let (from, mut to) = (vec![7; len], vec![0; len]);
    let begun = cpu_time();
    for _ in 0..rounds {
        pass_bare(&mut one, &mut other, &from, &mut to);
        pass_bare(&mut other, &mut one, &from, &mut to);
    }
    let time = cpu_time() - begun;
    assert_eq!(from, to);
    micros(time, rounds)
}

fn pass_bare(from: &mut TcpStream, to: &mut TcpStream, bytes: &[u8], into: &mut [u8]) {
    let (mut sent, mut received) = (0, 0);
    while received < into.len() {
        if sent < bytes.len() {
            sent += moved(from.write(&bytes[sent..]));
        }
        received += moved(to.read(&mut into[received..]));
    }
}

fn moved(outcome: std::io::Result<usize>) -> usize {
    match outcome {
        Ok(len) => len,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

fn tcp_cost(len: usize, rounds: usize) -> f64 {
    let (one, other) = sockets();
    let link = |stream| TcpLink::new(Channel::plain(Socket::new(stream).expect("a socket")), "loopback".to_owned());
    link_cost(link(one), link(other), len, rounds)
}

fn shm_cost(len: usize, rounds: usize) -> f64 {
    let (one, parts) = ShmLink::create("the opener").expect("a link");
    link_cost(one, ShmLink::open(parts, "the maker").expect("a link"), len, rounds)
}

fn ucx_cost(len: usize, rounds: usize) -> f64 {
    if ucx::available().is_err() {
        return f64::NAN;
    }
    let (greeted, server) = greeted(upgraded);
    let one = upgraded(greeted);
    link_cost(one, server.join().expect("both sides have UCX"), len, rounds)
}

fn link_cost(mut one: impl Link, mut other: impl Link, len: usize, rounds: usize) -> f64 {
    let (mut from, mut to) = (vec![7; len], vec![0; len]);
    // SAFETY: the buffers outlive the links' use of them and are not touched meanwhile.
    let (from_window, to_window) = unsafe { (Window::of_mut(&mut from), Window::of_mut(&mut to)) };
    let begun = cpu_time();
    for _ in 0..rounds {
        pass_link(&mut one, &mut other, from_window, to_window);
        pass_link(&mut other, &mut one, from_window, to_window);
    }
    let time = cpu_time() - begun;
    drop((one, other));
    assert_eq!(from, to);
    micros(time, rounds)
}

fn pass_link(from: &mut impl Link, to: &mut impl Link, bytes: Window, into: Window) {
    let head = Head { body_len: bytes.len() as u64, ..Head::new(Kind::Done, 0) };
    // SAFETY: the callers' buffers live until the links are dropped.
    unsafe { from.send(&head, &[bytes]) }.expect("sent");
    let mut sink = Echo { window: into, seen: None };
    while sink.seen.is_none() {
        if from.unsent_len() > 0 {
            from.progress(&mut sink).expect("a live link");
        }
        to.progress(&mut sink).expect("a live link");
    }
}

fn keys() -> Keys {
    Keys::of(&[1; 32], Sealing::Auto)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn send(link: &mut impl Link, sink: &mut Echo, head: &Head, body: Window) {
    // SAFETY: the callers' buffers live until the link is dropped.
    unsafe { link.send(head, &[body]) }.expect("sent");
    let mut pause = Pause(0);
    while link.unsent_len() > 0 {
        if link.progress(sink).expect("a live link").is_idle() {
            pause.once();
        }
    }
}

fn next(link: &mut impl Link, sink: &mut Echo) -> Head {
    let mut pause = Pause(0);
    loop {
        if let Some(head) = sink.seen.take() {
            return head;
        }
        if link.progress(sink).expect("a live link").is_idle() {
            pause.once();
        }
    }
}
