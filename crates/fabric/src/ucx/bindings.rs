//! The used part of UCX's interface, as bindgen 0.73.2 wrote it from the header of UCX 1.13.1, the oldest version supported.
//!
//! Made by this command, with the header of Debian's `libucx-dev`; never edited:
//!
//! ```sh
//! FUNCTIONS='ucp_get_version_string|ucp_config_(read|modify|release)|ucp_init_version|ucp_cleanup|ucp_context_print_info|ucp_worker_(create|destroy|get_address|release_address|get_efd|arm|progress|set_am_recv_handler)|ucp_am_(send_nbx|data_release)|ucp_tag_(send_nbx|recv_nbx|recv_request_test)|ucp_ep_(create|close_nbx|flush_nbx|print_info)|ucp_request_(check_status|cancel|free)|ucs_status_string'
//! ENUMS='ucp_(send_am_flags|feature|params_field|worker_params_field|wakeup_event_types|ep_params_field|err_handling_mode_t|am_cb_flags|am_recv_attr_t|am_handler_param_field|op_attr_t|ep_close_flags_t)|ucs_thread_mode_t'
//! bindgen /usr/include/ucp/api/ucp.h --dynamic-loading Ucp --dynamic-link-require-all --no-prepend-enum-name --no-doc-comments \
//!     --no-layout-tests --disable-header-comment --use-core --ctypes-prefix libc \
//!     --allowlist-function "$FUNCTIONS" --allowlist-type "$ENUMS" --allowlist-var 'UCP_API_(MAJOR|MINOR)' \
//!     --blocklist-type 'FILE|_IO.*|__off.*|.*socklen_t|sockaddr|sa_family_t' \
//!     --raw-line 'use libc::{FILE, sockaddr, socklen_t};'
//! ```
//!
//! The names are UCX's own, and so is the order.

#![allow(non_camel_case_types, non_upper_case_globals, missing_docs, dead_code)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]
#![cfg_attr(rustfmt, rustfmt_skip)]

use libc::{FILE, sockaddr, socklen_t};

