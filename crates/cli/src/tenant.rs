//! `hanare tenant`: users of the pool for services that run as one user of their hosts.

use crate::print::{self, Column};
use crate::size;
use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use hanare::tenant_file::{Tenant, hash};
use hanare::{Pool, TenantStat, TenantWish};
use hanare_protocol::tenant::check_tenant;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An action on tenants.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List them with what they use
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make one, and show its key: once, because the pool keeps a hash of it alone
    #[command(
        after_help = "The key is a line of text for a file of mode 0600, which HANARE_TENANT names to the tenant's programs. Who reads it is the \
        tenant. Names of regions, locks and groups of its programs are its own; see docs/tenants.md."
    )]
    Create {
        /// Its name: letters, digits, '-', '_' and '.'
        name: String,
        /// Bytes that it may have in regions, as 4G [default: as many as a user may, HANARE_QUOTA].
        #[arg(long, value_parser = size::parse_some)]
        quota: Option<u64>,
        /// A file of mode 0600 to write the key to, which must not exist [default: the key is printed].
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
    },
    /// Give one a new key: the key of before lets no program in any more; those that are attached go on
    Key {
        /// Its name
        name: String,
        /// A file of mode 0600 to write the key to, which is replaced [default: the key is printed].
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
    },
    /// Change one
    Set {
        /// Its name
        name: String,
        /// quota=SIZE, or quota=none for as many bytes as a user may have
        #[arg(value_name = "quota=SIZE", value_parser = quota)]
        quota: Quota,
    },
    /// Remove one that has no regions; its programs can ask for nothing any more
    Remove {
        /// Its name
        name: String,
        /// Remove its regions, too: their bytes are lost.
        #[arg(long)]
        with_regions: bool,
    },
}

/// A wish about a quota; `None` for that of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota(Option<u64>);

fn quota(text: &str) -> Result<Quota, String> {
    match text.strip_prefix("quota=") {
        Some("none") => Ok(Quota(None)),
        Some(bytes) => size::parse_some(bytes).map(|bytes| Quota(Some(bytes))),
        None => Err("write quota=SIZE, or quota=none".to_owned()),
    }
}

const COLUMNS: [Column; 4] = [Column::Text("NAME"), Column::Number("USED"), Column::Number("QUOTA"), Column::Number("REGIONS")];

/// Runs the command.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Ls { json } => list(*json),
        Command::Create { name, quota, key_file } => {
            ensure!(
                !key_file.as_ref().is_some_and(|file| file.exists()),
                "{} is there already; name another file",
                key_file.as_deref().unwrap_or(Path::new("")).display()
            );
            let tenant = Tenant::draw(name)?;
            let wish = TenantWish::Create { name: name.clone(), hash: hash(&tenant.key), quota: *quota };
            give_key(&tenant, key_file.as_deref(), &wish)
        }
        Command::Key { name, key_file } => {
            let tenant = Tenant::draw(name)?;
            let wish = TenantWish::Alter { name: name.clone(), hash: Some(hash(&tenant.key)), quota: None };
            give_key(&tenant, key_file.as_deref(), &wish)
        }
        Command::Set { name, quota } => {
            change(&TenantWish::Alter { name: known(name)?, hash: None, quota: Some(quota.0) })?;
            let quota = quota.0.map_or_else(|| "that of users".to_owned(), size::show);
            print::line(&format!("the quota of tenant '{name}' is {quota}"));
            Ok(())
        }
        Command::Remove { name, with_regions } => {
            change(&TenantWish::Remove { name: known(name)?, with_regions: *with_regions })?;
            print::line(&format!("tenant '{name}' is removed; end its programs"));
            Ok(())
        }
    }
}

/// The operator's attachment, whatever tenant the environment names.
fn pool() -> Result<Pool> {
    Ok(Pool::attach_as(&hanare::settings::node_socket(), None, None)?)
}

fn change(wish: &TenantWish) -> Result<()> {
    Ok(pool()?.change_tenant(wish)?)
}

fn known(name: &str) -> Result<String> {
    check_tenant(name)?;
    Ok(name.to_owned())
}

/// True if the pool may have done what was asked, although the answer is an error.
fn may_be_taken(error: &anyhow::Error) -> bool {
    error.downcast_ref::<hanare::Error>().is_some_and(|error| error.happened() != hanare::Happened::No)
}

/// Writes or prints a key that the pool has taken. The file is there, whole, or not at all.
fn give_key(tenant: &Tenant, file: Option<&Path>, wish: &TenantWish) -> Result<()> {
    let Some(file) = file else {
        let done = change(wish);
        if done.as_ref().err().is_none_or(may_be_taken) {
            print::line(tenant.text().trim_end());
        }
        return done.context("the pool may have taken this key, or not: try it, and draw another one if it is refused");
    };
    let mut draft = file.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let named = || format!("cannot write {}", file.display());
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).with_context(named)?;
    let done = written.write_all(tenant.text().as_bytes()).and_then(|()| written.sync_all()).with_context(named);
    let done = done.and_then(|()| change(wish));
    if let Err(error) = done {
        if may_be_taken(&error) {
            return Err(error.context(format!("the pool may have taken the key in {}, or not: try it", draft.display())));
        }
        let _ = std::fs::remove_file(&draft);
        return Err(error);
    }
    if let Err(error) = std::fs::rename(&draft, file) {
        bail!("{}: {error}; the key is in {}", named(), draft.display());
    }
    print::line(&format!(
        "the key of tenant '{}' is in {}; name the file to its programs in HANARE_TENANT",
        tenant.name,
        file.display()
    ));
    Ok(())
}

fn list(as_json: bool) -> Result<()> {
    let tenants = pool()?.tenants()?;
    if as_json {
        return print::json(&json!({ "tenants": tenants.iter().map(value).collect::<Vec<_>>() }));
    }
    if tenants.is_empty() {
        print::line("the pool has no tenants; `hanare tenant create NAME` makes one");
        return Ok(());
    }
    let row = |tenant: &TenantStat| {
        let quota = tenant.quota.map_or_else(|| "-".to_owned(), size::show);
        vec![tenant.name.clone(), size::show(tenant.used), quota, tenant.regions.to_string()]
    };
    print::table(&COLUMNS, tenants.iter().map(row).collect());
    Ok(())
}

fn value(tenant: &TenantStat) -> Value {
    let TenantStat { name, number, quota, used, regions } = tenant;
    json!({ "name": name, "number": number, "quota": quota, "used": used, "regions": regions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_size_or_none() {
        assert_eq!((quota("quota=4K"), quota("quota=none")), (Ok(Quota(Some(4096))), Ok(Quota(None))));
        assert!(quota("quota=").is_err() && quota("4K").is_err() && quota("quota=much").is_err());
    }
}
