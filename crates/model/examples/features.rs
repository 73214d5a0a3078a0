//! Records where each feature of the papers is marked: `cargo run -p hanare-model --example features`.
use std::fs;
use std::io;
use std::path::Path;

use hanare_model::report::{features_markdown, features_toml, scan};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let marks = scan(&root)?;
    fs::create_dir_all(root.join("docs"))?;
    fs::write(root.join("crates/model/facts/features.toml"), features_toml(&marks))?;
    fs::write(root.join("docs/features.md"), features_markdown(&marks))?;
    println!("docs/features.md and crates/model/facts/features.toml: {} of 131 features are marked", marks.len());
    Ok(())
}
