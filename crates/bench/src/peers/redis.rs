//! Redis beside us: its own server on loopback, and one connection that asks for a value again and again.
//!
//! The client waits as ours does, by checks and yields before it blocks. Another run blocks at once. The better of the two counts, so that
//! Redis loses nothing by our choice.

use crate::turns::Random;
use anyhow::{Context, Result, bail, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const READY_MAX: Duration = Duration::from_secs(10);

/// A server of our own and a connection to it; ends with it.
pub struct Redis {
    server: Child,
    connection: TcpStream,
    reply: Vec<u8>,
}

/// The client's way of waiting for a reply.
#[derive(Clone, Copy, PartialEq)]
pub enum Wait {
    /// Checks and yields.
    Awake,
    /// Blocks in the kernel.
    Blocked,
}

impl Redis {
    /// The installed server's version, as `redis 7.0.15`.
    pub fn version() -> Result<String> {
        let output = Command::new("redis-server").arg("--version").output().context("redis-server is not installed")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
        Ok(format!("redis {}", version.unwrap_or("of unknown version")))
    }

    /// Starts a server that keeps nothing on disk, and connects to it.
    pub fn start() -> Result<Redis> {
        Redis::start_by(Command::new("redis-server"))
    }

    /// The same by a command that runs the server with further words.
    pub fn start_by(mut command: Command) -> Result<Redis> {
        // The port is free for an instant between our listener and the server's: a clash shows as a failed start.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        let mut server = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("redis-server is not installed")?;
        match connect(port) {
            Ok(connection) => Ok(Redis { server, connection, reply: Vec::new() }),
            Err(error) => {
                let _ = server.kill();
                let _ = server.wait();
                Err(error)
            }
        }
    }

    /// Sets a key to `len` bytes.
    pub fn set(&mut self, key: &str, len: usize) -> Result<()> {
        let mut command = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${len}\r\n", key.len()).into_bytes();
        command.extend(std::iter::repeat_n(b'x', len));
        command.extend(b"\r\n");
        self.connection.set_nonblocking(false)?;
        self.connection.write_all(&command)?;
        let mut answer = [0; 5];
        self.connection.read_exact(&mut answer)?;
        ensure!(&answer == b"+OK\r\n", "redis refused SET");
        Ok(())
    }

    /// Gets a key of `len` bytes `count` times, each after `idle`, and returns each time in ns.
    pub fn get(&mut self, key: &str, len: usize, count: usize, wait: Wait, idle: Duration) -> Result<Vec<f64>> {
        let command = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
        let head = format!("${len}\r\n");
        self.reply.resize(head.len() + len + 2, 0);
        self.connection.set_nonblocking(wait == Wait::Awake)?;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            if !idle.is_zero() {
                std::thread::sleep(idle);
            }
            let start = Instant::now();
            self.connection.write_all(command.as_bytes())?;
            receive(&mut self.connection, &mut self.reply)?;
            times.push(start.elapsed().as_nanos() as f64);
        }
        ensure!(self.reply.starts_with(head.as_bytes()), "redis answered something else");
        Ok(times)
    }
}

/// Keys with values that no compressor makes smaller, asked for in an order that nothing foresees.
impl Redis {
    /// Bytes of a value.
    const VALUE_LEN: usize = 2000;

    /// Sets `count` keys, many at a time; ns for each.
    pub fn load(&mut self, count: u64) -> Result<f64> {
        /// Commands in a row, whose answers fit a socket's buffer.
        const BATCH: u64 = 64;
        let begun = Instant::now();
        self.connection.set_nonblocking(false)?;
        let mut value = vec![0; Redis::VALUE_LEN];
        for first in (0..count).step_by(BATCH as usize) {
            let mut commands = Vec::new();
            let batch = first..count.min(first + BATCH);
            for key in batch.clone() {
                fill(&mut value, key);
                let key = key.to_string();
                commands.extend(format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len()).into_bytes());
                commands.extend(&value);
                commands.extend(b"\r\n");
            }
            self.connection.write_all(&commands)?;
            let mut answers = vec![0; 5 * (batch.end - batch.start) as usize];
            self.connection.read_exact(&mut answers)?;
            ensure!(answers.chunks(5).all(|answer| answer == b"+OK\r\n"), "redis refused SET");
        }
        Ok(begun.elapsed().as_nanos() as f64 / count as f64)
    }

    /// Gets random ones of `keys` keys, `count` times, one after another, and checks each; ns for each.
    pub fn get_random(&mut self, keys: u64, count: u64) -> Result<f64> {
        let (mut random, mut value) = (Random::SEED, vec![0; Redis::VALUE_LEN]);
        let head = format!("${}\r\n", Redis::VALUE_LEN);
        self.reply.resize(head.len() + Redis::VALUE_LEN + 2, 0);
        let begun = Instant::now();
        for _ in 0..count {
            let key = random.below(keys);
            fill(&mut value, key);
            let key = key.to_string();
            self.connection.write_all(format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).as_bytes())?;
            self.connection.read_exact(&mut self.reply)?;
            ensure!(self.reply[head.len()..][..Redis::VALUE_LEN] == value, "redis has other bytes for key {key}");
        }
        Ok(begun.elapsed().as_nanos() as f64 / count as f64)
    }

    /// Ends the server in good order.
    pub fn end(mut self) -> Result<()> {
        self.connection.write_all(b"SHUTDOWN NOSAVE\r\n")?;
        let deadline = Instant::now() + READY_MAX;
        while self.server.try_wait()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// The value of a key.
fn fill(value: &mut [u8], key: u64) {
    let mut random = Random(Random::SEED.0 ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    value.chunks_mut(8).for_each(|eight| eight.copy_from_slice(&random.next().to_le_bytes()[..eight.len()]));
}

/// Fills the buffer; between checks it yields where the connection does not block.
fn receive(connection: &mut TcpStream, into: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        match connection.read(&mut into[filled..]) {
            Ok(0) => bail!("redis closed the connection"),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn connect(port: u16) -> Result<TcpStream> {
    let deadline = Instant::now() + READY_MAX;
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(connection) => {
                connection.set_nodelay(true)?;
                return Ok(connection);
            }
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error).context("redis-server does not answer"),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
