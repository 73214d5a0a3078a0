//! The plans of collective operations.
//!
//! - Parts from one party to another come in the order in which the other takes them.
//! - An operation sends at most the bytes of [`PartyPlan::burst`] parts from one party to another. A party with room for them never
//!   delays a sender that others wait for.

use super::{Collective, PartyHosts};

/// Source of a fold's operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The party's own part, as it is before the fold.
    Own,
    /// The part that comes next from that party.
    From(u32),
}

/// A part becomes the fold of these, from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The part.
    pub part: u32,
    /// At least one. A single one replaces the part.
    pub sources: Vec<Source>,
}

/// Sends, then folds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanStep {
    /// Parts and their receivers. Parts for one party stand together.
    pub sends: Vec<(u32, u32)>,
    /// Folds of received parts.
    pub folds: Vec<Fold>,
}

/// A party's steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyPlan {
    /// Into how many parts bytes are divided.
    pub parts: u32,
    /// Most parts that go from one party to another, by the plans of all.
    pub burst: u32,
    /// Steps in order.
    pub steps: Vec<PlanStep>,
}

impl PartyPlan {
    /// The plan of party `me`. Parties and the root are below the number of parties.
    pub fn new(collective: Collective, hosts: &PartyHosts, me: u32) -> PartyPlan {
        // Parties are counted by a `u32`.
        let count = hosts.party_count() as u32;
        let steps = match collective {
            Collective::Broadcast { root } => broadcast(hosts, root, me),
            Collective::Reduce { root } => reduce(hosts, root, me),
            Collective::AllReduce { .. } => all_reduce(hosts, parts_of(collective, hosts), me),
            Collective::Gather { root } => gather(count, root, me),
            Collective::Scatter { root } => scatter(count, root, me),
            Collective::AllGather => all_gather(hosts, me),
            Collective::AllToAll => all_to_all(count, me),
        };
        let is_empty = |step: &PlanStep| step.sends.is_empty() && step.folds.is_empty();
        let steps = steps.into_iter().filter(|step| !is_empty(step)).collect();
        let parts = parts_of(collective, hosts);
        let burst = if matches!(collective, Collective::AllReduce { .. } | Collective::AllGather) { parts } else { 1 };
        PartyPlan { parts, burst, steps }
    }
}

fn parts_of(collective: Collective, hosts: &PartyHosts) -> u32 {
    match collective {
        Collective::AllReduce { is_short: false } if hosts.host_count() > 2 => hosts.host_count() as u32,
        Collective::Broadcast { .. } | Collective::Reduce { .. } | Collective::AllReduce { .. } => 1,
        _ => hosts.party_count() as u32,
    }
}

fn send(to: &[u32], part: u32) -> PlanStep {
    PlanStep { sends: to.iter().map(|to| (*to, part)).collect(), ..PlanStep::default() }
}

fn take(from: u32, part: u32) -> PlanStep {
    PlanStep { folds: vec![Fold { part, sources: vec![Source::From(from)] }], ..PlanStep::default() }
}

/// The part of each of `who` in turn; this party's own where it is among them.
fn sources(who: impl Iterator<Item = u32>, me: u32) -> Vec<Source> {
    who.map(|party| if party == me { Source::Own } else { Source::From(party) }).collect()
}

/// The party that speaks for a host where `first` speaks for its own.
fn speaker(hosts: &PartyHosts, host: usize, first: u32) -> u32 {
    if host == hosts.host_of[first as usize] { first } else { hosts.members[host][0] }
}

fn others_of(hosts: &PartyHosts, me: u32) -> Vec<u32> {
    let members = &hosts.members[hosts.host_of[me as usize]];
    members.iter().copied().filter(|member| *member != me).collect()
}

/// PartyHosts are counted from the root's on. Host `v` has it from the one whose number lacks `v`'s highest bit.
fn broadcast(hosts: &PartyHosts, root: u32, me: u32) -> Vec<PlanStep> {
    let (count, own) = (hosts.host_count(), hosts.host_of[me as usize]);
    let first = hosts.host_of[root as usize];
    let speaker_at = |place: usize| speaker(hosts, (place + first) % count, root);
    let speaks = speaker(hosts, own, root);
    if speaks != me {
        return vec![take(speaks, 0)];
    }
    let place = (own + count - first) % count;
    let highest = if place == 0 { 0 } else { 1 << place.ilog2() };
    let mut steps = Vec::new();
    if place > 0 {
        steps.push(take(speaker_at(place - highest), 0));
    }
    let further = (0..usize::BITS).map(|bit| 1 << bit).skip_while(|bit| *bit <= place).take_while(|bit| place + bit < count);
    let to: Vec<u32> = further.map(|bit| speaker_at(place + bit)).chain(others_of(hosts, me)).collect();
    steps.push(send(&to, 0));
    steps
}

