//! The shapes of messages and records. A version of the wire that was released stays as it is: the next one only adds variants at the end of enums.
//! So builds of two releases read each other's messages.
//!
//! `tests/wire/VERSION.txt` has the shapes of a version, one type a line. After a message was added: raise `NEWEST` in `versions.rs`, once a
//! release, and write the file by `HANARE_TEST_WRITE=1 cargo test -p hanare-protocol --test wire_shapes`.

use hanare_protocol::coordinator::{Effect, Ended, Record};
use hanare_protocol::entry::{Condition, Stores};
use hanare_protocol::error::{Error, Happened};
use hanare_protocol::heap::{HeapAnswer, HeapRefusal, HeapWish};
use hanare_protocol::id::Rights;
use hanare_protocol::lock::{Mode, Recalled};
use hanare_protocol::page::Consistency;
use hanare_protocol::page::message::{Access, Refusal, ToHome, ToHost};
use hanare_protocol::placement::Placement;
use hanare_protocol::versions::{NEWEST, OLDEST};
use hanare_protocol::wire::backing::{Backing, BackingKind, BackingPages};
use hanare_protocol::wire::control::{
    Answer, CommandOrigin, DrainWish, Existing, FromNode, KeeperChange, Made, Order, ReportedExtent, Request, ToNode, Which,
};
use hanare_protocol::wire::copies::{FromCopy, FromHolder, ToHolder};
use hanare_protocol::wire::exchange::Question;
use hanare_protocol::wire::face::FaceCounts;
use hanare_protocol::wire::greeting::Sealing;
use hanare_protocol::wire::look::{Look, Seen};
use hanare_protocol::wire::queue::{QueueChange, QueueRequest};
use hanare_protocol::wire::rebalance::{RebalanceWish, WhyStays};
use hanare_protocol::wire::sync::{Party, SyncAddress, SyncAnswer, SyncRequest, Wait, Word};
use hanare_protocol::wire::tenant::TenantWish;
use serde_reflection::{ContainerFormat, Registry, Samples, Tracer, TracerConfig};
use std::path::PathBuf;

/// Traces the enums, and all that is in them.
macro_rules! trace {
    ($($of:ty),* $(,)?) => {{
        let (mut tracer, samples) = (Tracer::new(TracerConfig::default()), Samples::new());
        $(tracer.trace_type::<$of>(&samples).unwrap_or_else(|error| panic!("{}: {error}", stringify!($of)));)*
        tracer.registry().unwrap_or_else(|error| panic!("one more enum belongs into the list: {error}"))
    }};
}

/// By what is sent or written: types of one name may differ between them.
#[rustfmt::skip]
fn today() -> Registry {
    let parts = [
        ("program", trace![Answer, Consistency, DrainWish, Error, Existing, Happened, KeeperChange, Made, Placement, RebalanceWish, Request,
            Rights, Sealing, TenantWish, Which, WhyStays]),
        ("node", trace![Consistency, DrainWish, Error, Existing, FromHolder, FromNode, Happened, KeeperChange, Made, Placement,
            RebalanceWish, Recalled, Request, Rights, TenantWish, Which, Result<Vec<ReportedExtent>, Error>]),
        ("coordinator", trace![Answer, Error, Happened, Made, Order, Placement, Recalled, Rights, Sealing, ToHolder, ToNode, WhyStays,
            Result<Answer, Error>]),
        ("copy", trace![FromCopy, QueueChange, QueueRequest]),
        ("data link", trace![Backing, BackingKind, BackingPages, CommandOrigin, Condition, Consistency, Error, FaceCounts, Happened, HeapWish, Look,
            Mode, Party, Question, QueueRequest, Seen, Stores, SyncAddress, SyncAnswer, HeapAnswer, HeapRefusal, SyncRequest, Wait,
            Word]),
        ("page", trace![Access, Refusal, ToHome, ToHost]),
        ("journal", trace![Effect, Ended, Made, Placement, Record]),
    ];
    let named = parts
        .into_iter()
        .flat_map(|(part, types)| types.into_iter().map(move |(name, format)| (format!("{part}/{name}"), format)));
    named.collect()
}

fn file(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wire").join(format!("{version}.txt"))
}

fn text(registry: &Registry) -> String {
    registry.iter().map(|(name, format)| format!("{name} {}\n", serde_json::to_string(format).unwrap())).collect()
}

fn read(version: u32) -> Registry {
    let path = file(version);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = |line: &str| {
        // Names of parts have spaces, too.
        let (name, format) = line.split_at(line.find(['{', '"']).expect("a name and a shape"));
        let name = name.trim_end();
        (name.to_owned(), serde_json::from_str(format).expect("a shape"))
    };
    text.lines().map(line).collect()
}

/// Says what a build of the earlier version would misread.
fn changed(earlier: &Registry, later: &Registry) -> Vec<String> {
    let changed = earlier.iter().filter(|(name, format)| match (format, later.get(*name)) {
        (ContainerFormat::Enum(before), Some(ContainerFormat::Enum(now))) => {
            before.iter().any(|(number, variant)| now.get(number) != Some(variant))
        }
        (before, now) => now != Some(before),
    });
    changed.map(|(name, _)| name.clone()).collect()
}

#[test]
fn the_newest_version_is_written_down() {
    let today = text(&today());
    if std::env::var_os("HANARE_TEST_WRITE").is_some() {
        std::fs::write(file(NEWEST), &today).unwrap();
    }
    assert!(
        std::fs::read_to_string(file(NEWEST)).unwrap_or_default() == today,
        "messages have changed: see the begin of this file"
    );
}

#[test]
fn each_version_only_adds_to_the_one_before() {
    for version in OLDEST..NEWEST {
        assert_eq!(changed(&read(version), &read(version + 1)), [""; 0], "what version {version} would misread");
    }
}

#[test]
fn a_change_that_an_older_build_would_misread_is_found() {
    #[derive(serde::Deserialize)]
    #[allow(dead_code, reason = "its shape alone matters")]
    enum Said {
        One(u32),
        Other { what: String },
    }
    mod later {
        macro_rules! said {
            ($($name:ident: $($variant:ident $content:tt),*;)*) => {
                $(pub mod $name {
                    #[derive(serde::Deserialize)]
                    #[allow(dead_code, reason = "its shape alone matters")]
                    pub enum Said { $($variant $content),* }
                })*
            };
        }
        said! {
            more: One(u32), Other { what: String }, More(u8);
            before: More(u8), One(u32), Other { what: String };
            longer: One(u32), Other { what: String, how: u8 };
            wider: One(u64), Other { what: String };
            fewer: One(u32);
        }
    }
    let earlier = trace![Said];
    assert_eq!(changed(&earlier, &trace![later::more::Said]), [""; 0]);
    for later in
        [trace![later::before::Said], trace![later::longer::Said], trace![later::wider::Said], trace![later::fewer::Said]]
    {
        assert_eq!(changed(&earlier, &later), ["Said"]);
    }
}
