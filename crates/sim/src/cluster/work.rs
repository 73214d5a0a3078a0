//! Clients' work: create, attach, open, stat, list, resize, remove and use regions, at random.

use crate::check::{Check, check};
use crate::cluster::lender::LENT;
use crate::cluster::process::{Opener, name};
use crate::cluster::{Cluster, Defect, Event, QUOTA, Terms};
use crate::dice::Dice;
use hanare_protocol::attributes::Attributes;
use hanare_protocol::coordinator::AskKey;
use hanare_protocol::id::{NodeId, Rights, User};
use hanare_protocol::limits::ANSWER_MS;
use hanare_protocol::placement::Placement;
use hanare_protocol::wire::control::{Answer, Changes, DrainWish, Existing, Made, RegionView, Request, Which};
use hanare_protocol::wire::rebalance::RebalanceWish;
use hanare_protocol::{Error, Result};
use std::collections::BTreeSet;

/// Names that clients fight for.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Time after its bound that a reply may come: a tick.
const SLACK_MS: u64 = 1;

fn request(dice: &mut Dice, nodes: u64, copies: &[u8], (drains, rebalances): (bool, bool)) -> Request {
    let name = dice.pick(&NAMES).to_owned();
    let len = match dice.below(10) {
        0 => dice.between(0, 2 * LENT),
        1..=3 => dice.between(1, LENT / 2),
        _ => dice.between(1, 64 << 10),
    };
    let placement = match dice.below(4) {
        0 => Placement::Local,
        1 => Placement::Node(NodeId(dice.below(nodes + 1) as u32)),
        _ => Placement::Interleave(4096),
    };
    match dice.below(100) {
        0..=29 => {
            let mode = dice.pick(&[0o600, 0o644, 0o666, 0o640, 0o000]);
            // Equal lengths, so that attaching succeeds at times.
            let existing = dice.pick(&[Existing::Refuse, Existing::Refuse, Existing::Attach, Existing::AttachOrRenew]);
            let len = if existing == Existing::Refuse { len } else { 8 << 10 };
            let attributes = Attributes::from_iter([("len", len.to_string())]);
            Request::Create { name, len, placement, copies: dice.pick(copies), mode, attributes, existing }
        }
        30..=59 => {
            Request::Open { which: Which::Name(name), rights: dice.pick(&[None, None, Some(Rights::Read), Some(Rights::Write)]) }
        }
        60..=64 => Request::Stat { name },
        65..=66 => Request::List { after: name },
        67..=68 => Request::Status,
        69..=79 => Request::Resize { name, len },
        80..=82 => Request::Alter { name, changes: Changes { copies: Some(dice.pick(copies)), ..Changes::default() } },
        83 if drains => Request::Drain { node: NodeId(dice.below(nodes) as u32), wish: DrainWish::Begin { to: BTreeSet::new() } },
        84 if rebalances => Request::Rebalance(RebalanceWish::Begin { with_local: true }),
        85..=86 => Request::Drain { node: NodeId(dice.below(nodes) as u32), wish: DrainWish::Stop },
        _ => Request::Remove { name },
    }
}

impl Cluster {
    /// A client does its next thing.
    pub(crate) fn on_work(&mut self, node: usize, life: u64, client: usize) -> Check {
        let is_here = self.hosts[node].process.as_ref().is_some_and(|process| process.life == life);
        if !is_here || (!self.is_rough && (client > 0 || self.ended_drains.contains(&node))) {
            return Ok(());
        }
        let after = self.dice.pick(&[1, 20, 300, 2_000]);
        self.at(after, Event::Work { node, life, client });
        self.access(node, client)?;
        let copies: &[u8] = if self.terms == Terms::Harsh { &[1] } else { &[1, 1, 2, 3] };
        let (nodes, drains) = (self.hosts.len() as u64, self.terms != Terms::Harsh);
        let moves = (drains, drains && self.followers.is_none());
        let what = match self.is_rough {
            true => request(&mut self.course.dice, nodes, copies, moves),
            // At rest nodes have what their regions ask for.
            false => Request::Drain { node: NodeId(node as u32), wish: DrainWish::Stop },
        };
        let process = self.hosts[node].process.as_mut().expect("just seen");
        if process.clients[client].waits.is_some() {
            return Ok(());
        }
        let (id, uid) = (process.clients[client].id, process.clients[client].uid);
        let user = User { uid, gid: uid };
        let request = process.member.ask(self.course.now_ms, user, id, what.clone());
        let until_ms = self.course.now_ms + ANSWER_MS + SLACK_MS;
        process.clients[client].waits = Some((request, what.clone(), until_ms));
        self.checks.on_asked(AskKey { incarnation: process.incarnation, request }, uid, &what, self.course.now_ms);
        self.count("requests");
        self.drain_node(node)
    }

    /// A client uses the region that it opened last, whatever became of it since.
    fn access(&mut self, node: usize, client: usize) -> Check {
        let view = self.hosts[node].process.as_ref().and_then(|process| process.clients[client].view.clone());
        let Some(view) = view else { return Ok(()) };
        for (extent, grant) in view.layout.extents().zip(&view.grants) {
            let holder = self.hosts.iter().filter(|host| !host.is_stopped).filter_map(|host| host.process.as_ref());
            let mut holder = holder.filter(|process| process.member.identity().is_some_and(|(id, _)| id == extent.node));
            let Some(holder) = holder.next() else { continue };
            let epoch = holder.lender.epoch;
            match holder.lender.opens(extent.slot, *grant) {
                Some(gid) => {
                    self.checks.on_access(*grant, view.gid, gid, epoch)?;
                    self.count("accesses");
                }
                None => self.count("accesses refused"),
            }
        }
        Ok(())
    }

