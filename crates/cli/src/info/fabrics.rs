//! The fabrics and why each is chosen or refused.

use super::Finding;

/// Each fabric, in the order of preference between two hosts.
pub fn findings() -> Vec<Finding> {
    vec![
        Finding::new("shm", true, "chosen between a program and the node of its own host"),
        ucx(),
        Finding::new("tcp", true, "chosen between hosts where ucx is not"),
    ]
}

fn ucx() -> Finding {
    match hanare::ucx::available() {
        Ok(info) => {
            let found = format!("UCX {} at {}, transports {}", info.version, info.path.display(), info.transports.join(" "));
            let why = match info.has_rdma {
                true => format!("chosen between hosts that all have RDMA: {found}"),
                false => format!("not chosen, for this machine has no RDMA; used with --fabric ucx: {found}"),
            };
            Finding::new("ucx", true, why)
        }
        Err(reason) => Finding::new("ucx", false, format!("refused: {reason}")),
    }
}
