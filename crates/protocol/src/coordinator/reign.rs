//! Reigns: decides which batches of a log that several keepers write count, and which are void for all who read it.
//!
//! Keepers agree on the order of the log, and elect one that leads. A leader begins a *reign* by an empty batch, whose number is zero. When
//! it reads that batch in the decided log, it knows all that came before it. A deposed leader's batches may still be decided, late or with
//! gaps, because keepers forward them to the next leader. So a batch counts if it is the next one of the reign of today:
//!
//! | batch | counts |
//! |---|---|
//! | number 0 of a later reign | yes, and that reign is today's |
//! | the next number of today's reign | yes |
//! | of an earlier reign, or another number | no |
//!
//! A batch with another list of keepers ends its edition: reigns of that edition are over for all who read it ([`KeeperList`]).
//!
//! Readers that read the same log judge alike, because nothing else goes into their judgement.
//!
//! **Source**: the rule is that of terms in Raft's log [Ongaro & Ousterhout 2014, §5.3], for a log that forwards appends.

use super::records::Record;
use crate::keeper_list::KeeperList;
use serde::{Deserialize, Serialize};

/// A reign: later ones are greater. No two leaders have the same, and no leader has one twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reign {
    /// The edition of the list of keepers.
    pub edition: u32,
    /// The ballot's rank, by which the leader was elected: its number, then its priority.
    pub term: u64,
    /// The leader.
    pub keeper: u64,
    /// The number of the life of the leader's process. The leader writes it to its disk before it tells it.
    pub life: u64,
    /// Counts the reigns of one life.
    pub turn: u64,
}

/// The records of one pass of a leader's coordinator, as an entry of the common log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The reign in which it was appended.
    pub reign: Reign,
    /// Its number in the reign, from zero.
    pub number: u64,
    /// True if the records mean the same as all before them, and replace them.
    pub is_whole: bool,
    /// The records; none where a pass had none, and in the first batch.
    pub records: Vec<Record>,
}

/// The knowledge of a reader of the decided log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The reign of today, once there was one.
    reign: Reign,
    /// The number of its next batch.
    next: u64,
    /// The edition of today: reigns of earlier ones are over.
    edition: u32,
    records: Vec<Record>,
}

impl Batch {
    /// The list of keepers that ends the batch's edition, if the batch counts.
    pub fn next_keepers(&self) -> Option<&KeeperList> {
        let edition = self.reign.edition.saturating_add(1);
        self.records.iter().rev().find_map(|record| match record {
            Record::Keepers { list, .. } if list.edition == edition && list.is_sound() => Some(list),
            _ => None,
        })
    }
}

impl History {
    /// The records of a coordinator that was alone, before the first edition.
    pub fn of_records(records: Vec<Record>) -> History {
        History { records, ..History::default() }
    }

    /// Takes the next decided batch in. Returns whether it counts.
    pub fn read(&mut self, batch: &Batch) -> bool {
        let begins = batch.reign > self.reign && batch.number == 0;
        let continues = batch.reign == self.reign && batch.number == self.next;
        if batch.reign.edition < self.edition || (!begins && !continues) {
            return false;
        }
        self.edition = batch.next_keepers().map_or(self.edition, |list| list.edition);
        (self.reign, self.next) = (batch.reign, batch.number.saturating_add(1));
        if batch.is_whole {
            self.records.clear();
        }
        self.records.extend_from_slice(&batch.records);
        true
    }

    /// The reign of today. It may be over, because its edition is.
    pub fn reign(&self) -> Reign {
        self.reign
    }

    /// The list of keepers that ended this edition, if one did.
    pub fn next_keepers(&self, edition: u32) -> Option<&KeeperList> {
        let lists = self.records.iter().rev().filter(|_| self.edition > edition);
        lists.filter_map(|record| if let Record::Keepers { list, .. } = record { Some(list) } else { None }).next()
    }

    /// The records of all batches that count, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::keeper_list::ListedKeeper;
    use proptest::prelude::*;

    fn reign(term: u64) -> Reign {
        Reign { edition: 1, term, keeper: 1, life: 1, turn: 0 }
    }

    /// A batch with one record that tells it from all others; the first has none.
    fn batch(term: u64, number: u64) -> Batch {
        let records = if number == 0 { Vec::new() } else { vec![Record::GidsReserved { below: term * 1000 + number }] };
        Batch { reign: reign(term), number, is_whole: false, records }
    }

    fn read(log: &[Batch]) -> (History, Vec<bool>) {
        let mut history = History::default();
        let counts = log.iter().map(|batch| history.read(batch)).collect();
        (history, counts)
    }

