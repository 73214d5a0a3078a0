//! `hanare mount` of file systems whose regions another user made: refused by name, and without rights where that user is trusted.

use crate::mounted_files::{Mount, or_skip};
use crate::pool;

use pool::{Ended, Node, Nodes, command, run};
use rustix::fs::{FileType, Mode, XattrFlags, mknodat, setxattr};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Another user, and its group.
const OTHER: u32 = 65534;

/// The command with these words, of another user.
fn by_other(node: &Node, words: &[&str]) -> Ended {
    run(command(words).env("HANARE_NODE", &node.socket).uid(OTHER).gid(OTHER))
}

/// A mount that should not come about.
fn refused(nodes: &Nodes, words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let ended = nodes.hanare(&[&["mount", at], words, &["--", "touch", &format!("{at}/touched")]].concat());
    assert!(!ended.status.success());
    ended.stderr
}

fn give(nodes: &Nodes, region: &str, uid: u32) {
    let ended = nodes.hanare(&["region", "set", region, "--owner", &format!("{uid}:{uid}")]);
    assert!(ended.status.success(), "{}", ended.stderr);
}

/// The regions of a pool by name, and whose they are.
fn owners(nodes: &Nodes) -> Vec<(String, u64)> {
    let list = nodes.hanare(&["region", "ls", "--json"]).json();
    list.as_array()
        .unwrap()
        .iter()
        .map(|region| (region["name"].as_str().unwrap().to_owned(), region["owner"].as_u64().unwrap()))
        .collect()
}

/// The options of a mount, as the kernel has them.
fn options(folder: &Path) -> String {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = all.lines().find(|line| line.split(' ').nth(4) == folder.to_str()).unwrap_or_else(|| panic!("{all}"));
    line.split(' ').nth(5).unwrap().to_owned()
}

