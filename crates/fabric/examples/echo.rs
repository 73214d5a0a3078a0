//! Request and reply: a TCP link beside a bare non-blocking socket that waits in the same way, and a link over shared
//! memory.
//!
//! `cargo run --release --example echo [ROUNDS]` prints medians of several runs in turn.

use hanare_fabric::shm::ShmLink;
use hanare_fabric::tcp::{Listener, connect};
use hanare_fabric::{Link, Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::wire::head::{Head, Kind};
use std::hint::spin_loop;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const RUNS: usize = 7;

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(20_000, |text| text.parse().expect("a number of rounds"));
    println!(
        "{:>8} {:>14} {:>14} {:>14} {:>9} {:>9}",
        "bytes", "bare tcp, us", "link tcp, us", "link shm, us", "tcp/bare", "shm/bare"
    );
    for len in [8, 4 << 10, 64 << 10, 1 << 20] {
        let rounds = (rounds * 64 / (64 + len / 1024)).max(50);
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..RUNS {
            times[0].push(bare_round_trip(len, rounds));
            times[1].push(tcp_round_trip(len, rounds));
            times[2].push(shm_round_trip(len, rounds));
        }
        for (name, [bare, tcp, shm]) in
            [("median", times.each_ref().map(|times| median(times))), ("best", times.each_ref().map(|times| best(times)))]
        {
            let (of_tcp, of_shm) = (tcp / bare, shm / bare);
            println!("{len:>8} {bare:>14.2} {tcp:>14.2} {shm:>14.2} {of_tcp:>9.2} {of_shm:>9.2}  {name} of {RUNS}");
        }
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_owned();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn best(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
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

fn tcp_round_trip(len: usize, rounds: usize) -> f64 {
    let listener = Listener::bind("127.0.0.1:0").expect("a port");
    let address = listener.address().to_string();
    let server = thread::spawn(move || {
        let incoming = loop {
            if let Some(incoming) = listener.accept().expect("a connection") {
                break incoming;
            }
            thread::yield_now();
        };
        answer(&mut incoming.greet(1, &|_, _, _| Ok(()), soon()).expect("a greeting").link, len, rounds);
    });
    let mut link = connect(&address, Role::Data, 2, &|_| Ok([0; 32]), soon()).expect("a connection").link;
    let time = ask(&mut link, len, rounds);
    server.join().expect("the echo ended well");
    micros(time, rounds)
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
