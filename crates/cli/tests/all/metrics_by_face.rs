//! Metrics tell by which face a program came: the library, the command, a service, a mount; and a program of an earlier version by none.

use crate::mounted_files::{Mount, cannot_mount};
use crate::pool;

use pool::{Build, Node, Nodes, command, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// The page of a node with `--prometheus`.
fn page(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(pool::BOUND)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// Bytes of commands by face, of all nodes.
fn told(nodes: &Nodes) -> BTreeMap<String, u64> {
    let top = nodes.hanare(&["top", "--once", "--json"]).json();
    let of = |face: &Value| (face["face"].as_str().unwrap().to_owned(), face["bytes"].as_u64().unwrap());
    top["faces"].as_array().unwrap().iter().map(of).collect()
}

/// Two nodes, of which the first tells metrics. Its own host reaches the region `small` there by commands, too.
fn nodes() -> (Nodes, String) {
    // The test has to know the port.
    let address = hanare_testkit::free_address().to_string();
    let home = Node::start(None, &["--prometheus", &address]);
    let other = Node::start(Some(&home.address), &[]);
    let nodes = Nodes { nodes: vec![home, other] };
    nodes.hanare(&["region", "create", "small", "1000"]).done();
    (nodes, address)
}

/// Writes the whole region by a command of the second host.
fn copy_by(mut command: Command, nodes: &Nodes) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [7; 1000]).unwrap();
    let copy = command.args(["region", "cp"]).arg(file.path()).arg("small").env("HANARE_NODE", &nodes.nodes[1].socket);
    run(copy).done();
}

#[test]
fn the_library_and_the_command_are_told_apart() {
    let (nodes, address) = nodes();
    let client = hanare::Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    client.open("small").unwrap().put(0, &[7; 100]).unwrap();
    copy_by(command(&[]), &nodes);
    let page = page(&address);
    for line in [
        "hanare_face_commands_total{face=\"rust\",command=\"put\",from=\"own_host\"} 1\n",
        "hanare_face_command_bytes_total{face=\"rust\",command=\"put\",from=\"own_host\"} 100\n",
        "hanare_face_command_bytes_total{face=\"command\",command=\"put\",from=\"other_host\"} 1000\n",
        "hanare_command_bytes_total{command=\"put\",from=\"other_host\"} 1000\n",
    ] {
        assert!(page.contains(line), "no {line} in {page}");
    }
    assert!(!page.contains("face=\"unknown\"") && page.contains("hanare_face_command_seconds_total{face=\"command\","), "{page}");
    let text = nodes.hanare(&["top", "--once"]).done();
    assert!(text.contains("FACE") && text.lines().any(|line| line.starts_with("rust ")), "{text}");
}

#[test]
fn services_and_mounts_name_their_faces() {
    let (nodes, _) = nodes();
    // A store of another host.
    let words = ["serve", "redis", "--store", "team.kv", "--bytes", "16M", "--place", "node=0", "--listen", "127.0.0.1:0"];
    let mut served = command(&words);
    let mut service = served.env("HANARE_NODE", &nodes.nodes[1].socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut client = TcpStream::connect(format!("127.0.0.1:{}", line.trim_end().rsplit(':').next().unwrap())).unwrap();
    client.set_read_timeout(Some(pool::BOUND)).unwrap();
    client.write_all(b"SET a b\r\n").unwrap();
    let mut reply = [0; 5];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    let mut wanted = vec!["redis"];
    if let Some(reason) = cannot_mount() {
        hanare_testkit::unable(reason);
    } else {
        // Its log is on the first host it was mounted at.
        let first = Mount::new(&nodes.nodes[0], &[]);
        let second = Mount::new(&nodes.nodes[1], &[]);
        std::fs::write(first.path("a"), b"from the first host").unwrap();
        assert_eq!(std::fs::read(second.path("a")).unwrap(), b"from the first host");
        wanted.push("files");
    }
    let told = told(&nodes);
    let _ = (service.kill(), service.wait());
    assert!(wanted.iter().all(|face| told.get(*face).is_some_and(|bytes| *bytes > 0)), "{told:?}");
    assert!(!told.contains_key("unknown"), "{told:?}");
}

#[test]
fn programs_and_nodes_of_an_earlier_version_have_no_known_face() {
    let (nodes, address) = nodes();
    copy_by(Build::Last.command(&[]), &nodes);
    copy_by(command(&[]), &nodes);
    let page = page(&address);
    for line in [
        "hanare_face_command_bytes_total{face=\"unknown\",command=\"put\",from=\"other_host\"} 1000\n",
        "hanare_face_command_bytes_total{face=\"command\",command=\"put\",from=\"other_host\"} 1000\n",
    ] {
        assert!(page.contains(line), "no {line} in {page}");
    }
    drop(nodes);

    // A node that does not tell: all that it did is of an unknown face, and the command is served.
    let nodes = Nodes { nodes: vec![Node::start_by(Build::Last.command(&[]), None, &[])] };
    nodes.hanare(&["region", "create", "small", "1000"]).done();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [7; 1000]).unwrap();
    nodes.hanare(&["region", "cp", file.path().to_str().unwrap(), "small"]).done();
    let told = told(&nodes);
    assert!(told.len() == 1 && told["unknown"] >= 1000, "{told:?}");
}
