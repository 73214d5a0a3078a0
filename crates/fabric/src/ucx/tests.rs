//! Pairs of links over UCX for the conformance suite, and what UCX would get wrong if it were left to itself.

use super::Reason;
use super::context::Context;
use super::cover::FrameCover;
use super::endpoint::{Endpoint, Outcome};
use super::exchange::upgrade;
use super::frame::{CREDIT, FRAME_LEN, FrameHead, FrameKind};
use super::link::UcxLink;
use super::sender::tag;
use crate::agree::{Agreed, Choice, agree};
use crate::conformance::fabrics::sockets;
use crate::conformance::{Store, body, end_of, head, pump, send};
use crate::link::{Link, LinkError};
use crate::tcp::{Channel, Cover, Greeted, Keys, Listener, Socket, connect, covered_pair};
use crate::wait::wait;
use hanare_memory::Window;
use hanare_protocol::wire::greeting::{Role, Sealing};
use std::ffi::CStr;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Which transports UCX may use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transports {
    All,
    Shm,
    Tcp,
}

/// What of a link is sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Covered {
    Bare,
    Told,
    Sealed,
}

/// UCX with some transports; each is initialised once.
fn context(transports: Transports) -> Result<&'static Context, Reason> {
    static CONTEXTS: [OnceLock<Result<Context, Reason>>; 2] = [const { OnceLock::new() }; 2];
    let (place, list) = match transports {
        Transports::All => return super::context::context(),
        Transports::Shm => (0, "posix,sysv,cma"),
        Transports::Tcp => (1, "tcp"),
    };
    CONTEXTS[place].get_or_init(|| Context::new(Some(list))).as_ref().map_err(Clone::clone)
}

/// Why this machine cannot have it, if it cannot.
pub(crate) fn lack(transports: Transports) -> Option<String> {
    context(transports).err().map(|reason| reason.0)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// Two links, each other's peers.
pub(crate) fn pair(transports: Transports, covered: Covered) -> (UcxLink, UcxLink) {
    let context = context(transports).expect("asked for where it is");
    let (one, other) = match covered {
        Covered::Bare => covered_pair(sockets(), |_| Cover::Bare),
        Covered::Told => covered_pair(sockets(), Cover::Told),
        Covered::Sealed => covered_pair(sockets(), Cover::Sealed),
    };
    let other = thread::spawn(move || upgrade(other, "the connector".into(), context, soon()).unwrap());
    let one = upgrade(one, "the acceptor".into(), context, soon()).unwrap();
    (one, other.join().unwrap())
}

/// A peer that sends what it likes in frames as they should be; dropping it is its death.
pub(crate) struct RawPeer {
    endpoint: Endpoint,
    _beside: Channel,
    token: u64,
    /// Seals what it sends, where its link does.
    cover: Option<FrameCover>,
    seq: u64,
    vouched: u64,
}

impl RawPeer {
    pub(crate) fn of(link: UcxLink) -> RawPeer {
        let (endpoint, beside, token, cover) = link.into_parts();
        RawPeer { endpoint, _beside: beside, token, cover, seq: 0, vouched: 0 }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let room = if self.cover.is_some() { FrameCover::ROOM } else { FRAME_LEN };
        for piece in bytes.chunks(room) {
            let sealed = self.sealed(piece, 0);
            self.send_frame(FrameKind::Numbered, &sealed, 0);
        }
    }

    /// The bytes of the next frame.
    fn sealed(&self, bytes: &[u8], direct_len: u32) -> Vec<u8> {
        let Some(cover) = &self.cover else { return bytes.to_vec() };
        let (mut plain, mut sealed) = (FrameCover::memory(), vec![0; FRAME_LEN]);
        FrameCover::place(&mut plain, bytes.len()).copy_from_slice(bytes);
        let len = cover.seal(self.seq, direct_len, (&mut plain, bytes.len()), &mut sealed).unwrap();
        sealed.truncate(len);
        sealed
    }

    fn send_frame(&mut self, kind: FrameKind, bytes: &[u8], direct_len: u32) {
        let seq = self.seq;
        self.seq += 1;
        let head = FrameHead { kind, token: self.token, seq, taken: 0, vouched: self.vouched, direct_len }.encode();
        // SAFETY: both outlive the request, which is done when this function returns.
        let outcome = unsafe { self.endpoint.send_frame(&head, Window::of(bytes)) };
        self.leave(outcome, || ());
    }

    /// Sends what frame `seq` announced, while the other side moves.
    fn send_direct(&mut self, seq: u64, bytes: &[u8], other: impl FnMut()) {
        // SAFETY: the bytes outlive the request.
        let outcome = unsafe { self.endpoint.send_direct(Window::of(bytes), tag(self.token, seq)) }.unwrap();
        self.leave(outcome, other);
    }

    fn leave(&mut self, mut outcome: Outcome, mut other: impl FnMut()) {
        let end = soon();
        while let Outcome::Pending(request) = outcome {
            assert!(Instant::now() < end, "it does not leave");
            self.endpoint.progress(Window::empty(), Window::empty()).unwrap();
            other();
            outcome = self.endpoint.poll(request);
        }
    }
}

/// Runs a test where UCX is there; says why not otherwise.
macro_rules! needs_ucx {
    ($transports:expr) => {
        if let Some(reason) = lack($transports) {
            hanare_testkit::unable(reason);
            return;
        }
    };
}

// What both sides agree on, over the whole way: connect, greet, agree.

fn keys() -> Keys {
    Keys::of(&[1; 32], Sealing::Auto)
}

fn greeted_pair() -> (Greeted, Greeted) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    let acceptor = thread::spawn(move || {
        loop {
            match listener.accept().unwrap() {
                Some(incoming) => return incoming.greet(&keys(), &|_| Ok(()), soon()).unwrap(),
                None => thread::yield_now(),
            }
        }
    });
    let connector =
        connect(&address, keys().caller(Role::Data, 2), &|hellos| Ok(keys().secret(hellos).unwrap()), soon()).unwrap();
    (connector, acceptor.join().unwrap())
}

