//! The hosts of a launch, as the user writes them, and which ranks each gets.
//!
//! ```text
//! alpha              # one slot
//! beta slots=4       # as Open MPI writes it
//! gamma:4            # as MPICH does
//! [fd00::7]:2        # an address with colons stands in brackets where a number follows
//! ```

use anyhow::{Context, Result, bail, ensure};
use hanare_protocol::limits::{NODE_COUNT_MAX, RANK_COUNT_MAX};
use std::ops::Range;
use std::path::Path;

/// A host of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name for ssh: a host's name or address, with a user before it or not.
    pub name: String,
    /// Number of ranks that it takes.
    pub slots: u32,
}

/// The hosts, each once, in the order of their first mention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// True if slots were given, by a number or by naming a host twice: then they bound the ranks.
    is_counted: bool,
}

impl List {
    /// Reads `a,b:2,c`.
    pub fn from_words(text: &str) -> Result<List> {
        let mut list = List::default();
        for word in text.split(',').map(str::trim) {
            ensure!(!word.is_empty(), "--hosts cannot be '{text}': a name is missing; write them as a,b,c");
            list.add(word, None).with_context(|| format!("--hosts cannot be '{text}'"))?;
        }
        list.checked("--hosts")
    }

    /// Reads a file of one host a line.
    pub fn from_file(path: &Path) -> Result<List> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the host file {}", path.display()))?;
        let mut list = List::default();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(name) = words.next() else { continue };
            let at = || format!("{}, line {}", path.display(), number + 1);
            let mut slots = None;
            for word in words {
                match word.split_once('=') {
                    Some(("slots", count)) => slots = Some(parse_slots(count).with_context(at)?),
                    // Open MPI's bound for more ranks than slots, which we never start.
                    Some(("max_slots" | "max-slots", _)) => {}
                    _ => bail!("{}: '{word}' is not understood; write a host, and slots=N after it", at()),
                }
            }
            list.add(name, slots).with_context(at)?;
        }
        list.checked(&path.display().to_string())
    }

    /// Number of ranks unless the user says otherwise.
    pub fn slots(&self) -> u32 {
        self.hosts.iter().map(|host| host.slots).sum()
    }

    /// The ranks of each host, in blocks: as many as it has slots, or evenly where none were given.
    pub fn blocks(&self, ranks: u32) -> Result<Vec<Range<u32>>> {
        let count = self.hosts.len() as u32;
        ensure!(
            !self.is_counted || ranks <= self.slots(),
            "{ranks} ranks do not fit into the {} slots of the hosts; give the hosts more, or start fewer ranks with -n",
            self.slots()
        );
        let mut next = 0;
        let block = |(index, host): (usize, &Host)| {
            let wanted = if self.is_counted { host.slots } else { ranks / count + u32::from((index as u32) < ranks % count) };
            let first = next;
            next = (first + wanted).min(ranks);
            first..next
        };
        Ok(self.hosts.iter().enumerate().map(block).collect())
    }

    /// Adds a host once more.
    fn add(&mut self, word: &str, slots: Option<u32>) -> Result<()> {
        let (name, number) = split(word)?;
        let given = match (number, slots) {
            (Some(_), Some(_)) => bail!("'{word}' has its slots twice"),
            (number, slots) => number.or(slots),
        };
        // ssh would take it for an option, or for several words.
        let is_name = !name.is_empty() && !name.starts_with('-') && name.chars().all(|c| c.is_ascii_graphic());
        ensure!(is_name, "'{name}' is no host's name");
        self.is_counted |= given.is_some();
        let slots = given.unwrap_or(1);
        match self.hosts.iter_mut().find(|host| host.name == name) {
            Some(host) => {
                self.is_counted = true;
                host.slots = host.slots.saturating_add(slots);
            }
            None => self.hosts.push(Host { name: name.to_owned(), slots }),
        }
        Ok(())
    }

    fn checked(self, place: &str) -> Result<List> {
        ensure!(!self.hosts.is_empty(), "{place} names no host");
        ensure!(
            self.hosts.len() <= NODE_COUNT_MAX,
            "{place} names {} hosts; a pool has at most {NODE_COUNT_MAX}",
            self.hosts.len()
        );
        let slots: u64 = self.hosts.iter().map(|host| u64::from(host.slots)).sum();
        ensure!(slots <= u64::from(RANK_COUNT_MAX), "{place} has {slots} slots; a job has at most {RANK_COUNT_MAX} ranks");
        Ok(self)
    }
}