/// Files as an attacker would have them in its file system: a program of root's that runs as root, a device, a secret.
fn fill(mount: &Mount) {
    let program = mount.path("rootsh");
    fs::copy(["/usr/bin/id", "/bin/id"].into_iter().find(|path| Path::new(path).exists()).unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
    let capability = [&0x0200_0001u32.to_le_bytes()[..], &(1u32 << 10).to_le_bytes(), &[0; 12]].concat();
    fs::write(mount.path("capable"), b"").unwrap();
    setxattr(mount.path("capable"), "security.capability", &capability, XattrFlags::empty()).unwrap();
    let device = rustix::fs::makedev(1, 3);
    mknodat(rustix::fs::CWD, mount.path("null"), FileType::CharacterDevice, Mode::from(0o666), device).unwrap();
    fs::write(mount.path("third"), b"").unwrap();
    chown(mount.path("third"), Some(1234), Some(1234)).unwrap();
    fs::create_dir(mount.path("folder")).unwrap();
}

/// Whom the program of root's runs as for another user.
fn user_of(mount: &Mount) -> String {
    let ran = Command::new(mount.path("rootsh")).arg("-u").uid(OTHER).gid(OTHER).output().unwrap();
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_region_that_another_user_made_first_is_refused_by_name() {
    or_skip!();
    let nodes = Nodes::start(1);
    assert!(by_other(&nodes.nodes[0], &["region", "create", "files@super", "64K", "--mode", "0666"]).status.success());
    let said = refused(&nodes, &[]);
    for part in ["'files@super'", "user 65534", "--trust 65534", "--name"] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
    assert_eq!(owners(&nodes), [("files@super".to_owned(), OTHER.into())], "nothing of root's is made there");
}

#[test]
fn a_name_that_this_user_may_not_even_look_at_is_told_with_the_user_that_has_it() {
    or_skip!();
    let nodes = Nodes::start(1);
    assert!(nodes.hanare(&["region", "create", "files-65534@super", "64K"]).status.success());
    let folder = tempfile::tempdir().unwrap();
    let said = by_other(&nodes.nodes[0], &["mount", folder.path().to_str().unwrap(), "--", "true"]).stderr;
    for part in ["'files-65534@super'", "owner 0", "--name", "root remove"] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
}

#[test]
fn each_region_of_a_file_system_is_its_own_user_s() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    fill(&mount);
    assert!(!options(mount.folder.path()).contains("nosuid") && user_of(&mount) == "0", "root's own gives rights");
    mount.end();
    let regions = owners(&nodes);
    let part =
        |part: &str| regions.iter().find(|(name, _)| name.contains(part)).unwrap_or_else(|| panic!("{regions:?}")).0.clone();
    for log in ["@super", "log."].map(part) {
        give(&nodes, &log, OTHER);
        let said = refused(&nodes, &[]);
        assert!(said.contains(&log) && said.contains("--trust 65534"), "{said}");
        give(&nodes, &log, 0);
    }
    let data = part("data.");
    give(&nodes, &data, OTHER);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    assert_eq!(fs::read(mount.path("rootsh")).unwrap_err().raw_os_error(), Some(13));
    let said = fs::read_to_string(mount.said.path()).unwrap();
    assert!(said.contains(&data) && said.contains("user 65534"), "{said}");
    mount.end();
}

#[test]
fn a_trusted_user_s_files_give_no_rights_and_are_nobody_else_s() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    fill(&mount);
    mount.end();
    owners(&nodes).iter().for_each(|(name, _)| give(&nodes, name, OTHER));
    let mount = Mount::new(&nodes.nodes[0], &["--trust", "65534"]);
    let options = options(mount.folder.path());
    assert!(options.contains("nosuid") && options.contains("nodev"), "{options}");
    let stat = |name: &str| fs::metadata(mount.path(name)).unwrap();
    assert_eq!(
        (stat("rootsh").uid(), stat("rootsh").mode() & 0o7777),
        (OTHER, 0o755),
        "root's it is not, and no set-user-ID program"
    );
    assert_eq!((stat("third").uid(), user_of(&mount)), (OTHER, OTHER.to_string()));
    assert!(stat("null").file_type().is_char_device() && stat("null").rdev() == 0 && fs::read(mount.path("null")).is_err());
    let mut value = [0; 64];
    assert!(rustix::fs::getxattr(mount.path("capable"), "security.capability", &mut value).is_err());
    // Root's own work there claims nothing either, and what it makes is that user's.
    fs::write(mount.path("folder/fresh"), vec![1; 8 << 20]).unwrap();
    fs::set_permissions(mount.path("folder/fresh"), fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!((stat("folder/fresh").uid(), stat("folder/fresh").mode() & 0o7777), (OTHER, 0o755));
    assert_eq!(chown(mount.path("folder/fresh"), Some(0), None).unwrap_err().raw_os_error(), Some(1));
    mount.end();
    let regions = owners(&nodes);
    assert!(regions.iter().all(|(_, owner)| *owner == u64::from(OTHER)), "that user can still mount it: {regions:?}");
}

#[test]
fn regions_that_others_may_write_give_no_rights() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    fill(&mount);
    mount.end();
    let log = owners(&nodes).into_iter().find(|(name, _)| name.contains("log.")).unwrap().0;
    assert!(nodes.hanare(&["region", "set", &log, "--mode", "0660"]).status.success());
    let mount = Mount::new(&nodes.nodes[0], &[]);
    assert!(options(mount.folder.path()).contains("nosuid"));
    assert_eq!(user_of(&mount), OTHER.to_string());
    mount.end();
}

#[test]
fn root_of_a_user_namespace_is_an_ordinary_user() {
    or_skip!();
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), Some(OTHER), Some(OTHER)).unwrap();
    let in_namespace = || {
        let mut unshare = pool::clean("unshare");
        unshare.args(["-Urm", pool::HANARE, "mount"]).arg(folder.path()).args(["--", "true"]);
        run(unshare.env("HANARE_NODE", &nodes.nodes[0].socket).uid(OTHER).gid(OTHER))
    };
    if !run(pool::clean("unshare").args(["-Urm", "true"]).uid(OTHER).gid(OTHER)).status.success() {
        return hanare_testkit::unable("no user namespaces here");
    }
    // Root's file system is there already: who took its name would be refused by it.
    let mount = Mount::new(&nodes.nodes[0], &[]);
    let ended = in_namespace();
    assert!(!ended.stderr.contains("files@"), "{}", ended.stderr);
    mount.end();
}
