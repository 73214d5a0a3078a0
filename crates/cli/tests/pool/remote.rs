//! Pretended hosts: a stand-in for ssh that runs what it is given on this machine, each host with a folder of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A folder with the stand-in.
pub struct Remote {
    pub folder: TempDir,
}

/// What a host of a certain name does instead of running the command.
const SCRIPT: &str = r#"#!/bin/sh
while :; do case $1 in -o) shift 2 ;; -*) shift ;; *) break ;; esac; done
host=$1
shift
ENTER='' ADDRESS=127.0.0.1
# A host with a network of its own, where there is one of that name.
[ -z "$NET" ] || { ENTER="ip netns exec $NET-$host"; ADDRESS=$(cat "$FOLDER/$host.address"); }
case $host in
unreachable*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;;
badkey*) echo "No ED25519 host key is known for $host" >&2; echo "Host key verification failed." >&2; exit 255 ;;
old*) echo "hanare-host 0.0.1 wire 0"; exec cat >/dev/null ;;
bare*) set -- "$(echo "$*" | sed 's|h=[^;]*;|h=/nowhere/hanare;|')" ;;
mute*) exec true ;;
noisy*) echo "Welcome to $host"; printf 'Last login: never ' ;;
esac
mkdir -p "$FOLDER/$host"
exec $ENTER env -i PATH=/usr/bin:/bin LAUNCH_MARK="$LAUNCH_MARK" THIS_HOST="$host" XDG_RUNTIME_DIR="$FOLDER/$host" \
    SSH_CONNECTION="127.0.0.1 1 $ADDRESS 22" RANK_REPORT="$RANK_REPORT" sh -c "$*"
"#;

impl Remote {
    pub fn new() -> Remote {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("ssh");
        std::fs::write(&script, SCRIPT).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o700)).unwrap();
        Remote { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with these words, reaching hosts by the stand-in.
    pub fn command(&self, words: &[&str]) -> Command {
        self.dress(super::command(words))
    }

    /// A command that reaches hosts by the stand-in.
    pub fn dress(&self, mut command: Command) -> Command {
        command.env("HANARE_SSH", self.path("ssh")).env("FOLDER", self.folder.path()).current_dir(self.folder.path());
        command
    }
}
