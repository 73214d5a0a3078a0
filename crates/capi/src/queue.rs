//! `hanare.h`, "Queues".

use crate::argument::{bytes, bytes_mut, give, place, reference, sized, take, text};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::naming::placement;
use crate::pool::CPool;
use crate::region::CRegion;
use crate::sync::bound;
use hanare::{CreateOptions, Overflow, Queue, QueueForm, ReadPort, Unit, Unread, WritePort};
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Target of `hanare_queue *`.
pub struct CQueue(Queue);

/// Target of `hanare_queue_writer *`.
pub struct CWriter(Mutex<WritePort>);

/// Target of `hanare_queue_reader *`.
pub struct CReader(Mutex<Reading>);

struct Reading {
    port: ReadPort,
    /// Units that were seen and not released, with copies of those that lie on another host.
    seen: Vec<(Unread, Box<[u8]>)>,
}

/// `hanare_queue_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CQueueOptions {
    struct_size: usize,
    block: u32,
    record: u32,
    depth: u32,
    ports: u32,
    overflow: c_int,
    mode: u32,
    count: u64,
    placement: *const c_char,
    copies: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn form(given: &CQueueOptions) -> Outcome<QueueForm> {
    let overflow = match given.overflow {
        0 => Overflow::Refuse,
        1 => Overflow::Wait,
        2 => Overflow::Spill,
        other => return Err(Failure::Argument(format!("options->overflow {other} is none of HANARE_OVERFLOW_…"))),
    };
    let unit = match (given.block, given.record) {
        (len, 0) => Unit::Blocks { len },
        (0, len_max) => Unit::Records { len_max },
        _ => return Err(Failure::Argument("options->block and options->record are both set: one of them is 0".to_owned())),
    };
    Ok(QueueForm { unit, depth: given.depth, ports: given.ports, overflow })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_create(
    pool: *mut CPool,
    name: *const c_char,
    options: *const CQueueOptions,
    queue: *mut *mut CQueue,
) -> c_int {
    code_of("hanare_queue_create", || {
        // SAFETY: the caller's handle, string and struct.
        let (pool, name, given) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?, sized(options, "options")?) };
        let into = place(queue, "queue")?;
        // SAFETY: the caller's string, or NULL.
        let placement = unsafe { placement(given.placement) }?;
        // A number above 255 is refused as too many copies.
        let copies = u8::try_from(given.copies).unwrap_or(u8::MAX);
        let how = CreateOptions { placement, mode: given.mode, copies, ..CreateOptions::default() };
        let queue = pool.create_queues(name, given.count, &form(&given)?, &how)?.queue(0)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CQueue(queue), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_make(region: *mut CRegion, offset: u64, options: *const CQueueOptions) -> c_int {
    code_of("hanare_queue_make", || {
        // SAFETY: the caller's handle and struct.
        let (region, given) = unsafe { (&reference(region, "region")?.region, sized(options, "options")?) };
        region.make_queues(offset, given.count, &form(&given)?)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_open(
    pool: *mut CPool,
    name: *const c_char,
    offset: u64,
    index: u64,
    queue: *mut *mut CQueue,
) -> c_int {
    code_of("hanare_queue_open", || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?) };
        let into = place(queue, "queue")?;
        let queue = pool.open_queues(name, offset)?.queue(index)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CQueue(queue), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_close(queue: *mut CQueue) -> c_int {
    code_of("hanare_queue_close", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(queue, "queue") }?);
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_waiting(queue: *mut CQueue, waiting: *mut u64) -> c_int {
    code_of("hanare_queue_waiting", || {
        // SAFETY: the caller's handle.
        let queue = unsafe { &reference(queue, "queue")?.0 };
        let into = place(waiting, "waiting")?;
        let stat = queue.stat()?;
        let bytes = || stat.lanes.iter().map(|lane| lane.bytes).sum();
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { into.write(stat.blocks(queue.form()).unwrap_or_else(bytes)) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_writer_open(queue: *mut CQueue, writer: *mut *mut CWriter) -> c_int {
    code_of("hanare_queue_writer_open", || {
        // SAFETY: the caller's handle.
        let queue = unsafe { &reference(queue, "queue")?.0 };
        let into = place(writer, "writer")?;
        let port = queue.writer()?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CWriter(Mutex::new(port)), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_writer_close(writer: *mut CWriter) -> c_int {
    code_of("hanare_queue_writer_close", || {
        // SAFETY: the header makes this the handle's last call.
        let writer = unsafe { take(writer, "writer") }?;
        writer.0.into_inner().unwrap_or_else(PoisonError::into_inner).close()?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_send(writer: *mut CWriter, unit: *const c_void, len: usize, bound_ms: u64) -> c_int {
    code_of("hanare_queue_send", || {
        // SAFETY: the caller's handle and bytes.
        let (writer, unit) = unsafe { (&reference(writer, "writer")?.0, bytes(unit.cast(), len, "unit")?) };
        lock(writer).send_within(unit, bound(bound_ms))?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_claim(writer: *mut CWriter, len: usize, bound_ms: u64, unit: *mut *mut c_void) -> c_int {
    code_of("hanare_queue_claim", || {
        // SAFETY: the caller's handle.
        let writer = unsafe { &reference(writer, "writer")?.0 };
        let into = place(unit, "unit")?;
        let mut port = lock(writer);
        port.claim(len, bound(bound_ms))?;
        // SAFETY: the header ends the pointer's life with the next call on the writer; the variable is the caller's.
        unsafe { into.write(port.window().ptr().cast()) };
        Ok(code::OK)
    })
}

/// Does something with a writer.
///
/// # Safety
/// The handle is `NULL` or valid.
unsafe fn with(call: &'static str, writer: *mut CWriter, what: impl FnOnce(&mut WritePort) -> hanare::Result<()>) -> c_int {
    code_of(call, || {
        // SAFETY: promised by the caller.
        what(&mut lock(unsafe { &reference(writer, "writer")?.0 }))?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_keep(writer: *mut CWriter) -> c_int {
    let keep = |port: &mut WritePort| {
        port.keep();
        Ok(())
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_queue_keep", writer, keep) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_commit(writer: *mut CWriter) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { with("hanare_queue_commit", writer, WritePort::commit) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_commit_nb(writer: *mut CWriter) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { with("hanare_queue_commit_nb", writer, WritePort::commit_started) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_abandon(writer: *mut CWriter) -> c_int {
    let abandon = |port: &mut WritePort| {
        port.abandon();
        Ok(())
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_queue_abandon", writer, abandon) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_reader_open(queue: *mut CQueue, reader: *mut *mut CReader) -> c_int {
    code_of("hanare_queue_reader_open", || {
        // SAFETY: the caller's handle.
        let queue = unsafe { &reference(queue, "queue")?.0 };
        let into = place(reader, "reader")?;
        let reading = Reading { port: queue.reader()?, seen: Vec::new() };
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CReader(Mutex::new(reading)), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_reader_close(reader: *mut CReader) -> c_int {
    code_of("hanare_queue_reader_close", || {
        // SAFETY: the header makes this the handle's last call.
        let reader = unsafe { take(reader, "reader") }?;
        reader.0.into_inner().unwrap_or_else(PoisonError::into_inner).port.close()?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_receive(
    reader: *mut CReader,
    into: *mut c_void,
    room: usize,
    len: *mut usize,
    bound_ms: u64,
) -> c_int {
    code_of("hanare_queue_receive", || {
        // SAFETY: the caller's handle and buffer.
        let (reader, into) = unsafe { (&reference(reader, "reader")?.0, bytes_mut(into.cast(), room, "into")?) };
        let told = place(len, "len")?;
        let mut reading = lock(reader);
        if !reading.seen.is_empty() {
            return Err(Failure::Use("units that were seen are not released: hanare_queue_release them first".to_owned()));
        }
        let unread = reading.port.see(bound(bound_ms))?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { told.write(unread.len()) };
        let Some(into) = into.get_mut(..unread.len()) else {
            reading.port.rewind();
            return Err(Failure::Argument(format!("the next unit has {} bytes, and into only {room}", unread.len())));
        };
        reading.port.read(&unread, 0, into);
        reading.port.free(&unread)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_see(
    reader: *mut CReader,
    bound_ms: u64,
    unit: *mut *const c_void,
    len: *mut usize,
) -> c_int {
    code_of("hanare_queue_see", || {
        // SAFETY: the caller's handle.
        let reader = unsafe { &reference(reader, "reader")?.0 };
        let (unit, len) = (place(unit, "unit")?, place(len, "len")?);
        let mut reading = lock(reader);
        let unread = reading.port.see(bound(bound_ms))?;
        // SAFETY: the header ends the pointer's life with hanare_queue_release.
        let here = unsafe { reading.port.window(&unread) }?;
        let mut copy = vec![0; if here.is_some() { 0 } else { unread.len() }].into_boxed_slice();
        reading.port.read(&unread, 0, &mut copy);
        let ptr = here.map_or(copy.as_ptr(), |window| window.ptr().cast_const());
        reading.seen.push((unread, copy));
        // SAFETY: not NULL, so they are the caller's variables. The copy stays where it is on the heap until it is released.
        unsafe {
            unit.write(ptr.cast());
            len.write(unread.len());
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_release(reader: *mut CReader) -> c_int {
    code_of("hanare_queue_release", || {
        // SAFETY: the caller's handle.
        let mut reading = lock(unsafe { &reference(reader, "reader")?.0 });
        for (unread, _) in std::mem::take(&mut reading.seen) {
            reading.port.free(&unread)?;
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_fd(reader: *mut CReader, fd: *mut c_int) -> c_int {
    code_of("hanare_queue_fd", || {
        // SAFETY: the caller's handle.
        let reader = unsafe { &reference(reader, "reader")?.0 };
        let into = place(fd, "fd")?;
        let mut reading = lock(reader);
        let event = reading.port.event()?;
        reading.port.arm()?;
        // SAFETY: not NULL, so it is the caller's variable. The port keeps the descriptor open.
        unsafe { into.write(event.as_raw_fd()) };
        Ok(code::OK)
    })
}
