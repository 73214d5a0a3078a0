//! A first put and get: `hanare run -- cargo run -q -p hanare --example first`.

use hanare::{CreateOptions, Pool, Result};

fn main() -> Result<()> {
    let pool = Pool::attach()?;
    let region = pool.create_or_attach("greeting", 4096, &CreateOptions::default())?;
    region.put(100, b"good morning")?;
    let mut text = [0; 12];
    region.get(100, &mut text)?;
    println!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
