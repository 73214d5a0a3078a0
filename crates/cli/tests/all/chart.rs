//! The chart of `deploy/helm`: it passes helm's lint, refuses values that no pool has, and the words that it gives to nodes start a pool.

use crate::pool;

use pool::{HANARE, Running, clean, command, run, wait_until};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Helm, of the search path or where `go install` puts it; `None` (and a line that says so) where it is not installed.
fn helm() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin/helm"));
    let found = [Some(PathBuf::from("helm")), home]
        .into_iter()
        .flatten()
        .find(|program| Command::new(program).arg("version").output().is_ok_and(|output| output.status.success()));
    if found.is_none() {
        // `scripts/prepare.sh` leaves it out, because building it takes longer than all else that tests need.
        hanare_testkit::unable("helm is not installed: go install helm.sh/helm/v3/cmd/helm@v3.22.0");
    }
    found
}

fn helm_run(helm: &Path, action: &[&str], values: &[&str]) -> Output {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/hanare");
    let mut asked = Command::new(helm);
    asked.args(action).arg(chart).args(["--namespace", "lab", "--kube-version", "1.31.0"]);
    asked.args(values.iter().flat_map(|value| ["--set", value])).output().unwrap()
}

/// The manifests of a release.
fn rendered(helm: &Path, values: &[&str]) -> String {
    let output = helm_run(helm, &["template", "pool"], values);
    assert!(output.status.success(), "{values:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Values that are asked for, and how many keepers and sets of nodes they make.
const ACCEPTED: [(&[&str], usize, usize); 4] = [
    (&[], 3, 1),
    (&["keepers.count=5", "persist=false", "image.tag=v1", "extraEnv.HANARE_FABRIC=tcp", "extraArgs={--plain}"], 5, 1),
    (&["keepers.count=1", "keepers.storage.className=fast", "nodes.nodeSelector.rack=a"], 1, 1),
    (&["nodes.enabled=false", "seccompProfile.type=RuntimeDefault", "seccompProfile.localhostProfile=null"], 3, 0),
];

/// A value that no pool has, and a word of its refusal.
const REFUSED: [(&str, &str); 7] = [
    ("keepers.count=2", "count"),
    ("keepers.memory=lots", "memory"),
    ("keepers.nodeSelector=null", "nodeSelector"),
    ("socketMode=rw", "socketMode"),
    ("user=0", "user"),
    ("port=70000", "port"),
    ("keeper.count=3", "keeper"),
];

#[test]
fn the_chart_passes_lint_with_each_choice_of_values() {
    let Some(helm) = helm() else { return };
    for (values, keepers, sets) in ACCEPTED {
        let lint = helm_run(&helm, &["lint", "--strict"], values);
        assert!(lint.status.success(), "{values:?}: {}", String::from_utf8_lossy(&lint.stdout));
        let text = rendered(&helm, values);
        assert!(text.contains(&format!("\n  replicas: {keepers}\n")), "{text}");
        assert_eq!(text.matches("\nkind: DaemonSet\n").count(), sets, "{text}");
        assert_eq!(text.matches("hostNetwork: true").count(), 1 + sets, "{text}");
        assert_eq!(text.matches("capabilities: {drop: [ALL]}").count(), 1 + sets, "{text}");
    }
}

#[test]
fn values_that_no_pool_has_are_refused() {
    let Some(helm) = helm() else { return };
    for (value, word) in REFUSED {
        let output = helm_run(&helm, &["template", "pool"], &[value]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(word), "{value}: {told}");
    }
}

/// A pod of the rendered chart: the words and variables of its node.
struct Pod {
    words: Vec<String>,
    variables: Vec<(String, String)>,
}

/// The pod of the manifest of that kind.
fn pod_of(text: &str, kind: &str) -> Pod {
    let manifest = text.split("\n---\n").find(|part| part.contains(&format!("\nkind: {kind}\n"))).unwrap();
    let (_, node) = manifest.split_once("- name: node\n").unwrap();
    let lines = |from: &str, to: &str| {
        let (_, rest) = node.split_once(from).unwrap();
        let lines = rest.split_once(to).unwrap().0.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = |line: &String| line.strip_prefix("- ").unwrap().trim_matches('"').to_owned();
    let variables = lines(" env:\n", "securityContext:").join("\n").replace("\nvalue:", ", value:");
    let value_of = |line: &str| {
        let (name, value) = line.trim_start_matches(['-', ' ', '{']).strip_prefix("name: ")?.split_once(", value: ")?;
        Some((name.to_owned(), value.trim_end_matches('}').trim_matches('"').to_owned()))
    };
    Pod {
        words: lines(" args:\n", " env:\n").iter().map(plain).collect(),
        variables: variables.lines().filter_map(value_of).collect(),
    }
}

/// A node that ends with the test.
struct Started(Running);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.child.kill();
        let _ = self.0.child.wait();
    }
}

/// Hosts of a cluster that this machine plays: the names of pods, with a port of this machine each.
struct Cluster {
    folder: tempfile::TempDir,
    hosts: Vec<(String, u16)>,
}

impl Cluster {
    fn new(names: &[&str]) -> Cluster {
        let listeners: Vec<TcpListener> = names.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let hosts = names.iter().zip(&listeners).map(|(name, listener)| ((*name).to_owned(), port(listener))).collect();
        Cluster { folder: tempfile::tempdir().unwrap(), hosts }
    }

    fn folder(&self, host: &str) -> PathBuf {
        self.folder.path().join(host)
    }

    fn socket(&self, host: &str) -> String {
        self.folder(host).join("node.sock").display().to_string()
    }

    /// A text of a pod as its host has it: what the cluster puts in, then this machine's folders, and ports in place of other hosts' names.
    fn on(&self, (host, port): &(String, u16), text: &str) -> String {
        let folder = self.folder(host).display().to_string();
        let mut text = text.replace("$(NAME)", host).replace("$(HOST_IP):7411", &format!("127.0.0.1:{port}"));
        text = text.replace("$(HOST_IP):9411", "127.0.0.1:0").replace("/var/lib/hanare", &folder).replace("/run/hanare", &folder);
        for (name, port) in &self.hosts {
            text = text.replace(&format!("{name}.pool-hanare-keepers.lab.svc:7411"), &format!("localhost:{port}"));
        }
        assert!(!text.contains("$("), "{text}");
        text
    }

    /// Starts a pod's node as its container does, with the secret's files.
    fn start(&self, at: usize, pod: &Pod) -> Started {
        let host = &self.hosts[at];
        let folder = self.folder(&host.0);
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy(self.folder.path().join("pool.key"), folder.join("pool.key")).unwrap();
        std::fs::write(folder.join("scrape.token"), "0123456789abcdef".repeat(4)).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.join("scrape.token"), private).unwrap();
        let mut node = clean(HANARE);
        node.args(pod.words.iter().map(|word| self.on(host, word)));
        node.envs(pod.variables.iter().map(|(name, value)| (name, self.on(host, value))));
        Started(Running::start(&mut node))
    }
}

