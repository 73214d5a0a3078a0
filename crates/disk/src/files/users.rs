//! Finds the processes that use a mounted folder, for a line that says why an unmount takes so long.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most processes that are named.
const NAMED: usize = 3;

/// Names processes that have a file of the folder open or mapped, or stand in it, as far as this user may look. It reads only texts and
/// links of `/proc`, because a look at the files would wait for the mount.
pub fn of(folder: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let users = processes.filter(|process| uses(*process, folder)).take(NAMED);
    let names: Vec<String> = users.map(|process| format!("process {process} ({})", name(process))).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn name(process: u32) -> String {
    let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    String::from_utf8_lossy(name.trim_ascii_end()).escape_default().to_string()
}

fn uses(process: u32, folder: &Path) -> bool {
    let at = |name: &str| PathBuf::from(format!("/proc/{process}/{name}"));
    let is_inside = |link: PathBuf| fs::read_link(link).is_ok_and(|path| path.starts_with(folder));
    if ["cwd", "root"].into_iter().any(|link| is_inside(at(link))) {
        return true;
    }
    let files = fs::read_dir(at("fd")).into_iter().flatten().flatten();
    if files.into_iter().any(|file| is_inside(file.path())) {
        return true;
    }
    // The sixth word of a line is the mapped file's path, up to the line's end.
    let maps = fs::read(at("maps")).unwrap_or_default();
    maps.split(|byte| *byte == b'\n').any(|line| {
        let path = line.iter().position(|byte| *byte == b'/').map(|begin| Path::new(std::ffi::OsStr::from_bytes(&line[begin..])));
        path.is_some_and(|path| path.starts_with(folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_file_open_is_named_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        assert_eq!(of(&at), None);
        let file = fs::File::create(at.join("file")).unwrap();
        let own = std::process::id();
        assert_eq!(of(&at), Some(format!("process {own} ({})", name(own))));
        assert!(!name(own).is_empty());
        drop(file);
        assert_eq!(of(&at), None);
    }
}
