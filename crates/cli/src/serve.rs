//! `hanare serve`: a store of the pool for programs that speak another's protocol.

use crate::loopback::Callers;
use crate::{log, size};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hanare::{Placement, Pool};
use hanare_dict::{Evict, Store, StoreOptions};
use hanare_resp::{Options as ServiceOptions, Secret, Service};
use rustix::net::sockopt;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

/// Bytes of a secret's file.
const SECRET_LEN: u64 = 4096;

/// Threads that serve clients of a store of this host, at most; the same of a store elsewhere, whose replies they wait for.
const THREADS: usize = 4;
const THREADS_AFAR: usize = 16;

/// Time without a word from a client after which its host is asked if it is still there.
const QUIET: Duration = Duration::from_secs(300);

/// Wait after a failed accept, most likely for want of descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// Serves what the pool has to clients of other systems.
#[derive(Subcommand, Clone, Debug)]
pub enum Serve {
    /// Serves a store to clients of Redis: strings, expiry, counters and scans.
    Redis(Options),
}

/// A store for clients of Redis.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Without --secret it listens on loopback or at a Unix socket alone, and serves programs of this user and of root. Keys of clients \
    are the store's keys of bytes. It stays in the foreground."
)]
pub struct Options {
    /// The store's name. It is made where it is not there.
    #[arg(long, value_name = "NAME")]
    pub store: String,
    /// Address and port to listen at.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379", conflicts_with = "socket")]
    pub listen: SocketAddr,
    /// Unix socket to listen at instead, for this user alone.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// File with the secret that clients prove by AUTH: one line, for its owner alone.
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// Serve every user of this host without a secret.
    #[arg(long, conflicts_with = "secret")]
    pub anyone: bool,
    /// Most clients at once.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Threads that serve them [default: one for each processor, 4 at most; 16 where the store is on other hosts].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Memory for keys and values, where the store is made.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse_some)]
    pub bytes: u64,
    /// Keys that leave first, where the store is made: lru, lfu or ttl.
    #[arg(long, value_name = "RULE", default_value = "lru")]
    pub evict: Evict,
    /// Placement of its bytes, where the store is made.
    #[arg(long, value_name = "WHERE", default_value = "local")]
    pub place: Placement,
    /// Nodes that hold each of its bytes, 1 to 3, where the store is made.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = size::copies())]
    pub copies: u8,
}

/// Serves until the process ends.
pub fn run(serve: &Serve) -> Result<()> {
    log::begin("warn", false)?;
    let Serve::Redis(options) = serve;
    let secret = options.secret.as_deref().map(read_secret).transpose()?;
    if secret.is_none() && options.socket.is_none() && !options.listen.ip().is_loopback() {
        bail!("{} is reached from other hosts: give --secret FILE, or listen on loopback", options.listen);
    }
    let StoreOptions { entries, mode, tries, .. } = StoreOptions::default();
    let &Options { bytes, evict, place, copies, clients, .. } = options;
    let made = StoreOptions { bytes, evict, entries, placement: place, copies, mode, tries, ..StoreOptions::default() };
    let store = Store::open(&Pool::attach()?, &options.store, &made)?;
    let callers = if options.anyone || secret.is_some() { Callers::anyone() } else { Callers::own() };
    let threads = options.threads.map_or_else(|| threads_for(&store), |threads| threads as usize);
    let service = Service::start(store, ServiceOptions { secret, connections: clients as usize, threads });
    let service = service.context("cannot serve clients")?;
    match &options.socket {
        Some(path) => serve_socket(&service, path),
        None => serve_address(&service, options.listen, callers),
    }
}

/// Threads for clients of a store.
fn threads_for(store: &Store) -> usize {
    match store.is_here() {
        true => available_parallelism().map_or(1, usize::from).min(THREADS),
        false => THREADS_AFAR,
    }
}

/// Readies a client's connection. A host that is gone is found out.
fn ready(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_tcp_keepidle(stream, QUIET)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Reads a secret. **Errors**: a file that other users may read, one without a secret.
fn read_secret(path: &Path) -> Result<Secret> {
    let at = || format!("the secret in {}", path.display());
    let file = fs::File::open(path).with_context(at)?;
    if file.metadata().with_context(at)?.permissions().mode() & 0o077 != 0 {
        bail!("{} can be read by others: chmod 600 {}", at(), path.display());
    }
    let mut bytes = Vec::new();
    file.take(SECRET_LEN + 1).read_to_end(&mut bytes).with_context(at)?;
    if bytes.len() as u64 > SECRET_LEN {
        bail!("{} is longer than {SECRET_LEN} bytes", at());
    }
    Secret::of_file(&bytes).with_context(|| format!("{} is empty", at()))
}

fn serve_address(service: &Service, address: SocketAddr, mut callers: Callers) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    println!("ready: Redis' protocol at {}", listener.local_addr()?);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if callers.may_come(&stream) && ready(&stream).is_ok() {
                    service.serve(stream);
                }
            }
            Err(error) => wait_after(&error)?,
        }
    }
}

fn serve_socket(service: &Service, path: &Path) -> Result<()> {
    // A socket that a program left, which ended without removing it.
    let is_left = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_left && std::os::unix::net::UnixStream::connect(path).is_err() {
        fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()));
    rustix::process::umask(before);
    let listener = bound?;
    println!("ready: Redis' protocol at {}", path.display());
    loop {
        match listener.accept() {
            Ok((stream, _)) => service.serve(stream),
            Err(error) => wait_after(&error)?,
        }
    }
}

/// Goes on after an accept that failed for now. **Errors**: others.
fn wait_after(error: &std::io::Error) -> Result<()> {
    const NONE_FREE: [i32; 2] = [rustix::io::Errno::MFILE.raw_os_error(), rustix::io::Errno::NFILE.raw_os_error()];
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::ConnectionAborted => Ok(()),
        _ if error.raw_os_error().is_some_and(|number| NONE_FREE.contains(&number)) => {
            std::thread::sleep(BREATH);
            Ok(())
        }
        _ => bail!("cannot take a connection: {error}"),
    }
}
