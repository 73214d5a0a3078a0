//! Gets from another node over TCP on this host, plain and sealed: how long each takes, what sealing costs, and what attaching takes.
//! Each figure stands beside the bound that it is held against.
//!
//! `cargo run --release -p hanare --example sealed_gets`

use hanare::node::{Node, NodeOptions, new_key_file};
use hanare::{CreateOptions, NodeId, Placement, Pool};
use hanare_protocol::wire::greeting::Sealing;
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(400);
const SIZES: [(&str, usize, &str); 3] =
    [("8 B", 8, "at most 1.25 times"), ("4 KiB", 4096, "at most 1.25 times"), ("1 MiB", 1 << 20, "at least 1.5 GB/s a core")];

/// How often a program attaches, one after another.
const ATTACHED: usize = 500;

fn start(sealing: Sealing, name: &str, join: Option<String>, key: &Path) -> Node {
    let socket = format!("@sealed-gets-{}-{name}-{sealing:?}", std::process::id());
    let options = NodeOptions::new(64 << 20).expect("settings");
    let key = Some(key.to_owned());
    Node::start(NodeOptions { sealing, join, key, socket, name: name.to_owned(), ..options }).expect("a node")
}

/// The median of the rounds: seconds for one get of so many bytes.
fn measure(pool: &Pool, len: usize) -> f64 {
    let placement = Placement::Node(NodeId(1));
    let options = CreateOptions { placement, ..CreateOptions::default() };
    let region = pool.create("measured", len.max(1 << 20) as u64, &options).expect("a region");
    let mut bytes = vec![0; len];
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (begun, mut count) = (Instant::now(), 0);
            while begun.elapsed() < ROUND {
                region.get(0, &mut bytes).expect("a get");
                count += 1;
            }
            begun.elapsed().as_secs_f64() / f64::from(count)
        })
        .collect();
    pool.remove("measured").expect("removed");
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// The median of attachments to the node at `socket`: seconds.
fn attach(socket: &str) -> f64 {
    let mut times: Vec<f64> = (0..ATTACHED)
        .map(|_| {
            let begun = Instant::now();
            let pool = Pool::attach_to(socket, None).expect("a client");
            let took = begun.elapsed().as_secs_f64();
            drop(pool);
            took
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ATTACHED / 2]
}

fn main() {
    let folder = std::env::temp_dir().join(format!("sealed-gets-{}", std::process::id()));
    let key = folder.join("key");
    new_key_file(&key).expect("a key");
    let [plain, sealed] = [Sealing::Plain, Sealing::Always].map(|sealing| {
        let first = start(sealing, "one", None, &key);
        let second = start(sealing, "two", Some(first.address().to_owned()), &key);
        let pool = Pool::attach_to(first.socket(), None).expect("a client");
        let times = SIZES.map(|(_, len, _)| measure(&pool, len));
        println!("attach, {sealing:?}: {:.1} us (below 100 us)", attach(first.socket()) * 1e6);
        drop((pool, second, first));
        times
    });
    let _ = std::fs::remove_dir_all(&folder);
    for (index, (name, len, bound)) in SIZES.into_iter().enumerate() {
        let rate = |time: f64| len as f64 / time / 1e9;
        println!(
            "{name:>6}: plain {:9.2} us, sealed {:9.2} us, {:.2} times as long; {:.2} and {:.2} GB/s ({bound})",
            plain[index] * 1e6,
            sealed[index] * 1e6,
            sealed[index] / plain[index],
            rate(plain[index]),
            rate(sealed[index])
        );
    }
}
