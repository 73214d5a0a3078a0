//! Fuzz targets: what scrapers, deputies and timelines say.

use crate::prometheus::request::{Page, Parsed, REQUEST_LEN_MAX, parse};
use crate::run::link::{Frame, Kind, Setup, Work, greeting, read_greeting};
use crate::trace::Timeline;
use hanare_fuzz::{Counting, drive};

#[global_allocator]
static COUNTING: Counting = Counting;

const TOKEN: &str = "0123456789abcdef";

/// A scraper's request as it comes, cut in two: nobody gets metrics without the token, and a cut changes nothing.
fn scrapers(bytes: &[u8]) {
    let Some((at, bytes)) = bytes.split_first() else { return };
    let bytes = &bytes[..bytes.len().min(REQUEST_LEN_MAX)];
    let (cut, whole) = (parse(&bytes[..usize::from(*at).min(bytes.len())], Some(TOKEN)), parse(bytes, Some(TOKEN)));
    assert!(cut == Parsed::Partial || cut == whole, "more bytes change what was read");
    let brings = bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
    assert!(brings || !matches!(whole, Parsed::For(Page::Metrics) | Parsed::NoPage));
    let _ = parse(bytes, None);
}

/// Messages of a launcher and its deputy: a greeting, then frames, each read as either would.
fn frames(bytes: &[u8]) {
    let mut rest = bytes;
    let _ = read_greeting(&mut rest);
    for mut from in [bytes, rest] {
        while let Ok(Some(frame)) = Frame::read(&mut from) {
            let mut written = Vec::new();
            frame.write(&mut written).expect("there is room");
            assert_eq!(Frame::read(&mut written.as_slice()).expect("it was written"), Some(frame.clone()));
            let _ = (frame.end(), frame.value::<Setup>(), frame.value::<Work>(), frame.text());
        }
    }
}

/// A timeline: the times of a thread add up to no more than its life.
fn timelines(bytes: &[u8]) {
    let mut timeline = Timeline::default();
    if timeline.take_all(bytes, |_| {}).is_ok() {
        let value = timeline.report().value();
        for rank in value["ranks"].as_array().expect("a list") {
            assert!(rank["seconds"].as_f64().is_none_or(|seconds| seconds >= 0.0));
        }
    }
}

#[test]
fn what_scrapers_send() {
    let seeds = [
        format!("\u{12}GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nAccept: */*\r\n\r\n").into_bytes(),
        b"\x05GET /healthz HTTP/1.1\r\n\r\n".to_vec(),
        format!("\u{7f}GET /readyz HTTP/1.0\nauthorization:Bearer {TOKEN}\n\nbody").into_bytes(),
    ];
    drive("scrapers", &seeds, 1 << 20, scrapers);
}

#[test]
fn what_deputies_and_launchers_say() {
    let setup = Setup {
        host: "h".to_owned(),
        number: 1,
        memory: 1 << 20,
        join: Some("a:1".to_owned()),
        key: "k".to_owned(),
        folder: "/".to_owned(),
        variables: vec![("A".to_owned(), "b".to_owned())],
    };
    let work = Work { job: 7, ranks: 2, first: 0, count: 1, program: vec!["true".to_owned()] };
    let mut bytes = format!("Welcome\n{}\n", greeting()).into_bytes();
    for frame in [Frame::of(Kind::Setup, 0, &setup), Frame::of(Kind::Work, 0, &work), Frame::new(Kind::Input, 1, vec![7; 100])] {
        frame.write(&mut bytes).expect("there is room");
    }
    // A frame says how long it is before it comes: 8 MiB at most.
    drive("frames", &[bytes], 20 << 20, frames);
}

#[test]
fn what_is_in_timelines() {
    let seed = br#"[{"name":"process_name","ph":"M","pid":1,"args":{"name":"p"}},
        {"name":"put","cat":"command","ph":"X","ts":1.5,"dur":20,"pid":1,"tid":5},
        {"name":"barrier","cat":"wait","ph":"B","ts":3,"pid":1,"tid":5},{"name":"","ph":"E","ts":9,"pid":1,"tid":5},
        {"name":"to node1","cat":"request","ph":"b","ts":1,"pid":1,"id2":{"local":"0x1"}},
        {"name":"to node1","cat":"request","ph":"e","ts":4,"pid":1,"id2":{"local":"0x1"}}]"#;
    drive("timelines", &[seed.to_vec()], 16 << 20, timelines);
}
