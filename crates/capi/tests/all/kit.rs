//! A program that was written for threads runs as ranks by the macros of `apps/kit/kit.h`.

use crate::stage;

use stage::{Stage, each_app, value};

#[test]
fn bodies_move_as_in_a_sequential_run_whoever_takes_them() {
    each_app("kit/bodies", &[], |program| {
        for ranks in 1..=3 {
            let line = &Stage::of(1).pass(program, &["100", "--steps", "3", "--check"], ranks)[0];
            assert_eq!((value(line, "processes"), value(line, "wrong")), (ranks.to_string().as_str(), "0"), "{line}");
        }
    });
}

#[test]
fn macros_are_held_to_what_they_say() {
    let source = stage::crate_path("tests/c/kit_macros.c");
    for compiler in stage::COMPILERS.iter().filter(|compiler| compiler.language == "c99" && compiler.is_here()) {
        let program = compiler.compile_all(&[&source], &["-lm"]);
        Stage::of(1).pass(&program, &["works"], 3);
        Stage::of(1).pass(&program, &["creates-nothing"], 2);
        for wrong in ["too-many", "not-initialised", "not-held", "held-twice"] {
            let outputs = Stage::of(1).run(&program, &[wrong], 1);
            let said = String::from_utf8_lossy(&outputs[0].stderr);
            assert_eq!(outputs[0].status.code(), Some(1), "{wrong}: {said}");
            assert!(said.starts_with("kit: "), "{wrong}: {said}");
        }
    }
}
