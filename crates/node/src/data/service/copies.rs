//! Extents with copies: writes of commands that go to copies first, and orders about them.

use super::{SeatedLink, ServiceLoop};
use crate::data::connection::Connection;
use crate::notices::ToControl;
use hanare_home::{CopyOutput, Input, Need, WireOutput};
use hanare_protocol::Error;
use hanare_protocol::wire::greeting::Role;

impl ServiceLoop {
    /// Has the write that a link waits for sent to copies. Returns what the link needs next, where it has nothing to wait for.
    pub(super) fn write_to_copies(&mut self, id: u64, need: &Need) -> Option<Need> {
        let seat = &mut self.places.get_mut(&id)?.seat;
        match seat.write() {
            Ok(Some(write)) => {
                let goes_ahead = seat.goes_ahead(&write);
                self.home.write(self.now, id, (need.gid, need.slot), write);
                if goes_ahead {
                    self.wake(id);
                }
                None
            }
            Ok(None) => {
                let reason = "a command on an extent with copies waits for no write".to_owned();
                self.go_on(id, Err(Error::System { what: "write to copies".to_owned(), reason }))
            }
            Err(error) => self.go_on(id, Err(error)),
        }
    }

    /// Does what homes and copies order.
    pub(super) fn do_copies(&mut self, output: CopyOutput<u64>) {
        match output {
            CopyOutput::Applied { asker, outcome } => {
                let next = self.places.get_mut(&asker).and_then(|place| place.seat.applied(self.now, outcome));
                self.wake(asker);
                if let Some(need) = next {
                    self.recall(asker, need);
                }
                // Words that requests wait for may have changed.
                self.tell_home(Input::Changed);
            }
            CopyOutput::Say { extent, message } => self.control.send(ToControl::Holder(extent, message)),
            CopyOutput::Wire(output) => self.do_wire(Role::Copies, output),
        }
    }

    /// Does what pages or copies order of connections between nodes.
    pub(super) fn do_wire(&mut self, role: Role, output: WireOutput) {
        match output {
            WireOutput::Dial { node, address } => self.peers.dial_wire(role, self.me, node, address),
            WireOutput::Send { place, bytes } => {
                let Some(SeatedLink { seat: Connection::Wire(_, wire), .. }) = self.places.get_mut(&place) else { return };
                match wire.send_bytes(bytes) {
                    Ok(()) => self.await_more(place),
                    Err(error) => self.end(place, &error),
                }
            }
            WireOutput::Close { place } => drop(self.unseat(place)),
        }
    }
}
