//! The programs of the drivers paper's figures 2, 3 and 4: each compiler's version runs and finds the right product.

use crate::stage;

use stage::{COMPILERS, Stage};

/// Compiles `apps/matmul/NAME.c` with each compiler that is here.
fn each(name: &str, run: impl Fn(&std::path::Path)) {
    let source = stage::crate_path(&format!("../../apps/matmul/{name}.c"));
    for compiler in COMPILERS.iter().filter(|compiler| compiler.is_here()) {
        run(&compiler.compile(&source));
    }
}

/// The line that a program prints is about so many ranks, and no element is wrong.
fn assert_right(line: &str, ranks: usize) {
    assert!(line.starts_with("matmul variant=") && line.contains(&format!(" ranks={ranks} ")), "{line}");
    assert!(line.trim_end().ends_with(" wrong=0"), "{line}");
}

// FEATURE: D2-F19
#[test]
fn figure_2_multiplies_in_local_regions() {
    let stage = Stage::of(1);
    each("local", |program| assert_right(&stage.pass(program, &["100", "--check"], 1)[0], 1));
}

// FEATURE: D2-F11 D2-F19
#[test]
fn figure_3_multiplies_with_and_without_stride() {
    let stage = Stage::of(1);
    each("vector", |program| {
        assert_right(&stage.pass(program, &["90", "--check"], 1)[0], 1);
        assert_right(&stage.pass(program, &["90", "--check", "--no-stride"], 1)[0], 1);
    });
}

// FEATURE: D2-F5 D2-F6 D2-F7 D2-F8 D2-F19
#[test]
fn figure_4_multiplies_on_ranks_of_several_nodes_and_drops_no_row() {
    each("distributed", |program| {
        // 101 rows leave a remainder for 2, 3 and 5 ranks; rows of 808 bytes share pages between ranks.
        for (nodes, ranks) in [(2, 1), (2, 2), (2, 3), (3, 5)] {
            let lines = Stage::of(nodes).pass(program, &["101", "--check"], ranks);
            assert_right(&lines[0], ranks);
        }
    });
}

// FEATURE: D2-F4 D2-F19
#[test]
fn ranks_on_mapped_memory_multiply() {
    stage::each_app("matmul/mapped", &[], |program| {
        for (nodes, ranks, mode) in stage::SHARINGS {
            let lines = Stage::of(nodes).pass(program, &["101", "--check", "--mode", mode], ranks);
            assert_right(&lines[0], ranks);
        }
    });
}

#[test]
fn the_plain_product_is_right_too() {
    let stage = Stage::of(1);
    each("plain", |program| assert_right(&stage.pass(program, &["100", "--check", "--processes", "2"], 1)[0], 2));
}

/// What the whole job does: matrices from files, the product back to a file, checked there.
#[test]
fn files_written_and_checked_by_the_programs_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (a, b) = (path("a.npy"), path("b.npy"));
    let stage = Stage::of(1);
    let Some(compiler) = COMPILERS.iter().find(|compiler| compiler.is_here()) else { return };
    let program = |name: &str| compiler.compile(&stage::crate_path(&format!("../../apps/matmul/{name}.c")));
    stage.pass(&program("fill"), &["50", &a, &b], 1);
    let bytes = std::fs::read(&a).unwrap();
    assert_eq!(bytes.len(), 128 + 50 * 50 * 8);
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (50, 50), }"));
    // A is no product of A and B: the check must see that.
    let outputs = stage.run(&program("check"), &[&a, &b, &a], 1);
    assert_eq!(outputs[0].status.code(), Some(1));
    assert!(String::from_utf8_lossy(&outputs[0].stdout).contains("wrong=2500"));
}