fn agreed(one: Choice, other: Choice) -> [hanare_protocol::Result<Agreed>; 2] {
    let (connector, acceptor) = greeted_pair();
    let acceptor = thread::spawn(move || agree(acceptor, other, soon()));
    [agree(connector, one, soon()), acceptor.join().unwrap()]
}

fn pass_one(one: &mut dyn Link, other: &mut dyn Link) {
    let (bytes, mut store) = (body(3, 200_000), Store::new());
    send(one, 3, &bytes).unwrap();
    pump((one, &mut Store::new()), (other, &mut store), |_, other| other.messages.len() == 1);
    assert!(store.messages[0].1 == bytes);
}

#[test]
fn two_sides_agree_and_talk() {
    for (one, other) in [(Choice::TCP, Choice::Auto), (Choice::TCP, Choice::TCP)] {
        let [one, other] = agreed(one, other).map(Result::unwrap);
        assert_eq!((one.fabric, other.fabric, other.hello.from), ("tcp", "tcp", 2));
        pass_one(&mut { one.link }, &mut { other.link });
    }
    needs_ucx!(Transports::All);
    let [one, other] = agreed(Choice::Named("ucx"), Choice::Named("ucx")).map(Result::unwrap);
    assert_eq!((one.fabric, other.fabric), ("ucx", "ucx"));
    pass_one(&mut { one.link }, &mut { other.link });
    if super::available().is_ok_and(|ucx| !ucx.has_rdma) {
        assert!(agreed(Choice::Auto, Choice::Named("ucx")).iter().all(Result::is_err), "nobody is talked into it");
    }
}

#[test]
fn sides_that_do_not_agree_refuse_in_one_line_both() {
    for outcome in agreed(Choice::TCP, Choice::Named("ucx")) {
        let Err(refusal) = outcome else { panic!("they cannot agree") };
        assert!(matches!(refusal, hanare_protocol::Error::BadSetting { .. }), "{refusal}");
        assert!(!refusal.to_string().contains('\n'), "{refusal}");
    }
}

