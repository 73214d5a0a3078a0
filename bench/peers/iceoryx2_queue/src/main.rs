//! A port of iceoryx2's, as the bench of queues starts it: `read WHERE QUEUE COUNT WRITERS`, or `write WHERE QUEUE,... COUNT PACE`. A queue is a
//! service of its own, whose publishers wait for a slow subscriber, and lose nothing.
//!
//! `ping LENGTH:COUNT...` has a message of each length go there and back so often between two processes, and prints `pingpong NANOSECONDS...`,
//! half of the median of the round trips.

use iceoryx2::port::publisher::Publisher;
use iceoryx2::prelude::*;
use std::error::Error;
use std::time::{Duration, Instant};

/// A block: its number, the time at which it was due, and zeros.
type Block = [u64; 8];

const DEPTH: usize = 1024;
const PORTS: usize = 8;

type Service = iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, Block, ()>;

fn open(node: &Node<ipc::Service>, place: &str, queue: &str) -> Result<Service, Box<dyn Error>> {
    let name = format!("hanare-bench/{place}/{queue}").as_str().try_into()?;
    Ok(node
        .service_builder(&name)
        .publish_subscribe::<Block>()
        .max_publishers(PORTS)
        .max_subscribers(1)
        .subscriber_max_buffer_size(DEPTH)
        .enable_safe_overflow(false)
        .history_size(0)
        .open_or_create()?)
}

/// Nanoseconds of the clock that all processes of a machine have in common.
fn now() -> u64 {
    let mut time = libc_timespec { sec: 0, nsec: 0 };
    // SAFETY: the structure is this function's own, and of the kernel's shape on 64-bit machines.
    unsafe { clock_gettime(1, &mut time) };
    time.sec as u64 * 1_000_000_000 + time.nsec as u64
}

#[repr(C)]
#[allow(non_camel_case_types)]
struct libc_timespec {
    sec: i64,
    nsec: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, into: *mut libc_timespec) -> i32;
}

fn pass(looks: &mut u32) {
    *looks += 1;
    if *looks < 20 { std::hint::spin_loop() } else { std::thread::yield_now() }
}

fn begin() -> Result<(), Box<dyn Error>> {
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn read(place: &str, queue: &str, count: u64, writers: u64) -> Result<(), Box<dyn Error>> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let service = open(&node, place, queue)?;
    let subscriber = service.subscriber_builder().buffer_size(DEPTH).create()?;
    begin()?;
    let (mut sum, mut late, mut begun) = (0, Vec::new(), 0);
    for taken in 0..count {
        let mut looks = 0;
        let sample = loop {
            match subscriber.receive()? {
                Some(sample) => break sample,
                None => pass(&mut looks),
            }
        };
        if taken == 0 {
            begun = now();
        }
        sum += sample[0];
        if sample[1] > 0 {
            late.push(now().saturating_sub(sample[1]));
        }
    }
    println!("begun {begun}\nended {}", now());
    let each = count / writers;
    if sum != writers * (each * (each - 1) / 2) {
        return Err("the blocks that came are not those that were sent".into());
    }
    if !late.is_empty() {
        late.sort();
        println!("p50 {}\np999 {}", late[(late.len() - 1) / 2], late[late.len() - 1 - late.len() / 1000]);
    }
    Ok(())
}

fn write(place: &str, queues: &str, count: u64, pace: u64) -> Result<(), Box<dyn Error>> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let services = queues.split(',').map(|queue| open(&node, place, queue)).collect::<Result<Vec<_>, _>>()?;
    let publisher = |service: &Service| {
        service.publisher_builder().unable_to_deliver_strategy(UnableToDeliverStrategy::Block).max_loaned_samples(2).create()
    };
    let publishers = services.iter().map(publisher).collect::<Result<Vec<Publisher<ipc::Service, Block, ()>>, _>>()?;
    begin()?;
    let start = now();
    for number in 0..count {
        let mut block = [0; 8];
        block[0] = number;
        if pace > 0 {
            block[1] = start + number * pace;
            let mut looks = 0;
            while now() < block[1] {
                pass(&mut looks);
            }
        }
        for publisher in &publishers {
            publisher.loan_uninit()?.write_payload(block).send()?;
        }
    }
    println!("sent {count}\n.");
    // What was not read yet goes with its publisher: it stays until it is ended, a second at least.
    let until = Instant::now() + Duration::from_secs(1);
    std::io::stdin().read_line(&mut String::new())?;
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
    Ok(())
}

