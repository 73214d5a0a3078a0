//! The fabrics and layers under test: how to make a pair of links, and a link with a raw peer that may send anything.

use crate::layer::retransmit::raw_frames;
use crate::layer::{Count, Delay, Fault, FaultPlan, Retransmit};
use crate::link::Link;
use crate::shm::{ShmLink, Side};
use crate::tcp::{Channel, Socket, TcpLink, sealed_pair};
use crate::ucx::tests as ucx;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

pub(crate) type Boxed = Box<dyn Link>;

/// A fabric, with a layer over both links of each pair.
pub(crate) struct Fabric {
    base: Base,
    layer: fn(Boxed) -> Boxed,
    /// What a raw peer's bytes are put in, for a layer that has a format of its own.
    raw: fn(Box<dyn Raw>) -> Box<dyn Raw>,
}

#[derive(Clone, Copy)]
enum Base {
    Tcp,
    /// TCP, its bytes sealed.
    Sealed,
    Shm,
    /// UCX with these transports only.
    Ucx(ucx::Transports),
}

pub(crate) const TCP: Fabric = Fabric { base: Base::Tcp, layer: |link| link, raw: |raw| raw };
pub(crate) const SEALED: Fabric = Fabric { base: Base::Sealed, layer: |link| link, raw: |raw| raw };
pub(crate) const SHM: Fabric = Fabric { base: Base::Shm, layer: |link| link, raw: |raw| raw };

/// UCX as users have it: whatever it finds best between two workers of one host.
pub(crate) const UCX: Fabric = Fabric { base: Base::Ucx(ucx::Transports::All), layer: |link| link, raw: |raw| raw };
pub(crate) const UCX_SHM: Fabric = Fabric { base: Base::Ucx(ucx::Transports::Shm), layer: |link| link, raw: |raw| raw };
pub(crate) const UCX_TCP: Fabric = Fabric { base: Base::Ucx(ucx::Transports::Tcp), layer: |link| link, raw: |raw| raw };

pub(crate) fn count(link: Boxed) -> Boxed {
    Box::new(Count::over(link))
}
pub(crate) fn delay(link: Boxed) -> Boxed {
    Box::new(Delay::over(link, Duration::from_micros(100)).unwrap())
}

/// A fault layer without faults must not be felt; faults have tests of their own.
pub(crate) fn fault(link: Boxed) -> Boxed {
    Box::new(Fault::over(link, FaultPlan::none(0)).unwrap())
}

/// A peer that sends bytes as it likes; dropping it is its death.
pub(crate) trait Raw: Send {
    fn send(&mut self, bytes: &[u8]);
}

impl Fabric {
    /// The same fabric under a layer.
    pub(crate) const fn under(self, layer: fn(Boxed) -> Boxed) -> Fabric {
        Fabric { base: self.base, layer, raw: self.raw }
    }

    /// The same fabric under the retransmission layer, over a line that loses nothing; lines that do have tests of their own.
    pub(crate) const fn retransmitted(self) -> Fabric {
        let layer = |link| Box::new(Retransmit::over(link).unwrap()) as Boxed;
        Fabric { base: self.base, layer, raw: |raw| Box::new(RawFrames { raw, seq: 0 }) }
    }

    /// Why this machine cannot have it, if it cannot.
    pub(crate) fn lack(&self) -> Option<String> {
        match self.base {
            Base::Tcp | Base::Sealed | Base::Shm => None,
            Base::Ucx(transports) => ucx::lack(transports),
        }
    }

    /// Two links, each other's peers.
    pub(crate) fn pair(&self) -> (Boxed, Boxed) {
        let (one, other): (Boxed, Boxed) = match self.base {
            Base::Tcp => {
                let (one, other) = sockets();
                (Box::new(tcp(one)), Box::new(tcp(other)))
            }
            Base::Sealed => {
                let (one, other) = sockets();
                let (one, other) = sealed_pair(one, other);
                (Box::new(TcpLink::new(one, "one".into())), Box::new(TcpLink::new(other, "other".into())))
            }
            Base::Shm => {
                let (one, parts) = ShmLink::create("the opener").unwrap();
                (Box::new(one), Box::new(ShmLink::open(parts, "the maker").unwrap()))
            }
            Base::Ucx(transports) => {
                let (one, other) = ucx::pair(transports);
                (Box::new(one), Box::new(other))
            }
        };
        ((self.layer)(one), (self.layer)(other))
    }

    /// A link and a raw peer.
    pub(crate) fn raw(&self) -> (Boxed, Box<dyn Raw>) {
        let (link, raw) = self.raw_of_base();
        (link, (self.raw)(raw))
    }

    fn raw_of_base(&self) -> (Boxed, Box<dyn Raw>) {
        match self.base {
            Base::Tcp => {
                let (one, other) = sockets();
                ((self.layer)(Box::new(tcp(one))), Box::new(other))
            }
            Base::Sealed => {
                let (one, other) = sockets();
                let (one, other) = sealed_pair(one, other);
                ((self.layer)(Box::new(TcpLink::new(one, "one".into()))), Box::new(other))
            }
            Base::Shm => {
                let (one, parts) = ShmLink::create("the opener").unwrap();
                ((self.layer)(Box::new(one)), Box::new(Side::open(parts).unwrap()))
            }
            Base::Ucx(transports) => {
                let (one, other) = ucx::pair(transports);
                ((self.layer)(Box::new(one)), Box::new(ucx::RawPeer::of(other)))
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

/// A raw peer whose bytes travel in the frames of the retransmission layer.
struct RawFrames {
    raw: Box<dyn Raw>,
    seq: u64,
}

impl Raw for RawFrames {
    fn send(&mut self, bytes: &[u8]) {
        self.raw.send(&raw_frames(&mut self.seq, bytes));
    }
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
