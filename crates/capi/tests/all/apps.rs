//! `apps/Makefile` builds every program, and they find the library beside them.

use crate::stage;

use std::process::Command;

#[test]
fn make_builds_programs_that_find_their_library() {
    let out = tempfile::tempdir().unwrap();
    let mut make = Command::new("make");
    make.arg("-C").arg(stage::crate_path("../../apps")).args(["--silent", "CFLAGS=-O1"]);
    make.arg(format!("OUT={}", out.path().display())).arg(format!("LIBRARY={}", stage::library().display()));
    // Variables of an outer make are not for this one.
    let built = make.env_remove("MAKEFLAGS").env_remove("MAKEOVERRIDES").output();
    let Ok(built) = built else { return hanare_testkit::uninstalled("make is not installed") };
    if Command::new("cc").arg("--version").output().is_err() {
        return hanare_testkit::uninstalled("cc is not installed");
    }
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for name in [
        "local",
        "vector",
        "distributed",
        "plain",
        "fill",
        "check",
        "matmul-mapped",
        "lu-plain",
        "lu-mapped",
        "table4",
        "bodies",
        "halo",
    ] {
        assert!(out.path().join(name).is_file(), "{name}");
    }
    assert_eq!(stage::Stage::of(1).pass(&out.path().join("first"), &[], 1), ["good morning\n"]);
}