    #[test]
    fn what_a_deposed_leader_appended_is_void_behind_the_next_reign_and_behind_a_gap() {
        let log = [batch(1, 0), batch(1, 1), batch(1, 3), batch(1, 4), batch(3, 0), batch(1, 2), batch(2, 0), batch(3, 1)];
        let (history, counts) = read(&log);
        assert_eq!(counts, [true, true, false, false, true, false, false, true]);
        assert_eq!(history.records(), [batch(1, 1), batch(3, 1)].map(|batch| batch.records[0].clone()));
        assert_eq!(history.reign(), reign(3));
    }

    #[test]
    fn a_reign_begins_by_its_first_batch_alone() {
        assert_eq!(read(&[batch(1, 1), batch(1, 0), batch(2, 1), batch(1, 1), batch(1, 1)]).1, [false, true, false, true, false]);
    }

    #[test]
    fn a_whole_batch_replaces_what_was_before_it() {
        let whole = Batch { is_whole: true, ..batch(1, 2) };
        let (history, _) = read(&[batch(1, 0), batch(1, 1), whole.clone(), batch(1, 3)]);
        assert_eq!(history.records(), [whole.records[0].clone(), batch(1, 3).records[0].clone()]);
        let late = Batch { is_whole: true, ..batch(1, 4) };
        let (history, counts) = read(&[batch(1, 0), batch(2, 0), batch(2, 1), late]);
        assert!(!counts[3] && history.records() == batch(2, 1).records, "a void one replaces nothing");
    }

    #[test]
    fn a_list_of_keepers_ends_its_edition_for_all_that_comes_behind_it_there() {
        let seat = |disk: u64| ListedKeeper { address: format!("k{disk}"), disk: Some(disk.into()) };
        let list = |edition| KeeperList { edition, seats: (1..4).map(|number| (number, seat(number))).collect() };
        let change = |edition| vec![Record::Keepers { list: list(edition), by: None }];
        let ends = Batch { records: change(2), ..batch(2, 1) };
        let in_next = |number| Batch { reign: Reign { edition: 2, ..reign(1) }, ..batch(1, number) };
        // Batches behind it are void, of its own leader and of a later one.
        let log = [batch(2, 0), ends.clone(), batch(2, 2), batch(3, 0), batch(3, 1), in_next(0), in_next(1), batch(4, 0)];
        assert_eq!(read(&log).1, [true, true, false, false, false, true, true, false]);
        // A void change ends nothing, nor does one that skips an edition.
        let log = [batch(3, 0), ends, batch(3, 1), Batch { records: change(3), ..batch(3, 2) }, batch(3, 3)];
        assert_eq!(read(&log).1, [true, false, true, true, true]);
    }

    /// Three leaders, one after another; each appends up to `COUNT` batches. The log has any of them in any order.
    const COUNT: u64 = 3;

    /// Every log of up to five batches.
    fn each_log(mut check: impl FnMut(&[Batch])) {
        let all: Vec<Batch> = (1..=3).flat_map(|term| (0..COUNT).map(move |number| batch(term, number))).collect();
        let mut logs: Vec<Vec<usize>> = vec![Vec::new()];
        while let Some(log) = logs.pop() {
            check(&log.iter().map(|at| all[*at].clone()).collect::<Vec<_>>());
            if log.len() < 5 {
                logs.extend((0..all.len()).filter(|at| !log.contains(at)).map(|at| [&log[..], &[at]].concat()));
            }
        }
    }

    #[test]
    fn a_leader_knows_when_its_reign_begins_all_that_an_earlier_one_could_take_for_committed() {
        each_log(|log| {
            let counts = read(log).1;
            let valid: Vec<&Batch> = log.iter().zip(&counts).filter(|(_, counts)| **counts).map(|(batch, _)| batch).collect();
            // Reigns do not mix, and each has a first part of its batches, in order.
            assert!(valid.is_sorted_by_key(|batch| (batch.reign, batch.number)), "{log:?}");
            for batch in &valid {
                let before = |other: &&&Batch| other.reign == batch.reign && other.number < batch.number;
                assert_eq!(valid.iter().filter(before).count() as u64, batch.number, "{log:?}");
            }
            // A longer log changes no earlier judgement.
            for len in 0..log.len() {
                assert_eq!(read(&log[..len]).1, counts[..len]);
            }
        });
    }

    proptest! {
        #[test]
        fn a_history_that_was_stored_goes_on_as_the_whole_log_does(
            entries in proptest::collection::vec((1u64..4, 0u64..5, any::<bool>()), 0..40),
            cut in 0usize..40,
        ) {
            let log: Vec<Batch> =
                entries.into_iter().map(|(term, number, is_whole)| Batch { is_whole, ..batch(term, number) }).collect();
            let cut = cut.min(log.len());
            let mut stored: History = crate::wire::control::decode(&crate::wire::control::encode(&read(&log[..cut]).0)).unwrap();
            log[cut..].iter().for_each(|batch| { stored.read(batch); });
            prop_assert_eq!(stored, read(&log).0);
        }
    }
}
