//! Layers: a link over a link, that adds one thing.
//!
//! | layer | adds |
//! |---|---|
//! | [`Count`] | messages and bytes each way; cheap enough for always |
//! | [`Delay`] | time before a message leaves |
//! | [`Fault`] | closing, flipped bits, stalls, and messages lost, repeated, late or corrupt, under a seed |
//! | [`Retransmit`] | a link over a line that does all of that to messages |

mod alarm;
mod count;
mod delay;
mod fault;
mod lossy;
pub mod retransmit;

pub use count::{Count, Traffic};
pub use delay::Delay;
pub use fault::{Fault, FaultPlan};
pub use retransmit::Retransmit;

/// Methods of [`crate::Link`] that a layer leaves to the link in its field `link`.
macro_rules! pass_on {
    ($($method:ident)*) => { $( pass_on!(@ $method); )* };
    (@ unsent_len) => { fn unsent_len(&self) -> u64 { self.link.unsent_len() } };
    (@ event) => { fn event(&self) -> std::os::fd::BorrowedFd<'_> { self.link.event() } };
    (@ needs_write_event) => { fn needs_write_event(&self) -> bool { self.link.needs_write_event() } };
    (@ doze) => { fn doze(&mut self) -> bool { self.link.doze() } };
    (@ peer) => { fn peer(&self) -> &str { self.link.peer() } };
}
use pass_on;
