//! `hanare run --hosts` on hosts that share no loopback: each in a network namespace of its own, joined by a bridge.

use crate::pool;

use pool::remote::Remote;
use pool::{HANARE, clean, run};

/// Two namespaces on a bridge; they go with the test.
struct Networks {
    name: String,
    subnet: String,
}

const HOSTS: [&str; 2] = ["a", "b"];

fn ip(words: &str) -> Result<(), String> {
    let done = clean("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    if done.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", String::from_utf8_lossy(&done.stderr).trim())) }
}

impl Networks {
    /// **Errors**: what the machine does not let us make.
    fn new() -> Result<Networks, String> {
        if !rustix::process::getuid().is_root() {
            return Err("network namespaces need root".to_owned());
        }
        let pid = std::process::id();
        let networks = Networks { name: format!("hn{pid}"), subnet: format!("10.254.{}", pid % 250) };
        let Networks { name, subnet } = &networks;
        ip(&format!("link add {name} type bridge"))?;
        ip(&format!("link set {name} up"))?;
        for (number, host) in HOSTS.into_iter().enumerate() {
            ip(&format!("netns add {name}-{host}"))?;
            ip(&format!("link add {name}{host} type veth peer name eth0 netns {name}-{host}"))?;
            ip(&format!("link set {name}{host} master {name} up"))?;
            ip(&format!("-n {name}-{host} addr add {subnet}.{}/24 dev eth0", number + 1))?;
            ip(&format!("-n {name}-{host} link set eth0 up"))?;
            ip(&format!("-n {name}-{host} link set lo up"))?;
        }
        Ok(networks)
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for host in HOSTS {
            let _ = ip(&format!("link del {}{host}", self.name));
            let _ = ip(&format!("netns del {}-{host}", self.name));
        }
        let _ = ip(&format!("link del {}", self.name));
    }
}

#[test]
fn their_nodes_are_one_pool() {
    let networks = match Networks::new() {
        Ok(networks) => networks,
        Err(why) => {
            hanare_testkit::unable(why);
            return;
        }
    };
    let remote = Remote::new();
    for (number, host) in HOSTS.into_iter().enumerate() {
        std::fs::write(remote.path(&format!("{host}.address")), format!("{}.{}", networks.subnet, number + 1)).unwrap();
    }
    std::fs::write(remote.path("letter"), "over the bridge").unwrap();
    // Rank 0 on host a puts a letter into memory of host b, and takes it back.
    let script = format!(
        "h={HANARE}; $h region create far 15 --place node=1 && $h region cp ./letter far && $h region cp far ./back && \
         $h status --json"
    );
    let words = ["run", "--hosts", "a,b", "-n", "1", "--memory", "64M", "--", "sh", "-c", &script];
    let status = run(remote.command(&words).env("NET", &networks.name)).json();
    assert_eq!(std::fs::read_to_string(remote.path("back")).unwrap(), "over the bridge");
    for (number, host) in HOSTS.into_iter().enumerate() {
        let node = &status["nodes"][number];
        assert_eq!(node["name"], host);
        let address = node["address"].as_str().unwrap();
        assert!(address.starts_with(&format!("{}.{}:", networks.subnet, number + 1)), "{address}");
    }
}
