//! Users of this host, as a command line names them.

use hanare::Trust;
use hanare_protocol::tenant;
use hanare_protocol::wire::control::RegionStat;
use std::process::Command;

/// The number of a user that is named, or numbered. Names are looked up as the host does it, by `getent`.
pub fn parse(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    if text.is_empty() || text.starts_with('-') {
        return Err("a user is a name or a number".to_owned());
    }
    let found = Command::new("getent").args(["passwd", text]).output();
    let line = match found {
        Ok(found) => String::from_utf8_lossy(&found.stdout).into_owned(),
        Err(error) => return Err(format!("cannot run getent ({error}): give the user's number")),
    };
    number(text, &line).ok_or_else(|| format!("this host has no user '{text}'"))
}

/// A region's owner, as listings show it: a tenant by its name, which those are told who see regions of others.
pub fn owner(region: &RegionStat) -> String {
    match tenant::parts(&region.name).filter(|_| tenant::is_tenant(region.owner)) {
        Some((tenant, _)) => tenant.to_owned(),
        None => region.owner.to_string(),
    }
}

/// Somebody whose regions are used as one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// One user.
    User(u32),
    /// Whoever made them.
    Anyone,
}

/// A user as [`parse`] takes it, or `anyone`.
pub fn parse_trusted(text: &str) -> Result<Trusted, String> {
    if text == "anyone" { Ok(Trusted::Anyone) } else { parse(text).map(Trusted::User) }
}

/// In these users, too.
pub fn trust(own: Trust, users: &[Trusted]) -> Trust {
    users.iter().fold(own, |trust, user| match user {
        Trusted::User(uid) => trust.and_user(*uid),
        Trusted::Anyone => trust.and_anyone(),
    })
}

/// The number in a line of the list of users.
fn number(name: &str, line: &str) -> Option<u32> {
    let mut words = line.lines().next()?.split(':');
    (words.next() == Some(name)).then_some(())?;
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_number_or_a_name_of_the_list() {
        assert_eq!((parse("0"), parse("20002")), (Ok(0), Ok(20002)));
        assert_eq!(number("ann", "ann:x:1000:1000::/home/ann:/bin/sh\n"), Some(1000));
        assert_eq!((number("ann", "bob:x:1:1::/:\n"), number("ann", ""), number("ann", "ann:x\n")), (None, None, None));
        assert!(parse("").is_err() && parse("--help").is_err());
        assert_eq!((parse_trusted("anyone"), parse_trusted("7")), (Ok(Trusted::Anyone), Ok(Trusted::User(7))));
        assert!(parse_trusted("-1").is_err());
    }
}
