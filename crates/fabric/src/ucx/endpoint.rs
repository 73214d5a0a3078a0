//! A link's worker and endpoint of UCX: sending and receiving by calls of the library.
//!
//! Each link has a worker of its own, which one thread at a time uses. The library works in these calls only. Callbacks from `progress`
//! take arriving frames.
//!
//! Safety invariants of this module:
//! 1. The worker and the endpoint are valid from `new` and `connect` to `drop`, which is the last to use them.
//! 2. `incoming` is reached by the callbacks, which run inside calls of the library only, and by `arrivals` below, whose
//!    reference never lives across such a call.
//! 3. Memory of a request stays mapped until the request is done, or the worker destroyed.
//! 4. Data of a frame is the library's, valid until it is released. Each is released once, before the worker is destroyed.

use super::Reason;
use super::arrivals::Arrivals;
use super::bindings::*;
#[cfg(test)]
use super::context::printed;
use super::context::{Context, check, words};
use super::cover::FrameCover;
use super::frame::{FRAME_LEN, FrameHead};
use hanare_memory::{Lost, Window, guard};
use std::cell::UnsafeCell;
use std::ffi::{c_uint, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// Hanare's number among UCX's active messages.
const AM_ID: c_uint = 0x48;

/// Time that an ended link waits for UCX to end its requests, before it ends the worker that has them. Version 1.13 forgets receives that
/// had begun when their endpoint was closed; later ones end all at once.
const CLOSE_TIME: Duration = Duration::from_millis(100);

/// Bytes of a frame.
pub(super) enum FrameData {
    /// Kept by UCX until they are given back.
    Lent { ptr: *mut c_void, len: usize },
    /// Bytes that were sealed.
    Opened(Vec<u8>),
}

impl FrameData {
    /// The bytes, to be read.
    pub(super) fn window(&self) -> Window {
        match self {
            // SAFETY: invariant 4; whoever has the data releases it after the window's use.
            FrameData::Lent { ptr, len } => unsafe { Window::new(ptr.cast(), *len) },
            // SAFETY: as above; nobody writes to the window.
            FrameData::Opened(plain) => unsafe { Window::of(FrameCover::opened(plain)) },
        }
    }
}

/// State that the callbacks work on.
struct FrameReceiver {
    arrivals: Arrivals<FrameData>,
    /// Opens frames, where they are sealed.
    opener: Option<Opener>,
}

struct Opener {
    cover: FrameCover,
    /// Memory of frames that are done with, for the next ones.
    spare: Vec<Vec<u8>>,
}

impl Opener {
    fn open(&mut self, head: &FrameHead, sealed: &[u8]) -> Option<(FrameData, usize)> {
        let mut plain = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(FRAME_LEN));
        let len = self.cover.open(head.seq, head.direct_len, sealed, &mut plain)?;
        Some((FrameData::Opened(plain), len))
    }
}

// SAFETY: the library keeps the bytes wherever they are read.
unsafe impl Send for FrameData {}

/// Something under way.
pub(super) struct Request(*mut c_void);

// SAFETY: a name that only the worker of its link understands.
unsafe impl Send for Request {}

/// Result of a call that sends or receives.
pub(super) enum Outcome {
    /// Done; with the number of received bytes.
    Done(usize),
    /// Going on: poll it until it is done.
    Pending(Request),
    /// Failed, in UCX's words.
    Failed(String),
}

/// A worker, and the endpoint to the peer once it is connected.
pub(super) struct Endpoint {
    context: &'static Context,
    worker: ucp_worker_h,
    ep: ucp_ep_h,
    incoming: Box<UnsafeCell<FrameReceiver>>,
}

