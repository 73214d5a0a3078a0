//! A build without a common wire version and this one refuse each other, in one clear line, whichever of them calls.

use crate::pool;

use hanare_protocol::versions::{NEWEST, Versions};
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, NONCE_LEN, Role};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The hello of a build that is newer by 98 versions.
fn newer_hello() -> Vec<u8> {
    let versions = Versions { oldest: NEWEST + 97, newest: NEWEST + 98 };
    Hello { versions, ..Hello::new(Role::Control, 0, [3; NONCE_LEN]) }.encode().to_vec()
}

#[test]
fn a_node_answers_a_newer_caller_with_its_version_and_goes_on() {
    let nodes = pool::Nodes::start(1);
    let mut stream = TcpStream::connect(&nodes.nodes[0].address).unwrap();
    stream.set_read_timeout(Some(pool::BOUND)).unwrap();
    stream.write_all(&newer_hello()).unwrap();
    let mut hello = [0; HELLO_LEN];
    stream.read_exact(&mut hello).expect("the node says its version before it hangs up");
    assert_eq!(Hello::decode(&hello).unwrap().versions, Versions::BUILD);
    let mut rest = Vec::new();
    assert!(matches!(stream.read_to_end(&mut rest), Ok(_) | Err(_)), "and then hangs up");
    nodes.hanare(&["region", "create", "still", "4K"]).done();
}

#[test]
fn a_node_that_joins_a_newer_one_says_so_and_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut hello = [0; HELLO_LEN];
            let _ = stream.read_exact(&mut hello);
            let _ = stream.write_all(&newer_hello());
            let _ = stream.read(&mut [0]);
        }
    });
    let state = tempfile::tempdir().unwrap();
    let words = ["node", "--memory", "1M", "--listen", "127.0.0.1:0", "--socket", "@hanare-test-version", "--join", &address];
    let ended = pool::run(pool::command(&words).env("HANARE_STATE", state.path()).env("HANARE_KEY", pool::key()));
    let theirs = format!("version {} to {}", NEWEST + 97, NEWEST + 98);
    ended.refused(&[&theirs, &format!("{} here", Versions::BUILD), "up to date"]);
}
