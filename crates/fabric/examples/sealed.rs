//! What sealing costs a processor: one way over loopback, both ends on one core, by the thread's own time.
//!
//! `cargo run --release -p hanare-fabric --example sealed`

use hanare_fabric::tcp::{Channel, Keys, Listener, connect};
use hanare_protocol::wire::greeting::{Role, Sealing};
use rustix::time::{ClockId, clock_gettime};
use std::io::IoSlice;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const SIZES: [(&str, usize, u32); 3] = [("8 B", 8, 20_000), ("4 KiB", 4096, 20_000), ("1 MiB", 1 << 20, 300)];

/// Seconds of processor time of this thread so far.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Two ends of a greeted connection.
fn pair(sealing: Sealing) -> (Channel, Channel) {
    let keys = Keys::of(&[1; 32], sealing);
    let listener = Listener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.address().to_string();
    let deadline = Instant::now() + Duration::from_secs(20);
    let of_node = keys.clone();
    let greeter = std::thread::spawn(move || {
        loop {
            if let Some(incoming) = listener.accept().expect("a connection") {
                return incoming.greet(&of_node, &|_| Ok(()), deadline).expect("a greeting");
            }
        }
    });
    let secret = |hellos: &_| Ok(keys.secret(hellos).expect("hellos"));
    let one = connect(&address, keys.caller(Role::Data, 0), &secret, deadline).expect("a connection");
    (one.link.into_channel(), greeter.join().expect("greeted").link.into_channel())
}

/// Passes the bytes from one end to the other.
fn pass(one: &mut Channel, other: &mut Channel, bytes: &[u8], into: &mut [u8]) {
    let (mut sent, mut got) = (0, 0);
    while got < bytes.len() {
        let end = bytes.len().min(sent + (64 << 10));
        if sent < end {
            sent += one.send_slices(&[IoSlice::new(&bytes[sent..end])]).unwrap_or(0);
        }
        one.flush_sealed().expect("a live connection");
        got += other.receive_slice(&mut into[got..]).unwrap_or(0);
    }
}

fn main() {
    for (name, len, count) in SIZES {
        let [plain, sealed] = [Sealing::Plain, Sealing::Always].map(|sealing| {
            let (mut one, mut other) = pair(sealing);
            let (bytes, mut into) = (vec![7; len], vec![0; len]);
            let round = |_| {
                let begun = cpu();
                (0..count).for_each(|_| pass(&mut one, &mut other, &bytes, &mut into));
                (cpu() - begun) / f64::from(count)
            };
            (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
        });
        let rate = |time: f64| len as f64 / time / 1e9;
        println!(
            "{name:>6}: plain {:7.2} us, {:5.2} GB/s; sealed {:7.2} us, {:5.2} GB/s",
            plain * 1e6,
            rate(plain),
            sealed * 1e6,
            rate(sealed)
        );
    }
}
