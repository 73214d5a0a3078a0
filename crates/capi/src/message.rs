//! `hanare.h`, "Messages".

use crate::argument::{bytes, bytes_mut, give, items, place, reference, sized, take, text, write_sized};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::group::CGroup;
use crate::region::CRegion;
use crate::shape::{CShape, shape};
use crate::sync::bound;
use hanare::{Body, Envelope, LastingBody, Mailbox, MailboxOptions, Message, ReceiveId, SendId, Wanted};
use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};

/// Target of `hanare_mailbox *`.
pub struct CMailbox(Mailbox);

/// Target of `hanare_message *`.
pub struct CMessage(Message);

/// `hanare_envelope` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CEnvelope {
    struct_size: usize,
    from: u32,
    context: u32,
    tag: u32,
    head_len: u32,
    body_len: u64,
}

/// `hanare_mailbox_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CMailboxOptions {
    struct_size: usize,
    receive_len: u64,
    purpose: *const c_char,
    fetch_parts: u32,
}

impl CEnvelope {
    fn of(envelope: Envelope, head_len: usize, body_len: u64) -> CEnvelope {
        let Envelope { from, context, tag } = envelope;
        // A head is short.
        CEnvelope { struct_size: size_of::<CEnvelope>(), from, context, tag, head_len: head_len as u32, body_len }
    }
}

/// The messages that the header's numbers want; -1 is any.
fn want(from: i64, context: u32, tag: i64) -> Outcome<Wanted> {
    let number = |what: &str, number: i64| match number {
        -1 => Ok(None),
        _ => u32::try_from(number)
            .map(Some)
            .map_err(|_| Failure::Argument(format!("{what} {number} is neither a number nor HANARE_ANY"))),
    };
    Ok(Wanted { from: number("from", from)?, context, tag: number("tag", tag)? })
}

/// Does something with a mailbox.
///
/// # Safety
/// The handle is `NULL` or valid.
unsafe fn with(call: &'static str, mailbox: *mut CMailbox, what: impl FnOnce(&Mailbox) -> Outcome<c_int>) -> c_int {
    // SAFETY: promised by the caller.
    code_of(call, || what(unsafe { &reference(mailbox, "mailbox")?.0 }))
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_mailbox_open(group: *mut CGroup, receive_len: u64, mailbox: *mut *mut CMailbox) -> c_int {
    let options = MailboxOptions { receive_len, ..MailboxOptions::default() };
    // SAFETY: promised by the caller.
    code_of("hanare_mailbox_open", || unsafe { open(group, &options, mailbox) })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_mailbox_open_with(
    group: *mut CGroup,
    options: *const CMailboxOptions,
    mailbox: *mut *mut CMailbox,
) -> c_int {
    // SAFETY: promised by the caller, of the struct and of its string.
    code_of("hanare_mailbox_open_with", || unsafe {
        let CMailboxOptions { receive_len, purpose, fetch_parts, .. } = sized(options, "options")?;
        let purpose = if purpose.is_null() { "" } else { text(purpose, "options->purpose")? };
        open(group, &MailboxOptions { purpose, receive_len, fetch_parts: fetch_parts != 0 }, mailbox)
    })
}

/// # Safety
/// The handle is `NULL` or valid, and `mailbox` is `NULL` or valid for a write.
unsafe fn open(group: *mut CGroup, options: &MailboxOptions<'_>, mailbox: *mut *mut CMailbox) -> Outcome<c_int> {
    // SAFETY: promised by the caller.
    let group = unsafe { &reference(group, "group")?.0 };
    let into = place(mailbox, "mailbox")?;
    // SAFETY: not NULL, so it is the caller's variable.
    unsafe { give(CMailbox(group.mailbox_with(options)?), into) };
    Ok(code::OK)
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_mailbox_close(mailbox: *mut CMailbox) -> c_int {
    code_of("hanare_mailbox_close", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(mailbox, "mailbox") }?);
        Ok(code::OK)
    })
}

/// A message as the caller gives it.
struct Given {
    to: u32,
    context: u32,
    tag: u32,
    head: (*const c_void, usize),
    body: GivenBody,
}

enum GivenBody {
    Bytes(*const c_void, usize),
    Part(*mut CRegion, *const CShape),
}

impl Given {
    /// Sends it.
    ///
    /// # Safety
    /// The handles are `NULL` or valid; the bytes and the struct are as the header says.
    unsafe fn send(self, call: &'static str, mailbox: *mut CMailbox) -> c_int {
        let send = |mailbox: &Mailbox| {
            // SAFETY: promised by the caller.
            let (head, body) = unsafe { self.parts() }?;
            let body = match &body {
                LastingBody::Bytes(bytes) => Body::Bytes(bytes),
                LastingBody::Part(region, part) => Body::Part(region, part.clone()),
            };
            mailbox.send(self.to, self.context, self.tag, head, body)?;
            Ok(code::OK)
        };
        // SAFETY: promised by the caller.
        unsafe { with(call, mailbox, send) }
    }

