//! Stands between client and node, and can lose requests or answers before it cuts the connection.

use crate::support::options;
use hanare::node::{Node, NodeOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the relay does with what passes.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub enum Mode {
    /// All of it passes.
    Pass,
    /// The next request is lost, and the connection cut.
    LoseRequest,
    /// The same, some time after the relay's host has acknowledged the request.
    LoseLate,
    /// The next request arrives, its answer is lost, and the connection cut.
    LoseAnswer,
    /// The next request arrives, its answer is lost, and nothing passes from then on.
    LastRequest,
    /// Each connection is cut when its client has greeted, and says what it wants.
    CutGreeted,
    /// Nothing passes any more.
    Dead,
    /// Nothing passes for now, and nothing is lost.
    Silent,
}

/// Stands between a client and a node.
pub struct Relay {
    mode: Arc<AtomicU8>,
    /// The clients' ends.
    clients: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    pub fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    /// Cuts all connections that there are.
    #[allow(dead_code)]
    pub fn cut(&self) {
        self.clients.lock().unwrap().drain(..).for_each(|client| drop(client.shutdown(Shutdown::Both)));
    }

    /// Stands at `listener` in front of `to`.
    pub fn start(listener: TcpListener, to: SocketAddr) -> Relay {
        let mode = Arc::new(AtomicU8::new(Mode::Pass as u8));
        let (of_all, clients) = (mode.clone(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let open = clients.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if of_all.load(Ordering::SeqCst) == Mode::Dead as u8 {
                    continue;
                }
                let node = TcpStream::connect(to).unwrap();
                open.lock().unwrap().push(client.try_clone().unwrap());
                for (from, into, cut) in [(&client, &node, Mode::LoseRequest), (&node, &client, Mode::LoseAnswer)] {
                    let (from, into, mode) = (from.try_clone().unwrap(), into.try_clone().unwrap(), of_all.clone());
                    std::thread::spawn(move || pass(from, into, &mode, cut));
                }
            }
        });
        Relay { mode, clients }
    }
}

/// Passes bytes one way until an end, or until the mode says that these are lost.
fn pass(mut from: TcpStream, mut into: TcpStream, mode: &AtomicU8, cut: Mode) {
    let mut bytes = [0; 65536];
    let mut count = 0;
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        while mode.load(Ordering::SeqCst) == Mode::Silent as u8 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let now = mode.load(Ordering::SeqCst);
        count += 1;
        // A hello and a proof come before.
        if now == Mode::CutGreeted as u8 && cut == Mode::LoseRequest && count == 3 {
            break;
        }
        if now == Mode::LoseLate as u8 && cut == Mode::LoseRequest {
            mode.store(Mode::Pass as u8, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(300));
            break;
        }
        if now == Mode::LastRequest as u8 && cut == Mode::LoseAnswer {
            mode.store(Mode::Dead as u8, Ordering::SeqCst);
            break;
        }
        if now == cut as u8 || now == Mode::Dead as u8 {
            let _ = mode.compare_exchange(cut as u8, Mode::Pass as u8, Ordering::SeqCst, Ordering::SeqCst);
            break;
        }
        if into.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = into.shutdown(Shutdown::Both);
}

/// Two nodes, the second behind a relay.
#[allow(dead_code)]
pub fn nodes_beside_relay() -> (Node, Node, Relay) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let first = Node::start(options(16 << 20)).unwrap();
    let join = Some(first.address().to_owned());
    let advertise = Some(listener.local_addr().unwrap().to_string());
    let port = hanare_testkit::free_address();
    let second = Node::start(NodeOptions { join, advertise, listen: port.to_string(), ..options(16 << 20) }).unwrap();
    let relay = Relay::start(listener, port);
    (first, second, relay)
}
