//! The one way in and out of the library: every exported function runs its work inside [`enter`].

use crate::code;
use hanare_protocol::Error;
use hanare_protocol::error::Happened;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call of the C face fails.
#[derive(Debug)]
pub enum Failure {
    /// The pool refused.
    Pool(Error),
    /// An argument is `NULL`, not UTF-8, or means nothing.
    Argument(String),
    /// The call does not fit what was called before.
    Use(String),
    /// A region has no attribute of that name.
    Attribute {
        /// The region.
        region: String,
        /// The name.
        name: String,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Pool(error)
    }
}

/// Result of a call's work.
pub type Outcome<T = c_int> = Result<T, Failure>;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the work of the exported function `call`. A failure or a panic becomes a code, and its message the thread's
/// last error.
#[inline]
pub fn enter<T>(call: &'static str, work: impl FnOnce() -> Outcome<T>) -> Result<T, c_int> {
    // Unwind safety: state shared between calls is behind locks that are used after a poisoning too.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(on_failure(call, &failure)),
        Err(payload) => Err(on_panic(call, payload.as_ref())),
    }
}

/// [`enter`] for functions that return a code.
#[inline]
pub fn code_of(call: &'static str, work: impl FnOnce() -> Outcome) -> c_int {
    enter(call, work).unwrap_or_else(|code| code)
}

/// The message of this thread's last failed call.
pub fn last_message() -> String {
    LAST.try_with(|last| last.borrow().to_string_lossy().into_owned()).unwrap_or_default()
}

#[cold]
fn on_failure(call: &'static str, failure: &Failure) -> c_int {
    let (code, text) = match failure {
        Failure::Pool(error) => (code::of(error), in_c(error)),
        Failure::Argument(text) => (code::BAD_ARGUMENT, text.clone()),
        Failure::Use(text) => (code::BAD_USE, text.clone()),
        Failure::Attribute { region, name } => (code::NO_ATTRIBUTE, format!("region '{region}' has no attribute '{name}'")),
    };
    keep(format!("{call}: {text}"));
    code
}

/// An error's text, whose last part says what to do next in the words of this header.
fn in_c(error: &Error) -> String {
    let text = error.to_string();
    let next = match error {
        Error::NameTaken { .. } => "hanare_open opens it, hanare_create_or_attach takes it where the length is the same",
        Error::RegionLost { .. } => "hanare_remove it and hanare_create it again",
        Error::GrantRefused { .. } => "hanare_close the region and hanare_open it again",
        Error::IsMapped { .. } => "hanare_map_shared it here too, or wait for the last hanare_unmap",
        Error::PartyGone { .. } => "the next hanare_group_barrier of that name meets those who call it then",
        _ => return text,
    };
    let what = text.rsplit_once("; ").or_else(|| text.rsplit_once(": ")).map_or(text.as_str(), |(what, _)| what);
    format!("{what}; {next}")
}

#[cold]
fn on_panic(call: &'static str, payload: &(dyn Any + Send)) -> c_int {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    keep(format!("{call}: a defect of hanare was caught, please report it: {}", text.unwrap_or("no words")));
    code::DEFECT
}

fn keep(mut message: String) {
    message.retain(|character| character != '\0');
    let message = CString::new(message).unwrap_or_default();
    // At the end of a thread its message may be gone already: then nobody can ask for it either.
    let _ = LAST.try_with(|last| *last.borrow_mut() = message);
}

/// See `hanare.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_last_error() -> *const c_char {
    // The text's heap memory stays until the next failure replaces it.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// See `hanare.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_may_retry(code: c_int) -> c_int {
    c_int::from(code::may_retry(code))
}

/// See `hanare.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_happened(code: c_int) -> c_int {
    match code::happened(code) {
        Happened::No => 0,
        Happened::Yes => 1,
        Happened::Unknown => 2,
    }
}

/// See `hanare.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_strerror(code: c_int) -> *const c_char {
    code::entry(code).map_or(c"no code of hanare.h", |(_, words)| words).as_ptr()
}

/// See `hanare.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_code_name(code: c_int) -> *const c_char {
    code::entry(code).map_or(c"unknown", |(name, _)| name).as_ptr()
}

/// See `hanare.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_becomes_its_code_and_a_message_that_begins_with_the_call() {
        let failed = code_of("hanare_open", || Err(Error::UnknownRegion { name: "a".into() }.into()));
        assert_eq!(failed, -1);
        assert!(last_message().starts_with("hanare_open: region 'a' "), "{}", last_message());
        assert_eq!(code_of("hanare_put", || Ok(7)), 7);
        assert!(last_message().starts_with("hanare_open"), "success leaves the message");
    }

    #[test]
    fn what_to_do_next_is_told_in_calls_of_c() {
        for (error, call) in [
            (Error::NameTaken { name: "a".into(), len: 8 }, "; hanare_open "),
            (Error::RegionLost { region: "a".into(), node: hanare_protocol::id::NodeId(1) }, "; hanare_remove "),
            (Error::IsMapped { gid: hanare_protocol::id::Gid(1) }, "coherently; hanare_map_shared "),
        ] {
            let text = in_c(&error);
            assert!(text.contains(call) && text.matches("; ").count() == 1, "{text}");
        }
    }

    #[test]
    fn a_panic_stops_at_the_border() {
        let code = code_of("hanare_get", || panic!("index {} out of bounds", 3));
        assert_eq!(code, code::DEFECT);
        assert!(last_message().contains("hanare_get: a defect of hanare was caught, please report it: index 3"));
    }

    #[test]
    fn messages_are_each_threads_own() {
        code_of("hanare_stat", || Err(Failure::Argument("name is NULL".into())));
        std::thread::spawn(|| assert_eq!(last_message(), "")).join().unwrap();
        assert_eq!(last_message(), "hanare_stat: name is NULL");
    }
}
