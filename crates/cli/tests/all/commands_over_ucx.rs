//! Commands between hosts over UCX, where there is a UCX: the same bytes, the same end of a killed node, and one line where settings differ.

use crate::pool;

use hanare::{CreateOptions, Element, Error, Indexed, Modify, Operator, Pool, Range, Strided, Value};
use pool::{Nodes, command};
use std::time::{Duration, Instant};

/// Whether this machine has UCX; says why the test is skipped where it has none.
fn has_ucx() -> bool {
    let ucx = hanare::fabrics::FABRICS.iter().find(|fabric| fabric.name == "ucx").expect("it is a fabric");
    match (ucx.available)() {
        Ok(_) => true,
        Err(reason) => {
            hanare_testkit::unable(reason);
            false
        }
    }
}

/// This test again, alone in a process of its own with the fabric set: a client reads its settings from the environment.
fn again_over(fabric: &str, test: &str) -> bool {
    if std::env::var("HANARE_FABRIC").is_ok_and(|set| set == fabric) {
        return true;
    }
    let mut again = pool::clean(std::env::current_exe().unwrap());
    pool::run(again.args(["--exact", &format!("commands_over_ucx::{test}"), "--nocapture"]).env("HANARE_FABRIC", fabric)).done();
    false
}

#[test]
fn bytes_and_numbers_come_back_and_a_killed_node_is_lost_in_time() {
    if !has_ucx() || !again_over("ucx", "bytes_and_numbers_come_back_and_a_killed_node_is_lost_in_time") {
        return;
    }
    let mut nodes = Nodes::start_with(3, &[("HANARE_FABRIC", "ucx")]);
    let client = Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    let placed = |node: &str| CreateOptions { placement: node.parse().unwrap(), mode: 0o600, ..CreateOptions::default() };
    let (a, b) =
        (client.create("a", 8 << 20, &placed("node=1")).unwrap(), client.create("b", 8 << 20, &placed("node=2")).unwrap());
    let words: Vec<u8> = (0..1u64 << 20).flat_map(u64::to_le_bytes).collect();
    a.put(0, &words).unwrap();
    let whole = Strided::contiguous(0, 8 << 20);
    client.copy(&a, whole, &b, whole).unwrap();
    assert_eq!(b.compare(whole, &words).unwrap(), None);
    let indices: Vec<u32> = (0..100_000).map(|k| k * 7919 % (1 << 20)).collect();
    let mut back = vec![0; 800_000];
    b.get_shape(Indexed::elements(0, 8, &indices[..]), &mut back).unwrap();
    assert!(back.chunks(8).zip(&indices).all(|(word, index)| word == u64::from(*index).to_le_bytes()));
    b.update(whole, Modify { operator: Operator::Add, element: Element::U64 }, &1u64.to_le_bytes()).unwrap();
    let summary = b.reduce(whole, Element::U64, Range::all(Element::U64)).unwrap();
    assert_eq!(summary.sum(), Value::Whole((1..=1i128 << 20).sum()));

    nodes.nodes[1].process.kill().unwrap();
    let killed = Instant::now();
    let error = a.get(0, &mut back).unwrap_err();
    assert!(matches!(error, Error::NodeLost { .. } | Error::RegionLost { .. }), "{error}");
    assert!(killed.elapsed() < pool::paced(Duration::from_secs(5)), "reported after {:?}", killed.elapsed());
    b.get(0, &mut back).unwrap();
}

#[test]
fn a_launch_takes_its_fabric_from_its_option() {
    if !has_ucx() {
        return;
    }
    let text = pool::run(&mut command(&[
        "run",
        "--nodes",
        "2",
        "--memory",
        "64M",
        "--fabric",
        "ucx",
        "--",
        "printenv",
        "HANARE_FABRIC",
    ]))
    .done();
    assert!(text.contains("ucx"), "{text}");
}

#[test]
fn sides_that_differ_are_refused_in_one_line() {
    if !has_ucx() || !again_over("tcp", "sides_that_differ_are_refused_in_one_line") {
        return;
    }
    let nodes = Nodes::start_with(2, &[("HANARE_FABRIC", "ucx")]);
    let client = Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    let placement = "node=1".parse().unwrap();
    let region = client.create("a", 1 << 20, &CreateOptions { placement, mode: 0o600, ..CreateOptions::default() }).unwrap();
    let error = region.put(0, &[1; 8]).unwrap_err().to_string();
    assert!(error.contains("fabric") && error.contains("ucx") && error.contains("tcp") && !error.contains('\n'), "{error}");
}

#[test]
fn what_ucx_leaves_of_a_launch_goes_with_it() {
    if !has_ucx() {
        return;
    }
    // As a process does that is killed between the making of its file and the end of the file's name.
    let script = "echo $UCX_POSIX_DIR; touch $UCX_POSIX_DIR/left; kill -9 $$";
    let words = ["run", "--nodes", "2", "-n", "1", "--memory", "64M", "--fabric", "ucx", "--", "sh", "-c", script];
    let ended = pool::run(&mut command(&words));
    let said = String::from_utf8(ended.stdout).unwrap();
    let folder = std::path::PathBuf::from(said.trim());
    assert!(folder.is_absolute() && !folder.exists(), "{said}");
}
