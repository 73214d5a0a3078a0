//! Nodes tell programs in C, in Fortran and of OpenSHMEM apart, though all go through one library.

use crate::{fortran, shmem, stage};

use hanare::ProgramFace;
use std::collections::BTreeSet;
use std::path::Path;

/// The faces that two nodes count, but for their own, when so many ranks of a program have run there.
fn faces_of(program: &Path, words: &[&str], ranks: usize) -> BTreeSet<ProgramFace> {
    let stage = stage::Stage::of(2);
    stage.pass(program, words, ranks);
    let pool = stage.attach(0);
    let told =
        pool.status().unwrap().nodes.into_iter().map(|node| pool.face_counts(&node).unwrap().expect("it is of this build"));
    let faces = told.flat_map(|told| told.faces).map(|(face, _)| ProgramFace::of(face.into()));
    faces.filter(|face| *face != ProgramFace::Node).collect()
}

#[test]
fn a_program_in_c() {
    let Some(program) = stage::program("shapes") else { return };
    assert_eq!(faces_of(&program, &["interleave=65536"], 1), [ProgramFace::C].into());
}

#[test]
fn a_program_in_fortran() {
    let Some(built) = fortran::built() else { return };
    assert_eq!(faces_of(&built.join("heat"), &["24", "10"], 2), [ProgramFace::Fortran].into());
}

#[test]
fn a_program_of_openshmem() {
    let Some(built) = shmem::built() else { return };
    // Another test compiles it at the same time, without further words.
    let program = shmem::try_compile(built, "atomics", &["-g"]).unwrap();
    assert_eq!(faces_of(&program, &[], 2), [ProgramFace::OpenShmem].into());
}
