//! Plans against plain loops: parties that take their steps in any order, with room for one burst between any two.

use super::{Collective, PartyHosts, PartyPlan, Source};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// A part's content: which parties' parts were folded, in which order and grouping.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    /// A party's own part, by its number.
    Of(u32, u32),
    Fold(Vec<Content>),
}

struct Party {
    plan: PartyPlan,
    parts: Vec<Content>,
    /// Steps done, and of the next one sends and folds.
    at: (usize, usize, usize),
    taken: Vec<Content>,
}

/// Runs the plans of all parties; `choose` says who does its next send or fold. Returns the parts that each has.
fn run(collective: Collective, nodes: &[u64], begin: impl Fn(u32, u32) -> Content, choices: &[usize]) -> Vec<Vec<Content>> {
    let hosts = PartyHosts::new(nodes);
    let count = nodes.len() as u32;
    let mut parties: Vec<Party> = (0..count)
        .map(|me| {
            let plan = PartyPlan::new(collective, &hosts, me);
            let parts = (0..plan.parts).map(|part| begin(me, part)).collect();
            Party { plan, parts, at: (0, 0, 0), taken: Vec::new() }
        })
        .collect();
    let mut lanes: BTreeMap<(u32, u32), VecDeque<(u32, Content)>> = BTreeMap::new();
    let mut choices = choices.iter().copied().cycle();
    loop {
        let able: Vec<u32> = (0..count).filter(|party| may_go(&parties[*party as usize], *party, &lanes)).collect();
        if able.is_empty() {
            break;
        }
        let me = able[choices.next().unwrap() % able.len()];
        go(&mut parties[me as usize], me, collective, &mut lanes);
    }
    for (me, party) in parties.iter().enumerate() {
        assert_eq!(party.at.0, party.plan.steps.len(), "party {me} waits for ever in {collective:?} on {nodes:?}");
    }
    assert!(lanes.values().all(VecDeque::is_empty), "all that was sent was taken");
    parties.into_iter().map(|party| party.parts).collect()
}

fn may_go(party: &Party, me: u32, lanes: &BTreeMap<(u32, u32), VecDeque<(u32, Content)>>) -> bool {
    let Some(step) = party.plan.steps.get(party.at.0) else { return false };
    if let Some((to, _)) = step.sends.get(party.at.1) {
        return lanes.get(&(me, *to)).is_none_or(|lane| lane.len() < party.plan.burst as usize);
    }
    match step.folds.get(party.at.2).map(|fold| fold.sources[party.taken.len()]) {
        Some(Source::From(from)) => lanes.get(&(from, me)).is_some_and(|lane| !lane.is_empty()),
        _ => true,
    }
}

fn go(party: &mut Party, me: u32, collective: Collective, lanes: &mut BTreeMap<(u32, u32), VecDeque<(u32, Content)>>) {
    let step = party.plan.steps[party.at.0].clone();
    if let Some((to, part)) = step.sends.get(party.at.1) {
        let content = if collective == Collective::AllToAll { Content::Of(me, *to) } else { party.parts[*part as usize].clone() };
        // All-to-all names a part after the other side: the sender's part is the receiver's number, and the reverse.
        let name = if collective == Collective::AllToAll { me } else { *part };
        lanes.entry((me, *to)).or_default().push_back((name, content));
        party.at.1 += 1;
    } else if let Some(fold) = step.folds.get(party.at.2) {
        let content = match fold.sources[party.taken.len()] {
            Source::Own => party.parts[fold.part as usize].clone(),
            Source::From(from) => {
                let (part, content) = lanes.get_mut(&(from, me)).unwrap().pop_front().unwrap();
                assert_eq!(part, fold.part, "{me} takes what {from} sent, in order");
                content
            }
        };
        party.taken.push(content);
        if party.taken.len() == fold.sources.len() {
            let mut taken = std::mem::take(&mut party.taken);
            party.parts[fold.part as usize] = if taken.len() == 1 { taken.remove(0) } else { Content::Fold(taken) };
            party.at.2 += 1;
        }
    }
    if party.at.1 == step.sends.len() && party.at.2 == step.folds.len() {
        party.at = (party.at.0 + 1, 0, 0);
    }
}

