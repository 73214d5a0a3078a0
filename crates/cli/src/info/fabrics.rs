//! The fabrics and why each is chosen or refused.

use super::Finding;

/// Each fabric of the design, in the order of preference between two hosts.
pub fn findings() -> Vec<Finding> {
    vec![
        Finding::new("shm", true, "chosen between a program and the node of its own host"),
        Finding::new("ucx", false, format!("refused: not in this build; {}", ucx_library())),
        Finding::new("tcp", true, "chosen between nodes and to regions of other nodes"),
        Finding::new("main memory", false, "refused: `hanare run --main-memory` is not in this build"),
    ]
}

fn ucx_library() -> &'static str {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    match folders.iter().any(|folder| std::path::Path::new(folder).join("libucp.so.0").exists()) {
        true => "libucp.so.0 is installed",
        false => "libucp.so.0 is not installed either",
    }
}
