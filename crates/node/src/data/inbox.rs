//! The buffers of a link's messages, and the windows where [`hanare_home::Incoming`] says that bytes belong.

use super::execution::CommandExtents;
use crate::extents::Extents;
use crate::pages::SealedReply;
use hanare_fabric::{Refusal, Sink};
use hanare_home::{Buffers, Destination, LinkCommands};
use hanare_memory::Window;
use hanare_protocol::id::{ClientId, User};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::control::CommandOrigin;
use hanare_protocol::wire::face::ProgramFace;
use hanare_protocol::wire::head::Head;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The sink of one link.
pub(crate) struct Inbox {
    pub commands: LinkCommands<CommandExtents, SealedReply>,
    /// Commands of the message under way, or the body of a query: the first bytes of a room that stays.
    front: Vec<u8>,
    front_len: usize,
    lists: Vec<u64>,
    pub stage: Vec<u8>,
}

impl Inbox {
    /// An inbox for a link of that program, or of a node. Its commands count for no face until the program tells one.
    pub fn new(extents: Arc<Extents>, from: CommandOrigin, (client, user): (ClientId, User)) -> Inbox {
        let faces = extents.counts.of(user.uid);
        let counts = faces.of(if client == ClientId(0) { ProgramFace::Node } else { ProgramFace::Unknown });
        let commands = LinkCommands::new(CommandExtents { extents, client, from, faces, counts });
        Inbox { commands, front: Vec::new(), front_len: 0, lists: Vec::new(), stage: Vec::new() }
    }
}

// SAFETY: windows are of extents that the commands keep alive until the message is whole, or of buffers of this inbox that stay as they
// are until the link asks again; the session drops the link before the inbox.
unsafe impl Sink for Inbox {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        let buffers = Buffers { front: &self.front[..self.front_len], lists: &self.lists, stage: &self.stage };
        let incoming = &mut self.commands.incoming;
        let destination = incoming.place(head, at, buffers).map_err(|malformed| Refusal(malformed.0.to_owned()))?;
        Ok(match destination {
            Destination::Front(len) => {
                self.lists.clear();
                self.front_len = len as usize;
                // Bytes that the link fills anyway are not zeroed each time.
                self.front.resize(self.front.len().max(self.front_len), 0);
                // SAFETY: the buffer is not touched until the link has filled it and asks again, or is dropped.
                unsafe { Window::of_mut(&mut self.front[..self.front_len]) }
            }
            Destination::Lists(len) => {
                self.lists.resize(len as usize / 8, 0);
                // SAFETY: as for the front.
                unsafe { Window::of_mut(self.lists.as_mut_bytes()) }
            }
            Destination::Extent { offset, len } => {
                let opened = &incoming.current().expect("its bytes come").extent().opened;
                opened.held().will_write([(offset, len)]);
                opened.stays().expect("only memory that stays is filled in place").slice(offset as usize, len as usize)
            }
            Destination::Held(len) => incoming.current().expect("its bytes come").execution.hold_place(len),
            Destination::Stage(len) | Destination::Nowhere(len) => {
                self.stage.resize(STAGE_LEN, 0);
                // SAFETY: as for the front.
                unsafe { Window::of_mut(&mut self.stage) }.slice(0, len as usize)
            }
            Destination::Later => Window::empty(),
        })
    }

    fn message(&mut self, head: &Head) {
        let buffers = Buffers { front: &self.front[..self.front_len], lists: &self.lists, stage: &self.stage };
        self.commands.incoming.message(head, buffers);
        self.front_len = 0;
    }

    fn keeps(&mut self, filled: usize) -> bool {
        self.commands.incoming.keeps(filled as u64)
    }

    fn has_enough(&self) -> bool {
        self.commands.incoming.has_enough()
    }

    fn may_begin(&self) -> bool {
        self.commands.incoming.may_begin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_memory::file::Huge;
    use hanare_memory::{Lender, LenderOptions};
    use hanare_protocol::error::Happened;
    use hanare_protocol::id::{Grant, Slot};
    use hanare_protocol::shape::Shape;
    use hanare_protocol::wire::command::{COMMAND_LEN, Command, Op};
    use hanare_protocol::wire::head::Kind;

    #[test]
    fn a_message_that_was_refused_and_then_cut_off_did_nothing() {
        let lender = Lender::new(&LenderOptions {
            bytes: 1 << 20,
            slab_len: None,
            huge: Huge::Never,
            ahead: 1 << 20,
            ..LenderOptions::default()
        })
        .unwrap();
        let extents = Arc::new(Extents::new(Arc::new(lender)));
        let mut inbox = Inbox::new(extents, CommandOrigin::OtherHost, (ClientId(0), User { uid: 0, gid: 0 }));
        let put = Command::new(Op::Put, 0, Slot(7), Grant([0; 16]), &Shape::contiguous(0, 1000));
        let head = Head { count: 1, body_len: COMMAND_LEN as u64 + 1000, ..Head::new(Kind::Commands, 5) };
        inbox.place(&head, 0).unwrap().write_from(&put.encode()).unwrap();
        assert_eq!(inbox.commands.incoming.fate(), None);
        inbox.place(&head, COMMAND_LEN as u64).unwrap();
        assert_eq!(inbox.commands.incoming.fate(), Some((5, Happened::No)), "no such extent");
        inbox.message(&head);
        inbox.commands.end_round();
        assert_eq!((inbox.commands.incoming.fate(), inbox.commands.outcomes().happened(5)), (None, Happened::No));
    }
}