/// The parties' parts, folded within each host and then over hosts.
fn folded(nodes: &[u64], part: u32) -> Content {
    let hosts = PartyHosts::new(nodes);
    let one = |mut contents: Vec<Content>| if contents.len() == 1 { contents.remove(0) } else { Content::Fold(contents) };
    let host = |members: &Vec<u32>| one(members.iter().map(|member| Content::Of(*member, part)).collect());
    one(hosts.members.iter().map(host).collect())
}

fn layouts() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(0u64..5, 1..9)
}

fn own_part(me: u32, part: u32) -> Content {
    if me == part { Content::Of(me, part) } else { Content::Nothing }
}

proptest! {
    #[test]
    fn all_have_the_fold_of_all_in_one_order(nodes in layouts(), is_short: bool, choices: [usize; 29]) {
        let parts = run(Collective::AllReduce { is_short }, &nodes, Content::Of, &choices);
        for own in &parts {
            for (part, content) in own.iter().enumerate() {
                prop_assert_eq!(content, &folded(&nodes, part as u32));
            }
        }
    }

    #[test]
    fn a_root_has_what_all_would_have(nodes in layouts(), root: usize, choices: [usize; 29]) {
        let root = root % nodes.len();
        let parts = run(Collective::Reduce { root: root as u32 }, &nodes, Content::Of, &choices);
        prop_assert_eq!(&parts[root][0], &folded(&nodes, 0));
    }

    #[test]
    fn all_have_what_the_root_had(nodes in layouts(), root: usize, choices: [usize; 29]) {
        let root = (root % nodes.len()) as u32;
        let parts = run(Collective::Broadcast { root }, &nodes, Content::Of, &choices);
        prop_assert!(parts.iter().all(|own| own[0] == Content::Of(root, 0)));
    }

    #[test]
    fn blocks_come_to_their_places(nodes in layouts(), root: usize, choices: [usize; 29]) {
        let (count, root) = (nodes.len() as u32, (root % nodes.len()) as u32);
        let gathered = run(Collective::Gather { root }, &nodes, own_part, &choices);
        let all: Vec<Content> = (0..count).map(|party| Content::Of(party, party)).collect();
        prop_assert_eq!(&gathered[root as usize], &all);
        prop_assert!(run(Collective::AllGather, &nodes, own_part, &choices).iter().all(|own| *own == all));
        let blocks = |me, part| if me == root { Content::Of(me, part) } else { Content::Nothing };
        let scattered = run(Collective::Scatter { root }, &nodes, blocks, &choices);
        for me in 0..count {
            prop_assert_eq!(&scattered[me as usize][me as usize], &Content::Of(root, me));
        }
        let exchanged = run(Collective::AllToAll, &nodes, |me, part| Content::Of(part, me), &choices);
        for me in 0..count {
            for from in (0..count).filter(|from| *from != me) {
                prop_assert_eq!(&exchanged[me as usize][from as usize], &Content::Of(from, me));
            }
        }
    }

    #[test]
    fn between_hosts_goes_no_more_than_is_said(nodes in layouts(), root: usize) {
        let (hosts, root) = (PartyHosts::new(&nodes), (root % nodes.len()) as u32);
        let between = |collective| {
            let host = |party: u32| hosts.host_of[party as usize];
            let mut pairs: BTreeMap<(usize, usize), u32> = BTreeMap::new();
            for me in 0..nodes.len() as u32 {
                for step in PartyPlan::new(collective, &hosts, me).steps {
                    let mut told: Vec<u32> = step.sends.iter().map(|(to, _)| *to).filter(|to| host(*to) != host(me)).collect();
                    // Parts that stand together are one message.
                    told.dedup();
                    told.iter().for_each(|to| *pairs.entry((host(me), host(*to))).or_default() += 1);
                }
            }
            pairs
        };
        let others = hosts.host_count() - 1;
        prop_assert_eq!(between(Collective::Broadcast { root }).values().sum::<u32>() as usize, others);
        prop_assert_eq!(between(Collective::Reduce { root }).values().sum::<u32>() as usize, others);
        for collective in [Collective::AllReduce { is_short: true }, Collective::AllGather] {
            prop_assert!(between(collective).values().all(|messages| *messages == 1));
        }
        let long = between(Collective::AllReduce { is_short: false });
        prop_assert!(long.values().all(|messages| *messages <= 2));
    }
}
