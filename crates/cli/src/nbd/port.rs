//! Serves a region at a TCP port of this host, to programs of this user and of root.
//!
//! Each connection that may come is served by an nbdkit of its own, which gets it as standard input.

use crate::loopback::Callers;
use anyhow::{Context, Result};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

/// Most connections at once.
const CONNECTIONS: usize = 64;

/// A port at which connections are taken.
pub struct Port {
    listener: TcpListener,
    is_for_anyone: bool,
}

impl Port {
    /// Listens on loopback.
    pub fn open(port: u16, is_for_anyone: bool) -> Result<Port> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("cannot listen at port {port}"))?;
        Ok(Port { listener, is_for_anyone })
    }

    /// Serves until the process ends. `nbdkit` is a command that serves its standard input.
    pub fn serve(&self, nbdkit: impl Fn() -> Command) -> Result<()> {
        let mut served = Vec::<Child>::new();
        let mut callers = if self.is_for_anyone { Callers::anyone() } else { Callers::own() };
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(error) => return Err(error).context("cannot take a connection"),
            };
            served.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            if !callers.may_come(&stream) {
                continue;
            }
            if served.len() >= CONNECTIONS {
                continue;
            }
            match start(nbdkit(), stream) {
                Ok(child) => served.push(child),
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(super::not_run(&error)),
                // Others may be served still.
                Err(error) => eprintln!("hanare: cannot serve a connection: {error}"),
            }
        }
    }
}

fn start(mut nbdkit: Command, stream: TcpStream) -> io::Result<Child> {
    stream.set_nodelay(true)?;
    let output = OwnedFd::from(stream.try_clone()?);
    nbdkit.stdin(OwnedFd::from(stream)).stdout(output).spawn()
}
