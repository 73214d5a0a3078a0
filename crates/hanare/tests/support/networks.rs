//! Hosts that share no loopback: a network namespace each, joined by a bridge that one can be taken from. They go with the test.
#![allow(dead_code)]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// So many hosts on a bridge of their own.
pub struct Networks {
    name: String,
    subnet: String,
    hosts: usize,
}

fn ip(words: &str) -> Result<(), String> {
    let done = Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    if done.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", String::from_utf8_lossy(&done.stderr).trim())) }
}

impl Networks {
    /// **Errors**: what the machine does not let us make.
    pub fn new(hosts: usize) -> Result<Networks, String> {
        if !rustix::process::getuid().is_root() {
            return Err("network namespaces need root".to_owned());
        }
        let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let number = pid.wrapping_mul(31).wrapping_add(count);
        // Names of links have 15 characters at most.
        let name = format!("hl{:x}-{count}", pid % 0x10_0000);
        let networks = Networks { subnet: format!("10.{}.{}", 200 + number / 250 % 50, number % 250), name, hosts };
        let Networks { name, subnet, .. } = &networks;
        ip(&format!("link add {name} type bridge"))?;
        ip(&format!("link set {name} up"))?;
        for host in 0..hosts {
            ip(&format!("netns add {name}-{host}"))?;
            ip(&format!("link add {name}{host} type veth peer name eth0 netns {name}-{host}"))?;
            ip(&format!("link set {name}{host} master {name} up"))?;
            ip(&format!("-n {name}-{host} addr add {subnet}.{}/24 dev eth0", host + 1))?;
            ip(&format!("-n {name}-{host} link set eth0 up"))?;
            ip(&format!("-n {name}-{host} link set lo up"))?;
        }
        Ok(networks)
    }

    /// The address of a host.
    pub fn address(&self, host: usize) -> String {
        format!("{}.{}", self.subnet, host + 1)
    }

    /// A program to be run on a host.
    pub fn command(&self, host: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-{host}", self.name)]).arg(program);
        command
    }

    /// All packets to and from a host are lost from now on, without a sign.
    pub fn cut(&self, host: usize) {
        ip(&format!("link set {}{host} nomaster", self.name)).unwrap();
    }

    /// Packets from a host to one other are lost from now on, without a sign: they go to an Ethernet address that nobody has.
    pub fn deafen(&self, from: usize, to: usize) {
        let (name, address) = (&self.name, self.address(to));
        ip(&format!("-n {name}-{from} neigh replace {address} lladdr 02:00:00:00:00:00 nud permanent dev eth0")).unwrap();
    }

    /// They arrive again.
    pub fn undeafen(&self, from: usize, to: usize) {
        ip(&format!("-n {}-{from} neigh del {} dev eth0", self.name, self.address(to))).unwrap();
    }

    /// The host is back.
    pub fn heal(&self, host: usize) {
        ip(&format!("link set {0}{host} master {0}", self.name)).unwrap();
    }

    /// Resets all connections from one host to another. **Errors**: why it cannot.
    pub fn reset(&self, from: usize, to: usize) -> Result<(), String> {
        let namespace = format!("{}-{from}", self.name);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace, "ss", "-K", "-t", "dst", &self.address(to)]);
        let done = command.output().map_err(|error| format!("ss: {error}"))?;
        let told = String::from_utf8_lossy(&done.stdout).lines().count();
        if done.status.success() && told > 1 { Ok(()) } else { Err(format!("ss -K reset nothing: {done:?}")) }
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for host in 0..self.hosts {
            let _ = ip(&format!("link del {}{host}", self.name));
            let _ = ip(&format!("netns del {}-{host}", self.name));
        }
        let _ = ip(&format!("link del {}", self.name));
    }
}
