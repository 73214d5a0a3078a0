//! Threads without which a process is of no use. A panic of one ends the process with one line, so that others take it for lost. A process
//! that lived on without the thread would keep its lease and answer nothing.

use std::cell::Cell;
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::Once;

thread_local! {
    static IS_VITAL: Cell<bool> = const { Cell::new(false) };
    /// Within [`caught`].
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Replaces the process's panic hook, once. Panics of threads that are not vital go on to the hook before.
fn take_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match (IS_CAUGHT.get(), IS_VITAL.get()) {
            (true, _) => {}
            (_, true) => end(panic),
            _ => others(panic),
        }));
    });
}

/// From here on a panic of the calling thread ends the process. Other threads panic as before.
///
/// The first call replaces the process's panic hook. Panics of other threads go on to the hook before.
pub fn is_vital() {
    take_hook();
    IS_VITAL.set(true);
}

/// Runs code of others that panics where a file is damaged. Prints nothing. **Errors**: the panic's message.
///
/// State that `work` changed and did not finish is not used any more.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    take_hook();
    let before = IS_CAUGHT.replace(true);
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    IS_CAUGHT.set(before);
    done.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        text.replace('\n', " ")
    })
}

fn end(panic: &PanicHookInfo<'_>) -> ! {
    let current = std::thread::current();
    let reason = panic.payload_as_str().unwrap_or("no reason given").replace('\n', " ");
    let at = panic.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
    let name = current.name().unwrap_or("a thread");
    let _ = writeln!(std::io::stderr(), "hanare: {name} failed, so this process ends: {reason}{at}");
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const INNER: &str = "HANARE_TEST_VITAL";

    #[test]
    fn what_is_caught_says_why_and_the_thread_goes_on() {
        assert_eq!(caught(|| 7), Ok(7));
        assert_eq!(caught(|| panic!("a\n{}", "b")), Err::<(), _>("a b".to_owned()));
    }

    #[test]
    fn a_panic_of_a_vital_thread_ends_the_process_with_one_line() {
        if std::env::var_os(INNER).is_some() {
            let vital = || {
                is_vital();
                // Another's panic is its own.
                assert!(std::thread::spawn(|| panic!("no matter")).join().is_err());
                panic!("first\nsecond");
            };
            let _ = std::thread::Builder::new().name("heart".to_owned()).spawn(vital).unwrap().join();
            unreachable!("the process has ended");
        }
        let name = "vital::tests::a_panic_of_a_vital_thread_ends_the_process_with_one_line";
        let mut inner = Command::new(std::env::current_exe().unwrap());
        let output = inner.args(["--exact", name, "--nocapture"]).env(INNER, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(rustix::process::Signal::ABORT.as_raw()));
        let told = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("hanare:")).collect();
        assert!(matches!(lines[..], [line] if line.contains("heart failed") && line.contains("first second")), "{told}");
    }
}