    /// A client gets its answer.
    pub(crate) fn on_answered(&mut self, node: usize, request: u64, result: Result<Answer>) -> Check {
        if self.has(Defect::SwallowAnswers) && self.dice.chance(500) {
            return Ok(());
        }
        let process = self.hosts[node].process.as_mut().expect("its membership answered");
        if let Some((job, rank)) = process.reports.remove(&request) {
            self.on_reported(job, rank, result.is_ok());
            return Ok(());
        }
        match process.opens.remove(&request) {
            Some(Opener::Words(program)) => return self.on_opened(program, result),
            Some(Opener::Queues(program, id)) => return self.on_queue_opened(program, id, result),
            Some(Opener::Tenants(by)) => {
                let at = (node, process.life);
                return self.on_tenants_answered(at, by, result);
            }
            Some(Opener::Locks(client)) => {
                self.on_locks_opened(client, result);
                return Ok(());
            }
            Some(Opener::Entries(client, page)) => return self.on_data_opened(client, page, result),
            None => {}
        }
        let waits =
            |client: &&mut crate::cluster::process::Client| client.waits.as_ref().is_some_and(|(other, ..)| *other == request);
        let client = process.clients.iter_mut().find(waits).ok_or_else(|| format!("{} answers twice", name(node)))?;
        let (_, what, _) = client.waits.take().expect("just seen");
        match &result {
            Ok(Answer::Region(view)) => {
                check(self.checks.was_created(view.gid), || format!("'{}' is acknowledged without a record", view.name))?;
                check_view(&what, view)?;
                client.view = Some(view.clone());
                self.count("regions created, opened or resized");
            }
            Ok(_) => {
                if !self.is_rough && matches!(what, Request::Drain { .. }) {
                    self.ended_drains.insert(node);
                }
                self.count("other answers");
            }
            Err(error) => {
                let outcome = outcome(error);
                check_error(&what, error)?;
                self.count(outcome);
            }
        }
        Ok(())
    }

    /// No request is without an answer beyond its bound.
    pub(crate) fn judge_bounds(&self) -> Check {
        for (node, host) in self.hosts.iter().enumerate().filter(|(_, host)| !host.is_stopped) {
            let waits = host.process.iter().flat_map(|process| &process.clients).filter_map(|client| client.waits.as_ref());
            for (request, what, until_ms) in waits {
                check(self.now_ms <= *until_ms, || format!("{} has no answer to request {request}: {what:?}", name(node)))?;
            }
        }
        Ok(())
    }

    /// A process that was stopped can answer only when it goes on.
    pub(crate) fn extend_bounds(&mut self, node: usize) {
        let now_ms = self.now_ms;
        for client in self.hosts[node].process.iter_mut().flat_map(|process| &mut process.clients) {
            if let Some((_, _, until_ms)) = &mut client.waits {
                *until_ms = (*until_ms).max(now_ms + SLACK_MS);
            }
        }
    }
}

/// An answer must be to what was asked.
fn check_view(what: &Request, view: &RegionView) -> Check {
    let (name, len, rights) = match what {
        Request::Create { name, len, existing, .. } => {
            check(*existing != Existing::Refuse || view.made != Made::Found, || {
                format!("'{name}' was created by somebody else")
            })?;
            // An attached region may have grown between the opening and the answer's arrival, never shrunk.
            (name, *len, None)
        }
        Request::Resize { name, len } => (name, *len, None),
        Request::Open { which: Which::Name(name), rights } => (name, 0, *rights),
        _ => return Err(format!("a region answers {what:?}")),
    };
    check(view.name == *name && view.layout.len() >= len, || format!("{view:?} answers {what:?}"))?;
    check(rights.is_none_or(|rights| rights == view.rights), || format!("{view:?} answers {what:?}"))
}

/// Errors must be those that the request can meet.
fn check_error(what: &Request, error: &Error) -> Check {
    let fits = match error {
        Error::QuotaExceeded { used, asked, limit, .. } => *limit == QUOTA && used.saturating_add(*asked) > *limit,
        Error::PoolFull { asked, free, .. } => asked > free || matches!(what, Request::Create { .. } | Request::Resize { .. }),
        Error::Garbage { .. } => false,
        _ => true,
    };
    check(fits, || format!("{error:?} answers {what:?}"))
}

fn outcome(error: &Error) -> &'static str {
    match error {
        Error::UnknownRegion { .. } => "refused: unknown region",
        Error::NameTaken { .. } => "refused: name taken",
        Error::BadLength { .. } => "refused: bad length",
        Error::BadPlacement { .. } => "refused: bad placement",
        Error::NoPermission { .. } => "refused: no permission",
        Error::QuotaExceeded { .. } => "refused: quota",
        Error::PoolFull { .. } => "refused: pool full",
        Error::NodeLost { .. } => "refused: node lost",
        Error::RegionLost { .. } => "refused: region lost",
        Error::NoCoordinator { .. } => "given up: no coordinator",
        Error::Timeout { .. } => "given up: timeout",
        _ => "refused: other",
    }
}
