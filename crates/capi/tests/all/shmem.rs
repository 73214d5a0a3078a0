//! OpenSHMEM: `shmem/Makefile` builds it, its compiler and launcher run programs on one node and on several, and what is refused is told.

use crate::stage;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// A file of `shmem/` in the sources.
fn source(name: &str) -> PathBuf {
    stage::crate_path("../../shmem").join(name)
}

/// What `make` builds for users: `bin`, `include` and `lib`; `None` (and a line that says so) where something is not installed.
pub fn built() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let command = stage::command()?;
    for tool in ["cc", "make", "nm"] {
        if Command::new(tool).arg("--version").output().is_err() {
            hanare_testkit::uninstalled(format!("{tool} is not installed"));
            return None;
        }
    }
    let out = stage::folder().join("shmem");
    let mut make = Command::new("make");
    make.arg("-C").arg(source("")).args(["--silent", "CFLAGS=-O1"]).arg(format!("OUT={}", out.display()));
    make.arg(format!("LIBRARY={}", stage::library().display())).arg(format!("COMMAND={}", command.display()));
    // Variables of an outer make are not for this one.
    let made = make.env_remove("MAKEFLAGS").env_remove("MAKEOVERRIDES").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(out)
}

/// Compiles a program of `shmem/tests` by `oshcc`, with all warnings as errors and further words.
pub fn try_compile(built: &Path, name: &str, words: &[&str]) -> Result<PathBuf, String> {
    let program = built.join(format!("{name}{}", words.concat()));
    let mut oshcc = Command::new(built.join("bin/oshcc"));
    oshcc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]).args(words);
    let output = oshcc.arg(source(&format!("tests/{name}.c"))).arg("-o").arg(&program).output().unwrap();
    if output.status.success() { Ok(program) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn compile(built: &Path, name: &str) -> PathBuf {
    try_compile(built, name, &[]).unwrap_or_else(|error| panic!("{name}:\n{error}"))
}

/// Runs a program by `oshrun` on so many nodes of a pool of its own.
fn run(built: &Path, (nodes, pes): (usize, usize), program: &Path, words: &[&str], size: &str) -> Output {
    let mut oshrun = Command::new(built.join("bin/oshrun"));
    oshrun.args(["--nodes", &nodes.to_string(), "-np", &pes.to_string()]).arg(program).args(words);
    oshrun.env("SHMEM_SYMMETRIC_SIZE", size).env_remove("HANARE_NODE").env_remove("HANARE");
    stage::finish(oshrun.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn passes_everywhere(name: &str) {
    let Some(built) = built() else { return };
    let program = compile(built, name);
    for on in [(1, 1), (1, 2), (1, 4), (2, 4), (3, 5)] {
        let output = run(built, on, &program, &[], "64M");
        assert!(output.status.success(), "{name} on {on:?} nodes and PEs: {}\n{}", output.status, said(&output));
    }
}

#[test]
fn memory_is_symmetric_on_one_node_and_on_several() {
    passes_everywhere("memory");
}

#[test]
fn no_update_signal_or_turn_of_a_lock_is_lost() {
    passes_everywhere("atomics");
}

#[test]
fn teams_and_active_sets_do_all_collective_operations() {
    passes_everywhere("collectives");
}

/// Its variables are moved with the space between them, which the sanitizer watches.
#[test]
fn a_program_with_the_address_sanitizer_passes() {
    let Some(built) = built() else { return };
    let Ok(program) = try_compile(built, "memory", &["-fsanitize=address"]) else {
        return hanare_testkit::uninstalled("cc has no address sanitizer");
    };
    let output = run(built, (2, 3), &program, &[], "64M");
    assert!(output.status.success(), "{}\n{}", output.status, said(&output));
}

/// A case of `refusals.c` and a size of the heap; what the job says, and its status.
const REFUSED: [(&str, &str, &str, i32); 8] = [
    ("early", "1M", "a call before shmem_init or after shmem_finalize", 1),
    ("automatic", "1M", "is no symmetric address", 1),
    ("no-pe", "1M", "there is no PE 2; there are 2", 1),
    ("global-exit", "1M", "before the end", 42),
    ("twice", "1M", "hanare_free: no block of the heap", 1),
    ("none", "lots", "SHMEM_SYMMETRIC_SIZE is 'lots', which is no size such as 64M", 1),
    ("none", "0", "SHMEM_SYMMETRIC_SIZE is '0', which is no size such as 64M", 1),
    ("none", "1.5M", "", 0),
];

#[test]
fn what_is_refused_ends_the_job_and_is_told() {
    let Some(built) = built() else { return };
    let program = compile(built, "refusals");
    for (case, size, words, status) in REFUSED {
        let output = run(built, (1, 2), &program, &[case], size);
        assert_eq!(output.status.code(), Some(status), "{case} {size}: {}", said(&output));
        assert!(said(&output).contains(words), "{case} {size}: {}", said(&output));
    }
}

#[test]
fn a_pool_without_room_is_told_with_what_helps() {
    let Some(built) = built() else { return };
    // A file of its own: another test runs the program as it is.
    let program = try_compile(built, "refusals", &["-O1"]).unwrap();
    let mut oshrun = Command::new(built.join("bin/oshrun"));
    oshrun.args(["--nodes", "1", "--memory", "64M", "-np", "2"]).arg(&program);
    oshrun.env("SHMEM_SYMMETRIC_SIZE", "48M").env_remove("HANARE_NODE").env_remove("HANARE");
    let output = stage::finish(oshrun.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("oshrun --memory starts a larger pool"), "{}", said(&output));
}

/// The calls that the headers declare: words before a parenthesis, after the preprocessor has written out the lists of types.
#[test]
fn the_header_declares_what_the_library_has_under_both_names() {
    let Some(built) = built() else { return };
    let header = Command::new("cc").args(["-std=c99", "-E", "-P"]).arg(built.join("include/shmem.h")).output().unwrap();
    let text = String::from_utf8(header.stdout).unwrap();
    let word_before = |part: &str| part.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    let declared: BTreeSet<String> =
        text.split('(').map(|part| word_before(part.trim_end())).filter(|word| word.starts_with("shmem_")).collect();
    let symbols = Command::new("nm").args(["-D", "--defined-only"]).arg(built.join("lib/libhanare_shmem.so")).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let named = |begin: &str| -> BTreeSet<String> {
        let names = symbols.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix(begin));
        names.map(|name| format!("shmem_{name}")).collect()
    };
    assert!(declared.len() > 1500, "{}", declared.len());
    assert_eq!(declared, named("shmem_"));
    assert_eq!(declared, named("pshmem_"));
}

#[test]
fn programs_in_c99_and_cxx_compile_and_run() {
    let Some(built) = built() else { return };
    let text = "#include <pshmem.h>\nint main(void)\n{\n    shmem_init();\n    int size = pshmem_n_pes();\n    shmem_finalize();\n    \
                return size != 2;\n}\n";
    for compiler in stage::COMPILERS.iter().filter(|compiler| compiler.is_here()) {
        let (face, kind) = if compiler.language.starts_with("c++") { ("oshc++", "cc") } else { ("oshcc", "c") };
        let file = built.join(format!("{}-{kind}.{kind}", compiler.command));
        std::fs::write(&file, text).unwrap();
        let mut osh = Command::new(built.join("bin").join(face));
        let command = match (compiler.command, kind) {
            ("gcc", "cc") => "g++",
            ("clang", "cc") => "clang++",
            (command, _) => command,
        };
        osh.env("CC", command).env("CXX", command).arg(format!("-std={}", compiler.language));
        let program = file.with_extension("out");
        let output = osh.args(["-Wall", "-Wextra", "-Werror"]).arg(&file).arg("-o").arg(&program).output().unwrap();
        assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
        let output = run(built, (1, 2), &program, &[], "1M");
        assert!(output.status.success(), "{compiler:?}: {}", said(&output));
    }
}