#[test]
fn what_is_there_is_told() {
    match super::available() {
        Err(Reason(reason)) => hanare_testkit::unable(reason),
        Ok(info) => {
            assert!(info.version.starts_with("1.") && info.version.split('.').count() == 3, "{info:?}");
            assert!(info.transports.contains(&"tcp".to_owned()), "{info:?}");
        }
    }
}

// Traps of UCX.

#[test]
fn endpoints_that_report_death_use_shared_memory_all_the_same() {
    needs_ucx!(Transports::All);
    let (one, _other) = pair(Transports::All, Covered::Bare);
    let description = one.describe();
    assert!(description.contains("posix/") || description.contains("sysv/"), "{description}");
}

#[test]
fn crashes_stay_ours_to_handle() {
    needs_ucx!(Transports::All);
    for signal in [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE] {
        // SAFETY: asks only; `dladdr` takes any address.
        let file = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            let mut about: libc::Dl_info = std::mem::zeroed();
            let is_known = libc::dladdr(std::ptr::without_provenance(action.sa_sigaction), &mut about) != 0;
            if is_known { CStr::from_ptr(about.dli_fname).to_string_lossy().into_owned() } else { String::new() }
        };
        assert!(!file.contains("libuc"), "UCX handles signal {signal}");
    }
}

/// Put and get of lists of pieces move wrong bytes in 1.13, and the other forms need the target's processor: nothing here can
/// call them.
#[test]
fn put_get_and_lists_of_pieces_are_out_of_reach() {
    let bindings = include_str!("bindings.rs");
    for name in ["ucp_put", "ucp_get_nb", "ucp_atomic", "ucp_dt_iov", "DATATYPE_IOV", "ucp_ep_rkey_unpack"] {
        assert!(!bindings.contains(name), "{name} is bound");
    }
    for source in [include_str!("endpoint.rs"), include_str!("sender.rs"), include_str!("receiver.rs")] {
        assert!(!source.contains("OP_ATTR_FIELD_DATATYPE"), "a datatype other than bytes side by side");
    }
}

/// What a test asks of itself in another process: `connect:ADDRESS`, with `:leave` a program that keeps its connections open.
const PEER: &str = "HANARE_TEST_UCX_PEER";

/// Not a test by itself: the other process of those below. It sends back what it gets.
#[test]
fn a_peer_in_another_process() {
    let Ok(task) = std::env::var(PEER) else { return };
    let context = context(Transports::All).unwrap();
    let (address, leaves) = task.strip_suffix(":leave").map_or((&*task, false), |address| (address, true));
    let stream = TcpStream::connect(address).unwrap();
    if leaves {
        // SAFETY: one flag of a descriptor of ours.
        unsafe { libc::fcntl(stream.as_raw_fd(), libc::F_SETFD, 0) };
        // It outlives this process, which is killed, and ends by itself.
        Command::new("sh").args(["-c", "sleep 12 &"]).status().unwrap();
    }
    let mut link = upgrade(Channel::plain(Socket::new(stream).unwrap()), "the parent".into(), context, soon()).unwrap();
    let mut store = Store::new();
    while wait(&mut link, &mut store, None).is_ok() {
        for (head, bytes) in std::mem::take(&mut store.messages) {
            send(&mut link, head.seq, &bytes).unwrap();
            while link.unsent_len() > 0 {
                wait(&mut link, &mut Store::new(), Some(soon())).unwrap();
            }
        }
    }
}

/// Another process and a link to it.
fn process(leave: &str) -> (Child, UcxLink) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "ucx::tests::a_peer_in_another_process"]);
    command.env(PEER, format!("{}{leave}", listener.local_addr().unwrap()));
    let child = command.spawn().unwrap();
    let socket = Channel::plain(Socket::new(listener.accept().unwrap().0).unwrap());
    (child, upgrade(socket, "the child".into(), context(Transports::All).unwrap(), soon()).unwrap())
}