    /// Begins to send it, and says by which number.
    ///
    /// # Safety
    /// Like [`Given::send`]; bytes of the body and the struct's index list do not change until the send's end was told. `send` is `NULL`
    /// or valid for a write.
    unsafe fn start(self, call: &'static str, mailbox: *mut CMailbox, send: *mut u64) -> c_int {
        let start = |mailbox: &Mailbox| {
            // SAFETY: promised by the caller.
            let (head, body) = unsafe { self.parts() }?;
            Ok(mailbox.start_send(self.to, self.context, self.tag, head, body)?.0)
        };
        // SAFETY: promised by the caller.
        unsafe { with(call, mailbox, |mailbox| numbered(send, "send", || start(mailbox))) }
    }

    /// The bytes of the head, and the body.
    ///
    /// # Safety
    /// Like [`Given::start`], for as long as the result is used.
    unsafe fn parts<'a>(&self) -> Outcome<(&'a [u8], LastingBody<'a>)> {
        // SAFETY: promised by the caller.
        unsafe {
            let head = bytes(self.head.0.cast(), self.head.1, "head")?;
            let body = match self.body {
                GivenBody::Bytes(body, len) => LastingBody::Bytes(Cow::Borrowed(bytes(body.cast(), len, "body")?)),
                GivenBody::Part(region, part) => LastingBody::Part(&reference(region, "region")?.region, shape(part, "part")?),
            };
            Ok((head, body))
        }
    }
}

/// Begins something that has a number, and writes that to the caller's variable.
///
/// # Safety
/// `into` is `NULL` or valid for a write.
unsafe fn numbered(into: *mut u64, what: &str, begin: impl FnOnce() -> Outcome<u64>) -> Outcome<c_int> {
    let into = place(into, what)?;
    let number = begin()?;
    // SAFETY: not NULL, so it is the caller's variable.
    unsafe { into.write(number) };
    Ok(code::OK)
}

