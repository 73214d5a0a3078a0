//! Extents with copies: writes of commands that go to copies first, and orders about them.

use super::{SeatedLink, ServiceLoop};
use crate::data::connection::Connection;
use crate::notices::ToControl;
use hanare_home::{CopyOutput, Input, Need, WireOutput};
use hanare_protocol::Result;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::greeting::Role;

impl ServiceLoop {
    /// The write that a link's commands wait for, if it is to an extent with copies. The command's own extent says that: the home may have
    /// let go of it meanwhile, and no byte is written there any more.
    pub(super) fn write_of(&mut self, id: u64) -> Result<Option<ExtentWrite>> {
        self.places.get_mut(&id).map_or(Ok(None), |place| place.seat.write())
    }

    /// Has that write sent to copies.
    pub(super) fn write_to_copies(&mut self, id: u64, need: &Need, write: ExtentWrite) {
        let goes_ahead = self.places.get_mut(&id).is_some_and(|place| place.seat.goes_ahead(&write));
        self.home.write(self.now, id, (need.gid, need.slot), write);
        if goes_ahead {
            self.wake(id);
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
            WireOutput::Send { place, frame } => {
                let Some(SeatedLink { seat: Connection::Wire(_, wire), .. }) = self.places.get_mut(&place) else { return };
                match wire.send_frame(frame) {
                    Ok(()) => self.await_more(place),
                    Err(error) => self.end(place, &error),
                }
            }
            WireOutput::Close { place } => drop(self.unseat(place)),
        }
    }
}
