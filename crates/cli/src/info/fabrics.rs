//! The fabrics and why each is chosen or refused.

use super::Finding;
use hanare::fabrics::{FABRICS, Fabric};

/// Each fabric, in the order of preference between two hosts.
pub fn findings() -> Vec<Finding> {
    let mut findings = vec![Finding::new("shm", true, "chosen between a program and the node of its own host")];
    findings.extend(FABRICS.iter().map(by_library));
    findings.push(Finding::new("tcp", true, "chosen between hosts where no other is"));
    findings
}

fn by_library(fabric: &Fabric) -> Finding {
    let name = fabric.name;
    match (fabric.available)() {
        Ok(info) => {
            let found = format!("version {} at {}, transports {}", info.version, info.path.display(), info.transports.join(" "));
            let why = match info.has_rdma {
                true => format!("chosen between hosts that all have RDMA: {found}"),
                false => format!("not chosen, for this machine has no RDMA; used with --fabric {name}: {found}"),
            };
            Finding::new(name, true, why)
        }
        Err(reason) => Finding::new(name, false, format!("refused: {reason}")),
    }
}
