//! What a `.npy` file holds goes into a region and comes back as the same file, on whichever node the region lies.

use crate::pool;

use pool::Nodes;
use std::path::Path;

/// A 100 x 30 array of doubles as NumPy saves it.
fn write_npy(path: &Path) -> Vec<u8> {
    let text = format!("{:<117}\n", "{'descr': '<f8', 'fortran_order': False, 'shape': (100, 30), }");
    let mut bytes = [&b"\x93NUMPY\x01\0"[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
    (0..3000).for_each(|k| bytes.extend((f64::from(k) * 0.37 - 500.0).to_le_bytes()));
    std::fs::write(path, &bytes).unwrap();
    bytes
}

#[test]
fn an_array_comes_back_as_it_was_saved() {
    let nodes = Nodes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes = write_npy(&folder.path().join("in.npy"));

    for place in ["local", "node=1", "interleave=4K"] {
        nodes.hanare(&["region", "cp", &file("in.npy"), "array", "--place", place]).done();
        let stat = nodes.hanare(&["region", "stat", "array", "--json"]).json();
        assert_eq!((stat["size"].as_u64(), stat["attributes"]["shape"].as_str()), (Some(24_000), Some("(100, 30)")), "{place}");
        let listed = nodes.hanare(&["region", "ls"]).done();
        assert!(listed.contains("<f8 100x30"), "{listed}");
        nodes.hanare(&["region", "cp", "array", &file("same.npy")]).done();
        nodes.hanare(&["region", "cp", "array", "copy"]).done();
        nodes.hanare_on(1, &["region", "cp", "copy", &file("copy.npy")]).done();
        assert!(std::fs::read(file("same.npy")).unwrap() == bytes, "{place}: the region knows what array it holds");
        assert!(std::fs::read(file("copy.npy")).unwrap() == bytes, "{place}: its copy knows it too");
        nodes.hanare(&["region", "rm", "copy"]).done();
        nodes.hanare(&["region", "cp", "array", &file("like.npy"), "--like", &file("in.npy")]).done();
        nodes.hanare(&["region", "cp", "array", &file("out.npy"), "--shape", "100x30", "--dtype", "float64"]).done();
        nodes.hanare_on(1, &["region", "cp", "array", &file("out.bin")]).done();
        assert!(std::fs::read(file("like.npy")).unwrap() == bytes, "{place}: --like gives the same file");
        assert!(std::fs::read(file("out.npy")).unwrap() == bytes, "{place}: --shape and --dtype give the same file");
        assert!(std::fs::read(file("out.bin")).unwrap() == bytes[128..], "{place}: a raw file has the elements alone");
        nodes.hanare(&["region", "rm", "array"]).done();
    }
}

#[test]
fn records_and_fortran_order_come_back_as_they_were_saved() {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let record = "{'descr': [('shape', '<f8'), ('n', '<i4')], 'fortran_order': False, 'shape': (3,), }";
    let fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 3), }";
    for (name, text) in [("record", record), ("fortran", fortran)] {
        let text = format!("{text:<117}\n");
        let header = [&b"\x93NUMPY\x01\0"[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
        let bytes: Vec<u8> = header.into_iter().chain(0..36).collect();
        std::fs::write(file("in.npy"), &bytes).unwrap();
        nodes.hanare(&["region", "cp", &file("in.npy"), name]).done();
        nodes.hanare(&["region", "cp", name, &file("out.npy")]).done();
        assert!(std::fs::read(file("out.npy")).unwrap() == bytes, "{name}");
    }
}

#[test]
fn what_a_region_holds_can_be_told_later_and_taken_away() {
    let nodes = Nodes::start(1);
    let listed = || nodes.hanare(&["region", "ls"]).done();
    nodes.hanare(&["region", "create", "a", "24"]).done();
    nodes.hanare(&["region", "set", "a", "--array", "f8 3", "--attribute", "unit=K", "--mode", "0644"]).done();
    assert!(listed().contains("<f8 3") && listed().contains("0644"), "{}", listed());
    nodes.hanare(&["region", "set", "a", "--name", "b", "--array", "none"]).done();
    let stat = nodes.hanare(&["region", "stat", "b", "--json"]).json();
    assert_eq!(stat["attributes"], serde_json::json!({ "unit": "K" }));
    nodes.hanare(&["region", "set", "b"]).refused(&["--array"]);
    nodes.hanare(&["region", "set", "a", "--mode", "0600"]).refused(&["'a'", "does not exist"]);
}

#[test]
fn a_copy_between_regions_is_whole_and_longer_than_a_chunk() {
    let nodes = Nodes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes: Vec<u8> = (0..9_000_001u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(file("in.bin"), &bytes).unwrap();
    nodes.hanare(&["region", "cp", &file("in.bin"), "here"]).done();
    nodes.hanare(&["region", "cp", "here", "there", "--place", "node=1"]).done();
    nodes.hanare_on(1, &["region", "cp", "there", &file("out.bin")]).done();
    assert!(std::fs::read(file("out.bin")).unwrap() == bytes);
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_no_file() {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes = write_npy(&folder.path().join("in.npy"));
    nodes.hanare(&["region", "create", "small", "100"]).done();
    nodes.hanare(&["region", "cp", &file("in.npy"), "small"]).refused(&["'small'", "100 B", "24000"]);
    nodes
        .hanare(&["region", "cp", "small", &file("out.npy"), "--shape", "5x5", "--dtype", "f8"])
        .refused(&["5x5", "200 B", "100"]);
    nodes.hanare(&["region", "cp", "small", &file("out.npy"), "--shape", "100"]).refused(&["--dtype"]);
    nodes.hanare(&["region", "cp", &file("none.npy"), "x"]).refused(&["none.npy"]);
    std::fs::write(file("cut.npy"), &bytes[..5000]).unwrap();
    nodes.hanare(&["region", "cp", &file("cut.npy"), "x"]).refused(&["cut.npy", "24000"]);
    std::fs::write(file("no.npy"), b"plain text").unwrap();
    nodes.hanare(&["region", "cp", &file("no.npy"), "y"]).refused(&["no.npy", ".npy"]);
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["cut.npy", "in.npy", "no.npy"]);
}
