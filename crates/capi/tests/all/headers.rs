//! The headers are what they say: every call they declare is exported and nothing else is, in the versions of C and C++
//! that they promise.

use crate::stage;

use std::collections::BTreeSet;
use std::process::Command;

/// The calls that a header declares: words before a parenthesis, outside comments, macros and bodies.
fn declared(header: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(stage::crate_path(&format!("include/{header}"))).unwrap();
    let mut code = String::new();
    for (index, part) in text.split("/*").enumerate() {
        code.push_str(if index == 0 { part } else { part.split_once("*/").unwrap().1 });
    }
    // A helper that the header defines itself ends with the first brace at the beginning of a line.
    let mut in_helper = false;
    let is_declared = |line: &&str| {
        in_helper |= line.starts_with("static inline");
        let was_helper = in_helper;
        in_helper &= !line.starts_with('}');
        !was_helper && !["#", "inline", "typedef"].iter().any(|start| line.starts_with(start))
    };
    let code = code.lines().filter(is_declared).collect::<Vec<_>>().join("\n");
    let before_parenthesis = code.split('(').map(|part| part.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
    before_parenthesis.filter_map(symbol_of).collect()
}

/// The symbol of a call of ours. The papers' short names have a prefix in the library, where they would meet other libraries'.
fn symbol_of(name: &str) -> Option<String> {
    if ["VL", "VS", "VLS", "VSS", "RVL", "RVS"].contains(&name) {
        return Some(format!("dn_{name}"));
    }
    ["hanare_", "dn_", "rhinet_"].iter().any(|begin| name.starts_with(begin)).then(|| name.to_owned())
}

/// The list under version control: a symbol that goes or comes is seen in review.
fn listed() -> BTreeSet<String> {
    std::fs::read_to_string(stage::crate_path("symbols.txt")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_headers_declare_the_listed_symbols() {
    let declared = ["hanare.h", "dimmnet.h", "rhinet.h"].into_iter().flat_map(declared);
    assert_eq!(declared.collect::<BTreeSet<_>>(), listed());
}

#[test]
fn the_library_exports_the_listed_symbols_and_no_other() {
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(stage::library()).output() else {
        hanare_testkit::uninstalled("nm (binutils) is not installed");
        return;
    };
    let exported: BTreeSet<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(exported, listed());
}

#[test]
fn the_library_asks_to_be_called_libhanare_so_0() {
    let Ok(output) = Command::new("readelf").arg("-d").arg(stage::library()).output() else {
        hanare_testkit::uninstalled("readelf (binutils) is not installed");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.contains("SONAME") && line.contains("[libhanare.so.0]")), "{text}");
}

/// Programs that include the headers compile, link and start, whichever of the four compilers makes them.
#[test]
fn programs_compile_as_c99_and_cxx17_with_gcc_and_clang() {
    let sources: Vec<_> = std::fs::read_dir(stage::crate_path("tests/c")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for compiler in stage::COMPILERS.iter().filter(|compiler| compiler.is_here()) {
        for source in sources.iter().filter(|path| path.extension().is_some_and(|extension| extension == "c")) {
            compiler.compile(source);
        }
    }
}

/// The template that `make install` fills says where headers and library are.
#[test]
fn pkg_config_finds_headers_and_library() {
    let template = std::fs::read_to_string(stage::crate_path("hanare.pc.in")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let filled =
        template.replace("@PREFIX@", "/opt/hanare").replace("@VERSION@", env!("CARGO_PKG_VERSION")).replace("@RPATH@", "");
    assert!(!filled.contains('@'), "{filled}");
    std::fs::write(folder.path().join("hanare.pc"), filled).unwrap();
    let answer = Command::new("pkg-config").args(["--cflags", "--libs", "hanare"]).env("PKG_CONFIG_PATH", folder.path()).output();
    let Ok(answer) = answer else {
        hanare_testkit::uninstalled("pkg-config is not installed");
        return;
    };
    let words = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(words.split_whitespace().collect::<Vec<_>>(), ["-I/opt/hanare/include", "-L/opt/hanare/lib", "-lhanare"]);
}