fn echo(link: &mut dyn Link) {
    let mut store = Store::new();
    for (seq, len) in [0, 100, 7000, 100_000, 3 << 20].into_iter().enumerate() {
        let bytes = body(seq as u64, len);
        send(link, seq as u64, &bytes).unwrap();
        while store.messages.is_empty() {
            wait(link, &mut store, Some(soon())).unwrap_or_else(|error| panic!("{len} bytes: {error}"));
        }
        assert!(store.messages.pop().unwrap().1 == bytes, "{len} bytes");
    }
}

/// The bound within which the death of a peer is reported on every fabric, and what a busy machine may take: less than UCX by itself.
const DEATH_BOUND: Duration = Duration::from_secs(5);
const DEATH_BOUND_BUSY: Duration = Duration::from_secs(15);

fn dies(leave: &str) {
    needs_ucx!(Transports::All);
    let (mut child, mut link) = process(leave);
    echo(&mut link);
    child.kill().unwrap();
    child.wait().unwrap();
    let end = Instant::now() + hanare_testkit::paced(DEATH_BOUND).min(DEATH_BOUND_BUSY);
    let error = loop {
        match wait(&mut link, &mut Store::new(), Some(end)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LinkError::Closed { .. }), "{error}");
}

#[test]
fn a_killed_peer_is_reported() {
    dies("");
}

/// Where nothing but UCX can tell: the connection beside the link stays open in another process. Left to itself UCX would take
/// 19 s over shared memory.
#[test]
fn ucx_itself_reports_a_killed_peer_too() {
    dies(":leave");
}

/// Libraries or folders of other versions, with `:` between them.
const OTHERS: &str = "HANARE_TEST_UCX";

fn others() -> Vec<String> {
    let others = std::env::var(OTHERS).unwrap_or_default();
    let others: Vec<String> = others.split(':').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    if others.is_empty() {
        hanare_testkit::unable(format!("{OTHERS} names no other UCX, such as the folder of the Python package libucx-cu12"));
    }
    others
}

#[test]
fn other_versions_pass_the_same_tests() {
    for other in others() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let status = command.arg("ucx").env(super::library::SETTING, &other).env_remove(OTHERS).status().unwrap();
        assert!(status.success(), "with {other}");
    }
}

// Peers that send what no peer sends, over UCX itself.

fn raw_pair() -> (UcxLink, RawPeer) {
    let (link, other) = pair(Transports::All, Covered::Bare);
    (link, RawPeer::of(other))
}

fn ends_with(link: &mut UcxLink, words: &str) {
    let error = end_of(link, &mut Store::new());
    assert!(matches!(&error, LinkError::Garbage { reason, .. } if reason.contains(words)), "{error}");
}

#[test]
fn frames_that_make_no_sense_end_the_link() {
    needs_ucx!(Transports::All);
    type Misdeed = fn(&mut RawPeer);
    let cases: [(&str, Misdeed); 6] = [
        ("longer than its head says", |raw| raw.send_frame(FrameKind::Numbered, &[], 100_000)),
        ("longer than its head says", |raw| {
            raw.send_frame(FrameKind::Numbered, &head(0, 99_999).encode(), 100_000);
        }),
        ("longer than frames are", |raw| raw.send_frame(FrameKind::Numbered, &[1], u32::MAX)),
        ("without bytes", |raw| raw.send_frame(FrameKind::Numbered, &[], 0)),
        ("control frame with bytes", |raw| raw.send_frame(FrameKind::Control, &[1], 0)),
        ("out of its turn", |raw| {
            raw.seq = CREDIT;
            raw.send_frame(FrameKind::Numbered, &[1], 0);
        }),
    ];
    for (words, misdeed) in cases {
        let (mut link, mut raw) = raw_pair();
        misdeed(&mut raw);
        ends_with(&mut link, words);
    }
}

