//! A program that speaks to its node's socket byte by byte, as another user where the test may become one.
#![allow(dead_code)]

use hanare_protocol::Error;
use hanare_protocol::id::{Grant, Rights};
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::control::{self, Answer, RegionView, Request, Which};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

/// Nothing that a healthy node does takes so long.
const BOUND: Duration = Duration::from_secs(20);

/// The user that intruders are: nobody.
const OTHER: u32 = 65_534;

pub struct Intruder(pub UnixStream);

impl Intruder {
    /// Connects, and says nothing.
    pub fn connect(socket: &str) -> Intruder {
        let address = SocketAddr::from_abstract_name(socket.strip_prefix('@').unwrap()).unwrap();
        let connect = move || {
            if rustix::process::geteuid().is_root() {
                let (uid, gid) = (rustix::process::Uid::from_raw(OTHER), rustix::process::Gid::from_raw(OTHER));
                rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
                rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            }
            UnixStream::connect_addr(&address).unwrap()
        };
        // The user is a thread's own, and ends with it.
        let socket = std::thread::spawn(connect).join().unwrap();
        socket.set_read_timeout(Some(BOUND)).unwrap();
        socket.set_write_timeout(Some(BOUND)).unwrap();
        Intruder(socket)
    }

    pub fn attach(socket: &str) -> Intruder {
        let mut intruder = Intruder::connect(socket);
        assert!(matches!(intruder.ask(&Request::Attach { versions: Versions::BUILD, job: None }), Ok(Answer::Attached(_))));
        intruder
    }

    /// A program of the test's own user, attached.
    pub fn connect_as_we_are(socket: &str) -> Intruder {
        let address = SocketAddr::from_abstract_name(socket.strip_prefix('@').unwrap()).unwrap();
        let mut own = Intruder(UnixStream::connect_addr(&address).unwrap());
        assert!(matches!(own.ask(&Request::Attach { versions: Versions::BUILD, job: None }), Ok(Answer::Attached(_))));
        own
    }

    pub fn send(&mut self, request: &Request) {
        self.0.write_all(&frame(request)).unwrap();
    }

    /// Sends bytes, and that many descriptors with them.
    pub fn send_with_fds(&mut self, bytes: &[u8], count: usize) -> bool {
        let file = std::fs::File::open("/dev/null").unwrap();
        let fds: Vec<BorrowedFd<'_>> = vec![file.as_fd(); count];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(128))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).is_ok()
    }

    pub fn ask(&mut self, request: &Request) -> Result<Answer, Error> {
        self.ask_with_fds(request).0
    }

    pub fn ask_with_fds(&mut self, request: &Request) -> (Result<Answer, Error>, Vec<OwnedFd>) {
        self.send(request);
        self.answer()
    }

    pub fn answer(&mut self) -> (Result<Answer, Error>, Vec<OwnedFd>) {
        let mut fds = Vec::new();
        let mut prefix = [0; 8];
        let mut at = 0;
        while at < prefix.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(128))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let got = recvmsg(&self.0, &mut [IoSliceMut::new(&mut prefix[at..])], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
            let got = got.unwrap().bytes;
            assert!(got > 0, "the node closed the connection");
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(more) = message {
                    fds.extend(more);
                }
            }
            at += got;
        }
        let mut value = vec![0; u32::from_le_bytes(prefix[..4].try_into().unwrap()) as usize];
        self.0.read_exact(&mut value).unwrap();
        (control::decode(&value).unwrap(), fds)
    }

    pub fn region(&mut self, request: &Request) -> RegionView {
        match self.ask(request) {
            Ok(Answer::Region(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    pub fn open(&mut self, name: &str, rights: Rights) -> RegionView {
        self.region(&Request::Open { which: Which::Name(name.to_owned()), rights: Some(rights) })
    }

    /// Whether the node has closed the connection.
    pub fn is_cut_off(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0)) || self.0.write_all(&[0]).is_err()
    }
}

impl Intruder {
    /// Ends the connection without a word, as the death of a program does.
    pub fn hang_up(self) {
        let _ = std::mem::ManuallyDrop::new(self).0.shutdown(std::net::Shutdown::Both);
    }
}

impl Drop for Intruder {
    fn drop(&mut self) {
        // What a program has that lives stays its own, unless it says that it has nothing any more.
        let _ = self.0.set_nonblocking(true).and_then(|()| self.0.write_all(&frame(&Request::Detach)));
    }
}

pub fn frame(request: &Request) -> Vec<u8> {
    let value = control::encode(request);
    [&(value.len() as u32).to_le_bytes()[..], &[0; 4], &value].concat()
}

/// A view with grants that nobody gave.
pub fn forged(view: &RegionView, rights: Rights) -> RegionView {
    RegionView { rights, grants: vec![Grant([0; 16]); view.grants.len()], ..view.clone() }
}
