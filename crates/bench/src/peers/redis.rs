//! Redis beside us: its own server on loopback, and one connection that asks for a value again and again.
//!
//! The client waits as ours does, by checks and yields before it blocks, and once more by blocking at once; the better
//! of the two counts, so that Redis loses nothing by our choice.

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

/// How the client waits for an answer.
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
        // The port is free for an instant between our listener and the server's: a clash shows as a failed start.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new("redis-server");
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
