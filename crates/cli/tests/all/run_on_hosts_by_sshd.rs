//! `hanare run --hosts` over a real sshd on a loopback port, with keys that live as long as the test: what a user meets.

use crate::pool;

use pool::{Running, children, clean, command, marked, run, signal, wait_until};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// An sshd for this user alone; it ends with the test.
struct Sshd {
    folder: TempDir,
    process: Child,
    port: u16,
}

impl Sshd {
    /// `None`, having said why, where there is none to start. Its sessions carry this mark.
    fn start(mark: &str) -> Option<Sshd> {
        let skip = |why: &str| {
            hanare_testkit::unable(why);
            None
        };
        // It wants to be called by its whole name.
        let Some(sshd) = ["/usr/sbin/sshd", "/usr/bin/sshd"].into_iter().find(|path| std::fs::exists(path).unwrap_or(false))
        else {
            hanare_testkit::uninstalled("no sshd (package openssh-server)");
            return None;
        };
        if clean("ssh").arg("-V").output().is_err() {
            hanare_testkit::uninstalled("no ssh (package openssh-client)");
            return None;
        }
        let is_root = rustix::process::getuid().is_root();
        if is_root && std::fs::create_dir_all("/run/sshd").is_err() {
            return skip("sshd of root needs the folder /run/sshd, which cannot be made");
        }
        let folder = tempfile::tempdir().unwrap();
        for key in ["host", "user"] {
            let mut keygen = clean("ssh-keygen");
            let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.path().join(key)).output();
            if !made.is_ok_and(|made| made.status.success()) {
                return skip("ssh-keygen makes no key");
            }
        }
        std::fs::copy(folder.path().join("user.pub"), folder.path().join("authorized")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = folder.path().display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nPidFile none\nAuthorizedKeysFile {at}/authorized\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             MaxStartups 50\nSetEnv LAUNCH_MARK={mark}\n"
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        let mut daemon = Command::new(sshd);
        daemon.args(["-D", "-e", "-f"]).arg(folder.path().join("config")).stdin(Stdio::null());
        let process = daemon.stderr(std::fs::File::create(folder.path().join("log")).unwrap()).spawn().unwrap();
        let mut sshd = Sshd { folder, process, port };
        let mut has_ended = false;
        wait_until("sshd listens", || {
            has_ended = sshd.process.try_wait().unwrap().is_some();
            has_ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        if has_ended {
            return skip(&format!("sshd does not start: {}", sshd.log()));
        }
        sshd.trust(true);
        // An account may be locked, or have no shell: what sshd says then is no matter of ours.
        let mut trial = clean("sh");
        let line = format!("{} 127.0.0.1 true", sshd.words());
        let ended = run(trial.args(["-c", &line]));
        if !ended.status.success() {
            return skip(&format!("sshd does not let this user in: {}{}", ended.stderr, sshd.log()));
        }
        Some(sshd)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Whether its key is known.
    fn trust(&self, is_known: bool) {
        let key = std::fs::read_to_string(self.path("host.pub")).unwrap();
        let line = |host: &str| format!("[{host}]:{} {key}", self.port);
        let known = if is_known { line("127.0.0.1") + &line("localhost") } else { String::new() };
        std::fs::write(self.path("known"), known).unwrap();
    }

    /// What reaches it.
    fn words(&self) -> String {
        let (port, at) = (self.port, self.folder.path().display());
        format!(
            "ssh -F /dev/null -p {port} -i {at}/user -o IdentitiesOnly=yes -o UserKnownHostsFile={at}/known \
             -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes -o AddressFamily=inet"
        )
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(words);
        command.env("HANARE_SSH", self.words()).current_dir(self.folder.path());
        command
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn two_hosts_are_one_pool() {
    let Some(sshd) = Sshd::start("plain") else { return };
    let script = "[ $HANARE_RANK != 0 ] || cat; echo rank $HANARE_RANK of $HANARE_RANKS in $(pwd)";
    std::fs::write(sshd.path("input"), "typed\n").unwrap();
    let mut command = sshd.command(&["run", "--hosts", "127.0.0.1,localhost:2", "--memory", "64M", "--"]);
    let text = run(command.args(["sh", "-c", script])).done();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let folder = sshd.folder.path().canonicalize().unwrap();
    let said: Vec<_> = (0..3).map(|rank| format!("rank {rank} of 3 in {}", folder.display())).collect();
    assert_eq!(lines, said);
    let words = ["run", "--hosts", "127.0.0.1,localhost", "-n", "1", "--memory", "64M", "--", pool::HANARE, "status", "--json"];
    let status = run(&mut sshd.command(&words)).json();
    let names: Vec<_> = status["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["127.0.0.1", "localhost"]);
}

#[test]
fn a_host_key_that_is_not_known_is_one_line_and_no_question() {
    let Some(sshd) = Sshd::start("unknown") else { return };
    sshd.trust(false);
    let ended = run(&mut sshd.command(&["run", "--hosts", "localhost", "--", "true"]));
    ended.refused(&["host localhost", "Host key verification failed"]);
}

#[test]
fn a_user_whom_it_does_not_let_in_is_one_line() {
    let Some(sshd) = Sshd::start("stranger") else { return };
    std::fs::write(sshd.path("authorized"), "").unwrap();
    run(&mut sshd.command(&["run", "--hosts", "localhost", "--", "true"])).refused(&["host localhost", "Permission denied"]);
}

/// A job on the sshd, which is ended by killing what `victim` picks; nothing of it may stay.
fn kill(mark: &str, victim: impl Fn(&Running) -> u32) -> Option<pool::Ended> {
    let mark = format!("{mark}-{}", std::process::id());
    let sshd = Sshd::start(&mark)?;
    let script = "sleep 600 & (setsid sleep 600 &) ; echo up $HANARE_RANK; wait";
    let words = ["run", "--hosts", "127.0.0.1,localhost", "--memory", "64M", "--", "sh", "-c", script];
    let job = Running::start(&mut sshd.command(&words));
    job.wait_for("up 0");
    job.wait_for("up 1");
    wait_until("four sleeping children", || marked(&mark).iter().filter(|(_, line)| line.starts_with("sleep")).count() == 4);
    signal("KILL", victim(&job));
    let ended = job.wait();
    wait_until("no process of it is left", || marked(&mark).is_empty());
    Some(ended)
}

#[test]
fn nothing_is_left_when_the_command_itself_is_killed() {
    kill("sshd-guard", Running::pid);
}

#[test]
fn nothing_is_left_when_a_connection_breaks() {
    let ssh = |job: &Running| {
        let below_launcher = children(children(job.pid())[0].0);
        below_launcher.iter().find(|(_, line)| line.starts_with("ssh") && line.contains(" localhost ")).unwrap().0
    };
    let Some(ended) = kill("sshd-connection", ssh) else { return };
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("host localhost is lost"), "{}", ended.stderr);
    assert!(ended.stderr.contains("rank 1 of 2 (sh) failed: its host was lost"), "{}", ended.stderr);
}
