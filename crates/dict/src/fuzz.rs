//! A fuzz target: words and buckets in memory that others write.

use crate::Fault;
use crate::bucket::{self, At, Entries, Entry, GRANULE, HEAD_LEN, Value, Word, Writing};
use crate::digest;
use crate::mark::Mark;
use crate::plan::{Looked, Plan};
use crate::root::{Root, Terms};
use crate::times::Times;
use hanare_fuzz::{Counting, drive};

const NUMBER: u64 = 7;
const KEY: &[u8] = b"skey";

/// Input: a word, a flag that makes the bucket's head fit it, and the bucket. All of it is also tried as a root's attribute.
fn dictionary(bytes: &[u8]) {
    if let Ok(terms) = Terms::read("fuzz", Some(bytes)) {
        assert_eq!(Terms::read("fuzz", Some(&terms.write())), Ok(terms));
    }
    let Some((code, [fits, raw @ ..])) = bytes.split_first_chunk::<8>() else { return };
    let word = Word(u64::from_le_bytes(*code));
    assert_eq!(Root::of_word(word.0).word(), word.0);
    assert!(word.is_none() == (word.at().place == 0) && word.at().segment < 64 && word.next_tag() < 1 << 15);
    assert_eq!(At::of_far(word.at().far()), word.at());
    assert!(word.block_len().is_none_or(|len| len.is_multiple_of(GRANULE)));
    let mut raw = raw.to_vec();
    if fits % 2 == 1 && raw.len() >= HEAD_LEN {
        let len = raw.len() as u32;
        raw[4..8].copy_from_slice(&len.to_le_bytes());
        raw[12..14].copy_from_slice(&word.tag().to_le_bytes());
        raw[16..24].copy_from_slice(&NUMBER.to_le_bytes());
        let sum = digest::checksum(&raw[4..]);
        raw[..4].copy_from_slice(&sum.to_le_bytes());
    }
    let Ok(len) = bucket::whole_len(&raw, NUMBER, word) else { return };
    if len > raw.len() || bucket::check(&raw[..len]).is_err() {
        return;
    }
    raw.truncate(len);
    let looked = Looked { word, mark: Mark::default(), raw };
    let entries: Vec<_> = Entries::of(&looked.raw).collect();
    assert!(entries.len() <= looked.raw.len() / HEAD_LEN, "an entry has bytes of its own");
    let inside: usize = entries.iter().flatten().map(|entry| entry.key.len() + entry.value.bytes.len()).sum();
    assert!(inside <= looked.raw.len());
    let fresh = Value { kind: 0, bytes: b"fresh", len: 5, far: 0, checksum: 0, times: Times::default() };
    for fresh in [Some(fresh), None] {
        rewritten(&looked, &entries, fresh);
    }
}

/// The bucket written anew, with the key set or without it.
fn rewritten(looked: &Looked, entries: &[Result<Entry<'_>, Fault>], fresh: Option<Value<'_>>) {
    let plan = match Plan::of_key(NUMBER, looked, KEY, fresh) {
        Ok(Some(plan)) => plan,
        Ok(None) => return assert!(fresh.is_none()),
        Err(fault) => {
            let is_broken = entries.iter().any(Result::is_err);
            return assert!(if looked.word.is_frozen() { fault == Fault::Frozen } else { is_broken });
        }
    };
    let (count, tag) = (plan.writing.count, looked.word.next_tag());
    let Some(made) = plan.writing.finish(NUMBER, tag) else { return };
    assert_eq!(bucket::check(&made), Ok(()));
    let kept = entries.iter().flatten().filter(|entry| entry.key != KEY).copied();
    let wanted: Vec<Entry<'_>> = kept.chain(fresh.map(|value| Entry { key: KEY, value })).collect();
    let found: Vec<Entry<'_>> = Entries::of(&made).flatten().collect();
    assert_eq!((found, count as usize), (wanted.clone(), wanted.len()));
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A bucket is copied when it is written anew.
const MOST: usize = 1 << 20;

#[test]
fn buckets_and_words_of_any_bytes() {
    let at = At { segment: 1, place: 9 };
    let seed = |keys: &[&[u8]], far: u64, fits: u8| {
        let mut writing = Writing::new();
        for key in keys {
            let bytes: &[u8] = if far == 0 { b"value" } else { b"" };
            let times = Times { expires: 0, pinned: u64::from(key.len() == 3) };
            writing.push(&Entry { key, value: Value { kind: 1, bytes, len: 5, far, checksum: 3, times } });
        }
        let raw = writing.finish(NUMBER, 3).unwrap();
        let word = Word::to(3, at, raw.len() as u64).unwrap();
        [&word.0.to_le_bytes()[..], &[fits], &raw].concat()
    };
    let keys: [&[u8]; 3] = [b"sone", KEY, b"i3"];
    let terms = b"buckets=1,memory=4096,seed=7,place=node=1".to_vec();
    let seeds = [seed(&keys, 0, 0), seed(&keys, 0, 1), seed(&keys, 1 << 32 | 4, 1), seed(&[], 0, 1), terms];
    drive("dictionary", &seeds, MOST, dictionary);
}
