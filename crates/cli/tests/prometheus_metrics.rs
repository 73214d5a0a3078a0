//! A node with `--prometheus` gives its pool's status to scrapers, and nothing else.

mod pool;

use pool::Node;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

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
    // A port that was free a moment ago; the node needs one that the test knows.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _node = Node::start(None, &["--prometheus", &address, "--name", "measured"]);
    let answer = ask(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("hanare_node_lent_bytes{node=\"0\",name=\"measured\"} "), "{answer}");
    assert!(answer.contains("hanare_node_up{node=\"0\",name=\"measured\"} 1\n"), "{answer}");
    assert!(ask(&address, "GET /secret HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
}