// SAFETY: the worker is made for use by one thread at a time, from any; the rest is memory of its own.
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// A worker that takes frames with this token, sealed as told.
    pub(super) fn new(context: &'static Context, token: u64, cover: Option<FrameCover>) -> Result<Endpoint, Reason> {
        let ucp = context.ucp();
        // SAFETY: zeros are valid for every field; the mask names those that are set.
        let mut params: ucp_worker_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = u64::from(UCP_WORKER_PARAM_FIELD_THREAD_MODE);
        params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
        let mut worker = null_mut();
        // SAFETY: the context is valid, and the parameters and the place for the call.
        check(ucp, unsafe { ucp.ucp_worker_create(context.handle(), &params, &mut worker) }, "ucp_worker_create")?;
        let opener = cover.map(|cover| Opener { cover, spare: Vec::new() });
        let incoming = Box::new(UnsafeCell::new(FrameReceiver { arrivals: Arrivals::new(token), opener }));
        let endpoint = Endpoint { context, worker, ep: null_mut(), incoming };
        // SAFETY: as above.
        let mut params: ucp_am_handler_param_t = unsafe { std::mem::zeroed() };
        params.field_mask = u64::from(
            UCP_AM_HANDLER_PARAM_FIELD_ID
                | UCP_AM_HANDLER_PARAM_FIELD_FLAGS
                | UCP_AM_HANDLER_PARAM_FIELD_CB
                | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        );
        params.id = AM_ID;
        params.flags = UCP_AM_FLAG_PERSISTENT_DATA | UCP_AM_FLAG_WHOLE_MSG;
        params.cb = Some(on_frame);
        params.arg = endpoint.incoming.get().cast();
        // SAFETY: they stay where they are until the worker is destroyed.
        let status = unsafe { ucp.ucp_worker_set_am_recv_handler(worker, &params) };
        check(ucp, status, "ucp_worker_set_am_recv_handler")?;
        Ok(endpoint)
    }

    fn ucp(&self) -> &'static Ucp {
        self.context.ucp()
    }

    /// Address for the peer to connect to.
    pub(super) fn address(&self) -> Result<Vec<u8>, Reason> {
        let (mut address, mut len) = (null_mut(), 0);
        // SAFETY: the worker is valid; the address is copied before it is released.
        unsafe {
            check(self.ucp(), self.ucp().ucp_worker_get_address(self.worker, &mut address, &mut len), "ucp_worker_get_address")?;
            let bytes = std::slice::from_raw_parts(address.cast::<u8>(), len).to_vec();
            self.ucp().ucp_worker_release_address(self.worker, address);
            Ok(bytes)
        }
    }

    /// Makes the endpoint to the peer at `address`, which reports the peer's death.
    pub(super) fn connect(&mut self, address: &[u8]) -> Result<(), Reason> {
        // SAFETY: zeros are valid for every field; the mask names those that are set.
        let mut params: ucp_ep_params_t = unsafe { std::mem::zeroed() };
        params.field_mask =
            u64::from(UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER);
        params.address = address.as_ptr().cast();
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler = ucp_err_handler { cb: Some(on_broken), arg: self.incoming.get().cast() };
        // SAFETY: the worker is valid; the arrivals stay until the endpoint is closed; the peer made the address, which
        // this function has no way to check: a node has proved the pool's key, and a program's node has vouched for its connection.
        let status = unsafe { self.ucp().ucp_ep_create(self.worker, &params, &mut self.ep) };
        check(self.ucp(), status, "ucp_ep_create")
    }

    /// Arrived frames. The reference is let go of before the next call of the library.
    pub(super) fn arrivals(&mut self) -> &mut Arrivals<FrameData> {
        // SAFETY: invariant 2; no callback runs while `self` is borrowed, because only calls on `self` run them.
        unsafe { &mut (*self.incoming.get()).arrivals }
    }

    /// Moves what can be moved; `from` and `to` are the windows of requests under way.
    ///
    /// **Errors**: pages of the windows are lost.
    pub(super) fn progress(&mut self, from: Window, to: Window) -> Result<u32, Lost> {
        let mut count = 0;
        let (ucp, worker) = (self.ucp(), self.worker);
        // SAFETY: invariant 1; the library touches its own memory and that of requests, and callbacks do not panic.
        unsafe { guard::watch(from, to, || count = ucp.ucp_worker_progress(worker)) }?;
        Ok(count)
    }

    /// True if the thread may park on [`Endpoint::event`]. False: an event has come meanwhile.
    pub(super) fn arm(&mut self) -> Result<bool, String> {
        // SAFETY: invariant 1.
        match unsafe { self.ucp().ucp_worker_arm(self.worker) } {
            UCS_OK => Ok(true),
            UCS_ERR_BUSY => Ok(false),
            status => Err(words(self.ucp(), status)),
        }
    }

    /// The descriptor that is readable after `arm` when something happens.
    pub(super) fn event(&self) -> Result<BorrowedFd<'_>, Reason> {
        let mut fd = -1;
        // SAFETY: invariant 1; the descriptor is the worker's, open as long as it lives.
        unsafe {
            check(self.ucp(), self.ucp().ucp_worker_get_efd(self.worker, &mut fd), "ucp_worker_get_efd")?;
            Ok(BorrowedFd::borrow_raw(fd))
        }
    }

    /// Sends a frame. Both parts stay as they are until the request is done.
    ///
    /// # Safety
    /// Invariant 3, for both.
    pub(super) unsafe fn send_frame(&mut self, head: &[u8], data: Window) -> Outcome {
        let mut params = request_params();
        params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        params.flags = UCP_AM_SEND_FLAG_EAGER;
        // SAFETY: invariant 1, and the caller's promise.
        let status = unsafe {
            let (head, head_len) = (head.as_ptr().cast(), head.len());
            self.ucp().ucp_am_send_nbx(self.ep, AM_ID, head, head_len, data.ptr().cast(), data.len(), &params)
        };
        self.outcome(status, 0)
    }

    /// Sends a window's bytes from where they are to the peer's receive of the same tag.
    ///
    /// **Errors**: pages of the window are lost.
    ///
    /// # Safety
    /// Invariant 3.
    pub(super) unsafe fn send_direct(&mut self, from: Window, tag: u64) -> Result<Outcome, Lost> {
        let params = request_params();
        let (ucp, ep, mut status) = (self.ucp(), self.ep, null_mut());
        // SAFETY: invariant 1, and the caller's promise; the library touches the window and its own memory.
        unsafe {
            guard::watch(from, Window::empty(), || {
                status = ucp.ucp_tag_send_nbx(ep, from.ptr().cast(), from.len(), tag, &params);
            })
        }?;
        Ok(self.outcome(status, from.len()))
    }

    /// Receives what the peer sends by this tag where it belongs.
    ///
    /// **Errors**: pages of the window are lost.
    ///
    /// # Safety
    /// Invariant 3.
    pub(super) unsafe fn receive_direct(&mut self, to: Window, tag: u64) -> Result<Outcome, Lost> {
        let mut info = ucp_tag_recv_info_t { sender_tag: 0, length: 0 };
        let mut params = request_params();
        params.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
        params.recv_info.tag_info = &mut info;
        let (ucp, worker, mut status) = (self.ucp(), self.worker, null_mut());
        // SAFETY: as in `send_direct`; the place for the length is used before the call returns only.
        unsafe {
            guard::watch(Window::empty(), to, || {
                status = ucp.ucp_tag_recv_nbx(worker, to.ptr().cast(), to.len(), tag, u64::MAX, &params);
            })
        }?;
        Ok(self.outcome(status, info.length))
    }

    /// Meaning of a call's result: nothing, an error's number, or a request.
    fn outcome(&self, status: ucs_status_ptr_t, len: usize) -> Outcome {
        match status.addr() as isize {
            0 => Outcome::Done(len),
            error @ (-128..=-1) => Outcome::Failed(words(self.ucp(), error as ucs_status_t)),
            _ => Outcome::Pending(Request(status)),
        }
    }

    /// State of a request; one that is done is freed.
    pub(super) fn poll(&mut self, request: Request) -> Outcome {
        // SAFETY: the request is valid until it is freed here, which takes it.
        unsafe {
            match self.ucp().ucp_request_check_status(request.0) {
                UCS_INPROGRESS => Outcome::Pending(request),
                status => self.freed(request, status, 0),
            }
        }
    }

    /// [`Endpoint::poll`] for a request that receives.
    pub(super) fn poll_receive(&mut self, request: Request) -> Outcome {
        let mut info = ucp_tag_recv_info_t { sender_tag: 0, length: 0 };
        // SAFETY: as in `poll`.
        unsafe {
            match self.ucp().ucp_tag_recv_request_test(request.0, &mut info) {
                UCS_INPROGRESS => Outcome::Pending(request),
                status => self.freed(request, status, info.length),
            }
        }
    }

    /// # Safety
    /// The request is done.
    unsafe fn freed(&mut self, request: Request, status: ucs_status_t, len: usize) -> Outcome {
        // SAFETY: it is valid, and taken.
        unsafe { self.ucp().ucp_request_free(request.0) };
        if status == UCS_OK { Outcome::Done(len) } else { Outcome::Failed(words(self.ucp(), status)) }
    }

    /// Gives the bytes of a frame back.
    pub(super) fn release(&mut self, data: FrameData) {
        match data {
            // SAFETY: invariant 4.
            FrameData::Lent { ptr, .. } => unsafe { self.ucp().ucp_am_data_release(self.worker, ptr) },
            FrameData::Opened(plain) => {
                // SAFETY: invariant 2.
                if let Some(opener) = unsafe { &mut (*self.incoming.get()).opener } {
                    opener.spare.push(plain);
                }
            }
        }
    }

    /// Begins to wait until all sent bytes have left this process. The outcome is done when they have.
    pub(super) fn begin_flush(&mut self) -> Outcome {
        let params = request_params();
        // SAFETY: invariant 1.
        let status = unsafe { self.ucp().ucp_ep_flush_nbx(self.ep, &params) };
        self.outcome(status, 0)
    }

    /// [`Endpoint::begin_flush`], and waits for it until `end` at most; `to` is the window of receives under way.
    pub(super) fn flush(&mut self, end: Instant, to: Window) {
        let outcome = self.begin_flush();
        self.finish(outcome, end, (Window::empty(), to));
    }

    /// Moves on until a request is done or the time is over.
    fn finish(&mut self, mut outcome: Outcome, end: Instant, (from, to): (Window, Window)) {
        while let Outcome::Pending(request) = outcome {
            if Instant::now() >= end {
                return;
            }
            // Lost pages are no news: the link ends.
            let _ = self.progress(from, to);
            outcome = self.poll(request);
        }
    }

    /// Ends the endpoint at once, and every request with it, whose windows are `from` and `to`. Nothing uses them afterwards.
    pub(super) fn abandon(mut self, sends: Vec<Request>, receives: Vec<Request>, from: Window, to: Window) {
        for request in &receives {
            // SAFETY: the request is valid: it was not freed.
            unsafe { self.ucp().ucp_request_cancel(self.worker, request.0) };
        }
        self.close((from, to));
        let end = Instant::now() + CLOSE_TIME;
        let mut pending: Vec<Request> = sends.into_iter().chain(receives).collect();
        while !pending.is_empty() && Instant::now() < end {
            // Lost pages are no news: the link has ended.
            let _ = self.progress(from, to);
            let polled = pending.drain(..).map(|request| self.poll(request)).collect::<Vec<_>>();
            pending.extend(polled.into_iter().filter_map(|outcome| match outcome {
                Outcome::Pending(request) => Some(request),
                _ => None,
            }));
        }
        // Pending requests are the worker's, and end with it.
    }

    /// Closes the endpoint without a word to the peer.
    fn close(&mut self, windows: (Window, Window)) {
        let ep = std::mem::replace(&mut self.ep, null_mut());
        if ep.is_null() {
            return;
        }
        let mut params = request_params();
        params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        params.flags = UCP_EP_CLOSE_FLAG_FORCE;
        // SAFETY: the endpoint is valid, and not used again.
        let status = unsafe { self.ucp().ucp_ep_close_nbx(ep, &params) };
        let outcome = self.outcome(status, 0);
        self.finish(outcome, Instant::now() + CLOSE_TIME, windows);
    }

    /// From here on frames are kept as they are on the wire.
    #[cfg(test)]
    pub(super) fn listen(&mut self) {
        // SAFETY: invariant 2.
        unsafe { (*self.incoming.get()).opener = None };
    }

    /// The transports that this endpoint uses, in UCX's words.
    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        // SAFETY: the endpoint is valid, and the stream for the call.
        printed(|stream| unsafe { self.ucp().ucp_ep_print_info(self.ep, stream) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close((Window::empty(), Window::empty()));
        let held: Vec<FrameData> = self.arrivals().drain().collect();
        held.into_iter().for_each(|data| self.release(data));
        // SAFETY: the last use; the arrivals are dropped after it.
        unsafe { self.ucp().ucp_worker_destroy(self.worker) };
    }
}

