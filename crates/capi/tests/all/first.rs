//! The README's first program.

use crate::stage;

#[test]
fn the_first_program_puts_and_gets() {
    let source = stage::crate_path("../../apps/first/first.c");
    let stage = stage::Stage::of(1);
    for compiler in stage::COMPILERS.iter().filter(|compiler| compiler.is_here()) {
        assert_eq!(stage.pass(&compiler.compile(&source), &[], 1), ["good morning\n"]);
    }
}