/// A host's name, and the number after its colon.
fn split(word: &str) -> Result<(&str, Option<u32>)> {
    if let Some((address, rest)) = word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(count) => Ok((address, Some(parse_slots(count)?))),
            None if rest.is_empty() => Ok((address, None)),
            None => bail!("'{word}' is no host's name"),
        };
    }
    match word.split_once(':') {
        // More than one colon: an address of version 6.
        Some((name, count)) if !count.contains(':') => Ok((name, Some(parse_slots(count)?))),
        _ => Ok((word, None)),
    }
}

fn parse_slots(text: &str) -> Result<u32> {
    let number = text.parse().ok().filter(|number| (1..=RANK_COUNT_MAX).contains(number));
    number.with_context(|| format!("'{text}' is no number of slots; it must be 1 to {RANK_COUNT_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn slots(list: &List) -> Vec<(&str, u32)> {
        list.hosts.iter().map(|host| (host.name.as_str(), host.slots)).collect()
    }

    fn file(text: &str) -> Result<List> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        List::from_file(file.path())
    }

    #[test]
    fn words_are_names_with_or_without_slots() {
        assert_eq!(slots(&List::from_words("a,me@b:2, c").unwrap()), [("a", 1), ("me@b", 2), ("c", 1)]);
        assert_eq!(
            slots(&List::from_words("fd00::7,[fd00::8]:3,[fd00::9]").unwrap()),
            [("fd00::7", 1), ("fd00::8", 3), ("fd00::9", 1)]
        );
        assert_eq!(slots(&List::from_words("a,b,a").unwrap()), [("a", 2), ("b", 1)]);
    }

    #[test]
    fn a_file_is_read_as_open_mpi_and_mpich_write_it() {
        let list = file("# our rack\nalpha\n  beta slots=4 max_slots=8 # big\r\n\ngamma:2\n").unwrap();
        assert_eq!(slots(&list), [("alpha", 1), ("beta", 4), ("gamma", 2)]);
    }

    #[test]
    fn what_is_no_list_is_refused_by_name() {
        for (text, told) in [
            ("a,,b", "a name is missing"),
            ("", "a name is missing"),
            ("a:0", "'0'"),
            ("a:many", "'many'"),
            ("-oProxyCommand=x", "no host's name"),
            ("[a]b", "no host's name"),
            ("a b", "no host's name"),
            ("a:65536,b", "65537 slots"),
        ] {
            let error = format!("{:#}", List::from_words(text).unwrap_err());
            assert!(error.contains(told) && error.contains("--hosts"), "{text}: {error}");
        }
        for (text, told) in
            [("a\nb slot=2\n", "line 2"), ("a:2 slots=3\n", "twice"), ("# nobody\n", "no host"), ("a slots=x", "'x'")]
        {
            let error = format!("{:#}", file(text).unwrap_err());
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(format!("{:#}", List::from_file(Path::new("/no/such")).unwrap_err()).contains("/no/such"));
    }

    #[test]
    fn ranks_come_in_blocks() {
        let blocks = |text: &str, ranks| List::from_words(text).unwrap().blocks(ranks);
        assert_eq!(blocks("a,b", 5).unwrap(), [0..3, 3..5]);
        assert_eq!(blocks("a,b,c", 2).unwrap(), [0..1, 1..2, 2..2]);
        assert_eq!(blocks("a:4,b:1", 5).unwrap(), [0..4, 4..5]);
        assert_eq!(blocks("a:4,b:4", 5).unwrap(), [0..4, 4..5]);
        assert_eq!(blocks("a:4,b:4", 2).unwrap(), [0..2, 2..2]);
        assert!(blocks("a:1,b:1", 3).unwrap_err().to_string().contains("2 slots"));
    }
}
