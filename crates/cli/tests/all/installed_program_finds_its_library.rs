//! What `make install` and `make dist` do with what was built: a program compiled by pkg-config's words alone starts, also under
//! `hanare run`; installed files carry no debug lines, which lie beside them; the package holds the same.

use crate::pool;

use pool::{HANARE, clean, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `hanare run --main-memory` loads; `make test` builds it.
const PRELOADED: &str = "libhanare_main_memory.so";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The libraries where cargo puts those of the C face's own tests, without their endings; `None` where they or the models were not built.
fn library() -> Option<PathBuf> {
    let beside = std::env::current_exe().unwrap().with_file_name("libhanare_capi");
    let has_models = Path::new(HANARE).with_file_name("hanare-models").exists();
    let is_built = has_models && ["so", "a"].iter().all(|ending| beside.with_extension(ending).exists());
    if !is_built {
        hanare_testkit::uninstalled("the C face or the models are not built; the whole workspace's tests build them");
    }
    is_built.then_some(beside)
}

fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        hanare_testkit::uninstalled(format!("no {tool}"));
    }
    found
}

fn script(name: &str, words: &[&Path], variables: &[(&str, &Path)]) {
    // Packing takes as long as the machine takes: no bound.
    let mut script = clean(root().join("scripts").join(name));
    let output = script.args(words).envs(variables.iter().copied()).env("DPKG_DEB_COMPRESSOR_TYPE", "none").output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_program_built_with_pkg_config_starts_as_it_is() {
    let Some(library) = library() else { return };
    if !has("cc") || !has("pkg-config") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    script("install.sh", &[Path::new(HANARE), &library], &[("PREFIX", &prefix)]);

    let words = Command::new("pkg-config")
        .args(["--cflags", "--libs", "hanare"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    let program = folder.path().join("first");
    let source = root().join("apps/first/first.c");
    let compiled = run(clean("cc").arg(&source).args(words.split_whitespace()).arg("-o").arg(&program));
    assert!(compiled.status.success(), "{}", compiled.stderr);

    let installed = prefix.join("bin/hanare");
    let told = run(clean(&installed).args(["run", "--nodes", "2"]).arg(&program).env_remove("LD_LIBRARY_PATH")).done();
    assert_eq!(told, "good morning\ngood morning\n");

    // One that was linked without the words for the loader is helped by the command, with what the user set before it.
    let bare = words.split_whitespace().filter(|word| !word.starts_with("-Wl"));
    let compiled = run(clean("cc").arg(&source).args(bare).arg("-o").arg(&program));
    assert!(compiled.status.success(), "{}", compiled.stderr);
    let ranks = ["run", "-x", "LD_LIBRARY_PATH=/nowhere"];
    assert_eq!(run(clean(&installed).args(ranks).arg(&program)).done(), "good morning\n");
}

#[test]
fn installed_files_are_stripped_and_their_debug_lines_lie_beside_them() {
    let Some(library) = library() else { return };
    if !has("objcopy") || !has("readelf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    script("install.sh", &[Path::new(HANARE), &library], &[("PREFIX", folder.path())]);
    let sections =
        |path: &Path| String::from_utf8(Command::new("readelf").arg("-SW").arg(path).output().unwrap().stdout).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for (file, debug) in [
        ("bin/hanare".to_owned(), "bin/.debug/hanare.debug".to_owned()),
        (format!("lib/libhanare.so.{version}"), format!("lib/.debug/libhanare.so.{version}.debug")),
    ] {
        let (file, debug) = (folder.path().join(file), folder.path().join(debug));
        assert!(!sections(&file).contains(".debug_line") && sections(&file).contains(".gnu_debuglink"), "{}", file.display());
        assert!(sections(&debug).contains(".debug_line"), "{}", debug.display());
    }
    let installed = folder.path().join("bin/hanare");
    assert!(run(clean(&installed).arg("model")).done().contains("euphoria"));
    for name in ["man/man1/hanare-demo.1", "bash-completion/completions/hanare"] {
        assert!(folder.path().join("share").join(name).exists(), "{name}");
    }
}

#[test]
fn the_package_and_the_archive_hold_what_they_should() {
    let Some(library) = library() else { return };
    if !has("dpkg-deb") || !has("objcopy") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dist = folder.path().join("dist");
    script("dist.sh", &[Path::new(HANARE), Path::new(HANARE), &library], &[("DIST", &dist)]);
    let files: Vec<_> = std::fs::read_dir(&dist).unwrap().map(|entry| entry.unwrap().path()).collect();
    let ending =
        |text: &str| files.iter().find(|path| path.to_string_lossy().ends_with(text)).unwrap_or_else(|| panic!("no {text}"));
    let output = |command: &mut Command| String::from_utf8(command.output().unwrap().stdout).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let packages = [
        (
            "hanare",
            &[
                "./usr/bin/hanare",
                "./usr/lib/hanare/hanare-models",
                "hanare-run.1.gz",
                "doc/hanare/copyright",
                "doc/hanare/changelog.gz",
            ][..],
        ),
        ("libhanare0", &["./usr/lib/libhanare.so.0 -> ", "doc/libhanare0/copyright"]),
        (
            "libhanare-dev",
            &[
                "./usr/lib/libhanare.so -> ",
                "./usr/include/hanare.h",
                "./usr/include/hanare_parmacs.h",
                "pkgconfig/hanare.pc",
                "./usr/lib/libhanare.a",
            ],
        ),
    ];
    for (package, names) in packages {
        let package =
            ending(&format!("{package}_{version}_{}.deb", output(Command::new("dpkg").arg("--print-architecture")).trim()));
        let held = output(Command::new("dpkg-deb").arg("-c").arg(package));
        assert!(names.iter().all(|name| held.contains(name)) && !held.contains(".debug"), "{}: {held}", package.display());
        if library.with_file_name(PRELOADED).exists() {
            assert_eq!(held.contains(&format!("./usr/lib/hanare/{PRELOADED}")), held.contains("./usr/bin/hanare"), "{held}");
        }
        if Command::new("lintian").arg("--version").output().is_ok() {
            let told = output(Command::new("lintian").arg("--allow-root").arg(package));
            // The packages of this test are not compressed.
            let mut tags = told.lines().filter(|line| line.starts_with("E:") || line.starts_with("W:"));
            assert!(tags.all(|tag| tag.contains("uses-no-compression-")), "{told}");
        }
    }
    let archive = output(Command::new("tar").arg("-tzf").arg(ending(".tar.gz")));
    assert!(
        ["/bin/hanare\n", "/bin/hanare-models\n", "/README.md\n", "/share/man/man1/hanare.1\n"]
            .iter()
            .all(|name| archive.contains(name)),
        "{archive}"
    );
    assert!(run(clean(dist.join("hanare")).arg("model")).done().contains("euphoria"));
    let told = run(clean(dist.join("hanare")).arg("--version")).done();
    assert!(told.contains(env!("CARGO_PKG_VERSION")), "{told}");
}

/// MPICH's package brings a compiler of that name, too: what counts is whether it finds the headers.
#[test]
fn preparing_a_bench_tries_the_compiler_and_not_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let stub = |name: &str, body: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    // Nobody who may install, so that packages are only named.
    stub("id", "echo 1000");
    // A peer is not built: that takes minutes beside other tests.
    stub("cargo", "[ \"$1\" = build ] && exit 0\nPATH=${PATH#*:} exec cargo \"$@\"");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let prepare = || run(clean(root().join("scripts/prepare.sh")).arg("bench").env("PATH", &path)).stderr;
    stub("mpicc.openmpi", "exit 1");
    let told = prepare();
    if told.contains("no Rust 1.") {
        hanare_testkit::unable("no Rust in PATH");
        return;
    }
    assert!(told.contains("mpicc.openmpi compiles nothing here") && told.contains("libopenmpi-dev"), "{told}");
    stub("mpicc.openmpi", "exit 0");
    assert!(!prepare().contains("mpicc.openmpi"));
}
