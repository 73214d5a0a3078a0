//! The stream of a greeted connection: a socket, and the seal of its bytes unless both sides do without.
//!
//! Safety invariants of this module:
//! 1. Pieces and places are what [`Stream`]'s callers promise, or slices; they are copied by the copier that fits them.
//! 2. A copier is given ranges of one length, one of them in the seal's own memory.

use super::Socket;
use super::seal::Seal;
use super::seal_keys::SealKeys;
use crate::stream::Stream;
use hanare_memory::Window;
use hanare_memory::guard;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A greeted connection.
pub struct Channel {
    socket: Socket,
    seal: Option<Box<Seal>>,
    /// The keys, where bytes leave the host.
    keys: Option<SealKeys>,
}

/// Cover of a connection's bytes.
pub(crate) enum Cover {
    /// Plain bytes: they stay on this host.
    Bare,
    /// Plain bytes, because both sides were told so. Keys exist for messages that are sealed all the same.
    Told(SealKeys),
    /// Sealed.
    Sealed(SealKeys),
}

/// Copies `len` bytes.
///
/// # Safety
/// The ranges are mapped, as far as the copier needs that, and do not overlap.
type Copier = unsafe fn(from: *const u8, to: *mut u8, len: usize) -> Result<(), Errno>;

/// For windows: memory that others change, or take away.
///
/// # Safety
/// Like [`Window::new`].
unsafe fn copy_guarded(from: *const u8, to: *mut u8, len: usize) -> Result<(), Errno> {
    // SAFETY: passed on; the source is only read.
    let (from, to) = unsafe { (Window::new(from.cast_mut(), len), Window::new(to, len)) };
    guard::copy(from, to).map_err(|_| Errno::FAULT)
}

/// For slices, inside signal handlers too.
///
/// # Safety
/// Both ranges may be accessed.
unsafe fn copy_bare(from: *const u8, to: *mut u8, len: usize) -> Result<(), Errno> {
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    Ok(())
}

impl Channel {
    pub(crate) fn new(socket: Socket, cover: Cover) -> Channel {
        match cover {
            Cover::Bare => Channel { socket, seal: None, keys: None },
            Cover::Told(keys) => Channel { socket, seal: None, keys: Some(keys) },
            Cover::Sealed(keys) => Channel { socket, seal: Some(Box::new(Seal::new(keys.clone()))), keys: Some(keys) },
        }
    }

    /// A connection whose bytes go as they are.
    pub fn plain(socket: Socket) -> Channel {
        Channel::new(socket, Cover::Bare)
    }

    /// True if its bytes are sealed.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// From here on bytes are sealed if they leave the host. The other side calls this at the same place of the stream.
    pub(crate) fn seal_rest(&mut self) {
        if self.seal.is_none() {
            self.seal = self.keys.clone().map(|keys| Box::new(Seal::new(keys)));
        }
    }

    /// The keys, where bytes leave the host.
    pub(crate) fn keys(&self) -> Option<&SealKeys> {
        self.keys.as_ref()
    }

    /// See [`Socket::ends_by_reset`].
    pub(crate) fn ends_by_reset(&self) -> bool {
        self.socket.ends_by_reset()
    }

    /// The socket, and the keys where its bytes are sealed.
    pub(crate) fn into_parts(self) -> (Socket, Option<SealKeys>) {
        let keys = self.keys.filter(|_| self.seal.is_some());
        (self.socket, keys)
    }

    /// The socket, of one whose bytes go as they are.
    pub fn into_socket(self) -> Option<Socket> {
        self.seal.is_none().then_some(self.socket)
    }

    /// See [`Socket::end_by_reset`].
    pub(crate) fn end_by_reset(&mut self, bound: Duration) -> io::Result<()> {
        self.socket.end_by_reset(bound)
    }

