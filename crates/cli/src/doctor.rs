//! `hanare doctor`: tries what this machine and its node do, and says what to type where something is wrong.

mod upgrade;

use crate::info::{Finding, kernel};
use crate::print;
use crate::size;
use anyhow::Result;
use hanare::Pool;
use hanare::fabrics::FABRICS;
use hanare_protocol::Error;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use std::fs::{read_dir, read_to_string};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Address of `hanare node` unless told otherwise.
const ADDRESS: &str = "127.0.0.1:7411";
/// Open files that a node of some hundred clients and connections has.
const FILES_WANTED: u64 = 1024;
/// Mapped ranges of a program that maps large regions in many extents.
const MAPS_WANTED: u64 = 65_530;
/// The least bytes of a key.
const KEY_LEN_MIN: u64 = 16;

/// Tries everything and prints what it found. The status is 1 where something is wrong without which nothing works.
pub fn run(as_json: bool) -> Result<i32> {
    let groups = [("Kernel", kernel::findings()), ("Limits", limits()), ("Network", network()), ("Pool", pool())];
    let is_ill = groups.iter().flat_map(|(_, findings)| findings).any(|finding| finding.is_needed && !finding.usable);
    if as_json {
        let groups = groups.iter().map(
            |(name, findings)| json!({ "group": name, "findings": findings.iter().map(Finding::value).collect::<Vec<_>>() }),
        );
        print::json(&json!({ "healthy": !is_ill, "groups": groups.collect::<Vec<_>>() }))?;
        return Ok(is_ill.into());
    }
    for (name, findings) in &groups {
        print::line(&format!("\x1b[1m{name}\x1b[0m"));
        findings.iter().for_each(show);
    }
    print::line(if is_ill {
        "\nSomething is wrong without which nothing works."
    } else {
        "\nNothing is wrong that a pool needs."
    });
    Ok(is_ill.into())
}

fn show(finding: &Finding) {
    let mark = match (finding.usable, finding.is_needed) {
        (true, _) => "ok  ",
        (false, true) => "FAIL",
        (false, false) => "note",
    };
    print::line(&format!("  {mark} {}: {}", finding.name, finding.why));
    if let Some(remedy) = finding.remedy.as_ref().filter(|_| !finding.usable) {
        print::line(&format!("       > {remedy}"));
    }
}

fn limits() -> Vec<Finding> {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let maps = number("/proc/sys/vm/max_map_count").unwrap_or(MAPS_WANTED);
    let overcommit = number("/proc/sys/vm/overcommit_memory").unwrap_or(0);
    let lendable = hanare::available_memory();
    let clock = read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    // Others are read by a system call, some from a device.
    let is_fast = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"].contains(&clock.trim());
    vec![
        Finding::new("open files", files >= FILES_WANTED, format!("at most {files} (RLIMIT_NOFILE)"))
            .remedy(&format!("ulimit -n {FILES_WANTED}, or LimitNOFILE= of the service")),
        Finding::new("mapped ranges", maps >= MAPS_WANTED, format!("at most {maps} of a process (vm.max_map_count)"))
            .remedy(&format!("sysctl vm.max_map_count={MAPS_WANTED}")),
        Finding::new("overcommit", overcommit != 2, format!("vm.overcommit_memory is {overcommit}"))
            .remedy("sysctl vm.overcommit_memory=0: with 2, mappings of large regions are refused"),
        Finding::new(
            "memory to lend",
            lendable.is_none_or(|bytes| bytes > 0),
            format!("{} (free, within the limits of this control group)", kernel::lendable()),
        )
        .remedy("give the container or the service a higher memory limit"),
        Finding::new(
            "clock",
            is_fast,
            format!("the clock source is {}", if clock.is_empty() { "unknown" } else { clock.trim() }),
        )
        .remedy("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, where the machine has it"),
    ]
}

