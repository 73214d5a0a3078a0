//! `hanare demo matmul`, which `make run` runs: two files, two nodes, two ranks, and the product checked.

use crate::pool;

use pool::{command, run};

#[test]
fn the_product_of_two_files_is_right_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let words = ["demo", "matmul", "--n", "129", "--dir", &path("files")];
    // The folder of the command's own sources is not the current one: it needs no other file.
    let outcome = run(command(&words).arg("--json").current_dir(folder.path())).json();
    assert_eq!((outcome["runs"][0]["ranks"].as_u64(), outcome["runs"][1]["ranks"].as_u64()), (Some(1), Some(2)));
    assert_eq!(outcome["regions"][2]["nodes"].as_array().unwrap().len(), 2, "C lies on both nodes: {outcome}");
    // Rank 1 is on the other node: B, its rows of A and its rows of C cross. On one node only the barrier's few bytes do.
    assert!(outcome["runs"][1]["bytes_moved"].as_u64().unwrap() >= (129 + 65) * 129 * 8, "{outcome}");
    assert!(outcome["runs"][0]["bytes_moved"].as_u64().unwrap() < 129 * 129 * 8, "{outcome}");
    assert_eq!(outcome["worst_difference"].as_f64(), Some(0.0), "the ranks add in the same order");
    assert_eq!(std::fs::metadata(path("files/C.npy")).unwrap().len(), 128 + 129 * 129 * 8);
    let text = run(&mut command(&words)).done();
    assert!(
        ["one process, main memory", "pool, 2 ranks", "SPEED-UP", "BYTES MOVED", "LIES ON", "C.npy holds the product"]
            .iter()
            .all(|word| text.contains(word)),
        "{text}"
    );
}
