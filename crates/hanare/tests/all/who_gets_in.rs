//! Strangers and clients that want to pass for nodes, over the wire: none gets in, and a node's word is what a user id is taken from.

use crate::support;

use hanare::{CreateOptions, Error, Pool};
use hanare_fabric::tcp::{Caller, Hellos, Keys, Secret, connect};
use hanare_protocol::id::User;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::control::{self, Answer, Attached, Request};
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, NONCE_LEN, Role, Sealing};
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};
use support::TestPool;

const BOUND: Duration = Duration::from_secs(20);

fn soon() -> Instant {
    Instant::now() + BOUND
}

/// A client's control connection, frame by frame.
struct Control(UnixStream);

impl Control {
    fn attach(socket: &str) -> (Control, Attached) {
        let address = SocketAddr::from_abstract_name(socket.strip_prefix('@').unwrap()).unwrap();
        let socket = UnixStream::connect_addr(&address).unwrap();
        socket.set_read_timeout(Some(BOUND)).unwrap();
        let mut control = Control(socket);
        match control.ask(&Request::Attach { versions: Versions::BUILD, job: None }) {
            Ok(Answer::Attached(attached)) => (control, attached),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, Error> {
        let value = control::encode(request);
        self.0.write_all(&[&(value.len() as u32).to_le_bytes()[..], &[0; 4], &value].concat()).unwrap();
        let mut prefix = [0; 8];
        self.0.read_exact(&mut prefix).unwrap();
        let mut value = vec![0; u32::from_le_bytes(prefix[..4].try_into().unwrap()) as usize];
        self.0.read_exact(&mut value).unwrap();
        control::decode(&value).unwrap()
    }

    fn prove(&mut self, hellos: &[u8]) -> Result<Secret, Error> {
        match self.ask(&Request::Prove { hellos: hellos.to_vec() })? {
            Answer::Proof(proof) => Ok(proof),
            other => panic!("{other:?}"),
        }
    }
}

const ROOT: User = User { uid: 0, gid: 0 };

fn hellos(first: Hello) -> Hellos {
    let second = Hello::new(first.role, 0, [2; NONCE_LEN]);
    [first.encode(), second.encode()].concat().try_into().unwrap()
}

fn is_refused(outcome: Result<hanare_fabric::tcp::Greeted, Error>) -> bool {
    matches!(outcome, Err(Error::KeyRefused { .. }))
}

#[test]
fn without_the_key_nobody_is_a_node_nor_a_client() {
    let pool = TestPool::start(1, 16 << 20);
    let at = pool.nodes[0].address();
    for role in [Role::Control, Role::Pages, Role::Data] {
        for client in [0, 7] {
            let caller = Caller { role, from: 0, client, user: ROOT, sealing: Sealing::Auto, versions: Versions::BUILD };
            assert!(is_refused(connect(at, caller, &|_| Ok([0; 32]), soon())), "{caller:?} with nothing");
            let other = Keys::of(&[0; 32], Sealing::Auto);
            let guess = |hellos: &Hellos| Ok(other.secret(hellos).unwrap_or([1; 32]));
            assert!(is_refused(connect(at, caller, &guess, soon())), "{caller:?} with another pool's key");
        }
    }
    pool.client(0).create("still", 4096, &CreateOptions::default()).unwrap();
}

#[test]
fn a_node_proves_nothing_for_a_client_but_its_own_data_links() {
    let pool = TestPool::start(1, 16 << 20);
    let (mut control, attached) = Control::attach(pool.nodes[0].socket());
    let client = attached.client.0;
    let hello = |role, client| Hello { client, user: attached.user, ..Hello::new(role, 0, [1; NONCE_LEN]) };
    let own = control.prove(&hellos(hello(Role::Data, client))).unwrap();
    assert_eq!(own, support::keys().secret(&hellos(hello(Role::Data, client))).unwrap());
    for (role, named) in [
        (Role::Control, 0),
        (Role::Control, client),
        (Role::Pages, 0),
        (Role::Pages, client),
        (Role::Data, 0),
        (Role::Data, client + 1),
    ] {
        let refused = control.prove(&hellos(hello(role, named)));
        assert!(matches!(refused, Err(Error::Garbage { .. })), "{role:?} of {named}: {refused:?}");
    }
    for user in [User { uid: attached.user.uid ^ 1, ..attached.user }, User { gid: attached.user.gid ^ 1, ..attached.user }] {
        let refused = control.prove(&hellos(Hello { user, ..hello(Role::Data, client) }));
        assert!(matches!(refused, Err(Error::Garbage { .. })), "as {user:?}: {refused:?}");
    }
    let odd: [&[u8]; 4] = [&[], &[0; HELLO_LEN], &[0; 2 * HELLO_LEN], &[0; 4 * HELLO_LEN]];
    assert!(odd.iter().all(|bytes| control.prove(bytes).is_err()));
}

#[test]
fn a_client_s_proof_makes_no_node_of_it() {
    let pool = TestPool::start(2, 16 << 20);
    let (mut control, attached) = Control::attach(pool.nodes[1].socket());
    let client = attached.client.0;
    let at = attached.home.address.clone();
    // The proof that it gets is one for a data link, whatever it says on the wire.
    let own = attached.user;
    let another = User { uid: own.uid ^ 1, gid: own.gid };
    for role in [Role::Control, Role::Pages, Role::Data] {
        for (named, user) in [(0, own), (client, own), (client, another), (client + 1, own)] {
            let proofs = Cell::new(0);
            let asked = std::cell::RefCell::new(&mut control);
            let prove = |said: &Hellos| {
                let mut lied = *said;
                let first = Hello { role: Role::Data, client, user: own, ..Hello::decode(said.first_chunk().unwrap()).unwrap() };
                lied[..HELLO_LEN].copy_from_slice(&first.encode());
                proofs.set(proofs.get() + 1);
                asked.borrow_mut().prove(&lied)
            };
            let outcome = connect(
                &at,
                Caller { role, from: 0, client: named, user, sealing: Sealing::Auto, versions: Versions::BUILD },
                &prove,
                soon(),
            );
            assert_eq!(proofs.get(), 1, "the node proved what it was asked for");
            if role == Role::Data && (named, user) == (client, own) {
                outcome.unwrap();
            } else {
                assert!(is_refused(outcome), "{role:?} of {named} as {user:?}");
            }
        }
    }
    Pool::attach_to(pool.nodes[1].socket(), None).unwrap().create("still", 4096, &CreateOptions::default()).unwrap();
}

/// Connections that say nothing, or only hello, and come again whenever they are dropped.
fn crowd(at: &str, count: usize, says_hello: bool, is_over: &std::sync::atomic::AtomicBool) {
    use std::sync::atomic::Ordering::Relaxed;
    let mut crowd: Vec<std::net::TcpStream> = Vec::new();
    let hello = Hello::new(Role::Control, 0, [9; NONCE_LEN]).encode();
    while !is_over.load(Relaxed) {
        crowd.retain_mut(|stream| {
            stream.set_nonblocking(true).unwrap();
            match stream.read(&mut [0; HELLO_LEN]) {
                Ok(len) => len > 0,
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            }
        });
        while crowd.len() < count && !is_over.load(Relaxed) {
            let Ok(mut stream) = std::net::TcpStream::connect(at) else { break };
            if says_hello {
                let _ = stream.write_all(&hello);
            }
            crowd.push(stream);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_crowd_that_says_nothing_keeps_nobody_out() {
    use hanare::node::{Node, NodeOptions};
    use hanare::{NodeId, Placement};
    use std::sync::atomic::{AtomicBool, Ordering};
    let pool = TestPool::start(1, 16 << 20);
    let at = pool.nodes[0].address().to_owned();
    for says_hello in [false, true] {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| crowd(&at, 600, says_hello, &is_over));
            std::thread::sleep(Duration::from_millis(300));
            let options = NodeOptions { join: Some(at.clone()), ..support::options(16 << 20) };
            let joined = Node::start(options).map(|node| {
                let near = Pool::attach_to(node.socket(), None).unwrap();
                let placement = Placement::Node(NodeId(0));
                let region = near.create("far", 4096, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
                region.put(0, b"through the crowd").unwrap();
                near.remove("far").unwrap();
            });
            is_over.store(true, Ordering::Relaxed);
            joined.unwrap();
        });
    }
}