fn network() -> Vec<Finding> {
    let mut findings = vec![match TcpListener::bind(ADDRESS) {
        Ok(_) => Finding::new("port", true, format!("{ADDRESS} is free for a node")),
        Err(error) => Finding::new("port", false, format!("{ADDRESS}: {error}; a node may be running there"))
            .remedy("hanare status; or hanare node --listen 127.0.0.1:PORT"),
    }];
    let mut interfaces: Vec<_> = read_dir("/sys/class/net").into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    interfaces.sort();
    for interface in interfaces {
        let name = interface.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_up = read_to_string(interface.join("operstate")).is_ok_and(|state| matches!(state.trim(), "up" | "unknown"));
        let Some(mtu) = number(interface.join("mtu")).filter(|_| is_up && name != "lo") else { continue };
        let finding = Finding::new(format!("interface {name}"), mtu >= 1500, format!("packets of up to {mtu} bytes"));
        findings.push(finding.remedy(&format!("ip link set {name} mtu 1500, where the network carries it")));
    }
    findings.extend(FABRICS.iter().map(|fabric| match (fabric.available)() {
        Ok(info) => {
            let rdma = if info.has_rdma { "yes" } else { "no" };
            Finding::new(fabric.name, true, format!("version {} loaded, RDMA: {rdma}", info.version))
        }
        Err(reason) => Finding::new(fabric.name, false, format!("{reason}; bytes go by tcp")),
    }));
    findings
}

fn pool() -> Vec<Finding> {
    let unknown = hanare::settings::unknown().into_iter().map(|(name, near)| {
        let meant = near.map_or("`hanare info` lists all".to_owned(), |near| format!("{near} is one"));
        Finding::new("setting", false, format!("{name} is none: {meant}")).remedy(&format!("unset {name}"))
    });
    let mut findings: Vec<_> = unknown.chain(key()).collect();
    let asked = Pool::attach_alone().and_then(|pool| pool.status().map(|status| (pool, status)));
    let (pool, status) = match asked {
        Ok(asked) => asked,
        Err(error @ Error::NoNode { .. }) => {
            findings.push(Finding::new("node", false, error.to_string()).remedy("hanare node --memory 1GiB &"));
            return findings;
        }
        Err(error) => {
            let is_old = matches!(error, Error::VersionMismatch { .. });
            let remedy = if is_old {
                "install a build that is at most one release away, and start the node again"
            } else {
                "hanare status"
            };
            findings.push(Finding::needed("node", error.to_string()).remedy(remedy));
            return findings;
        }
    };
    let members = status.nodes.iter().filter(|node| node.alive).count();
    findings.push(Finding::new("node", true, format!("answers; {members} in the pool")));
    for node in &status.nodes {
        let (name, memory) = (format!("node {} ({})", node.node.0, node.name), node.memory);
        let free = memory.lent.saturating_sub(memory.used);
        match node.alive {
            false => findings.push(
                Finding::new(name, false, format!("lost; it was at {}", node.address))
                    .remedy("start it again; regions that lay there are to be removed and made anew"),
            ),
            true if memory.withheld() > 0 => {
                let (lent, most) = (size::show(memory.lent), size::show(memory.lent_max));
                let why = format!("its host runs short of memory: it lends {lent} of {most}");
                let remedy = "end what takes that host's memory, add a node, or start this one with less --memory or --keep-free";
                findings.push(Finding::new(name, false, why).remedy(remedy));
            }
            true => {
                let why =
                    format!("lends {}, {} free, pages of {}", size::show(memory.lent), size::show(free), size::show(memory.page));
                findings.push(Finding::new(name, true, why));
            }
        }
    }
    findings.extend(upgrade::findings(&pool, &status));
    findings
}

/// The pool's key, if one is named: whoever can read it can read the pool.
fn key() -> Option<Finding> {
    let path = std::env::var_os("HANARE_KEY").filter(|path| !path.is_empty())?;
    let shown = Path::new(&path).display().to_string();
    let finding = match Path::new(&path).metadata() {
        Err(error) => Finding::needed("key", format!("{shown}: {error}"))
            .remedy(&format!("head -c 32 /dev/urandom > {shown}; chmod 600 {shown}")),
        Ok(about) if about.permissions().mode() & 0o077 != 0 => {
            Finding::needed("key", format!("{shown} may be read by others")).remedy(&format!("chmod 600 {shown}"))
        }
        Ok(about) if about.len() < KEY_LEN_MIN => {
            Finding::needed("key", format!("{shown} has {} bytes, fewer than {KEY_LEN_MIN}", about.len()))
                .remedy(&format!("head -c 32 /dev/urandom > {shown}"))
        }
        Ok(about) => Finding::new("key", true, format!("{shown}, {} bytes, readable by its owner alone", about.len())),
    };
    Some(finding)
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    read_to_string(path).ok()?.trim().parse().ok()
}
