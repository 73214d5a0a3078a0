//! `hanare info`: what this machine offers, which fabrics are there and why, and every setting.

mod fabrics;
pub mod kernel;
mod machine;

use crate::backing;
use crate::print::{self, Column};
use anyhow::Result;
use hanare::Pool;
use hanare_protocol::versions::{NEWEST, Versions};
use serde_json::{Value, json};

/// Something that is there or not, and why.
pub struct Finding {
    /// Its name.
    pub name: String,
    /// True if it can be used.
    pub usable: bool,
    /// The finding, and its meaning.
    pub why: String,
    /// True if nothing works without it.
    pub is_needed: bool,
    /// The remedy to type, or to ask for, where it cannot be used.
    pub remedy: Option<String>,
}

impl Finding {
    /// Something that is there or not.
    pub fn new(name: impl Into<String>, usable: bool, why: impl Into<String>) -> Finding {
        Finding { name: name.into(), usable, why: why.into(), is_needed: false, remedy: None }
    }

    /// Something that is not there, without which nothing works.
    pub fn needed(name: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding { is_needed: true, ..Finding::new(name, false, why) }
    }

    /// The same with what to do about it.
    pub fn remedy(self, remedy: &str) -> Finding {
        Finding { remedy: Some(remedy.to_owned()), ..self }
    }

    /// For programs.
    pub fn value(&self) -> Value {
        json!({ "name": self.name, "usable": self.usable, "needed": self.is_needed, "why": self.why, "remedy": self.remedy })
    }
}

/// Prints everything.
pub fn run(as_json: bool) -> Result<()> {
    let (machine, fabrics, kernel, lent) = (machine::facts(), fabrics::findings(), kernel::findings(), lent());
    if as_json {
        let machine: serde_json::Map<String, Value> =
            machine.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let values = |findings: &[Finding]| findings.iter().map(Finding::value).collect::<Vec<_>>();
        return print::json(&json!({
            "version": env!("CARGO_PKG_VERSION"), "wire": NEWEST, "machine": machine,
            "fabrics": values(&fabrics), "kernel": values(&kernel), "settings": settings(),
            "numa": machine::numa_values(), "lent": lent.map(|told| told.value()),
        }));
    }
    print::line(&format!("hanare {}, wire version {}", env!("CARGO_PKG_VERSION"), Versions::BUILD));
    title("Machine");
    print::table(
        &[Column::Text(""), Column::Text("")],
        machine.into_iter().map(|(name, value)| vec![name.to_owned(), value]).chain(machine::numa_rows()).collect(),
    );
    title("Lent memory");
    print::line(&lent.map_or("no node of this user runs here".to_owned(), |told| format!("{}: {}", told.node, told.in_words())));
    title("Fabrics");
    show(&fabrics);
    title("Kernel");
    show(&kernel);
    title("Settings");
    let columns = [Column::Text("VARIABLE"), Column::Text("DEFAULT"), Column::Text("SET TO"), Column::Text("MEANING")];
    let rows = hanare::settings::SETTINGS.iter().map(|setting| {
        let value = std::env::var(setting.variable).unwrap_or_default();
        vec![setting.variable.to_owned(), setting.default.to_owned(), value, setting.meaning.to_owned()]
    });
    print::table(&columns, rows.collect());
    Ok(())
}

/// The memory that this host's node lends, if one runs.
fn lent() -> Option<backing::ToldMemory> {
    let pool = Pool::attach_alone().ok()?;
    let own = pool.own_status().ok()?.own;
    backing::at_nodes(&pool, &[own], None, None).pop()
}

fn title(text: &str) {
    print::line(&format!("\n\x1b[1m{text}\x1b[0m"));
}

fn show(findings: &[Finding]) {
    let rows = findings.iter().map(|finding| {
        let mark = if finding.usable { "yes" } else { "no" };
        vec![finding.name.clone(), mark.to_owned(), finding.why.clone()]
    });
    print::table(&[Column::Text("NAME"), Column::Text("USABLE"), Column::Text("WHY")], rows.collect());
}

fn settings() -> Vec<Value> {
    let settings = hanare::settings::SETTINGS.iter().map(|setting| {
        let value = std::env::var(setting.variable).ok();
        json!({ "variable": setting.variable, "default": setting.default, "value": value, "meaning": setting.meaning })
    });
    settings.collect()
}
