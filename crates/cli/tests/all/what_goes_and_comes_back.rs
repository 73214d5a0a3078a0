//! What happens when a coordinator, a node or a client goes and comes back: one test for each row of the table in
//! ARCHITECTURE.md, with real processes.

use crate::pool;

use hanare::{CreateOptions, Error, Pool, Region};
use pool::HANARE;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LEN: usize = 100_000;

/// A node with a journal that outlives it.
struct Lasting {
    process: Child,
    socket: String,
}

impl Lasting {
    /// Starts a node; the same name, state folder and address make it the next life of the one before.
    fn start(name: &str, state: &Path, listen: &str, join: Option<&str>) -> Lasting {
        let socket = format!("@hanare-row-{}-{name}-{}", std::process::id(), state.file_name().unwrap().to_string_lossy());
        let mut command = Command::new(HANARE);
        command.args(["node", "--json", "--memory", "64M", "--listen", listen, "--name", name, "--socket", &socket]);
        command.args(join.into_iter().flat_map(|address| ["--join", address]));
        command.env("HANARE_KEY", pool::key());
        let mut process = command.env("HANARE_STATE", state).env("HANARE_LOG", "off").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("address"), "{line}");
        Lasting { process, socket }
    }

    fn client(&self) -> Pool {
        Pool::attach_to(&self.socket, None).unwrap()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A coordinator and another node, at addresses that stay the same.
struct Rows {
    state: tempfile::TempDir,
    at: String,
    coordinator: Lasting,
    other: Lasting,
}

impl Rows {
    fn start() -> Rows {
        let state = tempfile::tempdir().unwrap();
        // The port must be the same in the coordinator's next life, so it is chosen here.
        let at = hanare_testkit::free_address().to_string();
        let coordinator = Lasting::start("c", state.path(), &at, None);
        let other = Lasting::start("o", state.path(), "127.0.0.1:0", Some(&at));
        Rows { state, at, coordinator, other }
    }

    fn restart_coordinator(&mut self) {
        self.coordinator = Lasting::start("c", self.state.path(), &self.at, None);
    }

    fn restart_other(&mut self) {
        self.other = Lasting::start("o", self.state.path(), "127.0.0.1:0", Some(&self.at));
    }
}

fn filled(client: &Pool, name: &str, node: u32, byte: u8) -> Region {
    let options = CreateOptions { placement: format!("node={node}").parse().unwrap(), mode: 0o600, ..CreateOptions::default() };
    let region = client.create(name, LEN as u64, &options).unwrap();
    region.put(0, &[byte; LEN]).unwrap();
    region
}

#[track_caller]
fn assert_holds(region: &Region, byte: u8) {
    let mut bytes = vec![!byte; LEN];
    region.get(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|found| *found == byte));
}

