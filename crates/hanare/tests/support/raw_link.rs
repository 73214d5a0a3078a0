//! A data link of a client that knows the protocol, byte by byte.
#![allow(dead_code)]

use crate::support;

use hanare::Error;
use hanare_protocol::wire::control;
use hanare_protocol::wire::head::{HEAD_LEN, Head, Kind};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Nothing that a healthy node does takes so long.
pub const BOUND: Duration = Duration::from_secs(20);

/// A data link, byte by byte.
pub struct Raw(pub TcpStream);

impl Raw {
    /// As client 1, of user 1.
    pub fn connect(address: &str) -> Raw {
        Raw::connect_as(address, 1)
    }

    /// As a client of that user, whose number is its.
    pub fn connect_as(address: &str, uid: u32) -> Raw {
        let socket = support::data_link_as(address, uid);
        socket.set_read_timeout(Some(BOUND)).unwrap();
        socket.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        Raw(socket)
    }

    /// The next answer that is more than a sign of life.
    pub fn answer(&mut self) -> (Head, Vec<u8>) {
        loop {
            let mut head = [0; HEAD_LEN];
            self.0.read_exact(&mut head).unwrap();
            let head = Head::decode(&head).unwrap();
            if head.kind == Kind::Working {
                continue;
            }
            let mut body = vec![0; head.body_len as usize];
            self.0.read_exact(&mut body).unwrap();
            return (head, body);
        }
    }

    pub fn assert_alive(&mut self) {
        self.0.write_all(&Head::new(Kind::Ping, 7).encode()).unwrap();
        let head = self.answer().0;
        assert_eq!(Head { detail: 0, ..head }, Head::new(Kind::Pong, 7));
    }

    pub fn send(&mut self, request: &SyncRequest) {
        self.0.write_all(&packed(request)).unwrap();
    }

    /// Asks for something that clients share.
    pub fn ask(&mut self, request: &SyncRequest) -> Result<SyncAnswer, Error> {
        self.send(request);
        match self.answer() {
            (Head { kind: Kind::Refused, .. }, body) => Err(control::decode(&body).unwrap()),
            (_, body) => Ok(control::decode(&body).unwrap()),
        }
    }

    /// Sends the same without waiting for an answer. False where the node takes no more, or has closed the link.
    pub fn push(&mut self, requests: &[u8]) -> bool {
        self.0.write_all(requests).is_ok()
    }
}

/// A request as it travels.
pub fn packed(request: &SyncRequest) -> Vec<u8> {
    let body = control::encode(request);
    let head = Head { body_len: body.len() as u64, ..Head::new(Kind::Sync, 5) };
    [&head.encode()[..], &body].concat()
}