#[test]
fn words_of_the_chart_start_a_pool_that_goes_on_without_one_keeper() {
    let Some(helm) = helm() else { return };
    let text = rendered(&helm, &["keepers.memory=64MiB", "nodes.memory=64MiB"]);
    let (keeper, node) = (pod_of(&text, "StatefulSet"), pod_of(&text, "DaemonSet"));
    let cluster = Cluster::new(&["pool-hanare-keeper-0", "pool-hanare-keeper-1", "pool-hanare-keeper-2", "host-d"]);
    let key = cluster.folder.path().join("pool.key");
    run(&mut command(&["key", "new", key.to_str().unwrap()])).done();
    let mut nodes: Vec<Started> = (0..3).map(|at| cluster.start(at, &keeper)).collect();
    nodes.push(cluster.start(3, &node));
    let ask = |words: &[&str]| run(command(words).env("HANARE_NODE", cluster.socket("host-d")));
    let alive = || {
        let ended = ask(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter(|node| node["alive"] == true).count()
    };
    wait_until("four nodes", || alive() == 4);
    let keepers = ask(&["keeper", "ls"]).done();
    assert_eq!(keepers.lines().count(), 4, "{keepers}");
    ask(&["region", "create", "kept", "1MiB"]).done();
    drop(nodes.remove(0));
    wait_until("three nodes", || alive() == 3);
    ask(&["region", "create", "later", "1MiB"]).done();
}