/// Opens a region as soon as it can be opened.
fn open_soon(client: &Pool, name: &str) -> Region {
    let begun = Instant::now();
    loop {
        match client.open(name) {
            Ok(region) => return region,
            Err(error) if begun.elapsed() > Duration::from_secs(30) => panic!("'{name}' cannot be opened: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[test]
fn while_the_coordinator_is_away_data_go_on_and_naming_fails() {
    let mut rows = Rows::start();
    let client = rows.other.client();
    let here = filled(&client, "here", 1, 1);
    rows.coordinator.kill();
    assert_holds(&here, 1);
    here.put(0, &[2; LEN]).unwrap();
    assert_holds(&here, 2);
    let error = client.open("here").unwrap_err();
    assert!(matches!(error, Error::NoCoordinator { .. }), "{error}");
}

#[test]
fn after_the_coordinators_restart_names_and_other_nodes_bytes_are_there_and_its_own_are_lost() {
    let mut rows = Rows::start();
    let client = rows.other.client();
    let here = filled(&client, "here", 1, 1);
    filled(&client, "there", 0, 2);
    rows.coordinator.kill();
    rows.restart_coordinator();
    assert_holds(&open_soon(&client, "here"), 1);
    assert_holds(&here, 1);
    let error = client.open("there").unwrap_err();
    assert!(matches!(&error, Error::RegionLost { region, .. } if region == "there"), "{error}");
    let names: Vec<String> = client.list().unwrap().into_iter().map(|region| region.name).collect();
    assert_eq!(names, ["here", "there"], "a lost region is listed until it is removed");
    client.remove("there").unwrap();
    assert_holds(&filled(&client, "there", 0, 3), 3);
}

#[test]
fn a_killed_nodes_regions_are_lost_at_once_and_stay_lost_in_its_next_life() {
    let mut rows = Rows::start();
    let client = rows.coordinator.client();
    let gone = filled(&client, "gone", 1, 1);
    let kept = filled(&client, "kept", 0, 2);
    rows.other.kill();
    let begun = Instant::now();
    let error = gone.get(0, &mut [0; 8]).unwrap_err();
    assert!(matches!(error, Error::NodeLost { .. } | Error::RegionLost { .. }), "{error}");
    assert!(begun.elapsed() < pool::paced(Duration::from_secs(5)), "reported after {:?}", begun.elapsed());
    assert_holds(&kept, 2);
    rows.restart_other();
    let error = client.open("gone").unwrap_err();
    assert!(matches!(error, Error::RegionLost { .. }), "{error}");
    let error = gone.get(0, &mut [0; 8]).unwrap_err();
    assert!(matches!(error, Error::NodeLost { .. } | Error::RegionLost { .. } | Error::GrantRefused { .. }), "{error}");
    assert_holds(&filled(&client, "new", 1, 3), 3);
}

#[test]
fn a_stopped_node_is_lost_with_its_lease_and_comes_back_with_its_bytes_and_new_grants() {
    let rows = Rows::start();
    let client = rows.coordinator.client();
    let there = filled(&client, "there", 1, 1);
    pool::signal("STOP", rows.other.process.id());
    pool::wait_until("its lease ends", || !client.status().unwrap().nodes[1].alive);
    let error = client.open("there").unwrap_err();
    assert!(matches!(error, Error::NodeLost { .. }), "silent is not gone: {error}");
    let before = client.status().unwrap().nodes[1].epoch;
    pool::signal("CONT", rows.other.process.id());
    assert_holds(&open_soon(&client, "there"), 1);
    assert!(client.status().unwrap().nodes[1].epoch > before, "a node that was reported lost gets a new epoch");
    // The old handle's grant fails at the node; the library asks for that of today and goes on.
    assert_holds(&there, 1);
}

#[test]
fn a_node_that_ends_in_good_order_is_known_to_be_gone_without_waiting_for_its_lease() {
    let mut rows = Rows::start();
    let client = rows.coordinator.client();
    filled(&client, "there", 1, 1);
    pool::signal("TERM", rows.other.process.id());
    rows.other.process.wait().unwrap();
    let error = client.open("there").unwrap_err();
    assert!(matches!(error, Error::RegionLost { .. }), "{error}");
}

#[test]
fn a_clients_end_frees_nothing_that_has_a_name() {
    let rows = Rows::start();
    let client = rows.other.client();
    filled(&client, "left", 1, 4);
    filled(&client, "far", 0, 5);
    drop(client);
    let next = rows.coordinator.client();
    assert_holds(&next.open("left").unwrap(), 4);
    assert_holds(&next.open("far").unwrap(), 5);
}

#[test]
fn a_second_node_of_the_coordinators_name_is_refused_and_disturbs_nobody() {
    let rows = Rows::start();
    let socket = format!("@hanare-row-{}-twin", std::process::id());
    let words = ["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--join", &rows.at, "--name", "c", "--socket", &socket];
    pool::run(pool::command(&words).env("HANARE_KEY", pool::key())).refused(&["--name", "'c'", "choose another"]);
    let client = rows.coordinator.client();
    assert_holds(&filled(&client, "here", 0, 6), 6);
}

#[test]
fn a_grant_of_another_region_opens_nothing() {
    use hanare_protocol::id::{Grant, Slot};
    use hanare_protocol::shape::Shape;
    use hanare_protocol::wire::command::{Command as Vector, Op};
    use hanare_protocol::wire::head::{HEAD_LEN, Head, Kind};
    use std::io::{Read, Write};

    let rows = Rows::start();
    let client = rows.other.client();
    let secret = filled(&client, "secret", 0, 9);
    let slot = secret.layout().extents().next().unwrap().slot;
    let mut socket = pool::data_link(&rows.at);
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for slot in [slot, Slot(77)] {
        let command = Vector::new(Op::Get, 0, slot, Grant([3; 16]), &Shape::contiguous(0, 8));
        socket.write_all(&Head { count: 1, body_len: 64, ..Head::new(Kind::Commands, 5) }.encode()).unwrap();
        socket.write_all(&command.encode()).unwrap();
        let mut head = [0; HEAD_LEN];
        socket.read_exact(&mut head).unwrap();
        let head = Head::decode(&head).unwrap();
        assert_eq!((head.kind, head.seq), (Kind::Refused, 5));
        let mut body = vec![0; head.body_len as usize];
        socket.read_exact(&mut body).unwrap();
        let error: Error = hanare_protocol::wire::control::decode(&body).unwrap();
        assert!(matches!(error, Error::GrantRefused { .. }), "{error}");
    }
    // Nonsense ends that connection, and nothing else.
    socket.write_all(&[0xee; 4096]).unwrap();
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest);
    assert_holds(&secret, 9);
}
