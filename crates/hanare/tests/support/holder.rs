//! A process of its own that takes something and is killed: the test's own program, run again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Starts the actor `name`, a path with the binary before it, as a program of the node at `socket`, until it says that it is ready.
pub fn start(name: &str, socket: &str) -> Child {
    let own = std::env::current_exe().unwrap();
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let words = hanare_testkit::words(name);
    let mut child = Command::new(own).args(words).env("HANARE_NODE", socket).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("ready")), "{name} ended before it was ready");
    child
}

/// Ends it without a chance to give anything back.
pub fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What the program says once it has what it came for; it waits for its end then.
pub fn wait_for_death() -> ! {
    println!("\nready");
    loop {
        std::thread::park();
    }
}