/// Who stands on the wire: forges, changes, moves and repeats frames of a link that seals.
#[test]
fn sealed_frames_are_the_peer_s_own_and_in_their_places() {
    needs_ucx!(Transports::Tcp);
    type Attack = fn(&mut RawPeer, &[u8]);
    let attacks: [(&str, Attack); 6] = [
        ("forged", |raw, bytes| raw.send_frame(FrameKind::Numbered, bytes, 0)),
        ("changed", |raw, bytes| {
            let mut sealed = raw.sealed(bytes, 0);
            sealed[10] ^= 1;
            raw.send_frame(FrameKind::Numbered, &sealed, 0);
        }),
        ("of another number", |raw, bytes| {
            let sealed = raw.sealed(bytes, 0);
            raw.seq += 1;
            raw.send_frame(FrameKind::Numbered, &sealed, 0);
        }),
        ("with bytes from a window that were not announced", |raw, bytes| {
            let sealed = raw.sealed(bytes, 0);
            raw.send_frame(FrameKind::Numbered, &sealed, 100_000);
        }),
        ("with less than a seal", |raw, _| raw.send_frame(FrameKind::Numbered, &[7; 19], 0)),
        ("without any", |raw, _| raw.send_frame(FrameKind::Numbered, &[], 70_000)),
    ];
    for (name, attack) in attacks {
        for covered in [Covered::Told, Covered::Sealed] {
            let (mut link, other) = pair(Transports::Tcp, covered);
            let mut raw = RawPeer::of(other);
            raw.send(&head(1, 0).encode());
            attack(&mut raw, &head(2, 0).encode());
            let mut store = Store::new();
            let error = end_of(&mut link, &mut store);
            assert!(matches!(&error, LinkError::Garbage { reason, .. } if reason.contains("did not seal")), "{name}: {error}");
            assert!(store.seqs().iter().all(|seq| *seq == 1), "{name}");
        }
    }
}

/// What a listener on the wire sees: no head, no grant, and bodies of those alone who were told to send them as they are.
#[test]
fn who_listens_reads_no_command() {
    needs_ucx!(Transports::Tcp);
    for (covered, reads_bodies) in [(Covered::Bare, true), (Covered::Told, true), (Covered::Sealed, false)] {
        let (mut one, other) = pair(Transports::Tcp, covered);
        let mut raw = RawPeer::of(other);
        raw.endpoint.listen();
        let bytes = body(3, 100_000);
        send(&mut one, 0x6861_6e61_7265_5151, &bytes).unwrap();
        let end = soon();
        let seen = loop {
            one.progress(&mut Store::new()).unwrap();
            raw.endpoint.progress(Window::empty(), Window::empty()).unwrap();
            match raw.endpoint.arrivals().ahead(0) {
                Some(first) => break first,
                None => assert!(Instant::now() < end),
            }
        };
        let mut frame = vec![0; seen.data.as_ref().unwrap().window().len()];
        seen.data.as_ref().unwrap().window().read_into(&mut frame).unwrap();
        let has = |secret: &[u8]| frame.windows(secret.len()).any(|bytes| bytes == secret);
        assert_eq!(has(&0x6861_6e61_7265_5151_u64.to_le_bytes()), matches!(covered, Covered::Bare), "{covered:?}");
        assert_eq!(seen.direct_len > 0, reads_bodies, "{covered:?}");
    }
}

#[test]
fn frames_of_strangers_are_not_heard() {
    needs_ucx!(Transports::All);
    let (mut link, mut raw) = raw_pair();
    raw.token ^= 1;
    raw.send(&head(1, 0).encode());
    raw.token ^= 1;
    raw.seq = 0;
    raw.send(&head(2, 0).encode());
    let mut store = Store::new();
    while store.messages.is_empty() {
        wait(&mut link, &mut store, Some(soon())).unwrap();
    }
    assert_eq!(store.seqs(), [2]);
}

