//! Messages to a service manager that asked for them (`NOTIFY_SOCKET`, `WATCHDOG_USEC`), as sd_notify(3) has it.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Tells the service manager of a change of state: `READY=1`, `STOPPING=1`, `WATCHDOG=1`. Without one it does nothing.
pub fn tell(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let name = name.to_string_lossy();
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&*name),
    };
    // A manager that does not listen is none.
    let _ = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
}

/// Time between signs of life for the watchdog: half of its time.
fn pace() -> Option<Duration> {
    let own = std::env::var("WATCHDOG_PID").ok().is_none_or(|pid| pid == std::process::id().to_string());
    let micros: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (own && micros > 1).then(|| Duration::from_micros(micros / 2))
}

/// Tells the watchdog as long as `is_well`; it ends the process where it hears nothing.
pub fn watch(is_well: impl Fn() -> bool + Send + 'static) -> std::io::Result<()> {
    let Some(pace) = pace() else { return Ok(()) };
    let tell_on = move || loop {
        if is_well() {
            tell("WATCHDOG=1");
        }
        std::thread::sleep(pace);
    };
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(tell_on).map(drop)
}