fn reduce(hosts: &PartyHosts, root: u32, me: u32) -> Vec<PlanStep> {
    let own = hosts.host_of[me as usize];
    let speaks = speaker(hosts, own, root);
    if speaks != me {
        return vec![send(&[speaks], 0)];
    }
    let mut steps = vec![fold_host(hosts, 1, me)];
    if me != root {
        steps.push(send(&[root], 0));
    } else if hosts.host_count() > 1 {
        let speakers = (0..hosts.host_count()).map(|host| speaker(hosts, host, root));
        steps.push(PlanStep { folds: vec![Fold { part: 0, sources: sources(speakers, me) }], ..PlanStep::default() });
    }
    steps
}

/// All parts of this host's parties.
fn fold_host(hosts: &PartyHosts, parts: u32, me: u32) -> PlanStep {
    let members = &hosts.members[hosts.host_of[me as usize]];
    if members.len() == 1 {
        return PlanStep::default();
    }
    let fold = |part| Fold { part, sources: sources(members.iter().copied(), me) };
    PlanStep { folds: (0..parts).map(fold).collect(), ..PlanStep::default() }
}

fn all_reduce(hosts: &PartyHosts, parts: u32, me: u32) -> Vec<PlanStep> {
    let own = hosts.host_of[me as usize];
    let first = hosts.members[own][0];
    if first != me {
        let up = PlanStep { sends: (0..parts).map(|part| (first, part)).collect(), ..PlanStep::default() };
        return [up].into_iter().chain((0..parts).map(|part| take(first, part))).collect();
    }
    let firsts: Vec<u32> = hosts.members.iter().map(|members| members[0]).collect();
    let others: Vec<u32> = firsts.iter().copied().filter(|party| *party != me).collect();
    let mut steps = vec![fold_host(hosts, parts, me)];
    if !others.is_empty() {
        // Each host folds a part; the only one is folded by all of them.
        let (part, whole) = if parts == 1 { (0, true) } else { (own as u32, false) };
        let part_of = |host: usize| if whole { 0 } else { host as u32 };
        let sends = (0..firsts.len()).filter(|host| *host != own).map(|host| (firsts[host], part_of(host))).collect();
        let folds = vec![Fold { part, sources: sources(firsts.iter().copied(), me) }];
        steps.push(PlanStep { sends, folds });
        if !whole {
            let take = |host: usize| Fold { part: host as u32, sources: vec![Source::From(firsts[host])] };
            let folds = (0..firsts.len()).filter(|host| *host != own).map(take).collect();
            steps.push(PlanStep { folds, ..send(&others, part) });
        }
    }
    let down = |member: u32| (0..parts).map(move |part| (member, part));
    steps.push(PlanStep { sends: others_of(hosts, me).into_iter().flat_map(down).collect(), ..PlanStep::default() });
    steps
}

fn gather(count: u32, root: u32, me: u32) -> Vec<PlanStep> {
    if me != root {
        return vec![send(&[root], me)];
    }
    (0..count).filter(|party| *party != me).map(|party| take(party, party)).collect()
}

fn scatter(count: u32, root: u32, me: u32) -> Vec<PlanStep> {
    if me != root {
        return vec![take(root, me)];
    }
    let others = (0..count).filter(|party| *party != me);
    vec![PlanStep { sends: others.map(|party| (party, party)).collect(), ..PlanStep::default() }]
}

fn all_gather(hosts: &PartyHosts, me: u32) -> Vec<PlanStep> {
    let own = hosts.host_of[me as usize];
    let first = hosts.members[own][0];
    let replace = |from: u32, part: u32| Fold { part, sources: vec![Source::From(from)] };
    let all = || hosts.members.iter().flatten().copied();
    if first != me {
        let folds = all().filter(|part| *part != me).map(|part| replace(first, part)).collect();
        return vec![send(&[first], me), PlanStep { folds, ..PlanStep::default() }];
    }
    let up =
        PlanStep { folds: others_of(hosts, me).into_iter().map(|part| replace(part, part)).collect(), ..PlanStep::default() };
    let mut across = PlanStep::default();
    for (host, members) in hosts.members.iter().enumerate().filter(|(host, _)| *host != own) {
        across.sends.extend(hosts.members[own].iter().map(|part| (members[0], *part)));
        across.folds.extend(hosts.members[host].iter().map(|part| replace(members[0], *part)));
    }
    let down = |member: u32| all().filter(move |part| *part != member).map(move |part| (member, part));
    let sends = others_of(hosts, me).into_iter().flat_map(down).collect();
    vec![up, across, PlanStep { sends, ..PlanStep::default() }]
}

/// Each begins with the party after it, so that no party is sent to by all others at once.
fn all_to_all(count: u32, me: u32) -> Vec<PlanStep> {
    let others = || (1..count).map(|distance| (me + distance) % count);
    let sends = others().map(|party| (party, party)).collect();
    let folds = others().map(|party| Fold { part: party, sources: vec![Source::From(party)] }).collect();
    vec![PlanStep { sends, folds }]
}