pub const UCP_API_MAJOR: u32 = 1;
pub const UCP_API_MINOR: u32 = 13;
pub const UCS_MEMORY_TYPE_HOST: ucs_memory_type = 0;
pub const UCS_MEMORY_TYPE_CUDA: ucs_memory_type = 1;
pub const UCS_MEMORY_TYPE_CUDA_MANAGED: ucs_memory_type = 2;
pub const UCS_MEMORY_TYPE_ROCM: ucs_memory_type = 3;
pub const UCS_MEMORY_TYPE_ROCM_MANAGED: ucs_memory_type = 4;
pub const UCS_MEMORY_TYPE_LAST: ucs_memory_type = 5;
pub const UCS_MEMORY_TYPE_UNKNOWN: ucs_memory_type = 5;
pub type ucs_memory_type = libc::c_uint;
pub use self::ucs_memory_type as ucs_memory_type_t;
pub const UCS_OK: ucs_status_t = 0;
pub const UCS_INPROGRESS: ucs_status_t = 1;
pub const UCS_ERR_NO_MESSAGE: ucs_status_t = -1;
pub const UCS_ERR_NO_RESOURCE: ucs_status_t = -2;
pub const UCS_ERR_IO_ERROR: ucs_status_t = -3;
pub const UCS_ERR_NO_MEMORY: ucs_status_t = -4;
pub const UCS_ERR_INVALID_PARAM: ucs_status_t = -5;
pub const UCS_ERR_UNREACHABLE: ucs_status_t = -6;
pub const UCS_ERR_INVALID_ADDR: ucs_status_t = -7;
pub const UCS_ERR_NOT_IMPLEMENTED: ucs_status_t = -8;
pub const UCS_ERR_MESSAGE_TRUNCATED: ucs_status_t = -9;
pub const UCS_ERR_NO_PROGRESS: ucs_status_t = -10;
pub const UCS_ERR_BUFFER_TOO_SMALL: ucs_status_t = -11;
pub const UCS_ERR_NO_ELEM: ucs_status_t = -12;
pub const UCS_ERR_SOME_CONNECTS_FAILED: ucs_status_t = -13;
pub const UCS_ERR_NO_DEVICE: ucs_status_t = -14;
pub const UCS_ERR_BUSY: ucs_status_t = -15;
pub const UCS_ERR_CANCELED: ucs_status_t = -16;
pub const UCS_ERR_SHMEM_SEGMENT: ucs_status_t = -17;
pub const UCS_ERR_ALREADY_EXISTS: ucs_status_t = -18;
pub const UCS_ERR_OUT_OF_RANGE: ucs_status_t = -19;
pub const UCS_ERR_TIMED_OUT: ucs_status_t = -20;
pub const UCS_ERR_EXCEEDS_LIMIT: ucs_status_t = -21;
pub const UCS_ERR_UNSUPPORTED: ucs_status_t = -22;
pub const UCS_ERR_REJECTED: ucs_status_t = -23;
pub const UCS_ERR_NOT_CONNECTED: ucs_status_t = -24;
pub const UCS_ERR_CONNECTION_RESET: ucs_status_t = -25;
pub const UCS_ERR_FIRST_LINK_FAILURE: ucs_status_t = -40;
pub const UCS_ERR_LAST_LINK_FAILURE: ucs_status_t = -59;
pub const UCS_ERR_FIRST_ENDPOINT_FAILURE: ucs_status_t = -60;
pub const UCS_ERR_ENDPOINT_TIMEOUT: ucs_status_t = -80;
pub const UCS_ERR_LAST_ENDPOINT_FAILURE: ucs_status_t = -89;
pub const UCS_ERR_LAST: ucs_status_t = -100;
pub type ucs_status_t = libc::c_schar;
pub type ucs_status_ptr_t = *mut libc::c_void;
#[repr(C)]
pub struct ucs_sock_addr {
    pub addr: *const sockaddr,
    pub addrlen: socklen_t,
}
pub type ucs_sock_addr_t = ucs_sock_addr;
pub type ucp_tag_recv_info_t = ucp_tag_recv_info;
pub type ucp_am_recv_param_t = ucp_am_recv_param;
#[repr(C)]
#[derive(Debug)]
pub struct ucp_context {
    _unused: [u8; 0],
}
pub type ucp_context_h = *mut ucp_context;
#[repr(C)]
#[derive(Debug)]
pub struct ucp_config {
    _unused: [u8; 0],
}
pub type ucp_config_t = ucp_config;
#[repr(C)]
#[derive(Debug)]
pub struct ucp_ep {
    _unused: [u8; 0],
}
pub type ucp_ep_h = *mut ucp_ep;
#[repr(C)]
#[derive(Debug)]
pub struct ucp_conn_request {
    _unused: [u8; 0],
}
pub type ucp_conn_request_h = *mut ucp_conn_request;
#[repr(C)]
#[derive(Debug)]
pub struct ucp_address {
    _unused: [u8; 0],
}
pub type ucp_address_t = ucp_address;
pub const UCP_ERR_HANDLING_MODE_NONE: ucp_err_handling_mode_t = 0;
pub const UCP_ERR_HANDLING_MODE_PEER: ucp_err_handling_mode_t = 1;
pub type ucp_err_handling_mode_t = libc::c_uint;
#[repr(C)]
#[derive(Debug)]
pub struct ucp_mem {
    _unused: [u8; 0],
}
pub type ucp_mem_h = *mut ucp_mem;
#[repr(C)]
#[derive(Debug)]
pub struct ucp_worker {
    _unused: [u8; 0],
}
pub type ucp_worker_h = *mut ucp_worker;
pub type ucp_tag_t = u64;
pub type ucp_datatype_t = u64;
pub type ucp_request_init_callback_t = ::core::option::Option<unsafe extern "C" fn(request: *mut libc::c_void)>;
pub type ucp_request_cleanup_callback_t = ::core::option::Option<unsafe extern "C" fn(request: *mut libc::c_void)>;
pub type ucp_send_nbx_callback_t =
    ::core::option::Option<unsafe extern "C" fn(request: *mut libc::c_void, status: ucs_status_t, user_data: *mut libc::c_void)>;
pub type ucp_err_handler_cb_t =
    ::core::option::Option<unsafe extern "C" fn(arg: *mut libc::c_void, ep: ucp_ep_h, status: ucs_status_t)>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ucp_err_handler {
    pub cb: ucp_err_handler_cb_t,
    pub arg: *mut libc::c_void,
}
pub type ucp_err_handler_t = ucp_err_handler;
pub type ucp_stream_recv_nbx_callback_t = ::core::option::Option<
    unsafe extern "C" fn(request: *mut libc::c_void, status: ucs_status_t, length: usize, user_data: *mut libc::c_void),
>;
pub type ucp_tag_recv_nbx_callback_t = ::core::option::Option<
    unsafe extern "C" fn(
        request: *mut libc::c_void,
        status: ucs_status_t,
        tag_info: *const ucp_tag_recv_info_t,
        user_data: *mut libc::c_void,
    ),