    /// Sends some bytes of the slices, in order; see [`Channel::flush_sealed`]. Async-signal-safe.
    ///
    /// **Errors**: `AGAIN` when none go; those of the socket.
    pub fn send_slices(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        if self.seal.is_none() {
            return sendmsg(&self.socket, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
        }
        let pieces = pieces.iter().map(|piece| (piece.as_ptr(), piece.len()));
        // SAFETY: they are slices (invariant 1).
        unsafe { self.send_sealed(pieces, copy_bare) }
    }

    /// Sends sealed bytes that the socket did not take. Returns true if all have left. Async-signal-safe.
    pub fn flush_sealed(&mut self) -> Result<bool, Errno> {
        match &mut self.seal {
            None => Ok(true),
            Some(seal) => seal.flush(self.socket.as_fd()),
        }
    }

    /// Receives some bytes, 0 at the stream's end. Async-signal-safe.
    ///
    /// **Errors**: `AGAIN` when nothing is there; `BADMSG` where somebody else's bytes came; those of the socket.
    pub fn receive_slice(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        if self.seal.is_none() {
            return recv(&self.socket, into, RecvFlags::empty()).map(|(len, _)| len);
        }
        // SAFETY: it is a slice (invariant 1).
        unsafe { self.receive_sealed(&[(into.as_mut_ptr(), into.len())], copy_bare) }
    }

    /// # Safety
    /// Invariant 1.
    unsafe fn send_sealed(
        &mut self,
        mut pieces: impl Iterator<Item = (*const u8, usize)>,
        copier: Copier,
    ) -> Result<usize, Errno> {
        let seal = self.seal.as_mut().expect("the caller looked");
        let socket = self.socket.as_fd();
        if !seal.flush(socket)? {
            return Err(Errno::AGAIN);
        }
        let (mut sent, mut piece) = (0, (std::ptr::null(), 0));
        while let Some(room) = seal.room() {
            let mut len = 0;
            while len < room.len() {
                if piece.1 == 0 {
                    match pieces.next() {
                        Some(next) => piece = next,
                        None => break,
                    }
                }
                let part = piece.1.min(room.len() - len);
                // SAFETY: the part lies in the piece, and in the room (invariant 2).
                unsafe { copier(piece.0, room[len..].as_mut_ptr(), part) }?;
                // SAFETY: at most one past the piece.
                piece = (unsafe { piece.0.add(part) }, piece.1 - part);
                len += part;
            }
            if len == 0 {
                break;
            }
            seal.seal(len)?;
            sent += len;
        }
        seal.flush(socket)?;
        Ok(sent)
    }

    /// # Safety
    /// Invariant 1.
    unsafe fn receive_sealed(&mut self, places: &[(*mut u8, usize)], copier: Copier) -> Result<usize, Errno> {
        let seal = self.seal.as_mut().expect("the caller looked");
        let (mut done, mut index, mut filled, mut may_come) = (0, 0, 0, true);
        loop {
            while let Some(place) = places.get(index).filter(|_| !seal.opened().is_empty()) {
                let part = (place.1 - filled).min(seal.opened().len());
                // SAFETY: the part lies in what was opened, and in the place (invariant 2).
                unsafe { copier(seal.opened().as_ptr(), place.0.add(filled), part) }?;
                seal.take(part);
                (done, filled) = (done + part, filled + part);
                if filled == place.1 {
                    (index, filled) = (index + 1, 0);
                }
            }
            if index == places.len() {
                return Ok(done);
            }
            let outcome = match seal.open() {
                Ok(true) => continue,
                Ok(false) if may_come => seal.fill(self.socket.as_fd()),
                Ok(false) => Err(Errno::AGAIN),
                Err(errno) => Err(errno),
            };
            match outcome {
                Ok((1.., more)) => may_come = more,
                // Earlier bytes are told first; the rest says the same again.
                Ok(_) | Err(_) if done > 0 => return Ok(done),
                Ok(_) if seal.is_inside() => return Err(Errno::BADMSG),
                Ok(_) => return Ok(0),
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream for Channel {
    unsafe fn send(&mut self, pieces: &[libc::iovec]) -> io::Result<usize> {
        if self.seal.is_none() {
            // SAFETY: passed on.
            return unsafe { self.socket.send(pieces) };
        }
        let pieces = pieces.iter().map(|piece| (piece.iov_base.cast_const().cast(), piece.iov_len));
        // SAFETY: passed on; the copier bears what windows may do.
        Ok(unsafe { self.send_sealed(pieces, copy_guarded) }?)
    }

    unsafe fn receive(&mut self, places: &[libc::iovec]) -> io::Result<usize> {
        if self.seal.is_none() {
            // SAFETY: passed on.
            return unsafe { self.socket.receive(places) };
        }
        let place = |index: usize| places.get(index).map_or((std::ptr::null_mut(), 0), |at| (at.iov_base.cast(), at.iov_len));
        assert!(places.len() <= 2, "a link receives into a window and what is behind it");
        // SAFETY: passed on; the copier bears what windows may do.
        Ok(unsafe { self.receive_sealed(&[place(0), place(1)][..places.len()], copy_guarded) }?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_sealed().map(drop).map_err(io::Error::from)
    }

    fn unsent_len(&self) -> usize {
        self.seal.as_ref().map_or(0, |seal| seal.unsent_len())
    }

    fn takes_all(&self) -> bool {
        self.seal.is_none()
    }
}

/// Two ends of a connection, covered as told under fresh keys.
#[cfg(any(test, fuzzing))]
pub(crate) fn covered_pair(
    (one, other): (std::net::TcpStream, std::net::TcpStream),
    cover: fn(SealKeys) -> Cover,
) -> (Channel, Channel) {
    let (key_of_one, key_of_other) = super::handshake::pair();
    let channel = |stream, keys| Channel::new(Socket::new(stream).unwrap(), cover(keys));
    (channel(one, key_of_one), channel(other, key_of_other))
}

/// Two ends of a connection, sealed.
#[cfg(any(test, fuzzing))]
pub(crate) fn sealed_pair(one: std::net::TcpStream, other: std::net::TcpStream) -> (Channel, Channel) {
    covered_pair((one, other), Cover::Sealed)
}

#[cfg(test)]
mod tests {
    use super::super::seal::RECORD_LEN;
    use super::*;
    use crate::conformance::fabrics::sockets;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// A sealed end with the socket that it sends to, and another sealed end with the socket that feeds it. Whoever holds both sockets is
    /// on the wire.
    fn tapped() -> (Channel, TcpStream, TcpStream, Channel) {
        let ((here, tap), (feed, there)) = (sockets(), sockets());
        let (one, other) = sealed_pair(here, there);
        (one, tap, feed, other)
    }

    fn send(channel: &mut Channel, bytes: &[u8]) {
        assert_eq!(channel.send_slices(&[IoSlice::new(bytes)]), Ok(bytes.len()));
        assert_eq!(channel.flush_sealed(), Ok(true));
    }

    /// Takes one record off the wire.
    fn record(tap: &mut TcpStream) -> Vec<u8> {
        let mut record = vec![0; 2];
        tap.read_exact(&mut record).unwrap();
        record.resize(2 + usize::from(u16::from_le_bytes([record[0], record[1]])), 0);
        tap.read_exact(&mut record[2..]).unwrap();
        record
    }

    /// Bytes that the other end gets from these on the wire, after which it ends.
    fn received(mut feed: TcpStream, mut other: Channel, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
        feed.write_all(bytes).unwrap();
        drop(feed);
        let (mut all, mut some) = (Vec::new(), [0; 100]);
        loop {
            match other.receive_slice(&mut some) {
                Ok(0) => return Ok(all),
                Ok(len) => all.extend_from_slice(&some[..len]),
                Err(Errno::AGAIN) => std::thread::yield_now(),
                // Bytes that were opened before are as they were sent.
                Err(errno) => return if all == b"first" || all.is_empty() { Err(errno) } else { Ok(all) },
            }
        }
    }

    /// Three records of one end as somebody on the wire passes them on.
    fn passed_on(how: fn([Vec<u8>; 3]) -> Vec<u8>) -> Result<Vec<u8>, Errno> {
        let (mut one, mut tap, feed, other) = tapped();
        let records = [&b"first"[..], b"second", b"third"].map(|bytes| {
            send(&mut one, bytes);
            record(&mut tap)
        });
        assert!(!records[0].windows(5).any(|bytes| bytes == b"first"), "it can be read on the wire");
        received(feed, other, &how(records))
    }

    #[test]
    fn what_is_passed_on_as_it_is_arrives() {
        assert_eq!(passed_on(|records| records.concat()).unwrap(), b"firstsecondthird");
    }

    #[test]
    fn what_is_changed_repeated_left_out_or_moved_does_not() {
        /// Attack on three records on their way.
        type Attack = fn([Vec<u8>; 3]) -> Vec<u8>;
        let attacks: [(&str, Attack); 6] = [
            ("repeated", |[a, b, _]| [a.clone(), a, b].concat()),
            ("left out", |[a, _, c]| [a, c].concat()),
            ("moved", |[a, b, c]| [b, a, c].concat()),
            ("cut inside a record", |[a, b, _]| [&a[..], &b[..b.len() - 1]].concat()),
            ("another length", |[a, mut b, c]| {
                b[0] += 1;
                [a, b, c].concat()
            }),
            ("no length", |[a, mut b, c]| {
                b[..2].fill(0);
                [a, b, c].concat()
            }),
        ];
        for (name, attack) in attacks {
            assert_eq!(passed_on(attack), Err(Errno::BADMSG), "{name}");
        }
    }

    #[test]
    fn no_bit_of_a_record_can_be_flipped() {
        let (mut one, mut tap, _, _) = tapped();
        send(&mut one, b"1234");
        let len = record(&mut tap).len();
        for at in 0..8 * len {
            let (mut one, mut tap, feed, other) = tapped();
            send(&mut one, b"1234");
            let mut sealed = record(&mut tap);
            sealed[at / 8] ^= 1 << (at % 8);
            let outcome = received(feed, other, &sealed);
            assert_eq!(outcome, Err(Errno::BADMSG), "bit {at}");
        }
    }

    #[test]
    fn what_is_sent_back_or_comes_from_another_connection_does_not_open() {
        let (mut one, mut tap, _, _) = tapped();
        send(&mut one, b"mine");
        let sealed = record(&mut tap);
        // Reflected to its sender.
        tap.write_all(&sealed).unwrap();
        let mut some = [0; 100];
        let reflected = loop {
            match one.receive_slice(&mut some) {
                Err(Errno::AGAIN) => std::thread::yield_now(),
                outcome => break outcome,
            }
        };
        assert_eq!(reflected, Err(Errno::BADMSG));
        let (_, _, feed, other) = tapped();
        assert_eq!(received(feed, other, &sealed), Err(Errno::BADMSG));
    }

    #[test]
    fn any_length_arrives_in_any_pieces() {
        for len in [1, 100, RECORD_LEN - 1, RECORD_LEN, RECORD_LEN + 1, 1_000_003] {
            let (here, there) = sockets();
            let (mut one, mut other) = sealed_pair(here, there);
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let (mut sent, mut got) = (0, Vec::new());
            let mut room = vec![0; 1 + len % 70_000];
            while got.len() < len {
                let rest = &bytes[sent..];
                let (front, back) = rest.split_at(rest.len() / 3);
                match one.send_slices(&[IoSlice::new(front), IoSlice::new(&[]), IoSlice::new(back)]) {
                    Ok(more) => sent += more,
                    Err(errno) => assert_eq!(errno, Errno::AGAIN),
                }
                match other.receive_slice(&mut room) {
                    Ok(more) => got.extend_from_slice(&room[..more]),
                    Err(errno) => assert_eq!(errno, Errno::AGAIN),
                }
            }
            assert!(got == bytes, "{len}");
        }
    }
}
