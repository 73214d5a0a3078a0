//! Records. Bytes are sealed under the handshake's keys. No byte of a record is passed on before the whole record opened.
//!
//! ```text
//!   bytes  --> [scratch] --seal--> unsent: [length, 2 bytes | sealed bytes | tag, 16 bytes] ... --> socket
//!   socket --> arrived: [ ... ] --open--> [opened] --> where they belong
//! ```
//!
//! Both sides count records, and the count goes into the seal. A record that is changed, repeated, left out, moved or sent back does not
//! open, and the connection ends. A stream that is cut ends as one whose peer has gone.
//!
//! All memory is there from the start. No function allocates, locks or panics, so that a signal handler may call them.

use super::seal_keys::{SealKeys, TAG_LEN};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Most plain bytes of a record. Its seal costs little beside them, and the other side opens it while the next is under way.
pub(crate) const RECORD_LEN: usize = 16 << 10;

const PREFIX_LEN: usize = 2;
const SEALED_LEN_MAX: usize = RECORD_LEN + TAG_LEN;

/// Records that one system call moves.
const BATCH_COUNT: usize = 4;
const BATCH_LEN: usize = BATCH_COUNT * (PREFIX_LEN + SEALED_LEN_MAX);

/// A connection's keys and records under way. Some 160 KiB, of which the used part is resident.
pub(crate) struct Seal {
    keys: SealKeys,
    /// Records that were sealed, and records that were opened.
    sealed_count: u64,
    opened_count: u64,
    scratch: Box<[u8]>,
    unsent: Box<[u8]>,
    unsent_at: Range<usize>,
    arrived: Box<[u8]>,
    arrived_at: Range<usize>,
    opened: Box<[u8]>,
    opened_at: Range<usize>,
}

impl Seal {
    pub(crate) fn new(keys: SealKeys) -> Seal {
        let room = |len| vec![0; len].into_boxed_slice();
        Seal {
            keys,
            sealed_count: 0,
            opened_count: 0,
            scratch: room(RECORD_LEN),
            unsent: room(BATCH_LEN),
            unsent_at: 0..0,
            arrived: room(BATCH_LEN),
            arrived_at: 0..0,
            // Opening is in place, on the tag too.
            opened: room(SEALED_LEN_MAX),
            opened_at: 0..0,
        }
    }

    /// Room for the plain bytes of the next record; `None` where unsent bytes leave no room for one.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        let free = self.unsent.len() - self.unsent_at.end;
        (free >= PREFIX_LEN + SEALED_LEN_MAX).then_some(&mut self.scratch[..])
    }

    /// Seals the first `len` bytes of [`Seal::room`] and puts them behind the unsent bytes.
    ///
    /// **Errors**: `OVERFLOW` after 2^63 records.
    pub(crate) fn seal(&mut self, len: usize) -> Result<(), Errno> {
        let (prefix, sealed) = self.unsent[self.unsent_at.end..].split_at_mut(PREFIX_LEN);
        let sealed_len = self.keys.seal_record(self.sealed_count, &self.scratch[..len], sealed).map_err(|_| Errno::OVERFLOW)?;
        self.sealed_count += 1;
        prefix.copy_from_slice(&(sealed_len as u16).to_le_bytes());
        self.unsent_at.end += PREFIX_LEN + sealed_len;
        Ok(())
    }

    /// Sends as much as the socket takes. Returns true if all has left.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        while !self.unsent_at.is_empty() {
            match send(socket, &self.unsent[self.unsent_at.clone()], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(len) => self.unsent_at.start += len,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        self.unsent_at = 0..0;
        Ok(true)
    }

    /// Sealed bytes that the socket has not taken.
    pub(crate) fn unsent_len(&self) -> usize {
        self.unsent_at.len()
    }

    /// Bytes that were opened and not taken.
    pub(crate) fn opened(&self) -> &[u8] {
        &self.opened[self.opened_at.clone()]
    }

    pub(crate) fn take(&mut self, len: usize) {
        self.opened_at.start += len;
    }

    /// Opens the next record if it is here whole; all bytes of the record before have been taken.
    ///
    /// **Errors**: `BADMSG` where the record is not the other side's next one.
    pub(crate) fn open(&mut self) -> Result<bool, Errno> {
        let arrived = &self.arrived[self.arrived_at.clone()];
        let Some((prefix, rest)) = arrived.split_first_chunk::<PREFIX_LEN>() else { return Ok(false) };
        let len = usize::from(u16::from_le_bytes(*prefix));
        if !(TAG_LEN + 1..=SEALED_LEN_MAX).contains(&len) {
            return Err(Errno::BADMSG);
        }
        let Some(sealed) = rest.get(..len) else { return Ok(false) };
        let len_opened = self.keys.open_record(self.opened_count, sealed, &mut self.opened).map_err(|_| Errno::BADMSG)?;
        self.opened_count += 1;
        self.opened_at = 0..len_opened;
        self.arrived_at.start += PREFIX_LEN + len;
        Ok(true)
    }

    /// Receives by one call, when no whole record is here. Returns the number of bytes, 0 at the stream's end, and true if there may be
    /// more.
    pub(crate) fn fill(&mut self, socket: BorrowedFd<'_>) -> Result<(usize, bool), Errno> {
        // Less than a record: few bytes to move, and room for whole ones behind.
        self.arrived.copy_within(self.arrived_at.clone(), 0);
        self.arrived_at = 0..self.arrived_at.len();
        let room = &mut self.arrived[self.arrived_at.end..];
        let room_len = room.len();
        let (len, _) = recv(socket, room, RecvFlags::DONTWAIT)?;
        self.arrived_at.end += len;
        Ok((len, len == room_len))
    }

    /// True if part of a record has come.
    pub(crate) fn is_inside(&self) -> bool {
        !self.arrived_at.is_empty()
    }
}
