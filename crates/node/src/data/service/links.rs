//! Connections of writers that readers of queues get: a program dials the node, which greets it as always, and hands the connection to the program of
//! this host that reads the queue.
//!
//! ```text
//! reader:  Request::Link, a socket ──> a door                writer:  a connection as Role::Link, with the number of its write port
//!                     door <── HandOver, descriptor ──────── its lane is linked
//! ```
//!
//! The node keeps nothing of a connection that it has handed over. The kernel closes it when either program ends.

use super::{AT_ONCE, SeatedLink, ServiceLoop, system};
use crate::data::connection::Connection;
use crate::notices::ToControl;
use hanare_fabric::control_socket::FrameSocket;
use hanare_fabric::tcp::Greeted;
use hanare_home::{LaneAt, LinkBegin};
use hanare_protocol::id::{ClientId, Gid, Rights};
use hanare_protocol::queue::PortId;
use hanare_protocol::queue::link::PROGRAM_SOCKET_COUNT;
use hanare_protocol::wire::control::Answer;
use hanare_protocol::wire::link::{HandOver, LinkSocket};
use hanare_protocol::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The sockets on which readers get connections, by region, array and queue.
#[derive(Default)]
pub(super) struct LinkSockets(BTreeMap<(Gid, u64, u64), ReaderSocket>);

struct ReaderSocket {
    client: ClientId,
    socket: FrameSocket,
}

impl ReaderSocket {
    /// True if the reader has closed its end.
    fn is_closed(&self) -> bool {
        let mut watched = [PollFd::new(&self.socket, PollFlags::empty())];
        !matches!(poll(&mut watched, Some(&AT_ONCE)), Ok(0))
    }
}

impl LinkSockets {
    /// A client has ended.
    pub fn close(&mut self, client: ClientId) {
        self.0.retain(|_, door| door.client != client);
    }

    /// **Errors**: [`Error::LimitReached`] where the client has too many.
    fn enter(&mut self, key: (Gid, u64, u64), door: ReaderSocket) -> Result<()> {
        self.0.retain(|_, other| other.client != door.client || !other.is_closed());
        if self.0.values().filter(|other| other.client == door.client).count() >= PROGRAM_SOCKET_COUNT {
            let what = "queues of one program whose writers have links".to_owned();
            return Err(Error::LimitReached { what, limit: PROGRAM_SOCKET_COUNT as u64 });
        }
        self.0.insert(key, door);
        Ok(())
    }
}

impl ServiceLoop {
    /// A client wants links to a queue that it reads.
    pub(super) fn open_door(&mut self, client: ClientId, door: LinkSocket, socket: OwnedFd) {
        let result = self.enter_door(client, &door, socket).map(|()| Answer::Ok);
        self.control.send(ToControl::Shared { client, result, fds: Vec::new() });
    }

    fn enter_door(&mut self, client: ClientId, door: &LinkSocket, socket: OwnedFd) -> Result<()> {
        let LinkSocket { array, queue, reader } = door;
        let held = self.extents.hold(array.slot, array.grant, Rights::Write)?;
        held.check_links()?;
        held.with_queues(array.offset, |home| home.check_reads(*queue, PortId(*reader)))?;
        let failed = |errno: rustix::io::Errno| system("take a socket over", errno);
        rustix::io::ioctl_fionbio(&socket, true).map_err(failed)?;
        self.link_sockets.enter((held.gid(), array.offset, *queue), ReaderSocket { client, socket: FrameSocket::polled(socket) })
    }

    /// A program has a connection for the reader of its queue. Where that cannot have it, it is closed, and the program goes by the node.
    pub(super) fn hand_over(&mut self, greeted: Greeted) {
        let writer = PortId(greeted.hello.from);
        let Some(at) = self.home.lane_of(writer).filter(|at| self.is_of(at.link, ClientId(greeted.hello.client))) else {
            return tracing::debug!("a connection was closed: its program writes to no queue here by that number");
        };
        if let Err(reason) = self.hand_to_reader(at, writer, greeted) {
            tracing::debug!("a connection of a queue's writer was closed: {reason}");
        }
    }

    fn is_of(&self, link: u64, client: ClientId) -> bool {
        matches!(self.places.get(&link), Some(SeatedLink { seat: Connection::Client(session), .. }) if session.client() == client)
    }

    fn hand_to_reader(&mut self, at: LaneAt, writer: PortId, greeted: Greeted) -> Result<(), String> {
        let LaneAt { gid, slot, at, queue, lane, .. } = at;
        let key = (gid, at, queue);
        let door = self.link_sockets.0.get_mut(&key).filter(|door| !door.socket.has_unsent()).ok_or("its reader takes none")?;
        let opened = self.extents.find(gid, slot).ok_or("its region was removed")?;
        opened.held().check_links().map_err(|error| error.to_string())?;
        let begun = opened.held().with_queues(at, |home| home.link_lane(queue, lane, writer));
        let begin = begun.map_err(|error| error.to_string())?.ok_or("its lane cannot have one just now")?;
        let handed = greeted.hand_over();
        let LinkBegin { generation, accepted, tail } = begin;
        let said = HandOver { lane, writer: writer.0, generation, accepted, tail, keys: handed.keys, peer: handed.peer };
        let sent = door.socket.send(&said, vec![handed.fd]);
        let told = opened.held().with_queues(at, |home| {
            if sent.is_err() {
                home.unlink_lane(queue, lane, writer);
            }
            home.tell_link(queue);
            Ok(())
        });
        if sent.is_err() {
            self.link_sockets.0.remove(&key);
        }
        sent.map_err(|error| error.to_string()).and_then(|()| told.map_err(|error| error.to_string()))
    }
}
