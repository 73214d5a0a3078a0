//! The pages of a shared extent: on which of the hosts that map it each may be read or written.
//!
//! Pure rules. The extent's home has a [`Directory`]. Every host that maps the extent, the home's own included, has a word for each page
//! ([`word::PageWord`]). Its node follows [`Host`]. Nothing else decides about pages: the node, the threads of programs, the explorer and
//! the simulator drive these. The home's driver attaches a page to the messages that say [`ToHost::has_bytes`]. The host's rules read and
//! fill frames through their [`HostMemory`].
//!
//! | file | holds |
//! |---|---|
//! | `message` | messages between hosts and homes, versions, tickets |
//! | `directory/` | the home's side: requests served in order, one owner or many sharers, deaths, a home that is back |
//! | `word` | a page on one host in 64 bits, and the effect of each event on it |
//! | `host/` | the rules of a host's node: taking pages, grants for dead threads, messages that wait |
//! | `hosts`, `entries` | sets of hosts; the directory in 16 bytes a page |
//! | `moves` | counts of pages that went to and fro, for a search for false sharing |
//! | `hold_time` | which host may keep pages that go to and fro, and for how long |
//! | `direct` | grants that went to threads themselves, until they are acknowledged |
//! | `recalls` | stages of commands at the home, which wait for pages, and for how long |
//! | `reply` | grants that go with the reply to a thread's requests |
//! | `membership/` | how a host becomes a member of a region at its homes, and how that ends |
//! | `courier` | each message once, over connections that lose and repeat |
//! | `dialing` | when a connection to another node is made, made again, and given up with the node |
//! | `direct_access/` | the right of programs to memory past its pages, and its revocation |
//! | `install_steps` | the steps by which a thread takes a page into a frame |
//! | `streams` | which pages to fetch ahead |
//! | `consistency` | promises of a mapping |
//!
//! # Life of a fault
//!
//! ```text
//!  read, clean            read or write, dirty elsewhere          write, others have copies
//!
//!  host -Request-> home   host -Request-> home                    host -Request-> home
//!  host <--Grant-- home                   home --Forward-> owner  host <--Grant-- home --Invalidate-> sharers
//!                         host <--------------Grant------- owner  host <----------------Ack---------- sharers
//!                                         home <-WriteBack- owner (read)
//!                         host ---Done--> home (write)            host ---Done--> home
//! ```
//!
//! # Costs
//!
//! The table counts messages between hosts; a home and its own host have none. It counts how many carry the page, and how many follow one
//! another until the program goes on. `k` others have copies, none of them at home. Tests hold these numbers.
//!
//! | access | messages | pages | one after the other |
//! |---|---|---|---|
//! | to a page that is here in that way | 0 | 0 | 0 |
//! | read, remote, clean | 2 | 1 | 2 |
//! | read, remote, dirty in a third | 4 | 2 | 3 |
//! | read, own memory, dirty elsewhere | 2 | 1 | 2 |
//! | write, remote | 3 + 2k | 1, or 0 with a copy | 3, or 2 with k = 0 |
//! | write, remote, dirty in a third | 4 | 1 | 3 |
//! | write, own memory | 2k | 0 | 2, or 0 with k = 0 |
//! | write, own memory, dirty elsewhere | 2 | 1 | 2 |
//! | eviction of a copy; of an owned page | 0; 1 | 0; 1 | 0 |
//! | get or put by command at the home | as own memory | | |
//!
//! Acknowledgements go to the host that waits for them, not by the home: one message less on its way. A message is 32 bytes
//! at most beside the page. A `Done` is off the way: the program goes on without it, the next in the page's queue does not.
//!
//! # What the driver does
//!
//! - **Channels.** Messages of two live hosts arrive once each, in any order (grants and invalidations may use channels of
//!   their own). A [`Courier`] for each pair of nodes makes that of connections that break and come back. A
//!   [`ToHome::Request`] alone may be repeated freely ([`Host::part`]): its [`Ticket`] tells.
//! - **At home**, for each message: [`Directory::handle`]. If it was [`Heard::Acted`] and brought the page from another host, write the
//!   page into the extent. Then drain [`Directory::poll`], reading the page again for each output that carries it.
//! - **At a host**, for each message: [`Host::on_message`]. As long as [`Host::is_taking`], now and then [`Host::turn`]. It takes marked
//!   pages from the programs, through [`HostMemory::take`], as soon as nobody maps them. It hears waiting messages.
//! - **False sharing**: the home asks [`HoldTimes::on_demand`] for each [`ToHost::Forward`] and [`ToHost::Recall`] how long the owner may
//!   keep the page. It writes that into the message ([`ToHost::held_for`]). The host hears it by [`Host::on_message_at`], and gets
//!   [`Host::end_holds`] when [`Host::holds_until_us`] has come. A driver that does neither is correct, but slow where hosts write one
//!   page.
//! - **At a fault**, in the thread itself: [`word::PageWord::fault`], and the step that it returns. To make room: [`Host::evict`].
//! - **A program is gone**: [`Host::part`] goes on in the names of its threads. The home sends grants to threads that were not
//!   acknowledged to the node, once more.
//! - **A get or put at the home**: [`Directory::recall`] for each page, wait for [`directory::Output::Ready`], move the
//!   bytes, and [`Directory::release`] after a put. Where nobody has the page elsewhere that is at once. [`Recalls`] tells when all are
//!   there, and which pages to release.
//! - **A host is lost** (the membership says so): [`Directory::on_host_lost`] at each home whose extent it maps. From then on nothing of
//!   its epoch is passed on. [`Host::on_host_gone`] at each other host. A host that finds itself lost removes all pages from its programs,
//!   and forgets them, before it joins again.
//! - **The home's own host lets go of all**, because no program there maps the region any more: [`Directory::on_host_lost`] too. It comes
//!   again under the same number, and has nothing.
//! - **The home is lost**: [`Host::on_home_lost`]; present pages stay readable. The home may be back. So the home gets a page that another
//!   host passes on to one that no longer waits for it. It also gets pages on their way there.
//! - **A home finds that it was taken for lost**: its directory becomes a [`Returning`]. Each host gets a message, hands over
//!   ([`Host::hand_over`]), and leaves. When that is over the home begins again ([`Directory::after_return`]).
//! - A program that has just got a page should run before the page is taken again. A driver that turns some microseconds later delays a
//!   message, which is allowed. It saves programs that write to one page from never getting on.
//!
//! # What may fail
//!
//! A request is answered with the page, with [`Refusal::Lost`] (its newest bytes went with its owner), or with [`Refusal::Full`]. It is not
//! answered while a host that must give the page up is stopped but not yet lost. The lease bounds that.
//!
//! # Left for later
//!
//! *Updates in place of invalidations*: another way to serve [`Access::Write`] in `directory/serve.rs`, with a message of its
//! own beside [`ToHost::Invalidate`] that carries bytes; acknowledgements and `Done` stay. *Exclusive grants to lone readers*
//! (they would save the upgrade): `grant` in the same file. *Healing a lost page* by a put of all of it: [`Directory::recall`].

pub mod consistency;
pub mod courier;
pub mod dialing;
pub mod direct;
pub mod direct_access;
pub mod directory;
mod entries;
pub mod hold_time;
pub mod host;
pub mod hosts;
pub mod install_steps;
pub mod membership;
pub mod message;
pub mod moves;
pub mod own_page;
pub mod recalls;
pub mod reply;
pub mod streams;
pub mod word;

#[cfg(test)]
mod explore;
#[cfg(test)]
mod tests;

pub use consistency::Consistency;
pub use courier::{Answering, Courier, Receipt};
pub use dialing::Dialing;
pub use direct::{Again, Directs};
pub use directory::{Directory, Face, Heard, Returning};
pub use hold_time::HoldTimes;
pub use host::{Host, HostMemory, HostOutput, Plain};
pub use hosts::{HostId, Hosts};
pub use message::{Access, Page, Refusal, Ticket, ToHome, ToHost, Version};
pub use moves::Moves;
pub use recalls::Recalls;
pub use reply::PendingReply;
pub use streams::Streams;
