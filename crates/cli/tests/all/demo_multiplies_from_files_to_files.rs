//! `hanare demo matmul`, which `make run` runs: two files, two nodes, a program in C on two ranks, and the product checked.

use crate::pool;

use pool::{command, run};
use std::path::Path;
use std::process::Command;

/// Builds the C program into `folder`, or says why it cannot be.
fn build(folder: &Path) -> Result<(), &'static str> {
    // Where `cargo test --workspace` puts what the C face's own tests link with.
    let library = std::env::current_exe().unwrap().with_file_name("libhanare_capi.so");
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !has("make") || !has("cc") {
        return Err("no make or no C compiler");
    }
    if !library.exists() {
        return Err("libhanare_capi.so is not built; the whole workspace's tests build it");
    }
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(apps)
        .arg(format!("OUT={}", folder.display()))
        .arg(format!("LIBRARY={}", library.display()))
        .args(["distributed", "plain"]);
    let ended = run(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"));
    assert!(ended.status.success(), "{}", ended.stderr);
    Ok(())
}

// FEATURE: D2-F19
#[test]
fn the_product_of_two_files_is_right_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let apps = folder.path().join("apps");
    if let Err(reason) = build(&apps) {
        eprintln!("skipped: {reason}");
        return;
    }
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let program = apps.join("distributed");
    let (program, plain) = (program.to_str().unwrap(), apps.join("plain"));
    let plain = plain.to_str().unwrap();
    let words = ["demo", "matmul", "--n", "129", "--dir", &path("files"), "--program", program, "--plain", plain];
    let outcome = run(command(&words).arg("--json")).json();
    assert_eq!((outcome["runs"][0]["ranks"].as_u64(), outcome["runs"][1]["ranks"].as_u64()), (Some(1), Some(2)));
    assert_eq!((outcome["plain"][0]["ranks"].as_u64(), outcome["plain"][1]["ranks"].as_u64()), (Some(1), Some(2)));
    assert_eq!(outcome["regions"][2]["nodes"].as_array().unwrap().len(), 2, "C lies on both nodes: {outcome}");
    // Rank 1 is on the other node: A, B and its rows of C cross. On one node only the barrier's few bytes do.
    assert!(outcome["runs"][1]["bytes_moved"].as_u64().unwrap() >= 2 * 129 * 129 * 8, "{outcome}");
    assert!(outcome["runs"][0]["bytes_moved"].as_u64().unwrap() < 4096, "{outcome}");
    assert!(outcome["worst_difference"].as_f64().unwrap() < 1e-12);
    assert_eq!(std::fs::metadata(path("files/C.npy")).unwrap().len(), 128 + 129 * 129 * 8);
    let text = run(&mut command(&words)).done();
    assert!(
        ["plain C, 2 processes", "pool, 2 ranks", "SPEED-UP", "BYTES MOVED", "LIES ON", "C.npy holds the product"]
            .iter()
            .all(|word| text.contains(word)),
        "{text}"
    );
}
