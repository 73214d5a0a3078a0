//! Hooks of a face of another language around steps that wait for a node, or move much: Python gives its interpreter's lock to others.

/// Around such steps. No lock of a dictionary is held while one is called.
pub trait Waiter: Send + Sync {
    /// Runs a step that may last.
    fn wait<T: Send>(&self, step: impl FnOnce() -> T + Send) -> T;

    /// Asked between the parts of long work: whether it goes on. The call ends with [`NotInTime`](hanare::Error::NotInTime) where it does not.
    fn goes_on(&self) -> bool {
        true
    }
}

/// Waits where it was called.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here;

impl Waiter for Here {
    fn wait<T: Send>(&self, step: impl FnOnce() -> T + Send) -> T {
        step()
    }
}

/// Runs a step, by the waiter where it may last.
pub fn step<W: Waiter, T: Send>(waiter: &W, may_last: bool, work: impl FnOnce() -> T + Send) -> T {
    if may_last { waiter.wait(work) } else { work() }
}
