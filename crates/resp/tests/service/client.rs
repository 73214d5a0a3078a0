//! Services for tests, and clients that send any bytes.

use hanare::Pool;
use hanare::node::{Node, NodeOptions, new_key_file};
use hanare_dict::{Store, StoreOptions};
use hanare_resp::{Options, Service};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time after which a reply does not come any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service on a store of its own node.
pub struct TestService {
    pub service: Service,
    _node: Node,
}

impl TestService {
    /// A service of one thread.
    pub fn start(connections: usize) -> TestService {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static KEY: OnceLock<PathBuf> = OnceLock::new();
        let own = format!("resp-{}", std::process::id());
        let key = KEY.get_or_init(|| {
            let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{own}.key"));
            // One of an earlier process of that number does as well.
            let _ = new_key_file(&file);
            file
        });
        let name = format!("{own}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let options = NodeOptions {
            key: Some(key.clone()),
            socket: format!("@hanare-{name}"),
            name,
            ..NodeOptions::new(64 << 20).unwrap()
        };
        let node = Node::start(options).unwrap();
        let pool = Pool::attach_to(node.socket(), None).unwrap();
        let store = Store::open(&pool, "kv", &StoreOptions { bytes: 32 << 20, ..StoreOptions::default() }).unwrap();
        let service = Service::start(store, Options { secret: None, connections, threads: 1 }).unwrap();
        TestService { service, _node: node }
    }

    pub fn client(&self) -> Client {
        let (own, its) = UnixStream::pair().unwrap();
        own.set_read_timeout(Some(PATIENCE)).unwrap();
        own.set_write_timeout(Some(PATIENCE)).unwrap();
        self.service.serve(its);
        Client(own)
    }
}

/// A client's end.
pub struct Client(pub UnixStream);

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Expects exactly these bytes as the next ones.
    #[track_caller]
    pub fn expect(&mut self, wanted: &[u8]) {
        let mut got = vec![0; wanted.len()];
        self.0.read_exact(&mut got).unwrap();
        let at = got.iter().zip(wanted).position(|(got, wanted)| got != wanted);
        assert_eq!(
            at.map(|at| got[at.saturating_sub(40)..].escape_ascii().to_string()),
            None,
            "the first other byte is at {at:?}"
        );
    }

    #[track_caller]
    pub fn ask(&mut self, sent: &[u8], wanted: &[u8]) {
        self.send(sent);
        self.expect(wanted);
    }

    /// Reads a line.
    pub fn line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.last() != Some(&b'\n') {
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// True if the service has ended the connection; bytes before that are passed over.
    pub fn is_ended(&mut self) -> bool {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
    }

    /// A number of the service's own account.
    pub fn info(&mut self, field: &str) -> u64 {
        self.send(b"INFO\r\n");
        let len: usize = self.line()[1..].trim_end().parse().unwrap();
        let mut text = vec![0; len + 2];
        self.0.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    }
}

/// A command as libraries send it.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
