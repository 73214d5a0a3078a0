//! A node with `--prometheus` gives its pool's status to scrapers, and nothing else.

use crate::pool;

use pool::Node;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(pool::BOUND)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_scraper_gets_the_status() {
    // The test has to know the port.
    let address = hanare_testkit::free_address().to_string();
    let _node = Node::start(None, &["--prometheus", &address, "--name", "measured"]);
    let answer = ask(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("hanare_node_lent_bytes{node=\"0\",name=\"measured\"} "), "{answer}");
    assert!(answer.contains("hanare_node_up{node=\"0\",name=\"measured\"} 1\n"), "{answer}");
    assert!(
        answer.contains("# TYPE hanare_commands_total counter")
            && answer.contains("hanare_command_seconds_bucket{command=\"get\",from=\"other_host\",le=\"+Inf\"}")
    );
    assert!(ask(&address, "GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert!(ask(&address, "GET /readyz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nok\n"));
    assert!(ask(&address, "GET /secret HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
}

#[test]
fn commands_are_counted_by_the_host_that_they_come_from() {
    let address = hanare_testkit::free_address().to_string();
    let home = Node::start(None, &["--prometheus", &address]);
    let other = Node::start(Some(&home.address), &[]);
    let nodes = pool::Nodes { nodes: vec![home, other] };
    // Small ones are reached by commands from the own host too.
    nodes.hanare(&["region", "create", "small", "1000"]).done();
    let put = |node: usize| {
        let client = hanare::Pool::attach_to(&nodes.nodes[node].socket, None).unwrap();
        let region = client.open("small").unwrap();
        (0..=2 * node).for_each(|_| region.put(0, &[7; 100]).unwrap());
    };
    (0..2).for_each(put);
    let answer = ask(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    for line in [
        "hanare_commands_total{command=\"put\",from=\"own_host\"} 1\n",
        "hanare_commands_total{command=\"put\",from=\"other_host\"} 3\n",
        "hanare_command_bytes_total{command=\"put\",from=\"other_host\"} 300\n",
    ] {
        assert!(answer.contains(line), "no {line} in {answer}");
    }
}

#[test]
fn a_token_is_asked_for_and_needed_beyond_this_host() {
    let address = hanare_testkit::free_address().to_string();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let _node = Node::start(None, &["--prometheus", &address, "--prometheus-token", token.to_str().unwrap()]);
    // Who connects and says nothing keeps nobody out.
    let _idle: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let answer = |header: &str| ask(&address, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{header}\r\n"));
    assert!(answer("").starts_with("HTTP/1.1 401"));
    assert!(answer("Authorization: Bearer 0123456789abcdeX\r\n").starts_with("HTTP/1.1 401"));
    assert!(answer("Authorization: Bearer 0123456789abcdef0\r\n").starts_with("HTTP/1.1 401"));
    assert!(answer("authorization: Bearer 0123456789abcdef\r\n").starts_with("HTTP/1.1 200"));
}

#[test]
fn without_a_token_only_this_host_is_served() {
    let socket = format!("@hanare-test-prometheus-{}", std::process::id());
    let state = tempfile::tempdir().unwrap();
    let mut node = Command::new(env!("CARGO_BIN_EXE_hanare"));
    node.args(["node", "--memory", "16M", "--listen", "127.0.0.1:0", "--socket", &socket, "--prometheus", "0.0.0.0:0"]);
    let output = node.env("HANARE_STATE", state.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("--prometheus-token"), "{told}");
}

/// A crowd that sends its requests byte by byte, and comes again whenever it is cut off, holds no place for long.
#[test]
fn a_crowd_that_dawdles_keeps_no_probe_out() {
    let address = hanare_testkit::free_address().to_string();
    let _node = Node::start(None, &["--prometheus", &address]);
    let mut crowd: Vec<TcpStream> = (0..128).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let dawdling = std::thread::spawn(move || {
        while stopped.recv_timeout(std::time::Duration::from_millis(300)).is_err() {
            crowd.iter_mut().for_each(|stream| drop(stream.write_all(b"x")));
        }
    });
    assert!(ask(&address, "GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    stop.send(()).unwrap();
    dawdling.join().unwrap();
}