type Bytes = iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, [u8], ()>;

const LONGEST: usize = 1 << 20;

fn open_bytes(node: &Node<ipc::Service>, name: &str) -> Result<Bytes, Box<dyn Error>> {
    let builder = node.service_builder(&name.try_into()?).publish_subscribe::<[u8]>();
    Ok(builder.max_publishers(1).max_subscribers(1).history_size(0).open_or_create()?)
}

/// One side of the pair; rank 0 begins. What comes back is looked at.
fn ping(place: &str, rank: u8, lengths: &[(usize, usize)]) -> Result<Vec<f64>, Box<dyn Error>> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let name = |rank: u8| format!("hanare-bench/{place}/ping-{rank}");
    let (to, from) = (open_bytes(&node, &name(rank))?, open_bytes(&node, &name(1 - rank))?);
    let publisher = to.publisher_builder().initial_max_slice_len(LONGEST).create()?;
    let subscriber = from.subscriber_builder().create()?;
    let until = Instant::now() + Duration::from_secs(10);
    // Nothing is kept for a subscriber that comes later.
    while to.dynamic_config().number_of_subscribers() == 0 || from.dynamic_config().number_of_publishers() == 0 {
        if Instant::now() > until {
            return Err("the other side does not come".into());
        }
        std::thread::yield_now();
    }
    let bytes_of = |rank: u8, len: usize| (0..len).map(|at| (at * 7) as u8 ^ rank).collect::<Vec<u8>>();
    let mut figures = Vec::new();
    for (len, count) in lengths {
        let (bytes, wanted, mut into) = (bytes_of(rank, *len), bytes_of(1 - rank, *len), vec![0; *len]);
        let mut times = Vec::with_capacity(*count);
        for round in 0..count + count / 10 + 1 {
            let begun = Instant::now();
            let send = || -> Result<(), Box<dyn Error>> {
                publisher.loan_slice_uninit(*len)?.write_from_slice(&bytes).send()?;
                Ok(())
            };
            if rank == 0 {
                send()?;
            }
            let mut looks = 0;
            let sample = loop {
                match subscriber.receive()? {
                    Some(sample) => break sample,
                    None => pass(&mut looks),
                }
            };
            into.copy_from_slice(sample.payload());
            drop(sample);
            if rank == 1 {
                send()?;
            }
            if round > count / 10 {
                times.push(begun.elapsed().as_nanos() as f64 / 2.0);
            }
        }
        if into != wanted {
            return Err("other bytes came back".into());
        }
        times.sort_by(f64::total_cmp);
        figures.push(times[(times.len() - 1) / 2]);
    }
    Ok(figures)
}

fn ping_both(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let length = |word: &&str| -> Result<(usize, usize), Box<dyn Error>> {
        let (len, count) = word.split_once(':').ok_or("LENGTH:COUNT")?;
        Ok((len.parse()?, count.parse()?))
    };
    if let ["pong", place, lengths @ ..] = words {
        return ping(place, 1, &lengths.iter().map(length).collect::<Result<Vec<_>, _>>()?).map(drop);
    }
    let place = format!("{}-{}", std::process::id(), now());
    let mut other = std::process::Command::new(std::env::current_exe()?).args(["ping", "pong", &place]).args(words).spawn()?;
    let figures = ping(&place, 0, &words.iter().map(length).collect::<Result<Vec<_>, _>>()?);
    // One that waits for ever is ended.
    if figures.is_err() {
        other.kill()?;
    }
    other.wait()?;
    println!("pingpong {}", figures?.iter().map(|ns| format!("{ns:.1}")).collect::<Vec<_>>().join(" "));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["read", place, queue, count, writers] => {
            read(place, queue, count.parse()?, writers.parse()?)?;
            println!(".");
            Ok(())
        }
        ["ping", ref words @ ..] => ping_both(words),
        ["write", place, queues, count, pace] => write(place, queues, count.parse()?, pace.parse()?),
        _ => Err(format!("these are no words of a port: {words:?}").into()),
    }
}
