//! The fabrics under test: how to make a pair of links, and a link with a raw peer that may send anything.

use crate::link::Link;
use crate::shm::{ShmLink, Side};
use crate::tcp::{Channel, Socket, TcpLink, sealed_pair};
use crate::ucx::tests as ucx;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

pub(crate) type Boxed = Box<dyn Link>;

/// A fabric under test.
#[derive(Clone, Copy)]
pub(crate) enum Fabric {
    Tcp,
    /// TCP, its bytes sealed.
    Sealed,
    Shm,
    /// UCX with these transports only, covered so.
    Ucx(ucx::Transports, ucx::Covered),
}

pub(crate) const TCP: Fabric = Fabric::Tcp;
pub(crate) const SEALED: Fabric = Fabric::Sealed;
pub(crate) const SHM: Fabric = Fabric::Shm;

/// UCX as users have it: the best that it finds between two workers of one host.
pub(crate) const UCX: Fabric = Fabric::Ucx(ucx::Transports::All, ucx::Covered::Bare);
pub(crate) const UCX_SHM: Fabric = Fabric::Ucx(ucx::Transports::Shm, ucx::Covered::Bare);
pub(crate) const UCX_TCP: Fabric = Fabric::Ucx(ucx::Transports::Tcp, ucx::Covered::Bare);

/// Between hosts whose sides were both told to do without sealing. Long bodies go as they are, the rest is sealed.
pub(crate) const UCX_TOLD: Fabric = Fabric::Ucx(ucx::Transports::All, ucx::Covered::Told);

/// Between hosts: all is sealed.
pub(crate) const UCX_SEALED: Fabric = Fabric::Ucx(ucx::Transports::Tcp, ucx::Covered::Sealed);

/// A peer that sends bytes as it likes; dropping it is its death.
pub(crate) trait Raw: Send {
    fn send(&mut self, bytes: &[u8]);
}

impl Fabric {
    /// Why this machine cannot have it, if it cannot.
    pub(crate) fn lack(&self) -> Option<String> {
        match *self {
            Fabric::Tcp | Fabric::Sealed | Fabric::Shm => None,
            Fabric::Ucx(transports, _) => ucx::lack(transports),
        }
    }

    /// Two links, each other's peers.
    pub(crate) fn pair(&self) -> (Boxed, Boxed) {
        match *self {
            Fabric::Tcp => {
                let (one, other) = sockets();
                (Box::new(tcp(one)), Box::new(tcp(other)))
            }
            Fabric::Sealed => {
                let (one, other) = sockets();
                let (one, other) = sealed_pair(one, other);
                (Box::new(TcpLink::new(one, "one".into())), Box::new(TcpLink::new(other, "other".into())))
            }
            Fabric::Shm => {
                let (one, parts) = ShmLink::create("the opener").unwrap();
                (Box::new(one), Box::new(ShmLink::open(parts, "the maker").unwrap()))
            }
            Fabric::Ucx(transports, covered) => {
                let (one, other) = ucx::pair(transports, covered);
                (Box::new(one), Box::new(other))
            }
        }
    }

    /// A link and a raw peer.
    pub(crate) fn raw(&self) -> (Boxed, Box<dyn Raw>) {
        match *self {
            Fabric::Tcp => {
                let (one, other) = sockets();
                (Box::new(tcp(one)), Box::new(other))
            }
            Fabric::Sealed => {
                let (one, other) = sockets();
                let (one, other) = sealed_pair(one, other);
                (Box::new(TcpLink::new(one, "one".into())), Box::new(other))
            }
            Fabric::Shm => {
                let (one, parts) = ShmLink::create("the opener").unwrap();
                (Box::new(one), Box::new(Side::open(parts).unwrap()))
            }
            Fabric::Ucx(transports, covered) => {
                let (one, other) = ucx::pair(transports, covered);
                (Box::new(one), Box::new(ucx::RawPeer::of(other)))
            }
        }
    }
}

/// Two ends of a connection.
pub(crate) fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    one.set_nodelay(true).unwrap();
    other.set_nodelay(true).unwrap();
    (one, other)
}

fn tcp(stream: TcpStream) -> TcpLink {
    let peer = stream.peer_addr().unwrap().to_string();
    TcpLink::new(Channel::plain(Socket::new(stream).unwrap()), peer)
}

/// A peer with the keys, that may say anything.
impl Raw for Channel {
    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() || !self.flush_sealed().unwrap() {
            match self.send_slices(&[std::io::IoSlice::new(bytes)]) {
                Ok(len) => bytes = &bytes[len..],
                Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
                Err(errno) => panic!("{errno}"),
            }
        }
    }
}

impl Raw for TcpStream {
    fn send(&mut self, bytes: &[u8]) {
        self.write_all(bytes).unwrap();
    }
}

impl Raw for ucx::RawPeer {
    fn send(&mut self, bytes: &[u8]) {
        ucx::RawPeer::send(self, bytes);
    }
}

impl Raw for Side {
    fn send(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(1000) {
            assert!(self.producer.push(&[piece]).unwrap(), "a raw peer sends no more than fits the ring");
            self.ring_data();
        }
    }
}
