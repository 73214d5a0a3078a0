//! `examples/`: each program compiles without a word and prints what its page says, on two nodes.

use crate::stage;

#[path = "../../../../examples/batch.rs"]
mod batch;
#[path = "../../../../examples/count.rs"]
mod count;

/// The programs, each with its ranks and what rank 0 prints.
const IN_C: &[(&str, usize, &str)] = &[
    ("count", 3, "3000\n"),
    ("table", 2, "sum 66977792, column 7 ends with 511\n"),
    ("work", 4, "300 numbers, sum 15150\n"),
    ("list", 2, "2 items\n"),
];
const IN_RUST: &[(&str, usize, &str)] = &[("count", 3, "3000\n"), ("batch", 2, "sum 8320\n")];

#[test]
fn programs_in_c_print_what_they_say() {
    for compiler in stage::COMPILERS.iter().filter(|compiler| compiler.language == "c99" && compiler.is_here()) {
        for (name, ranks, wanted) in IN_C {
            let built = compiler.compile(&stage::crate_path(&format!("../../examples/{name}.c")));
            let printed = stage::Stage::of(2).pass(&built, &[], *ranks);
            assert_eq!(printed[0], *wanted, "{name}");
        }
    }
    let folder = std::fs::read_dir(stage::crate_path("../../examples")).unwrap();
    let sources = folder.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "c"));
    assert_eq!(sources.count(), IN_C.len(), "a program that no test runs");
}

/// This test binary once more, as a rank of a program in Rust.
#[test]
fn programs_in_rust_print_what_they_say() {
    let own = std::env::current_exe().unwrap();
    for (variable, ranks, wanted) in IN_RUST {
        let stage = stage::Stage::of(2).with("EXAMPLE", variable);
        let printed = stage.pass(&own, &hanare_testkit::words("examples::a_rank_in_rust"), *ranks);
        assert!(printed[0].contains(wanted), "{variable}: {}", printed[0]);
    }
}

/// Not a test: the body of the ranks that the one above starts.
pub fn a_rank_in_rust() {
    match std::env::var("EXAMPLE").as_deref() {
        Ok("count") => count::main().unwrap(),
        Ok("batch") => batch::main().unwrap(),
        _ => {}
    }
}
