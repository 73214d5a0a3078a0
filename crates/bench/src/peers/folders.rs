//! Other people's ways to a folder of another host: sshfs, samba by its own client, and nfs-ganesha by libnfs. All servers are this
//! user's, on loopback, with their files in memory as ours are, and end with the bench.

use super::program::{Compiled, figures, run};
use crate::Options;
use crate::turns::Figures;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const READY_WITHIN: Duration = Duration::from_secs(10);

/// Folder of the servers' files.
const MEMORY: &str = "/dev/shm";

/// A server and its folder.
struct Server {
    process: Child,
    folder: TempDir,
    port: u16,
}

impl Server {
    /// Starts one whose settings `configure` writes, for a folder and a port; `words` are its words.
    fn start(program: &Path, configure: impl FnOnce(&Path, u16) -> Result<Vec<String>>) -> Result<Server> {
        let name = program.display();
        let folder = tempfile::Builder::new().prefix("hanare-bench-").tempdir_in(MEMORY)?;
        fs::create_dir(folder.path().join("files"))?;
        // The port is free for an instant between our listener and the server's: a clash shows as a failed start.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let words = configure(folder.path(), port)?;
        let log = fs::File::create(folder.path().join("log"))?;
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().with_context(|| format!("{name} is not installed"))?;
        let mut server = Server { process, folder, port };
        let deadline = Instant::now() + READY_WITHIN;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let said = || fs::read_to_string(server.folder.path().join("log")).unwrap_or_default();
            ensure!(server.process.try_wait()?.is_none(), "{name} does not start: {}", said().trim());
            ensure!(Instant::now() < deadline, "{name} does not listen within {READY_WITHIN:?}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program that is found beside those of users, too.
fn find(program: &str, package: &str) -> Result<PathBuf> {
    let places = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let found = places.split(':').map(|place| Path::new(place).join(program)).find(|path| path.is_file());
    found.with_context(|| format!("no {program} (package {package})"))
}

/// A folder by sshfs.
pub struct Sshfs {
    server: Server,
}

impl Sshfs {
    /// Starts an sshd with keys of its own, and mounts a folder by it.
    pub fn start() -> Result<Sshfs> {
        let (sshd, sshfs) = (find("sshd", "openssh-server")?, find("sshfs", "sshfs")?);
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd")?;
        }
        let server = Server::start(&sshd, |folder, port| {
            for key in ["host", "user"] {
                let file = folder.join(key).display().to_string();
                run(&find("ssh-keygen", "openssh-client")?, &["-q", "-t", "ed25519", "-N", "", "-f", &file], &[])?;
            }
            fs::copy(folder.join("user.pub"), folder.join("authorized"))?;
            let at = folder.display();
            let config = format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nPidFile none\nAuthorizedKeysFile {at}/authorized\n\
                 StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 Subsystem sftp internal-sftp\n"
            );
            fs::write(folder.join("config"), config)?;
            Ok(vec!["-D".to_owned(), "-e".to_owned(), "-f".to_owned(), format!("{at}/config")])
        })?;
        let peer = Sshfs { server };
        fs::create_dir(peer.folder())?;
        let (files, mounted) = (peer.server.path("files"), peer.folder().display().to_string());
        let (port, key) = (peer.server.port.to_string(), format!("IdentityFile={}", peer.server.path("user").display()));
        let from = format!("127.0.0.1:{}", files.display());
        let alone = "BatchMode=yes,ConnectTimeout=10,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR";
        // Its ssh lives as long as the mount, and would hold a pipe open.
        let log = fs::File::create(peer.server.path("said"))?;
        let mut command = Command::new(sshfs);
        command.args([&from, &mounted, "-p", &port, "-o", &key, "-o", alone]);
        let status = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).status()?;
        ensure!(status.success(), "sshfs: {}", fs::read_to_string(peer.server.path("said"))?.trim());
        Ok(peer)
    }

    /// Folder of its files.
    pub fn folder(&self) -> PathBuf {
        self.server.path("mounted")
    }
}

impl Drop for Sshfs {
    fn drop(&mut self) {
        // A mount whose server has gone is taken away all the same.
        let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(self.folder()).stderr(Stdio::null()).status();
    }
}

/// A share of samba. No kernel's client is used, which saves it the kernel's part: its figures are those of whole files.
pub struct Samba {
    server: Server,
    client: PathBuf,
}