>;
pub type ucp_am_recv_data_nbx_callback_t = ::core::option::Option<
    unsafe extern "C" fn(request: *mut libc::c_void, status: ucs_status_t, length: usize, user_data: *mut libc::c_void),
>;
pub const UCP_WAKEUP_RMA: ucp_wakeup_event_types = 1;
pub const UCP_WAKEUP_AMO: ucp_wakeup_event_types = 2;
pub const UCP_WAKEUP_TAG_SEND: ucp_wakeup_event_types = 4;
pub const UCP_WAKEUP_TAG_RECV: ucp_wakeup_event_types = 8;
pub const UCP_WAKEUP_TX: ucp_wakeup_event_types = 1024;
pub const UCP_WAKEUP_RX: ucp_wakeup_event_types = 2048;
pub const UCP_WAKEUP_EDGE: ucp_wakeup_event_types = 65536;
pub type ucp_wakeup_event_types = libc::c_uint;
pub type ucp_am_recv_callback_t = ::core::option::Option<
    unsafe extern "C" fn(
        arg: *mut libc::c_void,
        header: *const libc::c_void,
        header_length: usize,
        data: *mut libc::c_void,
        length: usize,
        param: *const ucp_am_recv_param_t,
    ) -> ucs_status_t,
>;
#[repr(C)]
pub struct ucp_ep_params {
    pub field_mask: u64,
    pub address: *const ucp_address_t,
    pub err_mode: ucp_err_handling_mode_t,
    pub err_handler: ucp_err_handler_t,
    pub user_data: *mut libc::c_void,
    pub flags: libc::c_uint,
    pub sockaddr: ucs_sock_addr_t,
    pub conn_request: ucp_conn_request_h,
    pub name: *const libc::c_char,
    pub local_sockaddr: ucs_sock_addr_t,
}
pub type ucp_ep_params_t = ucp_ep_params;
pub const UCS_THREAD_MODE_SINGLE: ucs_thread_mode_t = 0;
pub const UCS_THREAD_MODE_SERIALIZED: ucs_thread_mode_t = 1;
pub const UCS_THREAD_MODE_MULTI: ucs_thread_mode_t = 2;
pub const UCS_THREAD_MODE_LAST: ucs_thread_mode_t = 3;
pub type ucs_thread_mode_t = libc::c_uint;
pub type ucs_cpu_mask_t = libc::c_ulong;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ucs_cpu_set_t {
    pub ucs_bits: [ucs_cpu_mask_t; 16usize],
}
pub const UCP_PARAM_FIELD_FEATURES: ucp_params_field = 1;
pub const UCP_PARAM_FIELD_REQUEST_SIZE: ucp_params_field = 2;
pub const UCP_PARAM_FIELD_REQUEST_INIT: ucp_params_field = 4;
pub const UCP_PARAM_FIELD_REQUEST_CLEANUP: ucp_params_field = 8;
pub const UCP_PARAM_FIELD_TAG_SENDER_MASK: ucp_params_field = 16;
pub const UCP_PARAM_FIELD_MT_WORKERS_SHARED: ucp_params_field = 32;
pub const UCP_PARAM_FIELD_ESTIMATED_NUM_EPS: ucp_params_field = 64;
pub const UCP_PARAM_FIELD_ESTIMATED_NUM_PPN: ucp_params_field = 128;
pub const UCP_PARAM_FIELD_NAME: ucp_params_field = 256;
pub type ucp_params_field = libc::c_uint;
pub const UCP_FEATURE_TAG: ucp_feature = 1;
pub const UCP_FEATURE_RMA: ucp_feature = 2;
pub const UCP_FEATURE_AMO32: ucp_feature = 4;
pub const UCP_FEATURE_AMO64: ucp_feature = 8;
pub const UCP_FEATURE_WAKEUP: ucp_feature = 16;
pub const UCP_FEATURE_STREAM: ucp_feature = 32;
pub const UCP_FEATURE_AM: ucp_feature = 64;
pub type ucp_feature = libc::c_uint;
pub const UCP_WORKER_PARAM_FIELD_THREAD_MODE: ucp_worker_params_field = 1;
pub const UCP_WORKER_PARAM_FIELD_CPU_MASK: ucp_worker_params_field = 2;
pub const UCP_WORKER_PARAM_FIELD_EVENTS: ucp_worker_params_field = 4;
pub const UCP_WORKER_PARAM_FIELD_USER_DATA: ucp_worker_params_field = 8;
pub const UCP_WORKER_PARAM_FIELD_EVENT_FD: ucp_worker_params_field = 16;
pub const UCP_WORKER_PARAM_FIELD_FLAGS: ucp_worker_params_field = 32;
pub const UCP_WORKER_PARAM_FIELD_NAME: ucp_worker_params_field = 64;
pub const UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT: ucp_worker_params_field = 128;
pub const UCP_WORKER_PARAM_FIELD_CLIENT_ID: ucp_worker_params_field = 256;
pub type ucp_worker_params_field = libc::c_uint;
pub const UCP_EP_PARAM_FIELD_REMOTE_ADDRESS: ucp_ep_params_field = 1;
pub const UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE: ucp_ep_params_field = 2;
pub const UCP_EP_PARAM_FIELD_ERR_HANDLER: ucp_ep_params_field = 4;
pub const UCP_EP_PARAM_FIELD_USER_DATA: ucp_ep_params_field = 8;
pub const UCP_EP_PARAM_FIELD_SOCK_ADDR: ucp_ep_params_field = 16;
pub const UCP_EP_PARAM_FIELD_FLAGS: ucp_ep_params_field = 32;
pub const UCP_EP_PARAM_FIELD_CONN_REQUEST: ucp_ep_params_field = 64;
pub const UCP_EP_PARAM_FIELD_NAME: ucp_ep_params_field = 128;
pub const UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR: ucp_ep_params_field = 256;
pub type ucp_ep_params_field = libc::c_uint;
pub const UCP_EP_CLOSE_FLAG_FORCE: ucp_ep_close_flags_t = 1;
pub type ucp_ep_close_flags_t = libc::c_uint;
pub const UCP_AM_FLAG_WHOLE_MSG: ucp_am_cb_flags = 1;
pub const UCP_AM_FLAG_PERSISTENT_DATA: ucp_am_cb_flags = 2;
pub type ucp_am_cb_flags = libc::c_uint;
pub const UCP_AM_SEND_FLAG_REPLY: ucp_send_am_flags = 1;
pub const UCP_AM_SEND_FLAG_EAGER: ucp_send_am_flags = 2;
pub const UCP_AM_SEND_FLAG_RNDV: ucp_send_am_flags = 4;
pub const UCP_AM_SEND_REPLY: ucp_send_am_flags = 1;
pub type ucp_send_am_flags = libc::c_uint;
pub const UCP_OP_ATTR_FIELD_REQUEST: ucp_op_attr_t = 1;
pub const UCP_OP_ATTR_FIELD_CALLBACK: ucp_op_attr_t = 2;
pub const UCP_OP_ATTR_FIELD_USER_DATA: ucp_op_attr_t = 4;
pub const UCP_OP_ATTR_FIELD_DATATYPE: ucp_op_attr_t = 8;
pub const UCP_OP_ATTR_FIELD_FLAGS: ucp_op_attr_t = 16;
pub const UCP_OP_ATTR_FIELD_REPLY_BUFFER: ucp_op_attr_t = 32;
pub const UCP_OP_ATTR_FIELD_MEMORY_TYPE: ucp_op_attr_t = 64;
pub const UCP_OP_ATTR_FIELD_RECV_INFO: ucp_op_attr_t = 128;
pub const UCP_OP_ATTR_FIELD_MEMH: ucp_op_attr_t = 256;
pub const UCP_OP_ATTR_FLAG_NO_IMM_CMPL: ucp_op_attr_t = 65536;
pub const UCP_OP_ATTR_FLAG_FAST_CMPL: ucp_op_attr_t = 131072;
pub const UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL: ucp_op_attr_t = 262144;
pub const UCP_OP_ATTR_FLAG_MULTI_SEND: ucp_op_attr_t = 524288;
pub type ucp_op_attr_t = libc::c_uint;
pub const UCP_AM_RECV_ATTR_FIELD_REPLY_EP: ucp_am_recv_attr_t = 1;
pub const UCP_AM_RECV_ATTR_FLAG_DATA: ucp_am_recv_attr_t = 65536;
pub const UCP_AM_RECV_ATTR_FLAG_RNDV: ucp_am_recv_attr_t = 131072;
pub type ucp_am_recv_attr_t = libc::c_uint;
pub const UCP_AM_HANDLER_PARAM_FIELD_ID: ucp_am_handler_param_field = 1;
pub const UCP_AM_HANDLER_PARAM_FIELD_FLAGS: ucp_am_handler_param_field = 2;
pub const UCP_AM_HANDLER_PARAM_FIELD_CB: ucp_am_handler_param_field = 4;
pub const UCP_AM_HANDLER_PARAM_FIELD_ARG: ucp_am_handler_param_field = 8;
pub type ucp_am_handler_param_field = libc::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ucp_params {
    pub field_mask: u64,
    pub features: u64,
    pub request_size: usize,
    pub request_init: ucp_request_init_callback_t,
    pub request_cleanup: ucp_request_cleanup_callback_t,
    pub tag_sender_mask: u64,
    pub mt_workers_shared: libc::c_int,
    pub estimated_num_eps: usize,
    pub estimated_num_ppn: usize,
    pub name: *const libc::c_char,
}
pub type ucp_params_t = ucp_params;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ucp_worker_params {
    pub field_mask: u64,
    pub thread_mode: ucs_thread_mode_t,
    pub cpu_mask: ucs_cpu_set_t,
    pub events: libc::c_uint,
    pub user_data: *mut libc::c_void,
    pub event_fd: libc::c_int,
    pub flags: u64,
    pub name: *const libc::c_char,
    pub am_alignment: usize,
    pub client_id: u64,
}
pub type ucp_worker_params_t = ucp_worker_params;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ucp_tag_recv_info {
    pub sender_tag: ucp_tag_t,
    pub length: usize,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ucp_request_param_t {
    pub op_attr_mask: u32,
    pub flags: u32,
    pub request: *mut libc::c_void,
    pub cb: ucp_request_param_t__bindgen_ty_1,
    pub datatype: ucp_datatype_t,
    pub user_data: *mut libc::c_void,
    pub reply_buffer: *mut libc::c_void,
    pub memory_type: ucs_memory_type_t,
    pub recv_info: ucp_request_param_t__bindgen_ty_2,
    pub memh: ucp_mem_h,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ucp_request_param_t__bindgen_ty_1 {
    pub send: ucp_send_nbx_callback_t,
    pub recv: ucp_tag_recv_nbx_callback_t,
    pub recv_stream: ucp_stream_recv_nbx_callback_t,
    pub recv_am: ucp_am_recv_data_nbx_callback_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ucp_request_param_t__bindgen_ty_2 {
    pub length: *mut usize,
    pub tag_info: *mut ucp_tag_recv_info_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ucp_am_handler_param {
    pub field_mask: u64,
    pub id: libc::c_uint,
    pub flags: u32,
    pub cb: ucp_am_recv_callback_t,
    pub arg: *mut libc::c_void,
}
pub type ucp_am_handler_param_t = ucp_am_handler_param;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ucp_am_recv_param {
    pub recv_attr: u64,
    pub reply_ep: ucp_ep_h,
}
pub struct Ucp {
    __library: ::libloading::Library,
    pub ucs_status_string: unsafe extern "C" fn(status: ucs_status_t) -> *const libc::c_char,
    pub ucp_config_read: unsafe extern "C" fn(
        env_prefix: *const libc::c_char,
        filename: *const libc::c_char,
        config_p: *mut *mut ucp_config_t,
    ) -> ucs_status_t,
    pub ucp_config_release: unsafe extern "C" fn(config: *mut ucp_config_t),
    pub ucp_config_modify:
        unsafe extern "C" fn(config: *mut ucp_config_t, name: *const libc::c_char, value: *const libc::c_char) -> ucs_status_t,
    pub ucp_get_version_string: unsafe extern "C" fn() -> *const libc::c_char,
    pub ucp_init_version: unsafe extern "C" fn(
        api_major_version: libc::c_uint,
        api_minor_version: libc::c_uint,
        params: *const ucp_params_t,
        config: *const ucp_config_t,
        context_p: *mut ucp_context_h,
    ) -> ucs_status_t,
    pub ucp_cleanup: unsafe extern "C" fn(context_p: ucp_context_h),
    pub ucp_context_print_info: unsafe extern "C" fn(context: ucp_context_h, stream: *mut FILE),
    pub ucp_worker_create: unsafe extern "C" fn(
        context: ucp_context_h,
        params: *const ucp_worker_params_t,
        worker_p: *mut ucp_worker_h,
    ) -> ucs_status_t,
    pub ucp_worker_destroy: unsafe extern "C" fn(worker: ucp_worker_h),
    pub ucp_worker_get_address: unsafe extern "C" fn(
        worker: ucp_worker_h,
        address_p: *mut *mut ucp_address_t,
        address_length_p: *mut usize,
    ) -> ucs_status_t,
    pub ucp_worker_release_address: unsafe extern "C" fn(worker: ucp_worker_h, address: *mut ucp_address_t),
    pub ucp_worker_progress: unsafe extern "C" fn(worker: ucp_worker_h) -> libc::c_uint,
    pub ucp_worker_get_efd: unsafe extern "C" fn(worker: ucp_worker_h, fd: *mut libc::c_int) -> ucs_status_t,
    pub ucp_worker_arm: unsafe extern "C" fn(worker: ucp_worker_h) -> ucs_status_t,
    pub ucp_ep_create:
        unsafe extern "C" fn(worker: ucp_worker_h, params: *const ucp_ep_params_t, ep_p: *mut ucp_ep_h) -> ucs_status_t,
    pub ucp_ep_close_nbx: unsafe extern "C" fn(ep: ucp_ep_h, param: *const ucp_request_param_t) -> ucs_status_ptr_t,
    pub ucp_ep_print_info: unsafe extern "C" fn(ep: ucp_ep_h, stream: *mut FILE),
    pub ucp_ep_flush_nbx: unsafe extern "C" fn(ep: ucp_ep_h, param: *const ucp_request_param_t) -> ucs_status_ptr_t,
    pub ucp_worker_set_am_recv_handler:
        unsafe extern "C" fn(worker: ucp_worker_h, param: *const ucp_am_handler_param_t) -> ucs_status_t,
    pub ucp_am_send_nbx: unsafe extern "C" fn(
        ep: ucp_ep_h,
        id: libc::c_uint,
        header: *const libc::c_void,
        header_length: usize,
        buffer: *const libc::c_void,
        count: usize,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t,
    pub ucp_am_data_release: unsafe extern "C" fn(worker: ucp_worker_h, data: *mut libc::c_void),
    pub ucp_tag_send_nbx: unsafe extern "C" fn(
        ep: ucp_ep_h,
        buffer: *const libc::c_void,
        count: usize,
        tag: ucp_tag_t,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t,
    pub ucp_tag_recv_nbx: unsafe extern "C" fn(
        worker: ucp_worker_h,
        buffer: *mut libc::c_void,
        count: usize,
        tag: ucp_tag_t,
        tag_mask: ucp_tag_t,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t,
    pub ucp_request_check_status: unsafe extern "C" fn(request: *mut libc::c_void) -> ucs_status_t,
    pub ucp_tag_recv_request_test:
        unsafe extern "C" fn(request: *mut libc::c_void, info: *mut ucp_tag_recv_info_t) -> ucs_status_t,
    pub ucp_request_cancel: unsafe extern "C" fn(worker: ucp_worker_h, request: *mut libc::c_void),
    pub ucp_request_free: unsafe extern "C" fn(request: *mut libc::c_void),
}
impl Ucp {
    pub unsafe fn new<P>(path: P) -> Result<Self, ::libloading::Error>
    where
        P: AsRef<::std::ffi::OsStr>,
    {
        let path = path.as_ref();
        let library = ::libloading::Library::new(path)?;
        Self::from_library(library)
    }
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let ucs_status_string = __library.get(b"ucs_status_string\0").map(|sym| *sym)?;
        let ucp_config_read = __library.get(b"ucp_config_read\0").map(|sym| *sym)?;
        let ucp_config_release = __library.get(b"ucp_config_release\0").map(|sym| *sym)?;
        let ucp_config_modify = __library.get(b"ucp_config_modify\0").map(|sym| *sym)?;
        let ucp_get_version_string = __library.get(b"ucp_get_version_string\0").map(|sym| *sym)?;
        let ucp_init_version = __library.get(b"ucp_init_version\0").map(|sym| *sym)?;
        let ucp_cleanup = __library.get(b"ucp_cleanup\0").map(|sym| *sym)?;
        let ucp_context_print_info = __library.get(b"ucp_context_print_info\0").map(|sym| *sym)?;
        let ucp_worker_create = __library.get(b"ucp_worker_create\0").map(|sym| *sym)?;
        let ucp_worker_destroy = __library.get(b"ucp_worker_destroy\0").map(|sym| *sym)?;
        let ucp_worker_get_address = __library.get(b"ucp_worker_get_address\0").map(|sym| *sym)?;
        let ucp_worker_release_address = __library.get(b"ucp_worker_release_address\0").map(|sym| *sym)?;
        let ucp_worker_progress = __library.get(b"ucp_worker_progress\0").map(|sym| *sym)?;
        let ucp_worker_get_efd = __library.get(b"ucp_worker_get_efd\0").map(|sym| *sym)?;
        let ucp_worker_arm = __library.get(b"ucp_worker_arm\0").map(|sym| *sym)?;
        let ucp_ep_create = __library.get(b"ucp_ep_create\0").map(|sym| *sym)?;
        let ucp_ep_close_nbx = __library.get(b"ucp_ep_close_nbx\0").map(|sym| *sym)?;
        let ucp_ep_print_info = __library.get(b"ucp_ep_print_info\0").map(|sym| *sym)?;
        let ucp_ep_flush_nbx = __library.get(b"ucp_ep_flush_nbx\0").map(|sym| *sym)?;
        let ucp_worker_set_am_recv_handler = __library.get(b"ucp_worker_set_am_recv_handler\0").map(|sym| *sym)?;
        let ucp_am_send_nbx = __library.get(b"ucp_am_send_nbx\0").map(|sym| *sym)?;
        let ucp_am_data_release = __library.get(b"ucp_am_data_release\0").map(|sym| *sym)?;
        let ucp_tag_send_nbx = __library.get(b"ucp_tag_send_nbx\0").map(|sym| *sym)?;
        let ucp_tag_recv_nbx = __library.get(b"ucp_tag_recv_nbx\0").map(|sym| *sym)?;
        let ucp_request_check_status = __library.get(b"ucp_request_check_status\0").map(|sym| *sym)?;
        let ucp_tag_recv_request_test = __library.get(b"ucp_tag_recv_request_test\0").map(|sym| *sym)?;
        let ucp_request_cancel = __library.get(b"ucp_request_cancel\0").map(|sym| *sym)?;
        let ucp_request_free = __library.get(b"ucp_request_free\0").map(|sym| *sym)?;
        Ok(Ucp {
            __library,
            ucs_status_string,
            ucp_config_read,
            ucp_config_release,
            ucp_config_modify,
            ucp_get_version_string,
            ucp_init_version,
            ucp_cleanup,
            ucp_context_print_info,
            ucp_worker_create,
            ucp_worker_destroy,
            ucp_worker_get_address,
            ucp_worker_release_address,
            ucp_worker_progress,
            ucp_worker_get_efd,
            ucp_worker_arm,
            ucp_ep_create,
            ucp_ep_close_nbx,
            ucp_ep_print_info,
            ucp_ep_flush_nbx,
            ucp_worker_set_am_recv_handler,
            ucp_am_send_nbx,
            ucp_am_data_release,
            ucp_tag_send_nbx,
            ucp_tag_recv_nbx,
            ucp_request_check_status,
            ucp_tag_recv_request_test,
            ucp_request_cancel,
            ucp_request_free,
        })
    }
    pub unsafe fn ucs_status_string(&self, status: ucs_status_t) -> *const libc::c_char {
        (self.ucs_status_string)(status)
    }
    pub unsafe fn ucp_config_read(
        &self,
        env_prefix: *const libc::c_char,
        filename: *const libc::c_char,
        config_p: *mut *mut ucp_config_t,
    ) -> ucs_status_t {
        (self.ucp_config_read)(env_prefix, filename, config_p)
    }
    pub unsafe fn ucp_config_release(&self, config: *mut ucp_config_t) {
        (self.ucp_config_release)(config)
    }
    pub unsafe fn ucp_config_modify(
        &self,
        config: *mut ucp_config_t,
        name: *const libc::c_char,
        value: *const libc::c_char,
    ) -> ucs_status_t {
        (self.ucp_config_modify)(config, name, value)
    }
    pub unsafe fn ucp_get_version_string(&self) -> *const libc::c_char {
        (self.ucp_get_version_string)()
    }
    pub unsafe fn ucp_init_version(
        &self,
        api_major_version: libc::c_uint,
        api_minor_version: libc::c_uint,
        params: *const ucp_params_t,
        config: *const ucp_config_t,
        context_p: *mut ucp_context_h,
    ) -> ucs_status_t {
        (self.ucp_init_version)(api_major_version, api_minor_version, params, config, context_p)
    }
    pub unsafe fn ucp_cleanup(&self, context_p: ucp_context_h) {
        (self.ucp_cleanup)(context_p)
    }
    pub unsafe fn ucp_context_print_info(&self, context: ucp_context_h, stream: *mut FILE) {
        (self.ucp_context_print_info)(context, stream)
    }
    pub unsafe fn ucp_worker_create(
        &self,
        context: ucp_context_h,
        params: *const ucp_worker_params_t,
        worker_p: *mut ucp_worker_h,
    ) -> ucs_status_t {
        (self.ucp_worker_create)(context, params, worker_p)
    }
    pub unsafe fn ucp_worker_destroy(&self, worker: ucp_worker_h) {
        (self.ucp_worker_destroy)(worker)
    }
    pub unsafe fn ucp_worker_get_address(
        &self,
        worker: ucp_worker_h,
        address_p: *mut *mut ucp_address_t,
        address_length_p: *mut usize,
    ) -> ucs_status_t {
        (self.ucp_worker_get_address)(worker, address_p, address_length_p)
    }
    pub unsafe fn ucp_worker_release_address(&self, worker: ucp_worker_h, address: *mut ucp_address_t) {
        (self.ucp_worker_release_address)(worker, address)
    }
    pub unsafe fn ucp_worker_progress(&self, worker: ucp_worker_h) -> libc::c_uint {
        (self.ucp_worker_progress)(worker)
    }
    pub unsafe fn ucp_worker_get_efd(&self, worker: ucp_worker_h, fd: *mut libc::c_int) -> ucs_status_t {
        (self.ucp_worker_get_efd)(worker, fd)
    }
    pub unsafe fn ucp_worker_arm(&self, worker: ucp_worker_h) -> ucs_status_t {
        (self.ucp_worker_arm)(worker)
    }
    pub unsafe fn ucp_ep_create(
        &self,
        worker: ucp_worker_h,
        params: *const ucp_ep_params_t,
        ep_p: *mut ucp_ep_h,
    ) -> ucs_status_t {
        (self.ucp_ep_create)(worker, params, ep_p)
    }
    pub unsafe fn ucp_ep_close_nbx(&self, ep: ucp_ep_h, param: *const ucp_request_param_t) -> ucs_status_ptr_t {
        (self.ucp_ep_close_nbx)(ep, param)
    }
    pub unsafe fn ucp_ep_print_info(&self, ep: ucp_ep_h, stream: *mut FILE) {
        (self.ucp_ep_print_info)(ep, stream)
    }
    pub unsafe fn ucp_ep_flush_nbx(&self, ep: ucp_ep_h, param: *const ucp_request_param_t) -> ucs_status_ptr_t {
        (self.ucp_ep_flush_nbx)(ep, param)
    }
    pub unsafe fn ucp_worker_set_am_recv_handler(
        &self,
        worker: ucp_worker_h,
        param: *const ucp_am_handler_param_t,
    ) -> ucs_status_t {
        (self.ucp_worker_set_am_recv_handler)(worker, param)
    }
    pub unsafe fn ucp_am_send_nbx(
        &self,
        ep: ucp_ep_h,
        id: libc::c_uint,
        header: *const libc::c_void,
        header_length: usize,
        buffer: *const libc::c_void,
        count: usize,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t {
        (self.ucp_am_send_nbx)(ep, id, header, header_length, buffer, count, param)
    }
    pub unsafe fn ucp_am_data_release(&self, worker: ucp_worker_h, data: *mut libc::c_void) {
        (self.ucp_am_data_release)(worker, data)
    }
    pub unsafe fn ucp_tag_send_nbx(
        &self,
        ep: ucp_ep_h,
        buffer: *const libc::c_void,
        count: usize,
        tag: ucp_tag_t,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t {
        (self.ucp_tag_send_nbx)(ep, buffer, count, tag, param)
    }
    pub unsafe fn ucp_tag_recv_nbx(
        &self,
        worker: ucp_worker_h,
        buffer: *mut libc::c_void,
        count: usize,
        tag: ucp_tag_t,
        tag_mask: ucp_tag_t,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t {
        (self.ucp_tag_recv_nbx)(worker, buffer, count, tag, tag_mask, param)
    }
    pub unsafe fn ucp_request_check_status(&self, request: *mut libc::c_void) -> ucs_status_t {
        (self.ucp_request_check_status)(request)
    }
    pub unsafe fn ucp_tag_recv_request_test(&self, request: *mut libc::c_void, info: *mut ucp_tag_recv_info_t) -> ucs_status_t {
        (self.ucp_tag_recv_request_test)(request, info)
    }
    pub unsafe fn ucp_request_cancel(&self, worker: ucp_worker_h, request: *mut libc::c_void) {
        (self.ucp_request_cancel)(worker, request)
    }
    pub unsafe fn ucp_request_free(&self, request: *mut libc::c_void) {
        (self.ucp_request_free)(request)
    }
}
