//! Fuzz targets: what a node hears of clients and of other nodes, and its files: journal, key, extents.
#![allow(missing_docs, reason = "a target's name says what it feeds")]

use hanare_fabric::control_socket::FrameSocket;
use hanare_protocol::limits::REQUEST_FD_COUNT_MAX;
use hanare_protocol::wire::control::Request;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

/// A target's name, and what tries its input.
type FuzzTarget = (&'static str, fn(&[u8]));

/// All of them, by name.
pub const TARGETS: &[FuzzTarget] = &[
    ("requests", requests),
    ("pages", crate::fuzz_pages),
    ("sharing", crate::fuzz_sharing),
    ("journal", crate::fuzz_journal),
    ("kept", crate::fuzz_kept),
    ("key", crate::fuzz_key),
];

/// Most descriptors that go along with a piece.
const FD_COUNT: usize = 4;

/// A client's bytes to its node's socket. Before each piece are a byte for the number of descriptors, and two for its length.
pub fn requests(bytes: &[u8]) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("sockets");
    let mut node = FrameSocket::polled(there);
    let file = std::fs::File::open("/dev/null").expect("a descriptor");
    let mut rest = bytes;
    while let Some(([count, low, high], more)) = rest.split_first_chunk() {
        let (piece, more) = more.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(more.len()));
        rest = more;
        let fds: Vec<BorrowedFd<'_>> = vec![file.as_fd(); usize::from(*count) % (FD_COUNT + 1)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FD_COUNT))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        if sendmsg(&here, &[IoSlice::new(piece)], &mut ancillary, SendFlags::NOSIGNAL).is_err() {
            return;
        }
        loop {
            match node.receive() {
                Ok(Some(frame)) => {
                    assert!(frame.fds.len() <= REQUEST_FD_COUNT_MAX);
                    let _ = frame.decode::<Request>();
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_fuzz::{Counting, drive};
    use hanare_protocol::id::Gid;
    use hanare_protocol::versions::Versions;
    use hanare_protocol::wire::control;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    #[test]
    fn what_clients_ask() {
        let frame = |request: &Request, fds: u8| {
            let value = control::encode(request);
            let frame = [&(value.len() as u32).to_le_bytes()[..], &u32::from(fds).to_le_bytes(), &value].concat();
            [&[fds][..], &(frame.len() as u16).to_le_bytes(), &frame].concat()
        };
        let hold = Request::Hold { gid: Gid(1), start: 4096, len: 4096, features: 0 };
        let seeds = [
            [frame(&Request::Attach { versions: Versions::BUILD, job: None }, 0), frame(&hold, 1), frame(&Request::Status, 0)]
                .concat(),
            [frame(&Request::Stat { name: "x".repeat(200) }, 0), frame(&Request::Leave, 0), frame(&Request::Detach, 0)].concat(),
        ];
        drive("requests", &seeds, 2 << 20, requests);
    }

    #[test]
    fn what_nodes_and_clients_say_of_pages() {
        drive("pages", &crate::fuzz_pages_seeds(), 16 << 20, crate::fuzz_pages);
    }

    #[test]
    fn what_clients_ask_of_each_other() {
        // The table of a heap has 8 MiB.
        drive("sharing", &crate::fuzz_sharing_seeds(), 24 << 20, crate::fuzz_sharing);
    }

    #[test]
    fn what_is_in_the_file_of_a_node_s_extents() {
        drive("kept", &crate::fuzz_kept_seeds(), 16 << 20, crate::fuzz_kept);
    }

    #[test]
    fn what_is_in_a_key_file() {
        let line = format!("hanare-key {}\n", "0f".repeat(32));
        drive("key", &[line.clone().into_bytes(), line.repeat(3).into_bytes()], 1 << 20, crate::fuzz_key);
    }

    #[test]
    fn what_is_in_a_journal() {
        let seeds = [
            vec![0, 0, 0, 0, 4, 1, 2, 3, 4],
            vec![0, 16, 0, 0, 1, 255],
            [64, 8, 0, 0, 8].iter().chain(&[0; 8]).copied().collect(),
        ];
        // Before the database finds that the file is shorter, it asks for a page as long as a damaged number says: 4 GiB at most.
        drive("journal", &seeds, 5 << 30, crate::fuzz_journal);
    }
}
