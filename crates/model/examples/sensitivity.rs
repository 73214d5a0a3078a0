//! Records how much each verdict depends on what the papers leave open: `cargo run --release -p hanare-model --example sensitivity`.
//!
//! Behind `--`, papers: only those are recorded anew.
use std::fs;
use std::io;
use std::path::Path;

use hanare_model::claim::record::{Recorded, to_toml};
use hanare_model::experiment::Paper;
use hanare_model::sensitivity::examine;

fn main() -> io::Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |paper: &&&'static Paper| names.is_empty() || names.iter().any(|name| name == paper.id);
    let papers: Vec<&'static Paper> = hanare_model::papers().iter().filter(is_asked).copied().collect();
    let found = examine(&papers, &mut |done, total, paper| eprint!("\r{done} of {total} runs, {paper}      "));
    eprintln!();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("facts/sensitivity.toml");
    let mut recorded: Recorded = toml::from_str(&fs::read_to_string(&path)?).unwrap_or_default();
    recorded.parameters.extend(found.parameters);
    recorded.claims.extend(found.claims);
    recorded.claims.retain(|id, _| hanare_model::facts::facts().claim(id).is_some());
    println!("facts/sensitivity.toml: {} claims", recorded.claims.len());
    fs::write(path, to_toml(&recorded))
}