/// The numbers that a call waits for: at least one.
///
/// # Safety
/// `count` numbers are readable there.
unsafe fn waited_for<T>(numbers: *const u64, count: usize, what: &str, of: impl Fn(u64) -> T) -> Outcome<Vec<T>> {
    // SAFETY: promised by the caller.
    let ids: Vec<T> = unsafe { items(numbers, count, what) }?.iter().map(|number| of(*number)).collect();
    match ids.is_empty() {
        true => Err(Failure::Argument("count is 0: nothing is waited for".to_owned())),
        false => Ok(ids),
    }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_mailbox_settle(mailbox: *mut CMailbox) -> c_int {
    let settle = |mailbox: &Mailbox| {
        mailbox.settle()?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_mailbox_settle", mailbox, settle) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_send(
    mailbox: *mut CMailbox,
    to: u32,
    context: u32,
    tag: u32,
    head: *const c_void,
    head_len: usize,
    body: *const c_void,
    body_len: usize,
) -> c_int {
    let given = Given { to, context, tag, head: (head, head_len), body: GivenBody::Bytes(body, body_len) };
    // SAFETY: the caller's handles, bytes and struct.
    unsafe { given.send("hanare_send", mailbox) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_send_nb(
    mailbox: *mut CMailbox,
    to: u32,
    context: u32,
    tag: u32,
    head: *const c_void,
    head_len: usize,
    body: *const c_void,
    body_len: usize,
    send: *mut u64,
) -> c_int {
    let given = Given { to, context, tag, head: (head, head_len), body: GivenBody::Bytes(body, body_len) };
    // SAFETY: the caller's handles, bytes and struct.
    unsafe { given.start("hanare_send_nb", mailbox, send) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_send_part(
    mailbox: *mut CMailbox,
    to: u32,
    context: u32,
    tag: u32,
    head: *const c_void,
    head_len: usize,
    region: *mut CRegion,
    part: *const CShape,
) -> c_int {
    let given = Given { to, context, tag, head: (head, head_len), body: GivenBody::Part(region, part) };
    // SAFETY: the caller's handles, bytes and struct.
    unsafe { given.send("hanare_send_part", mailbox) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_send_part_nb(
    mailbox: *mut CMailbox,
    to: u32,
    context: u32,
    tag: u32,
    head: *const c_void,
    head_len: usize,
    region: *mut CRegion,
    part: *const CShape,
    send: *mut u64,
) -> c_int {
    let given = Given { to, context, tag, head: (head, head_len), body: GivenBody::Part(region, part) };
    // SAFETY: the caller's handles, bytes and struct.
    unsafe { given.start("hanare_send_part_nb", mailbox, send) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait_sent(
    mailbox: *mut CMailbox,
    sends: *const u64,
    count: usize,
    bound_ms: u64,
    index: *mut usize,
) -> c_int {
    let wait = |mailbox: &Mailbox| {
        // SAFETY: the caller's numbers.
        let ids = unsafe { waited_for(sends, count, "sends", SendId) }?;
        let (found, outcome) = mailbox.wait_any_sent(&ids, bound(bound_ms))?;
        if !index.is_null() {
            // SAFETY: the caller's variable.
            unsafe { index.write(found) };
        }
        outcome?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_wait_sent", mailbox, wait) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_post(mailbox: *mut CMailbox, from: i64, context: u32, tag: i64, receive: *mut u64) -> c_int {
    let post = |mailbox: &Mailbox| Ok(mailbox.post(want(from, context, tag)?)?.0);
    // SAFETY: the caller's handle and variable.
    unsafe { with("hanare_post", mailbox, |mailbox| numbered(receive, "receive", || post(mailbox))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait_message(
    mailbox: *mut CMailbox,
    receives: *const u64,
    count: usize,
    bound_ms: u64,
    index: *mut usize,
    message: *mut *mut CMessage,
) -> c_int {
    let wait = |mailbox: &Mailbox| {
        let into = place(message, "message")?;
        // SAFETY: the caller's numbers.
        let ids = unsafe { waited_for(receives, count, "receives", ReceiveId) }?;
        let (found, received) = mailbox.wait_any(&ids, bound(bound_ms))?;
        // SAFETY: the caller's variables; the first may be NULL.
        unsafe {
            if !index.is_null() {
                index.write(found);
            }
            give(CMessage(received), into);
        }
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_wait_message", mailbox, wait) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_receive(
    mailbox: *mut CMailbox,
    from: i64,
    context: u32,
    tag: i64,
    bound_ms: u64,
    message: *mut *mut CMessage,
) -> c_int {
    let receive = |mailbox: &Mailbox| {
        let into = place(message, "message")?;
        let received = mailbox.receive(want(from, context, tag)?, bound(bound_ms))?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CMessage(received), into) };
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_receive", mailbox, receive) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_probe(
    mailbox: *mut CMailbox,
    from: i64,
    context: u32,
    tag: i64,
    envelope: *mut CEnvelope,
) -> c_int {
    let probe = |mailbox: &Mailbox| {
        let Some((found, head_len, body_len)) = mailbox.probe(want(from, context, tag)?)? else { return Ok(0) };
        // SAFETY: the caller's struct.
        unsafe { write_sized(&CEnvelope::of(found, head_len, body_len), envelope, "envelope")? };
        Ok(1)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_probe", mailbox, probe) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_cancel(mailbox: *mut CMailbox, receive: u64) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { with("hanare_cancel", mailbox, |mailbox| Ok(c_int::from(mailbox.cancel(ReceiveId(receive))?))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_message_envelope(
    message: *const CMessage,
    envelope: *mut CEnvelope,
    head: *mut *const c_void,
) -> c_int {
    code_of("hanare_message_envelope", || {
        // SAFETY: the caller's handle and struct; `head` is NULL or the caller's variable.
        unsafe {
            let message = &reference(message, "message")?.0;
            let told = CEnvelope::of(message.envelope(), message.head().len(), message.len());
            write_sized(&told, envelope, "envelope")?;
            if !head.is_null() {
                head.write(message.head().as_ptr().cast());
            }
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_message_read(message: *const CMessage, at: u64, into: *mut c_void, len: usize) -> c_int {
    code_of("hanare_message_read", || {
        // SAFETY: the caller's handle and bytes.
        let (message, into) = unsafe { (&reference(message, "message")?.0, bytes_mut(into.cast(), len, "into")?) };
        message.read(at, into)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_message_scatter(message: *const CMessage, region: *mut CRegion, blocks: *const CShape) -> c_int {
    code_of("hanare_message_scatter", || {
        // SAFETY: the caller's handles and struct.
        let (message, region, blocks) =
            unsafe { (&reference(message, "message")?.0, &reference(region, "region")?.region, shape(blocks, "blocks")?) };
        message.scatter(region, blocks)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_message_close(message: *mut CMessage) -> c_int {
    code_of("hanare_message_close", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(message, "message") }?);
        Ok(code::OK)
    })
}
