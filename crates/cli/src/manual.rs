//! Completions and man pages, from the one definition of the command; what it does not hold stands in [`remarks`].

mod remarks;

use crate::arguments;
use crate::print;
use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use remarks::Remarks;
use std::io::Write;
use std::path::Path;

/// Writes a shell's completions to standard output.
pub fn completions(shell: Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut arguments::command(), "hanare", &mut text);
    print::text(&String::from_utf8_lossy(&text));
}

/// Writes `hanare.1` and a page for each subcommand into a folder, which is made where it is missing.
pub fn pages(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut command = arguments::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder).with_context(|| format!("cannot write man pages into {}", folder.display()))
}

fn write_pages(command: &clap::Command, folder: &Path) -> std::io::Result<()> {
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        write_pages(part, folder)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let page = Man::new(command.clone()).source(format!("hanare {}", env!("CARGO_PKG_VERSION"))).manual("Hanare");
    let mut file = std::fs::File::create(folder.join(page.get_filename()))?;
    write_page(command, &page, remarks::of(name), &mut file)
}

fn write_page(command: &clap::Command, page: &Man, notes: Remarks, file: &mut dyn Write) -> std::io::Result<()> {
    page.render_title(file)?;
    page.render_name_section(file)?;
    page.render_synopsis_section(file)?;
    page.render_description_section(file)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page.render_options_section(file)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(file)?;
    }
    let mut roff = Roff::new();
    if let Some(text) = command.get_after_help() {
        roff.control("SH", ["NOTES"]);
        for line in text.to_string().lines() {
            roff.control("PP", []);
            roff.text([roman(line)]);
        }
    }
    if !notes.examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
        for (line, what) in notes.examples {
            roff.control("TP", []);
            roff.text([bold(*line)]);
            roff.text([roman(*what)]);
        }
    }
    listed(&mut roff, "ENVIRONMENT", &notes.settings());
    listed(&mut roff, "FILES", &notes.files());
    if let Some(others) = notes.see_also() {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman(others)]);
    }
    roff.to_writer(file)
}

/// A section of names, each with what it is.
fn listed(roff: &mut Roff, title: &str, list: &[(String, String)]) {
    if list.is_empty() {
        return;
    }
    roff.control("SH", [title]);
    for (name, what) in list {
        roff.control("TP", []);
        roff.text([bold(name.as_str())]);
        roff.text([roman(what.as_str())]);
    }
}
