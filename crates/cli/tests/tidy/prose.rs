//! Comments name their subject first and keep to short sentences: a number for each crate of those that do not, which only falls.

use super::sources::product;
use std::collections::BTreeMap;

/// First words that hide a sentence's subject.
const HIDDEN: &[&str] = &[
    "What", "Whether", "Who", "Whose", "Whom", "Those", "It", "They", "That", "This", "One", "Of", "By", "With", "How", "Where",
    "None", "So", "As", "Which", "Such", "Nobody", "Nothing",
];
/// Most words of a sentence, which ends at a colon or semicolon, too.
const SENTENCE_WORDS_MAX: usize = 20;
/// Numbers may be lower than known by as many before the list has to say so.
const SLACK: usize = 10;

/// Paragraphs that begin with a hidden subject, and sentences that are too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    hidden: usize,
    long: usize,
}

/// The text of a comment's line; `None` for code, tables, headings, marks and links' targets.
fn comment(line: &str) -> Option<(&str, &str)> {
    let code = line.trim_start();
    let mark = ["//!", "///", "//"].into_iter().find(|mark| code.starts_with(mark))?;
    let text = &code[mark.len()..];
    Some((&line[..line.len() - text.len()], text.strip_prefix(' ').unwrap_or(text).trim_end()))
}

fn is_prose(text: &str) -> bool {
    let skipped = ["|", "SAFETY", "ORDERING", "SOURCE", "FEATURE", "#", "<"];
    let is_target = text.starts_with('[') && text.contains("]:");
    !text.is_empty()
        && !skipped.iter().any(|begin| text.trim_start().starts_with(begin))
        && !is_target
        && !text.starts_with("    ")
}

/// Begins of an item of a list: `- `, `* ` or `1. `.
fn item_len(text: &str) -> usize {
    let text_begin = text.len() - text.trim_start().len();
    let rest = &text[text_begin..];
    let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let mark = if rest.starts_with(['-', '*']) {
        1
    } else if digits > 0 && rest[digits..].starts_with('.') {
        digits + 1
    } else {
        0
    };
    if mark > 0 && rest[mark..].starts_with(' ') { text_begin + mark + 1 } else { 0 }
}

/// The paragraphs of a file's comments, each on one line.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let (mut before, mut is_code) = (None, false);
    for line in text.lines() {
        let Some((mark, text)) = comment(line) else {
            (before, is_code) = (None, false);
            continue;
        };
        if text.trim_start().starts_with("```") {
            (before, is_code) = (None, !is_code);
            continue;
        }
        if is_code || !is_prose(text) || text.contains("──") {
            before = None;
            continue;
        }
        let item = item_len(text);
        match paragraphs.last_mut() {
            Some(last) if before == Some(mark) && item == 0 => last.extend([" ", text.trim()]),
            _ => paragraphs.push(text[item..].trim().to_owned()),
        }
        before = Some(mark);
    }
    paragraphs
}

/// The text with code and links as one word each.
fn plain(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['`', '[']) {
        plain.push_str(&rest[..at]);
        let close = if rest[at..].starts_with('`') { '`' } else { ']' };
        let Some(end) = rest[at + 1..].find(close) else { break };
        plain.push('X');
        rest = &rest[at + 1 + end + 1..];
        if close == ']' && rest.starts_with('(') {
            rest = rest.split_once(')').map_or("", |(_, rest)| rest);
        }
    }
    plain + rest
}

fn count(text: &str) -> Counts {
    let mut counts = Counts::default();
    for paragraph in paragraphs(text) {
        let plain = plain(&paragraph);
        let first: String = plain.chars().take_while(|letter| letter.is_alphanumeric()).collect();
        counts.hidden += usize::from(HIDDEN.contains(&first.as_str()));
        let mut words = 0;
        for word in plain.split_whitespace() {
            words += 1;
            if word.ends_with(['.', '!', '?', ':', ';']) {
                counts.long += usize::from(words > SENTENCE_WORDS_MAX);
                words = 0;
            }
        }
        counts.long += usize::from(words > SENTENCE_WORDS_MAX);
    }
    counts
}

#[test]
fn comments_name_their_subject_and_are_short() {
    let mut found: BTreeMap<String, Counts> = BTreeMap::new();
    for source in product() {
        let (counts, sum) = (count(&source.text), found.entry(source.package).or_default());
        *sum = Counts { hidden: sum.hidden + counts.hidden, long: sum.long + counts.long };
    }
    let known = include_str!("known/prose.txt").lines().filter(|line| !line.starts_with('#')).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |k: usize| words[k].parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        (words[0].to_owned(), Counts { hidden: number(1), long: number(2) })
    });
    let known: BTreeMap<String, Counts> = known.collect();
    let is_kept = |crate_name: &String, found: &Counts| {
        let known = known.get(crate_name).copied().unwrap_or_default();
        let is_in = |found: usize, known: usize| found <= known && known <= found + SLACK;
        is_in(found.hidden, known.hidden) && is_in(found.long, known.long)
    };
    let broken: Vec<_> = found.iter().filter(|(name, counts)| !is_kept(name, counts)).map(|(name, _)| name).collect();
    let list: String = found.iter().map(|(name, counts)| format!("{name} {} {}\n", counts.hidden, counts.long)).collect();
    assert!(
        broken.is_empty(),
        "comments begin with their subject, sentences have at most {SENTENCE_WORDS_MAX} words: mend those of {broken:?}, or, where \
         numbers fell, write them into crates/cli/tests/tidy/known/prose.txt, which is now:\n{list}"
    );
}

#[test]
fn a_hidden_subject_and_a_long_sentence_are_counted() {
    let long = "word ".repeat(21);
    let text = format!(
        "/// Whether it is so.\n/// And more.\n///\n/// The `What` is named. [`How`](How it is) too.\n// - Who asks.\n//! | What |\n\
         /// ```\n/// What\n/// ```\n// {long}\nlet what = \"// Who\";\n    // One.\n"
    );
    assert_eq!(count(&text), Counts { hidden: 3, long: 1 });
    assert_eq!(count("/// Names: the first.\n/// 1. Where it is.\n"), Counts { hidden: 1, long: 0 });
}