/// Parameters of an operation on host memory: UCX need not look what memory it is.
fn request_params() -> ucp_request_param_t {
    // SAFETY: zeros are valid for every field; the mask names those that are set.
    let mut params: ucp_request_param_t = unsafe { std::mem::zeroed() };
    params.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    params
}

/// A frame has arrived.
unsafe extern "C" fn on_frame(
    incoming: *mut c_void,
    head: *const c_void,
    head_len: usize,
    data: *mut c_void,
    len: usize,
    param: *const ucp_am_recv_param_t,
) -> ucs_status_t {
    // SAFETY: invariant 2; the library's pointers are valid for the call, and a head may be missing.
    let (incoming, head, attributes) = unsafe {
        let head = if head.is_null() { &[] } else { std::slice::from_raw_parts(head.cast::<u8>(), head_len) };
        (&mut *incoming.cast::<FrameReceiver>(), head, (*param).recv_attr)
    };
    let may_keep = attributes & u64::from(UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
    let FrameReceiver { arrivals, opener } = incoming;
    if let Some(opener) = opener {
        arrivals.arrive_sealed(head, len, |head| {
            // SAFETY: the library's bytes are valid for the call; of a frame by rendezvous there are none.
            let sealed = unsafe { may_keep.then(|| std::slice::from_raw_parts(data.cast::<u8>(), len)) }?;
            opener.open(head, sealed)
        });
        return UCS_OK;
    }
    let is_kept = arrivals.arrive(head, len, || may_keep.then_some(FrameData::Lent { ptr: data, len }));
    if is_kept { UCS_INPROGRESS } else { UCS_OK }
}

/// The way to the peer has broken.
unsafe extern "C" fn on_broken(incoming: *mut c_void, _: ucp_ep_h, status: ucs_status_t) {
    // SAFETY: invariant 2.
    unsafe { &mut *incoming.cast::<FrameReceiver>() }.arrivals.broken.get_or_insert(status);
}