impl Samba {
    /// Starts a server for guests of this host.
    pub fn start() -> Result<Samba> {
        let (smbd, client) = (find("smbd", "samba")?, find("smbclient", "smbclient")?);
        let user = run(Path::new("id"), &["-un"], &[])?;
        let server = Server::start(&smbd, |folder, port| {
            let at = folder.display();
            let own = ["lock", "state", "cache", "pid", "private"].map(|kind| format!("{kind} directory = {at}\n")).concat();
            let config = format!(
                "[global]\nserver role = standalone server\nmap to guest = Bad User\nguest account = {user}\nsmb ports = {port}\n\
                 interfaces = 127.0.0.1/8\nbind interfaces only = yes\ndisable netbios = yes\nload printers = no\n\
                 disable spoolss = yes\nncalrpc dir = {at}/calls\n{own}[share]\npath = {at}/files\nguest ok = yes\nread only = no\n",
                user = user.trim(),
            );
            fs::write(folder.join("config"), config)?;
            let words = ["--foreground", "--no-process-group", "--debug-stdout", "--configfile"].map(str::to_owned);
            Ok([&words[..], &[format!("{at}/config")]].concat())
        })?;
        Ok(Samba { server, client })
    }

    /// Writes and reads a file of `len` bytes; the times in ns.
    pub fn turn(&self, len: u64) -> Result<Figures> {
        let file = self.server.path("whole");
        fs::write(&file, vec![7; len as usize])?;
        let figures = [("write", format!("put {} file", file.display())), ("read", "get file /dev/null".to_owned())]
            .into_iter()
            .map(|(key, command)| Ok((key.to_owned(), len as f64 / self.rate(&command)?)))
            .collect();
        fs::remove_file(&file)?;
        figures
    }

    /// The rate in bytes a ns that the client says of a command.
    fn rate(&self, command: &str) -> Result<f64> {
        let (port, config) = (self.server.port.to_string(), self.server.path("config").display().to_string());
        let said = Command::new(&self.client)
            .args(["//127.0.0.1/share", "-N", "-p", &port, "-s", &config, "-c", command])
            .output()
            .context("smbclient")?;
        let said = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        match rate_in(&said) {
            Some(rate) => Ok(rate),
            None => bail!("smbclient said '{}'", said.trim()),
        }
    }
}

/// A folder of nfs-ganesha. No kernel's client is used, as with samba.
pub struct Ganesha {
    /// Folders that go with it: the client's, and that of the files.
    _folders: (Compiled, TempDir),
    /// Words behind `unshare`.
    words: Vec<String>,
}

impl Ganesha {
    /// Compiles the client. The server is started for each turn, in namespaces of its own, because its portmapper has a port that is fixed.
    ///
    /// `len`, `calls` and `names` are what a turn writes, how many pages, and how many names.
    pub fn new(options: &Options, (len, calls, names): (u64, usize, usize)) -> Result<Ganesha> {
        find("ganesha.nfsd", "nfs-ganesha")?;
        find("rpcbind", "rpcbind")?;
        ensure!(rustix::process::geteuid().is_root(), "nfs-ganesha opens files by their handles, which takes root");
        let compiled = Compiled::new(options)?;
        let client = compiled.build("cc", "nfs_files", &["-lnfs"]).context("the client (package libnfs-dev)")?;
        let folder = tempfile::Builder::new().prefix("hanare-bench-").tempdir_in(MEMORY)?;
        let at = folder.path().display().to_string();
        let script = options.peers.join("nfs_server.sh").display().to_string();
        let apart = ["--net", "--mount", "--pid", "--fork", "--kill-child", "sh"].map(str::to_owned);
        let words = [script, at.clone(), client.display().to_string(), format!("nfs://127.0.0.1{at}/files?version=3")];
        let amounts = [len.to_string(), calls.to_string(), names.to_string()];
        Ok(Ganesha { _folders: (compiled, folder), words: [&apart[..], &words, &amounts].concat() })
    }

    /// Its client's measurements; the times in ns.
    pub fn turn(&self) -> Result<Figures> {
        figures(&run(Path::new("unshare"), &self.words, &[("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")])?)
    }
}

/// The rate of the last command, in bytes a ns: in brackets, in KiB a second.
fn rate_in(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("putting file") || line.starts_with("getting file"))?;
    let kib: f64 = line.split_once('(')?.1.split_ascii_whitespace().next()?.parse().ok()?;
    (kib > 0.0).then_some(kib * 1024.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_says_is_a_rate() {
        let put = "putting file /dev/shm/x as \\file (1048576.0 kb/s) (average 1048576.0 kb/s)\n";
        assert!((rate_in(put).unwrap() - 1.073_741_824).abs() < 1e-9);
        assert!(rate_in("getting file \\file of size 4 as /dev/null (3.9 KiloBytes/sec)").is_some());
        assert!(rate_in("NT_STATUS_CONNECTION_REFUSED").is_none() && rate_in("putting file x (none)").is_none());
    }
}
