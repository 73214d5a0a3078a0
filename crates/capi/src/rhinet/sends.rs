//! `rhinet.h`, "Send".

use super::primitives::with;
use super::{CNet, Completing, lock};
use crate::argument::{bytes, bytes_mut, items, place, reference};
use crate::border::{Failure, Outcome, enter};
use crate::code;
use crate::sync::bound;
use hanare::{Body, Error, Message, Wanted};
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

/// All sends are of one context and tag, so that they come in their order.
const CONTEXT: u32 = 0;
const TAG: u32 = 0;
const WANTED: Wanted = Wanted { from: None, context: CONTEXT, tag: Some(TAG) };

/// Time that a party polls before it looks whether senders are there.
const POLLS: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(1);

/// `struct iovec` of the system.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CVector {
    base: *const c_void,
    len: usize,
}

impl CNet {
    fn send(&self, to: u32, bytes: &[u8]) -> Outcome<()> {
        Ok(self.mailbox.send(to, CONTEXT, TAG, &[], Body::Bytes(bytes))?)
    }

    /// The next message: one that found no room, or one that comes within the bound. And whether it is the former.
    fn next_message(&self, bound: Option<Duration>) -> Outcome<(Message, bool)> {
        if let Some(message) = lock(&self.next).pop_front() {
            return Ok((message, true));
        }
        let fresh = match self.waits_by {
            Completing::Sleep => self.mailbox.receive(WANTED, bound)?,
            Completing::Poll => self.poll(bound)?,
        };
        Ok((fresh, false))
    }

    /// **Source**: [RF §3.5] completion is polled for, with sched_yield between the looks.
    fn poll(&self, bound: Option<Duration>) -> hanare::Result<Message> {
        let receive = self.mailbox.post(WANTED)?;
        let (begun, mut looked) = (Instant::now(), Instant::now());
        let polled = loop {
            match self.mailbox.test(receive) {
                Ok(None) => {}
                Ok(Some(message)) => break Ok(message),
                Err(error) => break Err(error),
            }
            if bound.is_some_and(|bound| begun.elapsed() >= bound) {
                let after_ms = bound.map_or(0, |bound| bound.as_millis() as u64);
                break Err(Error::NotInTime { what: "a message".to_owned(), after_ms });
            }
            if looked.elapsed() < POLLS {
                std::thread::yield_now();
                continue;
            }
            looked = Instant::now();
            match self.mailbox.wait(receive, Some(LOOK)) {
                Err(Error::NotInTime { .. }) => {}
                other => break other,
            }
        };
        polled.or_else(|error| self.mailbox.take_back(receive)?.ok_or(error))
    }

    /// Receives the next message into `into`: who sent it, and how long it is. One that is longer stays the next.
    fn receive(&self, into: &mut [u8], bound: Option<Duration>) -> Outcome<(u32, usize)> {
        let (message, had_no_room) = self.next_message(bound)?;
        let (from, len) = (message.envelope().from, message.len());
        if len > into.len() as u64 {
            let mut next = lock(&self.next);
            if had_no_room {
                next.push_front(message)
            } else {
                next.push_back(message)
            }
            return Err(Failure::Argument(format!("the next message has {len} bytes, and there is room for {}", into.len())));
        }
        message.read(0, &mut into[..len as usize])?;
        // The length is at most a buffer's.
        Ok((from, len as usize))
    }
}

/// A count of bytes, or a code.
fn count_of(call: &'static str, work: impl FnOnce() -> Outcome<usize>) -> i64 {
    enter(call, work).map_or_else(i64::from, |len| i64::try_from(len).unwrap_or(i64::MAX))
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_register(net: *mut CNet, buffer: *mut c_void, len: usize) -> c_int {
    let register = |net: &CNet| {
        // SAFETY: the caller's bytes, which nobody looks at here.
        unsafe { bytes_mut(buffer.cast(), len, "buffer") }?;
        *lock(&net.buffer) = (buffer.expose_provenance(), len);
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("rhinet_register", net, register) }
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_send(net: *mut CNet, to: u32, from: *const c_void, len: usize) -> c_int {
    let send = |net: &CNet| {
        // SAFETY: the caller's bytes.
        net.send(to, unsafe { bytes(from.cast(), len, "from") }?)?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("rhinet_send", net, send) }
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_arrived(net: *mut CNet, bound_ms: u64, from: *mut u32, len: *mut usize) -> c_int {
    let arrived = |net: &CNet| {
        let (from_at, len_at) = (place(from, "from")?, place(len, "len")?);
        // Held meanwhile, so that no other thread puts a message there.
        let buffer = lock(&net.buffer);
        if buffer.1 == 0 {
            return Err(Failure::Use("no buffer is registered: call rhinet_register first".to_owned()));
        }
        // SAFETY: the caller's buffer, which is the library's during this call.
        let into = unsafe { bytes_mut(std::ptr::with_exposed_provenance_mut(buffer.0), buffer.1, "buffer") }?;
        let (from, len) = net.receive(into, bound(bound_ms))?;
        // SAFETY: not NULL, so they are the caller's variables.
        unsafe {
            from_at.write(from);
            len_at.write(len);
        }
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("rhinet_arrived", net, arrived) }
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_sendto(net: *mut CNet, from: *const c_void, len: usize, to: u32) -> i64 {
    count_of("rhinet_sendto", || {
        // SAFETY: the caller's handle and bytes.
        let (net, from) = unsafe { (reference(net, "net")?, bytes(from.cast(), len, "from")?) };
        net.send(to, from)?;
        Ok(len)
    })
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_sendmsg(net: *mut CNet, parts: *const CVector, count: usize, to: u32) -> i64 {
    count_of("rhinet_sendmsg", || {
        // SAFETY: the caller's handle and list.
        let (net, parts) = unsafe { (reference(net, "net")?, items(parts, count, "parts")?) };
        let mut whole = Vec::new();
        for part in parts {
            // SAFETY: the caller's bytes.
            whole.extend_from_slice(unsafe { bytes(part.base.cast(), part.len, "a part's base") }?);
        }
        net.send(to, &whole)?;
        Ok(whole.len())
    })
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_recvfrom(net: *mut CNet, into: *mut c_void, room: usize, from: *mut u32, bound_ms: u64) -> i64 {
    count_of("rhinet_recvfrom", || {
        // SAFETY: the caller's handle and bytes.
        let (net, into) = unsafe { (reference(net, "net")?, bytes_mut(into.cast(), room, "into")?) };
        let (sender, len) = net.receive(into, bound(bound_ms))?;
        if !from.is_null() {
            // SAFETY: the caller's variable.
            unsafe { from.write(sender) };
        }
        Ok(len)
    })
}
