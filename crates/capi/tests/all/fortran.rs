//! Fortran: `fortran/Makefile` builds the module, its example gives the numbers of a serial run, and its numbers are those of `hanare.h`.

use crate::stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const COMPILER: &str = "gfortran";

/// A file of the repository.
fn source(name: &str) -> PathBuf {
    stage::crate_path("../..").join(name)
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// The folder that `make` fills for users: `include`, `lib` and `heat`; `None` (and a line that says so) where something is not installed.
pub fn built() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    for tool in [COMPILER, "make", "ar"] {
        if Command::new(tool).arg("--version").output().is_err() {
            hanare_testkit::uninstalled(format!("{tool} is not installed"));
            return None;
        }
    }
    let out = stage::folder().join("fortran");
    let mut make = Command::new("make");
    make.arg("-C").arg(source("fortran")).arg("--silent").arg(format!("FORTRAN={COMPILER}"));
    make.arg(format!("OUT={}", out.display())).arg(format!("LIBRARY={}", stage::library().display()));
    // Variables of an outer make are not for this one.
    let made = make.env_remove("MAKEFLAGS").env_remove("MAKEOVERRIDES").output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
    Some(out)
}

/// Compiles a program over the module, with all warnings as errors.
fn compile(built: &Path, program: &Path) -> PathBuf {
    let compiled = built.join(program.file_stem().unwrap());
    let mut compiler = Command::new(COMPILER);
    compiler.args(["-std=f2018", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    compiler.arg(format!("-I{}", built.join("include").display())).arg(program).arg("-o").arg(&compiled);
    let libraries = built.join("lib").display().to_string();
    compiler.arg(format!("-L{libraries}")).arg(format!("-Wl,-rpath,{libraries}")).args(["-lhanare_fortran", "-lhanare"]);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    compiled
}

/// Runs a program by `hanare run` on so many nodes of a pool of its own.
fn run(command: &Path, (nodes, ranks): (usize, usize), program: &Path, words: &[&str]) -> Output {
    let mut run = Command::new(command);
    run.args(["run", "--nodes", &nodes.to_string(), "-n", &ranks.to_string(), "--"]).arg(program).args(words);
    run.env_remove("HANARE_NODE");
    stage::finish(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// The plate of `heat.f90` after so many steps; its halo is the outermost ring.
fn plate(side: usize, steps: usize) -> Vec<Vec<f64>> {
    let mut plate = vec![vec![0.0; side + 2]; side + 2];
    plate[0].fill(1.0);
    for _ in 0..steps {
        let before = plate.clone();
        for row in 1..=side {
            for column in 1..=side {
                let beside = before[row - 1][column] + before[row + 1][column] + before[row][column - 1];
                plate[row][column] = 0.25 * (beside + before[row][column + 1]);
            }
        }
    }
    plate
}

fn sum(plate: &[Vec<f64>]) -> f64 {
    let inner = &plate[1..plate.len() - 1];
    inner.iter().flat_map(|row| &row[1..row.len() - 1]).sum()
}

#[test]
fn the_stencil_gives_the_numbers_of_a_serial_run_on_any_number_of_ranks_and_nodes() {
    let (Some(built), Some(command)) = (built(), stage::command()) else { return };
    let (side, steps) = (24, 30);
    let wanted = sum(&plate(side, steps));
    for on in [(1, 1), (1, 2), (2, 4), (3, 6), (2, 9)] {
        let output = run(&command, on, &built.join("heat"), &[&side.to_string(), &steps.to_string()]);
        let text = said(&output);
        assert!(output.status.success(), "{on:?}: {}\n{text}", output.status);
        assert_eq!((stage::value(&text, "ranks"), stage::value(&text, "wrong")), (on.1.to_string().as_str(), "0"), "{text}");
        let sum: f64 = stage::value(&text, "sum").parse().unwrap();
        assert!((sum - wanted).abs() < 1e-12 * wanted, "{on:?}: {sum} is not {wanted}");
    }
}

#[test]
fn the_stencil_tells_a_plate_that_cannot_be_dealt_and_a_word_that_is_no_number() {
    let (Some(built), Some(command)) = (built(), stage::command()) else { return };
    for (words, wanted) in
        [(&["25"][..], "a side of 25 points cannot be dealt to 1 by 2"), (&["many"], "'many' is no number of at least 1")]
    {
        let output = run(&command, (1, 2), &built.join("heat"), words);
        assert!(!output.status.success() && said(&output).contains(wanted), "{}", said(&output));
    }
}

#[test]
fn calls_do_as_they_say_and_a_failure_that_nobody_asks_for_ends_the_program() {
    let Some(built) = built() else { return };
    let program = compile(built, &source("fortran/tests/calls.f90"));
    let outputs = stage::Stage::of(1).run(&program, &[], 1);
    let text = said(&outputs[0]);
    assert!(text.contains("all calls do as they say"), "{text}");
    assert!(text.contains("hanare_barrier: ") && !text.contains("went on"), "{text}");
    assert_eq!(outputs[0].status.code(), Some(1), "{text}");
}

/// Programs of the page and of the module's head compile; that of the page counts.
#[test]
fn programs_of_the_page_compile_and_run() {
    let Some(built) = built() else { return };
    let page = read_to_string(source("docs/fortran.md")).unwrap();
    let (_, program) = page.split_once("```fortran\n").unwrap();
    let file = built.join("of_the_page.f90");
    std::fs::write(&file, program.split_once("```").unwrap().0).unwrap();
    let printed = stage::Stage::of(2).pass(&compile(built, &file), &[], 2);
    assert_eq!(printed.concat().trim(), "rank 0 has 42.0 of rank 1", "{printed:?}");
}

/// Constants of the header, and those of the module, by their names.
fn constants(text: &str, line: impl Fn(&str) -> Option<(&str, &str)>) -> BTreeMap<String, i64> {
    let number = |value: &str| value.trim().trim_matches(['(', ')', ',']).parse().ok();
    text.lines().filter_map(line).filter_map(|(name, value)| Some((name.trim().to_owned(), number(value)?))).collect()
}

#[test]
fn numbers_and_names_of_the_module_are_those_of_the_header() {
    let header = read_to_string(stage::crate_path("include/hanare.h")).unwrap();
    let in_c = constants(&header, |line| {
        let line = line.split("/*").next().unwrap().trim();
        line.strip_prefix("#define ").map_or_else(|| line.split_once(" = "), |define| define.split_once(' '))
    });
    let codes = read_to_string(source("fortran/hanare_codes.f90")).unwrap();
    let in_fortran = constants(&codes, |line| {
        line.split('!').next().unwrap().trim().strip_prefix("integer(c_int), parameter :: ")?.split_once(" = ")
    });
    assert!(in_fortran.len() > 60, "{in_fortran:?}");
    for (name, value) in &in_fortran {
        assert_eq!(in_c.get(name), Some(value), "{name}");
    }
    let is_code = |name: &&String| name.starts_with("HANARE_ERR_");
    let codes_of = |from: &BTreeMap<String, i64>| from.keys().filter(is_code).cloned().collect::<BTreeSet<_>>();
    assert_eq!(codes_of(&in_fortran), codes_of(&in_c));
    let symbols = read_to_string(stage::crate_path("symbols.txt")).unwrap();
    let calls = read_to_string(source("fortran/hanare_c.f90")).unwrap();
    let bound: Vec<&str> = calls.split("bind(c, name=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(bound.len() > 30, "{bound:?}");
    let module = read_to_string(source("fortran/hanare.f90")).unwrap();
    for name in bound.iter().filter(|name| **name != "strlen") {
        assert!(symbols.lines().any(|symbol| symbol == *name), "{name} is no call of hanare.h");
        assert!(module.contains(&format!(" {name}(")), "{name} is no call of the module");
    }
}
