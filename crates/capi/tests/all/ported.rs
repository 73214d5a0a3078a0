//! Programs that were written for threads run as ranks by the macros of `hanare_parmacs.h`, with the results of threads.

use crate::stage;

use stage::{Compiler, Stage, value};
use std::path::PathBuf;
use std::process::Command;

/// C compilers that are here.
fn compilers() -> impl Iterator<Item = Compiler> {
    stage::COMPILERS.into_iter().filter(|compiler| compiler.language == "c99" && compiler.is_here())
}

fn parmacs() -> Option<PathBuf> {
    Some(compilers().next()?.compile_all(&[&stage::crate_path("tests/c/parmacs.c")], &[]))
}

/// Runs a program's two forms, of one source, on two nodes, on one and as threads: each checks itself against a run by one, and all
/// say the same result.
fn both_forms_agree(name: &str, arguments: &[&str]) {
    let source = stage::crate_path(&format!("../../apps/{name}.c"));
    let (one, two) = (Stage::of(1), Stage::of(2));
    let arguments = [arguments, &["--check"]].concat();
    for compiler in compilers() {
        let ranks = compiler.compile_all(&[&source], &["-lm"]);
        let threads = compiler.compile_all(&[&source], &["-DHANARE_PARMACS_THREADS", "-pthread", "-lm"]);
        let of_threads = one.pass(&threads, &[&arguments[..], &["--processes", "2"]].concat(), 1).remove(0);
        let right = value(&of_threads, "result").to_owned();
        assert_eq!(value(&of_threads, "ok"), "1", "{of_threads}");
        for (stage, count) in [(&one, 1), (&one, 3), (&two, 2)] {
            let line = stage.pass(&ranks, &arguments, count).remove(0);
            let said = ["processes", "ok", "result"].map(|key| value(&line, key));
            assert_eq!(said, [count.to_string().as_str(), "1", right.as_str()], "{line}");
        }
    }
}

#[test]
fn bodies_from_a_store_of_work() {
    both_forms_agree("kit/bodies", &["100", "--steps", "3"]);
}

#[test]
fn kmeans() {
    both_forms_agree("kmeans/kmeans", &["5000", "--clusters", "7", "--rounds", "4"]);
}

#[test]
fn a_hash_table_under_locks() {
    both_forms_agree("hashtable/hashtable", &["60000", "--keys", "3000", "--parts", "8", "--batch", "500"]);
}

#[test]
fn bodies_in_a_tree_of_pointers() {
    both_forms_agree("nbody/nbody", &["1500", "--steps", "3"]);
}

#[test]
fn columns_of_pages_that_all_write() {
    both_forms_agree("columns/columns", &["8", "--sweeps", "6"]);
}

/// Its loads check what they read.
#[test]
fn loads_are_right_in_every_way_of_sharing() {
    stage::each_app("modes/modes", &[], |program| {
        for (nodes, ranks) in [(1, 3), (2, 2)] {
            let said = Stage::of(nodes).pass(program, &["--rounds", "3"], ranks).remove(0);
            let ways: Vec<_> = said.lines().map(|line| (value(line, "variant"), value(line, "mode"))).collect();
            let loads = ["columns", "table", "records"];
            let all = loads.iter().flat_map(|load| ["explicit", "coherent", "entry"].map(|mode| (*load, mode)));
            assert_eq!(ways, all.collect::<Vec<_>>());
        }
    });
}

#[test]
fn what_is_set_before_create_the_created_have() {
    for compiler in compilers() {
        let program = compiler.compile_all(&[&stage::crate_path("tests/c/parmacs.c")], &[]);
        Stage::of(1).pass(&program, &["works"], 1);
        Stage::of(1).pass(&program, &["works"], 3);
        Stage::of(2).pass(&program, &["works"], 2);
        Stage::of(1).pass(&program, &["creates-nothing"], 2);
    }
}

#[test]
fn it_works_at_a_fixed_address_and_with_slots_that_are_bound_late() {
    let Some(compiler) = compilers().next() else { return };
    let source = stage::crate_path("tests/c/parmacs.c");
    for words in [&["-no-pie", "-fno-pie"][..], &["-Wl,-z,lazy"], &["-Wl,-z,now,-z,relro"]] {
        let program = compiler.compile_all(&[&source], words);
        Stage::of(2).pass(&program, &["works"], 2);
    }
}

#[test]
fn wrong_use_is_told() {
    let Some(program) = parmacs() else { return };
    let cases = [
        ("too-many", "start it by `hanare run -n 2 -- PROGRAM`"),
        ("not-initialised", "used before its INIT"),
        ("no-barrier", "before its BARINIT"),
        ("not-held", "does not hold"),
        ("held-twice", "a lock that it holds"),
        ("foreign", "none of G_MALLOC's"),
        ("twice", "MAIN_INITENV was called twice"),
        ("no-memory", "MAIN_INITENV(bytes) says how much"),
    ];
    for (wrong, words) in cases {
        let outputs = Stage::of(1).run(&program, &[wrong], 1);
        let said = String::from_utf8_lossy(&outputs[0].stderr);
        assert_eq!(outputs[0].status.code(), Some(1), "{wrong}: {said}");
        assert!(said.starts_with("hanare_parmacs: ") && said.contains(words), "{wrong}: {said}");
    }
}

#[test]
fn variables_that_point_to_memory_of_rank_0_are_told() {
    let Some(program) = parmacs() else { return };
    let outputs = Stage::of(1).run(&program, &["own-memory"], 2);
    let said = String::from_utf8_lossy(&outputs[0].stderr);
    assert!(outputs[0].status.success(), "{said}");
    assert!(said.contains("note: 1 of the program's variables point to memory of rank 0 alone"), "{said}");
}

#[test]
fn a_process_that_dies_ends_the_others() {
    let Some(program) = parmacs() else { return };
    let outputs = Stage::of(2).run(&program, &["dies"], 3);
    for rank in [0, 2] {
        let said = String::from_utf8_lossy(&outputs[rank].stderr);
        assert_eq!(outputs[rank].status.code(), Some(1), "{said}");
        assert!(said.contains("rank 1"), "{said}");
    }
}

#[test]
fn without_a_pool_it_says_how_to_start() {
    let Some(program) = parmacs() else { return };
    let output = Command::new(program).env("HANARE_NODE", "@hanare-there-is-no-node").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("hanare run -n 4 -- PROGRAM"), "{said}");
}
