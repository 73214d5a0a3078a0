//! Shared regions at one node, without another: frames of other nodes are written here.

use super::vectors::PageVectors;
use super::*;
use crate::memory::{Need, Recall};
use hanare_protocol::id::{Grant, Incarnation, Slot};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Consistency};
use hanare_protocol::placement::{Extent, Layout, Span};
use hanare_protocol::wire::page::{Frame, Join, NodeMessage, encode_frame};

const GID: Gid = Gid(1);
const ME: NodeId = NodeId(0);
const OTHER: NodeId = NodeId(1);
const NOW: Duration = Duration::from_secs(1);
/// The connection of the other node.
const PLACE: u64 = 5;

/// The other node's host will map the region, and calls itself so.
fn join(key: u64) -> NodeMessage {
    let extents = vec![Extent { node: ME, slot: Slot(0), len: PAGE_LEN }];
    NodeMessage::Join(Join {
        gid: GID,
        name: "a".to_owned(),
        layout: Layout { spans: vec![Span { len: PAGE_LEN, chunk: PAGE_LEN, extents }] },
        grants: vec![Grant::default()],
        consistency: Consistency::Coherent,
        node: OTHER,
        epoch: Epoch(1),
        readers: None,
        address: "there".to_owned(),
        key,
    })
}

/// A node that has joined its pool, and that the other node has a connection to.
fn pages() -> Pages<PageVectors> {
    let mut pages = Pages::new(PageTerms { answer: Duration::from_secs(10), ..PageTerms::default() }, PageVectors::default());
    pages.handle(NOW, PageInput::Identity { node: ME, epoch: Epoch(1) });
    let hail = encode_frame(&Frame::Hail { node: OTHER, life: Incarnation(7), channel: 1 }, None);
    pages.handle(NOW, PageInput::Frames { place: PLACE, frames: &[hail] });
    pages
}

fn hear(pages: &mut Pages<PageVectors>, first: u64, messages: impl IntoIterator<Item = NodeMessage>) {
    let numbered = (first..).zip(messages);
    let frames: Vec<Vec<u8>> = numbered.map(|(number, message)| encode_frame(&Frame::Message(number, message), None)).collect();
    pages.handle(NOW, PageInput::Frames { place: PLACE, frames: &frames });
}

fn recall(pages: &mut Pages<PageVectors>, link: u64) -> Recall {
    let need = Need { gid: GID, slot: Slot(0), access: Access::Write, pages: vec![0] };
    pages.recall(NOW, Asker::Link(link), need).unwrap()
}

/// A put waits for another that holds its page. The only host that maps the region leaves and comes again, or comes as one that has begun
/// anew.
#[test]
fn a_command_that_waits_for_another_is_told_though_the_directory_begins_anew() {
    for leaves in [true, false] {
        let mut pages = pages();
        hear(&mut pages, 1, [join(77)]);
        let share = *pages.shares.keys().next().unwrap();
        let Recall::Ready(first) = recall(&mut pages, 1) else { panic!("nobody else has the page") };
        let Recall::Waits(second) = recall(&mut pages, 2) else { panic!("the first holds the page") };
        let leave = leaves.then_some(NodeMessage::Leave { share });
        hear(&mut pages, 2, leave.into_iter().chain([join(78)]));
        pages.handle(NOW, PageInput::Release(first));
        let is_told = |output| matches!(output, PageOutput::Recalled { face, outcome: Ok(()), .. } if face == second);
        assert!(std::iter::from_fn(|| pages.poll()).any(is_told), "leaves: {leaves}");
        pages.handle(NOW, PageInput::Release(second));
        pages.handle(NOW + LOOK_PAUSE, PageInput::Tick);
        assert_eq!(pages.shares.len(), 1, "the host is let in");
        assert!(!pages.shares.contains_key(&share));
    }
}
