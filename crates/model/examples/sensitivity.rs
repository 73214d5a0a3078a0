//! Records how much each verdict depends on chosen parameters: `cargo run --release -p hanare-model --example sensitivity`.
use std::fs;
use std::io;
use std::path::Path;

use hanare_model::sensitivity::{examine, to_toml};

fn main() -> io::Result<()> {
    let recorded = examine(hanare_model::papers(), &mut |done, total, paper| eprint!("\r{done} of {total} runs, {paper}      "));
    eprintln!();
    fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("facts/sensitivity.toml"), to_toml(&recorded))?;
    println!("facts/sensitivity.toml: {} claims", recorded.claims.len());
    Ok(())
}