#[test]
fn a_body_from_a_window_counts_when_its_sender_vouches_for_it() {
    needs_ucx!(Transports::All);
    let (mut link, mut raw) = raw_pair();
    let bytes = body(0, 100_000);
    raw.send_frame(FrameKind::Numbered, &head(0, bytes.len()).encode(), 100_000);
    let mut store = Store::new();
    raw.send_direct(0, &bytes, || {
        link.progress(&mut store).unwrap();
    });
    for _ in 0..1000 {
        link.progress(&mut store).unwrap();
    }
    assert!(store.messages.is_empty(), "its memory may have been lost on the way");
    raw.vouched = 1;
    raw.send_frame(FrameKind::Control, &[], 0);
    while store.messages.is_empty() {
        wait(&mut link, &mut store, Some(soon())).unwrap();
    }
    assert!(store.messages[0].1 == bytes);
}

#[test]
fn a_body_of_another_length_than_announced_ends_the_link() {
    needs_ucx!(Transports::All);
    let (mut link, mut raw) = raw_pair();
    let bytes = body(0, 100_000);
    raw.vouched = 1;
    raw.send_frame(FrameKind::Numbered, &head(0, bytes.len()).encode(), 100_000);
    let mut end = None;
    let mut store = Store::new();
    raw.send_direct(0, &bytes[..70_000], || {
        end = end.take().or(link.progress(&mut store).err());
    });
    let error = end.unwrap_or_else(|| end_of(&mut link, &mut store));
    assert!(matches!(error, LinkError::Garbage { .. }), "{error}");
}

/// Either side goes in the middle of a rendezvous: the other is told, and nobody touches a window afterwards.
#[test]
fn a_side_may_go_in_the_middle_of_a_rendezvous() {
    for transports in [Transports::All, Transports::Tcp] {
        needs_ucx!(transports);
        for looks in [0, 1, 2, 4, 8] {
            for sender_goes in [true, false] {
                let (mut one, mut other) = pair(transports, Covered::Bare);
                let (bytes, mut store) = (body(0, 4 << 20), Store::new());
                send(&mut one, 0, &bytes).unwrap();
                for _ in 0..looks {
                    other.progress(&mut store).unwrap();
                    one.progress(&mut Store::new()).unwrap();
                }
                if store.messages.is_empty() {
                    let (gone, mut left) = if sender_goes { (one, other) } else { (other, one) };
                    drop(gone);
                    let error = end_of(&mut left, &mut store);
                    assert!(matches!(error, LinkError::Closed { .. }), "{error}");
                    assert_eq!(left.unsent_len(), 0);
                }
            }
        }
    }
}

#[test]
fn a_link_is_used_by_one_thread_after_another() {
    needs_ucx!(Transports::All);
    let (mut one, mut other) = pair(Transports::All, Covered::Bare);
    for _ in 0..4 {
        (one, other) = thread::spawn(move || {
            pass_one(&mut one, &mut other);
            (one, other)
        })
        .join()
        .unwrap();
    }
}

/// What a side sent is there when it goes as soon as nothing is unsent: the word that vouches for the last body too.
#[test]
fn the_last_large_message_comes_before_the_end() {
    for transports in [Transports::All, Transports::Tcp] {
        needs_ucx!(transports);
        for round in 0..20 {
            let (mut one, mut other) = pair(transports, Covered::Bare);
            let sender = thread::spawn(move || {
                let bytes = body(round, 1 << 20);
                for seq in 0..2 {
                    send(&mut one, seq, &bytes).unwrap();
                    while one.unsent_len() > 0 {
                        wait(&mut one, &mut Store::new(), Some(soon())).unwrap();
                    }
                }
            });
            let mut store = Store::new();
            let error = end_of(&mut other, &mut store);
            assert_eq!(store.seqs(), [0, 1], "{error}");
            assert!(matches!(&error, LinkError::Closed { reason, .. } if reason == "it closed the link"), "{error}");
            sender.join().unwrap();
        }
    }
}
